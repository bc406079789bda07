"""The FELM tasks in lm_eval, where the evaluated model is the judge."""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from pathlib import Path

import pytest

from lm_factuality.benchmarks.felm.metrics import report_detection_scores
from lm_factuality.benchmarks.felm.rows import claims_to_line, read_felm_rows, split_claims
from lm_factuality.benchmarks.felm.verdicts import read_saved_outputs
from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.harness.context import EvaluationRun, begin_run
from lm_factuality.harness.run import run
from tests.conftest import TASKS
from tests.judges.server import Act, JudgeServer

SAMPLE = TASKS / "sample" / "sample_felm.jsonl"
NUM_ROWS = 10
DOMAINS = ("wk", "science", "math", "reasoning", "writing_rec")
SETTINGS = [
    f"felm_{unit}_{mode}"
    for unit in ("segment", "claim")
    for mode in ("vanilla", "cot", "link", "doc")
]
SELF_CONSISTENCY = "felm_segment_cot_consistency"
CHAT_TEMPLATE = "{% for m in messages %}{{ m.content }}{% endfor %}"


@pytest.fixture(scope="session")
def data_dir(tmp_path_factory) -> Path:
    """Return a folder that stands in for the published data: ten rows of the sample.

    Each of the five domains has two rows. The first row has no references.
    """
    folder = tmp_path_factory.mktemp("felm")
    rows = [json.loads(line) for line in SAMPLE.read_text().splitlines()[:NUM_ROWS]]
    for number, row in enumerate(rows):
        row["domain"] = DOMAINS[number % len(DOMAINS)]
    rows[0]["ref"] = []
    rows[0]["ref_contents"] = ""
    write_lines(folder / "all.jsonl", [json.dumps(row) for row in rows])
    return folder


@pytest.fixture
def rows(data_dir):
    """Return the rows of the data."""
    return read_felm_rows(data_dir / "all.jsonl")


@pytest.fixture
def detect_errors(evaluate, data_dir):
    """Return a function that runs tasks on a model that gives the same answer to each row."""

    def run_tasks(tasks, answer="Answer: 1", **metadata):
        settings = {"data_dir": str(data_dir), **metadata}
        return evaluate("constant-answer", tasks, model_args={"answer": answer}, metadata=settings)

    return run_tasks


def write_lines(path, lines):
    """Write a file of lines, and return its path."""
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


@pytest.mark.parametrize("setting", [*SETTINGS, SELF_CONSISTENCY])
def test_flagging_every_response_finds_all_wrong_ones_in_every_setting(detect_errors, setting):
    """A response counts as flagged if any of its segments is."""
    output = detect_errors([setting], answer="Answer: 1")

    # Self-consistency takes several samples, of which lm_eval's filter "votes" takes the majority.
    lm_eval_filter = "votes" if setting == "felm_segment_cot_consistency" else "none"
    results = output["results"][setting]
    assert results[f"unscored,{lm_eval_filter}"] == 0
    assert results[f"response_recall,{lm_eval_filter}"] == 1
    assert len(output["samples"][setting]) == NUM_ROWS


@pytest.mark.parametrize("setting", ["felm_segment_vanilla", "felm_segment_doc"])
def test_precision_is_the_share_of_wrong_segments_among_flagged_segments(
    detect_errors, rows, setting
):
    """The model names the first segment of each of ten rows."""
    output = detect_errors([setting], answer="Answer: 1")

    num_wrong_first_segments = sum(not row.labels[0] for row in rows)
    precision = output["results"][setting]["segment_precision,none"]
    assert precision == num_wrong_first_segments / NUM_ROWS


def test_results_warn_of_rule_based_claims(detect_errors):
    """Scores of such runs are not those of the paper, in which a model split texts into claims."""
    output = detect_errors(["felm_segment_cot", "felm_claim_vanilla", "felm_claim_link"])

    cautions = cautions_of(output)
    assert cautions["felm_segment_cot"] == ""
    assert "clauses cut by rules" in cautions["felm_claim_vanilla"]
    assert "clauses" in cautions["felm_claim_link"]


def test_results_warn_of_missing_references(detect_errors):
    """Of ten rows, four are of domains without references, and one of the others has none."""
    output = detect_errors(["felm_segment_doc", "felm_claim_link"])

    cautions = cautions_of(output)
    missing_references = "1 of 6 rows that should show references"
    assert missing_references in cautions["felm_segment_doc"]
    assert missing_references in cautions["felm_claim_link"]
    assert output["results"]["felm_segment_doc"]["without_references,none"] == 1


def test_results_report_unpublished_data(detect_errors):
    """The ten rows come from the sample of the suite."""
    output = detect_errors(["felm_segment_doc"])

    metadata = output["configs"]["felm_segment_doc"]["metadata"]
    assert metadata["data"]["is_published"] is False


