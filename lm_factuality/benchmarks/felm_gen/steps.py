"""The steps of FELM-gen: set refusals aside, cut answers into segments, and mark the wrong ones.

`lm_factuality.benchmarks.felm_gen.judging` runs them in this order. The cuts follow section 3.5 and
table 3 of the paper: a judge cuts math and recommendation, rules cut the rest. The published file
does not tell recommendation from writing, so the judge cuts all of ``writing_rec``.

Against the published segments, the cuts by rules have a boundary F1 of 0.89 (wk), 0.86 (science),
0.81 (reasoning), 0.93 (writing_rec) and 0.75 (math). In wk and science half of the rest is that the
paper's tokenizer (NLTK's Punkt) cuts the number of a list item, such as "1.", off the item: without
these cuts the figures are 0.94 and 0.94. It also joins the items of a list that have no full stop,
which the rules here tell apart, since each of them states something of its own.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from statistics import mode
from typing import Any, Literal, get_args

from judges.typed import ParsedReply, Reply, numbering_problem
from lm_factuality.benchmarks.felm.questions import best_chunks, format_segment
from lm_factuality.benchmarks.felm.rows import WITHOUT_REFERENCES
from lm_factuality.benchmarks.felm.verdicts import majority_vote
from lm_factuality.ground.packages import load_patterns
from lm_factuality.ground.sentences import LIST_MARKER, split_sentences
from lm_factuality.ground.thinking import UNFINISHED, answer_or_thoughts, without_thinking
from lm_factuality.harness.generation import JsonObject

EMPTY = "empty"
REFUSAL = "refusal"

CUT_PROMPT = "felm_gen/segment"
"""The name of the prompt that asks a judge to cut an answer into segments."""

MARK_PROMPT = "felm_gen/mark_segments"
"""The name of the prompt that asks a judge to mark the segments with errors."""

CUT_TOKENS = 1024
"""The tokens that a judge may write to cut one answer. It only lists the numbers of the pieces."""

BY_JUDGE = frozenset({"math", "writing_rec"})
"""The domains whose answers a judge cuts into segments, if it can."""

ErrorType = Literal["knowledge", "reasoning", "irrelevant", "fooled"]
"""The types of errors (section 3.6 of the paper)."""

TYPES: tuple[str, ...] = get_args(ErrorType)

UNTYPED = "untyped"
"""The type of an error for which the judge names none. The lexical judge never names one."""

# Each item of a list begins a segment, also where the item before it has no full stop.
_PARAGRAPH_END_OR_LIST_ITEM = re.compile(rf"\n\s*\n|\n(?=[^\S\n]*{LIST_MARKER}[^\S\n]+\S)")
# A line with the marks of a heading, or a few words in bold and nothing else. A line in bold with a
# digit, such as "**Total: 15**", may be the answer.
_HEADING = re.compile(r"\s*(?:#{1,6}\s.*|(?P<bold>\*\*|__)[^*_\d.!?]{1,80}(?P=bold):?\s*)")
_NO_EVIDENCE = "no evidence"
_PATTERNS = load_patterns(__package__)


def text_to_judge(generation: str) -> str:
    """Return the answer in a generation, without the model's thinking and without headings.

    Headings state nothing, but an answer that is nothing but headings is returned as it is. If the
    thinking never ends, all of the generation counts as the answer.

    Example:
        ``<think>Is it?</think>``, ``**Size**`` and ``It has two moons.``, each on a line →
        ``It has two moons.``
    """
    answer = answer_or_thoughts(generation).strip()
    lines = [line for line in answer.splitlines() if not _HEADING.fullmatch(line)]
    return "\n".join(lines).strip() or answer


def why_no_answer(generation: str) -> str | None:
    """Tell why a model's output is not an answer that could contain errors.

    An output is a refusal if at least one sentence refuses, every other sentence is an apology or
    an offer of help, and no list follows.

    Example:
        ``I'm sorry, but I can't help with that.`` → ``refusal``

    Args:
        generation: The output, which may begin with the thinking of the model.

    Returns:
        ``empty``, ``refusal`` or `UNFINISHED` (the thinking never ends), or None for an answer.
    """
    text = without_thinking(generation)
    if text is None:
        return UNFINISHED
    # Punctuation alone states nothing.
    if not re.search(r"\w", text):
        return EMPTY
    # A list, or a turn such as "but here is ...", follows some refusals and answers after all.
    if _PATTERNS["answers_anyway"].search(text):
        return None

    has_refused = False
    # The patterns are written with straight apostrophes.
    for sentence in split_sentences(text.strip().replace("’", "'")):
        if _PATTERNS["refusing"].search(sentence):
            has_refused = True
        elif not _PATTERNS["apology_or_offer"].search(sentence):
            # A sentence that neither refuses nor is polite states something.
            return None
    return REFUSAL if has_refused else None


# Servers are sent the docstrings of replies as part of their schema, so these must not change.
class CutReply(Reply):
    """The numbers, from 1, of the pieces of each segment."""

    segments: list[list[int]]
    """The 1-based numbers of the pieces in each segment."""


@dataclass(frozen=True)
class Cut:
    """The segments of an answer. The fields are part of the records in samples files."""

    segments: list[str]
    """The segments, which together make up the whole answer."""

    cut_by: str
    """What found the boundaries: ``rules`` or ``judge``."""

    cut_refused: str | None = None
    """Why a judge's reply was not used. None if no judge was asked, or its reply was used."""


