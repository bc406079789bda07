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
from transformers import PreTrainedModel

from lm_factuality.ground.errors import ConfigError
from lm_factuality.ground.settings import Number, Strict, Text
from lm_factuality.models.tree.logits import SelectPositions, device_of

Share = Annotated[float, Field(ge=0, le=1)]

_MAX_PRESET_SIZE = 20
"""How many layers the presets ``low`` and ``high`` of `choose_layers` span at most."""


class Method(Strict):
    """A decoding method that contrasts a model's logits with weaker ones.

    Its fields are the options of the lm_eval model. Together they determine every score.
    """

    @abc.abstractmethod
    def __call__(self, logits: Tensor, weaker: Sequence[Tensor]) -> Tensor:
        """Score every possible next token.

        Args:
            logits: The model's own logits, shape [positions, vocabulary].
            weaker: Weaker logits, such as those of early layers, each of the same shape.

        Returns:
            The scores in nats, shape [positions, vocabulary].
        """


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
        """Score tokens by how much the final layer prefers them to an early (premature) layer.

        Args:
            logits: The final layer's logits, shape [positions, vocabulary].
            weaker: The logits of each candidate early layer, in the same shape.

        Returns:
            The scores in nats, shape [positions, vocabulary]. They are log-probabilities if
            ``softmax`` is set. Implausible tokens have the score ``relative_top_value``.
        """
        final = logits.log_softmax(-1)
        premature = self._most_divergent(final, weaker)
        return mask_implausible(
            final - premature,
            final,
            self.relative_top,
            self.relative_top_value,
            normalise=self.softmax,
            normalise_over_plausible=self.formula == "paper",
        )

    def _most_divergent(self, final: Tensor, candidates: Sequence[Tensor]) -> Tensor:
        """Select at each position the early layer that diverges most from the final layer.

        Args:
            final: The final layer's log-probabilities, shape [positions, vocabulary].
            candidates: The logits of each candidate layer, in the same shape.

        Returns:
            The log-probabilities of the selected layers, shape [positions, vocabulary].
        """
        selected = candidates[0].log_softmax(-1)
        # A single candidate needs no comparison.
        if len(candidates) == 1:
            return selected
        divergence = self._divergence(final, selected)
        for logits in candidates[1:]:
            candidate = logits.log_softmax(-1)
            candidate_divergence = self._divergence(final, candidate)
            # Where this candidate is further from the final layer, it replaces the selected one.
            is_more_distant = candidate_divergence > divergence
            selected = torch.where(is_more_distant[:, None], candidate, selected)
            divergence = torch.maximum(divergence, candidate_divergence)
        return selected

    def _divergence(self, p: Tensor, q: Tensor) -> Tensor:
        """Measure how far two next-token distributions are apart.

        Args:
            p: The log-probabilities of one layer, shape [positions, vocabulary].
            q: The log-probabilities of the other layer, in the same shape.

        Returns:
            The divergence in nats, shape [positions]. With ``formula="paper"``, it is the
            Jensen-Shannon divergence minus log 2, because only the order of layers matters. Many
            early layers have a divergence near log 2, where float32 would round differences away.
        """
        if self.formula == "code":
            # The log-probabilities of the mean of both distributions.
            mixture = torch.logaddexp(p, q) - math.log(2)
            return (mixture.exp() * (mixture - 0.5 * (p + q))).sum(-1)
        # The logarithm of p's probability over the mixture's is log 2 - softplus(q - p). The log 2
        # of each term is left out.
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
        """Score tokens by how much the expert prefers them to the amateur.

        Args:
            logits: The expert's logits, shape [positions, vocabulary].
            weaker: The amateur's logits as the only element, in the same shape.

        Returns:
            The scores in nats, shape [positions, vocabulary]. They are log-probabilities if
            ``softmax`` is set. Implausible tokens have the score ``excluded``.
        """
        expert = logits.log_softmax(-1)
        (amateur_logits,) = weaker
        amateur = (amateur_logits / self.amateur_temperature).log_softmax(-1)
        if self.beta is None:
            scores = expert - amateur
        else:
            # This is the expert's log-probability plus beta times its lead over the amateur.
            scores = (1 + self.beta) * expert - self.beta * amateur
        return mask_implausible(scores, expert, self.alpha, self.excluded, normalise=self.softmax)


