"""What a judge is asked about a row: one of eight prompts (tables 6 to 9 of the paper), and what is put into it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from lm_factuality.benchmarks.felm.claims import RowClaims
from lm_factuality.benchmarks.felm.evidence import WORDS, choose, token_starts
from lm_factuality.benchmarks.felm.rows import WITHOUT_REFERENCES, FelmRow
from lm_factuality.ground.errors import ConfigError

UNITS = ("segment", "claim")
MODES = ("vanilla", "cot", "link", "doc")
CLAIM_PROMPT = "felm/extract_claims"
_GROUPS = {"wk": "world", "writing_rec": "world", "science": "science", "math": "math", "reasoning": "reasoning"}
_DEMONSTRATIONS = Path(__file__).resolve().parent / "prompts" / "demonstrations.yaml"


@dataclass(frozen=True)
class Question:
    """``subject`` is what the prompt called ``prompt`` is about; ``mode`` is the mode asked for, or ``vanilla`` if the row has
    no references for it; ``num_units`` ids may be flagged; ``instructions`` is the mode whose instructions the authors give
    (their script, protocol ``code``, gives those about references though it shows none)."""

    prompt: str
    mode: str
    subject: Mapping[str, Any]
    num_units: int
    instructions: str


class Questioner:
    """Makes the question of each row in one setting."""

    def __init__(self, unit: str, mode: str, protocol: str = "paper", chunk_tokenizer: str = WORDS) -> None:
        if unit not in UNITS or mode not in MODES:
            raise ConfigError(f"felm: unit {unit!r} and mode {mode!r}, expected one of {UNITS} and one of {MODES}")
        self.unit, self.mode, self.protocol, self._chunk_tokenizer = unit, mode, protocol, chunk_tokenizer
        token_starts(chunk_tokenizer)
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
            "kind": f"{unit}s",
            "question": row.prompt.strip(),
            "units": units,
            "links": links,
            "passages": passages,
            "demonstration": self._demonstrations[_GROUPS.get(row.domain, "world")],
        }
        instructions = self.mode if self.protocol == "code" and row.domain not in WITHOUT_REFERENCES else mode
        return Question(f"felm/{unit}_{mode}", mode, subject, len(units), instructions)

    def _references(self, row: FelmRow, units: list[str], texts: tuple[str, ...]) -> tuple[list[str], list[str]]:
        """Links or chunks of documents. Math and reasoning have none; the authors' script has them in no prompt."""
        if self.protocol == "code" or row.domain in WITHOUT_REFERENCES:
            return [], []
        if self.mode == "link":
            return [link.strip().rstrip(",") for link in row.references if link.strip()], []
        if self.mode == "doc":
            return [], choose(texts, "\n".join([row.prompt, *units]), tokenizer=self._chunk_tokenizer)
        return [], []


def extraction_subject(row: FelmRow) -> dict[str, Any]:
    """What the prompt for the extraction of claims is about."""
    demonstrations = yaml.safe_load(_DEMONSTRATIONS.read_text(encoding="utf-8"))
    return {
        "kind": "extract_claims",
        "question": row.prompt.strip(),
        "units": [segment_text(each) for each in row.segments],
        "demonstration": demonstrations[_GROUPS.get(row.domain, "world")],
    }


def segment_text(segment: str, protocol: str = "paper") -> str:
    """A segment on one line. By ``code`` all before its first Latin letter is dropped, which blanks segments of numbers."""
    if protocol == "code":
        found = re.search("[a-zA-Z]", segment)
        return segment[found.start() :] if found else ""
    return " ".join(segment.split()) or "(no text)"
