"""The command ``factor-gen build``."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from factor_gen import pipeline
from factor_gen.cli import app
from factor_gen.records import Example, ModelUse
from factor_gen.settings import BuildSettings
from factor_gen.stages import Stage
from lm_factuality.ground.command_line import run_command_line
from tests.factor_gen.corpora import write_corpus
from tests.factor_gen.tiny_stages import TinyStage, open_tiny

OpenStage = Callable[[BuildSettings, str], Stage]
"""Opens a stage of a build by its name."""


@pytest.fixture
def open_build_with(monkeypatch: pytest.MonkeyPatch) -> Callable[[OpenStage], None]:
    """Return a function that lets ``factor-gen build`` open other stages than the real ones."""
    real_build = pipeline.build

    def replace_stages(opener: OpenStage) -> None:
        """Let the build open its stages with another function."""
        monkeypatch.setattr(pipeline, "build", partial(real_build, opener=opener))

    return replace_stages


@pytest.fixture
def tiny_stages(open_build_with: Callable[[OpenStage], None]) -> None:
    """Let ``factor-gen build`` run tiny stages, which need no model."""
    open_build_with(open_tiny)


def run_build(config: Path, out: Path, *options: str) -> int:
    """Run ``factor-gen build`` in one process, and return its exit code."""
    arguments = ["build", str(config), "--out", str(out), "--workers", "1", *options]
    return run_command_line(app, "factor-gen", arguments)


@pytest.mark.usefixtures("tiny_stages")
def test_build_prints_the_outcomes_of_documents(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The corpus has five documents with text and an empty one."""
    config = write_corpus(tmp_path, documents=5)
    with (tmp_path / "corpus.jsonl").open("a") as file:
        file.write('{"text": ""}\n')

    exit_code = run_build(config, tmp_path / "out")

    printed = capsys.readouterr().out
    assert exit_code == 0
    assert "what became of 6 documents" in printed
    assert "the text is empty" in printed


@pytest.mark.usefixtures("tiny_stages")
def test_build_prints_the_next_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The next steps are to audit the benchmark and to run a model on it."""
    config = write_corpus(tmp_path, documents=5)
    out = tmp_path / "out"

    run_build(config, out)

    printed = capsys.readouterr().out
    run_command = (
        "lm-factuality run --model hf-tree --model_args pretrained=gpt2"
        f" --include_path {out} --tasks corpus"
    )
    assert run_command in printed
    assert f"factor-gen audit {out}/corpus.csv" in printed


class WastefulStage(TinyStage):
    """A stage that loses seven contradictions of each document, for two reasons."""

    def _one(self, example: Example) -> Example:
        return replace(super()._one(example), lost={"no edit": 2, "no such words": 5})


def open_wasteful(settings: BuildSettings, name: str) -> Stage:
    """Open a stage that generates wastefully, or a tiny stage of another name."""
    is_generating = name == "generate"
    return WastefulStage(name, settings.seed) if is_generating else open_tiny(settings, name)


def test_build_prints_lost_contradictions_by_reason(
    tmp_path: Path,
    open_build_with: Callable[[OpenStage], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of each of three documents, `WastefulStage` loses contradictions for the same reasons."""
    open_build_with(open_wasteful)
    config = write_corpus(tmp_path, documents=3)

    exit_code = run_build(config, tmp_path / "out")

    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert exit_code == 0
    assert f"no edit {3 * 2}" in lines
    assert f"no such words {3 * 5}" in lines


def write_config_with_writer(folder: Path, prices: str = "{prompt: 2, completion: 8}") -> Path:
    """Write the YAML of a build of five documents, whose writer is a server that does not exist.

    Args:
        folder: The folder of the YAML, of the corpus and of the judge.
        prices: The US dollars for a million tokens, in the form of the default.
    """
    (folder / "judge.yaml").write_text(
        f"backend: openai\nmodel: writer\nbase_url: http://127.0.0.1:9/v1\nprices: {prices}\n"
    )
    config = write_corpus(folder, documents=5)
    config.write_text(
        "corpus: corpus.jsonl\nfilter: none\ngenerate: {generator: llm, judge: judge.yaml}\n"
    )
    return config


class DryRunRow(NamedTuple):
    """The cells of a stage in the table that a dry run prints."""

    stage: str
    documents: str
    questions: str
    prompt_tokens: str
    answer_tokens: str
    usd: str


def dry_run(
    config: Path, capsys: pytest.CaptureFixture[str], *options: str
) -> dict[str, DryRunRow]:
    """Run ``factor-gen build --dry-run``, and return the rows of its table by stage."""
    arguments = ["build", str(config), "--dry-run", *options]
    assert run_command_line(app, "factor-gen", arguments) == 0
    rows = {}
    for line in capsys.readouterr().out.splitlines():
        if line.startswith((" generate ", " contradiction ")):
            row = DryRunRow(*line.split())
            rows[row.stage] = row
    return rows


def test_a_dry_run_counts_questions_and_sends_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The server does not exist, so a request would fail."""
    config = write_config_with_writer(tmp_path)

    rows = dry_run(config, capsys)

    assert rows.keys() == {"generate", "contradiction"}
    for row in rows.values():
        assert row.documents == "5"
        assert row.questions == "5"


def test_a_dry_run_estimates_the_cost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A token of a prompt costs a dollar, so that there are as many dollars as such tokens."""
    prices = "{prompt: 1000000, completion: 0}"
    config = write_config_with_writer(tmp_path, prices)

    writer = dry_run(config, capsys)["generate"]

    assert writer.usd == f"{writer.prompt_tokens}.0000"


