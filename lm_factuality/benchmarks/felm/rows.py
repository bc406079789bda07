"""The rows of FELM and the claims in them (sections 3 and 4.1 of the paper).

The tasks, the judges and the commands on FELM read rows and claims through this module.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, StrictBool

from judges.typed import ParsedReply, Reply, numbering_problem
from lm_factuality.ground.errors import DataError, refuse
from lm_factuality.ground.published import Source
from lm_factuality.ground.records import read_lines, to_model
from lm_factuality.ground.sentences import split_sentences, words_in

DOMAINS = ("wk", "science", "writing_rec", "math", "reasoning")
"""The domains of FELM: ``wk`` is world knowledge, ``writing_rec`` writing and recommendation."""

WITHOUT_REFERENCES = frozenset({"math", "reasoning"})
"""The domains whose rows have neither reference links nor claims (section 4.1 of the paper)."""

MODES_WITH_REFERENCES = ("link", "doc")
"""The modes in which a judge sees the reference links, or passages of the linked documents."""

PUBLISHED = "published"
"""The setting that takes reference documents from FELM's own file."""

RULES = "rules"
"""The setting, and the recorded source, of claims that rules cut without a judge."""

_EXPECTED_FILE = "expected FELM's all.jsonl, one JSON object per line"

# FELM's file holds an empty text instead of an empty list.
_Texts = Annotated[tuple[str, ...], BeforeValidator(lambda value: value or ())]


@dataclass(frozen=True)
class FelmRow:
    """One line of FELM's file: a question and a model's answer to it, cut into segments."""

    index: Annotated[str, Field(coerce_numbers_to_str=True)]
    """The id of the row."""

    domain: str
    """One of `DOMAINS`."""

    prompt: str
    """The question."""

    segments: Annotated[tuple[str, ...], Field(validation_alias="segmented_response")]
    """The answer, usually one sentence per segment."""

    labels: tuple[StrictBool, ...]
    """Whether each segment is factual, as the annotators decided."""

    references: Annotated[_Texts, Field(validation_alias="ref")] = ()
    """The links that the annotators used."""

    reference_texts: Annotated[_Texts, Field(validation_alias="ref_contents")] = ()
    """The texts of the linked pages, as far as the published file holds them."""


FELM = Source(
    name="felm",
    repository="hkust-nlp/felm",
    commit="5d0791d41256d2c0531a2da2e6230fc3904e3f13",
    path="eval/all.jsonl",
    blob="108ad4e2e9ffaf97e3afe9fec46350a2c2e9cfdd",
    license="CC-BY-NC-SA-4.0",
    rows=847,
)


def read_felm_rows(path: Path) -> list[FelmRow]:
    """Read all rows of FELM's ``all.jsonl``, or of another file with the same columns.

    Args:
        path: The file, with one JSON object per line.

    Returns:
        The rows in the order of the file.

    Raises:
        DataError: The file has no rows, or some lines are invalid. The message lists all of them.
    """
    rows = read_lines(path, _parse_row, _EXPECTED_FILE)
    if not rows:
        raise DataError(f"{path}: no rows; {_EXPECTED_FILE}")

    # Claims, answers and verdicts are found by the index, so no two rows may share one.
    num_rows_by_index = Counter(row.index for row in rows)
    refuse(
        [
            f"{path}: {num_rows} rows have index {index!r}; give each its own"
            for index, num_rows in num_rows_by_index.items()
            if num_rows > 1
        ]
    )
    return rows


def _parse_row(record: object) -> FelmRow:
    """Check one line of FELM's file.

    Args:
        record: The JSON of the line.

    Raises:
        ValueError: A column is missing or wrong, or there is not one label for each segment.
    """
    row = to_model(FelmRow, record)
    # Every later step takes segments and labels in pairs.
    if not row.segments or len(row.segments) != len(row.labels):
        raise ValueError(
            f"found {len(row.segments)} segments and {len(row.labels)} labels; expected one"
            " label for each segment, and at least one segment"
        )
    return row


