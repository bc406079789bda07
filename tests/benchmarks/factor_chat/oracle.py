"""A server that knows the true completions of the sample's first rows."""

import csv
import math

from tests.conftest import TASKS
from tests.judges.server import Act, JudgeServer

TASK, ROWS = "sample_factor_chat", 5
_DELAY = 0.03  # seconds, for requests to meet each other
with (TASKS / "sample" / "sample_factor.csv").open(encoding="utf-8", newline="") as file:
    TRUE = {
        row["completion"].strip() for row, _ in zip(csv.DictReader(file), range(ROWS), strict=False)
    }


class Oracle:
    """Knows the true completions; ``kind`` says which requests for log-probabilities it refuses, or
    passes over in silence."""

    def __init__(self, kind="gives"):
        self.kind = kind
        self.server = JudgeServer(self.reply)

    def reply(self, prompt, attempt):
        body = self.server.bodies[-1]
        if "Which version is true?" in prompt:
            versions = dict(line.split(". ", 1) for line in prompt.split("\n\n")[-2].splitlines())
            words, chance = sorted(versions, key=lambda letter: versions[letter] not in TRUE), 0.9
        else:
            sentence = prompt.split("Next sentence:\n")[1].split("\n\n")[0]
            chance = 0.9 if sentence in TRUE else 0.2 + 0.001 * len(sentence) / 100
            words = ["True", "False"] if chance > 0.5 else ["False", "True"]
        if "logprobs" not in body or self.kind == "silent":
            return Act(text=words[0])
        wanted = body.get("top_logprobs", body["logprobs"])
        if self.kind == "forbids":
            return Act(status=403, text="not for you")
        if self.kind == "refuses" or (self.kind == "gives five" and wanted > 5):
            return Act(status=400, text="logprobs: not here")
        values = [
            [words[0], math.log(max(chance, 1 - chance))],
            [f" {words[1].lower()}", math.log(min(chance, 1 - chance))],
        ]
        if "messages" in body:
            content = [{"token": each, "logprob": value} for each, value in values]
            return Act(
                text=words[0],
                logprobs={"content": [{**content[0], "top_logprobs": content}]},
                delay=_DELAY,
            )
        tops = {
            "tokens": [words[0]],
            "token_logprobs": [values[0][1]],
            "top_logprobs": [dict(values)],
        }
        return Act(text=words[0], logprobs=tops, delay=_DELAY)
