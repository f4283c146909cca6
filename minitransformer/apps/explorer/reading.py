"""What a run reads and writes: sentences that it translates, or texts that it continues."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minitransformer import tracing
from minitransformer.apps.explorer.body import RequestError
from minitransformer.data import END, UNKNOWN, Tokeniser, normalise_text
from minitransformer.decoding import SearchOptions, as_sources, check_sentence, greedy, longest_sentence
from minitransformer.nn import LanguageModel, Model
from minitransformer.runs import RunError, RunFolder, TrainedRun

MOST_TOKENS = 128
"""The most tokens of a sentence, its end included."""
MOST_CHARACTERS = 10_000
MOST_NOTES = 10
"""The most notes on unknown tokens; if there were more, the last one counts the others."""
MOST_WRITTEN = MOST_TOKENS + 50
"""The most tokens of a translation, whatever a run's rules allow; the paper's allow no more (section 6.1)."""
N_EXAMPLES = 12
LINES = range(8, 60)
"""How many characters a line of a held-out text has that is an example."""


class Reading:
    """The sentences of a run that translates.

    Parameters
    ----------
    run : TrainedRun
        The run.
    folder : RunFolder
        Its folder, for examples.

    Attributes
    ----------
    rules : SearchOptions
        Which tokens the model writes.
    most_tokens : int
        The most tokens of a text, its end included.
    widest_beam : int
    """

    rules: SearchOptions
    widest_beam = 16
    counted = "tokens, its end included"

    def __init__(self, run: TrainedRun, folder: RunFolder) -> None:
        self.run, self.folder = run, folder
        self.rules = run.options.search
        self.most_tokens = min(MOST_TOKENS, longest_sentence(run.model) or MOST_TOKENS)

    def examples(self) -> list[str]:
        """Return held-out texts."""
        try:
            return [source for source, _ in self.folder.held_out()[:N_EXAMPLES]]
        except RunError:  # the folder may hold no more than weights and vocabulary
            return []

    def read(self, text: str) -> tuple[list[int], list[str]]:
        """Return the ids of a source text, its end included, and what to note about it.

        Raises
        ------
        RequestError
            If it cannot be read.
        """
        if len(text) > MOST_CHARACTERS:
            raise RequestError(f"the text has {len(text):,} characters, expected at most {MOST_CHARACTERS:,}")
        in_words = self.run.task.other_words(text)
        text = self.run.task.normalise_input(text)
        ids = self._encode(text)
        if len(ids) > self.most_tokens:
            raise RequestError(
                f"the text has {len(ids)} {self.counted}, expected at most {self.most_tokens}; shorten it"
            )
        read = [] if in_words is None else [f"the text is read as: {in_words}"]
        return ids, read + _notes(self.run.source, ids, self.run.source.pieces(text))

    def _encode(self, text: str) -> list[int]:
        if not normalise_text(text):
            raise RequestError("the text is empty, expected a sentence to translate")
        try:
            return check_sentence(self.run.transformer, self.run.source, text)
        except ValueError as error:
            raise RequestError(f"{error}") from error

    def source(self, ids: list[int]) -> list[int] | None:
        """Return what the encoder reads of a text; None if there is no encoder."""
        return ids

    def beginning(self, ids: list[int]) -> tuple[int, ...]:
        """Return the tokens with which the decoder begins, unless others are given."""
        return ()

    def most_written(self, ids: list[int]) -> int:
        """Return the most tokens to be written, the end among them: what the rules allow, and the explorer."""
        return min(self._allowed(ids), MOST_WRITTEN)

    def _allowed(self, ids: list[int]) -> int:
        return int(self.rules.limits(self.run.model, as_sources([ids]))[0])

    def cut(self, ids: list[int], n_written: int) -> list[str]:
        """Return a note if a translation has as many tokens as the explorer writes, and the rules allow more."""
        allowed = self._allowed(ids)
        if n_written < MOST_WRITTEN or allowed <= MOST_WRITTEN:
            return []
        return [f"the explorer writes at most {MOST_WRITTEN} tokens, minitransformer translate {allowed}"]

    def write(self, model: Any, ids: list[int], most: int) -> list[int]:
        """Return what a model writes about a text, at most ``most`` tokens, without the end."""
        [own] = greedy(model, [ids], min(most, self.most_written(ids)), self.rules)
        return own

    def target(self, model: Any, ids: list[int]) -> list[int]:
        """Return what a model writes about a text, with its end if there is one."""
        most = self.most_written(ids)
        own = self.write(model, ids, most)
        return [*own, *[END][: most - len(own)]]


class _Continuing(Reading):
    """The texts of a run that continues them: the decoder begins with the text, and writes what follows."""

    widest_beam = 1
    counted = "tokens"

    def __init__(self, run: TrainedRun, folder: RunFolder) -> None:
        super().__init__(run, folder)
        self.rules = SearchOptions(renormalise=True, forbidden=(END, UNKNOWN))
        self.window = run.options.data.window
        self.most_tokens = min(self.most_tokens, self.window)

    def examples(self) -> list[str]:
        try:
            lines = self.folder.held_out_text().split("\n")[1:]  # it may begin within a line
        except RunError:
            return []
        return list(dict.fromkeys(line.rstrip() for line in lines if len(line.rstrip()) in LINES))[:N_EXAMPLES]

    def _encode(self, text: str) -> list[int]:
        if not text:
            raise RequestError("the text is empty, expected the beginning of a text")
        return self.run.target.encode(text)

    def source(self, ids: list[int]) -> None:
        return None

    def beginning(self, ids: list[int]) -> tuple[int, ...]:
        return tuple(ids)

    def most_written(self, ids: list[int]) -> int:
        return min(super().most_written(ids), self.window)

    def write(self, model: Model, ids: list[int], most: int) -> list[int]:
        most = min(most, self.window)
        choices = tracing.write(model, None, ids, max_length=most, alternatives=1, rules=self.rules)
        return [one.token for one in choices]

    def target(self, model: Model, ids: list[int]) -> list[int]:
        return self.write(model, ids, self.most_written(ids))


def reading_of(run: TrainedRun, folder: RunFolder) -> Reading:
    """Return what a run reads and writes."""
    return (_Continuing if isinstance(run.model, LanguageModel) else Reading)(run, folder)


def _notes(tokeniser: Tokeniser, ids: Sequence[int], pieces: Sequence[str] | None) -> list[str]:
    """Return notes about unknown tokens; where a word or a character is a token, it is quoted."""
    notes = [
        f"token {place + 1}{f' ({pieces[place]!r})' if pieces else ''} is unknown: the model reads <unk>"
        for place, token in enumerate(ids)
        if token == tokeniser.unknown
    ]
    if len(notes) > MOST_NOTES:
        notes[MOST_NOTES - 1 :] = [f"{len(notes) - MOST_NOTES + 1} others are unknown too"]
    return notes
