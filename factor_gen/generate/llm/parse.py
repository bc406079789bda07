"""What a model wrote, as candidates; what cannot be used is counted by reason.

A contradiction counts only with its plan: every planned word stands in the completion and its
replacement in the contradiction, and the rest stayed close to the completion. As in tables 7 to 12,
an entry is a plan of edits, then the contradiction that follows from it; the paper's entries are
numbered lines, ours JSON."""

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from factor_gen.generate.compatible import compatible
from factor_gen.generate.llm.spacing import distance, respaced, tokens
from factor_gen.records import Candidate
from judges.answers import Answer
from judges.typed import Reply, Typed
from lm_factuality.ground.packages import load_yaml
from lm_factuality.ground.sentences import spaced
from lm_factuality.ground.thinking import without_thinking

LOSSES: Mapping[str, str] = load_yaml(__package__, "losses.yaml")
_FEW, _SHARE = (
    8,
    0.4,
)  # a contradiction may differ in that many words and marks, or that share of the completion's words  # noqa: E501
_LONGEST = 4  # times as long as its completion, and 200 characters: not worth comparing
_STRAY = re.compile(r"[\x00-\x1f\x7f\ufffd]|\*\*|``|<[|/]|\|>|[\ud800-\udfff]")
_WORD_OR_MARK = re.compile(r"\w+|[^\w\s]")
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


def read_numbered(answer: Answer) -> Typed[Contradictions]:
    """The entries of an answer in the form of tables 7 to 12 of the paper: numbered, each with its
    quoted changes and then, after ``Contradiction:``, the sentence. ``NA`` stands for none; what a
    model writes behind ``##`` is an example of its own."""
    if answer.error is not None or answer.text is None:
        return Typed(None, f"judge error: {answer.error or 'no text'}", answer)
    text = (without_thinking(answer.text) or "").partition("##")[0].strip()
    found = []
    for entry in _NUMBERED.split(f"\n{text}")[1:]:
        plan, _, sentence = entry.partition("Contradiction:")
        edits = [Edit(old=old, new=new) for old, new in _CHANGE.findall(plan)]
        found.append(Contradiction(edits=edits, contradiction=sentence.strip()))
    if not found and not text.startswith("NA"):
        return Typed(None, "no numbered contradiction", answer)
    return Typed(Contradictions(contradictions=found), "", answer)


def parse(
    read: Typed[Contradictions], completion: str, error_type: str, most: int | None = None
) -> Parsed:
    """The contradictions of ``completion`` in a reply, the first ``most`` of them."""
    if read.value is None:
        return Parsed((), {LOSSES["error"] if read.answer.error else f"llm: {read.problem}": 1})
    if not read.value.contradictions:
        return Parsed((), {LOSSES["na"]: 1})
    lost: Counter[str] = Counter()
    found: dict[str, Candidate] = {}
    for item in read.value.contradictions:
        candidate = _read(item, completion, error_type)
        if isinstance(candidate, Candidate) and candidate.text in found:
            candidate = "repeated"
        elif isinstance(candidate, Candidate) and len(found) == most:
            candidate = "many"
        if isinstance(candidate, str):
            lost[LOSSES.get(candidate) or f"llm: {candidate}"] += 1
        else:
            found[candidate.text] = candidate
    return Parsed(tuple(found.values()), dict(lost))


def _read(item: Contradiction, completion: str, error_type: str) -> Candidate | str:
    """The candidate of one entry, or what is wrong with it: a key in ``LOSSES``, or one of
    ``compatible.REASONS``."""
    edits = [edit for edit in item.edits if edit.old.strip()]
    written = item.contradiction.strip()
    if not edits:
        return "plan"
    if not written:
        return "nothing"
    if not all(_holds(completion, edit.old) for edit in edits):
        return "old"
    if len(written.splitlines()) > 1:
        return "lines"
    if len(written) > _LONGEST * len(completion) + 200:
        return "far"
    text = respaced(written, completion)
    if _STRAY.search(text) and not _STRAY.search(completion):
        return "marks"
    if _bare(text) == _bare(completion):
        return "same"
    if _end(text) != _end(completion):
        return "end"
    if not all(_holds(text, edit.new) for edit in edits):
        return "new"
    if not _keeps_pairs(text, completion, edits):
        return "pairs"
    if distance(completion, text) > max(_FEW, _SHARE * len(spaced(completion).split())):
        return "far"
    places = [
        (completion.find(edit.old.strip()), edit.old.strip(), edit.new.strip()) for edit in edits
    ]
    reasons = [
        at >= 0 and compatible(completion, at, at + len(old), new) for at, old, new in places
    ]
    if all(reasons):
        return str(reasons[0])
    return Candidate(
        text,
        error_type,
        "; ".join(f"{edit.old.strip()} -> {edit.new.strip()}" for edit in edits),
        "llm",
    )


def _holds(text: str, words: str) -> bool:
    """Whether ``words`` stand in ``text`` as whole words, the first in any case, with any spacing;
    no words always do."""
    wanted, there = [each.plain for each in tokens(words)], [each.plain for each in tokens(text)]
    if not wanted:
        return True
    first = wanted[0].casefold()
    return any(
        there[start].casefold() == first and there[start + 1 : start + len(wanted)] == wanted[1:]
        for start in range(len(there) - len(wanted) + 1)
    )


def _keeps_pairs(text: str, completion: str, edits: Sequence[Edit]) -> bool:
    """Whether quotes and brackets are as many as they were, planned ones aside."""
    planned = "".join(edit.new for edit in edits), "".join(edit.old for edit in edits)
    return _more_pairs(text, completion) == _more_pairs(*planned)


def _more_pairs(one: str, other: str) -> list[int]:
    """How many more quotes and brackets of each sort ``one`` has than ``other``."""
    ours, theirs = ([each.plain for each in tokens(text)] for text in (one, other))
    return [ours.count(mark) - theirs.count(mark) for mark in _PAIRED]


def _bare(text: str) -> list[str]:
    """The words alone: two texts with the same ones say the same."""
    return [
        word.casefold()
        for word in _WORD_OR_MARK.findall(unicodedata.normalize("NFKC", text))
        if word.isalnum()
    ]


def _end(text: str) -> str:
    """The mark that ends the sentence, and the quotes and brackets after it."""
    kept = text.rstrip()
    closing = kept[len(kept.rstrip(_CLOSERS)) :]
    stem = kept[: len(kept) - len(closing)].rstrip()
    return (stem[-1] if stem and not stem[-1].isalnum() else "") + closing
