"""A request type for lm_eval: texts of models that may think before they answer.

lm_eval applies a task's limits, ``until`` and ``max_gen_toks``, to the whole text that a model
writes. This request type applies them to the answer only: nothing stops the model while it thinks,
and it may write ``thinking_tokens`` more. Samples hold the thoughts and the cut answer. Tasks see
the answer alone (``hide_thoughts``).
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any, NamedTuple

from lm_eval.api.instance import Instance
from lm_eval.api.model import LM

from lm_factuality.ground.errors import ConfigError, ModelError
from lm_factuality.ground.packages import replaced
from lm_factuality.ground.thinking import (
    ROOM_TO_THINK,
    answer_or_thoughts,
    marks_thoughts,
    read_output,
    thoughts_kept,
    trailing_opening_mark,
)
from lm_factuality.harness.internals import lm_eval_part
from lm_factuality.harness.requests import request_like
from lm_factuality.harness.schema import RESPONSE_FORMAT, check_takes_schema

REQUEST_TYPE = "answers_until"
SETTING = "thinking_tokens"
_BYTES_IN_TOKEN = 4  # assumed for models that have no tokenizer
_MOST_TOKENS = 1_000_000


class TextArguments(NamedTuple):
    """The arguments of a request of the type ``answers_until``."""

    prompt: Any
    """The prompt: a text, or what lm_eval's client of a chat server takes."""

    generation_kwargs: Mapping[str, Any]
    """lm_eval's generation arguments, such as ``{"until": ["."], "max_gen_toks": 64}``."""

    thinking_tokens: int = 0
    """How many tokens the model may think. Only requests to models that think have it."""


def answers_until(lm: LM, requests: Sequence[Instance]) -> list[str]:
    """Have a model write texts, and cut each answer, but not the thoughts before it.

    For example, the stop string ``.`` cuts ``<think>I see. So</think>Yes. Or no.`` to
    ``<think>I see. So</think>Yes``.

    Args:
        lm: Any model of lm_eval.
        requests: The requests. The arguments of each are `TextArguments`.

    Returns:
        The texts in the order of the requests, with the thoughts.

    Raises:
        ModelError: Thoughts and answer together do not fit into the model's window, or the model
            takes no JSON schema, which the requests ask for.
    """
    arguments_by_request = [TextArguments(*request.args) for request in requests]
    if any(RESPONSE_FORMAT in arguments.generation_kwargs for arguments in arguments_by_request):
        check_takes_schema(lm)
    generate_requests = [_as_generate_until(lm, request) for request in requests]
    # lm_eval removes thoughts from texts. Within this block it leaves them in.
    with thoughts_kept(lm) as restore_thought_marks:
        texts = _generate(lm, generate_requests)

    responses = []
    for text, arguments in zip(texts, arguments_by_request, strict=True):
        # A chat template may end the prompt with "<think>", which then belongs to the response.
        opening_mark = trailing_opening_mark(str(arguments.prompt))
        response = opening_mark + restore_thought_marks(text)
        responses.append(
            cut_answer_at_limits(
                lm, response, arguments.generation_kwargs, arguments.thinking_tokens
            )
        )
    return responses


def _generate(lm: LM, requests: list[Instance]) -> list[str]:
    """Have a model generate the texts of ``generate_until`` requests.

    Raises:
        ModelError: An answer may be as long as the model's window, so no prompt would fit.
    """
    # Some models of lm_eval fail on an empty list.
    if not requests:
        return []
    try:
        return list(lm.generate_until(requests))
    except AssertionError as error:
        # lm_eval has no error class of its own for this case, only an assertion with this message.
        if "max tokens to generate" not in str(error):
            raise
        raise ModelError(f"{error} Pass --gen_kwargs max_gen_toks=N.") from error


def room_to_think(generation_kwargs: Mapping[str, Any], tokens: int) -> dict[str, Any]:
    """Return generation arguments with tokens to think and without stop strings.

    A stop string such as a line break would end the thoughts.

    Args:
        generation_kwargs: lm_eval's generation arguments.
        tokens: The number of tokens to think. With 1000 of them, ``{"until": ["."],
            "max_gen_toks": 64}`` becomes ``{"until": [], "max_gen_toks": 1064}``.
    """
    arguments = _normalised(generation_kwargs)
    return {**arguments, "until": [], "max_gen_toks": arguments["max_gen_toks"] + tokens}


