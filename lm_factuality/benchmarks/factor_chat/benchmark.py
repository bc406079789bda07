"""FACTOR for chat models as the rest of the suite knows it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from markupsafe import Markup

from judges.templates import Prompts
from lm_factuality.benchmarks.audit import (
    OTHER_REQUEST,
    UNKNOWN_REQUESTS,
    Expected,
    PromptAudit,
    requests_of,
)
from lm_factuality.benchmarks.chosen import Chosen, Entry, shown_scores
from lm_factuality.benchmarks.declaration import (
    Benchmark,
    Checks,
    Comparing,
    Data,
    Page,
    Recount,
    Row,
    Rows,
    Sample,
    Samples,
    Scoring,
)
from lm_factuality.benchmarks.factor_chat.metrics import (
    POSITION,
    PROTOCOLS,
    SCORES,
    row_metrics,
)
from lm_factuality.benchmarks.rows import SampleRow, key_of, mean_part, snippet
from lm_factuality.ground.html import render
from lm_factuality.harness.outputs import ResultsFile, TaskResult, WordAnswer
from lm_factuality.harness.samples import prompt_text, results_in


def keep(sample: Sample) -> Row:
    """Keep the row and what the model answered.

    Raises:
        ValueError: The responses are not as the task writes them.
    """
    doc = {key: sample["doc"][key] for key in ("choices", "gold", "problem", "doc_id")}
    answers = results_in(sample, WordAnswer)
    if len(answers) != len(doc["choices"]):
        raise ValueError(f"{len(answers)} answers for {len(doc['choices'])} choices")
    return {"doc": doc, "answers": answers}


def recount(task: TaskResult, rows: Rows) -> Recount:
    """Score kept rows again, by the task's protocol."""
    protocol = str(task.metadata.get("protocol", "statements"))
    return Recount(lambda row: row_metrics(row["doc"], row["answers"], protocol))


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

    def __init__(self, expected: Expected) -> None:
        super().__init__(expected)
        self._protocol = PROTOCOLS[str(expected.metadata.get("protocol", "statements"))]
        self._prompts = Prompts()

    def wrong_request(self, sample: Sample) -> str | None:
        """Return what is wrong with a sample's requests, if anything."""
        doc = sample["doc"]
        requests = requests_of(sample)
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
                return OTHER_REQUEST
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


def sections(chosen: Chosen) -> Sequence[Markup]:
    """Return a section for each task."""
    return [_section(task, chosen.of_task(task)) for task in chosen.tasks_of_kind("factor_chat")]


def _section(task: str, entries: Sequence[Entry]) -> Markup:
    letters = [entry for entry in entries if entry.result.metadata.get("protocol") == "letters"]
    cautions = [entry.result.metadata.get("caution") for entry in letters]
    names = {name for entry in letters for name in entry.result.metrics}
    (position,) = (score for score in SCORES if score.covers(POSITION))
    positions = [
        replace(position, name=name, label=name.removeprefix(POSITION))
        for name in sorted(names)
        if name.startswith(POSITION)
    ]
    return render(
        f"{__package__}/page.html",
        task=task,
        entries=entries,
        scores=shown_scores(entries),
        letters=letters,
        positions=positions,
        caution=next(filter(None, cautions), ""),
    )


def row(result: TaskResult, sample: Sample) -> SampleRow:
    """Return a sample as the report shows it."""
    doc = sample["doc"]
    chances = sample.get("auroc")
    right = sample.get("chat_acc")
    gold = doc["gold"]
    margin = None
    if chances:
        margin = chances[gold] - max([*chances[:gold], *chances[gold + 1 :]])
    count = len(doc["choices"])
    weights = {"pairwise_acc": count - 1, "chat_acc": 1, "all_right": 1}
    return SampleRow(
        key_of(sample, doc["prefix"], *doc["choices"]),
        str(doc["doc_id"]),
        snippet(doc["choices"][max(gold, 0)]),
        {
            "id": doc["doc_id"],
            "types": list(doc["error_types"]),
            **{key: doc[key] for key in ("prefix", "choices", "gold")},
        },
        "unscored" if right is None else "right" if right else "wrong",
        margin,
        sorted(filter(None, set(doc["error_types"]))),
        {
            "chances": chances,
            "answers": sample["filtered_resps"],
            "unscored": sample.get("unscored"),
        },
        {
            name: mean_part(sample[name], weights.get(name, count))
            for name in _COMPARED
            if sample.get(name) is not None
        },
    )


SAMPLES = Samples(row, facet="Error type", script=Path(__file__).with_name("page.js"))


BENCHMARK = Benchmark(
    kind="factor_chat",
    title="FACTOR for chat models",
    scoring=Scoring(
        headlines=("chat_acc",),
        scores=SCORES,
        keep=keep,
        recount=recount,
    ),
    data=Data(
        settings=("protocol", "answers", "answers_read", "spacing", "prompt_hashes"),
    ),
    page=Page(
        lead=LEAD,
        sections=sections,
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
