"""The minimal fact of a row (section 6.1 of the FACTOR paper), and a judge's marks of generations.

The paper's annotators wrote by hand in which minimal fact a false completion differs from the true
one. Here it is the first difference between the two, in its true and in its false wording. The
model continues from the prefix and the words that both completions begin with (c in the paper), or
from the prefix alone if there are none. The paper does not say which false completion is taken.
Here it is the first of the row, or of an error type, that leaves something to generate.

A judge that reads prompts is asked what a generated sentence says of the fact. Other judges, the
classifiers and the lexical judge, only tell how far a text supports a claim. They are asked whether
the sentence supports the true wording, and whether it supports the false one (see
`marks_by_support`).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import chain
from os.path import commonprefix
from statistics import multimode
from typing import Any, Literal, NamedTuple, get_args

from judges.judge import Judge
from judges.lexical.words import parse_text
from judges.typed import ParsedReply, Reply
from judges.verify import SUPPORTED, Pair, Verification, verify
from lm_factuality.benchmarks.factor.joining import AUTHORS_JOIN, Join
from lm_factuality.benchmarks.factor.rows import Row
from lm_factuality.ground.groups import split_into_groups
from lm_factuality.ground.sentences import split_sentences
from lm_factuality.ground.thinking import without_thinking

NO_WORD = "the generation has no word"
_CONTEXT_LENGTH = 600
"""The number of characters of a prefix that a judge sees."""

FIRST = "first"
"""Stands for the first contradiction of a row, whatever its error type."""

# A number, a name with its full stops and a hyphenated word are one word each, so that no prompt
# ends inside one.
_WORD = re.compile(r"[$€£¥#@]?\w+(?:[.,'’:/&-]\w+)*[%°]?")
_LETTER = re.compile(r"\w")


@dataclass(frozen=True)
class MinimalFact:
    """The fact in which a false completion of a row differs from the true one.

    Documents have these fields by their names.
    """

    prompt: str = ""
    """The text that the model continues: the prefix and the stem, joined as for scoring."""

    no_fact: str = ""
    """Why nothing can be generated for the row, empty if something can."""

    contradiction: int = -1
    """The index of the false completion among the choices of the row."""

    error_type: str = ""
    """The error type of the false completion."""

    stem: str = ""
    """The words that both completions begin with, spaced as in the true one."""

    true: str = ""
    """The true completion."""

    false: str = ""
    """The false completion."""

    true_edit: str = ""
    """The first words of the true completion that differ, at least one."""

    false_edit: str = ""
    """The first words of the false completion that differ, at least one."""


def find_minimal_fact(
    row: Row, contradiction_type: str = FIRST, join: Join = AUTHORS_JOIN
) -> MinimalFact:
    """Find the fact in which a false completion of a row differs from the true one.

    The model generates from the prefix and the words that both completions begin with, and so can
    state the fact or violate it.

    Args:
        row: The row.
        contradiction_type: The error type of the false completion. ``first`` stands for any.
        join: The rule by which the prefix and the stem are joined.

    Returns:
        The fact, with the prompt for the model. If no false completion leaves anything to generate,
        only ``no_fact`` is set, which says why.
    """
    if row.problem:
        return MinimalFact(no_fact=row.problem)

    first_problem = ""
    for index, error_type in enumerate(row.error_types):
        is_wanted = contradiction_type in (FIRST, error_type)
        if index == row.gold or not is_wanted:
            continue
        # If a contradiction leaves nothing to generate, the next one may do.
        try:
            return _fact_of_contradiction(row, index, join)
        except ValueError as error:
            first_problem = first_problem or str(error)
    return MinimalFact(no_fact=first_problem or f"no contradiction of type {contradiction_type!r}")


def _fact_of_contradiction(row: Row, index: int, join: Join) -> MinimalFact:
    """Find the fact in which one contradiction differs from the true completion.

    Args:
        row: The row.
        index: The index of the contradiction among the choices.
        join: The rule by which the prefix and the stem are joined.

    Raises:
        ValueError: There is no difference, or no text that the model could continue.
    """
    fact = find_first_difference(row.choices[row.gold], row.choices[index])
    if fact.stem:
        context, continuation = join(row.prefix, fact.stem)
        prompt = context + continuation
    else:
        # Most tokenizers put the space before a word into the word's first token, so a prompt may
        # not end in a space.
        prompt = row.prefix.rstrip(" ")
    if not prompt:
        raise ValueError("the prefix is empty, and the completions differ from the first word on")
    return replace(fact, prompt=prompt, contradiction=index, error_type=row.error_types[index])


def find_first_difference(true: str, false: str) -> MinimalFact:
    """Find the first words in which two completions differ.

    Punctuation and white space do not count, since the spacing of Expert-FACTOR as published gives
    most true completions away.

    Args:
        true: The true completion, such as ``Its keeper was a sailor.``
        false: The false completion, such as ``Its keeper was a baker.``

    Returns:
        The difference: the stem ``Its keeper was a`` and the edits ``sailor`` and ``baker``.

    Raises:
        ValueError: The completions have the same words, or one is the beginning of the other.
    """
    true = true.strip()
    false = false.strip()
    # Matches tell where each word stands in its completion.
    true_words = list(_WORD.finditer(true))
    false_words = list(_WORD.finditer(false))
    true_texts = [word[0] for word in true_words]
    false_texts = [word[0] for word in false_words]

    # The number of words that both begin with. Given lists, commonprefix compares their items.
    num_common = len(commonprefix([true_texts, false_texts]))  # noqa: RUF071
    if num_common == len(true_words) == len(false_words):
        raise ValueError("the completions differ in no word")
    for name, words in (("true", true_words), ("false", false_words)):
        if num_common == len(words):
            raise ValueError(f"nothing of the {name} completion is left after the common words")

    stem = ""
    if num_common:
        # The stem ends after the last common word, or after a comma that follows it in both.
        end = true_words[num_common - 1].end()
        true_gap = true[end : true_words[num_common].start()]
        false_end = false_words[num_common - 1].end()
        false_gap = false[false_end : false_words[num_common].start()]
        stem = true[:end] + _common_punctuation(true_gap, false_gap)

    # The edits begin with the first word that differs.
    edit_lengths = _first_edit_lengths(true_texts[num_common:], false_texts[num_common:])
    return MinimalFact(
        stem=stem,
        true=true,
        false=false,
        true_edit=_text_of_words(true, true_words[num_common:][: edit_lengths.true]),
        false_edit=_text_of_words(false, false_words[num_common:][: edit_lengths.false]),
    )


class EditLengths(NamedTuple):
    """The numbers of words in which two completions differ at first, at least 1 each."""

    true: int
    false: int


def _first_edit_lengths(true_rest: Sequence[str], false_rest: Sequence[str]) -> EditLengths:
    """Count how many words at the beginning of two texts differ, before they agree again.

    Example:
        ``sailor from Wales`` and ``young baker from Wales`` give 1 true and 2 false words, since
        both go on with ``from Wales``.

    Args:
        true_rest: The words of the true completion behind the words common to both.
        false_rest: The words of the false completion. Its first word differs from that of
            ``true_rest``.
    """
    matcher = SequenceMatcher(None, true_rest, false_rest, autojunk=False)
    # An opcode has a name, and the start and the end of the edit in each text. The first edit
    # starts at 0 in both texts, so its ends are the numbers of its words.
    _, _, num_true, _, num_false = matcher.get_opcodes()[0]
    if num_true and num_false:
        return EditLengths(num_true, num_false)
    # One side has no word, as where "never" was put in. An edit must have a word in both wordings,
    # so it also takes the next word, which both have.
    return EditLengths(num_true + 1, num_false + 1)


def _text_of_words(text: str, words: Sequence[re.Match[str]]) -> str:
    """Return the part of a text from the first to the last of some words, with what is between."""
    return text[words[0].start() : words[-1].end()]


def _common_punctuation(true_gap: str, false_gap: str) -> str:
    """Return the mark with which both texts between two words begin, such as ``,`` of ``, ``.

    Returns:
        The mark. Empty if they begin with different ones, or the true text has no white space.
    """
    mark = re.split(r"\s", true_gap, maxsplit=1)[0]
    false_mark = re.split(r"\s", false_gap, maxsplit=1)[0]
    # A hyphen without a space behind it, as in "ex-king", is a part of the next word.
    is_before_space = mark != true_gap
    return mark if mark == false_mark and is_before_space else ""


def complete_sentence(stem: str, generation: str) -> str | None:
    """Return the stem with what was generated after it, up to the end of the sentence or line.

    Example:
        The stem ``He was a`` and the generation `` baker. He then left.`` give ``He was a baker.``

    Args:
        stem: The beginning of the sentence, which may be empty.
        generation: What the model wrote after it.

    Returns:
        The sentence. None if the generation has no word, or is an unfinished thought.
    """
    # There is no text without the thinking if the model was cut off while it thought.
    if without_thinking(generation) is None:
        return None
    # A model that goes on writes more lines, which are not part of the sentence.
    continuation = generation.strip("\n").partition("\n")[0]
    if not _LETTER.search(continuation):
        return None
    # Tokenizers of the SentencePiece kind lose the space before a generation.
    if _LETTER.match(continuation):
        continuation = f" {continuation}"

    # Only the last word of the stem matters for where the sentence ends: the full stop of "U.S."
    # does not end it, while that of another word may.
    last_word = stem.split()[-1] if stem else ""
    stem_before_last_word = stem.removesuffix(last_word)
    return (stem_before_last_word + _first_sentence(last_word, continuation)).lstrip()


def _first_sentence(last_word: str, continuation: str) -> str:
    """Return a word and what was generated after it, up to the end of the first sentence.

    Example:
        ``a`` and `` baker. He left.`` give ``a baker.``

    Args:
        last_word: The last word of the stem, which may end in a full stop.
        continuation: What the model wrote after it, with at least one word.
    """
    sentence = ""
    for piece in split_sentences(last_word + continuation):
        sentence = f"{sentence} {piece}" if sentence else piece
        generated_part = sentence[len(last_word) :]
        # A stem may end in a full stop. Its last word alone is no sentence of the model.
        if _LETTER.search(generated_part):
            break
    return sentence


def end_of_prefix(prefix: str) -> str:
    """Return the end of a prefix as a judge sees it, from the beginning of a word on.

    Returns:
        At most `_CONTEXT_LENGTH` characters, behind ``...`` if the prefix is longer.
    """
    prefix = prefix.strip()
    if len(prefix) <= _CONTEXT_LENGTH:
        return prefix
    # Drop the word that the cut may have split.
    whole_words = prefix[-_CONTEXT_LENGTH:].split(maxsplit=1)[-1]
    return f"... {whole_words}"


CAUTION = (
    "The judge reads no prompt and sees only whether a generation supports the row's own true or"
    " false wording: one that states (to word overlap) or violates the fact in other words counts"
    " as neutral. A language model as the judge can find those."
)
_NO_CONTENT_WORD = "the wordings differ in no content word, all that the lexical judge sees"
Label = Literal["true", "false", "neutral"]
MARKS = get_args(Label)
TRUE: Label = "true"
FALSE: Label = "false"
NEUTRAL: Label = "neutral"


class MarkReply(Reply):
    """What a generation says about the fact."""

    reason: str
    mark: Label


@dataclass(frozen=True)
class Mark:
    """A judge's mark of one generation."""

    label: str | None
    """``true``, ``false`` or ``neutral``. None if the generation is unscored."""

    reason: str | None = None
    """Why the generation is unscored."""


