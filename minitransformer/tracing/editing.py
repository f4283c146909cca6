"""Run a model with edits: apply their changes where the model computes.

Edits inside an attention replace its passes, and those of the softmax that it calls::

    forward    scores, mask -> changed -> softmax -> weights -> changed -> sum -> heads -> changed
    backward   d_scores <- / T <- softmax's, of the weights before the change <- overwritten ones 0 <- d_weights
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from minitransformer.arrays import Array, xp
from minitransformer.autograd import no_grad
from minitransformer.nn import Model
from minitransformer.ops import scaled_dot_product_attention as attention
from minitransformer.ops import softmax
from minitransformer.override import override_in_this_thread
from minitransformer.tracing.edits import Edit, Layout, changes_of
from minitransformer.tracing.watching import Backward, Call, Watcher, run, watching

See = Callable[[Call], "tuple[Array, Backward] | None"]


class Editor:
    """Applies edits while a model runs, forward and backward.

    The batch may be that of the layout repeated: then each repetition is edited alike.

    Parameters
    ----------
    model : Transformer or LanguageModel
        A ``twin`` of the model: parameters that edits write to get new values.
    edits : sequence of Edit
        What is changed.
    layout : Layout or None
        The layout of the model; needed if there are edits.

    A forward pass runs inside ``with editor.watching():``. Its backward pass needs no such block around it.

    Raises
    ------
    TypeError
        If one is not an edit.
    ValueError
        If one does not fit the model.
    """

    def __init__(self, model: Model, edits: Sequence[Edit], layout: Layout | None) -> None:
        self._model, self._layout = model, layout or Layout({}, {}, {}, None)
        self._changes = changes_of(edits, self._layout)
        self._attentions = {key for site in ("mask", "scores", "weights", "heads") for key in self._changes[site]}
        """The steps of the attentions that are changed inside."""
        self._waiting: set[str] = set()
        """Those of them whose forward pass has run, but whose output has not been seen yet."""
        parameters = dict(model.named_parameters())
        for name in self._changes["parameter"]:
            parameters[name].data = self._forward("parameter", name, parameters[name]._data)

    @contextmanager
    def watching(self, see: See | None = None, **options: Any) -> Iterator[Watcher]:
        """Observe the steps of the model that runs inside the ``with`` block, with the edits applied.

        Arguments as for `Watcher`; ``see(call)`` is called with the edited value.
        """

        def see_edited(call: Call) -> tuple[Array, Backward] | None:
            edited = self._edit(call)
            if edited is not None:
                call.value, call.backward = edited
            return (None if see is None else see(call)) or edited

        changes_steps = bool(self._attentions or self._changes["output"])
        with (
            watching(self._model, see=see_edited if changes_steps else see, **options) as watcher,
            self._editing_forward(watcher) if self._attentions else nullcontext(),
        ):
            yield watcher

    def _forward(self, site: str, key: str, x: Array) -> Array:
        """Return a changed array."""
        for change in self._changes[site].get(key, ()):
            x = self._in_parts(change.forward, key, x)
        return x

    def _backward(self, site: str, key: str, d: Array) -> Array:
        """Return the gradient of the array before its changes."""
        for change in reversed(self._changes[site].get(key, ())):
            d = self._in_parts(change.backward, key, d)
        return d

    def _in_parts(self, function: Callable[[Array], Array], key: str, x: Array) -> Array:
        """Apply a function to each batch of a longer one in which the layout's batch is repeated."""
        shape = self._layout.weights.get(key) or self._layout.outputs.get(key) or x.shape
        if x.shape[:1] == shape[:1]:
            return function(x)
        return xp.concatenate([function(part) for part in xp.split(x, len(x) // shape[0])])

    def _edit(self, call: Call) -> tuple[Array, Backward] | None:
        """Return a step's changed output and its backward pass; None if nothing is changed in it."""
        key, unchanged = call.key, call.backward
        inside = key in self._attentions
        if inside and key not in self._waiting:
            raise RuntimeError(
                f"{key}: it is edited inside, but no scaled_dot_product_attention and softmax ran in it: "
                "its forward pass is overridden; edit its output, or run the model without it"
            )
        self._waiting.discard(key)
        if not inside and key not in self._changes["output"]:
            return None

        def backward(d_output: Array) -> Sequence[Array | None]:
            d_output = self._backward("output", key, d_output)
            with self._editing_backward(key) if inside else nullcontext():
                return unchanged(d_output)

        return self._forward("output", key, call.value), backward

    def _editing_forward(self, watcher: Watcher) -> AbstractContextManager[None]:
        """Replace the forward pass of attention by one that saves the weights before their change too."""
        attend, normalise = attention.forward, softmax.forward

        def forward(
            q: Array,
            k: Array,
            v: Array,
            mask: Array | None = None,
            causal: bool = False,
            block_size: int | None = None,
            out: Array | None = None,
            bias: Array | None = None,
        ) -> tuple[Array, Any]:
            key = watcher.running()
            if key not in self._attentions:
                return attend(q, k, v, mask, causal, block_size, out, bias)
            before: Any = None

            def softmax_forward(
                x: Array, axis: int = -1, mask: Array | None = None, out: Array | None = None
            ) -> tuple[Array, Any]:
                nonlocal before
                if key in self._changes["mask"]:
                    seen = xp.ones(x.shape, dtype=bool) if mask is None else xp.broadcast_to(mask, x.shape)
                    mask = self._forward("mask", key, seen)
                before, saved = normalise(self._forward("scores", key, x), axis, mask=mask, out=out)
                self._waiting.add(key)
                weights = self._forward("weights", key, before)
                return weights, (weights, *saved[1:])

            with override_in_this_thread(softmax, forward=softmax_forward):
                y, saved = attend(q, k, v, mask, causal, None, out, bias)  # in one block: all weights at once
            if key in self._changes["heads"]:
                y[...] = self._forward("heads", key, y)
            return y, (saved, before)

        return override_in_this_thread(attention, forward=forward)

    def _editing_backward(self, key: str) -> AbstractContextManager[None]:
        """Replace the backward pass of an attention that is changed inside."""
        attend, normalise = attention.backward, softmax.backward

        def backward(saved: Any, d_y: Array, out: tuple[Array | None, ...] = (None, None, None)) -> Any:
            saved, before = saved

            def softmax_backward(saved: Any, d_y: Array) -> tuple[Array]:
                (d_x,) = normalise((before, *saved[1:]), self._backward("weights", key, d_y))
                return (self._backward("scores", key, d_x),)

            with override_in_this_thread(softmax, backward=softmax_backward):
                return attend(saved, self._backward("heads", key, d_y), out)

        return override_in_this_thread(attention, backward=backward)


def layout_of(model: Model, source_ids: Any, target_ids: Any, objective: Any = None) -> Layout:
    """Run a model once, without a gradient, and return its layout; arguments as for `run`."""
    outputs: dict[str, tuple[int, ...]] = {}
    weights: dict[str, tuple[int, ...]] = {}
    attend = attention.forward
    last: list[tuple[int, ...]] = []

    def see(call: Call) -> None:
        outputs[call.key] = call.value.shape
        if last:
            weights[call.key] = last.pop()

    def forward(q: Array, k: Array, *rest: Any, **options: Any) -> Any:
        last[:] = [(*q.shape[:-1], k.shape[-2])]
        return attend(q, k, *rest, **options)

    with no_grad(), override_in_this_thread(attention, forward=forward):
        logits = run(model, source_ids, target_ids, objective, see=see).logits
    parameters = {name: parameter.shape for name, parameter in model.named_parameters()}
    return Layout(outputs, parameters, weights, logits.dtype)
