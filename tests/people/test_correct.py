"""Scores corrected by people's labels, from the sheet to every place that shows them."""

from __future__ import annotations

import csv
import json
import re

import numpy as np
import pytest

from lm_factuality.cli.main import main
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.files import sha256_of
from lm_factuality.people.labels import COLUMNS, read_key
from lm_factuality.people.sheet import make_sheet, read_pool, write_sheet
from lm_factuality.report.build import choose_runs
from lm_factuality.results.read import read_results_file, read_results_files
from lm_factuality.scores.ppi import Units, correct_by_labels
from tests.people.conftest import felm_gen_sample, felm_gen_task, refusal_sample
from tests.report.results import write_results

RATE = "segment_error_rate"


def write_run(folder, rows=120, model="org/model-1b", date="2026-01-02T03-04-05.000001"):
    """Write a run of ``rows`` answers and a refusal on the task gen, and return its results file.

    Five kinds of answers alternate. The judge finds 2 errors in the 10 segments of four kinds. It
    has no verdict on the fifth kind, which has 2 segments.
    """
    patterns = [
        [None],
        ["knowledge", None, None],
        [None, None],
        [None, None, None, "knowledge"],
        None,
    ]
    samples = []
    for number in range(rows):
        domain = "wk" if number % 2 == 0 else "math"
        samples.append(felm_gen_sample(number, patterns[number % len(patterns)], domain))
    samples.append(refusal_sample(rows))
    task = {
        "results": {
            f"{RATE},judge": 0.2,
            f"{RATE}_stderr,judge": 0.02,
            "unscored,judge": rows // len(patterns),
            f"{RATE}_math,judge": 0.2,
        },
        "samples": samples,
        "metadata": {"benchmark": "felm_gen", "judge": "lexical"},
    }
    return write_results(folder, {"gen": task}, model, date)


def first_segment_is_wrong(item):
    """Return the answer to an item of somebody who finds an error in every first segment."""
    factual, knowledge_error, *_ = item.options
    return knowledge_error if item.item.endswith(":0") else factual


def write_labelled_sheet(results, folder, rows, answer=first_segment_is_wrong, stratify=()):
    """Write a sheet about ``rows`` answers and a person's labels.

    Args:
        results: A results file, or a folder of them, that the sheet is drawn from.
        folder: Where to write both.
        rows: The number of answers to draw.
        answer: The person's answer to each item, as a function of the item.
        stratify: The kinds of groups to draw from.

    Returns:
        The paths of the key and of the labels.
    """
    sheet = make_sheet(read_pool([results], "gen"), rows, stratify, seed=1)
    *_, key_path = write_sheet(sheet, folder / "sheet.html", csv_only=True)
    labels_path = folder / "labels.csv"
    with labels_path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for item in sheet.key.items:
            writer.writerow((sheet.key.sheet, item.number, item.question, answer(item), "Ana", ""))
    return key_path, labels_path


def correct(results, key, labels):
    """Return the exit code of ``people correct``."""
    return main(["people", "correct", str(results), "--key", str(key), "--labels", str(labels)])


def corrected_rate(results):
    """Return the corrected error rate of a results file."""
    return read_results_file(results).tasks[0].corrected[RATE]


def test_fully_labelled_samples_give_the_rate_by_people(tmp_path):
    """If people have labelled all answers, the judge has nothing to add."""
    results = write_run(tmp_path, rows=120)
    key, labels = write_labelled_sheet(results, tmp_path, rows=120, answer=first_segment_is_wrong)

    exit_code = correct(results, key, labels)

    assert exit_code == 0
    rate = corrected_rate(results)
    # People find one error in each of 120 answers. Five answers in a row have 1, 3, 2, 4 and 2
    # segments.
    num_segments = 120 / 5 * (1 + 3 + 2 + 4 + 2)
    assert rate.value == pytest.approx(120 / num_segments)
    assert rate.labelled == 120
    assert rate.units == 120 + 1  # with the refusal
    assert rate.weight == 0.0  # the judge is not needed
    assert rate.unscored == 0


