"""lm_eval models ``hf-dola`` and ``hf-contrastive``: a contrast decides the next token.

What is contrasted is computed at the positions of ``hf-tree``'s forest that need logits, so these
models, too, share what requests have in common. ``generate_until`` decodes with the method, after
the model's logits processors and before sampling.
"""

import abc
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad
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
from lm_factuality.models.hf_tree import HFTree
from lm_factuality.models.tree.logits import Rescore, UnsupportedModelError
from lm_factuality.models.tree.scorer import Engine

# Options with which a weaker model is loaded like the evaluated one.
_SHARED_OPTIONS = ("dtype", "trust_remote_code", "mixed_precision_dtype")


class HFDecoding(HFTree):
    """``hf-tree`` with a decoding method over the model's logits and weaker ones.

    Raises:
        ConfigError: Options cannot be used with this model.
    """

    kind: type[Method]
    method: Method
    source: EarlyExits | Amateur

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        options = {key: kwargs.pop(key) for key in self.kind.model_fields if key in kwargs}
        self.method = read_settings(self.kind, options, self.name)
        self._shared_options = {key: kwargs[key] for key in _SHARED_OPTIONS if key in kwargs}
        super().__init__(*args, **kwargs)
        self.fit()
        with self._forward_context():
            self.source = self.prepare()

    def _create_model(self, *args: Any, **kwargs: Any) -> None:
        # Wrong options are refused before any weights are read.
        self.fit()
        super()._create_model(*args, **kwargs)

    def fit(self) -> None:
        """Fit the method to the model's config and tokenizer."""
        if self.backend != "causal":
            raise ConfigError(
                f"{self.name}: {self.config.architectures} is not a decoder; this method decides"
                " next tokens"
            )

    @abc.abstractmethod
    def prepare(self) -> EarlyExits | Amateur:
        """Return what the loaded model is contrasted with."""

    @property
    def cache_identity(self) -> str:
        """What decides on a score beside the model, for the names of lm_eval's response cache."""
        return repr(sorted(self.method.model_dump().items()))

    def get_model_info(self) -> dict[str, Any]:
        """Return HFLM's information with the method's settings under ``decoding``."""
        return {**super().get_model_info(), "decoding": self.method.model_dump()}

    def find_engine(self, vocabulary: int) -> Engine | None:
        """Return an engine that also computes what the logits are contrasted with.

        Raises:
            ConfigError: The model cannot share positions.
        """
        engine = self.source.find_engine(vocabulary, self.max_length)
        if engine is None:
            raise ConfigError(
                f"{self.name}: {type(self.model).__name__} cannot share positions between requests,"
                " which scoring by this method needs; expected a model such as Llama or GPT-2"
            )
        return engine

    def _cores(self) -> int:
        # Hidden states are recorded on the model's own layers, which all threads would share.
        return 1

    def _rescore(self) -> Rescore:
        return lambda logits, contrast: self._contrast(
            logits, [self.source.logits(tensor) for tensor in contrast]
        )

    def _contrast(self, logits: Tensor, weaker: Sequence[Tensor]) -> Tensor:
        """Score tokens by the method. Tokens that only one of the models has are impossible."""
        # Models of one tokenizer may pad their vocabularies to different sizes.
        width = min(tensor.shape[-1] for tensor in (logits, *weaker))
        weaker = [tensor[..., :width].to(logits) for tensor in weaker]
        scores = self.method(logits[..., :width], weaker)
        return pad(scores, (0, logits.shape[-1] - width), value=float("-inf"))

    def _model_generate(
        self, context: Tensor, max_length: int, stop: list[str], **options: Any
    ) -> Tensor:
        mask = options.get("attention_mask")
        with torch.inference_mode(), self.source.generating(mask) as weaker:
            processors = LogitsProcessorList(
                [lambda ids, scores: self._contrast(scores.float(), weaker(ids))]
            )
            tokens: Tensor = super()._model_generate(
                context, max_length, stop, logits_processor=processors, **options
            )
        return tokens


class HFDoLa(HFDecoding):
    """``hf-tree`` decoding by DoLa."""

    name = "hf-dola"
    kind = DoLa
    method: DoLa

    def fit(self) -> None:
        """Choose the layers that the model is contrasted with."""
        super().fit()
        layers = self.method.layers
        static = self.method.early_exit_layer
        if static is not None:
            if layers not in ("low", [static]):
                raise ConfigError(
                    "hf-dola: layers and early_exit_layer exclude each other; early_exit_layer is"
                    " static"
                )
            layers = static
        num_layers = self.config.get_text_config().num_hidden_layers
        chosen = choose_layers(layers, num_layers, bool(self.config.tie_word_embeddings))
        self.method = self.method.model_copy(update={"layers": chosen})

    def prepare(self) -> EarlyExits:
        """Return the model's early exits."""
        assert isinstance(self.method.layers, list)
        try:
            return EarlyExits(self.model, self.method.layers, self.method.norm)
        except UnsupportedModelError as error:
            raise ConfigError(
                f"hf-dola: {type(self.model).__name__} cannot be contrasted with its layers:"
                f" {error}"
            ) from error


class HFContrastive(HFDecoding):
    """``hf-tree`` decoding by contrast with a weaker model, loaded in the same way."""

    name = "hf-contrastive"
    kind = Contrastive
    method: Contrastive

    def fit(self) -> None:
        """Check that both models have the same vocabulary."""
        super().fit()
        name = self.method.amateur
        trusted = bool(self._shared_options.get("trust_remote_code", False))
        try:
            amateur = AutoTokenizer.from_pretrained(name, trust_remote_code=trusted).get_vocab()
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"hf-contrastive: amateur={name}: its tokenizer cannot be loaded: {error}"
            ) from error
        expert = self.tokenizer.get_vocab()
        if expert != amateur:
            raise ConfigError(
                f"hf-contrastive: amateur={name} has another vocabulary ({len(amateur)} tokens,"
                f" {len(expert.items() & amateur.items())} of them the expert's {len(expert)});"
                " expected a model of the same tokenizer, such as a smaller one of its family"
            )

    def prepare(self) -> Amateur:
        """Load the amateur."""
        amateur = HFTree(
            pretrained=self.method.amateur,
            tokenizer=self.tokenizer,
            device=str(self.device),
            **self._shared_options,
        )
        if amateur.max_length < self.max_length:
            raise ConfigError(
                f"hf-contrastive: amateur={self.method.amateur} reads {amateur.max_length} tokens,"
                f" the expert {self.max_length}; pass max_length={amateur.max_length}"
            )
        return Amateur(self.model, amateur.model.eval())
