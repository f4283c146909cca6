"""A decoder alone as a folder that transformers opens: GPT2LMHeadModel, LlamaForCausalLM or Qwen2ForCausalLM.

The names are those of `decoders`. A model that was imported from Mistral is written as Llama's, which computes the
same. Tokens that a model has only here, such as padding, are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from minitransformer.apps.interop import writing
from minitransformer.apps.interop.decoders import CLASSES, parameters
from minitransformer.apps.interop.published import ACTIVATIONS
from minitransformer.arrays import Array
from minitransformer.data import END, START, UNKNOWN, TokenizerJson, read_tokenizer
from minitransformer.nn import ModelOptions
from minitransformer.runs import TrainedRun


def write_decoder(run: TrainedRun, out: Path) -> list[str]:
    """Write a run of a decoder alone, with its ``tokenizer.json`` and the rules of ``generate``.

    Raises
    ------
    ExportError
        If the model computes what theirs cannot, or its tokens are of another kind.
    RunError
        If the folder exists already, or cannot be written.
    """
    o, tokeniser = run.model.options, run.target
    kind = "gpt2" if o.norm != "rms" else "qwen2" if o.attention_bias == "inputs" else "llama"
    program, layout = CLASSES[kind], writing.PROGRAMS["gpt2" if kind == "gpt2" else "llama"]
    _check(program, layout, o)
    if not isinstance(tokeniser, TokenizerJson):
        raise writing.ExportError(
            f"{program} reads tokens of a tokenizer.json, found tokens of the kind {tokeniser.kind}; only a model that "
            "was imported with one, or trained on from one, can be written for it"
        )
    rows = np.array([tokeniser.ours[number] for number in range(max(tokeniser.ours) + 1)])
    state, window = run.model.state_dict(), run.options.data.window
    table, bias = state["target_embedding.table"], state.get("output_bias", np.zeros(len(tokeniser)))
    if bias[rows].any():
        raise writing.ExportError(
            f"{program} has no biases of logits, found some that were trained; this model cannot be written for it"
        )
    begin, end = tokeniser.specials[START], tokeniser.specials[END]
    if o.start_token and begin is None and (table[START] != table[END]).any():
        raise writing.ExportError(
            f"{program} has one token for start and end, found two with different embeddings; this model cannot be "
            "written for it"
        )
    special = {"bos": end if begin is None else begin, "eos": end}
    generation = {f"{name}_token_id": number for name, number in special.items()}
    generation |= tokeniser.kept.get("generation_config", {})  # more tokens may end a text there
    unknown = tokeniser.specials[UNKNOWN]
    if unknown is None and kind == "gpt2":  # as GPT-2's own files say; the converter of CTranslate2 needs one
        unknown = end
    tokenizer = read_tokenizer(tokeniser.model)
    optional = {
        "unk_token": None if unknown is None else tokenizer.id_to_token(unknown),
        "chat_template": tokeniser.kept.get("chat_template"),
    }
    files = {
        "config.json": {
            "architectures": [program],
            "model_type": kind,
            "vocab_size": len(rows),
            **{name: generation[name] for name in ("bos_token_id", "eos_token_id")},
            "tie_word_embeddings": "output" not in state,
            "dtype": o.dtype,
            **(_gpt2(o) if kind == "gpt2" else _llama(o, window)),
        },
        "generation_config.json": generation,
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": window,
            "clean_up_tokenization_spaces": False,
            **{f"{name}_token": tokenizer.id_to_token(number) for name, number in special.items()},
            **{name: value for name, value in optional.items() if value is not None},
        },
        "tokenizer.json": tokeniser.model.encode(),
    }
    writing.write_folder(out, files, dict(_tensors(layout, o, state, rows)))
    return [] if kind == "gpt2" else [f"config.json says that a text has at most {window:,} tokens, as this run does"]


def _check(program: str, layout: Mapping[str, Any], options: ModelOptions) -> None:
    """Raise an ExportError if the model computes what a class of transformers cannot."""
    sizes: list[tuple[str, Any, Any]] = [("d_v", options.value_size, options.key_size)]
    if layout["options"]["norm"] == "pre":
        sizes = [
            *writing.head_sizes(options),
            ("activation", options.activation, tuple(dict.fromkeys(ACTIVATIONS.values()))),
        ]
    elif not float(options.rotary_length).is_integer():
        sizes.append(("rotary_length", options.rotary_length, round(options.rotary_length)))
    options_there = [
        *((name, getattr(options, name), value) for name, value in layout["options"].items()),
        ("final_norm", options.has_final_norm, True),
        *sizes,
    ]
    writing.require_same(program, options, options_there, layout["carried"])


def _tensors(
    layout: Mapping[str, Any], options: ModelOptions, state: Mapping[str, Array], rows: Array
) -> Iterator[tuple[str, Array]]:
    """Yield the tensors by the names of a class of transformers."""
    prefix = layout["prefix"]
    yield prefix + layout["embedding"], state["target_embedding.table"][rows]
    if "output" in state:
        yield "lm_head.weight", state["output"][rows]
    if "positions" in layout:
        yield prefix + layout["positions"], state["target_embedding.positions"]
    for ours, theirs in parameters(layout, options):
        cuts = np.cumsum([shape[-1] for shape in theirs.values()])[:-1]
        for name, part in zip(theirs, np.split(state[ours], cuts, axis=-1), strict=True):
            yield prefix + name, part.T if layout["transposed"] else part


def _gpt2(o: ModelOptions) -> dict[str, Any]:
    theirs = {ours: name for name, ours in reversed(ACTIVATIONS.items())}
    return {
        "n_embd": o.d_model,
        "n_head": o.n_heads,
        "n_layer": o.decoder_layers,
        "n_inner": o.d_ff,
        "n_positions": o.max_length,
        "activation_function": theirs[o.activation],
        "layer_norm_epsilon": o.layer_norm_eps,
        **dict.fromkeys(("embd_pdrop", "resid_pdrop"), o.dropout),
        "attn_pdrop": 0.0,
    }


def _llama(o: ModelOptions, window: int) -> dict[str, Any]:
    turns = {
        "rope_type": "llama3",
        "factor": o.rotary_factor,
        "low_freq_factor": o.rotary_low,
        "high_freq_factor": o.rotary_high,
        "original_max_position_embeddings": int(o.rotary_length),
    }
    return {
        "hidden_size": o.d_model,
        "num_attention_heads": o.n_heads,
        "num_key_value_heads": o.kv_heads,
        "head_dim": o.key_size,
        "num_hidden_layers": o.decoder_layers,
        "intermediate_size": o.d_ff,
        "hidden_act": "silu",
        "attention_bias": o.attention_bias is True,
        "rms_norm_eps": o.layer_norm_eps,
        "rope_theta": o.rotary_base,
        "rope_scaling": turns if o.rotary_factor > 1 else None,
        "max_position_embeddings": window,
    }
