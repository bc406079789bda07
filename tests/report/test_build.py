"""The pages and data of a report, without a browser."""

from __future__ import annotations

import json
import re
from typing import NamedTuple

import pytest

from lm_factuality.ground.errors import DataError
from lm_factuality.report.build import build_report, choose_runs
from tests.conftest import run_command
from tests.report.conftest import HOSTILE
from tests.report.results import ambigbio_task, factor_task, felm_task, write_results

RIGHT = [True] * 6 + [False] * 2
"""A model is right on six of eight rows."""


def read(folder, name):
    """Return the text of a file of a report."""
    return (folder / name).read_text(encoding="utf-8")


def data_of(out, name):
    """Return what a script of a report's data holds, such as "pairs.m0"."""
    script = read(out / "data", f"{name}.js")
    return json.loads(re.fullmatch(r'lmf\.put\("[^"]+",(.*)\);\n', script, re.DOTALL)[1])


def text_of(html):
    """Return the text of a page without tags, in one line."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


def text_of_page(out, name):
    """Return the text that a page of a report shows, in one line."""
    return text_of(read(out, name))


def rows_of_tables(html):
    """Return the texts of the cells of each table row, such as ``["org/m", "75.0 61.7 – 84.8"]``."""
    rows = []
    for row in re.findall(r"<tr.*?</tr>", html, re.DOTALL):
        cells = re.findall(r"<t[hd].*?</t[hd]>", row, re.DOTALL)
        rows.append([text_of(cell).strip() for cell in cells])
    return rows


def pages_of(out):
    """Return the names of a report's pages, as its navigation lists them."""
    navigation = read(out, "index.html").partition("</nav>")[0].partition("<nav")[2]
    return tuple(re.findall(r'href="([^"]+)"', navigation))


def test_a_report_of_one_benchmark_has_no_other_pages(runs, out):
    """There is no page of comparisons either, since there is one model only."""
    write_results(runs, {"my_factor": factor_task(RIGHT)})

    build_report([runs], out)

    assert pages_of(out) == ("index.html", "factor.html", "samples.html")


def test_rebuilt_report_has_pages_for_new_results(runs, out):
    """Users build the report again after every run. The new run here is on FELM and AmbigBio."""
    write_results(runs, {"my_factor": factor_task(RIGHT)})
    build_report([runs], out)
    new_tasks = {"my_felm": felm_task(["Answer: 2", "Answer: 1"]), "my_bio": ambigbio_task()}
    write_results(runs / "other", new_tasks, "org/judge")

    build_report([runs], out)

    pages = ("index.html", "factor.html", "felm.html", "ambigbio.html", "samples.html")
    assert pages_of(out) == pages
    assert {page.name for page in out.glob("*.html")} == set(pages)


def test_a_rebuilt_report_leaves_no_temporary_files(runs, out):
    """The report is built beside the old one, which it then replaces."""
    write_results(runs, {"my_factor": factor_task(RIGHT)})
    build_report([runs], out)

    build_report([runs], out)

    assert {path.name for path in out.parent.iterdir()} == {"runs", "out"}


def test_scores_have_an_interval_bounds_and_the_count_of_unscored_rows(runs, out):
    """The bounds are the scores if all unscored rows were wrong, or all were right."""
    right, wrong, unscored = True, False, None
    outcomes = [right] * 6 + [wrong] * 2 + [unscored] * 2
    write_results(runs, {"my_factor": factor_task(outcomes)})

    build_report([runs], out)

    text = text_of_page(out, "factor.html")
    # 6 of 8 scored rows; 6 of 10 or 8 of 10 rows.
    assert "75.0 61.7 – 84.8 worst 60.0, best 80.0" in text
    assert "2 of 10 " in text
    assert "2 unscored" in text_of_page(out, "index.html")


PROMPT_HASHES = {"biographies/group": "ab" * 8}


def judged_by_strict(certificate):
    """Return a task that the judge "strict" judged, with this certificate for grouping facts."""
    task = ambigbio_task()
    task["metadata"]["judge"] = "strict"
    task["metadata"]["judge_config"] = {"name": "strict", "prompt_hashes": PROMPT_HASHES}
    task["metadata"]["judge_certificate"] = certificate
    return task


