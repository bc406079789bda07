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
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import chain, islice
from os.path import commonprefix
from typing import Any, Literal, get_args

from judges.judge import Judge
from judges.lexical.words import parse_text
from judges.typed import ParsedReply, Reply
from judges.verify import SUPPORTED, Pair, Verification, verify
from lm_factuality.benchmarks.factor.joining import AUTHORS_JOIN, Join
from lm_factuality.benchmarks.factor.rows import Row
from lm_factuality.ground.sentences import split_sentences
from lm_factuality.ground.thinking import without_thinking

NO_WORD = "the generation has no word"
_CONTEXT = 600  # characters of a prefix that a judge sees
FIRST = "first"  # the choice of a contradiction that is no error type

# A number, a name with its full stops and a hyphenated word are one word each, so that no prompt
# ends inside one.
_WORD = re.compile(r"[$€£¥#@]?\w+(?:[.,'’:/&-]\w+)*[%°]?")
_LETTER = re.compile(r"\w")


@dataclass(frozen=True)
class MinimalFact:
    """What a row asks of a model, by the names that documents have for it."""

    prompt: str = ""
    """The prefix and the stem, joined as for scoring."""

    no_fact: str = ""
    """Why nothing can be asked."""

    contradiction: int = -1
    """The index of the choice that is the false completion."""

    error_type: str = ""

    stem: str = ""
    """The words that both completions begin with, as the true one spaces them."""

    true: str = ""
    """The true completion."""

    false: str = ""
    """The false completion."""

    true_edit: str = ""
    """What follows the stem up to where the two agree again, with at least a word in each."""

    false_edit: str = ""


def find_first_difference(true: str, false: str) -> MinimalFact:
    """Find the first difference between two completions, by their words.

    Punctuation and white space are none, such as the spacing that gives Expert-FACTOR's answers
    away.

    Raises:
        ValueError: No model can be asked to choose between them.
    """
    true, false = true.strip(), false.strip()
    true_words, false_words = list(_WORD.finditer(true)), list(_WORD.finditer(false))
    true_texts, false_texts = ([word[0] for word in words] for words in (true_words, false_words))
    # Of lists, it compares the items.
    start = len(commonprefix([true_texts, false_texts]))  # noqa: RUF071
    if start == len(true_words) == len(false_words):
        raise ValueError("the completions differ in no word")
    for side, words in (("true", true_words), ("false", false_words)):
        if start == len(words):
            raise ValueError(f"nothing of the {side} completion is left after the common words")
    stem = ""
    if start:
        end = true_words[start - 1].end()
        gap = true[end : true_words[start].start()]
        false_gap = false[false_words[start - 1].end() : false_words[start].start()]
        stem = true[:end] + _common_mark(gap, false_gap)
    matcher = SequenceMatcher(None, true_texts[start:], false_texts[start:], autojunk=False)
    _, _, true_length, _, false_length = matcher.get_opcodes()[0]
    if not true_length or not false_length:
        # Where one side has no word, as where "never" was put in, the next word, which both have,
        # belongs to the difference.
        true_length += 1
        false_length += 1
    return MinimalFact(
        stem=stem,
        true=true,
        false=false,
        true_edit=true[true_words[start].start() : true_words[start + true_length - 1].end()],
        false_edit=false[false_words[start].start() : false_words[start + false_length - 1].end()],
    )


def find_minimal_fact(row: Row, choice: str = FIRST, join: Join = AUTHORS_JOIN) -> MinimalFact:
    """Find the minimal fact of a row.

    Args:
        row: The row.
        choice: Which false completion is taken: ``first``, or the first of an error type.
        join: How its texts are joined.
    """
    problem = row.problem
    for index, false in enumerate(() if problem else row.choices):
        if index == row.gold or choice not in (FIRST, row.error_types[index]):
            continue
        try:
            edit = find_first_difference(row.choices[row.gold], false)
        except ValueError as error:
            problem = problem or str(error)
            continue
        # A space that ends a prompt is part of the next word to most tokenizers, so none does.
        prompt = "".join(join(row.prefix, edit.stem)) if edit.stem else row.prefix.rstrip(" ")
        if prompt:
            error_type = row.error_types[index]
            return replace(edit, prompt=prompt, contradiction=index, error_type=error_type)
        problem = (
            problem or "the prefix is empty, and the completions differ from the first word on"
        )
    return MinimalFact(no_fact=problem or f"no contradiction of type {choice!r}")


def _common_mark(gap: str, false_gap: str) -> str:
    """Return the punctuation, such as a comma, that begins the gaps behind the last common word.

    It is empty unless it is the same in both and a space follows.
    """
    mark, false_mark = (re.split(r"\s", text, maxsplit=1)[0] for text in (gap, false_gap))
    return mark if mark == false_mark and mark != gap else ""


def complete_sentence(stem: str, generation: str) -> str | None:
    """``stem``, which may be empty, and what was generated after it up to the end of the sentence
    or line; None if no word was, or nothing but a thought without an end.
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


def end_of_prefix(prefix: str) -> str:
    """Return the end of a prefix that a judge sees, from a whole word on."""
    prefix = prefix.strip()
    if len(prefix) <= _CONTEXT:
        return prefix
    return f"... {prefix[-_CONTEXT:].split(maxsplit=1)[-1]}"


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


def majority_mark(replies: Sequence[ParsedReply[MarkReply]]) -> Mark:
    """Return the commonest mark of several replies. What could not be read has no vote."""
    counts = Counter(reply.value.mark for reply in replies if reply.value).most_common(2)
    if not counts:
        return Mark(None, replies[0].problem)
    if len(counts) > 1 and counts[0][1] == counts[1][1]:
        return Mark(None, "a tie between answers")
    return Mark(counts[0][0])


def support_marks(judge: Judge, subjects: Sequence[Mapping[str, Any]]) -> list[Mark]:
    """Mark by whether a sentence supports the true wording and whether it supports the false one.

    Args:
        judge: A judge that reads no prompt.
        subjects: Those of the prompt ``factor_generation/mark``.
    """
    by_words = judge.config.capabilities.matches_words
    pairs = [_wordings(subject, by_words) for subject in subjects]
    verifications = iter(verify(judge, list(chain.from_iterable(pairs)), "marking generations"))
    return [
        _mark(*islice(verifications, 2)) if wordings else Mark(None, _NO_CONTENT_WORD)
        for wordings in pairs
    ]


def _wordings(subject: Mapping[str, Any], by_words: bool) -> list[Pair]:
    """Pair the true and the false wording with the sentence.

    There are none if all that a judge sees are words of content, in which both are the same.
    """
    if not by_words:
        return [Pair(subject[key], (subject["sentence"],)) for key in ("correct", "incorrect")]
    true, false = subject["true_edit"], subject["false_edit"]
    stems = [parse_text(wording).stems for wording in (true, false)]
    if not all(stems) or stems[0] == stems[1]:
        return []
    evidence = subject["sentence"][len(subject["stem"]) :].strip()
    return [Pair(wording, (evidence,)) for wording in (true, false)]


def _mark(true: Verification, false: Verification) -> Mark:
    """Return the mark of a generation by how far it supports both wordings."""
    for verification in (true, false):
        if verification.score is None:
            return Mark(None, verification.reason)
    if true.score == false.score:
        return Mark(NEUTRAL)
    winner, label = max((true, TRUE), (false, FALSE), key=lambda pair: pair[0].score or 0.0)
    return Mark(label if winner.verdict == SUPPORTED else NEUTRAL)