def cautions_of(output):
    """Return the caution of each task in lm_eval's output, empty if it has none."""
    return {
        task: config["metadata"].get("caution", "") for task, config in output["configs"].items()
    }


@pytest.fixture
def chat_checkpoint(checkpoint, tmp_path):
    """Return the folder of a checkpoint whose tokenizer has a chat template."""
    folder = tmp_path / "chat-model"
    shutil.copytree(checkpoint, folder)
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE, encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("model", "applies_template", "num_warnings"),
    [
        pytest.param("chat_checkpoint", False, 1, id="chat model without its template"),
        pytest.param("chat_checkpoint", True, 0, id="chat model with its template"),
        pytest.param("checkpoint", False, 0, id="base model"),
    ],
)
def test_missing_chat_template_gives_a_warning(
    evaluate, data_dir, caplog, request, model, applies_template, num_warnings
):
    """A chat model answers worse without it, which would look like a lack of knowledge."""
    begin_run(EvaluationRun())
    folder = request.getfixturevalue(model)

    evaluate(
        "hf",
        ["felm_segment_vanilla"],
        model_args={"pretrained": str(folder), "dtype": "float32"},
        metadata={"data_dir": str(data_dir)},
        limit=1,
        gen_kwargs="max_gen_toks=2",
        apply_chat_template=applies_template,
    )

    warnings = [log for log in caplog.records if "add --apply_chat_template" in log.message]
    assert len(warnings) == num_warnings


def name_as_lm_eval(report):
    """Return the scores of a report under the names that they have in lm_eval's results."""
    scores = {"unscored,none": report["unscored"]["responses"]}
    for level in ("segment", "response"):
        for score in ("precision", "recall", "f1", "balanced_accuracy"):
            scores[f"{level}_{score},none"] = report["ALL"][level][score]
        scores[f"{level}_f1_worst,none"] = report["unscored"]["worst"][level]["f1"]
    return scores


def test_scores_equal_those_of_the_score_command(detect_errors, rows, tmp_path):
    """``lm-factuality score`` reads saved outputs, and must come to the scores of the run."""
    task = "felm_claim_vanilla"

    output = detect_errors([task], answer="Answer: 2, 3")

    samples = [json.dumps(sample) for sample in output["samples"][task]]
    samples_path = write_lines(tmp_path / "samples.jsonl", samples)
    saved_outputs = read_saved_outputs(samples_path, rows, "paper")
    report = report_detection_scores(saved_outputs, "paper")
    scores_of_command = name_as_lm_eval(report)
    scores_of_run = {name: output["results"][task][name] for name in scores_of_command}
    assert scores_of_run == pytest.approx(scores_of_command)


@pytest.mark.parametrize("task", ["felm_segment_cot", "felm_claim_vanilla"])
def test_an_answer_after_a_restated_question_is_read(detect_errors, task):
    """Models repeat the question first, and a stop text at "Question:" would hide the answer."""
    reasoning = "Thought: Let me restate it.\nQuestion: Which?\n\nQuestion: Which?\nSegments:\n"

    output = detect_errors([task], answer=f"{reasoning}Answer: 1")

    assert output["results"][task]["unscored,none"] == 0


@pytest.fixture
def claims_path(rows, tmp_path):
    """Return a file of claims in which the first row has a problem, and the second row none.

    Rows about math and reasoning need no claims.
    """
    rows_with_claims = [row for row in rows if row.domain not in ("math", "reasoning")]
    refused = {
        "index": rows_with_claims[0].index,
        "source": "judge",
        "claims": [],
        "problem": "refused",
    }
    lines = [claims_to_line(split_claims(row)) for row in rows_with_claims[2:]]
    return write_lines(tmp_path / "claims.jsonl", [*lines, json.dumps(refused)])


def test_rows_missing_from_the_claims_file_are_unscored(detect_errors, rows, claims_path):
    """The file has a problem in place of the first row's claims, and lacks the second row."""
    output = detect_errors(["felm_claim_cot"], claims=str(claims_path))

    samples = output["samples"]["felm_claim_cot"]
    reasons = {sample["doc"]["index"]: sample["unscored"] for sample in samples}
    assert output["results"]["felm_claim_cot"]["unscored,none"] == 2
    assert reasons[rows[0].index] == "no claims: refused"
    assert reasons[rows[1].index] == "no claims: not in the claims file"


@pytest.fixture
def references_folder(rows, tmp_path):
    """Return a folder of fetched references that has a page for the second row only."""
    from lm_factuality.retrieval.references.cache import CachedReference, ReferenceCache
    from lm_factuality.retrieval.references.links import collect_links

    (url,) = collect_links(rows[1].references).urls
    page = CachedReference(url=url, text="A page about the weather.", status=200)
    ReferenceCache(tmp_path).put(page)
    return tmp_path


