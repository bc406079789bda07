"""The check by a model of natural language inference, which computes in float32.

In bfloat16, a score can differ by 0.01 and more from one batch to another. Which contradictions
pass would then depend on the machine and on the other documents of the shard.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from tqdm.auto import tqdm

from factor_gen.contradiction.stage import NOT_CONTRADICTORY, open_candidates, with_checked
from factor_gen.filters import DIGITS, NOT_SCORED, model_fingerprint
from factor_gen.records import COREFERENCE, Candidate, Example, last_words
from factor_gen.settings import NliSettings
from judges.inference.models import find_label, load_classifier

DTYPE = torch.float32
_CONTRADICTION_LABELS = ("contradiction", "contradictory", "contradicts", "contradict", "contra")


@dataclass(eq=False, repr=False)
class NliCheck:
    """The check that asks a model of natural language inference (section 3.2.3 of the paper).

    The model is loaded when it is needed.
    """

    settings: NliSettings

    @cached_property
    def fingerprint(self) -> Mapping[str, object]:
        """The model, thresholds and type of numbers that decide which candidates are rejected.

        Raises:
            ModelError: The model is not available.
        """
        return model_fingerprint(self.settings)

    @cached_property
    def _model(self) -> "NliModel":
        """The model."""
        return NliModel(self.settings)

    def check(self, examples: Sequence[Example]) -> list[Example]:
        """Reject candidates that the model does not take for contradictions.

        Args:
            examples: Documents with their candidates.

        Returns:
            The documents with the probability of a contradiction in each candidate that had not
            been rejected before.
        """
        pairs = []
        for example in examples:
            context = last_words(example.prefix, self.settings.context)
            for candidate in open_candidates(example):
                pairs.append(ContradictionPair(context, example.completion, candidate.text))
        # The first question loads the model, which takes long.
        if not pairs:
            return list(examples)

        # The probabilities of all candidates, in the order of the pairs.
        probabilities = iter(self._model.contradiction_probabilities(pairs))
        checked_examples = []
        for example in examples:
            checked = {
                candidate: self._check_score(candidate, next(probabilities))
                for candidate in open_candidates(example)
            }
            checked_examples.append(with_checked(example, checked))
        return checked_examples

    def _check_score(self, candidate: Candidate, probability: float) -> Candidate:
        """Set the probability of a contradiction, and reject the candidate if it is too low."""
        # JSON has no NaN: the field of the score stays None.
        if math.isnan(probability):
            return replace(candidate, rejected=NOT_SCORED)
        score = round(probability, DIGITS)
        # The paper's threshold is lower for coreference errors (appendix A.2).
        is_coreference = candidate.type == COREFERENCE
        threshold = self.settings.coreference if is_coreference else self.settings.threshold
        reason = "" if score > threshold else NOT_CONTRADICTORY
        return replace(candidate, contradiction=score, rejected=reason)


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
        scorable = [index for index, encoded in enumerate(encoded_pairs) if encoded]
        # The longest pairs come first, so that a lack of memory shows at once.
        scorable.sort(key=lambda index: len(encoded_pairs[index]["input_ids"]), reverse=True)

        probabilities = torch.full((len(pairs),), math.nan, device=self.model.device)
        starts = range(0, len(scorable), self._batch_size)
        with torch.inference_mode():
            # The probabilities stay on the GPU until the end. To fetch those of each batch, the
            # loop would have to wait for the GPU.
            for start in tqdm(starts, desc="contradictory?", unit=" batches", delay=2):
                indices = scorable[start : start + self._batch_size]
                batch = [encoded_pairs[index] for index in indices]
                probabilities[indices] = self._probabilities_of_batch(batch)
        return probabilities.tolist()

    def _probabilities_of_batch(
        self, encoded_pairs: Sequence[Mapping[str, list[int]]]
    ) -> torch.Tensor:
        """Compute the probability of a contradiction for pairs that the model reads at once."""
        logits: torch.Tensor = self.model(**self.pad_batch(encoded_pairs)).logits.float()
        return logits.softmax(dim=-1)[:, self._contradiction_label]

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

        inputs_of_pairs = []
        for index, pair in enumerate(pairs):
            token_ends = [end for _, end in offsets[index]]
            side_by_position = encoded_pairs.sequence_ids(index)
            positions = self._positions_to_read(token_ends, side_by_position, len(pair.context))
            inputs = {}
            if positions:
                for name, values in encoded_pairs.items():
                    inputs[name] = [values[index][position] for position in positions]
            inputs_of_pairs.append(inputs)
        return inputs_of_pairs

    def _positions_to_read(
        self, token_ends: Sequence[int], side_by_position: Sequence[int | None], context_length: int
    ) -> list[int]:
        """Return the positions of those tokens of a pair that the model will read.

        Both sides of the pair, the premise and the hypothesis, begin with the same context. If the
        pair is too long for the model's window, the beginning of the context is cut on both sides.

        Args:
            token_ends: Where each token ends in the text of its side, in characters.
            side_by_position: The side of each token: 0 for the premise, 1 for the hypothesis, and
                None for separators.
            context_length: The length of the context in characters.

        Returns:
            The positions in order; none if the pair is too long even without its context.
        """
        excess = max(0, len(token_ends) - self._window)
        # Half of the excess is cut from each side, rounded up.
        num_to_cut = (excess + 1) // 2
        num_cut_by_side: Counter[int | None] = Counter()
        kept = []
        for position, side in enumerate(side_by_position):
            # Separators have no side, and are never cut.
            is_context = side is not None and token_ends[position] <= context_length
            if is_context and num_cut_by_side[side] < num_to_cut:
                num_cut_by_side[side] += 1
            else:
                kept.append(position)
        return kept if len(kept) <= self._window else []

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
