"""A server that replies as the question wants it: an object of the schema that was sent, or words
in the form of the prompt."""

from __future__ import annotations

import json
import random
import re
from typing import Any

from tests.judges.server import Act, JudgeServer

DELAY = 0.01  # seconds an answer takes


class Replying(JudgeServer):
    """The reply to a prompt is always the same."""

    def __init__(self) -> None:
        super().__init__(self._say)

    def _say(self, prompt: str, attempt: int) -> Act:
        draws = random.Random(prompt)
        wanted = self.bodies[-1].get("response_format", {}).get("json_schema", {}).get("schema")
        delay = DELAY * draws.uniform(0.2, 2)
        if wanted is None:
            return Act(
                text=draws.choice(
                    ["Thought: one is wrong.\nAnswer: 1", "Thought: none.\nAnswer: ALL_CORRECT"]
                ),
                delay=delay,
            )
        if "contradictions" in wanted.get("properties", {}):
            return Act(text=json.dumps(_edited(prompt)), delay=delay)
        numbered = [int(number) for number in _NUMBERED.findall(prompt)]
        return Act(
            text=json.dumps(
                example(wanted, wanted.get("$defs", {}), draws, numbered[-1] if numbered else 1)
            ),
            delay=delay,
        )


_TOWN = re.compile(
    r"It was founded by two sailors from the (north) in the year \d+\.|Every autumn its \d+ houses are painted (white)[^.]*\."
)


def _edited(prompt: str) -> dict[str, Any]:
    """A contradiction of the last sentence on a town."""
    *_, found = _TOWN.finditer(prompt)
    old = found[1] or found[2]
    new = {"north": "south", "white": "black"}[old]
    return {
        "contradictions": [
            {"edits": [{"old": old, "new": new}], "contradiction": found[0].replace(old, new)}
        ]
    }


_NUMBERED = re.compile(r"^ *\[?(\d{1,3})[.)\]:]", re.MULTILINE)


def example(schema: Any, named: Any, draws: random.Random, count: int) -> Any:
    """Some value that ``schema`` allows, with an entry for each of ``count`` things that are asked
    about by their numbers."""
    if "$ref" in schema:
        return example(named[schema["$ref"].rpartition("/")[2]], named, draws, count)
    if "anyOf" in schema:
        return example(draws.choice(schema["anyOf"]), named, draws, count)
    if "enum" in schema:
        return draws.choice(schema["enum"])
    match schema.get("type"):
        case "object":
            return {
                name: example(each, named, draws, count)
                for name, each in schema.get("properties", {}).items()
            }
        case "array":
            items = schema["items"]
            items = named[items["$ref"].rpartition("/")[2]] if "$ref" in items else items
            if items.get("items", {}).get("type") == "integer":  # groups of numbers
                cut = draws.randint(1, count)
                return [
                    group
                    for group in (list(range(1, cut + 1)), list(range(cut + 1, count + 1)))
                    if group
                ]
            number = [
                name
                for name, each in items.get("properties", {}).items()
                if each.get("type") == "integer"
            ]
            if number:
                return [
                    example(items, named, draws, count) | {number[0]: each}
                    for each in range(1, count + 1)
                ]
            return [example(items, named, draws, count) for _ in range(draws.choice([1, 1, 2]))]
        case "integer":
            return draws.choice([1, 1, 2])
        case "number":
            return round(draws.random(), 2)
        case "boolean":
            return draws.random() < 0.5
        case "null":
            return None
    return draws.choice(
        ["It was built in 1871.", "He was born there.", "The town lies on a river."]
    )
