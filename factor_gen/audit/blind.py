"""Blind reading: people judge contradictions of several benchmarks without knowing their origin.

``factor-gen read`` calls it. Sheets, pages and labels are those of `lm_factuality.people`.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

from factor_gen.audit.read import find_table, read_benchmark, read_generators
from factor_gen.audit.records import EstimatedShare
from factor_gen.records import last_words
from lm_factuality.benchmarks.asked import SKIP, Item, Unit, load_questions
from lm_factuality.benchmarks.declaration import ComparisonTable
from lm_factuality.benchmarks.factor.benchmark import BENCHMARK
from lm_factuality.benchmarks.factor.rows import Row, normalise_spacing
from lm_factuality.ground.console import format_number
from lm_factuality.ground.files import sha256_of
from lm_factuality.people.agreement import agreement_of, tables_of
from lm_factuality.people.labels import Key, Labels, SheetItem, SheetSource
from lm_factuality.people.sheet import Pool, Sheet, make_sheet

QUESTION = "verdict"
GOOD = "good"
"""The answer about a contradiction that nothing is wrong with."""

# The strata of a contradiction, by which results are grouped. Equally many rows are drawn of each
# source, i.e. benchmark.
_SOURCE = "source"
_TYPE = "type"
_GENERATOR = "generator"
_CONTEXT_WORDS = 150  # words of the prefix that a reader sees


def draw_blind_sheet(benchmarks: Sequence[str], rows: int, seed: int, run_code: bool) -> Sheet:
    """Draw equally many rows of each benchmark, and ask people about all their contradictions.

    Args:
        benchmarks: Different benchmarks, as `read_benchmark` takes them.
        rows: How many rows of each are drawn at most. A smaller benchmark limits all others.
        seed: Decides which rows are drawn, and their order.
        run_code: Whether the YAML of a task may run code, as in `read_benchmark`.

    Raises:
        ConfigError: A benchmark does not exist.
        DataError: A benchmark cannot be read, or has no rows.
    """
    # A unit of a sheet is a row with all its contradictions.
    units_by_benchmark = [
        _read_units(benchmark, number, run_code) for number, benchmark in enumerate(benchmarks)
    ]
    num_rows_of_each = min(rows, *map(len, units_by_benchmark))
    pool = Pool(
        BENCHMARK.kind,
        questions=tuple(load_questions(__package__).values()),
        sources=tuple(_describe_source(benchmark) for benchmark in benchmarks),
        units=tuple(chain.from_iterable(units_by_benchmark)),
    )
    return make_sheet(pool, num_rows_of_each * len(benchmarks), stratify=(_SOURCE,), seed=seed)


def _describe_source(benchmark: str) -> SheetSource:
    """Return a benchmark with the hash of its file; without a hash if it is no local file."""
    path = find_table(benchmark)
    return SheetSource(benchmark, sha256_of(path) if path.is_file() else "")


def _read_units(benchmark: str, benchmark_number: int, run_code: bool) -> list[Unit]:
    """Read a benchmark as units of a sheet. A unit has a row's questions, one per contradiction.

    Args:
        benchmark: The benchmark. Rows that have a problem are left out.
        benchmark_number: The number of the benchmark in the sheet.
        run_code: Whether the YAML of a task may run code, as in `read_benchmark`.
    """
    rows = read_benchmark(benchmark, run_code).rows
    generators_by_row = read_generators(benchmark, run_code)
    units = []
    for index, (row, generators) in enumerate(zip(rows, generators_by_row, strict=True)):
        if row.problem:
            continue
        unit = Unit(
            key=str(index),
            # Equal names of documents in two benchmarks mean different documents.
            cluster=f"{benchmark_number}/{row.doc_id}",
            items=tuple(_make_items(row, generators)),
            strata={_SOURCE: benchmark},
            source=benchmark_number,
        )
        units.append(unit)
    return units


def _make_items(row: Row, generators: Mapping[int, str]) -> Iterator[Item]:
    """Yield a question about each contradiction of a row, beside the true completion and context.

    Args:
        row: The row.
        generators: What generated each contradiction, such as ``llm``, by the index of the choice.
    """
    # In one of the published files, only true sentences have spaces before punctuation. Readers
    # would notice this.
    row = normalise_spacing(row)
    context = (
        ("The true sentence", row.choices[row.gold].strip()),
        ("Text before", last_words(row.prefix, _CONTEXT_WORDS).strip()),
    )
    for index, choice in enumerate(row.choices):
        if index == row.gold:
            continue
        groups = {_TYPE: row.error_types[index], _GENERATOR: generators.get(index, "")}
        item_id = f"{QUESTION}:{index}"
        yield Item(item_id, QUESTION, choice.strip(), context, groups=groups)


class _Reading(NamedTuple):
    """What readers found about one contradiction."""

    item: SheetItem
    verdicts: Sequence[str]
    """The answers of all readers who could tell."""

    def share(self, verdict: str) -> float:
        """Return the share of readers with this verdict."""
        return self.verdicts.count(verdict) / len(self.verdicts)


def tabulate_reading(key: Key, labels: Labels) -> Iterator[ComparisonTable]:
    """Tabulate what readers found on a blind sheet.

    Args:
        key: The key of the sheet, which says which benchmark each contradiction is from.
        labels: The answers of one or more readers.

    Yields:
        The shares of bad contradictions. With several readers, also how far they agree on which
        contradictions are bad.
    """
    yield _tabulate_shares(key, labels)
    if len(labels.people) > 1:
        yield from _tabulate_agreement(key, labels)


def _tabulate_shares(key: Key, labels: Labels) -> ComparisonTable:
    """Tabulate which share of the contradictions of each benchmark is bad, and for which reasons.

    A bad verdict is any answer but "good", and names what is wrong with a contradiction. If one of
    two readers calls a contradiction good, it counts as half a bad one.

    Example:
        A row for the contradictions of one error type, of which 20 were read::

            source       contradictions  read    bad   95% interval  compatible  not_fluent
            news_factor  type entity       20  25.0%  10.1% - 39.9%       15.0%       10.0%
    """
    readings = list(_collect_readings(key, labels))
    bad_verdicts = _list_bad_verdicts(key)

    # The "#" is not printed. It marks a column of numbers, which are aligned to the right.
    verdict_columns = [f"#{verdict}" for verdict in bad_verdicts]
    columns = ["source", "contradictions", "#read", "#bad", "#95% interval", *verdict_columns]
    rows = []
    for (source, label), group in sorted(_group_readings(readings).items()):
        rows.append([source, label, *_share_cells(group, bad_verdicts)])

    title = f"sheet {key.sheet}, read by {', '.join(labels.people)}"
    num_items = len(key.items)
    num_unread = num_items - len(readings)
    note = f"not read, or nobody could tell: {num_unread} of {num_items}"
    return ComparisonTable(title, columns, rows, [note])


def _list_bad_verdicts(key: Key) -> list[str]:
    """Return the answers that readers could give about bad contradictions, in order.

    All but "good" are such answers: each is a reason why a contradiction is bad.
    """
    # A dict keeps the first of equal verdicts.
    verdicts = dict.fromkeys(chain.from_iterable(item.options for item in key.items))
    return [verdict for verdict in verdicts if verdict != GOOD]


def _share_cells(readings: Sequence[_Reading], bad_verdicts: Sequence[str]) -> list[str]:
    """Return the cells of some readings: their number, and the shares of the bad verdicts.

    Example:
        ``["20", "25.0%", "10.1% - 39.9%", "15.0%", "10.0%"]`` for 20 readings: the share of all bad
        verdicts with its interval, and the shares of two bad verdicts.
    """
    bad = EstimatedShare.of(
        [1 - reading.share(GOOD) for reading in readings],
        [reading.item.cluster for reading in readings],
    )
    cells = [str(len(readings)), format_number(bad.value), bad.interval]
    for verdict in bad_verdicts:
        shares = [reading.share(verdict) for reading in readings]
        cells.append(format_number(sum(shares) / len(shares)))
    return cells


def _group_readings(readings: Iterable[_Reading]) -> dict[tuple[str, str], list[_Reading]]:
    """Group the contradictions that were read by source, by source and type, and by generator.

    Returns:
        The groups by source and label. Each contradiction is in several groups, such as
        ``("news_factor", "all")`` and ``("news_factor", "type entity")``.
    """
    groups = defaultdict(list)
    for reading in readings:
        strata = reading.item.strata
        source = strata[_SOURCE]
        groups[source, "all"].append(reading)
        for stratum in (_TYPE, _GENERATOR):
            # A published file does not say which generator made a contradiction.
            if strata.get(stratum):
                groups[source, f"{stratum} {strata[stratum]}"].append(reading)
    return groups


def _collect_readings(key: Key, labels: Labels) -> Iterator[_Reading]:
    """Yield the verdicts about each contradiction that at least one reader could judge."""
    for item in key.items:
        answers = labels.answers.get(item.number, {})
        verdicts = [answer for answer in answers.values() if answer != SKIP]
        if verdicts:
            yield _Reading(item, verdicts)


def _tabulate_agreement(key: Key, labels: Labels) -> Iterable[ComparisonTable]:
    """Tabulate how far readers agree on which contradictions are bad, whatever the reason."""
    # Readers agree that a contradiction is bad even if they give two reasons.
    answers_without_reasons = {}
    for number, answers in labels.answers.items():
        answers_without_reasons[number] = {
            person: answer if answer in (GOOD, SKIP) else "bad"
            for person, answer in answers.items()
        }
    labels = replace(labels, answers=answers_without_reasons, majority_answers={})
    cells = agreement_of(key, labels)
    return tables_of([cell for cell in cells if cell.table == "people"], {})
