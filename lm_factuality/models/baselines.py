"""lm_eval models without training, to which trained models are compared.

They show how well one can do on a benchmark by guessing or by the surface of a text.
"""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.api.model import LM

from lm_factuality.benchmarks.factor.rows import spaces_before_punctuation
from lm_factuality.ground.errors import ConfigError
from lm_factuality.harness.thinking import cut_at_stop

_ESCAPES: Mapping[str, str] = {r"\n": "\n", r"\t": "\t", r"\\": "\\"}
_RULES: Mapping[str, Callable[[str], float]] = {
    "random": lambda text: 0.0,
    "shortest": lambda text: -len(text.encode("utf-8")),
    "spacing": spaces_before_punctuation,
}


class UntrainedModel(LM):  # type: ignore[misc]
    """Base class of the baselines, which refuses every kind of request.

    A baseline overrides the methods of the requests that it can answer.
    """

    ability: str
    """A phrase for error messages that says what the baseline can do."""

    def refuse(self, requests: Sequence[Instance]) -> list[Any]:
        """Refuse a kind of request.

        Raises:
            ConfigError: Always.
        """
        raise ConfigError(f"{self.ability}, and answers no other requests")

    loglikelihood = refuse
    loglikelihood_rolling = refuse
    generate_until = refuse


class ConstantAnswer(UntrainedModel):
    r"""lm_eval model ``constant-answer``: it gives the same answer to every prompt.

    ``\n``, ``\t`` and ``\\`` in the answer stand for a line break, a tab and a backslash. The
    answer is cut before the first stop string in it, like the text that a model generates.

    Raises:
        ConfigError: There is no answer, or lm_eval's command line has read it as something else
            than text.
    """

    ability = "constant-answer generates; for choices there is surface-baseline"

    def __init__(self, answer: object = None, **_: Any) -> None:
        """Check the option ``answer`` and replace its escape sequences.

        Args:
            answer: The text to answer with. lm_eval reads digits on the command line as a number.
            **_: Options of lm_eval that have no effect.

        Raises:
            ConfigError: The answer is missing or is neither text nor an integer.
        """
        super().__init__()
        if answer is None:
            raise ConfigError(
                "constant-answer: no answer; pass answer=TEXT in --model_args (answer= alone is the"
                " empty answer)"
            )
        if isinstance(answer, bool) or not isinstance(answer, str | int):
            raise ConfigError(
                f"constant-answer: answer: lm_eval has read a {type(answer).__name__} ({answer!r}),"
                ' expected text; quote it: --model_args \'{"answer": "..."}\''
            )
        # The pattern matches the two characters of an escape: a backslash, and then n, t or another
        # backslash. The table has what each pair stands for.
        self._answer = re.sub(r"\\[nt\\]", lambda match: _ESCAPES[match[0]], str(answer))

    @property
    def tokenizer_name(self) -> str:
        """Return no tokenizer, so that ``--apply_chat_template`` builds requests without one."""
        return ""

    def apply_chat_template(self, chat_history: list[dict[str, str]], **_: Any) -> str:
        """Join the contents of the messages with line breaks."""
        return "\n".join(str(message["content"]) for message in chat_history)

    def generate_until(self, requests: Sequence[Instance]) -> list[str]:
        """Return the answer to each request up to its first stop string."""
        texts = []
        for request in requests:
            stop = request.args[1].get("until") or ()
            stops = [stop] if isinstance(stop, str) else stop
            texts.append(cut_at_stop(self._answer, stops))
        return texts


class SurfaceBaseline(UntrainedModel):
    """lm_eval model ``surface-baseline``: it ranks choices by a simple rule about their text.

    The rules are random, shortest, and spacing (most spaces before punctuation). Scores only
    order the choices and are no log-probabilities. A hash of the text breaks ties.

    Raises:
        ConfigError: There is no rule of that name.
    """

    ability = "surface-baseline compares choices"

    def __init__(self, rule: str = "random", **_: Any) -> None:
        """Look up the rule.

        Args:
            rule: The name of the rule: "random", "shortest" or "spacing".
            **_: Options of lm_eval that have no effect.

        Raises:
            ConfigError: There is no rule of that name.
        """
        super().__init__()
        if rule not in _RULES:
            raise ConfigError(
                f"surface-baseline has no rule {rule!r}, expected one of {', '.join(_RULES)}"
            )
        self._rule = _RULES[rule]

    def loglikelihood(self, requests: Sequence[Instance]) -> list[tuple[float, bool]]:
        """Score each continuation by the model's rule, such as ``shortest``.

        Returns:
            For each request, the score and False, because nothing is generated. A higher score
            stands for a better continuation, but it is no log-likelihood.
        """
        answers = []
        for request in requests:
            # The context has no influence on the rule, only on the tie-break.
            context, continuation = request.args[:2]
            answers.append((self._score(context, continuation), False))
        return answers

    def _score(self, context: str, continuation: str) -> float:
        """Return the rule's value, plus a tie-break of less than 0.5 that depends on the text."""
        # Python's own hash of a text differs between runs, and SHA-256 does not.
        digest = hashlib.sha256(f"{context}\0{continuation}".encode()).digest()
        # Lengths and counts are whole numbers, so less than 0.5 never changes their order.
        tie_break = int.from_bytes(digest[:4], "big") / 2**32 * 0.5
        return self._rule(continuation) + tie_break
