"""The scores of perplexity tasks, and their declaration to the rest of the suite.

The suite finds `BENCHMARK` here, and `PerplexityTask` computes the metrics of its documents here.
"""

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
    KeptRows,
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
from lm_factuality.scores.intervals import Interval, perplexity_interval
from lm_factuality.scores.statistics import (
    MEAN,
    Aggregation,
    Outcome,
    clustered_stderr,
    mean,
)

_BYTE_METRICS = ("byte_perplexity", "bits_per_byte", "logprob", "num_bytes", "unscored")
_TOKEN_METRICS = ("perplexity", "num_tokens", "num_windows")
"""The metrics of a document that need the tokens of the model."""

_DETAIL = ("perplexity", "byte_perplexity", "bits_per_byte", "num_tokens", "num_bytes", "unscored")
"""The metrics of a document that the report shows with its text."""


def document_metrics(doc: JsonObject, scored: ScoredText) -> JsonObject:
    """Compute the metrics of one document from the log-probability of its text.

    Args:
        doc: The document, with its ``text``, its ``doc_id`` and the ``problem`` why it cannot be
            scored, if there is one.
        scored: The model's result, with the log-probability in nats.

    Returns:
        The metrics by name. None stands for a metric of a document without a score. Metrics per
        token are left out if the tokens of the model cannot be counted.
    """
    # Samples show metrics in this order. They stay None if the text cannot be scored.
    metrics: JsonObject = dict.fromkeys(_BYTE_METRICS)
    # A backend that shows no tokenizer has no window, since windows are counted in tokens.
    has_tokens = scored.window is not None
    if has_tokens:
        metrics |= dict.fromkeys(_TOKEN_METRICS)
    problem = doc["problem"] or scored.problem
    metrics["unscored"] = problem or None
    logprob = scored.logprob
    if problem or logprob is None:
        return metrics

    doc_id = doc["doc_id"]
    num_bytes = len(doc["text"].encode("utf-8"))
    # From nats to bits.
    bits_per_byte = -logprob / num_bytes / math.log(2)
    metrics["byte_perplexity"] = _perplexity(logprob, num_bytes, doc_id)
    # The number of bytes is the weight of the document in the mean over all documents.
    metrics["bits_per_byte"] = Outcome(bits_per_byte, doc_id, num_bytes)
    metrics["logprob"] = logprob
    metrics["num_bytes"] = num_bytes

    if has_tokens:
        metrics["num_tokens"] = scored.num_tokens
        metrics["num_windows"] = scored.num_windows
        # A text may have no token.
        if scored.num_tokens:
            metrics["perplexity"] = _perplexity(logprob, scored.num_tokens, doc_id)
    return metrics


def _perplexity(logprob: float, num_units: int, doc_id: str) -> Outcome:
    """Compute the perplexity of one document per token or per byte.

    Args:
        logprob: The log-probability of the whole text, in nats.
        num_units: The number of tokens or bytes, which is also the weight of the document.
        doc_id: The id by which standard errors are clustered.
    """
    return Outcome(_exp_or_infinity(-logprob / num_units), doc_id, num_units)


def geometric_mean(perplexities: Sequence[Outcome | None]) -> float:
    """Compute the perplexity of all documents together.

    It is e to the mean of the logarithms of the documents' perplexities, weighted by their numbers
    of tokens or bytes.

    Args:
        perplexities: The perplexity of each document. None for documents without a score.
    """
    return _exp_or_infinity(mean(_log_perplexities(perplexities)))


def geometric_stderr(perplexities: Sequence[Outcome | None]) -> float:
    """Compute the standard error of `geometric_mean` by the delta method.

    The derivative of exp is exp, so it is the geometric mean times the clustered standard error of
    its logarithm.

    Args:
        perplexities: The perplexity of each document. None for documents without a score.
    """
    logarithms = _log_perplexities(perplexities)
    return _exp_or_infinity(mean(logarithms)) * clustered_stderr(logarithms)


def _log_perplexities(perplexities: Sequence[Outcome | None]) -> list[Outcome]:
    """Return the natural logarithms of the perplexities that are not None.

    Each is an `Outcome`, i.e. a float with the cluster and the weight of its document.
    """
    return [
        Outcome(math.log(perplexity), perplexity.cluster, perplexity.weight)
        for perplexity in perplexities
        if perplexity is not None
    ]


def _exp_or_infinity(value: float) -> float:
    """Return e to a value, or infinity if the result is too large for a float."""
    # A model that finds a text nearly impossible exceeds the largest float.
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


