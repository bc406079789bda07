"""The models of the filters (section 3.2.3): an NLI classifier and a causal language model.

:mod:`factor_gen.filters` calls them. Both compute in float32. In bfloat16 a score can be off by
0.01 and more, in each batch another way, while the fluency filter's margin is 0.2 nats: which
contradictions pass would then depend on the machine and on the other documents of the shard.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch.nn.functional import cross_entropy
from tqdm import tqdm
from transformers import AutoModelForCausalLM, AutoTokenizer

from factor_gen.settings import FluencySettings, NliSettings
from judges.inference.models import default_device, find_label, load_classifier
from lm_factuality.ground.errors import ModelError
from lm_factuality.ground.packages import loading
from lm_factuality.models.tree.forest import plant
from lm_factuality.models.tree.scorer import PassBudget, find_engine, score

DTYPE = torch.float32
_TOKENS_OF_TEXT = 64
"""Typical of a sentence. A vocabulary of 50,000 gives 200 kB of numbers for each token."""
_CONTRADICTION_LABELS = ("contradiction", "contradictory", "contradicts", "contradict", "contra")


class EncodedText(NamedTuple):
    """A text after its context."""

    tokens: list[int]
    """Of both, after the token that begins a text."""
    size: int
    """How many are the text's and are to be scored."""


class FluencyModel:
    """A causal language model.

    Each text is preceded by the token that begins a text (or, as for GPT-2, ends one), so that
    the text's first token has a probability too.
    """

    def __init__(self, settings: FluencySettings) -> None:
        """Load the model.

        Raises:
            ModelError: There is no such model here, or it has no token to begin with.
        """
        name = settings.model
        revision = settings.revision
        with loading(
            f"the language model {name!r}",
            "or its folder, or turn the filter off with fluency: none",
        ):
            self._tokenizer = AutoTokenizer.from_pretrained(name, revision=revision)
            loaded = AutoModelForCausalLM.from_pretrained(name, revision=revision, dtype=DTYPE)
        self.model: Any = loaded.to(default_device()).eval()
        self.budget = settings.batch_size * _TOKENS_OF_TEXT
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
        with torch.inference_mode():
            self._engine = find_engine(self.model, vocabulary, min(self._window, 1024))

    def mean_logprobs(self, texts: Sequence[str], contexts: Sequence[str]) -> list[float]:
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
        with torch.inference_mode():
            means = iter(self._means([row for row in rows if row.size]))
        return [next(means) if row.size else math.nan for row in rows]

    def encode(self, texts: Sequence[str], contexts: Sequence[str]) -> list[EncodedText]:
        """Return the tokens of each text after its context.

        Of a text without tokens, or with too many, nothing is to be scored.
        """
        rows = []
        for text, context in zip(texts, contexts, strict=True):
            before = self._tokenise(context.rstrip())
            tokens = self._tokenise(f" {text}" if before else text)
            room = self._window - 1 - len(tokens)
            before = before[max(0, len(before) - room) :]
            size = len(tokens) if room >= 0 else 0
            rows.append(EncodedText([self._start, *before, *tokens], size))
        return rows

    def _tokenise(self, text: str) -> list[int]:
        """Return the tokens of a text, without those that begin or end one."""
        return self._tokenizer.encode(  # type: ignore[no-any-return]
            text, add_special_tokens=False, verbose=False
        )

    def _means(self, rows: Sequence[EncodedText]) -> list[float]:
        if self._engine is None:
            return [self._mean_alone(tokens, size) for tokens, size in rows]
        forest = plant([tokens for tokens, _ in rows], [size for _, size in rows])
        # the same passes on every machine, so that a score is the same to the last digit kept
        budget = PassBudget(self.budget, self.budget)
        scores = score(forest, self._engine, budget)
        return [float(scores.logprobs[targets].mean()) for targets in forest.answers]

    def _mean_alone(self, tokens: list[int], size: int) -> float:
        """Score one text by a model whose positions cannot be shared."""
        ids = torch.tensor([tokens], device=self.model.device)
        logits = self.model(input_ids=ids[:, :-1], use_cache=False).logits[0, -size:].float()
        return -float(cross_entropy(logits, ids[0, -size:]))


@dataclass(frozen=True, slots=True)
class ContradictionPair:
    """A completion and a contradiction of it."""

    context: str
    """What stands before both, with its white space at the end."""
    completion: str
    contradiction: str


class NliModel:
    """A sequence classifier with a label for contradiction."""

    def __init__(self, settings: NliSettings) -> None:
        """Load the model.

        Raises:
            ModelError: There is no such model here, it is no classifier, or no label of it is
                called contradiction.
        """
        self.model, self._tokenizer, self._window = load_classifier(
            settings.model, settings.revision, dtype=DTYPE
        )
        self._batch_size = settings.batch_size
        self._label = find_label(settings.model, self.model.config.id2label, _CONTRADICTION_LABELS)
        # pairs are counted before they are padded, of which tokenizers warn
        self._tokenizer.deprecation_warnings["Asking-to-pad-a-fast-tokenizer"] = True

    def contradictions(self, pairs: Sequence[ContradictionPair]) -> list[float]:
        """Return the probability that each contradiction contradicts its completion.

        It is NaN where the two do not fit into the model's window even without context.
        """
        rows = self.encode(pairs)
        # the longest come first, so that memory runs out at once if it does
        fitting = [place for place, row in enumerate(rows) if row]
        fitting.sort(key=lambda place: -len(rows[place]["input_ids"]))
        probabilities = torch.full((len(pairs),), math.nan, device=self.model.device)
        starts = range(0, len(fitting), self._batch_size)
        with torch.inference_mode():
            # nothing is fetched from a GPU before all batches are on their way
            for start in tqdm(starts, desc="contradictory?", unit=" batches", delay=2):
                places = fitting[start : start + self._batch_size]
                logits = self.model(**self.inputs([rows[place] for place in places])).logits
                probabilities[places] = logits.float().softmax(dim=-1)[:, self._label]
        return probabilities.tolist()

    def encode(self, pairs: Sequence[ContradictionPair]) -> list[dict[str, list[int]]]:
        """Return what the tokenizer makes of each premise and hypothesis; nothing of too long ones.

        A pair that is too long loses tokens of its context, from the left, as many on each side.
        """
        encoded = self._tokenizer(
            [pair.context + pair.completion for pair in pairs],
            [pair.context + pair.contradiction for pair in pairs],
            return_offsets_mapping=True,
            verbose=False,
        )
        offsets = encoded.pop("offset_mapping")
        rows = []
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
            rows.append(row if len(kept) <= self._window else {})
        return rows

    def inputs(self, rows: Sequence[Mapping[str, list[int]]]) -> dict[str, torch.Tensor]:
        """Return a batch as the model takes it."""
        names = rows[0].keys()
        columns = {name: [row[name] for row in rows] for name in names}
        batch = self._tokenizer.pad(columns, return_tensors="pt")
        device = self.model.device
        return {name: batch[name].to(device, non_blocking=True) for name in names}