def majority_mark(replies: Sequence[ParsedReply[MarkReply]]) -> Mark:
    """Return the mark that most of a judge's replies give.

    Args:
        replies: Replies to the same question, at least one. Those that cannot be read have no vote.

    Returns:
        The mark. Its label is None after a tie, or if no reply can be read.
    """
    votes = [reply.value.mark for reply in replies if reply.value]
    if not votes:
        return Mark(None, replies[0].problem)
    # Two marks may have equally many votes.
    most_frequent_marks = multimode(votes)
    if len(most_frequent_marks) > 1:
        return Mark(None, "a tie between answers")
    return Mark(most_frequent_marks[0])


def marks_by_support(judge: Judge, subjects: Sequence[Mapping[str, Any]]) -> list[Mark]:
    """Mark generations by whether they support the true or the false wording of the fact.

    Args:
        judge: A judge that reads no prompt, but tells how far a text supports a claim.
        subjects: The variables of the prompt ``factor_generation/mark`` for each generation.

    Returns:
        A mark for each generation. It is unscored if the wordings are the same to the judge.
    """
    # The lexical judge matches words: it only counts those that a claim and a text share.
    matches_words = judge.config.capabilities.matches_words
    claims_by_subject = [_wording_claims(subject, matches_words) for subject in subjects]
    # All claims are sent at once, so that a judge on a server can work on many at a time.
    all_claims = list(chain.from_iterable(claims_by_subject))
    verifications = verify(judge, all_claims, "marking generations")

    marks = []
    for verifications_of_subject in split_into_groups(verifications, map(len, claims_by_subject)):
        if verifications_of_subject:
            # The true wording of a fact comes before the false one.
            of_true, of_false = verifications_of_subject
            marks.append(_mark_of_verifications(of_true, of_false))
        else:
            # The judge was not asked.
            marks.append(Mark(None, _NO_CONTENT_WORD))
    return marks


