"""SimpleQA: grades become scores, unreadable grades are unscored, and the sample task runs."""

import json

import pytest

from judges.answers import Answer
from judges.typed import JUDGE_ERROR, ParsedReply
from lm_factuality.benchmarks.simpleqa.benchmark import BENCHMARK
from lm_factuality.cli import main
from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.results.read import read_results_files
from lm_factuality.results.recompute import recompute
from tests.conftest import TASKS

GRADES = ["CORRECT"] * 3 + ["INCORRECT"] * 2 + ["NOT_ATTEMPTED"] * 5
DOCS = [{"index": str(place), "question": "Q?", "reference": "A"} for place in range(len(GRADES))]


class RecordedJudge:
    """Replies with recorded texts, in the order of the questions."""

    def __init__(self, *texts):
        self.texts = texts

    def ask_typed(self, prompt, reply, subjects, description, samples):
        from judges.typed import read_reply

        answers = [Answer(text) for text in self.texts]
        return [[read_reply(answer, reply, {})] for answer in answers[: len(subjects)]]


def graded(grade):
    return json.dumps({"reason": "because", "grade": grade})


def summary_of(*texts, **metadata):
    answers = BENCHMARK.judging.make_method(metadata)
    responses = [["an answer"]] * len(texts)
    verdicts = answers.judge(RecordedJudge(*texts), DOCS[: len(texts)], responses)
    return answers.summarise(DOCS[: len(texts)], verdicts)


def test_scores_are_those_of_the_paper():
    summary = summary_of(*map(graded, GRADES))
    assert summary["correct"]["value"] == pytest.approx(3 / 10)
    assert summary["correct_given_attempted"]["value"] == pytest.approx(3 / 5)
    assert summary["f1"]["value"] == pytest.approx(2 * 0.3 * 0.6 / (0.3 + 0.6))


def test_an_unreadable_grade_is_unscored_and_bounds_say_what_it_could_be():
    summary = summary_of(graded("CORRECT"), graded("INCORRECT"), "I would say that it is fine.")
    assert summary["correct"]["value"] == pytest.approx(1 / 2)
    assert (summary["correct"]["worst"], summary["correct"]["best"]) == (1 / 3, 2 / 3)
    assert list(summary["unscored"].values()) == [1]


def test_simple_evals_takes_an_unreadable_grade_as_not_attempted():
    summary = summary_of(graded("CORRECT"), "no grade", protocol="simple-evals")
    assert summary["correct"]["value"] == pytest.approx(1 / 2)
    assert summary["correct_given_attempted"]["value"] == 1
    assert summary["unscored"] == {}


def test_simple_evals_leaves_an_answer_unscored_if_the_judge_is_down():
    answers = BENCHMARK.judging.make_method({"protocol": "simple-evals"})
    problem = f"{JUDGE_ERROR}: no server"
    reply = ParsedReply(None, problem, Answer(None, error="no server"))
    assert answers.grade_of_reply(reply) is None


def test_no_attempt_leaves_the_share_of_attempts_undefined():
    summary = summary_of(graded("NOT_ATTEMPTED"), graded("NOT_ATTEMPTED"))
    assert summary["correct_given_attempted"]["value"] is None
    assert summary["f1"]["value"] == 0


def test_a_thought_without_an_end_is_unscored_and_not_judged():
    answers = BENCHMARK.judging.make_method({})
    (verdict,) = answers.judge(RecordedJudge(), DOCS[:1], [["<think>It could be"]])
    assert verdict["grade"] is None
    assert "thinking without an end" in verdict["unscored"]


def test_an_unknown_protocol_is_refused():
    with pytest.raises(ConfigError, match="expected one of paper, simple-evals"):
        BENCHMARK.judging.make_method({"protocol": "code"})


@pytest.mark.parametrize("change", [{"grade": "INCORRECT"}, {"outputs": []}])
def test_a_record_that_does_not_follow_from_the_reply_is_unfounded(change):
    answers = BENCHMARK.judging.make_method({})
    (verdict,) = answers.judge(RecordedJudge(graded("CORRECT")), DOCS[:1], [["an answer"]])
    row = {"doc": DOCS[0], "verdict": verdict, "responses": ["an answer"]}
    assert answers.record_problem(row) is None
    assert "its 'grade' does not follow" in answers.record_problem(
        {**row, "verdict": {**verdict, **change}}
    )


@pytest.fixture(scope="module")
def finished(tmp_path_factory, checkpoint):
    """A run of the sample task's first twelve questions."""
    out = tmp_path_factory.mktemp("simpleqa")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["lm-factuality"])
        patch.setenv("LM_FACTUALITY_HOME", str(out / "home"))
        model = ["--model", "hf", "--model_args", f"pretrained={checkpoint},dtype=float32"]
        options = ["--tasks", "sample_simpleqa", "--limit", "12", "--device", "cpu"]
        saved = ["--output_path", str(out), "--log_samples"]
        assert main(["run", *model, *options, *saved]) == 0
    return out


def test_the_scores_of_a_run_follow_from_its_samples(finished):
    (file,) = read_results_files([finished])
    task = file.task("sample_simpleqa")
    assert recompute(task).changed_rows == ()
    assert 0 < task.metrics["f1"] < 1


def test_a_run_is_reported_and_people_are_asked(finished, tmp_path):
    assert main(["report", str(finished), "--out", str(tmp_path / "report")]) == 0
    page = (tmp_path / "report" / "simpleqa.html").read_text(encoding="utf-8")
    assert "Correct if attempted" in page
    sheet = ["people", "sheet", str(finished), "--rows", "4", "--out"]
    assert main([*sheet, str(tmp_path / "sheet.html")]) == 0
    assert "Which grade does the answer deserve" in (tmp_path / "sheet.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("rows", "metadata", "expected"),
    [
        ([{"problem": "Q?"}], {}, "no column 'answer'"),
        ([{"problem": "Q?", "answer": " "}], {}, "the column 'answer' is empty"),
        ([{"problem": "Q?", "answer": "A"}], {"rows": 4326}, "found 1 rows, expected 4,326"),
    ],
)
def test_broken_data_is_refused_with_its_place(rows, metadata, expected, tmp_path):
    import yaml

    from lm_factuality.benchmarks.simpleqa.task import SimpleQATask

    table = tmp_path / "rows.jsonl"
    table.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    config = yaml.safe_load((TASKS / "sample" / "sample_simpleqa.yaml").read_text("utf-8"))
    config |= {"dataset_path": str(table), "metadata": {"judge": "lexical", **metadata}}
    config.pop("include")
    with pytest.raises(DataError, match=expected):
        SimpleQATask(config=config)
