"""LoRA: training on with few weights beside fixed ones; see `ops.low_rank_linear`.

A matrix W of attention, or of the feed-forward networks, gets two factors A and B, which are parameters of the same
layer: ``w_in_a`` and ``w_in_b`` beside ``w_in``. They alone are trained and stored. W + α / r A B is the matrix of a
model as it was before, which translates, is exported, and so on: `merge`.

``w_in`` holds the projections of queries, keys and values side by side, so these share A.

Source: LoRA: Low-Rank Adaptation of Large Language Models (Hu et al., 2021), section 4.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import numpy as np

from minitransformer import ops
from minitransformer.arrays import Array, to_numpy, xp
from minitransformer.autograd import Tensor
from minitransformer.nn import Cache, FeedForward, Model, MultiHeadAttention
from minitransformer.nn.layers import ACTIVATIONS
from minitransformer.nn.module import Module, Parameter, normal, weights
from minitransformer.ops.heads import heads
from minitransformer.options import OptionError
from minitransformer.runs.configuration import Configuration
from minitransformer.runs.errors import RunError

A, B = "_a", "_b"
"""The endings of the names of a matrix's factors."""


class LowRankAttention(MultiHeadAttention):
    """Multi-head attention whose projections have factors beside them; for training only."""

    alpha: float

    def __call__(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        mask: Array | None = None,
        causal: bool = False,
        maps: list[Array] | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        """Attend as `MultiHeadAttention` does, but record no maps and keep no cache."""
        if maps is not None or cache is not None:
            raise RuntimeError(
                "LowRankAttention: attention maps and decoding are those of the merged model; open the run with load"
            )
        o, first, projected = self.options, 0, list[Any]()
        source = x if memory is None else memory
        sizes = (x, o.n_heads, o.key_size), (source, o.kv_heads, o.key_size), (source, o.kv_heads, o.value_size)
        for seen, n_heads, size in sizes:
            columns = slice(first, first := first + n_heads * size)
            part: Any = _adapted(self, seen, "w_in", self.b_in, columns)  # (B, T, D) -> (B, T, H * Dk)
            projected.append(heads(part, n_heads))  # (B, H, T, Dk)
        q, k, v = projected
        later = self._later_options(x, memory, cache)
        if later.get("rotate"):
            q, k = (ops.rotary(part, rotation=o.rotation) for part in (q, k))
        if o.kv_heads != o.n_heads:
            shared = [h * o.kv_heads // o.n_heads for h in range(o.n_heads)]
            k, v = k[:, shared], v[:, shared]
        options = {"causal": causal, "block_size": o.attention_block, "bias": later.get("bias")}
        y = ops.scaled_dot_product_attention(q, k, v, mask, **options)
        concat = y.swapaxes(1, 2).reshape(*x.shape[:2], self.w_out.shape[0])
        return _adapted(self, concat, "w_out", self.b_out)


class LowRankFeedForward(FeedForward):
    """A feed-forward network whose matrices have factors beside them; for training only."""

    alpha: float

    def __call__(self, x: Tensor) -> Tensor:
        """Apply the network to each position: (B, T, D) -> (B, T, D)."""
        hidden = _adapted(self, x, "w1", self.b1)
        if self.options.activation == "relu":
            hidden = hidden.relu()
        else:
            activation, options = ACTIVATIONS[self.options.activation]
            hidden = activation(hidden, **options)
        return _adapted(self, hidden, "w2", self.b2)


def _adapted(part: Any, x: Tensor, name: str, bias: Tensor | None, columns: slice = slice(None)) -> Tensor:
    """Return the product with some columns of an adapted matrix, plus its bias: (..., D_in) -> (..., D_out)."""
    weight, a, b = (getattr(part, f"{name}{end}") for end in ("", A, B))
    y = ops.low_rank_linear(x, weight[:, columns], a, b[:, columns], alpha=part.alpha)
    return y if bias is None else y + bias[columns]


KINDS: dict[str, dict[type[Module], tuple[type[Module], tuple[str, ...]]]] = {
    "attention": {MultiHeadAttention: (LowRankAttention, ("w_in", "w_out"))},
    "feed_forward": {FeedForward: (LowRankFeedForward, ("w1", "w2"))},
}
KINDS["all"] = KINDS["attention"] | KINDS["feed_forward"]
"""What ``lora_on`` can adapt: the class of the layer, the class that replaces it, and its matrices."""


def adapt(model: Model, configuration: Configuration) -> None:
    """Fix all weights of a model and add the factors that are trained instead: A random, B zero.

    Raises
    ------
    OptionError
        If no trained model is adapted, an option contradicts, or the rank is too large.
    """
    from minitransformer.tracing import modules  # loads what no other training needs

    t = configuration.training
    rank = t.lora or 0
    if configuration.start is None:
        raise OptionError("lora adapts a trained model: name its run with --from", "lora")
    if t.freeze is not None:
        raise OptionError("found lora and freeze, expected one: lora fixes all weights of the model", "lora", "freeze")
    if t.average_last > 1:
        raise OptionError(
            f"found lora and average_last {t.average_last}, expected 1: the mean of A and the mean of B are not those "
            "of A B; `minitransformer average RUN` averages the merged weights",
            "lora", "average_last",
        )  # fmt: skip
    for parameter in model.parameters():
        parameter.requires_grad = False
    rng = np.random.default_rng(np.random.SeedSequence(configuration.seed).spawn(3)[2])
    for _, part in list(modules(model)):
        kind, names = KINDS[t.lora_on].get(type(part), (None, ()))
        if kind is None:
            continue
        part.__class__ = kind
        vars(part)["alpha"] = t.alpha
        for name in names:
            matrix: Parameter = getattr(part, name)
            if rank >= min(matrix.shape):
                raise OptionError(
                    f"lora {rank}: a matrix of {matrix.shape[0]} by {matrix.shape[1]} has rank {min(matrix.shape)}, "
                    "expected a lower one; 4 to 16 are usual",
                    "lora",
                )
            n_in, n_out = matrix.shape
            setattr(part, f"{name}{A}", weights(normal(rng, rank, n_in).T, str(matrix.dtype)))
            setattr(part, f"{name}{B}", Parameter(xp.zeros((rank, n_out), dtype=matrix.dtype)))


def weights_to_save(model: Model) -> dict[str, Array]:
    """Return a copy of the weights that a checkpoint holds: all, or if there are factors, these alone."""
    factors = {name: p for name, p in model.named_parameters() if name.endswith((A, B))}
    return {name: np.array(to_numpy(p.data), order="C") for name, p in factors.items()} or model.state_dict()


def adapted(state: Mapping[str, Any]) -> set[str]:
    """Return the names of the matrices whose factors are among weights by name."""
    return {name[: -len(A)] for name in state if name.endswith((A, B))}


def merge(state: Mapping[str, Any], alpha: float) -> dict[str, Any]:
    """Return the weights of the model as it was before, W + α / r A B, from those of an adapted one.

    Raises
    ------
    RunError
        If factors do not belong to a matrix.
    """
    whole = {name: values for name, values in state.items() if not name.endswith((A, B))}
    for name in adapted(state):
        w, a, b = (state.get(f"{name}{end}", np.zeros(())) for end in ("", A, B))
        shapes = w.shape, a.shape, b.shape
        if any(len(shape) != 2 for shape in shapes) or shapes != (w.shape, (len(w), len(b)), (a.shape[1], w.shape[1])):
            raise RunError(f"{name} and its factors A and B do not belong together: found the shapes {shapes}")
        whole[name] = w + alpha / a.shape[1] * (a @ b)
    return whole


def digest_of(model: Model) -> str:
    """Return the SHA-256 checksum of a model's weights."""
    found = sha256()
    for name, parameter in model.named_parameters():
        found.update(name.encode())
        found.update(np.ascontiguousarray(parameter.numpy()).data)
    return found.hexdigest()
