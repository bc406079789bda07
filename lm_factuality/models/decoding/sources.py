"""Where the weaker logits come from: the model's own early layers, or another model.

Both give an engine for scoring, the logits of what it leaves beside the model's own, and what ``generate`` asks at each step."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from lm_factuality.models.tree.cached import Logits, Recorder, UnsupportedModelError, needed_logits, takes
from lm_factuality.models.tree.forest import Forest, Stretch
from lm_factuality.models.tree.scorer import Engine, choose_engine

Weaker = Callable[[torch.Tensor], Sequence[torch.Tensor]]
"""Weaker logits of the next token, each of shape [batch, vocabulary], after token ids of shape [batch, length]."""


@dataclass(frozen=True)
class WholeEngine:
    """Any causal model, on forests that are a single sequence each: it is given whole, so that nothing need be shared."""

    model: Any
    exits: Recorder | None = None
    name = "whole"

    def restart(self) -> None: ...

    def limit(self, forest: Forest, stretch: Stretch) -> Stretch:
        return Stretch(0, len(forest), stretch.path)

    def run(self, forest: Forest, stretch: Stretch) -> Logits:
        tokens = torch.from_numpy(forest.tokens)[None].to(self.model.get_input_embeddings().weight.device)
        return needed_logits(self.model, forest, stretch, self.exits, input_ids=tokens, use_cache=False)


@dataclass(frozen=True)
class BesideEngine:
    """Two models on the same stretches: the logits of ``main``, and beside them those of ``other``."""

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
        return replace(found, beside=(self.other.run(forest, stretch).values.to(found.values.device),))


class EarlyExits:
    """The hidden states that enter the blocks ``layers``, numbered as transformers' ``hidden_states``: 0 is the embedding.

    With ``norm`` a state goes through the model's final norm before the vocabulary; DoLa's code and transformers' leave it out.
    Raises UnsupportedModelError: no such layers, or logits that are not the last hidden state times the vocabulary."""

    def __init__(self, model: Any, layers: Sequence[int], norm: bool = False) -> None:
        self.layers, self._model = tuple(layers), model
        self.whole: Engine = WholeEngine(model, self)
        self._vocabulary, self._norm = model.get_output_embeddings(), None
        config = model.config.get_text_config()
        self._softcap: float | None = getattr(config, "final_logit_softcapping", None)
        lists = (each for each in model.modules() if isinstance(each, torch.nn.ModuleList))
        self._blocks: Any = next((each for each in lists if len(each) == config.num_hidden_layers), None)
        if self._blocks is None or self._vocabulary is None:
            raise UnsupportedModelError("its layers or its output embedding cannot be told from its other parts")
        with self.recorded(lambda states: states) as picked:
            ids = torch.arange(1, 4, device=model.get_input_embeddings().weight.device)[None]
            output = model(input_ids=ids, output_hidden_states=True, use_cache=False)
        # Not by place: state-space models leave the embedding out of their hidden states.
        if not all(any(_is_near(each, state) for state in output.hidden_states) for each in picked[not self.layers[0] :]):
            raise UnsupportedModelError("what enters its blocks is not what it calls its hidden states")
        if not _is_near(self.logits(output.hidden_states[-1]), output.logits):
            raise UnsupportedModelError("its logits are not its last hidden state times its output embedding")
        if norm:
            within = set(self._blocks.modules())
            norms = [each for each in model.modules() if "norm" in type(each).__name__.lower() and each not in within]
            if not norms:
                raise UnsupportedModelError("norm: it has no final norm")
            self._norm = norms[-1]

    @contextlib.contextmanager
    def recorded(self, pick: Callable[[torch.Tensor], torch.Tensor]) -> Iterator[list[torch.Tensor]]:
        """Within, every forward pass leaves in the list what ``pick`` takes from each layer's states, [batch, length, width]."""
        found = [torch.empty(0)] * len(self.layers)

        def keep(place: int, block: torch.nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> None:
            found[place] = pick(given[0] if given else named["hidden_states"])

        hooks = [(self._blocks[layer], partial(keep, place)) for place, layer in enumerate(self.layers)]
        handles = [block.register_forward_pre_hook(hook, with_kwargs=True) for block, hook in hooks]
        try:
            yield found
        finally:
            for handle in handles:
                handle.remove()

    def logits(self, states: torch.Tensor) -> torch.Tensor:
        """The logits, shape [..., vocabulary], of hidden states, shape [..., width]."""
        states = states if self._norm is None else self._norm(states)
        logits: torch.Tensor = self._vocabulary(states.to(self._vocabulary.weight.device, self._vocabulary.weight.dtype))
        return logits if self._softcap is None else torch.tanh(logits / self._softcap) * self._softcap

    def engine(self, vocabulary: int, max_length: int) -> Engine | None:
        return choose_engine(self._model, vocabulary, max_length, self)

    @contextlib.contextmanager
    def generating(self, mask: torch.Tensor | None) -> Iterator[Weaker]:
        with self.recorded(lambda states: states[:, -1]) as found:
            yield lambda ids: [self.logits(each) for each in found]


class Amateur:
    """Another model with the same vocabulary. In generation it reads the whole text again for each token."""

    def __init__(self, model: Any, amateur: Any) -> None:
        self._models = model, amateur
        self.whole: Engine = BesideEngine(WholeEngine(model), WholeEngine(amateur))

    def engine(self, vocabulary: int, max_length: int) -> Engine | None:
        vocabulary = min(vocabulary, int(self._models[1].get_input_embeddings().weight.shape[0]))
        own, other = (choose_engine(each, vocabulary, max_length) for each in self._models)
        return None if own is None or other is None else BesideEngine(own, other)

    def logits(self, beside: torch.Tensor) -> torch.Tensor:
        return beside

    @contextlib.contextmanager
    def generating(self, mask: torch.Tensor | None) -> Iterator[Weaker]:
        amateur = self._models[1]

        def read(ids: torch.Tensor) -> Sequence[torch.Tensor]:
            seen = torch.ones_like(ids)
            if mask is not None:  # of prompts, each of which beam search goes on from in several ways
                seen[:, : mask.shape[1]] = mask.repeat_interleave(len(ids) // len(mask), dim=0)
            inputs: dict[str, Any] = {"position_ids": (seen.cumsum(-1) - 1).clamp(min=0), "logits_to_keep": 1}
            inputs = {name: value for name, value in inputs.items() if takes(amateur, name)}
            return [amateur(input_ids=ids, attention_mask=seen, use_cache=False, **inputs).logits[:, -1].to(ids.device)]

        yield read


def _is_near(one: torch.Tensor, other: torch.Tensor) -> bool:
    one, other = one.float(), other.to(one.device).float()
    return one.shape == other.shape and bool((one - other).abs().max() <= 0.02 * other.std())
