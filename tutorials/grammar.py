"""A small English-German grammar that writes parallel text for the tutorials on text.

It knows every right translation of its sentences, and it has what makes German hard for a word-by-word translator:
gender, case, compounds, a verb that changes places, and English words with two German ones.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

BEINGS = {
    "man": ["Mann m"],
    "woman": ["Frau f"],
    "child": ["Kind n"],
    "girl": ["Mädchen n"],
    "king": ["König m"],
}
BEINGS |= {
    "queen": ["Königin f"],
    "dog": ["Hund m"],
    "cat": ["Katze f"],
    "horse": ["Pferd n"],
}
BEINGS |= {"teacher": ["Lehrer m", "Lehrerin f"], "doctor": ["Arzt m", "Ärztin f"]}
BEINGS |= {"singer": ["Sänger m", "Sängerin f"]}

FIRST = {
    "garden": "Garten",
    "city": "Stadt",
    "school": "Schul",
    "castle": "Burg",
    "forest": "Wald",
    "park": "Park",
}
FIRST |= {"palace": "Schloss", "village": "Dorf"}
LAST = {
    "gate": "tor n",
    "wall": "mauer f",
    "path": "weg m",
    "door": "tür f",
    "tower": "turm m",
    "bridge": "brücke f",
}
LAST |= {"bench": "bank f", "roof": "dach n"}
THINGS = {f"{a} {b}": [FIRST[a] + LAST[b]] for a in FIRST for b in LAST}
"""64 compounds: the last part decides the gender."""
NOUNS = BEINGS | THINGS
HELD_OUT = ("wall", "tower", "roof", "path", "bridge", "gate", "door", "bench")
NEW = [f"{a} {b}" for a, b in zip(FIRST, HELD_OUT, strict=True)]
"""Eight compounds that no training sentence contains, though it contains each of their parts."""
KNOWN = [thing for thing in THINGS if thing not in NEW]

ADJECTIVES = {"old": "alt", "young": "jung", "big": "groß", "small": "klein"}
ADJECTIVES |= {"new": "neu", "red": "rot", "quiet": "still", "beautiful": "schön"}
ARTICLE = {  # for each case: masculine, feminine, neuter
    "the": {
        "nominative": "der die das",
        "accusative": "den die das",
        "dative": "dem der dem",
    },
    "a": {
        "nominative": "ein eine ein",
        "accusative": "einen eine ein",
        "dative": "einem einer einem",
    },
}
ENDING = {  # of the adjective after this article
    "the": {"nominative": "e e e", "accusative": "en e e", "dative": "en en en"},
    "a": {"nominative": "er e es", "accusative": "en e es", "dative": "en en en"},
}
FORMS = ("sees", "see", "seen", "sieht", "sehen", "gesehen")
VERBS = ["sees see seen sieht sehen gesehen", "finds find found findet finden gefunden"]
VERBS += [
    "paints paint painted malt malen gemalt",
    "draws draw drawn zeichnet zeichnen gezeichnet",
]
VERBS += [
    "seeks seek sought sucht suchen gesucht",
    "visits visit visited besucht besuchen besucht",
]
VERBS += [
    "shows show shown zeigt zeigen gezeigt",
    "protects protect protected schützt schützen geschützt",
]
ADVERBS = {
    "today": "heute",
    "often": "oft",
    "now": "jetzt",
    "sometimes": "manchmal",
    "tomorrow": "morgen",
}
PLACES = {"behind": "hinter", "beside": "neben", "in front of": "vor", "under": "unter"}
KINDS = [  # s and o: subject and object; p: a place
    ("{s} {sees} {o}.", "{s} {sieht} {o}."),
    ("{today} {s} {sees} {o}.", "{heute} {sieht} {s} {o}."),
    ("does {s} {see} {o}?", "{sieht} {s} {o}?"),
    ("{s} has {seen} {o}.", "{s} hat {o} {gesehen}."),
    ("{s} wants to {see} {o}.", "{s} will {o} {sehen}."),
    ("I know that {s} {sees} {o}.", "ich weiß, dass {s} {o} {sieht}."),
    ("{behind} {p} {s} {sees} {o}.", "{hinter} {p} {sieht} {s} {o}."),
    (
        "I know that {s} has {seen} {o} {behind} {p}.",
        "ich weiß, dass {s} {o} {hinter} {p} {gesehen} hat.",
    ),
]


def english(article: str, adjective: str, noun: str) -> str:
    """Return an English noun phrase."""
    words = [adjective, noun] if adjective else [noun]
    return " ".join(
        ["an" if article == "a" and words[0][0] in "aeiou" else article, *words]
    )


def german(article: str, adjective: str, noun: str, case: str) -> str:
    """Return a German noun phrase in a case; the noun comes with its gender, such as ``"Tor n"``."""
    name, gender = noun.split()
    column = "mfn".index(gender)
    words = [ARTICLE[article][case].split()[column]]
    if adjective:
        words.append(ADJECTIVES[adjective] + ENDING[article][case].split()[column])
    return " ".join([*words, name])


def tokenise(text: str) -> str:
    """Put spaces before full stops, commas and question marks."""
    return re.sub(r"([.,?])", r" \1", text)


def detokenise(text: str) -> str:
    """Take these spaces away again."""
    return re.sub(r" ([.,?])", r"\1", text)


@dataclass
class ParallelText:
    """Four parts of text, ``train``, ``valid``, ``test`` and ``new``; no sentence is in two of them.

    Each sentence of ``new`` contains a compound that ``train`` does not. Lines are cut into words by spaces.
    """

    source: dict[str, list[str]]
    """The English lines of each part."""
    target: dict[str, list[str]]
    """For each line one German translation, chosen at random, as one translator would have written it."""
    right: dict[str, list[str]]
    """All right translations of an English line."""

    def write(self) -> None:
        """Write ``train.en``, ``train.de`` and so on into the current folder."""
        for part in self.source:
            for lines, language in (
                (self.source[part], "en"),
                (self.target[part], "de"),
            ):
                Path(f"{part}.{language}").write_text(
                    "\n".join(lines) + "\n", encoding="utf-8"
                )


class Writer:
    """Draws sentences; all of them differ."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.drawn: set[str] = set()

    def pick(self, some):
        """Return one of some things."""
        return list(some)[self.rng.integers(len(some))]

    def phrase(self, nouns) -> tuple[str, str, str]:
        """Return an article, an adjective or none, and a noun."""
        return (
            self.pick(["the", "a"]),
            self.pick(ADJECTIVES) if self.rng.random() < 0.5 else "",
            self.pick(nouns),
        )

    def sentence(self, things) -> tuple[str, list[str]]:
        """Return an English sentence with all its right translations."""
        s, p = self.phrase(BEINGS), self.phrase(things)
        o = self.phrase(
            things
            if self.rng.random() < 0.5
            else [being for being in BEINGS if being != s[2]]
        )
        words = dict(zip(FORMS, self.pick(VERBS).split(), strict=True))
        words["today"], words["heute"] = self.pick(ADVERBS.items())
        words["behind"], words["hinter"] = self.pick(PLACES.items())
        ours, theirs = self.pick(KINDS)
        text = ours.format(s=english(*s), o=english(*o), p=english(*p), **words)
        place = german(*p[:2], NOUNS[p[2]][0], "dative")
        right = [
            theirs.format(
                s=german(*s[:2], a, "nominative"),
                o=german(*o[:2], b, "accusative"),
                p=place,
                **words,
            )
            for a in NOUNS[s[2]]
            for b in NOUNS[o[2]]
        ]
        return text[0].upper() + text[1:], [
            each[0].upper() + each[1:] for each in right
        ]

    def draw(self, number: int, things, wanted=("",)) -> dict[str, list[str]]:
        """Draw this many pairs that have not been drawn before; each contains one of the wanted words."""
        pairs: dict[str, list[str]] = {}
        while len(pairs) < number:
            text, right = self.sentence(things)
            if text not in self.drawn and any(word in text for word in wanted):
                self.drawn.add(text)
                pairs[text] = right
        return pairs


def parallel_text(seed: int = 0) -> ParallelText:
    """Return 5,000 training pairs, 200 for validation, 200 test pairs and 100 with new compounds."""
    writer = Writer(seed)
    parts = {"train": writer.draw(5000, KNOWN), "valid": writer.draw(200, KNOWN)}
    parts |= {"test": writer.draw(200, KNOWN), "new": writer.draw(100, NEW, NEW)}
    text = ParallelText({}, {}, {})
    for part, pairs in parts.items():
        text.source[part] = [tokenise(line) for line in pairs]
        text.target[part] = [tokenise(writer.pick(right)) for right in pairs.values()]
        text.right |= {
            tokenise(line): list(map(tokenise, right)) for line, right in pairs.items()
        }
    return text