def test_rates_by_the_judge_and_by_people_are_printed(tmp_path, capsys):
    """The user sees how far people's labels move the score."""
    results = write_run(tmp_path, rows=120)
    key, labels = write_labelled_sheet(results, tmp_path, rows=120, answer=first_segment_is_wrong)

    correct(results, key, labels)

    output = capsys.readouterr().out
    assert re.search(r"gen, segment_error_rate +20\.0 .* 41\.7 ", output)


@pytest.fixture
def partly_corrected(tmp_path):
    """Return a run's results, corrected by labels on half of its samples, and the sheet's key."""
    results = write_run(tmp_path, rows=120)
    key, labels = write_labelled_sheet(results, tmp_path, rows=60, stratify=("verdict",))
    assert correct(results, key, labels) == 0
    return results, read_key(key)


def units_of(samples, key):
    """Return what each sample adds to the error rate, by the judge and by people's labels."""
    weights = {item.cluster: item.weight for item in key.items}
    judge_counts = []
    people_counts = []
    is_labelled = []
    strata = []
    for sample in samples:
        number = sample["doc"]["index"]
        counts = sample[RATE]  # errors and segments, or None without a verdict
        num_segments = counts[1] if counts else 2
        is_refusal = number == "120"  # the last sample
        judge_counts.append(counts or (0, 0))
        people_counts.append((1, num_segments) if number in weights else (0, 0))
        # Nobody is asked about a refusal, so the judge's verdict on it is taken for people's.
        is_labelled.append(number in weights or is_refusal)
        if is_refusal:
            strata.append("refusal")
        else:
            strata.append("unscored" if counts is None else f"has errors: {counts[0] > 0}")
    return Units(
        judge_counts=np.array(judge_counts, float),
        people_counts=np.array(people_counts, float),
        is_labelled=np.array(is_labelled),
        clusters=np.arange(len(samples)),
        strata=np.unique(strata, return_inverse=True)[1],
        weights=np.array([weights.get(sample["doc"]["index"], 1.0) for sample in samples]),
    )


def error_rate_of_sums(sums):
    """Return the error rate from the sums of errors and of segments."""
    num_errors, num_segments = sums
    return num_errors / num_segments


def test_partly_labelled_samples_give_the_ppi_estimate(partly_corrected, tmp_path):
    """The command has to pass each sample's errors, weight and stratum to the estimator."""
    results, key = partly_corrected
    (samples_path,) = tmp_path.glob("samples_*")
    samples = [json.loads(line) for line in samples_path.read_text().splitlines()]

    rate = corrected_rate(results)

    expected = correct_by_labels(units_of(samples, key), error_rate_of_sums, low=0, high=1)
    assert rate.value == pytest.approx(expected.value)
    assert rate.low == pytest.approx(expected.low)
    assert rate.high == pytest.approx(expected.high)


def test_corrected_interval_contains_the_rate_by_people(partly_corrected):
    """The rate in all samples is known, because the person finds one error in every answer."""
    results, _ = partly_corrected

    rate = corrected_rate(results)

    # There are 120 answers with one error each. Five in a row have 1, 3, 2, 4 and 2 segments.
    rate_by_people = 120 / (120 / 5 * (1 + 3 + 2 + 4 + 2))
    assert rate.low < rate_by_people < rate.high


@pytest.fixture
def corrected_results(tmp_path):
    """Return the results file of a run whose error rate people's labels change to 41.1%."""
    results = write_run(tmp_path / "run")
    key, labels = write_labelled_sheet(results, tmp_path, rows=60)
    assert correct(results, key, labels) == 0
    return results


def test_compare_prints_the_corrected_score(corrected_results, capsys):
    """A corrected score that only its file holds would be overlooked."""
    exit_code = main(["compare", str(corrected_results)])

    assert exit_code == 0
    output = capsys.readouterr().out
    assert "corrected 41.1 [36.6 – 45.7] by people's answers on 60 of 121 samples" in output


def test_runs_in_a_report_have_the_corrected_score(corrected_results):
    """Tables and plots of a report take their numbers from its runs."""
    (run,) = choose_runs([corrected_results]).entries

    corrected = run.figure(run.headline).corrected

    assert corrected.value == pytest.approx(0.411, abs=0.0005)
    assert corrected == corrected_rate(corrected_results)


