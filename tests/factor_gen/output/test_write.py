"""The files of a benchmark: complete or absent, the same each time, and read back unchanged."""

from __future__ import annotations

import csv
import hashlib
import json
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from factor_gen.choose import ChosenRow, DocumentOutcome
from factor_gen.output.folder import finish_earlier_build, refuse_to_overwrite
from factor_gen.output.write import Provenance, write_benchmark
from factor_gen.output.write import make_row as make_record
from factor_gen.records import CUT_WORDS, Candidate, Example, last_words
from lm_factuality.benchmarks.factor.corpus import parse_corpus
from lm_factuality.benchmarks.factor.load import load_corpus
from lm_factuality.benchmarks.factor.rows import Row
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.replies import replace_surrogates
from tests.factor_gen.corpora import contents
from tests.factor_gen.output.conftest import make_row, make_settings

FILES = [
    "README.md",
    "harbours.csv",
    "harbours.parquet",
    "harbours.yaml",
    "manifest.json",
    "unused.jsonl",
]
"""The files of the benchmark ``harbours``."""


@pytest.fixture
def folder(tmp_path: Path, outcomes: list[DocumentOutcome], provenance: Provenance) -> Path:
    """Return the folder of a written benchmark of three rows."""
    write_benchmark(make_settings(), outcomes, tmp_path, provenance)
    return tmp_path


def test_a_benchmark_has_a_table_in_two_formats_a_task_a_card_and_records(folder: Path) -> None:
    assert list(contents(folder)) == [
        "README.md",
        "harbours.csv",
        "harbours.parquet",
        "harbours.yaml",
        "manifest.json",
        "unused.jsonl",
    ]


def test_the_same_outcomes_give_the_same_bytes(
    folder: Path,
    tmp_path_factory: pytest.TempPathFactory,
    outcomes: list[DocumentOutcome],
    provenance: Provenance,
) -> None:
    """Others can build the benchmark again and compare its checksum."""
    second_folder = tmp_path_factory.mktemp("second")

    write_benchmark(make_settings(), iter(outcomes), second_folder, provenance)

    assert contents(second_folder) == contents(folder)


def test_engine_and_number_of_workers_change_no_file(
    folder: Path,
    tmp_path_factory: pytest.TempPathFactory,
    outcomes: list[DocumentOutcome],
    provenance: Provenance,
) -> None:
    """No file says how the benchmark was computed, so that checksums can be compared."""
    second_folder = tmp_path_factory.mktemp("second")

    write_benchmark(make_settings(engine="ray", workers=3), outcomes, second_folder, provenance)

    assert contents(second_folder) == contents(folder)


def read_csv(folder: Path) -> list[dict[str, str]]:
    """Return the rows of the CSV file of a benchmark."""
    with (folder / "harbours.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_a_written_benchmark_says_how_many_rows_it_has(
    tmp_path: Path, outcomes: list[DocumentOutcome], provenance: Provenance
) -> None:
    """Three of the seven documents gave a row."""
    built = write_benchmark(make_settings(), outcomes, tmp_path, provenance)

    assert built.rows == 3
    assert len(read_csv(tmp_path)) == 3


def test_a_row_has_the_columns_of_the_authors(folder: Path) -> None:
    """Programs that read the authors' files can read these; the spelling "turncated" is theirs."""
    columns = set(read_csv(folder)[0])

    assert columns > {
        "doc_id",
        "full_prefix",
        "turncated_prefixes",
        "completion",
        "contradiction_2",
    }


def test_a_row_says_how_each_contradiction_was_made(folder: Path) -> None:
    """A user who doubts a row can look up its edits, rules and scores."""
    row = read_csv(folder)[0]

    assert row["contradiction_0_type"] == "entity"
    assert row["contradiction_0_edit"] == "north -> south"
    assert row["contradiction_0_nli"] == "0.75"
    assert row["contradiction_0_fluency"] == "-0.125"
    assert row["contradiction_1_generator"] == "rules/date"


def test_a_contradiction_without_a_score_has_an_empty_cell(folder: Path) -> None:
    """The NLI model did not score the second contradiction, and 0 would be a score."""
    assert read_csv(folder)[0]["contradiction_1_nli"] == ""


def test_the_parquet_file_has_the_columns_of_the_csv_file(folder: Path) -> None:
    table = pyarrow.parquet.read_table(folder / "harbours.parquet")

    assert table.column_names == list(read_csv(folder)[0])


def test_scores_are_numbers_or_null_in_the_parquet_file(folder: Path) -> None:
    """Users want to sort and average scores."""
    table = pyarrow.parquet.read_table(folder / "harbours.parquet")

    assert str(table.schema.field("contradiction_0_nli").type) == "double"
    assert table.to_pylist()[0]["contradiction_1_nli"] is None


