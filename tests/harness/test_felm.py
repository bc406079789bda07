"""The FELM tasks in lm_eval: the evaluated model is the judge."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from lm_factuality.benchmarks.felm.metrics import report_detection_scores
from lm_factuality.benchmarks.felm.rows import claims_to_line, read_felm_rows, split_claims
from lm_factuality.benchmarks.felm.verdicts import read_saved_outputs
from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.harness.context import EvaluationRun, begin_run
from lm_factuality.harness.run import run
from tests.conftest import TASKS

SAMPLE = TASKS / "sample" / "sample_felm.jsonl"
SETTINGS = [
    f"felm_{unit}_{mode}"
    for unit in ("segment", "claim")
    for mode in ("vanilla", "cot", "link", "doc")
]


@pytest.fixture(scope="session")
def data_dir(tmp_path_factory) -> Path:
    """A folder that stands in for the published file: ten rows of the sample in four domains."""
    folder = tmp_path_factory.mktemp("felm")
    rows = [json.loads(line) for line in SAMPLE.read_text().splitlines()[:10]]
    for number, row in enumerate(rows):
        row["domain"] = ("wk", "science", "math", "reasoning", "writing_rec")[number % 5]
        if number == 0:
            row |= {"ref": [], "ref_contents": ""}
    (folder / "all.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def judge(evaluate, tasks, data_dir, answer="Answer: 1", **metadata):
    return evaluate(
        "constant-answer",
        tasks,
        model_args={"answer": answer},
        metadata={"data_dir": str(data_dir), **metadata},
    )


def test_every_setting_runs_and_scores_what_the_output_says(evaluate, data_dir):
    found = judge(evaluate, [*SETTINGS, "felm_segment_cot_consistency"], data_dir)
    rows = read_felm_rows(data_dir / "all.jsonl")
    assert set(found["results"]) == {*SETTINGS, "felm_segment_cot_consistency"}
    wrong = sum(not row.labels[0] for row in rows)
    for task, results in found["results"].items():
        chain = "votes" if "consistency" in task else "none"
        assert results[f"unscored,{chain}"] == 0
        assert results[f"response_recall,{chain}"] == 1
        if "segment" in task:
            assert results[f"segment_precision,{chain}"] == wrong / len(rows)
        assert len(found["samples"][task]) == 10
    assert found["results"]["felm_segment_doc"]["without_references,none"] == 1
    cautions = {
        task: config["metadata"].get("caution", "") for task, config in found["configs"].items()
    }
    assert "clauses cut by rules" in cautions["felm_claim_vanilla"]
    assert "1 of 6 rows that should show references" in cautions["felm_segment_doc"]
    assert all(word in cautions["felm_claim_link"] for word in ("clauses", "1 of 6 rows"))
    assert cautions["felm_segment_cot"] == ""
    assert found["configs"]["felm_segment_doc"]["metadata"]["data"]["is_published"] is False


@pytest.mark.parametrize(
    ("with_template", "is_applied", "expected"),
    [(True, False, 1), (True, True, 0), (False, False, 0)],
)
def test_a_chat_model_without_its_template_is_warned_of(
    evaluate,
    checkpoint,
    data_dir,
    tmp_path,
    caplog,
    monkeypatch,
    with_template,
    is_applied,
    expected,
):
    begin_run(EvaluationRun())
    folder = tmp_path / "model"
    shutil.copytree(checkpoint, folder)
    if with_template:
        (folder / "chat_template.jinja").write_text(
            "{% for m in messages %}{{ m.content }}{% endfor %}", encoding="utf-8"
        )
    evaluate(
        "hf",
        ["felm_segment_vanilla"],
        model_args={"pretrained": str(folder), "dtype": "float32"},
        metadata={"data_dir": str(data_dir)},
        limit=1,
        gen_kwargs="max_gen_toks=2",
        apply_chat_template=is_applied,
    )
    assert (
        sum("add --apply_chat_template" in record.message for record in caplog.records) == expected
    )


def test_scores_are_those_of_lm_factuality_score(evaluate, data_dir, tmp_path):
    found = judge(evaluate, ["felm_claim_vanilla"], data_dir, answer="Answer: 2, 3")
    path = tmp_path / "samples.jsonl"
    path.write_text(
        "".join(json.dumps(each) + "\n" for each in found["samples"]["felm_claim_vanilla"])
    )
    rows = read_felm_rows(data_dir / "all.jsonl")
    report = report_detection_scores(read_saved_outputs(path, rows, "paper"), "paper")
    results = found["results"]["felm_claim_vanilla"]
    for level in ("segment", "response"):
        for score in ("precision", "recall", "f1", "balanced_accuracy"):
            assert results[f"{level}_{score},none"] == pytest.approx(report["ALL"][level][score])
        assert results[f"{level}_f1_worst,none"] == pytest.approx(
            report["unscored"]["worst"][level]["f1"]
        )
    assert results["unscored,none"] == report["unscored"]["responses"]


def test_reasoning_that_restates_the_question_is_not_stopped(evaluate, data_dir):
    answer = (
        "Thought: Let me restate it.\nQuestion: Which?\n\nQuestion: Which?\nSegments:\nAnswer: 1"
    )
    results = judge(evaluate, ["felm_segment_cot", "felm_claim_vanilla"], data_dir, answer)[
        "results"
    ]
    assert [found["unscored,none"] for found in results.values()] == [0, 0]


def test_claims_of_a_judge_take_the_place_of_rules_and_their_problems_are_unscored(
    evaluate, data_dir, tmp_path
):
    rows = [
        row
        for row in read_felm_rows(data_dir / "all.jsonl")
        if row.domain not in ("math", "reasoning")
    ]
    path = tmp_path / "claims.jsonl"
    broken = {"index": rows[0].index, "source": "judge", "claims": [], "problem": "refused"}
    path.write_text(
        "".join(claims_to_line(split_claims(row)) + "\n" for row in rows[2:])
        + json.dumps(broken)
        + "\n"
    )
    found = judge(evaluate, ["felm_claim_cot"], data_dir, claims=str(path))
    assert found["results"]["felm_claim_cot"]["unscored,none"] == 2
    reasons = {
        each["doc"]["index"]: each["unscored"] for each in found["samples"]["felm_claim_cot"]
    }
    assert reasons[rows[0].index] == "no claims: refused"
    assert reasons[rows[1].index] == "no claims: not in the claims file"


def test_fetched_references_take_the_place_of_the_published(evaluate, data_dir, tmp_path):
    from lm_factuality.retrieval.references.cache import CachedReference, ReferenceCache
    from lm_factuality.retrieval.references.links import collect_links

    row = read_felm_rows(data_dir / "all.jsonl")[1]
    (url,) = collect_links(row.references).urls
    ReferenceCache(tmp_path).put(
        CachedReference(url=url, text="A page about the weather.", status=200)
    )
    found = judge(evaluate, ["felm_segment_doc"], data_dir, references=str(tmp_path))
    prompts = {
        each["doc"]["index"]: each["doc"]["text"] for each in found["samples"]["felm_segment_doc"]
    }
    assert "Reference document:\nA page about the weather." in prompts[row.index]
    assert found["results"]["felm_segment_doc"]["without_references,none"] == 5


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"protocol": "both"}, "metadata: protocol is 'both'; expected 'paper' or 'code'"),
        ({"prompts": "/nowhere"}, "expected a checkout"),
        ({"claims": "/nowhere.jsonl"}, "claims extract"),
        ({"data_dir": "/nowhere"}, "no such file"),
        (
            {"mode": "doc", "chunk_tokenizer": "/nowhere"},
            "chunk_tokenizer '/nowhere' cannot be loaded",
        ),
        ({"references": "/nowhere"}, "references: /nowhere: no such folder"),
        ({"references": str(TASKS)}, "holds no page that"),
    ],
)
def test_wrong_settings_are_errors_before_anything_runs(metadata, message, evaluate, data_dir):
    with pytest.raises((ConfigError, DataError), match=message):
        judge(evaluate, ["felm_claim_vanilla"], metadata.pop("data_dir", data_dir), **metadata)


def test_several_samples_and_a_response_cache_are_refused_together(data_dir, tmp_path):
    arguments = [
        "--model",
        "constant-answer",
        "--model_args",
        "answer=x",
        "--tasks",
        "felm_segment_cot_consistency",
        "--limit",
        "2",
        "--metadata",
        f"data_dir={data_dir}",
    ]
    with pytest.raises(ConfigError, match="leave out --use_cache"):
        run([*arguments, "--use_cache", str(tmp_path / "cache")])
    run(arguments)
