"""Any model class of lm_eval, loaded into this process: ``hf``, ``vllm``,
``local-chat-completions`` and the others."""

from __future__ import annotations

import hashlib
import json
import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from judges.answers import Answer, Decoding, Request, Usage
from lm_factuality.ground.errors import BackendDown, ConfigError, did_you_mean
from lm_factuality.ground.thinking import opened_by, whole_texts

if TYPE_CHECKING:
    from lm_eval.api.instance import Instance
    from lm_eval.api.model import LM

    from judges.budget import Purse
    from judges.config import JudgeConfig

logger = logging.getLogger(__name__)

_BATCHES = (
    4  # of the model, after which answers are given out; lm_eval itself gives them out at the end
)
_FEWEST = 64  # requests at once, for models whose batch size is no number (vllm) or small
_PIECE = 1 << 20  # bytes of a file read at once


class LmEvalBackend:
    """A model of lm_eval by the name of its class and its arguments; loaded with the first request,
    then kept.

    Requests are sampled in groups: torch's generator is seeded with the request's seed (0 if it has
    none) and its sample number, once a group, so a sampled answer depends on the requests beside
    it. Models that are no torch modules of this process (servers, vllm) are given the same number
    as ``seed``.

    lm_eval gives no alternatives of a token. To a request with ``top_logprobs`` an ``hf`` model
    gives the log-probabilities of the words in its subject's ``choices`` instead, each as a whole;
    other models give none."""

    def __init__(self, config: JudgeConfig, purse: Purse | None = None) -> None:
        """Raises ConfigError if lm_eval has no such model; one in this process costs no money."""
        self._name, self._args, self._apply_chat_template = (
            config.model,
            dict(config.model_args),
            config.apply_chat_template,
        )
        self._class = _model_class(config.model)
        self._model: LM | None = None
        self.usage = Usage()  # requests answered and their tokens, where the model has a tokenizer

    @property
    def identity(self) -> str:
        """The model class and its arguments; of a checkpoint in a folder its name and a hash
        instead of its path."""
        args = {name: fingerprint(value) for name, value in sorted(self._args.items())}
        template = ":chat_template" if self._apply_chat_template else ""
        return f"lm_eval:{self._name}{template}:{json.dumps(args, ensure_ascii=False, default=str)}"

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
        """See :class:`judges.answers.Backend`. Answers come some batches at a time. A prompt that
        leaves no room for the answer in the model's window gets an error: lm_eval would cut off its
        beginning. Raises BackendDown: the model cannot be loaded or fails."""
        model = self._loaded()
        groups: dict[tuple[Decoding, int], list[int]] = defaultdict(list)
        for number, request in enumerate(requests):
            groups[
                request.decoding, request.sample if request.decoding.temperature > 0 else 0
            ].append(number)
        size = getattr(model, "batch_size", None)
        step = max(_FEWEST, _BATCHES * size) if isinstance(size, int) else _FEWEST
        for (decoding, sample), numbers in groups.items():
            prompts = {number: self._prompt(model, requests[number]) for number in numbers}
            window = getattr(model, "max_length", None)
            room = window - decoding.max_tokens if isinstance(window, int) else None
            sendable = []
            for number in sorted(numbers, key=lambda each: -len(prompts[each])):
                length = _num_tokens(model, prompts[number])
                if room is None or length is None or length <= room:
                    sendable.append(number)
                    continue
                wanted = (
                    f"with {decoding.max_tokens} for the answer that is more than the model's"
                    f" {window}"
                )
                yield number, Answer(None, error=f"the prompt has {length} tokens; {wanted}")
            for start in range(0, len(sendable), step):
                some = sendable[start : start + step]
                texts = self._generate(
                    model, [prompts[number] for number in some], decoding, sample
                )
                scores = self._score(
                    model, [(prompts[number], requests[number]) for number in some], decoding
                )
                for number, text, alternatives in zip(some, texts, scores, strict=True):
                    answer = self._read(model, prompts[number], text, decoding)
                    written = (
                        None if answer.text is None else opened_by(prompts[number]) + answer.text
                    )
                    yield number, replace(answer, text=written, first_token_logprobs=alternatives)

    def _loaded(self) -> LM:
        if self._model is None:
            try:
                self._model = self._class.create_from_arg_obj(
                    {**_device(self._class), **self._args}
                )
            except (
                ImportError,
                OSError,
                ValueError,
                RuntimeError,
                TypeError,
                AssertionError,
            ) as error:
                args = ", ".join(f"{name}={value}" for name, value in self._args.items())
                raise BackendDown(
                    f"lm_eval model {self._name} with {args} cannot be loaded: {error}"
                ) from error
            if not self._apply_chat_template and getattr(
                getattr(self._model, "tokenizer", None), "chat_template", None
            ):
                logger.warning(
                    "the judge's model has a chat template, but is asked without it: set"
                    " apply_chat_template: true"
                )
        return self._model

    def _prompt(self, model: LM, request: Request) -> str:
        if not self._apply_chat_template:
            return f"{request.system}\n\n{request.prompt}" if request.system else request.prompt
        system = [{"role": "system", "content": request.system}] if request.system else []
        prompt: str = model.apply_chat_template(
            [*system, {"role": "user", "content": request.prompt}]
        )
        return prompt

    def _generate(
        self, model: LM, prompts: Sequence[str], decoding: Decoding, sample: int
    ) -> list[str]:
        from lm_eval.api.instance import Instance

        arguments: dict[str, Any] = {
            "until": list(decoding.stop),
            "max_gen_toks": decoding.max_tokens,
        }
        arguments |= {"do_sample": False, "temperature": 0.0}
        if decoding.temperature > 0:
            arguments |= {
                "do_sample": True,
                "temperature": decoding.temperature,
                "top_p": decoding.top_p,
            }
            arguments |= _seed(model, (decoding.seed or 0) + sample)
        instances = [
            Instance("generate_until", {}, (prompt, dict(arguments)), number)
            for number, prompt in enumerate(prompts)
        ]
        with whole_texts(model) as known:
            return [known(text) for text in self._run(model.generate_until, instances)]

    def _score(
        self, model: LM, asked: Sequence[tuple[str, Request]], decoding: Decoding
    ) -> list[tuple[tuple[str, float], ...] | None]:
        """For each (prompt, request) its choices with their log-probabilities, most likely
        first."""
        from lm_eval.api.instance import Instance
        from lm_eval.models.huggingface import HFLM

        if not decoding.top_logprobs or not isinstance(model, HFLM):
            return [None] * len(asked)
        lead = "" if self._apply_chat_template else " "
        words = [
            (place, lead + word)
            for place, (_, request) in enumerate(asked)
            for word in request.subject.get("choices", ())
        ]
        instances = [
            Instance("loglikelihood", {}, (asked[number][0], word), place)
            for place, (number, word) in enumerate(words)
        ]
        found: dict[int, list[tuple[str, float]]] = defaultdict(list)
        for (number, word), (logprob, _) in zip(
            words, self._run(model.loglikelihood, instances), strict=True
        ):
            found[number].append((word, float(logprob)))
        return [
            tuple(sorted(found[number], key=lambda pair: -pair[1])) or None
            for number in range(len(asked))
        ]

    def _run(self, call: Callable[..., list[Any]], instances: Sequence[Instance]) -> list[Any]:
        from aiohttp import ClientError

        if not instances:
            return []
        try:
            return call(instances, disable_tqdm=True)
        except (RuntimeError, ValueError, AssertionError, OSError, ClientError) as error:
            raise BackendDown(
                f"lm_eval model {self._name} failed: {error}; what was answered is kept"
            ) from error

    def _read(self, model: LM, prompt: str, text: str, decoding: Decoding) -> Answer:
        """The text, even an empty one; how it ended is unknown where the model has no tokenizer."""
        # a model behind HTTP: lm_eval gives an empty text where there was none
        if not text.strip() and any(base.__name__ == "TemplateAPI" for base in type(model).__mro__):
            return Answer(None, error="the server of the model gave no text")
        used, given = _num_tokens(model, prompt), _num_tokens(model, text)
        reason = None if given is None else "length" if given >= decoding.max_tokens else "stop"
        self.usage = self.usage.plus(calls=1, prompt_tokens=used or 0, completion_tokens=given or 0)
        return Answer(text, reason, used, given)