def test_documents_without_a_row_are_listed_with_their_reason(folder: Path) -> None:
    lines = (folder / "unused.jsonl").read_text(encoding="utf-8").splitlines()

    unused = [json.loads(line) for line in lines]
    assert [document["doc_id"] for document in unused] == ["short", "empty", "twice", "odd"]
    assert unused[0] == {
        "doc_id": "short",
        "stage": "select",
        "reason": "no sentence of 10 words or more",
        "draws": 0,
    }


@pytest.fixture
def manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of a written benchmark."""
    return json.loads((folder / "manifest.json").read_text(encoding="utf-8"))


def test_the_manifest_has_the_size_and_the_sum_of_every_other_file(
    manifest: dict[str, Any], folder: Path
) -> None:
    """Anyone can check that a copy is complete."""
    assert {entry["name"] for entry in manifest["files"]} == set(FILES) - {"manifest.json"}
    for entry in manifest["files"]:
        file_bytes = (folder / entry["name"]).read_bytes()
        assert entry["bytes"] == len(file_bytes)
        assert entry["sha256"] == hashlib.sha256(file_bytes).hexdigest()


def test_the_manifest_counts_documents_and_rows(manifest: dict[str, Any]) -> None:
    """Of seven documents three gave a row.

    In four a sentence was selected, which makes them eligible.
    """
    counts = manifest["counts"]

    assert counts["documents"] == 7
    assert counts["rows"] == 3
    assert counts["eligible"] == 4


def test_the_manifest_counts_documents_without_a_row_by_reason(manifest: dict[str, Any]) -> None:
    """A frequent reason points to a setting that is too strict."""
    [repeated, short, *_] = manifest["counts"]["unused"]

    assert repeated == {"stage": "read", "reason": "repeated id", "documents": 1}
    assert short["documents"] == 2


def test_the_manifest_counts_rejected_and_lost_contradictions(manifest: dict[str, Any]) -> None:
    """A filter rejected three, and three edits changed nothing."""
    assert manifest["counts"]["rejected"] == {"filter: not fluent": 3}
    assert manifest["counts"]["lost"] == {"no change": 3}


@pytest.mark.parametrize(
    ("error_type", "generator", "count"),
    [("entity", "rules/swap", 4), ("predicate", "rules/verb", 6)],
)
def test_the_manifest_counts_generated_contradictions_by_type_and_generator(
    manifest: dict[str, Any], error_type: str, generator: str, count: int
) -> None:
    """Rejected contradictions count as well.

    Each of the three rows has one entity error and two predicate errors, of which one was
    rejected. The document without a row has one more entity error.
    """
    entry = {"type": error_type, "generator": generator, "candidates": count}

    assert entry in manifest["counts"]["generated"]


def test_the_manifest_counts_the_types_of_chosen_contradictions(manifest: dict[str, Any]) -> None:
    """Each of the three rows has one contradiction of each of three types."""
    assert manifest["counts"]["chosen"] == {
        "predicate": 3,
        "entity": 3,
        "circumstance": 3,
        "coreference": 0,
        "link": 0,
    }
    # By the number of types in a row: all three rows have three.
    assert manifest["counts"]["types_in_a_row"] == {"3": 3}


def test_the_manifest_has_an_audit_of_the_rows(manifest: dict[str, Any]) -> None:
    """The audit warns of rows that can be solved without knowledge, as by the number of edits."""
    audit = manifest["audit"]

    assert audit["rows"] == 3
    assert audit["leaks"] == []
    # The contradictions of a row differ by one word ("south"), one ("1800") and two ("soon fled").
    assert audit["distance"]["mean"] == pytest.approx(4 / 3)


def test_manifest_has_every_setting_that_affects_rows(manifest: dict[str, Any]) -> None:
    """With these settings and versions others get the same rows."""
    packages = {"factor_gen", "sentencex", "torch", "scikit-learn", "rapidfuzz"}

    assert manifest["settings"]["select"]["min_words"] == 10
    assert manifest["stages"] == {"select": {"min_words": 10}}
    assert set(manifest["versions"]) >= packages


def test_manifest_has_no_absolute_paths(manifest: dict[str, Any], folder: Path) -> None:
    """The manifest is published."""
    assert str(folder) not in json.dumps(manifest)


def fail_after(outcomes: Sequence[DocumentOutcome]) -> Iterator[DocumentOutcome]:
    """Yield outcomes, and then fail as a stage may do."""
    yield from outcomes
    raise RuntimeError("the stage broke")


def test_a_failure_leaves_no_files(
    tmp_path: Path, outcomes: list[DocumentOutcome], provenance: Provenance
) -> None:
    """An incomplete benchmark must not be taken for a complete one."""
    with pytest.raises(RuntimeError, match="the stage broke"):
        write_benchmark(make_settings(), fail_after(outcomes[:3]), tmp_path, provenance)

    assert contents(tmp_path) == {}


def test_a_failure_keeps_the_files_of_an_earlier_build(
    folder: Path, outcomes: list[DocumentOutcome], provenance: Provenance
) -> None:
    """The earlier benchmark is complete, and somebody may use it."""
    earlier_files = contents(folder)

    with pytest.raises(RuntimeError, match="the stage broke"):
        write_benchmark(make_settings(), fail_after(outcomes[:3]), folder, provenance)

    assert contents(folder) == earlier_files


def test_a_build_without_rows_fails_and_says_why(tmp_path: Path, provenance: Provenance) -> None:
    unused = [Example("a").drop("select", "empty"), Example("b").drop("select", "empty")]

    with pytest.raises(DataError, match=r"none of the 2 documents gave one \(2 x select: empty\)"):
        write_benchmark(make_settings(), unused, tmp_path, provenance)

    assert contents(tmp_path) == {}


def test_a_folder_that_cannot_be_written_is_named(
    tmp_path: Path, outcomes: list[DocumentOutcome], provenance: Provenance
) -> None:
    """The user has named a file in place of a folder."""
    (tmp_path / "file").write_text("", encoding="utf-8")

    with pytest.raises(DataError, match="file: cannot be written"):
        write_benchmark(make_settings(), outcomes, tmp_path / "file", provenance)


def load_rows(path: Path) -> Sequence[Row]:
    """Return the rows of a table of the benchmark as the task reads them."""
    config = {
        "task": "t",
        "dataset_path": str(path),
        "metadata": {"columns": {"prefix": "full_prefix"}},
    }
    loaded = load_corpus(parse_corpus(config))
    assert not loaded.problems
    return loaded.rows


def row_with_texts(number: int, prefix: str, completion: str, false: str, edit: str) -> ChosenRow:
    """Return a row with arbitrary texts.

    Args:
        number: The number of its document.
        prefix: The text before the completion.
        completion: The true completion.
        false: The end of all contradictions, which differ in what is before it.
        edit: The edit of all contradictions.
    """
    contradictions = tuple(
        Candidate(f"{number}{index}{false}", "entity", edit, "rules/x") for index in range(3)
    )
    document = Example(f"d{number}", prefix, completion, candidates=contradictions)
    return ChosenRow(document, contradictions)


TEXT = st.text(st.characters(codec=None), max_size=40)
"""Texts of any characters, even those that UTF-8 cannot encode."""


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(TEXT, TEXT, TEXT, TEXT), min_size=1, max_size=4))
@example([("a\r\nb\rc\n", '"quoted", and,', "\x00null\x00", "\ud800half")])
@example([("\ufeffmark", "NA", " ", "1.0")])
def test_written_text_is_read_back_except_surrogates(
    texts: list[tuple[str, str, str, str]],
) -> None:
    """Lone surrogates, which are halves of characters, cannot be written as UTF-8."""
    chosen_rows = [row_with_texts(number, *row_texts) for number, row_texts in enumerate(texts)]

    with tempfile.TemporaryDirectory() as folder:
        write_benchmark(make_settings(), chosen_rows, Path(folder), Provenance({}, {}, {}))
        csv_rows = load_rows(Path(folder) / "harbours.csv")
        parquet_rows = load_rows(Path(folder) / "harbours.parquet")

    check_rows(csv_rows, chosen_rows)
    check_rows(parquet_rows, chosen_rows)


def check_rows(rows: Sequence[Row], chosen_rows: Sequence[ChosenRow]) -> None:
    """Check that rows have the texts of those that were written, without lone surrogates."""
    for row, chosen in zip(rows, chosen_rows, strict=True):
        contradictions = [candidate.text for candidate in chosen.contradictions]
        choices = [chosen.example.completion, *contradictions]
        assert row.prefix == replace_surrogates(chosen.example.prefix)
        assert row.choices == tuple(replace_surrogates(choice) for choice in choices)
        assert row.error_types == ("", "entity", "entity", "entity")


def test_a_row_group_of_the_parquet_file_has_a_thousand_rows(
    tmp_path: Path, provenance: Provenance
) -> None:
    """A group is written when it is full, so that only one group is in memory."""
    rows = [make_row(number) for number in range(2500)]

    write_benchmark(make_settings(), rows, tmp_path, provenance)

    metadata = pyarrow.parquet.ParquetFile(tmp_path / "harbours.parquet").metadata
    sizes = [metadata.row_group(index).num_rows for index in range(metadata.num_row_groups)]
    assert sizes == [1000, 1000, 500]


def test_the_cut_prefix_is_the_end_of_the_whole_prefix() -> None:
    """The cut prefix has the last `CUT_WORDS` words, as in the authors' files."""
    first_words = "one two three four five "
    last_words_of_prefix = " ".join(f"w{number}" for number in range(CUT_WORDS)) + "\n"

    record = make_record(make_row(prefix=first_words + last_words_of_prefix))

    assert record["full_prefix"] == first_words + last_words_of_prefix
    assert record["turncated_prefixes"] == last_words_of_prefix


