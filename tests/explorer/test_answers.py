"""Whole answers of the server to each request that the page makes, against values that the explorer has no part in.

These come from the run's files, from NumPy, and from `minitransformer.tracing`, whose own tests are elsewhere. The
rows are in ``test_answers.toml``: a request and its JSON object. What refers to a trace has the trace's own request.
"""

import base64
import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from toml_cases import cases_from_toml

import minitransformer as mt
from minitransformer import tracing
from minitransformer.apps.explorer import Explorer, Session
from minitransformer.apps.explorer.body import read_edits, read_objective
from minitransformer.arrays import to_numpy
from minitransformer.data import END, START, UNKNOWN
from minitransformer.runs import load, read_checkpoint, with_start
from minitransformer.tasks import build
from minitransformer.training import Trainer, continue_from, create_run

PLAIN = (int, float, str, bool)
STEPS = {"steps": 2, "warmup_steps": 1, "evaluate_every": 1, "save_every": 1, "keep": 3, "workers": 1}
PACKAGE = Path(mt.__file__).parent


def statistics(array):
    x = np.asarray(array, dtype=np.float64)
    x = x[np.isfinite(x)]
    parts = {"mean": x.mean(), "spread": x.std(), "least": x.min(), "most": x.max(), "norm": np.sqrt((x * x).sum())}
    return {name: float(part) for name, part in parts.items()}


def lines_of(lines):
    names = ("name", "key", "function", "depth")
    return [
        {"line": one.number, "shape": [*one.array.shape], "stat": statistics(one.array)}
        | {name: getattr(one, name) for name in names}
        for one in lines
    ]


def code(where):
    if where is None:
        return None
    path, number = where
    text = Path(path).read_text(encoding="utf-8").splitlines()[number - 1].strip()
    return {"file": Path(path).relative_to(PACKAGE).as_posix(), "line": number, "text": text}


