"""Ways of decoding that contrast a model with something weaker.

First the formulas, with their options: log-probabilities of next tokens, from a model's logits and
weaker ones beside them. Then what is weaker, the model's own early layers or another model: an
engine for scoring, the logits of what it leaves beside the model's own, and what ``generate`` asks
at each step. To add a method, write a class like ``DoLa`` and a model like ``HFDoLa``."""

import abc
import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import softplus

from lm_factuality.ground.errors import ConfigError
from lm_factuality.ground.settings import Number, Strict, Text
from lm_factuality.models.tree.cached import (
    Logits,
    Recorder,
    UnsupportedModelError,
    needed_logits,
    no_exits,
    takes,
)
from lm_factuality.models.tree.forest import Forest, Stretch
from lm_factuality.models.tree.scorer import Engine, choose_engine

Share = Annotated[float, Field(ge=0, le=1)]


class Method(Strict):
    """A way of decoding; its fields are the model's options, all that decides on a score."""

    @abc.abstractmethod
    def __call__(self, logits: Tensor, weaker: Sequence[Tensor]) -> Tensor:
        """Scores of the next token in nats, all of shape [positions, vocabulary]; log-probabilities
        under ``softmax``."""


class DoLa(Method):
    """Contrast with early exits (Chuang et al., 2024): one premature layer is static; of several,
    each position takes the one whose distribution diverges most from the final layer's, the first
    of equal ones. By the formula ``paper`` divergence is Jensen-Shannon's (section 2.2) and
    excluded tokens leave the softmax (section 2.3). By ``code`` it is, as in ``dola.py`` and
    transformers, the mean divergence from the mixture to either, and the softmax is over all
    tokens. See ``docs/models.md``."""

    method: Literal["DoLa"] = "DoLa"
    layers: str | int | list[int] = "low"
    early_exit_layer: int | None = None
    relative_top: Share = 0.1
    relative_top_value: Number = -1000.0
    softmax: bool = True
    norm: bool = False
    formula: Literal["paper", "code"] = "paper"

    def __call__(self, logits: Tensor, weaker: Sequence[Tensor]) -> Tensor:
        final, premature = logits.log_softmax(-1), weaker[0].log_softmax(-1)
        if len(weaker) > 1:
            furthest = self._divergence(final, premature)
            for each in weaker[1:]:
                candidate = each.log_softmax(-1)
                divergence = self._divergence(final, candidate)
                premature = torch.where((divergence > furthest)[:, None], candidate, premature)
                furthest = torch.maximum(furthest, divergence)
        is_first = self.formula == "paper"
        return settle(
            final - premature,
            final,
            self.softmax,
            self.relative_top,
            self.relative_top_value,
            is_first,
        )

    def _divergence(self, one: Tensor, other: Tensor) -> Tensor:
        """Of distributions given as log-probabilities, shape [positions]; Jensen-Shannon's less log
        2: many early layers hardly overlap with the last, and near log 2 float32 has rounding
        alone; what is missing to it keeps its digits."""
        if self.formula == "code":
            mixture = torch.logaddexp(one, other) - math.log(2)
            return (mixture.exp() * (mixture - 0.5 * (one + other))).sum(-1)
        return -0.5 * (one.exp() * softplus(other - one) + other.exp() * softplus(one - other)).sum(
            -1
        )


class Contrastive(Method):
    """Expert against ``amateur``, whose logits are divided by a temperature: log expert - log
    amateur (Li et al., 2023), or with a ``beta`` (1 + beta) log expert - beta log amateur (O'Brien
    and Lewis, 2023)."""

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
        expert, amateur = (
            logits.log_softmax(-1),
            (weaker[0] / self.amateur_temperature).log_softmax(-1),
        )
        scores = (
            expert - amateur
            if self.beta is None
            else (1 + self.beta) * expert - self.beta * amateur
        )
        return settle(scores, expert, self.softmax, self.alpha, self.excluded)


def settle(
    scores: Tensor,
    likely: Tensor,
    softmax: bool,
    share: float,
    value: float,
    floor_first: bool = True,
) -> Tensor:
    """``scores`` with the floor of implausible tokens (Li et al., 2023), as log-probabilities under
    ``softmax``: a token less ``likely``, in the model's own log-probabilities, than ``share`` of
    the likeliest is excluded, and scored ``value``."""
    excluded = likely < likely.amax(-1, keepdim=True) + (math.log(share) if share else -math.inf)
    if softmax:
        counted = scores.masked_fill(excluded, -math.inf) if floor_first else scores
        scores = scores - counted.logsumexp(-1, keepdim=True)
    return scores.masked_fill(excluded, value)


