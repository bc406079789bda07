"""Changes that read badly, or that leave a sentence at odds with itself, are not made: a table for
each kind."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from functools import partial

import pytest

from factor_gen.generate.rules import negation, phrases, pronouns
from factor_gen.generate.rules.dates import dates
from factor_gen.generate.rules.edits import Edit
from factor_gen.generate.rules.names import document_names, swapped_names
from factor_gen.generate.rules.numbers import numbers
from factor_gen.generate.rules.sentence import Sentence
from factor_gen.generate.rules.swaps import noun
from factor_gen.generate.rules.verbs import antonym
from factor_gen.generate.rules.words import DATA, verbs
from factor_gen.text.analysis import ORGANISATION, PLACE
from factor_gen.text.lists import rows
from tests.factor_gen.rules.support import TAGGER, results

Operator = Callable[[Sentence, random.Random], Iterable[Edit]]


@pytest.fixture(autouse=True)
def every_chance(always: None) -> None:
    """Of every test."""


def denied(sentence: Sentence, rng: random.Random) -> Iterable[Edit]:
    return negation.denials(sentence)


def phrase(name: str) -> Operator:
    return partial(phrases.phrase, name)


STAYS: list[tuple[str, Operator, str, str]] = [
    # operator, sentence, what must not come of it
    ("a list's last mark", numbers, "She sold the mill to her brother in May. 4.", "5."),
    (
        "a number said in words too",
        numbers,
        "The fee is fifty dollars ($50.00) in May.",
        "fifty dollars ($",
    ),
    ("a percentage said in words too", numbers, "It owned fifty percent (50%) of it.", "("),
    ("a section of a law", numbers, "It is held by 17 U.S.C. § 101 in May.", "§"),
    ("the label of a clause", numbers, "1.9 “You” means the mill.", "“"),
    (
        "must, or something else",
        partial(phrases.phrase, "adverb"),
        "It must leave in May or be shut in.",
        "need not",
    ),
    ("the number of a list", numbers, "It visited three towns: Tarn, Vale and Moor.", "towns"),
    (
        "the number of a list after a dash",
        numbers,
        "It visited three towns – Tarn, Vale and Moor.",
        "towns",
    ),
    (
        "a number with its items in brackets",
        numbers,
        "The two kinds (old and new) sold well.",
        "kinds",
    ),
    (
        "a number, its items after a comma",
        numbers,
        "It has three parts, the hull, the mast, and the oars.",
        "parts",
    ),
    (
        "a number, its items without a comma",
        numbers,
        "It takes two boats Tarn and Vale there.",
        "boats",
    ),
    ("a number after its items", numbers, "Tarn and Vale are two towns on the river.", "towns"),
    (
        "what a number counts is named by number again",
        numbers,
        "The two boats sold well, and both are new.",
        "boats",
    ),
    ("a number that refers back", numbers, "A comma stood between the two.", "the "),
    ("a number that is said twice", numbers, "It has three groups of three boats.", "group"),
    ("a negation with its ground", denied, "The man bought the mill: it was cheap.", "did not"),
    (
        "a negation before a contrast",
        negation.taken_back,
        "The man did not buy the mill; rather, he sold it.",
        "bought",
    ),
    (
        "a negation with what came of it",
        denied,
        "The man bought the mill, which made him rich.",
        "not",
    ),
    ("always in the present", phrase("adverb"), "Sailors always mend their boats.", "never"),
    ("always of many", phrase("adverb"), "The sailors always sold their boats.", "never"),
    ("a remark on the whole", phrase("adverb"), "Officially, he sold the mill.", "nofficial"),
    (
        "a verb after the phrase",
        phrase("cause"),
        "She chose to sell rather than keep the mill.",
        "addition",
    ),
    ("inside a time", phrase("place and time"), "It ended inside three weeks there.", "outside"),
    ("what is enabled to do", antonym, "They enabled the man to sell boats.", "disabled"),
    ("what is attached to", antonym, "They attached boats to the list.", "detached"),
    ("said to somebody", noun, "Well, brother, the mill is sold.", "sister"),
    ("an amount in two units", numbers, "It reaches 40 miles (64 km) on a good day.", "miles"),
    ("per so many", numbers, "There are few per 100,000 people there.", "people"),
    ("decades beyond memory", numbers, "He was sent there for 45 years.", "decades"),
    ("one of two days", dates, "It will be hot on Monday and Tuesday there.", " and Tuesday"),
    ("a season over two years", dates, "They won 41 points in the 2019-20 season.", "-20 season"),
    ("a season in years", numbers, "They won 41 points in the 2019-20 season.", "2019-3"),
    ("a leap day", dates, "He left the town on February 29, 2020.", "February 29"),
    ("after a length of time", phrase("order"), "She sold it after two years.", "before"),
    (
        "beside the present tense",
        phrase("order"),
        "The report comes after the bank cut its price.",
        "before",
    ),
    ("in front of judges", phrase("order"), "He spoke before the high court.", "after"),
    (
        "time that must pass",
        phrase("order"),
        "A year must pass before the boats can sail.",
        "after",
    ),
    ("no event", phrase("order"), "They sold the mill after the bridge.", "during"),
    ("brought before", phrase("order"), "The men were brought before the town.", "after"),
    ("right above", phrase("adverb"), "It stood immediately above the mill.", "eventually"),
    ("still at the start", phrase("adverb"), "Still, he sold the old mill.", "longer"),
    ("still denied", phrase("adverb"), "He is still not sure of that.", "longer"),
    ("still that grades", phrase("adverb"), "The price was still higher than that.", "longer"),
    ("if with then", phrase("cause"), "If the mill closes, then the town suffers.", "nless"),
    ("if for whether", phrase("cause"), "They asked if the mill was open.", "unless"),
    ("than locally", phrase("adverb"), "It was colder than locally.", "globally"),
    ("after here", denied, "Here is a list of the mills.", "not"),
    ("within whether", denied, "They asked whether the mill was sold.", "was not"),
    ("within if", denied, "If the mill was sold, it was a pity.", "If the mill was not"),
    ("a reduced participle", denied, "The boats sold in May were old.", "did not sell"),
    ("a participle with a time", denied, "The rules agreed last week were old.", "did not agree"),
    ("who speaks", denied, "“The mill is old,” he wrote.", "did not write"),
    ("growth in figures", denied, "Sales grew to 300 boats from 200 boats.", "did not grow"),
    ("a noun said again", noun, "The buyer told the buyers to wait.", "ellers"),
    ("a woman's noun", noun, "The queen said that she was old.", "king"),
    ("a man's noun and name", noun, "Her brother James Hollis sold it.", "sister"),
    ("no confidence", noun, "They had no confidence in him.", "doubt"),
    ("money put in", noun, "An investment in the mill was made.", "withdrawal"),
    ("for sale", noun, "The boats were for sale in May.", "purchase"),
    ("money that is raised", antonym, "The mill raised $200 million in May.", "$"),
    ("questions that are raised", antonym, "The leak raised questions in May.", "questions"),
    ("a verb said again", antonym, "She sold the mill and sells boats.", "bought"),
    ("a ticker", document_names, "Tarn Group's (TARN.O) mill closed.", "mill"),
    ("a cited year", dates, "The mill was studied twice (Tarn, 1972, 1986).", "198"),
    ("a list of years", dates, "It is described by Tarn (1993, 1994, 1998).", "199"),
    ("two centuries", dates, "In the 17th and 18th century it was sold.", "17th and 17th"),
    ("night and morning", dates, "She prayed night and morning in 1921.", "evening"),
    ("all three", numbers, "It visited all three towns in May.", "all two"),
    (
        "what is especially so",
        phrase("cause"),
        "It is easy, especially if the mill is old.",
        "unless",
    ),
    ("half of a number", numbers, "It carried six and a half tons.", "eight and"),
    ("an edition", dates, "The 2010 version of it works well.", "20"),
    ("solstices", dates, "It governs the December solstice.", "solstice"),
    ("a sum", numbers, "Enter 12 * 100 in the form.", "15"),
    ("where two are enough", numbers, "Usually two points are enough for it.", "three"),
    ("a bound of versions", numbers, "The ship prior to 29.3 had a mast.", "prior to 1"),
    ("more masses than two", numbers, "It uses many more masses than two.", "three"),
    ("years before our era", numbers, "The war lasted from 431 to 404 BC.", "from"),
    (
        "centuries in words",
        dates,
        "It grew between the third and fourth century.",
        "third and third",
    ),
    ("centuries in order", dates, "It grew from the 5th to the 6th century.", "to the 4th"),
    ("of course", denied, "The law is of course good.", "not of course"),
    ("all at the start", numbers, "All three men left the house.", "All two"),
    ("all of the three", numbers, "All of the three men left.", "the two"),
    ("a label", numbers, "Sell it or (2) burn it in May.", "(4)"),
    ("a loose number", numbers, "Generally 30 men are there.", "4"),
    ("a footnote", numbers, "It was written in C++17 with care.", "12"),
    ("decades by the dozen", numbers, "He left fourteen years ago in May.", "decades"),
    ("a name like an order", denied, "Calculate Optimal Size will estimate a size.", "Do not"),
    ("only one, usually", phrase("adverb"), "After a year usually only one is left.", "rarely"),
    ("at least two must", phrase("adverb"), "At least two ships must sail in May.", "need not"),
    ("the year of a paper", dates, "It is described by Tarn (1983) and Vale.", "198"),
    ("a year to another", dates, "They fought from 405-406 CE in the hills.", "404"),
    (
        "a title and a name",
        swapped_names,
        "The Langobards under king Alboin invaded Italia.",
        "king Italia",
    ),
    ("two sorts of names", swapped_names, "Tobago was colonized by Curonians.", "Curonians was"),
    ("words in capitals", swapped_names, "Light was reflected by Colours.", "Colours"),
    ("names that do nothing", swapped_names, "The Helvetians and the Romans left.", "Romans and"),
    ("a verb before it", denied, "The sites distances use data coded for it.", "did not"),
    ("a perfect of should", denied, "The boil should have thickened in an hour.", "have not"),
    ("a phrase before the subject", denied, "In the town was a mill.", "not"),
    ("a ship", pronouns.other_sex, "The ship lost her mast in May.", "his"),
]


@pytest.mark.parametrize(
    ("operator", "text", "wrong"), [each[1:] for each in STAYS], ids=[each[0] for each in STAYS]
)
def test_stays(operator: Operator, text: str, wrong: str) -> None:
    prefix = "Vale Group sold it to Moor Group in Berlin. "
    assert not {each for each in results(operator, text, prefix) if wrong in each}


CHANGES: list[tuple[str, Operator, str, str]] = [
    # the same operators, where nothing stands against it
    ("a number", numbers, "It visited three towns in May.", "It visited four towns in May."),
    ("decades", numbers, "He was there for 5 years.", "He was there for 5 decades."),
    (
        "what is enabled",
        antonym,
        "He sold it to enable printing at home.",
        "He sold it to disable printing at home.",
    ),
    ("what is attached", antonym, "They attached boats in May.", "They detached boats in May."),
    (
        "a number and another clause",
        numbers,
        "He sold three boats, and left.",
        "He sold four boats, and left.",
    ),
    (
        "a number, then a verb",
        numbers,
        "He sold three boats, bought one and left.",
        "He sold four boats, bought one and left.",
    ),
    ("always of one", phrase("adverb"), "She always sold her boats.", "She never sold her boats."),
    (
        "a noun after the phrase",
        phrase("cause"),
        "She sold boats instead of mills.",
        "She sold boats in addition to mills.",
    ),
    (
        "a clause of its own",
        denied,
        "The man bought the mill that burned.",
        "The man did not buy the mill that burned.",
    ),
    ("an event", phrase("order"), "She left during the match.", "She left after the match."),
    (
        "the past",
        phrase("order"),
        "She left after the bank closed.",
        "She left before the bank closed.",
    ),
    ("still", phrase("adverb"), "He is still the owner.", "He is no longer the owner."),
    ("if", phrase("cause"), "It closes if the mill closes.", "It closes unless the mill closes."),
    ("the present denied", denied, "He owns the mill.", "He does not own the mill."),
    ("an object", denied, "The man bought the mill.", "The man did not buy the mill."),
    ("another's sex", noun, "His aunt was old.", "His uncle was old."),
    ("all said once", noun, "The buyer told them to wait.", "The seller told them to wait."),
    ("wages", antonym, "The mill raised prices in May.", "The mill cut prices in May."),
    ("at once", phrase("adverb"), "It burned immediately.", "It burned eventually."),
    ("capitals", negation.taken_back, "Can’t she sell it?", "Can she sell it?"),
    (
        "a year before our era",
        dates,
        "Rome was founded in 753 B.C. by two brothers.",
        "Rome was founded in 754 B.C. by two brothers.",
    ),
    (
        "a round year",
        dates,
        "It was built in 2,500 BC by farmers.",
        "It was built in 2,400 BC by farmers.",
    ),
    ("a year of our era", dates, "He died in AD 81 of a fever.", "He died in AD 83 of a fever."),
    (
        "a century before it",
        dates,
        "It fell in the 5th century BCE.",
        "It fell in the 4th century BCE.",
    ),
    (
        "what is pointed at",
        denied,
        "This was the work of a miller.",
        "This was not the work of a miller.",
    ),
    (
        "what it is for",
        denied,
        "The recipe is for a pale ale.",
        "The recipe is not for a pale ale.",
    ),
    (
        "a year before the subject",
        denied,
        "In 2010 he moved to the town.",
        "In 2010 he did not move to the town.",
    ),
    (
        "days before the subject",
        denied,
        "In those days the town was the seat.",
        "In those days the town was not the seat.",
    ),
    (
        "a subject of the plural",
        denied,
        "These processes happen in the hills.",
        "These processes do not happen in the hills.",
    ),
    (
        "a past like a participle",
        denied,
        "The Kushans used the alphabet.",
        "The Kushans did not use the alphabet.",
    ),
]


@pytest.mark.parametrize(
    ("operator", "text", "expected"),
    [each[1:] for each in CHANGES],
    ids=[each[0] for each in CHANGES],
)
def test_changes(operator: Operator, text: str, expected: str) -> None:
    assert expected in results(operator, text, tries=60)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("recall", "forget"),
        ("visit", "avoid"),
        ("meet", "avoid"),
        ("teach", "learn"),
        ("offer", "refuse"),
        ("raise", "ease"),
        ("flee", "reach"),
        ("save", "waste"),
        ("exacerbate", "ease"),
        ("obtain", "lose"),
        ("aim", "refuse"),
    ],
)
def test_verbs_of_another_sense_are_not_paired(one: str, other: str) -> None:
    pairs = {(verb.base, verb.opposite) for each in verbs().values() for verb, _ in each}
    assert (one, other) not in pairs


@pytest.mark.parametrize(
    "name", ["verbs.tsv", "nouns.tsv", "phrases.tsv", "set_phrases.txt", "fixed_phrases.txt"]
)
def test_no_line_is_twice_in_a_list(name: str) -> None:
    lines = rows(DATA / name)
    assert sorted(set(lines)) == sorted(lines)


@pytest.mark.parametrize(
    ("text", "name", "kind"),
    [
        ("He grew up in the town of Tarn near a lake.", "Tarn", PLACE),
        ("They met on the island of Vale Moor again.", "Vale Moor", PLACE),
        ("She ran the Tarn Library for years.", "Tarn Library", ORGANISATION),
        ("She ran the Vale Observatory for years.", "Vale Observatory", ORGANISATION),
        ("She ran the Moor Conservatory for years.", "Moor Conservatory", ORGANISATION),
    ],
)
def test_kinds_of_names(text: str, name: str, kind: str) -> None:
    assert (name, kind) in {(each.text, each.kind) for each in TAGGER.analyse(text).entities}
