"""What a model wrote, as candidates; what cannot be used is counted by reason.

A contradiction counts only with its plan: every planned word stands in the completion and its replacement in the contradiction,
and the rest stayed close to the completion. Entries are numbered and hold a plan of edits, then the contradiction that follows
from it (tables 7 to 12).
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from factor_gen.generate.llm.spacing import distance, respaced, tokens
from factor_gen.records import Candidate
from judges.answers import Answer
from judges.verify import is_refusal
from lm_factuality.ground.packaged import load_yaml
from lm_factuality.ground.thinking import without_thinking

LOSSES: Mapping[str, str] = load_yaml(__package__, "losses.yaml")
_FEW, _SHARE = (8, 0.4)  # a contradiction may differ in that many words and marks, or that share of the completion's words
_LONGEST = 4  # times as long as its completion, and 200 characters: not worth comparing
_STRAY = re.compile(r"[\x00-\x1f\x7f\ufffd]|\*\*|``|<[|/]|\|>|[\ud800-\udfff]")
_WORD_OR_MARK = re.compile(r"\w+|[^\w\s]")
_QUOTES = {'"': '"', "\u201c": "\u201d"}
_PAIRED = '"()[]'
_LABELS = r"(?:Pronouns?|Changes?|Additional changes?|Contradiction)"
_START = re.compile(
    rf"^\W{{0,4}}\d{{1,3}}[.)][ \t*_]*(?=\S)|(?<=\s)\d{{1,3}}[.)][ \t*_]+(?={_LABELS}\W*:)", re.IGNORECASE | re.MULTILINE
)
_BARE_START = re.compile(rf"\W{{0,4}}{_LABELS}\W{{0,3}}:", re.IGNORECASE)
_END = re.compile(r"^\W{0,4}(?:##|(?:Context|Completion|Sentence)\W{0,3}:)", re.MULTILINE)  # goes on to another example
_CONTRADICTION = re.compile(r"[*_]{0,4}\bContradiction\W{0,3}:[*_]{0,4}[ \t]*", re.IGNORECASE)
_PLAN = re.compile(r"\bChanges?\b\W{0,3}:(.*)", re.IGNORECASE | re.DOTALL)
_LONGEST_PLAN = 2_000  # characters: a longer one is no plan of a few words
_QUOTE = r"[\"\u201c\u201d\u00ab\u00bb]"
_ANY_QUOTE = re.compile(_QUOTE)
_TO = re.compile(rf"{_QUOTE}\s*(?:\bto\b|->|\u2192)\s*{_QUOTE}", re.IGNORECASE)
_NEW_END = re.compile(rf"{_QUOTE}(?=\s*(?:[,.;)]|$|\band\b|\bAdditional\b)|[ \t]*\n)", re.IGNORECASE)
_NONE = re.compile(r"\W*(?:answer\W*)?n\W?a\W*", re.IGNORECASE)
_CLOSERS = "\"'\u201d\u2019)]"


@dataclass(frozen=True)
class Edit:
    """Words of the completion, and what is to stand in their place."""

    old: str
    new: str


@dataclass(frozen=True)
class Item:
    """One entry: its planned edits, none if there is no plan, and the contradiction, None if it is not there."""

    edits: tuple[Edit, ...]
    contradiction: str | None


@dataclass(frozen=True)
class Parsed:
    """The candidates of an answer, and how many of its entries were lost, by reason."""

    candidates: tuple[Candidate, ...]
    lost: Mapping[str, int]


def parse(answer: Answer, completion: str, error_type: str, most: int | None = None) -> Parsed:
    """The contradictions of ``completion`` in ``answer``, the first ``most`` of them. The last entry of an answer that was cut
    off is never used."""
    if answer.text is None or answer.error is not None:
        return _lost("error")
    text = without_thinking(answer.text)
    if text is None:
        return _lost("cut" if answer.is_cut_off else "thinking")
    items = _read_items("\n".join(text.splitlines()))
    if not items:
        return _lost(_why_nothing(answer, text))
    lost: Counter[str] = Counter()
    if answer.is_cut_off:
        items = items[:-1]
        lost[LOSSES["cut"]] += 1
    found: dict[str, Candidate] = {}
    for item in items:
        candidate = _read(item, completion, error_type)
        if isinstance(candidate, Candidate) and candidate.text in found:
            candidate = "repeated"
        elif isinstance(candidate, Candidate) and len(found) == most:
            candidate = "many"
        if isinstance(candidate, str):
            lost[LOSSES[candidate]] += 1
        else:
            found[candidate.text] = candidate
    return Parsed(tuple(found.values()), dict(lost))


def _why_nothing(answer: Answer, text: str) -> str:
    if _NONE.fullmatch(text.strip()):
        return "na"
    if answer.finish_reason == "content_filter" or is_refusal(text.strip()):
        return "refused"
    return "cut" if answer.is_cut_off else "format"


def _lost(reason: str) -> Parsed:
    return Parsed((), {LOSSES[reason]: 1})


def _read(item: Item, completion: str, error_type: str) -> Candidate | str:
    """The candidate of one entry, or the key in ``LOSSES`` of what is wrong with it."""
    if not item.edits:
        return "plan"
    if item.contradiction is None:
        return "nothing"
    if not all(_holds(completion, edit.old) for edit in item.edits):
        return "old"
    if "\n" in item.contradiction:
        return "lines"
    if len(item.contradiction) > _LONGEST * len(completion) + 200:
        return "far"
    text = respaced(_unquoted(item.contradiction, completion), completion)
    if _STRAY.search(text) and not _STRAY.search(completion):
        return "marks"
    if _bare(text) == _bare(completion):
        return "same"
    if _end(text) != _end(completion):
        return "end"
    if not all(_holds(text, edit.new) for edit in item.edits):
        return "new"
    if not _keeps_pairs(text, completion, item.edits):
        return "pairs"
    if distance(completion, text) > max(_FEW, _SHARE * len(completion.split())):
        return "far"
    return Candidate(text, error_type, "; ".join(f"{edit.old} -> {edit.new}" for edit in item.edits), "llm")


def _holds(text: str, words: str) -> bool:
    """Whether ``words`` stand in ``text`` as whole words, the first in any case, with any spacing; no words always do."""
    wanted, there = [each.plain for each in tokens(words)], [each.plain for each in tokens(text)]
    if not wanted:
        return True
    first = wanted[0].casefold()
    return any(
        there[start].casefold() == first and there[start + 1 : start + len(wanted)] == wanted[1:]
        for start in range(len(there) - len(wanted) + 1)
    )


def _keeps_pairs(text: str, completion: str, edits: tuple[Edit, ...]) -> bool:
    """Whether quotes and brackets are as many as they were, planned ones aside."""
    planned = "".join(edit.new for edit in edits), "".join(edit.old for edit in edits)
    return _more_pairs(text, completion) == _more_pairs(*planned)


def _more_pairs(one: str, other: str) -> list[int]:
    """How many more quotes and brackets of each sort ``one`` has than ``other``."""
    ours, theirs = ([each.plain for each in tokens(text)] for text in (one, other))
    return [ours.count(mark) - theirs.count(mark) for mark in _PAIRED]


def _unquoted(text: str, completion: str) -> str:
    """``text`` without quotes around all of it, where the completion has none."""
    closing = _QUOTES.get(text[:1])
    if closing and len(text) > 2 and text.endswith(closing) and not completion.startswith(text[0]):
        return text[1:-1].strip()
    return text


def _bare(text: str) -> list[str]:
    """The words alone: two texts with the same ones say the same."""
    return [word.casefold() for word in _WORD_OR_MARK.findall(unicodedata.normalize("NFKC", text)) if word.isalnum()]


def _end(text: str) -> str:
    """The mark that ends the sentence, and the quotes and brackets after it."""
    kept = text.rstrip()
    closing = kept[len(kept.rstrip(_CLOSERS)) :]
    stem = kept[: len(kept) - len(closing)].rstrip()
    return (stem[-1] if stem and not stem[-1].isalnum() else "") + closing


def _read_items(answer: str) -> list[Item]:
    """The entries of ``answer`` in their order. What stands before the first and from another ``##`` on is not read."""
    if end := _END.search(answer):
        answer = answer[: end.start()]
    starts = list(_START.finditer(answer))
    bodies = [
        answer[start.end() : following.start() if following else None]
        for start, following in zip(starts, [*starts[1:], None], strict=False)
    ]
    before = answer[: starts[0].start()] if starts else answer
    if _BARE_START.match(before.strip()):  # the first number is often left to the prompt
        bodies.insert(0, before)
    return [_read_item(body) for body in bodies]


def _read_item(body: str) -> Item:
    plan, *rest = _CONTRADICTION.split(body, maxsplit=1)
    planned = _PLAN.search(plan)
    edits = _read_edits(planned[1]) if planned and len(planned[1]) <= _LONGEST_PLAN else ()
    text = rest[0].strip() if rest else ""
    return Item(edits, text or None)


def _read_edits(plan: str) -> tuple[Edit, ...]:
    """The edits ``"old" to "new"``; either may hold quotes itself, but no line break.

    Each ``to`` between quotes parts an old from a new; the text between two of them is a new and the next old.
    """
    found: list[Edit] = []
    middles = list(_TO.finditer(plan))
    start = 0
    for middle, following in zip(middles, [*middles[1:], None], strict=False):
        opening = _ANY_QUOTE.search(plan, max(start, plan.rfind("\n", 0, middle.start()) + 1), middle.start())
        if opening is None or opening.end() == middle.start():
            continue
        until = len(plan) if following is None else following.start()
        closing = _NEW_END.search(plan, middle.end(), until)
        if closing and "\n" not in (new := plan[middle.end() : closing.start()]):
            found.append(Edit(plan[opening.end() : middle.start()].strip(), new.strip()))
            start = closing.end()
    return tuple(found)
