"""The files of a benchmark: the same each time, whole or not there, and readable as they were
meant."""

from __future__ import annotations

import csv
import hashlib
import json
import tempfile
from pathlib import Path

import pyarrow.parquet
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from factor_gen.choose import ChosenRow
from factor_gen.output.folder import finish_earlier_build, refuse_to_overwrite
from factor_gen.output.write import Provenance, make_row, write_benchmark
from factor_gen.records import CUT_WORDS, Candidate, Example, last_words, replace_surrogates
from lm_factuality.benchmarks.factor.corpus import parse_corpus
from lm_factuality.benchmarks.factor.load import load_corpus
from lm_factuality.ground.errors import DataError
from tests.factor_gen.output.conftest import make_chosen, make_settings

NAMES = {
    "harbours.csv",
    "harbours.parquet",
    "harbours.yaml",
    "README.md",
    "manifest.json",
    "unused.jsonl",
}


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def read(path: Path):
    config = {
        "task": "t",
        "dataset_path": str(path),
        "metadata": {"columns": {"prefix": "full_prefix"}},
    }
    loaded = load_corpus(parse_corpus(config))
    assert not loaded.problems
    return loaded.rows


def test_the_same_items_give_the_same_bytes(tmp_path, items, provenance):
    for folder in ("one", "two"):
        write_benchmark(make_settings(), iter(items), tmp_path / folder, provenance)
    write_benchmark(
        make_settings(engine="local", workers=1), iter(items), tmp_path / "three", provenance
    )
    one, two, three = (contents(tmp_path / folder) for folder in ("one", "two", "three"))
    assert set(one) == NAMES
    assert one == two == three


def test_the_columns_are_the_authors_and_how_each_contradiction_came_about(
    tmp_path, items, provenance
):
    counts = write_benchmark(make_settings(), items, tmp_path, provenance)
    with (tmp_path / "harbours.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == counts.rows == 3
    first = rows[0]
    assert {"doc_id", "full_prefix", "turncated_prefixes", "completion", "contradiction_2"} < set(
        first
    )
    assert first["contradiction_0_type"] == "entity"
    assert first["contradiction_0_edit"] == "north -> south"
    assert first["contradiction_1_generator"] == "rules/date"
    assert (first["contradiction_0_nli"], first["contradiction_0_fluency"]) == ("0.75", "-0.125")
    assert first["contradiction_1_nli"] == ""
    table = pyarrow.parquet.read_table(tmp_path / "harbours.parquet")
    assert table.column_names == list(first)
    assert str(table.schema.field("contradiction_0_nli").type) == "double"
    assert table.to_pylist()[0]["contradiction_1_nli"] is None


def test_documents_without_a_row_say_why(tmp_path, items, provenance):
    write_benchmark(make_settings(), items, tmp_path, provenance)
    lines = [
        json.loads(line)
        for line in (tmp_path / "unused.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    assert lines[0] == {
        "doc_id": "short",
        "stage": "select",
        "reason": "no sentence of 10 words or more",
        "draws": 0,
    }
    assert [line["doc_id"] for line in lines] == ["short", "empty", "twice", "odd"]


def test_the_manifest_has_counts_and_sums(tmp_path, items, provenance):
    counts = write_benchmark(make_settings(), items, tmp_path, provenance)
    manifest = json.loads((tmp_path / "manifest.json").read_text(encoding="utf-8"))
    for entry in manifest["files"]:
        raw = (tmp_path / entry["name"]).read_bytes()
        assert (entry["bytes"], entry["sha256"]) == (len(raw), hashlib.sha256(raw).hexdigest())
    counts = manifest["counts"]
    assert (counts["documents"], counts["rows"], counts["eligible"]) == (7, 3, 4)
    assert counts["unused"][0] == {"stage": "read", "reason": "repeated id", "documents": 1}
    assert counts["unused"][1]["documents"] == 2
    assert counts["rejected"] == {"not fluent": 3}
    assert counts["lost"] == {"no change": 3}
    assert {"type": "entity", "generator": "rules/swap", "candidates": 4} in counts["generated"]
    assert {"type": "predicate", "generator": "rules/verb", "candidates": 6} in counts["generated"]
    assert counts["chosen"] == {
        "predicate": 3,
        "entity": 3,
        "circumstance": 3,
        "coreference": 0,
        "link": 0,
    }
    assert counts["types_in_a_row"] == {"3": 3}
    assert manifest["audit"]["distance"]["mean"] == pytest.approx(4 / 3)
    assert manifest["settings"]["select"]["min_words"] == 10
    assert manifest["stages"] == {"select": {"min_words": 10}}
    assert (manifest["audit"]["rows"], manifest["audit"]["leaks"]) == (3, [])
    assert {"factor_gen", "sentencex", "torch", "scikit-learn", "rapidfuzz"} <= set(
        manifest["versions"]
    )
    assert str(tmp_path) not in json.dumps(manifest)


def test_a_failure_leaves_no_files_and_keeps_earlier_ones(tmp_path, items, provenance):
    def break_off():
        yield from items[:3]
        raise RuntimeError("the stage broke")

    with pytest.raises(RuntimeError, match="the stage broke"):
        write_benchmark(make_settings(), break_off(), tmp_path / "new", provenance)
    assert contents(tmp_path / "new") == {}

    write_benchmark(make_settings(), items, tmp_path / "old", provenance)
    before = contents(tmp_path / "old")
    with pytest.raises(RuntimeError, match="the stage broke"):
        write_benchmark(make_settings(), break_off(), tmp_path / "old", provenance)
    assert contents(tmp_path / "old") == before


def test_no_rows_is_an_error_that_says_why(tmp_path, provenance):
    unused = [Example("a").drop("select", "empty"), Example("b").drop("select", "empty")]
    with pytest.raises(DataError, match=r"none of the 2 documents gave one \(2 x select: empty\)"):
        write_benchmark(make_settings(), unused, tmp_path, provenance)
    assert contents(tmp_path) == {}


def test_a_place_that_cannot_be_written_is_named(tmp_path, items, provenance):
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(DataError, match="file: cannot be written"):
        write_benchmark(make_settings(), items, tmp_path / "file", provenance)


TEXT = st.text(st.characters(codec=None), max_size=40)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(TEXT, TEXT, TEXT, TEXT), min_size=1, max_size=4))
@example([("a\r\nb\rc\n", '"quoted", and,', "\x00null\x00", "\ud800half")])
@example([("\ufeffmark", "NA", " ", "1.0")])
def test_any_text_is_read_back_as_it_was(rows):
    chosen = []
    for number, (prefix, completion, false, edit) in enumerate(rows):
        candidates = tuple(
            Candidate(f"{number}{index}{false}", "entity", edit, "rules/x") for index in range(3)
        )
        example = Example(f"d{number}", prefix, completion, candidates=candidates)
        chosen.append(ChosenRow(example, candidates))

    with tempfile.TemporaryDirectory() as folder:
        write_benchmark(make_settings(), chosen, Path(folder), Provenance({}, {}, {}))
        tables = [read(Path(folder) / f"harbours.{ending}") for ending in ("csv", "parquet")]

    for table in tables:
        for row, item in zip(table, chosen, strict=True):
            texts = [item.example.completion, *(each.text for each in item.contradictions)]
            assert row.prefix == replace_surrogates(item.example.prefix)
            assert row.choices == tuple(map(replace_surrogates, texts))
            assert row.error_types == ("", "entity", "entity", "entity")


