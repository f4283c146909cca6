"""Further training: a run that starts from the weights of another, and frozen weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from minitransformer.data import read_lines, read_parallel, tokenisers_to_json
from minitransformer.nn import LanguageModel, Model
from minitransformer.nn.options import ModelOptions
from minitransformer.options import OptionError
from minitransformer.runs.configuration import Configuration
from minitransformer.runs.loading import TrainedRun
from minitransformer.runs.low_rank import digest_of
from minitransformer.tasks import Task

PEAK, LORA_PEAK = 0.03, 0.3
"""The default peak learning rate for training a model further, times D; and the one for LoRA."""
WARMUP = 20
"""By default, one step in this many is warm-up."""
CHANGEABLE = frozenset(("dropout", "attention_block", "recompute"))
"""The options of a trained model that may be changed."""
OF_TOKENS = ("source_tokens", "target_tokens", "vocabulary", "min_count", "share_vocabulary")
EMBEDDINGS = "embeddings"
"""The name of all embeddings together."""


def continue_from(start: TrainedRun, task: Task, values: Mapping[str, Any]) -> Configuration:
    """Return the configuration of a run that begins with the weights of another.

    Model, tokens and search are those of the other run. Batches and the number of steps follow from the size of the
    text, as without it; the peak learning rate is low and the warm-up short.

    Parameters
    ----------
    start : TrainedRun
        The other run.
    task : Task
        The task of the new run.
    values : mapping
        The options that the user gave.

    Raises
    ------
    OptionError
        If an option would need another model, or the task does; see also `Configuration.of_task`.
    """
    if task.decoder_only != isinstance(start.model, LanguageModel):
        what = "continues texts" if isinstance(start.model, LanguageModel) else "translates"
        raise OptionError(f"the task {task.name} needs another kind of model: this one {what}")
    try:
        task.read_tokenisers(tokenisers_to_json(start.source, start.target))
    except ValueError as error:
        raise OptionError(
            f"the tokens of {start.task.title} are not for the task {task.name}: {error}; begin with a run of text"
        ) from error
    fixed = {*ModelOptions.declarations(), *OF_TOKENS} - CHANGEABLE
    if refused := sorted(fixed & values.keys()):
        raise OptionError(f"a trained model keeps its options and tokens; leave out {', '.join(refused)}", *refused)
    other = start.options.flat()
    kept = start.model.options.flat() | start.options.search.flat() | {name: other[name] for name in OF_TOKENS}
    kept["start_digest"] = digest_of(start.model)
    configuration = Configuration.of_task(task, **values)
    training = configuration.training
    chosen: dict[str, Any] = {
        "schedule": "linear",
        "peak": float(f"{(PEAK if training.lora is None else LORA_PEAK) / start.model.options.d_model:.1g}"),
        "warmup_steps": max(1, training.steps // WARMUP),
        "average_last": 1,
    }
    if task.decoder_only:
        window = values.get("window", other["window"])
        chosen |= {"window": window, "batch_tokens": max(window, training.batch_tokens)}
    chosen = {name: value for name, value in chosen.items() if name in configuration.free}
    kept = {name: value for name, value in kept.items() if name not in values}
    return replace(configuration.changed(**kept, **chosen), free=configuration.free - kept.keys())


def read_kept_good(files: Sequence[str], decoder_only: bool) -> Any:
    """Return the pairs, or the text of a model that continues texts, to measure before and after what is forgotten.

    Raises
    ------
    OptionError
        If these are too few or too many files, or there is no text; `TextError` if one cannot be read.
    """
    if len(files) != (1 if decoder_only else 2):
        expected = "one text" if decoder_only else "source sentences and their translations"
        raise OptionError(f"found files in keep_good: {len(files)}, expected {expected}", "keep_good")
    if not decoder_only:
        return read_parallel(*files).pairs
    if not (text := "\n".join(read_lines(*files))):
        raise OptionError(f"keep_good: {files[0]} holds no text", "keep_good")
    return text


def freeze(model: Model, parts: str) -> None:
    """Fix the weights of some parts of a model, which then have no gradient.

    Parameters
    ----------
    model : Transformer or LanguageModel
        The model.
    parts : str
        Names with commas between: ``embeddings``, or the beginning of a parameter's name, such as ``encoder``.

    Raises
    ------
    OptionError
        If there is no such part, or nothing would be trained.
    """
    names = [name for name, _ in model.named_parameters()]
    for part in parts.replace(" ", "").split(","):
        found = {
            path
            for path in names
            if f"{path}.".startswith(f"{part}.") or (part == EMBEDDINGS and "embedding" in path.partition(".")[0])
        }
        if not found:
            known = dict.fromkeys([EMBEDDINGS, *(name.partition(".")[0] for name in names)])
            raise OptionError(f"freeze: the model has no part {part!r}, expected some of {', '.join(known)}", "freeze")
        for name, parameter in model.named_parameters():
            parameter.requires_grad = parameter.requires_grad and name not in found
    if not model.trained_parameters():
        raise OptionError(f"freeze {parts}: no weights are left to train; leave out a part", "freeze")
