"""A judge that answers from a table: which pages support which facts, how sentences come apart,
where individuals begin."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from judges.answers import Answer
from judges.config import JudgeConfig
from judges.templates import Prompts
from judges.typed import ParsedReply, ReplyCheck, ReplyT, read_reply
from lm_factuality.benchmarks.biographies.types import GeneratedText, RetrievedPassage


class RecordedJudge:
    """``facts``: of each sentence; ``supported``: by (fact, entity) whether its page supports it;
    ``breaks``: facts before which another individual begins. Renders every prompt, as a real judge
    does, and counts what it is asked in ``calls``."""

    def __init__(
        self,
        facts: Mapping[str, Sequence[str]],
        supported: set[tuple[str, str]],
        breaks: Sequence[str] = (),
        answers: Mapping[str, str] | None = None,
    ) -> None:
        self.calls: list[tuple[str, str]] = []
        self._facts, self._supported, self._breaks, self._answers = (
            facts,
            supported,
            set(breaks),
            dict(answers or {}),
        )
        self._prompts = Prompts()

    @property
    def config(self) -> JudgeConfig:
        return JudgeConfig("recorded", "openai", model="m")

    def ask_typed(
        self,
        prompt_name: str,
        reply: type[ReplyT],
        subjects: Sequence[Mapping[str, Any]],
        description: str,
        check: ReplyCheck[ReplyT] | None = None,
        samples: int | None = None,
        **decoding: Any,
    ) -> list[list[ParsedReply[ReplyT]]]:
        self.calls += [
            (prompt_name, self._prompts.render(prompt_name, subject)) for subject in subjects
        ]
        answers = [Answer(self._answer(prompt_name, subject), "stop") for subject in subjects]
        return [
            [read_reply(answer, reply, subject, check)]
            for answer, subject in zip(answers, subjects, strict=True)
        ]

    def _answer(self, prompt_name: str, subject: Mapping[str, Any]) -> str:
        step = prompt_name.removeprefix("biographies/")
        if step in self._answers:
            return self._answers[step]
        if step == "decompose":
            return json.dumps({"facts": list(self._facts[subject["sentence"]])})
        if step == "group":
            groups: list[list[int]] = [[]]
            for number, fact in enumerate(subject["facts"], 1):
                if fact in self._breaks:
                    groups.append([])
                groups[-1].append(number)
            return json.dumps({"groups": groups})
        is_true = (subject["claim"], subject["entity"]) in self._supported
        return json.dumps(
            {"reason": "as recorded", "verdict": "supported" if is_true else "not_supported"}
        )


def generation(name: str, output: str, titles: Sequence[str], index: str = "0") -> GeneratedText:
    """A response about ``name`` with a passage for each title."""
    passages = tuple(RetrievedPassage(title, f"What the page {title} says.") for title in titles)
    return GeneratedText(index, f"Tell me a bio of {name}", name, output, passages)
