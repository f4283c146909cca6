"""The provenance of weights: each checkpoint records it, and a run folder that has changed since is refused."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256

from minitransformer.data import normalise_text, tokenisers_to_json
from minitransformer.options import OptionError, Options
from minitransformer.tasks import Corpus, TextCorpus
from minitransformer.tasks.corpus import Tokenisers
from minitransformer.training.checkpoints import Checkpoint
from minitransformer.training.configuration import Configuration
from minitransformer.training.errors import RunError

__all__ = [
    "DataRecord",
    "Provenance",
    "digest_of_pairs",
    "digest_of_text",
    "digest_of_tokenisers",
    "digests_of",
    "held_out_file",
    "provenance_of",
    "text_of_pairs",
]


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
        fixed = configuration.fixed()
        return [
            f"{name} is {fixed[name]!r}, but they were trained with {trained!r}"
            for name, trained in self.configuration.items()
            if name in fixed and fixed[name] != trained
        ]


@dataclass(frozen=True, kw_only=True)
class DataRecord(Options):
    """The contents of data.json: checksums of the texts by path, and one of the data made from them."""

    files: Mapping[str, str]
    fingerprint: str


def provenance_of(checkpoint: Checkpoint) -> Provenance | None:
    """Return the provenance of weights, or None for a checkpoint of an earlier version, which does not record it.

    Raises
    ------
    RunError
        If the record is damaged.
    """
    if (values := checkpoint.state.get("provenance")) is None:
        return None
    try:
        return Provenance.from_flat(values)
    except OptionError as error:
        raise RunError(f"{checkpoint.path} does not say what it was trained with: {error}") from error


def digests_of(corpus: Corpus | TextCorpus) -> dict[str, str]:
    """Return the digests of data by the name of the file in a run folder that holds it, or its checksum."""
    name, text = held_out_file(corpus)
    return {
        "vocabulary.json": digest_of_tokenisers((corpus.source, corpus.target)),
        name: digest_of_text(text),
        "data.json": corpus.fingerprint(),
    }


def digest_of_tokenisers(tokenisers: Tokenisers) -> str:
    """Return the checksum of the tokenisers of source and target."""
    return digest_of_text(json.dumps(tokenisers_to_json(*tokenisers), sort_keys=True))


def digest_of_pairs(pairs: Iterable[tuple[str, str]]) -> str:
    """Return the checksum of pairs of texts."""
    return digest_of_text(text_of_pairs(pairs))


def text_of_pairs(pairs: Iterable[tuple[str, str]]) -> str:
    """Return pairs of texts as lines: source, tab, target."""
    return "".join(f"{normalise_text(source)}\t{normalise_text(target)}\n" for source, target in pairs)


def held_out_file(corpus: Corpus | TextCorpus) -> tuple[str, str]:
    """Return name and contents of the file with what is held out: pairs, or a text as it is."""
    if isinstance(corpus, TextCorpus):
        return "held_out.txt", corpus.held_out
    return "held_out.tsv", text_of_pairs(corpus.held_out)


def digest_of_text(text: str) -> str:
    """Return the checksum of a text."""
    return sha256(text.encode("utf-8")).hexdigest()
