"""What a judge is asked about the segments of a response, and what it said: which are wrong, and how (section 3.6)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from judges.typed import Reply, Typed, misnumbered
from lm_factuality.benchmarks.felm.evidence import choose
from lm_factuality.benchmarks.felm.questions import segment_text
from lm_factuality.benchmarks.felm.rows import WITHOUT_REFERENCES
from lm_factuality.benchmarks.felm.verdicts import Verdict, vote
from lm_factuality.ground.reasons import curable

MARK_PROMPT = "felm_gen/mark_segments"
ErrorType = Literal["knowledge", "reasoning", "irrelevant", "fooled"]
TYPES: tuple[str, ...] = get_args(ErrorType)
UNTYPED = "untyped"  # an error of which the judge does not say the type; the lexical judge never does
_NO_EVIDENCE = curable("no evidence", "name a judge that needs none (docs/judges.md), or give it pages to read")


class WrongSegment(Reply):
    """A segment with an error, numbered from 1."""

    number: int
    reason: str
    type: ErrorType | None = None


class MarksReply(Reply):
    """The segments with errors."""

    wrong: list[WrongSegment]


@dataclass(frozen=True)
class Marks:
    """One entry a segment: the type of its error, or None if it is factual. ``errors`` is None if there is no verdict;
    ``reason`` says why."""

    errors: tuple[str | None, ...] | None
    reason: str | None = None


def mark_subject(doc: Mapping[str, Any], segments: Sequence[str]) -> dict[str, Any]:
    """What the prompt is about: the question, the segments, and of each reference the chunk nearest to them."""
    question, units = str(doc["prompt"]), [segment_text(segment) for segment in segments]
    is_reasoning = doc["domain"] in WITHOUT_REFERENCES
    texts = () if is_reasoning else tuple(doc.get("reference_texts") or ())
    passages = choose(texts, "\n".join([question, *units]))
    return {"kind": "marks", "question": question.strip(), "units": units, "passages": passages, "is_reasoning": is_reasoning}


def check_marks(reply: MarksReply, subject: Mapping[str, Any]) -> str:
    """A :data:`judges.typed.Check`: the numbers are those of segments, and none is there twice."""
    return misnumbered([each.number for each in reply.wrong], len(subject["units"]), "segment", is_whole=False)


def read_marks(replies: Sequence[Typed[MarksReply]], num_segments: int, domain: str) -> Marks:
    """The majority of what ``replies`` say, as ``felm.verdicts.vote`` has it; of the types that they give to a segment the
    commonest, the first of equals. All errors in math and reasoning are reasoning errors, as in the paper."""
    verdicts = [_verdict(each) for each in replies]
    verdict = verdicts[0] if len(verdicts) == 1 else vote(verdicts)
    if verdict.flagged is None:
        return Marks(None, verdict.reason)
    flagged, named = verdict.flagged, [each for read in replies if read.value for each in read.value.wrong if each.type]

    def error_of(segment: int) -> str | None:
        if segment not in flagged:
            return None
        if domain in WITHOUT_REFERENCES:
            return "reasoning"
        types = Counter(each.type for each in named if each.number == segment)
        return types.most_common(1)[0][0] if types else UNTYPED

    return Marks(tuple(error_of(segment) for segment in range(1, num_segments + 1)))


def _verdict(read: Typed[MarksReply]) -> Verdict:
    if read.value is None:
        return Verdict(None, _NO_EVIDENCE if _NO_EVIDENCE in read.problem else read.problem)
    return Verdict(frozenset(each.number for each in read.value.wrong))
