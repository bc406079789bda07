"""What counts as an answer (an empty generation and a refusal hold no errors, but that does not
make them factual), and what a judge is asked of it, in order: to cut it into segments (section 3.5
and table 3 of the paper), and to mark each.

The paper says "sentence boundary" for four kinds of prompts and a model for math and
recommendation. The published file does not tell recommendation from writing, so the judge cuts all
of ``writing_rec``; and its segments of ``reasoning`` end at empty lines too. Against the published
segments the cuts have a boundary F1 of 0.90 (wk, sentences), 0.89 (science, sentences), 0.82
(reasoning, paragraphs; 0.76 by sentences) and, where no judge cuts, 0.90 (writing_rec) and 0.75
(math). What wk and science lack are segments of nothing but "1.": the paper's tokenizer (NLTK's
Punkt, 0.97 on this text) cuts the number of a list off its item. Such cuts aside they have 0.96 and
0.97."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from judges.typed import ParsedReply, Reply, numbering_problem
from lm_factuality.benchmarks.felm.questions import choose, segment_text
from lm_factuality.benchmarks.felm.rows import WITHOUT_REFERENCES
from lm_factuality.benchmarks.felm.verdicts import vote
from lm_factuality.ground.packages import load_patterns
from lm_factuality.ground.sentences import split_sentences
from lm_factuality.ground.thinking import UNFINISHED, said, without_thinking
from lm_factuality.harness.generation import JsonObject

EMPTY, REFUSAL = "empty", "refusal"
_PATTERNS = load_patterns(__package__)


def to_answer(generation: str) -> str:
    """The generation without the thinking that some models put before their answer; all of it if
    the thinking never ends."""
    return said(generation).strip()


def no_answer(generation: str) -> str | None:
    """Why ``generation`` is no answer: ``empty``, ``refusal`` or ``UNFINISHED``; None if it is one.
    A refusal is a text without a list whose every sentence either refuses or is what people put
    round a refusal (an apology, an offer), one of them refusing."""
    text = without_thinking(generation)
    if text is None:
        return UNFINISHED
    if not re.search(r"\w", text):
        return EMPTY
    if _PATTERNS["answers_anyway"].search(text):
        return None
    sentences = split_sentences(text.strip().replace("’", "'"))
    refusing = [bool(_PATTERNS["refusing"].search(sentence)) for sentence in sentences]
    around = [bool(_PATTERNS["around"].search(sentence)) for sentence in sentences]
    return REFUSAL if any(refusing) and all(map(max, refusing, around)) else None


CUT_PROMPT, MARK_PROMPT = "felm_gen/segment", "felm_gen/mark_segments"
CUT_TOKENS = 1024  # that a judge may write: the numbers of all pieces
BY_JUDGE = frozenset({"math", "writing_rec"})
_BY_SENTENCES = frozenset({"wk", "science"})
_PARAGRAPH = re.compile(r"\n\s*\n")
ErrorType = Literal["knowledge", "reasoning", "irrelevant", "fooled"]
TYPES: tuple[str, ...] = get_args(ErrorType)
UNTYPED = (  # an error of which the judge does not say the type; the lexical judge never does
    "untyped"
)
_NO_EVIDENCE = "no evidence"


class CutReply(Reply):
    """The numbers, from 1, of the pieces of each segment."""

    segments: list[list[int]]


@dataclass(frozen=True)
class Cut:
    """The segments of a response, which make up all of it, as records hold them."""

    segments: list[str]

    cut_by: str
    """``sentences``, ``paragraphs`` or ``judge``."""

    cut_refused: str | None = None
    """Why a judge's cut was not taken."""


def cut_by_rules(response: str, domain: str, refused: str | None = None) -> Cut:
    """Cut a response into sentences. Outside ``wk`` and ``science`` an empty line ends one too."""
    if domain in _BY_SENTENCES:
        return Cut(split_sentences(response), "sentences", refused)
    sentences: list[str] = []
    for paragraph in _PARAGRAPH.split(response):
        sentences += split_sentences(paragraph)
    return Cut(sentences, "paragraphs", refused)