def test_fetched_references_replace_the_published_ones(detect_errors, rows, references_folder):
    """Six of ten rows should show references, and the folder has a page for the second alone."""
    output = detect_errors(["felm_segment_doc"], references=str(references_folder))

    samples = output["samples"]["felm_segment_doc"]
    prompts = {sample["doc"]["index"]: sample["doc"]["text"] for sample in samples}
    assert "Reference document:\nA page about the weather." in prompts[rows[1].index]
    assert output["results"]["felm_segment_doc"]["without_references,none"] == 5


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        pytest.param(
            {"protocol": "both"},
            "metadata: protocol is 'both'; expected 'chat', 'paper' or 'code'",
            id="protocol",
        ),
        pytest.param({"prompts": "/nowhere"}, "expected a checkout", id="prompts"),
        pytest.param({"claims": "/nowhere.jsonl"}, "claims extract", id="claims"),
        pytest.param({"data_dir": "/nowhere"}, "no such file", id="data"),
        pytest.param(
            {"mode": "doc", "chunk_tokenizer": "/nowhere"},
            "chunk_tokenizer '/nowhere' cannot be loaded",
            id="tokenizer",
        ),
        pytest.param(
            {"references": "/nowhere"},
            "references: /nowhere: no such folder",
            id="missing folder of references",
        ),
        pytest.param(
            {"references": str(TASKS)}, "holds no page that", id="folder without references"
        ),
    ],
)
def test_a_wrong_setting_is_refused_before_the_run(detect_errors, metadata, message):
    """Loading a model takes minutes, so settings and files are checked before."""
    with pytest.raises((ConfigError, DataError), match=message):
        detect_errors(["felm_claim_vanilla"], **metadata)


@pytest.fixture
def self_consistency_arguments(data_dir):
    """Return the arguments of a run that takes several samples of each response."""
    return [
        *("--model", "constant-answer"),
        *("--model_args", "answer=x"),
        *("--tasks", SELF_CONSISTENCY),
        *("--limit", "2"),
        *("--metadata", f"data_dir={data_dir}"),
    ]


def test_several_samples_per_row_work_with_saved_answers(self_consistency_arguments, tmp_path):
    """lm_eval's cache would give the first sample again for all."""
    run([*self_consistency_arguments, "--use_cache", str(tmp_path / "kept")])


@pytest.fixture
def schema_run(evaluate, data_dir, monkeypatch):
    """Return the output of a run with ``answers=schema``, and the requests to its server.

    The server names the first segment of each response.
    """
    monkeypatch.setenv("OPENAI_API_KEY", "not-a-real-key")
    reply = {"thought": "In {1}, the year is wrong.", "answer": [1]}
    with closing(JudgeServer(lambda prompt, attempt: Act(text=json.dumps(reply)))) as server:
        output = evaluate(
            "local-chat-completions",
            ["felm_segment_cot"],
            model_args={
                "model": "m",
                "base_url": f"{server.base_url}/chat/completions",
                "tokenizer_backend": None,
            },
            metadata={"data_dir": str(data_dir), "answers": "schema"},
            apply_chat_template=True,
            limit=2,
        )
    return output, server.bodies


def test_schema_answers_are_read(schema_run):
    """A number in the thought of an answer flags no segment."""
    # The server replies {"thought": "In {1}, the year is wrong.", "answer": [1]} to both rows.
    output, _requests = schema_run

    samples = output["samples"]["felm_segment_cot"]
    assert [sample["flagged"] for sample in samples] == [[1], [1]]
    assert output["configs"]["felm_segment_cot"]["metadata"]["answers"] == "schema"


def test_schema_allows_only_existing_segment_numbers(schema_run):
    """The server can then name no segment that a response does not have."""
    output, requests = schema_run

    samples = output["samples"]["felm_segment_cot"]
    for request, sample in zip(requests, samples, strict=True):
        properties = request["response_format"]["json_schema"]["schema"]["properties"]
        num_segments = len(sample["doc"]["segments"])
        assert list(properties) == ["thought", "answer"]
        assert properties["answer"]["items"]["enum"] == list(range(1, num_segments + 1))


def test_samples_contain_the_flagged_segments(detect_errors):
    """A reader of the samples can compare these with the text of the answer."""
    output = detect_errors(["felm_segment_vanilla"], answer="Answer: 1")

    flagged = [sample["flagged"] for sample in output["samples"]["felm_segment_vanilla"]]
    assert flagged == [[1]] * NUM_ROWS
