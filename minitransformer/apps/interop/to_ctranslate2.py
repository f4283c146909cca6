"""A trained run as a folder of CTranslate2, written by its own specifications; the names are those of `ctranslate2`.

Positions. CTranslate2 computes those of OpenNMT-tf; all others are written as a table.

Ids. All tokens keep theirs, so the log-probabilities stay the same. CTranslate2 needs an unknown token; where a
vocabulary has none, one is added that is never written. Padding and the start are tokens like others there. A model
that was trained here knows that they are never written. In a published one their probability is given to the other
tokens by their biases, as it is by CTranslate2's converters; so it is for a run whose search gives it to the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from minitransformer import ops
from minitransformer.apps.interop import writing
from minitransformer.apps.interop.ctranslate2 import ACTIVATIONS, SEARCH, layer_norm, parameters
from minitransformer.apps.interop.published import NEVER_WRITTEN
from minitransformer.arrays import Array, to_numpy
from minitransformer.data import END, PAD, START, MissingExtraError, Tokeniser
from minitransformer.decoding import SearchOptions
from minitransformer.nn import LanguageModel, ModelOptions
from minitransformer.runs import TrainedRun

QUANTIZATIONS = ("int8", "int16", "float16")
"""The types that weights may have instead of float32."""
POSITIONS = 1024
"""How many positions are written; CTranslate2 cuts longer sources off, unless it is told otherwise."""
ALSO_CARRIED = ("final_norm", "layer_norm_eps", "position_scale", "first_position", "source_end")
"""The options of a model that CTranslate2 computes too, beside those that every program does."""
LONGEST = 256
"""The most tokens of a translation, where the run has no limit of its own: CTranslate2's default."""


def write_ctranslate2(run: TrainedRun, out: Path, quantization: str | None = None) -> list[str]:
    """Write a run as a folder of CTranslate2.

    Parameters
    ----------
    run : TrainedRun
        The run.
    out : Path
        The folder; it may not exist yet, or must be empty.
    quantization : {"int8", "int16", "float16"}, optional
        The type of the weights; by default float32.

    Returns
    -------
    list of str
        Notes on what differs there.

    Raises
    ------
    ExportError
        If the model computes what CTranslate2 cannot.
    MissingExtraError
        If CTranslate2 is not installed.
    RunError
        If the folder exists already, or cannot be written.
    """
    if isinstance(run.model, LanguageModel):
        raise writing.ExportError(
            "found a model that continues texts, expected one that translates; if it has a tokenizer.json, write it "
            "with --to huggingface and convert that folder: ct2-transformers-converter --model FOLDER --output_dir NEW"
        )
    options = run.transformer.options
    options_there = (
        ("norm", options.norm, ("post", "pre")),
        ("positions", options.positions, ("sinusoidal", "learned")),
        ("activation", options.activation, tuple(ACTIVATIONS.values())),
        *writing.head_sizes(options),
    )
    writing.require_same("CTranslate2", options, options_there, ALSO_CARRIED)
    writing.require_carried("CTranslate2", run.options.search, writing.CARRIED_RULES)
    try:
        specs, model_spec = import_module("ctranslate2.specs"), import_module("ctranslate2.specs.model_spec")
    except ImportError as error:
        raise MissingExtraError("an export to CTranslate2", "ctranslate2", "models") from error
    models, kinds = writing.sentencepiece_models(run)
    with writing.new_folder(out) as aside:
        spec = _specification(specs, options)
        _add_vocabularies(spec, run)
        for name, value in _variables(run, _unknown(run)):
            part, _, attribute = name.rpartition("/")
            # a copy, which quantization overwrites
            setattr(model_spec.index_spec(spec, part), attribute, np.array(value, np.float32, order="C"))
        spec.validate()
        spec.optimize(quantization)
        spec.save(str(aside))
        for name, model in models.items():
            (aside / name).write_bytes(model)
    notes = (
        [] if models else [f"CTranslate2 has no tokeniser for tokens of the kind {kinds}: give it the tokens of a text"]
    )
    return notes + _search(run.options.search)


def _specification(specs: Any, options: ModelOptions) -> Any:
    """Return the specification of a model, without its weights."""
    theirs = {ours: number for number, ours in ACTIVATIONS.items()}
    spec = specs.TransformerSpec.from_config(
        (options.n_layers, options.decoder_layers),
        options.n_heads,
        pre_norm=True,  # only then there is a final norm
        no_final_norm=not options.has_final_norm,
        activation=specs.Activation(theirs[options.activation]),
    )
    for stack in (spec.encoder, spec.decoder):
        stack.pre_norm = options.norm == "pre"
        stack.scale_embeddings = options.scale_embeddings
    return spec


