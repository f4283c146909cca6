"""What each mistake does to a training: a small model learns a task with the mistake, and without it.

The task is to repeat the symbol two positions back. The model is one layer of the Transformer. What mixes the
positions, the activation and the norm vary, so that each operation has its place in some variant. A mistake is trained
in the first variant in which it changes a gradient. ``python tests/gallery/gallery_page.py --train`` trains all of them
and writes trainings.toml, in about four minutes.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from functools import cache
from math import pi, sqrt
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from wrong_core import CORE
from wrong_entry import Entry

import minitransformer as mt
from minitransformer import Tensor, ops
from minitransformer.optim import Adam

FILE = Path(__file__).with_name("trainings.toml")
STEPS, RATE, BACK = 250, 5e-3, 2
B, T, D, H, F, V = 24, 8, 16, 2, 32, 12
SLIGHT = 0.015
"""A difference between two trainings that their random numbers explain."""
LIMIT = 40.0
"""Seconds of CPU time after which a training is stopped; without a mistake it takes 1 to 5."""
Functions = Mapping[str, Callable[..., Tensor]]


@dataclass(frozen=True)
class Variant:
    """A model: what mixes the positions, the inner activation, the norm, and the loss."""

    mix: str = "scaled_dot_product_attention"
    activation: str = "relu"
    norm: str = "layer_norm"
    loss: str = "cross_entropy"


VARIANTS = (
    Variant(), Variant("multi_head_attention"), Variant("memory"), Variant("softmax"), Variant("masking"),
    Variant(loss="log_softmax"), Variant(norm="rms_norm"), Variant("rotary"), Variant(activation="gelu"),
    Variant(activation="silu"), Variant(activation="swiglu"), Variant(activation="tanh"), Variant("recurrence"),
    Variant("convolution"), Variant("local_attention"), Variant("additive_attention"), Variant("elementary"),
    Variant("grouped_query_attention"), Variant(activation="gelu_tanh"), Variant("low_rank_linear"),
)  # fmt: skip


@dataclass(frozen=True)
class Training:
    """The result of a training."""

    right: float
    """The share of symbols that the model repeats after a training without the mistake."""
    wrong: float
    """The same share with the mistake."""
    end: str = ""
    """How the training with the mistake ended, if it did not reach its last step."""


def parameters() -> dict[str, Tensor]:
    """Return the initial parameters, the same each time."""
    rng = np.random.default_rng(0)
    shapes = {
        "table": (V, D), "positions": (T, D), "w_q": (D, D), "w_k": (D, D), "w_v": (D, D), "w_o": (D, D),
        "w_in": (D, 3 * D), "b_in": (3 * D,), "b_o": (D,), "w_1": (D, 2 * F), "b_1": (2 * F,), "w_2": (F, D),
        "b_2": (D,), "u": (D, D), "kernel": (5, D, D), "b_s": (F,), "w_a": (D, F), "w_c": (D, F), "w_s": (F,),
        "gain_1": (D,), "gain_2": (D,), "bias_1": (D,), "bias_2": (D,), "w": (D, V), "b": (V,),
    }  # fmt: skip

    def draw(name: str, shape: tuple[int, ...]) -> Any:
        scale = 1.0 if name in ("table", "positions") else 0.2 if len(shape) == 1 else sqrt(1 / shape[-2])
        return (name.startswith("gain") or name == "w_s") + scale * rng.standard_normal(shape)

    return {name: Tensor(draw(name, shape), requires_grad=True) for name, shape in shapes.items()}


def batch(rng: np.random.Generator, n: int = B) -> tuple[Any, Any]:
    """Return sentences of 4 to T symbols, padded with 0, one of them empty, and the symbols to repeat."""
    lengths = np.array([0, *rng.integers(4, T + 1, n - 1)])
    ids = rng.integers(2, V, (n, T)) * (np.arange(T) < lengths[:, None])
    targets = np.concatenate((np.ones((n, BACK), dtype=int), ids[:, :-BACK]), axis=1) * (ids > 0)
    return ids, targets


def logits(f: Functions, variant: Variant, p: dict[str, Tensor], ids: Any, rng: np.random.Generator | None) -> Tensor:
    """Return the scores of each symbol (B, T, V); with a generator, in training."""
    x = f["embedding"](ids, p["table"]) + p["positions"]
    if rng is not None:
        x = f["dropout"](x, 0.1, rng)
    x = norm(f, variant, p, x + mix(f, variant.mix, p, x, ids > 0), 1)
    x = norm(f, variant, p, x + feed_forward(f, variant.activation, p, x), 2)
    return f["linear"](x, p["w"], p["b"])


def mix(f: Functions, kind: str, p: dict[str, Tensor], x: Tensor, seen: Any) -> Tensor:
    """Return what the positions read from each other; ``seen`` (B, T) is False at padding."""
    if kind in ("multi_head_attention", "memory"):
        memory = x if kind == "memory" else None
        mask = seen[:, None, None, :]
        return f["multi_head_attention"](x, memory, p["w_in"], p["w_o"], p["b_in"], p["b_o"], mask, n_heads=H)
    if kind == "grouped_query_attention":  # one head of keys and values for both heads of queries
        weights, mask = (p["w_in"][:, : 2 * D], p["w_o"], p["b_in"][: 2 * D], p["b_o"]), seen[:, None, None, :]
        return f["grouped_query_attention"](x, x, *weights, mask, n_heads=H, n_kv_heads=1)
    if kind == "recurrence":
        return f["recurrence"](x, p["w_q"], p["u"], p["b_o"])
    if kind == "convolution":
        return f["convolution"](x, p["kernel"], p["b_o"])
    q, k, v = (f["linear"](x, p[name]) for name in ("w_q", "w_k", "w_v"))
    if kind == "local_attention":
        return f["linear"](f["local_attention"](q, k, v, seen, radius=BACK), p["w_o"])
    mask = np.broadcast_to(seen[:, None, :], (len(seen), T, T))
    if kind == "additive_attention":
        y = f["additive_attention"](x, x, v, p["w_a"], p["w_c"], p["b_s"], p["w_s"], mask)
        return f["linear"](y, p["w_o"])
    if kind == "rotary":
        q, k = f["rotary"](q), f["rotary"](k)
    if kind in ("scaled_dot_product_attention", "rotary", "low_rank_linear"):
        y = f["scaled_dot_product_attention"](q, k, v, mask)
        factors = (p["w_a"], p["w_2"]) if kind == "low_rank_linear" else ()
        return f["low_rank_linear" if factors else "linear"](y, p["w_o"], *factors)
    if kind == "elementary":  # the weights are relative to the largest one
        e = (q @ k.swapaxes(-1, -2) / sqrt(D) + np.where(mask, 0.0, -1e4)).exp() + 1e-9
        e = e / e.max(axis=-1, keepdims=True)
        return e / e.sum(axis=-1, keepdims=True) @ v @ p["w_o"]
    scores = q @ k.swapaxes(-1, -2) / sqrt(D)
    hidden = f["masking"](scores, mask) if kind == "masking" else scores + np.where(mask, 0.0, -1e4)
    return f["linear"](f["softmax"](hidden) @ v, p["w_o"])


def feed_forward(f: Functions, kind: str, p: dict[str, Tensor], x: Tensor) -> Tensor:
    """Return the output of the feed-forward network with an activation."""
    if kind == "relu":
        return f["feed_forward"](x, p["w_1"][:, :F], p["b_1"][:F], p["w_2"], p["b_2"])
    if kind == "swiglu":
        return f["linear"](f["swiglu"](f["linear"](x, p["w_1"], p["b_1"])), p["w_2"], p["b_2"])
    a = f["linear"](x, p["w_1"][:, :F], p["b_1"][:F])
    h = 0.5 * a * (1 + (sqrt(2 / pi) * (a + 0.044715 * a**3)).tanh()) if kind == "tanh" else f[kind](a)
    return f["linear"](h, p["w_2"], p["b_2"])


def norm(f: Functions, variant: Variant, p: dict[str, Tensor], x: Tensor, place: int) -> Tensor:
    """Return normalised rows."""
    if variant.norm == "rms_norm":
        return f["rms_norm"](x, p[f"gain_{place}"])
    return f["layer_norm"](x, p[f"gain_{place}"], p[f"bias_{place}"])


def loss(f: Functions, variant: Variant, scores: Tensor, targets: Any) -> Tensor:
    """Return the loss, with label smoothing where it is the cross-entropy; padding does not count."""
    if variant.loss == "cross_entropy":
        return f["cross_entropy"](scores, targets, label_smoothing=0.1, ignore_index=0)
    wanted = (targets[..., None] == np.arange(V)) * (targets > 0)[..., None] / (targets > 0).sum()
    return -(f["log_softmax"](scores) * wanted).sum()


def first_gradients(f: Functions, variant: Variant) -> list[Any]:
    """Return the loss of the first batch and the gradient of each parameter."""
    p, (ids, targets) = parameters(), batch(np.random.default_rng(1))
    value = loss(f, variant, logits(f, variant, p, ids, np.random.default_rng(2)), targets)
    value.backward()
    return [value.numpy(), *(x.grad for x in p.values() if x.grad is not None)]


def train(f: Functions, variant: Variant, steps: int = STEPS) -> tuple[float, str]:
    """Return the share of symbols that the trained model repeats, and how the training ended if it failed."""
    p, rng, drops = parameters(), np.random.default_rng(1), np.random.default_rng(2)
    optimiser, start = Adam(list(p.values())), process_time()
    for step in range(1, steps + 1):
        if process_time() - start > LIMIT:
            return 0.0, "A step takes so long that the training is stopped"
        ids, targets = batch(rng)
        try:
            value = loss(f, variant, logits(f, variant, p, ids, drops), targets)
            optimiser.zero_grad()
            value.backward()
        except Exception as error:
            return 0.0, f"Step {step} raises a {type(error).__name__}"
        if not np.isfinite(value.numpy()) or not all(
            np.isfinite(x.grad).all() for x in p.values() if x.grad is not None
        ):
            return 0.0, f"The gradient is not finite in step {step}"
        optimiser.step(RATE * min(1.0, step / 30))
    ids, targets = batch(np.random.default_rng(3), 400)
    with mt.no_grad():
        best = logits(f, variant, p, ids, None).numpy().argmax(axis=-1)
    return float((best == targets)[targets > 0].mean()), ""


def functions(entry: Entry | None, core: bool) -> dict[str, Callable[..., Tensor]]:
    """Return every operation, an entry's with its mistake; for the core's mistakes in elementary operations."""
    found = {name: (one.reference or one) if core else one for name, one in ops.registry.items()}
    return found | ({entry.operation: entry.wrong} if entry and not core else {})


@cache
def without(variant: Variant, core: bool) -> tuple[float, str]:
    """Return the result of the training without a mistake."""
    return train(functions(None, core), variant)


@cache
def right_gradients(variant: Variant, core: bool) -> list[Any]:
    """Return what the first batch gives without a mistake."""
    return first_gradients(functions(None, core), variant)


def shown_in(entry: Entry) -> Iterator[Variant]:
    """Yield the variants in which a mistake changes a number in the first step."""
    core = entry in CORE
    for variant in VARIANTS:
        expected = right_gradients(variant, core)
        if not all(np.isfinite(x).all() for x in expected):  # a score of -inf, subtracted from itself
            continue
        try:
            with entry.mistake(), np.errstate(all="ignore"):
                found = first_gradients(functions(entry, core), variant)
        except Exception:
            yield variant
            continue
        pairs = zip(found, expected, strict=False)
        if len(found) != len(expected) or any(
            a.shape != b.shape or not np.allclose(a, b, 1e-7, 1e-12) for a, b in pairs
        ):
            yield variant


def measure(entry: Entry) -> Training | None:
    """Train with a mistake and without it; None if the mistake changes no number in any variant."""
    core = entry in CORE
    variant = next(shown_in(entry), None)
    if variant is None:
        return None
    with entry.mistake() if core else nullcontext(), np.errstate(all="ignore"):
        wrong, end = train(functions(entry, core), variant)
    return Training(round(without(variant, core)[0], 3), round(wrong, 3), end)


def measure_all(entries: Sequence[Entry]) -> dict[str, Training | None]:
    """Return the trainings of all entries by name."""
    return {entry.name: measure(entry) for entry in entries}


def read() -> dict[str, Training | None]:
    """Return the measured trainings by the names of their mistakes."""
    found = tomllib.loads(FILE.read_text(encoding="utf-8"))
    return {name: Training(**fields) if fields else None for name, fields in found.items()}


def write(found: Mapping[str, Training | None]) -> None:
    """Write the measured trainings."""
    parts = ["# Written by gallery_page.py --train. An empty table: the mistake changes no number in any variant."]
    for name, one in found.items():
        fields = {key: value for key, value in asdict(one).items() if value != ""} if one else {}
        parts += [
            f"\n[{json.dumps(name, ensure_ascii=False)}]",
            *(f"{key} = {json.dumps(fields[key])}" for key in fields),
        ]
    FILE.write_text("\n".join(parts) + "\n", encoding="utf-8")


def is_silent(one: Training | None) -> bool:
    """Return whether a training with the mistake learns as much as without it."""
    return one is None or (not one.end and one.wrong >= one.right - SLIGHT)


def says(one: Training | None) -> str:
    """Return the result of a training in words."""
    if one is None:
        return "identical"
    return one.end or ("same" if is_silent(one) else f"{100 * one.wrong:.0f} %")