def grouping_certificate(prompt_hashes):
    """Return a certificate of a judge's prompts for grouping facts."""
    return {
        "biographies_grouping": {
            "scores": {"f1": 0.964},
            "intervals": {"f1": [0.953, 0.975]},
            "unscored": 2,
            "data": {"rows": 200, "of": 434},
            "date": "2026-11-22T08:00:00",
            "prompt_hashes": prompt_hashes,
        }
    }


@pytest.mark.parametrize(
    ("certificate", "expected_cell"),
    [
        pytest.param(
            grouping_certificate(PROMPT_HASHES),
            "F1 of pairs of facts 96.4% [95.3%, 97.5%], on 200 of 434 responses, 2 unscored"
            " (biographies_grouping, 2026-11-22)",
            id="certified",
        ),
        pytest.param(
            grouping_certificate({"biographies/group": "cd" * 8}),
            "not certified its certificate is of other prompts; run lm-factuality certify"
            " --judge strict.yaml --setting biographies_grouping",
            id="of other prompts",
        ),
        pytest.param(
            ["of another kind"],
            "not certified run lm-factuality certify --judge strict.yaml --setting biographies_grouping",
            id="no certificate",
        ),
    ],
)
def test_the_judges_certificate_for_grouping_is_in_a_table(certificate, expected_cell, runs, out):
    """The certificate says how well the judge agrees with people about which facts belong together."""
    write_results(runs, {"my_bio": judged_by_strict(certificate)})

    build_report([runs], out)

    step = "grouping (behind D-FActScore, biographies)"
    row = [step, "strict", expected_cell, "my_bio", "org/small-125m"]
    assert row in rows_of_tables(read(out, "ambigbio.html"))


def test_a_certificate_of_one_step_certifies_no_other_step(runs, out):
    """The judge is certified for grouping. The page advises to certify it for linking too."""
    certificate = grouping_certificate(PROMPT_HASHES)
    write_results(runs, {"my_bio": judged_by_strict(certificate)})

    build_report([runs], out)

    (row_of_linking,) = (
        row
        for row in rows_of_tables(read(out, "ambigbio.html"))
        if row[0] == "linking (behind D-FActScore)"
    )
    _step, judge, status, *_ = row_of_linking
    assert judge == "strict"
    assert status == (
        "not certified run lm-factuality certify --judge strict.yaml --setting biographies_linking"
    )


def test_a_page_of_scores_without_a_judge_has_no_certificates(runs, out):
    judged_task = judged_by_strict(grouping_certificate(PROMPT_HASHES))
    write_results(runs, {"my_bio": judged_task, "my_factor": factor_task(RIGHT)})

    build_report([runs], out)

    assert "<h2>The judge</h2>" in read(out, "ambigbio.html")
    assert "The judge" not in read(out, "factor.html")


def test_a_score_without_stderr_gets_its_interval_from_the_samples(runs, out):
    """lm_eval computes no standard error of the mean log-probability."""
    # The true choice has a mean log-probability of -0.5 in six rows and of -0.9 in two.
    path = write_results(runs, {"my_factor": factor_task([True] * 6 + [False] * 2)})
    (entry,) = choose_runs([path]).entries
    assert "factor_mean_logprob" not in entry.result.stderrs

    build_report([runs], out)

    cells = [cell for row in rows_of_tables(read(out, "factor.html")) for cell in row]
    assert "−0.600 −0.836 to −0.364" in cells


def test_report_uses_the_newest_run_and_says_so(runs, out):
    old_task = factor_task([False, True])  # 50%
    new_task = factor_task([True, True])  # 100%
    write_results(runs, {"my_factor": old_task}, date="2025-01-02T03-04-05.000001")
    write_results(runs, {"my_factor": new_task}, date="2026-01-02T03-04-05.000002")

    (note,) = build_report([runs], out).notes

    text = text_of_page(out, "index.html")
    assert "using newest: results_2026-01-02T03-04-05.000002.json" in note
    assert note in text
    assert "100.0" in text
    assert "50.0" not in text


def test_a_run_with_a_json_schema_does_not_replace_one_without(runs, out):
    """A model that has to follow a schema gives other answers."""
    plain_task = felm_task(["Answer: 2"])
    schema_task = felm_task(["Answer: 2"])
    schema_task["metadata"]["answers"] = "schema"
    write_results(runs, {"my_felm": plain_task}, date="2025-01-02T03-04-05.000001")
    write_results(runs, {"my_felm": schema_task}, date="2026-01-02T03-04-05.000002")

    notes = build_report([runs], out).notes

    assert not any("using newest" in note for note in notes)
    assert "with a JSON schema" in text_of_page(out, "index.html")


