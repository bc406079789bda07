"""A judge that answers from a table: which pages support which facts, how sentences are decomposed,
and where individuals begin."""

import json

from judges.answers import Answer
from judges.config import JudgeConfig
from judges.templates import Prompts
from judges.typed import read_reply
from lm_factuality.benchmarks.biographies.types import GeneratedText, RetrievedPassage


class RecordedJudge:
    """A judge that answers from a table, and renders every prompt as a real judge does.

    Args:
        facts: The facts of each sentence.
        supported: Pairs of a fact and an entity whose page supports it.
        breaks: Facts before which another individual begins.
        answers: What the judge says to every prompt of a step, in place of the above.
    """

    config = JudgeConfig("recorded", "openai", model="m")

    def __init__(self, facts, supported, breaks=(), answers=None):
        self.calls = []  # pairs of a template's name and the prompt
        self._facts = facts
        self._supported = supported
        self._breaks = set(breaks)
        self._answers = answers or {}
        self._prompts = Prompts()

    def ask_typed(
        self, prompt_name, reply, subjects, description, check=None, samples=None, **decoding
    ):
        replies = []
        for subject in subjects:
            self.calls.append((prompt_name, self._prompts.render(prompt_name, subject)))
            answer = Answer(self._answer(prompt_name, subject), "stop")
            replies.append([read_reply(answer, reply, subject, check)])
        return replies

    def _answer(self, prompt_name, subject):
        step = prompt_name.removeprefix("biographies/")
        if step in self._answers:
            return self._answers[step]
        if step == "decompose":
            return json.dumps({"facts": list(self._facts[subject["sentence"]])})
        if step == "group":
            return json.dumps({"groups": self._group(subject["facts"])})
        is_supported = (subject["claim"], subject["entity"]) in self._supported
        verdict = "supported" if is_supported else "not_supported"
        return json.dumps({"reason": "as recorded", "verdict": verdict})

    def _group(self, facts):
        """Group the numbers of the facts, with a new group before each of the breaks."""
        groups = [[]]
        for number, fact in enumerate(facts, 1):
            if fact in self._breaks:
                groups.append([])
            groups[-1].append(number)
        return groups


def generation(name, output, titles, index="0"):
    """Make a response about a name, with a passage for each of the titles."""
    passages = tuple(RetrievedPassage(title, f"What the page {title} says.") for title in titles)
    return GeneratedText(index, f"Tell me a bio of {name}", name, output, passages)
