"""The word lists of the rules, with every inflection, and how often each word is met."""

from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple, TypeVar

from factor_gen.text import lists as text
from factor_gen.text.lists import entries, rows, word_lists
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
    (base, tag): form for base, tag, form in rows(DATA / "irregular.tsv")
}
_RAREST = 1e-7
Entry = TypeVar("Entry")


class Verb(NamedTuple):
    """A verb of a pair."""

    base: str
    opposite: str
    frame: str
    """What it takes as objects: a value of ``frame`` in ``conditions.yaml``."""


@lru_cache(maxsize=20_000)
def inflect(base: str, tag: str) -> str:
    """Inflect the base form of a verb or noun.

    Of a phrasal verb the first word is inflected, of a compound noun the last.
    """
    from lemminflect import getInflection

    if tag in ("VB", "VBP", "NN"):
        return base
    words = base.split(" ")
    at = 0 if tag.startswith("V") else -1
    irregular = _IRREGULAR.get((words[at], tag))
    forms = (irregular,) if irregular else getInflection(words[at], tag=tag)
    words[at] = (*forms, words[at])[0]
    return " ".join(words)


def grouped(pairs: Iterable[tuple[str, Entry]]) -> Mapping[str, tuple[Entry, ...]]:
    """Group entries by their first word, each once, in the order in which they come."""
    groups: dict[str, list[Entry]] = {}
    for word, entry in dict.fromkeys(pairs):
        groups.setdefault(word, []).append(entry)
    return {word: tuple(entries) for word, entries in groups.items()}


@cache
def verbs() -> Mapping[str, tuple[tuple[Verb, str], ...]]:
    """The verbs of the list and the tag of the form, by the inflected first word."""
    pairs = []
    for one, other, frame in (row[:3] for row in rows(DATA / "verbs.tsv")):
        for verb in (Verb(one, other, frame), Verb(other, one, frame)):
            pairs += [(inflect(verb.base, tag).split(" ")[0], (verb, tag)) for tag in FORMS]
    return grouped(pairs)


@cache
def nouns() -> Mapping[str, tuple[tuple[tuple[str, ...], str, tuple[str, ...]], ...]]:
    """The nouns of the list, by the first word of the form.

    Each has its words, its tag, and what may stand for it in the same number; the longest is first.
    """
    lines: dict[tuple[str, str], list[str]] = {}
    for members in rows(DATA / "nouns.tsv"):
        for tag in ("NN", "NNS"):
            forms = [inflect(member, tag) for member in members]
            for member, form in zip(members, forms, strict=True):
                # men, police: the line is of plurals, or of words without one
                if tag == "NN" or form != member:
                    lines.setdefault((form, tag), []).extend(forms)
    entries = []
    for (form, tag), forms in lines.items():
        words = tuple(form.split(" "))
        others = tuple(other for other in dict.fromkeys(forms) if other != form)
        entries.append((words[0], (words, tag, others)))
    return grouped(sorted(entries, key=lambda entry: -len(entry[1][0])))


@lru_cache(maxsize=100_000)
def frequency(text: str) -> float:
    """How often a word or phrase is met among the words of English text.

    One that is not known is met once in ten million.

    Raises:
        ConfigError: wordfreq is not installed.
    """
    wordfreq = need("wordfreq", "a rule", "generate")
    return max(_RAREST, float(wordfreq.word_frequency(text.lower(), "en")))
