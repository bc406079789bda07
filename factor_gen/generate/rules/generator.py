"""The generator that needs no model: operators tried on each completion, a few candidates kept of
each error type."""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from importlib.metadata import version
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

from factor_gen.generate import compatible
from factor_gen.generate.rules import dates, names, negation, numbers, pronouns
from factor_gen.generate.rules.asserted import unasserted
from factor_gen.generate.rules.contexts import Contexts, load
from factor_gen.generate.rules.edits import SentenceEdit, apply, described, finish
from factor_gen.generate.rules.listed import LANGUAGES, edits_by_list
from factor_gen.generate.rules.sentence import MORE_VALUES, TaggedSentence, read
from factor_gen.generate.rules.substitutes import substitutes
from factor_gen.generate.rules.words import DATA
from factor_gen.language import ENGLISH
from factor_gen.records import Candidate, Example
from factor_gen.settings import GenerateSettings, TypesSettings
from factor_gen.text import Tagger, load_tagger
from factor_gen.text.lists import fingerprint

Operator = Callable[[TaggedSentence, random.Random], Iterable[SentenceEdit]]

OPERATORS: Mapping[str, Operator] = {
    "antonym": partial(substitutes, "antonym"),
    "negation removed": negation.taken_back,
    "negation added": negation.added,
    "negation in time": negation.in_time,
    "adverb": partial(substitutes, "adverb"),
    "number": numbers.numbers,
    "name": names.document_names,
    "noun": partial(substitutes, "noun"),
    "comparison": partial(substitutes, "comparison"),
    "quantity": partial(substitutes, "quantity"),
    "date": dates.dates,
    "place and time": partial(substitutes, "place and time"),
    "pronoun": pronouns.other_sex,
    "order": partial(substitutes, "order"),
    "cause": partial(substitutes, "cause"),
}
"""Every operator of the rules by name."""

_WANTED = 3  # contradictions of a row
_WANTED_TYPES = 2
_OFTEN_BAD = ("quantity", "place and time", "pronoun", "order", "cause")
DOUBTFUL: Mapping[str, int] = {"negation in time": 1, **dict.fromkeys(_OFTEN_BAD, 2)}
"""How doubtful what an operator makes is, if it is (`factor_gen.records.Candidate`)."""
_VERSION = 14  # of the operators; to be raised when they write something else


class RulesGenerator:
    """The stage that sets ``Example.candidates``, at most ``per_type`` of each error type."""

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
        """Set up the stage; its lists are read when they are needed.

        Args:
            contexts: The file of `factor_gen.generate.rules.contexts`. Without one, every
                substitute passes.
            filtered: Whether a model's filter follows. It leaves little, so all that can be made
                is offered.
        """
        self.settings = settings
        self.types = types
        self.seed = seed
        self._filtered = filtered
        self._language = language
        self._contexts = load(contexts) if contexts else Contexts()

    @cached_property
    def _tagger(self) -> Tagger:
        return load_tagger(self.types)

    @property
    def fingerprint(self) -> Mapping[str, Any]:
        """What the candidates depend on."""
        return {
            "generator": "rules",
            "version": _VERSION,
            "lists": fingerprint([DATA, compatible.DATA, LANGUAGES]),
            "wordfreq": version("wordfreq"),
            "tagger": dict(self._tagger.fingerprint),
            "per_type": self.settings.per_type,
            "filtered": self._filtered,
            "seed": self.seed,
        }

    def run(self, examples: Sequence[Example]) -> list[Example]:
        """Set the candidates of the examples that are in use; drop those without any."""
        return [example if example.unused else self._generated(example) for example in examples]

    def _generated(self, example: Example) -> Example:
        lost: Counter[str] = Counter()
        seed = f"{self.seed}/rules/{example.doc_id}"
        if self._language == ENGLISH:
            sentence = read(self._tagger, example.prefix, example.completion, self._contexts)
            if self._filtered:
                sentence = replace(sentence, every=True, spare=MORE_VALUES)
            edits = _english_edits(sentence, example.types, seed, lost)
        else:
            rng = random.Random(seed)
            edits = list(edits_by_list(example.completion, self._language, rng))
            rng.shuffle(edits)
        candidates = _chosen(example, edits, self.settings.per_type, seed)
        if not candidates:
            example = example.drop(self.name, "no contradiction")
        return replace(example, candidates=candidates, lost=dict(sorted(lost.items())))