def test_price_option_overrides_prices_of_the_judge(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A user can try other prices without changing the YAML."""
    prices = "{prompt: 1000000, completion: 0}"
    config = write_config_with_writer(tmp_path, prices)

    writer = dry_run(config, capsys, "--prices", "0,0")["generate"]

    assert writer.usd == "0.0000"


def test_dry_run_without_a_model_reports_no_questions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rules make the contradictions of this build."""
    config = write_corpus(tmp_path, documents=3)

    exit_code = run_command_line(app, "factor-gen", ["build", str(config), "--dry-run"])

    assert exit_code == 0
    assert capsys.readouterr().out == "No stage asks a model.\n"


def test_a_build_without_a_folder_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only a dry run needs no folder."""
    config = write_corpus(tmp_path)

    exit_code = run_command_line(app, "factor-gen", ["build", str(config)])

    assert exit_code == 2
    assert "--out" in capsys.readouterr().err


class StrictStage(TinyStage):
    """A stage that rejects a contradiction of each document, and asked a model about it."""

    def _one(self, example: Example) -> Example:
        first, *others = super()._one(example).candidates
        rejected = replace(first, rejected="too bold")
        return replace(
            example,
            candidates=(rejected, *others),
            model_use={self.name: ModelUse(requests=1, prompt_tokens=900, answer_tokens=100)},
        )


def open_strict(settings: BuildSettings, name: str) -> Stage:
    """Open a stage ``filter`` that rejects contradictions, or a tiny stage of another name."""
    is_filter = name == "filter"
    return StrictStage(name, settings.seed) if is_filter else open_tiny(settings, name)


@pytest.fixture
def strict_build(
    tmp_path: Path,
    open_build_with: Callable[[OpenStage], None],
    capsys: pytest.CaptureFixture[str],
) -> list[list[str]]:
    """Return the words of each line that a build of three documents with such a stage prints."""
    open_build_with(open_strict)
    run_build(write_corpus(tmp_path, documents=3), tmp_path / "out")
    return [line.split() for line in capsys.readouterr().out.splitlines()]


def test_build_prints_rejections_of_each_stage(
    strict_build: list[list[str]],
) -> None:
    """The filter rejects one contradiction of each of three documents, and each row keeps three."""
    lines = [" ".join(words) for words in strict_build]

    assert f"filter too bold {3 * 1}" in lines
    assert f"in the rows of the benchmark {3 * 3}" in lines


class WastefulDrawsStage(TinyStage):
    """A filter that rejects all contradictions of the first sentence of each document."""

    def _one(self, example: Example) -> Example:
        candidates = []
        for candidate in example.candidates:
            rejected = "too bold" if example.draw.number == 1 else ""
            candidates.append(replace(candidate, rejected=rejected))
        return replace(example, candidates=tuple(candidates))


def test_build_prints_contradictions_of_discarded_sentences(
    tmp_path: Path,
    open_build_with: Callable[[OpenStage], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of each document, the filter rejects the four contradictions of the first sentence.

    The second sentence of each document gives a row of three contradictions.
    """

    def open_stage(settings: BuildSettings, name: str) -> Stage:
        is_filter = name == "filter"
        return WastefulDrawsStage(name, settings.seed) if is_filter else open_tiny(settings, name)

    open_build_with(open_stage)

    run_build(write_corpus(tmp_path, documents=3), tmp_path / "out")

    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert f"filter too bold {3 * 4}" in lines
    assert f"in the rows of the benchmark {3 * 3}" in lines


def test_a_build_prints_the_share_of_each_error_type(strict_build: list[list[str]]) -> None:
    [predicate_line] = [words for words in strict_build if words[:1] == ["predicate"]]

    assert predicate_line[-1].endswith("%")


def test_build_prints_and_writes_the_model_usage(
    strict_build: list[list[str]], tmp_path: Path
) -> None:
    """The filter makes a request of 900 and 100 tokens for each of three documents."""
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())

    # The cost is unknown without prices.
    assert ["filter", "3", "2,700", "300", "1,000", "-"] in strict_build
    assert manifest["counts"]["model_use"] == {
        "filter": {
            "requests": 3,
            "prompt_tokens": 3 * 900,
            "answer_tokens": 3 * 100,
            "uncounted": 0,
            "usd": None,
        }
    }


@pytest.mark.usefixtures("tiny_stages")
def test_an_option_replaces_the_setting_in_the_yaml(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A user can try a build on some of the documents without changing the YAML."""
    out = tmp_path / "out"
    config = write_corpus(tmp_path, documents=8)

    exit_code = run_build(config, out, "--documents", "3")

    manifest = json.loads((out / "manifest.json").read_text())
    assert exit_code == 0
    assert "what became of 3 documents" in capsys.readouterr().out
    assert manifest["settings"]["corpus"]["documents"] == 3


@pytest.mark.parametrize(
    ("option", "value"), [("--workers", "0"), ("--documents", "x"), ("--engine", "spark")]
)
def test_an_option_with_a_wrong_value_is_refused(
    tmp_path: Path, option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    exit_code = run_build(write_corpus(tmp_path), tmp_path / "out", option, value)

    assert exit_code == 2
    assert option in capsys.readouterr().err