@pytest.mark.parametrize(
    ("text", "count", "end"),
    [
        pytest.param("one two  three\n", 2, "two  three\n", id="with their white space"),
        pytest.param("  one two ", 2, "  one two ", id="as many words as the text has"),
        pytest.param("", 2, "", id="an empty text"),
        pytest.param(" \n", 2, " \n", id="a blank text"),
        pytest.param("one two", 0, "", id="no words"),
        pytest.param("x" * 100, 2, "x" * 80, id="40 characters a word at most"),
    ],
)
def test_the_last_words_are_the_end_of_the_text(text: str, count: int, end: str) -> None:
    """They keep the white space of the text, as the prefixes in the authors' files do."""
    assert last_words(text, count) == end


@pytest.mark.parametrize("name", FILES)
def test_user_file_is_not_replaced(tmp_path: Path, name: str) -> None:
    """The file may be the work of the user."""
    (tmp_path / name).write_text("mine", encoding="utf-8")
    problem = rf"{name}: is there already, no build wrote it.*choose another --out"

    with pytest.raises(DataError, match=problem):
        refuse_to_overwrite(make_settings(), tmp_path, [])


def test_manifest_in_another_format_is_not_recognized(tmp_path: Path) -> None:
    """Another program wrote the manifest, so its files must not be replaced."""
    (tmp_path / "manifest.json").write_text('{"format": 2, "name": "harbours"}', encoding="utf-8")

    with pytest.raises(DataError, match=r"manifest\.json: is there already"):
        refuse_to_overwrite(make_settings(), tmp_path, [])


