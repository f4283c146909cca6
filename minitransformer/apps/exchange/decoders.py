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

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from minitransformer.apps.exchange.published import OurIds, Published, activation_of
from minitransformer.apps.exchange.reading import Fields, read_weights, shown
from minitransformer.arrays import Array
from minitransformer.data import UNKNOWN, TokenizerJson, Vocabulary, order, read_tokenizer
from minitransformer.files import FileError, read_file

LONGEST = 2048
"""The most tokens that are read at a time; more would need memory that grows with their square."""


def read_decoder(folder: Path, config: Fields) -> Published:
    """Read a folder of GPT2LMHeadModel, LlamaForCausalLM, MistralForCausalLM or Qwen2ForCausalLM.

    Raises
    ------
    FileError
        If a file is missing or damaged, files do not belong together, or the model computes what ours cannot.
    MissingExtraError
        If tokenizers is not installed.
    """
    kind = config.text("model_type")
    options = _gpt2(config) if kind == "gpt2" else _llama(config, kind)
    size = config.integer("vocab_size", at_least=1)
    tokeniser, ids, begins = _tokeniser(folder, config, size)
    where, tensors = read_weights(folder, "AutoModelForCausalLM")
    take = _Tensors(where, tensors)
    state: dict[str, Array] = {}
    (_take_gpt2 if kind == "gpt2" else _take_llama)(take, state, options, ids)
    take.finish()
    model = {**options, "dropout": 0.0, "output_bias": True, "scale_embeddings": False, "start_token": begins}
    window = min(options.get("max_length", config.integer("max_position_embeddings", LONGEST)), LONGEST)
    return Published(
        model={**model, "window": window, "dtype": take.dtype},
        state={name: np.require(array, requirements="C") for name, array in state.items()},
        source=tokeniser,
        target=tokeniser,
        notes=[f"at most {window:,} tokens are read at a time"],
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
        "norm": "pre",
        "positions": "learned",
        "max_length": config.integer("n_positions", at_least=2),
        "attention_bias": True,
        "activation": activation_of(config, "gelu_new"),
        "layer_norm_eps": config.number("layer_norm_epsilon", 1e-5),
        "share_embeddings": config.boolean("tie_word_embeddings", True),
    }


def _llama(config: Fields, kind: str) -> dict[str, Any]:
    """Return the options of Llama's family."""
    config.require("mlp_bias", False, why="ours have biases in both feed-forward layers or none, and gates")
    config.require("hidden_act", "silu", why="the gates of ours are silu")
    config.require("use_sliding_window", False, why="our queries see all positions before them")
    longest = config.integer("max_position_embeddings", LONGEST, at_least=2)
    if kind == "mistral" and config.integer("sliding_window", longest) < min(longest, LONGEST):
        raise config.error("sliding_window", f"null or at least {longest:,}: our queries see all positions before them")
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
        "norm": "rms",
        "positions": "rotary",
        "position_layout": "halves",
        **_frequencies(config),
        "attention_bias": "inputs" if kind == "qwen2" else config.boolean("attention_bias", False),
        "feed_forward_bias": False,
        "activation": "swiglu",
        "layer_norm_eps": config.number("rms_norm_eps", 1e-6),
        "share_embeddings": config.boolean("tie_word_embeddings", False),
    }


def _frequencies(config: Fields) -> dict[str, float]:
    """Return the options of rotary positions, which newer versions keep together."""
    name = "rope_parameters" if config.has("rope_parameters") else "rope_scaling"
    scaling = config.values.get(name) or {}
    if not isinstance(scaling, Mapping):
        raise config.error(name, "an object")
    fields = Fields(config.path)
    fields.values = scaling
    base = fields.number("rope_theta", config.number("rope_theta", 10000.0))
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


def _tokeniser(folder: Path, config: Fields, size: int) -> tuple[TokenizerJson, OurIds, bool]:
    """Return the tokens, their order here, and whether a text begins with the start token."""
    path = folder / "tokenizer.json"
    if not path.exists():
        raise FileError(f"there is no file {path}; save the tokenizer of the model there with a recent transformers")
    try:
        text = read_file(path).decode()
        tokenizer = read_tokenizer(text)
    except ValueError as error:
        raise FileError(f"{path}: {error}") from error
    names = {number: token for token, number in tokenizer.get_vocab(with_added_tokens=True).items()}
    if max(names, default=0) >= size:
        raise FileError(f"{path} has tokens up to {max(names):,}, expected ids below {size:,}, the vocab_size")
    end, start = _token(config, "eos_token_id", size), _token(config, "bos_token_id", size)
    if end is None:
        raise config.error("eos_token_id", f"an id below {size:,}")
    start = end if start is None else start
    unknown = getattr(tokenizer.model, "unk_token", None)
    unknown = tokenizer.token_to_id(unknown) if unknown else None
    specials = [None, start if start != end else None, end, unknown if unknown not in (start, end) else None]
    rows = order(size, specials)
    try:
        words = [names.get(number, f"<unused {number}>") for number in rows[UNKNOWN + 1 :]]
        vocabulary = Vocabulary(["<unk>", *words])
        tokeniser = TokenizerJson(text, vocabulary, specials)
    except ValueError as error:
        raise FileError(f"{path}: {error}") from error
    begins = tokenizer.encode("a").ids[:1] == [start]
    ids = OurIds(vocabulary, np.array(rows), False)
    return tokeniser, ids if start != end else ids.with_start(end), begins


