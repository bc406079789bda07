"""A server whose replies fit the questions, for commands that ask a judge.

`bench.attack.commands` starts it. It replies with an object of the JSON schema that was sent, or
with words in the form that the prompt asks for.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tests.judges.server import Act, JudgeServer

DELAY = 0.01
"""The typical number of seconds until a reply."""

Schema = Mapping[str, Any]
"""A JSON schema."""

_NUMBERED_ITEM = re.compile(r"^ *\[?(\d{1,3})[.)\]:]", re.MULTILINE)
_TOWN_SENTENCE = re.compile(
    r"It was founded by two sailors from the (north) in the year \d+\."
    r"|Every autumn its \d+ houses are painted (white)[^.]*\."
)
_OPPOSITES = {"north": "south", "white": "black"}
_FELM_ANSWERS = ("Thought: one is wrong.\nAnswer: 1", "Thought: none.\nAnswer: ALL_CORRECT")
_SENTENCES = ("It was built in 1871.", "He was born there.", "The town lies on a river.")


class ReplyingServer(JudgeServer):
    """A server that always gives the same reply to the same prompt."""

    def __init__(self) -> None:
        """Start the server."""
        super().__init__(self._choose_reply)

    def _choose_reply(self, prompt: str, attempt: int) -> Act:
        """Choose the reply to a prompt, in the form that the last request's schema asks for."""
        # The prompt is the seed, so a repeated question gets the same reply.
        generator = random.Random(prompt)
        response_format = self.bodies[-1].get("response_format", {})
        schema = response_format.get("json_schema", {}).get("schema")
        delay = DELAY * generator.uniform(0.2, 2)
        if schema is None:
            return Act(text=generator.choice(_FELM_ANSWERS), delay=delay)
        if "contradictions" in schema.get("properties", {}):
            return Act(text=json.dumps(_contradict_town(prompt)), delay=delay)

        item_numbers = _NUMBERED_ITEM.findall(prompt)
        num_items = int(item_numbers[-1]) if item_numbers else 1
        value = SchemaExample(schema, generator, num_items).make()
        return Act(text=json.dumps(value), delay=delay)


def _contradict_town(prompt: str) -> dict[str, Any]:
    """Contradict the last sentence about a town in a prompt, as the schema of factor-gen asks."""
    *_, sentence = _TOWN_SENTENCE.finditer(prompt)
    old = sentence[1] or sentence[2]
    new = _OPPOSITES[old]
    contradiction = sentence[0].replace(old, new)
    edits = [{"old": old, "new": new}]
    return {"contradictions": [{"edits": edits, "contradiction": contradiction}]}


class SchemaExample:
    """Makes a random value that a JSON schema allows."""

    def __init__(self, schema: Schema, generator: random.Random, num_items: int) -> None:
        """Prepare to make a value.

        Args:
            schema: The schema, with its definitions under ``$defs``.
            generator: The source of randomness.
            num_items: The number of numbered items in the prompt. Lists of objects with a number
                get one object for each of them.
        """
        self._schema = schema
        self._definitions: Mapping[str, Schema] = schema.get("$defs", {})
        self._generator = generator
        self._num_items = num_items

    def make(self) -> Any:
        """Make a value."""
        return self._value(self._schema)

    def _value(self, schema: Schema) -> Any:
        """Make a value that a part of the schema allows."""
        schema = self._resolve(schema)
        if "anyOf" in schema:
            return self._value(self._generator.choice(schema["anyOf"]))
        if "enum" in schema:
            return self._generator.choice(schema["enum"])
        match schema.get("type"):
            case "object":
                properties = schema.get("properties", {})
                return {name: self._value(part) for name, part in properties.items()}
            case "array":
                return self._list(self._resolve(schema["items"]))
            case "integer":
                return self._generator.choice([1, 1, 2])
            case "number":
                return round(self._generator.random(), 2)
            case "boolean":
                return self._generator.random() < 0.5
            case "null":
                return None
        return self._generator.choice(_SENTENCES)

    def _resolve(self, schema: Schema) -> Schema:
        """Return the definition that a schema refers to, or else the schema itself."""
        if "$ref" not in schema:
            return schema
        name = schema["$ref"].rpartition("/")[2]
        return self._definitions[name]

    def _list(self, items: Schema) -> list[Any]:
        """Make a list of values that a schema allows."""
        # A list of lists of numbers groups the items of the prompt.
        if items.get("items", {}).get("type") == "integer":
            return self._groups_of_numbers()
        number_names = _integer_properties(items)
        if not number_names:
            return [self._value(items) for _ in range(self._generator.choice([1, 1, 2]))]

        values = []
        for number in range(1, self._num_items + 1):
            value = self._value(items)
            value[number_names[0]] = number
            values.append(value)
        return values

    def _groups_of_numbers(self) -> list[list[int]]:
        """Divide the numbers of all items into one or two groups."""
        last_of_first = self._generator.randint(1, self._num_items)
        first_group = list(range(1, last_of_first + 1))
        second_group = list(range(last_of_first + 1, self._num_items + 1))
        return [group for group in (first_group, second_group) if group]


def _integer_properties(schema: Schema) -> Sequence[str]:
    """Return the names of an object's properties that are whole numbers."""
    properties = schema.get("properties", {})
    return [name for name, part in properties.items() if part.get("type") == "integer"]