def cut_answer_at_limits(
    lm: LM, response: str, generation_kwargs: Mapping[str, Any], thinking_tokens: int
) -> str:
    """Cut the answer in a response at the first stop string or at the task's limit of tokens.

    The thoughts before the answer are not cut. With the stop string ``.``, for example,
    ``<think>I see. So</think>Yes. Or no.`` becomes ``<think>I see. So</think>Yes``.

    Args:
        lm: The model, whose tokenizer counts the tokens.
        response: The text of the model, with its thoughts.
        generation_kwargs: lm_eval's generation arguments, with the limits ``until`` and
            ``max_gen_toks``.
        thinking_tokens: The number of tokens that the model may think. If it is 0, lm_eval has
            already cut the text.

    Returns:
        The thoughts and the cut answer; the whole text if the model never stopped thinking.
    """
    output = read_output(response)
    if not thinking_tokens or output.is_unfinished:
        return response
    limits = _normalised(generation_kwargs)
    answer = cut_at_stop(output.text, limits["until"])
    num_characters = _count_characters(lm, answer, limits["max_gen_toks"])
    return output.written_up_to(min(len(answer), num_characters))


def cut_at_stop(text: str, stops: Sequence[str]) -> str:
    """Return a text up to the first stop string in it: ``Yes. No.`` becomes ``Yes`` at ``.``."""
    # An empty stop string would be found at once, and nothing would remain of the text.
    ends = [text.find(stop) for stop in stops if stop and stop in text]
    return text[: min(ends, default=len(text))]


