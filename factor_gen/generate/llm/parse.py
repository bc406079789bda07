"""What a model wrote, as candidates; what cannot be used is counted by reason.

A contradiction counts only with its plan: every planned word stands in the completion and its
replacement in the contradiction, and the rest stayed close to the completion. As in tables 7 to 12,
an entry is a plan of edits, then the contradiction that follows from it; the paper's entries are
numbered lines, ours JSON.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from factor_gen.generate.compatible import compatible_reason
from factor_gen.generate.llm.spacing import distance, plain, respaced
from factor_gen.records import Candidate
from judges.answers import Answer
from judges.typed import ParsedReply, Reply
from lm_factuality.ground.sentences import spaced
from lm_factuality.ground.thinking import without_thinking

REFUSED = "llm: refused by the server"
REPEATED = "llm: repeated"
# A contradiction may differ in so many words and marks, or that share of the completion's words.
_FEW = 8
_SHARE = 0.4
_LONGEST = 4  # times as long as its completion, and 200 characters: not worth comparing
_STRAY = re.compile(r"[\x00-\x1f\x7f\ufffd]|\*\*|``|<[|/]|\|>|[\ud800-\udfff]")
_WORD = re.compile(r"[^\W_]+")
_PAIRED = '"()[]'
_NUMBERED = re.compile(r"\s\d+\.\s+(?=(?:Pronoun|Change)\b)")
_CHANGE = re.compile(
    r"[\"\u201c]([^\"\u201c\u201d]*)[\"\u201d] to [\"\u201c]([^\"\u201c\u201d]*)[\"\u201d]"
)
_CLOSERS = "\"'\u201d\u2019)]"


class Edit(Reply):
    """Words of the completion, and what is to stand in their place."""

    old: str
    new: str


class Contradiction(Reply):
    """One entry: its planned edits, then the sentence that follows from them."""

    edits: list[Edit]
    contradiction: str


class Contradictions(Reply):
    """What a model is asked for; none where the completion has nothing to edit."""

    contradictions: list[Contradiction]


@dataclass(frozen=True)
class Parsed:
    """The candidates of an answer, and how many of its entries were lost, by reason."""

    candidates: tuple[Candidate, ...]
    lost: Mapping[str, int]


def read_numbered(answer: Answer) -> ParsedReply[Contradictions]:
    """The entries of an answer in the form of tables 7 to 12 of the paper.

    They are numbered, each with its quoted changes and then, after ``Contradiction:``, the
    sentence. ``NA`` stands for none; what a model writes behind ``##`` is an example of its own.
    """
    if answer.error is not None or answer.text is None:
        return ParsedReply(None, f"judge error: {answer.error or 'no text'}", answer)
    text = (without_thinking(answer.text) or "").partition("##")[0].strip()
    entries = []
    for entry in _NUMBERED.split(f"\n{text}")[1:]:
        plan, _, sentence = entry.partition("Contradiction:")
        edits = [Edit(old=old, new=new) for old, new in _CHANGE.findall(plan)]
        entries.append(Contradiction(edits=edits, contradiction=sentence.strip()))
    if not entries and not text.startswith("NA"):
        return ParsedReply(None, "no numbered contradiction", answer)
    return ParsedReply(Contradictions(contradictions=entries), "", answer)


def parse(
    reply: ParsedReply[Contradictions], completion: str, error_type: str, most: int | None = None
) -> Parsed:
    """Read the contradictions of a completion in a reply, the first ``most`` of them."""
    if reply.value is None:
        return Parsed((), {REFUSED if reply.answer.error else f"llm: {reply.problem}": 1})
    lost: Counter[str] = Counter()
    candidates: dict[str, Candidate] = {}
    if not reply.value.contradictions:
        lost["llm: none to be made"] += 1
    for entry in reply.value.contradictions:
        edits = [edit for edit in entry.edits if edit.old.strip()]
        written = entry.contradiction.strip()
        problem = _problem_of_plan(edits, written, completion)
        text = written if problem else respaced(written, completion)
        problem = problem or _problem(edits, text, completion)
        if problem:
            lost[f"llm: {problem}"] += 1
        elif text in candidates:
            lost[REPEATED] += 1
        elif len(candidates) == most:
            lost["llm: more than were asked for"] += 1
        else:
            described = "; ".join(f"{edit.old.strip()} -> {edit.new.strip()}" for edit in edits)
            candidates[text] = Candidate(text, error_type, described, "llm")
    return Parsed(tuple(candidates.values()), dict(lost))


def _problem_of_plan(edits: Sequence[Edit], written: str, completion: str) -> str:
    """Why a sentence is not worth comparing with the completion; empty if it is."""
    if not edits:
        return "no plan"
    if not written:
        return "no contradiction after the plan"
    if not all(_holds(completion, edit.old) for edit in edits):
        return "planned words not in the completion"
    if len(written.splitlines()) > 1:
        return "more than one line"
    is_far = len(written) > _LONGEST * len(completion) + 200
    return "too far from the completion" if is_far else ""


def _problem(edits: Sequence[Edit], text: str, completion: str) -> str:
    """Why a sentence is no contradiction of the completion; empty if it is one."""
    if _STRAY.search(text) and not _STRAY.search(completion):
        return "stray characters"
    if _bare(text) == _bare(completion):
        return "same as the completion"
    if _end(text) != _end(completion):
        return "another end than the completion"
    if not all(_holds(text, edit.new) for edit in edits):
        return "planned words not in the contradiction"
    if not _keeps_pairs(text, completion, edits):
        return "quotes or brackets changed without a plan"
    if distance(completion, text) > max(_FEW, _SHARE * len(spaced(completion).split())):
        return "too far from the completion"
    reasons = []
    for edit in edits:
        start, old = completion.find(edit.old.strip()), edit.old.strip()
        if start < 0:
            return ""
        reasons.append(compatible_reason(completion, start, start + len(old), edit.new.strip()))
    return (reasons[0] or "") if all(reasons) else ""


def _holds(text: str, words: str) -> bool:
    """Whether a text has some words, the first in any case, with any spacing.

    It always has no words.
    """
    wanted, there = plain(words), plain(text)
    if not wanted:
        return True
    first = wanted[0].casefold()
    return any(
        there[start].casefold() == first and there[start + 1 : start + len(wanted)] == wanted[1:]
        for start in range(len(there) - len(wanted) + 1)
    )


def _keeps_pairs(text: str, completion: str, edits: Sequence[Edit]) -> bool:
    """Whether quotes and brackets are as many as they were, planned ones aside."""
    new, old = plain(text), plain(completion)
    planned = plain("".join(edit.new for edit in edits)), plain("".join(edit.old for edit in edits))
    return all(
        new.count(mark) - old.count(mark) == planned[0].count(mark) - planned[1].count(mark)
        for mark in _PAIRED
    )


def _bare(text: str) -> list[str]:
    """The words alone: two texts with the same ones say the same."""
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())


def _end(text: str) -> str:
    """The mark that ends the sentence, and the quotes and brackets after it."""
    kept = text.rstrip()
    stem = kept.rstrip(_CLOSERS)
    mark = stem.rstrip()[-1:]
    return ("" if mark.isalnum() else mark) + kept[len(stem) :]
