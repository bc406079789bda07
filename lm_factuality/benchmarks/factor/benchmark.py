"""FACTOR as the rest of the suite knows it, and how a leaderboard checks its samples."""

from collections.abc import Iterator
from pathlib import Path

from lm_factuality.benchmarks.asked import Item, People, Unit, load_questions
from lm_factuality.benchmarks.audit import (
    DIFFERENT_REQUEST,
    ExpectedRun,
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
from lm_factuality.harness.samples import results_in


class FactorAudit:
    """The model was asked for each choice of the row behind its prefix, joined as the rules say."""

    def __init__(self, expected: ExpectedRun) -> None:
        metadata = expected.metadata
        rule = DOLA if metadata.get("protocol") == DOLA else metadata.get("join", AUTHORS)
        self._window = metadata.get("window")
        self._join = Join(str(rule), str(metadata.get("delimiter", " ")))

    def request_problem(self, sample: Sample) -> str | None:
        """Return what is wrong with a sample's requests, if anything."""
        doc = sample["doc"]
        expected = [[*self._join(doc["prefix"], choice), self._window] for choice in doc["choices"]]
        return None if request_arguments(sample) == expected else DIFFERENT_REQUEST


def keep(sample: Sample) -> KeptRow:
    """Keep the row and its scored choices.

    Raises:
        ValueError: The responses are not as the task writes them.
    """
    doc = {
        key: sample["doc"][key] for key in ("choices", "gold", "problem", "doc_id", "error_types")
    }
    scores = results_in(sample, ScoredContinuation)
    if len(scores) != len(doc["choices"]):
        raise ValueError(f"{len(scores)} responses for {len(doc['choices'])} choices")
    return {"doc": doc, "scores": scores}


def recount(task: TaskResult, rows: KeptRows) -> Rescorer:
    """Score kept rows again, by the task's protocol and over the error types of all rows."""
    types = sorted({kind for row in rows for kind in row["doc"]["error_types"] if kind})
    protocol = str(task.metadata.get("protocol", "paper"))
    return Rescorer(lambda row: metrics.row_metrics(row["doc"], row["scores"], protocol, types))


_PROTOCOLS = {
    "code": "ties go to the first choice",
    "dola": "scored as by DoLa's script: sums, ties are right, always a space before a completion",
}


def notes(file: ResultsFile, task: TaskResult) -> Iterator[str]:
    """Say what sets a run apart from the paper's."""
    for key in ("chat_template", "system_instruction"):
        if file.content.get(key):
            yield f"with a {key.replace('_', ' ')}, which the paper's runs did not have"
    window = task.metadata.get("window")
    if "factor_acc" not in task.metrics:
        yield "factor_acc is absent: the backend shows no tokenizer"
    elif window != PAPER_WINDOW:
        size = "no window" if window is None else f"window of {window} tokens"
        yield f"{size}, the paper's is {PAPER_WINDOW}"
    protocol = str(task.metadata.get("protocol"))
    if protocol in _PROTOCOLS:
        yield f"protocol {protocol}: {_PROTOCOLS[protocol]}"


_QUESTIONS = load_questions(__package__)
_TYPES = {option.value for option in _QUESTIONS["error_type"].options}


def read_units(path: Path) -> list[Unit]:
    """Return the rows of a table in the authors' columns, whose contradictions people judge.

    This is section 3.3 of the paper with its tables 2 and 3. The file is the judge of error types.

    Raises:
        ConfigError: A column is missing.
        DataError: There is no such table, or it is broken.
    """
    if path.suffix.lower() not in FORMATS or not path.is_file():
        raise DataError(
            f"{path}: expected results or samples of a run, or a table in FACTOR's columns"
            f" ({', '.join(FORMATS)})"
        )
    metadata = {"config_source": str(path)}
    config = {"task": path.stem, "dataset_path": str(path.resolve()), "metadata": metadata}
    loaded = load_corpus(parse_corpus(config))
    refuse(loaded.problems)
    return [_unit(number, row) for number, row in enumerate(loaded.rows) if not row.problem]


def _unit(number: int, row: FactorRow) -> Unit:
    context = (("The true sentence", row.choices[row.gold]), ("Text before", row.prefix.strip()))
    items = []
    types = set()
    for place, (text, kind) in enumerate(zip(row.choices, row.error_types, strict=True)):
        if place == row.gold:
            continue
        types.add(kind)
        for question in _QUESTIONS:
            verdict = kind if question == "error_type" and kind in _TYPES else None
            items.append(Item(f"{question}:{place}", question, text, context, verdict))
    facets = {"error type": " + ".join(sorted(types - {""}))} if types - {""} else {}
    return Unit(str(number), row.doc_id, tuple(items), facets)


_FACTOR = ("AI21Labs/factor", "ee9de30abf28e94b163167dc41ad51fbbdb48c32")

# Row counts: section 3.3 of the paper. Licences: its table 5, those of the corpora the files were
# made from.
SOURCES = tuple(
    Source(f"{name}_factor", *_FACTOR, f"data/{name}_factor.csv", blob, licence, rows)
    for name, blob, licence, rows in (
        ("wiki", "793f9df0b0f02c9ba54d3f82d00d1f7355ad0c2e", "MIT", 2994),
        ("news", "a57148bb7875cb77cddce0637b069576281c9a49", "ODC-By-1.0", 1036),
        ("expert", "3bd51de8d01156730c61cdc42b955b69192e682d", "MIT", 236),
    )
)

BENCHMARK = Benchmark(
    kind="factor",
    title="FACTOR",
    scoring=Scoring(
        headlines=("factor_acc", "acc_bytes"),
        scores=SCORES,
        keep_row=keep,
        make_rescorer=recount,
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
    ),
    checks=Checks(
        audit=FactorAudit,
    ),
    order=10,
    people=People(tuple(_QUESTIONS.values()), read_units=read_units),
)
