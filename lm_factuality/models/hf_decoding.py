"""lm_eval models ``hf-dola`` and ``hf-contrastive``: a contrast decides the next token.

What is contrasted is computed at the positions of ``hf-tree``'s trie that need logits, so these
models, too, share what requests have in common. ``generate_until`` decodes with the method, after
the model's logits processors and before sampling.
"""

import abc
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers import AutoTokenizer, LogitsProcessorList, PreTrainedModel

from lm_factuality.ground.errors import ConfigError
from lm_factuality.ground.packages import loading
from lm_factuality.harness.generation import JsonObject
from lm_factuality.models.decoding import Contrastive, DoLa, EarlyExits, Method, choose_layers
from lm_factuality.models.hf_tree import HFTree
from lm_factuality.models.tree.logits import Recorder, Rescore, can_select_logits, record_nothing
from lm_factuality.models.tree.packed import PackedEngine
from lm_factuality.models.tree.scorer import build_tested_engine

# Options with which a weaker model is loaded like the evaluated one.
_SHARED_OPTIONS = ("dtype", "trust_remote_code", "mixed_precision_dtype")

WeakerLogits = Callable[[Tensor], Sequence[Tensor]]
"""Maps token ids [batch, length] to weaker next-token logits, each [batch, vocabulary]."""


class HFDecoding(HFTree):
    """``hf-tree`` with a decoding method that contrasts the model's logits with weaker logits.

    Raises:
        ConfigError: Options cannot be used with this model.
    """

    settings_class: type[Method]
    """The class of the decoding method, whose fields are options of the model."""

    method: Method

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Load the model, and load or find what the decoding method contrasts it with.

        Args:
            *args: Passed on to HFLM.
            **kwargs: The options of the decoding method, and options of HFLM.

        Raises:
            ConfigError: An option has no valid value, or the model is no decoder.
        """
        # HFLM would refuse the options of the method, so they are taken out of ``kwargs``.
        self.method = self.pop_settings(self.settings_class, kwargs)
        self._shared_options = {key: kwargs[key] for key in _SHARED_OPTIONS if key in kwargs}
        super().__init__(*args, **kwargs)
        # Encoder-decoder models cannot share the tokens of their requests.
        self.require_decoder()
        with self._forward_context():
            self.prepare_contrast()

    @abc.abstractmethod
    def prepare_contrast(self) -> None:
        """Load or find the source of the weaker logits, after the model itself was loaded.

        It may replace ``method`` by one with settings that fit the model, such as layer numbers.
        """

    @abc.abstractmethod
    def stepwise_logits(self, prompt_mask: Tensor | None) -> AbstractContextManager[WeakerLogits]:
        """Provide a function that returns the weaker logits at each step of ``generate``.

        A method may change the model while it generates, so this is a context manager. In it, the
        function is called with the token ids of prompts and generated texts.

        Args:
            prompt_mask: The attention mask of the prompts, shape [prompts, length], or None without
                padding.
        """

    def weaker_logits(self, contrast: Sequence[Tensor]) -> Sequence[Tensor]:
        """Turn the recorded contrast, such as hidden states, into logits [positions, vocabulary].

        By default the contrast consists of logits already.
        """
        return contrast

    @property
    def cache_identity(self) -> str:
        """The method's settings as text, which tell kept answers apart."""
        return repr(sorted(self.method.model_dump().items()))

    def get_model_info(self) -> JsonObject:
        """Return HFLM's description of the model, with the method's settings under ``decoding``."""
        return {**super().get_model_info(), "decoding": self.method.model_dump()}

    def build_engine(
        self, model: PreTrainedModel, vocab_size: int, recorder: Recorder = record_nothing
    ) -> PackedEngine:
        """Return an engine for a model, which scores as the model itself does on a trial.

        Args:
            model: The evaluated model, or one that it is contrasted with.
            vocab_size: The trial draws random token ids below this number.
            recorder: Records hidden states while the model runs.

        Raises:
            ConfigError: The model cannot share tokens between requests.
        """
        engine = build_tested_engine(model, vocab_size, self.max_length, recorder)
        if engine is None:
            raise ConfigError(
                f"{self.name}: {type(self.model).__name__} cannot share positions between requests,"
                " which scoring by this method needs; expected a model such as Llama or GPT-2"
            )
        return engine

    def _cores(self) -> int:
        """Return 1, the number of threads that may score at the same time."""
        # Hidden states are recorded on the model's own layers, which all threads would share.
        return 1

    def _rescore(self) -> Rescore:
        """Return the function that scores tokens by the decoding method instead of the softmax."""
        return lambda logits, contrast: self._contrast(logits, self.weaker_logits(contrast))

    def _contrast(self, logits: Tensor, weaker: Sequence[Tensor]) -> Tensor:
        """Score every next token by the decoding method.

        Args:
            logits: The model's own logits, shape [positions, vocabulary].
            weaker: The weaker logits. Their vocabularies may be of other sizes.

        Returns:
            The scores in nats, in the shape of ``logits``. A token that not all models have gets
            negative infinity.
        """
        # Models of one tokenizer may pad their vocabularies to different sizes.
        width = min(tensor.shape[-1] for tensor in (logits, *weaker))
        # ``to`` also converts to the type and the device of the model's own logits.
        weaker = [tensor[..., :width].to(logits) for tensor in weaker]
        scores = self.method(logits[..., :width], weaker)
        return pad(scores, (0, logits.shape[-1] - width), value=float("-inf"))

    def _model_generate(
        self, context: Tensor, max_length: int, stop: list[str], **options: Any
    ) -> Tensor:
        """Generate with HFLM, which takes the decoding method's scores instead of the logits.

        Args:
            context: The token ids of the prompts, shape [prompts, length].
            max_length: How many tokens prompt and generated text may have together.
            stop: The strings at which generation stops.
            **options: Further options of HFLM, such as ``attention_mask``.

        Returns:
            The token ids of prompts and generated texts.
        """
        prompt_mask = options.get("attention_mask")
        # ``compute_weaker_logits`` takes token ids. For example, DoLa's function returns what it
        # records of the early layers during the current step of the model, so it is only called
        # while the model generates.
        with torch.inference_mode(), self.stepwise_logits(prompt_mask) as compute_weaker_logits:

            def contrast_step(ids: Tensor, logits: Tensor) -> Tensor:
                """Return the scores of the next tokens, shape [sequences, vocabulary]."""
                return self._contrast(logits.float(), compute_weaker_logits(ids))

            # transformers calls a logits processor for each new token.
            processors = LogitsProcessorList([contrast_step])
            tokens: Tensor = super()._model_generate(
                context, max_length, stop, logits_processor=processors, **options
            )
        return tokens


