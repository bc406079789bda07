"""FELM as the rest of the suite knows it; its scores out of samples, and people in its annotators'
place; and its part of the report, as table 4 of its paper lays it out, with the published models
beneath one's own."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup

from lm_factuality.benchmarks.asked import Answers, Item, People, load_questions, relabelling
from lm_factuality.benchmarks.chosen import Chosen, Entry, Model
from lm_factuality.benchmarks.declaration import (
    Benchmark,
    Checks,
    Data,
    Page,
    Recount,
    Row,
    Rows,
    Sample,
    Samples,
    Score,
    Scoring,
)
from lm_factuality.benchmarks.felm.judging import SETTINGS
from lm_factuality.benchmarks.felm.metrics import SCORES, judge_document, row_metrics
from lm_factuality.benchmarks.felm.rows import FELM
from lm_factuality.benchmarks.rows import Counts, SampleRow, key_of, snippet
from lm_factuality.ground.html import render
from lm_factuality.ground.packages import load_yaml
from lm_factuality.ground.plots import dots
from lm_factuality.harness.outputs import TaskResult
from lm_factuality.harness.samples import responses_of, texts


def keep(sample: Sample) -> Row:
    """The response that is judged and what was said of it. Raises ValueError: the responses are not
    as the task writes them."""
    given = texts(sample["filtered_resps"])
    if given != responses_of(sample)[: len(given)]:
        raise ValueError("'filtered_resps' are not 'resps'")
    doc = {
        key: sample["doc"][key]
        for key in ("index", "domain", "labels", "owners", "problem", "mode")
    }
    return {"doc": doc, "outputs": given}


def recount(task: TaskResult, rows: Rows) -> Recount:
    protocol, mode = (
        str(task.metadata.get("protocol", "paper")),
        str(task.metadata.get("mode", "vanilla")),
    )
    return Recount(lambda row: row_metrics(row["doc"], row["outputs"], protocol, mode))


FACTUAL = "factual"
TABLE4 = load_yaml(__package__, "table4.yaml")  # which says what is in it


def segment_items(
    prompt: str, segments: Sequence[str], said: Sequence[str] | None, references: Sequence[str] = ()
) -> list[Item]:
    """An item for each segment; ``said`` is what the judge says of each."""
    beside = tuple((f"Reference {number}", text) for number, text in enumerate(references, start=1))
    context = (("Question", prompt), ("Whole answer", "\n".join(segments)), *beside)
    numbered = enumerate(segments)
    return [
        Item(f"segment:{place}", "segment", text, context, said[place] if said else None)
        for place, text in numbered
    ]


def _items(result: TaskResult, sample: Sample) -> list[Item]:
    """People take the place of FELM's annotators: how well they agree (table 2), and how a judge
    does by their labels."""
    doc = sample["doc"]
    return segment_items(
        doc["prompt"], doc["segments"], [FACTUAL if label else "wrong" for label in doc["labels"]]
    )


def _change(result: TaskResult, sample: Sample, answers: Answers) -> Mapping[str, Any]:
    return {
        "doc": {
            **sample["doc"],
            "labels": [answers[item.id] == FACTUAL for item in _items(result, sample)],
        }
    }


def of_domain(name: str, score: str, scores: Iterable[Score]) -> Score | None:
    """For ``LEVEL_SCORE_DOMAIN`` the score of that level among ``scores``, labelled with the
    domain; None for another name."""
    level, _, domain = name.partition(f"_{score}_")
    found = next((each for each in scores if each.name == f"{level}_{score}"), None)
    if found is None or not domain:
        return None
    return replace(
        found, name=name, label=f"{found.label}, {TABLE4['domains'].get(domain, domain).lower()}"
    )


_SHOWN = tuple(score for score in SCORES if score.label)


class Cell(NamedTuple):
    """F1, precision and recall (as texts, in percent), and the interval of F1 where one is
    shown."""

    f1: str
    rest: str
    interval: str | None = None


class Block(NamedTuple):
    """The scores of a model: for each (domain, level) its cells, None for those it has not."""

    label: str
    about: str
    is_published: bool
    rows: Sequence[tuple[str, str, Sequence[Cell | None]]]


def sections(chosen: Chosen) -> Sequence[Markup]:
    entries = chosen.of_kind("felm")
    drawn = [(f"{each.model.label}, {each.result.task}", each.dots(_SHOWN[:2])) for each in entries]
    rows = [(name, found) for name, found in drawn if found]
    drawing = (
        dots("F1 of finding errors", "F1, %", rows, [score.label for score in _SHOWN[:2]])
        if rows
        else None
    )
    runs = [(entry, _method_in_words(entry)) for entry in entries]
    values = {
        "table": TABLE4,
        "blocks": _blocks(entries),
        "runs": runs,
        "scores": _SHOWN,
        "drawing": drawing,
    }
    return [render(f"{__package__}/page.html", **values)]


def _method(entry: Entry) -> tuple[str, str]:
    metadata = entry.result.metadata
    return str(metadata.get("mode", "vanilla")), str(metadata.get("unit", "segment"))


def _method_in_words(entry: Entry) -> str:
    """With what it is not quite: claims that are clauses, rows whose references it lacks."""
    mode, unit = _method(entry)
    claims_from = entry.result.metadata.get("claims_from")
    by_rules = isinstance(claims_from, Mapping) and claims_from.get("rules")
    lacking = int(entry.result.metrics.get("without_references") or 0)
    but = f"{' (clauses cut by rules)' if by_rules else ''}{f' ({lacking} rows without references)' if lacking else ''}"  # noqa: E501
    return f"{TABLE4['modes'].get(mode, mode)}, {unit}s{but}"


def _blocks(entries: Sequence[Entry]) -> list[Block]:
    """A block a model, in which columns are methods; several tasks of the same method are in blocks
    of their own data."""
    found: dict[tuple[str, Model], dict[tuple[str, str], Entry]] = {}
    for entry in entries:
        data = entry.result.metadata.get("data")
        name = data.get("file") if isinstance(data, Mapping) else None
        found.setdefault((str(name or entry.result.task), entry.model), {})[_method(entry)] = entry
    blocks = [
        Block(model.label, name, False, _own_rows(runs)) for (name, model), runs in found.items()
    ]
    for model in TABLE4["models"]:
        rows = [
            (each["domain"], each["level"], list(map(_published_cell, each["cells"])))
            for each in model["rows"]
        ]
        blocks.append(Block(model["model"], "published", True, rows))
    return blocks


def _own_rows(runs: Mapping[tuple[str, str], Entry]) -> list[tuple[str, str, list[Cell | None]]]:
    """Without the domains that have no score: FELM's own data has all, other data fewer."""
    entries = [runs.get((each["mode"], each["unit"])) for each in TABLE4["columns"]]
    places = [(each["domain"], each["level"]) for each in TABLE4["models"][0]["rows"]]
    rows = [
        (domain, level, [_own_cell(entry, domain, level) for entry in entries])
        for domain, level in places
    ]
    scored = {domain for domain, _, cells in rows if any(cells)}
    return [row for row in rows if row[0] in scored]


