"""What stands around the words that an operator changes: features of ``data/conditions.yaml``.

Every operator asks the tables of that file before it changes words. `factor_gen.text.conditions`
says how they are read.
"""

from collections.abc import Iterable, Mapping

from factor_gen.generate.rules.words import WORDS
from factor_gen.text.analysis import FINITE
from factor_gen.text.conditions import Feature, Place, Tables


def _is_dependent(place: Place) -> Iterable[object]:
    """Whether the verb is of a relative or another dependent clause.

    Examples are *the file that is read* and *said that it is*.
    """
    words, tags = (place.around(column, "before", "clause") for column in ("word", "tag"))
    for i, tag in enumerate(tags):
        if tag in FINITE:
            break
        if words[i] in WORDS["relative"] and i + 1 < place.start:
            return (True,)
        if tag in ("PRP", "DT") and i + 1 < len(tags) and tags[i + 1] in ("NN", "NNS"):
            # the file you opened, but not: on the day the file was opened
            is_time = tags[-1] == "IN" or words[i + 1] in WORDS["spans of time"]
            if tag == "PRP" or not is_time:
                return (True,)
    return (False,)


def _head_noun(place: Place) -> Iterable[object]:
    """The last noun of the noun phrase that follows; nothing if there is none."""
    head = ""
    for word, tag in zip(place.around("word", "after"), place.around("tag", "after"), strict=True):
        if not tag.startswith(("DT", "PRP$", "POS", "JJ", "NN", "CD")):
            break
        if tag.startswith("NN"):
            head = word
    return (head,)


def _text_after(place: Place) -> Iterable[object]:
    _, end = place.sentence.span(place.start, place.end)
    return (place.sentence.text[end:],)


def _is_free(place: Place) -> Iterable[object]:
    """Whether the tokens may be edited."""
    return (place.sentence.is_free(*place.sentence.span(place.start, place.end)),)


def _pair_at(place: Place, position: int) -> Iterable[object]:
    """A token and the next one."""
    return (f"{place.at('word', position)} {place.at('word', position + 1)}",)


FEATURES: Mapping[str, Feature] = {
    "text": lambda place: (place.sentence.text,),
    "text after": _text_after,
    "free": _is_free,
    "pair before": lambda place: _pair_at(place, place.start - 1),
    "pair after": lambda place: _pair_at(place, place.end - 1),
    "is one word": lambda place: (place.end == place.start + 1,),
    "dependent": _is_dependent,
    "head noun": _head_noun,
}
"""What rules may ask for that is no word, tag, shape or kind of some tokens."""
TABLES = Tables(__package__, "data/conditions.yaml", WORDS, FEATURES)
