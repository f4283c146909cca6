"""Runs of random weights that are written for other programs, and what those compute from the files alone."""

import json
from dataclasses import asdict
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import decoder_folders
import numpy as np
import slow_models
from random_runs import in_memory, noisy, random_model
from safetensors.numpy import load_file

from minitransformer.apps.interop import Published, read_huggingface
from minitransformer.apps.interop.model_bin import read_model_bin
from minitransformer.data import END, START
from minitransformer.nn import LanguageModel, ModelOptions

SMALL = ModelOptions(d_model=12, n_heads=2, n_layers=2, d_ff=10, activation="silu", dtype="float64")


def decoder(options):
    """Return a run of a decoder alone with random weights, whose texts begin with the start token or do not."""
    tokens = decoder_tokens(options.start_token)
    model = LanguageModel(len(tokens), options)
    state = noisy(model)
    if "output_bias" in state:  # an import has none, and a run that has some is refused
        state["output_bias"][:] = 0
    return in_memory(Published(
        model=asdict(options) | {"window": 7}, state=state, source=tokens, target=tokens, decoder_only=True
    ))  # fmt: skip


@cache
def decoder_tokens(begins):
    with TemporaryDirectory() as folder:
        return read_huggingface(decoder_folders.write_folder(Path(folder), "llama", begins)).target


def translator(options):
    return in_memory(random_model(**asdict(options)))


def config_of(folder):
    return json.loads((folder / "config.json").read_text())


def variables_of(folder):
    return read_model_bin(folder / "model.bin").variables


def logits_there(program, folder, source, target):
    """Return the logits of the other program; a decoder alone reads the target only. Ids are the same there."""
    config = config_of(folder)
    if program == "ctranslate2":
        ends = [END] * config["add_source_eos"]
        return slow_models.ctranslate2(config, variables_of(folder), [*source, *ends], [START, *target])
    tensors = load_file(folder / "model.safetensors")
    if program == "huggingface":
        return slow_models.marian_mt(config, tensors, [*source, END], [START, *target])
    begins = json.loads((folder / "tokenizer.json").read_text())["post_processor"] is not None
    return getattr(slow_models, program)(config, tensors, [decoder_folders.SPECIAL["start"]] * begins + target)


def logits_here(run, source, target):
    if isinstance(run.model, LanguageModel):
        rows = [run.target.ours[number] for number in range(len(decoder_folders.WORDS))]
        ids = [START] * run.model.options.start_token + [run.target.ours[number] for number in target]
        return run.model.decode(np.array([ids])).data[0][:, rows]
    source = [*source, *[END] * run.model.options.source_end]
    return run.model(np.array([source]), np.array([[START, *target]])).data[0]


IDS = ([7, 5, 8, 4], [6, 8, 5, 5, 7])
"""A source, and the beginning of a target."""
DECODER = SMALL.changed(
    d_model=16, n_heads=4, scale_embeddings=False, attention_bias=True, output_bias=True, d_k=4, d_v=4
)
BASES = {
    "huggingface": SMALL,
    "ctranslate2": SMALL.changed(norm="pre", attention_bias=True),
    "gpt2": DECODER.changed(norm="pre", positions="learned", max_length=14),
    "llama": DECODER.changed(
        norm="rms", positions="rotary", activation="swiglu", feed_forward_bias=False, n_kv_heads=2,
        position_layout="halves", rotary_factor=2.0, rotary_length=6.0, rotary_low=0.25, rotary_high=2.0,
    ),
}  # fmt: skip
"""A model that each program computes."""
CLASSES = ("gpt2", "llama")
