"""A trained model, read back from its run folder."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice, takewhile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from minitransformer.data import UNKNOWN, Tokeniser, UnknownTokenError, normalise_text
from minitransformer.decoding import SamplingOptions, sample, translate
from minitransformer.nn import LanguageModel, Transformer
from minitransformer.parallel import SINGLE_PROCESS, ProcessGroup
from minitransformer.runs.checkpoints import Checkpoint, Report, read_checkpoint, read_state, warn
from minitransformer.runs.configuration import Configuration
from minitransformer.runs.errors import RunError, refusing
from minitransformer.runs.folder import RunFolder
from minitransformer.runs.low_rank import adapted, digest_of, merge
from minitransformer.runs.provenance import check_weights
from minitransformer.runs.state import AverageState, State, TrainingState
from minitransformer.tasks import Task
from minitransformer.tasks.corpus import Tokenisers

WEIGHTS = ("average", "mean", "best", "last")
"""The kinds of weights of a run: the average of its last checkpoints, the mean of its last steps' weights, the best
ones on held-out pairs, those of the last checkpoint. The default is the first that the run has."""

_STATES: Mapping[str, type[State]] = {"average": AverageState, "mean": TrainingState, "last": TrainingState}


class TrainedRun(NamedTuple):
    """A trained model with what is needed to use it."""

    model: Transformer | LanguageModel
    """The model, in evaluation mode."""
    task: Task
    source: Tokeniser
    """Converts source texts to token ids; of a model that continues texts, the same as the next."""
    target: Tokeniser
    """Converts token ids to target texts."""
    checkpoint: Checkpoint
    """The state and the file; the weights are in the model only."""
    weights: str
    """The kind of weights, one of `WEIGHTS`."""
    options: Configuration
    """The configuration of the run."""

    @property
    def transformer(self) -> Transformer:
        """The model, if it translates.

        Raises
        ------
        RunError
            If it continues texts.
        """
        if not isinstance(self.model, Transformer):
            raise RunError(
                f"this model continues texts ({self.task.title}): a decoder alone has no source to translate; use "
                "`minitransformer write RUN TEXT` or, in Python, run.write(text)"
            )
        return self.model

    @property
    def language_model(self) -> LanguageModel:
        """The model, if it continues texts.

        Raises
        ------
        RunError
            If it translates.
        """
        if not isinstance(self.model, LanguageModel):
            raise RunError(
                f"this model translates ({self.task.title}), and cannot continue a text; use "
                "`minitransformer translate RUN TEXT` or, in Python, run.translate([text])"
            )
        return self.model

    def continuation(
        self, prompt: str = "", options: SamplingOptions | None = None, seed: int = 0, length: int | None = None
    ) -> Iterator[str]:
        """Continue a text, to its end if the tokens have one, and otherwise without end.

        Parameters
        ----------
        prompt : str
            The beginning of the text; it may be empty.
        options : SamplingOptions, optional
            How tokens are drawn, and whether the model may end the text.
        seed : int
            Seeds the draws.
        length : int, optional
            The most tokens to write; by default there is no limit.

        Returns
        -------
        iterator of str
            The text of the next tokens, one at a time, without the prompt and the end token. See `decoding.sample`.

        Raises
        ------
        RunError
            If the model translates.
        UnknownTokenError
            If the prompt has a character that the model does not know.
        """
        model, ids = self.language_model, self.target.encode(prompt)
        if UNKNOWN in ids:
            unknown = sorted(letter for letter in {*prompt} if UNKNOWN in self.target.encode(letter)) or [prompt]
            raise UnknownTokenError(
                f"the model does not know {', '.join(map(repr, unknown))}: its training text has too few of "
                f"{'it' if len(unknown) == 1 else 'them'}, or none; begin with something else"
            )
        prompts, rng = np.array([ids], dtype=np.int64), np.random.default_rng(seed)
        ends, window = self.target.ends, self.options.data.window
        tokens = sample(model, prompts, window, options, rng, forbidden=[UNKNOWN], ends=ends)
        written = takewhile(lambda token: token not in ends, (int(token) for (token,) in islice(tokens, length)))
        return self.target.stream(ids, written)

    def write(self, prompt: str = "", length: int = 500, options: SamplingOptions | None = None, seed: int = 0) -> str:
        """Return the prompt with at most ``length`` tokens more; see `continuation` for the parameters."""
        return prompt + "".join(self.continuation(prompt, options, seed, length))

    def translate(self, texts: Sequence[str], beam: int | None = None, alpha: float | None = None) -> list[str]:
        """Translate texts; an empty text has an empty translation.

        Parameters
        ----------
        texts : sequence of str
            Any number of texts.
        beam : int, optional
            How many hypotheses are kept at each step; 1 is greedy. By default what the run's search options say: 1,
            or for a model of another program what its authors chose.
        alpha : float, optional
            The exponent of the length penalty; by default what the run's search options say.

        Returns
        -------
        list of str

        Raises
        ------
        RunError
            If the model continues texts instead.
        TypeError
            If the texts are a single one.
        UnknownTokenError
            If a text has a token that is not in a closed vocabulary.
        ValueError
            If a text is longer than the model's learned positions, or beam or alpha is out of its range.
        """
        if isinstance(texts, str):
            raise TypeError(f"translate: found one text, expected a list of texts; write translate([{texts[:40]!r}])")
        texts = [self.task.normalise_input(text) for text in texts]
        written = [text for text in texts if normalise_text(text)]
        rules = self.options.search
        beam, alpha = rules.beam if beam is None else beam, rules.alpha if alpha is None else alpha
        found = iter(translate(self.transformer, self.source, self.target, written, beam, alpha, rules=rules))
        return [next(found) if normalise_text(text) else "" for text in texts]


def load(
    run: RunFolder | Path | str, weights: str | None = None, report: Report = warn, group: ProcessGroup = SINGLE_PROCESS
) -> TrainedRun:
    """Open a trained run.

    Parameters
    ----------
    run : RunFolder, Path or str
        The run folder.
    weights : {"average", "mean", "best", "last"}, optional
        The kind of weights; by default the first of these that the run has.
    report : callable
        Called with a message if a checkpoint is damaged and an earlier one is used; by default it warns.
    group : ProcessGroup
        The processes that need the model; the first reads the folder.

    Returns
    -------
    TrainedRun

    Raises
    ------
    RunError
        If the folder is missing, incomplete or damaged, its parts do not belong together, or it has no such weights;
        the message names the file.

    Examples
    --------
    >>> run = load("runs/numbers")  # doctest: +SKIP
    >>> run.translate(["four hundred and thirty-two"], beam=4)  # doctest: +SKIP
    ['vierhundertzweiunddreißig']
    """
    run = run if isinstance(run, RunFolder) else RunFolder(run)

    def read() -> tuple[Configuration, Tokenisers, Checkpoint, str]:
        configuration, tokenisers = run.configuration(), run.tokenisers()
        checkpoint, chosen = _choose(run, weights, report)
        check_weights(run, checkpoint, configuration, tokenisers)
        _report_missing(run, configuration, weights, chosen, checkpoint, report)
        if chosen in _STATES:
            read_state(checkpoint, _STATES[chosen])
        return configuration, tokenisers, checkpoint, chosen

    configuration, (source, target), checkpoint, chosen = group.broadcast(read)
    state = with_start(configuration, checkpoint.mean if chosen == "mean" else checkpoint.model, group)
    before = f"{run.path}: configuration, vocabulary and checkpoint do not belong together: "
    with refusing(ValueError, before):
        task = configuration.build_task()
        model = open_model(configuration, source, target, state)
    checkpoint = checkpoint._replace(model={}, optimiser={}, mean={})
    return TrainedRun(model.arrange_for_decoding(), task, source, target, checkpoint, chosen, configuration)


def open_model(
    configuration: Configuration, source: Tokeniser, target: Tokeniser, state: Mapping[str, Any]
) -> Transformer | LanguageModel:
    """Return a run's model in evaluation mode; its parameters use the arrays of the state.

    Raises
    ------
    ValueError
        If the state does not belong to the model.
    """
    model = configuration.build_model(len(source), len(target), source is target, init_weights=False)
    model.load_state_dict(state, copy=False)
    return model.eval()


def with_start(
    configuration: Configuration, state: Mapping[str, Any], group: ProcessGroup = SINGLE_PROCESS
) -> Mapping[str, Any]:
    """Return the weights of a run's model, from those of a checkpoint: with LoRA, that holds what is trained alone.

    Raises
    ------
    RunError
        If the run that it begins with cannot be read, or has changed.
    """
    if not adapted(state):
        return state
    return merge({**load_start(configuration, group).model.state_dict(), **state}, configuration.training.alpha)


def load_start(configuration: Configuration, group: ProcessGroup = SINGLE_PROCESS) -> TrainedRun:
    """Open the run whose weights another run starts from.

    Raises
    ------
    RunError
        If it cannot be read, or its weights have changed.
    """
    path = str(configuration.start)
    advice = "restore it, or set start in the configuration.json of the newer run to its new path"
    try:
        starts(path)
        start = load(path, group=group)
    except (RunError, OSError) as error:  # an OSError for a name that is too long
        raise RunError(f"cannot open {path}, whose weights another run starts from: {error}; {advice}") from error
    if (found := digest_of(start.model)) == (wanted := configuration.start_digest or found):
        return start
    for weights in WEIGHTS[1:] if start.weights == "average" else ():  # the average may have been written since
        with suppress(RunError):
            if digest_of((start := load(path, weights, group=group)).model) == wanted:
                return start
    raise RunError(
        f"{path} has changed since another run started from it: its weights have the digest {found[:12]}..., "
        f"expected {wanted[:12]}...; {advice}"
    )


def starts(path: Path | str) -> list[Path]:
    """Return the runs whose weights a run needs, itself first: with LoRA, the one that it begins with, and so on.

    Raises
    ------
    RunError
        If a configuration cannot be read, or a run needs itself.
    """
    found = [Path(os.path.realpath(path))]  # Path.resolve raises a RuntimeError for a link to itself
    while (configuration := RunFolder(found[-1]).configuration()).training.lora is not None:
        other = Path(os.path.realpath(str(configuration.start)))
        if other in found:
            raise RunError(f"found {other} as its own start in configuration.json, expected another run")
        found.append(other)
    return found


def _choose(run: RunFolder, weights: str | None, report: Report) -> tuple[Checkpoint, str]:
    if weights not in (None, *WEIGHTS):
        raise RunError(f"unknown weights {weights!r}; expected one of {', '.join(WEIGHTS)}")
    if weights == "average" or (weights is None and run.average_path.exists()):
        if not run.average_path.exists():
            raise RunError(f"{run.path} has no average; make it with `minitransformer average {run.path} --last N`")
        return read_checkpoint(run.average_path), "average"
    only_best = weights is None and not run.checkpoints.files() and run.best_path.exists()
    if weights in (None, "mean", "last") and not only_best:
        checkpoint = run.checkpoints.load(report)
        if weights == "last":
            return checkpoint, "last"
        if checkpoint.mean:
            return checkpoint, "mean"
        if weights == "mean":
            raise RunError(
                f"{run.path} has no mean of its last steps' weights: training computes it with "
                "--average-last; choose other weights"
            )
    if weights == "best" or run.best_path.exists():
        if not run.best_path.exists():
            raise RunError(f"{run.path} has no best weights: nothing has been measured yet")
        return read_checkpoint(run.best_path), "best"
    return checkpoint, "last"


def _report_missing(
    run: RunFolder,
    configuration: Configuration,
    weights: str | None,
    chosen: str,
    checkpoint: Checkpoint,
    report: Report,
) -> None:
    """Report if a finished run has lost the weights that would have been chosen."""
    final, c = run.measurements.final(), configuration.training
    if final is None or chosen == "average" or (weights is not None and chosen == "best"):
        return
    last = run.checkpoints.file(final["step"])
    if not last.exists() and (chosen != "best" or c.averaged_at(final["step"])):
        lost = last
    elif weights is None and chosen == "last":
        lost = run.best_path
    else:
        return
    report(f"{lost} is missing, although the run is finished; {checkpoint.path} is used instead; restore the file")
