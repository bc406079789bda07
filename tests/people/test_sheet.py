"""Sheets: what they are drawn from, in which order the items come, and what annotators see."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from itertools import groupby

import pytest

from lm_factuality.benchmarks.asked import Item, Unit
from lm_factuality.cli.main import main
from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.people.labels import read_key
from lm_factuality.people.sheet import make_sheet, read_pool, write_sheet
from tests.conftest import example_row
from tests.people.conftest import felm_gen_task
from tests.report.results import write_results


@pytest.fixture(scope="module")
def pool(runs):
    """Return the 24 answers that people can be asked about, 12 of each of two models.

    The judge found errors in 8 of them and none in 12, and has no verdict on 4.
    """
    return read_pool([runs], "gen")


def test_answers_of_all_models_are_read_except_refusals(tmp_path):
    """A refusal has no sentence that people could judge."""
    task = felm_gen_task(rows=12)  # and a refusal
    write_results(tmp_path / "a", {"gen": task}, "org/a-7b", "2026-01-02T03-04-05.000001")
    write_results(tmp_path / "b", {"gen": task}, "org/b-1b", "2026-01-02T03-04-05.000002")

    pool = read_pool([tmp_path], "gen")

    assert [source.model for source in pool.sources] == ["org/a-7b", "org/b-1b"]
    assert len(pool.units) == 12 + 12


def test_items_of_a_unit_are_adjacent_and_in_order(pool):
    """People should judge all sentences of an answer before they read the next answer."""
    unit_by_key = {(unit.source, unit.key): unit for unit in pool.units}

    key = make_sheet(pool, rows=8, seed=1).key

    adjacent_items = groupby(key.items, key=lambda item: item.unit_key)
    num_groups = 0
    for unit_key, items in adjacent_items:
        num_groups += 1
        assert [item.item for item in items] == [item.id for item in unit_by_key[unit_key].items]
    assert num_groups == 8  # one for each unit


def test_items_are_numbered_from_one(pool):
    key = make_sheet(pool, rows=8, seed=1).key

    assert [item.number for item in key.items] == list(range(1, len(key.items) + 1))


def test_a_sheet_mixes_answers_of_all_models(pool):
    """People who saw one model after the other could guess whose answers they rate."""
    key = make_sheet(pool, rows=8, seed=1).key

    drawn_units = {item.unit_key for item in key.items}
    sources = {source for source, _unit in drawn_units}
    assert len(drawn_units) == 8
    assert sources == {0, 1}  # the results files of both models


def test_items_have_the_probability_and_weight_of_their_unit(pool):
    """Each drawn answer stands for as many answers as its weight."""
    assert len(pool.units) == 24

    key = make_sheet(pool, rows=8, seed=1).key

    assert {item.probability for item in key.items} == {8 / 24}
    assert {item.weight for item in key.items} == {24 / 8}


def test_same_seed_gives_the_same_sheet(pool):
    """Others can check that nobody chose the answers by hand."""
    key = make_sheet(pool, rows=8, repeat=0.2, seed=1).key
    same_key = make_sheet(pool, rows=8, repeat=0.2, seed=1).key

    assert same_key == key


def test_another_seed_gives_another_sheet(pool):
    key = make_sheet(pool, rows=8, repeat=0.2, seed=1).key
    other_key = make_sheet(pool, rows=8, repeat=0.2, seed=2).key

    assert other_key.sheet != key.sheet
    assert other_key.items != key.items


def test_strata_get_equal_shares_and_small_strata_are_drawn_completely(pool):
    """Errors are rarer than right answers, and a sheet should show enough of both."""
    key = make_sheet(pool, rows=14, stratify=("verdict",)).key

    units_of_stratum = {stratum.name: stratum.units for stratum in key.strata}
    drawn_of_stratum = {stratum.name: stratum.drawn for stratum in key.strata}
    assert units_of_stratum == {"unscored": 4, "has errors": 8, "no error": 12}
    # A third of 14 would be more than 4. So all 4 are drawn, and the other strata share 10 units.
    assert drawn_of_stratum == {"unscored": 4, "has errors": 5, "no error": 5}


def test_probabilities_and_weights_follow_from_the_strata(pool):
    """Of 4, 8 and 12 answers, the sheet has 4, 5 and 5. A weight is one over the probability."""
    key = make_sheet(pool, rows=14, stratify=("verdict",)).key

    probabilities = {item.stratum: item.probability for item in key.items}
    weights = {item.unit_key: item.weight for item in key.items}
    assert probabilities == {"unscored": 4 / 4, "has errors": 5 / 8, "no error": 5 / 12}
    assert sum(weights.values()) == pytest.approx(4 + 8 + 12)


def test_strata_combine_several_groups(pool):
    """A sheet by model and domain has a stratum for each pair of them."""
    key = make_sheet(pool, rows=12, stratify=("model", "domain")).key

    assert {stratum.name for stratum in key.strata} == {
        "org/secret-7b | wk",
        "org/secret-7b | science",
        "org/hidden-1b | wk",
        "org/hidden-1b | science",
    }
    for item in key.items:
        assert item.stratum == f"{item.strata['model']} | {item.strata['domain']}"


@pytest.mark.parametrize("seed", range(20))
def test_some_items_are_repeated_later(pool, seed):
    """At least ten items lie between, so that people do not repeat an answer from memory."""
    key = make_sheet(pool, rows=24, repeat=0.25, seed=seed).key

    first_showings = {item.number: item for item in key.items if item.repeat_of is None}
    second_showings = [item for item in key.items if item.repeat_of is not None]
    assert len(second_showings) == round(0.25 * len(first_showings))
    assert len({second.repeat_of for second in second_showings}) == len(second_showings)
    for second in second_showings:
        first = first_showings[second.repeat_of]
        assert (second.unit_key, second.item, second.judge) == (
            first.unit_key,
            first.item,
            first.judge,
        )
        assert second.number - first.number >= 10


def test_all_items_of_a_short_sheet_can_be_repeated(pool):
    """A sheet of one answer has no room for ten items between the two showings."""
    items = make_sheet(pool, rows=1, repeat=1.0).key.items

    first_showings = [item for item in items if item.repeat_of is None]
    second_showings = [item for item in items if item.repeat_of is not None]
    assert len(second_showings) == len(first_showings)


@pytest.fixture
def bio_sheet(runs):
    """Return a sheet about biographies, on which the judge's verdicts differ."""
    sheet = make_sheet(read_pool([runs], "bio"), rows=4, stratify=("verdict", "model"))
    verdicts = {item.judge for item in sheet.key.items if item.question == "verdict"}
    assert verdicts >= {"supported", "not_supported"}
    return sheet