def mask_implausible(
    scores: Tensor,
    logprobs: Tensor,
    min_relative_probability: float,
    excluded_score: float,
    *,
    normalise: bool,
    normalise_over_plausible: bool = True,
) -> Tensor:
    """Give a fixed low score to tokens that the model finds implausible (Li et al., 2023).

    Args:
        scores: The contrasted scores in nats, shape [positions, vocabulary].
        logprobs: The model's own log-probabilities in nats, in the same shape.
        min_relative_probability: A token is implausible if its probability is below this share (0
            to 1) of the likeliest token's. 0 excludes none.
        excluded_score: The score of an implausible token, such as -1000.
        normalise: Whether the scores become log-probabilities, by a softmax.
        normalise_over_plausible: Whether implausible tokens are left out of this softmax, so that
            the probabilities of the plausible ones add up to 1.

    Returns:
        The scores, shape [positions, vocabulary].
    """
    # The logarithm of a share of a probability is a sum: log(share * p) = log(share) + log(p).
    # Python's function refuses 0, whose logarithm is minus infinity.
    log_share = math.log(min_relative_probability) if min_relative_probability else -math.inf
    threshold = logprobs.amax(-1, keepdim=True) + log_share
    is_implausible = logprobs < threshold

    if normalise:
        scores_in_softmax = scores
        if normalise_over_plausible:
            # A score of minus infinity adds nothing to the sum that the softmax divides by.
            scores_in_softmax = scores.masked_fill(is_implausible, -math.inf)
        scores = scores - scores_in_softmax.logsumexp(-1, keepdim=True)
    return scores.masked_fill(is_implausible, excluded_score)


def choose_layers(layers: str | int | Sequence[int], num_layers: int, is_tied: bool) -> list[int]:
    """Resolve DoLa's option ``layers`` to the numbers of the early layers.

    In a model of 12 layers, for example, ``low`` means the layers 0, 2 and 4, ``high`` means 6, 8
    and 10, and ``0+2`` means 0 and 2.

    Args:
        layers: Numbers (``0+2+4`` on the command line), or one of transformers' presets. ``low`` is
            every second layer of the lower half, and ``high`` of the upper half. Of models with
            more than 40 layers, they take the 20 lowest or highest instead of a half.
        num_layers: How many layers the model has.
        is_tied: Whether input and output embeddings are the same. Then ``low`` leaves out layer 0,
            which would predict the token just read.

    Returns:
        The numbers in ascending order, each once. Layer 0 is the embedding.

    Raises:
        ConfigError: There is no such preset or layer.
    """
    half = num_layers // 2
    if layers == "low":
        first_layer = 2 if is_tied else 0
        chosen = list(range(first_layer, min(half, _MAX_PRESET_SIZE), 2))
    elif layers == "high":
        # Of an odd number of layers, the upper half is the larger one.
        chosen = list(range(max(half, num_layers - _MAX_PRESET_SIZE), num_layers, 2))
    else:
        chosen = _read_layer_numbers(layers, num_layers)
    if not chosen:
        raise ConfigError(
            f"hf-dola: layers is {layers!r}; expected low, high or numbers such as 0+2+4, from 0"
            f" (the embedding) to {num_layers - 1}, to contrast the last layer with"
        )
    return chosen


def _read_layer_numbers(layers: str | int | Sequence[int], num_layers: int) -> list[int]:
    """Read the numbers of layers from a text such as ``4+0+2``, a number or a list of numbers.

    Returns:
        The numbers in ascending order, each once. No numbers if a layer does not exist.
    """
    texts = set(str(layers).split("+") if isinstance(layers, str | int) else map(str, layers))
    numbers = [number for number in range(num_layers) if str(number) in texts]
    return numbers if len(numbers) == len(texts) else []


