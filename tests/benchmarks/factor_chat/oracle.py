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
    """A server that answers every question about the true completions correctly.

    ``kind`` says how it treats requests for log-probabilities: it ``gives`` them, ``gives five``
    alternatives at most, ``refuses`` with status 400, ``forbids`` with status 403, or is ``silent``
    and leaves them out.
    """

    def __init__(self, kind="gives"):
        """Start the server."""
        self.kind = kind
        self.server = JudgeServer(self.reply)

    def reply(self, prompt, attempt):
        """Answer a prompt in words, with log-probabilities if the kind of the server gives them."""
        body = self.server.bodies[-1]
        words, chance = answer_with_chance(prompt)
        if "logprobs" not in body or self.kind == "silent":
            return Act(text=words[0])

        num_alternatives = body.get("top_logprobs", body["logprobs"])
        if self.kind == "forbids":
            return Act(status=403, text="not for you")
        if self.kind == "refuses" or (self.kind == "gives five" and num_alternatives > 5):
            return Act(status=400, text="logprobs: not here")

        # Servers give tokens in any case, and often with a space.
        logprobs = {words[0]: math.log(chance), f" {words[1].lower()}": math.log(1 - chance)}
        form = chat_logprobs if "messages" in body else completion_logprobs
        return Act(text=words[0], logprobs=form(logprobs), delay=_DELAY)


def answer_with_chance(prompt):
    """Return the words that can answer a prompt, the best first, and the chance of the first."""
    # A run asks for one token before it begins.
    if "Next sentence:" not in prompt and "Which version is true?" not in prompt:
        return ["True", "False"], 0.9
    if "Which version is true?" in prompt:
        # The versions are lines such as "A. It opened in 1870."
        versions = dict(line.split(". ", 1) for line in prompt.split("\n\n")[-2].splitlines())
        return sorted(versions, key=lambda letter: versions[letter] not in TRUE), 0.9

    sentence = prompt.split("Next sentence:\n")[1].split("\n\n")[0]
    if sentence in TRUE:
        return ["True", "False"], 0.9
    # The length makes the chances of false sentences differ, so that none are tied.
    chance_of_true = 0.2 + 0.001 * len(sentence) / 100
    return ["False", "True"], 1 - chance_of_true


def chat_logprobs(logprobs):
    """Return log-probabilities by token in the form of chat servers. The first is the answer."""
    tops = [{"token": token, "logprob": logprob} for token, logprob in logprobs.items()]
    return {"content": [{**tops[0], "top_logprobs": tops}]}


def completion_logprobs(logprobs):
    """Return log-probabilities by token in the form of completion servers."""
    (token, logprob), *_ = logprobs.items()
    return {"tokens": [token], "token_logprobs": [logprob], "top_logprobs": [logprobs]}
