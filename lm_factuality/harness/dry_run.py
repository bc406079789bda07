"""Estimates what a run would send and take, before its first request and without a model.

`lm-factuality run --dry-run` prints it. The tasks build their requests as in a run. Their prompts
are counted, and the lengths of answers are those that were measured (``answer_lengths.yaml``).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import ceil, prod
from pathlib import Path
from typing import Any, NamedTuple

from lm_eval.api.instance import Instance

from judges.answers import BYTES_PER_TOKEN, Prices, TokenCounter
from judges.estimates import ASSUMED_SPEED, SECONDS_PER_REQUEST, TOKENS_PER_SECOND
from lm_factuality.ground.packages import load_yaml
from lm_factuality.harness import answers, preflight, requests, rolling, thinking
from lm_factuality.harness.internals import LmEvalPart, lm_eval_part
from lm_factuality.harness.requests import is_greedy_generation
from lm_factuality.harness.suite_task import SuiteTask

_WINDOW = 2048  # tokens that a model sees at once if neither the task nor the user sets a limit
_DEFAULT_ANSWER_LIMIT = 256  # tokens that lm_eval's models generate at most, if no task says more
_PROMPT_ROWS = 512  # tokens in a matrix product that stands for reading a prompt
_MATRIX_SIZE = 2048  # rows and columns of the matrices whose products are timed
_PRODUCT_SECONDS = 0.2  # how long products are timed


@dataclass(frozen=True)
class TaskPlan:
    """What a task of a run would take. Requests that repeat an earlier one are not sent."""

    task: str
    rows: int
    requests: int
    prompt_tokens: int

    answer_tokens: int
    """The tokens of answers, if they are as long as those that were measured."""

    max_answer_tokens: int
    """The tokens of answers, if each is as long as it may be."""

    seconds: float | None
    """The estimated time; None if the model's checkpoint is not on this machine."""

    cost: float | None
    """The estimated cost in USD, with ``answer_tokens``; None without prices."""


@dataclass(frozen=True)
class RunPlan:
    """What a run would take."""

    tasks: Sequence[TaskPlan]

    counted_by: str
    """How tokens were counted, such as ``tokenizer gpt2``."""

    timed_by: str
    """How the seconds were estimated."""


class _RequestTokens(NamedTuple):
    """The numbers of tokens of one request."""

    prompt: int

    answer: int
    """The tokens of the answer, if it is as long as usual."""

    max_answer: int
    """The tokens of the answer, if it is as long as it may be."""


def plan_run(tasks: Mapping[str, SuiteTask], config: LmEvalPart, prices: Prices | None) -> RunPlan:
    """Estimate what the tasks of a run would take.

    Args:
        tasks: The tasks by name, whose requests are built here.
        config: lm_eval's configuration of the run (``EvaluatorConfig``).
        prices: The prices of the server; None if the cost is not of interest.
    """
    arguments = config.model_args
    # Nothing is sent, so a server cannot be asked for its tokenizer.
    tokenizer = arguments.get("tokenizer") or arguments.get("pretrained")
    counter = TokenCounter(str(tokenizer) if tokenizer else None)
    if preflight.is_client(config.model):
        speed = _assume_speed_of_server(arguments)
    else:
        speed = _measure_speed_of_local_model(config)
    request_counter = _RequestCounter(config.model, counter)
    plans = []
    for name, task in tasks.items():
        _build_requests(task, name, config)
        num_rows = len({instance.doc_id for instance in task.instances})
        plans.append(_plan_task(name, num_rows, request_counter.count(task), speed, prices))
    return RunPlan(plans, counter.counting_method, speed.description)


def _plan_task(
    name: str,
    num_rows: int,
    sent_requests: Sequence[_RequestTokens],
    speed: "_Speed",
    prices: Prices | None,
) -> TaskPlan:
    """Estimate what a task would take.

    Args:
        name: The name of the task.
        num_rows: The number of its rows that are run.
        sent_requests: The tokens of each request that it sends.
        speed: The speed of the model.
        prices: The prices of the server; None if the cost is not of interest.
    """
    prompt_tokens = sum(request.prompt for request in sent_requests)
    answer_tokens = sum(request.answer for request in sent_requests)
    return TaskPlan(
        task=name,
        rows=num_rows,
        requests=len(sent_requests),
        prompt_tokens=prompt_tokens,
        answer_tokens=answer_tokens,
        max_answer_tokens=sum(request.max_answer for request in sent_requests),
        seconds=speed.seconds(len(sent_requests), prompt_tokens, answer_tokens),
        cost=prices.cost(prompt_tokens, answer_tokens) if prices else None,
    )


