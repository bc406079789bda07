"""The models of the filters (section 3.2.3): an NLI classifier and a causal language model.

:mod:`factor_gen.filters` calls them. Both compute in float32. In bfloat16 a score can be off by
0.01 and more, in each batch another way, while the fluency filter's margin is 0.2 nats: which
contradictions pass would then depend on the machine and on the other documents of the shard.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.functional import cross_entropy
from tqdm import tqdm
from transformers import AutoModelForCausalLM, AutoTokenizer

from judges.inference.models import default_device, find_label, load_classifier
from lm_factuality.ground.errors import ModelError
from lm_factuality.ground.packages import loading
from lm_factuality.models.tree.forest import plant
from lm_factuality.models.tree.scorer import PassBudget, find_engine, score

DTYPE = torch.float32
_TOKENS_OF_TEXT = 64
"""Typical of a sentence. A vocabulary of 50,000 gives 200 kB of numbers for each token."""
_TOKENS_OF_PAIR = 256
_CONTRADICTION_LABELS = ("contradiction", "contradictory", "contradicts", "contradict", "contra")


@contextmanager
def full_precision() -> Iterator[None]:
    """Compute without TensorFloat-32, whose products have 10 bits of 23, on a GPU."""
    products = torch.get_float32_matmul_precision()
    convolutions = torch.backends.cudnn.allow_tf32
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(products)
        torch.backends.cudnn.allow_tf32 = convolutions


def batches(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Group texts of like length, so that little is computed on padding.

    Args:
        lengths: The tokens of each text.
        budget: The tokens of a batch, padding included; one text may have more.

    Yields:
        The places of the texts of a batch. The longest come first, so that memory runs out at
        once if it does.
    """
    order = sorted(range(len(lengths)), key=lambda place: -lengths[place])
    start = 0
    while start < len(order):
        size = max(1, budget // max(1, lengths[order[start]]))
        yield order[start : start + size]
        start += size


class FluencyModel:
    """A causal language model.

    Each text is preceded by the token that begins a text (or, as for GPT-2, ends one), so that
    the text's first token has a probability too.
    """

    def __init__(
        self,
        name: str,
        revision: str | None = None,
        batch_size: int = 32,
        device: str | None = None,
    ) -> None:
        """Load the model.

        Raises:
            ModelError: There is no such model here, or it has no token to begin with.
        """
        with loading(
            f"the language model {name!r}",
            "or its folder, or turn the filter off with fluency: none",
        ):
            self._tokenizer = AutoTokenizer.from_pretrained(name, revision=revision)
            loaded = AutoModelForCausalLM.from_pretrained(name, revision=revision, dtype=DTYPE)
        self.model: Any = loaded.to(device or default_device()).eval()
        self.budget = batch_size * _TOKENS_OF_TEXT
        self._window = getattr(self.model.config, "max_position_embeddings", None) or 2**31
        self._start: Any = self._tokenizer.bos_token_id
        if self._start is None:
            self._start = self._tokenizer.eos_token_id
        if self._start is None:
            raise ModelError(
                f"{name}: its tokenizer names no token that begins or ends a text; set bos_token"
                " in it"
            )
        vocabulary = self.model.get_input_embeddings().weight.shape[0]
        with torch.inference_mode(), full_precision():
            self._engine = find_engine(self.model, vocabulary, min(self._window, 1024))

    def mean_logprobs(self, texts: Sequence[str], contexts: Sequence[str] = ()) -> list[float]:
        """Return log p(c) / |c| of each text c after its context.

        A beginning that several texts share is computed once: contradictions are edits of one
        sentence.

        Args:
            texts: What is scored.
            contexts: What stands before each text. Of a context that does not fit into the
                model's window, the left part is cut.

        Returns:
            Nats per token of the text; NaN for a text without tokens, or one that is longer than
            the window.
        """
        rows = self.encode(texts, contexts)
        with torch.inference_mode(), full_precision():
            means = iter(self._means([row for row in rows if row is not None]))
        return [math.nan if row is None else next(means) for row in rows]

    def encode(
        self, texts: Sequence[str], contexts: Sequence[str] = ()
    ) -> list[tuple[list[int], int] | None]:
        """Return the tokens of each text after its context, and how many are the text's.

        It is None where there is nothing to score, or too much.
        """
        contexts = [context.rstrip() for context in contexts] or [""] * len(texts)
        spaced = [
            f" {text}" if context else text for text, context in zip(texts, contexts, strict=True)
        ]
        rows: list[tuple[list[int], int] | None] = []
        for near, tokens in zip(self._tokenise(contexts), self._tokenise(spaced), strict=True):
            room = self._window - 1 - len(tokens)
            if not tokens or room < 0:
                rows.append(None)
                continue
            near = near[max(0, len(near) - room) :]
            rows.append(([self._start, *near, *tokens], len(tokens)))
        return rows

    def _tokenise(self, texts: list[str]) -> list[list[int]]:
        """Return the tokens of each text, without those that begin or end one."""
        encoded = self._tokenizer(texts, add_special_tokens=False, verbose=False)
        tokens: list[list[int]] = encoded["input_ids"]
        return tokens

    def _means(self, rows: Sequence[tuple[list[int], int]]) -> list[float]:
        if self._engine is None:
            return [self._mean_alone(tokens, size) for tokens, size in rows]
        forest = plant([tokens for tokens, _ in rows], [size for _, size in rows])
        # the same passes on every machine, so that a score is the same to the last digit kept
        budget = PassBudget(self.budget, self.budget)
        with tqdm(total=len(forest), desc="fluent?", unit=" tokens", delay=2) as bar:
            scores = score(forest, self._engine, budget, progress=bar.update)
        return [float(scores.logprobs[targets].mean()) for targets in forest.answers]

    def _mean_alone(self, tokens: list[int], size: int) -> float:
        """Score one text by a model whose positions cannot be shared."""
        ids = torch.tensor([tokens], device=self.model.device)
        logits = self.model(input_ids=ids[:, :-1], use_cache=False).logits[0, -size:].float()
        return -float(cross_entropy(logits, ids[0, -size:]))


@dataclass(frozen=True, slots=True)
class Pair:
    """A completion and a contradiction of it."""

    context: str
    """What stands before both, with its white space at the end."""
    completion: str
    contradiction: str


Encoded = Mapping[str, list[int]]


class NliModel:
    """A sequence classifier with a label for contradiction."""

    def __init__(
        self,
        name: str,
        revision: str | None = None,
        batch_size: int = 32,
        device: str | None = None,
    ) -> None:
        """Load the model.

        Raises:
            ModelError: There is no such model here, it is no classifier, or no label of it is
                called contradiction.
        """
        self.model, self._tokenizer, self._window = load_classifier(
            name, revision, device, dtype=DTYPE
        )
        self.budget = batch_size * _TOKENS_OF_PAIR
        self._label = find_label(name, self.model.config.id2label, _CONTRADICTION_LABELS)
        # pairs are counted before they are padded, of which tokenizers warn
        self._tokenizer.deprecation_warnings["Asking-to-pad-a-fast-tokenizer"] = True

    def contradictions(self, pairs: Sequence[Pair]) -> list[float]:
        """Return the probability that each contradiction contradicts its completion.

        It is NaN where the two do not fit into the model's window even without context.
        """
        rows = self.encode(pairs)
        places = [place for place, row in enumerate(rows) if row is not None]
        fitting = [row for row in rows if row is not None]
        probabilities = torch.full((len(pairs),), math.nan, device=self.model.device)
        bar = tqdm(total=len(fitting), desc="contradictory?", unit=" texts", delay=2)
        with torch.inference_mode(), full_precision(), bar:
            # nothing is fetched from a GPU before all batches are on their way
            for batch in batches([len(row["input_ids"]) for row in fitting], self.budget):
                logits = self.model(**self.inputs([fitting[place] for place in batch])).logits
                of_batch = logits.float().softmax(dim=-1)[:, self._label]
                probabilities[[places[place] for place in batch]] = of_batch
                bar.update(len(batch))
        return probabilities.tolist()

    def encode(self, pairs: Sequence[Pair]) -> list[Encoded | None]:
        """Return what the tokenizer makes of each premise and hypothesis; None if it is too long.

        A pair that is too long loses tokens of its context, from the left, as many on each side.
        """
        encoded = self._tokenizer(
            [pair.context + pair.completion for pair in pairs],
            [pair.context + pair.contradiction for pair in pairs],
            return_offsets_mapping=True,
            verbose=False,
        )
        offsets = encoded.pop("offset_mapping")
        rows: list[Encoded | None] = []
        for place, pair in enumerate(pairs):
            kept = list(range(len(offsets[place])))
            excess = len(kept) - self._window
            for side in (0, 1):
                context = [
                    position
                    for position, sequence in enumerate(encoded.sequence_ids(place))
                    if sequence == side and offsets[place][position][1] <= len(pair.context)
                ]
                removed = set(context[: max(0, excess + 1) // 2])
                kept = [position for position in kept if position not in removed]
            row = {
                name: [values[place][position] for position in kept]
                for name, values in encoded.items()
            }
            rows.append(row if len(kept) <= self._window else None)
        return rows

    def inputs(self, rows: Sequence[Encoded]) -> dict[str, torch.Tensor]:
        """Return a batch as the model takes it."""
        names = rows[0].keys()
        columns = {name: [row[name] for row in rows] for name in names}
        batch = self._tokenizer.pad(columns, return_tensors="pt")
        device = self.model.device
        return {name: batch[name].to(device, non_blocking=True) for name in names}
