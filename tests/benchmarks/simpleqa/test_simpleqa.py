"""SimpleQA: grades become scores, unreadable grades are unscored, and the sample task runs."""

import json

import pytest
import yaml

from judges.answers import Answer
from judges.typed import JUDGE_ERROR, ParsedReply, read_reply
from lm_factuality.benchmarks.simpleqa.benchmark import BENCHMARK
from lm_factuality.benchmarks.simpleqa.task import SimpleQATask
from lm_factuality.cli import main
from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.results.read import read_results_files
from lm_factuality.results.recompute import recompute
from tests.conftest import TASKS

DOC = {"index": "0", "question": "Q?", "reference": "A"}


class RecordedJudge:
    """A judge that gives recorded replies, in the order of the questions."""

    def __init__(self, *replies):
        """Set the texts of the replies."""
        self.replies = replies

    def ask_typed(self, prompt, reply, subjects, description, samples):
        """Read one reply to each question as the judge itself does."""
        recorded = self.replies[: len(subjects)]
        return [[read_reply(Answer(text), reply, {})] for text in recorded]


def reply_with_grade(grade):
    """Return the text of a reply that gives this grade."""
    return json.dumps({"reason": "because", "grade": grade})


CORRECT = reply_with_grade("CORRECT")
INCORRECT = reply_with_grade("INCORRECT")
NOT_ATTEMPTED = reply_with_grade("NOT_ATTEMPTED")


def summarise_replies(*replies, **metadata):
    """Summarise the scores of as many answers as there are replies of the judge.

    Args:
        *replies: The text of the judge's reply about each answer.
        **metadata: The settings of the task, such as ``protocol``.
    """
    method = BENCHMARK.judging.make_method(metadata)
    docs = [{**DOC, "index": str(number)} for number in range(len(replies))]
    verdicts = method.judge(RecordedJudge(*replies), docs, [["an answer"]] * len(replies))
    return method.summarise(docs, verdicts)


def test_scores_follow_the_paper():
    replies = [CORRECT] * 3 + [INCORRECT] * 2 + [NOT_ATTEMPTED] * 5

    summary = summarise_replies(*replies)

    correct = 3 / 10
    correct_given_attempted = 3 / (3 + 2)
    harmonic_mean = 2 / (1 / correct + 1 / correct_given_attempted)
    assert summary["correct"]["value"] == pytest.approx(correct)
    assert summary["correct_given_attempted"]["value"] == pytest.approx(correct_given_attempted)
    assert summary["f1"]["value"] == pytest.approx(harmonic_mean)


def test_an_unreadable_grade_is_unscored():
    """The score is of the two answers with a grade."""
    summary = summarise_replies(CORRECT, INCORRECT, "I would say that it is fine.")

    assert summary["correct"]["value"] == pytest.approx(1 / 2)
    assert list(summary["unscored"].values()) == [1]


def test_score_bounds_cover_every_value_of_an_unreadable_grade():
    """One answer is correct, one incorrect, and the third has no readable grade."""
    summary = summarise_replies(CORRECT, INCORRECT, "I would say that it is fine.")

    assert summary["correct"]["worst"] == 1 / 3
    assert summary["correct"]["best"] == 2 / 3


def test_protocol_simple_evals_counts_an_unreadable_grade_as_not_attempted():
    """OpenAI's script of this name counts it so, and the protocol must give its scores."""
    summary = summarise_replies(CORRECT, "no grade", protocol="simple-evals")

    assert summary["correct"]["value"] == pytest.approx(1 / 2)
    assert summary["correct_given_attempted"]["value"] == 1 / 1
    assert summary["unscored"] == {}


def test_protocol_simple_evals_leaves_answers_unscored_if_the_judge_fails():
    """Only what a judge said can count as not attempted."""
    method = BENCHMARK.judging.make_method({"protocol": "simple-evals"})
    failure = ParsedReply(None, f"{JUDGE_ERROR}: no server", Answer(None, error="no server"))

    assert method.grade_of_reply(failure) is None


def test_accuracy_given_attempted_is_undefined_without_attempts():
    """The share of correct answers among no attempts is neither 0 nor 1."""
    summary = summarise_replies(NOT_ATTEMPTED, NOT_ATTEMPTED)

    assert summary["correct_given_attempted"]["value"] is None
    assert summary["f1"]["value"] == 0