def _token(config: Fields, name: str, size: int) -> int | None:
    """Return the id of a special token, the first if there are several."""
    value = config.values.get(name)
    value = value[0] if isinstance(value, list) and value else value
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < size:
        raise config.error(name, f"an id below {size:,}")
    return value


class _Tensors:
    """The tensors of a model, each to be taken once."""

    def __init__(self, path: Path, tensors: dict[str, Array]) -> None:
        self.path = path
        for first in ("transformer.", "model."):
            tensors = {name.removeprefix(first): array for name, array in tensors.items()}
        self._left = tensors
        self.dtype = "float64" if any(array.dtype == np.float64 for array in tensors.values()) else "float32"

    def __call__(self, name: str, *shape: int) -> Array:
        if name not in self._left:
            raise FileError(f"{self.path} has no tensor {name}, expected one of shape {shape}")
        array = self._left.pop(name)
        if array.shape != shape:
            raise FileError(f"{self.path}: {name} has shape {array.shape}, expected {shape}")
        return array.astype(self.dtype)

    def drop(self, belongs: Callable[[str], bool]) -> None:
        """Forget tensors that hold nothing learned."""
        self._left = {name: array for name, array in self._left.items() if not belongs(name)}

    def finish(self) -> None:
        """Raise a FileError if a tensor was not taken."""
        if self._left:
            raise FileError(f"{self.path} has tensors that the model has not: {shown(sorted(self._left))}")


def _take_tables(take: _Tensors, state: dict[str, Array], options: Mapping[str, Any], ids: OurIds, name: str) -> None:
    """Take the embedding and the last layer."""
    size = int(ids.rows.max()) + 1
    table = take(name, size, options["d_model"])
    state["target_embedding.table"] = ids.table(table)
    take.drop(lambda one: one == "lm_head.weight" and options["share_embeddings"])
    if not options["share_embeddings"]:
        state["output"] = ids.table(take("lm_head.weight", size, options["d_model"]))
    state["output_bias"] = ids.bias(np.zeros(size, take.dtype))


def _take_gpt2(take: _Tensors, state: dict[str, Array], options: Mapping[str, Any], ids: OurIds) -> None:
    d, f = options["d_model"], options["d_ff"]
    take.drop(lambda name: name.endswith((".attn.bias", ".attn.masked_bias")))  # the causal mask
    _take_tables(take, state, options, ids, "wte.weight")
    state["target_embedding.positions"] = take("wpe.weight", options["max_length"], d)
    for i in range(options["n_layers"]):
        ours, theirs = f"decoder.layers.{i}", f"h.{i}"
        for name, there, shape in (
            ("self_attention.{}_in", "attn.c_attn", (d, 3 * d)),
            ("self_attention.{}_out", "attn.c_proj", (d, d)),
            ("feed_forward.{}1", "mlp.c_fc", (d, f)),
            ("feed_forward.{}2", "mlp.c_proj", (f, d)),
        ):
            state[f"{ours}.{name.format('w')}"] = take(f"{theirs}.{there}.weight", *shape)
            state[f"{ours}.{name.format('b')}"] = take(f"{theirs}.{there}.bias", shape[1])
        for k, norm in ((1, "ln_1"), (3, "ln_2")):
            _take_norm(take, state, f"{ours}.residual{k}.layer_norm", f"{theirs}.{norm}", d)
    _take_norm(take, state, "decoder.final_norm", "ln_f", d)


def _take_norm(take: _Tensors, state: dict[str, Array], ours: str, theirs: str, d: int, bias: bool = True) -> None:
    state[f"{ours}.gain"] = take(f"{theirs}.weight", d)
    if bias:
        state[f"{ours}.bias"] = take(f"{theirs}.bias", d)


def _take_llama(take: _Tensors, state: dict[str, Array], options: Mapping[str, Any], ids: OurIds) -> None:
    d, f, d_k = options["d_model"], options["d_ff"], options["d_k"]
    queries, keys = options["n_heads"] * d_k, options["n_kv_heads"] * d_k
    biased = options["attention_bias"]
    take.drop(lambda name: name.endswith("rotary_emb.inv_freq"))
    _take_tables(take, state, options, ids, "embed_tokens.weight")
    for i in range(options["n_layers"]):
        ours, theirs = f"decoder.layers.{i}", f"layers.{i}"
        inputs = [(f"{theirs}.self_attn.{letter}_proj", n) for letter, n in (("q", queries), ("k", keys), ("v", keys))]
        attention = f"{ours}.self_attention"
        state[f"{attention}.w_in"] = np.concatenate([take(f"{name}.weight", n, d).T for name, n in inputs], axis=1)
        state[f"{attention}.w_out"] = take(f"{theirs}.self_attn.o_proj.weight", d, queries).T
        if biased:
            state[f"{attention}.b_in"] = np.concatenate([take(f"{name}.bias", n) for name, n in inputs])
        if biased is True:
            state[f"{attention}.b_out"] = take(f"{theirs}.self_attn.o_proj.bias", d)
        gates = [take(f"{theirs}.mlp.{name}_proj.weight", f, d).T for name in ("gate", "up")]
        state[f"{ours}.feed_forward.w1"] = np.concatenate(gates, axis=1)
        state[f"{ours}.feed_forward.w2"] = take(f"{theirs}.mlp.down_proj.weight", d, f).T
        for k, norm in ((1, "input_layernorm"), (3, "post_attention_layernorm")):
            _take_norm(take, state, f"{ours}.residual{k}.layer_norm", f"{theirs}.{norm}", d, bias=False)
    _take_norm(take, state, "decoder.final_norm", "norm", d, bias=False)
