"""The weights of a run at each of its checkpoints, as models."""

from __future__ import annotations

from pathlib import Path

from minitransformer.apps.explorer.body import RequestError
from minitransformer.apps.explorer.limits import Recent
from minitransformer.nn import LanguageModel, Transformer
from minitransformer.runs import (
    RunError,
    RunFolder,
    TrainedRun,
    open_model,
    read_checkpoint,
    with_start,
)
from minitransformer.tracing import in_double

MOST_MODELS = 6
MOST_BYTES = 2**30


class Models:
    """The models of a run: the loaded one, and those of its checkpoints, which are read on demand.

    Parameters
    ----------
    run : TrainedRun
        The run.
    folder : RunFolder
        Its folder.
    """

    def __init__(self, run: TrainedRun, folder: RunFolder) -> None:
        self.run, self.folder = run, folder
        self._kept: Recent[tuple[int | None, bool], Transformer | LanguageModel] = Recent(MOST_MODELS, MOST_BYTES)

    def steps(self) -> list[int]:
        """Return the step of each checkpoint that the run has kept, with those of its history."""
        return sorted(self._files())

    def _files(self) -> dict[int, Path]:
        return dict([*self.folder.history.files(), *self.folder.checkpoints.files()])

    def at(self, checkpoint: int | None = None, double: bool = False) -> Transformer | LanguageModel:
        """Return the model at a checkpoint, by default with the weights that were loaded.

        Parameters
        ----------
        checkpoint : int, optional
            The step.
        double : bool
            Whether in float64, for gradients that can be compared with finite differences.

        Raises
        ------
        RequestError
            If the run has no such checkpoint, or it is damaged.
        """
        if checkpoint is None and not double:
            return self.run.model
        if (model := self._kept.get((checkpoint, double))) is None:
            model = in_double(self.at(checkpoint)) if double else self._read(checkpoint)
            size = sum(parameter.data.nbytes for parameter in model.parameters())
            self._kept.put((checkpoint, double), model, size)
        return model

    def _read(self, step: int | None) -> Transformer | LanguageModel:
        files = self._files()
        if step not in files:
            found = ", ".join(map(str, files)) or "none"
            raise RequestError(
                f"checkpoint is {step}, expected one of those that the run has kept: {found}; "
                "`minitransformer train --save-every N --keep M` keeps more"
            )
        run = self.run
        try:
            checkpoint = read_checkpoint(files[step])
            model = open_model(run.options, run.source, run.target, with_start(run.options, checkpoint.model))
        except (RunError, ValueError) as error:
            raise RequestError(f"{files[step].name} cannot be used: {error}") from error
        return model.arrange_for_decoding()