def test_unfinished_thought_is_unscored_and_not_judged():
    """The model ran out of tokens while it thought, and has given no answer yet."""
    method = BENCHMARK.judging.make_method({})
    judge_without_replies = RecordedJudge()

    (verdict,) = method.judge(judge_without_replies, [DOC], [["<think>It could be"]])

    assert verdict["grade"] is None
    assert "thinking without an end" in verdict["unscored"]


def test_an_unknown_protocol_is_refused():
    """Other benchmarks have a protocol "code", but this one does not."""
    with pytest.raises(ConfigError, match="expected one of paper, simple-evals"):
        BENCHMARK.judging.make_method({"protocol": "code"})


def find_record_problem(**changes):
    """Return what is wrong with the record of a correct answer after changes of its verdict."""
    method = BENCHMARK.judging.make_method({})
    (verdict,) = method.judge(RecordedJudge(CORRECT), [DOC], [["an answer"]])
    sample = {"doc": DOC, "verdict": {**verdict, **changes}, "responses": ["an answer"]}
    return method.record_problem(sample)


def test_record_with_a_grade_matching_the_reply_has_no_problem():
    """A leaderboard reads the judge's reply in the record again, and comes to the same grade."""
    assert find_record_problem() is None


@pytest.mark.parametrize("changes", [{"grade": "INCORRECT"}, {"outputs": []}])
def test_record_with_a_grade_contradicting_the_reply_has_a_problem(changes):
    """A participant of a leaderboard may have changed the grade, or removed the reply."""
    assert "its 'grade' does not follow" in find_record_problem(**changes)


@pytest.fixture(scope="module")
def results_folder(tmp_path_factory, checkpoint):
    """Return the results of a run of the sample task's first twelve questions."""
    folder = tmp_path_factory.mktemp("simpleqa")
    arguments = [
        *("--model", "hf"),
        *("--model_args", f"pretrained={checkpoint},dtype=float32"),
        *("--tasks", "sample_simpleqa"),
        *("--limit", "12"),
        *("--device", "cpu"),
        *("--output_path", str(folder)),
        "--log_samples",
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["lm-factuality"])
        patch.setenv("LM_FACTUALITY_HOME", str(folder / "home"))
        assert main(["run", *arguments]) == 0
    return folder


def test_scores_of_a_run_can_be_recomputed_from_samples(results_folder):
    """A reader of the results can check each score without the model and the judge."""
    (file,) = read_results_files([results_folder])
    task = file.task("sample_simpleqa")

    recomputed = recompute(task)

    assert recomputed.changed_rows == ()
    assert 0 < task.metrics["f1"] < 1


def test_a_report_shows_the_scores_of_a_run(results_folder, tmp_path):
    """The page has the labels that the benchmark declares for its scores."""
    exit_code = main(["report", str(results_folder), "--out", str(tmp_path)])

    assert exit_code == 0
    page = (tmp_path / "simpleqa.html").read_text(encoding="utf-8")
    assert "Correct if attempted" in page


def test_a_sheet_asks_people_for_the_grades_of_a_run(results_folder, tmp_path):
    """People grade some answers too, which shows how far the judge can be trusted."""
    sheet_path = tmp_path / "sheet.html"

    arguments = [str(results_folder), "--rows", "4", "--out", str(sheet_path)]
    exit_code = main(["people", "sheet", *arguments])

    assert exit_code == 0
    assert "Which grade does the answer deserve" in sheet_path.read_text(encoding="utf-8")


def config_of_task(table_path, **metadata):
    """Return the configuration of the sample task, with another table and these settings."""
    config = yaml.safe_load((TASKS / "sample" / "sample_simpleqa.yaml").read_text("utf-8"))
    del config["include"]
    config["dataset_path"] = str(table_path)
    config["metadata"] = {"judge": "lexical", **metadata}
    return config


@pytest.mark.parametrize(
    ("row", "metadata", "message"),
    [
        pytest.param({"problem": "Q?"}, {}, "no column 'answer'", id="no reference"),
        pytest.param(
            {"problem": "Q?", "answer": " "},
            {},
            "the column 'answer' is empty",
            id="empty reference",
        ),
        pytest.param(
            {"problem": "Q?", "answer": "A"},
            {"rows": 4326},
            "found 1 rows, expected 4,326",
            id="fewer rows than the YAML says",
        ),
    ],
)
def test_broken_data_is_refused_with_its_location(row, metadata, message, tmp_path):
    """Each row must have a question and the reference that the judge compares with."""
    table_path = tmp_path / "rows.jsonl"
    table_path.write_text(json.dumps(row) + "\n", encoding="utf-8")

    with pytest.raises(DataError, match=message):
        SimpleQATask(config=config_of_task(table_path, **metadata))
