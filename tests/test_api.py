"""The suite from Python: what ``lm_factuality.api`` promises."""

from __future__ import annotations

import asyncio
import csv
import json
import subprocess
import sys

import pytest

from lm_factuality import api
from tests.conftest import TASKS
from tests.judges.server import Act, JudgeServer

LARGER = str(TASKS / "sample" / "models" / "larger")
HEAVY = {
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
def without_lm_evals_own_tasks():
    """Listing them takes seconds in each run."""
    from lm_eval.tasks import TaskManager

    made = TaskManager.__init__
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            TaskManager,
            "__init__",
            lambda self, *given, **options: made(
                self, *given, **{**options, "include_defaults": False}
            ),
        )
        yield


@pytest.fixture(scope="module")
def model():
    return api.open_model(pretrained=LARGER)


@pytest.fixture(scope="module")
def sample_rows():
    with (TASKS / "sample" / "sample_factor.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def evaluated(model):
    return api.evaluate(model, ["sample_factor"], limit=12)


def test_importing_it_imports_nothing_that_takes_time():
    code = "import sys, lm_factuality.api; print(*{name.partition('.')[0] for name in sys.modules})"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not HEAVY & set(loaded)


def test_everything_that_it_exports_is_there_and_nothing_else():
    assert all(getattr(api, name) is not None for name in api.__all__)
    assert len(set(api.__all__)) == len(api.__all__)
    with pytest.raises(AttributeError, match="no attribute 'judge'"):
        api.judge  # noqa: B018


def test_rows_at_hand_get_the_scores_of_the_task(model, sample_rows, evaluated):
    found = api.score_rows(model, sample_rows[:12], join="authors")
    names = (
        "factor_acc",
        "acc",
        "choice_prob",
        "margin",
        "factor_mean_logprob",
        "factor_num_tokens",
        "unscored",
    )
    assert [[row[name] for name in names] for row in found.rows()] == [
        [row[name] for name in names] for row in evaluated.rows()
    ]
    ours, theirs = (
        {score["score"]: score for score in each.scores()} for each in (found, evaluated)
    )
    assert ours.keys() == theirs.keys()
    for name, score in theirs.items():
        assert ours[name] | {"task": "sample_factor"} == score


def test_a_score_comes_with_its_interval_and_the_headline_first(evaluated):
    first, *others = evaluated.scores()
    assert first["score"] == "factor_acc"
    assert first["rows"] == 12
    assert 0 <= first["low"] <= first["value"] <= first["high"] <= 1
    assert 0 < first["guess_baseline"] < 0.5
    assert {"acc", "bits_per_byte", "pairwise_acc"} <= {each["score"] for each in others}
    assert not {"factor_acc_worst", "unscored", "truncated"} & {
        each["score"] for each in others
    }  # columns, not scores


def test_a_run_leaves_files_that_read_as_what_is_in_memory(tmp_path, evaluated):
    argv = list(sys.argv)
    found = api.run(
        ["sample_factor"], "hf-tree", tmp_path / "out", model_args={"pretrained": LARGER}, limit=12
    )
    assert sys.argv == argv
    again = api.read_results(tmp_path / "out")
    assert again == found
    ours = [{**row, "model": ""} for row in again.rows()]
    assert ours == [{**row, "model": ""} for row in evaluated.rows()]
    assert [score["value"] for score in again.scores()] == [
        score["value"] for score in evaluated.scores()
    ]


def test_rows_without_a_score_are_counted_by_their_reason(model, sample_rows):
    empty = {**sample_rows[0], "contradiction_1": " "}
    found = api.score_rows(
        model, [sample_rows[0], empty, {**empty, "completion": sample_rows[1]["completion"]}]
    )
    assert [row["unscored"] for row in found.rows()] == [
        None,
        "choice 2 is empty",
        "choice 2 is empty",
    ]
    assert found.unscored() == [
        {"model": LARGER, "task": "rows", "reason": "choice 2 is empty", "cure": "", "rows": 2}
    ]
    first = found.scores()[0]
    assert (first["unscored"], first["rows"]) == (2, 3)
    assert first["best"] - first["worst"] == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (
            lambda model: api.evaluate(model, ["sample_factr"]),
            api.ConfigError,
            "did you mean sample_factor",
        ),
        (
            lambda model: api.evaluate(model, ["nowhere.yaml"]),
            api.ConfigError,
            "nowhere.yaml: no such file",
        ),
        (lambda model: api.evaluate(model, ["felm_gen"]), api.ConfigError, "judge"),
        (lambda model: api.open_model("hf-treee"), api.ConfigError, "hf-treee"),
        (lambda model: api.score_rows(model, []), api.DataError, "rows"),
        (
            lambda model: api.score_rows(model, [{"prefix": "a", "completion": "b"}]),
            api.ConfigError,
            "contradiction_0",
        ),
        (lambda model: api.read_results("nowhere"), api.DataError, "nowhere: no results"),
        (
            lambda model: api.run(
                ["sample_factor"], model_args={"api_key": "sk-0123456789abcdefghij"}
            ),
            api.ConfigError,
            "api_key",
        ),
        (lambda model: api.load_judge_config("nowhere.yaml"), api.ConfigError, "nowhere.yaml"),
        (lambda model: api.load_build("nowhere.yaml"), api.ConfigError, "nowhere.yaml"),
    ],
)
def test_what_a_user_can_mend_is_an_error_of_the_suite(
    model, call, error, said, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=said):
        call(model)


