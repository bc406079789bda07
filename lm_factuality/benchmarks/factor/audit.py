"""What the samples of a FACTOR task must hold if a model was asked for the log-probabilities of the choices of a row."""

from collections.abc import Mapping, Sequence
from itertools import combinations, takewhile
from typing import Any

from lm_factuality.benchmarks.audit import MORE_TOKENS, OTHER_REQUEST, Expected, Sample, impossible_logprob, requests_of
from lm_factuality.benchmarks.factor.joining import AUTHORS, DOLA, Join

_SAME = 1e-9  # nats: a model's numbers are equal or lie further apart
_MORE = 8  # tokens; of the published rows SmolLM2's tokenizer makes at most 1 more than what differs has bytes
_APART = (0.1, 1.0)  # share and nats by which a model may differ from itself in another batch


class FactorAudit:
    """The same completion of the same prefix has one score, wherever it stands."""

    def __init__(self, expected: Expected) -> None:
        self._window = expected.metadata.get("window")
        rule = DOLA if expected.metadata.get("protocol") == DOLA else expected.metadata.get("join", AUTHORS)
        self._join = Join(str(rule), str(expected.metadata.get("delimiter", " ")))
        limits = [each for each in (self._window, expected.max_length) if isinstance(each, int)]
        self._limit = min(limits) if limits else None
        self._count = expected.count
        self._scored: dict[int, tuple[float, Any]] = {}

    def wrong_request(self, sample: Sample) -> str | None:
        doc = sample["doc"]
        expected = [[*self._join(doc["prefix"], choice), self._window] for choice in doc["choices"]]
        return None if requests_of(sample) == expected else OTHER_REQUEST

    def impossible(self, sample: Sample) -> str | None:
        for request, scored in zip(sample["arguments"].values(), sample["filtered_resps"], strict=True):
            wrong = self._impossible(request["arg_0"], request["arg_1"], *scored)
            if wrong is not None:
                return wrong
        return self._apart(sample["doc"], sample["filtered_resps"])

    def _apart(self, doc: Mapping[str, Any], scored: Sequence[Any]) -> str | None:
        """What no model says of the choices of one row: numbers that lie so near that somebody broke a tie; and numbers of tokens
        that are not the tokenizer's or, of texts that are alike but for N bytes, differ by far more than N."""
        if any(each[at] in (None, "None") for each in scored for at in (0, 2)):
            return None
        sums, counts = [float(each[0]) for each in scored], [int(each[2]) for each in scored]
        means = [total / count for total, count in zip(sums, counts, strict=True)]
        if any(0 < abs(one - other) < _SAME for each in (sums, means) for one, other in combinations(each, 2)):
            return "two choices are nearer to each other than a model's numbers can be"
        texts = [self._join(doc["prefix"], each) for each in doc["choices"]]
        (_, true), of_true = texts[doc["gold"]], counts[doc["gold"]]
        for (before, text), count in zip(texts, counts, strict=True):
            own = None if self._count is None else self._count(text)
            if self._count is not None and count not in (own, self._count(before + text) - self._count(before)):
                return f"{count} tokens for a completion of which its tokenizer makes {own}"
            if abs(count - of_true) > _differ(text, true) + _MORE:
                return f"{count} tokens for a completion, {of_true} for the true one, which is too like it for that"
        return None

    def _impossible(self, prefix: str, choice: str, logprob: Any, _: Any, tokens: Any, truncated: Any, __: Any) -> str | None:
        if logprob in (None, "None"):
            return None
        size = len(choice.encode("utf-8", "surrogatepass"))
        wrong = impossible_logprob(logprob, tokens, size)
        if wrong is not None:
            return wrong
        whole = size + len(prefix.encode("utf-8", "surrogatepass")) + MORE_TOKENS
        if truncated == "True" and self._limit is not None and whole <= self._limit:
            return f"is marked as truncated, but its {whole} bytes are no more than {self._limit} tokens"
        value, (share, nats) = float(logprob), _APART
        before, count = self._scored.setdefault(hash((prefix, choice)), (value, tokens))
        if count != tokens or abs(before - value) > share * abs(before) + nats:
            return "the same completion of the same prefix has another score elsewhere"
        return None


def _differ(one: str, other: str) -> int:
    """How many bytes the longer of two texts has between what both begin with and what both end with."""
    for _ in range(2):  # from the front, then from the back
        alike = len(list(takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))))
        one, other = one[alike:][::-1], other[alike:][::-1]
    return max(len(each.encode("utf-8", "surrogatepass")) for each in (one, other))
