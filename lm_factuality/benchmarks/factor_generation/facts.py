"""The minimal fact in which a false completion differs from the true one (section 6.1 of the FACTOR
paper), and what a judge says of a generation: true, false or neutral, or why it is unscored.

The paper's annotators wrote each minimal fact by hand. Here it is the first difference between the
two completions, in its true and in its false wording; the model continues from the prefix and the
words that both begin with (c in the paper), or from the prefix alone where there are none. Which
false completion is taken the paper does not say: here the first of the row, or of an error type,
that leaves something to generate.

A judge sees the stem with what the model made of it, up to the end of the sentence. One that knows
only whether passages support a claim (a classifier, the lexical one) is asked whether the sentence
(to word overlap: what follows the stem) supports the true wording, and whether it supports the
false one. The wording with the higher score wins if that is enough for "supported"; otherwise, and
where both score the same, the generation is neutral, as is one that violates the fact in words of
its own. To word overlap, generations are unscored whose wordings differ in no content word ("he"
and "she")."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import takewhile
from typing import Any, Literal, TypeAlias, get_args

from judges.judge import Judge
from judges.lexical.words import read
from judges.typed import Reply, Typed
from judges.verify import SUPPORTED, Pair, Verification, verify
from lm_factuality.benchmarks.factor.joining import AUTHORS_JOIN, Join
from lm_factuality.benchmarks.factor.rows import Row
from lm_factuality.ground.sentences import split_sentences
from lm_factuality.ground.thinking import UNFINISHED, without_thinking

NO_WORD = "the generation has no word"
_CONTEXT = 600  # characters of a prefix that a judge sees
FIRST = "first"  # the choice of a contradiction that is no error type

# A number, a name with its full stops and a hyphenated word are one word each, so that no prompt
# ends inside one.
_WORD = re.compile(r"[$€£¥#@]?\w+(?:[.,'’:/&-]\w+)*[%°]?")
_LETTER = re.compile(r"\w")
_Words: TypeAlias = Sequence[re.Match[str]]


@dataclass(frozen=True)
class Edit:
    """How two completions differ. ``stem`` holds the words that both begin with, as the true one
    spaces them; ``true_edit`` and ``false_edit`` what follows in each, up to where they agree again
    and with at least a word in both; ``problem`` says why no model can be asked to choose between
    them, empty if one can."""

    true: str
    false: str
    stem: str = ""
    true_edit: str = ""
    false_edit: str = ""
    problem: str = ""


@dataclass(frozen=True)
class MinimalFact:
    """What a row asks of a model: ``prompt`` is its prefix and the stem, joined as for scoring;
    ``contradiction`` is the index of the choice that ``edit`` has for its false side."""

    prompt: str
    contradiction: int
    error_type: str
    edit: Edit


def find_edit(true: str, false: str) -> Edit:
    """The first difference between two completions, by their words: punctuation and white space are
    none, such as the spacing that gives Expert-FACTOR's answers away."""
    true, false = true.strip(), false.strip()
    ours, theirs = list(_WORD.finditer(true)), list(_WORD.finditer(false))
    start = len(
        list(takewhile(lambda pair: pair[0][0] == pair[1][0], zip(ours, theirs, strict=False)))
    )
    if start == len(ours) == len(theirs):
        return Edit(true, false, problem="the completions differ in no word")
    for side, words in (("true", ours), ("false", theirs)):
        if start == len(words):
            return Edit(
                true,
                false,
                problem=f"nothing of the {side} completion is left after the common words",
            )
    stem = (
        true[: ours[start - 1].end()] + _common_mark(true, ours, false, theirs, start)
        if start
        else ""
    )
    our_end, their_end = _ends(ours, theirs, start)
    return Edit(
        true, false, stem, _span(true, ours[start:our_end]), _span(false, theirs[start:their_end])
    )


def find_fact(row: Row, choice: str = FIRST, join: Join = AUTHORS_JOIN) -> MinimalFact | str:
    """The minimal fact of ``row``, whose texts ``join`` joins, or why it has none. ``choice``:
    ``first`` or an error type."""
    if row.problem:
        return row.problem
    reason = ""
    for index, false in enumerate(row.choices):
        if index == row.gold or choice not in (FIRST, row.error_types[index]):
            continue
        edit = find_edit(row.choices[row.gold], false)
        # A space that ends a prompt is part of the next word to most tokenizers, so none does.
        prompt = "".join(join(row.prefix, edit.stem)) if edit.stem else row.prefix.rstrip(" ")
        if prompt and not edit.problem:
            return MinimalFact(prompt, index, row.error_types[index], edit)
        reason = (
            reason
            or edit.problem
            or "the prefix is empty, and the completions differ from the first word on"
        )
    return reason or f"no contradiction of type {choice!r}"


def _common_mark(true: str, ours: _Words, false: str, theirs: _Words, start: int) -> str:
    """The punctuation right behind the last common word, such as a comma, if it is the same in both
    and a space follows."""
    marks = {
        re.match(r"\S*", text[words[start - 1].end() : words[start].start()])[0]  # type: ignore[index]  # it may be empty
        for text, words in ((true, ours), (false, theirs))
    }
    mark = marks.pop()
    return "" if marks or ours[start - 1].end() + len(mark) == ours[start].start() else mark


