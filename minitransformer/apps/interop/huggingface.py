"""Models of Hugging Face's library transformers: folders of its class MarianMTModel, as OPUS-MT publishes them.

=======================================  ======================================================================
``config.json``                          sizes and options of the model
``model.safetensors``                    the weights
``vocab.json``                           the id of each piece; ``target_vocab.json`` as well if there are two
``source.spm``, ``target.spm``           the sentencepiece models of both languages
``tokenizer_config.json``                the names of the special tokens (optional)
``generation_config.json``               the rules of the search; in older folders they are in ``config.json``
=======================================  ======================================================================

The names of the parameters, with the same layer numbers on both sides:

=====================================================  ====================================================
here                                                   there
=====================================================  ====================================================
``source_embedding.table``                             ``model.shared.weight``, or if not shared
                                                       ``model.encoder.embed_tokens.weight``
``target_embedding.table``                             ``model.decoder.embed_tokens.weight``
``output``, ``output_bias``                            ``lm_head.weight``, ``final_logits_bias`` (1, V)
``encoder.layers.0``, ``decoder.layers.0``, ...        ``model.encoder.layers.0``, ..., in which
``self_attention``, ``cross_attention``                ``self_attn``, ``encoder_attn``, in which
``w_in`` (D, 3 D), ``b_in``                            ``q_proj``, ``k_proj``, ``v_proj``: three of (D, D)
``w_out``, ``b_out``                                   ``out_proj``
``residual1.layer_norm`` of an attention, ...          ``self_attn_layer_norm``, ``encoder_attn_layer_norm``
the last ``layer_norm`` of a layer                     ``final_layer_norm``
``feed_forward.w1``, ``feed_forward.w2``               ``fc1.weight``, ``fc2.weight``
=====================================================  ====================================================

Every matrix that multiplies from the right here is transposed there; tables of embeddings are not.

Ids. Here padding is 0, the start 1, the end 2, unknown 3; there they have other ids, and the start is often the padding
token. So the vocabulary is put into another order, and a start token is added if there is none of its own: a copy of
the token that starts a sentence there, which is never written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from minitransformer import ops
from minitransformer.apps.interop.decoders import CLASSES, read_decoder
from minitransformer.apps.interop.published import OurIds, Published, activation_of, arrange, read_pieces
from minitransformer.apps.interop.reading import Fields, Tensors, read_ids, read_weights, require_folder, shown
from minitransformer.apps.interop.writing import PROGRAMS
from minitransformer.arrays import Array, to_numpy
from minitransformer.data import START
from minitransformer.files import FileError

SAME_HERE: Mapping[str, Sequence[Any]] = PROGRAMS["huggingface-options"]
"""What older configurations say, and what MarianMTModel computes."""
NO_RULE: Mapping[str, Sequence[Any]] = PROGRAMS["huggingface-rules"]
"""Rules of a search that this program lacks, with the values that switch them off."""


class Parameter(NamedTuple):
    """One of our parameters, and the tensors there that hold it, side by side."""

    ours: str
    theirs: tuple[str, ...]
    transposed: bool = False
    axes: str = "D"
    """Its axes here, of which D is the model's features: "VD", "D3" for D x 3 D, and so on."""


def parameters(n_encoder_layers: int, n_decoder_layers: int) -> Iterator[Parameter]:
    """Yield the parameters of the layers of both stacks."""
    for stack, n_layers, attentions in (
        ("encoder", n_encoder_layers, {"self_attention": "self_attn"}),
        ("decoder", n_decoder_layers, {"self_attention": "self_attn", "cross_attention": "encoder_attn"}),
    ):
        for i in range(n_layers):
            ours, theirs = f"{stack}.layers.{i}", f"model.{stack}.layers.{i}"
            for here, there in attentions.items():
                projections = [f"{theirs}.{there}.{letter}_proj" for letter in "qkv"]
                for name, kind in (("w", "weight"), ("b", "bias")):
                    matrix = name == "w"
                    three = tuple(f"{projection}.{kind}" for projection in projections)
                    yield Parameter(f"{ours}.{here}.{name}_in", three, matrix, "D3" if matrix else "3")
                    one = (f"{theirs}.{there}.out_proj.{kind}",)
                    yield Parameter(f"{ours}.{here}.{name}_out", one, matrix, "HD" if matrix else "D")
            for k, axes in ((1, "DF"), (2, "FD")):
                yield Parameter(f"{ours}.feed_forward.w{k}", (f"{theirs}.fc{k}.weight",), True, axes)
                yield Parameter(f"{ours}.feed_forward.b{k}", (f"{theirs}.fc{k}.bias",), False, axes[1])
            norms = [f"{there}_layer_norm" for there in attentions.values()] + ["final_layer_norm"]
            for k, norm in enumerate(norms, start=1):
                yield Parameter(f"{ours}.residual{k}.layer_norm.gain", (f"{theirs}.{norm}.weight",))
                yield Parameter(f"{ours}.residual{k}.layer_norm.bias", (f"{theirs}.{norm}.bias",))