def cut_by_rules(response: str) -> Cut:
    """Cut an answer into sentences, and at empty lines and before items of lists as well.

    Example:
        ``It is red. It has two moons.`` → ``It is red.``, ``It has two moons.``
    """
    segments: list[str] = []
    for part in _PARAGRAPH_END_OR_LIST_ITEM.split(response):
        segments += split_sentences(part)
    return Cut(segments, "rules")


def split_into_pieces(response: str) -> list[str]:
    """Split an answer into the sentences of each line, which a judge can group into segments."""
    return list(chain.from_iterable(map(split_sentences, response.splitlines())))


def cutting_subject(response: str) -> JsonObject:
    """Return the variables of the prompt that asks a judge to cut an answer into segments."""
    return {"kind": "cut", "pieces": split_into_pieces(response)}


def find_cut_problem(reply: CutReply, prompt_variables: Mapping[str, Any]) -> str:
    """Find what is wrong with a judge's reply that groups the pieces of an answer into segments.

    It has to name every piece exactly once and in order.

    Args:
        reply: The groups of pieces.
        prompt_variables: The variables of the prompt. ``pieces`` are the pieces.

    Returns:
        The problem, such as ``no piece 2``, or an empty text if there is none.
    """
    numbers = list(chain.from_iterable(reply.segments))
    problem = numbering_problem(numbers, len(prompt_variables["pieces"]), "piece")
    if problem:
        return problem
    # Segments are consecutive parts of the answer.
    return "" if numbers == sorted(numbers) else "pieces out of order"


def apply_judge_cut(response: str, reply: ParsedReply[CutReply]) -> Cut:
    """Cut an answer where a judge says that segments end.

    Args:
        response: The answer.
        reply: The judge's groups of pieces. If they cannot be used, rules cut the answer.

    Returns:
        The segments, each with the line breaks and spaces inside it.
    """
    if reply.value is None:
        return replace(cut_by_rules(response), cut_refused=reply.problem)

    pieces = split_into_pieces(response)
    segments = []
    remaining_text = response
    for piece_numbers in reply.value.segments:
        # Some judges write empty groups.
        if not piece_numbers:
            continue
        # Pieces lack the line breaks and spaces around them, so the segment is cut off the answer.
        joined_pieces = "".join(pieces[number - 1] for number in piece_numbers)
        end = _end_of_segment(remaining_text, joined_pieces)
        segments.append(remaining_text[:end].strip())
        remaining_text = remaining_text[end:]
    return Cut(segments, "judge")