def test_a_build_may_replace_its_own_benchmark(folder: Path) -> None:
    """The manifest in the folder has the name of this benchmark, so a user can build it again."""
    refuse_to_overwrite(make_settings(), folder, [])


def test_a_build_does_not_replace_another_benchmark(folder: Path) -> None:
    """Two YAML files may name the same folder by mistake."""
    problem = "holds another benchmark, harbours; choose another --out"

    with pytest.raises(DataError, match=problem):
        refuse_to_overwrite(make_settings(name="ports"), folder, [])


def write_until_killed(
    outcomes: list[DocumentOutcome], folder: Path, provenance: Provenance, num_moved: int
) -> None:
    """Write a benchmark, and stop when some of its finished files were moved to their place.

    Args:
        outcomes: The rows and the documents without one.
        folder: The folder of the benchmark.
        provenance: Where the rows come from.
        num_moved: How many files are moved.
    """
    real_replace = Path.replace
    num_moves = 0

    def replace_or_stop(path: Path, target: Path) -> Path:
        """Move a file, or stop as if the build was killed."""
        nonlocal num_moves
        # Finished files wait in this folder. Those that end in .part are being written.
        if path.parent.name == ".output.part" and path.suffix != ".part":
            num_moves += 1
            if num_moves > num_moved:
                raise KeyboardInterrupt
        return real_replace(path, target)

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(Path, "replace", replace_or_stop)
        with pytest.raises(KeyboardInterrupt):
            write_benchmark(make_settings(), outcomes, folder, provenance)


@pytest.mark.parametrize("num_moved", [0, 3, 5])
def test_next_build_publishes_finished_files_of_a_killed_build(
    folder: Path,
    tmp_path_factory: pytest.TempPathFactory,
    outcomes: list[DocumentOutcome],
    provenance: Provenance,
    num_moved: int,
) -> None:
    """The manifest is removed first and moved last, so an incomplete benchmark has none."""
    killed_folder = tmp_path_factory.mktemp("killed")
    # An earlier benchmark of one row, whose files are replaced.
    write_benchmark(make_settings(), outcomes[:1], killed_folder, provenance)
    write_until_killed(outcomes, killed_folder, provenance, num_moved)
    assert not (killed_folder / "manifest.json").exists()

    finish_earlier_build(killed_folder)

    assert contents(killed_folder) == contents(folder)