class HFDoLa(HFDecoding):
    """``hf-tree`` decoding by DoLa."""

    name = "hf-dola"
    settings_class = DoLa
    method: DoLa

    def prepare_contrast(self) -> None:
        """Choose the early layers that the last layer is contrasted with.

        ``early_exit_layer=2`` is the same as ``layers=[2]``. The chosen layers replace ``layers``
        in ``method``.

        Raises:
            ConfigError: The options name no existing layer, or contradict each other.
        """
        layers = self.method.layers
        early_exit_layer = self.method.early_exit_layer
        if early_exit_layer is not None:
            # "low" is the default, so it does not show that the user has set both options.
            if layers not in ("low", [early_exit_layer]):
                raise ConfigError(
                    "hf-dola: layers and early_exit_layer exclude each other; pass one of them"
                )
            layers = early_exit_layer
        num_layers = self.config.get_text_config().num_hidden_layers
        chosen = choose_layers(layers, num_layers, bool(self.config.tie_word_embeddings))
        # Results files show the numbers of the layers instead of a preset such as "low".
        self.method = self.method.model_copy(update={"layers": chosen})
        self._exits = EarlyExits(self.model, chosen, self.method.norm)

    def make_engine(self, vocab_size: int) -> PackedEngine:
        """Return an engine that also records the hidden states of early layers.

        Args:
            vocab_size: A trial of the engine draws random token ids below this number.

        Raises:
            ConfigError: The model cannot share tokens between requests.
        """
        return self.build_engine(self.model, vocab_size, self._exits.record)

    def weaker_logits(self, contrast: Sequence[Tensor]) -> Sequence[Tensor]:
        """Turn the recorded hidden states of each early layer into logits."""
        return [self._exits.compute_logits(states) for states in contrast]

    @contextmanager
    def stepwise_logits(self, prompt_mask: Tensor | None) -> Iterator[WeakerLogits]:
        """Provide the logits of the early layers at each step of ``generate``.

        They come from hidden states that are recorded while the model itself computes the step.
        """
        # The next token follows the last position of each sequence.
        with self._exits.record(lambda states: states[:, -1]) as recorded:
            # The model has already read the token ids when the function is called.
            yield lambda ids: self.weaker_logits(recorded)


