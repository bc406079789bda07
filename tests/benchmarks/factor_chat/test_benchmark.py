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
def results_folder(tmp_path_factory):
    """Return the output folder of a run with both protocols on a server that knows all answers."""
    oracle = Oracle()
    folder = tmp_path_factory.mktemp("results")
    tasks = tmp_path_factory.mktemp("tasks")
    letters_task = {
        "include": str(TASKS / "sample" / f"{TASK}.yaml"),
        "task": LETTERS,
        "dataset_path": str(TASKS / "sample" / "sample_factor.csv"),
        "metadata": {"version": 1.0, "protocol": "letters"},
    }
    (tasks / f"{LETTERS}.yaml").write_text(yaml.safe_dump(letters_task), encoding="utf-8")
    model_args = {
        "model": "org/chat",
        "base_url": f"{oracle.server.base_url}/chat/completions",
        "num_concurrent": 8,
    }
    exit_code = main(
        [
            "run",
            *("--model", "local-chat-completions"),
            *("--model_args", json.dumps(model_args)),
            "--apply_chat_template",
            *("--include_path", str(tasks)),
            *("--tasks", f"{TASK},{LETTERS}"),
            *("--limit", str(ROWS)),
            "--log_samples",
            *("--output_path", str(folder)),
        ]
    )
    oracle.server.close()
    assert exit_code == 0
    return folder


@pytest.fixture
def results_file(results_folder):
    """Return the results file of the run."""
    (file,) = read_results_files([results_folder])
    return file


@pytest.fixture
def report(results_folder, tmp_path):
    """Return the folder with the report on the run."""
    folder = tmp_path / "report"
    build_report([results_folder], folder)
    return folder


@pytest.mark.parametrize("name", [TASK, LETTERS])
def test_scores_can_be_recomputed_from_samples(name, results_file):
    """The server answers every question rightly, so the accuracy is 1."""
    task = results_file.task(name)

    recomputed = recompute(task)

    assert task.kind == "factor_chat"
    assert task.metrics["chat_acc"] == 1
    assert differences(task, recomputed) == []


def test_report_includes_a_page_for_the_benchmark(report):
    """The page shows both protocols, each with an accuracy of 100%."""
    page_names = {page.name for page in report.glob("*.html")}
    html = (report / "factor_chat.html").read_text(encoding="utf-8")

    assert page_names == {"index.html", "factor_chat.html", "samples.html"}
    assert "Accuracy of prompts" in html
    assert html.count("100.0") >= 2


LETTERS_WARNING = "picking the choice that is most like the others is right in 84 to 91% of rows"


def test_report_warns_about_the_letters_protocol(report):
    """A model can score well in this protocol without knowing anything."""
    html = (report / "index.html").read_text(encoding="utf-8")

    assert LETTERS_WARNING in html


def test_the_report_has_the_probabilities_of_each_row(report):
    """The page of samples reads a file for each of the two tasks."""
    row_files = list((report / "data").glob("t?.m?.0.js"))

    assert len(row_files) == 2
    for row_file in row_files:
        assert '"chances":[' in row_file.read_text(encoding="utf-8")


def test_compare_prints_the_warning_about_the_letters_protocol_once(results_folder, capsys):
    """Of the two protocols in the results, only letters needs the warning."""
    exit_code = main(["compare", str(results_folder)])

    printed = " ".join(capsys.readouterr().out.split())
    assert exit_code == 0
    assert "FACTOR for chat models" in printed
    assert printed.count(LETTERS_WARNING) == 1


@pytest.mark.parametrize("name", [TASK, LETTERS])
def test_chat_prompt_hashes_match_lm_evals(name, results_file):
    """A leaderboard checks by these hashes that nobody has edited the samples of the run."""
    result = results_file.task(name)
    rules = TaskRules(task=name, version="1.0", git_blob="abc", documents=ROWS).model_copy(
        update={"metadata": result.metadata, "generation_kwargs": GENERATION}
    )

    samples = read_task_samples(result.samples.parent, results_file, result, rules)

    assert len(samples.doc_ids) == ROWS
    assert samples.hash_problems == []
    assert samples.request_problem == ""
    assert hash_text(samples.joined_hashes) == results_file.content["task_hashes"][name]


def test_chat_server_run_has_no_missing_template_note(results_file):
    """A chat server applies its template itself, so lm_eval records an empty one."""
    assert results_file.content["chat_template"] == ""

    notes = list(notes_on_run(results_file, results_file.task(TASK)))

    assert "without a chat template" not in notes


def remove_the_last_question(sample):
    """Leave a row with three of its four questions."""
    sample["arguments"].pop("gen_args_3")


def offer_other_words(sample):
    """Let a question be answered by Yes or No."""
    sample["arguments"]["gen_args_1"].update(arg_1=["Yes", "No"])


def raise_the_temperature(sample):
    """Let the answer to a question be sampled."""
    sample["arguments"]["gen_args_1"]["arg_3"].update(temperature=1.0)


def reverse_the_choices(sample):
    """Put the choices into another order than the questions."""
    sample["doc"]["choices"].reverse()


def replace_the_prefix(sample):
    """Give the row another text than its questions."""
    sample["doc"].update(prefix="Another text.")


@pytest.mark.parametrize(("name", "protocol"), [(TASK, "statements"), (LETTERS, "letters")])
def test_a_leaderboard_accepts_the_questions_of_a_run(name, protocol, results_folder):
    """The samples of an honest run hold the protocol's questions about their rows."""
    audit = FactorChatAudit(ExpectedRun({"protocol": protocol}, GENERATION, has_template=True))
    (path,) = results_folder.rglob(f"samples_{name}_*.jsonl")

    problems = [audit.request_problem(sample) for sample in read_samples(path)]

    assert problems == [None] * ROWS


@pytest.mark.parametrize(
    ("edit", "complaint"),
    [
        (remove_the_last_question, UNKNOWN_REQUESTS),
        (offer_other_words, UNKNOWN_REQUESTS),
        (raise_the_temperature, "its generation arguments are not"),
        (reverse_the_choices, DIFFERENT_REQUEST),
        (replace_the_prefix, DIFFERENT_REQUEST),
    ],
)
@pytest.mark.parametrize(("name", "protocol"), [(TASK, "statements"), (LETTERS, "letters")])
def test_leaderboard_detects_edited_questions(name, protocol, edit, complaint, results_folder):
    """Whoever asks easier questions must not rank among the others."""
    audit = FactorChatAudit(ExpectedRun({"protocol": protocol}, GENERATION, has_template=True))
    (path,) = results_folder.rglob(f"samples_{name}_*.jsonl")
    for sample in read_samples(path):
        edited_sample = copy.deepcopy(dict(sample))
        edit(edited_sample)

        problem = audit.request_problem(edited_sample)

        assert complaint in problem