def read_huggingface(folder: Path) -> Published:
    """Read a folder of MarianMTModel.

    Raises
    ------
    FileError
        If a file is missing or damaged, files do not belong together, or models here cannot compute what it computes.
    MissingExtraError
        If sentencepiece is not installed.
    """
    require_folder(folder, "give the one that holds config.json and model.safetensors")
    config = Fields(folder / "config.json")
    for names in PROGRAMS["same-fields"]:
        config.agree(*names)
    kind = config.text("model_type", "none")
    if kind != "marian" and kind not in CLASSES:
        raise config.error("model_type", f"marian, {', '.join(CLASSES)}: other architectures cannot be imported")
    for name in config.texts("architectures"):
        if not re.sub("^(TF|Flax)", "", name).lower().startswith(kind):
            raise config.error("architectures", f"those of {kind}, as model_type says; remove the wrong one")
    if kind in CLASSES:
        return read_decoder(folder, config)
    for name, allowed in SAME_HERE.items():
        config.require(name, *allowed, why="MarianMTModel computes nothing else")
    generation = folder / "generation_config.json"
    rules = Fields(generation) if generation.exists() else config
    source, target = _vocabularies(folder, config, rules)
    take = Tensors("MarianMTModel", *read_weights(folder, "MarianMTModel"))
    sizes = {
        "d_model": config.integer("d_model", at_least=1),
        "n_heads": _same(config, "attention_heads", at_least=1),
        "n_layers": config.integer("encoder_layers", at_least=1, at_most=len(take.left)),
        "n_decoder_layers": config.integer("decoder_layers", at_least=1, at_most=len(take.left)),
        "d_ff": _same(config, "ffn_dim", at_least=1),
    }
    if sizes["d_model"] % sizes["n_heads"]:
        raise config.error("d_model", f"a multiple of the {sizes['n_heads']} attention heads")
    state, share = _state(take, config, sizes, source, target)
    search, notes = _search(rules, target, config)
    model = {
        **sizes,
        "dropout": config.number("dropout", 0.1, below=1),
        "share_embeddings": share,
        "scale_embeddings": config.boolean("scale_embedding", False),
        "attention_bias": True,
        "output_bias": True,
        "activation": activation_of(config, "gelu"),
        "position_layout": "halves",
        "dtype": str(state["output_bias"].dtype),
    }
    pieces = [read_pieces(folder / name, ids) for name, ids in (("source.spm", source), ("target.spm", target))]
    return Published(model=model, state=state, source=pieces[0], target=pieces[1], search=search, notes=notes)


def _same(config: Fields, name: str, **limits: int) -> int:
    """Return a size that encoder and decoder must have in common."""
    sizes = [config.integer(f"{stack}_{name}", **limits) for stack in ("encoder", "decoder")]
    if sizes[0] != sizes[1]:
        raise config.error(f"decoder_{name}", f"{sizes[0]}, as in the encoder: both must have one number here")
    return sizes[0]


