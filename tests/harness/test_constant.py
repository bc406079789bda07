"""The baseline for generated answers, through lm_eval."""

from __future__ import annotations

import json

import pytest

from lm_factuality.cli import main
from lm_factuality.ground.errors import ConfigError, ModelError
from lm_factuality.models.baselines import ConstantAnswer

TASK = """\
task: questions
dataset_path: json
dataset_kwargs: {{data_files: {{test: {rows}}}}}
test_split: test
output_type: generate_until
doc_to_text: question
doc_to_target: answer
generation_kwargs: {{until: {until}}}
metric_list: [{{metric: exact_match, aggregation: mean, higher_is_better: true}}]
"""


@pytest.fixture
def questions(tmp_path):
    rows = [{"question": "Is it so?", "answer": "Yes"}, {"question": "Is it not?", "answer": "No"}]
    (tmp_path / "rows.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8"
    )

    def write(until=("STOP",)):
        content = TASK.format(rows=tmp_path / "rows.jsonl", until=json.dumps(list(until)))
        (tmp_path / "questions.yaml").write_text(content, encoding="utf-8")
        return tmp_path

    return write


def answers(output):
    return [sample["resps"][0][0] for sample in output["samples"]["questions"]]


def test_every_question_gets_the_answer(evaluate, questions):
    output = evaluate("constant-answer", ["questions"], questions(), {"answer": "Yes"})
    assert answers(output) == ["Yes", "Yes"]
    assert output["results"]["questions"]["exact_match,none"] == 0.5


@pytest.mark.parametrize(
    ("answer", "until", "expected"),
    [
        (r"one\ntwo", ["STOP"], "one\ntwo"),
        (r"one\ntwo", ["\n"], "one"),
        (r"one\ntwo STOP three", ["STOP", "three"], "one\ntwo "),
        (r"a\\n\tb", ["STOP"], "a\\n\tb"),
        (42, ["2"], "4"),
        ("", ["STOP"], ""),
    ],
)
def test_stop_strings_and_escapes(answer, until, expected, evaluate, questions):
    assert (
        answers(evaluate("constant-answer", ["questions"], questions(until), {"answer": answer}))
        == [expected] * 2
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "no answer; pass answer=TEXT"),
        ({"answer": True}, "has read a bool"),
        ({"answer": 1.5}, "has read a float"),
    ],
)
def test_what_is_no_answer_is_refused(arguments, message):
    with pytest.raises(ConfigError, match=message):
        ConstantAnswer(**arguments)


def test_choices_are_for_another_baseline(evaluate):
    with pytest.raises(ConfigError, match="for choices there is surface-baseline"):
        evaluate("constant-answer", ["sample_factor"], model_args={"answer": "Yes"}, limit=1)
    with pytest.raises(ModelError, match="leave out the perplexity tasks"):
        evaluate(
            "constant-answer", ["sample_factor_perplexity"], model_args={"answer": "Yes"}, limit=1
        )


def test_it_is_a_model_of_the_command_line(questions, tmp_path, capsys):
    options = [
        "--model",
        "constant-answer",
        "--model_args",
        "answer=No",
        "--include_path",
        str(questions()),
    ]
    assert (
        main(["run", *options, "--tasks", "questions", "--output_path", str(tmp_path / "out")]) == 0
    )
    content = json.loads(
        next((tmp_path / "out").rglob("results_*.json")).read_text(encoding="utf-8")
    )
    assert content["results"]["questions"]["exact_match,none"] == 0.5
