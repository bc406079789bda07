"""Cutting a response into segments (section 3.5 and table 3 of the paper): by sentences, or by a judge that groups sentences
and lines.

Differences from the paper, which says "sentence boundary" for four kinds of prompts and a model for math and recommendation: the
published file does not tell recommendation from writing, so the judge cuts all of ``writing_rec``; and the published segments of
``reasoning`` end at empty lines too, which sentence splitters do not know. Against the published segments the cuts below have a
boundary F1 of 0.90 (wk, sentences), 0.89 (science, sentences), 0.82 (reasoning, paragraphs; 0.76 by sentences alone), and,
where no judge cuts, 0.90 (writing_rec) and 0.75 (math; 0.65 by sentences alone). What wk and science lack is
that the paper's sentence tokenizer (NLTK's Punkt) cuts the number of a list off its item, which leaves segments of nothing but
"1.": such cuts aside they have 0.96 and 0.97, and Punkt itself has 0.97 on this text (pysbd 0.91 and 0.92, sentencex 0.94).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from judges.typed import Reply, Typed, misnumbered
from lm_factuality.ground.sentences import split_sentences

CUT_PROMPT = "felm_gen/segment"
CUT_TOKENS = 1024  # that a judge may write: the numbers of all pieces
BY_JUDGE = frozenset({"math", "writing_rec"})
_BY_SENTENCES = frozenset({"wk", "science"})
_PARAGRAPH = re.compile(r"\n\s*\n")


class CutReply(Reply):
    """The numbers, from 1, of the pieces of each segment."""

    segments: list[list[int]]


@dataclass(frozen=True)
class Cut:
    """The segments of a response, which make up all of it. ``by`` is ``sentences``, ``paragraphs`` or ``judge``; ``refused`` says
    why a judge's cut was not taken."""

    segments: tuple[str, ...]
    by: str
    refused: str | None = None


def cut_by_rules(response: str, domain: str, refused: str | None = None) -> Cut:
    """Sentences; outside ``wk`` and ``science`` an empty line ends a segment too."""
    if domain in _BY_SENTENCES:
        return Cut(tuple(split_sentences(response)), "sentences", refused)
    parts = (part for part in _PARAGRAPH.split(response) if part.strip())
    return Cut(tuple(sentence for part in parts for sentence in split_sentences(part)), "paragraphs", refused)


def pieces_of(response: str) -> list[str]:
    """The sentences of each line: the smallest parts that a judge can group into segments."""
    return [sentence for line in response.splitlines() for sentence in split_sentences(line)]


def cut_subject(response: str) -> dict[str, Any]:
    """What the prompt is about."""
    return {"kind": "cut", "pieces": pieces_of(response)}


def check_cut(reply: CutReply, subject: Mapping[str, Any]) -> str:
    """A :data:`judges.typed.Check`: every piece is there once, in order."""
    numbers = [number for segment in reply.segments for number in segment]
    return misnumbered(numbers, len(subject["pieces"]), "piece") or ("" if numbers == sorted(numbers) else "pieces out of order")


def cut(response: str, domain: str, read: Typed[CutReply] | None) -> Cut:
    """The segments of a judge's reply, each the response's own text; where there is none that can be used, rules cut."""
    if read is None or read.value is None:
        return cut_by_rules(response, domain, read.problem if read else None)
    lengths = [len("".join(piece.split())) for piece in pieces_of(response)]
    segments = [segment for segment in read.value.segments if segment]
    return Cut(tuple(_slices(response, [sum(lengths[number - 1] for number in segment) for segment in segments])), "judge")


def _slices(text: str, lengths: list[int]) -> list[str]:
    """``text`` in pieces of so many characters each, white space not counted."""
    ends = [number for number, character in enumerate(text, 1) if not character.isspace()]
    pieces, start, seen = [], 0, 0
    for length in lengths:
        seen += length
        pieces.append(text[start : ends[seen - 1]].strip())
        start = ends[seen - 1]
    return pieces
