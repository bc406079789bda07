"""Models that say whether passages support a claim, by transformers."""

from collections.abc import Collection, Sequence
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

from judges.inference import FAMILIES, Pair, Support, Windows, family_of
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
_FLAN = "google/flan-t5-base"


class SupportModel:
    """A model and its tokenizer, asked as its family is; ``window`` is in tokens of passages."""

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
        """Raises ModelError if the model does not say which of its labels or words is support."""
        self._name, self._called, self._family = name, family, FAMILIES[family]
        self._model, self._tokenizer = model.eval(), tokenizer
        tokenizer.deprecation_warnings["Asking-to-pad-a-fast-tokenizer"] = (
            True  # texts are counted before they are padded
        )
        self._longest, self._batch_size = longest, batch_size
        self._window = window or self._family.window or longest
        if self._family.head == "seq2seq":
            self._zero, self._one = (
                tokenizer(word, add_special_tokens=False)["input_ids"][0] for word in "01"
            )
            if self._zero == self._one:
                raise ModelError(
                    f"{name}: its tokenizer begins 0 and 1 with the same token, so the first word"
                    " tells nothing"
                )
        elif (count := model.config.num_labels) != 1:  # a single label is a score
            given = self._family.support
            self._support = (
                find_label(name, model.config.id2label, _ENTAILMENT) if given is None else given
            )
            if self._support >= count:
                raise ModelError(
                    f"{name}: has {count} labels, too few for family {family}; set another family"
                )

    @property
    def identity(self) -> str:
        revision = getattr(self._model.config, "_commit_hash", None)
        return f"{self._called} {self._name}" + (f" {revision}" if revision else "")

    def entail(self, pairs: Sequence[Pair]) -> list[bool | None]:
        """For each pair whether support is likelier than not; None where there is no verdict."""
        return [
            None if each.probability is None else each.probability > 0.5
            for each in self.support(pairs)
        ]

    def support(self, pairs: Sequence[Pair]) -> list[Support]:
        """For each pair the highest probability that a window of its passages supports the claim,
        which is never cut. Batches are of texts of like length, longest first, so that memory runs
        out at once."""
        cut, claims = (
            Windows(self._tokenizer),
            self._encode([("", pair.claim) for pair in pairs])["input_ids"],
        )
        rooms = [min(self._window, self._longest - len(ids) - _SPARE) for ids in claims]
        fewest = min(_FEWEST, self._window)
        windows = [
            cut.of(pair.passages, room) if room >= fewest else []
            for pair, room in zip(pairs, rooms, strict=True)
        ]
        owners = [number for number, each in enumerate(windows) for _ in each]
        encoded = self._encode(
            [(text, pair.claim) for pair, each in zip(pairs, windows, strict=True) for text in each]
        )
        lengths = [len(ids) for ids in encoded["input_ids"]]
        order = sorted(
            (place for place, size in enumerate(lengths) if size <= self._longest),
            key=lambda place: -lengths[place],
        )
        found: list[list[float]] = [[] for _ in pairs]
        with (
            torch.inference_mode(),
            tqdm(total=len(order), desc="entailment", unit=" windows", delay=2) as bar,
        ):
            for start in range(0, len(order), self._batch_size):
                places = order[start : start + self._batch_size]
                batch = {key: [rows[place] for place in places] for key, rows in encoded.items()}
                for place, probability in zip(places, self._batch(batch), strict=True):
                    if probability is not None:
                        found[owners[place]].append(probability)
                bar.update(len(places))
        no_room = f"the claim leaves no room for passages in {self._longest} tokens"
        return [
            (
                Support(max(each), len(texts))
                if each
                else Support(None, len(texts), _NEITHER if texts else no_room)
            )
            for each, texts in zip(found, windows, strict=True)
        ]

    def _encode(self, texts: Sequence[tuple[str, str]]) -> dict[str, list[list[int]]]:
        eos = self._tokenizer.eos_token or self._tokenizer.sep_token
        given = list(map(list, zip(*texts, strict=True)))
        if self._family.text:
            given = [
                [
                    self._family.text.format(premise=premise, claim=claim, eos=eos)
                    for premise, claim in texts
                ]
            ]
        return (
            dict(self._tokenizer(*given, truncation=False, verbose=False))
            if texts
            else {"input_ids": []}
        )

    def _batch(self, encoded: dict[str, list[list[int]]]) -> list[float | None]:
        inputs = self._tokenizer.pad(encoded, return_tensors="pt").to(self._model.device)
        if self._family.head == "seq2seq":
            return self._first_words(inputs)
        logits = self._model(**inputs).logits.float()
        logits = logits[:, 0] if logits.dim() == 3 else logits
        single = logits.shape[-1] == 1
        probabilities: list[float | None] = (
            logits.sigmoid()[:, 0] if single else logits.softmax(-1)[:, self._support]
        ).tolist()
        return probabilities

    def _first_words(self, inputs: Any) -> list[float | None]:
        """The probability of 1 against 0 as the first word; None where the model is about to say
        something else."""
        start = torch.full(
            (len(inputs["input_ids"]), 1),
            self._model.config.decoder_start_token_id,
            device=self._model.device,
        )
        given = {key: inputs[key] for key in ("input_ids", "attention_mask")}
        chances = self._model(**given, decoder_input_ids=start).logits[:, 0].float().softmax(-1)
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
    """The model called ``name``, on the Hub or in a folder. ``family`` says how it is asked, if not
    as what it is recognised as. Raises ConfigError: no family is called that. Raises ModelError: no
    such model here, or without the head of its family."""
    device = device or default_device()
    with loading(f"the inference model {name!r}", f"{_OTHERWISE}{_T5}"):
        about = transformers.PreTrainedConfig.get_config_dict(name, revision=revision)[0]
        family = family_of(name, about, family)
        if (
            family == "hhem"
        ):  # its own code, which we need not run, wraps this class of transformers
            foundation = about.get("foundation") or _FLAN
            config = AutoConfig.from_pretrained(foundation, num_labels=2)
            options = {
                "config": config,
                "key_mapping": {"^t5\\.": ""},
                "revision": revision,
                "output_loading_info": True,
            }
            model, info = transformers.T5ForTokenClassification.from_pretrained(name, **options)
            if missing := sorted(info["missing_keys"]):  # transformers would make these weights up
                raise ModelError(
                    f"{name}: has no weights for {', '.join(missing[:3])}; does it belong to that"
                    " family?"
                )
            tokenizer = AutoTokenizer.from_pretrained(foundation)
        elif FAMILIES[family].head == "seq2seq":
            tokenizer = AutoTokenizer.from_pretrained(name, revision=revision)
            model = AutoModelForSeq2SeqLM.from_pretrained(
                name, revision=revision, dtype=dtype_of(device)
            )
        else:
            model, tokenizer, longest = load_classifier(name, revision, device, _OTHERWISE)
            return SupportModel(name, family, model, tokenizer, longest, batch_size, window)
        longest = (
            _MOST_T5 if FAMILIES[family].head != "sequence" else _window(model.config, tokenizer)
        )
        return SupportModel(
            name, family, model.to(device, dtype_of(device)), tokenizer, longest, batch_size, window
        )


