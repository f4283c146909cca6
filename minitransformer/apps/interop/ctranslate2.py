"""Models of CTranslate2, into which models of OpenNMT, Marian, Hugging Face and others are converted.

==========================================  ===========================================================================
``model.bin``                               options and weights; see `model_bin`
``config.json``                             the special tokens, from version 6 of ``model.bin`` on
``shared_vocabulary``, or                   the tokens in the order of their ids, ``.json`` or, one a line, ``.txt``
``source_vocabulary``, `target_vocabulary`
``source.spm``, ``target.spm``, or          sentencepiece models, if the converter's user has put them there; without
``sentencepiece.model``                     them texts are already split into tokens
==========================================  ===========================================================================

The names of the parameters, with the same layer numbers on both sides. Every matrix that multiplies from the right here
is transposed there; matrices of int8 or int16 are divided by ``weight_scale``, one number for each row or for all.

=================================================  ====================================================================
here                                               there
=================================================  ====================================================================
``source_embedding.table``                         ``encoder/embeddings_0/weight`` or ``encoder/embeddings/weight``
``target_embedding.table``                         ``decoder/embeddings/weight``
``source_embedding.positions``, ...                ``encoder/position_encodings/encodings``, ...
``output``, ``output_bias``                        ``decoder/projection/weight``, ``decoder/projection/bias``
``encoder.layers.0``, ``decoder.layers.0``, ...    ``encoder/layer_0``, ``decoder/layer_0``, ..., in which
``self_attention``, ``cross_attention``            ``self_attention``, ``attention``, in which
``w_in`` (D, 3 D)                                  ``linear_0/weight`` (3 D, D), or for ``attention`` (D, D) and
                                                   ``linear_1/weight`` (2 D, D)
``w_out``                                          the last ``linear_``
``feed_forward.w1``, ``feed_forward.w2``           ``ffn/linear_0/weight``, ``ffn/linear_1/weight``
``residual1.layer_norm``, ...                      ``layer_norm`` in ``self_attention``, ``attention`` and ``ffn``, in
``gain``, ``bias``                                 which ``gamma``, ``beta``
``encoder.final_norm``, ``decoder.final_norm``     ``encoder/layer_norm``, ``decoder/layer_norm``
=================================================  ====================================================================

Ids. There is no padding there, and the start token may be written. So here padding is a new token, unless there is
``<pad>``; and the start is a copy of theirs, unless it is ``<start>``, or a row of zeros if the decoder starts from
zeros. Neither is ever written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from minitransformer.apps.interop.model_bin import Variables, read_model_bin
from minitransformer.apps.interop.published import OurIds, Published, arrange, find_sinusoidal, read_pieces
from minitransformer.apps.interop.reading import Fields, read_tokens, require_folder, shown
from minitransformer.apps.interop.writing import PROGRAMS
from minitransformer.arrays import Array
from minitransformer.data import PAD, SPECIALS, START, Characters, Tokeniser, Words
from minitransformer.files import FileError

ACTIVATIONS = {0: "relu", 1: "gelu_tanh", 2: "silu", 3: "gelu", 4: "quick_gelu"}
"""Our name of each activation."""
HEADS = {"TransformerBase": 8, "TransformerBig": 16, "TransformerSpec": 8}
"""The specifications that are opened, and their number of heads where the file has none."""
REVISIONS = range(2, 8)
OFF = ("encoder/multi_query_attention", "decoder/alibi", "decoder/scale_alibi")
"""Features that models here lack: such a variable may only be there with the value that switches it off."""
NO_EFFECT = {
    f"{stack}{name}"
    for stack in ("", "encoder/", "decoder/")
    for name in ("alignment_layer", "alignment_heads", "embeddings_merge", "alibi_use_positive_positions")
}
"""Variables that change no translation: the heads shown as an alignment, and options of features that are off."""
SEARCH = PROGRAMS["ctranslate2-search"]
"""The defaults of ``Translator.translate_batch``."""


class Parameter(NamedTuple):
    """One of our parameters of a layer, and the variables there that hold it, side by side."""

    ours: str
    theirs: tuple[tuple[str, str], ...]
    """The name of each, and its axes there: D for the model's features, F for the inner ones, "3D" for 3 D x D."""
    optional: bool = False
    """Whether zeros take its place if it is missing."""