def _wording_claims(subject: Mapping[str, Any], matches_words: bool) -> list[Pair]:
    """Return the true and the false wording of a fact as claims about the generated sentence.

    A judge that only counts the content words that claim and sentence share would find the words
    common to both wordings. It therefore compares the words in which they differ with what the
    model generated.

    Args:
        subject: The variables of the prompt ``factor_generation/mark``.
        matches_words: Whether the judge only counts common words.

    Returns:
        The true claim and the false one, each with the text that may support it. Empty if the judge
        matches words, and the wordings have the same content words or none.
    """
    if not matches_words:
        sentence = subject["sentence"]
        return [Pair(subject["correct"], (sentence,)), Pair(subject["incorrect"], (sentence,))]

    true_edit = subject["true_edit"]
    false_edit = subject["false_edit"]
    true_words = parse_text(true_edit).stem_set
    false_words = parse_text(false_edit).stem_set
    # Wordings that differ in "he" and "she" have no content words, as those are none.
    if not true_words or not false_words or true_words == false_words:
        return []
    # The sentence begins with the stem, which the model did not generate.
    beginning = subject["stem"]
    generated_text = subject["sentence"][len(beginning) :].strip()
    return [Pair(true_edit, (generated_text,)), Pair(false_edit, (generated_text,))]


def _mark_of_verifications(of_true: Verification, of_false: Verification) -> Mark:
    """Return the mark of a generation.

    Args:
        of_true: How far the generation supports the true wording.
        of_false: How far the generation supports the false wording.

    Returns:
        The wording with the higher score if the judge calls it supported, and otherwise neutral.
        Equal scores are neutral. The label is None if a wording is unscored.
    """
    if of_true.score is None:
        return Mark(None, of_true.reason)
    if of_false.score is None:
        return Mark(None, of_false.reason)

    # A text that supports both wordings alike speaks for neither.
    if of_true.score > of_false.score and of_true.verdict == SUPPORTED:
        return Mark(TRUE)
    if of_false.score > of_true.score and of_false.verdict == SUPPORTED:
        return Mark(FALSE)
    return Mark(NEUTRAL)
