"""Any model class of lm_eval, loaded into this process: ``hf``, ``vllm``, servers and others."""

from __future__ import annotations

import hashlib
import json
import logging
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from judges.answers import Answer, Decoding, Request, Usage
from judges.backends import Backend
from lm_factuality.ground.errors import BackendDownError, ConfigError, did_you_mean
from lm_factuality.ground.thinking import opened_by, whole_texts

if TYPE_CHECKING:
    from lm_eval.api.instance import Instance
    from lm_eval.api.model import LM

    from judges.budget import SpendingLimit
    from judges.config import JudgeConfig

logger = logging.getLogger(__name__)

_BATCHES = 4  # of the model, after which answers are given out; lm_eval itself waits for the end
_FEWEST = 64  # requests at once, for models whose batch size is no number (vllm) or small
_PIECE = 1 << 20  # bytes of a file read at once


class LmEvalBackend(Backend):
    """A model of lm_eval by the name of its class and its arguments.

    It is loaded with the first request, then kept.

    Requests are sampled in groups: torch's generator is seeded with the request's seed (0 if it has
    none) and its sample number, once a group, so a sampled answer depends on the requests beside
    it. Models that are no torch modules of this process (servers, vllm) are given the same number
    as ``seed``.
    """

    usage = Usage()  # requests answered and their tokens, where the model has a tokenizer

    def __init__(self, config: JudgeConfig, spending_limit: SpendingLimit | None = None) -> None:
        """Find the model's class; asking a model in this process costs no money.

        Raises:
            ConfigError: lm_eval has no such model.
        """
        self._name = config.model
        self._args = dict(config.model_args)
        self._has_template = config.apply_chat_template
        self._class = _model_class(config.model)
        self._model: Any = None

    @property
    def identity(self) -> str:
        """The model class and its arguments.

        A checkpoint in a folder is named by a hash instead of its path.
        """
        args = {name: fingerprint(value) for name, value in sorted(self._args.items())}
        template = ":chat_template" if self._has_template else ""
        return f"lm_eval:{self._name}{template}:{json.dumps(args, ensure_ascii=False, default=str)}"

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
        """See `judges.backends.Backend`. Answers come some batches at a time.

        A prompt that leaves no room for the answer in the model's window gets an error: lm_eval
        would cut off its beginning.

        Raises:
            BackendDownError: The model cannot be loaded or fails.
        """
        model = self._loaded()
        size = getattr(model, "batch_size", None)
        step = max(_FEWEST, _BATCHES * size) if isinstance(size, int) else _FEWEST
        groups: dict[tuple[Decoding, int], list[int]] = defaultdict(list)
        for number, request in enumerate(requests):
            sample = request.sample if request.decoding.temperature > 0 else 0
            groups[request.decoding, sample].append(number)
        prompts = [self._prompt(request) for request in requests]
        for (decoding, sample), numbers in groups.items():
            sendable = []
            for number in sorted(numbers, key=lambda number: -len(prompts[number])):
                problem = _too_long(model, prompts[number], decoding.max_tokens)
                if problem:
                    yield number, Answer(None, error=problem)
                else:
                    sendable.append(number)
            for start in range(0, len(sendable), step):
                batch = sendable[start : start + step]
                texts = self._generate([prompts[number] for number in batch], decoding, sample)
                for number, text in zip(batch, texts, strict=True):
                    yield number, self._read(prompts[number], text, decoding)

    def _loaded(self) -> Any:
        if self._model is not None:
            return self._model
        try:
            self._model = self._class.create_from_arg_obj({**_device(self._class), **self._args})
        except (ImportError, OSError, ValueError, RuntimeError, TypeError, AssertionError) as error:
            args = ", ".join(f"{name}={value}" for name, value in self._args.items())
            raise BackendDownError(
                f"lm_eval model {self._name} with {args} cannot be loaded: {error}"
            ) from error
        tokenizer = getattr(self._model, "tokenizer", None)
        if getattr(tokenizer, "chat_template", None) and not self._has_template:
            logger.warning(
                "the judge's model has a chat template, but is asked without it: set"
                " apply_chat_template: true"
            )
        return self._model

    def _prompt(self, request: Request) -> Any:
        """The prompt as the model is given it: a text, or messages for the client of a server."""
        if not self._has_template:
            return f"{request.system}\n\n{request.prompt}" if request.system else request.prompt
        system = [{"role": "system", "content": request.system}] if request.system else []
        return self._model.apply_chat_template(
            [*system, {"role": "user", "content": request.prompt}]
        )

    def _generate(self, prompts: Sequence[Any], decoding: Decoding, sample: int) -> list[str]:
        """What the model writes, thoughts included."""
        from aiohttp import ClientError
        from lm_eval.api.instance import Instance

        arguments: dict[str, Any] = {
            "until": list(decoding.stop),
            "max_gen_toks": decoding.max_tokens,
            "do_sample": decoding.temperature > 0,
            "temperature": float(decoding.temperature),
        }
        if decoding.temperature > 0:
            arguments["top_p"] = decoding.top_p
            arguments |= _seed(self._model, (decoding.seed or 0) + sample)
        requests: list[Instance] = [
            Instance("generate_until", {}, (prompt, dict(arguments)), number)
            for number, prompt in enumerate(prompts)
        ]
        try:
            with whole_texts(self._model) as with_marks:
                texts = self._model.generate_until(requests, disable_tqdm=True)
                return list(map(with_marks, texts))
        except (RuntimeError, ValueError, AssertionError, OSError, ClientError) as error:
            raise BackendDownError(
                f"lm_eval model {self._name} failed: {error}; what was answered is kept"
            ) from error

    def _read(self, prompt: Any, text: str, decoding: Decoding) -> Answer:
        """The text, even an empty one. Without a tokenizer it is unknown how it ended."""
        # A model behind HTTP: lm_eval gives an empty text where there was none.
        is_client = any(base.__name__ == "TemplateAPI" for base in type(self._model).__mro__)
        if is_client and not text.strip():
            return Answer(None, error="the server of the model gave no text")
        used = _num_tokens(self._model, prompt)
        written = _num_tokens(self._model, text)
        finish_reason = None
        if written is not None:
            finish_reason = "length" if written >= decoding.max_tokens else "stop"
        self.usage = self.usage.plus(
            calls=1, prompt_tokens=used or 0, completion_tokens=written or 0
        )
        opening = opened_by(prompt) if isinstance(prompt, str) else ""
        return Answer(opening + text, finish_reason, used, written)


