"""The generator that needs no model: operators tried on each completion, a few candidates kept of
each error type."""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from factor_gen.generate import compatible
from factor_gen.generate.rules import (
    dates,
    left_out,
    listed,
    names,
    negation,
    numbers,
    phrases,
    pronouns,
    swaps,
    verbs,
)
from factor_gen.generate.rules.asserted import unasserted
from factor_gen.generate.rules.contexts import Contexts, load
from factor_gen.generate.rules.edits import Edit, apply, described, finish
from factor_gen.generate.rules.sentence import Sentence, read
from factor_gen.generate.rules.words import DATA
from factor_gen.language import ENGLISH
from factor_gen.records import Candidate, Example
from factor_gen.settings import GenerateSettings, TypesSettings
from factor_gen.text import Tagger, load_tagger
from factor_gen.text.lists import fingerprint

Operator = Callable[[Sentence, random.Random], Iterable[Edit]]

OPERATORS: Mapping[str, Operator] = {
    "antonym": verbs.antonym,
    "negation removed": negation.taken_back,
    "negation added": negation.added,
    "negation in time": negation.in_time,
    "adverb": partial(phrases.phrase, "adverb"),
    "number": numbers.numbers,
    "name": names.document_names,
    "name swap": names.swapped_names,
    left_out.OPERATOR: left_out.left_out,
    "noun": swaps.noun,
    "comparison": partial(phrases.phrase, "comparison"),
    "quantity": partial(phrases.phrase, "quantity"),
    "date": dates.dates,
    "place and time": partial(phrases.phrase, "place and time"),
    "pronoun": pronouns.other_sex,
    "pronoun to name": pronouns.wrong_person,
    "order": partial(phrases.phrase, "order"),
    "cause": partial(phrases.phrase, "cause"),
}
"""Every operator of the rules by name. Where little is left, every denial is offered, then more
values of numbers and dates."""

_WANTED = 3  # contradictions of a row
_OFTEN_BAD = ("quantity", "place and time", "pronoun", "pronoun to name", "order", "cause")
DOUBTFUL: Mapping[str, int] = {"negation in time": 1, **dict.fromkeys(_OFTEN_BAD, 2)}
"""How doubtful what an operator makes is, if it is (:class:`factor_gen.records.Candidate`)."""
_VERSION = 11  # of the operators; to be raised when they write something else


class RulesGenerator:
    """A stage (:class:`factor_gen.stages.Stage`) that sets ``Example.candidates``; at most
    ``per_type`` of each type."""

    name = "generate"

    def __init__(
        self,
        settings: GenerateSettings,
        types: TypesSettings,
        seed: int,
        contexts: Path | None = None,
        language: str = ENGLISH,
        *,
        filtered: bool = False,
    ) -> None:
        """``contexts`` is the file of :mod:`factor_gen.generate.rules.contexts`; without one every
        substitute passes. If a model's filter follows (``filtered``), which leaves little, all that
        can be made is offered."""
        self.settings = settings
        self._filtered = filtered and language == ENGLISH
        self.types = types
        self.seed = seed
        self._language = language
        self._contexts = load(contexts) if contexts else Contexts()

    @cached_property
    def _tagger(self) -> Tagger:
        return load_tagger(self.types)

    @property
    def fingerprint(self) -> Mapping[str, Any]:
        return {
            "generator": "rules",
            "version": _VERSION,
            "operators": list(OPERATORS),
            "lists": fingerprint([DATA, compatible.DATA, listed.LANGUAGES]),
            "wordfreq": version("wordfreq"),
            "tagger": dict(self._tagger.fingerprint),
            "per_type": self.settings.per_type,
            **({"filtered": True} if self._filtered else {}),
            "seed": self.seed,
        }

    def run(self, examples: Sequence[Example]) -> list[Example]:
        return [each if each.unused else self._generated(each) for each in examples]

    def _generated(self, example: Example) -> Example:
        if self._language != ENGLISH:
            found = listed.contradictions(
                example, self._language, self.settings.per_type, self.seed
            )
            return (
                replace(example, candidates=found)
                if found
                else example.drop(self.name, "no contradiction")
            )
        sentence = read(self._tagger, example.prefix, example.completion, self._contexts)
        if self._filtered:
            sentence = replace(sentence, every=True, spare=True)
        seed = f"{self.seed}/rules/{example.doc_id}"
        lost: Counter[str] = Counter()
        candidates = contradictions(sentence, example.types, self.settings.per_type, seed, lost)
        counted = replace(example, candidates=candidates, lost=dict(sorted(lost.items())))
        return counted if candidates else counted.drop(self.name, "no contradiction")


