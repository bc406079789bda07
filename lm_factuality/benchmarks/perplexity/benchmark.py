"""Perplexity as the rest of the suite knows it, and its metrics."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from lm_factuality.benchmarks.audit import request_arguments
from lm_factuality.benchmarks.declaration import (
    Benchmark,
    Checks,
    Comparing,
    Data,
    KeptRow,
    Page,
    Rescorer,
    Sample,
    SampleDisplay,
    Scoring,
    load_scores,
)
from lm_factuality.benchmarks.rows import SampleRow, row_key, snippet
from lm_factuality.harness.generation import JsonObject
from lm_factuality.harness.outputs import ResultsFile, ScoredText, TaskResult
from lm_factuality.harness.samples import results_in
from lm_factuality.scores.statistics import (
    Aggregation,
    Outcome,
    clustered_stderr,
    mean,
)


def row_metrics(doc: JsonObject, scored: ScoredText) -> JsonObject:
    """Return the metrics of one document. None stands for what could not be scored."""
    problem = doc["problem"] or scored.problem
    logprob = None if problem else scored.logprob
    size = len(doc["text"].encode("utf-8"))
    metrics: JsonObject = {
        "byte_perplexity": None,
        "bits_per_byte": None,
        "logprob": logprob,
        "num_bytes": None if logprob is None else size,
        "unscored": problem or None,
    }
    if logprob is not None:
        metrics["byte_perplexity"] = _perplexity(logprob, size, doc["doc_id"])
        metrics["bits_per_byte"] = Outcome(-logprob / size / math.log(2), doc["doc_id"], size)
    if scored.window is None:
        return metrics
    perplexity = None
    if logprob is not None and scored.num_tokens:
        perplexity = _perplexity(logprob, scored.num_tokens, doc["doc_id"])
    return metrics | {
        "perplexity": perplexity,
        "num_tokens": None if logprob is None else scored.num_tokens,
        "num_windows": None if logprob is None else scored.num_windows,
    }


def _perplexity(logprob: float, count: int, cluster: str) -> Outcome:
    """Return the perplexity of one document, which weighs as much as it has tokens or bytes."""
    return Outcome(_exp(-logprob / count), cluster, count)


def geometric_mean(perplexities: Sequence[Outcome | None]) -> float:
    """Return the perplexity of all documents together.

    It is e to the weighted mean of the logarithms of theirs.
    """
    return _exp(mean(_logarithms(perplexities)))


def geometric_stderr(perplexities: Sequence[Outcome | None]) -> float:
    """Return the standard error of `geometric_mean` by the delta method.

    It is the value times the clustered standard error of its logarithm, a ratio of two sums over
    documents (total negative log-probability over total tokens or bytes).
    """
    logarithms = _logarithms(perplexities)
    return _exp(mean(logarithms)) * clustered_stderr(logarithms)


def _logarithms(perplexities: Sequence[Outcome | None]) -> list[Outcome]:
    scored = [perplexity for perplexity in perplexities if perplexity is not None]
    return [Outcome(math.log(value), value.cluster, value.weight) for value in scored]


def _exp(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


SCORES = load_scores(__package__, geometric_mean=Aggregation(geometric_mean, geometric_stderr))


class PerplexityAudit:
    """The model was asked for the log-probability of each document's text."""

    def request_problem(self, sample: Sample) -> str | None:
        is_asked = [each[0] for each in request_arguments(sample)] == [sample["doc"]["text"]]
        return None if is_asked else "the model was asked another text"


def keep(sample: Sample) -> KeptRow:
    """The document and its log-probability. Raises ValueError: the responses are not as the task
    writes them."""
    (scored,) = results_in(sample, ScoredText)
    doc = {key: sample["doc"][key] for key in ("text", "problem", "doc_id")}
    return {"doc": doc, "scored": scored}


def notes(file: ResultsFile, task: TaskResult) -> Iterator[str]:
    used, asked = task.metadata.get("window_used"), task.metadata.get("window")
    if used is not None and asked not in (None, used):
        yield f"window of {used} tokens, {asked} asked for"


_DETAIL = ("perplexity", "byte_perplexity", "bits_per_byte", "num_tokens", "num_bytes", "unscored")


def row(result: TaskResult, sample: Sample) -> SampleRow:
    doc, logprob, bits = sample["doc"], sample.get("logprob"), sample.get("bits_per_byte")
    return SampleRow(
        row_key(sample, doc["text"]),
        str(doc["doc_id"]),
        snippet(doc["text"]),
        {"id": doc["doc_id"], "text": doc["text"]},
        "unscored" if logprob is None else "none",
        None if bits is None else -bits,
        (),
        {key: sample.get(key) for key in _DETAIL},
        {}
        if logprob is None
        else {"bits_per_byte": (-float(logprob) / math.log(2), float(sample["num_bytes"]))},
    )


SAMPLES = SampleDisplay(
    row,
    ("right", "wrong", "unscored", "scored"),
    "bits per byte",
    script=Path(__file__).with_name("page.js"),
)


BENCHMARK = Benchmark(
    kind="perplexity",
    title="Perplexity",
    scoring=Scoring(
        headlines=("perplexity", "byte_perplexity"),
        scores=SCORES,
        keep_row=keep,
        make_rescorer=lambda task, rows: Rescorer(
            lambda row: row_metrics(row["doc"], row["scored"])
        ),
        unit="documents",
    ),
    data=Data(
        settings=("window", "window_used", "stride"),
    ),
    page=Page(
        lead="How well does the model predict the documents that FACTOR's rows come from?",
        name="factor",
        samples=SAMPLES,
    ),
    comparing=Comparing(
        notes=notes,
        shown_with_kind="factor",
    ),
    checks=Checks(
        audit=lambda expected: PerplexityAudit(),
    ),
    order=45,
)
