"""FACTOR for chat models as the rest of the suite knows it."""

from collections.abc import Iterator
from pathlib import Path

from judges.templates import Prompts
from lm_factuality.benchmarks.audit import (
    DIFFERENT_REQUEST,
    UNKNOWN_REQUESTS,
    ExpectedRun,
    PromptAudit,
    request_arguments,
)
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
)
from lm_factuality.benchmarks.factor.page import row_of_choices
from lm_factuality.benchmarks.factor_chat.metrics import (
    PROTOCOLS,
    SCORES,
    row_metrics,
)
from lm_factuality.benchmarks.rows import SampleRow, mean_counts
from lm_factuality.harness.outputs import ResultsFile, TaskResult, WordAnswer
from lm_factuality.harness.samples import prompt_text, results_in


def keep(sample: Sample) -> KeptRow:
    """Keep the row and what the model answered.

    Raises:
        ValueError: The responses are not as the task writes them.
    """
    doc = {key: sample["doc"][key] for key in ("choices", "gold", "problem", "doc_id")}
    answers = results_in(sample, WordAnswer)
    if len(answers) != len(doc["choices"]):
        raise ValueError(f"{len(answers)} answers for {len(doc['choices'])} choices")
    return {"doc": doc, "answers": answers}


def recount(task: TaskResult, rows: KeptRows) -> Rescorer:
    """Score kept rows again, by the task's protocol."""
    protocol = str(task.metadata.get("protocol", "statements"))
    return Rescorer(lambda row: row_metrics(row["doc"], row["answers"], protocol))


def notes(file: ResultsFile, task: TaskResult) -> Iterator[str]:
    """Say what sets a run apart."""
    if task.metadata.get("answers_read") == "words":
        yield "by words: each probability is 0 or 1, and choices are often equal"
    # It is empty where a server has the template.
    if file.content.get("chat_template") is None:
        yield "without a chat template"


class FactorChatAudit(PromptAudit):
    """Each request is the prompt about one choice, or one rotation, of its row.

    A chat template is the same around each.
    """

    def __init__(self, expected: ExpectedRun) -> None:
        super().__init__(expected)
        self._protocol = PROTOCOLS[str(expected.metadata.get("protocol", "statements"))]
        self._prompts = Prompts()

    def request_problem(self, sample: Sample) -> str | None:
        """Return what is wrong with a sample's requests, if anything."""
        doc = sample["doc"]
        requests = request_arguments(sample)
        subjects = self._protocol.subjects(doc["prefix"], doc["choices"])
        words = list(self._protocol.words(len(doc["choices"])))
        if len(requests) != len(subjects):
            return UNKNOWN_REQUESTS
        for request, subject in zip(requests, subjects, strict=True):
            if len(request) < 4 or request[1] != words:
                return UNKNOWN_REQUESTS
            if request[3:] != self._expected.generation_arguments:
                return "its generation arguments are not those of the leaderboard"
            text = self._prompts.render(self._protocol.prompt, subject)
            if not self._is_prompt(prompt_text(request[0]), text):
                return DIFFERENT_REQUEST
        return None


LEAD = (
    "Asked about each of four completions by itself, does the model find the true one the most"
    " likely to be true? Chance is 25%."
)
_COMPARED = (
    "chat_acc",
    "pairwise_acc",
    "all_right",
    "prompt_acc",
    "brier",
    "p_true_bias",
    "unreadable",
)


def row(result: TaskResult, sample: Sample) -> SampleRow:
    """Return a sample as the report shows it."""
    chances = sample.get("auroc")
    margin = None
    if chances:
        false = list(chances)
        margin = false.pop(sample["doc"]["gold"]) - max(false)
    count = len(sample["doc"]["choices"])
    weights = {"pairwise_acc": count - 1, "chat_acc": 1, "all_right": 1}
    detail = {
        "chances": chances,
        "answers": sample["filtered_resps"],
        "unscored": sample.get("unscored"),
    }
    parts = {
        name: mean_counts(sample[name], weights.get(name, count))
        for name in _COMPARED
        if sample.get(name) is not None
    }
    return row_of_choices(sample, sample.get("chat_acc"), margin, detail, parts)


SAMPLES = SampleDisplay(row, facet_label="Error type", script=Path(__file__).with_name("page.js"))


BENCHMARK = Benchmark(
    kind="factor_chat",
    title="FACTOR for chat models",
    scoring=Scoring(
        headlines=("chat_acc",),
        scores=SCORES,
        keep_row=keep,
        make_rescorer=recount,
    ),
    data=Data(
        settings=("protocol", "answers", "answers_read", "spacing", "prompt_hashes"),
    ),
    page=Page(
        lead=LEAD,
        samples=SAMPLES,
    ),
    comparing=Comparing(
        notes=notes,
    ),
    checks=Checks(
        audit=FactorChatAudit,
    ),
    order=12,
)
