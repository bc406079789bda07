"""What a judge is asked about a row: one of eight prompts (tables 6 to 9 of the paper), and what is put into it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from judges.felm.claims import RowClaims
from judges.felm.evidence import choose
from judges.felm.rows import WITHOUT_REFERENCES, FelmRow
from judges.templates import PROMPTS_FOLDER
from lm_factuality.errors import ConfigError

UNITS = ("segment", "claim")
MODES = ("vanilla", "cot", "link", "doc")
CLAIM_PROMPT = "felm/extract_claims"
_GROUPS = {"wk": "world", "writing_rec": "world", "science": "science", "math": "math", "reasoning": "reasoning"}
_DEMONSTRATIONS = PROMPTS_FOLDER / "felm" / "demonstrations.yaml"


@dataclass(frozen=True)
class Question:
    """``subject`` is what the prompt called ``prompt`` is about; ``mode`` is the mode asked for, less what the row has no
    references for; ``num_units`` ids may be flagged."""

    prompt: str
    mode: str
    subject: Mapping[str, Any]
    num_units: int


class Questioner:
    """Makes the question of each row in one setting."""

    def __init__(self, unit: str, mode: str, protocol: str = "paper") -> None:
        if unit not in UNITS or mode not in MODES:
            raise ConfigError(f"felm: unit {unit!r} and mode {mode!r}, expected one of {UNITS} and one of {MODES}")
        self.unit, self.mode, self.protocol = unit, mode, protocol
        self._demonstrations: dict[str, Any] = yaml.safe_load(_DEMONSTRATIONS.read_text(encoding="utf-8"))

    def unit_of(self, row: FelmRow) -> str:
        """Math and reasoning are judged by segments in every setting, as in the paper."""
        return "segment" if row.domain in WITHOUT_REFERENCES else self.unit

    def ask(self, row: FelmRow, claims: RowClaims | None = None, texts: tuple[str, ...] | None = None) -> Question:
        """The question about ``row``; ``texts`` are the contents of its references if the row's own are not to be used."""
        unit = self.unit_of(row)
        units = [segment_text(segment, self.protocol) for segment in row.segments]
        if unit == "claim":
            if claims is None:
                raise ConfigError(f"felm: row {row.index} has no claims; give --metadata claims=FILE or claims=rules")
            units = claims.numbered()
        links, passages = self._references(row, units, row.reference_texts if texts is None else texts)
        mode = self.mode if links or passages or self.mode == "cot" else "vanilla"
        subject = {
            "kind": f"{unit}s", "question": row.prompt.strip(), "units": units, "links": links, "passages": passages,
            "demonstration": self._demonstrations[_GROUPS.get(row.domain, "world")],
        }  # fmt: skip
        return Question(f"felm/{unit}_{mode}", mode, subject, len(units))

    def _references(self, row: FelmRow, units: list[str], texts: tuple[str, ...]) -> tuple[list[str], list[str]]:
        """Links or chunks of documents. The authors' script has them in no prompt."""
        if self.protocol == "code":
            return [], []
        if self.mode == "link":
            return [link.strip().rstrip(",") for link in row.references if link.strip()], []
        if self.mode == "doc":
            return [], choose(texts, "\n".join([row.prompt, *units]))
        return [], []


def extraction_subject(row: FelmRow) -> dict[str, Any]:
    """What the prompt for the extraction of claims is about."""
    demonstrations = yaml.safe_load(_DEMONSTRATIONS.read_text(encoding="utf-8"))
    return {
        "kind": "extract_claims", "question": row.prompt.strip(), "units": [segment_text(each) for each in row.segments],
        "demonstration": demonstrations[_GROUPS.get(row.domain, "world")],
    }  # fmt: skip


def segment_text(segment: str, protocol: str = "paper") -> str:
    """A segment on one line. By ``code`` all before its first Latin letter is dropped, which blanks segments of numbers."""
    if protocol == "code":
        found = re.search("[a-zA-Z]", segment)
        return segment[found.start() :] if found else ""
    return " ".join(segment.split()) or "(no text)"


class AuthorsPrompts:
    """The prompts of a checkout of the authors' repository, followed by the row as their script writes it."""

    _FOLDERS = {"wk": "wk", "writing_rec": "wk", "science": "sci", "math": "math", "reasoning": "reasoning"}
    _SEGMENT_FILES = {
        "wk": {"vanilla": "prompt_wk_raw", "cot": "prompt_wk_cot", "link": "prompt_wk_ret_link", "doc": "prompt_wk_ret_content"},
        "sci": {"vanilla": "prompt_sci_raw", "cot": "prompt_sci_cot", "link": "prompt_sci_ret_link", "doc": "prompt_sci_ret_content"},
        "math": {"vanilla": "raw", "cot": "cot"}, "reasoning": {"vanilla": "raw", "cot": "cot"},
    }  # fmt: skip
    _CLAIM_FILES = {
        "wk": {"vanilla": "claim_wk", "cot": "claim_wk_cot", "link": "claim_wk_link", "doc": "claim_wk_content"},
        "sci": {"vanilla": "claim_science", "cot": "claim_science_cot", "link": "claim_sci_link", "doc": "claim_sci_content"},
    }  # fmt: skip

    def __init__(self, checkout: Path) -> None:
        self._folder = checkout / "eval" / "prompt"
        if not self._folder.is_dir():
            raise ConfigError(f"{checkout}: has no folder eval/prompt; expected a checkout of hkust-nlp/felm")

    def render(self, row: FelmRow, question: Question) -> str:
        """The authors' instructions for this row and mode, then the question, its units and its references.

        Raises:
            ConfigError: the checkout lacks the file.
        """
        unit = "claim" if question.subject["kind"] == "claims" else "segment"
        folder = self._FOLDERS.get(row.domain, "wk")
        names = (self._CLAIM_FILES if unit == "claim" else self._SEGMENT_FILES)[folder]
        path = self._folder / unit / folder / f"{names[question.mode]}.txt"
        try:
            instructions = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path}: cannot be read: {error}; is this a whole checkout of hkust-nlp/felm?") from error
        numbered = "".join(f"{number}. {text}\n" for number, text in enumerate(question.subject["units"], 1))
        parts = [f"{instructions}\n\nQuestion: {question.subject['question']}\n{unit.capitalize()}s: \n{numbered}"]
        if question.subject["links"]:
            parts.append(f"Reference Links: {', '.join(question.subject['links'])}\n")
        if question.subject["passages"]:
            parts.append("Reference doc:\n" + "\n".join(question.subject["passages"]) + "\n")
        return "".join(parts)
