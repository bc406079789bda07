"""Reading what a model wrote as contradictions, and counting what cannot be used by reason.

As in tables 7 to 12 of the paper, an entry of a reply is a plan of edits and then the contradiction
that follows from it. Entries are numbered lines with the paper's prompts, and JSON with ours.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from factor_gen.generate.compatible import compatible_reason
from factor_gen.generate.llm.spacing import copy_spacing, plain_tokens, token_distance
from factor_gen.records import Candidate
from judges.answers import Answer
from judges.typed import ParsedReply, Reply
from lm_factuality.ground.sentences import spaced
from lm_factuality.ground.thinking import without_thinking

REFUSED = "llm: refused by the server"
REPEATED = "llm: repeated"

# A contradiction may differ from its completion in eight words and marks, or in 40% of the words.
_MOST_EDITED_TOKENS = 8
_MOST_EDITED_SHARE = 0.4
# A longer sentence is not compared to its completion word by word, which takes quadratic time.
_MOST_TIMES_LONGER = 4
_MOST_CHARACTERS_LONGER = 200
_STRAY_CHARACTERS = re.compile(r"[\x00-\x1f\x7f\ufffd]|\*\*|``|<[|/]|\|>|[\ud800-\udfff]")
_WORD = re.compile(r"[^\W_]+")
_QUOTES_AND_BRACKETS = '"()[]'
_CLOSING_MARKS = "\"'\u201d\u2019)]"
_ENTRY_NUMBER = re.compile(r"\s\d+\.\s+(?=(?:Pronoun|Change)\b)")
_QUOTED_CHANGE = re.compile(
    r"[\"\u201c]([^\"\u201c\u201d]*)[\"\u201d] to [\"\u201c]([^\"\u201c\u201d]*)[\"\u201d]"
)


# The docstrings of the three types below are part of the JSON schema that a judge is asked with.
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


class ReplyCandidates(NamedTuple):
    """The candidates that a reply of a model gave."""

    candidates: tuple[Candidate, ...]
    lost: Mapping[str, int]
    """How many of its entries could not be used, by reason."""


def parse_numbered_answer(answer: Answer) -> ParsedReply[Contradictions]:
    """Read an answer to one of the paper's prompts (tables 7 to 12).

    Example:
        ``1. Change: "May" to "June". Contradiction: She left in June.`` is one contradiction with
        one planned edit.

    Args:
        answer: The answer of a model: numbered entries, or ``NA`` if nothing can be edited.

    Returns:
        The contradictions, or the problem if the answer has no numbered entry and is not ``NA``.
    """
    if answer.error is not None or answer.text is None:
        return ParsedReply(None, f"judge error: {answer.error or 'no text'}", answer)

    # Nothing is left of an answer that breaks off while the model still thinks.
    text = without_thinking(answer.text) or ""
    # After "##", models go on with an example of their own.
    text = text.partition("##")[0].strip()

    contradictions = []
    _, *entries = _ENTRY_NUMBER.split(f"\n{text}")  # What precedes the first number is no entry.
    for entry in entries:
        plan, _, sentence = entry.partition("Contradiction:")
        edits = [Edit(old=old, new=new) for old, new in _QUOTED_CHANGE.findall(plan)]
        contradictions.append(Contradiction(edits=edits, contradiction=sentence.strip()))
    if not contradictions and not text.startswith("NA"):
        return ParsedReply(None, "no numbered contradiction", answer)
    return ParsedReply(Contradictions(contradictions=contradictions), "", answer)


def candidates_of_reply(
    reply: ParsedReply[Contradictions], completion: str, error_type: str, most: int | None = None
) -> ReplyCandidates:
    """Check the contradictions of a reply, and turn the usable ones into candidates for a row.

    A contradiction is the completion with one or more edits that make it false. The model first
    plans the edits, and then writes the sentence.

    Args:
        reply: The reply of a model, in JSON or numbered lines.
        completion: The sentence that the model was asked to edit.
        error_type: The error type that it was asked for.
        most: How many candidates are taken at most. None: all.

    Returns:
        The candidates, and how many contradictions could not be used, by reason.
    """
    # The reply itself cannot be read, or the server refused the request.
    if reply.value is None:
        reason = REFUSED if reply.answer.error else f"llm: {reply.problem}"
        return ReplyCandidates((), {reason: 1})

    lost: Counter[str] = Counter()
    candidates: dict[str, Candidate] = {}
    if not reply.value.contradictions:
        lost["llm: none to be made"] += 1

    for entry in reply.value.contradictions:
        # Models sometimes plan to replace nothing by some words.
        edits = [edit for edit in entry.edits if edit.old.strip()]
        text = entry.contradiction.strip()
        problem = _plan_problem(edits, text, completion)
        if problem is None:
            text = copy_spacing(text, completion)
            problem = _contradiction_problem(edits, text, completion)

        # Every entry either becomes a candidate or counts as lost, for the first of these reasons.
        if problem is not None:
            lost[f"llm: {problem}"] += 1
        elif text in candidates:
            lost[REPEATED] += 1
        elif len(candidates) == most:
            lost["llm: more than were asked for"] += 1
        else:
            plan = "; ".join(f"{edit.old.strip()} -> {edit.new.strip()}" for edit in edits)
            candidates[text] = Candidate(text, error_type, edit=plan, generator="llm")
    return ReplyCandidates(tuple(candidates.values()), dict(lost))


def _plan_problem(edits: Sequence[Edit], contradiction: str, completion: str) -> str | None:
    """Tell what is wrong with the planned edits of a completion, or with the form of the result.

    Args:
        edits: The planned edits.
        contradiction: The edited sentence as the model wrote it.
        completion: The sentence that was to be edited.

    Returns:
        The problem, such as ``no plan``. None if there is none.
    """
    if not edits:
        return "no plan"
    if not contradiction:
        return "no contradiction after the plan"
    if not all(_contains_tokens(completion, edit.old) for edit in edits):
        return "planned words not in the completion"
    if len(contradiction.splitlines()) > 1:
        return "more than one line"
    most_characters = _MOST_TIMES_LONGER * len(completion) + _MOST_CHARACTERS_LONGER
    # A sentence of this length differs in too many words, which need not be counted.
    if len(contradiction) > most_characters:
        return "too far from the completion"
    return None


def _contradiction_problem(
    edits: Sequence[Edit], contradiction: str, completion: str
) -> str | None:
    """Tell why a sentence cannot be used as a contradiction of the completion.

    Args:
        edits: The planned edits.
        contradiction: The sentence with the spacing of the completion.
        completion: The sentence that was edited.

    Returns:
        The problem, such as ``stray characters``. None if there is none.
    """
    if _STRAY_CHARACTERS.search(contradiction) and not _STRAY_CHARACTERS.search(completion):
        return "stray characters"
    if _comparable_words(contradiction) == _comparable_words(completion):
        return "same as the completion"
    if _final_marks(contradiction) != _final_marks(completion):
        return "another end than the completion"
    if not all(_contains_tokens(contradiction, edit.new) for edit in edits):
        return "planned words not in the contradiction"
    if not _has_only_planned_marks(contradiction, completion, edits):
        return "quotes or brackets changed without a plan"
    # Long completions may be edited more, but not rewritten.
    most_by_share = _MOST_EDITED_SHARE * len(spaced(completion).split())
    if token_distance(completion, contradiction) > max(_MOST_EDITED_TOKENS, most_by_share):
        return "too far from the completion"
    return _why_edits_contradict_nothing(edits, completion)


def _why_edits_contradict_nothing(edits: Sequence[Edit], completion: str) -> str | None:
    """Tell why a sentence may be true both before and after some edits.

    Args:
        edits: The planned edits, at least one.
        completion: The sentence before the edits.

    Returns:
        The reason for the first edit, such as ``quantities that may both hold``. None if one of the
        edits contradicts the sentence, or if it is not clear where an edit is.
    """
    reasons = []
    for edit in edits:
        old = edit.old.strip()
        start = completion.find(old)
        # The plan may have other spaces or capital letters than the completion.
        if start < 0:
            return None
        reasons.append(compatible_reason(completion, start, start + len(old), edit.new.strip()))
    # One edit that contradicts the completion, and so has no reason, is enough.
    return reasons[0] if all(reasons) else None


def _contains_tokens(text: str, words: str) -> bool:
    """Tell whether a text has some words in a row, whatever the spaces between them.

    Args:
        text: The text to search.
        words: The words to look for. The first of them may have a capital letter in one of the
            texts only, because it may start a sentence there.
    """
    sought = plain_tokens(words)
    # An edit that deletes words has no new words to look for.
    if not sought:
        return True

    tokens = plain_tokens(text)
    # Only the case of the first word may differ.
    sought[0] = sought[0].casefold()
    for start in range(len(tokens) - len(sought) + 1):
        window = tokens[start : start + len(sought)]
        window[0] = window[0].casefold()
        if window == sought:
            return True
    return False


def _has_only_planned_marks(contradiction: str, completion: str, edits: Sequence[Edit]) -> bool:
    """Tell whether only planned edits added or removed quotes and brackets.

    Args:
        contradiction: The edited sentence.
        completion: The sentence before the edits.
        edits: The planned edits.
    """
    # How many more there are of each word and mark after the edits: -1 if one was removed.
    changes = Counter(plain_tokens(contradiction))
    changes.subtract(plain_tokens(completion))
    planned_changes = Counter(plain_tokens("".join(edit.new for edit in edits)))
    planned_changes.subtract(plain_tokens("".join(edit.old for edit in edits)))
    # Opening and closing brackets are counted apart, so that the loss of one is noticed.
    return all(changes[mark] == planned_changes[mark] for mark in _QUOTES_AND_BRACKETS)


def _comparable_words(text: str) -> list[str]:
    """Return the words of a text without case and marks, to compare what two texts say."""
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())


def _final_marks(text: str) -> str:
    """Return the mark that ends a sentence, and the quotes and brackets after it.

    Example:
        ``He said "no."`` ends in ``."``, and the headline ``He said no`` in no mark.
    """
    sentence = text.rstrip()
    # Of 'He said "no."', first the closing quote is cut off, and then the point.
    without_quotes = sentence.rstrip(_CLOSING_MARKS)
    closing_quotes = sentence[len(without_quotes) :]
    final_mark = without_quotes.rstrip()[-1:]
    # A headline ends in a letter or digit, which is no mark.
    return closing_quotes if final_mark.isalnum() else final_mark + closing_quotes
