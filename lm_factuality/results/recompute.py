"""Every score of the suite's tasks out of their samples alone, by the same metrics as in the run.

What a model said is read from ``filtered_resps``: log-probabilities of choices and documents, outputs of FELM's judge. What a
judge said is read from the verdict records there; nobody is asked again, and what follows from a record, or has to be in it for
the response that was given (``verdicts``), is made anew.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from lm_factuality.errors import DataError
from lm_factuality.metrics.aggregation import Aggregation
from lm_factuality.results.samples import read_samples
from lm_factuality.results.strict import parse_json
from lm_factuality.results.types import TaskResult
from lm_factuality.statistics import Outcome, bootstrap_interval

_CLOSE = 1e-9
_CLOSE_STDERR = 1e-6  # bootstrapped ones are sums in another order where numpy is another
_SHOWN_ROWS = 3

_UNREADABLE = (
    LookupError,
    ValueError,
    TypeError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)  # what a strange row raises

RowMetrics = Callable[[Mapping[str, Any]], dict[str, Any]]


@dataclass(frozen=True)
class Recomputed:
    """What the samples of a task give: ``metrics`` and ``stderrs`` by name as in ``TaskResult``, over ``num_samples`` rows;
    ``changed_rows`` says of rows whose own metrics in the file are not what follows from the rest of the row."""

    metrics: Mapping[str, float]
    stderrs: Mapping[str, float]
    num_samples: int
    changed_rows: tuple[str, ...]


def recompute(task: TaskResult, samples: Iterable[Mapping[str, Any]] | None = None) -> Recomputed:
    """The scores of ``task`` from its samples file, or from ``samples``, which are read once.

    Raises:
        DataError: there are no samples, they are not as this task writes them, or the task is none of the suite's.
    """
    values, aggregations, changed = _collect(task, samples)
    stderrs = {}
    try:
        metrics = {name: float(aggregations[name](rows)) for name, rows in values.items()}
        for name, rows in values.items():
            found = aggregations[name].stderr
            if found is not None and len(rows) > 1:  # as in lm_eval
                stderrs[name] = float(found(rows))
    except _UNREADABLE as error:
        raise _unreadable(task.task, error) from error
    return Recomputed(metrics, stderrs, max(map(len, values.values()), default=0), tuple(changed))


def differences(task: TaskResult, found: Recomputed) -> list[str]:
    """What the results file says otherwise than the samples, one sentence a score; none for an honest run."""
    said = _unfounded(task.metrics, found.metrics, "")
    for name, value in found.metrics.items():
        said += _difference(name, task.metrics.get(name), value, _CLOSE)
    said += _unfounded(task.stderrs, found.stderrs, "_stderr")
    for name, value in found.stderrs.items():
        said += _difference(f"{name}_stderr", task.stderrs.get(name), value, _CLOSE_STDERR)
    return [*said, *found.changed_rows]


def interval(task: TaskResult, metric: str) -> tuple[float, float] | None:
    """The 95% percentile bootstrap interval of a mean over clusters (documents, or names); nothing for scores that are no means.

    Raises:
        DataError: as ``recompute``.
    """
    values, _, _ = _collect(task, None)
    rows = [row for row in values.get(metric, ()) if row is not None]
    is_mean = bool(rows) and all(isinstance(row, Outcome) for row in rows)
    if not is_mean or (task.kind == "perplexity" and metric.endswith("perplexity")):
        return None
    return bootstrap_interval(rows)


def _collect(
    task: TaskResult, samples: Iterable[Mapping[str, Any]] | None
) -> tuple[dict[str, list[Any]], Mapping[str, Aggregation], list[str]]:
    if samples is None:
        if task.samples is None:
            raise DataError(f"{task.task}: no samples file; run lm_eval with --log_samples to have it")
        samples = read_samples(task.samples)
    kept, prepare = _READERS.get(task.kind, (None, None))
    if kept is None or prepare is None:
        raise DataError(f"{task.task}: not one of the suite's tasks, so its scores cannot be made anew")
    rows: list[tuple[Any, Mapping[str, Any], Mapping[str, Any]]] = []
    for sample in samples:
        where = f"{task.task}, doc_id {sample['doc_id']}"
        try:
            rows.append(
                (sample["doc_id"], kept(sample), {name: sample.get(name) for name in sample.get("metrics", ())})
            )
        except _UNREADABLE as error:
            raise _unreadable(where, error) from error
    try:
        row_metrics, aggregations, unfounded = prepare(task, [row for _, row, _ in rows])
    except (KeyError, ValueError, TypeError, AttributeError, DataError) as error:
        raise _unreadable(task.task, error) from error
    values: dict[str, list[Any]] = defaultdict(list)
    changed: list[str] = []
    for doc_id, row, logged in rows:
        try:
            reason = unfounded(row)
            found = row_metrics(row)
        except (*_UNREADABLE, DataError) as error:
            raise _unreadable(f"{task.task}, doc_id {doc_id}", error) from error
        for name, value in found.items():
            values[name].append(value)
        wrong = next((name for name in {**found, **logged} if not _same(found.get(name), logged.get(name))), None)
        if reason is not None:
            changed.append(f"doc_id {doc_id}: {reason}")
        elif wrong is not None:
            changed.append(f"doc_id {doc_id}: its {wrong} does not follow from the row")
    if len(changed) > _SHOWN_ROWS:
        changed = [*changed[:_SHOWN_ROWS], f"... {len(changed)} rows in all"]
    return values, aggregations, changed


def _unreadable(where: str, error: Exception) -> DataError:
    what = f"no {error}" if isinstance(error, KeyError) else str(error)
    return DataError(f"{where}: not a sample as this task writes it: {what}")


def _unfounded(said: Mapping[str, float], found: Mapping[str, float], suffix: str) -> list[str]:
    """Scores of the results that the samples have not; one that is not defined is none (a part of the data may lack a type)."""
    names = [name for name, value in said.items() if name not in found and not math.isnan(value)]
    return [f"{name}{suffix}: the results have it, the samples do not" for name in names]


def _difference(name: str, said: float | None, value: float, tolerance: float) -> list[str]:
    if said is None:
        return [] if math.isnan(value) else [f"{name}: the samples give {value:.10g}, the results have none"]
    if math.isnan(said) and math.isnan(value):
        return []
    if math.isclose(said, value, rel_tol=tolerance, abs_tol=tolerance):
        return []
    return [f"{name}: the results say {said:.10g}, the samples give {value:.10g}"]


def _same(one: Any, other: Any) -> bool:
    """Whether a metric of a row is what the file has, which is how JSON writes it."""
    if isinstance(one, tuple | list) and isinstance(other, tuple | list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, int | float) and isinstance(other, int | float):
        return math.isclose(one, other, rel_tol=_CLOSE, abs_tol=_CLOSE) or one != one != other != one
    return bool(one == other)


# What is kept of a sample, by the kind of its task.


def _keep_choices(sample: Mapping[str, Any]) -> dict[str, Any]:
    from lm_factuality.factor.scoring import ScoredContinuation

    _same_responses(sample, [each[0] for each in sample["resps"]])
    doc = {key: sample["doc"][key] for key in ("choices", "gold", "problem", "doc_id", "error_types")}
    scores = [
        ScoredContinuation(_float(logprob), _bool(greedy), _int(tokens), _bool(truncated), str(problem))
        for logprob, greedy, tokens, truncated, problem in sample["filtered_resps"]
    ]
    if len(scores) != len(doc["choices"]):
        raise ValueError(f"{len(scores)} responses for {len(doc['choices'])} choices")
    return {"doc": doc, "scores": scores}


def _keep_text(sample: Mapping[str, Any]) -> dict[str, Any]:
    from lm_factuality.metrics.perplexity import ScoredText

    _same_responses(sample, [each[0] for each in sample["resps"]])
    ((logprob, tokens, windows, window, problem),) = sample["filtered_resps"]
    doc = {key: sample["doc"][key] for key in ("text", "problem", "doc_id")}
    return {
        "doc": doc, "scored": ScoredText(_float(logprob), _int(tokens), _int(windows), _int(window), str(problem))
    }  # fmt: skip


def _keep_outputs(sample: Mapping[str, Any]) -> dict[str, Any]:
    given = _texts(sample["filtered_resps"])
    if given != _texts(sample["resps"])[: len(given)]:
        raise ValueError("'filtered_resps' are not 'resps'")
    doc = {key: sample["doc"][key] for key in ("index", "domain", "labels", "owners", "problem", "mode")}
    return {"doc": doc, "outputs": given}


def _keep_verdict(sample: Mapping[str, Any]) -> dict[str, Any]:
    return {"doc": sample["doc"], "verdict": verdict_of(sample), "responses": responses_of(sample)}


def verdict_of(sample: Mapping[str, Any]) -> dict[str, Any]:
    """The judge's record in a sample.

    Raises:
        ValueError: there is none.
    """
    (text,) = sample["filtered_resps"]
    verdict = parse_json(text)
    if not isinstance(verdict, dict):
        raise ValueError("'filtered_resps' holds no record of a verdict")  # noqa: TRY004
    return verdict


def responses_of(sample: Mapping[str, Any]) -> list[str]:
    """The model's responses in a sample of generations."""
    return _texts(sample["resps"])


