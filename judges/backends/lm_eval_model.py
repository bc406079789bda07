"""A judge that is any model class of lm_eval (``hf``, ``vllm``, ...), loaded into this process.

`judges.judge` opens an `LmEvalBackend`. Classifiers and the generator's filters name checkpoints in
folders by `fingerprint_checkpoint`.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from judges.answers import Answer, Decoding, Request, Usage
from judges.backends import Backend, NumberedAnswer, chat_messages, plain_prompt
from judges.backends.api_client import client_class
from lm_factuality.ground.errors import BackendDownError, ConfigError, did_you_mean
from lm_factuality.ground.thinking import thoughts_kept, trailing_opening_mark

if TYPE_CHECKING:
    from lm_eval.api.instance import Instance
    from lm_eval.api.model import LM
    from lm_eval.models.api_models import JsonChatStr

    from judges.budget import SpendingLimit
    from judges.config import JudgeConfig

logger = logging.getLogger(__name__)

_BATCHES_PER_ROUND = 4  # of the model; lm_eval returns nothing before a whole round is done
_MIN_PROMPTS_PER_ROUND = 64  # for models whose batch size is small or not a number (vllm: auto)
_BLOCK_SIZE = 1 << 20  # bytes of a file that are read at once

# The errors of lm_eval's model classes if a package, a file, memory or an argument is wrong.
_LOADING_ERRORS = (ImportError, OSError, ValueError, RuntimeError, TypeError, AssertionError)


class LmEvalBackend(Backend):
    """A model of lm_eval, which is loaded with the first request and then kept.

    Prompts that are sampled together share a seed: torch's generator is seeded once per round, so
    a sampled answer depends on the other prompts of its round. Models outside of this process's
    torch (servers, vllm) receive the same number as ``seed``.
    """

    usage = Usage()
    """Answered requests, and their tokens if the model has a tokenizer."""

    def __init__(self, config: JudgeConfig, spending_limit: SpendingLimit | None = None) -> None:
        """Find the model's class; nothing is loaded.

        Args:
            config: The judge: the name of the model class and its arguments.
            spending_limit: Not used, because a model in this process costs no money.

        Raises:
            ConfigError: lm_eval has no model class of this name.
        """
        self._model_name = config.model
        self._model_args = dict(config.model_args)
        self._has_chat_template = config.apply_chat_template
        self._class = _find_model_class(config.model)
        self._model: Any = None

    @property
    def identity(self) -> str:
        """Name the model class and its arguments.

        A checkpoint in a folder is named by a hash of its files instead of its path.
        """
        # The same checkpoint in another folder, or on another machine, has the same answers.
        model_args = {
            name: fingerprint_checkpoint(value) for name, value in sorted(self._model_args.items())
        }
        template = ":chat_template" if self._has_chat_template else ""
        args_text = json.dumps(model_args, ensure_ascii=False, default=str)
        return f"lm_eval:{self._model_name}{template}:{args_text}"

    def answer(self, requests: Sequence[Request]) -> Iterator[NumberedAnswer]:
        """Let the model answer requests, a few batches at a time.

        Args:
            requests: The prompts, each with its decoding parameters.

        Yields:
            One answer per request. A prompt that leaves no room for an answer in the model's
            window has an answer with ``error``, because lm_eval would cut off its beginning.

        Raises:
            BackendDownError: The model cannot be loaded, or fails.
        """
        model = self._load_once()
        prompts = [self._prompt(request) for request in requests]
        for (decoding, sample), numbers in _group_by_decoding(requests).items():
            # Longest first, so that a lack of memory shows at once.
            numbers.sort(key=lambda number: -len(prompts[number]))
            fitting_prompts = {}
            for number in numbers:
                problem = _length_problem(model, prompts[number], decoding.max_tokens)
                if problem:
                    yield NumberedAnswer(number, Answer(None, error=problem))
                else:
                    fitting_prompts[number] = prompts[number]
            yield from self._answer_in_rounds(fitting_prompts, decoding, sample)

    def _answer_in_rounds(
        self, prompts: Mapping[int, str | JsonChatStr], decoding: Decoding, sample: int
    ) -> Iterator[NumberedAnswer]:
        """Let the model answer prompts that share their decoding, a few batches at a time.

        Args:
            prompts: The prompts by the number of their request, longest first.
            decoding: How the model generates the answers.
            sample: The number of the sample, from 0.

        Yields:
            One answer per prompt. The answers of a round are handed out before the next begins.
        """
        numbered_prompts = iter(prompts.items())
        prompts_per_round = _prompts_per_round(self._model)
        while current_round := list(islice(numbered_prompts, prompts_per_round)):
            texts = self._generate([prompt for _, prompt in current_round], decoding, sample)
            for (number, prompt), text in zip(current_round, texts, strict=True):
                answer = self._to_answer(prompt, text, decoding.max_tokens)
                if answer.error is None:
                    self.usage = self.usage.plus(
                        calls=1,
                        prompt_tokens=answer.prompt_tokens or 0,
                        completion_tokens=answer.completion_tokens or 0,
                    )
                yield NumberedAnswer(number, answer)

    def _load_once(self) -> LM:
        """Load the model with the first call; later calls return the same model.

        Raises:
            BackendDownError: The model cannot be loaded with these arguments.
        """
        if self._model is not None:
            return self._model
        # A device among the judge's model_args comes last and wins.
        arguments = {**_default_arguments(self._class), **self._model_args}
        try:
            self._model = self._class.create_from_arg_obj(arguments)
        except _LOADING_ERRORS as error:
            args = ", ".join(f"{name}={value}" for name, value in self._model_args.items())
            raise BackendDownError(
                f"lm_eval model {self._model_name} with {args} cannot be loaded: {error}"
            ) from error
        self._warn_of_unused_template()
        return self._model

    def _warn_of_unused_template(self) -> None:
        """Warn if the model has a chat template, but the judge does not apply it.

        A chat model that is asked without its template often answers in the wrong form.
        """
        tokenizer = getattr(self._model, "tokenizer", None)
        if getattr(tokenizer, "chat_template", None) and not self._has_chat_template:
            logger.warning(
                "the judge's model has a chat template, but is asked without it: set"
                " apply_chat_template: true"
            )

    def _prompt(self, request: Request) -> str | JsonChatStr:
        """Join the system message and the prompt of a request in the form that the model takes.

        Returns:
            A text. For a client of a server with a chat template, lm_eval's encoded messages.
        """
        if not self._has_chat_template:
            return plain_prompt(request)
        return self._model.apply_chat_template(chat_messages(request))

    def _generate(
        self, prompts: Sequence[str | JsonChatStr], decoding: Decoding, sample: int
    ) -> list[str]:
        """Let the model write one text per prompt.

        Args:
            prompts: The prompts, in the form that the model takes.
            decoding: How the model chooses its words.
            sample: The number of the sample, from 0, which is added to the seed.

        Returns:
            The texts with the model's thoughts, in the order of the prompts.

        Raises:
            BackendDownError: The model fails, for example for lack of memory.
        """
        import torch
        from aiohttp import ClientError

        arguments = _generation_arguments(self._model, decoding, sample)
        # A model of transformers in this process draws random numbers from torch, and takes no
        # seed. All other models are sent the seed.
        if _is_hf_class(type(self._model)):
            seed = arguments.pop("seed", None)
            if seed is not None:
                torch.manual_seed(seed)

        instances = _make_instances(prompts, arguments)
        try:
            # lm_eval would cut thoughts out of the texts, and so hide that a thought has no end.
            # `thoughts_kept` keeps it from that, and marks the thoughts in a way of its own.
            with thoughts_kept(self._model) as restore_thought_marks:
                texts = self._model.generate_until(instances, disable_tqdm=True)
                return [restore_thought_marks(text) for text in texts]
        except (RuntimeError, ValueError, AssertionError, OSError, ClientError) as error:
            raise BackendDownError(
                f"lm_eval model {self._model_name} failed: {error}; what was answered is kept"
            ) from error

    def _to_answer(self, prompt: str | JsonChatStr, text: str, max_tokens: int) -> Answer:
        """Convert a generated text to an answer.

        Args:
            prompt: What the model was asked.
            text: What it wrote, which may be empty.
            max_tokens: The longest text that it was allowed to write.

        Returns:
            The text with its token counts. Without a tokenizer these are None, and so is
            ``finish_reason``, because nothing tells whether the text was cut off.
        """
        if not text.strip() and _is_server_client(self._model):
            return Answer(None, error="the server of the model gave no text")

        completion_tokens = _count_tokens(self._model, text)
        finish_reason = None
        if completion_tokens is not None:
            finish_reason = "length" if completion_tokens >= max_tokens else "stop"
        # If the prompt ends with "<think>", the text begins within a thought. The mark is put
        # before the text, so that readers of the answer can tell the thought from it.
        thought_mark = trailing_opening_mark(prompt) if isinstance(prompt, str) else ""
        # Only clients of servers have options that can be refused.
        left_out = tuple(sorted(getattr(self._model, "refused_options", ())))
        return Answer(
            thought_mark + text,
            finish_reason,
            prompt_tokens=_count_tokens(self._model, prompt),
            completion_tokens=completion_tokens,
            left_out=left_out or None,
        )


def _find_model_class(name: str) -> type[LM]:
    """Look up a model class in lm_eval's registry, such as ``hf``.

    Raises:
        ConfigError: lm_eval has no such model, or it needs a package that is not installed.
    """
    import lm_eval.models  # noqa: F401  (fills the registry)
    from lm_eval.api.registry import get_model, model_registry

    if name not in model_registry:
        names = sorted(model_registry.keys())
        raise ConfigError(
            f"lm_eval has no model {name!r}{did_you_mean(name, names)}; known: {', '.join(names)}"
        )
    try:
        model_class: type[LM] = client_class(get_model(name))
    except ImportError as error:
        raise ConfigError(f"lm_eval model {name} needs more than is installed: {error}") from error
    return model_class


def _default_arguments(model_class: type[LM]) -> dict[str, str]:
    """Return the arguments with which a model class is loaded unless the user sets them.

    Example:
        For ``hf`` models ``{"device": "cuda:0"}``, or ``{"device": "cpu"}`` without a GPU. For
        other classes ``{}``.
    """
    import torch

    if not _is_hf_class(model_class):
        return {}
    # lm_eval's own default fails without CUDA.
    return {"device": "cuda:0" if torch.cuda.is_available() else "cpu"}


def _is_hf_class(model_class: type[LM]) -> bool:
    """Return whether a model class of lm_eval runs in this process's torch (``hf``)."""
    from lm_eval.models.huggingface import HFLM

    return issubclass(model_class, HFLM)


