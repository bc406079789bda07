"""The records that the stages of a build hand on: documents, their sentences and contradictions.

Every stage in `factor_gen` takes a list of `Example` and returns one. The module also has the
functions that clean a text or cut it to its last words.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar, get_args

from lm_factuality.ground.replies import replace_surrogates

# These are the error types of the paper, in the order of its table 3.
ErrorType = Literal["predicate", "entity", "circumstance", "coreference", "link"]
ERROR_TYPES: tuple[ErrorType, ...] = get_args(ErrorType)
PREDICATE, ENTITY, CIRCUMSTANCE, COREFERENCE, LINK = ERROR_TYPES

Item = TypeVar("Item")

# The column with all text before the completion, which our task reads.
PREFIX = "full_prefix"
# The column that the authors' script reads, spelled as in the published files.
CUT_PREFIX = "turncated_prefixes"
# That column holds so many words at most. A word is at least one token, and the authors' models see
# 1,024 tokens (section 4.2).
CUT_WORDS = 1024

# A megabyte of text without a space would otherwise count as a single word of context.
_MAX_CHARACTERS_PER_WORD = 40


@dataclass(frozen=True, slots=True)
class Candidate:
    """A generated contradiction: the completion with an edit that makes it false."""

    text: str
    """The whole false sentence."""

    type: str
    """Its error type, one of `ERROR_TYPES`."""

    edit: str
    """The change as ``old -> new``. Several changes are joined by ``; ``."""

    generator: str
    """The generator and its rule, such as ``rules/number`` or ``llm``."""

    contradiction: float | None = None
    """The NLI filter's probability of a contradiction. None if the filter did not score it."""

    fluency: float | None = None
    """How far it is above the nearest limit of the fluency filter, in nats."""

    rejected: str = ""
    """Why a stage rejected the candidate, as ``stage: reason``. Empty if it may be chosen."""


class Sentence(NamedTuple):
    """The position of a sentence in its document."""

    start: int
    """The index of its first character."""

    end: int
    """The index after its last character."""

    is_repeated: bool = False
    """Whether an earlier document of the corpus has the same sentence."""


@dataclass(frozen=True, slots=True)
class Draw:
    """An attempt to make a row of a document by drawing one of its sentences."""

    number: int = 1
    """The number of the attempt, counted from 1."""

    tried: int = 0
    """How many sentences this and earlier attempts looked at. The next one continues there."""

    total: int = 0
    """How many sentences were drawn from the document until it was done."""


class Refusal(NamedTuple):
    """The stage that gave a document or a candidate up, and its reason. Both are empty if none did.

    It is recorded as ``stage: reason``.
    """

    stage: str
    reason: str

    @classmethod
    def parse(cls, text: str) -> Refusal:
        """Return the refusal that a text such as ``filter: not fluent`` records."""
        stage, _, reason = text.partition(": ")
        return cls(stage, reason)


NO_REFUSAL = Refusal("", "")
"""The refusal of a document or candidate that no stage gave up."""


class ModelUse(NamedTuple):
    """The requests that a stage sent to a model, and the tokens that the server counted."""

    requests: int = 0
    prompt_tokens: int = 0
    answer_tokens: int = 0
    uncounted: int = 0
    """The answers for which the server counted no tokens."""

    def plus(self, more: ModelUse) -> ModelUse:
        """Return the sum of both."""
        sums = (first + second for first, second in zip(self, more, strict=True))
        return ModelUse(*sums)


def add_model_use(use: Mapping[str, ModelUse], more: Mapping[str, ModelUse]) -> dict[str, ModelUse]:
    """Return the sum, by stage, of what stages used of their models."""
    total = dict(use)
    for stage, stage_use in more.items():
        total[stage] = total.get(stage, ModelUse()).plus(stage_use)
    return total