def _vocabularies(folder: Path, config: Fields, rules: Fields) -> tuple[OurIds, OurIds]:
    """Return the vocabularies of source and target; one object if they are one."""
    names = Fields(folder / "tokenizer_config.json", optional=True)
    separate = names.boolean("separate_vocabs", False)
    path = folder / "vocab.json"
    source, ids = read_ids(path), {}
    for meaning, name, usual in (
        ("pad", "pad_token", "<pad>"), ("end", "eos_token", "</s>"), ("unknown", "unk_token", "<unk>"),
    ):  # fmt: skip
        token = names.text(name, usual)
        if token not in source:
            raise FileError(f"{path} has no {shown(token)}, expected the token for {meaning}")
        ids[meaning] = source.index(token)
    given = {"pad": _token(config, rules, "pad_token_id"), "end": _token(config, rules, "eos_token_id")}
    start = _token(config, rules, "decoder_start_token_id")
    _check_size(config, "vocab_size", path, source)
    if not separate:
        _check_size(config, "decoder_vocab_size", path, source)
        for meaning, number in given.items():
            if ids[meaning] != number:
                raise FileError(
                    f"{path} has the id {ids[meaning]} for {meaning}, expected {number}, as {config.path.name} says"
                )
        both = arrange(source, start=start, where=path, **ids)
        return both, both
    path, target = folder / "target_vocab.json", read_ids(folder / "target_vocab.json")
    _check_size(config, "decoder_vocab_size", path, target)
    unknown = names.text("unk_token", "<unk>")
    if unknown not in target:
        raise FileError(f"{path} has no {shown(unknown)}, expected the token for unknown")
    ordered = arrange(target, start=start, unknown=target.index(unknown), where=path, **given)
    first = source.index(target[start]) if target[start] in source else ids["pad"]
    return arrange(source, start=first, where=folder / "vocab.json", **ids), ordered


def _token(config: Fields, rules: Fields, name: str) -> int:
    """Return the id of a special token; the rules of the search come first, as in ``generate``."""
    fields = rules if rules.has(name) else config
    value = fields.values.get(name)
    if isinstance(value, list) and len(value) == 1:
        [value] = value
    if not isinstance(value, int) or isinstance(value, bool):
        raise fields.error(name, "the id of one token")
    return value


def _check_size(config: Fields, name: str, path: Path, tokens: Sequence[str]) -> None:
    size = config.integer(name, config.integer("vocab_size"))
    if size != len(tokens):
        raise FileError(f"{path} has {len(tokens):,} tokens, expected {size:,}, as {name} in {config.path.name} says")


def _state(
    take: Tensors, config: Fields, sizes: Mapping[str, int], source: OurIds, target: OurIds
) -> tuple[dict[str, Array], Any]:
    """Return the parameters by our names, and what they share; the tensors are used up."""
    path, tensors = take.path, take.left
    d_model, d_ff = sizes["d_model"], sizes["d_ff"]

    def table(names: Sequence[str], ids: OurIds) -> Array:
        """Return a table in our order that may have several names; they must hold the same."""
        shape = (len(ids.rows) - ids.start_is_copy, d_model)
        found = [take(name, *shape) for name in names if name in tensors] or [take(names[0], *shape)]
        for other in found[1:]:
            if not np.array_equal(other, found[0]):
                raise FileError(f"{path}: {' and '.join(names)} differ, but {config.path.name} says they are one")
        return found[0][ids.rows]

    _check_positions(path, tensors, d_model)
    encoder, decoder = (f"model.{stack}.embed_tokens.weight" for stack in ("encoder", "decoder"))
    last, shared, state = "lm_head.weight", "model.shared.weight", {}
    tied = config.boolean("tie_word_embeddings", True)
    both = config.boolean("share_encoder_decoder_embeddings", True)
    if both and source is not target:
        raise config.error("share_encoder_decoder_embeddings", "false, as there are two vocabularies")
    if both and not tied and (unused := tensors.pop(shared, None)) is not None:
        for name in (encoder, decoder):  # newer versions do not share it then, older ones do
            tensors.setdefault(name, unused)
    if both and tied:
        share: Any = "all"
        state["source_embedding.table"] = table([shared, encoder, decoder, last], source)
    else:
        share = "target" if tied else False
        state["source_embedding.table"] = table([encoder], source)
        state["target_embedding.table"] = table([decoder, last] if tied else [decoder], target)
    if not tied:
        state["output"] = table([last], target)
        if source is target and np.array_equal(state["source_embedding.table"], state["target_embedding.table"]):
            share = "inputs"
            del state["target_embedding.table"]
    size = len(target.rows) - target.start_is_copy
    bias = take("final_logits_bias", 1, size)[0] if "final_logits_bias" in tensors else np.zeros(size, take.dtype)
    state["output_bias"] = target.bias(bias)
    lengths = {"D": d_model, "F": d_ff, "3": d_model, "H": d_model}
    for one in parameters(sizes["n_layers"], sizes["n_decoder_layers"]):
        shape = tuple(lengths[axis] for axis in one.axes)
        parts = [take(name, *(shape[::-1] if one.transposed else shape)) for name in one.theirs]
        state[one.ours] = np.concatenate([part.T if one.transposed else part for part in parts], axis=-1)
    take.finish()
    return {name: np.require(array, requirements="C") for name, array in state.items()}, share