def _prompts_per_round(model: LM) -> int:
    """Return how many prompts the model answers before their answers are handed out."""
    # A batch size of "auto" is not a number.
    batch_size = getattr(model, "batch_size", None)
    if not isinstance(batch_size, int):
        return _MIN_PROMPTS_PER_ROUND
    return max(_MIN_PROMPTS_PER_ROUND, _BATCHES_PER_ROUND * batch_size)


def _group_by_decoding(requests: Sequence[Request]) -> dict[tuple[Decoding, int], list[int]]:
    """Group the requests that the model can answer in the same batch.

    Example:
        Three requests with the same decoding, of which the second is for another sample →
        ``{(decoding, 0): [0, 2], (decoding, 1): [1]}``

    Returns:
        The positions of the requests with each decoding and number of a sample.
    """
    groups: dict[tuple[Decoding, int], list[int]] = defaultdict(list)
    for number, request in enumerate(requests):
        # At temperature 0, all samples are the same.
        sample = request.sample if request.decoding.temperature > 0 else 0
        groups[request.decoding, sample].append(number)
    return groups


def _length_problem(model: LM, prompt: str | JsonChatStr, max_tokens: int) -> str:
    """Return why a prompt and the longest answer do not fit into the model's window.

    The result is empty if they fit, or if this is not known.
    """
    window = getattr(model, "max_length", None)
    prompt_tokens = _count_tokens(model, prompt)
    # Clients of servers may know neither; the server then checks the length.
    if not isinstance(window, int) or prompt_tokens is None:
        return ""
    if prompt_tokens + max_tokens <= window:
        return ""
    return (
        f"the prompt has {prompt_tokens} tokens; with {max_tokens} for the answer that is more than"
        f" the model's {window}"
    )


