"""Decoders alone of Hugging Face's library transformers: GPT-2 and the family of Llama.

====================  ==========================================  ==================================================
here                  GPT-2 (``transformer.`` may come first)     Llama, Mistral, Qwen2 (``model.`` comes first)
====================  ==========================================  ==================================================
``target_embedding``  ``wte.weight``, ``wpe.weight``              ``embed_tokens.weight``
``decoder.layers.0``  ``h.0``, in which                           ``layers.0``, in which
``self_attention``    ``attn.c_attn``, ``attn.c_proj``            ``self_attn.q_proj``, ``k_proj``, ``v_proj``,
                                                                  ``o_proj``
``feed_forward.w1``   ``mlp.c_fc``                                ``mlp.gate_proj`` and ``mlp.up_proj``
``feed_forward.w2``   ``mlp.c_proj``                              ``mlp.down_proj``
``residual1``         ``ln_1``                                    ``input_layernorm``
``residual3``         ``ln_2``                                    ``post_attention_layernorm``
``decoder.norm``      ``ln_f``                                    ``norm``
``output``            ``lm_head.weight``, or the embedding        ``lm_head.weight``, or the embedding
====================  ==========================================  ==================================================

Every matrix that multiplies from the right here is transposed in Llama's files, and in GPT-2's is not. A token that a
model lacks here (padding, unknown) has a row of zeros and is never written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from minitransformer.apps.interop.published import OurIds, Published, activation_of
from minitransformer.apps.interop.reading import Fields, Tensors, read_weights, shown
from minitransformer.apps.interop.writing import PROGRAMS
from minitransformer.arrays import Array
from minitransformer.data import START, UNKNOWN, TokenizerJson, Vocabulary, order, read_tokenizer
from minitransformer.files import FileError, read_file
from minitransformer.nn import ModelOptions
from minitransformer.options import OptionError

CLASSES: Mapping[str, str] = PROGRAMS["decoders"]
"""The architectures of decoders alone, and their classes."""
NOT_LEARNED = (".attn.bias", ".attn.masked_bias", "rotary_emb.inv_freq")
"""The last parts of the names of tensors that hold nothing learned: causal masks and frequencies."""
LONGEST = 2048
"""The most tokens that are read at a time; more would need memory that grows with their square."""


def read_decoder(folder: Path, config: Fields) -> Published:
    """Read a folder of GPT2LMHeadModel, LlamaForCausalLM, MistralForCausalLM or Qwen2ForCausalLM.

    Raises
    ------
    FileError
        If a file is missing or damaged, files do not belong together, or models here cannot compute what it computes.
    MissingExtraError
        If tokenizers is not installed.
    """
    kind = config.text("model_type")
    options, layout = (_gpt2(config), PROGRAMS["gpt2"]) if kind == "gpt2" else (_llama(config, kind), PROGRAMS["llama"])
    take, size = Tensors(CLASSES[kind], *read_weights(folder, CLASSES[kind])), config.integer("vocab_size", at_least=1)
    if size not in (rows := [len(array) for name, array in take.left.items() if name.endswith(layout["embedding"])]):
        raise config.error("vocab_size", f"that of {layout['embedding']}, {rows}")
    rules = Fields(folder / "generation_config.json", optional=True)
    ends = _tokens(rules, "eos_token_id", size) or _tokens(config, "eos_token_id", size)
    tokens = _tokeniser(folder, config, size, ends)
    tokens[0].keep(_kept(folder, rules, ends))
    longest = options.get("max_length", config.integer("max_position_embeddings", LONGEST))
    return build_decoder(take, layout, options, tokens, longest, config.path)


def build_decoder(
    take: Tensors,
    layout: Mapping[str, Any],
    options: Mapping[str, Any],
    tokens: tuple[TokenizerJson, OurIds, bool],
    longest: int,
    where: Path,
) -> Published:
    """Return a decoder alone whose tensors have the names of a class of transformers.

    Parameters
    ----------
    take : Tensors
        The weights.
    layout : mapping
        Their names, from ``programs.toml``.
    options : mapping of str to value
        The options of the model that the layout does not give.
    tokens : TokenizerJson, OurIds, bool
        The tokens, their order here, and whether a text begins with the start token.
    longest : int
        The most tokens that it reads at a time there.
    where : Path
        The file that messages about options name.

    Raises
    ------
    FileError
        If models here cannot compute what it computes, or a tensor is missing or left over.
    """
    options, (tokeniser, ids, begins) = {**options, **layout["options"]}, tokens
    try:
        state = _take(take, layout, ModelOptions().changed(**options), ids)
    except OptionError as error:
        raise FileError(f"{where}: {error}") from error
    model = {**options, "dropout": 0.0, "output_bias": True, "start_token": begins}
    window = min(longest, LONGEST)
    own_start = tokeniser.specials[START] is not None
    never = ["the start token, as in <s>, is never written here; transformers may write it"] if own_start else []
    return Published(
        model={**model, "window": window, "dtype": take.dtype},
        state={name: np.require(array, requirements="C") for name, array in state.items()},
        source=tokeniser,
        target=tokeniser,
        notes=[f"at most {window:,} tokens are read at a time", *never],
        decoder_only=True,
    )


def _gpt2(config: Fields) -> dict[str, Any]:
    """Return the options of GPT-2."""
    why = "GPT2LMHeadModel computes something else then"
    for name, value in (("scale_attn_weights", True), ("scale_attn_by_inverse_layer_idx", False)):
        config.require(name, value, why=why)
    config.require("add_cross_attention", False, why=why)
    d_model = config.integer("n_embd", at_least=1)
    return {
        "d_model": d_model,
        "n_heads": config.integer("n_head", at_least=1),
        "n_layers": config.integer("n_layer", at_least=1, at_most=10_000),
        "d_ff": config.integer("n_inner", 4 * d_model, at_least=1),
        "max_length": config.integer("n_positions", at_least=2),
        "activation": activation_of(config, "gelu_new"),
        "layer_norm_eps": config.number("layer_norm_epsilon", 1e-5),
        "share_embeddings": config.boolean("tie_word_embeddings", True),
    }


def _llama(config: Fields, kind: str) -> dict[str, Any]:
    """Return the options of Llama's family."""
    config.require("mlp_bias", False, why="gated feed-forward layers here have no biases")
    config.require("hidden_act", "silu", why="gated feed-forward layers here use silu")
    config.require("use_sliding_window", False, why="queries here attend to all positions before them")
    if any(layer != "full_attention" for layer in config.texts("layer_types")):
        raise config.error("layer_types", "full_attention only: queries here attend to all positions before them")
    longest = config.integer("max_position_embeddings", LONGEST, at_least=2)
    if kind == "mistral" and config.integer("sliding_window", longest) < min(longest, LONGEST):
        raise config.error(
            "sliding_window", f"null or at least {longest:,}: queries here attend to all positions before them"
        )
    heads = config.integer("num_attention_heads", at_least=1)
    size = config.integer("head_dim", config.integer("hidden_size") // heads, at_least=1)
    return {
        "d_model": config.integer("hidden_size", at_least=1),
        "n_heads": heads,
        "n_kv_heads": config.integer("num_key_value_heads", heads, at_least=1),
        "d_k": size,
        "d_v": size,
        "n_layers": config.integer("num_hidden_layers", at_least=1, at_most=10_000),
        "d_ff": config.integer("intermediate_size", at_least=1),
        **_frequencies(config),
        "attention_bias": "inputs" if kind == "qwen2" else config.boolean("attention_bias", False),
        "layer_norm_eps": config.number("rms_norm_eps", 1e-6),
        "share_embeddings": config.boolean("tie_word_embeddings", False),
    }


def _frequencies(config: Fields) -> dict[str, float]:
    """Return the options of rotary positions, which newer versions keep together in ``rope_parameters``."""
    names = ("rope_parameters", "rope_scaling")
    given = (fields for fields in (*map(config.inside, names), config) if fields.has("rope_theta"))
    base = next(given, config).number("rope_theta", 10000.0)
    newer, older = (_frequencies_of(config, name, base) for name in names)
    if newer and older and newer != older:
        raise config.error("rope_scaling", "null, or what rope_parameters says; remove the wrong one")
    config.require("partial_rotary_factor", 1, why="rotary positions here turn all features")
    return newer or older or {"rotary_base": base}


def _frequencies_of(config: Fields, name: str, base: float) -> dict[str, float]:
    """Return the options of rotary positions in an object of the configuration; none if it is missing."""
    fields = config.inside(name)
    if not fields.values:
        return {}
    fields.agree("rope_type", "type")
    for shared in ("rope_theta", "original_max_position_embeddings"):
        if fields.has(shared) and config.has(shared) and fields.values[shared] != config.values[shared]:
            raise config.error(shared, f"{shown(fields.values[shared])}, as {name} says; remove the wrong one")
    fields.require("partial_rotary_factor", 1, why="rotary positions here turn all features")
    for other in fields.values.keys() - PROGRAMS["rotary"]:
        fields.require(other, why=f"this field of {name} cannot be imported")
    base = fields.number("rope_theta", base)
    kind = fields.text("rope_type", fields.text("type", "default"))
    if kind == "default":
        return {"rotary_base": base}
    if kind != "llama3":
        raise config.error(name, "none, or of the type llama3")
    return {
        "rotary_base": base,
        "rotary_factor": fields.number("factor"),
        "rotary_low": fields.number("low_freq_factor"),
        "rotary_high": fields.number("high_freq_factor"),
        "rotary_length": fields.number("original_max_position_embeddings"),
    }


def _tokeniser(folder: Path, config: Fields, size: int, ends: Sequence[int]) -> tuple[TokenizerJson, OurIds, bool]:
    """Return the tokens, their order here, and whether a text begins with the start token."""
    path = folder / "tokenizer.json"
    if not path.exists():
        raise FileError(f"there is no file {path}; save the tokenizer of the model there with a recent transformers")
    try:
        text = read_file(path).decode()
        tokenizer = read_tokenizer(text)
    except ValueError as error:
        raise FileError(f"{path}: {error}") from error
    if (last := max(tokenizer.get_vocab(with_added_tokens=True).values(), default=0)) >= size:
        raise FileError(f"{path} has tokens up to {last:,}, expected ids below {size:,}, the vocab_size")
    starts = _tokens(config, "bos_token_id", size)
    if not ends:
        raise config.error("eos_token_id", f"an id below {size:,}")
    end, start = ends[0], (starts or ends)[0]
    unknown = getattr(tokenizer.model, "unk_token", None)
    unknown = tokenizer.token_to_id(unknown) if unknown else None
    return arrange_tokens(tokenizer, text, size, start, end, unknown, path)


def arrange_tokens(
    tokenizer: Any, text: str, size: int, start: int, end: int, unknown: int | None, where: Path
) -> tuple[TokenizerJson, OurIds, bool]:
    """Return the tokens of a ``tokenizer.json``, their order here, and whether a text begins with the start token.

    Parameters
    ----------
    tokenizer : tokenizers.Tokenizer
        What `read_tokenizer` makes of the file.
    text : str
        The contents of the file.
    size : int
        The number of tokens that the model has; those without a name are never read.
    start, end, unknown : int
        The ids there; the start may be the end.
    where : Path
        The file that messages name.

    Raises
    ------
    FileError
        If a token has the name of one of our specials, or no text can be encoded.
    """
    names = {number: token for token, number in tokenizer.get_vocab(with_added_tokens=True).items()}
    specials = [None, start if start != end else None, end, unknown if unknown not in (start, end) else None]
    rows = order(size, specials)
    try:
        words = [names.get(number, f"<unused {number}>") for number in rows[UNKNOWN + 1 :]]
        vocabulary = Vocabulary(["<unk>", *words])
        tokeniser = TokenizerJson(text, vocabulary, specials)
        begins = tokenizer.encode("a").ids[:1] == [start]
    except ValueError as error:
        raise FileError(f"{where}: {error}") from error
    ids = OurIds(vocabulary, np.array(rows), False)
    return tokeniser, ids if start != end else ids.with_start(end), begins


def _kept(folder: Path, rules: Fields, ends: Sequence[int]) -> dict[str, Any]:
    """Return what other files say of texts: the rules of ``generate`` with all ids that end one, the chat template."""
    template = folder / "chat_template.jinja"
    chat = Fields(folder / "tokenizer_config.json", optional=True).values.get("chat_template")
    if template.exists():
        try:
            chat = read_file(template).decode()
        except UnicodeDecodeError as error:
            raise FileError(f"{template} is not UTF-8: {error}") from error
    return {
        "generation_config": {**rules.values, "eos_token_id": ends if len(ends) > 1 else ends[0]},
        "chat_template": chat,
    }


def _tokens(fields: Fields, name: str, size: int) -> list[int]:
    """Return the ids of a special token: none, one or several."""
    value = fields.values.get(name)
    found = value if isinstance(value, list) else [] if value is None else [value]
    if not all(type(one) is int and 0 <= one < size for one in found):
        raise fields.error(name, f"an id below {size:,}")
    return found


def _take(take: Tensors, layout: Mapping[str, Any], options: ModelOptions, ids: OurIds) -> dict[str, Array]:
    """Return all parameters by our names."""
    take.left = {name.removeprefix(layout["prefix"]): array for name, array in take.left.items()}
    d_model, size, tied = options.d_model, int(ids.rows.max()) + 1, options.share_embeddings
    take.left = {name: array for name, array in take.left.items() if not name.endswith(NOT_LEARNED)}
    embedding = take(layout["embedding"], size, d_model)
    head = None if tied and "lm_head.weight" not in take.left else take("lm_head.weight", size, d_model)
    if tied and head is not None and (head != embedding).any():
        raise FileError(
            f"{take.path}: found an lm_head.weight other than {layout['embedding']}, expected the same, as config.json "
            "says with tie_word_embeddings true (its default in GPT-2); change it to false"
        )
    state = {"target_embedding.table": ids.table(embedding)}
    if head is not None and not tied:
        state["output"] = ids.table(head)
    state["output_bias"] = ids.bias(np.zeros(size, take.dtype))
    if options.positions == "learned":
        state["target_embedding.positions"] = take(layout["positions"], options.max_length, d_model)
    turn = -1 if layout["transposed"] else 1
    for ours, theirs in parameters(layout, options):
        parts = [take(name, *shape[::turn]) for name, shape in theirs.items()]
        state[ours] = np.concatenate([part.T if turn < 0 else part for part in parts], axis=-1)
    take.finish()
    return state


def parameters(layout: Mapping[str, Any], options: ModelOptions) -> Iterator[tuple[str, dict[str, tuple[int, ...]]]]:
    """Yield each parameter of the layers, and the tensors that hold it side by side, with the shape of each part."""
    d_model, d_ff, n_heads, n_groups = options.d_model, options.d_ff, options.n_heads, options.kv_heads
    projections = n_heads * options.key_size, n_groups * options.key_size, n_groups * options.value_size
    inner = (d_ff, d_ff) if options.activation == "swiglu" else (d_ff,)
    affine: dict[str, tuple[int, tuple[int, ...], Any]] = {
        "self_attention.{}_in": (d_model, projections, options.attention_bias),
        "self_attention.{}_out": (n_heads * options.value_size, (d_model,), options.attention_bias is True),
        "feed_forward.{}1": (d_model, inner, options.feed_forward_bias),
        "feed_forward.{}2": (d_ff, (d_model,), options.feed_forward_bias),
    }
    norms = [("decoder.final_norm", layout["final_norm"])]
    for i in range(options.decoder_layers):
        for name, modules in layout["layer"].items():
            ours, theirs = f"decoder.layers.{i}.{name}", [f"{layout['layers']}.{i}.{module}" for module in modules]
            if name not in affine:
                norms.append((ours, theirs[0]))
                continue
            inputs, outputs, biased = affine[name]
            sizes = dict(zip(theirs, outputs if len(theirs) > 1 else [sum(outputs)], strict=True))
            yield ours.format("w"), {f"{one}.weight": (inputs, n) for one, n in sizes.items()}
            if biased:
                yield ours.format("b"), {f"{one}.bias": (n,) for one, n in sizes.items()}
    for ours, there in norms:
        yield f"{ours}.gain", {f"{there}.weight": (d_model,)}
        if options.norm != "rms":
            yield f"{ours}.bias", {f"{there}.bias": (d_model,)}
