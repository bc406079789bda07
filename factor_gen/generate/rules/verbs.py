"""A verb for one that says the opposite, in the same form and with the same objects."""

import random
from collections.abc import Iterator, Sequence

from factor_gen.generate.rules.edits import Edit, edit
from factor_gen.generate.rules.sentence import Sentence
from factor_gen.generate.rules.words import FORMS, Verb, inflect, verbs
from factor_gen.records import PREDICATE

_MOST_OPPOSITES = 2  # edits of one verb


def antonym(sentence: Sentence, rng: random.Random) -> Iterator[Edit]:
    """Replace each verb of the sentence that has an opposite in the list."""
    for i, word in enumerate(sentence.small):
        listed = verbs().get(word, ())
        if not listed or sentence.place(i).meets("verb idioms"):
            continue
        form = form_of(sentence, i, [tag for _, tag in listed])
        opposites: list[tuple[int, str]] = []
        for verb, tag in listed:
            particles = verb.base.split(" ")[1:]
            end = i + 1 + len(particles)
            if tag != form or list(sentence.small[i + 1 : end]) != particles:
                continue
            if not _fits(sentence, i, end, verb, form):
                continue
            new = inflect(verb.opposite, form)
            old = " ".join([word, *particles])
            span = sentence.span(i, end)
            if sentence.drawn(rng, old, [new]) and sentence.contexts.fit(sentence.text, *span, new):
                opposites.append((end, new))
        if opposites:
            # Of "set up" and "set", the longer is meant.
            longest = max(opposites)[0]
            fitting = sorted({new for end, new in opposites if end == longest})
            for new in rng.sample(fitting, min(_MOST_OPPOSITES, len(fitting))):
                yield edit("antonym", PREDICATE, (*sentence.span(i, longest), new))


def form_of(sentence: Sentence, i: int, possible: Sequence[str]) -> str:
    """Tell the form of the verb at token ``i``.

    Args:
        possible: The Penn tags of the forms that have the verb's spelling.

    Returns:
        One of the tags; empty if the token is no verb, or it cannot be told.
    """
    return sentence.place(i, possible=possible).choose("verb forms") or ""


def _fits(sentence: Sentence, i: int, end: int, verb: Verb, form: str) -> bool:
    """Whether the opposite may stand for the verb, which ends before token ``end``."""
    others = {*sentence.small[:i], *sentence.small[i + 1 :]}
    for base in (verb.base, verb.opposite):
        # Another form of either elsewhere would be at odds with the change, or say the same.
        if any(inflect(base, tag).split(" ")[0] in others for tag in FORMS):
            return False
    place = sentence.place(i, end, frame=[verb.frame], form=[form], opposite=[verb.opposite])
    return not place.meets("refused verbs") and place.meets("fitting verbs")
