"""What is drawn for a sheet, how probable it was, in which order it stands there, and what
annotators cannot see."""

from __future__ import annotations

import csv
import json
from dataclasses import replace

import pytest

from lm_factuality.benchmarks.asked import Unit
from lm_factuality.cli.main import main
from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.people.labels import read_key
from lm_factuality.people.sheet import make_sheet, read_pool, write_sheet
from tests.conftest import example_row
from tests.people.conftest import MODELS


def test_all_items_of_a_unit_stand_together_with_its_probability(runs):
    pool = read_pool([runs], "gen")
    assert len(pool.units) == 24  # of 26 answers two are refusals, of which nobody is asked
    assert [source.model for source in pool.sources] == list(MODELS)
    key = make_sheet(pool, 8, seed=1).key
    assert {entry.probability for entry in key.items} == {8 / 24}
    assert {entry.weight for entry in key.items} == {3.0}
    asked = {(unit.source, unit.key): [item.id for item in unit.items] for unit in pool.units}
    order = list(dict.fromkeys(entry.unit_key for entry in key.items))
    assert len(order) == 8
    assert [(*entry.unit_key, entry.item) for entry in key.items] == [
        (*unit, item) for unit in order for item in asked[unit]
    ]
    assert [entry.number for entry in key.items] == list(range(1, len(key.items) + 1))
    assert len({unit[0] for unit in order}) == 2, "both models are on the sheet"


def test_the_same_seed_gives_the_same_sheet_and_another_another(runs):
    pool = read_pool([runs], "gen")
    one, same, other = (make_sheet(pool, 8, repeat=0.2, seed=seed).key for seed in (1, 1, 2))
    assert one == same
    assert one.sheet != other.sheet
    assert one.items != other.items


def test_strata_share_alike_and_small_ones_give_all_they_have(runs):
    pool = read_pool([runs], "gen")
    key = make_sheet(pool, 14, ("verdict",)).key
    assert {each.name: (each.units, each.drawn) for each in key.strata} == {
        "unscored": (4, 4),
        "has errors": (8, 5),
        "no error": (12, 5),
    }
    assert {entry.stratum: entry.probability for entry in key.items} == {
        "unscored": 1,
        "has errors": 5 / 8,
        "no error": 5 / 12,
    }
    weights = {entry.unit_key: entry.weight for entry in key.items}
    assert sum(weights.values()) == pytest.approx(24)
    both = make_sheet(pool, 12, ("model", "domain")).key
    assert {each.name for each in both.strata} == {
        f"{model} | {domain}" for model in MODELS for domain in ("wk", "science")
    }
    assert all(
        entry.stratum == f"{entry.strata['model']} | {entry.strata['domain']}"
        for entry in both.items
    )


def test_some_items_come_twice_and_later(runs):
    pool = read_pool([runs], "gen")
    for seed in range(20):
        key = make_sheet(pool, 24, repeat=0.25, seed=seed).key
        again = [entry for entry in key.items if entry.repeat_of is not None]
        firsts = {entry.number: entry for entry in key.items if entry.repeat_of is None}
        assert len(again) == round(0.25 * len(firsts))
        for entry in again:
            first = firsts[entry.repeat_of]
            assert (first.unit_key, first.item, first.judge) == (
                entry.unit_key,
                entry.item,
                entry.judge,
            )
            assert entry.number - first.number >= 10
        assert len({entry.repeat_of for entry in again}) == len(again)
    assert [entry.repeat_of is None for entry in make_sheet(pool, 1, repeat=1.0).key.items].count(
        False
    ) * 2 == len(make_sheet(pool, 1, repeat=1.0).key.items)


def test_annotators_cannot_see_judge_model_or_stratum(runs, tmp_path):
    sheet = make_sheet(read_pool([runs], "bio"), 4, ("verdict", "model"))
    page, table, key = write_sheet(sheet, tmp_path / "sheet.html")
    hidden = [
        *MODELS,
        "secret",
        "hidden",
        "lexical",
        "people merged",
        "no gap",
        str(runs),
        "judge",
        "stratum",
        "weight",
        "verdict:0",
    ]
    data = page.read_text(encoding="utf-8").split('id="data">')[1].split("</script>")[0]
    assert [
        word for word in hidden if word in data or word in table.read_text(encoding="utf-8")
    ] == []
    assert [
        word for word in (*MODELS, "people merged") if word in page.read_text(encoding="utf-8")
    ] == []
    assert set(json.loads(data)) == {"sheet", "skip", "columns", "questions", "items", "texts"}
    assert MODELS[0] in key.read_text(encoding="utf-8")
    # An item is its question, its text, what is beside it and its options: where the judge differs,
    # the page does not.
    entries = [
        (entry, item)
        for entry, item in zip(json.loads(data)["items"], sheet.key.items, strict=True)
        if item.question == "verdict"
    ]
    assert {item.judge for _, item in entries} >= {"supported", "not_supported"}
    assert {len(entry) for entry, _ in entries} == {4}


