"""What the stages hand on: documents, examples, and the contradictions tried for them; how their
texts are cut and cleaned."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

ErrorType = Literal[
    "predicate", "entity", "circumstance", "coreference", "link"
]  # in the order of table 3
ERROR_TYPES: tuple[ErrorType, ...] = get_args(ErrorType)
ENTITY, PREDICATE, CIRCUMSTANCE, COREFERENCE, LINK = (
    "entity",
    "predicate",
    "circumstance",
    "coreference",
    "link",
)


@dataclass(frozen=True, slots=True)
class Document:
    """A text of the corpus. ``location`` says where it stands (``file:line`` or the like), for
    messages."""

    id: str
    text: str
    location: str = ""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A contradiction that was generated: a whole completion with something wrong in it.

    ``edit`` is the change as ``old -> new``, several joined by ``; ``. ``generator`` says what made
    it (``rules/number``, ``llm``). The filters add ``contradiction``, the NLI model's probability,
    and ``fluency``, its mean log-likelihood minus the original's in nats a token; and ``rejected``,
    why it may not be chosen (empty: it may).

    Of those that are ``doubtful`` only as many are chosen as are lacking: first those of 1, denials
    in other words, then those of 2, by a rule that is wrong oftener than others."""

    text: str
    type: str
    edit: str
    generator: str
    contradiction: float | None = None
    fluency: float | None = None
    rejected: str = ""
    doubtful: int = 0

    @property
    def is_compound(self) -> bool:
        """Whether it was put together of two others; see :func:`factor_gen.choose.compounds`."""
        return " + " in self.generator


@dataclass(frozen=True, slots=True)
class Example:
    """A document on its way to a row of the benchmark.

    ``prefix`` ends in the white space that separates it from ``completion``. ``types`` are the
    error types that the completion has something to edit for. ``lost`` counts by reason what a
    generator wrote and could not be used. ``unused`` says why no row comes of the document, as
    ``stage: reason``; later stages pass such an example on as it is, without its texts.

    ``draw`` numbers the sentences that are drawn from a document, from 1; ``draws`` is how many
    were, once all are. ``spans`` is where the document's sentences begin and end, in turns;
    ``tried`` says how many of them were looked at, in the order of the draws, so that the next draw
    goes on there. ``repeated`` is where, in a document as it was read, sentences begin that one
    before it has too."""

    doc_id: str
    prefix: str = ""
    completion: str = ""
    types: tuple[str, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    lost: Mapping[str, int] = field(default_factory=dict)
    unused: str = ""
    draw: int = 1
    draws: int = 0
    repeated: tuple[int, ...] = ()
    spans: tuple[int, ...] = ()
    tried: int = 0

    def drop(self, stage: str, reason: str) -> Example:
        """The example as one that no row comes of; what was generated for it stays, to be
        counted."""
        return replace(
            self, prefix="", completion="", types=(), repeated=(), unused=f"{stage}: {reason}"
        )


def to_json(example: Example) -> dict[str, Any]:
    """The example as JSON has it; what is empty is left out."""
    found = asdict(example) | {"draw": 0 if example.draw == 1 else example.draw}
    return {key: value for key, value in found.items() if value not in ("", (), {}, 0)}


def from_json(values: Mapping[str, Any]) -> Example:
    """What ``to_json`` made."""
    candidates = tuple(Candidate(**each) for each in values.get("candidates", ()))
    lists = {key: tuple(values.get(key, ())) for key in ("types", "repeated", "spans")}
    return Example(**{**values, **lists, "candidates": candidates})


PREFIX = "full_prefix"
"""The column with all text before the completion, which the task reads."""
CUT_PREFIX = "turncated_prefixes"
"""The column that the authors' script reads, spelled as in the published files."""
CUT_WORDS = 1024
"""Words of the cut prefix: they are at least as many tokens, of which the authors' models see
1,024 (section 4.2)."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def whole(text: str) -> str:
    """``text`` with U+FFFD for halves of surrogate pairs, which are no characters: JSON may hold
    them, and Python puts them in the place of bytes of a file's name that are not UTF-8."""
    return _SURROGATE.sub(_REPLACEMENT, text)


def portable(value: Any) -> Any:
    """``value`` with the last part alone of every absolute path in it; the name of a model stays as
    it is."""
    if isinstance(value, Mapping):
        return {key: portable(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [portable(each) for each in value]
    is_path = isinstance(value, str) and (value.startswith("~/") or Path(value).is_absolute())
    return whole(Path(value).name) if is_path else value


_CHARACTERS = 40  # of a word at most, on average: a megabyte without a space is no near context


def last_words(text: str, count: int) -> str:
    """The end of ``text`` from its ``count``-th last word on, white space as it stands; all of it
    if it has fewer words, but no more than 40 characters a word."""
    if count <= 0:
        return ""
    near = text[-count * _CHARACTERS :]
    parts = near.rsplit(maxsplit=count)
    return near if len(parts) <= count else near[len(parts[0]) :].lstrip()
