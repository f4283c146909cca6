"""A trained model that answers requests: each is a method that takes and returns JSON objects.

Arrays travel as base64 of little-endian float32. Traces are computed in float64, so that gradients can be compared with
finite differences. Translations are those of ``minitransformer translate``.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from importlib.resources import files
from typing import Any

import numpy as np

from minitransformer import tracing
from minitransformer.apps.explorer.body import (
    MOST_EDITS,
    Body,
    RequestError,
    describe_objective,
    read_edits,
    read_objective,
)
from minitransformer.apps.explorer.describe import describe_places, describe_tokens, describe_trace, refusing, winner
from minitransformer.apps.explorer.growth import growth
from minitransformer.apps.explorer.limits import Recent
from minitransformer.apps.explorer.models import Models
from minitransformer.apps.explorer.numbers import finite, window
from minitransformer.apps.explorer.reading import MOST_WRITTEN, reading_of
from minitransformer.data import END, START, TokenizerError
from minitransformer.nn import Model, Transformer
from minitransformer.runs import RunFolder, TrainedRun

REQUESTS = ("model", "translate", "trace", "tensor", "difference", "sources", "formulas", "training")
"""The requests: names of methods of `Session`."""

MOST_VOCABULARY = 100_000
MOST_TRACES = 12
MOST_TRACE_BYTES = 2**30


@dataclass
class _Traced:
    """A trace that is kept, with what it was computed from."""

    trace: Any
    model: Model
    source_ids: list[int] | None
    target_ids: list[int]
    """With the start token."""
    objective: Any
    edits: tuple[Any, ...]
    answer: dict[str, Any]


class Session:
    """A trained model in memory, and the latest traces.

    Parameters
    ----------
    run : TrainedRun
        The run.
    folder : RunFolder
        Its folder, for checkpoints and examples.
    """

    def __init__(self, run: TrainedRun, folder: RunFolder) -> None:
        self.run = run
        self.models = Models(run, folder)
        self.reading = reading_of(run, folder)
        self.rules = self.reading.rules
        self._traces: Recent[str, _Traced] = Recent(MOST_TRACES, MOST_TRACE_BYTES)
        self._growth: Recent[tuple[Any, ...], dict[str, Any]] = Recent(64, 2**28)
        self._constants = {name: getattr(self, f"_build_{name}")() for name in ("model", "sources", "formulas")}

    def answer(self, name: str, body: object) -> dict[str, Any]:
        """Answer a request.

        Parameters
        ----------
        name : str
            One of `REQUESTS`.
        body : object
            Its JSON object.

        Raises
        ------
        RequestError
            If it cannot be answered.
        """
        if name not in REQUESTS:
            raise RequestError(f"there is no request {name!r}; there are {', '.join(REQUESTS)}")
        with np.errstate(all="ignore"):  # edits may make values overflow: the answer shows it
            try:
                result: dict[str, Any] = getattr(self, name)(body)
            except TokenizerError as error:
                raise RequestError(f"{name}: {error}") from error
        return result

    def check_text(self, text: str) -> None:
        """Raise a RequestError unless a text can be translated and traced."""
        self.reading.read(text)

    def model(self, body: object = ()) -> dict[str, Any]:
        """Return a description of the model: sizes, parts, vocabularies, checkpoints, examples."""
        return self._constant("model", body)

    def sources(self, body: object = ()) -> dict[str, Any]:
        """Return the source lines of each operation's passes and each rule."""
        return self._constant("sources", body)

    def formulas(self, body: object = ()) -> dict[str, Any]:
        """Return the formulas of each operation as MathML."""
        return self._constant("formulas", body)

    def translate(self, body: object) -> dict[str, Any]:
        """Translate a text token by token, with alternatives; with a beam, return the tree of hypotheses as well."""
        fields = Body("translate", body, ("text", "beam", "alpha", "prefix", "edits", "checkpoint"))
        beam = fields.integer("beam", 1, 1, self.reading.widest_beam)
        alpha = fields.number("alpha", self.rules.alpha, 0, 100)
        prefix = fields.integers("prefix", (), MOST_WRITTEN)
        edits = read_edits("translate", fields.objects("edits", MOST_EDITS))
        ids, notes = self.reading.read(fields.text("text"))
        source_ids, prefix = self.reading.source(ids), prefix or self.reading.beginning(ids)
        model = self.models.at(fields.integer("checkpoint", None))
        with refusing("translate"):
            tree = None
            most = self.reading.most_written(ids)
            if beam > 1 and not prefix and isinstance(model, Transformer):
                tree = tracing.beam_tree(model, [source_ids], beam, alpha, most, edits, rules=self.rules)
                prefix = winner(tree)
            choices = tracing.write(model, _batch(source_ids), prefix, edits, max_length=most, rules=self.rules)
        target = self.run.target
        tokens = [choice.token for choice in choices]
        return {
            "source": describe_tokens(self.run.source, source_ids or ()),
            "tokens": [
                {
                    "id": one.token,
                    "text": target.labels[one.token],
                    "probability": one.probability,
                    "forced": one.forced and tree is None,
                    "alternatives": [
                        {"id": token, "text": target.labels[token], "probability": probability}
                        for token, probability in one.alternatives
                    ],
                }
                for one in choices
            ],
            "text": target.decode(tokens),
            "finished": source_ids is None or (bool(tokens) and tokens[-1] == END),
            "tree": tree and {
                "nodes": [{**asdict(node), "text": target.labels[node.token]} for node in tree.nodes],
                "winner": tree.winner,
            },
            "notes": notes + self.reading.cut(ids, len(tokens)),
        }  # fmt: skip

    def trace(self, body: object) -> dict[str, Any]:
        """Run the model forward and backward on a sentence; return every step, with statistics of each value."""
        fields = Body("trace", body, ("text", "target", "objective", "edits", "checkpoint"))
        objective = read_objective("trace", fields.values.get("objective"))
        edits = read_edits("trace", fields.objects("edits", MOST_EDITS))
        ids, notes = self.reading.read(fields.text("text"))
        checkpoint = fields.integer("checkpoint", None)
        model = self.models.at(checkpoint)
        target_ids = self._read_target(fields.integers("target", None), model, ids)
        source_ids = self.reading.source(ids)
        model = self.models.at(checkpoint, double=True)
        with refusing("trace"):
            before = self._trace(checkpoint, model, source_ids, target_ids, objective, ())
            if not edits:
                return {**before.answer, "notes": notes}
            after = self._trace(checkpoint, model, source_ids, target_ids, objective, edits)
            prediction = {"before": finite(before.trace.value), "after": finite(after.trace.value), "first_order": None}
            try:
                prediction["first_order"] = finite(tracing.first_order(before.trace, edits))
            except tracing.Unpredictable as error:
                notes = [*notes, f"{error}"]
        return {**after.answer, "prediction": prediction, "notes": notes}

    def tensor(self, body: object) -> dict[str, Any]:
        """Return a window of a value or gradient of a trace."""
        fields = Body("tensor", body, ("trace", "key", "at", "rows", "columns", "stride"))
        array = self.array(fields.text("trace"), fields.text("key"))
        rows, columns = fields.integers("rows", None, 2), fields.integers("columns", None, 2)
        stride = fields.integers("stride", (1, 1), 2)
        if any(pair is not None and len(pair) != 2 for pair in (rows, columns, stride)) or 0 in stride:
            raise RequestError("tensor: expected rows, columns and stride as two numbers each, the stride above 0")
        with refusing("tensor"):
            return window(array, fields.integers("at", (), 32), rows, columns, stride)

    def difference(self, body: object) -> dict[str, Any]:
        """Return the gradient of one entry, and central differences with several step sizes."""
        fields = Body("difference", body, ("trace", "key", "index"))
        traced = self._find_trace(fields.text("trace"))
        with refusing("difference"):
            found = tracing.difference(
                traced.model,
                _batch(traced.source_ids),
                [traced.target_ids],
                traced.objective,
                traced.edits,
                fields.text("key"),
                fields.integers("index", most=32),
            )
        return {
            **{name: finite(getattr(found, name)) for name in ("value", "gradient", "estimate", "relative_error")},
            "curve": [[finite(number) for number in point] for point in found.curve],
        }

    def training(self, body: object) -> dict[str, Any]:
        """Return norms of weights and gradients, and attention maps, at each checkpoint that was kept."""
        fields = Body("training", body, ("text", "key"))
        ids, _ = self.reading.read(fields.text("text"))
        source_ids, target_ids = self.reading.source(ids), self._read_target(None, self.run.model, ids)

        def write(model: Model, most: int) -> list[int]:
            return self.reading.write(model, ids, most)

        return growth(self.models, source_ids, target_ids, write, fields.text("key", ""), self._growth)

    def array(self, trace: str, key: str) -> Any:
        """Return the array of a key in a trace that is kept.

        Raises
        ------
        RequestError
            If there is no such trace or key.
        """
        try:
            return self._find_trace(trace).trace[key]
        except LookupError as error:
            raise RequestError(f"the trace has no value or gradient {key!r}; `trace` lists the keys") from error

    def _constant(self, name: str, body: object) -> dict[str, Any]:
        Body(name, body or {}, ())
        found: dict[str, Any] = self._constants[name]
        return found

    def _build_model(self) -> dict[str, Any]:
        run = self.run
        return {
            "task": run.task.name,
            "title": run.task.title,
            "options": run.options.model.flat(),
            "weights": run.weights,
            "search": {"alpha": self.rules.alpha, "penalty": self.rules.penalty},
            "parameters": sum(parameter.data.size for parameter in run.model.parameters()),
            "places": list(describe_places(run.model)),
            "source_vocabulary": list(run.source.labels[:MOST_VOCABULARY]),
            "target_vocabulary": list(run.target.labels[:MOST_VOCABULARY]),
            "checkpoints": self.models.steps(),
            "examples": self.reading.examples(),
            "limits": {"tokens": self.reading.most_tokens, "beam": self.reading.widest_beam},
        }

    def _build_sources(self) -> dict[str, Any]:
        return {
            name: {"file": source.file, "first": source.first, "lines": list(source.lines)}
            for name, source in tracing.sources().items()
        }

    def _build_formulas(self) -> dict[str, Any]:
        text = files("minitransformer.apps.explorer").joinpath("formulas.json").read_text(encoding="utf-8")
        found: dict[str, Any] = json.loads(text)
        return found

    def _read_target(self, given: tuple[int, ...] | None, model: Model, ids: list[int]) -> list[int]:
        """Return the ids of the target with the start token: those given, or the model's own."""
        if given is None:
            return [START, *self.reading.target(model, ids)]
        most = self.reading.most_written(ids)
        if not 1 <= len(given) <= most:
            raise RequestError(f"trace: the target has {len(given)} tokens, expected 1 to {most}")
        size = len(self.run.target)
        if wrong := [token for token in given if not 0 < token < size]:
            raise RequestError(f"trace: the target has the token {wrong[0]}, expected ids from 1 to {size - 1}")
        return [START, *given]

    def _trace(
        self,
        checkpoint: int | None,
        model: Model,
        source_ids: list[int] | None,
        target_ids: list[int],
        objective: Any,
        edits: tuple[Any, ...],
    ) -> _Traced:
        what = repr((checkpoint, source_ids, target_ids, objective, edits))
        key = hashlib.sha256(what.encode()).hexdigest()[:16]
        if (found := self._traces.get(key)) is not None:
            return found
        trace = tracing.trace(model, _batch(source_ids), [target_ids], objective, edits)
        answer = {
            "id": key,
            "source": describe_tokens(self.run.source, source_ids or ()),
            "target_in": describe_tokens(self.run.target, target_ids[:-1]),
            "target_out": describe_tokens(self.run.target, target_ids[1:]),
            "objective": {**describe_objective(objective), "value": finite(trace.value)},
            "prediction": None,
            **describe_trace(trace),
        }
        traced = _Traced(trace, model, source_ids, target_ids, objective, edits, answer)
        return self._traces.put(key, traced, sum(array.nbytes for array in trace.arrays.values()))

    def _find_trace(self, key: str) -> _Traced:
        if (found := self._traces.get(key)) is None:
            raise RequestError(f"the trace {key!r} is no longer kept; ask for it again with `trace`")
        return found


def _batch(ids: list[int] | None) -> list[list[int]] | None:
    """Return a batch of one sentence; None for no source."""
    return None if ids is None else [ids]
