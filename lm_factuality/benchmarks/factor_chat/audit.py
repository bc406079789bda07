"""What the samples of a FACTOR task for chat models must hold if a model was asked about the choices of a row."""

import math

from judges.templates import Prompts
from lm_factuality.benchmarks.audit import (
    HIGHEST_LOGPROB,
    OTHER_REQUEST,
    UNKNOWN_REQUESTS,
    Expected,
    PromptAudit,
    Sample,
    requests_of,
)
from lm_factuality.benchmarks.factor_chat.questions import PROTOCOLS
from lm_factuality.harness.samples import prompt_text


class FactorChatAudit(PromptAudit):
    """Each request is the prompt about one choice, or one rotation, of its row; a chat template is the same around each."""

    def __init__(self, expected: Expected) -> None:
        super().__init__(expected)
        self._protocol = PROTOCOLS[str(expected.metadata.get("protocol", "statements"))]
        self._prompts = Prompts()

    def wrong_request(self, sample: Sample) -> str | None:
        doc, requests = sample["doc"], requests_of(sample)
        subjects = self._protocol.subjects(doc["prefix"], doc["choices"])
        words = list(self._protocol.words(len(doc["choices"])))
        if len(requests) != len(subjects) or any(len(each) < 4 or each[1] != words for each in requests):
            return UNKNOWN_REQUESTS
        if any(each[3:] != self._expected.generation_arguments for each in requests):
            return "its generation arguments are not those of the leaderboard"
        texts = (self._prompts.render(self._protocol.prompt, subject) for subject in subjects)
        is_asked = all(self._is_prompt(prompt_text(each[0]), text) for each, text in zip(requests, texts, strict=True))
        return None if is_asked else OTHER_REQUEST

    def impossible(self, sample: Sample) -> str | None:
        for logprobs, _, _ in sample["filtered_resps"]:
            known = [float(each) for each in logprobs if each != "None"] if logprobs != "None" else []
            if any(each > HIGHEST_LOGPROB for each in known):
                return f"a log-probability is {max(known):.6g}, above 0"
            if (total := math.fsum(map(math.exp, known))) > 1 + _ROUNDING:
                return f"the probabilities of its answers have the sum {total:.6g}"
        return None


_ROUNDING = 1e-3  # of half-precision log-probabilities
