"""The Adam optimiser."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from minitransformer.arrays import Array, asarray, check_floats, to_numpy, xp
from minitransformer.autograd import Tensor
from minitransformer.optim.buffer import Buffer, Gradient


def update(
    theta: Array,
    g: Array,
    m: Array,
    v: Array,
    t: int,
    learning_rate: float,
    betas: tuple[float, float],
    eps: float,
    decay: float = 0.0,
    decayed: Iterable[slice] = (),
) -> None:
    """Move parameters once, in place.

        m = β1 m + (1 - β1) g            the mean gradient
        v = β2 v + (1 - β2) g²           the mean square
        θ = θ - lr · ((m / (1 - β1^t)) / (sqrt(v / (1 - β2^t)) + ε) + λ θ)

    Parameters
    ----------
    theta, g, m, v : arrays, shape (n,)
        Parameters θ, their gradient, and its running means; θ, m and v are written to.
    t : int
        The number of the step, from 1.
    learning_rate : float
        The size of the step, lr.
    betas : pair of float
        β1 and β2.
    eps : float
        ε.
    decay : float
        The weight decay λ.
    decayed : iterable of slice
        The entries that it is for.
    """
    beta1, beta2 = betas
    # m / (1 - β1^t) / (sqrt(v / (1 - β2^t)) + ε), with numerator and denominator multiplied by sqrt(1 - β2^t)
    correction = (1 - beta2**t) ** 0.5
    rate = learning_rate * correction / (1 - beta1**t)
    # m += (1 - β1) (g - m)
    work = g - m
    work *= 1 - beta1
    m += work
    # v = β2 v + (1 - β2) g²
    xp.multiply(g, g, out=work)
    work *= 1 - beta2
    v *= beta2
    v += work
    # θ -= rate · m / (sqrt(v) + ε) + lr λ θ
    xp.sqrt(v, out=work)
    work += eps * correction
    xp.divide(m, work, out=work)
    work *= rate
    for here in decayed:
        work[here] += learning_rate * decay * theta[here]
    theta -= work


def update_all(optimiser: Adam, learning_rate: float, gradient: Gradient) -> None:
    """Move all parameters that an optimiser updates, one cache-sized slice at a time; see ``Adam.step``."""
    buffer, first, decay = optimiser.buffer, optimiser.buffer.own.start, optimiser.weight_decay
    matrices = {i for i, p in enumerate(optimiser.parameters) if len(p.shape) > 1} if decay else ()
    numbers = optimiser.step_count, learning_rate, optimiser.betas, optimiser.eps, decay
    for part in buffer.slices:
        own = slice(part.start - first, part.stop - first)
        m, v = optimiser.mean[own], optimiser.mean_square[own]
        g = xp.empty_like(m)
        gradient.write(part, g)
        decayed = [here for i, here, _ in buffer.pieces(part) if i in matrices] if decay else ()
        update(buffer.values[part], g, m, v, *numbers, decayed)


class Adam:
    """Adam: steps scaled by running means of the gradient and of its square, as `update` computes them.

    The weight decay λ pulls parameters with two or more axes towards zero; biases and gains are exempt.

    All parameters are stored in one array, and a parameter's ``data`` becomes a view of it (`Buffer`).

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
    values : array, optional
        The array for all parameters, if these processes have it in common.

    Attributes
    ----------
    buffer : Buffer
        All parameters in one array, and the part of it that this optimiser updates.
    mean, mean_square : arrays
        The running means m and v of that part.

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
        values: Array | None = None,
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
        self.buffer = Buffer(self.parameters, part, values)
        self.mean, self.mean_square = (xp.zeros_like(self.values[self.buffer.own]) for _ in range(2))

    @property
    def values(self) -> Array:
        """All parameters in one array."""
        return self.buffer.values

    def zero_grad(self) -> None:
        """Remove every gradient."""
        self.buffer.gather()
        for p in self.parameters:
            p.grad = None

    def step(self, learning_rate: float, gradient: Gradient | None = None) -> None:
        """Update every parameter, or this optimiser's part of them.

        Parameters
        ----------
        learning_rate : float
            The size of the step, lr.
        gradient : Gradient, optional
            The gradient, such as the sum over several shares; by default the ``grad`` of the parameters.

        Raises
        ------
        ValueError
            If the learning rate is below 0 or not finite; then nothing has changed.
        """
        if not (learning_rate >= 0 and math.isfinite(learning_rate)):
            raise ValueError(f"Adam: expected a finite learning rate of 0 or more, found {learning_rate}")
        self.buffer.gather()
        self.step_count += 1
        update_all(self, learning_rate, gradient or Gradient(self.buffer))

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
        self.mean[...] = asarray(state["mean"][self.buffer.own])
        self.mean_square[...] = asarray(state["mean_square"][self.buffer.own])
        self.step_count = int(state["step_count"])
