"""Reading the edits that a model plans for a sentence, and making them.

The model names words of the sentence and what is to stand in their place. Everything else in the
edited sentence is copied from the original, so that no space or quote gives the edit away.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Annotated, NamedTuple

from pydantic import ConfigDict, WithJsonSchema

from factor_gen.generate.rules.edits import Replacement, apply_replacements
from factor_gen.records import ERROR_TYPES, Candidate, Example
from judges.typed import ParsedReply, Reply
from lm_factuality.ground.sentences import SIGNS, spaced, words_in

REFUSED = "llm: refused by the server"
REPEATED = "llm: repeated"

# A contradiction may replace eight words of its completion, or 40% of them.
_MOST_EDITED_WORDS = 8
_MOST_EDITED_SHARE = 0.4
_STRAY_CHARACTERS = re.compile(r"[\x00-\x1f\x7f\ufffd]|\*\*|``|<[|/]|\|>|[\ud800-\udfff]")
# Models write straight quotes and plain hyphens in the place of typographic ones. Each is one
# character, so that positions stay the same.
_PLAIN_CHARACTERS = str.maketrans(
    "\u2018\u2019\u201c\u201d\u2010\u2011\u2013\u2014\u2212", "''\"\"-----"
)
# A letter or digit of a script with spaces between words.
_LETTER = rf"[^\W{SIGNS}]"


# The docstrings of the three types below are part of the JSON schema that a judge is asked with.
class Edit(Reply):
    """Words of the sentence, and what is to stand in their place."""

    model_config = ConfigDict(extra="ignore")

    old: str
    new: str


class Contradiction(Reply):
    """A false version of the sentence: the kind of its error, and the edits that make it."""

    model_config = ConfigDict(extra="ignore")

    # Any text is read, so that a type that does not exist spoils one contradiction and no more.
    type: Annotated[str, WithJsonSchema({"enum": list(ERROR_TYPES), "type": "string"})]
    edits: list[Edit]


class Contradictions(Reply):
    """What a model is asked for."""

    model_config = ConfigDict(extra="ignore")

    contradictions: list[Contradiction]


class EditError(ValueError):
    """An edit that cannot be made, or that makes no contradiction. The message is the reason."""


class ReplyCandidates(NamedTuple):
    """The candidates that a reply of a model gave."""

    candidates: tuple[Candidate, ...]
    lost: Mapping[str, int]
    """How many of its contradictions could not be used, by reason."""


def candidates_of_reply(
    reply: ParsedReply[Contradictions], example: Example, most_per_type: int
) -> ReplyCandidates:
    """Make the edits of a reply, and turn those that can be used into candidates for a row.

    Args:
        reply: The reply of a model.
        example: The document with the completion and the error types that the model was asked for.
        most_per_type: How many candidates of each type are taken at most.

    Returns:
        The candidates, and how many contradictions could not be used, by reason.
    """
    # The reply itself cannot be read, or the server refused the request.
    if reply.value is None:
        reason = REFUSED if reply.answer.error else f"llm: {reply.problem}"
        return ReplyCandidates((), {reason: 1})

    # How many contradictions are lost, i.e. cannot be used, by reason.
    lost: Counter[str] = Counter()
    candidates = {}
    num_by_type: Counter[str] = Counter()
    for contradiction in reply.value.contradictions:
        error_type = contradiction.type.strip().lower()
        num_by_type[error_type] += 1
        if error_type not in example.types:
            lost["llm: an error type that was not asked for"] += 1
            continue
        if num_by_type[error_type] > most_per_type:
            lost["llm: more than were asked for"] += 1
            continue
        try:
            text = apply_edits(example.completion, contradiction.edits)
        except EditError as error:
            lost[f"llm: {error}"] += 1
            continue
        if text in candidates:
            lost[REPEATED] += 1
            continue
        plan = _describe_edits(contradiction.edits)
        candidates[text] = Candidate(text, error_type, edit=plan, generator="llm")

    for error_type in example.types:
        if not num_by_type[error_type]:
            lost[f"llm: no {error_type} error to be made"] += 1
    return ReplyCandidates(tuple(candidates.values()), dict(lost))


def _describe_edits(edits: Sequence[Edit]) -> str:
    """Write edits as a benchmark records them, such as ``he -> she; his -> her``."""
    return "; ".join(f"{edit.old.strip()} -> {edit.new.strip()}" for edit in edits)


def apply_edits(sentence: str, edits: Sequence[Edit]) -> str:
    """Return a sentence with some edits, each of which replaces words that occur once in it.

    Args:
        sentence: The sentence.
        edits: The edits. An insertion repeats a neighbouring word: ``came`` becomes ``often came``.

    Returns:
        The edited sentence, which is the same as before in all other places.

    Raises:
        EditError: An edit cannot be made, or the edited sentence is no contradiction.

    Example:
        *She left Rome.* with the edit ``Rome -> Oslo`` becomes *She left Oslo.*
    """
    replacements = sorted(_locate_edit(sentence, edit) for edit in edits)
    if not replacements:
        raise EditError("no edit")
    for first, second in pairwise(replacements):
        if first.end > second.start:
            raise EditError("edits of the same words")

    text = apply_replacements(sentence, replacements)
    _check_edited_sentence(sentence, text, replacements)
    return text


def _locate_edit(sentence: str, edit: Edit) -> Replacement:
    """Find the words that an edit replaces.

    Args:
        sentence: The sentence.
        edit: The edit. Its words may have other white space and quotes than the sentence.

    Returns:
        The place of the words, and the new words as the sentence would write them.

    Raises:
        EditError: The words do not occur exactly once, or the new ones cannot stand there.
    """
    old_words = edit.old.translate(_PLAIN_CHARACTERS).split()
    new = " ".join(edit.new.split())
    # Without old words, the place of an insertion is unknown, and deletions leave two spaces.
    if not old_words or not new:
        raise EditError("an edit without words")
    if _STRAY_CHARACTERS.search(new):
        raise EditError("stray characters")

    start, end = _find_words(sentence, old_words)
    # Only a quote may stand before the first word of the sentence.
    starts_sentence = not re.search(r"\w", sentence[:start])
    # If the model wrote "she" for the "She" of the sentence, it wrote the new words likewise.
    model_lost_capital = edit.old.lstrip()[0].islower()
    if sentence[start].isupper() and (starts_sentence or model_lost_capital):
        new = new[0].upper() + new[1:]
    has_typographic_apostrophes = "\u2019" in sentence and "'" not in sentence
    if has_typographic_apostrophes:
        new = new.replace("'", "\u2019")
    return Replacement(start, end, new)


def _find_words(sentence: str, words: Sequence[str]) -> tuple[int, int]:
    """Return where some words start and end in a sentence, which has them once.

    Args:
        sentence: The sentence.
        words: The words, with straight quotes and plain hyphens. The first word may lack its
            capital letter.

    Raises:
        EditError: The sentence does not have the words, or has them twice.
    """
    expression = _expression_for_words(words)
    text = sentence.translate(_PLAIN_CHARACTERS)
    matches = list(re.finditer(expression, text))
    if not matches:
        matches = list(re.finditer(expression, text, re.IGNORECASE))
    if not matches:
        raise EditError("words that are not in the sentence")
    if len(matches) > 1:
        raise EditError("words that the sentence has twice")
    return matches[0].span()


def _expression_for_words(words: Sequence[str]) -> str:
    """Return a regular expression that finds whole words, with any white space between them.

    A word of a script without spaces, such as Chinese, is found next to other characters too.
    """
    expression = r"\s+".join(map(re.escape, words))
    # "he" is not found in "the".
    if re.match(_LETTER, words[0]):
        expression = rf"(?<!{_LETTER}){expression}"
    if re.search(rf"{_LETTER}\Z", words[-1]):
        expression += rf"(?!{_LETTER})"
    return expression


def _check_edited_sentence(sentence: str, edited: str, replacements: Sequence[Replacement]) -> None:
    """Check that an edited sentence is close to the original, and says something else.

    Args:
        sentence: The original.
        edited: The edited sentence.
        replacements: The edits, at least one.

    Raises:
        EditError: The edited sentence cannot be used. The message says why.
    """
    if _comparable_words(edited) == _comparable_words(sentence):
        raise EditError("same as the sentence")
    if _final_marks(edited) != _final_marks(sentence):
        raise EditError("another end than that of the sentence")

    num_edited = 0
    for start, end, new in replacements:
        num_edited += max(_count_words(sentence[start:end]), _count_words(new))
    # Long sentences may be edited more, but not rewritten.
    if num_edited > max(_MOST_EDITED_WORDS, _MOST_EDITED_SHARE * _count_words(sentence)):
        raise EditError("too far from the sentence")


def _comparable_words(text: str) -> list[str]:
    """Return the words of a text without case and marks, to compare what two texts say."""
    return words_in(text.casefold())


def _count_words(text: str) -> int:
    """Count the words of a text. In scripts without spaces, each sign is one."""
    return len(spaced(text).split())


def _final_marks(text: str) -> str:
    """Return the marks after the last word of a text, such as a point and a quote."""
    match = re.search(r"\W*\Z", text)
    return match[0].translate(_PLAIN_CHARACTERS) if match else ""