def _same_responses(sample: Mapping[str, Any], resps: Sequence[Any]) -> None:
    if sample["filtered_resps"] != resps:
        raise ValueError("'filtered_resps' are not 'resps'")


def _texts(responses: Any) -> list[str]:
    """The texts in lm_eval's lists of lists."""
    if isinstance(responses, str):
        return [responses]
    return [text for each in responses for text in _texts(each)]


# lm_eval writes responses as texts.


def _float(text: Any) -> float | None:
    return None if text in (None, "None") else float(text)


def _int(text: Any) -> int | None:
    return None if text in (None, "None") else int(text)


def _bool(text: Any) -> bool:
    if str(text) not in ("True", "False"):
        raise ValueError(f"found {text!r}, expected True or False")
    return str(text) == "True"


# How the metrics of a row are found, by the kind of its task, and how they become scores.

Rows = Sequence[Mapping[str, Any]]


class Prepared(NamedTuple):
    """``unfounded`` says what of a judge's record does not follow from the response and from what the judge wrote, if any."""

    row_metrics: RowMetrics
    aggregations: Mapping[str, Aggregation]
    unfounded: Callable[[Mapping[str, Any]], str | None] = lambda row: None


def _factor(task: TaskResult, rows: Rows) -> Prepared:
    from lm_factuality.metrics import factor

    types = sorted({kind for row in rows for kind in row["doc"]["error_types"] if kind})
    protocol = str(task.metadata.get("protocol", "paper"))
    return Prepared(
        lambda row: factor.row_metrics(row["doc"], row["scores"], protocol, types), factor.aggregations(types)
    )