def geometric_interval(
    perplexities: Sequence[Outcome | None], low: float, high: float
) -> Interval | None:
    """Compute the 95% interval of `geometric_mean`.

    Args:
        perplexities: The perplexity of each document. None for documents without a score.
        low: The lowest possible perplexity. Its logarithm is 0.
        high: The highest possible perplexity, which is infinite.
    """
    logarithms = _log_perplexities(perplexities)
    return perplexity_interval(
        log_losses=logarithms,
        num_tokens=[logarithm.weight for logarithm in logarithms],
        clusters=[logarithm.cluster for logarithm in logarithms],
    )


SCORES = load_scores(
    __package__,
    geometric_mean=Aggregation(
        geometric_mean, geometric_stderr, geometric_interval, clusters=MEAN.clusters
    ),
)
"""Every score of perplexity tasks."""


class PerplexityAudit:
    """A check that a submitted model was asked for the log-probability of each document's text."""

    def request_problem(self, sample: Sample) -> str | None:
        """Return why the requests of a sample are not those of its document, or None if they are.

        Args:
            sample: A line of lm_eval's samples file.
        """
        # The first argument of a request is the text. The others are the window and the stride.
        requested_texts = [request[0] for request in request_arguments(sample)]
        if requested_texts == [sample["doc"]["text"]]:
            return None
        return "the model was asked another text"


def keep_scored_text(sample: Sample) -> KeptRow:
    """Reduce a sample to what `make_rescorer` needs: the document and the model's result.

    Args:
        sample: A line of lm_eval's samples file.

    Raises:
        ValueError: The responses are not as the task writes them.
    """
    # There is one request per document.
    (scored,) = results_in(sample, ScoredText)
    doc = {key: sample["doc"][key] for key in ("text", "problem", "doc_id")}
    return {"doc": doc, "scored": scored}


def make_rescorer(task: TaskResult, rows: KeptRows) -> Rescorer:
    """Return the function that computes the metrics of a kept sample again."""
    return Rescorer(lambda row: document_metrics(row["doc"], row["scored"]))


def note_smaller_window(file: ResultsFile, task: TaskResult) -> Iterator[str]:
    """Yield a note if the model could not hold the window of tokens that the task asked for.

    Args:
        file: The results file of the run.
        task: The run of the task.

    Example:
        ``window of 512 tokens, 1024 asked for``
    """
    used_window = task.metadata.get("window_used")
    requested_window = task.metadata.get("window")
    # Both are None if the tokens of the model cannot be counted.
    if used_window is not None and requested_window not in (None, used_window):
        yield f"window of {used_window} tokens, {requested_window} asked for"


def report_row(result: TaskResult, sample: Sample) -> SampleRow:
    """Make the row of the report that shows a document and how well the model predicted it.

    Args:
        result: The results of the task, which this benchmark does not need.
        sample: A line of lm_eval's samples file.

    Returns:
        The row. Its margin is the negative number of bits per byte, so that higher is better.
    """
    doc = sample["doc"]
    bits_per_byte = sample.get("bits_per_byte")
    logprob = sample.get("logprob")

    score_counts = {}
    if logprob is not None:
        # Bits and bytes are added up over documents before they are divided.
        bits = -float(logprob) / math.log(2)
        score_counts["bits_per_byte"] = (bits, float(sample["num_bytes"]))

    return SampleRow(
        key=row_key(sample, doc["text"]),
        # Texts of the same document are not independent.
        cluster=str(doc["doc_id"]),
        title=snippet(doc["text"]),
        doc={"id": doc["doc_id"], "text": doc["text"]},
        # A document that was scored is neither right nor wrong.
        outcome="unscored" if logprob is None else "none",
        margin=None if bits_per_byte is None else -bits_per_byte,
        facets=(),
        detail={key: sample.get(key) for key in _DETAIL},
        score_counts=score_counts,
    )


BENCHMARK = Benchmark(
    kind="perplexity",
    title="Perplexity",
    scoring=Scoring(
        headlines=("perplexity", "byte_perplexity"),
        scores=SCORES,
        keep_row=keep_scored_text,
        make_rescorer=make_rescorer,
        unit="documents",
    ),
    data=Data(
        settings=("window", "window_used", "stride"),
    ),
    page=Page(
        lead="How well does the model predict the documents that FACTOR's rows come from?",
        name="factor",
        samples=SampleDisplay(
            report_row,
            ("right", "wrong", "unscored", "scored"),
            margin_label="bits per byte",
            script=Path(__file__).with_name("page.js"),
        ),
    ),
    comparing=Comparing(
        notes=note_smaller_window,
        shown_with_kind="factor",
    ),
    checks=Checks(
        audit=lambda expected: PerplexityAudit(),
    ),
    order=45,
)
