"""What a report holds, without a browser."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from lm_factuality.benchmarks.felm.benchmark import TABLE4
from lm_factuality.ground.errors import DataError
from lm_factuality.report.build import build_report, choose_runs
from tests.conftest import run_command
from tests.report.conftest import HOSTILE
from tests.report.results import ambigbio_task, factor_task, felm_task, write_results

RIGHT = [True] * 6 + [False] * 2


def read(folder, name):
    return (folder / name).read_text(encoding="utf-8")


def data_of(folder, name):
    return json.loads(
        re.fullmatch(
            r'lmf\.put\("[^"]+",(.*)\);\n', read(folder / "data", f"{name}.js"), re.DOTALL
        )[1]
    )


def text_of(html):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


def pages_of(out):
    """The names of a report's pages, as its navigation lists them."""
    navigation = read(out, "index.html").partition("</nav>")[0].partition("<nav")[2]
    return tuple(re.findall(r'href="([^"]+)"', navigation))


def test_only_pages_for_what_the_results_hold(tmp_path):
    write_results(tmp_path / "r", {"my_factor": factor_task(RIGHT)})
    build_report([tmp_path / "r"], tmp_path / "out")
    assert pages_of(tmp_path / "out") == (
        "index.html",
        "factor.html",
        "samples.html",
    )  # nothing to compare with
    write_results(
        tmp_path / "r" / "other",
        {"my_felm": felm_task(["Answer: 2", "Answer: 1"]), "my_bio": ambigbio_task()},
        "org/judge",
    )
    build_report([tmp_path / "r"], tmp_path / "out")
    assert pages_of(tmp_path / "out") == (
        "index.html",
        "factor.html",
        "felm.html",
        "ambigbio.html",
        "samples.html",
    )
    assert {page.name for page in (tmp_path / "out").glob("*.html")} == set(
        pages_of(tmp_path / "out")
    )
    assert not list(tmp_path.glob(".out-*"))  # nothing is left beside it


def test_figures_stand_with_interval_bounds_and_unscored_count(tmp_path):
    write_results(tmp_path / "r", {"my_factor": factor_task([*RIGHT, None, None])})
    build_report([tmp_path / "r"], tmp_path / "out")
    shown = text_of(read(tmp_path / "out", "factor.html"))
    assert "75.0 64.1 – 83.4 worst 60.0, best 80.0" in shown
    assert re.search(r"2 of 10 ", shown)
    assert "2 unscored" in text_of(read(tmp_path / "out", "index.html"))


@pytest.mark.parametrize(
    "hashes", [{"biographies/group": "ab" * 8}, {"biographies/group": "cd" * 8}, None]
)
def test_what_is_known_of_the_judge_stands_by_its_scores(hashes, tmp_path):
    certificate = {
        "scores": {"f1": 0.964},
        "intervals": {"f1": [0.953, 0.975]},
        "unscored": 2,
        "data": {"rows": 200, "of": 434},
        "date": "2026-11-22T08:00:00",
        "prompt_hashes": hashes,
    }
    task = ambigbio_task()
    task["metadata"] |= {
        "judge": "strict",
        "judge_config": {"name": "strict", "prompt_hashes": {"biographies/group": "ab" * 8}},
        "judge_certificate": {"biographies_grouping": certificate}
        if hashes
        else ["of another kind"],
    }
    write_results(tmp_path / "r", {"my_bio": task, "my_factor": factor_task(RIGHT)})
    build_report([tmp_path / "r"], tmp_path / "out")
    shown = text_of(read(tmp_path / "out", "ambigbio.html"))
    grouping = "grouping (behind D-FActScore, biographies) strict"
    how = "run lm-factuality certify --judge strict --setting biographies_"
    certified = "F1 of pairs of facts 96.4% [95.3%, 97.5%], on 200 of 434 responses, 2 unscored (biographies_grouping, 2026-11-22)"
    if hashes and hashes["biographies/group"] == "ab" * 8:
        assert f"{grouping} {certified} my_bio" in shown
    else:
        assert (
            f"{grouping} not certified {'its certificate is of other prompts; ' if hashes else ''}{how}grouping my_bio"
            in shown
        )
    assert f"linking (behind D-FActScore) strict not certified {how}linking my_bio" in shown
    assert "The judge" not in read(tmp_path / "out", "factor.html")


def test_a_figure_without_stderr_gets_its_interval_from_the_samples(tmp_path):
    task = factor_task(RIGHT)
    expected = choose_runs([write_results(tmp_path / "r", {"my_factor": task})])
    assert "factor_mean_logprob" not in expected.entries[0].result.stderrs
    build_report([tmp_path / "r"], tmp_path / "out")
    # Rows 0.5 right and 0.9 wrong: the mean is reported as -0.6; residuals of whole documents, four
    # of them.
    assert re.search(
        r"−0\.600 −0\.\d{3} to −0\.\d{3}", text_of(read(tmp_path / "out", "factor.html"))
    )


