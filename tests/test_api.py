"""The suite from Python: what ``lm_factuality.api`` promises."""

from __future__ import annotations

import asyncio
import csv
import json
import subprocess
import sys
from contextlib import closing

import pytest

from lm_factuality import api
from tests.conftest import TASKS
from tests.judges.server import Act, JudgeServer

LARGER = str(TASKS / "sample" / "models" / "larger")

# Each of these takes long to import.
SLOW_PACKAGES = {
    "torch",
    "transformers",
    "lm_eval",
    "datasets",
    "pandas",
    "judges",
    "factor_gen",
    "pydantic",
}


@pytest.fixture(scope="module", autouse=True)
def no_tasks_of_lm_eval():
    """Keep lm_eval from listing its own tasks, which takes seconds in each run."""
    from lm_eval.tasks import TaskManager

    original_init = TaskManager.__init__

    def init_without_defaults(self, *args, **options):
        options["include_defaults"] = False
        original_init(self, *args, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TaskManager, "__init__", init_without_defaults)
        yield


@pytest.fixture(scope="module")
def model():
    """Open the larger checkpoint of the sample."""
    return api.open_model(pretrained=LARGER)


@pytest.fixture(scope="module")
def sample_rows():
    """Read all rows of the sample of FACTOR."""
    with (TASKS / "sample" / "sample_factor.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def task_results(model):
    """Evaluate the model on the first 12 rows of the sample of FACTOR."""
    return api.evaluate(model, ["sample_factor"], limit=12)


def test_importing_the_api_imports_no_slow_package():
    """``import lm_factuality.api`` in a notebook must not take ten seconds."""
    code = "import sys, lm_factuality.api; print(*{name.partition('.')[0] for name in sys.modules})"

    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )

    assert SLOW_PACKAGES.isdisjoint(process.stdout.split())


def test_every_exported_name_exists_once():
    """``from lm_factuality.api import *`` fails for a name that does not exist."""
    for name in api.__all__:
        assert getattr(api, name) is not None
    assert len(set(api.__all__)) == len(api.__all__)


def test_internal_names_are_not_exported():
    """The suite may change whatever is not in the API."""
    with pytest.raises(AttributeError, match="no attribute 'judge'"):
        api.judge  # noqa: B018


def test_rows_in_memory_and_in_a_task_have_equal_values(model, sample_rows, task_results):
    """Both ways to score a row must agree to the last digit."""
    results = api.score_rows(model, sample_rows[:12], join="authors")

    metrics = (
        "factor_acc",
        "acc",
        "choice_prob",
        "margin",
        "factor_mean_logprob",
        "factor_num_tokens",
        "unscored",
    )
    for row, task_row in zip(results.rows(), task_results.rows(), strict=True):
        for metric in metrics:
            assert row[metric] == task_row[metric], metric


def test_rows_in_memory_and_in_a_task_have_equal_scores(model, sample_rows, task_results):
    """Only the name of the task differs."""
    results = api.score_rows(model, sample_rows[:12], join="authors")

    # Rows in memory are of the task "rows", and those of the run of "sample_factor".
    expected_scores = [{**score, "task": "rows"} for score in task_results.scores()]
    assert list(results.scores()) == expected_scores


def test_the_headline_comes_first_and_has_an_interval(task_results):
    """A score without an interval says little on 12 rows."""
    headline = task_results.scores()[0]

    assert headline["score"] == "factor_acc"
    assert headline["rows"] == 12
    assert 0 <= headline["low"] <= headline["value"] <= headline["high"] <= 1
    assert 0 < headline["guess_baseline"] < 0.5


def test_a_notebook_shows_a_small_table_of_the_headlines(task_results):
    """A wide table of all scores would fill the screen; the limits are in characters."""
    html = task_results._repr_html_()

    assert html.startswith("<table")
    assert "factor_acc" in html
    assert "pairwise_acc" not in html
    assert len(html) < 2_000
    assert len(repr(task_results)) < 500


def test_rows_become_a_data_frame(task_results):
    rows = task_results.rows()

    data_frame = rows.to_pandas()

    assert set(data_frame.columns) == rows[0].keys()
    assert len(data_frame) == len(rows)


def test_scores_become_a_data_frame(task_results):
    scores = task_results.scores()

    data_frame = scores.to_pandas()

    assert set(data_frame.columns) == scores[0].keys()
    assert len(data_frame) == len(scores)


def test_rows_and_scores_have_a_short_display(task_results):
    """Rows hold long texts, of which a screen shows the beginning; the limits are in characters."""
    for table in (task_results.rows(), task_results.scores()):
        assert len(repr(table)) < 600
        assert len(table._repr_html_()) < 20_000


def test_counts_and_bounds_are_fields_of_a_score(task_results):
    """In a list of scores, a reader would take the number of unscored rows for a result."""
    names = {score["score"] for score in task_results.scores()}

    assert {"acc", "bits_per_byte", "pairwise_acc"} <= names
    assert names.isdisjoint({"factor_acc_worst", "unscored", "truncated"})