def _ends(ours: _Words, theirs: _Words, start: int) -> tuple[int, int]:
    """Where the difference that begins at ``start`` ends in both. Where one side has no word, as
    where "never" was put in, the next word, which both have, belongs to it."""
    our_words, their_words = (
        [word[0] for word in ours[start:]],
        [word[0] for word in theirs[start:]],
    )
    matcher = SequenceMatcher(None, our_words, their_words, autojunk=False)
    _, _, our_stop, _, their_stop = matcher.get_opcodes()[0]
    more = int(our_stop == 0 or their_stop == 0)
    return start + our_stop + more, start + their_stop + more


def _span(text: str, words: _Words) -> str:
    return text[words[0].start() : words[-1].end()]


def complete(stem: str, generation: str) -> str | None:
    """``stem``, which may be empty, and what was generated after it up to the end of the sentence
    or line; None if no word was, or nothing but a thought without an end (see ``why_none``).
    Tokenizers of the SentencePiece kind lose the space before a generation, so a letter or digit
    begins a new word."""
    continuation = generation.strip("\n").split("\n", 1)[0]
    if without_thinking(generation) is None or not _LETTER.search(continuation):
        return None
    if _LETTER.match(continuation):
        continuation = f" {continuation}"
    last = (
        stem.split()[-1] if stem else ""
    )  # an abbreviation there, or an initial, ends no sentence
    taken = ""
    for piece in split_sentences(last + continuation):
        taken = f"{taken} {piece}" if taken else piece
        if _LETTER.search(taken[len(last) :]):
            break
    return (stem[: len(stem) - len(last)] + taken).lstrip()


def why_none(generation: str) -> str:
    return NO_WORD if without_thinking(generation) is not None else UNFINISHED


def end_of(prefix: str, length: int = _CONTEXT) -> str:
    """The last ``length`` characters of ``prefix``, from a whole word on."""
    prefix = prefix.strip()
    if len(prefix) <= length:
        return prefix
    return f"... {prefix[-length:].split(maxsplit=1)[-1]}"


CAUTION = (
    "The judge reads no prompt and sees only whether a generation supports the row's own true or"
    " false wording: one that states (to word overlap) or violates the fact in other words counts"
    " as neutral. A language model as the judge can find those."
)
_NO_CONTENT_WORD = "the wordings differ in no content word, all that the lexical judge sees"
Label = Literal["true", "false", "neutral"]
TRUE, FALSE, NEUTRAL = MARKS = get_args(Label)


class MarkReply(Reply):
    """What a generation says about the fact."""

    reason: str
    mark: Label


@dataclass(frozen=True)
class Mark:
    """``label`` is one of ``MARKS``; if it is None, ``reason`` says why."""

    label: str | None
    reason: str | None = None


def vote(replies: Sequence[Typed[MarkReply]]) -> Mark:
    """Several replies about one generation as one mark: the commonest; what could not be read has
    no vote."""
    counts = Counter(each.value.mark for each in replies if each.value).most_common(2)
    if not counts:
        return Mark(None, replies[0].problem if replies else "no answer")
    if len(counts) > 1 and counts[0][1] == counts[1][1]:
        return Mark(None, "a tie between answers")
    return Mark(counts[0][0])


def support_pairs(subjects: Sequence[Mapping[str, Any]], by_words: bool) -> list[Pair]:
    """The two questions about each of ``subjects`` that can be asked, the true wording's first.
    Subjects are those of the prompt ``factor_generation/mark``. ``by_words``: the judge sees
    content words alone."""
    return [
        pair
        for subject in subjects
        if _can_tell(subject, by_words)
        for pair in _pairs(subject, by_words)
    ]


def support_marks(
    judge: Judge, subjects: Sequence[Mapping[str, Any]], description: str
) -> list[Mark]:
    by_words = judge.config.capabilities.by_words
    found = iter(verify(judge, support_pairs(subjects, by_words), description))
    return [
        (
            _mark(next(found), next(found))
            if _can_tell(each, by_words)
            else Mark(None, _NO_CONTENT_WORD)
        )
        for each in subjects
    ]


def _pairs(subject: Mapping[str, Any], by_words: bool) -> list[Pair]:
    if not by_words:
        return [
            Pair(subject[wording], (subject["sentence"],)) for wording in ("correct", "incorrect")
        ]
    written = subject["sentence"][len(subject["stem"]) :].strip()
    return [Pair(subject[edit], (written,)) for edit in ("true_edit", "false_edit")]


def _can_tell(subject: Mapping[str, Any], by_words: bool) -> bool:
    true, false = (read(subject[edit]).stems for edit in ("true_edit", "false_edit"))
    return not by_words or bool(true and false and true != false)


def _mark(true: Verification, false: Verification) -> Mark:
    for each in (true, false):
        if each.score is None:
            return Mark(None, each.reason)
    if true.score == false.score:
        return Mark(NEUTRAL)
    winner, label = max((true, TRUE), (false, FALSE), key=lambda pair: pair[0].score or 0.0)
    return Mark(label if winner.verdict == SUPPORTED else NEUTRAL)