def test_the_newest_run_counts_and_the_report_says_so(tmp_path):
    write_results(
        tmp_path / "r", {"my_factor": factor_task([False, True])}, date="2025-01-02T03-04-05.000001"
    )
    write_results(
        tmp_path / "r", {"my_factor": factor_task([True, True])}, date="2026-01-02T03-04-05.000002"
    )
    chosen = build_report([tmp_path / "r"], tmp_path / "out")
    assert len(chosen.notes) == 1
    assert "using newest: results_2026-01-02T03-04-05.000002.json" in chosen.notes[0]
    shown = text_of(read(tmp_path / "out", "index.html"))
    assert chosen.notes[0] in shown
    assert "100.0" in shown
    assert "50.0" not in shown


def test_missing_samples_are_named_with_the_option_that_keeps_them(tmp_path):
    write_results(tmp_path / "r", {"my_factor": factor_task(RIGHT)}, with_samples=False)
    build_report([tmp_path / "r"], tmp_path / "out")
    assert pages_of(tmp_path / "out") == ("index.html", "factor.html")
    shown = text_of(read(tmp_path / "out", "index.html"))
    assert "No samples" in shown
    assert "org/small-125m on my_factor" in shown
    assert "--log_samples" in shown


def test_settings_that_differ_are_marked(tmp_path):
    write_results(tmp_path / "a", {"my_factor": factor_task(RIGHT)})
    write_results(
        tmp_path / "b", {"my_factor": factor_task(RIGHT)}, "org/other", model_dtype="torch.float16"
    )
    build_report([tmp_path / "a", tmp_path / "b"], tmp_path / "out")
    page = read(tmp_path / "out", "index.html")
    assert "<mark>float16</mark>" in page
    assert "<mark>float32</mark>" in page
    assert "<mark>paper</mark>" not in page


def test_partial_runs_are_said_to_be_partial(tmp_path):
    write_results(tmp_path / "a", {"my_factor": factor_task(RIGHT)}, limit=8)
    build_report([tmp_path / "a"], tmp_path / "out")
    assert "--limit 8: part of the rows only (org/small-125m on my_factor)" in text_of(
        read(tmp_path / "out", "index.html")
    )


def _factor_page(folder: Path, task: dict[str, Any]) -> str:
    write_results(folder / "a", {"my_factor": task})
    build_report([folder / "a"], folder / "out")
    return read(folder / "out", "factor.html")


def test_p_values_of_two_models_are_corrected_for_all_pairs(tmp_path):
    for number, right in enumerate(
        ([True] * 20, [True] * 14 + [False] * 6, [True] * 10 + [False] * 10)
    ):
        write_results(tmp_path / str(number), {"my_factor": factor_task(right)}, f"org/m{number}")
    build_report([tmp_path], tmp_path / "out")
    found = {}
    for name in ("m0", "m1"):
        text = (tmp_path / "out" / "data" / f"pairs.{name}.js").read_text(encoding="utf-8")
        for other, tasks in json.loads(re.search(r",(\{.*\})\);", text)[1]).items():
            found[name, other] = next(row for row in tasks["t0"] if row[0] == "factor_acc")
    alone = {pair: row[6] for pair, row in found.items()}
    assert alone == {("m0", "m1"): 2 / 2**3, ("m0", "m2"): 2 / 2**5, ("m1", "m2"): 2 / 2**2}
    assert {pair: row[7] for pair, row in found.items()} == {
        ("m0", "m1"): 0.5,
        ("m0", "m2"): 3 / 16,
        ("m1", "m2"): 0.5,
    }
    for row in found.values():
        assert row[8] == pytest.approx(
            (1.959964 + 0.841621) * (row[5] - row[4]) / 2 / 1.959964, abs=1e-5
        )


def test_felm_stands_in_table_4_beside_the_published_figures(tmp_path):
    write_results(
        tmp_path / "r",
        {
            "my_felm": felm_task(
                ["Answer: 2", "Answer: 1,2", "Answer: ALL_CORRECT", "I do not know."]
            )
        },
        "org/judge",
    )
    build_report([tmp_path / "r"], tmp_path / "out")
    own, published = re.findall(
        r'<table class="data table4">.*?</table>', read(tmp_path / "out", "felm.html"), re.DOTALL
    )
    blocks = re.findall(r"<tbody.*?</tbody>", own + published, re.DOTALL)
    assert own.count("<tbody") == 1
    assert [text_of(re.search(r"<th.*?</th>", block)[0]).split()[0] for block in blocks] == [
        "org/judge",
        "Vicuna-33B",
        "ChatGPT",
        "GPT-4",
    ]
    own = text_of(blocks[0])
    assert "66.7 66.7 / 66.7" in own  # two found, one false alarm, one missed
    assert "World knowledge" in own
    assert "Math" not in own  # these rows have no such domain
    assert "GPT-4 published All segments 35.4 64.0 / 24.4" in text_of(blocks[3])