def load_reference_texts(source: str, rows: Sequence[FelmRow]) -> dict[str, tuple[str, ...]]:
    """Load the texts of the web pages that each row cites.

    Args:
        source: ``published`` to take the texts from the rows themselves, or the folder into which
            ``lm-factuality data fetch-references`` has downloaded the pages.
        rows: The rows of FELM.

    Returns:
        The texts of each row by its index. Links without a text are left out.

    Raises:
        DataError: The folder does not exist, or it holds no page that these rows cite.
    """
    if source == PUBLISHED:
        return {row.index: row.reference_texts for row in rows}

    command = f"lm-factuality data fetch-references --cache {source}"
    if not Path(source).is_dir():
        raise DataError(f"references: {source}: no such folder; make it with: {command}")

    texts = _load_fetched_texts(Path(source), rows)
    if not any(texts.values()):
        raise DataError(
            f"references: {source}: the folder holds no page that these rows cite; fetch the"
            f" pages with '{command}', or leave the setting out"
        )
    return texts


def _load_fetched_texts(folder: Path, rows: Sequence[FelmRow]) -> dict[str, tuple[str, ...]]:
    """Load the texts of the pages in a folder of fetched references, by the index of the row."""
    # The reader of fetched pages has optional dependencies, so it is imported only when needed.
    from lm_factuality.retrieval.references.cache import ReferenceCache
    from lm_factuality.retrieval.references.links import collect_links

    cache = ReferenceCache(folder)
    texts = {}
    for row in rows:
        pages = [cache.get(url) for url in collect_links(row.references).urls]
        # Pages that were dead or held no text are in the cache too.
        texts[row.index] = tuple(page.text for page in pages if page and page.text)
    return texts


@dataclass(frozen=True)
class RowClaims:
    """The claims that one row's answer makes, grouped by segment."""

    index: str
    """The index of the row."""

    claims: tuple[tuple[str, ...], ...]
    """The claims of each segment, in the order of the segments."""

    source: str
    """The name of the judge that extracted the claims, or ``rules``."""

    problem: str | None = None
    """Why there are no claims, or None if there are some."""

    def all_claims(self) -> list[str]:
        """List the claims of all segments in the order in which a judge sees them."""
        return list(chain.from_iterable(self.claims))

    def segment_numbers(self) -> list[int]:
        """List the 1-based number of the segment that each of `all_claims` belongs to.

        Example:
            If the first segment makes two claims and the second makes one: ``[1, 1, 2]``.
        """
        numbers = []
        for number, segment_claims in enumerate(self.claims, start=1):
            numbers += [number] * len(segment_claims)
        return numbers


# A clause ends at a semicolon or a line break. Some published segments write the line break as a
# backslash followed by an "n".
_CLAUSE_END = re.compile(r";\s+|(?:\n|\\n)+")


def split_claims(row: FelmRow) -> RowClaims:
    """Cut the segments of a row into clauses, and take each clause as a claim.

    This replaces a judge that extracts claims. A clause is a sentence, a line or the text between
    two semicolons. Clauses of a single word are dropped.

    Example:
        ``Mars is red; it has two moons. Sure!`` → ``Mars is red``, ``it has two moons.``

    Args:
        row: The row whose segments are cut.

    Returns:
        The claims of each segment, with the source ``rules``.
    """
    claims = tuple(tuple(_clauses_of(segment)) for segment in row.segments)
    return RowClaims(row.index, claims, RULES)


def _clauses_of(segment: str) -> list[str]:
    """Cut a segment into the clauses that have at least two words.

    Args:
        segment: The segment. Its line breaks may be written as a backslash and an "n".
    """
    clauses = []
    # A line break or a semicolon ends a clause also in the middle of a sentence.
    for part in _CLAUSE_END.split(segment):
        for sentence in split_sentences(part):
            if len(words_in(sentence)) > 1:
                clauses.append(" ".join(sentence.split()))
    return clauses


