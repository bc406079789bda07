"""Ways of decoding that contrast a model with something weaker.

The first half has the formulas with their options. The second half has a model's own early layers.
`hf_decoding` makes lm_eval models of them. To add a method, write a class like `DoLa` and a model
like `HFDoLa`.
"""

import abc
import contextlib
import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import softplus

from lm_factuality.ground.errors import ConfigError
from lm_factuality.ground.settings import Number, Strict, Text
from lm_factuality.models.tree.logits import (
    Pick,
    device_of,
)

Share = Annotated[float, Field(ge=0, le=1)]


class Method(Strict):
    """A way of decoding. Its fields are the model's options, and all that decides on a score."""

    @abc.abstractmethod
    def __call__(self, logits: Tensor, weaker: Sequence[Tensor]) -> Tensor:
        """Score the next token in nats. All tensors have the shape [positions, vocabulary]."""


class DoLa(Method):
    """Contrast with early exits (Chuang et al., 2024).

    With several premature layers, each position takes the one whose distribution diverges most
    from the final layer's. With ``formula="paper"``, the divergence is Jensen-Shannon's (section
    2.2) and excluded tokens leave the softmax (section 2.3). With ``code``, as in ``dola.py`` and
    transformers, it is the mean divergence from the mixture to either distribution, and the softmax
    is over all tokens. See ``docs/models.md``.
    """

    method: Literal["DoLa"] = "DoLa"
    layers: str | int | list[int] = "low"
    early_exit_layer: int | None = None
    relative_top: Share = 0.1
    relative_top_value: Number = -1000.0
    softmax: bool = True
    norm: bool = False
    formula: Literal["paper", "code"] = "paper"

    def __call__(self, logits: Tensor, weaker: Sequence[Tensor]) -> Tensor:
        final = logits.log_softmax(-1)
        premature = weaker[0].log_softmax(-1)
        if len(weaker) > 1:
            divergence = self._divergence(final, premature)
            for layer in weaker[1:]:
                candidate = layer.log_softmax(-1)
                candidate_divergence = self._divergence(final, candidate)
                is_further = candidate_divergence > divergence
                premature = torch.where(is_further[:, None], candidate, premature)
                divergence = torch.maximum(divergence, candidate_divergence)
        return apply_floor(
            final - premature,
            final,
            self.relative_top,
            self.relative_top_value,
            softmax=self.softmax,
            floor_first=self.formula == "paper",
        )

    def _divergence(self, p: Tensor, q: Tensor) -> Tensor:
        """Compare two distributions, given as log-probabilities. The shape is [positions].

        The Jensen-Shannon divergence is less by log 2. Many early layers hardly overlap with the
        last one, and near log 2 float32 would round all differences away.
        """
        if self.formula == "code":
            mixture = torch.logaddexp(p, q) - math.log(2)
            return (mixture.exp() * (mixture - 0.5 * (p + q))).sum(-1)
        return -0.5 * (p.exp() * softplus(q - p) + q.exp() * softplus(p - q)).sum(-1)


class Contrastive(Method):
    """Contrast of an expert with an amateur, whose logits are divided by a temperature.

    The score is log expert - log amateur (Li et al., 2023) or, with a ``beta``, (1 + beta) log
    expert - beta log amateur (O'Brien and Lewis, 2023).
    """

    method: Literal["contrastive decoding"] = "contrastive decoding"
    amateur: Annotated[
        Text, Field(description="the name or folder of a weaker model of the same tokenizer")
    ]
    alpha: Share = 0.1
    beta: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    amateur_temperature: Annotated[float, Field(gt=0)] = 1.0
    excluded: Number = -1000.0
    softmax: bool = True

    def __call__(self, logits: Tensor, weaker: Sequence[Tensor]) -> Tensor:
        expert = logits.log_softmax(-1)
        amateur = (weaker[0] / self.amateur_temperature).log_softmax(-1)
        if self.beta is None:
            scores = expert - amateur
        else:
            scores = (1 + self.beta) * expert - self.beta * amateur
        return apply_floor(scores, expert, self.alpha, self.excluded, softmax=self.softmax)


def apply_floor(
    scores: Tensor,
    likely: Tensor,
    share: float,
    value: float,
    *,
    softmax: bool,
    floor_first: bool = True,
) -> Tensor:
    """Exclude implausible tokens (Li et al., 2023).

    Args:
        likely: The model's own log-probabilities.
        share: A token is excluded if it is less likely than this share of the likeliest.
        value: The score of an excluded token.
        softmax: Whether scores become log-probabilities.
        floor_first: Whether excluded tokens are left out of that softmax.
    """
    floor = math.log(share) if share else -math.inf
    is_excluded = likely < likely.amax(-1, keepdim=True) + floor
    if softmax:
        counted = scores.masked_fill(is_excluded, -math.inf) if floor_first else scores
        scores = scores - counted.logsumexp(-1, keepdim=True)
    return scores.masked_fill(is_excluded, value)


