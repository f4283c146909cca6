"""A trained run as a folder of MarianMTModel, which transformers opens; the names are those of `huggingface`.

Positions. MarianMTModel adds all sines first, then all cosines; the paper alternates them. Both are the same up to an
order of the D features, and nothing else in the model depends on their order: a product sums over all of them, and
layer norm treats all alike. So every axis of features is put into the other order, and the logits stay the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minitransformer.apps.interop import writing
from minitransformer.apps.interop.huggingface import parameters
from minitransformer.apps.interop.published import ACTIVATIONS
from minitransformer.apps.interop.to_decoders import write_decoder
from minitransformer.arrays import Array
from minitransformer.data import END, PAD, START, UNKNOWN, Tokeniser
from minitransformer.decoding import SearchOptions
from minitransformer.nn import LanguageModel, ModelOptions
from minitransformer.runs import TrainedRun

LONGEST = 512
"""The most tokens of a translation with its start, where the run has no limit of its own."""
POSITIONS = 1024
"""How many positions transformers computes; longer sentences fail there."""


def write_huggingface(run: TrainedRun, out: Path) -> list[str]:
    """Write a run as a folder of MarianMTModel, or a decoder alone as one of GPT-2 or Llama (see `to_decoders`).

    Parameters
    ----------
    run : TrainedRun
        The run.
    out : Path
        The folder; it may not exist yet, or must be empty.

    Returns
    -------
    list of str
        Notes on what differs there.

    Raises
    ------
    ExportError
        If the model computes what theirs cannot.
    RunError
        If the folder exists already, or cannot be written.
    """
    if isinstance(run.model, LanguageModel):
        return write_decoder(run, out)
    options = run.transformer.options
    _check(options)
    state = run.transformer.state_dict()
    tensors = dict(_tensors(state, options))
    writing.require_carried("MarianMTModel", run.options.search, writing.CARRIED_RULES)
    generation, notes = _generation(run.options.search)
    files: dict[str, Any] = {"config.json": _config(run, state), "generation_config.json": generation}
    models, kinds = writing.sentencepiece_models(run)
    if models:
        files |= _vocabularies(run.source, run.target)
    else:
        notes.append(f"transformers has no tokeniser for tokens of the kind {kinds}: give it the ids of this run")
    writing.write_folder(out, files | models, tensors)
    return notes


def _check(options: ModelOptions) -> None:
    """Raise an ExportError if the model computes what MarianMTModel cannot."""
    options_there = (
        ("norm", options.norm, "post"),
        ("final_norm", options.has_final_norm, False),
        ("positions", options.positions, "sinusoidal"),
        ("activation", options.activation, tuple(dict.fromkeys(ACTIVATIONS.values()))),
        ("first_position", options.first_position, 0),
        ("position_scale", options.position_scale, "d_model"),
        ("source_end", options.source_end, True),
        ("layer_norm_eps", options.layer_norm_eps, 1e-5),
        *writing.head_sizes(options),
    )
    writing.require_same("MarianMTModel", options, options_there)


def _tensors(state: Mapping[str, Array], options: ModelOptions) -> Iterator[tuple[str, Array]]:
    """Yield the tensors by the names of MarianMTModel."""
    d_model = options.d_model
    order = np.arange(d_model)
    if options.position_layout == "interleaved":  # the sines are the even features
        order = np.concatenate((order[0::2], order[1::2]))
    source = state["source_embedding.table"][:, order]
    if "target_embedding.table" not in state and "output" not in state:
        yield "model.shared.weight", source
        n_target = len(source)
    else:
        target = state.get("target_embedding.table", state["source_embedding.table"])[:, order]
        yield "model.encoder.embed_tokens.weight", source
        yield "model.decoder.embed_tokens.weight", target
        if "output" in state:
            yield "lm_head.weight", state["output"][:, order]
        n_target = len(target)
    bias = state.get("output_bias", np.zeros(n_target, source.dtype))
    yield "final_logits_bias", bias[None]
    for one in parameters(options.n_layers, options.decoder_layers):
        if one.ours in state:
            value = _permuted(state[one.ours], one.axes, order)
        else:  # attention without biases
            value = np.zeros(d_model * len(one.theirs), source.dtype)
        for name, part in zip(one.theirs, np.split(value, len(one.theirs), axis=-1), strict=True):
            yield name, part.T if one.transposed else part


def _permuted(value: Array, axes: str, order: NDArray[np.int64]) -> Array:
    """Return a parameter with its features in another order."""
    return value.take(order, axis=axes.index("D")) if "D" in axes else value


def _config(run: TrainedRun, state: Mapping[str, Array]) -> dict[str, Any]:
    options = run.transformer.options
    stacks = {"encoder": options.n_layers, "decoder": options.decoder_layers}
    sizes = {"attention_heads": options.n_heads, "ffn_dim": options.d_ff}
    theirs = {ours: name for name, ours in reversed(ACTIVATIONS.items())}
    return {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "is_encoder_decoder": True,
        "d_model": options.d_model,
        **{f"{stack}_{name}": value for stack in stacks for name, value in sizes.items()},
        **{f"{stack}_layers": n_layers for stack, n_layers in stacks.items()},
        "activation_function": theirs[options.activation],
        "scale_embedding": options.scale_embeddings,
        "dropout": options.dropout,
        "attention_dropout": 0.0,
        "activation_dropout": 0.0,
        "share_encoder_decoder_embeddings": not {"target_embedding.table", "output"} & state.keys(),
        "tie_word_embeddings": "output" not in state,
        "static_position_embeddings": True,
        "max_position_embeddings": POSITIONS,
        "vocab_size": len(run.source),
        "decoder_vocab_size": len(run.target),
        "pad_token_id": PAD,
        "decoder_start_token_id": START,
        "bos_token_id": START,
        "eos_token_id": END,
        "forced_eos_token_id": END if run.options.search.force_end else None,
        "dtype": options.dtype,
    }


def _generation(rules: SearchOptions) -> tuple[dict[str, Any], list[str]]:
    """Return the rules of ``generate`` that find what the search here finds, and notes on differences."""
    notes = []
    if rules.most_written is None:
        notes.append(f"a translation has at most {LONGEST - 1} tokens there, here 50 more than its source")
    found: dict[str, Any] = {
        "pad_token_id": PAD,
        "decoder_start_token_id": START,
        "eos_token_id": END,
        "bad_words_ids": [[token] for token in (PAD, START, *(rules.forbidden or ()))],
        "renormalize_logits": rules.renormalise,
        "max_length": LONGEST if rules.most_written is None else rules.most_written + 1,
        "forced_eos_token_id": END if rules.force_end else None,
        "num_beams": 1,
    }
    if rules.least_written:
        found["min_length"] = rules.least_written + 1  # with the start
    differences = {
        "has another length penalty": rules.penalty != "length",
        "keeps as many live hypotheses": not rules.full_beam,
        "counts a translation that is cut off less": rules.limit_ends,
        "loses the probability of an end that comes too early": rules.least_written and not rules.renormalise,
    }
    if any(differences.values()):
        differs = ", and ".join(words for words, is_there in differences.items() if is_there)
        return found, [*notes, f"greedy search writes the same there; beam search {differs}"]
    early = {"exact": "never", "heuristic": False, "full": True}[rules.stop]
    return found | {"num_beams": rules.beam, "length_penalty": rules.alpha, "early_stopping": early}, notes


def _vocabularies(source: Tokeniser, target: Tokeniser) -> dict[str, Any]:
    """Return the files that hold the ids of tokens, and the one with the names of the special tokens."""
    separate = source.tokens != target.tokens
    files: dict[str, Any] = {"vocab.json": {token: number for number, token in enumerate(source.tokens)}}
    if separate:
        files["target_vocab.json"] = {token: number for number, token in enumerate(target.tokens)}
    files["tokenizer_config.json"] = {
        "tokenizer_class": "MarianTokenizer",
        "separate_vocabs": separate,
        "pad_token": source.tokens[PAD],
        "eos_token": source.tokens[END],
        "unk_token": source.tokens[UNKNOWN],
        "model_max_length": LONGEST,
        "clean_up_tokenization_spaces": False,
    }
    return files