def page_data(page):
    """Return the JSON text inside a sheet's page."""
    return page.read_text(encoding="utf-8").split('id="data">')[1].split("</script>")[0]


@pytest.mark.parametrize(
    "word",
    [
        *["org/secret-7b", "org/hidden-1b", "secret", "hidden"],  # the models
        *["lexical", "judge", "verdict:0"],  # the judge
        *["people merged", "no gap", "stratum", "weight"],  # the strata
    ],
)
def test_annotators_cannot_see_judge_model_or_stratum(bio_sheet, runs, tmp_path, word):
    """People who know what the judge said, or which model wrote a text, may be influenced."""
    page, table, lines, _key = write_sheet(bio_sheet, tmp_path / "sheet.html")

    visible_text = page_data(page)
    visible_text += table.read_text(encoding="utf-8") + lines.read_text(encoding="utf-8")
    assert word not in visible_text
    assert str(runs) not in visible_text


def test_the_source_of_the_page_does_not_name_models(bio_sheet, tmp_path):
    """An annotator may open the source. Only the key, which annotators do not get, has models."""
    page, _table, _lines, key = write_sheet(bio_sheet, tmp_path / "sheet.html")

    source = page.read_text(encoding="utf-8")
    assert "org/secret-7b" not in source
    assert "org/hidden-1b" not in source
    assert "people merged" not in source  # a stratum
    assert "org/secret-7b" in key.read_text(encoding="utf-8")