def _perplexity(task: TaskResult, rows: Rows) -> Prepared:
    from lm_factuality.metrics import perplexity

    return Prepared(lambda row: perplexity.row_metrics(row["doc"], row["scored"]), perplexity.aggregations())


def _felm(task: TaskResult, rows: Rows) -> Prepared:
    from lm_factuality.metrics import felm

    protocol, mode = str(task.metadata.get("protocol", "paper")), str(task.metadata.get("mode", "vanilla"))
    return Prepared(lambda row: felm.row_metrics(row["doc"], row["outputs"], protocol, mode), felm.aggregations())


def _felm_gen(task: TaskResult, rows: Rows) -> Prepared:
    from lm_factuality.metrics import felm_gen
    from lm_factuality.results import verdicts

    judge = _judge(task)

    def row_metrics(row: Mapping[str, Any]) -> dict[str, Any]:
        verdict, doc = row["verdict"], row["doc"]
        _belongs(verdict["index"] == doc["index"] and verdict["domain"] == doc["domain"])
        errors = verdict["errors"]
        if errors is not None and len(errors) != len(verdict["segments"]):
            raise ValueError(f"{len(errors)} verdicts on {len(verdict['segments'])} segments")
        return felm_gen.row_metrics(verdict)

    return Prepared(row_metrics, felm_gen.aggregations(), lambda row: verdicts.unfounded_felm_gen(row, judge))


