"""Operators that replace a verb or noun by another one of its line in a list.

The lines are in ``substitutes.tsv``. `factor_gen.generate.rules.generator` calls this for its
operators ``antonym`` and ``noun``.
"""

from collections.abc import Iterator, Sequence
from random import Random
from typing import NamedTuple

from factor_gen.generate.rules.edits import Replacement, SentenceEdit, make_edit
from factor_gen.generate.rules.sentence import Span, TaggedSentence
from factor_gen.generate.rules.words import (
    ANTONYM,
    NOUN,
    ListEntry,
    WordForm,
    entries_by_first_word,
)

_MOST_SUBSTITUTES = 2  # of one word


class ReplaceableWord(NamedTuple):
    """A word or phrase of a sentence that other words may replace."""

    span: Span
    """The characters of the sentence."""
    entry: ListEntry
    """The word in the list."""
    substitutes: Sequence[WordForm]
    """The words of its line that are grammatical in its place."""


def replace_listed_words(
    operator: str, sentence: TaggedSentence, rng: Random
) -> Iterator[SentenceEdit]:
    """Replace each listed word of a sentence by other words of its line.

    Example:
        ``antonym``: *Prices rose in May* becomes *Prices fell in May*.
        ``noun``: *She sold the boats* becomes *She sold the ships*.

    Args:
        operator: ``antonym`` or ``noun``, which is the first column of the lines that it uses.
        sentence: The sentence to edit.
        rng: The random numbers that decide which substitutes are taken.

    Yields:
        Edits of one word or phrase, at most two for each list entry.
    """
    for replaceable in _replaceable_words(operator, sentence):
        entry = replaceable.entry
        new_texts = [substitute.text for substitute in replaceable.substitutes]
        drawn_texts = sentence.draw_substitutes(rng, entry.word.text, new_texts)
        # A substitute may have a sense in which the corpus does not use it.
        allowed_texts = [
            text
            for text in drawn_texts
            if sentence.collocations.allow_substitute(
                sentence.text, *replaceable.span, text, must_be_in_slot=operator == NOUN
            )
        ]
        for text in allowed_texts[:_MOST_SUBSTITUTES]:
            yield make_edit(operator, entry.error_type, Replacement(*replaceable.span, text))


def _replaceable_words(operator: str, sentence: TaggedSentence) -> Iterator[ReplaceableWord]:
    """Find the words and phrases of a sentence that an operator may replace, in order.

    If one phrase begins with another, as *set up* with *set*, only the longer one is found.

    Args:
        operator: The name of the operator. It uses the lines of the list that begin with it.
        sentence: The sentence to edit.

    Yields:
        The words with their substitutes. A word with two meanings in the list is found twice.
    """
    start = 0
    while start < len(sentence.lowercase_words):
        longest_phrases = _longest_replaceable_phrases(operator, sentence, start)
        yield from longest_phrases
        # No other phrase starts within one that was found.
        start += len(longest_phrases[0].entry.words) if longest_phrases else 1


def _longest_replaceable_phrases(
    operator: str, sentence: TaggedSentence, start: int
) -> list[ReplaceableWord]:
    """Find the longest phrase at a place of a sentence that an operator may replace.

    Args:
        operator: The name of the operator.
        sentence: The sentence to edit.
        start: The index of the first token of the phrase.

    Returns:
        One item for each meaning of the phrase in the list; none if no phrase starts there.
    """
    words = sentence.lowercase_words
    phrases: list[ReplaceableWord] = []
    # The longest entries come first: "set up" before "set".
    for entry in entries_by_first_word(operator).get(words[start], ()):
        if phrases and len(entry.words) < len(phrases[0].entry.words):
            break
        end = start + len(entry.words)
        if words[start:end] != entry.words or not sentence.are_tokens_editable(start, end):
            continue
        substitutes = _fitting_substitutes(operator, sentence, start, entry)
        if substitutes:
            span = sentence.span_of_tokens(start, end)
            phrases.append(ReplaceableWord(span, entry, substitutes))
    return phrases


def _fitting_substitutes(
    operator: str, sentence: TaggedSentence, start: int, entry: ListEntry
) -> list[WordForm]:
    """Return the substitutes that are grammatical in the place of a word of the sentence.

    Two tables of ``conditions.yaml`` for each operator decide whether the word can be replaced: a
    rule of ``fitting antonym`` must hold, such as that a noun follows the verb, and no rule of
    ``refused antonym``, which has idioms, for example.

    Args:
        operator: The operator that replaces the word.
        sentence: The sentence to edit.
        start: The index of the first token of the word.
        entry: The list entry of the word.
    """
    substitutes = _absent_substitutes(sentence, start, entry)
    # The tables ask for these features besides those of the tokens.
    facts = {
        "operator": [operator],
        "frame": [entry.frame],
        "form": [entry.tag],
        "others": [substitute.base for substitute in substitutes],
    }
    context = sentence.context_of_tokens(start, start + len(entry.words), facts)
    if context.matches(f"refused {operator}") or not context.matches(f"fitting {operator}"):
        return []

    if operator == ANTONYM:
        # The word must be a verb in the form of the entry. "Rise" may also be a noun, and "cut" a
        # present or a past tense, whose antonyms differ.
        entries_of_word = entries_by_first_word(ANTONYM)[entry.words[0]]
        possible_tags = [entry_of_word.tag for entry_of_word in entries_of_word]
        if verb_tag(sentence, start, possible_tags) != entry.tag:
            return []
    return substitutes


def _absent_substitutes(sentence: TaggedSentence, start: int, entry: ListEntry) -> list[WordForm]:
    """Return the substitutes of a word of which the sentence has no form yet.

    Example:
        *Prices rose and then fell*, and *prices rose, but will fall*: *fell* does not replace
        *rose*, because the sentence has a form of the verb *fall*.

    Args:
        sentence: The sentence to edit.
        start: The index of the first token of the word.
        entry: The list entry of the word.

    Returns:
        The substitutes. There are none if the rest of the sentence has a form of the word to
        replace: in *prices rose and may rise*, an edit of *rose* would not fit *rise*.
    """
    words = sentence.lowercase_words
    other_words = {*words[:start], *words[start + len(entry.words) :]}
    if not entry.word.head_forms.isdisjoint(other_words):
        return []

    substitutes = []
    for substitute in entry.substitutes:
        # "Find" and "found" (a city) share the form "found", a form of the old word.
        new_forms = substitute.head_forms - entry.word.head_forms
        if substitute.text not in sentence.text and new_forms.isdisjoint(other_words):
            substitutes.append(substitute)
    return substitutes


def verb_tag(sentence: TaggedSentence, index: int, possible_tags: Sequence[str]) -> str:
    """Tell in which form a verb stands, by the table ``verb forms`` of ``conditions.yaml``.

    Args:
        sentence: The sentence.
        index: The index of the verb's token.
        possible_tags: The Penn tags of all forms that are spelled alike: *cut* may be a ``VB`` or
            a ``VBD``.

    Returns:
        One of the tags; empty if the token is no verb, or if its form is not clear.
    """
    context = sentence.context_of_tokens(index, facts={"possible": possible_tags})
    return context.first_result("verb forms") or ""