def test_the_page_has_the_same_four_fields_for_every_verdict(bio_sheet, tmp_path):
    """A field that only some verdicts have would tell readers what the judge said of them."""
    page, *_ = write_sheet(bio_sheet, tmp_path / "sheet.html")

    data = json.loads(page_data(page))

    assert set(data) == {"sheet", "skip", "columns", "questions", "items", "texts"}
    for fields, item in zip(data["items"], bio_sheet.key.items, strict=True):
        if item.question == "verdict":
            _question, _text, _text_beside, _possible_answers = fields


@pytest.mark.parametrize(
    "text", ["=1+1", "+1", "-2 degrees", "@cmd", "\tx", "\N{FULLWIDTH EQUALS SIGN}1"]
)
def test_formula_like_text_is_quoted_in_the_csv_file(pool, tmp_path, text):
    """A spreadsheet would run the formula, and models may write anything."""
    unit = pool.units[0]
    item = Item(id="segment:0", question="segment", text=text)
    unit_of_formula = Unit(unit.key, unit.cluster, (item,), unit.strata)
    sheet = make_sheet(replace(pool, units=(unit_of_formula,)), rows=1)

    _, table, *_ = write_sheet(sheet, tmp_path / "sheet.html")

    with table.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["text"] for row in rows] == [f"'{text}"]


