"""Generation by models that may think first: a request type for lm_eval.

lm_eval applies a task's ``until`` and ``max_gen_toks`` to all that a model writes. Here they are
for what it says: nothing stops it while it thinks, and it has ``thinking_tokens`` more. Samples
hold what was written, thoughts included, up to where the answer ends by the task's limits. Tasks
read what was said (``hide_thoughts``).
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.api.model import LM

from lm_factuality.ground.errors import ConfigError, ModelError
from lm_factuality.ground.thinking import (
    ROOM_TO_THINK,
    answer_or_thoughts,
    marks_thoughts,
    opened_by,
    read_output,
    whole_texts,
)
from lm_factuality.harness.internals import internal
from lm_factuality.harness.requests import with_cache

REQUEST_TYPE = "answers_until"
SETTING = "thinking_tokens"
_BYTES_IN_TOKEN = 4  # of an answer by a model that shows no tokenizer
_MOST_TOKENS = 1_000_000


def answers_until(lm: LM, requests: Sequence[Instance]) -> list[str]:
    """Generate texts with room to think.

    Args:
        lm: Any model of lm_eval.
        requests: Their arguments are a prompt, generation arguments, and the tokens to think if
            the model is to think.

    Returns:
        What was written, up to where the answer ends.

    Raises:
        ModelError: The answer and the thoughts are too much for the model's window.
    """
    longer = [_with_room(lm, request) for request in requests]
    # Answers that are sampled are drawn anew, so no response cache has them.
    keys = [() if request.args[1].get("do_sample") else request.args for request in longer]

    def generate(places: list[int]) -> list[str]:
        if not places:
            return []
        try:
            texts: list[str] = lm.generate_until([longer[place] for place in places])
        except AssertionError as error:  # lm_eval's, where an answer alone fills the window
            if "max tokens to generate" not in str(error):
                raise
            raise ModelError(f"{error} Pass --gen_kwargs max_gen_toks=N.") from error
        for place, text in zip(places, texts, strict=True):
            if keys[place]:
                lm.cache_hook.add_partial("generate_until", keys[place], text)
        return texts

    with whole_texts(lm) as with_marks:
        texts = with_cache(lm, "generate_until", keys, generate)
    answers = []
    for text, request in zip(texts, requests, strict=True):
        written = opened_by(str(request.args[0])) + with_marks(text)
        answers.append(within_limits(lm, written, *request.args[1:]))
    return answers


def room_to_think(generation: Mapping[str, Any], tokens: int) -> dict[str, Any]:
    """Generation arguments with more tokens, under which only its own end stops a model."""
    arguments = _normalised(generation)
    return {**arguments, "until": [], "max_gen_toks": arguments["max_gen_toks"] + tokens}


def within_limits(lm: LM, written: str, generation: Mapping[str, Any], tokens: int = 0) -> str:
    """Cut a text where what it says ends by ``until`` and ``max_gen_toks``.

    Args:
        lm: The model, whose tokenizer counts.
        written: The text, with its thoughts.
        generation: lm_eval's generation arguments.
        tokens: What the model had to think. If that is 0, lm_eval has cut the text itself.
    """
    output = read_output(written)
    if not tokens or output.is_unfinished:
        return written
    limits = _normalised(generation)
    ends = [output.text.find(stop) for stop in limits["until"] if stop]
    text = output.text[: min((end for end in ends if end >= 0), default=None)]
    return output.cut(min(len(text), _length(lm, text, limits["max_gen_toks"])))


def _normalised(generation: Mapping[str, Any]) -> dict[str, Any]:
    """Generation arguments with lm_eval's defaults, under the names that it gives them."""
    arguments: dict[str, Any] = internal("lm_eval.models.utils:normalize_gen_kwargs")(
        dict(generation)
    )
    return arguments


def _length(lm: LM, text: str, tokens: int) -> int:
    """Characters in the first so many tokens of ``text``."""
    tokenizer: Any = getattr(lm, "tokenizer", None)
    if not hasattr(tokenizer, "decode"):
        return len(text.encode()[: tokens * _BYTES_IN_TOKEN].decode(errors="ignore"))
    ids = lm.tok_encode(text, add_special_tokens=False)
    if len(ids) <= tokens:
        return len(text)
    return len(tokenizer.decode(ids[:tokens]).rstrip("\ufffd"))


def _with_room(lm: LM, request: Instance) -> Instance:
    """The request with room to think, as one that lm_eval's models know.

    Raises:
        ModelError: Prompt, thoughts and answer are more than the model's window.
    """
    prompt, generation, *thinking = request.args
    if thinking:
        generation = room_to_think(generation, *thinking)
        _check_window(lm, prompt, generation["max_gen_toks"], *thinking)
    arguments = (prompt, generation)
    return Instance("generate_until", request.doc, arguments, request.idx, request.metadata)


def _check_window(lm: LM, prompt: Any, longest: int, thinking: int) -> None:
    """Raise ModelError if a prompt and ``longest`` tokens after it do not fit; servers say so."""
    window = getattr(lm, "max_length", None)
    has_tokenizer = callable(getattr(lm, "tokenizer", None))
    if not (has_tokenizer and isinstance(prompt, str) and isinstance(window, int)):
        return
    used = len(lm.tok_encode(prompt))
    if used + longest > window:
        answer = longest - thinking
        raise ModelError(
            f"{SETTING}={thinking}: with {used} tokens of a prompt and {answer} for the answer that"
            f" is more than the model's window of {window}; pass --metadata {SETTING}=N, at most"
            f" {max(0, window - used - answer)}"
        )


def thinking_tokens(task: str, metadata: Mapping[str, Any], has_template: bool) -> int:
    """The tokens that a model has to think in a run.

    ``metadata`` states them, or the model's arguments or chat template say that it thinks.

    Raises:
        ConfigError: What the metadata state is no number of tokens.
    """
    stated = metadata.get(SETTING)
    if stated is not None:
        if type(stated) is not int or not 0 <= stated <= _MOST_TOKENS:
            raise ConfigError(
                f"{task}: metadata.{SETTING}: found {stated!r}, expected a whole number of tokens,"
                " 0 for none"
            )
        return stated
    options = metadata.get("chat_template_args")
    template_options = options if isinstance(options, dict) else {}
    thinks = metadata.get("enable_thinking", template_options.get("enable_thinking"))
    if thinks is None:
        model = metadata.get("pretrained") or metadata.get("tokenizer")
        thinks = metadata.get("think_end_token") or (
            has_template and model and marks_thoughts(chat_template_of(str(model)))
        )
    return ROOM_TO_THINK if thinks else 0


@cache
def chat_template_of(model: str) -> str:
    """The chat template of a tokenizer, in a folder or on the Hub. Empty if there is none."""
    from transformers import AutoTokenizer

    try:
        template = AutoTokenizer.from_pretrained(model).chat_template
    except (OSError, ValueError):
        return ""
    return str(template or "")


@contextmanager
def hide_thoughts(instances: Sequence[Instance]) -> Iterator[None]:
    """While the block lasts, the responses of this module's requests are what was said."""
    thoughtful = [instance for instance in instances if instance.request_type == REQUEST_TYPE]
    written = [instance.resps for instance in thoughtful]
    for instance in thoughtful:
        instance.resps = [answer_or_thoughts(text) for text in instance.resps]
    try:
        yield
    finally:
        for instance, texts in zip(thoughtful, written, strict=True):
            instance.resps = texts
