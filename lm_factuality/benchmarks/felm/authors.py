"""The authors' own prompts, read from a checkout of their repository, none of which is in this one."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lm_factuality.benchmarks.felm.questions import Question, segment_text
from lm_factuality.benchmarks.felm.rows import FelmRow
from lm_factuality.ground.errors import ConfigError
from lm_factuality.ground.packages import load_yaml

_NAMES = load_yaml(__package__, "authors.yaml")  # of their folders and files


class AuthorsPrompts:
    """The prompts of a checkout of the authors' repository, followed by the row as their script writes it."""

    def __init__(self, checkout: Path) -> None:
        self._folder = checkout / "eval" / "prompt"
        if not self._folder.is_dir():
            raise ConfigError(f"{checkout}: has no folder eval/prompt; expected a checkout of hkust-nlp/felm")

    def render(self, row: FelmRow, question: Question) -> str:
        """The authors' instructions for this row and mode, then the question and its segments byte for byte as their script
        writes them, segments without a letter blank. Claims and references, which it never writes, stand as in their examples.
        Raises ConfigError: the checkout lacks the file."""
        unit = "claim" if question.subject["kind"] == "claims" else "segment"
        folder = _NAMES["folders"].get(row.domain, "wk")
        instructions = self._instructions(f"{unit}/{folder}/{_NAMES[unit][folder][question.instructions]}")
        if unit == "claim":
            text = _example(instructions, question.subject, "Claims")
        else:
            numbered = "".join(f"{number}. {segment_text(each, 'code')}\n" for number, each in enumerate(row.segments, 1))
            text = f"{instructions}\n\nQuestion: {row.prompt}\nSegments: {numbered}"
        if question.subject["links"]:
            text += f"Reference Links:\n{', '.join(question.subject['links'])}\n"
        if question.subject["passages"]:
            text += "Reference doc:\n" + "\n".join(question.subject["passages"]) + "\n"
        return text

    def render_extraction(self, row: FelmRow, subject: Mapping[str, Any]) -> str:
        """The authors' instructions for the extraction of claims, then the question and its segments. Raises ConfigError: the
        checkout lacks the file."""
        folder = _NAMES["folders"].get(row.domain, "wk")
        return _example(self._instructions(f"claim/{folder}/claim_extract_{folder}"), subject, "Segments")

    def _instructions(self, name: str) -> str:
        path = self._folder / f"{name}.txt"
        try:
            return path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path}: cannot be read: {error}; is this a whole checkout of hkust-nlp/felm?") from error

    def hash(self) -> str:
        """The first 16 hexadecimal digits of the SHA-256 of all prompt files of the checkout."""
        digest = hashlib.sha256()
        for path in sorted(self._folder.rglob("*.txt")):
            digest.update(path.relative_to(self._folder).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
        return digest.hexdigest()[:16]


def _example(instructions: str, subject: Mapping[str, Any], name: str) -> str:
    numbered = "".join(f"{number}. {text}\n" for number, text in enumerate(subject["units"], 1))
    return f"{instructions}\n\nQuestion: {subject['question']}\n{name}: \n{numbered}"
