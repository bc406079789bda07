"""Cutting a response into segments (section 3.5 and table 3 of the paper): by sentences, or by a judge.

Differences from the paper, which says "sentence boundary" for four kinds of prompts and a model for math and recommendation: the
published file does not tell recommendation from writing, so the judge cuts all of ``writing_rec``; and the published segments of
``reasoning`` end at empty lines too, which sentence splitters do not know. Against the published segments the cuts below have a
boundary F1 of 0.90 (wk, sentences), 0.89 (science, sentences), 0.82 (reasoning, paragraphs; 0.76 by sentences alone), and,
where no judge cuts, 0.90 (writing_rec) and 0.75 (math; 0.65 by sentences alone). What wk and science lack is
that the paper's sentence tokenizer (NLTK's Punkt) cuts the number of a list off its item, which leaves segments of nothing but
"1.": such cuts aside they have 0.96 and 0.97, and Punkt itself has 0.97 on this text (pysbd 0.91 and 0.92, sentencex 0.94).
"""

import re
from dataclasses import dataclass

from judges.answers import Answer
from lm_factuality.ground.sentences import split_sentences
from lm_factuality.ground.thinking import without_thinking

CUT_PROMPT = "felm_gen/segment"
CUT_TOKENS = 2048  # that a judge may write: the response again, which has 1,024 at most by default, and the separators
BY_JUDGE = frozenset({"math", "writing_rec"})
_BY_SENTENCES = frozenset({"wk", "science"})
_SEPARATOR = re.compile(r"^[ \t]*\*{5,}[ \t]*$", re.MULTILINE)
_PARAGRAPH = re.compile(r"\n\s*\n")
_FENCE = re.compile(r"\A```\w*\n(.*)\n```\Z", re.DOTALL)


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


def cut_by_judge(response: str, domain: str, answer: Answer) -> Cut:
    """The segments in a judge's answer, a line of asterisks between each two.

    They have to be the response, whole and in order, but for white space; the segments returned are the response's own text. A
    judge that has changed, left out or added a single letter is not believed: then rules cut.
    """
    if answer.error is not None or answer.text is None:
        return cut_by_rules(response, domain, "judge error")
    if answer.is_cut_off:
        return cut_by_rules(response, domain, "cut off")
    text = (without_thinking(answer.text) or "").strip()
    if fenced := _FENCE.match(text):
        text = fenced[1]
    lengths = [len("".join(piece.split())) for piece in _SEPARATOR.split(text)]
    if "".join(_SEPARATOR.sub("", text).split()) != "".join(response.split()):
        return cut_by_rules(response, domain, "not the response's text")
    return Cut(tuple(_slices(response, [length for length in lengths if length])), "judge")


def _slices(text: str, lengths: list[int]) -> list[str]:
    """``text`` in pieces of so many characters each, white space not counted."""
    ends = [number for number, character in enumerate(text, 1) if not character.isspace()]
    pieces, start, seen = [], 0, 0
    for length in lengths:
        seen += length
        pieces.append(text[start : ends[seen - 1]].strip())
        start = ends[seen - 1]
    return pieces
