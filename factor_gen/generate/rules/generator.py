"""The rules generator, a stage that makes contradictions without a model.

It tries all operators on each completion and keeps a few candidates of each error type.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from importlib.metadata import version
from pathlib import Path
from random import Random
from typing import NamedTuple

from factor_gen.contradiction import places
from factor_gen.contradiction.compatible import compatible_reason
from factor_gen.generate.rules.asserted import unasserted_reason
from factor_gen.generate.rules.collocations import Collocations, load_collocations
from factor_gen.generate.rules.dates import change_dates
from factor_gen.generate.rules.edits import (
    SentenceEdit,
    adjust_articles_and_capitals,
    apply_replacements,
    describe_replacements,
)
from factor_gen.generate.rules.listed import LANGUAGES, edit_by_word_lists
from factor_gen.generate.rules.negation import remove_negations
from factor_gen.generate.rules.numbers import change_quantities
from factor_gen.generate.rules.sentence import EXTRA_VALUES, TaggedSentence, tag_sentence
from factor_gen.generate.rules.substitutes import replace_listed_words
from factor_gen.generate.rules.words import DATA
from factor_gen.language import ENGLISH
from factor_gen.records import Candidate, Example, take_turns
from factor_gen.settings import GenerateSettings, TypesSettings
from factor_gen.text import Tagger, load_tagger
from factor_gen.text.lists import hash_lists

Operator = Callable[[TaggedSentence, Random], Iterable[SentenceEdit]]
"""A rule: it returns edits of a sentence, and draws random numbers for this."""

OPERATORS: Mapping[str, Operator] = {
    "antonym": partial(replace_listed_words, "antonym"),
    "negation removed": remove_negations,
    "number": change_quantities,
    "noun": partial(replace_listed_words, "noun"),
    "date": change_dates,
}
"""All operators for English by name."""

_CONTRADICTIONS_OF_ROW = 3
_TYPES_OF_ROW = 2
_LONGEST_LINKING_WORD = 3  # letters of words between names, such as "of" and "and"
_VERSION = 24  # raised when the operators make other edits


class SentenceEdits(NamedTuple):
    """The edits that operators made of a sentence."""

    edits: list[SentenceEdit]
    """The edits that contradict the sentence."""
    lost: Counter[str]
    """How many other edits were left out, by reason."""


class RulesGenerator:
    """The stage that sets the candidates of each example, by rules."""

    name = "generate"

    def __init__(
        self,
        settings: GenerateSettings,
        types: TypesSettings,
        seed: int,
        collocations: Path | None = None,
        language: str = ENGLISH,
        *,
        filtered: bool,
    ) -> None:
        """Set up the stage. The tagger is loaded when it is first needed.

        Args:
            settings: The settings of the stage.
            types: The settings that name the tagger.
            seed: The seed of the build. The candidates depend on it and the document alone.
            collocations: A file with the collocations of the corpus. Without one, every substitute
                of the word lists is allowed.
            language: The ISO 639-1 code of the texts' language.
            filtered: Whether a model filters the candidates afterwards. It rejects most of them,
                so all that can be made are offered.
        """
        self._settings = settings
        self._tagger_settings = types
        self._seed = seed
        self._language = language
        self._is_filtered = filtered
        self._collocations = load_collocations(collocations) if collocations else Collocations()

    @cached_property
    def _tagger(self) -> Tagger:
        """The tagger of the settings."""
        return load_tagger(self._tagger_settings)

    @property
    def fingerprint(self) -> Mapping[str, object]:
        """Everything that the candidates depend on, apart from the documents."""
        return {
            "generator": "rules",
            "version": _VERSION,
            "lists": hash_lists([DATA, places.DATA, LANGUAGES]),
            "wordfreq": version("wordfreq"),
            "tagger": dict(self._tagger.fingerprint),
            "per_type": self._settings.per_type,
            "filtered": self._is_filtered,
            "seed": self._seed,
        }

    def run(self, examples: Sequence[Example]) -> list[Example]:
        """Return the examples with their candidates; those without any become unused.

        Args:
            examples: Documents with their completions. Unused ones are returned as they are.
        """
        return [
            example if example.unused else self._add_candidates(example) for example in examples
        ]

    def _add_candidates(self, example: Example) -> Example:
        """Return a document with its candidates, or marked as unused if there are none.

        Its ``lost`` has the number of edits that were left out, by reason.

        Args:
            example: A document that no stage has given up so far.
        """
        seed = f"{self._seed}/rules/{example.doc_id}"
        if self._language == ENGLISH:
            result = self._edit_english(example, seed)
        else:
            result = self._edit_without_tagger(example, seed)

        candidates = _choose_candidates(example, result.edits, self._settings.per_type, seed)
        example = replace(example, candidates=candidates, lost=dict(sorted(result.lost.items())))
        # An example without candidates gives no row of the benchmark.
        return example if candidates else example.drop(self.name, "no contradiction")

    def _edit_without_tagger(self, example: Example, seed: str) -> SentenceEdits:
        """Make the edits of a completion in another language, in a random order.

        No edit is left out, because there is no tagger that could tell what contradicts.

        Args:
            example: The document with its completion.
            seed: The seed of the document.
        """
        rng = Random(seed)
        edits = list(edit_by_word_lists(example.completion, self._language, rng))
        rng.shuffle(edits)
        return SentenceEdits(edits, lost=Counter())

    def _edit_english(self, example: Example, seed: str) -> SentenceEdits:
        """Make the edits of an English completion that contradict it.

        Args:
            example: The document with its completion.
            seed: The seed of the document.
        """
        sentence = tag_sentence(
            self._tagger, example.prefix, example.completion, self._collocations
        )
        if not _is_statement(sentence):
            return SentenceEdits([], lost=Counter())

        with_rarer_words = replace(sentence, offers_all_edits=True)
        with_more_numbers = replace(with_rarer_words, extra_values=EXTRA_VALUES)
        if self._is_filtered:
            # A filter rejects most candidates, so all that can be made are offered at once.
            attempts = [with_more_numbers]
        else:
            # If there are too few edits, rarer words are allowed, and then more numbers and dates.
            attempts = [sentence, with_rarer_words, with_more_numbers]
        for attempt in attempts:
            result = _contradicting_edits(attempt, example.types, seed)
            if _are_enough_for_row(result.edits):
                break
        return result


def _is_statement(sentence: TaggedSentence) -> bool:
    """Whether a sentence asserts something, unlike a question or a line of names.

    Example:
        *Copyright by Lund and Berg* is a line of names: only short words are in lower case.
    """
    is_question = sentence.text.rstrip("\"'”’)] ").endswith("?")
    if is_question:
        return False
    lower_words = [token.text for token in sentence.tokens if token.text.islower()]
    return any(len(word) > _LONGEST_LINKING_WORD for word in lower_words)


def _contradicting_edits(
    sentence: TaggedSentence, types: Sequence[str], seed: str
) -> SentenceEdits:
    """Try all operators on a sentence, and keep the edits that contradict it.

    Args:
        sentence: The sentence.
        types: The error types that are wanted, such as ``predicate``.
        seed: The seed of the document.

    Returns:
        The edits by operator, those of one operator in a random order, and the number of edits that
        contradict nothing, by reason.
    """
    edits = []
    lost: Counter[str] = Counter()
    for operator_name, operator in OPERATORS.items():
        # Each operator has random numbers of its own, so that a new one does not change the others.
        rng = Random(f"{seed}/{operator_name}")
        operator_edits = list(operator(sentence, rng))
        rng.shuffle(operator_edits)
        for edit in operator_edits:
            # An edit such as "over 200 -> over 300" leaves the sentence true.
            reason = _why_no_contradiction(sentence, edit)
            if reason:
                lost[f"rules: {reason}"] += 1
                continue
            # Some operators also make edits of a type that was not asked for.
            if edit.error_type in types:
                replacements = adjust_articles_and_capitals(sentence.text, edit.replacements)
                edits.append(edit._replace(replacements=replacements))
    return SentenceEdits(edits, lost)


def _why_no_contradiction(sentence: TaggedSentence, edit: SentenceEdit) -> str | None:
    """Tell why an edit does not contradict a sentence, such as *over 200* and *over 300*.

    Args:
        sentence: The sentence before the edit.
        edit: The edit.

    Returns:
        The reason; None if the edit contradicts the sentence.
    """
    edited = apply_replacements(sentence.text, edit.replacements)
    return compatible_reason(sentence.text, edited) or unasserted_reason(sentence, edit)


def _are_enough_for_row(edits: Sequence[SentenceEdit]) -> bool:
    """Whether a good row can be made of edits: three of two error types."""
    types = [edit.error_type for edit in edits]
    return len(types) >= _CONTRADICTIONS_OF_ROW and len(set(types)) >= _TYPES_OF_ROW


def _choose_candidates(
    example: Example, edits: Sequence[SentenceEdit], most_per_type: int, seed: str
) -> tuple[Candidate, ...]:
    """Choose candidates of each error type, from as many different operators as possible.

    Args:
        example: The document with its completion.
        edits: The edits to choose from.
        most_per_type: How many candidates of a type are chosen at most.
        seed: The seed of the document.

    Returns:
        The candidates by type, no two with the same text.
    """
    chosen = {}
    for error_type in example.types:
        edits_of_type = [edit for edit in edits if edit.error_type == error_type]
        ordered_edits = _alternate_operators(edits_of_type, f"{seed}/{error_type}")
        num_of_type = 0
        for candidate in _candidates_of_edits(example.completion, ordered_edits):
            if num_of_type == most_per_type:
                break
            # Two operators may make the same text, of which the first is kept.
            if candidate.text not in chosen:
                chosen[candidate.text] = candidate
                num_of_type += 1
    return tuple(chosen.values())


def _candidates_of_edits(completion: str, edits: Iterable[SentenceEdit]) -> Iterator[Candidate]:
    """Yield the false sentence of each edit, unless it differs from the completion in case alone.

    Args:
        completion: The sentence before the edits.
        edits: The edits, in the order of the candidates.
    """
    for edit in edits:
        text = apply_replacements(completion, edit.replacements)
        if text.casefold() != completion.casefold():
            yield Candidate(
                text,
                type=edit.error_type,
                edit=describe_replacements(completion, edit.replacements),
                generator=f"rules/{edit.operator}",
            )


def _alternate_operators(edits: Sequence[SentenceEdit], seed: str) -> list[SentenceEdit]:
    """Order edits so that the operators take turns.

    Example:
        Two edits by *number* and one by *date* become *number*, *date*, *number*.

    Args:
        edits: The edits of one error type.
        seed: The seed of the random order in which the operators take turns.
    """
    edits_by_operator = defaultdict(list)
    for edit in edits:
        edits_by_operator[edit.operator].append(edit)
    queues = list(edits_by_operator.values())
    Random(seed).shuffle(queues)
    return take_turns(queues)