def _count_tokens(model: LM, text: str | JsonChatStr) -> int | None:
    """Count the tokens of a text; None if the model has no tokenizer or the text is encoded."""
    if getattr(model, "tokenizer", None) is None or not isinstance(text, str):
        return None
    tokens = model.tok_encode(text, add_special_tokens=False)
    return len(tokens) if isinstance(tokens, list) else None


def _generation_arguments(model: LM, decoding: Decoding, sample: int) -> dict[str, Any]:
    """Return lm_eval's arguments for generating a sample.

    Example:
        ``{"until": ["END"], "max_gen_toks": 512, "do_sample": False, "temperature": 0.0}``. If
        something is sampled, there are ``top_p`` and ``seed`` as well.
    """
    is_sampled = decoding.temperature > 0
    arguments: dict[str, Any] = {
        "until": list(decoding.stop),
        "max_gen_toks": decoding.max_tokens,
        "do_sample": is_sampled,
        "temperature": float(decoding.temperature),
    }
    # Without sampling, transformers warns of top_p and ignores the seed.
    if is_sampled:
        arguments["top_p"] = decoding.top_p
        seed = decoding.seed_of(sample)
        if seed is not None:
            arguments["seed"] = seed
        elif _is_server_client(model):
            # lm_eval's clients would send a seed of their own.
            arguments["seed"] = "none"
    return arguments