class Reference:
    """The answers about a run; a method for each request."""

    def __init__(self, folder):
        self.folder, self.run = folder, load(folder)
        self.alone = not hasattr(self.run.model, "encoder")
        self.learned = self.run.model.target_embedding.positions
        self.rules = self.run.options.search

    def at(self, checkpoint=None):
        """Return the model in float64, with the weights of a file of the run."""
        model = load(self.folder).model
        if checkpoint is not None:
            [file, *_] = self.folder.path.glob(f"*/step-{checkpoint:08}.safetensors")
            model.load_state_dict(with_start(self.run.options, read_checkpoint(file).model))
        return tracing.in_double(model)

    def read(self, text):
        """Return source, what the target begins with, and the most tokens that it may have."""
        ids = self.run.target.encode(text) if self.alone else [*self.run.source.encode(text), END]
        limits = [len(ids) + 1, *([16] if self.alone else []), *([] if self.learned is None else [len(self.learned)])]
        return None if self.alone else [ids], ids if self.alone else [], min(limits)

    def write(self, model, source, begun, most, edits=()):
        """Return the best token at each place, and of each the token, its probability and the best five."""
        tokens, found, never = [], [], [0, START, *([END, UNKNOWN] if self.alone else [])]
        while len(tokens) < most and END not in tokens:
            if edits:
                logits = tracing.trace(model, source, [[START, *tokens, END]], edits=edits).logits[0, -1].copy()
            else:
                logits = to_numpy(tracing.predict(model, source, np.array([[START, *tokens]])).data)[0, -1].copy()
            if self.alone:
                logits[never] = -np.inf
            p = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
            best = [int(token) for token in np.argsort(-p, kind="stable") if token not in never][:5]
            tokens.append(begun[len(tokens)] if len(tokens) < len(begun) else best[0])
            found.append((tokens[-1], float(p[tokens[-1]]), [(token, float(p[token])) for token in best]))
        return tokens, found

    def model(self, body):
        run, path = self.run, self.folder.path
        options = json.loads((path / "configuration.json").read_text())
        parts = dict(tracing.modules(run.model))
        inside = {place: [one for one in parts if f"{place}.".startswith(f"{one}." if one else "")] for place in parts}
        text = (path / ("held_out.txt" if self.alone else "held_out.tsv")).read_text(encoding="utf-8")
        lines = [line for line in text.split("\n")[1:] if len(line) >= 8][:12]
        return {
            "task": options["task"],
            "title": "writing text" if self.alone else "numbers in words, English to German",
            "options": {name: options[name] for name in run.options.model.flat()},
            "weights": run.weights,
            "search": {"alpha": 0.6, "penalty": "gnmt"},
            "parameters": sum(array.size for array in run.model.state_dict().values()),
            "places": [
                {"place": one, "kind": type(parts[one]).__name__}
                | {"parent": max((other for other in inside[one] if other != one), key=len, default=None)}
                for one in parts
            ],
            "source_vocabulary": [*run.source.labels],
            "target_vocabulary": [*run.target.labels],
            "checkpoints": [0, 1, 2],
            "examples": lines if self.alone else [line.split("\t")[0] for line in text.splitlines()],
            "limits": {"tokens": 16 if self.alone else 128 if self.learned is None else len(self.learned)}
            | {"beam": 1 if self.alone else 16},
        }

    def sources(self, body):
        answer = {}
        for name, one in tracing.sources().items():
            lines = (PACKAGE / one.file).read_text(encoding="utf-8").splitlines()[one.first - 1 :][: len(one.lines)]
            answer[name] = {"file": one.file, "first": one.first, "lines": lines}
        return answer

    def formulas(self, body):
        return json.loads((PACKAGE / "apps/explorer/formulas.json").read_text(encoding="utf-8"))

    def translate(self, body):
        source, begun, most = self.read(body["text"])
        target, given = self.run.target, body.get("prefix", begun)
        model, edits, tree = self.at(body.get("checkpoint")), read_edits("", body.get("edits", [])), None
        if body.get("beam", 1) > 1 and not given:
            alpha = body.get("alpha", 0.6)
            grown = tracing.beam_tree(model, source, body["beam"], alpha, most, edits, rules=self.rules)
            nodes = [vars(node) | {"text": target.labels[node.token]} for node in grown.nodes]
            tree = {"nodes": nodes, "winner": grown.winner}
            given = grown.tokens(grown.winner) + [END] * (grown.nodes[grown.winner].token == END)
        tokens, found = self.write(model, source, given, most, edits)

        def named(token, p):
            return {"id": token, "text": target.labels[token], "probability": p}

        return {
            "source": self.named(self.run.source, source[0] if source else []),
            "tokens": [
                named(token, p)
                | {"forced": tree is None and place < len(given), "alternatives": [named(*one) for one in best]}
                for place, (token, p, best) in enumerate(found)
            ],
            "text": target.decode(tokens),
            "finished": self.alone or tokens[-1] == END,
            "tree": tree,
            "notes": [],
        }

    def named(self, tokeniser, ids):
        return [{"id": token, "text": tokeniser.labels[token]} for token in ids]

    def traced(self, body, edits=True):
        """Return the model, source, target, objective and edits that a trace is asked for with."""
        source, begun, most = self.read(body["text"])
        model = self.at(body.get("checkpoint"))
        target = body.get("target") or self.write(model, source, begun, most)[0]
        return (
            *(model, source, [[START, *target]], read_objective("", body.get("objective"))),
            read_edits("", body.get("edits", [])) if edits else (),
        )

    def trace(self, body):
        asked = self.traced(body)
        trace, before = tracing.trace(*asked), tracing.trace(*self.traced(body, edits=False))
        [target], prediction = asked[2], None
        if body.get("edits"):
            first_order = tracing.first_order(before, asked[4])
            prediction = {"before": before.value, "after": trace.value, "first_order": first_order}
        return {
            "source": self.named(self.run.source, asked[1][0] if asked[1] else []),
            "target_in": self.named(self.run.target, target[:-1]),
            "target_out": self.named(self.run.target, target[1:]),
            "objective": body.get("objective", {"kind": "loss"}) | {"value": trace.value},
            "prediction": prediction,
            "steps": [
                {
                    "key": step.key, "place": step.place, "operation": step.name, "shape": [*step.output.shape],
                    "inputs": [{"name": one.name, "key": one.key, "shape": [*one.shape]} for one in step.inputs],
                    "options": {name: one for name, one in step.options.items() if type(one) in PLAIN},
                    "value": statistics(step.output), "gradient": statistics(step.d_output),
                    "forward": lines_of(step.forward), "backward": lines_of(step.backward),
                    "model_line": code(step.model_line),
                }
                for step in trace.steps
            ],
            "parameters": [
                {"key": name, "shape": [*one.value.shape]}
                | {"value": statistics(one.value), "gradient": statistics(one.gradient)}
                for name, one in trace.parameters.items()
            ],
            "walk": [
                {
                    "key": visit.key,
                    "parts": [
                        {"from": one.key, "input": one.input, "norm": np.linalg.norm(one.gradient)}
                        for one in visit.parts
                    ],
                }
                for visit in trace.walk
            ],
            "notes": [],
        }  # fmt: skip

    def tensor(self, body):
        whole = np.asarray(tracing.trace(*self.traced(body["trace"]))[body["key"]])
        matrix = (
            whole.reshape(1, -1)
            if whole.ndim < 2
            else whole[(*body.get("at", ()), *[0] * (whole.ndim - 2))[: whole.ndim - 2]]
        )
        rows, columns = body.get("rows", [0, len(matrix)]), body.get("columns", [0, len(matrix[0])])
        down, across = body.get("stride", [1, 1])
        part = matrix[slice(*rows, down), slice(*columns, across)]
        answer = {"shape": [*whole.shape], "rows": rows, "columns": columns, "stride": [down, across], "values": part}
        return answer | {"least": float(whole.min()), "most": float(whole.max())}

    def difference(self, body):
        found = tracing.difference(*self.traced(body["trace"]), body["key"], tuple(body["index"]))
        numbers = {name: getattr(found, name) for name in ("value", "gradient", "estimate", "relative_error")}
        return numbers | {"curve": [[*point] for point in found.curve]}

    def training(self, body):
        model, source, [target], *_ = self.traced({"text": body["text"]})
        (_, begun, most), key, steps = self.read(body["text"]), body.get("key", ""), [0, 1, 2]
        most = min(len(target) + 10, 16 if self.alone else most)
        models = [self.at(step) for step in steps]
        traces = [tracing.trace(model, source, [target]) for model in models]
        steps_near = [
            one.key
            for one in traces[0].steps
            if "attention" in one.name
            and (not key or one.place.startswith(f"{key}.") or f"{key}.".startswith(f"{one.place}."))
        ]
        return {
            "steps": steps,
            "loss": [trace.value for trace in traces],
            "translations": [self.run.target.decode(self.write(one, source, begun, most)[0]) for one in models],
            "norms": {name: [np.linalg.norm(one[name]) for one in traces] for name, _ in model.named_parameters()},
            "gradient_norms": {
                name: [np.linalg.norm(one[f"d:{name}"]) for one in traces] for name, _ in model.named_parameters()
            },
            "attention": [
                {"checkpoint": step, "key": near.partition("/")[0], "shape": [*weights.shape], "values": weights}
                for step, trace in zip(steps, traces, strict=True)
                for near in steps_near
                for weights in [trace[f"{near}:softmax.y"][0]]
            ],
        }