def _model_class(name: str) -> type[LM]:
    import lm_eval.models  # noqa: F401  (fills the registry)
    from lm_eval.api.registry import get_model, model_registry

    known = sorted(model_registry.keys())
    if name not in known:
        raise ConfigError(
            f"lm_eval has no model {name!r}{did_you_mean(name, known)}; known: {', '.join(known)}"
        )
    try:
        found: type[LM] = get_model(name)
    except ImportError as error:
        raise ConfigError(f"lm_eval model {name} needs more than is installed: {error}") from error
    return found


def _device(model: type[LM]) -> dict[str, str]:
    """For an ``hf`` model the first GPU, or the CPU where there is none; the class's own default
    insists on CUDA."""
    from lm_eval.models.huggingface import HFLM

    if not issubclass(model, HFLM):
        return {}
    import torch

    return {
        "device": (
            "cuda:0"
            if torch.cuda.is_available()
            else "mps"
            if torch.backends.mps.is_available()
            else "cpu"
        )
    }


def _seed(model: LM, seed: int) -> dict[str, int]:
    """Seeds torch for a model that samples in this process; any other takes the seed as an
    argument."""
    from lm_eval.models.huggingface import HFLM

    if not isinstance(model, HFLM):
        return {"seed": seed}
    import torch

    torch.manual_seed(seed)
    return {}


def _num_tokens(model: LM, text: str) -> int | None:
    if getattr(model, "tokenizer", None) is None or not isinstance(text, str):
        return None
    tokens = model.tok_encode(text, add_special_tokens=False)
    return len(tokens) if isinstance(tokens, list) else None


def fingerprint(value: Any) -> Any:
    """Of a checkpoint, a folder or a file, its name and a hash of all that it holds, so that the
    same checkpoint is the same judge wherever it lies, and another one at the same place is not."""
    if not isinstance(value, str) or not (folder := Path(value).expanduser()).exists():
        return value
    digest = hashlib.sha256()
    for file in sorted(folder.iterdir()) if folder.is_dir() else [folder]:
        if file.is_file():
            state = file.stat()
            digest.update(f"{file.name}\0{state.st_size}\0".encode())
            digest.update(_digest(file.resolve(), state.st_size, state.st_mtime_ns))
    return f"{folder.resolve().name}@{digest.hexdigest()[:16]}"


@lru_cache(maxsize=4096)
def _digest(file: Path, size: int, mtime_ns: int) -> bytes:
    """The hash of a whole file, read again only if its size or its time changes: a checkpoint of 15
    GB takes tens of seconds."""
    digest = hashlib.blake2b()
    with file.open("rb") as content:
        while piece := content.read(_PIECE):
            digest.update(piece)
    return digest.digest()