def _own_cell(entry: Entry | None, domain: str, level: str) -> Cell | None:
    suffix = "" if domain == "all" else f"_{domain}"
    score = next(each for each in SCORES if each.name == f"{level}_f1{suffix}")
    found = entry.figure(score) if entry else None
    if entry is None or found is None:
        return None
    if found.is_few:
        return Cell("too few", f"{found.counted} rows")
    rest = [entry.result.metrics.get(f"{level}_{name}{suffix}") for name in ("precision", "recall")]
    # NaN differs from itself: a score that is not defined.
    shown = " / ".join(
        "–" if value is None or value != value else score.write(value) for value in rest
    )
    interval = (
        score.between(found.low, found.high)
        if found.low is not None and found.high is not None
        else "–"
    )
    return Cell(score.write(found.value), shown, interval)


def _published_cell(values: Sequence[float | None] | None) -> Cell | None:
    if values is None:
        return None
    f1, precision, recall = ("–" if value is None else f"{value:.1f}" for value in values)
    return Cell(f1, f"{precision} / {recall}")


def row(result: TaskResult, sample: Sample) -> SampleRow:
    doc, outputs = sample["doc"], texts(sample["filtered_resps"])
    judged = judge_document(doc, outputs, str(result.metadata.get("protocol", "paper")))
    parts: dict[str, Counts] = {}
    margin, outcome = None, "unscored"
    if judged.flagged is not None:
        wrong = sum(
            error != flag for error, flag in zip(judged.errors, judged.flagged, strict=True)
        )
        margin, outcome = -wrong / len(judged.errors), "wrong" if wrong else "right"
        for level in ("segment", "response"):
            counts = tuple(float(each) for each in sample[f"{level}_f1"])
            parts |= {
                f"{level}_f1": counts,
                f"{level}_balanced_accuracy": counts,
                f"{level}_f1_{doc['domain']}": counts,
            }
    return SampleRow(
        key_of(sample, doc["prompt"], *doc["segments"]),
        str(doc["index"]),
        snippet(doc["prompt"]),
        {key: doc[key] for key in ("prompt", "segments", "claims", "owners")}
        | {"id": doc["index"], "gold": [not each for each in doc["labels"]]},
        outcome,
        margin,
        (doc["domain"],),
        {
            "flagged": judged.flagged,
            "unscored": judged.reason,
            "outputs": outputs,
            "mode": doc["mode"],
        },
        parts,
    )


SAMPLES = Samples(
    row,
    ("all segments right", "some wrong", "unscored", "other"),
    margin="share judged wrongly",
    facet="Domain",
    is_partition=True,
    right="Responses judged rightly throughout",
    compared=lambda name: of_domain(name, "f1", SCORES),
    script=Path(__file__).with_name("page.js"),
)


BENCHMARK = Benchmark(
    kind="felm",
    title="FELM",
    scoring=Scoring(
        headlines=("segment_f1",),
        scores=SCORES,
        keep=keep,
        recount=recount,
    ),
    data=Data(
        sources=(FELM,),
        settings=(
            "protocol",
            "unit",
            "mode",
            "claims",
            "claims_from",
            "references",
            "chunk_tokenizer",
            "prompts",
            "prompt_hashes",
        ),
    ),
    page=Page(
        lead="Can the model find the factual errors in somebody else's answer?",
        sections=sections,
        samples=SAMPLES,
    ),
    checks=Checks(
        certifiable=tuple(SETTINGS.values()),
    ),
    order=20,
    people=People(
        tuple(load_questions(__package__).values()),
        _items,
        relabelling(_items, _change, recount, keep),
    ),
)