def same(found, wanted, where="answer"):
    """Compare JSON with what it must be: names and texts exactly, numbers up to rounding."""
    if isinstance(wanted, np.ndarray):
        found = np.frombuffer(base64.b64decode(found), "<f4")
        np.testing.assert_allclose(found, wanted.ravel(), rtol=1e-4, atol=1e-6, err_msg=where)
    elif isinstance(wanted, dict):
        assert found.keys() == wanted.keys(), where
        for name in wanted:
            same(found[name], wanted[name], f"{where}.{name}")
    elif isinstance(wanted, list | tuple):
        assert len(found) == len(wanted), where
        for place, one in enumerate(wanted):
            same(found[place], one, f"{where}[{place}]")
    elif isinstance(wanted, float):
        assert found == pytest.approx(wanted, rel=1e-4, abs=1e-9), where
    else:
        assert (type(found), found) == (type(wanted), wanted), where


LATER = {"norm": "rms", "activation": "swiglu", "positions": "rotary", "n_kv_heads": 1}
MODELS = {
    "sentences": {
        **{"d_model": 12, "n_heads": 3, "n_layers": 2, "n_decoder_layers": 1, "d_ff": 10, "positions": "learned"},
        **{"longest": 14, "max_length": 15, "save_every": 2, "keep": 1},  # one checkpoint is left beside the history
    },
    "later": LATER,
    "deep": {"n_layers": 11, "n_decoder_layers": 1, "d_model": 4, "d_ff": 4},
    "published": {
        **{"activation": "silu", "output_bias": True, "final_norm": True, "n_decoder_layers": 2},
        **{"position_layout": "halves", "attention_bias": True, "norm": "pre"},
    },
}


@pytest.fixture(scope="module")
def answering(make_folder, text_session, tmp_path_factory):
    """Return the server and the reference of a run by its name."""

    @cache
    def make(name):
        folder = text_session.models.folder
        if name == "adapted":  # the checkpoints hold two factors beside each matrix of the other run
            start, task = load(folder), build("characters")
            values = {"text": start.options.data.text, "lora": 2, "lora_alpha": 40.0, "peak": 0.5}
            trainer = Trainer(continue_from(start, task, STEPS | values).changed(start=str(folder.path)), start=start)
            folder = create_run(tmp_path_factory.mktemp("adapted") / "run", trainer.configuration, trainer.corpus)
            trainer.train(folder)
        elif name != "texts":
            folder = make_folder(**MODELS[name])
        return Explorer(Session(load(folder), folder), 0), Reference(folder)

    return make


@cases_from_toml
def test_whole_answers(answering, of, name, body):
    explorer, reference = answering(of)

    def ask(name, body):
        status, text = explorer.answer(name, json.dumps(body).encode())
        assert status == 200, text
        return json.loads(text)

    traced = {"trace": ask("trace", body["trace"])["id"]} if "trace" in body else {}
    found = ask(name, body | traced)
    if name == "trace":
        assert ask(name, body)["id"] == found.pop("id")
        functions = {line["function"] for step in found["steps"] for line in (*step["forward"], *step["backward"])}
        for function in functions & mt.ops.registry.keys():
            assert f"{function}.forward" in explorer.session.sources()
            assert explorer.session.formulas()[function]["forward"]
    same(found, getattr(reference, name)(body))
    assert all(parameter.grad is None for parameter in explorer.session.run.model.parameters())
