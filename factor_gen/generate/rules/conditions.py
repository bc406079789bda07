"""What stands around the words that an operator changes: features of ``data/conditions.yaml``.

Every operator asks the tables of that file before it changes words. `factor_gen.text.conditions`
says how they are read.
"""

import re
from collections.abc import Iterable, Mapping

from factor_gen.generate.rules.words import WORDS
from factor_gen.text.analysis import FINITE
from factor_gen.text.conditions import Feature, Place, Tables

_NO_VERB_BEYOND = (",", ".", ";", ":", "-", "–", "—", "who", "which", "that")
_LONGEST_CLAUSE = "25"  # tokens in which the verb of a clause is looked for
# Tags, the nearest first. A pronoun is a subject, and so is a noun phrase that no preposition
# governs: in 1932 he, in those days the town, but not in the town. Look-ahead and \1 together take
# the whole phrase or nothing.
_SUBJECT = re.compile(r"(?=((?:(?:NN|JJ|CD|POS)\S* )*(?:(?:DT|PRP)\S* )?))\1(?<= )(?!(?:IN|TO) )")


def _subject_stands_before(place: Place) -> Iterable[object]:
    """Whether the verb's subject stands right before it."""
    tags = " ".join([*place.around("tag", "before"), ""])
    return (_SUBJECT.match(tags) is not None,)


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


def _verb_follows(place: Place) -> Iterable[object]:
    """Whether a finite verb stands after the first following token, before the next break."""
    words, tags = (place.around(column, "after", _LONGEST_CLAUSE) for column in ("word", "tag"))
    for i, tag in enumerate(tags):
        if words[i] in _NO_VERB_BEYOND:
            break
        if tag in FINITE and i > 0:
            return (True,)
    return (False,)


def _last_finite_tag(place: Place) -> Iterable[object]:
    """The tag of the nearest finite verb before the tokens; nothing if there is none."""
    return [tag for tag in place.around("tag", "before") if tag in FINITE][:1]


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
    "tag line after": lambda place: (" ".join([*place.around("tag", "after"), ""]),),
    "pair before": lambda place: _pair_at(place, place.start - 1),
    "pair after": lambda place: _pair_at(place, place.end - 1),
    "is one word": lambda place: (place.end == place.start + 1,),
    "subject before": _subject_stands_before,
    "dependent": _is_dependent,
    "head noun": _head_noun,
    "last finite tag": _last_finite_tag,
    "verb follows": _verb_follows,
}
"""What rules may ask for that is no word, tag, shape or kind of some tokens."""
TABLES = Tables(__package__, "data/conditions.yaml", WORDS, FEATURES)