def cells_of(model):
    """The cells of a model of table 4, by domain, level, mode and unit."""
    columns = [(each["mode"], each["unit"]) for each in TABLE4["columns"]]
    return {
        (row["domain"], row["level"], *column): tuple(cell)
        for row in model["rows"]
        for column, cell in zip(columns, row["cells"], strict=True)
        if cell is not None
    }


def test_rows_are_in_chunks_and_texts_are_shared_by_models(tmp_path, monkeypatch):
    monkeypatch.setattr("lm_factuality.report.data.CHUNK", 3)
    write_results(tmp_path / "a", {"my_factor": factor_task([True, False, None, True])})
    write_results(tmp_path / "b", {"my_factor": factor_task([True, True, True, True])}, "org/other")
    build_report([tmp_path / "a", tmp_path / "b"], tmp_path / "out")
    folder = tmp_path / "out"
    assert len(data_of(folder, "t0.docs")) == 4
    assert [len(data_of(folder, f"t0.docs.{chunk}")) for chunk in (0, 1)] == [3, 1]
    rows = {tuple(row[1] for row in data_of(folder, f"t0.{model}")) for model in ("m0", "m1")}
    assert rows == {(0, 1, 2, 0), (0, 0, 0, 0)}
    margins = [row[2] for row in data_of(folder, "t0.m0")]
    assert margins == pytest.approx([0.2] * 4)
    detail = data_of(folder, "t0.m0.1")["3"]
    assert (detail["sums"][0], detail["means"][0], detail["tokens"][0]) == (-5.0, -0.5, 10)


def test_what_is_no_report_is_left_alone(tmp_path):
    write_results(tmp_path / "r", {"my_factor": factor_task(RIGHT)})
    precious = tmp_path / "out" / "thesis.txt"
    precious.parent.mkdir()
    precious.write_text("years of work", encoding="utf-8")
    with pytest.raises(
        DataError, match=r"out: exists already.*not made by this command.*choose another --out"
    ):
        build_report([tmp_path / "r"], tmp_path / "out")
    assert precious.read_text(encoding="utf-8") == "years of work"
    with pytest.raises(DataError, match="has no report.json"):
        build_report([tmp_path / "r"], precious)


def test_a_report_that_fails_leaves_the_one_before(tmp_path):
    write_results(tmp_path / "r", {"my_factor": factor_task(RIGHT)})
    build_report([tmp_path / "r"], tmp_path / "out")
    before = read(tmp_path / "out", "index.html")
    (samples,) = (tmp_path / "r").glob("samples_*")
    samples.write_text('{"doc_id": 0, "doc": {}}\n', encoding="utf-8")
    with pytest.raises(
        DataError, match=r"samples_my_factor.*doc_id 0: not a sample of a factor task: KeyError"
    ):
        build_report([tmp_path / "r"], tmp_path / "out")
    assert read(tmp_path / "out", "index.html") == before
    assert not list(tmp_path.glob(".out-*"))


def test_no_results_say_what_was_expected(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(
        DataError, match=r"no results_\*\.json here; expected lm_eval's --output_path"
    ):
        build_report([tmp_path / "empty"], tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("task", ["my_factor", 'x"><img src=x>'])
def test_hostile_text_never_becomes_markup(tmp_path, task):
    tasks = {
        task: factor_task(RIGHT, prefix=HOSTILE, choice=HOSTILE),
        "my_felm": felm_task(["Answer: 2", HOSTILE], segment=HOSTILE),
        "my_bio": ambigbio_task(name=HOSTILE),
    }
    for number in range(2):
        model = f"{HOSTILE} {number}"
        # No file can be called by the hostile task, so it has no samples.
        write_results(tmp_path / f"r{number}", tasks, model, with_samples=task == "my_factor")
    build_report([tmp_path], tmp_path / "out", HOSTILE)
    for page in pages_of(tmp_path / "out"):
        html = read(tmp_path / "out", page)
        assert "<img" not in html
        assert "<!--" not in html
        assert not re.search(r"<script(?![^>]*( src=| type=\"application/json\"))", html)
    for path in (tmp_path / "out" / "data").glob("*.js"):
        assert "<" not in path.read_text(encoding="ascii")


def test_the_command_says_what_it_built(tmp_path, capsys):
    write_results(tmp_path / "r", {"my_factor": factor_task(RIGHT)}, with_samples=False)
    assert run_command("report", str(tmp_path / "r"), "--out", str(tmp_path / "out")) == 0
    output = capsys.readouterr().out
    assert "1 model, 1 task in " in output
    assert "1 run without samples" in output