def _build_requests(task: SuiteTask, name: str, config: LmEvalPart) -> None:
    """Store in ``task.instances`` the requests that lm_eval would send for a task in this run.

    Args:
        task: The task.
        name: The name of the task.
        config: lm_eval's configuration of the run (``EvaluatorConfig``).
    """
    if task.generates and config.gen_kwargs:
        # ``--gen_kwargs`` of the command line goes before the task's YAML.
        task.set_config(key="generation_kwargs", value=config.gen_kwargs, update=True)
    # lm_eval's own function turns ``--limit 0.1``, a share, into a number of rows. Its name depends
    # on the release.
    module = "lm_eval.evaluator_utils"
    sample_size = lm_eval_part(f"{module}:get_sample_size", f"{module}:_get_sample_size")
    samples_by_task = config.samples or {}
    task.build_all_requests(
        limit=sample_size(task, config.limit),
        samples=samples_by_task.get(name),
        system_instruction=config.system_instruction,
        apply_chat_template=bool(config.apply_chat_template),
        fewshot_as_multiturn=bool(config.fewshot_as_multiturn),
        chat_template=_join_messages if config.apply_chat_template else None,
    )


def _join_messages(messages: Sequence[Mapping[str, str]], **_: Any) -> str:
    """Join the texts of a chat. The few tokens that a template puts around them are left out."""
    return "\n".join(message["content"] for message in messages)


