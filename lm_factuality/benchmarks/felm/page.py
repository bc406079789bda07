"""FELM in the report: as table 4 of its paper lays it out, with the published models beneath one's own."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import yaml
from markupsafe import Markup

from lm_factuality.benchmarks.chosen import Chosen, Entry, Figure, Model
from lm_factuality.benchmarks.declaration import Sample, Samples, Score
from lm_factuality.benchmarks.felm.metrics import SCORES, judge_document
from lm_factuality.benchmarks.rows import Counts, SampleRow, key_of, snippet
from lm_factuality.ground.html import read_file, render
from lm_factuality.ground.plots import dots
from lm_factuality.harness.outputs import TaskResult
from lm_factuality.harness.samples import texts

Place = tuple[str, str, str, str]  # domain, level, mode, unit


@dataclass(frozen=True)
class PublishedModel:
    """``cells`` are (F1, precision, recall) in percent, None for a score that the table leaves out."""

    model: str
    cells: Mapping[Place, tuple[float | None, float | None, float | None]]


@dataclass(frozen=True)
class Table4:
    """``columns`` are (mode, unit), ``rows`` (domain, level), all in the table's order, as ``domains`` and ``modes``."""

    source: str
    domains: Mapping[str, str]
    modes: Mapping[str, str]
    columns: tuple[tuple[str, str], ...]
    rows: tuple[tuple[str, str], ...]
    models: tuple[PublishedModel, ...]

    def domain(self, name: str) -> str:
        """What a domain is called within a label."""
        return self.domains.get(name, name).lower()


def of_domain(name: str, score: str, scores: Iterable[Score]) -> Score | None:
    """For ``LEVEL_SCORE_DOMAIN`` the score of that level among ``scores``, labelled with the domain; None for another name."""
    level, _, domain = name.partition(f"_{score}_")
    found = next((each for each in scores if each.name == f"{level}_{score}"), None)
    return replace(found, name=name, label=f"{found.label}, {table4().domain(domain)}") if found and domain else None


@cache
def table4() -> Table4:
    content: Any = yaml.safe_load(read_file(f"{__package__}/table4.yaml"))
    columns = tuple((each["mode"], each["unit"]) for each in content["columns"])
    rows = tuple((row["domain"], row["level"]) for row in content["models"][0]["rows"])
    models = tuple(
        PublishedModel(
            each["model"],
            {
                (row["domain"], row["level"], mode, unit): tuple(cell)
                for row in each["rows"]
                for (mode, unit), cell in zip(columns, row["cells"], strict=True)
                if cell is not None
            },
        )
        for each in content["models"]
    )
    return Table4(content["table"], content["domains"], content["modes"], columns, rows, models)


LEAD = "Can the model find the factual errors in somebody else's answer?"
_SHOWN = tuple(score for score in SCORES if score.label)


@dataclass(frozen=True)
class Cell:
    """F1, precision and recall (as texts, in percent), and the interval of F1 where one is shown."""

    f1: str
    rest: str
    interval: str | None = None


@dataclass(frozen=True)
class Block:
    """The scores of a model: for each (domain, level) its cells, None for those it has not."""

    label: str
    about: str
    is_published: bool
    rows: Sequence[tuple[str, str, Sequence[Cell | None]]]


def sections(chosen: Chosen) -> Sequence[Markup]:
    entries = chosen.of_kind("felm")
    f1 = _SHOWN[:2]
    drawn = [(f"{entry.model.label}, {entry.result.task}", {each.label: entry.dot(each) for each in f1}) for entry in entries]
    rows = [(name, {label: dot for label, dot in found.items() if dot}) for name, found in drawn]
    rows = [(name, found) for name, found in rows if found]
    drawing = dots("F1 of finding errors", "F1, %", rows, [score.label for score in f1]) if rows else None
    methods = [f"{table4().modes.get(mode, mode)}, {unit}s{_but(each)}" for each in entries for mode, unit in [method_of(each)]]
    page = render(
        f"{__package__}/page.html",
        table=table4(),
        blocks=_blocks(entries),
        runs=list(zip(entries, methods, strict=True)),
        scores=_SHOWN,
        drawing=drawing,
    )
    return [page]