def test_run_without_samples_is_named_with_the_option_to_keep_samples(runs, out):
    """A report without samples has no page of samples."""
    write_results(runs, {"my_factor": factor_task(RIGHT)}, with_samples=False)

    build_report([runs], out)

    text = text_of_page(out, "index.html")
    assert pages_of(out) == ("index.html", "factor.html")
    assert "No samples" in text
    assert "org/small-125m on my_factor" in text
    assert "--log_samples" in text


def test_differing_settings_of_runs_are_marked(runs, out):
    """Two runs have the same protocol but weights of different precision."""
    tasks = {"my_factor": factor_task(RIGHT)}
    write_results(runs / "a", tasks)
    write_results(runs / "b", tasks, "org/other", model_dtype="torch.float16")

    build_report([runs / "a", runs / "b"], out)

    page = read(out, "index.html")
    assert "<mark>float16</mark>" in page
    assert "<mark>float32</mark>" in page
    assert "<mark>paper</mark>" not in page


def test_a_run_with_a_limit_is_called_partial(runs, out):
    """A score on the first rows cannot be compared with one on all rows."""
    write_results(runs, {"my_factor": factor_task(RIGHT)}, limit=8)

    build_report([runs], out)

    assert "--limit 8: part of the rows only (org/small-125m on my_factor)" in text_of_page(
        out, "index.html"
    )


class AccuracyComparison(NamedTuple):
    """The comparison of two models by their accuracy on FACTOR, in a report's data."""

    low: float
    """The lower end of the interval of the difference."""

    high: float
    """The upper end of the interval."""

    p_value: float
    corrected_p_value: float

    detectable_difference: float
    """The difference that would be found with a power of 80%."""


@pytest.fixture
def comparison_by_pair(runs, out):
    """Compare three models that are right on the first 20, 14 and 10 of 20 rows.

    Each document has two rows, so the models m0 and m1 differ in three documents, m0 and m2 in
    five, and m1 and m2 in two.
    """
    for number, num_right in enumerate((20, 14, 10)):
        task = factor_task([True] * num_right + [False] * (20 - num_right))
        write_results(runs / str(number), {"my_factor": task}, f"org/m{number}")
    build_report([runs], out)
    comparisons = {}
    for model in ("m0", "m1"):
        for other_model, tasks in data_of(out, f"pairs.{model}").items():
            comparison_by_score = {row[0]: row for row in tasks["t0"]}
            cells = comparison_by_score["factor_acc"]
            comparisons[model, other_model] = AccuracyComparison(*cells[4:9])
    return comparisons


@pytest.mark.parametrize(
    ("pair", "num_differing_documents"), [(("m0", "m1"), 3), (("m0", "m2"), 5), (("m1", "m2"), 2)]
)
def test_p_values_of_two_models_come_from_the_sign_flip_test(
    comparison_by_pair, pair, num_differing_documents
):
    """In all documents that differ the same model is better.

    So of all choices of their signs only two, all plus and all minus, have sums as large.
    """
    p_value = comparison_by_pair[pair].p_value

    assert p_value == 2 / 2**num_differing_documents


def test_p_values_are_corrected_for_all_pairs(comparison_by_pair):
    """By Holm's method, the smallest of three p-values is multiplied by 3, the next by 2."""
    assert comparison_by_pair["m0", "m2"].p_value == 2 / 2**5
    assert comparison_by_pair["m0", "m2"].corrected_p_value == 3 * 2 / 2**5
    assert comparison_by_pair["m0", "m1"].p_value == 2 / 2**3
    assert comparison_by_pair["m0", "m1"].corrected_p_value == 2 * 2 / 2**3
    assert comparison_by_pair["m1", "m2"].p_value == 2 / 2**2
    assert comparison_by_pair["m1", "m2"].corrected_p_value == 2 / 2**2


def test_detectable_differences_follow_from_the_interval(comparison_by_pair):
    """The usual formula for a power of 80% at the 5% level is the reference."""
    z_interval = 1.959964  # 95%, two-sided
    z_power = 0.841621  # 80%
    for comparison in comparison_by_pair.values():
        stderr = (comparison.high - comparison.low) / 2 / z_interval
        expected_difference = (z_interval + z_power) * stderr
        assert comparison.detectable_difference == pytest.approx(expected_difference, abs=1e-5)


