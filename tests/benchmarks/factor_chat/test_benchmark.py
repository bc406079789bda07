"""What a run against a chat server leaves, through every command that reads it."""

import copy
import json

import pytest
import yaml

from lm_factuality.benchmarks.audit import DIFFERENT_REQUEST, UNKNOWN_REQUESTS, ExpectedRun
from lm_factuality.benchmarks.factor_chat.benchmark import FactorChatAudit, notes_on_run
from lm_factuality.cli.main import main
from lm_factuality.harness.samples import read_samples
from lm_factuality.leaderboard.documents import hash_text
from lm_factuality.leaderboard.evidence import read_task_samples
from lm_factuality.leaderboard.rules import TaskRules
from lm_factuality.report.build import build_report
from lm_factuality.results.read import read_results_files
from lm_factuality.results.recompute import differences, recompute
from tests.benchmarks.factor_chat.oracle import ROWS, TASK, Oracle
from tests.conftest import TASKS

LETTERS = "by_letters"
GENERATION = {"do_sample": False, "temperature": 0.0, "max_gen_toks": 16, "until": ["\n\nText:"]}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The results of a run of the command with both protocols."""
    oracle, folder, tasks = (
        Oracle(),
        tmp_path_factory.mktemp("results"),
        tmp_path_factory.mktemp("tasks"),
    )
    keys = {"include": str(TASKS / "sample" / f"{TASK}.yaml"), "task": LETTERS}
    keys |= {
        "dataset_path": str(TASKS / "sample" / "sample_factor.csv"),
        "metadata": {"version": 1.0, "protocol": "letters"},
    }
    (tasks / f"{LETTERS}.yaml").write_text(yaml.safe_dump(keys), encoding="utf-8")
    arguments = {
        "model": "org/chat",
        "base_url": f"{oracle.server.base_url}/chat/completions",
        "num_concurrent": 8,
    }
    command = [
        "run",
        "--model",
        "local-chat-completions",
        "--apply_chat_template",
        "--include_path",
        str(tasks),
    ]
    command += [
        "--tasks",
        f"{TASK},{LETTERS}",
        "--limit",
        str(ROWS),
        "--model_args",
        json.dumps(arguments),
    ]
    assert main([*command, "--log_samples", "--output_path", str(folder)]) == 0
    oracle.server.close()
    return folder


@pytest.mark.parametrize("name", [TASK, LETTERS])
def test_scores_follow_from_the_samples(name, finished):
    (file,) = read_results_files([finished])
    task = file.task(name)
    assert task.kind == "factor_chat"
    assert task.metrics["chat_acc"] == 1
    assert differences(task, recompute(task)) == []


def test_the_report_shows_scores_and_rows(finished, tmp_path):
    build_report([finished], tmp_path / "report")
    pages = {page.name for page in (tmp_path / "report").glob("*.html")}
    assert pages == {"index.html", "factor_chat.html", "samples.html"}
    html = (tmp_path / "report" / "factor_chat.html").read_text(encoding="utf-8")
    assert "Accuracy of prompts" in html
    assert html.count("100.0") >= 2
    assert "84 to 91%" in (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
    rows = [
        path.read_text(encoding="utf-8")
        for path in (tmp_path / "report" / "data").glob("t?.m?.0.js")
    ]
    assert ['"chances":[' in each for each in rows] == [True, True]


def test_comparison_takes_it(finished, capsys):
    exit_code = main(["compare", str(finished)])

    assert exit_code == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "FACTOR for chat models" in printed
    assert printed.count("84 to 91%") == 1


def test_a_chat_servers_prompts_have_the_hashes_that_lm_eval_gave_them(finished):
    (file,) = read_results_files([finished])
    for name in (TASK, LETTERS):
        result = file.task(name)
        rules = TaskRules(task=name, version="1.0", git_blob="abc", documents=ROWS)
        rules = rules.model_copy(
            update={"metadata": result.metadata, "generation_kwargs": GENERATION}
        )
        samples = read_task_samples(result.samples.parent, file, result, rules)
        assert len(samples.doc_ids) == ROWS
        assert samples.hash_problems == []
        assert samples.request_problem == ""
        assert hash_text(samples.hashes) == file.content["task_hashes"][name]


def test_a_chat_server_has_its_own_template(finished):
    (file,) = read_results_files([finished])
    assert "without a chat template" not in list(notes_on_run(file, file.task(TASK)))


def edit(change):
    def changed(sample):
        found = copy.deepcopy(dict(sample))
        change(found)
        return found

    return changed


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda sample: None, None),
        (lambda sample: sample["arguments"].pop("gen_args_3"), UNKNOWN_REQUESTS),
        (
            lambda sample: sample["arguments"]["gen_args_1"].update(arg_1=["Yes", "No"]),
            UNKNOWN_REQUESTS,
        ),
        (
            lambda sample: sample["arguments"]["gen_args_1"]["arg_3"].update(temperature=1.0),
            "its generation arguments are not",
        ),
        (lambda sample: sample["doc"]["choices"].reverse(), DIFFERENT_REQUEST),
        (lambda sample: sample["doc"].update(prefix="Another text."), DIFFERENT_REQUEST),
    ],
)
@pytest.mark.parametrize(("name", "protocol"), [(TASK, "statements"), (LETTERS, "letters")])
def test_a_leaderboard_sees_what_was_asked(name, protocol, change, complaint, finished):
    audit = FactorChatAudit(ExpectedRun({"protocol": protocol}, GENERATION, has_template=True))
    (path,) = finished.rglob(f"samples_{name}_*.jsonl")
    for sample in map(edit(change), read_samples(path)):
        found = audit.request_problem(sample)
        assert found == complaint or (complaint and complaint in found)
