"""The page of a check: every answer with its claims coloured, and the evidence beside it.

The page is one file and asks the network for nothing. All texts are inserted as text only, never
as HTML. People can correct verdicts on it, which `lm_factuality.check.corrections` reads back.
"""

import hashlib
import json
import math
import re
import unicodedata
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from judges.claims import Evidence, Verdict, deciding_sentence
from lm_factuality.check.results import CheckedAnswer, CheckedClaim, CheckResult
from lm_factuality.ground.console import plural
from lm_factuality.ground.files import write_text
from lm_factuality.ground.html import one_file, read_asset, read_file

# The scripts of the page in their order, after those that pages share. They run as one script.
_SCRIPTS = ("corrections", "answers", "evidence", "page")

_ZERO_WIDTH_JOINER = "\u200d"
_SKIN_TONES = "\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"


def write_page(result: CheckResult, path: Path, *, title: str, note: str, source: str = "") -> None:
    """Write the page of a check to one HTML file. The arguments are those of `build_page`.

    Raises:
        DataError: The file cannot be written.
    """
    write_text(path, build_page(result, title, note, source))


def build_page(result: CheckResult, title: str, note: str, source: str = "") -> str:
    """Return the page of a check as HTML that needs no other file.

    Args:
        result: What the check found.
        title: The title of the page, such as ``Check of answers.csv``.
        note: A sentence that names the judge and the evidence.
        source: The path of the documents. The page shows it if the mouse is over the note.
    """
    # Several claims may have the same passage. The page holds it once, and claims refer to it by
    # its number.
    passages = dict.fromkeys(passage for claim in result.claims for passage in claim.evidence)
    passage_numbers = {passage: number for number, passage in enumerate(passages)}
    answers = [_answer_content(answer, passage_numbers) for answer in result.answers]
    content = {
        # The browser tells the corrections of two checks apart by 12 hexadecimal digits.
        "check": hashlib.sha256(json.dumps(answers).encode()).hexdigest()[:12],
        "answers": answers,
        "passages": [(passage.document, passage.title, passage.text) for passage in passages],
    }
    scripts = [read_asset("tables.js"), read_asset("elements.js")]
    scripts += [read_file(f"{__package__}/{name}.js") for name in _SCRIPTS]
    return one_file(
        template=f"{__package__}/page.html",
        style=read_asset("look.css") + read_file(f"{__package__}/page.css"),
        script="\n".join(scripts),
        title=title,
        note=note,
        source=source,
        problems=result.problems,
        headline=_headline(result),
        content=content,
    )


class Figure(NamedTuple):
    """A number of the headline. The page's script changes it when a person corrects a verdict."""

    verdict: str
    """The verdict that it counts, or ``refusal``."""

    label: str
    """What it counts."""

    value: str
    """The number."""

    small: str
    """A line of small text under it."""


def _headline(result: CheckResult) -> list[Figure]:
    """Return the figures of the headline, the share of supported claims first."""
    unread_note = ""
    if result.unread_answers:
        unread_note = f", and {plural(len(result.unread_answers), 'answer')} not read"
    return [
        _supported_figure(result),
        _count_figure(result, "contradicted", "Contradicted"),
        _count_figure(result, "not_found", "Not found"),
        _count_figure(result, "unscored", "Unscored", unread_note),
        Figure(
            verdict="refusal",
            label="Refusals",
            value=f"{result.num_refusals:,}",
            small=f"of {len(result.answers):,} answers",
        ),
    ]


def _supported_figure(result: CheckResult) -> Figure:
    """Return the share of supported claims, with its interval in small text."""
    note = f"{result.count('supported'):,} of {result.num_scored:,} scored claims"
    if result.interval is not None:
        low, high = result.interval
        note = f"95% interval {100 * low:.1f} to {100 * high:.1f}%; {note}"
    share = result.share_supported
    # Without scored claims, there is no share.
    value = "–" if math.isnan(share) else f"{100 * share:.1f}%"
    return Figure("supported", "Supported", value, note)


def _count_figure(result: CheckResult, verdict: Verdict, label: str, note: str = "") -> Figure:
    """Return the number of claims with a verdict as a figure, with a note after the noun."""
    count = result.count(verdict)
    noun = "claim" if count == 1 else "claims"
    return Figure(verdict, label, f"{count:,}", noun + note)


def _answer_content(
    answer: CheckedAnswer, passage_numbers: Mapping[Evidence, int]
) -> dict[str, Any]:
    """Return what the page's script needs of an answer."""
    return {
        "id": answer.id,
        "question": answer.question,
        "refusal": answer.is_refusal,
        "pieces": cut_at_claims(answer.text, answer.claims),
        "claims": [_claim_content(claim, passage_numbers) for claim in answer.claims],
    }


def _claim_content(claim: CheckedClaim, passage_numbers: Mapping[Evidence, int]) -> dict[str, Any]:
    """Return what the page's script needs of a claim."""
    return {
        "text": claim.text,
        "start": claim.start,
        "end": claim.end,
        "verdict": claim.verdict,
        "judged": claim.judged,
        "person": claim.person,
        "note": claim.note,
        "probability": _finite(claim.probability),
        "reason": claim.reason,
        "evidence": [passage_numbers[passage] for passage in claim.evidence],
        "scores": [_finite(score) for score in claim.scores],
        "deciding": claim.deciding,
        "marks": find_marks(claim),
    }


def _finite(number: float | None) -> float | None:
    """Return a number, or None in place of NaN and infinity, which JSON does not have."""
    return number if number is not None and math.isfinite(number) else None