def _english_edits(
    sentence: TaggedSentence, types: Sequence[str], seed: str, lost: Counter[str]
) -> list[SentenceEdit]:
    """The edits of a sentence that contradict it.

    Where little can be made, every denial is offered, then more values of numbers and dates.

    Args:
        lost: Counts the edits that contradict nothing, by reason.
    """
    if sentence.text.rstrip("\"'”’)] ").endswith("?"):
        return []  # A question asserts nothing.
    edits = _contradicting(sentence, types, seed, lost)
    for spare in (0, MORE_VALUES):
        if not sentence.spare and _is_meagre(edits):
            edits = _contradicting(replace(sentence, every=True, spare=spare), types, seed, lost)
    return edits


def _contradicting(
    sentence: TaggedSentence, types: Sequence[str], seed: str, lost: Counter[str]
) -> list[SentenceEdit]:
    """The edits by each operator, of which those of one are in a random order."""
    lost.clear()
    edits = []
    for name, operator in OPERATORS.items():
        rng = random.Random(f"{seed}/{name}")
        of_operator = list(operator(sentence, rng))
        rng.shuffle(of_operator)
        for edit in of_operator:
            reasons = [compatible.compatible(sentence.text, *new) for new in edit.replacements]
            reason = reasons[0] if all(reasons) else unasserted(sentence, edit)
            if reason:
                lost[f"rules: {reason}"] += 1
            elif edit.type in types:
                edits.append(edit._replace(replacements=finish(sentence.text, edit.replacements)))
    return edits


def _is_meagre(edits: Sequence[SentenceEdit]) -> bool:
    """Whether not even three contradictions of two types, none of them doubtful, can be chosen."""
    types = [edit.type for edit in edits if edit.operator not in DOUBTFUL]
    return len(types) < _WANTED or len(set(types)) < _WANTED_TYPES


def _chosen(
    example: Example, edits: Sequence[SentenceEdit], most: int, seed: str
) -> tuple[Candidate, ...]:
    """Up to ``most`` candidates of each type, by as many operators as there are.

    No two have the same text.
    """
    text = example.completion
    candidates: dict[str, Candidate] = {}
    for error_type in example.types:
        full = len(candidates) + most
        of_type = [edit for edit in edits if edit.type == error_type]
        for edit in _in_turn(of_type, f"{seed}/{error_type}"):
            new = apply(text, edit.replacements)
            if new.casefold() == text.casefold() or new in candidates or len(candidates) == full:
                continue
            candidates[new] = Candidate(
                new,
                error_type,
                described(text, edit.replacements),
                f"rules/{edit.operator}",
                doubtful=DOUBTFUL.get(edit.operator, 0),
            )
    return tuple(candidates.values())


def _in_turn(edits: Sequence[SentenceEdit], seed: str) -> list[SentenceEdit]:
    """One edit of each operator after the other; the doubtful ones come last."""
    by_operator: dict[str, list[SentenceEdit]] = {}
    for edit in edits:
        by_operator.setdefault(edit.operator, []).append(edit)
    in_turn: list[SentenceEdit] = []
    for degree in (0, 1, 2):
        queues = [queue for name, queue in by_operator.items() if DOUBTFUL.get(name, 0) == degree]
        random.Random(seed).shuffle(queues)
        in_turn += filter(None, chain(*zip_longest(*queues)))
    return in_turn
