"""Which error types a completion has something to edit for (appendix A.1), and of which one a
contradiction is, by what its edit changes (section 3.1, after Pagnoni et al., 2021)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from factor_gen.language import ENGLISH
from factor_gen.records import CIRCUMSTANCE, COREFERENCE, ENTITY, LINK, PREDICATE, Example
from factor_gen.settings import TypesSettings
from factor_gen.text import Analysis, Tagger, Token, load_tagger
from factor_gen.text.analysis import (
    DATE,
    DURATION,
    MONEY,
    NAMES,
    NATIONALITY,
    NUMBER,
    PERCENT,
    PLACE,
    TIME,
)
from factor_gen.text.lists import DATA, entries, fingerprint
from lm_factuality.ground.packages import load_yaml

_OF_CIRCUMSTANCE = frozenset([PLACE, DATE, TIME, DURATION, NUMBER, MONEY, PERCENT])
_PRONOUNS = ("PRP", "PRP$")
_WORDS = {name: frozenset(words) for name, words in load_yaml(__package__, "types.yaml").items()}
_SMALL = (
    "DT",
    "IN",
    "TO",
    "CC",
    ".",
    ",",
    ":",
    "POS",
    "''",
    "``",
)  # articles, prepositions and marks that an edit takes along


class Types:
    """Sets ``Example.types``: nouns make a sentence fit for entity errors, verbs for predicate
    errors, pronouns for coreference errors, and causal and temporal link words for link errors. For
    circumstance errors the paper looks for places, dates and times; we add quantities and adverbs
    in -ly, for manner and extent are circumstances too (section 3.1)."""

    name = "types"

    def __init__(self, settings: TypesSettings, language: str = ENGLISH) -> None:
        self.settings, self._language = settings, language

    @cached_property
    def _tagger(self) -> Tagger:
        return load_tagger(self.settings)

    @property
    def fingerprint(self) -> Mapping[str, Any]:
        return {
            "types": list(self.settings.types),
            "tagger": dict(self._tagger.fingerprint),
            "links": fingerprint([DATA]),
        }

    def run(self, examples: Sequence[Example]) -> list[Example]:
        return [each if each.unused else self._typed(each) for each in examples]

    def _typed(self, example: Example) -> Example:
        if (
            self._language != ENGLISH
        ):  # the taggers know no other language: the generator finds what there is to edit
            return replace(example, types=self.settings.types)
        found = types_of(self._tagger.analyse(example.completion))
        types = tuple(each for each in self.settings.types if each in found)
        return (
            replace(example, types=types) if types else example.drop(self.name, "nothing to edit")
        )


def types_of(analysis: Analysis) -> frozenset[str]:
    """The error types that a sentence has something to edit for."""
    tags = {token.tag for token in analysis.tokens}
    kinds = {entity.kind for entity in analysis.entities}
    words = " " + " ".join(token.text.lower() for token in analysis.tokens) + " "
    found = {
        ENTITY: any(tag.startswith("NN") for tag in tags),
        PREDICATE: any(tag.startswith("VB") for tag in tags),
        COREFERENCE: any(tag in _PRONOUNS for tag in tags),
        CIRCUMSTANCE: bool(kinds & _OF_CIRCUMSTANCE)
        or any(each.text.endswith("ly") for each in analysis.tokens),
        LINK: any(f" {link} " in words for link in entries(DATA / "links.txt")),
    }
    return frozenset(kind for kind, is_there in found.items() if is_there)


def type_of(completion: str, contradiction: str, tagger: Tagger) -> str:
    """The error type of the edit that makes ``contradiction`` of ``completion``, the first that
    holds: predicate where it negates, link where it changes link words alone, coreference where it
    gives a pronoun to somebody else, predicate where it puts another verb, or another property
    after a copula, circumstance where all that it changes is a place after its preposition, a time,
    a quantity or an adverb; else entity. (A quantity is a circumstance: the paper's prompt for
    entities leaves quantities alone.)"""
    from rapidfuzz.distance import Levenshtein

    texts = tagger.analyse(completion), tagger.analyse(contradiction)
    changes = Levenshtein.opcodes(*([token.text for token in text.tokens] for text in texts))
    spans = [
        (each.src_start, each.src_end, each.dest_start, each.dest_end)
        for each in changes
        if each.tag != "equal"
    ]
    old = [place for start, end, _, _ in spans for place in range(start, end)]
    new = [place for _, _, start, end in spans for place in range(start, end)]
    before, after = (
        [texts[0].tokens[place] for place in old],
        [texts[1].tokens[place] for place in new],
    )
    negations = [
        sum(token.text.lower() in _WORDS["negations"] for token in tokens)
        for tokens in (before, after)
    ]
    if negations[0] != negations[1]:
        return PREDICATE
    if _are_links(before) or _are_links(after):
        return LINK
    if any(token.tag in _PRONOUNS for token in before) and not any(
        token.tag.startswith(("NN", "JJ", "CD")) for token in before
    ):
        return COREFERENCE
    if any(_is_predicate(texts[1], place) for place in new) or (
        not new and any(_is_predicate(texts[0], place) for place in old)
    ):
        return PREDICATE
    changed = [
        (text, place) for text, places in zip(texts, (old, new), strict=True) for place in places
    ]
    content = [(text, place) for text, place in changed if text.tokens[place].tag not in _SMALL]
    return CIRCUMSTANCE if all(_is_circumstance(*each) for each in content) else ENTITY


def _are_links(tokens: Sequence[Token]) -> bool:
    links = entries(DATA / "links.txt")
    words = [token.text.lower() for token in tokens if token.text.isalpha()]
    return bool(words) and (" ".join(words) in links or links.issuperset(words))


def _is_predicate(text: Analysis, place: int) -> bool:
    """Whether a token is a verb, participles before a noun aside, or a property that a copula
    states."""
    tag, following = text.tokens[place].tag, text.tokens[place + 1 : place + 2]
    if tag in ("VBN", "VBG") and following and following[0].tag.startswith("NN"):
        return False
    words = [token.text.lower() for token in text.tokens[max(0, place - 2) : place]]
    is_stated = (
        tag.startswith("JJ")
        and not _WORDS["copulas"].isdisjoint(words)
        and not (following and following[0].tag.startswith("NN"))
    )
    return tag.startswith(("VB", "MD")) or is_stated


def _is_circumstance(text: Analysis, place: int) -> bool:
    token = text.tokens[place]
    if token.tag.startswith(("RB", "CD")) or token.text.lower() in _WORDS["times"]:
        return True
    entity = next((each for each in text.entities if each.start <= token.start < each.end), None)
    if entity is None or entity.kind in {*NAMES, NATIONALITY} - {PLACE}:
        return False
    return entity.kind != PLACE or not _WORDS["prepositions"].isdisjoint(
        text.text[: entity.start].lower().split()[-1:]
    )