class Piece(NamedTuple):
    """A part of an answer that the same claims cover."""

    text: str
    """The text."""

    claims: tuple[int, ...]
    """The indices of the claims. Empty for text between claims."""


class _ClaimSpan(NamedTuple):
    """The place of a claim in an answer."""

    start: int
    """The offset at which the claim begins."""

    end: int
    """The offset after its last character."""

    claim: int
    """The index of the claim."""


def cut_at_claims(text: str, claims: Sequence[CheckedClaim]) -> list[Piece]:
    """Cut an answer at the start and end of each claim, so that the page can mark the claims.

    Example:
        ``One. Two.`` with the claims at 0 to 4 and 5 to 9 becomes the pieces ``One.`` (claim 0),
        a space (no claim) and ``Two.`` (claim 1).

    Args:
        text: The answer.
        claims: Its claims. They may overlap, repeat, or lie outside of the text. A claim that
            covers no character is in no piece.

    Returns:
        The pieces, whose texts together are the answer. No piece begins within a character, such
        as a letter with a combining accent or an emoji of several parts.
    """
    spans = []
    for index, claim in enumerate(claims):
        start = _character_boundary(text, claim.start)
        end = _character_boundary(text, claim.end)
        if start < end:
            spans.append(_ClaimSpan(start, end, index))
    cuts = {0, len(text)}
    for span in spans:
        cuts.update((span.start, span.end))

    pieces = []
    waiting = deque(sorted(spans, key=lambda span: span.start))
    covering: list[_ClaimSpan] = []  # the claims that cover the present piece
    for start, end in pairwise(sorted(cuts)):
        covering = [span for span in covering if span.end > start]
        while waiting and waiting[0].start == start:
            covering.append(waiting.popleft())
        pieces.append(Piece(text[start:end], tuple(span.claim for span in covering)))
    return pieces


def _character_boundary(text: str, position: int) -> int:
    """Move a position that is within a character to the end of this character.

    Example:
        An "e" and a combining accent are two code points, but one character. Position 1 between
        them becomes 2.

    Args:
        text: The text.
        position: The position in code points. One outside of the text is moved to its nearest end.
    """
    position = min(max(position, 0), len(text))
    while _is_within_character(text, position):
        position += 1
    return position


def _is_within_character(text: str, position: int) -> bool:
    """Tell whether the code point at a position belongs to the character before it."""
    if position in (0, len(text)):
        return False
    code_point = text[position]
    # Accents and variation selectors have a category such as "Mn".
    is_mark = unicodedata.category(code_point).startswith("M")
    # Several emojis with joiners between them are one, such as a family.
    is_joined = _ZERO_WIDTH_JOINER in (code_point, text[position - 1])
    return is_mark or is_joined or code_point in _SKIN_TONES


class Span(NamedTuple):
    """A part of a text."""

    start: int
    """The offset at which it begins."""

    end: int
    """The offset after its last character."""


class Marks(NamedTuple):
    """What the page marks in the passage that decides a claim, in the offsets of JavaScript."""

    sentence: Span | None
    """The sentence that decides. None without one."""

    words: list[Span]
    """The words that decide, in order and without overlaps."""


def find_marks(claim: CheckedClaim) -> Marks | None:
    """Find the deciding sentence and words in the passage that decides a claim.

    Returns:
        Where they are in the text of the passage. None if no passage decides.
    """
    deciding_index = claim.deciding
    if deciding_index is None:
        return None
    passage = claim.evidence[deciding_index].text
    found = deciding_sentence(claim.text, passage, claim.deciding_words)
    sentence_span = None
    # The start is -1 if the passage has the sentence with other white space. It is not marked then.
    if found is not None and found.start >= 0:
        sentence_span = Span(found.start, found.start + len(found.sentence))
    word_spans = _find_words(passage, claim.deciding_words, sentence_span)
    return Marks(
        sentence=None if sentence_span is None else _to_utf16(passage, sentence_span),
        words=[_to_utf16(passage, span) for span in word_spans],
    )


def _find_words(passage: str, phrases: Iterable[str], sentence: Span | None) -> list[Span]:
    """Find phrases in a passage, first in its deciding sentence and then anywhere.

    Args:
        passage: The text of the passage.
        phrases: Words that decide, as the passage has them, such as ``in 1870``.
        sentence: Where the deciding sentence is. None without one.

    Returns:
        Where the phrases are, in order. Phrases that overlap are one part.
    """
    spans = []
    for phrase in phrases:
        if not phrase.strip():
            continue
        # The number 18 is not a part of 1870.
        pattern = re.compile(rf"(?<!\w){re.escape(phrase)}(?!\w)")
        match = None
        if sentence is not None:
            match = pattern.search(passage, sentence.start, sentence.end)
        match = match or pattern.search(passage)
        if match is not None:
            spans.append(Span(*match.span()))
    return _join_overlapping(spans)


def _join_overlapping(spans: Iterable[Span]) -> list[Span]:
    """Sort spans, and join those that overlap or touch.

    Example:
        5 to 9, 0 to 3 and 2 to 4 → 0 to 4, 5 to 9
    """
    joined: list[Span] = []
    for span in sorted(spans):
        if not joined or span.start > joined[-1].end:
            joined.append(span)
            continue
        last = joined[-1]
        joined[-1] = Span(last.start, max(last.end, span.end))
    return joined


def _to_utf16(text: str, span: Span) -> Span:
    """Return a part of a text in the offsets of JavaScript, where an emoji has two units."""
    return Span(_utf16_length(text[: span.start]), _utf16_length(text[: span.end]))


def _utf16_length(text: str) -> int:
    """Return the length of a text in UTF-16 code units."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
