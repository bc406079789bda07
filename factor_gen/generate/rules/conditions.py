"""The tables of ``data/conditions.yaml``, which say when an operator may change words.

Operators ask them through `TaggedSentence.context_of_tokens`. The module
`factor_gen.text.conditions` describes the form of the tables.
"""

from collections.abc import Mapping

from factor_gen.generate.rules.words import WORDS
from factor_gen.text.conditions import Feature, Tables, TokenContext

# Tags of the words of a noun phrase: article, pronoun, adjective, noun, number.
_NOUN_PHRASE_TAGS = ("DT", "PRP$", "POS", "JJ", "NN", "CD")


def _head_noun(context: TokenContext) -> list[str]:
    """Find the head noun of the noun phrase that follows, such as *mill* in *the old mill*.

    Args:
        context: The tokens before the noun phrase.

    Returns:
        The noun as the only value of the feature; an empty text if no noun phrase follows.
    """
    head_noun = ""
    words_after = context.values_around("word", "after")
    tags_after = context.values_around("tag", "after")
    for word, tag in zip(words_after, tags_after, strict=True):
        # The noun phrase ends before the first word with another tag, such as a verb.
        if not tag.startswith(_NOUN_PHRASE_TAGS):
            break
        # Of several nouns, as in "the mill owner", the last one is the head.
        if tag.startswith("NN"):
            head_noun = word
    return [head_noun]


def _text_after(context: TokenContext) -> list[str]:
    """Return the text of the sentence after the tokens."""
    sentence = context.sentence
    span = sentence.span_of_tokens(context.start, context.end)
    return [sentence.text[span.end :]]


def _is_editable(context: TokenContext) -> list[bool]:
    """Return whether the tokens may be edited: they are no part of a name, title or identifier."""
    sentence = context.sentence
    return [sentence.is_editable(sentence.span_of_tokens(context.start, context.end))]


def _pair_at(context: TokenContext, position: int) -> list[str]:
    """Return a token and the next one, such as ``selling price``.

    Args:
        context: Tokens of the sentence.
        position: The index of the first token of the pair.
    """
    first_word = context.value_at("word", position)
    second_word = context.value_at("word", position + 1)
    return [f"{first_word} {second_word}"]


FEATURES: Mapping[str, Feature] = {
    "text": lambda context: (context.sentence.text,),
    "text after": _text_after,
    "free": _is_editable,
    "pair before": lambda context: _pair_at(context, context.start - 1),
    "pair after": lambda context: _pair_at(context, context.end - 1),
    "is one word": lambda context: (context.end == context.start + 1,),
    "head noun": _head_noun,
}
"""The features of ``conditions.yaml`` that are not the word, tag, shape or kind of a token."""

TABLES = Tables(__package__, "data/conditions.yaml", WORDS, FEATURES)
"""All tables of ``conditions.yaml``."""
