"""What in a sentence says of what sex the people in it are: pronouns, first names, nouns."""

from __future__ import annotations

from collections.abc import Mapping

from factor_gen.generate.rules.sentence import Sentence
from factor_gen.generate.rules.words import DATA
from factor_gen.text.analysis import PERSON
from factor_gen.text.lists import word_set
from factor_gen.text.names import first_names

HE = frozenset(["he", "him", "his", "himself"])
SHE = frozenset(["she", "her", "hers", "herself"])
MALE, FEMALE = word_set(DATA, "male"), word_set(DATA, "female")
VESSELS = word_set(DATA, "vessels")
"""What may be called *she*."""


def sexes_of_names(sentence: Sentence) -> Mapping[str, str]:
    """``f`` or ``m`` by the names, and the surnames, of the people whose first name says it, here or in the text before."""
    found: dict[str, str] = {}
    people = [each.text for each in sentence.mentions if each.kind == PERSON]
    people += [each.text for each in sentence.entities if each.kind == PERSON]
    for name in people:
        sex = first_names().get(name.split()[0])
        if sex:
            found[name] = sex
            if " " in name:
                found[name.split()[-1]] = sex
    return found


def known_sexes(sentence: Sentence) -> frozenset[str]:
    """The sexes, ``f`` and ``m``, of which a pronoun or a named person of the sentence is."""
    names = sexes_of_names(sentence)
    found = {names[each.text] for each in sentence.entities if each.kind == PERSON and each.text in names}
    return frozenset(found | ({"m"} if sentence.words & HE else set()) | ({"f"} if sentence.words & SHE else set()))