def contradictions(
    sentence: Sentence, types: Sequence[str], most: int, seed: str, lost: Counter[str]
) -> tuple[Candidate, ...]:
    """Up to ``most`` candidates of each type, from as many operators as there are for it; no two
    with the same text. Edits that contradict nothing are counted in ``lost``, by reason."""
    if sentence.text.rstrip("\"'”’)] ").endswith("?"):
        return ()  # a question asserts nothing
    edits = _edits(sentence, types, seed, lost)
    for spare in (False, True):
        if not sentence.spare and _is_meagre(edits):
            lost.clear()
            edits = _edits(replace(sentence, every=True, spare=spare), types, seed, lost)
    candidates: dict[str, Candidate] = {}
    for error_type in types:
        kept = 0
        for doubtful in (0, 1, 2):
            queues = [
                list(found)
                for name, found in edits[error_type].items()
                if found and DOUBTFUL.get(name, 0) == doubtful
            ]
            random.Random(f"{seed}/{error_type}").shuffle(queues)
            for candidate in (_candidate(sentence.text, each) for each in _in_turn(queues)):
                if kept == most:
                    break
                if candidate is not None and candidate.text not in candidates:
                    candidates[candidate.text] = candidate
                    kept += 1
    return tuple(candidates.values())


def _in_turn(queues: list[list[Edit]]) -> Iterator[Edit]:
    """One of each queue after the other, until all are empty."""
    while queues:
        yield from [queue.pop(0) for queue in queues]
        queues = [queue for queue in queues if queue]


def _edits(
    sentence: Sentence, types: Sequence[str], seed: str, lost: Counter[str]
) -> dict[str, dict[str, list[Edit]]]:
    """The edits of each type by operator, in a random order."""
    edits: dict[str, dict[str, list[Edit]]] = {each: {} for each in types}
    for name, operator in OPERATORS.items():
        rng = random.Random(f"{seed}/{name}")
        found = list(operator(sentence, rng))
        rng.shuffle(found)
        for each in found:
            reasons = [compatible.compatible(sentence.text, *one) for one in each.replacements]
            if reasons and all(reasons):
                lost[f"rules: {reasons[0]}"] += 1
            elif reason := unasserted(sentence, each):
                lost[f"rules: {reason}"] += 1
            elif each.type in edits:
                edits[each.type].setdefault(name, []).append(each)
    return edits


def _is_meagre(edits: Mapping[str, Mapping[str, Sequence[Edit]]]) -> bool:
    """Whether three contradictions of two types, none of them doubtful, can't be chosen of the
    edits."""
    sizes = [
        sum(len(found) for name, found in by_operator.items() if name not in DOUBTFUL)
        for by_operator in edits.values()
    ]
    return sum(sizes) < _WANTED or sum(size > 0 for size in sizes) < 2


def _candidate(text: str, edit: Edit) -> Candidate | None:
    """The completion with the edit made, or None if the edit changes nothing."""
    replacements = finish(text, edit.replacements)
    new = apply(text, replacements)
    if new.casefold() == text.casefold():
        return None
    made_by = f"rules/{edit.operator}"
    return Candidate(
        new,
        edit.type,
        described(text, replacements),
        made_by,
        doubtful=DOUBTFUL.get(edit.operator, 0),
    )