# Servers are sent the docstrings of replies as part of their schema, so these must not change.
class SegmentClaims(Reply):
    """The claims of a segment, numbered from 1; none if it states no facts."""

    segment: int
    """The 1-based number of the segment."""

    claims: list[str]
    """The claims. The list is empty if the segment states no facts."""


class ClaimsReply(Reply):
    """The claims of every segment."""

    segments: list[SegmentClaims]
    """One entry for every segment, in any order."""


def find_claims_problem(reply: ClaimsReply, prompt_variables: Mapping[str, Any]) -> str:
    """Find what is wrong with a judge's list of the claims in each segment of an answer.

    Without this check, a segment that the judge forgot would count as one without errors.

    Args:
        reply: The claims that the judge extracted.
        prompt_variables: The variables of the prompt. ``units`` are the segments.

    Returns:
        The problem, such as ``no segment 2``, or an empty text if there is none.
    """
    numbers = [segment_claims.segment for segment_claims in reply.segments]
    problem = numbering_problem(numbers, len(prompt_variables["units"]), "segment")
    if problem:
        return problem

    # A judge that finds no claim at all has not understood the question.
    has_claims = any(segment_claims.claims for segment_claims in reply.segments)
    return "" if has_claims else "no claims"


def claims_from_reply(row: FelmRow, reply: ParsedReply[ClaimsReply], source: str) -> RowClaims:
    """Convert a judge's reply into the claims of a row, or into the problem of the reply.

    Args:
        row: The row that the judge was asked about.
        reply: The reply. It may list the segments in any order.
        source: The name of the judge.
    """
    if reply.value is None:
        return RowClaims(row.index, (), source, reply.problem)
    segments = sorted(reply.value.segments, key=lambda segment_claims: segment_claims.segment)
    claims = tuple(tuple(segment_claims.claims) for segment_claims in segments)
    return RowClaims(row.index, claims, source)


def read_claims(path: Path, rows: Iterable[FelmRow]) -> dict[str, RowClaims]:
    """Read the file of claims that ``lm-factuality claims extract`` has written.

    Args:
        path: The file, with the claims of one row per line.
        rows: The rows that the claims should belong to.

    Returns:
        The claims of each row in the file, by the index of the row.

    Raises:
        DataError: The file cannot be read, or the claims were extracted from other segments.
    """
    segment_counts = {row.index: len(row.segments) for row in rows}

    # `read_lines` calls this for each line, and reports all lines for which it raises ValueError.
    def parse_claims(record: object) -> RowClaims:
        """Read the claims of one row, and compare them with the number of its segments."""
        row_claims = to_model(RowClaims, record)
        expected_count = segment_counts.get(row_claims.index)
        # Rows that are not scored are not checked. Rows with a problem have no claims.
        if expected_count is None or row_claims.problem is not None:
            return row_claims

        # Claims of the same row in other data would be assigned to the wrong segments.
        count = len(row_claims.claims)
        if count != expected_count:
            raise ValueError(
                f"claims of {count} segments, but row {row_claims.index} has {expected_count};"
                " extract them again from the data that you score"
            )
        return row_claims

    # The same advice ends the message about a missing file and that about wrong lines.
    advice = f"make it with: lm-factuality claims extract --out {path}"
    claims = read_lines(path, parse_claims, expected=advice, advice=advice)
    return {row_claims.index: row_claims for row_claims in claims}


def claims_to_line(claims: RowClaims) -> str:
    """Format the claims of a row as the line of JSON that `read_claims` reads.

    Example:
        ``{"index": "0", "claims": [["Mars is red."], []], "source": "rules", "problem": null}``
    """
    return json.dumps(vars(claims), ensure_ascii=False)


def count_claim_sources(claims: Iterable[RowClaims]) -> dict[str, int]:
    """Count the rows whose claims come from each source.

    Returns:
        The number of rows by the name of the judge, or by ``rules``, sorted by that name.
    """
    return dict(sorted(Counter(row_claims.source for row_claims in claims).items()))