def _unknown(run: TrainedRun) -> str:
    """Return the unknown token: CTranslate2 has one for both sides."""
    named = [one.tokens[one.unknown] for one in (run.source, run.target) if one.unknown is not None]
    return named[0] if named else "<unk>"


def _add_vocabularies(spec: Any, run: TrainedRun) -> None:
    """Add the tokens of both sides, and which of them are special."""
    unknown = _unknown(run)
    for side, tokeniser in (("source", run.source), ("target", run.target)):
        tokens = [*tokeniser.tokens, *([] if unknown in tokeniser.tokens else [unknown])]
        getattr(spec, f"register_{side}_vocabulary")(tokens)
    config = {
        "unk_token": unknown,
        "bos_token": run.target.tokens[START],
        "eos_token": run.target.tokens[END],
        "decoder_start_token": run.target.tokens[START],
        "add_source_eos": run.transformer.options.source_end,
        "layer_norm_epsilon": run.transformer.options.layer_norm_eps,
    }
    for name, setting in config.items():
        setattr(spec.config, name, setting)


def _variables(run: TrainedRun, unknown: str) -> Iterator[tuple[str, Array]]:
    """Yield the weights by their names there."""
    options, state = run.transformer.options, run.transformer.state_dict()
    source = state["source_embedding.table"]
    target = state.get("target_embedding.table", source)
    bias = state.get("output_bias", np.zeros(len(target), target.dtype))
    never = [PAD, START, *(run.options.search.forbidden or ())]
    if run.options.search.renormalise or (bias[never] == NEVER_WRITTEN).any():
        bias[never] = NEVER_WRITTEN
    yield "encoder/embeddings_0/weight", _with_unknown(source, run.source, unknown, 0)
    yield "decoder/embeddings/weight", _with_unknown(target, run.target, unknown, 0)
    yield "decoder/projection/weight", _with_unknown(state.get("output", target), run.target, unknown, 0)
    yield "decoder/projection/bias", _with_unknown(bias, run.target, unknown, NEVER_WRITTEN)
    yield from _positions(state, options)
    wanted = [one for one in parameters(options.n_layers, options.decoder_layers) if one.ours in state]
    if options.has_final_norm:
        for stack in ("encoder", "decoder"):
            wanted += layer_norm(f"{stack}.final_norm", f"{stack}/layer_norm")
    for one in wanted:
        value = state[one.ours]
        sizes = [options.d_model * int(axes[0]) for _, axes in one.theirs] if len(one.theirs) > 1 else []
        cuts = list(accumulate(sizes))[:-1]
        for (name, _), part in zip(one.theirs, np.split(value, cuts, axis=-1), strict=True):
            yield name, part.T


def _with_unknown(rows: Array, tokeniser: Tokeniser, unknown: str, fill: float) -> Array:
    """Return rows of a vocabulary, and one more for the unknown token if it has none."""
    if unknown in tokeniser.tokens:
        return rows
    return np.concatenate((rows, np.full_like(rows[:1], fill)))


def _positions(state: Mapping[str, Array], options: ModelOptions) -> Iterator[tuple[str, Array]]:
    """Yield the tables of positions, unless CTranslate2 computes the same."""
    kind = (options.position_layout, options.position_scale, options.first_position)
    if options.positions == "sinusoidal" and kind == ("halves", "d_model-2", 1):
        return
    for stack, side in (("encoder", "source"), ("decoder", "target")):
        if options.positions == "learned":
            table = state[f"{side}_embedding.positions"]
        else:
            layout, scale, first = kind
            table = to_numpy(ops.sinusoidal_positions(POSITIONS, options.d_model, "float32", layout, scale, first))
        yield f"{stack}/position_encodings/encodings", table


def _search(rules: SearchOptions) -> list[str]:
    """Return notes on the call of ``translate_batch`` that finds what the run's search finds."""
    limit = LONGEST if rules.most_written is None else rules.most_written
    call: dict[str, float] = {
        "beam_size": 1,
        "min_decoding_length": rules.least_written,
        "max_decoding_length": limit - rules.force_end,  # there a translation of the most tokens has no end
    }
    notes = []
    same = ("penalty", "full_beam", "stop", "limit_ends")
    if all(getattr(rules, name) == SEARCH[name] for name in same) and not rules.force_end:
        call |= {"beam_size": rules.beam, "length_penalty": rules.alpha}
    elif rules.beam > 1:
        notes.append("beam search differs there; greedy search writes the same")
    if rules.most_written is None:
        notes.append(f"a translation has at most {limit} tokens there, here 50 more than its source")
    told = ", ".join(f"{name}={value}" for name, value in call.items())
    return [*notes, f"to search there as here: translate_batch(tokens, {told})"]
