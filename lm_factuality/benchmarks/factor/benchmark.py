"""The declaration of FACTOR, which results, report, comparisons and leaderboards read.

It also holds the leaderboard's check of FACTOR's samples and the questions that people are asked.
"""

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
from lm_factuality.benchmarks.factor import compare, metrics, mutations
from lm_factuality.benchmarks.factor.corpus import PAPER_WINDOW, FactorColumns
from lm_factuality.benchmarks.factor.joining import AUTHORS, DOLA, Join
from lm_factuality.benchmarks.factor.load import rows_from_columns
from lm_factuality.benchmarks.factor.metrics import SCORES, guess_baseline_of
from lm_factuality.benchmarks.factor.page import LEAD, SAMPLES, task_sections
from lm_factuality.benchmarks.factor.rows import Row as FactorRow
from lm_factuality.benchmarks.factor.rows import named_error_types
from lm_factuality.ground.errors import DataError, refuse
from lm_factuality.ground.published import Source
from lm_factuality.ground.tables import FORMATS, read_table
from lm_factuality.harness.outputs import ResultsFile, ScoredContinuation, TaskResult
from lm_factuality.harness.samples import results_in


class FactorAudit:
    """Checks that the model was asked for each choice of a row behind the row's prefix."""

    def __init__(self, expected: ExpectedRun) -> None:
        """Read the window and the rule of joining that the leaderboard asks for.

        Args:
            expected: How the leaderboard wants the task to be run.
        """
        metadata = expected.metadata
        rule = DOLA if metadata.get("protocol") == DOLA else metadata.get("join", AUTHORS)
        # None stands for a run without a window.
        self._window = metadata.get("window")
        self._join = Join(str(rule), str(metadata.get("delimiter", " ")))

    def request_problem(self, sample: Sample) -> str | None:
        """Return what is wrong with the requests of a sample, or None if nothing is."""
        doc = sample["doc"]
        # lm_eval records a request as its context, its continuation and the window.
        expected_requests = [
            [*self._join(doc["prefix"], choice), self._window] for choice in doc["choices"]
        ]
        return None if request_arguments(sample) == expected_requests else DIFFERENT_REQUEST


def select_for_rescoring(sample: Sample) -> KeptRow:
    """Select the fields of a sample that are needed to score its row again.

    Returns:
        The row with its choices as ``doc``, and the log-probabilities of the choices as ``scores``.

    Raises:
        ValueError: There is not one response for each choice.
    """
    doc = {
        key: sample["doc"][key] for key in ("choices", "gold", "problem", "doc_id", "error_types")
    }
    scores = results_in(sample, ScoredContinuation)
    # A file from elsewhere may have lost responses.
    if len(scores) != len(doc["choices"]):
        raise ValueError(f"{len(scores)} responses for {len(doc['choices'])} choices")
    return {"doc": doc, "scores": scores}


def make_rescorer(task: TaskResult, rows: KeptRows) -> Rescorer:
    """Return the function that scores the rows of a task again.

    Args:
        task: The results of the task, which name its protocol.
        rows: All rows of the task, as `select_for_rescoring` returns them. Each error type that
            occurs in any of them has metrics of its own.
    """
    error_types = named_error_types(row["doc"]["error_types"] for row in rows)
    protocol = str(task.metadata.get("protocol", "paper"))
    return Rescorer(
        lambda row: metrics.row_metrics(row["doc"], row["scores"], protocol, error_types)
    )


_NOTE_BY_PROTOCOL = {
    "code": "ties go to the first choice",
    "dola": "scored as by DoLa's script: sums, ties are right, always a space before a completion",
}


def notes_on_run(file: ResultsFile, task: TaskResult) -> Iterator[str]:
    """Name the settings of a run that differ from those of the paper's runs.

    Args:
        file: The results file of the run.
        task: The results of a FACTOR task in it.

    Yields:
        A note, such as ``window of 2048 tokens, the paper's is 1024``.
    """
    # A results file has these keys only if the run set them.
    for key in ("chat_template", "system_instruction"):
        if file.content.get(key):
            yield f"with a {key.replace('_', ' ')}, which the paper's runs did not have"

    window = task.metadata.get("window")
    # A backend without a tokenizer cannot count tokens. The run then has neither factor_acc nor a
    # window, whatever its settings say.
    if "factor_acc" not in task.metrics:
        yield "factor_acc is absent: the backend shows no tokenizer"
    elif window != PAPER_WINDOW:
        size = "no window" if window is None else f"window of {window} tokens"
        yield f"{size}, the paper's is {PAPER_WINDOW}"

    protocol = str(task.metadata.get("protocol"))
    # The protocol of the paper needs no note.
    if protocol in _NOTE_BY_PROTOCOL:
        yield f"protocol {protocol}: {_NOTE_BY_PROTOCOL[protocol]}"