@dataclass(frozen=True, slots=True)
class Example:
    """A document on its way through the stages to a row of the benchmark."""

    doc_id: str
    """The id of the document, which is unique in the corpus."""

    prefix: str = ""
    """The whole text of the document until the stage ``select`` has drawn a sentence.

    After that it is the text before ``completion``, including the white space between the two.
    """

    completion: str = ""
    """The sentence that was drawn. It is the true completion of the row."""

    types: tuple[str, ...] = ()
    """The error types for which the completion has something to edit."""

    candidates: tuple[Candidate, ...] = ()
    """The contradictions that were generated, including those that a filter rejected."""

    lost: Mapping[str, int] = field(default_factory=dict)
    """How many outputs of the generator could not be used, by reason."""

    unused: str = ""
    """Why the document gives no row, as ``stage: reason``. Empty if it may still give one.

    Later stages pass such an example on unchanged, without its texts.
    """

    sentences: tuple[Sentence, ...] = ()
    """The sentences of the whole document, in order."""

    draw: Draw = Draw()
    """The attempt that the completion comes from."""

    discarded: Mapping[str, int] = field(default_factory=dict)
    """The number of contradictions of the draws that were not kept, by their ``rejected``.

    That is the reason for which a stage rejected them, or an empty text if none did.
    """

    model_use: Mapping[str, ModelUse] = field(default_factory=dict)
    """What was asked about the document and counted by a server, by the stage that asked."""

    @property
    def refusal(self) -> Refusal:
        """The stage that gave the document up, and the reason, as recorded in ``unused``."""
        return Refusal.parse(self.unused)

    def drop(self, stage: str, reason: str) -> Example:
        """Return a copy of the example that is marked as giving no row.

        The copy has no texts, which may be long. It keeps candidates and counts.

        Args:
            stage: The stage that gives the document up, such as ``"select"``.
            reason: Why it does, for the dataset card and ``unused.jsonl``.
        """
        return replace(
            self,
            prefix="",
            completion="",
            types=(),
            sentences=(),
            unused=f"{stage}: {reason}",
        )


def take_turns(groups: Iterable[Sequence[Item]]) -> list[Item]:
    """Return the first item of each group, then the second item of each group, and so on.

    Example:
        The groups ``["a", "b", "c"]`` and ``["x"]`` give ``["a", "x", "b", "c"]``.
    """
    ordered: list[Item] = []
    # A group without further items contributes None, which is left out.
    for turn in zip_longest(*groups):
        ordered += [item for item in turn if item is not None]
    return ordered


def shorten_paths(value: object) -> object:
    """Cut every absolute path in a value to its last part, so that no local folder is published.

    Args:
        value: A text, or mappings and lists with texts in them, as JSON has them.

    Example:
        ``{"model": "/home/me/gpt2", "nli": "a/b"}`` becomes ``{"model": "gpt2", "nli": "a/b"}``.
    """
    if isinstance(value, Mapping):
        return {key: shorten_paths(member) for key, member in value.items()}
    # JSON makes a list of a tuple too.
    if isinstance(value, list | tuple):
        return [shorten_paths(member) for member in value]
    if not isinstance(value, str):
        return value

    # The name of a model on the Hub, such as "owner/model", is no absolute path.
    path = Path(value)
    is_local = path.is_absolute() or value.startswith("~/")
    return replace_surrogates(path.name) if is_local else value


def last_words(text: str, count: int) -> str:
    """Return the last words of a text with the white space between them unchanged.

    The result has at most 40 characters for each word. So the last ten words of a text without
    spaces are its last 400 characters.

    Example:
        ``last_words("one two  three ", 2)`` is ``"two  three "``.
    """
    if count <= 0:
        return ""

    # A document may be very long: only its end is split into words.
    end = text[-count * _MAX_CHARACTERS_PER_WORD :]
    # The last words are split off from the right, so that all text before them stays one part.
    parts = end.rsplit(maxsplit=count)
    has_more_words = len(parts) > count
    if not has_more_words:
        return end
    text_before = parts[0]
    return end.removeprefix(text_before).lstrip()
