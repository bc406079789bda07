"""What a judge's output says: which segments (or claims) hold errors, or why it is unscored; and
saved outputs of a judge, lm_eval's samples or JSONL of ``index, domain, output``.

``paper`` reads by the grammar that the prompts state (``grammar.py``) and leaves all else unscored,
with the reason. ``code`` reads as the authors' script: what it cannot find is "no errors", ids
above the number of units are dropped, and the id 0 flags the last unit."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lm_factuality.benchmarks.felm import grammar
from lm_factuality.benchmarks.felm.rows import WITHOUT_REFERENCES, FelmRow, RowClaims
from lm_factuality.ground.errors import DataError, curable
from lm_factuality.ground.records import read_lines
from lm_factuality.ground.thinking import UNFINISHED, plain, without_thinking

PROTOCOLS = ("paper", "code")


@dataclass(frozen=True)
class JudgedResponse:
    """``errors`` says of each segment whether it holds an error, ``flagged`` whether the judge says
    so, or ``reason`` why not."""

    index: str
    domain: str
    errors: tuple[bool, ...]
    flagged: tuple[bool, ...] | None
    reason: str | None = None


EMPTY = curable("empty output", "try --apply_chat_template")
_SCRIPT_DIGITS = (
    4000  # the most that Python reads into one number; the script itself fails on longer ones
)


def read_verdict(
    output: str, num_units: int, protocol: str = "paper", is_cut_off: bool = False
) -> frozenset[int] | str:
    """Which of the units 1 to ``num_units`` hold errors by ``output``, or why it does not say.
    ``is_cut_off``: the model stopped for want of tokens; an answer before that still counts."""
    answer = without_thinking(output)
    if answer is None:
        return UNFINISHED
    if protocol == "code":
        return _as_the_script(answer, num_units)
    text = plain(answer)
    return grammar.read(text, num_units, is_cut_off) if text else EMPTY


def vote(verdicts: Sequence[frozenset[int] | str]) -> frozenset[int] | str:
    """The verdicts on several outputs as one (self-consistency, appendix G of the paper): a unit is
    flagged if more than half of those that could be read flag it, so a tie does not flag. If none
    could be read, why."""
    if not verdicts:
        return "no output"
    ballots = [verdict for verdict in verdicts if not isinstance(verdict, str)]
    if not ballots:
        return f"none of {len(verdicts)} outputs can be read, the first: {verdicts[0]}"
    named = frozenset[int]().union(*ballots)
    return frozenset(
        unit for unit in named if 2 * sum(unit in ballot for ballot in ballots) > len(ballots)
    )


def judge_response(
    index: str,
    domain: str,
    labels: Sequence[bool],
    outputs: Sequence[str],
    *,
    owners: Sequence[int] | None = None,
    protocol: str = "paper",
    problem: str | None = None,
    cut_off: Sequence[bool] = (),
) -> JudgedResponse:
    """The row called ``index`` as its judge sees it. ``labels`` say which segments are factual.
    ``outputs`` are one text, or several to vote on, of which ``cut_off`` says whether they ended
    for want of tokens. ``owners`` has the 1-based segment of every claim if claims were judged.
    ``problem`` is a reason why nothing was asked."""
    errors = tuple(not label for label in labels)
    if problem:
        return JudgedResponse(index, domain, errors, None, problem)
    num_units = len(labels) if owners is None else len(owners)
    ends = cut_off or [False] * len(outputs)
    verdicts = [
        read_verdict(text, num_units, protocol, end)
        for text, end in zip(outputs, ends, strict=True)
    ]
    flagged = verdicts[0] if len(verdicts) == 1 else vote(verdicts)
    if isinstance(flagged, str):
        return JudgedResponse(index, domain, errors, None, flagged)
    if owners is not None:  # a segment is wrong if any claim of it is
        flagged = frozenset(owners[claim - 1] for claim in flagged)
    return JudgedResponse(
        index, domain, errors, tuple(number in flagged for number in range(1, len(labels) + 1))
    )


def _as_the_script(output: str, num_units: int) -> frozenset[int]:
    if "ALL_CORRECT" in output or "Answer: " not in output:
        return frozenset()
    digits = re.findall(r"\d+", output.split("Answer: ", 1)[1])
    listed = [int(number) for number in digits if len(number) <= _SCRIPT_DIGITS]
    return frozenset(number or num_units for number in listed if number <= num_units)


_EXPECTED = "expected lm_eval's samples or lines with index, domain and output"


@dataclass(frozen=True)
class SavedOutput:
    """``texts`` are one output, or several to vote on; ``owners`` the 1-based segment of each
    claim, where claims were judged; ``problem`` why the judge was not asked; ``is_sample`` marks
    lm_eval's, which say themselves what was judged."""

    texts: tuple[str, ...] = ()
    owners: tuple[int, ...] | None = None
    problem: str | None = None
    is_sample: bool = False


def read_outputs(path: Path, rows: Sequence[FelmRow]) -> dict[str, SavedOutput]:
    """Outputs by the index of their row. Raises DataError: the file cannot be read; lines that are
    neither form; rows that do not exist, are of another domain, or come twice. All of them are
    named."""
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
        found[index] = (
            SavedOutput(_texts(record.get("output"), "output"))
            if doc is None
            else _of_sample(doc, record)
        )

    read_lines(path, parse, _EXPECTED)
    if not found:
        raise DataError(f"{path}: no outputs; {_EXPECTED}")
    return found


def _of_sample(doc: Mapping[str, Any], record: Mapping[str, Any]) -> SavedOutput:
    responses, problem = record.get("resps"), doc.get("problem") or None
    if (
        isinstance(responses, list)
        and responses
        and all(isinstance(each, list) for each in responses)
    ):
        responses = [
            text for each in responses for text in each
        ]  # lm_eval nests its responses by request
    texts = () if problem else _texts(responses, "resps")
    return SavedOutput(texts, tuple(doc.get("owners") or ()) or None, problem, is_sample=True)


def _texts(value: Any, key: str) -> tuple[str, ...]:
    texts = (
        [value or ""] if value is None or isinstance(value, str) else value
    )  # a server may send null, read as an empty output
    if isinstance(texts, list) and texts and all(isinstance(text, str) for text in texts):
        return tuple(texts)
    raise ValueError(f"{key!r} has to be a text or a list of texts")


def judge_outputs(
    rows: Sequence[FelmRow],
    outputs: Mapping[str, SavedOutput],
    protocol: str,
    claims: Mapping[str, RowClaims] | None = None,
) -> list[JudgedResponse]:
    """Every row with what its output says. ``claims`` are those that the ids in bare outputs
    number. Raises DataError: claims are given for lm_eval's samples, which hold their own."""
    if claims is not None and any(output.is_sample for output in outputs.values()):
        raise DataError(
            "these outputs are lm_eval's samples, which say themselves what their ids number; leave"
            " out --claims"
        )
    judged = []
    for row in rows:
        output = outputs.get(row.index, SavedOutput(problem="no output for this row"))
        problem = output.problem
        owners: Sequence[int] | None = output.owners
        if claims is not None and row.domain not in WITHOUT_REFERENCES:
            own = claims.get(row.index)
            has_claims = own is not None and not own.problem
            owners, problem = (
                (own.owners() if own else None),
                problem or (None if has_claims else "no claims for this row"),
            )
        about = row.index, row.domain, row.labels, output.texts
        judged.append(judge_response(*about, owners=owners, protocol=protocol, problem=problem))
    return judged