def factor_gen_folder(folder, rows_path):
    """Write rows as factor-gen does, as a CSV file among others, and return their folder."""
    folder.mkdir()
    rows = [json.loads(line) for line in rows_path.read_text(encoding="utf-8").splitlines()]
    with (folder / "name.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    (folder / "manifest.json").write_text("{}", encoding="utf-8")
    return folder


@pytest.fixture(params=["file", "folder of factor-gen"])
def write_factor_data(request, write_rows, tmp_path):
    """Return a function that writes three rows of FACTOR, of the documents d0, d1 and d2.

    Its arguments are the error types of the three contradictions, which all rows share.
    """

    def write(*error_types):
        types = {}
        for number, error_type in enumerate(error_types):
            types[f"contradiction_{number}_type"] = error_type
        path = write_rows([example_row(doc_id=f"d{number}", **types) for number in range(3)])
        return path if request.param == "file" else factor_gen_folder(tmp_path / "build", path)

    return write


def test_each_contradiction_has_four_questions(write_factor_data):
    """These are the questions of the FACTOR paper's human evaluation."""
    pool = read_pool([write_factor_data("entity", "predicate", "odd")])

    key = make_sheet(pool, rows=2, stratify=("error type",)).key

    assert key.questions == ("non_factual", "fluent", "self_consistent", "error_type")
    assert len(key.items) == 2 * 3 * 4  # rows, contradictions of a row and questions
    assert {item.stratum for item in key.items} == {"entity + odd + predicate"}
    assert {item.cluster for item in key.items} <= {"d0", "d1", "d2"}  # the three documents


def test_published_error_types_serve_as_judge_answers(write_factor_data):
    """The type "odd" is no option of the question, so there is nothing to compare with."""
    pool = read_pool([write_factor_data("entity", "predicate", "odd")])

    key = make_sheet(pool, rows=2).key

    error_types = {item.judge for item in key.items if item.question == "error_type"}
    other_verdicts = {item.judge for item in key.items if item.question != "error_type"}
    assert error_types == {"entity", "predicate", None}
    assert other_verdicts == {None}


def test_questions_of_a_sheet_can_be_selected(write_factor_data):
    """Each question takes people's time."""
    pool = read_pool([write_factor_data("entity", "predicate", "odd")], questions=["fluent"])

    key = make_sheet(pool, rows=1).key

    assert {item.question for item in key.items} == {"fluent"}


def test_only_the_latest_run_of_a_model_is_used(tmp_path):
    """A repeated run usually mends something in the earlier one."""
    old_task = felm_gen_task(rows=3)
    new_task = felm_gen_task(rows=6)
    write_results(tmp_path, {"gen": old_task}, "org/a-7b", "2026-01-02T03-04-05.000001")
    write_results(tmp_path, {"gen": new_task}, "org/a-7b", "2026-01-03T03-04-05.000001")

    pool = read_pool([tmp_path])

    assert len(pool.sources) == 1
    assert pool.sources[0].file.endswith("results_2026-01-03T03-04-05.000001.json")
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
def test_impossible_options_are_refused_and_nothing_is_written(
    runs, tmp_path, capsys, options, message
):
    """A sheet that lacks what its author asked for would waste people's time."""
    command = ["people", "sheet", str(runs), "--out", str(tmp_path / "sheet.html")]
    if "--rows" not in options:
        command += ["--rows", "5"]

    exit_code = main([*command, *options])

    assert exit_code == 1
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", [".", "none.csv", "results_none.json"])
def test_a_source_without_data_is_refused(tmp_path, name):
    """The message says what was expected in its place."""
    with pytest.raises(DataError, match="expected"):
        read_pool([tmp_path / name])


def test_data_file_together_with_runs_is_refused(runs, tmp_path):
    """A sheet is about runs or about data, since the questions differ."""
    with pytest.raises(DataError, match=r"rows\.csv: no results"):
        read_pool([runs, tmp_path / "rows.csv"])


def test_table_of_an_unknown_benchmark_is_refused(tmp_path):
    """Nobody knows what to ask about columns "a" and "b"."""
    table = tmp_path / "odd.csv"
    table.write_text("a,b\n1,2\n", encoding="utf-8")

    with pytest.raises(ConfigError, match="no column"):
        read_pool([table])


@pytest.fixture
def sheet_command(runs, tmp_path):
    """Return a command line that writes a sheet about five answers into ``tmp_path``."""
    out = str(tmp_path / "sheet.html")
    return ["people", "sheet", str(runs), "--task", "gen", "--rows", "5", "--out", out]


def test_command_prints_the_number_of_drawn_items(sheet_command, tmp_path, capsys):
    """The user can compare the number with what they meant to ask for."""
    exit_code = main(sheet_command)

    assert exit_code == 0
    output = capsys.readouterr().out
    key = read_key(tmp_path / "sheet.key.json")
    assert f"Sheet {key.sheet}: {len(key.items)} items (segment)" in output
    assert "drawn: 5 of 24" in output


def test_sheet_too_small_for_a_correction_gives_a_warning(sheet_command, capsys):
    """People should not label a sheet of which no score can come."""
    exit_code = main(sheet_command)

    assert exit_code == 0
    assert "needs labels on at least 10 samples, and this sheet has 5" in capsys.readouterr().err


def test_same_sheet_can_be_written_twice(sheet_command):
    """Its items are the same, so the key still fits labels of the first sheet."""
    first_exit_code = main(sheet_command)
    second_exit_code = main(sheet_command)

    assert first_exit_code == 0
    assert second_exit_code == 0


def test_the_key_of_another_sheet_is_not_overwritten(sheet_command, tmp_path, capsys):
    """Labels that people have given would be worthless without their key."""
    main(sheet_command)
    key = read_key(tmp_path / "sheet.key.json")

    exit_code = main([*sheet_command, "--seed", "1"])

    assert exit_code == 1
    assert "choose another --out" in capsys.readouterr().err
    assert read_key(tmp_path / "sheet.key.json") == key