def parameters(n_encoder_layers: int, n_decoder_layers: int) -> Iterator[Parameter]:
    """Yield the parameters of the layers of both stacks."""
    attentions = {"self_attention": "self_attention", "cross_attention": "attention"}
    for stack, n_layers, places in (
        ("encoder", n_encoder_layers, ["self_attention"]),
        ("decoder", n_decoder_layers, list(attentions)),
    ):
        for i in range(n_layers):
            ours, theirs = f"{stack}.layers.{i}", f"{stack}/layer_{i}"
            for place in places:
                there = f"{theirs}/{attentions[place]}/linear"
                together = (("0", "3"),) if place == "self_attention" else (("0", "1"), ("1", "2"))
                for name, kind, axes in (("w", "weight", "D"), ("b", "bias", "")):
                    parts = tuple((f"{there}_{number}/{kind}", size + axes) for number, size in together)
                    last = f"{there}_{len(together)}/{kind}"
                    yield Parameter(f"{ours}.{place}.{name}_in", parts, kind == "bias")
                    yield Parameter(f"{ours}.{place}.{name}_out", ((last, f"D{axes}"),), kind == "bias")
            for k, axes in ((1, "FD"), (2, "DF")):
                there = f"{theirs}/ffn/linear_{k - 1}"
                yield Parameter(f"{ours}.feed_forward.w{k}", ((f"{there}/weight", axes),))
                yield Parameter(f"{ours}.feed_forward.b{k}", ((f"{there}/bias", axes[0]),), True)
            for k, place in enumerate([*(attentions[place] for place in places), "ffn"], start=1):
                yield from layer_norm(f"{ours}.residual{k}.layer_norm", f"{theirs}/{place}/layer_norm")


def layer_norm(ours: str, theirs: str) -> Iterator[Parameter]:
    """Yield the parameters of a layer norm."""
    for here, there in (("gain", "gamma"), ("bias", "beta")):
        yield Parameter(f"{ours}.{here}", ((f"{theirs}/{there}", "D"),))


def read_ctranslate2(folder: Path) -> Published:
    """Read a folder of CTranslate2.

    Raises
    ------
    FileError
        If a file is missing or damaged, files do not belong together, or models here cannot compute what it computes.
    MissingExtraError
        If there are sentencepiece models, but sentencepiece is not installed.
    """
    require_folder(folder, "give the one that holds model.bin")
    variables = Variables(read_model_bin(folder / "model.bin"))
    _check_specification(variables)
    special, epsilon = _special_tokens(folder, variables)
    source, target = _vocabularies(folder, special)
    model = _options(variables)
    state: dict[str, Array] = {}
    lengths = {"D": variables.shape(_source_table(variables))[-1], "F": 0}
    lengths["F"] = variables.shape("encoder/layer_0/ffn/linear_0/weight")[0]
    model |= {"d_model": lengths["D"], "d_ff": lengths["F"], "layer_norm_eps": epsilon}
    if lengths["D"] % model["n_heads"]:
        raise variables.error(f"{lengths['D']} features and {model['n_heads']} heads", "a multiple of the heads")
    model |= _positions(variables, state, lengths["D"])
    model |= _tables(variables, state, lengths["D"], source, target)
    wanted = list(parameters(model["n_layers"], model["n_decoder_layers"]))
    if model["final_norm"]:
        for stack in ("encoder", "decoder"):
            wanted += layer_norm(f"{stack}.final_norm", f"{stack}/layer_norm")
    biases = [one for one in wanted if "attention.b" in one.ours]
    model["attention_bias"] = any(name in variables.left for one in biases for name, _ in one.theirs)
    for one in wanted:
        if model["attention_bias"] or one not in biases:
            state[one.ours] = _parameter(variables, one, lengths)
    _refuse_others(variables)
    model["source_end"] = special.source_end
    tokenisers = _tokenisers(folder, source, target)
    notes = []
    if target.rows[PAD] >= 0:
        notes.append("padding is never written here")
    if not model["source_end"]:
        notes.append("no end token follows a source; if the model was trained with one, import it from its program")
    if isinstance(tokenisers[0], Words):
        notes.append("there is no sentencepiece model: write source texts as tokens with spaces between")
    return Published(model=model, state=state, source=tokenisers[0], target=tokenisers[1], search=SEARCH, notes=notes)