class HFContrastive(HFDecoding):
    """``hf-tree`` decoding by contrast with a weaker model, loaded in the same way."""

    name = "hf-contrastive"
    settings_class = Contrastive
    method: Contrastive

    def prepare_contrast(self) -> None:
        """Load the amateur, i.e. the weaker model that the evaluated one is contrasted with.

        Raises:
            ConfigError: The amateur has another vocabulary, or reads fewer tokens.
        """
        # A tokenizer loads faster than a model, so a wrong amateur shows early.
        self._check_vocabulary()
        name = self.method.amateur
        self._amateur = HFTree(
            pretrained=name,
            tokenizer=self.tokenizer,
            device=str(self.device),
            **self._shared_options,
        )
        self._amateur.model.eval()
        if self._amateur.max_length < self.max_length:
            raise ConfigError(
                f"hf-contrastive: amateur={name} reads {self._amateur.max_length} tokens, the"
                f" expert {self.max_length}; pass max_length={self._amateur.max_length}"
            )

    def _check_vocabulary(self) -> None:
        """Check that the amateur has the tokens of the evaluated model.

        Raises:
            ConfigError: The amateur has another vocabulary.
        """
        name = self.method.amateur
        trust_remote_code = bool(self._shared_options.get("trust_remote_code", False))
        # An error of transformers becomes one that names the option.
        with loading(f"hf-contrastive: the tokenizer of amateur={name}"):
            tokenizer = AutoTokenizer.from_pretrained(name, trust_remote_code=trust_remote_code)
        amateur_vocabulary = tokenizer.get_vocab()
        if self.tokenizer.get_vocab() != amateur_vocabulary:
            raise ConfigError(
                f"hf-contrastive: amateur={name} has another vocabulary"
                f" ({len(amateur_vocabulary)} tokens); expected a model of the same tokenizer, such"
                " as a smaller one of its family"
            )

    def make_engine(self, vocab_size: int) -> PackedEngine:
        """Return an engine that runs both models on the same tokens.

        Args:
            vocab_size: A trial of each engine draws random token ids below this number.

        Raises:
            ConfigError: One of the models cannot share tokens between requests.
        """
        amateur = self._amateur.model
        # The trial's tokens must be in both vocabularies, whose padding may differ.
        vocab_size = min(vocab_size, len(amateur.get_input_embeddings().weight))
        engine = self.build_engine(self.model, vocab_size)
        # The expert's engine then runs the amateur's after each pass of its own.
        engine.amateur = self.build_engine(amateur, vocab_size)
        return engine

    @contextmanager
    def stepwise_logits(self, prompt_mask: Tensor | None) -> Iterator[WeakerLogits]:
        """Provide a function that computes the amateur's logits at each step of ``generate``."""
        yield partial(self._amateur_logits, prompt_mask=prompt_mask)

    def _amateur_logits(self, ids: Tensor, prompt_mask: Tensor | None) -> Sequence[Tensor]:
        """Compute the amateur's logits of the next token.

        The amateur has no cache, so it reads the whole text again for each token.

        Args:
            ids: The token ids of prompts and generated texts, shape [sequences, length].
            prompt_mask: The attention mask of the prompts, shape [prompts, prompt length], which is
                0 for padding. None if no prompt has padding.

        Returns:
            A list whose only element are the logits, shape [sequences, vocabulary]. A decoding
            method takes a list, because others contrast with several layers.
        """
        # Generated tokens are no padding.
        attention_mask = torch.ones_like(ids)
        if prompt_mask is not None:
            # Beam search continues each prompt in several ways, one sequence each.
            num_beams = len(ids) // len(prompt_mask)
            prompt_length = prompt_mask.shape[1]
            attention_mask[:, :prompt_length] = prompt_mask.repeat_interleave(num_beams, dim=0)
        # The first token after the padding has position 0.
        position_ids = (attention_mask.cumsum(-1) - 1).clamp(min=0)

        amateur = self._amateur.model
        # Older models compute the logits of all positions.
        options = {"logits_to_keep": 1} if can_select_logits(amateur) else {}
        output = amateur(
            input_ids=ids,
            attention_mask=attention_mask,
            position_ids=position_ids,
            use_cache=False,
            **options,
        )
        return [output.logits[:, -1].to(ids.device)]