def choose_layers(wanted: str | int | Sequence[int], num_layers: int, is_tied: bool) -> list[int]:
    """The layers to contrast with: numbers (``0+2+4`` on the command line), or transformers'
    presets for a model of ``num_layers``: every second one of the lower or the upper half, or of 20
    in models of more than 40. Where embeddings are tied, ``low`` leaves out 0, which would predict
    the token just read. Raises ConfigError: no such preset or layer."""
    half, last = (20, num_layers - 20) if num_layers > 40 else (num_layers // 2, num_layers // 2)
    presets = {"low": range(2 if is_tied else 0, half, 2), "high": range(last, num_layers, 2)}
    try:
        parts = (
            wanted.split("+")
            if isinstance(wanted, str)
            else [wanted]
            if isinstance(wanted, int)
            else wanted
        )
        found = sorted(
            set(
                presets[wanted]
                if isinstance(wanted, str) and wanted in presets
                else map(int, parts)
            )
        )
    except ValueError as error:
        raise ConfigError(
            f"hf-dola: layers is {wanted!r}; expected low, high or numbers such as 0+2+4"
        ) from error
    if not found or found[0] < 0 or found[-1] >= num_layers:
        raise ConfigError(
            f"hf-dola: layers is {wanted!r}, which is {found or 'none'} of the model's"
            f" {num_layers}; expected one or more to contrast the last one with, from 0 (the"
            f" embedding) to {num_layers - 1}"
        )
    return found


Weaker = Callable[[Tensor], Sequence[Tensor]]
"""Weaker logits of the next token, each of shape [batch, vocabulary], after token ids of shape
[batch, length]."""


@dataclass(frozen=True)
class WholeEngine:
    """Any causal model, on forests that are a single sequence each: it is given whole, so that
    nothing need be shared."""

    model: Any
    exits: Recorder = no_exits
    name = "whole"

    def restart(self) -> None: ...

    def limit(self, forest: Forest, stretch: Stretch) -> Stretch:
        return Stretch(0, len(forest), stretch.path)

    def run(self, forest: Forest, stretch: Stretch) -> Logits:
        tokens = torch.from_numpy(forest.tokens)[None].to(
            self.model.get_input_embeddings().weight.device
        )
        return needed_logits(
            self.model, forest, stretch, self.exits, input_ids=tokens, use_cache=False
        )


@dataclass(frozen=True)
class BesideEngine:
    """Two models on the same stretches: the logits of ``main``, and beside them those of
    ``other``."""

    main: Engine
    other: Engine

    @property
    def name(self) -> str:
        return f"{self.main.name} and {self.other.name}"

    def restart(self) -> None:
        self.main.restart()
        self.other.restart()

    def limit(self, forest: Forest, stretch: Stretch) -> Stretch:
        return self.other.limit(forest, self.main.limit(forest, stretch))

    def run(self, forest: Forest, stretch: Stretch) -> Logits:
        found = self.main.run(forest, stretch)
        return replace(
            found, beside=(self.other.run(forest, stretch).values.to(found.values.device),)
        )


class EarlyExits:
    """The hidden states that enter the blocks ``layers``, numbered as transformers'
    ``hidden_states``: 0 is the embedding. With ``norm`` a state goes through the model's final norm
    before the vocabulary; DoLa's code and transformers' leave it out. Raises UnsupportedModelError:
    no such layers, or logits that are not the last hidden state times the vocabulary."""

    def __init__(self, model: Any, layers: Sequence[int], norm: bool = False) -> None:
        self.layers, self._model = tuple(layers), model
        self.whole: Engine = WholeEngine(model, self.recorded)
        self._vocabulary, self._norm = model.get_output_embeddings(), None
        config = model.config.get_text_config()
        self._softcap: float | None = getattr(config, "final_logit_softcapping", None)
        lists = (each for each in model.modules() if isinstance(each, torch.nn.ModuleList))
        self._blocks: Any = next(
            (each for each in lists if len(each) == config.num_hidden_layers), None
        )
        if self._blocks is None or self._vocabulary is None:
            raise UnsupportedModelError(
                "its layers or its output embedding cannot be told from its other parts"
            )
        with self.recorded(lambda states: states) as picked:
            ids = torch.arange(1, 4, device=model.get_input_embeddings().weight.device)[None]
            output = model(input_ids=ids, output_hidden_states=True, use_cache=False)
        # Not by place: state-space models leave the embedding out of their hidden states.
        if not all(
            any(_is_near(each, state) for state in output.hidden_states)
            for each in picked[not self.layers[0] :]
        ):
            raise UnsupportedModelError(
                "what enters its blocks is not what it calls its hidden states"
            )
        if not _is_near(self.logits(output.hidden_states[-1]), output.logits):
            raise UnsupportedModelError(
                "its logits are not its last hidden state times its output embedding"
            )
        if norm:
            within = set(self._blocks.modules())
            norms = [
                each
                for each in model.modules()
                if "norm" in type(each).__name__.lower() and each not in within
            ]
            if not norms:
                raise UnsupportedModelError("norm: it has no final norm")
            self._norm = norms[-1]

    @contextlib.contextmanager
    def recorded(self, pick: Callable[[Tensor], Tensor]) -> Iterator[list[Tensor]]:
        """Within, every forward pass leaves in the list what ``pick`` takes from each layer's
        states, [batch, length, width]."""
        found = [torch.empty(0)] * len(self.layers)

        def keep(
            place: int, block: torch.nn.Module, given: tuple[Any, ...], named: dict[str, Any]
        ) -> None:
            found[place] = pick(given[0] if given else named["hidden_states"])

        hooks = [
            (self._blocks[layer], partial(keep, place)) for place, layer in enumerate(self.layers)
        ]
        handles = [block.register_forward_pre_hook(hook, with_kwargs=True) for block, hook in hooks]
        try:
            yield found
        finally:
            for handle in handles:
                handle.remove()

    def logits(self, states: Tensor) -> Tensor:
        """The logits, shape [..., vocabulary], of hidden states, shape [..., width]."""
        states = states if self._norm is None else self._norm(states)
        logits: Tensor = self._vocabulary(
            states.to(self._vocabulary.weight.device, self._vocabulary.weight.dtype)
        )
        return (
            logits if self._softcap is None else torch.tanh(logits / self._softcap) * self._softcap
        )

    def engine(self, vocabulary: int, max_length: int) -> Engine | None:
        return choose_engine(self._model, vocabulary, max_length, self.recorded)

    @contextlib.contextmanager
    def generating(self, mask: Tensor | None) -> Iterator[Weaker]:
        with self.recorded(lambda states: states[:, -1]) as found:
            yield lambda ids: [self.logits(each) for each in found]


class Amateur:
    """Another model with the same vocabulary. In generation it reads the whole text again for each
    token."""

    def __init__(self, model: Any, amateur: Any) -> None:
        self._models = model, amateur
        self.whole: Engine = BesideEngine(WholeEngine(model), WholeEngine(amateur))

    def engine(self, vocabulary: int, max_length: int) -> Engine | None:
        vocabulary = min(vocabulary, int(self._models[1].get_input_embeddings().weight.shape[0]))
        own, other = (choose_engine(each, vocabulary, max_length) for each in self._models)
        return None if own is None or other is None else BesideEngine(own, other)

    def logits(self, beside: Tensor) -> Tensor:
        return beside

    @contextlib.contextmanager
    def generating(self, mask: Tensor | None) -> Iterator[Weaker]:
        amateur = self._models[1]

        def read(ids: Tensor) -> Sequence[Tensor]:
            seen = torch.ones_like(ids)
            if (
                mask is not None
            ):  # of prompts, each of which beam search goes on from in several ways
                seen[:, : mask.shape[1]] = mask.repeat_interleave(len(ids) // len(mask), dim=0)
            inputs: dict[str, Any] = {
                "position_ids": (seen.cumsum(-1) - 1).clamp(min=0),
                "logits_to_keep": 1,
            }
            inputs = {name: value for name, value in inputs.items() if takes(amateur, name)}
            return [
                amateur(input_ids=ids, attention_mask=seen, use_cache=False, **inputs)
                .logits[:, -1]
                .to(ids.device)
            ]

        yield read


def _is_near(one: Tensor, other: Tensor) -> bool:
    one, other = one.float(), other.to(one.device).float()
    return one.shape == other.shape and bool((one - other).abs().max() <= 0.02 * other.std())