@pytest.fixture
def felm_tables(runs, out):
    """Build a report on FELM, and return table 4 with its own and with published scores."""
    outputs = ["Answer: 2", "Answer: 1,2", "Answer: ALL_CORRECT", "I do not know."]
    write_results(runs, {"my_felm": felm_task(outputs)}, "org/judge")
    build_report([runs], out)
    return re.findall(r'<table id="table4.*?</table>', read(out, "felm.html"), re.DOTALL)


def test_a_felm_run_is_shown_in_table_4_of_the_paper(felm_tables):
    """The scored answers find two errors, miss one and raise one false alarm: 2 of 3."""
    own_table, _ = felm_tables

    text = text_of(own_table)
    assert "66.7 66.7 / 66.7" in text
    assert "World knowledge" in text
    assert "Math" not in text  # these rows have no such domain
    assert "Vanilla" not in text  # the model was not asked so


def test_table_4_can_be_sorted(felm_tables):
    """A script sorts rows by the numbers in ``data-value``, here the F1 of GPT-4."""
    own_table, published_table = felm_tables

    assert "data-sortable" in own_table
    assert 'data-value="35.4"' in published_table


def test_published_table_4_has_the_models_of_the_paper(felm_tables):
    _, published_table = felm_tables

    headings_of_columns, *rows = rows_of_tables(published_table)
    assert headings_of_columns[0] == "Model"
    models_in_order = list(dict.fromkeys(model for model, *_ in rows))
    assert models_in_order == ["Vicuna-33B published", "ChatGPT published", "GPT-4 published"]


def test_published_table_4_has_f1_precision_and_recall(felm_tables):
    """The paper reports them in percent for GPT-4 without a chain of thought ("vanilla")."""
    _, published_table = felm_tables

    rows = rows_of_tables(published_table)
    (row,) = [row for row in rows if row[:3] == ["GPT-4 published", "All", "segments"]]
    f1, precision, recall = "35.4", "64.0", "24.4"
    assert row[3] == f"{f1} {precision} / {recall}"


class RowOutcome(NamedTuple):
    """What the page of samples filters rows by, in the data of a task and model."""

    number: int

    outcome: int
    """0 if the model is right, 1 if it is wrong, 2 if the row is unscored."""

    margin: float | None
    """How much the model prefers the true choice."""


def test_rows_have_outcomes_and_margins(runs, out):
    """A model that is right prefers the true choice, with -0.5 per token, to one with -0.7."""
    write_results(runs, {"my_factor": factor_task([True, False, None])})

    build_report([runs], out)

    rows_of_first_task_and_model = data_of(out, "t0.m0")
    assert [RowOutcome(*row[:3]) for row in rows_of_first_task_and_model] == [
        RowOutcome(number=0, outcome=0, margin=0.2),  # -0.5 and -0.7
        RowOutcome(number=1, outcome=1, margin=-0.2),  # -0.9 and -0.7
        RowOutcome(number=2, outcome=2, margin=None),
    ]


def test_each_model_has_its_own_outcomes(runs, out):
    """Models are sorted by name, so the first one is org/other."""
    write_results(runs / "a", {"my_factor": factor_task([True, False, None, True])}, "org/small")
    write_results(runs / "b", {"my_factor": factor_task([True] * 4)}, "org/other")

    build_report([runs / "a", runs / "b"], out)

    outcomes_of_other = [RowOutcome(*row[:3]).outcome for row in data_of(out, "t0.m0")]
    outcomes_of_small = [RowOutcome(*row[:3]).outcome for row in data_of(out, "t0.m1")]
    right, wrong, unscored = 0, 1, 2
    assert outcomes_of_other == [right, right, right, right]
    assert outcomes_of_small == [right, wrong, unscored, right]


def test_texts_of_rows_are_stored_once_and_in_chunks(runs, out, monkeypatch):
    """Two models answer the same four rows, and a file has the texts of at most three rows."""
    monkeypatch.setattr("lm_factuality.report.data.CHUNK", 3)
    write_results(runs / "a", {"my_factor": factor_task([True] * 4)}, "org/small")
    write_results(runs / "b", {"my_factor": factor_task([True] * 4)}, "org/other")

    build_report([runs / "a", runs / "b"], out)

    beginnings_of_texts = data_of(out, "t0.docs")  # of the first task
    first_chunk = data_of(out, "t0.docs.0")
    second_chunk = data_of(out, "t0.docs.1")
    assert len(beginnings_of_texts) == 4
    assert len(first_chunk) == 3
    assert len(second_chunk) == 1


