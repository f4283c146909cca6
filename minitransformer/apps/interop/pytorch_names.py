"""Weights to and from PyTorch: its names and layouts for the parameters of ``Transformer``.

PyTorch has no embeddings inside ``torch.nn.Transformer``, so its side is a module of four parts, and two more if
positions are learned::

    source_embedding, target_embedding    torch.nn.Embedding(V, D)
    transformer                           torch.nn.Transformer(..., batch_first=True)
    generator                             torch.nn.Linear(D, V, bias=False), or True with ``output_bias``
    source_positions, target_positions    torch.nn.Embedding(L, D)

The names, with the same layer numbers on both sides:

===============================================  ===============================================
here                                             in PyTorch
===============================================  ===============================================
``source_embedding.table``                       ``source_embedding.weight``
``target_embedding.table``                       ``target_embedding.weight``
``output``, ``output_bias``                      ``generator.weight``, ``generator.bias``
``source_embedding.positions``                   ``source_positions.weight``
``target_embedding.positions``                   ``target_positions.weight``
``encoder.layers.0``, ``decoder.layers.0``, ...  ``transformer.encoder.layers.0``, ..., in which
``self_attention``, ``cross_attention``          ``self_attn``, ``multihead_attn``, in which
``w_in`` (D, 3 D), ``b_in``                      ``in_proj_weight`` (3 D, D), ``in_proj_bias``
``w_out`` (D, D), ``b_out``                      ``out_proj.weight`` (D, D), ``out_proj.bias``
``feed_forward.w1`` (D, F), ``feed_forward.b1``  ``linear1.weight`` (F, D), ``linear1.bias``
``feed_forward.w2`` (F, D), ``feed_forward.b2``  ``linear2.weight`` (D, F), ``linear2.bias``
``residual1.layer_norm.gain``, ``….bias``        ``norm1.weight``, ``norm1.bias``
``encoder.final_norm.gain``, ``….bias``          ``transformer.encoder.norm.weight``, ``….bias``
===============================================  ===============================================

Every matrix that multiplies from the right here is transposed there; tables of embeddings are not. On both
sides the first D / H columns of a projection belong to the first head, so the heads need no reordering.

These functions work on NumPy arrays; PyTorch itself is not needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from minitransformer.arrays import Array, to_numpy
from minitransformer.console import mismatch
from minitransformer.nn import ModelOptions, check_sizes


class _Pair(NamedTuple):
    """One parameter: its name here, its names in PyTorch (several if it is shared), and whether it is transposed."""

    ours: str
    theirs: tuple[str, ...]
    transposed: bool = False


_TABLES = ("source_embedding.weight", "target_embedding.weight", "generator.weight")

# For each stack: its attentions, here and there, and how many layer norms a layer has.
_STACKS = {
    "encoder": ({"self_attention": "self_attn"}, 2),
    "decoder": ({"self_attention": "self_attn", "cross_attention": "multihead_attn"}, 3),
}


def to_pytorch(state: Mapping[str, Array], n_heads: int, zero_biases: bool = False) -> dict[str, Array]:
    """Return the parameters of a ``Transformer`` under PyTorch's names and in its layouts.

    Parameters
    ----------
    state : mapping of str to array
        The result of ``Transformer.state_dict()``.
    n_heads : int
        H, the model's number of heads.
    zero_biases : bool
        Whether to write zeros for attention's biases where the model has none. ``torch.nn.Transformer`` has such
        biases, unless all its biases are off, and its ``load_state_dict`` requires every name. By default they are left
        out.

    Returns
    -------
    dict of str to array
        Copies, each contiguous in memory. A shared embedding appears under each of its names.

    Raises
    ------
    ValueError
        If a name is missing or unknown, the norms have no bias (RMSNorm), a head's keys and values are not of size
        D / H or not its own, or the feed-forward networks have gates: PyTorch's Transformer has none of these.

    Notes
    -----
    A post-norm model ends without a layer norm, but ``torch.nn.Transformer`` puts one after each of its stacks. Remove
    them on that side, ``transformer.encoder.norm = transformer.decoder.norm = None``, or make the model here with
    ``final_norm=True``.

    PyTorch's side must place tokens and apply the activation as the model here does. For positions that work inside
    attention, rotary ones and ALiBi, ``torch.nn.Transformer`` has no place; the parameters do not tell them apart.

    Examples
    --------
    >>> from minitransformer.nn import Transformer, from_pytorch, to_pytorch
    >>> model = Transformer(7, 7, d_model=4, n_heads=2, n_layers=1, d_ff=8)
    >>> state = to_pytorch(model.state_dict(), n_heads=2)
    >>> state["transformer.encoder.layers.0.linear1.weight"].shape
    (8, 4)
    >>> model.load_state_dict(from_pytorch(state, n_heads=2))
    """
    attention_bias = any(name.endswith("_attention.b_in") for name in state)
    if any(name.endswith(".gain") for name in state) and not any(name.endswith("norm.bias") for name in state):
        raise ValueError(
            "to_pytorch: found norms with a gain and no bias (RMSNorm), expected layer norms: torch.nn.Transformer has "
            "no others; make the model with norm='post' or 'pre'"
        )
    pairs = [
        *_tables("target_embedding.table" not in state, "output" not in state, "output_bias" in state),
        *_positions("source_embedding.positions" in state or "target_embedding.positions" in state),
        *_stack("encoder", _count_layers(state, "encoder."), attention_bias, "encoder.final_norm.gain" in state),
        *_stack("decoder", _count_layers(state, "decoder."), attention_bias, "decoder.final_norm.gain" in state),
    ]
    _check_names("to_pytorch", {pair.ours for pair in pairs}, set(state))
    d_model = np.shape(state["source_embedding.table"])[-1]
    _check_heads("to_pytorch", d_model, n_heads)
    for name, array in state.items():
        layer, _, matrix = name.rpartition(".")
        if matrix == "w1" and array.shape[1] != len(state[f"{layer}.w2"]):
            raise ValueError(
                f"to_pytorch: {name} has {array.shape[1]} columns, expected {len(state[f'{layer}.w2'])}, as many as "
                "w2 has rows: torch.nn.Transformer has no gated feed-forward network; make the model without "
                "activation='swiglu'"
            )
        expected = {"w_in": (d_model, 3 * d_model), "w_out": (d_model, d_model)}.get(matrix)
        if expected is not None and array.shape != expected:
            raise ValueError(
                f"to_pytorch: {name} has shape {array.shape}, expected {expected}: PyTorch's attention has only "
                f"heads with d_k = d_v = d_model / n_heads = {d_model // n_heads}, each with keys of its own; make the "
                "model without d_k, d_v and n_kv_heads"
            )

    result = {}
    for pair in pairs:
        for name in pair.theirs:
            result[name] = _lay_out(state[pair.ours], pair.transposed)
            if zero_biases and not attention_bias and name.endswith(("in_proj_weight", "out_proj.weight")):
                zeros = np.zeros(len(result[name]), dtype=result[name].dtype)
                result[name.removesuffix("weight") + "bias"] = zeros
    return result


def from_pytorch(
    state: Mapping[str, Any],
    n_heads: int,
    norm: str = "post",
    share_embeddings: bool | str = True,
    attention_bias: bool = False,
    final_norm: bool | None = None,
    output_bias: bool = False,
) -> dict[str, Array]:
    """Convert parameters from PyTorch's names and layouts to those of ``Transformer.load_state_dict``.

    Parameters
    ----------
    state : mapping of str to array
        The parameters, named as ``to_pytorch`` names them, such as the ``state_dict`` of a PyTorch module on the CPU.
    n_heads : int
        H.
    norm, share_embeddings, attention_bias, final_norm, output_bias
        The options of the ``Transformer`` that will load the parameters, with the same defaults.

    Returns
    -------
    dict of str to array
        Copies, each contiguous in memory, without those that the model lacks: a second name of a shared embedding, and
        biases that are zero.

    Raises
    ------
    ValueError
        If a name is missing or unknown; if D is not divisible by H; if a bias that the model lacks is not zero; if
        embeddings to be shared differ; or if there is a layer norm after a stack and the model has none.

    Notes
    -----
    The names are the same whether PyTorch's model was made with ``norm_first=True`` (``norm="pre"`` here) or not, so
    ``norm`` must be right. PyTorch's default is ``norm="post"`` with ``final_norm=True``.
    """
    options = {"norm": norm, "share_embeddings": share_embeddings, "final_norm": final_norm, "output_bias": output_bias}
    ModelOptions.check(options)
    has_final_norm = norm == "pre" if final_norm is None else final_norm
    if norm == "post" and not has_final_norm:
        _refuse_final_norms(state)
    one_size = len({len(state[name]) for name in _TABLES if name in state}) == 1
    one_input = share_embeddings in ("all", "inputs") or (share_embeddings is True and one_size)
    pairs = [
        *_tables(one_input, share_embeddings in (True, "all", "target"), output_bias),
        *_positions("source_positions.weight" in state or "target_positions.weight" in state),
        *_stack("encoder", _count_layers(state, "transformer.encoder."), attention_bias, has_final_norm),
        *_stack("decoder", _count_layers(state, "transformer.decoder."), attention_bias, has_final_norm),
    ]
    known = {name for pair in pairs for name in pair.theirs}
    biases = ("in_proj_bias", "out_proj.bias", "generator.bias")
    extra_biases = {name for name in state if name not in known and name.endswith(biases)}
    needed = {next((name for name in pair.theirs if name in state), pair.theirs[0]) for pair in pairs}
    _check_names("from_pytorch", needed, set(state) - extra_biases, known)
    for name in sorted(extra_biases):
        _refuse_bias(name, state[name])
    d_model = np.shape(state[next(name for name in _TABLES if name in state)])[-1]
    _check_heads("from_pytorch", d_model, n_heads)

    result = {}
    for pair in pairs:
        names = [name for name in pair.theirs if name in state]
        for name in names:
            if not np.array_equal(to_numpy(state[name]), to_numpy(state[names[0]]), equal_nan=True):
                raise ValueError(
                    f"from_pytorch: {names[0]} and {name} differ, but share_embeddings={share_embeddings!r} makes them "
                    "one; choose share_embeddings='target' or False, here and for the Transformer"
                )
        result[pair.ours] = _lay_out(state[names[0]], pair.transposed)
    return result


def _tables(one_input: bool, output_is_target: bool, output_bias: bool) -> Iterator[_Pair]:
    """Yield embeddings and last linear layer; one without a table of its own is another name of the previous one."""
    source, target, output = (_TABLES[i : i + 1] for i in range(3))
    target += output if output_is_target else ()
    yield _Pair("source_embedding.table", source + target if one_input else source)
    if not one_input:
        yield _Pair("target_embedding.table", target)
    if not output_is_target:
        yield _Pair("output", output)
    if output_bias:
        yield _Pair("output_bias", ("generator.bias",))


def _positions(learned: bool) -> Iterator[_Pair]:
    for side in ("source", "target") if learned else ():
        yield _Pair(f"{side}_embedding.positions", (f"{side}_positions.weight",))


def _stack(stack: str, n_layers: int, attention_bias: bool, final_norm: bool) -> Iterator[_Pair]:
    """Yield the parameters of the encoder or the decoder."""
    attentions, n_norms = _STACKS[stack]
    for i in range(n_layers):
        ours, theirs = f"{stack}.layers.{i}", f"transformer.{stack}.layers.{i}"
        for here, there in attentions.items():
            yield _Pair(f"{ours}.{here}.w_in", (f"{theirs}.{there}.in_proj_weight",), transposed=True)
            yield _Pair(f"{ours}.{here}.w_out", (f"{theirs}.{there}.out_proj.weight",), transposed=True)
            if attention_bias:
                yield _Pair(f"{ours}.{here}.b_in", (f"{theirs}.{there}.in_proj_bias",))
                yield _Pair(f"{ours}.{here}.b_out", (f"{theirs}.{there}.out_proj.bias",))
        for k in (1, 2):
            yield _Pair(f"{ours}.feed_forward.w{k}", (f"{theirs}.linear{k}.weight",), transposed=True)
            yield _Pair(f"{ours}.feed_forward.b{k}", (f"{theirs}.linear{k}.bias",))
        for k in range(1, n_norms + 1):
            yield from _norm(f"{ours}.residual{k}.layer_norm", f"{theirs}.norm{k}")
    if final_norm:
        yield from _norm(f"{stack}.final_norm", f"transformer.{stack}.norm")


def _norm(ours: str, theirs: str) -> Iterator[_Pair]:
    yield _Pair(f"{ours}.gain", (f"{theirs}.weight",))
    yield _Pair(f"{ours}.bias", (f"{theirs}.bias",))


def _count_layers(state: Mapping[str, Any], prefix: str) -> int:
    prefix += "layers."
    return len({name.removeprefix(prefix).partition(".")[0] for name in state if name.startswith(prefix)})


def _lay_out(array: Any, transposed: bool) -> Array:
    """Return a copy in C order: safetensors, for one, writes other orders wrongly."""
    values = to_numpy(array)
    return np.array(values.T if transposed else values, order="C")


def _check_names(function: str, needed: set[str], found: set[str], known: set[str] | None = None) -> None:
    if names := mismatch(needed - found, found - (known or needed)):
        raise ValueError(
            f"{function}: these are not the weights of a Transformer: {names}; the expected names are in the "
            "documentation of minitransformer.apps.interop.pytorch_names"
        )


def _check_heads(function: str, d_model: int, n_heads: int) -> None:
    check_sizes(function, n_heads=n_heads)
    if d_model % n_heads:
        raise ValueError(
            f"{function}: d_model {d_model} is not divisible by n_heads {n_heads}, as PyTorch's attention requires; "
            "give the n_heads that the model was made with"
        )


def _refuse_final_norms(state: Mapping[str, Any]) -> None:
    found = sorted(name for stack in _STACKS for name in state if name.startswith(f"transformer.{stack}.norm."))
    if found:
        raise ValueError(
            f"from_pytorch: found {found}, but a model with norm='post' has no layer norm after its stacks by default. "
            "If PyTorch's was made with norm_first=True, choose norm='pre'; if not, final_norm=True; here and for the "
            "Transformer"
        )


def _refuse_bias(name: str, bias: Any) -> None:
    largest = float(np.abs(to_numpy(bias)).max(initial=0.0))
    if largest != 0:  # a NaN is not zero either
        option = "output_bias" if name.startswith("generator") else "attention_bias"
        raise ValueError(
            f"from_pytorch: {name} is not zero (its largest entry is ±{largest:.3g}), but the model has no such bias; "
            f"choose {option}=True, here and for the Transformer"
        )
