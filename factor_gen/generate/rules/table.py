"""Every operator of the rules, by name, with its share of the tries."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from factor_gen.generate.rules import dates, names, negation, numbers, phrases, pronouns, swaps, verbs
from factor_gen.generate.rules.edits import Edit
from factor_gen.generate.rules.sentence import Sentence

Operator = Callable[[Sentence, random.Random], Iterable[Edit]]

OPERATORS: Mapping[str, Operator] = {
    "antonym": verbs.antonym,
    "negation removed": negation.taken_back,
    "negation added": negation.added,
    "adverb": partial(phrases.phrase, "adverb"),
    "number": numbers.numbers,
    "ordinal": numbers.ordinals,
    "name": names.document_names,
    "name swap": names.swapped_names,
    "place": names.mapped_places,
    "nationality": names.nationality,
    "noun": swaps.noun,
    "property": swaps.property_,
    "comparison": partial(phrases.phrase, "comparison"),
    "date": dates.dates,
    "place and time": partial(phrases.phrase, "place and time"),
    "pronoun": pronouns.other_sex,
    "pronoun group": pronouns.other_group,
    "pronoun to name": pronouns.wrong_person,
    "name to pronoun": pronouns.name_to_pronoun,
    "order": partial(phrases.phrase, "order"),
    "cause": partial(phrases.phrase, "cause"),
}
