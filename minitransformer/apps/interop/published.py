"""A model of another program in our terms, and the run folder that holds it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from minitransformer import ops, runs, training
from minitransformer.apps.interop.reading import Fields
from minitransformer.apps.interop.writing import PROGRAMS, new_folder
from minitransformer.arrays import Array, to_numpy
from minitransformer.data import START, UNKNOWN, Pieces, Tokeniser, Vocabulary
from minitransformer.files import FileError, read_file
from minitransformer.tasks import Corpus, TextCorpus, build

ACTIVATIONS: dict[str, str] = PROGRAMS["activations"]
"""Our name of each activation."""
NEVER_WRITTEN = -1e4
"""The logit of a token that the other program lacks: its probability and its gradient are zero."""
FIRST_POSITIONS = range(3)
"""The numbers that the first position has in other programs."""


@dataclass(frozen=True, kw_only=True)
class Published:
    """A model of another program in our terms.

    Parameters
    ----------
    model, search : mapping of str to value
        The options of the model and of its search that differ from the defaults.
    state : mapping of str to array
        Its parameters, as ``Transformer.load_state_dict`` takes them.
    source, target : Tokeniser
        Its tokenisers; of a decoder alone one.
    decoder_only : bool
        Whether it is a decoder alone, which continues texts.
    notes : sequence of str
        What differs from the other program.
    """

    model: Mapping[str, Any]
    state: Mapping[str, Array]
    source: Tokeniser
    target: Tokeniser
    search: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()
    decoder_only: bool = False


class OurIds(NamedTuple):
    """The order of a vocabulary in which padding, start, end and unknown come first, as they do here."""

    vocabulary: Vocabulary
    rows: NDArray[np.int64]
    """For each of our ids the other program's; -1 for a special token that it lacks."""
    start_is_copy: bool
    """Whether the start token is another token too, such as padding; then its row is copied."""

    def ours(self, theirs: int) -> int:
        """Return our id of a token that has no special meaning."""
        return int(np.flatnonzero(self.rows == theirs)[-1])

    def with_start(self, theirs: int) -> OurIds:
        """Return the same with a start token that is a copy of a token there, which may be written."""
        rows = self.rows.copy()
        rows[START] = theirs
        return self._replace(rows=rows, start_is_copy=True)

    def table(self, theirs: Array) -> Array:
        """Return the rows of a table in our order, zeros for a token that the other program lacks."""
        table = theirs[self.rows]
        table[self.rows < 0] = 0
        return table

    def bias(self, theirs: Array) -> Array:
        """Return the biases of the logits in our order, so that a token which is not written there has none here."""
        bias = theirs[self.rows]
        bias[self.rows < 0] = NEVER_WRITTEN
        if self.start_is_copy:
            bias[START] = NEVER_WRITTEN
        return bias


def arrange(
    tokens: Sequence[str], *, pad: int | None, start: int | None, end: int | None, unknown: int, where: Path
) -> OurIds:
    """Put the tokens of another program into our order.

    Parameters
    ----------
    tokens : sequence of str
        Its tokens, in the order of their ids there.
    pad, start, end, unknown : int
        The ids there; None if there is no such token. The start may be the same as padding or the end.
    where : Path
        The file that messages name.

    Raises
    ------
    FileError
        If an id is out of range, two meanings share one, or another token has the name of one of our specials.
    """
    named = {"padding": pad, "the end": end, "unknown": unknown, "the start": start}
    found = {name: number for name, number in named.items() if number is not None}
    for name, number in found.items():
        if not 0 <= number < len(tokens):
            raise FileError(f"{where}: the id of {name} is {number}, expected 0 to {len(tokens) - 1:,}")
    different = [number for name, number in found.items() if name != "the start"]
    if len({*different}) < len(different) or start == unknown:
        told = ", ".join(f"{name} {number}" for name, number in found.items())
        raise FileError(f"{where}: found the ids {told}, expected a different id for each")
    taken = {*found.values()}
    specials = [-1 if number is None else number for number in (pad, start, end)]
    rows = [*specials, unknown, *(number for number in range(len(tokens)) if number not in taken)]
    try:
        vocabulary = Vocabulary(["<unk>", *(tokens[number] for number in rows[UNKNOWN + 1 :])])
    except ValueError as error:
        raise FileError(f"{where}: {error}") from error
    return OurIds(vocabulary, np.array(rows), start in different)


def activation_of(config: Fields, default: str) -> str:
    """Return our name of the ``activation_function`` of a configuration of transformers."""
    if (found := config.text("activation_function", default)) not in ACTIVATIONS:
        raise config.error("activation_function", f"one of {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[found]


def read_pieces(path: Path, ids: OurIds) -> Pieces:
    """Read a sentencepiece model whose pieces have the ids of a vocabulary.

    Raises
    ------
    FileError
        If it cannot be read, or is none.
    MissingExtraError
        If sentencepiece is not installed.
    """
    model = read_file(path)
    try:
        return Pieces(model, ids.vocabulary)
    except ValueError as error:
        raise FileError(f"{path}: {error}; download the file again") from error


def find_sinusoidal(table: Array, stored: np.dtype[Any]) -> dict[str, Any] | None:
    """Return the options of the sinusoidal positions that a table holds, None if it holds others."""
    length, d_model = table.shape
    places = np.arange(length)[:, None]
    # a table is computed in float32, and its angles grow with the position
    tolerance = np.finfo(stored).eps + 4 * np.finfo(np.float32).eps * (1 + places)
    scales = ("d_model", "d_model-2") if d_model % 2 == 0 and d_model >= 4 else ("d_model",)
    for layout, scale, first in product(("interleaved", "halves"), scales, FIRST_POSITIONS):
        for n in (min(2, length), length):
            waves = to_numpy(ops.sinusoidal_positions(n, d_model, layout=layout, scale=scale, first=first))
            if (np.abs(table[:n] - waves) > tolerance[:n]).any():
                break
        else:
            return {"position_layout": layout, "position_scale": scale, "first_position": first}
    return None


def write_run(published: Published, out: Path) -> runs.RunFolder:
    """Write a run folder that holds a model of another program; it gets its name when all its files are written.

    Raises
    ------
    FileError
        If the parameters do not fit the options.
    RunError
        If there is something at the path already, or it cannot be written.
    """
    source, target = published.source, published.target
    try:
        task = build("characters" if published.decoder_only else "text")
        configuration = runs.Configuration.of_task(task, **published.model, **published.search)
        runs.open_model(configuration, source, target, published.state)
    except ValueError as error:
        raise FileError(f"the model cannot be built: {error}") from error
    if published.decoder_only:
        nothing = np.zeros(0, np.int32)
        window = configuration.data.window
        corpus: Corpus | TextCorpus = TextCorpus(
            tokeniser=target, train="", ids=nothing, window=window, valid="", held_out=""
        )
    else:
        corpus = Corpus(source=source, target=target, train=[], ids=[], valid=[], held_out=[], example="")
    state = runs.TrainingState(provenance=runs.Provenance.of(configuration, corpus).flat())
    with new_folder(out) as aside:
        folder = training.create_run(aside, configuration, corpus)
        folder.save(runs.Checkpoint(dict(published.state), {}, {}, state.flat()), configuration.training)
    return runs.RunFolder(out)
