"""lm_eval models ``hf-dola`` and ``hf-contrastive``: a language model whose next token is decided
by a contrast.

What is contrasted is computed at the positions of ``hf-tree``'s forest that need logits, so that
these models, too, share what requests have in common. ``generate_until`` decodes with the method,
after the model's logits processors and before sampling."""

import abc
import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm
from transformers import AutoTokenizer, LogitsProcessorList

from lm_factuality.ground.errors import ConfigError
from lm_factuality.ground.settings import read_settings
from lm_factuality.models.decoding import (
    Amateur,
    Contrastive,
    DoLa,
    EarlyExits,
    Method,
    choose_layers,
)
from lm_factuality.models.hf_tree import Answer, HFTree, TokenRequest
from lm_factuality.models.tree.cached import Rescore, UnsupportedModelError
from lm_factuality.models.tree.scorer import Engine


class HFDecoding(HFTree):
    """``hf-tree`` with a ``method``, whose options it takes, over the model's logits and those of a
    ``source``. ``fit`` sees config and tokenizer before any weights are read, ``prepare`` the
    model. Where positions cannot be shared, requests are scored one after the other, with one
    warning. Raises ConfigError: options that cannot be used with this model."""

    kind: type[Method]
    method: Method
    source: EarlyExits | Amateur

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        own = {key: kwargs.pop(key) for key in self.kind.model_fields if key in kwargs}
        self.method = read_settings(self.kind, own, self.name)
        self._loading = {
            key: kwargs[key]
            for key in ("dtype", "trust_remote_code", "mixed_precision_dtype")
            if key in kwargs
        }
        super().__init__(*args, **kwargs)
        self.fit()
        with self._forward_context():
            self.source = self.prepare()

    def _create_model(self, *args: Any, **kwargs: Any) -> None:
        self.fit()
        super()._create_model(*args, **kwargs)

    def fit(self) -> None:
        """Fits the method to the model's config."""
        if self.backend != "causal":
            raise ConfigError(
                f"{self.name}: {self.config.architectures} is not a decoder; this method decides"
                " next tokens"
            )

    @abc.abstractmethod
    def prepare(self) -> EarlyExits | Amateur:
        """What the loaded model is contrasted with."""

    @property
    def cache_identity(self) -> str:
        """What else than the model decides on a score; part of the names in lm_eval's response
        cache."""
        return repr(sorted(self.method.model_dump().items()))

    def get_model_info(self) -> dict[str, Any]:
        """HFLM's, with the method and its settings under ``decoding``."""
        return {**super().get_model_info(), "decoding": self.method.model_dump()}

    @functools.cached_property
    def engine(self) -> Engine:
        """``hf-tree``'s, or one for whole sequences."""
        return super().engine or self.source.whole

    def find_engine(self, vocabulary: int) -> Engine | None:
        return self.source.engine(vocabulary, self.max_length)

    def _cores(self) -> int:
        # what is contrasted is picked up on the model's own layers, which all its passes share
        return 1

    def _rescore(self) -> Rescore:
        return lambda logits, beside: self._contrast(
            logits, [self.source.logits(each) for each in beside]
        )

    def _contrast(self, logits: Tensor, weaker: Sequence[Tensor]) -> Tensor:
        # Models of one tokenizer may pad their vocabularies to different sizes.
        width = min(each.shape[-1] for each in (logits, *weaker))
        scores = self.method(logits[..., :width], [each[..., :width].to(logits) for each in weaker])
        missing = logits.shape[-1] - width
        return (
            torch.nn.functional.pad(scores, (0, missing), value=float("-inf"))
            if missing
            else scores
        )

    def _loglikelihood_tokens(
        self,
        requests: Sequence[TokenRequest],
        disable_tqdm: bool = False,
        override_bs: int | None = None,
    ) -> list[Answer]:
        if self.engine is not self.source.whole:
            return super()._loglikelihood_tokens(requests, disable_tqdm, override_bs)
        one_by_one = tqdm(requests, disable=disable_tqdm or self.rank != 0)
        return [
            super(HFDecoding, self)._loglikelihood_tokens([each], disable_tqdm=True)[0]
            for each in one_by_one
        ]

    def _model_generate(
        self, context: Tensor, max_length: int, stop: list[str], **options: Any
    ) -> Tensor:
        with (
            torch.inference_mode(),
            self.source.generating(options.get("attention_mask")) as weaker,
        ):
            steps = LogitsProcessorList(
                [lambda ids, scores: self._contrast(scores.float(), weaker(ids))]
            )
            tokens: Tensor = super()._model_generate(
                context, max_length, stop, logits_processor=steps, **options
            )
        return tokens


class HFDoLa(HFDecoding):
    """``hf-tree`` decoding by DoLa."""

    name = "hf-dola"
    kind = DoLa
    method: DoLa

    def fit(self) -> None:
        super().fit()
        layers, static = self.method.layers, self.method.early_exit_layer
        if static is not None and layers not in ("low", [static]):
            raise ConfigError(
                "hf-dola: layers and early_exit_layer exclude each other; early_exit_layer is"
                " static"
            )
        num_layers, is_tied = (
            self.config.get_text_config().num_hidden_layers,
            bool(self.config.tie_word_embeddings),
        )
        chosen = choose_layers(layers if static is None else static, num_layers, is_tied)
        self.method = self.method.model_copy(update={"layers": chosen})

    def prepare(self) -> EarlyExits:
        assert isinstance(self.method.layers, list)
        try:
            return EarlyExits(self.model, self.method.layers, self.method.norm)
        except UnsupportedModelError as error:
            raise ConfigError(
                f"hf-dola: {type(self.model).__name__} cannot be contrasted with its layers:"
                f" {error}"
            ) from error


class HFContrastive(HFDecoding):
    """``hf-tree`` decoding by contrast with a weaker model, which is loaded in the same ``dtype``
    and on the same device."""

    name = "hf-contrastive"
    kind = Contrastive
    method: Contrastive

    def fit(self) -> None:
        super().fit()
        amateur, trusted = self.method.amateur, bool(self._loading.get("trust_remote_code", False))
        try:
            other = AutoTokenizer.from_pretrained(amateur, trust_remote_code=trusted).get_vocab()
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"hf-contrastive: amateur={amateur}: its tokenizer cannot be loaded: {error}"
            ) from error
        own = self.tokenizer.get_vocab()
        if own != other:
            token = min(own.items() ^ other.items(), key=lambda each: (each[1], each[0]))[0]
            raise ConfigError(
                f"hf-contrastive: amateur={amateur} has another vocabulary ({len(other)} tokens,"
                f" the expert's {len(own)}; the first difference is at {token!r}); expected a model"
                " of the same tokenizer, such as a smaller one of its family"
            )

    def prepare(self) -> Amateur:
        amateur = HFTree(
            pretrained=self.method.amateur,
            tokenizer=self.tokenizer,
            device=str(self.device),
            **self._loading,
        )
        if amateur.max_length < self.max_length:
            raise ConfigError(
                f"hf-contrastive: amateur={self.method.amateur} reads {amateur.max_length} tokens,"
                f" the expert {self.max_length}; pass max_length={amateur.max_length}"
            )
        return Amateur(self.model, amateur.model.eval())