def test_details_of_rows_are_stored_in_chunks(runs, out, monkeypatch):
    """A browser loads a file of rows only when a reader opens one of them."""
    monkeypatch.setattr("lm_factuality.report.data.CHUNK", 3)
    write_results(runs, {"my_factor": factor_task([True] * 4)})

    build_report([runs], out)

    second_chunk = data_of(out, "t0.m0.1")  # of the first task and model
    row_3 = second_chunk["3"]
    # The true choice has ten tokens of a log-probability of -0.5.
    assert row_3["tokens"][0] == 10
    assert row_3["mean_logprobs"][0] == -0.5
    assert row_3["sum_logprobs"][0] == -5.0


def test_a_folder_without_a_report_is_not_overwritten(runs, out):
    """The user may have named the wrong folder."""
    write_results(runs, {"my_factor": factor_task(RIGHT)})
    out.mkdir()
    (out / "thesis.txt").write_text("years of work", encoding="utf-8")

    with pytest.raises(
        DataError, match=r"out: exists already.*not made by this command.*choose another --out"
    ):
        build_report([runs], out)

    assert read(out, "thesis.txt") == "years of work"


def test_a_file_is_not_overwritten(runs, out):
    """Only a folder with the ``report.json`` of an earlier report is replaced."""
    write_results(runs, {"my_factor": factor_task(RIGHT)})
    out.write_text("years of work", encoding="utf-8")

    with pytest.raises(DataError, match="has no report.json"):
        build_report([runs], out)


def test_failed_report_keeps_the_earlier_report(runs, out):
    """A new report replaces the old one only when it is complete."""
    write_results(runs, {"my_factor": factor_task(RIGHT)})
    build_report([runs], out)
    former_page = read(out, "index.html")
    (samples_path,) = runs.glob("samples_*")
    samples_path.write_text('{"doc_id": 0, "doc": {}}\n', encoding="utf-8")

    with pytest.raises(
        DataError, match=r"samples_my_factor.*doc_id 0: not a sample of a factor task: KeyError"
    ):
        build_report([runs], out)

    assert read(out, "index.html") == former_page
    assert not list(out.parent.glob(".out-*")), "temporary files are left"


def test_a_folder_without_results_is_refused(runs, out):
    runs.mkdir()

    with pytest.raises(
        DataError, match=r"no results_\*\.json here; expected lm_eval's --output_path"
    ):
        build_report([runs], out)

    assert not out.exists()


@pytest.fixture(params=["my_factor", 'x"><img src=x>'], ids=["plain task", "hostile task"])
def hostile_report(request, runs, out):
    """Build a report of two models whose names and texts are hostile."""
    tasks = {
        request.param: factor_task(RIGHT, prefix=HOSTILE, choice=HOSTILE),
        "my_felm": felm_task(["Answer: 2", HOSTILE], segment=HOSTILE),
        "my_bio": ambigbio_task(name=HOSTILE),
    }
    # No file can have the name of the hostile task, so it has no samples.
    with_samples = request.param == "my_factor"
    for number in range(2):
        model = f"{HOSTILE} {number}"
        write_results(runs / f"r{number}", tasks, model, with_samples=with_samples)
    build_report([runs], out, HOSTILE)
    return out


def test_hostile_texts_never_become_markup_of_pages(hostile_report):
    """Names and texts of models and files must not run scripts in a reader's browser."""
    for name in pages_of(hostile_report):
        page = read(hostile_report, name)

        assert "<img" not in page
        assert "<!--" not in page
        # The report itself has scripts in files, and data that is not run.
        for attributes in re.findall("<script([^>]*)", page):
            assert " src=" in attributes or ' type="application/json"' in attributes


def test_hostile_texts_never_become_markup_in_scripts(hostile_report):
    """A ``</script>`` within the data would end the script."""
    for script in (hostile_report / "data").glob("*.js"):
        assert "<" not in script.read_text(encoding="ascii")


def test_the_command_prints_what_it_built(runs, out, capsys):
    """The user sees how many runs were found, and that one of them lacks its samples files."""
    write_results(runs, {"my_factor": factor_task(RIGHT)}, with_samples=False)

    exit_code = run_command("report", str(runs), "--out", str(out))

    output = capsys.readouterr().out
    assert exit_code == 0
    assert "1 model, 1 task in " in output
    assert "1 run without samples" in output