def _check_specification(variables: Variables) -> None:
    """Raise a FileError if it is another kind of model."""
    name, revision = variables.contents.specification, variables.contents.revision
    if name not in HEADS or revision not in REVISIONS:
        raise variables.error(
            f"the specification {shown(name)} of revision {revision}",
            f"{' or '.join(HEADS)} of revision {REVISIONS[0]} to {REVISIONS[-1]}",
        )


def _parameter(variables: Variables, one: Parameter, lengths: Mapping[str, int]) -> Array:
    """Return one of our parameters."""
    parts = []
    for name, axes in one.theirs:
        shape = tuple(lengths["D"] * int(axis) if axis.isdigit() else lengths[axis] for axis in axes)
        missing = one.optional and name not in variables.left
        parts.append((np.zeros(shape, np.float32) if missing else variables.floats(name, shape)).T)
    return np.require(np.concatenate(parts, axis=-1), requirements="C")


def _refuse_others(variables: Variables) -> None:
    """Raise a FileError if there are variables that have not been read, and have an effect."""
    for name in OFF:
        if variables.scalar(name, 0):
            raise variables.error(f"{name} switched on", "a model without")
    others = sorted(variables.left.keys() - NO_EFFECT)
    if others:
        raise variables.error(f"other variables, {shown(others)}", "none of them")


class _Special(NamedTuple):
    """The special tokens of a model."""

    unknown: str
    end: str
    start: str | None
    """None if the decoder starts from zeros."""
    source_end: bool
    """Whether a source has an end."""


def _special_tokens(folder: Path, variables: Variables) -> tuple[_Special, float]:
    """Return the special tokens, and ε of layer norm."""
    old = variables.contents.version < 6
    config = Fields(folder / "config.json", optional=old)
    epsilon = config.number("layer_norm_epsilon", 1e-5)
    if not epsilon:
        raise config.error("layer_norm_epsilon", "a number above 0")
    # only Marian's decoders do, and its sources have an end, which the tokeniser of Hugging Face appends there
    zeros = bool(variables.scalar("decoder/start_from_zero_embedding", 0))
    if old:
        unknown, bos, end = (
            variables.text(f"{name}_token", usual)
            for name, usual in (("unk", "<unk>"), ("bos", "<s>"), ("eos", "</s>"))
        )
        flags = {
            name: bool(variables.scalar(name, usual))
            for name, usual in (
                ("with_source_bos", 0), ("with_source_eos", 0), ("with_target_bos", 1), ("user_decoder_start_tokens", 0)
            )
        }  # fmt: skip
        if flags["with_source_bos"] or flags["user_decoder_start_tokens"]:
            raise variables.error("sources that begin with a start token, or no start of the target", "neither")
        start = bos if flags["with_target_bos"] else end
        return _Special(unknown, end, None if zeros else start, zeros or flags["with_source_eos"]), epsilon
    config.require("add_source_bos", False, why="no start token precedes a source here")
    start = config.text("decoder_start_token", "")
    if not start and not zeros:
        raise config.error("decoder_start_token", "a token: here it is not given with each text")
    unknown, end = config.text("unk_token", "<unk>"), config.text("eos_token", "</s>")
    source_end = config.boolean("add_source_eos", False)
    return _Special(unknown, end, None if zeros else start, zeros or source_end), epsilon


