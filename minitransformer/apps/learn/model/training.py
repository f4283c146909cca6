"""The walk over the graph, the start, the steps and the search, with the functions of exercises.

As in ``passes.py``, ``f`` maps the names of exercises to functions, and the other arguments are those of the engine.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from minitransformer import data, decoding, nn, ops, optim
from minitransformer.apps.learn.model.passes import Functions, Override, Place, like, module_of
from minitransformer.arrays import Array
from minitransformer.autograd import Node, Tensor, accumulate, count_uses, tensor
from minitransformer.decoding import SearchOptions
from minitransformer.nn import Transformer, ZeroGenerator


class Slope:
    """The local derivative of a node's output by one input: a gradient times it is the gradient of the input."""

    __array_ufunc__ = None  # so that array * slope calls Slope.__rmul__

    def __init__(self, node: Node, place: int, cache: dict[int, Sequence[Any]], dtype: Any) -> None:
        self.node, self.place, self.cache, self.dtype = node, place, cache, dtype

    def __rmul__(self, d_output: Any) -> Any:
        if _is_zero(d_output):
            return 0.0
        if id(self.node) not in self.cache:
            self.cache[id(self.node)] = self.node.gradients(np.asarray(d_output, dtype=self.dtype))
        gradient = self.cache[id(self.node)][self.place]
        return 0.0 if gradient is None else gradient

    __mul__ = __rmul__


def _is_zero(d: Any) -> bool:
    """Return whether no gradient has arrived; that of a single number may be a NumPy or Python number."""
    return d is None or (np.ndim(d) == 0 and not d)


def walk(f: Functions, root: Node, d_output: Array, release: bool = False) -> None:
    """Walk back over the graph: find an order of its nodes, and add up what each receives."""
    count_uses(root)  # refuses values that were changed, and graphs that were released
    nodes: dict[int, Any] = {}
    parts: dict[int, list[int]] = {}
    stack: list[Any] = [root]
    while stack:
        target = stack.pop()
        if id(target) in nodes:
            continue
        nodes[id(target)] = target
        edges = [edge.target for edge in target.edges if edge] if isinstance(target, Node) else []
        parts[id(target)] = [id(part) for part in edges]
        stack += edges
    cache: dict[int, Sequence[Any]] = {}
    order = f["order-of-a-graph"](parts, id(root))
    steps = []
    for name in reversed([name for name in order if isinstance(nodes[name], Node)]):
        node = nodes[name]
        places = [i for i, edge in enumerate(node.edges) if edge]
        steps.append((name, tuple(parts[name]), tuple(Slope(node, i, cache, d_output.dtype) for i in places)))
    d = f["walk-back"](steps, d_output)
    for name, target in nodes.items():
        if isinstance(target, Tensor) and not _is_zero(d.get(name)):
            accumulate(target, np.asarray(d[name], dtype=target.data.dtype))
        elif release and isinstance(target, Node):
            target.backward, target.edges = None, ()


def initial_weights(f: Functions, rng: Any, n_in: int, n_out: int) -> Array:
    """Return the initial weights of Xavier initialisation."""
    if isinstance(rng, ZeroGenerator):  # the weights will be loaded
        return rng.uniform(0, 0, (n_in, n_out))
    return np.asarray(f["xavier"](rng, n_in, n_out), dtype=np.float64).reshape(n_in, n_out)


def schedule(f: Functions, step: int, d_model: int, warmup_steps: int) -> float:
    """Return the learning rate of the paper."""
    return float(f["warm-up"](step, d_model, warmup_steps))


def adam(
    f: Functions,
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
    """Do a step of Adam on a slice of all parameters, laid side by side."""
    if decay:
        raise ValueError("adam-step has no weight decay, found --weight-decay; leave it out, or add --but adam-step")
    found = f["adam-step"](theta, g, m, v, t, learning_rate, *betas, eps)
    for array, value in zip((theta, m, v), found, strict=True):
        array[...] = value


def targets(f: Functions, target_output: Any) -> Any:
    """Return what the decoder sees in training."""
    return np.asarray(f["shifted-targets"](target_output)).reshape(target_output.shape)


def greedy_search(
    f: Functions, model: Transformer, source_ids: Any, most_written: Any, rules: SearchOptions
) -> list[list[int]]:
    """Return the sentences of greedy decoding, one after another."""
    found = []
    for source, most in zip(source_ids, most_written.tolist(), strict=True):
        cache = model.new_cache(source[None][:, : max(1, int((source != 0).sum()))])

        def next_scores(tokens: Any, cache: Any = cache, most: int = most) -> Array:
            scores = model.step(np.array([[tokens[-1]]]), cache)[0, 0]
            n_written = len(tokens) - 1  # the first token is the start
            rules.restrict(scores[None], n_written, np.array([n_written + 1 == most]))
            decoding.exclude(scores)
            return decoding.to_host(np.arange(len(scores)), scores)[1]  # refuses NaN

        found.append([int(token) for token in f["greedy-decoding"](next_scores, most)])
    return found


def beam(f: Functions, log_p: Array, logits: Array, beam: int) -> tuple[Any, Any, Array]:
    """Return the best continuations of each sentence's hypotheses."""
    next_log_p = np.asarray(ops.log_softmax.forward(logits.astype(np.float64))[0])
    decoding.exclude(next_log_p)
    width = min(beam, next_log_p[0].size)
    steps = [f["beam-step"](*sentence, width) for sentence in zip(log_p, next_log_p, strict=True)]
    parents, tokens, totals = (np.stack([np.asarray(step[i]) for step in steps]) for i in range(3))
    return parents, tokens, totals


def penalty(f: Functions, length: Any, alpha: float) -> Any:
    """Return the length penalty, from the scores that it makes."""
    lengths = np.asarray(length)
    scores, _ = f["length-penalty"](-np.ones(max(1, lengths.size)), lengths.reshape(-1), alpha)
    return -1 / like(scores, np.ones(lengths.shape))


def top_p(f: Functions, p: Array, top_p: float) -> Array:
    """Return the probabilities of the tokens that may be drawn, text by text."""
    return like(np.stack([f["top-p"](row, top_p) for row in p.reshape(-1, p.shape[-1])]), p)


TRAINING: dict[Place, Override] = {
    (tensor, "backpropagate"): (walk, ("order-of-a-graph", "walk-back")),
    (nn.layers, "xavier"): (initial_weights, ("xavier",)),
    (optim, "warmup"): (schedule, ("warm-up",)),
    (module_of(optim.update), "update"): (adam, ("adam-step",)),
    (data.batches, "decoder_input"): (targets, ("shifted-targets",)),
    (module_of(decoding.greedy), "write"): (greedy_search, ("greedy-decoding",)),
    (decoding.beam, "best_continuations"): (beam, ("beam-step",)),
    (decoding.rules, "length_penalty"): (penalty, ("length-penalty",)),
    (decoding.sampling, "keep_top_p"): (top_p, ("top-p",)),
}
"""As ``PASSES``."""
