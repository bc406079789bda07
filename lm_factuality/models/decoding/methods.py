"""The formulas, with their options: log-probabilities of next tokens, from a model's logits and weaker ones beside them.

To add a method, write a class like ``DoLa`` here, and a model in ``hf_decoding`` that says what it contrasts with."""

import abc
import math
from collections.abc import Sequence
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch.nn.functional import softplus

from lm_factuality.ground.errors import ConfigError
from lm_factuality.ground.settings import Number, Strict, Text

Share = Annotated[float, Field(ge=0, le=1)]


class Method(Strict):
    """A way of decoding; its fields are the model's options, all that decides on a score."""

    @abc.abstractmethod
    def __call__(self, logits: torch.Tensor, weaker: Sequence[torch.Tensor]) -> torch.Tensor:
        """Scores of the next token in nats, all of shape [positions, vocabulary]; log-probabilities under ``softmax``."""


class DoLa(Method):
    """Contrast with early exits (Chuang et al., 2024): one premature layer is static; of several, each position takes the one
    whose distribution diverges most from the final layer's, the first of equal ones. By the formula ``paper`` divergence is
    Jensen-Shannon's (section 2.2) and excluded tokens leave the softmax (section 2.3). By ``code`` it is, as in ``dola.py`` and
    transformers, the mean divergence from the mixture to either, and the softmax is over all tokens. See ``docs/models.md``."""

    method: Literal["DoLa"] = "DoLa"
    layers: str | int | list[int] = "low"
    early_exit_layer: int | None = None
    relative_top: Share = 0.1
    relative_top_value: Number = -1000.0
    softmax: bool = True
    norm: bool = False
    formula: Literal["paper", "code"] = "paper"

    def __call__(self, logits: torch.Tensor, weaker: Sequence[torch.Tensor]) -> torch.Tensor:
        final, premature = logits.log_softmax(-1), weaker[0].log_softmax(-1)
        if len(weaker) > 1:
            furthest = self._divergence(final, premature)
            for each in weaker[1:]:
                candidate = each.log_softmax(-1)
                divergence = self._divergence(final, candidate)
                premature = torch.where((divergence > furthest)[:, None], candidate, premature)
                furthest = torch.maximum(furthest, divergence)
        is_first = self.formula == "paper"
        return settle(final - premature, final, self.softmax, self.relative_top, self.relative_top_value, is_first)

    def _divergence(self, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        """Of distributions given as log-probabilities, shape [positions]; Jensen-Shannon's less log 2: many early layers hardly
        overlap with the last, and near log 2 float32 has rounding alone; what is missing to it keeps its digits."""
        if self.formula == "code":
            mixture = torch.logaddexp(one, other) - math.log(2)
            return (mixture.exp() * (mixture - 0.5 * (one + other))).sum(-1)
        return -0.5 * (one.exp() * softplus(other - one) + other.exp() * softplus(one - other)).sum(-1)


class Contrastive(Method):
    """Expert against ``amateur``, whose logits are divided by a temperature: log expert - log amateur (Li et al., 2023), or with
    a ``beta`` (1 + beta) log expert - beta log amateur (O'Brien and Lewis, 2023)."""

    method: Literal["contrastive decoding"] = "contrastive decoding"
    amateur: Annotated[Text, Field(description="the name or folder of a weaker model of the same tokenizer")]
    alpha: Share = 0.1
    beta: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    amateur_temperature: Annotated[float, Field(gt=0)] = 1.0
    excluded: Number = -1000.0
    softmax: bool = True

    def __call__(self, logits: torch.Tensor, weaker: Sequence[torch.Tensor]) -> torch.Tensor:
        expert, amateur = logits.log_softmax(-1), (weaker[0] / self.amateur_temperature).log_softmax(-1)
        scores = expert - amateur if self.beta is None else (1 + self.beta) * expert - self.beta * amateur
        return settle(scores, expert, self.softmax, self.alpha, self.excluded)


def settle(
    scores: torch.Tensor, likely: torch.Tensor, softmax: bool, share: float, value: float, floor_first: bool = True
) -> torch.Tensor:
    """``scores`` with the floor of implausible tokens (Li et al., 2023), as log-probabilities under ``softmax``: a token less
    ``likely``, in the model's own log-probabilities, than ``share`` of the likeliest is excluded, and scored ``value``."""
    excluded = likely < likely.amax(-1, keepdim=True) + (math.log(share) if share else -math.inf)
    if softmax:
        counted = scores.masked_fill(excluded, -math.inf) if floor_first else scores
        scores = scores - counted.logsumexp(-1, keepdim=True)
    return scores.masked_fill(excluded, value)


def choose_layers(wanted: str | int | Sequence[int], num_layers: int, is_tied: bool) -> list[int]:
    """The layers to contrast with: numbers (``0+2+4`` on the command line), or transformers' presets for a model of
    ``num_layers``: every second one of the lower or the upper half, or of 20 in models of more than 40. Where embeddings are
    tied, ``low`` leaves out 0, which would predict the token just read. Raises ConfigError: no such preset or layer."""
    half, last = (20, num_layers - 20) if num_layers > 40 else (num_layers // 2, num_layers // 2)
    presets = {"low": range(2 if is_tied else 0, half, 2), "high": range(last, num_layers, 2)}
    try:
        parts = wanted.split("+") if isinstance(wanted, str) else [wanted] if isinstance(wanted, int) else wanted
        found = sorted(set(presets[wanted] if isinstance(wanted, str) and wanted in presets else map(int, parts)))
    except ValueError as error:
        raise ConfigError(f"hf-dola: layers is {wanted!r}; expected low, high or numbers such as 0+2+4") from error
    if not found or found[0] < 0 or found[-1] >= num_layers:
        raise ConfigError(
            f"hf-dola: layers is {wanted!r}, which is {found or 'none'} of the model's {num_layers}; expected one or more to "
            f"contrast the last one with, from 0 (the embedding) to {num_layers - 1}"
        )
    return found
