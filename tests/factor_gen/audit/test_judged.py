"""The questions about contradictions that an audit asks a judge."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from factor_gen.audit.judged import YesOrNo, judge_rows, judge_types, open_judge
from judges.answers import Answer
from judges.judge import Judge
from judges.typed import ParsedReply, read_reply
from lm_factuality.benchmarks.factor.rows import Row
from lm_factuality.ground.errors import ConfigError
from tests.factor_gen.audit.rows import factor_row, synthetic_rows
from tests.judges.server import Act, JudgeServer


class PlainWordJudge:
    """A judge that says yes to contradictions with the word ``plain`` and no to others.

    Its answer to a contradiction with the word ``odd`` cannot be read.
    """

    def __init__(self) -> None:
        """Create a judge that was asked nothing."""
        self.num_contradictions: dict[str, int] = {}
        """How many contradictions it was asked about, by prompt."""

    def ask_typed(
        self,
        prompt_name: str,
        reply: type[YesOrNo],
        subjects: Sequence[Mapping[str, Any]],
        description: str,
        samples: int,
    ) -> list[list[ParsedReply[YesOrNo]]]:
        """Return one reply for each subject."""
        self.num_contradictions[prompt_name] = len(subjects)
        return [
            [read_reply(Answer(self._answer(subject["contradiction"])), reply, {})]
            for subject in subjects
        ]

    def _answer(self, contradiction: str) -> str:
        """Return the text of the judge's answer about a contradiction."""
        if "odd" in contradiction:
            return "Well."
        answer = "yes" if "plain" in contradiction else "no"
        return json.dumps({"reason": "so", "answer": answer})


def make_rows(*contradictions: str, count: int) -> list[Row]:
    """Return rows with the same contradictions, each of another document."""
    return [factor_row("It is so.", *contradictions, doc_id=str(number)) for number in range(count)]


def test_every_contradiction_of_the_drawn_rows_is_judged() -> None:
    """Four of ten rows are drawn, and each has three contradictions."""
    rows = make_rows("A plain one.", "A false one.", "An odd one.", count=10)
    judge = PlainWordJudge()

    judge_rows(judge, rows, seed=0, count=4)

    assert judge.num_contradictions == {
        "contradicts": 4 * 3,
        "fluent": 4 * 3,
        "consistent": 4 * 3,
    }


def test_share_of_a_property_counts_only_readable_answers() -> None:
    """The judge says yes to "plain" and no to "false". Its answer to "odd" cannot be read."""
    rows = make_rows("A plain one.", "A false one.", "An odd one.", count=10)

    properties = judge_rows(PlainWordJudge(), rows, seed=0, count=4)

    assert [judged.name for judged in properties] == ["non-factual", "fluent", "self-consistent"]
    for judged in properties:
        assert judged.scored == 4 * 2
        assert judged.share.value == 0.5


def test_unreadable_answers_are_counted_by_reason() -> None:
    """The judge's answer to the contradiction with "odd" has no JSON."""
    rows = make_rows("A plain one.", "A false one.", "An odd one.", count=10)

    for judged in judge_rows(PlainWordJudge(), rows, seed=0, count=4):
        assert judged.unscored == {"no JSON object": 4 * 1}


@pytest.fixture
def server() -> Iterator[JudgeServer]:
    """Return a server, to which a test has to give a script of its answers."""
    server = JudgeServer()
    yield server
    server.close()


@pytest.fixture
def model_judge(server: JudgeServer, tmp_path: Path) -> Iterator[Judge]:
    """Return a judge with the audit's own prompts, which asks the server."""
    config = tmp_path / "judge.yaml"
    config.write_text(
        f"backend: openai\nmodel: small-judge\nbase_url: {server.base_url}\n", encoding="utf-8"
    )
    with open_judge(str(config), tmp_path / "answers.sqlite") as judge:
        yield judge


def answer_with(choose: Callable[[str], Mapping[str, str]]) -> Callable[[str, int], Act]:
    """Return a script of a server that answers in JSON.

    Args:
        choose: Returns the fields of the answer to a prompt, but the reason.
    """

    def answer(prompt: str, attempt: int) -> Act:
        """Answer a prompt in JSON with a reason."""
        return Act(text=json.dumps({"reason": "so", **choose(prompt)}))

    return answer


def test_each_property_has_a_separate_prompt(model_judge: Judge, server: JudgeServer) -> None:
    """The server says no to the prompt about fluency alone, which speaks of a native speaker."""
    server.script = answer_with(
        lambda prompt: {"answer": "no" if "native speaker" in prompt else "yes"}
    )

    properties = judge_rows(model_judge, synthetic_rows(3), seed=0, count=3)

    shares = {judged.name: judged.share.value for judged in properties}
    assert shares == {"non-factual": 1.0, "fluent": 0.0, "self-consistent": 1.0}


def test_every_prompt_has_the_contradiction(model_judge: Judge, server: JudgeServer) -> None:
    """There are three questions about each of the nine contradictions of three rows."""
    rows = synthetic_rows(3)
    server.script = answer_with(lambda prompt: {"answer": "yes"})

    judge_rows(model_judge, rows, seed=0, count=100)

    prompts = list(server.attempts)
    assert server.attempts.total() == 3 * 9
    for row in rows:
        for contradiction in row.choices[1:]:
            assert sum(contradiction in prompt for prompt in prompts) == 3


def test_unknown_error_type_is_read_as_none(model_judge: Judge, server: JudgeServer) -> None:
    """The server calls the first contradiction a link error, and the second one a "kind" error."""
    server.script = answer_with(
        lambda prompt: {"type": "link" if "A plain one." in prompt else "kind"}
    )
    row = factor_row("It is so.", "A plain one.", "An odd one.")

    assert judge_types(model_judge, [row], seed=0, count=1) == ["link", None]


def test_the_prompt_for_error_types_has_both_sentences(
    model_judge: Judge, server: JudgeServer
) -> None:
    """The type of an error shows only beside the original sentence."""
    server.script = answer_with(lambda prompt: {"type": "link"})

    judge_types(model_judge, [factor_row("It is so.", "A plain one.")], seed=0, count=1)

    [prompt] = server.attempts
    assert "Original sentence: It is so.\nChanged sentence: A plain one." in prompt


def test_the_lexical_judge_is_refused_with_advice() -> None:
    """It compares words, and so cannot tell whether a sentence is fluent."""
    with pytest.raises(ConfigError, match="lexical judge compares.*--judge one with a model"):
        open_judge("lexical")
