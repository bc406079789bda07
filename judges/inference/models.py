"""Models that say whether passages support a claim, by transformers."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import torch
import transformers
from tqdm import tqdm
from transformers import (
    AutoConfig,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
)

from judges.inference import FAMILIES, EntailmentPair, Windows, WindowSupport, family_of
from lm_factuality.ground.errors import ModelError
from lm_factuality.ground.packages import loading

_ENTAILMENT = ("entailment", "entail", "entailed", "supported", "consistent")
_LONGEST = 512  # tokens, where a tokenizer does not say
_UNLIMITED = 1_000_000  # a tokenizer that says more than this says nothing
_MOST_T5 = 4096  # tokens; T5 has no window of its own, this is for memory
_SPARE = 8  # tokens, where joined texts have others than each has alone
_FEWEST = 16  # tokens of passages without which a claim is not worth asking about
_READABLE = 0.5  # probability that the first word is 1 or 0
_NEITHER = "the model answers neither 1 nor 0"
_OTHERWISE = "its folder, or --nli lexical"
_T5 = "; tokenizers of T5 may need: pip install sentencepiece protobuf"


class SupportModel:
    """A model and its tokenizer, asked as its family is."""

    def __init__(
        self,
        name: str,
        family: str,
        model: Any,
        tokenizer: Any,
        longest: int,
        batch_size: int = 16,
        window: int | None = None,
    ) -> None:
        """Find out which of the model's labels or words is support.

        Args:
            longest: Tokens that the model takes.
            window: Tokens of passages at a time. None: as the family has it.

        Raises:
            ModelError: The model does not say which.
        """
        self._family = FAMILIES[family]
        self._model = model.eval()
        self._tokenizer = tokenizer
        self._longest = longest
        self._batch_size = batch_size
        self._window = window or self._family.window or longest
        revision = getattr(model.config, "_commit_hash", None)
        self.identity = f"{family} {name}" + (f" {revision}" if revision else "")
        # Texts are counted before they are padded, of which tokenizers warn.
        tokenizer.deprecation_warnings["Asking-to-pad-a-fast-tokenizer"] = True
        if self._family.head == "seq2seq":
            self._zero, self._one = (
                tokenizer(word, add_special_tokens=False)["input_ids"][0] for word in "01"
            )
            return
        count = model.config.num_labels
        if count == 1:  # a single label is a score
            return
        support = self._family.support
        if support is None:
            support = find_label(name, model.config.id2label, _ENTAILMENT)
        if support >= count:
            raise ModelError(
                f"{name}: has {count} labels, too few for family {family}; set another family"
            )
        self._support = support

    def entail(self, pairs: Sequence[EntailmentPair]) -> list[bool | None]:
        """Whether support is more likely than not. None where there is no verdict."""
        probabilities = [support.probability for support in self.support(pairs)]
        return [None if chance is None else chance > 0.5 for chance in probabilities]

    def support(self, pairs: Sequence[EntailmentPair]) -> list[WindowSupport]:
        """The highest probability that a window of the passages supports the claim.

        A claim is never cut.
        """
        cut = Windows(self._tokenizer)
        claims = self._encode([("", pair.claim) for pair in pairs])
        premises: list[tuple[str, str]] = []
        owners: list[int] = []  # the pair of each premise
        for number, ids in enumerate(claims.get("input_ids", ())):
            room = min(self._window, self._longest - len(ids) - _SPARE)
            if room < min(_FEWEST, self._window):
                continue
            pair = pairs[number]
            windows = cut.of(pair.passages, room)
            premises += [(window, pair.claim) for window in windows]
            owners += [number] * len(windows)
        found: list[list[float]] = [[] for _ in pairs]
        for place, probability in self._probabilities(premises):
            if probability is not None:
                found[owners[place]].append(probability)
        no_room = f"the claim leaves no room for passages in {self._longest} tokens"
        num_windows = Counter(owners)
        results = []
        for number, probabilities in enumerate(found):
            count = num_windows[number]
            if probabilities:
                results.append(WindowSupport(max(probabilities), count))
            else:
                results.append(WindowSupport(None, count, _NEITHER if count else no_room))
        return results

    def _probabilities(
        self, texts: Sequence[tuple[str, str]]
    ) -> Iterator[tuple[int, float | None]]:
        """(place, probability of support) of texts that fit the model, each with its claim.

        Batches are of texts of like length, longest first, so that memory runs out at once.
        """
        encoded = self._encode(texts)
        lengths = list(map(len, encoded.get("input_ids", ())))
        fitting = [place for place, length in enumerate(lengths) if length <= self._longest]
        order = sorted(fitting, key=lambda place: -lengths[place])
        bar = tqdm(total=len(order), desc="entailment", unit=" windows", delay=2)
        with torch.inference_mode(), bar:
            for start in range(0, len(order), self._batch_size):
                places = order[start : start + self._batch_size]
                batch = {key: [rows[place] for place in places] for key, rows in encoded.items()}
                yield from zip(places, self._batch(batch), strict=True)
                bar.update(len(places))

    def _encode(self, texts: Sequence[tuple[str, str]]) -> dict[str, list[list[int]]]:
        """Premises with their claims in tokens, in the form of the family. Nothing is cut."""
        if not texts:
            return {}
        columns = list(map(list, zip(*texts, strict=True)))
        if self._family.text:
            eos = self._tokenizer.eos_token or self._tokenizer.sep_token
            form = self._family.text
            columns = [
                [form.format(premise=premise, claim=claim, eos=eos) for premise, claim in texts]
            ]
        return dict(self._tokenizer(*columns, truncation=False, verbose=False))

    def _batch(self, encoded: dict[str, list[list[int]]]) -> list[float | None]:
        """The probability of support of each text; None where the model gives no verdict."""
        inputs = self._tokenizer.pad(encoded, return_tensors="pt").to(self._model.device)
        if self._family.head == "seq2seq":
            return self._first_words(inputs)
        logits = self._model(**inputs).logits.float()
        if logits.shape[-1] == 1:
            probabilities = logits.sigmoid()[:, 0]
        else:
            probabilities = logits.softmax(-1)[:, self._support]
        return list(probabilities.tolist())

    def _first_words(self, inputs: Any) -> list[float | None]:
        """The probability of 1 against 0 as the first word.

        None where the model is about to say something else.
        """
        start = torch.full(
            (len(inputs["input_ids"]), 1),
            self._model.config.decoder_start_token_id,
            device=self._model.device,
        )
        texts = {key: inputs[key] for key in ("input_ids", "attention_mask")}
        chances = self._model(**texts, decoder_input_ids=start).logits[:, 0].float().softmax(-1)
        pairs = chances[:, [self._zero, self._one]].tolist()
        return [one / (zero + one) if zero + one >= _READABLE else None for zero, one in pairs]


def load_model(
    name: str,
    batch_size: int = 16,
    device: str | None = None,
    *,
    family: str | None = None,
    revision: str | None = None,
    window: int | None = None,
) -> SupportModel:
    """Load a model that says whether passages support a claim.

    Args:
        name: On the Hub, or a folder.
        batch_size: Windows at a time.
        device: Defaults to the GPU, if there is one.
        family: How it is asked, if not as what it is recognised as.
        revision: On the Hub.
        window: Tokens of passages at a time.

    Raises:
        ConfigError: No family is called that.
        ModelError: There is no such model here, or it has not the head of its family.
    """
    device = device or default_device()
    with loading(f"the inference model {name!r}", f"{_OTHERWISE}{_T5}"):
        about = transformers.PreTrainedConfig.get_config_dict(name, revision=revision)[0]
        family = family_of(name, about, family)
        if FAMILIES[family].head == "sequence":
            model, tokenizer, longest = load_classifier(name, revision, device, _OTHERWISE)
        else:
            tokenizer = AutoTokenizer.from_pretrained(name, revision=revision)
            model = AutoModelForSeq2SeqLM.from_pretrained(
                name, revision=revision, dtype=dtype_of(device)
            ).to(device)
            longest = _MOST_T5
        return SupportModel(name, family, model, tokenizer, longest, batch_size, window)


def load_classifier(
    name: str,
    revision: str | None = None,
    device: str | None = None,
    otherwise: str = "or its folder",
    dtype: torch.dtype | None = None,
) -> tuple[Any, Any, int]:
    """Load a sequence classifier.

    Args:
        name: On the Hub, or a folder.
        revision: On the Hub.
        device: Defaults to the GPU, if there is one.
        otherwise: What an error advises.
        dtype: Defaults to bfloat16 on a GPU.

    Returns:
        (model, tokenizer, tokens that the model takes).

    Raises:
        ModelError: There is no such model here, or it has no such head.
    """
    device = device or default_device()
    with loading(f"the inference model {name!r}", f"{otherwise}{_T5}"):
        config = AutoConfig.from_pretrained(name, revision=revision)
        architectures = config.architectures or ["a model"]
        if not any(kind.endswith("ForSequenceClassification") for kind in architectures):
            raise ModelError(
                f"{name}: {', '.join(architectures)} is not an inference model; expected a"
                " classifier such as microsoft/deberta-large-mnli, or a T5 such as"
                " google/t5_xxl_true_nli_mixture"
            )
        tokenizer = AutoTokenizer.from_pretrained(name, revision=revision)
        model = AutoModelForSequenceClassification.from_pretrained(
            name, revision=revision, dtype=dtype or dtype_of(device)
        )
        return model.to(device).eval(), tokenizer, _window(config, tokenizer)


def default_device() -> str:
    """The GPU, if there is one."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def dtype_of(device: str) -> torch.dtype:
    """What models compute in: bfloat16 on a GPU, float32 elsewhere."""
    return torch.bfloat16 if device.startswith("cuda") else torch.float32


def find_label(name: str, labels: dict[int, str], meanings: Collection[str]) -> int:
    """The number of the one label that is called by one of ``meanings``, in any case.

    Raises:
        ModelError: None or several labels are.
    """
    numbers = [number for number, label in labels.items() if label.strip().lower() in meanings]
    if len(numbers) != 1:
        raise ModelError(
            f"{name}: its labels are {', '.join(map(str, labels.values()))}, expected one called"
            f" {next(iter(meanings))!r}; set id2label in its config.json"
        )
    return numbers[0]


def _window(config: Any, tokenizer: Any) -> int:
    """Tokens that a classifier takes. RoBERTa counts its places from the padding id on."""
    places = getattr(config, "max_position_embeddings", None) or _LONGEST
    if config.model_type in ("roberta", "xlm-roberta", "camembert"):
        places -= (config.pad_token_id or 0) + 1
    stated = tokenizer.model_max_length
    return int(places if stated >= _UNLIMITED else min(places, stated))