class _RequestCounter:
    """Counts the tokens of requests, each of which is sent once per run."""

    def __init__(self, model: str, counter: TokenCounter) -> None:
        """Begin without counted requests.

        Args:
            model: The model class, from lm_eval's ``--model``, such as ``hf``.
            counter: Counts tokens as the model's tokenizer does.
        """
        self._count_tokens = cache(counter.count)
        self._is_server = preflight.is_client(model)
        self._shares_prefixes = model == "hf-tree"
        self._counted_requests: set[str] = set()  # as JSON
        self._contexts_already_read: set[str] = set()

    def count(self, task: SuiteTask) -> list[_RequestTokens]:
        """Count the tokens of the requests that a task sends.

        A request that equals an earlier one of the run is not sent, unless its text is sampled.

        Returns:
            The tokens of each sent request.
        """
        answer_tokens = _answer_tokens(task)
        sent_requests = []
        for instance in task.instances:
            key = json.dumps([instance.request_type, instance.args], sort_keys=True, default=str)
            num_sent = instance.repeats
            if not _is_sampled(instance):
                # Without sampling, all repeats have the same answer, so one is sent.
                num_sent = 0 if key in self._counted_requests else min(1, num_sent)
                self._counted_requests.add(key)
            for _ in range(num_sent):
                sent_requests += self._count_instance(instance, answer_tokens)
        return sent_requests

    def _count_instance(self, instance: Instance, answer_tokens: int) -> list[_RequestTokens]:
        """Count the tokens that the model reads and writes for one request of lm_eval.

        Args:
            instance: The request of lm_eval.
            answer_tokens: The usual length of a text that the model generates for the task.

        Returns:
            The tokens of each input of the model. A long text, for example, is several inputs.
        """
        if instance.request_type == requests.REQUEST_TYPE:
            return [self._count_scored(*instance.args)]
        if instance.request_type == rolling.REQUEST_TYPE:
            return self._count_rolling(*instance.args)
        if instance.request_type == answers.REQUEST_TYPE:
            return self._count_word_question(answers.WordQuestion(*instance.args))
        # All other types of requests ask for a text.
        return [self._count_generated(thinking.TextArguments(*instance.args), answer_tokens)]

    def _count_generated(
        self, request: thinking.TextArguments, answer_tokens: int
    ) -> _RequestTokens:
        """Return the tokens of a request for text, whose answer usually has ``answer_tokens``."""
        prompt_tokens = self._count_tokens(request.prompt)
        limit = request.generation_kwargs.get("max_gen_toks", _DEFAULT_ANSWER_LIMIT)
        max_answer = limit + request.thinking_tokens
        return _RequestTokens(prompt_tokens, min(answer_tokens, limit), max_answer)

    def _count_word_question(self, question: answers.WordQuestion) -> list[_RequestTokens]:
        """Return the tokens of each request that a question with given answers takes.

        That is one request to a server, or two per word to a local model.
        """
        prompt_tokens = self._count_tokens(question.prompt)
        if self._is_server:
            # The server writes only as many tokens as one word may need.
            answer_tokens = answers.TOKENS_PER_WORD
            return [_RequestTokens(prompt_tokens, answer_tokens, answer_tokens)]
        # A local model scores each word, of about one token, with and without a space before it.
        return [_RequestTokens(prompt_tokens + 1, 0, 0)] * (2 * len(question.words))

    def _count_scored(self, context: str, continuation: str, window: int | None) -> _RequestTokens:
        """Return the tokens of a continuation that is scored in its context.

        Args:
            context: The context.
            continuation: The continuation.
            window: How many tokens the model may see, or None.
        """
        num_read = self._read_context(context) + self._count_tokens(continuation)
        return self._scored_tokens(min(num_read, window or _WINDOW))

    def _read_context(self, context: str) -> int:
        """Return how many tokens the model reads for a context, and remember that it was read.

        `hf-tree` reads a context once for all its continuations, so the second time it is 0.
        """
        if self._shares_prefixes and context in self._contexts_already_read:
            return 0
        self._contexts_already_read.add(context)
        return self._count_tokens(context)

    def _count_rolling(
        self, text: str, window: int | None, stride: int | None
    ) -> list[_RequestTokens]:
        """Return the tokens of each window of a text whose perplexity is measured.

        Args:
            text: The text.
            window: The size of the windows in tokens, or None for the default (`rolling`).
            stride: How many tokens each window scores, or None for the default.
        """
        longest = window or _WINDOW
        tokens = range(self._count_tokens(text))
        return [
            self._scored_tokens(len(context) + len(scored))
            for context, scored in rolling.windows(0, tokens, longest, stride or longest // 2)
        ]

    def _scored_tokens(self, num_read: int) -> _RequestTokens:
        """Return the tokens of a request that scores a text of so many tokens."""
        # A server writes one token after the text that it scores.
        num_written = int(self._is_server)
        return _RequestTokens(num_read, num_written, num_written)


def _is_sampled(instance: Instance) -> bool:
    """Tell whether a request is for a text that may differ each time."""
    generation_kwargs = instance.args[1]
    return isinstance(generation_kwargs, dict) and not is_greedy_generation(generation_kwargs)


def _answer_tokens(task: SuiteTask) -> int:
    """Return how many tokens an answer to a task usually has, by measurements of its benchmark.

    A measurement is, for example, ``{"task": "_cot", "bytes": 700}``, where ``task`` is a part of
    the task's name. If no measurement fits the task, an answer is assumed to be as long as the task
    allows.
    """
    measurements = load_yaml(__package__, "answer_lengths.yaml").get(task.declared.kind, [])
    for measurement in measurements:
        # One benchmark may have tasks with and without reasoning.
        if measurement.get("task", "") in str(task.config.task):
            return ceil(float(measurement["bytes"]) / BYTES_PER_TOKEN)
    return int((task.config.generation_kwargs or {}).get("max_gen_toks", _DEFAULT_ANSWER_LIMIT))


@dataclass(frozen=True)
class _Speed:
    """How fast a model reads and writes."""

    description: str
    """How the speed was found, for the note below the table."""

    per_request: float | None = None
    """Seconds of a request, besides its tokens. None if the speed is unknown."""

    per_prompt_token: float = 0.0
    """Seconds of each token that the model reads."""

    per_answer_token: float = 0.0
    """Seconds of each token that the model writes."""

    def seconds(self, num_requests: int, prompt_tokens: int, answer_tokens: int) -> float | None:
        """Return the seconds that requests take; None if the speed is unknown."""
        if self.per_request is None:
            return None
        return (
            num_requests * self.per_request
            + prompt_tokens * self.per_prompt_token
            + answer_tokens * self.per_answer_token
        )


def _assume_speed_of_server(model_args: Mapping[str, Any]) -> _Speed:
    """Return the speed of a usual server, which answers several requests at the same time."""
    concurrency = max(1, int(model_args.get("num_concurrent") or 1))
    return _Speed(
        f"{ASSUMED_SPEED} (assumed), {concurrency} at once",
        per_request=SECONDS_PER_REQUEST / concurrency,
        per_answer_token=1 / TOKENS_PER_SECOND / concurrency,
    )


def _measure_speed_of_local_model(config: LmEvalPart) -> _Speed:
    """Estimate the speed of a checkpoint by its size and by matrix products on this machine.

    A model mostly multiplies matrices that hold its parameters, so the time of a token is in
    proportion to their number. A model reads many tokens of a prompt at once, but writes one token
    of each text at a time, which takes longer per token.
    """
    num_parameters = _num_parameters(str(config.model_args.get("pretrained") or ""))
    if not num_parameters:
        return _Speed("unknown, because the checkpoint is not on this machine as .safetensors")
    device = str(config.model_args.get("device") or config.device or "")
    # ``auto`` and ``auto:4`` stand for a size that lm_eval finds by trials. One text is assumed.
    batch_size = str(config.batch_size or 1)
    num_texts = int(batch_size) if batch_size.isdecimal() else 1
    return _Speed(
        f"matrix products on this machine, for {num_parameters / 1e6:,.0f} million parameters;"
        " expect a factor of two",
        per_request=0.0,
        per_prompt_token=num_parameters * _seconds_per_parameter(_PROMPT_ROWS, device),
        per_answer_token=num_parameters * _seconds_per_parameter(num_texts, device),
    )


def _num_parameters(checkpoint: str) -> int:
    """Count the parameters of a checkpoint by the shapes in its .safetensors files.

    Args:
        checkpoint: A folder, or a name on the Hub. It is not downloaded.

    Returns:
        The number; 0 if this machine has no such files of the checkpoint.
    """
    from safetensors import safe_open

    folder = _checkpoint_folder(checkpoint)
    num_parameters = 0
    for path in folder.glob("*.safetensors") if folder else ():
        with safe_open(path, "pt") as weights:
            for name in weights.keys():  # noqa: SIM118  it is no mapping
                num_parameters += prod(weights.get_slice(name).get_shape())
    return num_parameters


def _checkpoint_folder(checkpoint: str) -> Path | None:
    """Return the folder of a checkpoint, which may be in the Hub's cache; None without one."""
    from huggingface_hub import try_to_load_from_cache

    folder = Path(checkpoint).expanduser()
    if folder.is_dir():
        return folder
    cached_config = try_to_load_from_cache(checkpoint, "config.json")
    return Path(cached_config).parent if isinstance(cached_config, str) else None


def _seconds_per_parameter(num_rows: int, device: str) -> float:
    """Measure how many seconds this machine takes per parameter of a model and per token.

    It multiplies matrices for a fifth of a second, which is what a model does most of the time.

    Args:
        num_rows: The number of tokens that are computed at once.
        device: The device, or empty for the GPU if there is one.
    """
    import torch
    from torch.utils.benchmark import Timer

    # lm_eval names a GPU by default, and takes the CPU if there is none.
    if not device or (device.startswith("cuda") and not torch.cuda.is_available()):
        device = "cuda" if torch.cuda.is_available() else "cpu"
    rows = torch.rand(num_rows, _MATRIX_SIZE, device=device)
    weights = torch.rand(_MATRIX_SIZE, _MATRIX_SIZE, device=device)
    timer = Timer(
        "rows @ weights",
        globals={"rows": rows, "weights": weights},
        num_threads=torch.get_num_threads(),
    )
    measurement = timer.blocked_autorange(min_run_time=_PRODUCT_SECONDS)
    return measurement.mean / (num_rows * weights.numel())