def _normalised(generation_kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Complete generation arguments by lm_eval's defaults, under lm_eval's names.

    Example:
        ``{"max_tokens": 9, "until": "."}`` becomes ``{"max_gen_toks": 9, "until": ["."], ...}``.
    """
    normalise = lm_eval_part("lm_eval.models.utils:normalize_gen_kwargs")
    return dict(normalise(dict(generation_kwargs)))


def _count_characters(lm: LM, text: str, num_tokens: int) -> int:
    """Count the characters in the first tokens of a text.

    Args:
        lm: The model. If it has no tokenizer, a token counts as four bytes.
        text: The text.
        num_tokens: The number of tokens.
    """
    tokenizer: Any = getattr(lm, "tokenizer", None)
    if not hasattr(tokenizer, "decode"):
        # The limit of bytes may fall within a character, whose bytes are then left out.
        first_bytes = text.encode()[: num_tokens * _BYTES_IN_TOKEN]
        return len(first_bytes.decode(errors="ignore"))

    ids = lm.tok_encode(text, add_special_tokens=False)
    # Decoded tokens are not always the same text, so a text within the limit is not decoded.
    if len(ids) <= num_tokens:
        return len(text)
    # The last token may end within a character, which is then decoded as U+FFFD.
    return len(tokenizer.decode(ids[:num_tokens]).rstrip("\ufffd"))


def _as_generate_until(lm: LM, request: Instance) -> Instance:
    """Turn a request of the type ``answers_until`` into lm_eval's ``generate_until``.

    The request to a model that thinks asks for more tokens, and has no stop strings.

    Args:
        lm: The model.
        request: A request with `TextArguments` as arguments.

    Raises:
        ModelError: Prompt, thoughts and answer do not fit into the model's window.
    """
    prompt, generation_kwargs, num_thinking_tokens = TextArguments(*request.args)
    if num_thinking_tokens:
        generation_kwargs = room_to_think(generation_kwargs, num_thinking_tokens)
        _check_window(lm, prompt, generation_kwargs["max_gen_toks"], num_thinking_tokens)
    return request_like(request, "generate_until", (prompt, generation_kwargs))


def _check_window(lm: LM, prompt: object, max_new_tokens: int, thinking_tokens: int) -> None:
    """Check that a prompt and the tokens to generate fit into the window of a local model.

    Args:
        lm: The model. Servers check this themselves.
        prompt: The prompt; only texts are checked.
        max_new_tokens: The number of tokens to generate, thoughts included.
        thinking_tokens: How many of them are for thoughts.

    Raises:
        ModelError: They do not fit. The message says how many tokens for thoughts would fit.
    """
    # A client of a server has no tokenizer that can be called, and some models have no window.
    window = getattr(lm, "max_length", None)
    has_tokenizer = callable(getattr(lm, "tokenizer", None))
    if not (has_tokenizer and isinstance(prompt, str) and isinstance(window, int)):
        return

    prompt_tokens = len(lm.tok_encode(prompt))
    if prompt_tokens + max_new_tokens > window:
        answer_tokens = max_new_tokens - thinking_tokens
        # How many tokens of the window are left for thoughts.
        room = max(0, window - prompt_tokens - answer_tokens)
        raise ModelError(
            f"{SETTING}={thinking_tokens}: with {prompt_tokens} tokens of a prompt and"
            f" {answer_tokens} for the answer that is more than the model's window of {window};"
            f" pass --metadata {SETTING}=N, at most {room}"
        )


def thinking_tokens(task: str, metadata: Mapping[str, Any], has_template: bool) -> int:
    """Return how many tokens the model may think before each answer of a task.

    Args:
        task: The name of the task, for the error.
        metadata: The task's metadata with the model's arguments. The setting ``thinking_tokens``
            wins over everything else.
        has_template: Whether the run applies the model's chat template.

    Returns:
        The setting; without it, `ROOM_TO_THINK` if the model's arguments or its chat template say
        that it thinks, and otherwise 0.

    Raises:
        ConfigError: The setting is not a number of tokens.
    """
    setting = metadata.get(SETTING)
    # The user may set 0 to give a model no room, so only a missing setting is looked up.
    if setting is None:
        return ROOM_TO_THINK if _is_thinking_model(metadata, has_template) else 0
    # True is an integer in Python, but no number of tokens.
    if type(setting) is not int or not 0 <= setting <= _MOST_TOKENS:
        raise ConfigError(
            f"{task}: metadata.{SETTING}: found {setting!r}, expected a whole number of tokens, 0"
            " for none"
        )
    return setting


def _is_thinking_model(metadata: Mapping[str, Any], has_template: bool) -> bool:
    """Tell whether a model thinks, by its arguments or the marks in its chat template.

    Args:
        metadata: The task's metadata with the model's arguments.
        has_template: Whether the run applies the model's chat template.
    """
    template_options = metadata.get("chat_template_args")
    if not isinstance(template_options, dict):
        template_options = {}
    # The switch may be an argument of the model or of its chat template.
    is_enabled = metadata.get("enable_thinking", template_options.get("enable_thinking"))
    if is_enabled is not None:
        return bool(is_enabled)
    # Users name the token that ends the thoughts only if the model writes thoughts.
    if metadata.get("think_end_token"):
        return True

    # Without a template, a model continues the prompt and does not begin to think. For a server,
    # the user may have named a tokenizer, which has the template.
    model = metadata.get("pretrained") or metadata.get("tokenizer")
    if not (has_template and model):
        return False
    return marks_thoughts(chat_template_of(str(model)))


@cache
def chat_template_of(model: str) -> str:
    """Load the chat template of a tokenizer from a folder or the Hub; empty if there is none."""
    from transformers import AutoTokenizer

    try:
        template = AutoTokenizer.from_pretrained(model).chat_template
    except (OSError, ValueError):
        # No such tokenizer. If the run needs it, lm_eval itself reports that it is missing.
        return ""
    return str(template or "")


@contextmanager
def hide_thoughts(instances: Sequence[Instance]) -> Iterator[None]:
    """Remove the thoughts from the responses of this module's requests within a ``with`` block.

    Args:
        instances: The requests, whose ``resps`` are changed and restored after the block.
    """
    with ExitStack() as stack:
        for request in instances:
            if request.request_type == REQUEST_TYPE:
                answers = [answer_or_thoughts(text) for text in request.resps]
                stack.enter_context(replaced(request, resps=answers))
        yield
