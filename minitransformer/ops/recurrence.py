"""Recurrence: each position is computed from its input and from the position before it.

For positions t = 1 ... T of each sentence, with inputs x_t (D) and states h_t (D_h):

    a_t = x_t W + h_{t-1} U + b                      (1)
    h_t = tanh(a_t)                                  (2)

h_0 is given, or zero. The output is h_1 ... h_T. Position t needs position t - 1, so there are T sequential steps;
attention has one (Table 1 of the paper).

Gradient (backpropagation through time). h_t reaches the loss in two ways: as output t, with gradient d_y_t, and through
a_{t+1}, where it is multiplied by U. So d_h_t needs d_a_{t+1}, and the pass runs from the last position to the first:

    d_h_t = d_y_t + d_a_{t+1} Uᵀ                     (7)        with d_a_{T+1} = 0
    d_a_t = d_h_t (1 - h_t²)                         (8)        as tanh' = 1 - tanh²

The parameters are the same at all positions, so their gradients are sums over t and over the batch:

    d_W   = Σ_t x_tᵀ d_a_t                           (9)
    d_U   = Σ_t h_{t-1}ᵀ d_a_t                       (10)
    d_b   = Σ_t d_a_t                                (11)
    d_x_t = d_a_t Wᵀ                                 (12)
    d_h_0 = d_a_1 Uᵀ                                 (13)

From position t back to s < t the gradient is multiplied t - s times by Uᵀ and by slopes 1 - h² of at most 1. If the
largest singular value of U is below 1, it vanishes exponentially with the distance; above 1, it can explode.

The algebra in full: docs/derivations/recurrence.md.

Source: Attention Is All You Need, section 4 and Table 1 (the row "Recurrent"); Finding Structure in Time (Elman, 1990).
"""

from __future__ import annotations

from typing import Any

from minitransformer.arrays import Array, Shapes, tanh_slope, xp
from minitransformer.autograd import Operation, Tensor, stack
from minitransformer.ops.linear import affine, rows

check = Shapes("recurrence", "x (B, T, D), w (D, D_h), u (D_h, D_h), b (D_h,), h0 (B, D_h)")


def forward(x: Array, w: Array, u: Array, b: Array, h0: Array | None = None) -> tuple[Array, Any]:
    """Return the states ``h_t = tanh(x_t @ w + h_{t-1} @ u + b)``.

    Parameters
    ----------
    x : array, shape (B, T, D)
        The inputs.
    w : array, shape (D, D_h)
        The matrix from an input to a state.
    u : array, shape (D_h, D_h)
        The matrix from a state to the next.
    b : array, shape (D_h,)
        The bias.
    h0 : array, shape (B, D_h), optional
        The states before the first position; zero by default.

    Returns
    -------
    h : array, shape (B, T, D_h)
        The states at all positions.
    saved : tuple
        What ``backward`` needs.

    Raises
    ------
    TypeError
        If an array is not floating-point, or the types differ.
    ValueError
        If the shapes do not match.

    Examples
    --------
    >>> x = np.ones((1, 3, 1))  # (B, T, D)
    >>> w, u, b = np.array([[1.0]]), np.array([[0.5]]), np.zeros(1)
    >>> mt.ops.recurrence(x, w, u, b).numpy().ravel().round(3)
    array([0.762, 0.881, 0.894])
    """
    check(x, w, u, b, h0)
    from_x = affine(x, w, b)  # x_t W + b: one product for all positions
    h = from_x  # each state overwrites its x_t W + b, which is read only once
    previous = h0
    for t in range(x.shape[1]):
        a_t = from_x[:, t]
        if previous is not None:
            a_t += previous @ u  # (1)
        previous = xp.tanh(a_t, out=h[:, t])  # (2)
    return h, (x, w, u, h0, h)


def backward(saved: Any, d_y: Array) -> tuple[Array, Array, Array, Array, Array | None]:
    """Return the gradients of x, w, u, b and h0."""
    x, w, u, h0, h = saved
    slope = tanh_slope(h)  # 1 - h²
    # (2) h_t = tanh(a_t), (1) a_{t+1} = ... + h_t U: (7) and (8), term by term
    d_a = d_y * slope
    for t in reversed(range(x.shape[1] - 1)):
        d_a[:, t] += (d_a[:, t + 1] @ u.T) * slope[:, t]
    # (1) a_t = x_t W + h_{t-1} U + b
    d_rows = rows(d_a)
    d_x = (d_rows @ w.T).reshape(x.shape)  # (12)
    d_w = rows(x).T @ d_rows  # (9)
    d_u = rows(h[:, :-1]).T @ rows(d_a[:, 1:])  # (10), t = 2 ... T; h_0 follows
    d_b = d_rows.sum(axis=0)  # (11)
    if h0 is None:
        return d_x, d_w, d_u, d_b, None
    if x.shape[1] == 0:
        return d_x, d_w, d_u, d_b, xp.zeros_like(h0)
    # (1) a_1 = x_1 W + h_0 U + b
    d_u += h0.T @ d_a[:, 0]
    d_h0 = d_a[:, 0] @ u.T  # (13)
    return d_x, d_w, d_u, d_b, d_h0


def reference(x: Tensor, w: Tensor, u: Tensor, b: Tensor, h0: Tensor | None = None) -> Tensor:
    """Return the same function in elementary operations."""
    check(x, w, u, b, h0)
    a = x @ w + b
    states: list[Any] = []
    state = h0
    for t in range(x.shape[1]):
        state = (a[:, t] if state is None else a[:, t] + state @ u).tanh()
        states.append(state)
    return stack(states, axis=1) if states else a


recurrence = Operation(forward, backward, reference=reference)
