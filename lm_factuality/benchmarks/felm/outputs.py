"""Saved outputs of a judge: lm_eval's samples, or JSONL of ``index, domain, output``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lm_factuality.benchmarks.felm.claims import RowClaims
from lm_factuality.benchmarks.felm.rows import WITHOUT_REFERENCES, FelmRow
from lm_factuality.benchmarks.felm.verdicts import JudgedResponse, judge_response
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.records import read_lines

_EXPECTED = "expected lm_eval's samples or lines with index, domain and output"


@dataclass(frozen=True)
class SavedOutput:
    """``texts`` are one output, or several to vote on; ``owners`` the 1-based segment of each claim, where claims were
    judged; ``problem`` why the judge was not asked; ``is_sample`` marks lm_eval's, which say themselves what was judged."""

    texts: tuple[str, ...] = ()
    owners: tuple[int, ...] | None = None
    problem: str | None = None
    is_sample: bool = False


def read_outputs(path: Path, rows: Sequence[FelmRow]) -> dict[str, SavedOutput]:
    """Outputs by the index of their row. Raises DataError: the file cannot be read; lines that are neither form; rows that do not
    exist, are of another domain, or come twice. All of them are named."""
    domains = {row.index: row.domain for row in rows}
    found: dict[str, SavedOutput] = {}

    def parse(record: Any) -> None:
        if not isinstance(record, Mapping):
            raise ValueError(f"found a {type(record).__name__}, expected a JSON object")  # noqa: TRY004
        doc = record["doc"] if isinstance(record.get("doc"), Mapping) else None
        source: Mapping[str, Any] = record if doc is None else doc
        for key in ("index", "domain"):
            if key not in source:
                raise ValueError(f"key {key!r} is missing; found {', '.join(map(repr, source))}")
        index, domain = str(source["index"]), str(source["domain"])
        if index not in domains:
            raise ValueError(f"no row has the index {index!r}; the data has {len(domains)} rows")
        if domain != domains[index]:
            raise ValueError(f"row {index} is of domain {domains[index]!r}, found {domain!r}")
        if index in found:
            raise ValueError(f"row {index!r} appears twice; keep one output per row")
        found[index] = SavedOutput(_texts(record.get("output"), "output")) if doc is None else _of_sample(doc, record)

    read_lines(path, parse, _EXPECTED)
    if not found:
        raise DataError(f"{path}: no outputs; {_EXPECTED}")
    return found


def _of_sample(doc: Mapping[str, Any], record: Mapping[str, Any]) -> SavedOutput:
    responses, problem = record.get("resps"), doc.get("problem") or None
    if isinstance(responses, list) and responses and all(isinstance(each, list) for each in responses):
        responses = [text for each in responses for text in each]  # lm_eval nests its responses by request
    texts = () if problem else _texts(responses, "resps")
    return SavedOutput(texts, tuple(doc.get("owners") or ()) or None, problem, is_sample=True)


def _texts(value: Any, key: str) -> tuple[str, ...]:
    texts = [value or ""] if value is None or isinstance(value, str) else value  # a server may send null, read as an empty output
    if isinstance(texts, list) and texts and all(isinstance(text, str) for text in texts):
        return tuple(texts)
    raise ValueError(f"{key!r} has to be a text or a list of texts")


def judge_outputs(
    rows: Sequence[FelmRow], outputs: Mapping[str, SavedOutput], protocol: str, claims: Mapping[str, RowClaims] | None = None
) -> list[JudgedResponse]:
    """Every row with what its output says. ``claims`` are those that the ids in bare outputs number. Raises DataError: claims are
    given for lm_eval's samples, which hold their own."""
    if claims is not None and any(output.is_sample for output in outputs.values()):
        raise DataError("these outputs are lm_eval's samples, which say themselves what their ids number; leave out --claims")
    judged = []
    for row in rows:
        output = outputs.get(row.index, SavedOutput(problem="no output for this row"))
        problem = output.problem
        owners: Sequence[int] | None = output.owners
        if claims is not None and row.domain not in WITHOUT_REFERENCES:
            own = claims.get(row.index)
            has_claims = own is not None and not own.problem
            owners, problem = (own.owners() if own else None), problem or (None if has_claims else "no claims for this row")
        about = row.index, row.domain, row.labels, output.texts
        judged.append(judge_response(*about, owners=owners, protocol=protocol, problem=problem))
    return judged
