"""The word lists of the rules, the forms of words, and how often each word is met."""

from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

from factor_gen.text import lists as text
from factor_gen.text.lists import entries, rows, word_lists
from factor_gen.text.names import FIRST_NAMES, ORGANISATION_WORDS, ORGANISATIONS
from lm_factuality.ground.packages import need

DATA = Path(__file__).parent / "data"
LISTS = word_lists(DATA)
WORDS: Mapping[str, frozenset[str]] = {
    **text.WORDS,
    **{name: frozenset(words) for name, words in LISTS.items()},
    "set phrases": entries(DATA / "set_phrases.txt"),
    "first names": frozenset(FIRST_NAMES),
    "organisations": ORGANISATIONS,
    "common organisations": ORGANISATION_WORDS - ORGANISATIONS,
}
"""The word lists for look-ups, those of :mod:`factor_gen.text` among them."""
_IRREGULAR: Mapping[tuple[str, str], str] = {
    (base, tag): form for base, tag, form in rows(DATA / "irregular.tsv")
}
_RAREST = 1e-7
ANTONYM = "antonym"
NOUN = "noun"
FORMS: Mapping[str, Sequence[str]] = {
    ANTONYM: ("VB", "VBP", "VBZ", "VBD", "VBN", "VBG"),
    NOUN: ("NN", "NNS"),
}
"""The forms of an operator's words, by Penn tag. Words of other operators have one form."""


class Substitute(NamedTuple):
    """What may stand for a word, in the same form."""

    base: str
    text: str
    forms: frozenset[str]
    """The head word in all its forms."""


class Listed(NamedTuple):
    """A form of a word or phrase of the list, and what may stand for it."""

    word: Substitute
    error_type: str
    frame: str
    """What must stand around it: a value of ``frame`` in ``conditions.yaml``."""
    form: str
    """The Penn tag; empty for a phrase."""
    others: tuple[Substitute, ...]

    @property
    def words(self) -> tuple[str, ...]:
        """The words of the form."""
        return tuple(self.word.text.split(" "))


@cache
def by_first_word(operator: str) -> Mapping[str, Sequence[Listed]]:
    """The words and phrases of an operator by their first word, the longest first.

    A word with ``=`` before it in the list only stands for others.
    """
    lines: dict[Listed, dict[Substitute, None]] = {}
    for name, error_type, frame, *members in rows(DATA / "substitutes.tsv"):
        if name != operator:
            continue
        for form in FORMS.get(operator, ("",)):
            words = [_inflected(operator, member.removeprefix("="), form) for member in members]
            for member, word in zip(members, words, strict=True):
                # men, police: the line is of plurals, or of words without one
                if member.startswith("=") or (form == "NNS" and word.text == word.base):
                    continue
                others = lines.setdefault(Listed(word, error_type, frame, form, ()), {})
                others |= dict.fromkeys(other for other in words if other != word)
    groups: dict[str, list[Listed]] = {}
    for listed in sorted(lines, key=lambda listed: -len(listed.words)):
        with_others = listed._replace(others=tuple(lines[listed]))
        groups.setdefault(listed.words[0], []).append(with_others)
    return groups


def _inflected(operator: str, base: str, form: str) -> Substitute:
    head = 0 if operator == ANTONYM else -1
    forms = (inflect(base, tag).split(" ")[head] for tag in FORMS.get(operator, ()))
    return Substitute(base, inflect(base, form), frozenset(forms))


@lru_cache(maxsize=20_000)
def inflect(base: str, tag: str) -> str:
    """Inflect the base form of a verb or noun.

    Of a phrasal verb the first word is inflected, of a compound noun the last.
    """
    from lemminflect import getInflection

    if tag in ("VB", "VBP", "NN", ""):
        return base
    words = base.split(" ")
    at = 0 if tag.startswith("V") else -1
    irregular = _IRREGULAR.get((words[at], tag))
    forms = (irregular,) if irregular else getInflection(words[at], tag=tag)
    words[at] = (*forms, words[at])[0]
    return " ".join(words)


@lru_cache(maxsize=100_000)
def frequency(text: str) -> float:
    """How often a word or phrase is met among the words of English text.

    One that is not known is met once in ten million.

    Raises:
        ConfigError: wordfreq is not installed.
    """
    wordfreq = need("wordfreq", "a rule", "generate")
    return max(_RAREST, float(wordfreq.word_frequency(text.lower(), "en")))
