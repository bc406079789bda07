"""The three questions about contradictions, and through a real server."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from factor_gen.audit.judged import PROMPTS, YesOrNo, judge_rows, judge_types, open_judge
from judges.answers import Answer
from judges.typed import ParsedReply, read_reply
from lm_factuality.ground.errors import ConfigError
from tests.factor_gen.audit.rows import row, synthetic
from tests.judges.server import Act, JudgeServer


class _Rule:
    """Says yes where a contradiction has the word ``plain``, and cannot be read where it has
    ``odd``."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []

    def ask_typed(
        self,
        prompt_name: str,
        reply: type[YesOrNo],
        subjects: Sequence[Mapping[str, Any]],
        description: str,
        samples: int,
    ) -> list[list[ParsedReply[YesOrNo]]]:
        self.asked.append((prompt_name, len(subjects)))
        said = [
            json.dumps(
                {"reason": "so", "answer": "yes" if "plain" in each["contradiction"] else "no"}
            )
            for each in subjects
        ]
        odd = ["odd" in each["contradiction"] for each in subjects]
        return [
            [read_reply(Answer("Well." if is_odd else each), reply, {})]
            for each, is_odd in zip(said, odd, strict=True)
        ]


def test_shares_are_of_what_was_scored_and_the_rest_is_counted() -> None:
    rows = [
        row("It is so.", "A plain one.", "A false one.", "An odd one.", doc_id=str(number))
        for number in range(10)
    ]
    judge = _Rule()
    found = judge_rows(judge, rows, seed=0, count=4)
    assert judge.asked == [(prompt, 12) for prompt in PROMPTS.values()]
    assert [each.name for each in found] == list(PROMPTS)
    assert [(each.scored, each.share.value) for each in found] == [(8, 0.5)] * 3
    assert found[0].unscored == {"no JSON object": 4}


def _script(prompt: str, attempt: int) -> Act:
    assert "day" in prompt  # the sentence is in it
    return Act(
        text=json.dumps({"reason": "so", "answer": "no" if "native speaker" in prompt else "yes"})
    )


def test_the_audits_own_prompts_reach_a_server(tmp_path: Path) -> None:
    server = JudgeServer(_script)
    try:
        config = tmp_path / "judge.yaml"
        config.write_text(
            f"backend: openai\nmodel: small-judge\nbase_url: {server.base_url}\n", encoding="utf-8"
        )
        with open_judge(str(config), tmp_path / "answers.sqlite") as judge:
            found = judge_rows(judge, synthetic(3), seed=0)
    finally:
        server.close()
    assert [each.share.value for each in found] == [1.0, 0.0, 1.0]
    assert sum(server.attempts.values()) == 27


def test_types_are_asked_of_a_server_and_what_is_no_type_is_none(tmp_path: Path) -> None:
    def script(prompt: str, attempt: int) -> Act:
        original, changed = prompt.rpartition("Original sentence: ")[2].split(
            "\nChanged sentence: "
        )
        assert original == "It is so."
        return Act(
            text=json.dumps(
                {"reason": "so", "type": "link" if changed.startswith("A plain") else "kind"}
            )
        )

    server = JudgeServer(script)
    try:
        config = tmp_path / "judge.yaml"
        config.write_text(
            f"backend: openai\nmodel: small-judge\nbase_url: {server.base_url}\n", encoding="utf-8"
        )
        with open_judge(str(config), tmp_path / "answers.sqlite") as judge:
            found = judge_types(judge, [row("It is so.", "A plain one.", "An odd one.")], seed=0)
    finally:
        server.close()
    assert found == ["link", None]


def test_the_lexical_judge_is_refused_with_a_way_out() -> None:
    with pytest.raises(ConfigError, match="lexical judge compares.*--judge one with a model"):
        open_judge("lexical")
