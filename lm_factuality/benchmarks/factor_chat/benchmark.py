"""FACTOR for chat models as the rest of the suite knows it."""

import math
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
    bins_of,
    row_metrics,
)
from lm_factuality.benchmarks.rows import SampleRow, key_of, mean_part, snippet
from lm_factuality.ground.html import render
from lm_factuality.ground.plots import MOST_SERIES, Dot, Point, scatter
from lm_factuality.harness.outputs import ResultsFile, TaskResult, WordAnswer
from lm_factuality.harness.samples import prompt_text, same_responses, samples_of, to_float

_ROUNDING = 1e-3  # of half-precision log-probabilities


def keep(sample: Sample) -> Row:
    """The row and what the model answered. Raises ValueError: the responses are not as the task
    writes them."""
    same_responses(sample, [each[0] for each in sample["resps"]])
    doc = {key: sample["doc"][key] for key in ("choices", "gold", "problem", "doc_id")}
    answers = [
        WordAnswer(None if logprobs == "None" else tuple(map(to_float, logprobs)), text, problem)
        for logprobs, text, problem in sample["filtered_resps"]
    ]
    if len(answers) != len(doc["choices"]):
        raise ValueError(f"{len(answers)} answers for {len(doc['choices'])} choices")
    return {"doc": doc, "answers": answers}


def recount(task: TaskResult, rows: Rows) -> Recount:
    return Recount(
        lambda row: row_metrics(
            row["doc"], row["answers"], str(task.metadata.get("protocol", "statements"))
        )
    )


def notes(file: ResultsFile, task: TaskResult) -> Iterator[str]:
    if task.metadata.get("answers_read") == "words":
        yield "by words: each probability is 0 or 1, and choices are often equal"
    if file.content.get("chat_template") is None:  # empty where a server has it
        yield "without a chat template"


class FactorChatAudit(PromptAudit):
    """Each request is the prompt about one choice, or one rotation, of its row; a chat template is
    the same around each."""

    def __init__(self, expected: Expected) -> None:
        super().__init__(expected)
        self._protocol = PROTOCOLS[str(expected.metadata.get("protocol", "statements"))]
        self._prompts = Prompts()

    def wrong_request(self, sample: Sample) -> str | None:
        doc, requests = sample["doc"], requests_of(sample)
        subjects = self._protocol.subjects(doc["prefix"], doc["choices"])
        words = list(self._protocol.words(len(doc["choices"])))
        if len(requests) != len(subjects) or any(
            len(each) < 4 or each[1] != words for each in requests
        ):
            return UNKNOWN_REQUESTS
        if any(each[3:] != self._expected.generation_arguments for each in requests):
            return "its generation arguments are not those of the leaderboard"
        texts = (self._prompts.render(self._protocol.prompt, subject) for subject in subjects)
        is_asked = all(
            self._is_prompt(prompt_text(each[0]), text)
            for each, text in zip(requests, texts, strict=True)
        )
        return None if is_asked else OTHER_REQUEST


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
    return [_section(task, chosen.of_task(task)) for task in chosen.tasks_of_kind("factor_chat")]


def _section(task: str, entries: Sequence[Entry]) -> Markup:
    letters = [entry for entry in entries if entry.result.metadata.get("protocol") == "letters"]
    names = sorted(
        {name for entry in letters for name in entry.result.metrics if name.startswith(POSITION)}
    )
    (position,) = (score for score in SCORES if score.covers(POSITION))
    drawn = [(entry, _bins(entry)) for entry in entries[:MOST_SERIES]]
    points = [
        Point("", each.model.label, Dot(100 * chance), Dot(100 * true))
        for each, bins in drawn
        for chance, true, _ in bins
    ]
    axes = f"{task} calibration", "probability of true, %", "true completions, %"
    values = {
        "positions": [
            replace(position, name=name, label=name.removeprefix(POSITION)) for name in names
        ],
        "caution": next(
            (
                entry.result.metadata["caution"]
                for entry in letters
                if "caution" in entry.result.metadata
            ),
            "",
        ),
        "drawing": scatter(*axes, points, diagonal=True) if points else None,
        "bins": [(entry.model.label, *each) for entry, bins in drawn for each in bins],
    }
    scores = shown_scores(entries)
    return render(
        f"{__package__}/page.html",
        task=task,
        entries=entries,
        scores=scores,
        letters=letters,
        **values,
    )


def _bins(entry: Entry) -> list[tuple[float, float, int]]:
    """(mean probability, share of true choices, number of choices) of each bin that has some."""
    samples = samples_of(entry.result)
    rows = [bins_of(each["ece"], each["doc"]["gold"]) for each in samples if each.get("ece")]
    sums = [tuple(map(math.fsum, zip(*found, strict=True))) for found in zip(*rows, strict=True)]
    return [(total / count, true / count, int(count)) for count, total, true in sums if count]


def row(result: TaskResult, sample: Sample) -> SampleRow:
    doc, chances, right = sample["doc"], sample.get("auroc"), sample.get("chat_acc")
    gold, margin = doc["gold"], None
    if chances:
        margin = chances[gold] - max(
            chance for place, chance in enumerate(chances) if place != gold
        )
    counts = {"pairwise_acc": len(doc["choices"]) - 1, "chat_acc": 1, "all_right": 1}
    known = [name for name in _COMPARED if sample.get(name) is not None]
    parts = {name: mean_part(sample[name], counts.get(name, len(doc["choices"]))) for name in known}
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
        sorted({kind for kind in doc["error_types"] if kind}),
        {
            "chances": chances,
            "answers": sample["filtered_resps"],
            "unscored": sample.get("unscored"),
        },
        parts,
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
