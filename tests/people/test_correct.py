"""Scores corrected by labels, from the sheet to every place that shows them."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

from lm_factuality.cli.main import main
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.files import sha256_of
from lm_factuality.people.labels import read_key
from lm_factuality.people.sheet import make_sheet, read_pool, write_sheet
from lm_factuality.report.build import choose_runs
from lm_factuality.results.read import read_results_file, read_results_files
from lm_factuality.scores.ppi import Units, correct_by_labels
from tests.people.conftest import felm_gen_sample, felm_gen_task
from tests.report.results import write_results

RATE = "segment_error_rate"


def run(folder, rows=120, model="org/model-1b", date="2026-01-02T03-04-05.000001"):
    """A judge who finds one error in three segments of every third answer; answers have one to four
    segments."""
    patterns = [
        [None],
        ["knowledge", None, None],
        [None, None],
        [None, None, None, "knowledge"],
        None,
    ]
    samples = [
        felm_gen_sample(number, patterns[number % 5], ("wk", "math")[number % 2])
        for number in range(rows)
    ]
    samples.append(
        felm_gen_sample(rows, None, segments=[], no_answer="refusal", unscored="no answer: refusal")
    )
    results = {
        f"{RATE},judge": 2 / 10,
        f"{RATE}_stderr,judge": 0.02,
        "unscored,judge": rows // 5,
        f"{RATE}_math,judge": 0.2,
    }
    task = {
        "results": results,
        "samples": samples,
        "metadata": {"benchmark": "felm_gen", "judge": "lexical"},
    }
    return write_results(folder, {"gen": task}, model, date)


def labelled(results, folder, rows=60, answer=None, stratify=(), seed=1):
    """The key of a sheet and the labels of somebody who by default finds an error in every answer's
    first segment."""
    sheet = make_sheet(read_pool([results], "gen"), rows, stratify, seed=seed)
    *_, key = write_sheet(sheet, folder / "sheet.html", csv_only=True)
    path = folder / "labels.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("sheet", "number", "question", "answer", "person", "note"))
        for entry in read_key(key).items:
            said = (
                answer
                or (
                    lambda entry: (
                        entry.options[1] if entry.item.endswith(":0") else entry.options[0]
                    )
                )
            )(entry)
            writer.writerow((sheet.key.sheet, entry.number, entry.question, said, "Ana", ""))
    return key, path


def correct(results, key, labels, *more):
    return main(
        ["people", "correct", str(results), "--key", str(key), "--labels", str(labels), *more]
    )


def corrected(results):
    return read_results_file(results).tasks[0].corrected


def test_labels_on_everything_give_what_people_say(tmp_path, capsys):
    """Every answer's first segment has an error, those included that the judge has no verdict on:
    120 errors in 264 segments."""
    results = run(tmp_path)
    assert correct(results, *labelled(results, tmp_path, rows=120)) == 0
    found = corrected(results)[RATE]
    assert found.value == pytest.approx(120 / (24 * (1 + 3 + 2 + 4 + 2)))
    assert (found.labelled, found.units, found.weight, found.unscored) == (120, 121, 0.0, 0)
    shown = capsys.readouterr().out
    assert "20.0" in shown
    assert f"{100 * found.value:.1f}" in shown


def test_part_of_the_labels_give_what_the_estimate_gives(tmp_path):
    results = run(tmp_path)
    key, labels = labelled(results, tmp_path, stratify=("verdict",))
    assert correct(results, key, labels) == 0
    found = corrected(results)[RATE]
    samples = [
        json.loads(line) for line in next(tmp_path.glob("samples_*")).read_text().splitlines()
    ]
    drawn = {entry.cluster: entry for entry in read_key(key).items}
    judged, people, strata, asked = [], [], [], []
    for sample in samples:
        number, parts = sample["doc"]["index"], sample[RATE]
        judged.append(parts or (0, 0))
        people.append((1, parts[1] if parts else 2) if number in drawn else (0, 0))
        asked.append(number in drawn or number == "120")
        strata.append(3 if number == "120" else (0 if parts is None else 1 + bool(parts[0])))
    weights = np.array(
        [drawn[str(number)].weight if str(number) in drawn else 1.0 for number in range(121)]
    )
    units = Units(
        *map(np.array, (np.array(judged, float), np.array(people, float), asked)),
        np.arange(121),
        np.array(strata),
        weights,
    )
    expected = correct_by_labels(units, lambda sums: sums[0] / sums[1], 0, 1)
    assert (found.value, found.low, found.high) == pytest.approx(
        (expected.value, expected.low, expected.high)
    )
    assert found.low < 120 / 288 < found.high


def test_corrected_scores_stand_beside_the_measured_ones(tmp_path, capsys):
    results = run(tmp_path / "run")
    correct(results, *labelled(results, tmp_path))
    found = corrected(results)[RATE]
    value = f"{100 * found.value:.1f}"
    capsys.readouterr()
    assert main(["compare", str(results)]) == 0
    shown = capsys.readouterr().out
    assert f"{value} [" in shown
    assert "by people's answers on" in shown
    (entry,) = choose_runs([results]).entries
    assert entry.figure(entry.headline).corrected == found
    assert main(["report", str(results), "--out", str(tmp_path / "report")]) == 0
    page = (tmp_path / "report" / "felm.html").read_text()
    assert f"corrected <b>{value}</b>" in page


def test_stale_corrections_are_refused_with_what_to_do(tmp_path):
    results = run(tmp_path)
    key, labels = labelled(results, tmp_path)
    correct(results, key, labels)
    samples = next(tmp_path.glob("samples_*"))
    samples.write_text(samples.read_text() + "\n")
    with pytest.raises(
        DataError,
        match=r"of other samples .*delete it, or make it again by lm-factuality people correct",
    ):
        read_results_files([results])
    assert correct(results, key, labels) == 1  # the sheet is of the former samples, too


def test_a_sheet_of_other_samples_is_refused(tmp_path, capsys):
    results = run(tmp_path / "one")
    other = run(tmp_path / "two", rows=90)
    assert correct(other, *labelled(results, tmp_path)) == 1
    said = capsys.readouterr().err
    assert "was not drawn from these samples" in said
    assert sha256_of(next((tmp_path / "one").glob("samples_*")))[:12] in said
    assert not list((tmp_path / "two").glob("corrected_*"))


def test_labels_that_decide_nothing_are_refused(tmp_path, capsys):
    results = run(tmp_path)
    assert correct(results, *labelled(results, tmp_path, answer=lambda entry: "skip")) == 1
    assert (
        "decide no sample of gen: 60 drawn, but people do not decide all of their items"
        in capsys.readouterr().err
    )


def test_results_without_the_sheet_s_task_are_refused(tmp_path, capsys):
    labels = labelled(run(tmp_path / "gen"), tmp_path)
    results = write_results(tmp_path / "other", {"other": felm_gen_task()})
    assert correct(results, *labels) == 1
    assert "RESULTS: no results of gen, which the sheet is of" in capsys.readouterr().err


def test_both_models_of_a_sheet_are_corrected(tmp_path):
    one, two = (
        run(tmp_path / "a"),
        run(tmp_path / "b", 80, "org/other-1b", "2026-01-02T03-04-05.000002"),
    )
    sheet = make_sheet(read_pool([one, two], "gen"), 100)
    *_, key = write_sheet(sheet, tmp_path / "sheet.html", csv_only=True)
    lines = ["sheet,number,question,answer,person,note"]
    for entry in read_key(key).items:
        answer = f"{entry.number},{entry.question},{entry.options[0]}"
        lines.append(f"{sheet.key.sheet},{answer},Bo,")
    path = tmp_path / "labels.csv"
    path.write_text("\n".join(lines))
    assert correct(tmp_path, key, path) == 0
    for results in (one, two):
        assert corrected(results)[RATE].value < 0.1
