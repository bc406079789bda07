"""The models of the filters (section 3.2.3): an NLI classifier and a causal language model.

:mod:`factor_gen.filters` calls them. Both compute in float32. In bfloat16, a score can differ by
0.01 and more from one batch to another, while the fluency filter's margin is 0.2 nats. Which
contradictions pass would then depend on the machine and on the other documents of the shard.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch.nn.functional import cross_entropy
from tqdm.auto import tqdm
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerBase

from factor_gen.settings import FluencySettings, NliSettings
from judges.inference.models import default_device, find_label, load_classifier
from lm_factuality.ground.errors import ModelError
from lm_factuality.ground.packages import loading
from lm_factuality.models.tree.scorer import PassBudget, build_tested_engine, score_trie
from lm_factuality.models.tree.trie import build_trie

DTYPE = torch.float32
# The window of a model without a limit, greater than any text.
_NO_WINDOW = 2**31
# The engine is tested on at most so many tokens.
_MAX_ENGINE_WINDOW = 1024
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
        # An error begins with the name of the model and ends with this advice.
        advice = "or its folder, or turn the filter off with fluency: none"
        with loading(f"the language model {name!r}", advice):
            self._tokenizer = AutoTokenizer.from_pretrained(name, revision=settings.revision)
            loaded = AutoModelForCausalLM.from_pretrained(
                name, revision=settings.revision, dtype=DTYPE
            )
        self.model: Any = loaded.to(default_device()).eval()
        # How many tokens the model reads in one pass, for instance 32 sentences of 64 tokens.
        self.budget = settings.batch_size * _TOKENS_OF_TEXT
        # The window is the greatest number of tokens that the model can read in one text. Some
        # models, such as those with relative positions, have no limit.
        window = getattr(self.model.config, "max_position_embeddings", None)
        self._window = window or _NO_WINDOW
        self._start_token = _start_token(self._tokenizer, name)

        # The engine computes a beginning that several texts share only once. It is tried out first,
        # and is None for models that cannot do so.
        vocabulary = self.model.get_input_embeddings().weight.shape[0]
        trial_length = min(self._window, _MAX_ENGINE_WINDOW)
        with torch.inference_mode():
            self._engine = build_tested_engine(self.model, vocabulary, trial_length)

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
        encoded_texts = self.encode(texts, contexts)
        scorable = [encoded for encoded in encoded_texts if encoded.num_scored]
        with torch.inference_mode():
            remaining_means = iter(self._mean_logprobs_of_tokens(scorable))

        # Texts that cannot be scored have no mean and get NaN.
        means = []
        for encoded in encoded_texts:
            means.append(next(remaining_means) if encoded.num_scored else math.nan)
        return means

    def encode(self, texts: Sequence[str], contexts: Sequence[str]) -> list[EncodedText]:
        """Encode each text after its context, whose beginning is cut if both exceed the window.

        Args:
            texts: The texts to score.
            contexts: The text before each of them.

        Returns:
            The tokens. A text without tokens, or with too many for the window, has ``num_scored``
            0, which means that it cannot be scored.
        """
        encoded_texts = []
        for text, context in zip(texts, contexts, strict=True):
            context_tokens = self._tokenise(context.rstrip())
            # In most vocabularies, a word in the middle of a text is a token that begins with the
            # space before it. So the space goes with the text, not with the context.
            tokens = self._tokenise(f" {text}" if context_tokens else text)

            # The start token takes one position of the window.
            room_for_context = self._window - 1 - len(tokens)
            # A text that is too long even without its context cannot be scored.
            num_scored = len(tokens) if room_for_context >= 0 else 0
            # The end of the context matters most, so that its beginning is cut.
            excess = max(0, len(context_tokens) - room_for_context)
            all_tokens = [self._start_token, *context_tokens[excess:], *tokens]
            encoded_texts.append(EncodedText(all_tokens, num_scored))
        return encoded_texts

    def _tokenise(self, text: str) -> list[int]:
        """Return the tokens of a text, without tokens that begin or end a text."""
        return self._tokenizer.encode(  # type: ignore[no-any-return]
            text, add_special_tokens=False, verbose=False
        )

    def _mean_logprobs_of_tokens(self, encoded_texts: Sequence[EncodedText]) -> list[float]:
        """Return the mean log-probability of each text's own tokens, without those of its context.

        Args:
            encoded_texts: The tokens of the texts after their contexts. Each text has at least one
                token of its own.

        Returns:
            The means in nats per token, in the order of the texts.
        """
        # Without an engine, the model computes a shared beginning again for each text.
        if self._engine is None:
            return [self._mean_logprob_alone(encoded) for encoded in encoded_texts]

        # The trie, a tree of tokens, stores a beginning that several texts share only once.
        trie = build_trie(
            [encoded.tokens for encoded in encoded_texts],
            [encoded.num_scored for encoded in encoded_texts],
        )
        # Sums are rounded differently in a pass of another size. So the size is fixed, and does not
        # depend on the memory of the machine. Every token of a pass may be one that is scored.
        budget = PassBudget(tokens=self.budget, targets=self.budget)
        scores = score_trie(trie, self._engine, budget)
        # A text's targets are the positions of its tokens among all that were scored.
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
        self._contradiction_label = find_label(
            settings.model, self.model.config.id2label, _CONTRADICTION_LABELS
        )
        # Pairs are encoded before they are padded. The tokenizer would warn that this is slow.
        self._tokenizer.deprecation_warnings["Asking-to-pad-a-fast-tokenizer"] = True

    def contradiction_probabilities(self, pairs: Sequence[ContradictionPair]) -> list[float]:
        """Return how likely the model thinks it that each hypothesis contradicts its premise.

        The premise is a true completion, and the hypothesis the contradiction generated of it.

        Args:
            pairs: The completions and their contradictions.

        Returns:
            The probabilities, in the order of the pairs. NaN for a pair that does not fit into the
            model's window even without its context.
        """
        encoded_pairs = self.encode(pairs)
        fitting = [index for index, encoded in enumerate(encoded_pairs) if encoded]
        # The longest pairs come first, so that a lack of memory shows at once.
        fitting.sort(key=lambda index: len(encoded_pairs[index]["input_ids"]), reverse=True)

        probabilities = torch.full((len(pairs),), math.nan, device=self.model.device)
        starts = range(0, len(fitting), self._batch_size)
        with torch.inference_mode():
            # The probabilities stay on the GPU until the end. To fetch those of each batch, the
            # loop would have to wait for the GPU.
            for start in tqdm(starts, desc="contradictory?", unit=" batches", delay=2):
                indices = fitting[start : start + self._batch_size]
                batch = self.pad_batch([encoded_pairs[index] for index in indices])
                logits = self.model(**batch).logits.float()
                probabilities[indices] = logits.softmax(dim=-1)[:, self._contradiction_label]
        return probabilities.tolist()

    def encode(self, pairs: Sequence[ContradictionPair]) -> list[dict[str, list[int]]]:
        """Encode each pair as premise and hypothesis, both after their context.

        If a pair is too long for the model's window, the beginning of its context is cut, as many
        tokens in the premise as in the hypothesis.

        Args:
            pairs: The completions and their contradictions.

        Returns:
            For each pair, the inputs of the model by name, such as ``input_ids``. They are empty
            for a pair that is too long even without its context.
        """
        encoded_pairs = self._tokenizer(
            [pair.context + pair.completion for pair in pairs],
            [pair.context + pair.contradiction for pair in pairs],
            return_offsets_mapping=True,
            verbose=False,
        )
        # Where each token begins and ends in its text, in characters. The model reads no offsets.
        offsets = encoded_pairs.pop("offset_mapping")

        inputs_of_pairs: list[dict[str, list[int]]] = []
        for index, pair in enumerate(pairs):
            token_ends = [end for _, end in offsets[index]]
            # 0 for tokens of the premise, 1 for the hypothesis, None for separators.
            sides = encoded_pairs.sequence_ids(index)
            positions = self._positions_in_window(token_ends, sides, len(pair.context))
            # Without all of its context, the pair is still too long.
            if len(positions) > self._window:
                inputs_of_pairs.append({})
                continue
            values_by_name = {name: values[index] for name, values in encoded_pairs.items()}
            inputs_of_pairs.append(_take_positions(values_by_name, positions))
        return inputs_of_pairs

    def _positions_in_window(
        self, token_ends: Sequence[int], sides: Sequence[int | None], context_length: int
    ) -> list[int]:
        """Return the positions of a pair's tokens without those that have to be cut.

        Both premise and hypothesis begin with the same context. If the pair is too long for the
        model, the same number of tokens is cut from the beginning of both.

        Args:
            token_ends: Where each token ends in the premise or the hypothesis, in characters.
            sides: For each token 0 if it belongs to the premise, 1 if to the hypothesis, and None
                if to neither.
            context_length: The length of the context in characters.

        Returns:
            The positions to keep, in order. They may still exceed the window if the context is
            short.
        """
        excess = max(0, len(token_ends) - self._window)
        # Half of the excess is cut from each side, rounded up.
        num_to_cut = (excess + 1) // 2
        num_cut_by_side: Counter[int | None] = Counter()
        kept = []
        for position, side in enumerate(sides):
            # Separators have no side and stay, and so do the tokens after the context.
            is_context = side is not None and token_ends[position] <= context_length
            if is_context and num_cut_by_side[side] < num_to_cut:
                num_cut_by_side[side] += 1
            else:
                kept.append(position)
        return kept

    def pad_batch(
        self, encoded_pairs: Sequence[Mapping[str, list[int]]]
    ) -> dict[str, torch.Tensor]:
        """Return encoded pairs as one batch on the model's device, padded to the same length.

        Args:
            encoded_pairs: The inputs of each pair by name, as `encode` returns them.

        Returns:
            The inputs of the model by name, each an array (pairs, tokens).
        """
        batch = self._tokenizer.pad(encoded_pairs, return_tensors="pt")
        device = self.model.device
        # The GPU still computes the last batch while this one is copied to it. All pairs have the
        # same inputs.
        return {name: batch[name].to(device, non_blocking=True) for name in encoded_pairs[0]}


def _take_positions(
    values_by_name: Mapping[str, list[int]], positions: Sequence[int]
) -> dict[str, list[int]]:
    """Return only the values at some positions of each input of a model."""
    taken = {}
    for name, values in values_by_name.items():
        taken[name] = [values[position] for position in positions]
    return taken