def test_report_shows_the_corrected_score(corrected_results, tmp_path):
    """A reader sees beside the judge's score how far people's labels move it."""
    out = tmp_path / "report"

    exit_code = main(["report", str(corrected_results), "--out", str(out)])

    assert exit_code == 0
    assert "corrected <b>41.1</b>" in (out / "felm.html").read_text()


def test_a_correction_of_changed_samples_is_not_read(tmp_path):
    """The file of a correction has the hash of the samples that it belongs to."""
    results = write_run(tmp_path)
    key, labels = write_labelled_sheet(results, tmp_path, rows=60)
    correct(results, key, labels)
    (samples_path,) = tmp_path.glob("samples_*")
    samples_path.write_text(samples_path.read_text() + "\n")

    message = r"of other samples .*delete it, or make it again by lm-factuality people correct"
    with pytest.raises(DataError, match=message):
        read_results_files([results])


def test_a_sheet_of_changed_samples_is_refused(tmp_path, capsys):
    """People have labelled the texts before the change."""
    results = write_run(tmp_path)
    key, labels = write_labelled_sheet(results, tmp_path, rows=60)
    (samples_path,) = tmp_path.glob("samples_*")
    samples_path.write_text(samples_path.read_text() + "\n")

    exit_code = correct(results, key, labels)

    assert exit_code == 1
    assert "was not drawn from these samples" in capsys.readouterr().err


def test_a_sheet_of_another_run_is_refused(tmp_path, capsys):
    """People have labelled the answers of one run, and not those of the other."""
    results = write_run(tmp_path / "run", rows=120)
    other_results = write_run(tmp_path / "other", rows=90)
    key, labels = write_labelled_sheet(results, tmp_path, rows=60)

    exit_code = correct(other_results, key, labels)

    assert exit_code == 1
    error = capsys.readouterr().err
    assert "was not drawn from these samples" in error
    (samples_path,) = (tmp_path / "run").glob("samples_*")
    assert sha256_of(samples_path)[:12] in error
    assert not list((tmp_path / "other").glob("corrected_*"))


def test_labels_with_only_skips_are_refused(tmp_path, capsys):
    """A correction by no labels would be the judge's score under another name."""
    results = write_run(tmp_path)
    key, labels = write_labelled_sheet(results, tmp_path, rows=60, answer=lambda item: "skip")

    exit_code = correct(results, key, labels)

    assert exit_code == 2
    assert (
        "decide no sample of gen: 60 drawn, but people do not decide all of their items"
        in capsys.readouterr().err
    )


def test_too_few_labels_write_no_correction(tmp_path, capsys):
    """Five labels are too few for an estimate."""
    results = write_run(tmp_path)
    key, labels = write_labelled_sheet(results, tmp_path, rows=5)

    exit_code = correct(results, key, labels)

    assert exit_code == 2
    assert "no score of gen can be corrected" in capsys.readouterr().err
    assert not list(tmp_path.glob("corrected_*"))


def test_results_without_the_task_of_the_sheet_are_refused(tmp_path, capsys):
    """The user may have given the wrong folder."""
    results_of_gen = write_run(tmp_path / "run")
    key, labels = write_labelled_sheet(results_of_gen, tmp_path, rows=60)
    results_of_other_task = write_results(tmp_path / "other", {"other": felm_gen_task()})

    exit_code = correct(results_of_other_task, key, labels)

    assert exit_code == 1
    assert "RESULTS: no results of gen, which the sheet is of" in capsys.readouterr().err


def test_all_models_of_a_sheet_are_corrected(tmp_path):
    """A sheet mixes the answers of all models, so that people do not know whose answer they see."""
    first = write_run(tmp_path / "first", rows=120, model="org/model-1b")
    second = write_run(
        tmp_path / "second", rows=80, model="org/other-1b", date="2026-01-02T03-04-05.000002"
    )
    key, labels = write_labelled_sheet(tmp_path, tmp_path, rows=100, answer=lambda item: "factual")

    exit_code = correct(tmp_path, key, labels)

    assert exit_code == 0
    # The rate by the judge is 0.2, and people find no error.
    assert corrected_rate(first).value < 0.1
    assert corrected_rate(second).value < 0.1
