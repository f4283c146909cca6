"""The Adam optimiser, over all parameters at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from minitransformer.arrays import Array, asarray, cache_slices, to_numpy, xp
from minitransformer.autograd import Tensor

__all__ = ["Adam"]


class Adam:
    """Adam: steps scaled by running means of the gradient and of its square.

    For each parameter θ with gradient g, at step t:

        m = β1 m + (1 - β1) g            the mean gradient
        v = β2 v + (1 - β2) g²           the mean square
        θ = θ - lr · (m / (1 - β1^t)) / (sqrt(v / (1 - β2^t)) + ε)

    All parameters are laid side by side in one array, and all gradients in another: a parameter's ``data`` and ``grad``
    become views of them. So a step is arithmetic on long arrays, and setting the gradients to zero is one call.

    Parameters
    ----------
    parameters : iterable of Tensor
        Each with ``requires_grad``, all of one type.
    betas : pair of float
        β1 and β2, from 0 up to but without 1.
    eps : float
        ε, above 0.

    Raises
    ------
    ValueError
        If there is no parameter, one occurs twice or has no gradient, the types differ, or a number is out of range.

    Notes
    -----
    Source: Attention Is All You Need, section 5.3; Adam (Kingma and Ba, 2015), algorithm 1.
    """

    def __init__(
        self, parameters: Iterable[Tensor], betas: tuple[float, float] = (0.9, 0.98), eps: float = 1e-9
    ) -> None:
        self.parameters = list(parameters)
        if not self.parameters:
            raise ValueError("Adam: there are no parameters")
        if len({id(p) for p in self.parameters}) < len(self.parameters):
            raise ValueError("Adam: a parameter occurs twice")
        if not all(p.requires_grad for p in self.parameters):
            raise ValueError("Adam: every parameter must have requires_grad=True")
        if len({p.dtype for p in self.parameters}) > 1:
            raise ValueError(
                f"Adam: the parameters have different types: {sorted({str(p.dtype) for p in self.parameters})}"
            )
        if not (0 <= betas[0] < 1 and 0 <= betas[1] < 1 and eps > 0):
            raise ValueError(f"Adam: expected 0 <= beta < 1 and eps > 0, found betas {betas} and eps {eps}")
        self.betas, self.eps = betas, eps
        self.step_count = 0
        dtype = self.parameters[0].dtype
        size = sum(p.size for p in self.parameters)
        self.values, self.gradients, self.mean, self.mean_square = (xp.zeros(size, dtype=dtype) for _ in range(4))
        self._views: list[tuple[Array, Array]] = []
        first = 0
        for p in self.parameters:
            place = slice(first, first + p.size)
            self._views.append((self.values[place].reshape(p.shape), self.gradients[place].reshape(p.shape)))
            first += p.size
        self._gather()

    def _gather(self) -> None:
        """Make every ``data`` and ``grad`` a view of the buffers, keeping the values that somebody has put there."""
        for p, (value, gradient) in zip(self.parameters, self._views, strict=True):
            if p.shape != value.shape or (p.grad is not None and p.grad.shape != value.shape):
                raise ValueError(
                    f"Adam: a parameter had shape {value.shape}, and now has data of shape {p.shape} "
                    f"and a gradient of shape {None if p.grad is None else p.grad.shape}"
                )
            if p.data is not value:
                value[...] = p.data
                p.data = value
            if p.grad is not gradient:
                gradient[...] = 0 if p.grad is None else p.grad
                p.grad = gradient

    def zero_grad(self) -> None:
        """Set every gradient to zero."""
        self._gather()
        self.gradients.fill(0)

    def step(self, learning_rate: float) -> None:
        """Move every parameter against its gradient.

        Parameters
        ----------
        learning_rate : float
            The size of the step, lr.
        """
        self._gather()
        self.step_count += 1
        (beta1, beta2), t = self.betas, self.step_count
        # θ -= lr · m̂ / (sqrt(v̂) + ε), with numerator and denominator multiplied by sqrt(1 - β2^t)
        correction = (1 - beta2**t) ** 0.5
        rate = learning_rate * correction / (1 - beta1**t)
        eps = self.eps * correction
        work = xp.empty(0, dtype=self.values.dtype)
        for part in cache_slices(self.values.size):
            g, m, v = self.gradients[part], self.mean[part], self.mean_square[part]
            work = work if work.size == g.size else xp.empty_like(g)
            # m += (1 - β1) (g - m)
            xp.subtract(g, m, out=work)
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
            self.values[part] -= work

    def state_dict(self) -> dict[str, Array]:
        """Return a copy of what the next step depends on, as NumPy arrays."""
        return {
            "mean": np.array(to_numpy(self.mean)),
            "mean_square": np.array(to_numpy(self.mean_square)),
            "step_count": np.array(self.step_count, dtype=np.int64),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state that ``state_dict`` returned.

        Raises
        ------
        ValueError
            If the state belongs to other parameters.
        """
        for name, shape in (("mean", self.mean.shape), ("mean_square", self.mean.shape), ("step_count", ())):
            if name not in state or np.shape(state[name]) != shape:
                found = np.shape(state[name]) if name in state else "nothing"
                raise ValueError(f"Adam: {name} must have shape {shape}, found {found}")
        self.mean[...] = asarray(state["mean"])
        self.mean_square[...] = asarray(state["mean_square"])
        self.step_count = int(state["step_count"])
