"""Decoding with PyTorch, written for speed: caches, batches, and a beam as an additional axis.

The weights are those of one of our models, so both write the same sentences, up to ties and rounding. The
keys and values of each decoder layer are written into arrays that are made once, for the longest sentence; those of the
source are computed once, and the hypotheses of a sentence share them: they are several queries of one source. Attention
is ``scaled_dot_product_attention``. Sentences that have ended leave the batch. Both searches follow the rules of
``minitransformer.decoding``.

torch is imported only inside the functions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from minitransformer.apps.interop import to_pytorch
from minitransformer.apps.measure.machine import settle
from minitransformer.apps.measure.speed.ours import Program, in_processes
from minitransformer.apps.measure.speed.ours_decoding import Translations, decoding_model, max_length, random_sources
from minitransformer.apps.measure.speed.workloads import ALPHA, BEAM, Workload
from minitransformer.arrays import to_numpy
from minitransformer.data import END, PAD, START
from minitransformer.nn import Transformer
from minitransformer.ops import sinusoidal_positions
from minitransformer.parallel import SINGLE_PROCESS

NEVER = [PAD, START]
"""Tokens that are never written."""


class Translator:
    """PyTorch's operations with the weights of one of our models.

    Parameters
    ----------
    model : Transformer
        A post-norm model with sinusoidal positions, whose heads have D / H features; its weights are copied.
    longest : int
        The most tokens that a sentence has, source or target.
    """

    def __init__(self, model: Transformer, longest: int) -> None:
        import torch

        self.n_heads = model.options.n_heads
        self.n_layers = len(model.decoder.layers)
        self.d_model = model.output.shape[1]
        self.weights = {
            name: torch.from_numpy(array) for name, array in to_pytorch(model.state_dict(), self.n_heads).items()
        }
        positions = sinusoidal_positions(longest, self.d_model, model.output.dtype)
        self.positions = torch.from_numpy(np.array(to_numpy(positions)))

    def encode(self, source: Any) -> Any:
        """Read source sentences: (B, S) -> (B, S, D)."""
        from torch.nn import functional

        n, length = source.shape
        mask = padding_mask(source)
        x = self._embed("source", source, self.positions[:length])
        for i in range(self.n_layers):
            layer = f"transformer.encoder.layers.{i}"
            parts = self._linear(f"{layer}.self_attn.in_proj_", x).view(n, length, 3, self.n_heads, -1)
            q, k, v = parts.permute(2, 0, 3, 1, 4)
            y = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
            y = self._linear(f"{layer}.self_attn.out_proj.", y.transpose(1, 2).reshape(n, length, -1))
            x = self._norm(f"{layer}.norm1.", x + y)
            x = self._norm(f"{layer}.norm2.", x + self._feed_forward(layer, x))
        return x

    def logits(self, y: Any) -> Any:
        """Return the scores of the next token: (N, D) -> (N, V)."""
        return self._linear("generator.", y)

    def _embed(self, side: str, ids: Any, positions: Any) -> Any:
        from torch.nn import functional

        return functional.embedding(ids, self.weights[f"{side}_embedding.weight"]) * math.sqrt(self.d_model) + positions

    def _linear(self, name: str, x: Any, first: int = 0, last: int | None = None) -> Any:
        """Apply some rows of a weight matrix."""
        from torch.nn import functional

        bias = self.weights.get(f"{name}bias")
        return functional.linear(
            x, self.weights[f"{name}weight"][first:last], None if bias is None else bias[first:last]
        )

    def _norm(self, name: str, x: Any) -> Any:
        from torch.nn import functional

        return functional.layer_norm(x, (self.d_model,), self.weights[f"{name}weight"], self.weights[f"{name}bias"])

    def _feed_forward(self, layer: str, x: Any) -> Any:
        return self._linear(f"{layer}.linear2.", self._linear(f"{layer}.linear1.", x).relu_())


def padding_mask(source: Any) -> Any:
    """Return the mask that hides padding, or None if there is none to hide: (B, S) -> (B, 1, 1, S)."""
    real = source != PAD
    return None if real.all() else real[:, None, None, :]


class CachedDecoder:
    """The decoder, one position at a time, for rows that are decoded together.

    Parameters
    ----------
    translator : Translator
        The weights.
    source : integer tensor, shape (B, S)
        Source sentences, padded with 0; at first there is one row for each.
    most : int
        How many tokens are written at most.
    """

    def __init__(self, translator: Translator, source: Any, most: int) -> None:
        t = self.translator = translator
        memory = t.encode(source)
        n, length, d = memory.shape
        self.sources = n
        self.mask = padding_mask(source)
        self.cross = []
        for i in range(t.n_layers):
            name = f"transformer.decoder.layers.{i}.multihead_attn.in_proj_"
            parts = t._linear(name, memory, d).view(n, length, 2, t.n_heads, -1)
            self.cross.append([part.contiguous() for part in parts.permute(2, 0, 3, 1, 4)])  # (B, H, S, Dk)
        shape = (n, t.n_heads, most, d // t.n_heads)
        self.own = [[memory.new_empty(shape), memory.new_empty(shape)] for _ in range(t.n_layers)]
        self.spare: Any = None
        self.position = 0

    def __call__(self, tokens: Any) -> Any:
        """Append a token to each row and return the scores of the next one: (N,) -> (N, V)."""
        from torch.nn import functional

        t, rows, sources, now = self.translator, len(tokens), self.sources, self.position
        x = t._embed("target", tokens, t.positions[now])
        for i in range(t.n_layers):
            layer = f"transformer.decoder.layers.{i}"
            (keys, values), (source_keys, source_values) = self.own[i], self.cross[i]
            q, keys[:, :, now], values[:, :, now] = (
                t._linear(f"{layer}.self_attn.in_proj_", x).view(rows, 3, t.n_heads, -1).unbind(1)
            )
            y = functional.scaled_dot_product_attention(
                q[:, :, None], keys[:, :, : now + 1], values[:, :, : now + 1]
            ).reshape(rows, -1)
            x = t._norm(f"{layer}.norm1.", x + t._linear(f"{layer}.self_attn.out_proj.", y))
            q = t._linear(f"{layer}.multihead_attn.in_proj_", x, 0, t.d_model)
            # The hypotheses of a sentence are several queries of one source: (B, H, K, Dk).
            q = q.view(sources, rows // sources, t.n_heads, -1).transpose(1, 2)
            y = functional.scaled_dot_product_attention(q, source_keys, source_values, attn_mask=self.mask)
            y = y.transpose(1, 2).reshape(rows, -1)
            x = t._norm(f"{layer}.norm2.", x + t._linear(f"{layer}.multihead_attn.out_proj.", y))
            x = t._norm(f"{layer}.norm3.", x + t._feed_forward(layer, x))
        self.position += 1
        return t.logits(x)

    def select_rows(self, rows: Any) -> None:
        """Keep these rows, in this order; a row may be kept several times."""
        import torch

        n = self.position
        for layer in self.own:
            for i, old in enumerate(layer):
                if self.spare is None or len(self.spare) < len(rows):
                    self.spare = old.new_empty((len(rows), *old.shape[1:]))
                # Copied once, into an array that is not in use; then the other one is not.
                layer[i] = self.spare[: len(rows)]
                torch.index_select(old[:, :, :n], 0, rows, out=layer[i][:, :, :n])
                self.spare = old

    def select_sources(self, sources: Any) -> None:
        """Keep these source sentences."""
        self.sources = len(sources)
        if self.mask is not None:
            self.mask = self.mask[sources]
        self.cross = [[part[sources] for part in layer] for layer in self.cross]


def greedy(translator: Translator, source_ids: Any, most: int) -> list[list[int]]:
    """Translate source sentences (B, S), padded with 0, each step taking the token with the highest score.

    Return the target sentences without start and end tokens. ``most`` is the limit of tokens, end tokens included.
    """
    import torch

    with torch.inference_mode():
        source = torch.from_numpy(source_ids)
        decoder = CachedDecoder(translator, source, most)
        active = torch.arange(len(source))
        tokens = torch.full((len(source),), START)
        written = torch.full((len(source), most), END)
        for position in range(most):
            logits = decoder(tokens)
            logits[:, NEVER] = -math.inf
            tokens = logits.argmax(-1)
            written[active, position] = tokens
            going = tokens != END
            if not going.all():
                rows = going.nonzero()[:, 0]
                decoder.select_rows(rows)
                decoder.select_sources(rows)
                active, tokens = active[rows], tokens[rows]
                if not len(active):
                    break
    return [_until_end(row) for row in written.tolist()]


def beam(
    translator: Translator, source_ids: Any, most: int, width: int = BEAM, alpha: float = ALPHA
) -> tuple[list[list[int]], list[float]]:
    """Translate source sentences (B, S), padded with 0, at each step keeping ``width`` hypotheses of each.

    Return the best target sentences without start and end tokens, and their scores. ``alpha`` is the exponent of the
    length penalty.
    """
    import torch

    def penalty(length: int) -> float:
        return float(((5 + length) / 6) ** alpha)

    with torch.inference_mode():
        source = torch.from_numpy(source_ids)
        decoder = CachedDecoder(translator, source, most)
        active = torch.arange(len(source))
        best = torch.full((len(source), most), END)
        scores = torch.full((len(source),), -math.inf, dtype=torch.float64)
        log_p = torch.zeros((len(source), 1), dtype=torch.float64)  # (B, W)
        tokens = torch.full((len(source), 1), START)
        written = torch.empty((len(source), 1, 0), dtype=torch.int64)  # (B, W, T)
        for length in range(1, most + 1):
            n, before = log_p.shape
            logits = decoder(tokens.reshape(-1))
            divisor = logits.logsumexp(-1, keepdim=True)
            logits[:, NEVER] = -math.inf
            best_logits, next_tokens = logits.topk(min(width, logits.shape[1]))
            totals = (log_p.reshape(-1, 1) + (best_logits - divisor)).view(n, -1)
            parents_of = next_tokens.shape[1]
            log_p, order = totals.topk(min(width, totals.shape[1]))
            parents = order // parents_of
            tokens = next_tokens.view(n, -1).gather(1, order)
            written = written.gather(1, parents[:, :, None].expand(-1, -1, length - 1))
            written = torch.cat((written, tokens[:, :, None]), 2)

            ends = (tokens == END) & (log_p > -math.inf)
            if ends.any():
                found, places = (log_p / penalty(length)).masked_fill(~ends, -math.inf).max(1)
                better = (found > scores[active]).nonzero()[:, 0]
                scores[active[better]] = found[better]
                best[active[better]] = END
                best[active[better], :length] = written[better, places[better]]
                log_p = log_p.masked_fill(ends, -math.inf)
            if length == most:
                found, places = (log_p / penalty(length)).max(1)
                none = ((scores[active] == -math.inf) & (found > -math.inf)).nonzero()[:, 0]
                scores[active[none]] = found[none]
                best[active[none], :length] = written[none, places[none]]
                break
            going = log_p.max(1).values / penalty(most) > scores[active]
            rows = torch.arange(n)[:, None] * before + parents
            if not going.all():
                kept = going.nonzero()[:, 0]
                if not len(kept):
                    break
                decoder.select_sources(kept)
                rows, active, log_p, tokens, written = (x[kept] for x in (rows, active, log_p, tokens, written))
            rows = rows.reshape(-1)
            if len(rows) != n * before or not torch.equal(rows, torch.arange(len(rows))):
                decoder.select_rows(rows)
    return [_until_end(row) for row in best.tolist()], scores.tolist()


def _until_end(tokens: list[int]) -> list[int]:
    return tokens[: tokens.index(END)] if END in tokens else tokens


@contextmanager
def prepare(workload: Workload, search: str) -> Iterator[Program]:
    """Return PyTorch's program; a step decodes the batch once."""
    import torch

    most = max_length(workload)
    translator = Translator(decoding_model(workload), most)
    source = random_sources(workload)

    def decode() -> Translations:
        if search == "greedy":
            return Translations(greedy(translator, source, most), None)
        return Translations(*beam(translator, source, most))

    description = decode()._asdict()
    settle()  # our model, whose weights were copied, is not PyTorch's
    yield (
        in_processes(SINGLE_PROCESS, decode),
        description | {"version": torch.__version__, "threads": torch.get_num_threads()},
    )