def _vocabularies(folder: Path, special: _Special) -> tuple[OurIds, OurIds]:
    """Return the vocabularies of source and target; one object if they are one."""
    shared = read_tokens(folder, "shared")
    if shared is not None:
        both = _arrange(*shared, special, special.start, True)
        return both, both
    source, target = read_tokens(folder, "source"), read_tokens(folder, "target")
    if source is None or target is None:
        raise FileError(
            f"{folder} has neither shared_vocabulary nor source_vocabulary and target_vocabulary, as .json or .txt"
        )
    return (_arrange(*source, special, None, special.source_end), _arrange(*target, special, special.start, True))


def _arrange(path: Path, tokens: list[str], special: _Special, start: str | None, needs_end: bool) -> OurIds:
    """Put a vocabulary into our order."""
    if special.unknown not in tokens:
        tokens = [*tokens, special.unknown]
    needed = [token for token in (start, special.end if needs_end else None) if token not in (None, *tokens)]
    if needed:
        raise FileError(f"{path} has no {shown(needed[0])}, expected the tokens of the start and the end")
    own_start = SPECIALS[START] if special.start == SPECIALS[START] else None  # a model that was exported here
    ids = {"pad": SPECIALS[PAD], "start": own_start, "end": special.end, "unknown": special.unknown}
    numbers: dict[str, Any] = {name: tokens.index(token) if token in tokens else None for name, token in ids.items()}
    ordered = arrange(tokens, where=path, **numbers)
    return ordered if start in (None, own_start) else ordered.with_start(tokens.index(start))


def _source_table(variables: Variables) -> str:
    """Return the name of the source embedding."""
    first, several = "encoder/embeddings/weight", "encoder/embeddings_0/weight"
    return several if several in variables.left else first


def _options(variables: Variables) -> dict[str, Any]:
    """Return the options of the model that do not depend on its sizes."""
    layers = [
        next(i for i in count() if f"{stack}/layer_{i}/ffn/linear_0/weight" not in variables.left)
        for stack in ("encoder", "decoder")
    ]
    if not all(layers):
        raise variables.error(f"{layers[0]} and {layers[1]} layers", "1 or more in encoder and decoder")
    heads = variables.of_both("num_heads", HEADS[variables.contents.specification])
    if not isinstance(heads, int) or heads < 1:
        raise variables.error(f"{heads} heads", "1 or more")
    activation = variables.of_both("activation", 0)
    if activation not in ACTIVATIONS:
        raise variables.error(f"the activation {activation}", f"one of {ACTIVATIONS}")
    norms = [f"{stack}/layer_norm/gamma" in variables.left for stack in ("encoder", "decoder")]
    if norms[0] != norms[1]:
        raise variables.error("a layer norm after one stack only", "one after both, or none")
    return {
        "n_layers": layers[0],
        "n_decoder_layers": layers[1],
        "n_heads": heads,
        "norm": "pre" if variables.of_both("pre_norm", 1) else "post",
        "final_norm": norms[0],
        "activation": ACTIVATIONS[activation],
        "output_bias": True,
    }


def _scaled(variables: Variables, d_model: int) -> bool:
    """Return whether embeddings are multiplied by sqrt(D)."""
    found = set()
    for stack, table in (("encoder", _source_table(variables)), ("decoder", "decoder/embeddings/weight")):
        older = f"{table.removesuffix('/weight')}/multiply_by_sqrt_depth"
        name = f"{stack}/scale_embeddings" if f"{stack}/scale_embeddings" in variables.left else older
        is_flag = name not in variables.left or variables.left[name].dtype.kind == "i"
        scale = variables.scalar(name, 1)
        if not is_flag and scale != 1 and abs(scale / d_model**0.5 - 1) > 1e-3:
            raise variables.error(f"{name} {scale}", f"1, or {d_model**0.5:.7g}, the square root of the features")
        found.add(bool(scale) if is_flag else scale != 1)
    if len(found) > 1:
        raise variables.error("embeddings multiplied in one stack only", "in both, or in none")
    return found.pop()


