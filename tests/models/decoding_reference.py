"""DoLa and contrastive decoding by their definitions: one position after the other, in float64."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class DolaSettings(NamedTuple):
    """The options of ``hf-dola`` that change scores."""

    layers: Sequence[int]
    """The candidates for the early layer."""
    relative_top: float = 0.1
    """The smallest probability of a plausible token, as a share of the largest one."""
    softmax: bool = True
    """Whether scores are turned into log-probabilities."""
    formula: str = "paper"
    """``paper`` or ``code``, as in the authors' repository."""


def dola_scores(
    states: Mapping[int, Tensor] | Sequence[Tensor],
    logits: Tensor,
    head: Callable[[Tensor], Tensor],
    settings: DolaSettings,
) -> Tensor:
    """Score every possible token by DoLa.

    Args:
        states: The hidden states of each layer, of shape [positions, width].
        logits: The logits of the last layer, of shape [positions, vocabulary].
        head: Turns hidden states into logits.
        settings: The options.

    Returns:
        The scores in nats, of shape [positions, vocabulary].
    """
    rows = []
    for position, position_logits in enumerate(logits.double()):
        last = torch.softmax(position_logits, -1)
        largest_divergence = -1.0
        for layer in settings.layers:
            candidate = torch.softmax(head(states[layer][position]).double(), -1)
            divergence = _divergence(last, candidate, settings.formula)
            if divergence > largest_divergence:
                largest_divergence = divergence
                early = candidate
        rows.append(
            _keep_plausible_tokens(
                last.log() - early.log(),
                last,
                settings.relative_top,
                settings.softmax,
                normalise_all=settings.formula == "code",
            )
        )
    return torch.stack(rows)


def _divergence(first: Tensor, second: Tensor, formula: str) -> float:
    """Return how far two distributions over the vocabulary are apart.

    Args:
        first: The probabilities of one distribution.
        second: Those of the other.
        formula: ``paper`` for the Jensen-Shannon divergence. ``code`` for the mean divergence of
            the mixture from both, as the authors' repository has it.
    """
    if formula == "paper":
        return jensen_shannon_divergence(first, second)
    mixture = (first + second) / 2
    return (_kl_divergence(mixture, first) + _kl_divergence(mixture, second)) / 2


def jensen_shannon_divergence(first: Tensor, second: Tensor) -> float:
    """Return the mean divergence of two distributions from their mixture, in nats."""
    mixture = (first + second) / 2
    return (_kl_divergence(first, mixture) + _kl_divergence(second, mixture)) / 2


def _kl_divergence(first: Tensor, second: Tensor) -> float:
    """Return the Kullback-Leibler divergence of one distribution from another, in nats."""
    return float((first * (first / second).log()).sum())


class ContrastiveSettings(NamedTuple):
    """The options of ``hf-contrastive`` that change scores."""

    alpha: float = 0.1
    """The smallest probability of a plausible token, as a share of the largest one."""
    beta: float | None = None
    """The weight of the contrast. Without it, both models have the weight one."""
    amateur_temperature: float = 1.0
    softmax: bool = True
    """Whether scores are turned into log-probabilities."""


def contrastive_scores(
    expert_logits: Tensor, amateur_logits: Tensor, settings: ContrastiveSettings
) -> Tensor:
    """Score every possible token at one position by how much more the expert prefers it.

    Args:
        expert_logits: The logits of the better model, of shape [vocabulary].
        amateur_logits: The logits of the weaker model, of the same shape.
        settings: The options.
    """
    expert = torch.softmax(expert_logits.double(), -1)
    amateur = torch.softmax(amateur_logits.double() / settings.amateur_temperature, -1)
    if settings.beta is None:
        scores = (expert / amateur).log()
    else:
        scores = (expert ** (1 + settings.beta) / amateur**settings.beta).log()
    return _keep_plausible_tokens(scores, expert, settings.alpha, settings.softmax)


def _keep_plausible_tokens(
    scores: Tensor,
    probabilities: Tensor,
    share: float,
    softmax: bool,
    normalise_all: bool = False,
) -> Tensor:
    """Give all but the plausible tokens of one position a score of -1,000.

    Args:
        scores: The score of each token.
        probabilities: The probability of each token according to the better model.
        share: The smallest probability of a plausible token, as a share of the largest one.
        softmax: Whether to turn the scores into log-probabilities.
        normalise_all: Whether the probabilities of implausible tokens count in their sum.
    """
    is_plausible = probabilities >= share * probabilities.max()
    if softmax:
        normalised = scores if normalise_all else scores[is_plausible]
        scores = scores - normalised.exp().sum().log()
    return torch.where(is_plausible, scores, torch.tensor(-1000.0, dtype=scores.dtype))