_QUESTIONS = load_questions(__package__)
PEOPLE = People(tuple(_QUESTIONS.values()), asks_about_data=True)
_ERROR_TYPES = {option.value for option in _QUESTIONS["error_type"].options}


def read_contradiction_units(path: Path) -> list[Unit]:
    """Read a table of FACTOR, and make the questions that people answer about its contradictions.

    In section 3.3 of the paper (tables 2 and 3), people say whether the contradictions of a
    benchmark are false, and which error type they have.

    Args:
        path: A table with the columns of FACTOR's published files.

    Returns:
        A unit for each row that can be scored, with all questions about it.

    Raises:
        ConfigError: A column is missing.
        DataError: There is no such table, or lines of it cannot be read.
    """
    if path.suffix.lower() not in FORMATS or not path.is_file():
        raise DataError(
            f"{path}: expected results or samples of a run, or a table in FACTOR's columns"
            f" ({', '.join(FORMATS)})"
        )
    table = read_table(path.resolve())
    refuse(table.problems)
    rows = rows_from_columns(str(path), FactorColumns(), table)
    return [_unit_of_row(index, row) for index, row in enumerate(rows) if not row.problem]


def _unit_of_row(row_index: int, row: FactorRow) -> Unit:
    """Make the questions about a row: every question about each of its contradictions.

    Args:
        row_index: The number of the row in its file, from 0.
        row: The row.

    Returns:
        The questions as one unit, which people are given as a whole. Its ``strata`` name the error
        types of the row, so that units can be drawn by them.
    """
    # People see these texts beside the contradiction.
    context = (("The true sentence", row.choices[row.gold]), ("Text before", row.prefix.strip()))
    items = []
    for index, contradiction in enumerate(row.choices):
        if index == row.gold:
            continue
        error_type = row.error_types[index]
        for question in _QUESTIONS:
            answer_in_file = None
            # The file answers only one of the questions: which error type a contradiction has.
            if question == "error_type" and error_type in _ERROR_TYPES:
                answer_in_file = error_type
            item_id = f"{question}:{index}"
            items.append(Item(item_id, question, contradiction, context, answer_in_file))

    error_types = named_error_types([row.error_types])
    strata = {"error type": " + ".join(error_types)} if error_types else {}
    return Unit(str(row_index), row.doc_id, tuple(items), strata)


_REPOSITORY = "AI21Labs/factor"
_COMMIT = "ee9de30abf28e94b163167dc41ad51fbbdb48c32"


def _published_file(corpus: str, blob: str, licence: str, rows: int) -> Source:
    """Describe one of the three files that the authors published.

    Args:
        corpus: ``wiki``, ``news`` or ``expert``.
        blob: Git's hash of the content of the file.
        licence: The licence of the texts that the file was made from (table 5 of the paper).
        rows: The number of rows (section 3.3 of the paper).
    """
    # All three files are in one commit of the authors' repository.
    path = f"data/{corpus}_factor.csv"
    return Source(f"{corpus}_factor", _REPOSITORY, _COMMIT, path, blob, licence, rows)


SOURCES = (
    _published_file("wiki", "793f9df0b0f02c9ba54d3f82d00d1f7355ad0c2e", "MIT", 2994),
    _published_file("news", "a57148bb7875cb77cddce0637b069576281c9a49", "ODC-By-1.0", 1036),
    _published_file("expert", "3bd51de8d01156730c61cdc42b955b69192e682d", "MIT", 236),
)

BENCHMARK = Benchmark(
    kind="factor",
    title="FACTOR",
    scoring=Scoring(
        headlines=("factor_acc", "acc_bytes"),
        scores=SCORES,
        keep_row=select_for_rescoring,
        make_rescorer=make_rescorer,
        guess_baseline=guess_baseline_of,
    ),
    data=Data(
        sources=SOURCES,
        settings=("protocol", "window", "spacing", "join", "delimiter"),
    ),
    page=Page(
        lead=LEAD,
        sections=task_sections,
        samples=SAMPLES,
    ),
    comparing=Comparing(
        notes=notes_on_run,
        tables=compare.comparison_tables,
    ),
    checks=Checks(
        audit=FactorAudit,
        certifiable=(mutations.SETTING,),
    ),
    order=10,
    people=PEOPLE,
)