def _positions(variables: Variables, state: dict[str, Array], d_model: int) -> dict[str, Any]:
    """Return the options of positions; learned ones are added to the state."""
    found: list[dict[str, Any]] = []
    for stack, side in (("encoder", "source"), ("decoder", "target")):
        name = f"{stack}/position_encodings/encodings"
        if name not in variables.left:  # then they are computed
            found.append({"position_layout": "halves", "position_scale": "d_model-2", "first_position": 1})
            continue
        table = variables.floats(name, (variables.shape(name)[0], d_model))
        found.append(find_sinusoidal(table, variables.contents.variables[name].dtype) or {"positions": "learned"})
        if "positions" in found[-1]:
            found[-1] |= {"max_length": len(table), "longest": len(table) - 1}
            state[f"{side}_embedding.positions"] = table
    if found[0] != found[1]:
        raise variables.error("other positions in the decoder", "those of the encoder: both must have one kind here")
    return found[0]


def _tables(
    variables: Variables, state: dict[str, Array], d_model: int, source: OurIds, target: OurIds
) -> dict[str, Any]:
    """Add the embeddings and the last layer to the state; return the options that they decide."""
    scaled = _scaled(variables, d_model)

    def take(name: str, ids: OurIds) -> Array:
        rows, n = variables.shape(name)[0], int(ids.rows.max()) + 1
        if rows != n:
            raise variables.error(f"{rows:,} tokens in {name}", f"{n:,}, as in the vocabulary")
        return ids.table(variables.floats(name, (n, d_model)))

    tables = [
        take(_source_table(variables), source),
        take("decoder/embeddings/weight", target),
        take("decoder/projection/weight", target),
    ]
    n = int(target.rows.max()) + 1
    bias = "decoder/projection/bias"
    state["output_bias"] = target.bias(variables.floats(bias, (n,)) if bias in variables.left else np.zeros(n, "f4"))
    same_inputs = source is target and np.array_equal(tables[0], tables[1])
    same_target = np.array_equal(tables[1], tables[2])
    state["source_embedding.table"] = tables[0]
    if not same_inputs:
        state["target_embedding.table"] = tables[1]
    if not same_target:
        state["output"] = tables[2]
    share = {(True, True): "all", (True, False): "inputs", (False, True): "target", (False, False): False}
    return {"share_embeddings": share[same_inputs, same_target], "scale_embeddings": scaled}


def _tokenisers(folder: Path, source: OurIds, target: OurIds) -> tuple[Tokeniser, Tokeniser]:
    """Return the tokenisers: pieces if there are sentencepiece models, else characters or words."""
    for names in (("source.spm", "target.spm"), ("sentencepiece.model", "sentencepiece.model")):
        paths = [folder / name for name in names]
        if all(path.exists() for path in paths):
            first = read_pieces(paths[0], source)
            one = source is target and paths[0] == paths[1]
            return first, first if one else read_pieces(paths[1], target)
    made = [_split(folder, ids.vocabulary.tokens) for ids in (source, target)]
    first = made[0](source.vocabulary)
    return first, first if source is target else made[1](target.vocabulary)


def _split(folder: Path, tokens: Sequence[str]) -> Any:
    """Return the kind of tokeniser for these tokens."""
    own = [token for token in tokens if not (token.startswith("<") and token.endswith(">"))]
    if any("\N{LOWER ONE EIGHTH BLOCK}" in token for token in own):
        raise FileError(
            f"{folder} has pieces of sentencepiece as tokens, but no sentencepiece model; put it there as source.spm "
            "and target.spm, or as sentencepiece.model if it is one for both"
        )
    if own and all(len(token) == 1 for token in own):
        return Characters
    marker = "@@" if any(token.endswith("@@") for token in own) else ""
    return lambda vocabulary: Words(vocabulary, marker)