def _factor_generation(task: TaskResult, rows: Rows) -> Prepared:
    from judges.factor_generation.marks import MARKS
    from lm_factuality.factor.scoring import wins
    from lm_factuality.metrics import factor_generation
    from lm_factuality.results import verdicts

    protocol = str(task.metadata.get("protocol", "paper"))

    def row_metrics(row: Mapping[str, Any]) -> dict[str, Any]:
        verdict, doc = row["verdict"], row["doc"]
        expected = 0 if doc["no_fact"] else len(row["responses"])
        _belongs(verdict["doc_id"] == doc["doc_id"] and len(verdict["marks"]) == expected)
        if unknown := set(verdict["marks"]) - {*MARKS, None}:
            raise ValueError(f"marks {unknown}, expected {', '.join(MARKS)} or null")
        if doc["factor_acc"] is not None and doc["factor_acc"] != wins(doc["mean_logprob"], doc["gold"], protocol):
            raise ValueError("its factor_acc does not follow from mean_logprob")
        return factor_generation.row_metrics(doc, verdict)

    return Prepared(row_metrics, factor_generation.aggregations(), verdicts.unfounded_factor_generation)


def _ambigbio(task: TaskResult, rows: Rows) -> Prepared:
    from judges.biographies.metrics import score
    from judges.biographies.pages import DOCUMENTS
    from judges.biographies.records import from_record
    from judges.biographies.summary import why_unscored
    from lm_factuality.metrics import ambigbio
    from lm_factuality.results import verdicts

    protocol = str(task.metadata.get("protocol", "paper"))
    method = verdicts.BiographyMethod(
        protocol, str(task.metadata.get("linking", "greedy")), task.metadata.get("knowledge", DOCUMENTS) == DOCUMENTS
    )

    def row_metrics(row: Mapping[str, Any]) -> dict[str, Any]:
        """From the judgements in the record, not from the scores beside them."""
        try:
            judged = from_record(row["verdict"])
        except DataError as error:
            raise ValueError(str(error)) from error
        told = judged.generation
        _belongs(
            told.index == row["doc"]["index"] and told.name == row["doc"]["name"] and [told.output] == row["responses"]
        )
        scores = score(judged, protocol)
        verdict = {
            "name": told.name, "scores": None if scores is None else asdict(scores), "abstained": judged.abstained,
            "unscored": why_unscored(judged, scores),
        }  # fmt: skip
        for key in ("scores", "unscored"):
            if verdict[key] != row["verdict"].get(key):
                raise ValueError(f"{key!r} of its record does not follow from the judgements there")
        return ambigbio.row_metrics(verdict)

    return Prepared(row_metrics, ambigbio.aggregations(), lambda row: verdicts.unfounded_ambigbio(row, method))


def _judge(task: TaskResult) -> Mapping[str, Any]:
    found = task.metadata.get("judge_config")
    return found if isinstance(found, dict) else {}


def _belongs(is_so: bool) -> None:
    if not is_so:
        raise ValueError("the verdict is on another document or response")


_READERS: Mapping[str, tuple[Callable[[Mapping[str, Any]], dict[str, Any]], Callable[[TaskResult, Rows], Prepared]]] = {
    "factor": (_keep_choices, _factor),
    "perplexity": (_keep_text, _perplexity),
    "felm": (_keep_outputs, _felm),
    "felm_gen": (_keep_verdict, _felm_gen),
    "factor_generation": (_keep_verdict, _factor_generation),
    "ambigbio": (_keep_verdict, _ambigbio),
}