def run_on_files(folder):
    """Run the model on the first 12 rows of the sample of FACTOR, with a folder for the results."""
    model_args = {"pretrained": LARGER}
    return api.run(["sample_factor"], "hf-tree", folder, model_args=model_args, limit=12)


def test_files_of_a_run_are_read_as_its_results(tmp_path):
    """A user may read results a week later and go on as if they were new."""
    results = run_on_files(tmp_path / "out")

    assert api.read_results(tmp_path / "out") == results


def test_a_run_on_files_has_the_results_of_an_evaluation_in_memory(model, tmp_path):
    """A user may switch between the two without a change of the figures."""
    in_memory = api.evaluate(model, ["sample_factor"], limit=12)

    on_files = run_on_files(tmp_path / "out")

    # The two make other batches of the rows, which round in another way.
    margins = [row["margin"] for row in in_memory.rows()]
    scores = [score["value"] for score in in_memory.scores()]
    assert [row["doc"] for row in on_files.rows()] == [row["doc"] for row in in_memory.rows()]
    assert [row["margin"] for row in on_files.rows()] == pytest.approx(margins, abs=1e-5)
    assert [score["value"] for score in on_files.scores()] == pytest.approx(scores, rel=1e-5)


def test_run_does_not_change_process_arguments(tmp_path):
    """lm_eval reads ``sys.argv``, which a run therefore replaces for a while."""
    arguments = list(sys.argv)

    run_on_files(tmp_path / "out")

    assert sys.argv == arguments


@pytest.fixture(scope="module")
def results_with_unscored_rows(model, sample_rows):
    """Score three rows, of which the last two have an empty choice."""
    sound_row = sample_rows[0]
    row_without_choice = {**sound_row, "contradiction_1": " "}
    another_row = {**row_without_choice, "completion": sample_rows[1]["completion"]}
    return api.score_rows(model, [sound_row, row_without_choice, another_row])


def test_rows_without_a_score_have_a_reason(results_with_unscored_rows):
    """The second and the third of the three rows have an empty contradiction."""
    reasons = [row["unscored"] for row in results_with_unscored_rows.rows()]

    assert reasons == [
        None,
        "choice 2 (contradiction_1) is empty",
        "choice 2 (contradiction_1) is empty",
    ]


def test_rows_without_a_score_are_counted_by_their_reason(results_with_unscored_rows):
    """A user sees the common cause and not each row."""
    assert results_with_unscored_rows.unscored() == [
        {
            "model": LARGER,
            "task": "rows",
            "reason": "choice 2 (contradiction_1) is empty",
            "cure": "",
            "rows": 2,
        }
    ]


def test_score_has_bounds_over_unscored_rows(results_with_unscored_rows):
    """Two of three rows could be right or wrong, so the bounds are two thirds apart."""
    score = results_with_unscored_rows.scores()[0]

    assert score["unscored"] == 2
    assert score["rows"] == 3
    assert score["best"] - score["worst"] == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        pytest.param(["sample_factr"], "did you mean sample_factor", id="misspelt task"),
        pytest.param(["nowhere.yaml"], "nowhere.yaml: no such file", id="missing YAML"),
        pytest.param(["felm_gen"], "judge", id="task without its judge"),
    ],
)
def test_a_task_that_cannot_run_is_refused(model, tasks, message):
    """The error says so before the model is run."""
    with pytest.raises(api.ConfigError, match=message):
        api.evaluate(model, tasks)


def test_an_unknown_kind_of_model_is_refused():
    """The message has the name as the user wrote it."""
    with pytest.raises(api.ConfigError, match="hf-treee"):
        api.open_model("hf-treee")


def test_no_rows_are_refused(model):
    """A mean of nothing would be NaN."""
    with pytest.raises(api.DataError, match="rows"):
        api.score_rows(model, [])


def test_rows_without_a_contradiction_are_refused(model):
    """There is nothing to compare the completion with."""
    with pytest.raises(api.ConfigError, match="contradiction_0"):
        api.score_rows(model, [{"prefix": "a", "completion": "b"}])


def test_a_credential_among_the_arguments_of_a_model_is_refused():
    """lm_eval writes these arguments to the results file."""
    with pytest.raises(api.ConfigError, match="api_key"):
        api.run(["sample_factor"], model_args={"api_key": "sk-0123456789abcdefghij"})


def test_missing_results_are_refused(tmp_path):
    """The message has the folder as the user wrote it."""
    with pytest.raises(api.DataError, match="nowhere: no results"):
        api.read_results(tmp_path / "nowhere")


@pytest.mark.parametrize(
    "load", [api.load_judge_config, api.load_build], ids=["judge", "factor-gen"]
)
def test_a_missing_configuration_is_refused(load, tmp_path):
    """The message has the path as the user wrote it."""
    with pytest.raises(api.ConfigError, match="nowhere.yaml"):
        load(tmp_path / "nowhere.yaml")


