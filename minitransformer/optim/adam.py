"""The Adam optimiser, over all parameters at once."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from minitransformer.arrays import Array, asarray, cache_slices, check_floats, even_parts, to_numpy, uses_kernels, xp
from minitransformer.autograd import Tensor
from minitransformer.kernels.adam import AdamStep
from minitransformer.optim.gradients import Gradients, Own, Piece
from minitransformer.stand_ins import replaceable

__all__ = ["Adam"]


class Adam:
    """Adam: steps scaled by running means of the gradient and of its square.

    For each parameter θ with gradient g, at step t:

        m = β1 m + (1 - β1) g            the mean gradient
        v = β2 v + (1 - β2) g²           the mean square
        θ = θ - lr · ((m / (1 - β1^t)) / (sqrt(v / (1 - β2^t)) + ε) + λ θ)

    The weight decay λ pulls parameters with two or more axes towards zero; biases and gains are exempt.

    All parameters are stored in one array, and a parameter's ``data`` becomes a view of it. So a step is arithmetic on
    long arrays, one cache-sized slice at a time, into which the gradients are collected.

    Parameters
    ----------
    parameters : iterable of Tensor
        Each with ``requires_grad``, all of one type.
    betas : pair of float
        β1 and β2, at least 0 and below 1.
    eps : float
        ε, above 0.
    weight_decay : float, default 0
        λ, 0 or more; the paper has none.
    part : pair of int, default (0, 1)
        ``(i, n)``: this is the i-th of n optimisers in n processes that share the work. Each has the running means of
        its part of the parameters only, and updates only that part.

    Attributes
    ----------
    values : array
        All parameters in one array.
    parts : list of slice
        The values that each of the n optimisers updates.
    own : slice
        The values that this optimiser updates; ``mean`` and ``mean_square`` belong to them.
    slices : list of (slice, list of Piece)
        Its own part, in slices that fit a processor's cache.
    pieces_of_parts : list of lists of Piece
        For each part, the parameters that lie in it.

    A copy (by ``copy.deepcopy`` or ``pickle``) has copies of the parameters. Copy the model in the same call, as in
    ``copy.deepcopy((model, optimiser))``: only then do they belong to the copied model.

    Raises
    ------
    TypeError
        If the parameters are not float32 or float64.
    ValueError
        If there is no parameter, one occurs twice, was computed by an operation or has no gradient, the types differ,
        or a number is out of range.

    Notes
    -----
    Source: Attention Is All You Need, section 5.3; Adam (Kingma and Ba, 2015), algorithm 1. Decoupled weight decay,
    outside the gradient: Decoupled Weight Decay Regularization (Loshchilov and Hutter, 2019), algorithm 2, with the
    learning rate as its schedule multiplier times α, as in PyTorch's AdamW.

    Examples
    --------
    >>> x = mt.Tensor([3.0], requires_grad=True)
    >>> adam = mt.optim.Adam([x])
    >>> for step in range(100):
    ...     adam.zero_grad()
    ...     (x * x).sum().backward()
    ...     adam.step(learning_rate=0.1)
    >>> bool(abs(x.data[0]) < 0.1)
    True
    """

    def __init__(
        self,
        parameters: Iterable[Tensor],
        betas: tuple[float, float] = (0.9, 0.98),
        eps: float = 1e-9,
        weight_decay: float = 0.0,
        part: tuple[int, int] = (0, 1),
    ) -> None:
        self.parameters = list(parameters)
        if not self.parameters:
            raise ValueError("Adam: there are no parameters")
        if len({id(p) for p in self.parameters}) < len(self.parameters):
            raise ValueError("Adam: a parameter occurs twice")
        if nodes := [p._node for p in self.parameters if p._node]:
            raise ValueError(
                f"Adam: a parameter was computed by {nodes[0].name}, so it collects no gradient; give the leaf "
                "that it was computed from, or make one of its values: Tensor(value.data, requires_grad=True)"
            )
        if not all(p.requires_grad for p in self.parameters):
            raise ValueError("Adam: every parameter must have requires_grad=True")
        if len({p.dtype for p in self.parameters}) > 1:
            raise ValueError(
                f"Adam: the parameters have different types: {sorted({str(p.dtype) for p in self.parameters})}"
            )
        check_floats("Adam", parameters=self.parameters[0])
        if not (len(betas) == 2 and all(0 <= beta < 1 for beta in betas) and eps > 0):
            raise ValueError(f"Adam: expected two betas, 0 <= beta < 1, and eps > 0, found betas {betas} and eps {eps}")
        dtype = self.parameters[0].dtype
        if not dtype.type(eps * (1 - betas[1]) ** 0.5):  # as the first step uses it
            raise ValueError(f"Adam: eps {eps} is 0 in {dtype}: choose a larger one, 1e-9 for example")
        if not (weight_decay >= 0 and math.isfinite(weight_decay)):
            raise ValueError(f"Adam: expected a weight decay of 0 or more, found {weight_decay}")
        self.betas, self.eps, self.weight_decay = betas, eps, weight_decay
        self.step_count = 0
        self.parts = even_parts(sum(p.size for p in self.parameters), part[1])
        self.own = self.parts[part[0]]
        self.mean, self.mean_square = (xp.zeros(self.own.stop - self.own.start, dtype=dtype) for _ in range(2))
        self._lay_out()

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the views of ``_lay_out``: a copy needs a buffer of its own."""
        names = ("parameters", "betas", "eps", "weight_decay", "step_count", "parts", "own", "mean", "mean_square")
        return {name: getattr(self, name) for name in names}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        vars(self).update(state)
        self._lay_out()

    def _lay_out(self) -> None:
        """Put all parameters into one array, ``values``, and make every ``data`` a view of it."""
        self._ends = ends = list(accumulate((p.size for p in self.parameters), initial=0))
        self.values = xp.zeros(ends[-1], dtype=self.mean.dtype)
        self._views = [
            self.values[first:last].reshape(p.shape)
            for p, (first, last) in zip(self.parameters, pairwise(ends), strict=True)
        ]
        first = self.own.start
        slices = [slice(first + one.start, first + one.stop) for one in cache_slices(self.mean.size)]
        self.slices = [(part, _pieces(part, ends)) for part in slices]
        self.pieces_of_parts = [_pieces(part, ends) for part in self.parts]
        self._decays = [len(p.shape) > 1 for p in self.parameters]
        self._fused = AdamStep(ends, self._decays) if uses_kernels() else None
        self._gather()

    def _gather(self) -> None:
        """Make every ``data`` a view of the buffer again, keeping values assigned in the meantime."""
        for p, value in zip(self.parameters, self._views, strict=True):
            if p.shape != value.shape or (p.grad is not None and p.grad.shape != value.shape):
                raise ValueError(
                    f"Adam: a parameter had shape {value.shape}, and now has data of shape {p.shape} "
                    f"and a gradient of shape {None if p.grad is None else p.grad.shape}"
                )
            if p.data is not value:
                value[...] = asarray(p.data)
                p.data = value

    def zero_grad(self) -> None:
        """Remove every gradient."""
        self._gather()
        for p in self.parameters:
            p.grad = None

    @replaceable
    def step(
        self, learning_rate: float, gradients: Gradients | None = None, run: Callable[..., Iterable[Any]] = map
    ) -> None:
        """Update every parameter, or this optimiser's part of them.

        Parameters
        ----------
        learning_rate : float
            The size of the step, lr.
        gradients : Gradients, optional
            The gradients of several shares, which are summed; by default the ``grad`` of the parameters.
        run : callable
            Called as ``run(function, slices)``; like ``map``, but it may work on several slices at the same time.

        Raises
        ------
        ValueError
            If the learning rate is below 0 or not finite; then nothing has changed.
        """
        if not (learning_rate >= 0 and math.isfinite(learning_rate)):
            raise ValueError(f"Adam: expected a finite learning rate of 0 or more, found {learning_rate}")
        self._gather()
        self.step_count += 1
        (beta1, beta2), t = self.betas, self.step_count
        # θ -= lr · m̂ / (sqrt(v̂) + ε), with numerator and denominator multiplied by sqrt(1 - β2^t)
        correction = (1 - beta2**t) ** 0.5
        rate = learning_rate * correction / (1 - beta1**t)
        eps = self.eps * correction
        decay = learning_rate * self.weight_decay
        gradients = Gradients([Own(self.parameters)]) if gradients is None else gradients
        arrays = gradients.single(self._ends) if self._fused and len(self.parts) == 1 else None
        buffers = self.values, self.mean, self.mean_square
        if self._fused and arrays is not None and self._fused(arrays, *buffers, self.betas, rate, eps, decay):
            return

        def move(place: tuple[slice, list[Piece]]) -> None:
            part, pieces = place
            here = slice(part.start - self.own.start, part.stop - self.own.start)
            theta, m, v = self.values[part], self.mean[here], self.mean_square[here]
            g = xp.empty_like(m)
            gradients.write_sum(part, pieces, g)
            # m += (1 - β1) (g - m)
            work = g - m
            work *= 1 - beta1
            m += work
            # v = β2 v + (1 - β2) g²
            xp.multiply(g, g, out=work)
            work *= 1 - beta2
            v *= beta2
            v += work
            xp.sqrt(v, out=work)
            work += eps
            xp.divide(m, work, out=work)
            work *= rate
            for i, inside, _ in pieces if decay else ():
                if self._decays[i]:
                    work[inside] += decay * theta[inside]
            theta -= work

        for _ in run(move, self.slices):
            pass

    def state_dict(self) -> dict[str, Array]:
        """Return a copy of the state, as NumPy arrays; of the running means, its own part."""
        return {
            "mean": np.array(to_numpy(self.mean)),
            "mean_square": np.array(to_numpy(self.mean_square)),
            "step_count": np.array(self.step_count, dtype=np.int64),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load a state from ``state_dict``; the parts of several optimisers must be joined.

        Raises
        ------
        ValueError
            If the state belongs to other parameters, or is impossible.
        """
        whole = self.values.shape
        for name, shape, least in (("mean", whole, -np.inf), ("mean_square", whole, 0), ("step_count", (), -np.inf)):
            if name not in state or np.shape(state[name]) != shape:
                found = np.shape(state[name]) if name in state else "nothing"
                raise ValueError(f"Adam: {name} must have shape {shape}, found {found}")
            if not (np.isfinite(state[name]) & np.greater_equal(state[name], least)).all():
                raise ValueError(f"Adam: {name} must be finite and at least {least}")
        self.mean[...] = asarray(state["mean"][self.own])
        self.mean_square[...] = asarray(state["mean_square"][self.own])
        self.step_count = int(state["step_count"])


def _pieces(part: slice, ends: list[int]) -> list[Piece]:
    """Return the parts of parameters in a slice; parameter i extends from ends[i] to ends[i + 1]."""
    pieces = []
    i = bisect_right(ends, part.start) - 1
    while i + 1 < len(ends) and ends[i] < part.stop:
        first, last = max(ends[i], part.start), min(ends[i + 1], part.stop)
        if first < last:
            here = slice(first - part.start, last - part.start)
            pieces.append(Piece(i, here, slice(first - ends[i], last - ends[i])))
        i += 1
    return pieces
