"""FACTOR as the rest of the suite knows it, and what samples must hold if a model was asked for
log-probabilities of choices."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lm_factuality.benchmarks.asked import Item, People, Unit, load_questions
from lm_factuality.benchmarks.audit import (
    OTHER_REQUEST,
    Expected,
    requests_of,
)
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
    Scoring,
)
from lm_factuality.benchmarks.factor import compare, metrics
from lm_factuality.benchmarks.factor.corpus import PAPER_WINDOW, parse_corpus
from lm_factuality.benchmarks.factor.joining import AUTHORS, DOLA, Join
from lm_factuality.benchmarks.factor.load import load_corpus
from lm_factuality.benchmarks.factor.metrics import SCORES, floor
from lm_factuality.benchmarks.factor.page import LEAD, SAMPLES, sections
from lm_factuality.benchmarks.factor.rows import Row as FactorRow
from lm_factuality.ground.errors import DataError, refuse
from lm_factuality.ground.published import Source
from lm_factuality.ground.tables import FORMATS
from lm_factuality.harness.outputs import ResultsFile, ScoredContinuation, TaskResult
from lm_factuality.harness.samples import same_responses, to_bool, to_float, to_int


class FactorAudit:
    """The model was asked for each choice of the row behind its prefix, joined as the rules say."""

    def __init__(self, expected: Expected) -> None:
        self._window = expected.metadata.get("window")
        is_dola = expected.metadata.get("protocol") == DOLA
        rule = DOLA if is_dola else expected.metadata.get("join", AUTHORS)
        self._join = Join(str(rule), str(expected.metadata.get("delimiter", " ")))

    def wrong_request(self, sample: Sample) -> str | None:
        doc = sample["doc"]
        expected = [[*self._join(doc["prefix"], choice), self._window] for choice in doc["choices"]]
        return None if requests_of(sample) == expected else OTHER_REQUEST


def keep(sample: Sample) -> Row:
    """The row and the scored choices. Raises ValueError: the responses are not as the task writes
    them."""
    same_responses(sample, [each[0] for each in sample["resps"]])
    doc = {
        key: sample["doc"][key] for key in ("choices", "gold", "problem", "doc_id", "error_types")
    }
    scores = [
        ScoredContinuation(
            to_float(logprob), to_bool(greedy), to_int(tokens), to_bool(truncated), str(problem)
        )
        for logprob, greedy, tokens, truncated, problem in sample["filtered_resps"]
    ]
    if len(scores) != len(doc["choices"]):
        raise ValueError(f"{len(scores)} responses for {len(doc['choices'])} choices")
    return {"doc": doc, "scores": scores}


def recount(task: TaskResult, rows: Rows) -> Recount:
    """By the task's protocol, over the error types of all rows. Runs of earlier releases lack the
    finer scores and the floor."""
    types = sorted({kind for row in rows for kind in row["doc"]["error_types"] if kind})
    protocol = str(task.metadata.get("protocol", "paper"))
    later: tuple[str, ...] = () if "brier_score" in task.metrics else metrics.FINER
    later += () if metrics.FLOOR in task.metrics else (metrics.FLOOR,)

    def row_metrics(row: Row) -> dict[str, Any]:
        found = metrics.row_metrics(row["doc"], row["scores"], protocol, types)
        return {name: value for name, value in found.items() if not name.startswith(later)}

    return Recount(row_metrics)


def _picked(sample: Mapping[str, Any], choices: Sequence[str], gold: int, is_right: bool) -> str:
    """The choice that won. Of equal ones the first that agrees with the score, since the protocol
    breaks ties."""
    scores = sample.get("factor_mean_logprob")
    if sample["doc"].get("protocol") == "dola":
        scores = [float(each[0]) for each in sample["filtered_resps"]]
    elif scores is None:
        sums = [float(each[0]) for each in sample["filtered_resps"]]
        scores = [
            value / max(1, len(choice.encode()))
            for value, choice in zip(sums, choices, strict=True)
        ]
    if is_right:
        return choices[gold]
    others = [index for index in range(len(choices)) if index != gold]
    return choices[max(others, key=lambda index: scores[index])]


_PROTOCOLS = {
    "code": "ties go to the first choice",
    "dola": "scored as by DoLa's script: sums, ties are right, always a space before a completion",
}


def notes(file: ResultsFile, task: TaskResult) -> Iterator[str]:
    for key in ("chat_template", "system_instruction"):
        if file.content.get(key):
            yield f"with a {key.replace('_', ' ')}, which the paper's runs did not have"
    if "factor_acc" not in task.metrics:
        yield "factor_acc is absent: the backend shows no tokenizer"
    elif task.metadata.get("window") != PAPER_WINDOW:
        window = task.metadata.get("window")
        yield (
            f"{'no window' if window is None else f'window of {window} tokens'}, the paper's is"
            f" {PAPER_WINDOW}"
        )
    if what := _PROTOCOLS.get(str(task.metadata.get("protocol"))):
        yield f"protocol {task.metadata['protocol']}: {what}"


_QUESTIONS = load_questions(__package__)
_TYPES = {option.value for option in _QUESTIONS["error_type"].options}


def read_units(path: Path) -> list[Unit]:
    """The rows of a table in the authors' columns, of whose contradictions people are asked
    (section 3.3, tables 2 and 3). Of the types the judge is the file. Raises ConfigError,
    DataError: no such table, or one that cannot be used."""
    if path.suffix.lower() not in FORMATS or not path.is_file():
        raise DataError(
            f"{path}: expected results or samples of a run, or a table in FACTOR's columns"
            f" ({', '.join(FORMATS)})"
        )
    config = {
        "task": path.stem,
        "dataset_path": str(path.resolve()),
        "metadata": {"config_source": str(path)},
    }
    loaded = load_corpus(parse_corpus(config))
    refuse(loaded.problems)
    return [_unit(number, row) for number, row in enumerate(loaded.rows) if not row.problem]


def _unit(number: int, row: FactorRow) -> Unit:
    beside = (("The true sentence", row.choices[row.gold]), ("Text before", row.prefix.strip()))
    wrong = [
        (place, row.choices[place], row.error_types[place])
        for place in range(len(row.choices))
        if place != row.gold
    ]
    judged = [
        (place, text, {"error_type": kind if kind in _TYPES else None})
        for place, text, kind in wrong
    ]
    items = [
        Item(f"{name}:{place}", name, text, beside, said.get(name))
        for place, text, said in judged
        for name in _QUESTIONS
    ]
    types = " + ".join(sorted({kind for _, _, kind in wrong if kind}))
    return Unit(str(number), row.doc_id, tuple(items), {"error type": types} if types else {})


_FACTOR = ("AI21Labs/factor", "ee9de30abf28e94b163167dc41ad51fbbdb48c32")

# Row counts: section 3.3 of the paper. Licences: its table 5, those of the corpora the files were
# made from.
SOURCES = (
    Source(
        "wiki_factor",
        *_FACTOR,
        "data/wiki_factor.csv",
        "793f9df0b0f02c9ba54d3f82d00d1f7355ad0c2e",
        "MIT",
        2994,
    ),
    Source(
        "news_factor",
        *_FACTOR,
        "data/news_factor.csv",
        "a57148bb7875cb77cddce0637b069576281c9a49",
        "ODC-By-1.0",
        1036,
    ),
    Source(
        "expert_factor",
        *_FACTOR,
        "data/expert_factor.csv",
        "3bd51de8d01156730c61cdc42b955b69192e682d",
        "MIT",
        236,
    ),
)

BENCHMARK = Benchmark(
    kind="factor",
    title="FACTOR",
    scoring=Scoring(
        headlines=("factor_acc", "acc_bytes"),
        scores=SCORES,
        keep=keep,
        recount=recount,
        floor=floor,
    ),
    data=Data(
        sources=SOURCES,
        settings=("protocol", "window", "spacing", "join", "delimiter"),
    ),
    page=Page(
        lead=LEAD,
        sections=sections,
        samples=SAMPLES,
    ),
    comparing=Comparing(
        notes=notes,
        tables=compare.tables,
        draw=compare.draw,
    ),
    checks=Checks(
        audit=FactorAudit,
    ),
    order=10,
    people=People(tuple(_QUESTIONS.values()), data=read_units),
)