def _too_long(model: Any, prompt: Any, longest: int) -> str:
    """What is wrong with the length of a prompt, if anything is known to be."""
    window = getattr(model, "max_length", None)
    used = _num_tokens(model, prompt)
    if not isinstance(window, int) or used is None or used + longest <= window:
        return ""
    return (
        f"the prompt has {used} tokens; with {longest} for the answer that is more than the"
        f" model's {window}"
    )


def _model_class(name: str) -> type[LM]:
    import lm_eval.models  # noqa: F401  (fills the registry)
    from lm_eval.api.registry import get_model, model_registry

    known = sorted(model_registry.keys())
    if name not in known:
        raise ConfigError(
            f"lm_eval has no model {name!r}{did_you_mean(name, known)}; known: {', '.join(known)}"
        )
    try:
        model_class: type[LM] = get_model(name)
    except ImportError as error:
        raise ConfigError(f"lm_eval model {name} needs more than is installed: {error}") from error
    return model_class


def _device(model_class: type[LM]) -> dict[str, str]:
    """For an ``hf`` model the first GPU, or the CPU. The class's own default insists on CUDA."""
    import torch
    from lm_eval.models.huggingface import HFLM

    if not issubclass(model_class, HFLM):
        return {}
    return {"device": "cuda:0" if torch.cuda.is_available() else "cpu"}


def _seed(model: LM, seed: int) -> dict[str, int]:
    """Seed torch for a model that samples in this process. Others take the seed as an argument."""
    import torch
    from lm_eval.models.huggingface import HFLM

    if not isinstance(model, HFLM):
        return {"seed": seed}
    torch.manual_seed(seed)
    return {}


def _num_tokens(model: Any, text: Any) -> int | None:
    if getattr(model, "tokenizer", None) is None or not isinstance(text, str):
        return None
    tokens = model.tok_encode(text, add_special_tokens=False)
    return len(tokens) if isinstance(tokens, list) else None


def fingerprint(value: Any) -> Any:
    """A name for an argument of a model that is the same wherever a checkpoint lies.

    Of a folder or a file that is its name and a hash of all that it holds, so that another
    checkpoint at the same place is another judge. Anything else is as it is.
    """
    if not isinstance(value, str):
        return value
    place = Path(value).expanduser()
    if not place.exists():
        return value
    digest = hashlib.sha256()
    for file in sorted(place.iterdir()) if place.is_dir() else [place]:
        if file.is_file():
            state = file.stat()
            digest.update(f"{file.name}\0{state.st_size}\0".encode())
            digest.update(_digest(file.resolve(), state.st_size, state.st_mtime_ns))
    return f"{place.resolve().name}@{digest.hexdigest()[:16]}"


@lru_cache(maxsize=4096)
def _digest(file: Path, size: int, mtime_ns: int) -> bytes:
    """The hash of a whole file, read again only if its size or its time changes.

    A checkpoint of 15 GB takes tens of seconds.
    """
    digest = hashlib.blake2b()
    with file.open("rb") as content:
        while piece := content.read(_PIECE):
            digest.update(piece)
    return digest.digest()
