"""The provenance of weights: each checkpoint records it, and a run folder that has changed since is refused."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256

from minitransformer.data import normalise_text, tokenisers_to_json
from minitransformer.options import OptionError, Options
from minitransformer.runs.checkpoints import Checkpoint
from minitransformer.runs.configuration import Configuration
from minitransformer.runs.errors import RunError, refusing
from minitransformer.runs.folder import CONFIGURATION, DATA, PAIRS, TEXT, VOCABULARY, RunFolder
from minitransformer.tasks import Corpus, TextCorpus
from minitransformer.tasks.corpus import Tokenisers


@dataclass(frozen=True, kw_only=True)
class Provenance(Options):
    """The provenance of weights: the options that may not be edited, and a digest of each data file.

    A digest is the SHA-256 checksum of the parsed contents, so the layout of a file does not matter.
    """

    configuration: Mapping[str, object]
    digests: Mapping[str, str]

    @classmethod
    def of(cls, configuration: Configuration, corpus: Corpus | TextCorpus) -> Provenance:
        """Return the provenance of weights trained with a configuration on its data."""
        return cls(configuration=configuration.fixed(), digests=digests_of(corpus))

    def changes(self, configuration: Configuration) -> list[str]:
        """Return a sentence for each option that another configuration has changed."""
        fixed, renamed = configuration.fixed(), configuration.renamed
        return [
            f"{name} is {fixed[name]!r}, but they were trained with {trained!r}"
            for name, trained in ((renamed.get(name, name), trained) for name, trained in self.configuration.items())
            if name in fixed and fixed[name] != trained
        ]


def check_weights(
    run: RunFolder, checkpoint: Checkpoint, configuration: Configuration, tokenisers: Tokenisers | None
) -> None:
    """Check that weights were trained with the configuration, vocabulary and held-out pairs of a run folder.

    Checkpoints of earlier versions do not record it.

    Parameters
    ----------
    run : RunFolder
        The run folder.
    checkpoint : Checkpoint
        The weights.
    configuration : Configuration
        The configuration of the folder.
    tokenisers : pair of Tokeniser, optional
        The tokenisers of the folder, if its vocabulary exists.

    Raises
    ------
    RunError
        If something has changed, or the held-out pairs are damaged; the message names the file.
    """
    if (trained := _provenance_of(checkpoint)) is None:
        return
    if changes := trained.changes(configuration):
        raise RunError(
            f"{run.path / CONFIGURATION} does not belong to the weights: {'; '.join(changes)}; restore "
            "the old values, or start a new run"
        )
    digests = {} if tokenisers is None else {VOCABULARY: _digest_of_tokenisers(tokenisers)}
    digests |= _held_out_digest(run)
    for name, found in digests.items():
        if found != (wanted := trained.digests.get(name, found)):
            raise RunError(
                f"{run.path / name} has changed since the weights were trained: its digest is {found[:12]}..., "
                f"expected {wanted[:12]}...; restore the old file, or start a new run"
            )


def check_data(run: RunFolder, corpus: Corpus | TextCorpus, checkpoint: Checkpoint | None = None) -> None:
    """Check data against the records in a run's files and checkpoint.

    Parameters
    ----------
    run : RunFolder
        The run folder.
    corpus : Corpus or TextCorpus
        The rebuilt data.
    checkpoint : Checkpoint, optional
        The checkpoint to resume from, if there is one.

    Raises
    ------
    RunError
        If the data has changed, or nothing in the folder can prove that it has not; the message names the file.
    """
    trained = checkpoint and _provenance_of(checkpoint)
    record = run.data_record() if run.has(DATA) else None
    if record:
        for path, checksum in corpus.files.items():
            if checksum not in record.files.values():  # the data may have been moved
                raise RunError(
                    f"{path} has changed since the run {run.path} began: {DATA} there has another checksum; "
                    "restore the old text, or start a new run"
                )
    elif not trained:
        raise RunError(
            f"{run.path} is not a complete run folder: {DATA} is missing, so the data may have changed "
            "since the run started; restore the file, or start a new run"
        )
    wanted = dict(trained.digests) if trained else {}
    wanted |= _held_out_digest(run)
    if record:
        wanted[DATA] = record.fingerprint
    for name, digest in digests_of(corpus).items():
        if wanted.get(name, digest) != digest:
            raise RunError(
                f"{run.path / name}{'' if run.has(name) else ' is missing'}: the data of the run {run.path} "
                "cannot be reproduced: this file, the vocabulary, a text or the version of a package has changed; "
                "restore it, or start a new run"
            )


def _provenance_of(checkpoint: Checkpoint) -> Provenance | None:
    """Return the provenance of weights, or None for a checkpoint of an earlier version, which does not record it.

    Raises
    ------
    RunError
        If the record is damaged.
    """
    if (values := checkpoint.state.get("provenance")) is None:
        return None
    with refusing(OptionError, f"{checkpoint.path} does not record what it was trained with: "):
        return Provenance.from_flat(values)


def digests_of(corpus: Corpus | TextCorpus) -> dict[str, str]:
    """Return the digests of data by the name of the file in a run folder that holds it, or its checksum."""
    name, text = held_out_file(corpus)
    return {
        VOCABULARY: _digest_of_tokenisers((corpus.source, corpus.target)),
        name: _digest_of_text(text),
        DATA: corpus.fingerprint(),
    }


def held_out_file(corpus: Corpus | TextCorpus) -> tuple[str, str]:
    """Return name and contents of the file with what is held out: pairs, or a text as it is."""
    if isinstance(corpus, TextCorpus):
        return TEXT, corpus.held_out
    return PAIRS, _text_of_pairs(corpus.held_out)


def _held_out_digest(run: RunFolder) -> dict[str, str]:
    """Return the digest of what is held out by the name of its file, if there is one."""
    found = {}
    if run.has(PAIRS):
        found[PAIRS] = _digest_of_text(_text_of_pairs(run.held_out()))
    if run.has(TEXT):
        found[TEXT] = _digest_of_text(run.held_out_text())
    return found


def _text_of_pairs(pairs: Iterable[tuple[str, str]]) -> str:
    """Return pairs of texts as lines: source, tab, target."""
    return "".join(f"{normalise_text(source)}\t{normalise_text(target)}\n" for source, target in pairs)


def _digest_of_tokenisers(tokenisers: Tokenisers) -> str:
    return _digest_of_text(json.dumps(tokenisers_to_json(*tokenisers), sort_keys=True))


def _digest_of_text(text: str) -> str:
    return sha256(text.encode("utf-8")).hexdigest()
