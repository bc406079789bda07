"""The word lists of the rules, with every inflection, and how often each word is met."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import TypeVar

from factor_gen.text import lists as text
from factor_gen.text.lists import entries, rows, word_lists
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.packages import need

DATA = Path(__file__).parent / "data"
LISTS = word_lists(DATA)
WORDS: Mapping[str, frozenset[str]] = {
    **text.WORDS,
    **{name: frozenset(words) for name, words in LISTS.items()},
    "set phrases": entries(DATA / "set_phrases.txt"),
}
"""The word lists for look-ups, those of :mod:`factor_gen.text` among them."""
FORMS = ("VB", "VBP", "VBZ", "VBD", "VBN", "VBG")
_IRREGULAR: Mapping[tuple[str, str], str] = {
    (base, tag): form for base, tag, form in rows(DATA / "irregular.tsv", 3)
}
_RAREST = 1e-7
Entry = TypeVar("Entry")
FRAMES = ("t", "n", "i", "m", "c", "x", "to")


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb of a pair: its base form, its opposite, and in which frame."""

    base: str
    opposite: str
    frame: str


@lru_cache(maxsize=20_000)
def inflect(base: str, tag: str) -> str:
    """The base form of a verb or noun, inflected; of a phrasal verb its first word is, of a
    compound noun its last."""
    from lemminflect import getInflection

    if tag in ("VB", "VBP", "NN"):
        return base
    words = base.split(" ")
    at = 0 if tag.startswith("V") else -1
    known = _IRREGULAR.get((words[at], tag))
    forms = (known,) if known else getInflection(words[at], tag=tag)
    words[at] = forms[0] if forms else words[at]
    return " ".join(words)


def grouped(pairs: Iterable[tuple[str, Entry]]) -> Mapping[str, tuple[Entry, ...]]:
    """The entries by their first word, each once, in the order given."""
    found: dict[str, dict[Entry, None]] = {}
    for word, entry in pairs:
        found.setdefault(word, {})[entry] = None
    return {word: tuple(entries) for word, entries in found.items()}


@cache
def verbs() -> Mapping[str, tuple[tuple[Verb, str], ...]]:
    """The verbs of the list and the tag of the form, by the inflected first word. Raises DataError:
    a frame is none of ``FRAMES``."""
    pairs: list[tuple[str, tuple[Verb, str]]] = []
    for one, other, frame in (row[:3] for row in rows(DATA / "verbs.tsv", 3)):
        if frame not in FRAMES:
            raise DataError(
                f"{DATA / 'verbs.tsv'}: {one}, {other}: frame {frame}; expected one of"
                f" {', '.join(FRAMES)}"
            )
        verbs = Verb(one, other, frame), Verb(other, one, frame)
        pairs += [
            (inflect(verb.base, tag).split(" ")[0], (verb, tag)) for verb in verbs for tag in FORMS
        ]
    return grouped(pairs)


@cache
def nouns() -> Mapping[str, tuple[tuple[tuple[str, ...], str, tuple[str, ...]], ...]]:
    """By first word: the words of the form, its tag, and what may stand for it in the same
    number."""
    found: dict[tuple[tuple[str, ...], str], list[str]] = {}
    for members in rows(DATA / "nouns.tsv", 2):
        for tag in ("NN", "NNS"):
            forms = [inflect(member, tag) for member in members]
            for member, form in zip(members, forms, strict=True):
                if tag == "NNS" and form == member:
                    continue  # men, police: the line is of plurals, or of words without one
                others = found.setdefault((tuple(form.split(" ")), tag), [])
                others += [other for other in forms if other != form and other not in others]
    longest_first = sorted(found.items(), key=lambda item: -len(item[0][0]))
    return grouped(
        (words[0], (words, tag, tuple(others))) for (words, tag), others in longest_first
    )


@lru_cache(maxsize=100_000)
def frequency(text: str) -> float:
    """How often a word or phrase is met among the words of English text; one that is not known,
    once in ten million. Raises ConfigError: wordfreq is not installed."""
    return max(
        _RAREST, float(need("wordfreq", "a rule", "generate").word_frequency(text.lower(), "en"))
    )
