"""Resuming a training run from its folder."""

from __future__ import annotations

from minitransformer.arrays import backend
from minitransformer.parallel import SINGLE_PROCESS, ProcessGroup
from minitransformer.runs.checkpoints import Checkpoint, Report, read_training_state
from minitransformer.runs.configuration import Configuration
from minitransformer.runs.errors import refusing
from minitransformer.runs.folder import DATA, VOCABULARY, RunFolder
from minitransformer.runs.loading import load, load_start
from minitransformer.runs.provenance import check_data, check_weights
from minitransformer.tasks.corpus import Tokenisers
from minitransformer.training.creating import complete
from minitransformer.training.trainer import Trainer


def has_ended(run: RunFolder, report: Report) -> bool:
    """Return whether a run is finished and complete, so that there is nothing to resume.

    It is not if steps were added to its configuration, or a missing file can be made again.

    Parameters
    ----------
    run : RunFolder
        The run.
    report : callable
        Called with a message for each damaged checkpoint.

    Raises
    ------
    RunError
        If the folder is damaged, or something has changed since the weights were trained.
    """
    if not (run.is_finished() and run.is_complete()):
        return False
    if not run.checkpoints.files():  # only the best weights were kept
        load(run, report=report)
        return True
    last = load(run, "last", report)
    state = read_training_state(last.checkpoint, last.options.training)
    return last.options.training.ends_at(state.step, state.waited)


def resume(run: RunFolder, report: Report, group: ProcessGroup = SINGLE_PROCESS, fork: bool = False) -> Trainer:
    """Return the training run at the newest intact checkpoint of a folder, and prepare the folder for more steps.

    Parameters
    ----------
    run : RunFolder
        The run.
    report : callable
        Called with a message for each damaged checkpoint, if an earlier one is used.
    group : ProcessGroup
        The processes that train together; the first reads and prepares the folder.
    fork : bool, default False
        As in `Trainer`.

    Returns
    -------
    Trainer
        The run at its first step if it was stopped before it saved a checkpoint.

    Raises
    ------
    RunError
        If the folder is damaged, or configuration or data has changed. A missing file is made again only if a digest
        shows that it is the same.
    """

    def read() -> tuple[Configuration, Checkpoint | None, Tokenisers | None, bool]:
        configuration = run.configuration()
        workers = configuration.training.workers or 1
        if backend() != "numpy" and workers > 1:
            report(f"the run had {workers} workers on a CPU; on a GPU it continues with one")
            configuration = configuration.changed(workers=1)
        run.clean()
        checkpoint = run.checkpoints.load(report) if run.checkpoints.files() else None
        begun = checkpoint is not None or run.has(DATA)  # otherwise the run was killed during its setup
        tokenisers = run.tokenisers() if begun and run.has(VOCABULARY) else None
        if checkpoint:
            check_weights(run, checkpoint, configuration, tokenisers)  # before any work
            read_training_state(checkpoint, configuration.training)
        return configuration, checkpoint, tokenisers, begun

    configuration, checkpoint, tokenisers, begun = group.broadcast(read)
    with refusing(ValueError, f"{run.path / 'configuration.json'}: "):
        # before the first checkpoint, and with LoRA, a run that begins with the weights of another needs that run
        needed = checkpoint is None or configuration.training.lora is not None
        start = load_start(configuration, group) if needed and configuration.start is not None else None
        trainer = Trainer(configuration, tokenisers, group, fork, start)
    if begun:
        group.broadcast(lambda: check_data(run, trainer.corpus, checkpoint))
    if checkpoint:
        trainer.restore(checkpoint)

    def prepare() -> None:
        if not run.is_complete():
            complete(run, trainer.corpus)
        if checkpoint:
            run.checkpoints.prune(trainer.step, configuration.training)
        run.measurements.cut(trainer.step if checkpoint else -1)

    group.broadcast(prepare)
    return trainer
