"""Which words of a sentence it asserts: another word for one that it denies, supposes or gives as
an example contradicts nothing (*do not open it on Monday* and *do not open it on Tuesday* may both
hold)."""

import re
from collections.abc import Callable, Mapping

from factor_gen.generate.rules import left_out
from factor_gen.generate.rules.edits import Edit
from factor_gen.generate.rules.sentence import Sentence
from factor_gen.generate.rules.words import WORDS
from factor_gen.records import COREFERENCE, ENTITY, LINK, PREDICATE
from factor_gen.text.analysis import MONTHS

_NEAR = 400  # characters before an edit that are looked at
_INSTEAD = re.compile(
    r"\b(?:rather than|other than|apart from|except for|as if|as though)\b", re.IGNORECASE
)
_EXAMPLES = re.compile(
    r"\b(?:e\.g\.|i\.e\.|such as|for (?:example|instance)|including|includes?)[^.;)]*$",
    re.IGNORECASE,
)
_ANY_TIME = re.compile(
    r"\b(?:when(?:ever)?|once|until|till|while|(?:each|every|by the|the (?:first|next|last))"
    r" time|as (?:soon|long) as)\b",
    re.IGNORECASE,
)
_ASKED = re.compile(r"\bon (?:which|what|whose|how|whether|who|where)\b")
_OPEN_CONDITION = re.compile(
    r"[^\s,;:.(] (?:if|unless|whether) [^;:.]*$"
)  # up to the end, whatever commas follow
_DAY = re.compile(rf", (?:{'|'.join(sorted(MONTHS))}) \d{{1,2}}, \d{{4}}\.?\Z", re.IGNORECASE)
_NEXT = re.compile(r"[.!?][\"”’)]* [A-Z“\"]")
_BRACKETS = re.compile(r"\([^()]*\)")
_WORD = re.compile(r"n['’]t\b|\w+?(?=n['’]t\b)|\w+", re.IGNORECASE)
_DENIALS = ("negation added", "negation in time")
_FLIPS = ("negation removed", *_DENIALS)


def unasserted(sentence: Sentence, edit: Edit) -> str | None:
    """Why ``edit`` need not contradict the sentence: a key of ``REASONS``; None if nothing says
    so."""
    start, end = (edit.replacements or ((0, 0, ""),))[0][:2]
    return next(
        (reason for reason, holds in REASONS.items() if holds(sentence, edit, start, end)), None
    )


def _clause(sentence: Sentence, start: int) -> str:
    """What stands between the last mark and the edit, without what is in brackets, or within those
    that the edit is in."""
    found = sentence.text[max(sentence.clause_start(start), start - _NEAR) : start]
    return _BRACKETS.sub("", found).rpartition("(")[2]


def _has(name: str, clause: str) -> bool:
    return not WORDS[name].isdisjoint(
        each.lower() for each in _WORD.findall(clause) if each != "May"
    )  # the month


def _breaks_phrase(sentence: Sentence, edit: Edit, *_: int) -> bool:
    return any(sentence.breaks_phrase(start, end) for start, end, _ in edit.replacements)


def _conceded(sentence: Sentence, edit: Edit, start: int, _: int) -> bool:
    """What the rest of the sentence holds in spite of."""
    return edit.type == PREDICATE and _has("conceding", _clause(sentence, start))


def _at_odds(sentence: Sentence, edit: Edit, start: int, end: int) -> bool:
    """What something that follows goes with: *and bypasses all checks*, *or it will fail*,
    *because*, *refuses ... until*."""
    later = sentence.text[end : end + _NEAR]
    if (
        _has("denying", sentence.text[start:end])
        and not _has("denying", edit.replacements[0].new)
        and _has("denied only", later)
    ):
        return True
    if edit.operator in ("antonym", "adverb", "comparison") and _has("giving reasons", later):
        return True
    denies = edit.operator in _DENIALS or (edit.operator == "adverb" and edit.type == PREDICATE)
    if denies and (
        _has("some of all", _clause(sentence, start)) or _NEXT.search(sentence.text, end)
    ):
        return True  # some boats are not green, and some are
    return denies and end <= sentence.last_consequence


def _denied(sentence: Sentence, edit: Edit, start: int, _: int) -> bool:
    """Something denied, or in whose place something else is; not what turns the denial around or
    says why it holds."""
    if edit.operator in (*_FLIPS, "cause"):
        return False
    clause = _clause(sentence, start)
    return _has("denying", clause) or _INSTEAD.search(clause) is not None


def _supposed(sentence: Sentence, edit: Edit, start: int, end: int) -> bool:
    """A condition, or a time that is any time at which something is so."""
    clause = _clause(sentence, start)
    if edit.operator in ("number", "unit", "date") and _is_any_value(sentence, clause, start, end):
        return True
    if (edit.type != COREFERENCE and not sentence.is_past and _ANY_TIME.search(clause)) or _has(
        "supposing", clause
    ):
        return True
    if _ASKED.search(clause) or (
        edit.type == PREDICATE and clause.lower().lstrip().startswith("as ")
    ):
        return True
    return _OPEN_CONDITION.search(sentence.text[max(0, start - _NEAR) : start]) is not None


def _is_any_value(sentence: Sentence, clause: str, start: int, end: int) -> bool:
    """Whether a number is one of many that would do: in a clause with *may* or *any*, or a sentence
    with *suppose*; or in an example, unless that tells what was."""
    around = sentence.text[max(0, start - _NEAR) : end + _NEAR]
    rest = sentence.text[end : sentence.clause_end(end)]
    if _has("any value", clause) or _has("any value", rest) or _has("imagined", around):
        return True
    return not sentence.is_past and _has("examples", around)


def _possible(sentence: Sentence, edit: Edit, start: int, _: int) -> bool:
    """One of several things that can be; what the caption of a photograph shows can be seen on
    another day too."""
    if edit.operator in ("date", *_FLIPS) and _DAY.search(sentence.text):
        return not any(
            each.tag in ("VBD", "MD") or each.text.lower() in ("has", "have")
            for each in sentence.tokens
        )
    is_other = edit.type in (ENTITY, PREDICATE) or edit.operator in ("adverb", "place and time")
    return (
        is_other
        and edit.operator not in (*_FLIPS, left_out.OPERATOR)
        and _has("possible", _clause(sentence, start))
    )


def _one_of_several(sentence: Sentence, edit: Edit, start: int, end: int) -> bool:
    """An example, or one of two of which either may be meant."""
    if edit.operator in _FLIPS or edit.type == LINK:
        return False
    first = max(0, start - _NEAR)
    found = _EXAMPLES.search(sentence.text[first:start])
    if found and first + found.start() > len("(For "):
        return True
    around = (
        *sentence.text[first:start].split()[-1:],
        *sentence.text[end : end + _NEAR].split()[:1],
    )
    return edit.type != PREDICATE and not {"or", "and/or"}.isdisjoint(around)


REASONS: Mapping[str, Callable[[Sentence, Edit, int, int], bool]] = {
    "part of a fixed phrase": _breaks_phrase,
    "part of a concession": _conceded,
    "a ground for what follows": _at_odds,
    "part of a denial": _denied,
    "part of a condition": _supposed,
    "one of several that may be": _possible,
    "an example, or one of two": _one_of_several,
}
