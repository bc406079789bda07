"""The command ``factor-gen build``."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from factor_gen import pipeline
from factor_gen.cli import app
from factor_gen.records import Example
from factor_gen.settings import BuildSettings
from factor_gen.stages import Stage
from lm_factuality.ground.command_line import run_command_line
from tests.factor_gen.corpora import write_corpus
from tests.factor_gen.tiny_stages import TinyStage, open_tiny


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    real = pipeline.build
    monkeypatch.setattr(
        pipeline, "build", lambda *given, **named: real(*given, **named, opener=open_tiny)
    )


def run(*arguments: str) -> int:
    return run_command_line(app, "factor-gen", ["build", *arguments])


@pytest.mark.usefixtures("tiny")
def test_a_build_says_what_became_of_the_documents_and_what_to_type(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = write_corpus(tmp_path, documents=5), tmp_path / "out"
    with (tmp_path / "corpus.jsonl").open("a") as file:
        file.write('{"text": ""}\n')
    assert run(str(path), "--out", str(out), "--workers", "1") == 0
    said = capsys.readouterr().out
    assert "what became of 6 documents" in said
    assert "the text is empty" in said
    assert f"{out}/corpus.csv" in said
    assert (
        f"lm-factuality run --model hf-tree --model_args pretrained=gpt2 --include_path {out} --tasks corpus"
        in said
    )
    assert f"factor-gen audit {out}/corpus.csv" in said


def test_what_the_generator_wrote_in_vain_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Wasteful(TinyStage):
        def _one(self, example: Example) -> Example:
            return replace(super()._one(example), lost={"no edit": 2, "no such words": 5})

    def opener(settings: BuildSettings, name: str) -> Stage:
        return Wasteful(name, settings.seed) if name == "generate" else open_tiny(settings, name)

    real = pipeline.build
    monkeypatch.setattr(
        pipeline, "build", lambda *given, **named: real(*given, **named, opener=opener)
    )
    path = write_corpus(tmp_path, documents=3)
    assert run(str(path), "--out", str(tmp_path / "out"), "--workers", "1") == 0
    printed = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["no", "such", "words", "15"] in printed
    assert ["no", "edit", "6"] in printed


@pytest.mark.usefixtures("tiny")
def test_options_go_over_the_yaml(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = write_corpus(tmp_path), tmp_path / "out"
    options = ["--documents", "3", "--workers", "1"]
    assert run(str(path), "--out", str(out), *options) == 0
    assert "what became of 3 documents" in capsys.readouterr().out
    settings = json.loads((out / "manifest.json").read_text())["settings"]
    assert settings["corpus"]["documents"] == 3


@pytest.mark.parametrize(
    "option",
    [
        ["--workers", "0"],
        ["--documents", "x"],
        ["--engine", "spark"],
    ],
)
def test_options_that_make_no_sense_are_refused(
    tmp_path: Path, option: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(str(write_corpus(tmp_path)), "--out", str(tmp_path / "out"), *option) == 2
    assert option[0] in capsys.readouterr().err
