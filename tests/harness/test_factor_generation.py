"""FACTOR in open generation through lm_eval: two kinds of requests in one task, a judge, and
samples that can be judged again."""

from __future__ import annotations

import json
from functools import partialmethod
from pathlib import Path

import pytest
import yaml

from lm_factuality.benchmarks.factor_generation.judging import FACTOR_GENERATION
from lm_factuality.cli.main import main
from lm_factuality.ground.errors import ConfigError, DataError, ModelError
from lm_factuality.harness.samples import verdict_of
from tests.benchmarks.factor_generation.rule import mark_by_wording
from tests.conftest import TASKS, example_row, run_command
from tests.judges.server import JudgeServer

TASK = "sample_factor_generation"
BASE = TASKS / "factor" / "_factor_generation.yaml"


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch) -> None:
    """A cache folder of its own, so that no answer is there before."""
    monkeypatch.setenv("LM_FACTUALITY_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


@pytest.fixture
def server():
    running = JudgeServer(mark_by_wording)
    yield running
    running.close()


@pytest.fixture
def run(checkpoint, tmp_path, monkeypatch):
    """``lm-factuality run`` with the smaller checkpoint, without lm_eval's own tasks; returns the
    exit code."""
    from lm_eval.tasks import TaskManager

    monkeypatch.setattr(
        TaskManager, "__init__", partialmethod(TaskManager.__init__, include_defaults=False)
    )

    def start(*options: str, task: str = TASK, limit: int = 24, **metadata) -> int:
        model = [
            "--model",
            "hf",
            "--model_args",
            json.dumps({"pretrained": str(checkpoint), "dtype": "float32"}),
        ]
        output = [
            "--output_path",
            str(tmp_path / "out"),
            "--log_samples",
            "--device",
            "cpu",
            "--batch_size",
            "16",
        ]
        given = ["--metadata", json.dumps(metadata)] if metadata else []
        return main(
            ["run", *model, "--tasks", task, "--limit", str(limit), *output, *given, *options]
        )

    return start


@pytest.fixture
def my_yaml(tmp_path):
    """Writes a YAML of a corpus of one's own."""

    def write(**keys) -> str:
        metadata = {"judge": "lexical", **keys.pop("metadata", {})}
        content = {
            "include": str(BASE),
            "task": "my_generation",
            "dataset_path": "rows.jsonl",
            "metadata": metadata,
            **keys,
        }
        (tmp_path / "my_generation.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
        return "my_generation"

    return write


@pytest.fixture
def tiny(checkpoint):
    return {"pretrained": str(checkpoint), "dtype": "float32"}


def judge_again(out: Path, *files: Path, judge: str = "lexical") -> dict:
    """``metrics.json`` of ``lm-factuality judge``."""
    samples = ["--samples", *map(str, files)]
    assert (
        run_command("judge", "factor_generation", *samples, "--judge", judge, "--out", str(out))
        == 0
    )
    return json.loads((out / "metrics.json").read_text(encoding="utf-8"))


def newest(folder: Path, pattern: str) -> Path:
    return max(folder.rglob(pattern))


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def expect_the_same(metrics: dict, summary: dict) -> None:
    """lm_eval's metrics are those of ``summary``."""
    for name, entry in summary.items():
        if isinstance(entry, dict) and "value" in entry:
            value = entry["value"]
            expected = "N/A" if value is None else pytest.approx(value)
            assert metrics[f"{name},judge"] == expected, name
    for name in ("unscored", "without_fact"):
        assert metrics[f"{name},judge"] == sum(summary[name].values())


def with_fact(samples: Path) -> int:
    """How many of the rows have one place alone in which the true and the false completion
    differ."""
    return sum(bool(sample["doc"]["true_edit"]) for sample in lines(samples))


def test_with_the_lexical_judge_and_again_from_the_samples(run, tmp_path):
    assert run() == 0
    results = json.loads(newest(tmp_path / "out", "results_*.json").read_text(encoding="utf-8"))
    metrics = results["results"][TASK]
    samples = newest(tmp_path / "out", "samples_*.jsonl")
    summary = judge_again(tmp_path / "again", samples)
    expect_the_same(metrics, summary)
    assert 0 < metrics["accuracy,judge"] < 1
    assert summary["about"]["judge_usage"]["stored"] > 0
    generations = sum(summary["generations"].values()) + sum(summary["unscored"].values())
    assert generations == 3 * with_fact(samples)
    (saved,) = (*tmp_path.rglob("generations/*.jsonl"),)
    kept = judge_again(tmp_path / "kept", saved)
    assert {**kept, "about": None} == {**summary, "about": None}
    assert lines(tmp_path / "kept" / "verdicts.jsonl") == lines(
        tmp_path / "again" / "verdicts.jsonl"
    )
    for sample in lines(samples):
        assert len(sample["resps"]) == 1
        assert len(sample["resps"][0]) == (3 if sample["doc"]["true_edit"] else 0)
        assert sample["arguments"]["gen_args_0"]["arg_0"] == sample["doc"]["prompt"]
        assert sample["doc"]["prompt"].endswith(sample["doc"]["stem"])
    assert (
        len({text for sample in lines(samples) for text in sample["resps"][0]}) > 24
    )  # they are samples
    about = results["configs"][TASK]["metadata"]
    assert (about["judge"], about["contradiction"]) == ("lexical", "first")
    assert "in other words counts as neutral" in about["caution"]
    assert "factor_generation/mark" in about["judge_config"]["prompt_hashes"]


def test_right_and_wrong_are_those_of_the_factor_task(evaluate, tiny):
    """The rows, their order and the truncation are the same, so ``factor_acc`` is, and the model
    decides which pairs are right."""
    found = evaluate("hf", ["sample_factor", TASK], model_args=tiny, limit=10, batch_size=16)
    plain, ours = found["results"]["sample_factor"], found["results"][TASK]
    assert ours["factor_acc,judge"] == plain["factor_acc,none"]
    assert ours["factor_acc_stderr,judge"] == pytest.approx(plain["factor_acc_stderr,none"])
    right = 0
    for before, after in zip(
        found["samples"]["sample_factor"], found["samples"][TASK], strict=True
    ):
        means = after["doc"]["mean_logprob"]
        assert means == pytest.approx(before["factor_mean_logprob"])
        right += sum(means[0] > mean for mean in means[1:])
        group = after["accuracy"].group
        expected = "right" if means[0] > means[after["doc"]["contradiction"]] else "wrong"
        assert group == (expected if after["doc"]["true_edit"] else "unsplit")
    assert ours["pairs_right,judge"] == right / 30


ROWS = [
    example_row(doc_id="1"),
    example_row(
        doc_id="2",
        contradiction_0="Its",
        contradiction_1="Its first",
        contradiction_2="Its first keeper",
    ),  # shorter
    example_row(doc_id="3", contradiction_0=""),  # cannot be scored
]


def test_rows_without_a_fact_keep_their_place(evaluate, tiny, write_rows, my_yaml, tmp_path):
    write_rows(ROWS)
    found = evaluate("hf", [my_yaml()], tmp_path, tiny)
    metrics, samples = found["results"]["my_generation"], found["samples"]["my_generation"]
    assert metrics["without_fact,judge"] == 2
    assert [len(sample["resps"][0]) for sample in samples] == [3, 0, 0]
    assert [sample["without_fact"] for sample in samples][1:] == [
        "nothing of the false completion is left after the common words",
        "choice 1 is empty",
    ]
    assert metrics["pairs_right,judge"] in {
        number / 6 for number in range(7)
    }  # of the two rows that can be scored
    docs = [sample["doc"] for sample in samples]
    expect_the_same(
        metrics, FACTOR_GENERATION.summarise(docs, [verdict_of(sample) for sample in samples])
    )
    assert FACTOR_GENERATION.document_problem(docs[1], ()) is None
    assert FACTOR_GENERATION.document_problem(docs[2], ()) is None


def test_a_part_without_a_single_fact(evaluate, tiny, write_rows, my_yaml, tmp_path):
    write_rows([ROWS[1], ROWS[0]])
    found = evaluate("hf", [my_yaml()], tmp_path, tiny, limit=1)
    metrics = found["results"]["my_generation"]
    assert (metrics["accuracy,judge"], metrics["accuracy_stderr,judge"]) == ("N/A", "N/A")
    assert (metrics["accuracy_worst,judge"], metrics["accuracy_best,judge"]) == (0, 1)
    assert metrics["without_fact,judge"] == 1
    caution = found["configs"]["my_generation"]["metadata"]["caution"]
    assert "No accuracy: the model is" in caution
    assert "no generation of such a row has a mark" in caution


def test_a_corpus_of_ones_own(evaluate, tiny, write_rows, tmp_path):
    write_rows(
        [
            {
                "context": "It rained. ",
                "right": "The match was called off.",
                "wrong": "The match was won.",
                "article": 7,
            }
        ]
    )
    text = f"""\
include: {BASE}
task: weather_generation
dataset_path: rows.jsonl
metadata:
  version: 1.0
  license: CC0-1.0
  judge: lexical
  columns: {{prefix: context, completion: right, contradictions: [wrong], doc_id: article}}
"""
    (tmp_path / "weather.yaml").write_text(text, encoding="utf-8")
    (sample,) = evaluate("hf", ["weather_generation"], tmp_path, tiny)["samples"][
        "weather_generation"
    ]
    assert sample["arguments"][0][0] == sample["doc"]["prompt"] == "It rained. The match was"
    assert sample["arguments"][0][1]["until"] == ["\n"]
    assert (sample["doc"]["doc_id"], sample["doc"]["true_edit"], sample["doc"]["false_edit"]) == (
        "7",
        "called off",
        "won",
    )


@pytest.mark.parametrize(
    ("rows", "keys", "error", "message"),
    [
        (
            ROWS[1:],
            {},
            DataError,
            "no row has a minimal fact, the first because: nothing of the false completion is left",
        ),
        (
            ROWS,
            {"metadata": {"contradiction": "entitty"}},
            ConfigError,
            "'entitty', expected first or an error type",
        ),
        (
            ROWS,
            {"metadata": {"judge": "lexcal"}},
            ConfigError,
            "no judge is called 'lexcal'; did you mean lexical",
        ),
        (
            ROWS,
            {"metric_list": [{"metric": "acuracy"}]},
            ConfigError,
            "metric_list: no score 'acuracy'; did you mean accuracy",
        ),
    ],
)
def test_what_cannot_be_used_is_refused_before_anything_is_generated(
    rows, keys, error, message, evaluate, tiny, write_rows, my_yaml, tmp_path
):
    write_rows(rows)
    with pytest.raises(error, match=message):
        evaluate("hf", [my_yaml(**keys)], tmp_path, tiny)


def test_an_error_type_may_be_asked_for(evaluate, tiny, write_rows, my_yaml, tmp_path):
    types = {
        f"contradiction_{number}_type": kind
        for number, kind in enumerate(("entity", "predicate", "entity"))
    }
    write_rows([example_row(**types)])
    (sample,) = evaluate("hf", [my_yaml(metadata={"contradiction": "predicate"})], tmp_path, tiny)[
        "samples"
    ]["my_generation"]
    assert (sample["doc"]["contradiction"], sample["doc"]["error_type"]) == (2, "predicate")
    assert (sample["doc"]["true_edit"], sample["doc"]["false_edit"]) == ("first", "last")


def test_a_chat_server_says_so_before_it_generates(evaluate, server):
    arguments = {"model": "any", "base_url": f"{server.base_url}/chat/completions"}
    with pytest.raises(ModelError, match="chat servers give no log-probabilities"):
        evaluate(
            "local-chat-completions",
            [TASK],
            model_args=arguments,
            limit=1,
            apply_chat_template=True,
        )
    assert not server.bodies


def test_predict_only_keeps_all_generations(evaluate, tiny, write_rows, my_yaml, tmp_path):
    write_rows(ROWS)
    samples = evaluate("hf", [my_yaml()], tmp_path, tiny, predict_only=True)["samples"][
        "my_generation"
    ]
    assert [len(sample["resps"][0]) for sample in samples] == [3, 0, 0]
    assert FACTOR_GENERATION.document_problem(samples[0]["doc"], samples[0]["resps"][0]) is None
