"""Operators that replace a verb, noun, adverb or phrase by another one of its line in a list.

The lines are in ``substitutes.tsv``. `factor_gen.generate.rules.generator` calls this for each of
its operators, such as ``antonym`` and ``cause``.
"""

import random
from collections.abc import Iterator, Sequence

from factor_gen.generate.rules.edits import Replacement, SentenceEdit, make_edit
from factor_gen.generate.rules.sentence import TaggedSentence
from factor_gen.generate.rules.words import (
    ANTONYM,
    INFLECTION_TAGS,
    NOUN,
    ListEntry,
    WordForm,
    entries_by_first_word,
)

_MOST_SUBSTITUTES = 2  # of one word


def replace_listed_words(
    operator: str, sentence: TaggedSentence, rng: random.Random
) -> Iterator[SentenceEdit]:
    """Replace each listed word of a sentence by other words of its line.

    Example:
        ``antonym``: *Prices rose in May* becomes *Prices fell in May*.
        ``noun``: *She sold the boats* becomes *She sold the ships*.
        ``cause``: *It closed because of the rain* becomes *It closed despite the rain*.

    Args:
        operator: The lines of the list to use, such as ``antonym``.
        sentence: The sentence to edit.
        rng: The random numbers that decide which substitutes are taken.

    Yields:
        Edits of one word or phrase, at most two for each list entry.
    """
    entries = entries_by_first_word(operator)
    edited_end = 0
    for start, word in enumerate(sentence.lowercase_words):
        # The word is part of a phrase that was edited.
        if start < edited_end:
            continue
        for entry in entries.get(word, ()):
            end = start + len(entry.words)
            is_there = sentence.lowercase_words[start:end] == entry.words
            # The longest entries come first: "set" is not edited where "set up" was.
            if not is_there or end < edited_end or not sentence.are_tokens_editable(start, end):
                continue
            substitutes = _fitting_substitutes(operator, sentence, start, entry)
            if not substitutes:
                continue

            edited_end = end
            span = sentence.span_of_tokens(start, end)
            new_texts = [substitute.text for substitute in substitutes]
            drawn_texts = sentence.draw_substitutes(rng, entry.word.text, new_texts)
            if operator in INFLECTION_TAGS:
                drawn_texts = [
                    text
                    for text in drawn_texts
                    if sentence.collocations.allow(
                        sentence.text, *span, text, must_be_in_slot=operator == NOUN
                    )
                ]
            for text in drawn_texts[:_MOST_SUBSTITUTES]:
                # The list has commas as words of their own.
                replacement = Replacement(*span, text.replace(" ,", ","))
                yield make_edit(operator, entry.error_type, replacement)


def _fitting_substitutes(
    operator: str, sentence: TaggedSentence, start: int, entry: ListEntry
) -> list[WordForm]:
    """Return the substitutes that are grammatical in the place of a word of the sentence.

    The tables ``refused antonym``, ``fitting antonym`` and so on of ``conditions.yaml`` decide.

    Args:
        operator: The operator that replaces the word.
        sentence: The sentence to edit.
        start: The index of the first token of the word.
        entry: The list entry of the word.
    """
    end = start + len(entry.words)
    words = sentence.lowercase_words
    remaining_words = {*words[:start], *words[end:]}
    # If the verb is used twice, an edit of one would be at odds with the other.
    if not entry.word.head_forms.isdisjoint(remaining_words):
        return []

    substitutes = []
    for substitute in entry.substitutes:
        new_forms = substitute.head_forms - entry.word.head_forms
        # A sentence that has the substitute already would say the same thing twice.
        if substitute.text not in sentence.text and new_forms.isdisjoint(remaining_words):
            substitutes.append(substitute)

    context = sentence.context_of_tokens(
        start,
        end,
        operator=[operator],
        frame=[entry.frame],
        form=[entry.tag],
        others=[substitute.base for substitute in substitutes],
    )
    table = operator if operator in INFLECTION_TAGS else "phrase"
    if context.matches(f"refused {table}") or not context.matches(f"fitting {table}"):
        return []
    if operator == ANTONYM and entry.tag != verb_tag(sentence, start, _tags_of_verb(words[start])):
        return []
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
    context = sentence.context_of_tokens(index, possible=possible_tags)
    return context.first_result("verb forms") or ""


def _tags_of_verb(word: str) -> list[str]:
    """Return the Penn tags of the forms of listed verbs that are spelled like a word."""
    return [entry.tag for entry in entries_by_first_word(ANTONYM)[word]]
