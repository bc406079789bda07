"""Models of transformers that give the probability that passages support a claim.

The classifier backend and citation scores call `load_model`. The NLI filter of ``factor_gen`` loads
its own classifier by `load_classifier`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
import transformers
from tqdm.auto import tqdm
from transformers import (
    AutoConfig,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
)

from judges.inference import FAMILIES, EntailmentPair, PassageCutter, WindowSupport, family_of
from lm_factuality.ground.errors import ModelError
from lm_factuality.ground.packages import loading

if TYPE_CHECKING:
    from transformers import (
        BatchEncoding,
        PreTrainedConfig,
        PreTrainedModel,
        PreTrainedTokenizerFast,
    )

_ENTAILMENT_LABELS = ("entailment", "entail", "entailed", "supported", "consistent")
_DEFAULT_MAX_TOKENS = 512  # of a classifier whose configuration does not say

_MAX_T5_TOKENS = 4096  # T5 has no limit of its own; this one spares memory
_RESERVED_TOKENS = 8  # special tokens, and words that are split otherwise once texts are joined
_MIN_PASSAGE_TOKENS = 16  # a claim that leaves less room for passages is not judged
_MIN_ANSWER_PROBABILITY = 0.5  # that a seq2seq model is about to write 1 or 0
_NO_VERDICT = "the model answers neither 1 nor 0"

# What an error advises if a model cannot be loaded.
_LOADING_ADVICE = "its folder, or --nli lexical"
_TOKENIZER_ADVICE = "; tokenizers of T5 may need: pip install sentencepiece protobuf"

# Models that number their positions from the padding id on, so that fewer of them are usable.
_OFFSET_POSITIONS = ("roberta", "xlm-roberta", "camembert")


class LoadedModel(NamedTuple):
    """A model of transformers on its device, with its tokenizer."""

    model: PreTrainedModel
    """The model, ready for inference."""

    tokenizer: PreTrainedTokenizerFast
    """Its tokenizer."""

    max_tokens: int
    """The most tokens that the model takes at once."""


class _Window(NamedTuple):
    """A part of the passages of a pair that fits into the model together with the claim."""

    pair_number: int
    """The position of the pair among all pairs, from 0."""

    premise: str
    """The part of the passages."""

    claim: str
    """The claim of the pair, never cut."""


class SupportModel:
    """A model that is asked whether passages support a claim, in the way of its family."""

    def __init__(
        self,
        name: str,
        family: str,
        loaded: LoadedModel,
        batch_size: int,
        window: int | None,
    ) -> None:
        """Prepare a loaded model, and find out which of its labels or tokens means support.

        Args:
            name: The name on the Hub, or the path of a folder.
            family: A key of `FAMILIES`, which states the format of the model's input and output.
            loaded: The model and its tokenizer.
            batch_size: How many windows, i.e. parts of passages, the model reads at a time.
            window: The size of a window in tokens. None takes the default of the family, or as
                many tokens as the model can read.

        Raises:
            ModelError: No label of the model means support.
        """
        self._family = FAMILIES[family]
        self._model = loaded.model.eval()
        self._tokenizer = loaded.tokenizer
        self._max_tokens = loaded.max_tokens
        self._batch_size = batch_size
        self._window_size = window or self._family.window or loaded.max_tokens
        revision = getattr(loaded.model.config, "_commit_hash", None)
        self.identity = f"{family} {name}" + (f" {revision}" if revision else "")
        if self._family.head == "seq2seq":
            self._zero_token_id = self._first_token("0")
            self._one_token_id = self._first_token("1")
        else:
            self._support_label = self._find_support_label(name, family)

    def _first_token(self, text: str) -> int:
        """Return the id of the first token of a text."""
        # Special tokens would otherwise come first.
        token_ids = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        return int(token_ids[0])

    def _find_support_label(self, name: str, family: str) -> int:
        """Find the number of the classifier's label that means support.

        Args:
            name: The name of the model, for errors.
            family: The name of its family, for errors.

        Returns:
            The number, from 0. It is 0 for a model with a single label, which is a score.

        Raises:
            ModelError: No label is called entailment, or the model has too few for its family.
        """
        config = self._model.config
        if config.num_labels == 1:
            return 0
        # Models such as MiniCheck have labels without meaningful names, so `FAMILIES` states the
        # number of the label for support.
        label_index = self._family.support
        if label_index is None:
            label_index = find_label(name, config.id2label, _ENTAILMENT_LABELS)
        if label_index >= config.num_labels:
            raise ModelError(
                f"{name}: has {config.num_labels} labels, too few for family {family}; set another"
                " family"
            )
        return label_index

    def entail(self, pairs: Sequence[EntailmentPair]) -> list[bool | None]:
        """Decide whether the passages of each pair support its claim.

        Returns:
            Whether the probability of support is above 0.5, in the order of the pairs. None where
            the model has no verdict.
        """
        verdicts: list[bool | None] = []
        for support in self.support(pairs):
            probability = support.probability
            verdicts.append(None if probability is None else probability > 0.5)
        return verdicts

    def support(self, pairs: Sequence[EntailmentPair]) -> list[WindowSupport]:
        """Measure how probable it is that the passages of each pair support its claim.

        Args:
            pairs: The claims with their passages. Long passages are cut into windows, of which
                the one with the highest probability counts.

        Returns:
            The probability for each pair, in order, or why there is none.
        """
        windows = list(self._cut_into_windows(pairs))
        probabilities = self._probabilities_by_pair(windows)
        num_windows = Counter(window.pair_number for window in windows)
        return [
            self._support_of_pair(num_windows[number], probabilities[number])
            for number in range(len(pairs))
        ]

    def _support_of_pair(self, num_windows: int, probabilities: Sequence[float]) -> WindowSupport:
        """Return the highest probability of a pair's windows, or why there is none.

        Args:
            num_windows: The number of windows, of which some may have no probability.
            probabilities: The probabilities of the others.
        """
        problem = ""
        if num_windows == 0:
            problem = f"the claim leaves no room for passages in {self._max_tokens} tokens"
        elif not probabilities:
            problem = _NO_VERDICT
        return WindowSupport(max(probabilities, default=None), num_windows, problem)

    def _cut_into_windows(self, pairs: Sequence[EntailmentPair]) -> Iterator[_Window]:
        """Cut the passages of each pair into windows that fit into the model with the claim.

        Yields:
            The windows, pair by pair. A pair whose claim leaves no room has none.
        """
        cutter = PassageCutter(self._tokenizer)
        # The tokens of a claim with an empty premise show how much room the claim leaves.
        no_premises = [""] * len(pairs)
        encoded_claims = self._encode(no_premises, [pair.claim for pair in pairs])
        for number, token_ids in enumerate(encoded_claims.get("input_ids", [])):
            pair = pairs[number]
            # A part of the passages may fill the usual window, or less if the claim is long.
            room = min(self._window_size, self._max_tokens - len(token_ids) - _RESERVED_TOKENS)
            # A few words of a passage are no evidence, unless the window itself is that small.
            if room < min(_MIN_PASSAGE_TOKENS, self._window_size):
                continue
            # The cutter remembers passages that several claims share.
            for premise in cutter.windows(pair.passages, room):
                yield _Window(number, premise, pair.claim)

    def _probabilities_by_pair(self, windows: Sequence[_Window]) -> defaultdict[int, list[float]]:
        """Run the model on windows, from the longest to the shortest.

        Args:
            windows: The windows. They were cut by an estimate of their length, so a window may be
                too long for the model. Such a window is left out.

        Returns:
            The probabilities of support of the windows of each pair, by the number of the pair.
            Windows on which the model gives no verdict have none.
        """
        premises = [window.premise for window in windows]
        encoded = self._encode(premises, [window.claim for window in windows])
        fitting_indices = self._indices_of_fitting_windows(encoded)
        probabilities_by_pair: defaultdict[int, list[float]] = defaultdict(list)
        progress_bar = tqdm(total=len(fitting_indices), desc="entailment", unit=" windows", delay=2)
        with torch.inference_mode(), progress_bar:
            for start in range(0, len(fitting_indices), self._batch_size):
                batch_indices = fitting_indices[start : start + self._batch_size]
                probabilities = self._run_batch(_rows_at(batch_indices, encoded))
                for index, probability in zip(batch_indices, probabilities, strict=True):
                    if probability is not None:
                        probabilities_by_pair[windows[index].pair_number].append(probability)
                progress_bar.update(len(batch_indices))
        return probabilities_by_pair

    def _indices_of_fitting_windows(self, encoded: Mapping[str, Sequence[list[int]]]) -> list[int]:
        """Return the indices of the windows that are not too long for the model, longest first.

        Windows of similar length need little padding, and a lack of memory shows at the longest.
        """
        lengths = [len(token_ids) for token_ids in encoded.get("input_ids", [])]
        indices = [index for index, length in enumerate(lengths) if length <= self._max_tokens]
        return sorted(indices, key=lambda index: -lengths[index])

    def _encode(self, premises: Sequence[str], claims: Sequence[str]) -> dict[str, list[list[int]]]:
        """Convert premises and claims to tokens, as the model's family joins the two texts.

        Args:
            premises: The premises, one for each claim.
            claims: The claims.

        Returns:
            The fields of the tokenizer, such as ``{"input_ids": [[1, 42, 2], [1, 37, 8, 2]]}`` for
            two claims. Nothing is cut or padded. Without claims there are no fields.
        """
        if not claims:
            return {}
        template = self._family.text
        # Without a template, the tokenizer joins the two texts. It would warn of texts that are too
        # long for the model (verbose), but those are left out later.
        if not template:
            return dict(self._tokenizer(premises, claims, truncation=False, verbose=False))

        # T5 ends a text by </s>; models such as BERT separate texts by [SEP].
        end_of_text = self._tokenizer.eos_token or self._tokenizer.sep_token
        texts = [
            template.format(premise=premise, claim=claim, eos=end_of_text)
            for premise, claim in zip(premises, claims, strict=True)
        ]
        return dict(self._tokenizer(texts, truncation=False, verbose=False))

    def _run_batch(self, encoded_windows: Mapping[str, Sequence[list[int]]]) -> list[float | None]:
        """Run the model on one batch of windows.

        Args:
            encoded_windows: The fields of the tokenizer, each with one list of numbers per window.

        Returns:
            The probability of support of each window, None where the model gives no verdict.
        """
        inputs = self._tokenizer.pad(encoded_windows, return_tensors="pt").to(self._model.device)
        if self._family.head == "seq2seq":
            return self._first_word_probabilities(inputs)
        # Softmax in bfloat16 would round probabilities to two digits.
        logits = self._model(**inputs).logits.float()
        if logits.shape[-1] == 1:
            # A single label is a score, not one of several classes.
            probabilities = logits.sigmoid()[:, 0]
        else:
            probabilities = logits.softmax(-1)[:, self._support_label]
        return list(probabilities.tolist())

    def _first_word_probabilities(self, inputs: BatchEncoding) -> list[float | None]:
        """Compare how probable 1 and 0 are as the first word of a seq2seq model's output.

        Args:
            inputs: A padded batch of windows.

        Returns:
            P(1) / (P(0) + P(1)) for each window. None where the model is more likely to write
            something else.
        """
        batch_size = len(inputs["input_ids"])
        # The decoder sees only its start token, so it predicts the first word.
        decoder_start = torch.full(
            (batch_size, 1), self._model.config.decoder_start_token_id, device=self._model.device
        )
        outputs = self._model(
            input_ids=inputs["input_ids"],
            attention_mask=inputs["attention_mask"],
            decoder_input_ids=decoder_start,
        )
        word_probabilities = outputs.logits[:, 0].float().softmax(-1)

        results: list[float | None] = []
        token_ids = [self._zero_token_id, self._one_token_id]
        for zero, one in word_probabilities[:, token_ids].tolist():
            answer_probability = zero + one
            is_answer = answer_probability >= _MIN_ANSWER_PROBABILITY
            results.append(one / answer_probability if is_answer else None)
        return results


def load_model(
    name: str,
    batch_size: int = 16,
    device: str | None = None,
    *,
    family: str | None = None,
    revision: str | None = None,
    window: int | None = None,
) -> SupportModel:
    """Load a model that gives the probability that passages support a claim.

    Args:
        name: The name on the Hub, or the path of a folder.
        batch_size: How many windows the model reads at a time.
        device: ``cuda`` or ``cpu``. Defaults to the GPU, if there is one.
        family: A key of `FAMILIES`, which states the format of the model's input and output.
            Defaults to the family that the model's name or configuration suggests.
        revision: A commit on the Hub. Defaults to the newest.
        window: The size in tokens of the parts into which passages are cut. Defaults to the size
            that the family states.

    Returns:
        The model with its tokenizer.

    Raises:
        ConfigError: There is no family of this name.
        ModelError: There is no such model on this machine or on the Hub, or it lacks the output
            layer that its family needs.
    """
    device = device or default_device()
    with loading(f"the inference model {name!r}", f"{_LOADING_ADVICE}{_TOKENIZER_ADVICE}"):
        model_config, _ = transformers.PreTrainedConfig.get_config_dict(name, revision=revision)
        model_family = family_of(name, model_config, family)
        if FAMILIES[model_family].head == "sequence":
            loaded = load_classifier(name, revision, device, _LOADING_ADVICE)
        else:
            loaded = _load_seq2seq(name, revision, device)
        return SupportModel(name, model_family, loaded, batch_size, window)


def load_classifier(
    name: str,
    revision: str | None,
    device: str | None = None,
    advice: str = "or its folder",
    dtype: torch.dtype | None = None,
) -> LoadedModel:
    """Load a model that gives a text one of several labels (a sequence classifier).

    Args:
        name: The name on the Hub, or the path of a folder.
        revision: A commit on the Hub. None loads the newest.
        device: ``cuda`` or ``cpu``. Defaults to the GPU, if there is one.
        advice: What an error tells the user to name instead of a model that cannot be loaded.
        dtype: The type of the weights. Defaults to bfloat16 on a GPU and float32 elsewhere.

    Returns:
        The model with its tokenizer.

    Raises:
        ModelError: There is no such model on this machine or on the Hub, or it is not a classifier.
    """
    device = device or default_device()
    with loading(f"the inference model {name!r}", f"{advice}{_TOKENIZER_ADVICE}"):
        config = AutoConfig.from_pretrained(name, revision=revision)
        architectures = config.architectures or ["a model"]
        # transformers would give any other model a classifier of random weights.
        if not any(kind.endswith("ForSequenceClassification") for kind in architectures):
            raise ModelError(
                f"{name}: {', '.join(architectures)} is not an inference model; expected a"
                " classifier such as microsoft/deberta-large-mnli, or a T5 such as"
                " google/t5_xxl_true_nli_mixture"
            )
        tokenizer = _load_tokenizer(name, revision)
        model = AutoModelForSequenceClassification.from_pretrained(
            name, revision=revision, dtype=dtype or dtype_of(device)
        )
        return LoadedModel(model.to(device).eval(), tokenizer, _max_tokens(config, tokenizer))


def _load_seq2seq(name: str, revision: str | None, device: str) -> LoadedModel:
    """Load a model that writes its verdict as text, such as a T5 of TRUE."""
    tokenizer = _load_tokenizer(name, revision)
    model = AutoModelForSeq2SeqLM.from_pretrained(name, revision=revision, dtype=dtype_of(device))
    return LoadedModel(model.to(device), tokenizer, _MAX_T5_TOKENS)


def _load_tokenizer(name: str, revision: str | None) -> PreTrainedTokenizerFast:
    """Load the tokenizer of a model."""
    tokenizer: PreTrainedTokenizerFast = AutoTokenizer.from_pretrained(name, revision=revision)
    # transformers warns once that padding texts only after they became tokens is slow. Here it is
    # intended, because texts are sorted by length first. This entry tells transformers that the
    # warning was given.
    tokenizer.deprecation_warnings["Asking-to-pad-a-fast-tokenizer"] = True
    return tokenizer


def default_device() -> str:
    """Return ``cuda`` if there is a GPU, otherwise ``cpu``."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def dtype_of(device: str) -> torch.dtype:
    """Return the type in which a device computes: bfloat16 on a GPU, float32 elsewhere."""
    return torch.bfloat16 if device.startswith("cuda") else torch.float32


