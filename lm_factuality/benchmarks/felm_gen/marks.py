"""What a judge is asked about the segments of a response, and what it said: which are wrong, and how (section 3.6)."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from judges.answers import Answer
from lm_factuality.benchmarks.felm.questions import Questioner
from lm_factuality.benchmarks.felm.rows import WITHOUT_REFERENCES, FelmRow
from lm_factuality.benchmarks.felm.verdicts import Verdict, read_verdict, vote
from lm_factuality.ground.thinking import without_thinking

MARK_PROMPT = "felm_gen/mark_segments"
TYPES = ("knowledge", "reasoning", "irrelevant", "fooled")
UNTYPED = "untyped"  # an error of which the judge does not say the type; the lexical judge never does
_TYPE_LINE = re.compile(
    rf"^[\s>*_#-]*type\s*(?:of\s*)?(?:segment\s*)?#?\(?(\d{{1,9}})\)?[\s*_]*[:：.)-][\s*_\"']*({'|'.join(TYPES)})",
    re.IGNORECASE | re.MULTILINE,
)
_LONGEST = 200  # characters of a judge's error that a reason quotes


@dataclass(frozen=True)
class Marks:
    """One entry a segment: the type of its error, or None if it is factual. ``errors`` is None if there is no verdict;
    ``reason`` says why."""

    errors: tuple[str | None, ...] | None
    reason: str | None = None


def mark_subject(doc: Mapping[str, Any], segments: Sequence[str]) -> dict[str, Any]:
    """What the prompt is about: the question, the segments, and of each reference the chunk nearest to them."""
    row = FelmRow(
        index=str(doc["index"]),
        domain=str(doc["domain"]),
        prompt=str(doc["prompt"]),
        response="",
        segments=tuple(segments),
        labels=(True,) * len(segments),
        error_types=(None,) * len(segments),
        references=(),
        reference_texts=tuple(doc.get("reference_texts") or ()),
    )
    subject = _questioner().ask(row).subject
    return {**subject, "demonstration_type": "reasoning" if row.domain in WITHOUT_REFERENCES else "knowledge"}


@cache
def _questioner() -> Questioner:
    """One for all rows: it reads the demonstrations from their file."""
    return Questioner("segment", "doc")


def read_marks(answers: Sequence[Answer], num_segments: int, domain: str) -> Marks:
    """The majority of what ``answers`` say, as ``felm.verdicts.vote`` has it; of the types that they give to a segment the
    commonest, the first of equals. All errors in math and reasoning are reasoning errors, as in the paper."""
    verdicts = [_verdict(answer, num_segments) for answer in answers]
    verdict = verdicts[0] if len(verdicts) == 1 else vote(verdicts)
    if verdict.flagged is None:
        return Marks(None, verdict.reason)
    typed = [
        _types(answer.text or "") if each.flagged is not None else {} for answer, each in zip(answers, verdicts, strict=True)
    ]

    def error_of(segment: int) -> str | None:
        if segment not in (verdict.flagged or ()):
            return None
        if domain in WITHOUT_REFERENCES:
            return "reasoning"
        named = Counter(types[segment] for types in typed if segment in types)
        return named.most_common(1)[0][0] if named else UNTYPED

    return Marks(tuple(error_of(segment) for segment in range(1, num_segments + 1)))


def _verdict(answer: Answer, num_segments: int) -> Verdict:
    if answer.error is not None:
        kind = "no evidence" if answer.error.startswith("no evidence") else f"judge error: {_short(answer.error)}"
        return Verdict(None, kind)
    if answer.finish_reason == "content_filter":
        return Verdict(None, "the judge's answer was filtered")
    said = answer.text or ""
    return read_verdict(_TYPE_LINE.sub("", said), num_segments, is_cut_off=answer.is_cut_off and not _TYPE_LINE.search(said))


def _short(message: str) -> str:
    line = " ".join(message.split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]} ..."


def _types(text: str) -> dict[int, str]:
    """The type of each segment that a line names, the last line if several do."""
    answer = without_thinking(text) or ""
    return {int(number): kind.lower() for number, kind in _TYPE_LINE.findall(answer)}