def _make_instances(
    prompts: Sequence[str | JsonChatStr], arguments: Mapping[str, Any]
) -> list[Instance]:
    """Return the requests of lm_eval that ask a model for a text per prompt.

    Args:
        prompts: The prompts.
        arguments: lm_eval's arguments of generation, such as ``{"max_gen_toks": 512}``.
    """
    from lm_eval.api.instance import Instance

    instances = []
    for number, prompt in enumerate(prompts):
        # Models change the arguments that they are passed, so each instance has a copy.
        instance = Instance(
            "generate_until", {}, (prompt, dict(arguments)), task_name="", doc_id=number, idx=number
        )
        instances.append(instance)
    return instances


def _is_server_client(model: LM) -> bool:
    """Return whether a model of lm_eval only calls a server, which may send an empty text."""
    # The module of TemplateAPI needs packages that a model in this process does without.
    return any(base.__name__ == "TemplateAPI" for base in type(model).__mro__)


def fingerprint_checkpoint(value: object) -> object:
    """Replace the path of a checkpoint by its name and a hash of its content.

    The result is the same on every machine, and another one after a change of the checkpoint.

    Example:
        ``/data/models/my-judge`` becomes ``my-judge@1f3870be274f6c49``. ``gpt2`` and ``bfloat16``,
        which are no paths, stay as they are.

    Args:
        value: The value of any argument of a model, such as ``pretrained`` or ``dtype``.
    """
    if not isinstance(value, str):
        return value
    path = Path(value).expanduser()
    if not path.exists():
        return value

    files = sorted(path.iterdir()) if path.is_dir() else [path]
    return f"{path.resolve().name}@{_hash_files(files)[:16]}"


def _hash_files(paths: Iterable[Path]) -> str:
    """Hash the names and contents of files (SHA-256, in hexadecimal digits).

    Args:
        paths: The files, in the order in which they are hashed. Folders among them are skipped.
    """
    digest = hashlib.sha256()
    for path in paths:
        if not path.is_file():
            continue
        # Without the names, two files that swap their contents would not change the hash.
        status = path.stat()
        digest.update(f"{path.name}\0{status.st_size}\0".encode())
        digest.update(_hash_file(path.resolve(), status.st_size, status.st_mtime_ns))
    return digest.hexdigest()


@lru_cache(maxsize=4096)
def _hash_file(file: Path, size: int, mtime_ns: int) -> bytes:
    """Hash the whole content of a file (BLAKE2b), once for each version of the file.

    A checkpoint of 15 GB takes tens of seconds, so hashes are cached. The size and the time are
    used only as keys of this cache, so that a file that has changed is hashed anew.

    Args:
        file: The file.
        size: Its size in bytes.
        mtime_ns: When the file was changed, in nanoseconds.
    """
    digest = hashlib.blake2b()
    with file.open("rb") as content:
        while block := content.read(_BLOCK_SIZE):
            digest.update(block)
    return digest.digest()