@pytest.fixture
def own_yaml(sample_rows, factor_yaml, write_rows, tmp_path, monkeypatch):
    """Write the task ``my_factor`` with three rows, and return the path of its YAML.

    The data lies beside the YAML, and not in the working folder.
    """
    write_rows(sample_rows[:3])
    path = factor_yaml(dataset_path="rows.jsonl")
    monkeypatch.chdir(tmp_path.parent)
    return path


def test_a_task_of_the_user_is_evaluated_by_its_path(model, own_yaml):
    """The data is found beside the YAML, wherever Python was started."""
    results = api.evaluate(model, [str(own_yaml)])

    assert results.scores()[0]["rows"] == 3


def test_a_task_of_the_user_is_evaluated_by_its_name(model, own_yaml):
    """The data is found beside the YAML, although the working folder is another one."""
    results = api.evaluate(model, ["my_factor"], include_path=[str(own_yaml.parent)])

    assert results.scores()[0]["rows"] == 3


def test_a_judged_task_is_evaluated_in_memory(model, tmp_path):
    """The offline judge needs neither a key nor a server."""
    results = api.evaluate(
        model,
        ["sample_felm_gen"],
        metadata={"judge_store": str(tmp_path / "answers.sqlite")},
        limit=2,
        gen_kwargs={"max_gen_toks": 16},
    )

    assert results.scores()[0]["score"] == "segment_error_rate"
    assert len(results.rows()) == 2
    for row in results.rows():
        verdict = json.loads(row["filtered_resps"][0])
        assert "unscored" in verdict


PLAIN_TASK = """
task: plain
dataset_path: json
dataset_kwargs: {{data_files: {{test: {path}}}}}
test_split: test
output_type: multiple_choice
doc_to_text: prefix
doc_to_choice: '{{{{[completion, contradiction_0]}}}}'
doc_to_target: 0
metric_list: [{{metric: acc}}]
"""


def test_foreign_task_has_rows_but_no_scores(model, sample_rows, tmp_path, write_rows):
    """The suite does not know how its metrics are aggregated, so it states no interval."""
    path = write_rows(sample_rows[:4])
    (tmp_path / "plain.yaml").write_text(PLAIN_TASK.format(path=path))

    results = api.evaluate(model, ["plain"], include_path=[str(tmp_path)])

    assert results.scores() == []
    assert len(results.rows()) == 4
    for row in results.rows():
        assert "acc" in row


@pytest.fixture
def server(monkeypatch):
    """Run a server that plays the evaluated model and the judge."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    verdict = {"reason": "It says so.", "verdict": "supported", "probability": 0.9}

    def reply(prompt, attempt):
        asks_for_verdict = "passages" in prompt.casefold() and "claim" in prompt.casefold()
        if asks_for_verdict:
            return Act(text=json.dumps(verdict))
        return Act(text="Answer: ALL_CORRECT", delay=0.02)

    with closing(JudgeServer(reply)) as judge_server:
        yield judge_server


@pytest.fixture
def client_arguments(server):
    """Return the arguments of lm_eval's client of ``server``."""
    return {
        "model": "small-judge",
        "base_url": f"{server.base_url}/chat/completions",
        "num_concurrent": 3,
    }


def call_twice_in_an_event_loop(call):
    """Call a function twice where an event loop runs already, as in a notebook.

    The loop has to be the same afterwards.
    """

    async def run_cells():
        loop = asyncio.get_running_loop()
        for _ in range(2):
            call()
            assert asyncio.get_running_loop() is loop
            assert asyncio.get_event_loop() is loop
            await asyncio.sleep(0)

    asyncio.run(run_cells())


def test_evaluate_works_in_a_notebook(server, client_arguments):
    """lm_eval's client starts an event loop, which fails where one runs already."""

    def evaluate():
        model = api.open_model("local-chat-completions", **client_arguments)
        results = api.evaluate(model, ["sample_felm"], limit=2, apply_chat_template=True)
        assert len(results.rows()) == 2

    call_twice_in_an_event_loop(evaluate)

    assert server.busiest > 1  # requests were sent at the same time


def test_run_works_in_a_notebook(server, client_arguments, tmp_path):
    """``run`` starts lm_eval in another way than ``evaluate``, and needs the same care."""

    def run():
        results = api.run(
            ["sample_felm"],
            "local-chat-completions",
            tmp_path,
            model_args=client_arguments,
            limit=2,
            apply_chat_template=True,
        )
        assert len(results.rows()) == 2

    call_twice_in_an_event_loop(run)


def test_verify_works_in_a_notebook(server, tmp_path):
    """Judges send their requests without an event loop of the user."""
    config = api.JudgeConfig(
        name="served", backend="openai", model="small-judge", base_url=server.base_url
    )
    pair = api.Pair("The mill is old.", ("The mill was built in 1402.",))

    def verify():
        with api.Judge.open(config, store=tmp_path / "answers.sqlite") as judge:
            verifications = api.verify(judge, [pair])
        assert list(verifications.to_pandas()["verdict"]) == ["supported"]

    call_twice_in_an_event_loop(verify)
