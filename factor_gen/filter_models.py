"""The causal language model of the fluency filter (section 3.2.3).

:mod:`factor_gen.filters` calls it. It computes in float32. In bfloat16, a score can differ by 0.01
and more from one batch to another. Which contradictions pass would then depend on the machine and
on the other documents of the shard.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch.nn.functional import cross_entropy
from tqdm.auto import tqdm
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerBase

from factor_gen.settings import FluencySettings
from judges.inference.models import default_device
from lm_factuality.ground.errors import ModelError
from lm_factuality.ground.packages import loading
from lm_factuality.models.tree.scorer import PassBudget, build_tested_engine, score_trie
from lm_factuality.models.tree.trie import build_trie

DTYPE = torch.float32
Floats = npt.NDArray[np.float64]
# The window of a model without a limit, greater than any text.
_NO_WINDOW = 2**31
# The engine is tested on at most so many tokens.
_MAX_ENGINE_WINDOW = 1024
# A typical sentence has so many tokens. A vocabulary of 50,000 gives 200 kB of numbers for each.
_TOKENS_OF_TEXT = 64


class EncodedText(NamedTuple):
    """The tokens of a text and of the context before it."""

    tokens: list[int]
    """The token that begins a text, the tokens of the context, and those of the text."""

    num_scored: int
    """How many tokens at the end are those of the text. 0 if the text cannot be scored."""

    @property
    def scored_tokens(self) -> list[int]:
        """The tokens of the text, without those before it."""
        return self.tokens[len(self.tokens) - self.num_scored :]


class ScoredText(NamedTuple):
    """The tokens of a text with their log-probabilities."""

    tokens: list[int]
    """The tokens of the text, without those of its context."""

    logprobs: Floats
    """The log-probability of each token in nats, shape [tokens]."""


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

    def score(self, texts: Sequence[str], contexts: Sequence[str]) -> list[ScoredText | None]:
        """Compute the log-probability of each token of each text after its context.

        A beginning that several texts share is computed only once, because contradictions are edits
        of the same sentence.

        Args:
            texts: The texts to score.
            contexts: The text before each of them. If both do not fit into the model's window, the
                beginning of the context is cut.

        Returns:
            The tokens of each text with their log-probabilities, in the order of ``texts``. There
            is None in the place of a text that has no tokens, or is longer than the window.
        """
        encoded_texts = self.encode(texts, contexts)
        scorable = [index for index, encoded in enumerate(encoded_texts) if encoded.num_scored]
        with torch.inference_mode():
            logprobs_of_texts = self._logprobs_of_texts([encoded_texts[i] for i in scorable])

        scored_texts: list[ScoredText | None] = [None] * len(texts)
        for index, logprobs in zip(scorable, logprobs_of_texts, strict=True):
            scored_texts[index] = ScoredText(encoded_texts[index].scored_tokens, logprobs)
        return scored_texts

    def encode(self, texts: Sequence[str], contexts: Sequence[str]) -> list[EncodedText]:
        """Encode each text after its context, whose beginning is cut if both exceed the window.

        Args:
            texts: The texts to score.
            contexts: The text before each of them.
        """
        encoded_texts = []
        for text, context in zip(texts, contexts, strict=True):
            context_tokens = self._tokenise(context.rstrip())
            # In most vocabularies, a word in the middle of a text is a token that begins with the
            # space before it. So the space goes with the text, not with the context.
            tokens = self._tokenise(f" {text}" if context_tokens and text else text)

            # The start token takes one position of the window.
            room_for_context = self._window - 1 - len(tokens)
            # A text that is too long even without its context cannot be scored.
            if room_for_context < 0:
                encoded_texts.append(EncodedText([self._start_token, *tokens], num_scored=0))
                continue
            num_cut = max(0, len(context_tokens) - room_for_context)
            all_tokens = [self._start_token, *context_tokens[num_cut:], *tokens]
            encoded_texts.append(EncodedText(all_tokens, num_scored=len(tokens)))
        return encoded_texts

    def _tokenise(self, text: str) -> list[int]:
        """Return the tokens of a text, without tokens that begin or end a text."""
        return self._tokenizer.encode(  # type: ignore[no-any-return]
            text, add_special_tokens=False, verbose=False
        )

    def _logprobs_of_texts(self, encoded_texts: Sequence[EncodedText]) -> list[Floats]:
        """Return the log-probabilities of each text's own tokens in nats, without its context's.

        Each text must have at least one token of its own.
        """
        # Without an engine, the model computes a shared beginning again for each text.
        if self._engine is None:
            return [self._logprobs_of_text(encoded) for encoded in encoded_texts]

        # The trie, a tree of tokens, stores a beginning that several texts share only once.
        trie = build_trie(
            [encoded.tokens for encoded in encoded_texts],
            [encoded.num_scored for encoded in encoded_texts],
        )
        # Sums are rounded differently in a pass of another size. So the size is fixed, and does not
        # depend on the memory of the machine. The tokens to score, the targets, have no limit of
        # their own: every token of a pass may be one.
        budget = PassBudget(tokens=self.budget, targets=self.budget)
        with tqdm(
            total=len(trie), desc="fluent?", unit=" tokens", delay=2, leave=False
        ) as progress:
            scores = score_trie(trie, self._engine, budget, progress=progress.update)
        # The targets of a text are the positions of its tokens in ``scores.logprobs``.
        return [scores.logprobs[targets] for targets in trie.targets_by_request]

    def _logprobs_of_text(self, encoded: EncodedText) -> Floats:
        """Return the log-probabilities of the tokens of one text, in a pass of the model for it."""
        ids = torch.tensor([encoded.tokens], device=self.model.device)
        scored = slice(-encoded.num_scored, None)
        # The logits at a token are the predictions of the next one.
        logits = self.model(input_ids=ids[:, :-1], use_cache=False).logits
        losses = cross_entropy(logits[0, scored].float(), ids[0, scored], reduction="none")
        return -losses.double().cpu().numpy()


def _start_token(tokenizer: PreTrainedTokenizerBase, name: str) -> int:
    """Return the id of the token that begins a text, or of the one that ends it.

    Raises:
        ModelError: The tokenizer of the model with this name has neither token.
    """
    # The id may be 0, which is not the same as none.
    for token in (tokenizer.bos_token_id, tokenizer.eos_token_id):
        if token is not None:
            return int(token)
    raise ModelError(
        f"{name}: its tokenizer names no token that begins or ends a text; set bos_token in it"
    )