def test_row_groups_are_written_as_they_fill(tmp_path, provenance):
    rows = [make_chosen(number) for number in range(2500)]

    write_benchmark(make_settings(), rows, tmp_path, provenance)

    metadata = pyarrow.parquet.ParquetFile(tmp_path / "harbours.parquet").metadata
    sizes = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    assert sizes == [1000, 1000, 500]


def test_the_cut_prefix_is_the_end_of_the_whole():
    words = [f"w{number}" for number in range(CUT_WORDS + 5)]
    row = make_row(make_chosen(prefix=" ".join(words) + "\n"))
    assert row["full_prefix"] == " ".join(words) + "\n"
    assert row["turncated_prefixes"] == " ".join(words[5:]) + "\n"


@pytest.mark.parametrize(
    ("text", "count", "end"),
    [
        ("one two  three\n", 2, "two  three\n"),
        ("  one two ", 2, "  one two "),
        ("", 2, ""),
        (" \n", 2, " \n"),
        ("one two", 0, ""),
        ("x" * 100, 2, "x" * 80),
    ],
)
def test_the_last_words_are_the_end_of_the_text(text, count, end):
    assert last_words(text, count) == end


# what is in the way


@pytest.mark.parametrize("name", sorted(NAMES))
def test_what_no_build_wrote_is_not_written_over(tmp_path, name):
    (tmp_path / name).write_text("mine", encoding="utf-8")
    with pytest.raises(
        DataError, match=rf"{name}: is there already, no build wrote it.*choose another --out"
    ):
        refuse_to_overwrite(make_settings(), tmp_path, [])


def test_another_manifest_makes_nothing_ours(tmp_path):
    (tmp_path / "manifest.json").write_text('{"format": 2, "name": "harbours"}', encoding="utf-8")
    with pytest.raises(DataError, match=r"manifest\.json: is there already"):
        refuse_to_overwrite(make_settings(), tmp_path, [])


def test_another_benchmark_is_left_as_it_is(tmp_path, items, provenance):
    write_benchmark(make_settings(), items, tmp_path, provenance)
    refuse_to_overwrite(make_settings(), tmp_path, [])
    with pytest.raises(DataError, match="holds another benchmark, harbours; choose another --out"):
        refuse_to_overwrite(make_settings(name="ports"), tmp_path, [])


@pytest.mark.parametrize("moved", [0, 3, 5])
def test_files_of_which_a_killed_build_showed_some_are_shown(
    tmp_path, items, provenance, moved, monkeypatch
):
    write_benchmark(make_settings(), items, tmp_path / "whole", provenance)
    out = tmp_path / "out"
    write_benchmark(make_settings(), items[:1], out, provenance)
    real, calls = Path.replace, []

    def killed(path, target):
        if path.parent.name == ".output.part" and path.suffix != ".part":
            calls.append(path)
            if len(calls) > moved:
                raise KeyboardInterrupt
        return real(path, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            write_benchmark(make_settings(), items, out, provenance)
    assert not (out / "manifest.json").exists()
    finish_earlier_build(out)
    assert contents(out) == contents(tmp_path / "whole")
