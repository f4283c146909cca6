"""The effect of edits to first order: the change of each edited array times its gradient.

    L(x + Δ) = L(x) + Σ_i Δ_i ∂L/∂x_i + O(Δ²)

The array x is the one that an edit writes to: a parameter, a step's output, the weights of an attention, the outputs of
its heads. A temperature divides scores, x = s and Δ = s / T - s. A mask does not change the scores by a small amount;
for masks x = softmax(s), and Δ is the exact change of the weights.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from minitransformer.arrays import Array, asarray, to_numpy
from minitransformer.ops import softmax
from minitransformer.tracing.edits import Change, Edit, Layout, changes_of
from minitransformer.tracing.values import Step, Trace

ATTENTION = "scaled_dot_product_attention"
INSIDE = tuple(f"{ATTENTION}.{name}" for name in ("scores", "weights", "d_weights"))
"""The values inside each attention that a prediction needs; it needs the outputs of its heads, ``concat``, too."""


class Unpredictable(ValueError):
    """The values that a prediction needs are not part of the trace."""


def first_order(trace: Trace, edits: Sequence[Edit]) -> float:
    """Return the objective that the gradients of a trace predict for edits: its value plus gradients times changes.

    Parameters
    ----------
    trace : Trace
        Of the model without the edits.
    edits : sequence of Edit
        What is changed.

    Returns
    -------
    float

    Raises
    ------
    TypeError, ValueError
        If one is not an edit, or does not fit the model.
    Unpredictable
        If an edit acts inside an attention whose passes are replaced by other functions: their values are not traced.
    """
    for edit in edits:
        _check_lines(trace, getattr(edit, "step", None))
    outputs = {step.key: step.output.shape for step in trace.steps}
    parameters = {name: parameter.value.shape for name, parameter in trace.parameters.items()}
    weights = {key: trace[_inside(key, "weights")].shape for key in outputs if _inside(key, "weights") in trace}
    changes = changes_of(edits, Layout(outputs, parameters, weights, trace.logits.dtype))
    total = trace.value
    for site, by_key in changes.items():
        for key, of_key in by_key.items():
            before, after, gradient = _at(trace, site, key, of_key)
            if gradient is not None:
                total += float(((after - before) * gradient).sum(dtype=np.float64))
    return total


def _check_lines(trace: Trace, key: object) -> None:
    """Raise an error for an attention whose passes are not traced."""
    for step in trace.steps:
        if step.key == key and step.name.endswith("_attention"):
            values = {f"{line.function}.{line.name}" for line in (*step.forward, *step.backward)}
            if not values.issuperset((*INSIDE, f"{step.name}.concat", f"{step.name}.d_concat")):
                raise Unpredictable(
                    f"first_order: the passes of {key} are overridden, and their values "
                    "are not traced; edit its output, or leave them out, to see a prediction"
                )


def _inside(step: str, name: str) -> str:
    """Return the key of a value inside the attention of a step."""
    return f"{step}:{ATTENTION}.{name}"


def _at(trace: Trace, site: str, key: str, changes: list[Change]) -> tuple[Array, Array, Array | None]:
    """Return an array before and after changes, and its gradient."""
    if site in ("parameter", "output"):
        x, d_x = trace[key], trace.arrays.get(f"d:{key}")
        return x, _changed(x, changes), d_x
    weights, d_weights, scores = (trace[_inside(key, name)] for name in ("weights", "d_weights", "scores"))
    if site == "weights":
        return weights, _changed(weights, changes), d_weights
    if site == "heads":
        concat, d_concat = (trace[f"{key}:{trace.step(key).name}.{name}"] for name in ("concat", "d_concat"))
        heads, d_heads = (_by_head(x, weights.shape[1]) for x in (concat, d_concat))
        return heads, _changed(heads, changes), d_heads
    if site == "scores":
        (d_scores,) = softmax.written.backward((asarray(weights), -1), asarray(d_weights))
        return scores, _changed(scores, changes), to_numpy(d_scores)
    after, _ = softmax.written.forward(asarray(scores), mask=asarray(_changed(_mask(trace.step(key), scores), changes)))
    return weights, to_numpy(after), d_weights


def _mask(step: Step, scores: Array) -> Array:
    """Return the mask; the weight of a visible key may still be 0, if its score is far below the largest."""
    seen = np.ones(scores.shape, dtype=bool)
    for given in step.inputs:
        if given.name == "mask":
            seen &= to_numpy(given.array)
    return np.tril(seen) if step.options.get("causal") else seen


def _by_head(x: Array, n_heads: int) -> Array:
    """Show the heads as an axis: (B, Tq, H * Dv) -> (B, H, Tq, Dv)."""
    return x.reshape(*x.shape[:-1], n_heads, x.shape[-1] // n_heads).swapaxes(1, 2)


def _changed(x: Array, changes: list[Change]) -> Array:
    """Return a changed array of the host."""
    changed = asarray(x)
    for change in changes:
        changed = change.forward(changed)
    return to_numpy(changed)
