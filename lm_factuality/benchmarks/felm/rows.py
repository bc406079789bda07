"""The rows of FELM (section 3 of the paper): an answer in segments, and whether each is factual."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field, StrictBool

from lm_factuality.ground.errors import DataError
from lm_factuality.ground.published import Source
from lm_factuality.ground.records import read_lines, to_model

DOMAINS = ("wk", "science", "writing_rec", "math", "reasoning")
WITHOUT_REFERENCES = frozenset({"math", "reasoning"})  # nor claims: section 4.1 of the paper
MODES_WITH_REFERENCES = ("link", "doc")  # which show the model what a reference says
_EXPECTED = "expected FELM's all.jsonl, one JSON object per line"
ERROR_TYPES = ("knowledge_error", "reasoning_error", "irrelevant_with_qst", "fooled")


@dataclass(frozen=True)
class FelmRow:
    """``labels`` say of each segment whether it is factual; ``error_types`` name the error of each that is not, where the
    annotators did; ``references`` are links and ``reference_texts`` what the published file holds of their contents."""

    index: str
    domain: str
    prompt: str
    response: str
    segments: tuple[str, ...]
    labels: tuple[bool, ...]
    error_types: tuple[str | None, ...]
    references: tuple[str, ...]
    reference_texts: tuple[str, ...]


FELM = Source(
    "felm",
    "hkust-nlp/felm",
    "5d0791d41256d2c0531a2da2e6230fc3904e3f13",
    "eval/all.jsonl",
    "108ad4e2e9ffaf97e3afe9fec46350a2c2e9cfdd",
    "CC-BY-NC-SA-4.0",
    847,
)
PUBLISHED = "published"  # the references that the file of rows holds

_Texts = Annotated[tuple[str, ...], BeforeValidator(lambda value: value or ())]  # the file has an empty text for none


class _Line(BaseModel):
    index: Annotated[str, Field(coerce_numbers_to_str=True)]
    domain: str
    prompt: str
    segmented_response: tuple[str, ...]
    labels: tuple[StrictBool, ...]
    response: Any = None  # of two published rows it is not a number
    type: Any = None
    ref: _Texts = ()
    ref_contents: _Texts = ()


def read_rows(path: Path) -> list[FelmRow]:
    """All rows of FELM's ``all.jsonl``, or of a file of the same form. Raises DataError: what is wrong with the file, every line
    of it."""
    seen: set[str] = set()

    def parse(record: Any) -> FelmRow:
        row = _row(to_model(_Line, record))
        if row.index in seen:
            raise ValueError(f"index {row.index!r} was there before; every row needs its own")
        seen.add(row.index)
        return row

    rows = read_lines(path, parse, _EXPECTED)
    if not rows:
        raise DataError(f"{path}: no rows; {_EXPECTED}")
    return rows


def reference_texts(references: str, rows: Sequence[FelmRow]) -> Callable[[FelmRow], tuple[str, ...]]:
    """The contents of a row's references: what the file of rows holds (``published``), or what ``lm-factuality data
    fetch-references`` left in the folder ``references``. Raises DataError: there is no such folder, or it holds none of these
    rows' references."""
    if references == PUBLISHED:
        return lambda row: row.reference_texts
    from lm_factuality.retrieval.references.cache import ReferenceCache
    from lm_factuality.retrieval.references.links import collect_links

    folder = Path(references)
    if not folder.is_dir():
        raise DataError(
            f"references: {folder}: no such folder; make it with: lm-factuality data fetch-references --cache {folder}"
        )
    cache = ReferenceCache(folder)
    found = {
        row.index: tuple(page.text for url in collect_links(row.references).urls if (page := cache.get(url)) and page.text)
        for row in rows
    }
    if not any(found.values()):
        raise DataError(
            f"references: {folder}: holds the text of no page that these rows cite; run 'lm-factuality data fetch-references "
            f"--cache {folder}' for them, or leave the setting out"
        )
    return lambda row: found[row.index]


def _row(line: _Line) -> FelmRow:
    """Math and reasoning have no types in the file: all their errors are reasoning errors (section 3.6)."""
    segments, labels = line.segmented_response, line.labels
    if not segments or len(segments) != len(labels):
        raise ValueError(f"{len(segments)} segments and {len(labels)} labels, expected as many of both and at least one")
    given = line.type if isinstance(line.type, list) and len(line.type) == len(labels) else [None] * len(labels)
    default = "reasoning_error" if line.domain in WITHOUT_REFERENCES else None
    pairs = zip(given, labels, strict=True)
    types = tuple(None if label else (kind if kind in ERROR_TYPES else default) for kind, label in pairs)
    response = str(line.response or " ".join(segments))
    return FelmRow(line.index, line.domain, line.prompt, response, segments, labels, types, line.ref, line.ref_contents)