def _check_positions(path: Path, tensors: dict[str, Array], d_model: int) -> None:
    """Remove the tables of positions, which older files hold; they must be the sinusoids."""
    for name in [f"model.{stack}.embed_positions.weight" for stack in ("encoder", "decoder")]:
        if (found := tensors.pop(name, None)) is None:
            continue
        if found.ndim != 2 or found.shape[1] != d_model:
            raise FileError(f"{path}: {name} has shape {found.shape}, expected (positions, {d_model})")
        waves = to_numpy(ops.sinusoidal_positions(len(found), d_model, layout="halves"))
        if np.abs(found - waves).max(initial=0) > (1e-2 if found.dtype == np.float16 else 1e-5):
            raise FileError(f"{path}: {name} does not hold the sines and cosines of positions")


def _search(rules: Fields, target: OurIds, config: Fields) -> tuple[dict[str, Any], list[str]]:
    """Return the options of our search that find what ``generate`` finds, and notes on differences."""
    for name, allowed in NO_RULE.items():
        rules.require(name, *allowed, why="the search here has no such rule; remove it from the file")
    notes = []
    end, pad = _token(config, rules, "eos_token_id"), _token(config, rules, "pad_token_id")
    early = rules.values.get("early_stopping") or False
    if early not in (False, True, "never"):
        raise rules.error("early_stopping", "true, false or never")
    search: dict[str, Any] = {
        "beam": rules.integer("num_beams", 1, at_least=1),
        "alpha": rules.number("length_penalty", 1.0),
        "penalty": "length",
        "full_beam": True,
        "stop": {False: "heuristic", True: "full", "never": "exact"}[early],
        "renormalise": rules.boolean("renormalize_logits", False),
    }
    if rules.has("max_new_tokens"):
        search["most_written"] = rules.integer("max_new_tokens", at_least=1)
    elif rules.has("max_length"):
        search["most_written"] = rules.integer("max_length", at_least=2) - 1  # the start token counts there
    else:
        notes.append(
            "no max_length is given: a translation may be 50 tokens longer than its source; transformers stops at 20"
        )
    if rules.has("forced_eos_token_id"):
        if _token(rules, rules, "forced_eos_token_id") != end:
            raise rules.error("forced_eos_token_id", f"{end}, the id of the end")
        search["force_end"] = True
    else:
        notes.append("a translation that is cut off at the limit ranks below all that have ended")
    forbidden = _forbidden(rules, len(target.rows) - target.start_is_copy)
    never = {pad} if target.start_is_copy else {pad, int(target.rows[START])}
    if not never <= forbidden:
        notes.append("padding and the start are never written, though bad_words_ids does not forbid both")
    others = sorted(target.ours(number) for number in forbidden - never)
    if others and not search["renormalise"]:
        raise rules.error("bad_words_ids", "only padding and the start, or renormalize_logits true")
    return {**search, "forbidden": others or None}, notes


def _forbidden(rules: Fields, size: int) -> set[int]:
    """Return the ids that ``bad_words_ids`` forbids."""
    words = rules.values.get("bad_words_ids") or []
    found = set()
    for word in words if isinstance(words, list) else [None]:
        if not isinstance(word, list) or len(word) != 1 or type(word[0]) is not int or not 0 <= word[0] < size:
            raise rules.error("bad_words_ids", f"lists of one id each, from 0 to {size - 1}")
        found.add(word[0])
    return found
