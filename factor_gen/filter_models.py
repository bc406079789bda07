"""The models of the filters (section 3.2.3): an NLI classifier and a causal language model.

:mod:`factor_gen.filters` calls them. Both compute in float32. In bfloat16, a score can differ by
0.01 and more from one batch to another, while the fluency filter's margin is 0.2 nats. Which
contradictions pass would then depend on the machine and on the other documents of the shard.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch.nn.functional import cross_entropy
from tqdm import tqdm
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerBase

from factor_gen.settings import FluencySettings, NliSettings
from judges.inference.models import default_device, find_label, load_classifier
from lm_factuality.ground.errors import ModelError
from lm_factuality.ground.packages import loading
from lm_factuality.models.tree.scorer import PassBudget, find_engine, score_trie
from lm_factuality.models.tree.trie import build_trie

DTYPE = torch.float32
# A typical sentence has so many tokens. A vocabulary of 50,000 gives 200 kB of numbers for each.
_TOKENS_OF_TEXT = 64
_CONTRADICTION_LABELS = ("contradiction", "contradictory", "contradicts", "contradict", "contra")


class EncodedText(NamedTuple):
    """The tokens of a text and of the context before it."""

    tokens: list[int]
    """The token that begins a text, the tokens of the context, and those of the text."""

    num_scored: int
    """How many tokens at the end are those of the text. 0 if the text cannot be scored."""


class FluencyModel:
    """A causal language model that measures the fluency of sentences.

    Each text is preceded by the token that begins a text (or ends one, as for GPT-2), so that its
    first token has a probability too.
    """

    def __init__(self, settings: FluencySettings) -> None:
        """Load the model.

        Args:
            settings: The name of the model, and how much it reads at once.

        Raises:
            ModelError: The model is not available, or has no token that begins a text.
        """
        name = settings.model
        with loading(
            f"the language model {name!r}",
            "or its folder, or turn the filter off with fluency: none",
        ):
            self._tokenizer = AutoTokenizer.from_pretrained(name, revision=settings.revision)
            loaded = AutoModelForCausalLM.from_pretrained(
                name, revision=settings.revision, dtype=DTYPE
            )
        self.model: Any = loaded.to(default_device()).eval()
        # The model reads so many tokens in one pass.
        self.budget = settings.batch_size * _TOKENS_OF_TEXT
        # Some models, such as those with relative positions, have no limit.
        self._window = getattr(self.model.config, "max_position_embeddings", None) or 2**31
        self._start_token = _start_token(self._tokenizer, name)
        vocabulary = self.model.get_input_embeddings().weight.shape[0]
        with torch.inference_mode():
            self._engine = find_engine(self.model, vocabulary, min(self._window, 1024))

    def mean_logprobs(self, texts: Sequence[str], contexts: Sequence[str]) -> list[float]:
        """Return the mean log-probability of each text's tokens after its context.

        This is log p(c) / |c| of a text c. A beginning that several texts share is computed only
        once, because contradictions are edits of the same sentence.

        Args:
            texts: The texts to score.
            contexts: The text before each of them. If both do not fit into the model's window, the
                beginning of the context is cut.

        Returns:
            The means in nats per token. NaN for a text without tokens, or longer than the window.
        """
        # Texts that cannot be scored are left out and get NaN at the end.
        encoded_texts = self.encode(texts, contexts)
        scorable = [encoded for encoded in encoded_texts if encoded.num_scored]
        with torch.inference_mode():
            means = iter(self._mean_logprobs_of_tokens(scorable))
        return [next(means) if encoded.num_scored else math.nan for encoded in encoded_texts]

    def encode(self, texts: Sequence[str], contexts: Sequence[str]) -> list[EncodedText]:
        """Encode each text after its context, whose beginning is cut if both exceed the window.

        Args:
            texts: The texts to score.
            contexts: The text before each of them.

        Returns:
            The tokens. A text without tokens, or with too many, has ``num_scored`` 0.
        """
        encoded_texts = []
        for text, context in zip(texts, contexts, strict=True):
            context_tokens = self._tokenise(context.rstrip())
            # Most tokenizers join a space to the word after it.
            tokens = self._tokenise(f" {text}" if context_tokens else text)

            # The end of the context is the part that matters most.
            room = self._window - 1 - len(tokens)
            excess = max(0, len(context_tokens) - room)
            num_scored = len(tokens) if room >= 0 else 0
            all_tokens = [self._start_token, *context_tokens[excess:], *tokens]
            encoded_texts.append(EncodedText(all_tokens, num_scored))
        return encoded_texts

    def _tokenise(self, text: str) -> list[int]:
        """Return the tokens of a text, without tokens that begin or end a text."""
        return self._tokenizer.encode(  # type: ignore[no-any-return]
            text, add_special_tokens=False, verbose=False
        )

    def _mean_logprobs_of_tokens(self, encoded_texts: Sequence[EncodedText]) -> list[float]:
        """Return the mean log-probability of the scored tokens of each text, in nats.

        Args:
            encoded_texts: The tokens of texts with at least one token to score.

        Returns:
            The means, in the order of the texts.
        """
        if self._engine is None:
            return [self._mean_logprob_alone(encoded) for encoded in encoded_texts]

        # A trie holds the texts as trees whose branches share their beginnings.
        trie = build_trie(
            [encoded.tokens for encoded in encoded_texts],
            [encoded.num_scored for encoded in encoded_texts],
        )
        # The passes are the same on every machine, so that the digits that are kept are too.
        budget = PassBudget(self.budget, self.budget)
        scores = score_trie(trie, self._engine, budget)
        return [float(scores.logprobs[targets].mean()) for targets in trie.targets_by_request]

    def _mean_logprob_alone(self, encoded: EncodedText) -> float:
        """Return the mean log-probability of one text, by a model that cannot share beginnings."""
        ids = torch.tensor([encoded.tokens], device=self.model.device)
        targets = ids[0, -encoded.num_scored :]
        # The logits at a token are the predictions of the next one.
        logits = self.model(input_ids=ids[:, :-1], use_cache=False).logits
        return -float(cross_entropy(logits[0, -encoded.num_scored :].float(), targets))


def _start_token(tokenizer: PreTrainedTokenizerBase, name: str) -> int:
    """Return the id of the token that begins a text, or of the one that ends it.

    Args:
        tokenizer: The tokenizer of the model.
        name: The name of the model, for the error message.

    Raises:
        ModelError: The tokenizer has neither token.
    """
    # The id may be 0, which is not the same as none.
    for token in (tokenizer.bos_token_id, tokenizer.eos_token_id):
        if token is not None:
            return int(token)
    raise ModelError(
        f"{name}: its tokenizer names no token that begins or ends a text; set bos_token in it"
    )


@dataclass(frozen=True, slots=True)
class ContradictionPair:
    """A completion (the premise) and a contradiction of it (the hypothesis)."""

    context: str
    """The text before both, including the white space at its end."""

    completion: str
    """The true sentence."""

    contradiction: str
    """The sentence that should contradict it."""


class NliModel:
    """A classifier that tells how likely it is that a sentence contradicts another one."""

    def __init__(self, settings: NliSettings) -> None:
        """Load the model.

        Args:
            settings: The name of the model, and how many pairs it reads at once.

        Raises:
            ModelError: The model is not available, is no classifier, or has no label that is
                called contradiction.
        """
        self.model, self._tokenizer, self._window = load_classifier(
            settings.model, settings.revision, dtype=DTYPE
        )
        self._batch_size = settings.batch_size
        self._label = find_label(settings.model, self.model.config.id2label, _CONTRADICTION_LABELS)
        # Pairs are encoded before they are padded. The tokenizer would warn that this is slow.
        self._tokenizer.deprecation_warnings["Asking-to-pad-a-fast-tokenizer"] = True

    def contradictions(self, pairs: Sequence[ContradictionPair]) -> list[float]:
        """Return the probability that each sentence contradicts its completion.

        Args:
            pairs: The completions and their contradictions.

        Returns:
            The probabilities, in the order of the pairs. NaN for a pair that does not fit into the
            model's window even without its context.
        """
        encoded_pairs = self.encode(pairs)
        fitting = [index for index, encoded in enumerate(encoded_pairs) if encoded]
        # If the longest pairs exceed the memory, it should be known at once.
        fitting.sort(key=lambda index: -len(encoded_pairs[index]["input_ids"]))

        probabilities = torch.full((len(pairs),), math.nan, device=self.model.device)
        starts = range(0, len(fitting), self._batch_size)
        with torch.inference_mode():
            # A GPU runs ahead as long as no result is fetched from it.
            for start in tqdm(starts, desc="contradictory?", unit=" batches", delay=2):
                indices = fitting[start : start + self._batch_size]
                batch = self.pad_batch([encoded_pairs[index] for index in indices])
                logits = self.model(**batch).logits.float()
                probabilities[indices] = logits.softmax(dim=-1)[:, self._label]
        return probabilities.tolist()

    def encode(self, pairs: Sequence[ContradictionPair]) -> list[dict[str, list[int]]]:
        """Encode each pair as premise and hypothesis, both after their context.

        If a pair is too long for the model's window, the beginning of its context is cut, as many
        tokens in the premise as in the hypothesis.

        Args:
            pairs: The completions and their contradictions.

        Returns:
            The inputs of the model by name, such as ``input_ids``. Empty for a pair that is too
            long even without its context.
        """
        encoded_pairs = self._tokenizer(
            [pair.context + pair.completion for pair in pairs],
            [pair.context + pair.contradiction for pair in pairs],
            return_offsets_mapping=True,
            verbose=False,
        )
        offsets = encoded_pairs.pop("offset_mapping")

        inputs: list[dict[str, list[int]]] = []
        for index, pair in enumerate(pairs):
            # The side of a token is 0 in the premise, 1 in the hypothesis, and None if the token,
            # such as a separator, belongs to neither.
            token_ends = [end for _, end in offsets[index]]
            sides = encoded_pairs.sequence_ids(index)
            kept = self._positions_in_window(token_ends, sides, len(pair.context))
            if len(kept) > self._window:
                inputs.append({})
                continue
            values_by_name = {name: values[index] for name, values in encoded_pairs.items()}
            inputs.append(_take_positions(values_by_name, kept))
        return inputs

    def _positions_in_window(
        self, token_ends: Sequence[int], sides: Sequence[int | None], context_length: int
    ) -> list[int]:
        """Return the positions of a pair's tokens without those that are cut from its context.

        Args:
            token_ends: Where each token ends in its text, in characters.
            sides: For each token 0 if it belongs to the premise, 1 if to the hypothesis, and None
                if to neither.
            context_length: The length of the context in characters.

        Returns:
            The positions in order. They are more than the window if the context is too short to
            cut enough of it.
        """
        excess = max(0, len(token_ends) - self._window)
        # Half of the excess is cut from each side, rounded up.
        num_cut = (excess + 1) // 2
        removed: set[int] = set()
        for side in (0, 1):
            context_positions = [
                position
                for position, token_end in enumerate(token_ends)
                if sides[position] == side and token_end <= context_length
            ]
            removed.update(context_positions[:num_cut])
        return [position for position in range(len(token_ends)) if position not in removed]

    def pad_batch(self, inputs: Sequence[Mapping[str, list[int]]]) -> dict[str, torch.Tensor]:
        """Return encoded pairs as one batch on the model's device, padded to the same length.

        Args:
            inputs: The inputs of each pair by name, as `encode` returns them.

        Returns:
            The inputs of the model by name, each an array (pairs, tokens).
        """
        names = inputs[0].keys()
        columns = {name: [pair_inputs[name] for pair_inputs in inputs] for name in names}
        batch = self._tokenizer.pad(columns, return_tensors="pt")
        # The copy to a GPU may overlap with its computations.
        device = self.model.device
        return {name: batch[name].to(device, non_blocking=True) for name in names}


def _take_positions(
    values_by_name: Mapping[str, list[int]], positions: Sequence[int]
) -> dict[str, list[int]]:
    """Return only the values at some positions of each input of a model."""
    taken = {}
    for name, values in values_by_name.items():
        taken[name] = [values[position] for position in positions]
    return taken
