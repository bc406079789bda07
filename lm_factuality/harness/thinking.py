"""Generation by models that may think first: a request type for lm_eval, and the one place where
what was thought is taken off.

lm_eval applies a task's ``until`` and ``max_gen_toks`` to all that a model writes. Here they are
for what it says: nothing stops it while it thinks, and it has ``thinking_tokens`` more. Samples
hold what was written, thoughts included, up to where the answer ends by the task's limits; tasks
read what was said (``hide_thoughts``)."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.api.model import LM

from judges.backends.thinking import ROOM_TO_THINK, whole_texts
from lm_factuality.ground.errors import ConfigError, ModelError
from lm_factuality.ground.thinking import marks_thoughts, opened_by, read_output, said
from lm_factuality.harness.internals import internal

REQUEST_TYPE = "answers_until"
SETTING = "thinking_tokens"
_BYTES_A_TOKEN = 4  # of an answer by a model that shows no tokenizer
_MOST = 1_000_000


def answers_until(lm: LM, requests: Sequence[Instance]) -> list[str]:
    """What is written for (prompt, generation arguments, tokens to think if any). Raises
    ModelError: too much for the window."""
    asked = [_with_room(lm, each) for each in requests]
    cache_of, hash_args = (
        getattr(lm.cache_hook, "dbdict", None),
        internal("lm_eval.api.model:hash_args"),
    )
    names = [
        "" if each.args[1].get("do_sample") else hash_args("generate_until", each.args)
        for each in asked
    ]
    texts = {
        place: cache_of[name]
        for place, name in enumerate(names)
        if cache_of is not None and name and name in cache_of
    }
    missing = [place for place in range(len(asked)) if place not in texts]
    with whole_texts(lm) as known:
        try:
            texts |= zip(
                missing,
                lm.generate_until([asked[place] for place in missing]) if missing else (),
                strict=True,
            )
        except AssertionError as error:  # of lm_eval's, where an answer alone may fill the window
            if "max tokens to generate" not in str(error):
                raise
            raise ModelError(f"{error} Pass --gen_kwargs max_gen_toks=N.") from error
    if cache_of is not None and missing:
        cache_of.update({names[place]: texts[place] for place in missing if names[place]})
    written = [
        opened_by(str(each.args[0])) + known(texts[place]) for place, each in enumerate(asked)
    ]
    return [
        within_limits(lm, text, *each.args[1:])
        for text, each in zip(written, requests, strict=True)
    ]


LM.answers_until = (
    answers_until  # the evaluator calls a request type as the model's method of that name
)


def room_to_think(generation: Mapping[str, Any], tokens: int) -> dict[str, Any]:
    """Generation arguments with so many tokens more, under which nothing stops a model but its own
    end."""
    found: dict[str, Any] = internal("lm_eval.models.utils:normalize_gen_kwargs")(dict(generation))
    return {**found, "until": [], "max_gen_toks": found["max_gen_toks"] + tokens}


def within_limits(lm: LM, written: str, generation: Mapping[str, Any], tokens: int = 0) -> str:
    """``written`` up to where what it says ends by ``until`` and ``max_gen_toks``, if there were
    ``tokens`` to think."""
    output = read_output(written)
    if not tokens or output.is_unfinished:
        return written
    limits = internal("lm_eval.models.utils:normalize_gen_kwargs")(dict(generation))
    found = [output.text.find(stop) for stop in limits["until"] if stop]
    text = output.text[: min((place for place in found if place >= 0), default=None)]
    return output.cut(min(len(text), _length(lm, text, limits["max_gen_toks"])))


def _length(lm: LM, text: str, tokens: int) -> int:
    tokenizer: Any = getattr(lm, "tokenizer", None)
    if tokenizer is None or not hasattr(tokenizer, "decode"):
        return len(text.encode()[: tokens * _BYTES_A_TOKEN].decode(errors="ignore"))
    ids = lm.tok_encode(text, add_special_tokens=False)
    return len(text) if len(ids) <= tokens else len(tokenizer.decode(ids[:tokens]).rstrip("\ufffd"))


def _with_room(lm: LM, request: Instance) -> Instance:
    prompt, generation, *thinking = request.args
    if thinking:
        generation = room_to_think(generation, *thinking)
        window, is_local = getattr(lm, "max_length", None), callable(getattr(lm, "tokenizer", None))
        used = len(lm.tok_encode(prompt)) if is_local and isinstance(prompt, str) else 0
        if used and isinstance(window, int) and used + generation["max_gen_toks"] > window:
            most = max(0, window - used - generation["max_gen_toks"] + thinking[0])
            raise ModelError(
                f"{SETTING}={thinking[0]}: with {used} tokens of a prompt and"
                f" {generation['max_gen_toks'] - thinking[0]} for the answer that is more than the"
                f" model's window of {window}; pass --metadata {SETTING}=N, at most {most}"
            )
    return Instance(
        "generate_until", request.doc, (prompt, generation), request.idx, request.metadata
    )


def thinking_tokens(task: str, metadata: Mapping[str, Any], has_template: bool) -> int:
    """The tokens to think of a run: ``metadata`` says it, or the model's arguments or chat template
    that the model thinks. Raises ConfigError: what the metadata says is no number of tokens."""
    given = metadata.get(SETTING)
    if given is not None:
        if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given <= _MOST:
            raise ConfigError(
                f"{task}: metadata.{SETTING}: found {given!r}, expected a whole number of tokens, 0"
                " for none"
            )
        return given
    options = metadata.get("chat_template_args")
    wanted = {**(options if isinstance(options, dict) else {}), **metadata}.get("enable_thinking")
    if wanted is not None:
        return ROOM_TO_THINK if wanted else 0
    model = metadata.get("pretrained") or metadata.get("tokenizer")
    thinks = metadata.get("think_end_token") or (
        has_template and model and marks_thoughts(chat_template_of(str(model)))
    )
    return ROOM_TO_THINK if thinks else 0


@cache
def chat_template_of(model: str) -> str:
    """The chat template of a tokenizer, in a folder or on the Hub; empty where there is none."""
    from transformers import AutoTokenizer

    try:
        template = AutoTokenizer.from_pretrained(model).chat_template
    except (OSError, ValueError):
        return ""
    return str(template or "")


@contextlib.contextmanager
def hide_thoughts(instances: Sequence[Instance]) -> Iterator[None]:
    """While it lasts, the responses of this module's requests are what was said; afterwards what
    was written again."""
    written = [(each, each.resps) for each in instances if each.request_type == REQUEST_TYPE]
    for each, texts in written:
        each.resps = [said(text) for text in texts]
    try:
        yield
    finally:
        for each, texts in written:
            each.resps = texts
