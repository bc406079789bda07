"""Published figures as data: read, held against each other and against the released decisions, and
printed beside runs."""

from __future__ import annotations

import pytest
import yaml

from lm_factuality.benchmarks import all_benchmarks, find_benchmark
from lm_factuality.benchmarks.biographies.decisions import read_decisions
from lm_factuality.benchmarks.biographies.released import score_decisions
from lm_factuality.benchmarks.felm.benchmark import TABLE4
from lm_factuality.cli import main
from lm_factuality.ground.errors import ConfigError
from lm_factuality.ground.settings import read_settings
from lm_factuality.people.agreement import Figures
from lm_factuality.results.compare import read_published
from tests.conftest import REPOSITORY
from tests.report.test_build import cells_of

FOLDER = REPOSITORY / "configs" / "reproduce"


def figures(name):
    return {
        (each.model, each.task, metric, each.where): value
        for each in read_published(FOLDER / f"{name}_figures.yaml")
        for metric, value in each.scores.items()
    }


def test_what_two_tables_of_felm_have_alike_is_alike():
    found = figures("felm")
    (chatgpt,) = (cells_of(each) for each in TABLE4["models"] if each["model"] == "ChatGPT")
    compared = 0
    for (domain, level, mode, unit), cell in chatgpt.items():
        for name, value in zip(("f1", "precision", "recall"), cell, strict=True):
            suffix = "" if domain == "all" else f"_{domain}"
            place = (
                "gpt-3.5-turbo-0301",
                f"felm_{unit}_{mode}",
                f"{level}_{name}{suffix}",
                "FELM, table 12",
            )
            if (
                place in found and domain == "all"
            ):  # the two tables differ in the last digits of some domains
                assert found[place] == value
                compared += 1
    assert compared == 6


def test_felms_figures_are_of_scores_that_it_has():
    found = figures("felm")
    assert (
        len(found) == 287
    )  # 3 models, 8 methods; all six domains for two methods, four for the others; and table 12
    benchmark = find_benchmark("felm")
    assert all(benchmark.find_score(metric) for _, _, metric, _ in found)
    assert all(0 <= value <= 100 for value in found.values())


@pytest.mark.parametrize(
    ("model", "file"),
    [("gpt-3.5-turbo-0301", "chatgpt-0301"), ("meta-llama/Llama-2-13b-chat-hf", "llama2-13b-chat")],
)
def test_table_4_of_d_factscore_is_what_the_released_decisions_give(shared, model, file):
    found = figures("ambigbio")
    for task, demonstrations in (("ambigbio", "ambig"), ("ambigbio_no_ambig", "no-ambig")):
        path = shared / "data" / "ambigbio" / "decisions" / f"{file}__{demonstrations}.json.gz"
        figure = score_decisions(read_decisions(path))
        for metric, times in (
            ("factscore", 100),
            ("d_factscore", 100),
            ("num_biographies", 1),
            ("num_entities", 1),
        ):
            assert found[model, task, metric, "table 4"] == pytest.approx(
                times * figure[metric], abs=0.0501
            )


def test_people_are_asked_what_was_published():
    content = yaml.safe_load((FOLDER / "people_figures.yaml").read_text(encoding="utf-8"))
    found = read_settings(Figures, content, "people_figures.yaml")
    asked = {
        each.name: {option.value for option in each.options}
        for b in all_benchmarks()
        if b.people
        for each in b.people.questions
    }
    for column in found["answers"].values():
        for row in column:
            question, group, answer = row.split(" | ")
            assert group == "all"
            assert answer in asked[question]
        assert sum(
            value for row, value in column.items() if row.startswith("error_type")
        ) == pytest.approx(100, abs=0.2)
    labels = {score.label for score in find_benchmark("ambigbio").table_scores}
    assert {*found["means"], *found["correlations"]} <= labels


def test_published_scores_are_printed(capsys):
    assert main(["compare", "--with", str(FOLDER / "ambigbio_figures.yaml")]) == 0
    output = " ".join(capsys.readouterr().out.split())
    assert "Published scores" in output
    assert "ambigbio lmsys/vicuna-7b-v1.5-16k factscore 90.0 table 4" in output
    assert "ambigbio allenai/tulu-2-dpo-13b citation_recall 69.32 table 7" in output


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"scores": {"a": 1}, "percent": 1.0}, r"unknown key 'percent' of figures\[0\]"),
        ({}, r"figures\[0\]\.scores is missing"),
        ({"scores": {"a": "x"}}, r"figures\[0\]\.scores\.a is 'x'"),
    ],
)
def test_entries_that_are_no_figures(tmp_path, entry, message):
    path = tmp_path / "figures.yaml"
    path.write_text(
        yaml.safe_dump({"figures": [{"model": "m", "task": "t", "where": "w", **entry}]}),
        encoding="utf-8",
    )
    with pytest.raises(ConfigError, match=f"{path}: {message}"):
        read_published(path)