def test_a_yaml_of_ones_own_by_its_path(
    model, sample_rows, factor_yaml, write_rows, tmp_path, monkeypatch
):
    write_rows(sample_rows[:3])
    path = factor_yaml(dataset_path="rows.jsonl")
    monkeypatch.chdir(tmp_path.parent)
    assert api.evaluate(model, [str(path)]).scores()[0]["rows"] == 3
    assert api.evaluate(model, ["my_factor"], include_path=[str(tmp_path)]).scores()[0]["rows"] == 3


def test_a_judged_task_in_memory(model, tmp_path):
    found = api.evaluate(
        model,
        ["sample_felm_gen"],
        metadata={"judge_store": str(tmp_path / "answers.sqlite")},
        limit=2,
        gen_kwargs={"max_gen_toks": 16},
    )
    assert found.scores()[0]["score"] == "segment_error_rate"
    assert [
        json.loads(row["filtered_resps"][0]).keys() >= {"unscored"} for row in found.rows()
    ] == [True, True]


def test_a_task_that_is_not_the_suites(model, sample_rows, tmp_path, write_rows):
    path = write_rows(sample_rows[:4])
    (tmp_path / "plain.yaml").write_text(
        f"task: plain\ndataset_path: json\ndataset_kwargs: {{data_files: {{test: {path}}}}}\ntest_split: test\noutput_type: multiple_choice\n"
        "doc_to_text: prefix\ndoc_to_choice: '{{[completion, contradiction_0]}}'\ndoc_to_target: 0\nmetric_list: [{metric: acc}]\n"
    )
    found = api.evaluate(model, ["plain"], include_path=[str(tmp_path)])
    assert found.scores() == []
    assert [row["acc"] for row in found.rows()]


@pytest.fixture
def server():
    def reply(prompt, attempt):
        if "passages" in prompt.casefold() and "claim" in prompt.casefold():
            return Act(
                text=json.dumps(
                    {"reason": "It says so.", "verdict": "supported", "probability": 0.9}
                )
            )
        return Act(text="Answer: ALL_CORRECT", delay=0.02)

    running = JudgeServer(reply)
    yield running
    running.close()


def test_it_works_twice_where_an_event_loop_runs_already(server, tmp_path, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    client = {
        "model": "small-judge",
        "base_url": f"{server.base_url}/chat/completions",
        "num_concurrent": 3,
    }
    config = api.JudgeConfig(
        name="served", backend="openai", model="small-judge", base_url=server.base_url
    )

    async def notebook():
        loop = asyncio.get_running_loop()
        for _ in range(2):
            opened = api.open_model("local-chat-completions", **client)
            assert (
                len(api.evaluate(opened, ["sample_felm"], limit=2, apply_chat_template=True).rows())
                == 2
            )
            results = api.run(
                ["sample_felm"],
                "local-chat-completions",
                tmp_path,
                model_args=client,
                limit=2,
                apply_chat_template=True,
            )
            assert len(results.rows()) == 2
            with api.Judge.open(config, store=tmp_path / "answers.sqlite") as judge:
                (found,) = api.verify(
                    judge, [api.Pair("The mill is old.", ("The mill was built in 1402.",))]
                )
            assert found.verdict == "supported"
            assert asyncio.get_running_loop() is loop is asyncio.get_event_loop()
            await asyncio.sleep(0)

    asyncio.run(notebook())
    assert server.busiest > 1
