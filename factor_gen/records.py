"""What the stages hand on: examples, and the contradictions tried for them.

It also holds how their texts are cut and cleaned.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

# in the order of table 3
ErrorType = Literal["predicate", "entity", "circumstance", "coreference", "link"]
ERROR_TYPES: tuple[ErrorType, ...] = get_args(ErrorType)
PREDICATE, ENTITY, CIRCUMSTANCE, COREFERENCE, LINK = ERROR_TYPES

PREFIX = "full_prefix"
"""The column with all text before the completion, which the task reads."""
CUT_PREFIX = "turncated_prefixes"
"""The column that the authors' script reads, spelled as in the published files."""
CUT_WORDS = 1024
"""Words of the cut prefix.

They are at least as many tokens, of which the authors' models see 1,024 (section 4.2).
"""
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_SURROGATE = re.compile("[\ud800-\udfff]")
_CHARACTERS = 40
"""Of a word at most, on average: a megabyte without a space is no near context."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A contradiction that was generated: a whole completion with something wrong in it."""

    text: str
    type: str
    edit: str
    """The change as ``old -> new``, several joined by ``; ``."""
    generator: str
    """What made it, such as ``rules/number`` or ``llm``."""
    contradiction: float | None = None
    """The NLI filter's probability."""
    fluency: float | None = None
    """The mean log-likelihood minus the original's, in nats per token."""
    rejected: str = ""
    """Why it may not be chosen; empty if it may."""
    doubtful: int = 0
    """1 for a denial in other words, 2 for an edit by a rule that is wrong oftener than others.

    Of doubtful candidates only as many are chosen as are lacking, those of 1 first.
    """


class Sentence(NamedTuple):
    """Where a sentence of a document begins and ends."""

    start: int
    end: int
    is_repeated: bool = False
    """Whether a document before has it too."""


@dataclass(frozen=True, slots=True)
class Draw:
    """One of the sentences that are drawn from a document, one after another."""

    number: int = 1
    """Which of them it is, from 1."""
    tried: int = 0
    """How many sentences were looked at up to this one. The next draw goes on there."""
    total: int = 0
    """How many were drawn in the end."""


@dataclass(frozen=True, slots=True)
class Example:
    """A document on its way to a row of the benchmark."""

    doc_id: str
    prefix: str = ""
    """The whole text of the document, as long as no sentence is selected.

    After that it is what stands before ``completion``, with the white space between the two.
    """
    completion: str = ""
    types: tuple[str, ...] = ()
    """The error types that the completion has something to edit for."""
    candidates: tuple[Candidate, ...] = ()
    lost: Mapping[str, int] = field(default_factory=dict)
    """How much of what a generator wrote could not be used, by reason."""
    unused: str = ""
    """Why no row comes of the document, as ``stage: reason``.

    Later stages pass such an example on as it is, without its texts.
    """
    sentences: tuple[Sentence, ...] = ()
    """Of a whole document, in order."""
    draw: Draw = Draw()

    @property
    def refusal(self) -> tuple[str, str]:
        """Which stage gave the document up, and why; empty if none did."""
        stage, _, reason = self.unused.partition(": ")
        return stage, reason

    def drop(self, stage: str, reason: str) -> Example:
        """Return the example as one that no row comes of; its candidates stay, to be counted."""
        refusal = f"{stage}: {reason}"
        return replace(self, prefix="", completion="", types=(), sentences=(), unused=refusal)


def whole(text: str) -> str:
    """Return ``text`` with U+FFFD for halves of surrogate pairs, which are no characters.

    JSON may hold them, and Python puts them in the place of bytes of a file's name that are not
    UTF-8.
    """
    return _SURROGATE.sub(_REPLACEMENT, text)


def portable(value: Any) -> Any:
    """Return ``value`` with the last part alone of every absolute path in it.

    The name of a model stays as it is.
    """
    if isinstance(value, Mapping):
        return {key: portable(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [portable(member) for member in value]
    is_path = isinstance(value, str) and (value.startswith("~/") or Path(value).is_absolute())
    return whole(Path(value).name) if is_path else value


def last_words(text: str, count: int) -> str:
    """Return the end of ``text`` from its ``count``-th last word on, white space as it stands.

    It is all of the text if it has fewer words, but no more than 40 characters a word.

    Example:
        ``last_words("one two  three ", 2)`` is ``"two  three "``.
    """
    if count <= 0:
        return ""
    near = text[-count * _CHARACTERS :]
    parts = near.rsplit(maxsplit=count)
    return near if len(parts) <= count else near[len(parts[0]) :].lstrip()
