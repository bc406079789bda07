"""lm_eval models that have learned nothing.

They show what a benchmark gives away to those who guess or look at a choice's surface.
"""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.api.model import LM

from lm_factuality.benchmarks.factor.rows import spaces_before_punctuation
from lm_factuality.ground.errors import ConfigError

_ESCAPES: Mapping[str, str] = {r"\n": "\n", r"\t": "\t", r"\\": "\\"}
_RULES: Mapping[str, Callable[[str], float]] = {
    "random": lambda text: 0.0,
    "shortest": lambda text: -len(text.encode("utf-8")),
    "spacing": spaces_before_punctuation,
}


class UntrainedModel(LM):  # type: ignore[misc]
    """Refuses what a baseline cannot do."""

    ability: str
    """What it does instead."""

    def refuse(self, requests: Sequence[Instance]) -> Any:
        """Refuse requests of a kind."""
        raise ConfigError(f"{self.ability}, and answers no other requests")

    loglikelihood = refuse
    loglikelihood_rolling = refuse
    generate_until = refuse


class ConstantAnswer(UntrainedModel):
    """lm_eval model ``constant-answer``: it generates ``answer``, whatever it is asked.

    ``\\n``, ``\\t`` and ``\\\\`` in the answer stand for a line break, a tab and a backslash. An
    answer ends before the first stop string that it holds, as a model's would.

    Raises:
        ConfigError: There is no answer, or lm_eval's command line has read it as something else
            than text.
    """

    ability = "constant-answer generates; for choices there is surface-baseline"

    def __init__(self, answer: Any = None, **_: Any) -> None:
        super().__init__()
        if answer is None:
            raise ConfigError(
                "constant-answer: no answer; pass answer=TEXT in --model_args (answer= alone is the"
                " empty answer)"
            )
        if isinstance(answer, bool) or not isinstance(answer, str | int):
            raise ConfigError(
                f"constant-answer: answer: lm_eval has read a {type(answer).__name__} ({answer!r}),"
                """ expected text; quote it: --model_args '{"answer": "..."}'"""
            )
        self._answer = re.sub(r"\\[nt\\]", lambda match: _ESCAPES[match[0]], str(answer))

    @property
    def tokenizer_name(self) -> str:
        """Return no tokenizer, so that ``--apply_chat_template`` builds requests without one."""
        return ""

    def apply_chat_template(self, chat_history: list[dict[str, str]], **_: Any) -> str:
        """Return the messages one below the other."""
        return "\n".join(str(message["content"]) for message in chat_history)

    def generate_until(self, requests: Sequence[Instance]) -> list[str]:
        """Return the answer to each request up to its first stop string."""
        return [self._until(request.args[1].get("until")) for request in requests]

    def _until(self, stop: str | Sequence[str] | None) -> str:
        stops = [stop] if isinstance(stop, str) else list(stop or ())
        ends = [self._answer.find(text) for text in stops if text]
        return self._answer[: min((end for end in ends if end >= 0), default=None)]


class SurfaceBaseline(UntrainedModel):
    """lm_eval model ``surface-baseline``: it prefers choices by a rule.

    ``rule`` is random, shortest, or spacing (most spaces before punctuation). Scores are no
    log-probabilities, only an order. Ties are broken by a hash of the text.

    Raises:
        ConfigError: There is no rule of that name.
    """

    ability = "surface-baseline compares choices"

    def __init__(self, rule: str = "random", **_: Any) -> None:
        super().__init__()
        if rule not in _RULES:
            raise ConfigError(
                f"surface-baseline has no rule {rule!r}, expected one of {', '.join(_RULES)}"
            )
        self._rule = _RULES[rule]

    def loglikelihood(self, requests: Sequence[Instance]) -> list[tuple[float, bool]]:
        """Score each continuation by the rule."""
        return [(self._score(*request.args[:2]), False) for request in requests]

    def _score(self, context: str, continuation: str) -> float:
        digest = hashlib.sha256(f"{context}\0{continuation}".encode()).digest()
        tie_break = int.from_bytes(digest[:4], "big") / 2**32 * 0.5
        return self._rule(continuation) + tie_break