def choose_layers(layers: str | int | Sequence[int], num_layers: int, is_tied: bool) -> list[int]:
    """Return the layers that DoLa contrasts with.

    Args:
        layers: Numbers (``0+2+4`` on the command line), or one of transformers' presets: every
            second layer of the lower or upper half (``low``, ``high``), or of 20 layers in models
            of more than 40.
        num_layers: How many layers the model has.
        is_tied: Whether input and output embeddings are the same. Then ``low`` leaves out layer 0,
            which would predict the token just read.

    Raises:
        ConfigError: There is no such preset or layer.
    """
    half = num_layers // 2 if num_layers <= 40 else 20
    upper = num_layers // 2 if num_layers <= 40 else num_layers - 20
    presets: dict[str | int, range] = {
        "low": range(2 if is_tied else 0, half, 2),
        "high": range(upper, num_layers, 2),
    }
    numbers: Sequence[str | int]
    if isinstance(layers, str | int):
        numbers = presets[layers] if layers in presets else str(layers).split("+")
    else:
        numbers = layers
    known = {str(number): number for number in range(num_layers)}
    chosen = {known.get(str(number)) for number in numbers}
    if None in chosen or not chosen:
        raise ConfigError(
            f"hf-dola: layers is {layers!r}; expected low, high or numbers such as 0+2+4, from 0"
            f" (the embedding) to {num_layers - 1}, to contrast the last layer with"
        )
    return sorted(number for number in chosen if number is not None)


class EarlyExits:
    """The next-token logits of some of a model's own layers.

    Layers are numbered as in transformers' ``hidden_states``: 0 is the embedding.
    """

    def __init__(self, model: Any, layers: Sequence[int], norm: bool = False) -> None:
        """Find the model's parts and try them.

        Args:
            norm: Whether a hidden state goes through the model's final norm first. DoLa's code and
                transformers leave it out.

        Raises:
            ConfigError: There are no such layers, or logits are not the last hidden
                state times the output embedding.
        """
        config = model.config.get_text_config()
        blocks = [
            module
            for module in model.modules()
            if isinstance(module, torch.nn.ModuleList) and len(module) == config.num_hidden_layers
        ]
        self._model = model
        self._vocabulary = model.get_output_embeddings()
        if not blocks or self._vocabulary is None:
            raise ConfigError(
                "hf-dola: the model's layers or its output embedding cannot be told from its other"
                " parts"
            )
        self._blocks = [blocks[0][layer] for layer in layers]
        self._softcap: float | None = getattr(config, "final_logit_softcapping", None)
        self._norm: torch.nn.Module | None = None
        tokens = torch.arange(1, 4, device=device_of(model))[None]
        output = model(input_ids=tokens, output_hidden_states=True, use_cache=False)
        if not _is_near(self.logits(output.hidden_states[-1]), output.logits):
            raise ConfigError(
                "hf-dola: the model's logits are not its last hidden state times its output"
                " embedding"
            )
        if norm:
            in_blocks = set(blocks[0].modules())
            norms = [
                module
                for module in model.modules()
                if "norm" in type(module).__name__.lower() and module not in in_blocks
            ]
            if not norms:
                raise ConfigError("hf-dola: norm: the model has no final norm")
            self._norm = norms[-1]

    @contextlib.contextmanager
    def record(self, pick: Pick) -> Iterator[list[Tensor]]:
        """Leave what ``pick`` takes of the states of each layer in the list at each forward pass.

        States have the shape [batch, length, width].
        """
        recorded = [torch.empty(0)] * len(self._blocks)

        def keep(
            place: int, block: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
        ) -> None:
            recorded[place] = pick(args[0] if args else kwargs["hidden_states"])

        with contextlib.ExitStack() as hooks:
            for place, block in enumerate(self._blocks):
                hook = block.register_forward_pre_hook(partial(keep, place), with_kwargs=True)
                hooks.enter_context(hook)
            yield recorded

    def logits(self, states: Tensor) -> Tensor:
        """Return the logits, shape [..., vocabulary], of hidden states, shape [..., width]."""
        if self._norm is not None:
            states = self._norm(states)
        weight = self._vocabulary.weight
        logits: Tensor = self._vocabulary(states.to(weight.device, weight.dtype))
        if self._softcap is not None:
            logits = torch.tanh(logits / self._softcap) * self._softcap
        return logits


def _is_near(tensor: Tensor, expected: Tensor) -> bool:
    tensor = tensor.float()
    expected = expected.to(tensor.device).float()
    if tensor.shape != expected.shape:
        return False
    return bool((tensor - expected).abs().max() <= 0.02 * expected.std())
