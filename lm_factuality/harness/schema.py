"""Replies in JSON that a server makes the model keep to (``--metadata answers=schema``).

Tasks whose answers are short ask for such replies: FELM and FACTOR for chat models. lm_eval's
clients pass the generation argument ``response_format`` on to the server.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from lm_eval.api.model import LM

from lm_factuality.ground.errors import ModelError
from lm_factuality.harness.requests import is_a

FIELD = "response_format"
"""The field of a request to a server, and the generation argument, that holds the schema."""

MIN_TOKENS = 64
"""The tokens that a JSON object with an answer of a word may take."""

# Clients of servers whose API has no such field.
_OTHER_FORMATS = ("AnthropicChat", "SGLANGGENERATEAPI")


def response_format(answer: Mapping[str, Any], fields_before: Sequence[str] = ()) -> dict[str, Any]:
    """Return the value of `FIELD` that asks for a JSON object with the key ``answer``.

    Args:
        answer: The JSON schema of the answer.
        fields_before: Keys of texts to write before the answer, such as ``thought``.
    """
    properties = {**{name: {"type": "string"} for name in fields_before}, "answer": answer}
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    json_schema = {"name": "reply", "schema": schema, "strict": True}
    return {"type": "json_schema", "json_schema": json_schema}


def ask_for_json(prompt: str, examples: Sequence[Mapping[str, Any]]) -> str:
    """Add to a prompt that the reply is to be a JSON object, such as one of the examples."""
    texts = " or ".join(json.dumps(example) for example in examples)
    return f"{prompt}\n(Write your output as a JSON object, such as {texts}, and nothing else.)"


def check_takes_schema(lm: LM) -> None:
    """Check that a model is a server whose API has `FIELD`.

    Raises:
        ModelError: It is not.
    """
    if not is_a(lm, "TemplateAPI") or any(is_a(lm, name) for name in _OTHER_FORMATS):
        raise ModelError(
            f"{type(lm).__name__} takes no JSON schema, which answers=schema asks for; use a server"
            " with OpenAI's API (local-chat-completions), or leave answers=schema out"
        )