def _end_of_segment(text: str, segment: str) -> int:
    """Return the offset at which a segment ends in the text that begins with it.

    The segment was joined from pieces, without the white space that the text has between them. So
    its length is compared without white space.

    Example:
        ``It is red.  It is old. It`` begins with ``It is red.It is old.`` up to the offset 22.

    Args:
        text: The text, which may have white space before the segment.
        segment: The segment.
    """
    num_missing = len("".join(segment.split()))
    for offset, character in enumerate(text):
        if not character.isspace():
            num_missing -= 1
        if num_missing == 0:
            return offset + 1
    return len(text)


class WrongSegment(Reply):
    """A segment with an error, numbered from 1."""

    number: int
    """The 1-based number of the segment."""

    reason: str
    """Why the judge calls it wrong."""

    type: ErrorType | None = None
    """The type of the error, if the judge names one."""


class MarksReply(Reply):
    """The segments with errors."""

    wrong: list[WrongSegment]
    """The segments with errors. Segments that are not listed are factual."""


def marking_subject(doc: Mapping[str, Any], segments: Sequence[str]) -> JsonObject:
    """Return the variables of the prompt that asks a judge to mark the segments with errors.

    Args:
        doc: The document with the question, its domain and the texts of its references.
        segments: The segments of the model's answer.

    Returns:
        The variables. ``passages`` has the chunk of each reference that fits the answer best.
    """
    question = str(doc["prompt"])
    units = [format_segment(segment) for segment in segments]
    # In math and reasoning, the prompt asks for errors of reasoning and shows no references, as in
    # the paper.
    is_reasoning = doc["domain"] in WITHOUT_REFERENCES
    reference_texts = () if is_reasoning else tuple(doc.get("reference_texts") or ())
    # BM25 finds the chunks that share words with the question and the answer.
    query = "\n".join([question, *units])
    return {
        "kind": "marks",
        "question": question.strip(),
        "units": units,
        "passages": best_chunks(reference_texts, query),
        "is_reasoning": is_reasoning,
    }


def find_marks_problem(reply: MarksReply, prompt_variables: Mapping[str, Any]) -> str:
    """Return a problem such as ``segment 4 of 3``, or an empty text if the marks can be used.

    Args:
        reply: The segments that the judge calls wrong.
        prompt_variables: The variables of the prompt. ``units`` are the segments.
    """
    numbers = [segment.number for segment in reply.wrong]
    num_segments = len(prompt_variables["units"])
    # Factual segments are not listed, so the numbers need not be complete.
    return numbering_problem(numbers, num_segments, "segment", must_be_complete=False)


def combine_marks(
    replies: Sequence[ParsedReply[MarksReply]], num_segments: int, domain: str
) -> list[str | None]:
    """Combine several replies of a judge into one verdict on each segment of an answer.

    A segment is wrong if more than half of the readable replies say so. Its error has the type
    that most replies give, and of equally frequent types the one given first.

    Args:
        replies: The samples of the judge's reply.
        num_segments: The number of segments of the answer.
        domain: The domain. All errors in math and reasoning are reasoning errors, as in the paper.

    Returns:
        The error type of each segment, or None if the segment is factual.

    Raises:
        UnreadableAnswerError: No reply can be used. The message is the reason.
    """
    marks_by_reply = [reply.value.wrong for reply in replies if reply.value is not None]
    # Each reply that can be used has one vote. An empty set is a vote for "no errors".
    ballots = [frozenset(mark.number for mark in marks) for marks in marks_by_reply]
    reasons = [_short_problem(reply.problem) for reply in replies if reply.value is None]
    wrong_segments = majority_vote(ballots, reasons)

    marks = list(chain.from_iterable(marks_by_reply))
    errors: list[str | None] = []
    for number in range(1, num_segments + 1):
        types = [mark.type for mark in marks if mark.number == number and mark.type]
        if number not in wrong_segments:
            errors.append(None)
        elif domain in WITHOUT_REFERENCES:
            errors.append("reasoning")
        else:
            # Of equally frequent types, mode() returns the one given first.
            errors.append(mode(types) if types else UNTYPED)
    return errors


def _short_problem(problem: str) -> str:
    """Return the problem of a reply in the words that results count.

    Each backend says in other words that it has no evidence, and results count this as one reason.
    """
    return _NO_EVIDENCE if _NO_EVIDENCE in problem else problem