def pieces_of(response: str) -> list[str]:
    """The sentences of each line: the smallest parts that a judge can group into segments."""
    return [sentence for line in response.splitlines() for sentence in split_sentences(line)]


def cut_subject(response: str) -> JsonObject:
    return {"kind": "cut", "pieces": pieces_of(response)}


def check_cut(reply: CutReply, subject: Mapping[str, Any]) -> str:
    """A :data:`judges.typed.Check`: every piece is there once, in order."""
    numbers = [number for segment in reply.segments for number in segment]
    return numbering_problem(numbers, len(subject["pieces"]), "piece") or (
        "" if numbers == sorted(numbers) else "pieces out of order"
    )


def cut(response: str, domain: str, reply: ParsedReply[CutReply]) -> Cut:
    """Cut a response as a judge's reply says, each segment the response's own text.

    Where the reply cannot be used, rules cut.
    """
    if reply.value is None:
        return cut_by_rules(response, domain, reply.problem)
    pieces = pieces_of(response)
    # White space is no part of a piece, so borders are found by counting other characters.
    ends = [end for end, character in enumerate(response, 1) if not character.isspace()]
    segments = []
    start = 0
    seen = 0
    for numbers in filter(None, reply.value.segments):
        text = "".join(pieces[number - 1] for number in numbers)
        seen += len("".join(text.split()))
        segments.append(response[start : ends[seen - 1]].strip())
        start = ends[seen - 1]
    return Cut(segments, "judge")


class WrongSegment(Reply):
    """A segment with an error, numbered from 1."""

    number: int
    reason: str
    type: ErrorType | None = None


class MarksReply(Reply):
    """The segments with errors."""

    wrong: list[WrongSegment]


def mark_subject(doc: Mapping[str, Any], segments: Sequence[str]) -> JsonObject:
    """What the prompt is about: the question, the segments, and of each reference the chunk nearest
    to them."""
    question, units = str(doc["prompt"]), [segment_text(segment) for segment in segments]
    is_reasoning = doc["domain"] in WITHOUT_REFERENCES
    texts = () if is_reasoning else tuple(doc.get("reference_texts") or ())
    passages = choose(texts, "\n".join([question, *units]))
    return {
        "kind": "marks",
        "question": question.strip(),
        "units": units,
        "passages": passages,
        "is_reasoning": is_reasoning,
    }


def check_marks(reply: MarksReply, subject: Mapping[str, Any]) -> str:
    """Say what is wrong with a reply, whose numbers have to be those of segments, none twice."""
    numbers = [segment.number for segment in reply.wrong]
    return numbering_problem(numbers, len(subject["units"]), "segment", is_whole=False)


def read_marks(
    replies: Sequence[ParsedReply[MarksReply]], num_segments: int, domain: str
) -> tuple[str | None, ...] | str:
    """Return the majority of what replies say, as ``felm.verdicts.vote`` has it.

    Of the types that they give to a segment it takes the commonest, the first of equals. All errors
    in math and reasoning are reasoning errors, as in the paper.

    Returns:
        For each segment the type of its error (section 3.6), None if it is factual; or the reason
        why there are none.
    """
    verdicts: list[frozenset[int] | str] = []
    types: Counter[tuple[int, str]] = Counter()
    for reply in replies:
        if reply.value is None:
            verdicts.append(_NO_EVIDENCE if _NO_EVIDENCE in reply.problem else reply.problem)
            continue
        verdicts.append(frozenset(segment.number for segment in reply.value.wrong))
        types.update((wrong.number, wrong.type) for wrong in reply.value.wrong if wrong.type)
    flagged = verdicts[0] if len(verdicts) == 1 else vote(verdicts)
    if isinstance(flagged, str):
        return flagged
    errors = dict.fromkeys(flagged, UNTYPED)
    # From the rarest to the commonest, which stays.
    for (number, kind), _ in reversed(types.most_common()):
        if number in errors:
            errors[number] = kind
    if domain in WITHOUT_REFERENCES:
        errors = dict.fromkeys(errors, "reasoning")
    return tuple(errors.get(segment) for segment in range(1, num_segments + 1))