@pytest.mark.parametrize("text", ["=1+1", "+1", "-2 degrees", "@cmd", "\tx"])
def test_no_cell_is_a_formula(runs, tmp_path, text):
    pool = read_pool([runs], "gen")
    unit = pool.units[0]
    (item, *_) = unit.items
    evil = Unit(unit.key, unit.cluster, (type(item)("segment:0", "segment", text),), unit.strata)
    sheet = make_sheet(replace(pool, units=(evil,)), 1)
    _, table, _ = write_sheet(sheet, tmp_path / "sheet.html")
    with table.open(encoding="utf-8", newline="") as file:
        (row,) = csv.DictReader(file)
    assert row["text"] == f"'{text}"


def test_contradictions_of_a_factor_file(write_rows, tmp_path):
    typed = {
        "contradiction_0_type": "entity",
        "contradiction_1_type": "predicate",
        "contradiction_2_type": "odd",
    }
    path = write_rows([example_row(doc_id=f"d{number}", **typed) for number in range(3)])
    for source in (path, tasks_like(tmp_path / "build", path)):
        pool = read_pool([source])
        key = make_sheet(pool, 2, ("error type",)).key
        assert len(key.items) == 2 * 3 * 4
        assert key.questions == ("non_factual", "fluent", "self_consistent", "error_type")
        assert {entry.judge for entry in key.items if entry.question == "error_type"} == {
            "entity",
            "predicate",
            None,
        }
        assert {entry.judge for entry in key.items if entry.question != "error_type"} == {None}
        assert {entry.stratum for entry in key.items} == {"entity + odd + predicate"}
        assert {entry.cluster for entry in key.items} <= {"d0", "d1", "d2"}
        assert {
            entry.question
            for entry in make_sheet(read_pool([source], questions=["fluent"]), 1).key.items
        } == {"fluent"}


def tasks_like(folder, rows):
    """A folder as factor-gen writes it: a CSV file among others."""
    folder.mkdir()
    records = [json.loads(line) for line in rows.read_text(encoding="utf-8").splitlines()]
    with (folder / "name.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(records[0]))
        writer.writeheader()
        writer.writerows(records)
    (folder / "manifest.json").write_text("{}", encoding="utf-8")
    return folder


def test_of_two_runs_of_a_model_the_latest_counts(runs, tmp_path):
    from tests.people.conftest import felm_gen_task
    from tests.report.results import write_results

    for day, rows in (("02", 3), ("03", 6)):
        write_results(
            tmp_path, {"gen": felm_gen_task(rows)}, MODELS[0], f"2026-01-{day}T03-04-05.000001"
        )
    pool = read_pool([tmp_path])
    assert [source.file.rpartition("_")[2][:10] for source in pool.sources] == ["2026-01-03"]
    assert len(pool.units) == 6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "--task '': expected one of bio, felm, gen"),
        (
            ["--task", "gne"],
            "--task 'gne': expected one of bio, felm, gen; did you mean gen?",
        ),
        (["--task", "gen", "--rows", "25"], "--rows 25: expected 1 to 24"),
        (["--task", "gen", "--rows", "0"], "--rows 0: expected 1 to 24"),
        (
            ["--task", "gen", "--stratify", "domian"],
            "--stratify 'domian': expected one of domain, model, verdict; did you mean domain?",
        ),
        (["--task", "gen", "--rows", "2", "--stratify", "verdict"], "--rows 2: there are 3 strata"),
        (["--task", "gen", "--question", "mark"], "--question 'mark': expected one of segment"),
        (["--task", "gen", "--repeat", "2"], "--repeat 2.0: expected a share from 0 to 1"),
    ],
)
def test_options_that_cannot_be(runs, tmp_path, capsys, options, message):
    rows = [] if "--rows" in options else ["--rows", "5"]
    assert (
        main(["people", "sheet", str(runs), *options, *rows, "--out", str(tmp_path / "sheet.html")])
        == 1
    )
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_sources_that_cannot_be(runs, tmp_path):
    for path in (tmp_path, tmp_path / "none.csv", tmp_path / "results_none.json"):
        with pytest.raises(DataError, match="expected"):
            read_pool([path])
    with pytest.raises(DataError, match=r"rows\.csv: no results"):
        read_pool([runs, tmp_path / "rows.csv"])
    table = tmp_path / "odd.csv"
    table.write_text("a,b\n1,2\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="no column"):
        read_pool([table])


def test_a_key_is_not_lost(runs, tmp_path, capsys):
    make = [
        "people",
        "sheet",
        str(runs),
        "--task",
        "gen",
        "--rows",
        "5",
        "--out",
        str(tmp_path / "sheet.html"),
    ]
    assert main(make) == 0
    said = capsys.readouterr().out
    key = read_key(tmp_path / "sheet.key.json")
    assert f"Sheet {key.sheet}: {len(key.items)} items (segment)" in said
    assert "drawn: 5 of 24" in said
    assert main(make) == 0, "the same sheet may be written again"
    assert main([*make, "--seed", "1"]) == 1
    assert "choose another --out" in capsys.readouterr().err
    assert read_key(tmp_path / "sheet.key.json") == key