class EarlyExits:
    """Computes next-token logits from the hidden states of a model's own early layers.

    Layers are numbered as in transformers' ``hidden_states``: 0 is the embedding.
    """

    def __init__(self, model: PreTrainedModel, layers: Sequence[int], use_norm: bool) -> None:
        """Find the model's layers and output embedding, and check them on three tokens.

        Args:
            model: The language model of transformers.
            layers: The numbers of the layers whose input states are recorded.
            use_norm: Whether a hidden state goes through the model's final norm before it becomes
                logits. DoLa's code and transformers leave it out.

        Raises:
            ConfigError: The layers or the final norm cannot be found, or logits are not the last
                hidden state times the output embedding.
        """
        config = model.config.get_text_config()
        blocks = _find_blocks(model, config.num_hidden_layers)
        # The output embedding is the matrix that turns hidden states into logits.
        self._output_embedding = model.get_output_embeddings()
        if blocks is None or self._output_embedding is None:
            raise ConfigError(
                "hf-dola: the model's layers or its output embedding cannot be told from its other"
                " parts"
            )
        # Layer 0 is the embedding, so the hidden states of layer 2 are the input of ``blocks[2]``.
        self._blocks = [blocks[layer] for layer in layers]
        # Some models, such as Gemma 2, keep logits between -softcap and softcap.
        self._softcap: float | None = getattr(config, "final_logit_softcapping", None)
        self._check_logits(model)
        self._norm = _find_final_norm(model, blocks) if use_norm else None

    def _check_logits(self, model: PreTrainedModel) -> None:
        """Check on three tokens that the model's logits follow from its last hidden state.

        Raises:
            ConfigError: They are not the last hidden state times the output embedding.
        """
        tokens = torch.arange(1, 4, device=device_of(model))[None]
        output = model(input_ids=tokens, output_hidden_states=True, use_cache=False)
        # The last of these states has already gone through the final norm.
        if not _is_near(self._output_logits(output.hidden_states[-1]), output.logits):
            raise ConfigError(
                "hf-dola: the model's logits are not its last hidden state times its output"
                " embedding"
            )

    @contextlib.contextmanager
    def record(self, select_positions: SelectPositions) -> Iterator[list[Tensor]]:
        """Record hidden states of the early layers during each forward pass of the model.

        The hidden states of a layer are recorded when the next block reads them. Those of layer 0
        are the embeddings, which the first block reads.

        Args:
            select_positions: Selects positions from the hidden states of a layer, shape [batch,
                length, width].

        Yields:
            A list with the selected states of each layer. Each forward pass overwrites it.
        """
        recorded = [torch.empty(0)] * len(self._blocks)

        def record_input(
            index: int, block: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
        ) -> None:
            # Some models pass the hidden states by position, and others by name.
            hidden_states = args[0] if args else kwargs["hidden_states"]
            recorded[index] = select_positions(hidden_states)

        with contextlib.ExitStack() as hooks:
            for index, block in enumerate(self._blocks):
                hook_function = partial(record_input, index)
                hook = block.register_forward_pre_hook(hook_function, with_kwargs=True)
                hooks.enter_context(hook)
            yield recorded

    def compute_logits(self, states: Tensor) -> Tensor:
        """Turn the hidden states of an early layer into next-token logits.

        Args:
            states: The hidden states, shape [..., width].

        Returns:
            The logits, shape [..., vocabulary].
        """
        if self._norm is not None:
            states = self._norm(states)
        return self._output_logits(states)

    def _output_logits(self, states: Tensor) -> Tensor:
        """Turn hidden states into logits as the model's own last step does.

        They are multiplied by the output embedding and, in models such as Gemma 2, limited to a
        range around 0 (soft cap).
        """
        weight = self._output_embedding.weight
        logits: Tensor = self._output_embedding(states.to(weight.device, weight.dtype))
        if self._softcap is not None:
            logits = torch.tanh(logits / self._softcap) * self._softcap
        return logits


def _find_blocks(model: PreTrainedModel, num_layers: int) -> torch.nn.ModuleList | None:
    """Return the list of a model's layers, or None if there is no list of so many modules."""
    for module in model.modules():
        if isinstance(module, torch.nn.ModuleList) and len(module) == num_layers:
            return module
    return None


def _find_final_norm(model: PreTrainedModel, blocks: torch.nn.ModuleList) -> torch.nn.Module:
    """Return the model's last norm outside of its layers.

    Args:
        model: The language model of transformers.
        blocks: The model's layers, which have norms of their own.

    Raises:
        ConfigError: The model has no such norm.
    """
    modules_in_blocks = set(blocks.modules())
    modules: list[torch.nn.Module] = list(model.modules())
    # The model may also have a norm before its layers, for example of the embeddings.
    for module in reversed(modules):
        # Classes of norms are called LayerNorm, LlamaRMSNorm and so on.
        is_norm = "norm" in type(module).__name__.lower()
        if is_norm and module not in modules_in_blocks:
            return module
    raise ConfigError("hf-dola: norm: the model has no final norm")


def _is_near(tensor: Tensor, expected: Tensor) -> bool:
    """Return whether all values differ by at most 2% of the expected standard deviation."""
    # Half precision would round the differences away.
    tensor = tensor.float()
    expected = expected.to(tensor.device).float()
    if tensor.shape != expected.shape:
        return False
    return bool((tensor - expected).abs().max() <= 0.02 * expected.std())