def find_label(name: str, labels: Mapping[int, str], meanings: Collection[str]) -> int:
    """Find the number of the label that has one of several names, in lower or upper case.

    Example:
        In the labels ``{0: "NEUTRAL", 1: "ENTAILMENT"}`` one of ``("entailment", "entailed")`` → 1

    Raises:
        ModelError: No label has one of these names, or several do. It names the model.
    """
    numbers = [number for number, label in labels.items() if label.strip().lower() in meanings]
    if len(numbers) != 1:
        raise ModelError(
            f"{name}: its labels are {', '.join(map(str, labels.values()))}, expected one called"
            f" {next(iter(meanings))!r}; set id2label in its config.json"
        )
    return numbers[0]


def _rows_at(
    indices: Sequence[int], encoded: Mapping[str, Sequence[list[int]]]
) -> dict[str, list[list[int]]]:
    """Return some rows of a tokenizer's output, such as those of a batch, in all its fields."""
    selected = {}
    for field, rows in encoded.items():
        selected[field] = [rows[index] for index in indices]
    return selected


def _max_tokens(config: PreTrainedConfig, tokenizer: PreTrainedTokenizerFast) -> int:
    """Return how many tokens a classifier takes, by its positions and its tokenizer's limit."""
    # Models with relative positions state no number of them.
    positions = getattr(config, "max_position_embeddings", None) or _DEFAULT_MAX_TOKENS
    # RoBERTa and its relatives call the first position padding id + 1, such as 2 of 514, and the
    # positions before it are lost.
    if config.model_type in _OFFSET_POSITIONS:
        positions -= (config.pad_token_id or 0) + 1
    # A tokenizer without a limit of its own states a huge number.
    return int(min(positions, tokenizer.model_max_length))
