"""The declaration of FACTOR for chat models, and the leaderboard's check of its samples.

Results, report, comparisons and leaderboards read the declaration.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from judges.templates import Prompts
from lm_factuality.benchmarks.audit import (
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
from lm_factuality.benchmarks.rows import Counts, SampleRow, mean_counts
from lm_factuality.harness.outputs import ResultsFile, TaskResult, WordAnswer
from lm_factuality.harness.samples import prompt_text, results_in

_FEWEST_ARGUMENTS = 4
"""The number of arguments that a request of the task has, or one more if the model may think."""


def select_for_rescoring(sample: Sample) -> KeptRow:
    """Select the fields of a sample that are needed to score its row again.

    Args:
        sample: A line of a samples file.

    Returns:
        The row with its choices as ``doc``, and the model's answers as ``answers``.

    Raises:
        ValueError: There is not one answer for each choice.
    """
    doc = {key: sample["doc"][key] for key in ("choices", "gold", "problem", "doc_id")}
    answers = results_in(sample, WordAnswer)
    # Whether choices are shown one by one or with letters, there is one question for each choice.
    if len(answers) != len(doc["choices"]):
        raise ValueError(f"{len(answers)} answers for {len(doc['choices'])} choices")
    return {"doc": doc, "answers": answers}


def make_rescorer(task: TaskResult, rows: KeptRows) -> Rescorer:
    """Return the function that scores the rows of a task again.

    Args:
        task: The results of the task, which name its protocol.
        rows: All rows of the task, as `select_for_rescoring` returns them.
    """
    protocol = str(task.metadata.get("protocol", "statements"))
    return Rescorer(lambda row: row_metrics(row["doc"], row["answers"], protocol))


def notes_on_run(file: ResultsFile, task: TaskResult) -> Iterator[str]:
    """Say which settings of a run make its scores differ from those of other runs.

    Args:
        file: The results file of the run.
        task: The results of the task in it.

    Yields:
        A note, such as ``without a chat template``.
    """
    # Answers were read from the text of the model, or from the JSON object that it wrote. Neither
    # shows the model's log-probabilities.
    if task.metadata.get("answers_read") in ("words", "schema"):
        yield "by words: each probability is 0 or 1, and choices are often equal"
    # Results have an empty text here if the server applied its own template.
    if file.content.get("chat_template") is None:
        yield "without a chat template"


class FactorChatAudit(PromptAudit):
    """Checks that the model was asked the questions of the protocol about each row.

    A chat template must be the same around all prompts.
    """

    def __init__(self, expected: ExpectedRun) -> None:
        """Read the protocol that the leaderboard asks for.

        Args:
            expected: How the leaderboard wants the task to be run.
        """
        super().__init__(expected)
        self._protocol = PROTOCOLS[str(expected.metadata.get("protocol", "statements"))]
        # The prompts of this version of the suite; results hold their hashes.
        self._prompts = Prompts()

    def request_problem(self, sample: Sample) -> str | None:
        """Check that the requests of a sample are the questions about its row.

        Args:
            sample: A line of the samples file.

        Returns:
            What is wrong with the requests, or None if nothing is.
        """
        doc = sample["doc"]
        # The protocol asks one question for each choice, or for each rotation of the choices.
        requests = request_arguments(sample)
        subjects = self._protocol.subjects(doc["prefix"], doc["choices"])
        if len(requests) != len(subjects):
            return UNKNOWN_REQUESTS

        words = list(self._protocol.answer_words(len(doc["choices"])))
        for request, subject in zip(requests, subjects, strict=True):
            expected_prompt = self._prompts.render(self._protocol.prompt, subject)
            problem = self._problem_of_question(request, expected_prompt, words)
            if problem:
                return problem
        return None

    def _problem_of_question(
        self, request: Sequence[Any], expected_prompt: str, expected_words: Sequence[str]
    ) -> str | None:
        """Check one request of a sample.

        Args:
            request: The arguments of the request: the prompt, the words that may answer it, how
                answers are read, and one argument or two of the generation. How answers are read is
                not checked, since each model may choose it.
            expected_prompt: The prompt without a chat template.
            expected_words: The words.

        Returns:
            What is wrong with the request, or None if nothing is.
        """
        if len(request) < _FEWEST_ARGUMENTS:
            return UNKNOWN_REQUESTS
        prompt, words, _, *generation_arguments = request
        if words != expected_words:
            return UNKNOWN_REQUESTS
        if generation_arguments != self._expected.generation_arguments:
            return "its generation arguments are not those of the leaderboard"
        return self._problem_of_prompt(prompt_text(prompt), expected_prompt)


def sample_row(result: TaskResult, sample: Sample) -> SampleRow:
    """Return a sample of FACTOR for chat models as the report shows it.

    Args:
        result: The results of the task, which this benchmark does not need.
        sample: A line of its samples file.

    Returns:
        The row, whose margin is the probability of the true choice minus that of the likeliest
        contradiction.
    """
    # A row's value of the AUROC is the list of its probabilities (see `metrics.row_metrics`).
    probabilities = sample.get("auroc")
    margin = None
    # An unscored row has no probabilities.
    if probabilities:
        gold = sample["doc"]["gold"]
        likeliest_false = max(probabilities[:gold] + probabilities[gold + 1 :])
        margin = probabilities[gold] - likeliest_false

    # page.js reads these names.
    detail = {
        "chances": probabilities,
        "answers": sample["filtered_resps"],
        "unscored": sample.get("unscored"),
    }
    return row_of_choices(sample, sample.get("chat_acc"), margin, detail, _weighted_values(sample))


def _weighted_values(sample: Sample) -> dict[str, Counts]:
    """Weight the values of a row for the weighted means of scores, by which models are compared.

    The weight is the number of values that the row's value averages. For example, ``pairwise_acc``
    averages a value for each contradiction.

    Returns:
        The value times its weight, and the weight, by the name of the score. Scores that an
        unscored row lacks are left out.
    """
    num_choices = len(sample["doc"]["choices"])
    num_values_by_score = {
        "chat_acc": 1,
        "pairwise_acc": num_choices - 1,
        "all_right": 1,
        "prompt_acc": num_choices,
        "brier": num_choices,
        "p_true_bias": num_choices,
        "unreadable": num_choices,
    }
    weighted_values = {}
    for name, num_values in num_values_by_score.items():
        if sample.get(name) is not None:
            weighted_values[name] = mean_counts(sample[name], weight=num_values)
    return weighted_values


BENCHMARK = Benchmark(
    kind="factor_chat",
    title="FACTOR for chat models",
    scoring=Scoring(
        headlines=("chat_acc",),
        scores=SCORES,
        keep_row=select_for_rescoring,
        make_rescorer=make_rescorer,
    ),
    data=Data(
        settings=("protocol", "answers", "answers_read", "spacing", "prompt_hashes"),
    ),
    page=Page(
        lead=(
            "Asked about each of four completions by itself, does the model find the true one the"
            " most likely to be true? Chance is 25%."
        ),
        samples=SampleDisplay(
            sample_row, facet_label="Error type", script=Path(__file__).with_name("page.js")
        ),
    ),
    comparing=Comparing(
        notes=notes_on_run,
    ),
    checks=Checks(
        audit=FactorChatAudit,
    ),
    order=12,
)
