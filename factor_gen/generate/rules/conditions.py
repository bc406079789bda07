"""What stands around the words that an operator changes: features of ``data/conditions.yaml``.

Every operator asks the tables of that file before it changes words. `factor_gen.text.conditions`
says how they are read.
"""

from collections.abc import Iterable, Mapping

from factor_gen.generate.rules.words import WORDS
from factor_gen.text.conditions import Feature, Tables, TokenContext


def _head_noun(place: TokenContext) -> Iterable[object]:
    """The last noun of the noun phrase that follows; nothing if there is none."""
    head = ""
    for word, tag in zip(
        place.values_around("word", "after"), place.values_around("tag", "after"), strict=True
    ):
        if not tag.startswith(("DT", "PRP$", "POS", "JJ", "NN", "CD")):
            break
        if tag.startswith("NN"):
            head = word
    return (head,)


def _text_after(place: TokenContext) -> Iterable[object]:
    _, end = place.sentence.span(place.start, place.end)
    return (place.sentence.text[end:],)


def _is_free(place: TokenContext) -> Iterable[object]:
    """Whether the tokens may be edited."""
    return (place.sentence.is_free(*place.sentence.span(place.start, place.end)),)


def _pair_at(place: TokenContext, position: int) -> Iterable[object]:
    """A token and the next one."""
    return (f"{place.value_at('word', position)} {place.value_at('word', position + 1)}",)


FEATURES: Mapping[str, Feature] = {
    "text": lambda place: (place.sentence.text,),
    "text after": _text_after,
    "free": _is_free,
    "pair before": lambda place: _pair_at(place, place.start - 1),
    "pair after": lambda place: _pair_at(place, place.end - 1),
    "is one word": lambda place: (place.end == place.start + 1,),
    "head noun": _head_noun,
}
"""What rules may ask for that is no word, tag, shape or kind of some tokens."""
TABLES = Tables(__package__, "data/conditions.yaml", WORDS, FEATURES)