def load_classifier(
    name: str,
    revision: str | None = None,
    device: str | None = None,
    otherwise: str = "or its folder",
    dtype: torch.dtype | None = None,
) -> tuple[Any, Any, int]:
    """(model, tokenizer, tokens that the model takes) of the sequence classifier ``name``, in
    bfloat16 on a GPU unless ``dtype`` says otherwise. Raises ModelError: no such model here, or
    without such a head; ends with what to do ``otherwise``."""
    device = device or default_device()
    with loading(f"the inference model {name!r}", f"{otherwise}{_T5}"):
        config = AutoConfig.from_pretrained(name, revision=revision)
        if not any(
            each.endswith("ForSequenceClassification") for each in config.architectures or ()
        ):
            found = ", ".join(config.architectures or ["a model"])
            expected = (
                "a classifier such as microsoft/deberta-large-mnli, or a T5 such as"
                " google/t5_xxl_true_nli_mixture"
            )
            raise ModelError(f"{name}: {found} is not an inference model; expected {expected}")
        tokenizer = AutoTokenizer.from_pretrained(name, revision=revision)
        model = AutoModelForSequenceClassification.from_pretrained(
            name, revision=revision, dtype=dtype or dtype_of(device)
        )
        return model.to(device).eval(), tokenizer, _window(config, tokenizer)


def default_device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def dtype_of(device: str) -> torch.dtype:
    """What models compute in on ``device``: bfloat16 on a GPU, float32 elsewhere."""
    return torch.bfloat16 if device.startswith("cuda") else torch.float32


def find_label(name: str, labels: dict[int, str], meanings: Collection[str]) -> int:
    """The number of the one label that is called by one of ``meanings``, in any case. Raises
    ModelError: none or several are."""
    found = [number for number, label in labels.items() if label.strip().lower() in meanings]
    if len(found) != 1:
        known, expected = ", ".join(map(str, labels.values())), next(iter(meanings))
        raise ModelError(
            f"{name}: its labels are {known}, expected one called {expected!r}; set id2label in its"
            " config.json"
        )
    return found[0]


def _window(config: Any, tokenizer: Any) -> int:
    """Tokens that the model takes; RoBERTa counts its places from the padding id on."""
    places = getattr(config, "max_position_embeddings", None) or _LONGEST
    if config.model_type in ("roberta", "xlm-roberta", "camembert"):
        places -= (config.pad_token_id or 0) + 1
    stated = tokenizer.model_max_length
    return int(min(places, stated if stated < _UNLIMITED else places))