def method_of(entry: Entry) -> tuple[str, str]:
    metadata = entry.result.metadata
    return str(metadata.get("mode", "vanilla")), str(metadata.get("unit", "segment"))


def _but(entry: Entry) -> str:
    """What a method is not quite: claims that are clauses, rows whose references it lacks."""
    claims_from = entry.result.metadata.get("claims_from")
    by_rules = claims_from.get("rules") if isinstance(claims_from, Mapping) else 0
    lacking = int(entry.result.metrics.get("without_references") or 0)
    return f"{' (clauses cut by rules)' if by_rules else ''}{f' ({lacking} rows without references)' if lacking else ''}"


def _blocks(entries: Sequence[Entry]) -> list[Block]:
    """A block a model, in which columns are methods; several tasks of the same method are in blocks of their own data."""
    table = table4()
    found: dict[tuple[str, Model], dict[tuple[str, str], Entry]] = {}
    for entry in entries:
        data = entry.result.metadata.get("data")
        name = data.get("file") if isinstance(data, Mapping) else None
        found.setdefault((str(name or entry.result.task), entry.model), {})[method_of(entry)] = entry
    own = [_block(table, model.label, name, partial(_own_cell, runs)) for (name, model), runs in found.items()]
    return own + [_block(table, each.model, "published", partial(_published_cell, each), True) for each in table.models]


def _block(table: Table4, label: str, about: str, cell: Callable[[Place], Cell | None], is_published: bool = False) -> Block:
    """Without the domains that have no score: FELM's own data has all, other data fewer."""
    cells = {row: [cell((*row, *column)) for column in table.columns] for row in table.rows}
    scored = {domain for (domain, _), found in cells.items() if is_published or any(found)}
    rows = [(domain, level, found) for (domain, level), found in cells.items() if domain in scored]
    return Block(label, about, is_published, rows)


def _own_cell(own: Mapping[tuple[str, str], Entry], place: Place) -> Cell | None:
    domain, level, mode, unit = place
    entry, suffix = own.get((mode, unit)), "" if domain == "all" else f"_{domain}"
    score = next(each for each in SCORES if each.name == f"{level}_f1{suffix}")
    found: Figure | None = entry.figure(score) if entry else None
    if entry is None or found is None:
        return None
    rest = [entry.result.metrics.get(f"{level}_{name}{suffix}") for name in ("precision", "recall")]
    if found.is_few:
        return Cell("too few", f"{found.counted} rows")
    # NaN differs from itself: a score that is not defined.
    shown = " / ".join("–" if value is None or value != value else score.write(value) for value in rest)
    interval = score.between(found.low, found.high) if found.low is not None and found.high is not None else "–"
    return Cell(score.write(found.value), shown, interval)


def _published_cell(model: PublishedModel, place: Place) -> Cell | None:
    if place not in model.cells:
        return None
    f1, precision, recall = ("–" if value is None else f"{value:.1f}" for value in model.cells[place])
    return Cell(f1, f"{precision} / {recall}")


def row(result: TaskResult, sample: Sample) -> SampleRow:
    doc, outputs = sample["doc"], texts(sample["filtered_resps"])
    judged = judge_document(doc, outputs, str(result.metadata.get("protocol", "paper")))
    parts: dict[str, Counts] = {}
    margin, outcome = None, "unscored"
    if judged.flagged is not None:
        wrong = sum(error != flag for error, flag in zip(judged.errors, judged.flagged, strict=True))
        margin, outcome = -wrong / len(judged.errors), "wrong" if wrong else "right"
        for level in ("segment", "response"):
            counts = tuple(float(each) for each in sample[f"{level}_f1"])
            parts |= {f"{level}_f1": counts, f"{level}_balanced_accuracy": counts, f"{level}_f1_{doc['domain']}": counts}
    return SampleRow(
        key_of(sample, doc["prompt"], *doc["segments"]),
        str(doc["index"]),
        snippet(doc["prompt"]),
        {
            **{key: doc[key] for key in ("prompt", "segments", "claims", "owners")},
            **{"id": doc["index"], "gold": [not each for each in doc["labels"]]},
        },
        outcome,
        margin,
        (doc["domain"],),
        {"flagged": judged.flagged, "unscored": judged.reason, "outputs": outputs, "mode": doc["mode"]},
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
