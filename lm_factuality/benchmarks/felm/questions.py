"""What a judge is asked about a row: one of eight prompts (tables 6 to 9 of the paper), and what is
put into it.

Reference documents (appendix D) are cut into chunks of 512 tokens, of which BM25 chooses the one
nearest to the question and the answer. The paper does not say whose tokens: with OpenAI's judges
``tiktoken:cl100k_base`` is the likeliest, which has to be downloaded; of ``words``, the default, a
token is a run of letters and digits or one other sign."""

import hashlib
import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from lm_factuality.benchmarks.felm.rows import (
    MODES_WITH_REFERENCES,
    WITHOUT_REFERENCES,
    FelmRow,
    RowClaims,
)
from lm_factuality.ground.errors import ConfigError
from lm_factuality.ground.packages import load_yaml
from lm_factuality.harness.generation import JsonObject
from lm_factuality.retrieval.bm25 import Searcher

UNITS = ("segment", "claim")
MODES = ("vanilla", "cot", "link", "doc")
_GROUPS = {
    "wk": "world",
    "writing_rec": "world",
    "science": "science",
    "math": "math",
    "reasoning": "reasoning",
}
CHUNK_TOKENS = 512
WORDS, _TIKTOKEN = "words", "tiktoken:"
_TOKEN = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True)
class Question:
    """What a judge is asked about a row."""

    prompt: str
    """The name of the prompt."""

    mode: str
    """The mode asked for, or ``vanilla`` if the row has no references for it."""

    subject: Mapping[str, Any]
    """What the prompt is about."""

    instructions: str
    """The mode whose instructions the authors give.

    Their script (protocol ``code``) gives those about references though it shows none.
    """


@dataclass(frozen=True)
class Questioner:
    """Makes the questions of one setting."""

    unit: str
    mode: str
    protocol: str = "paper"
    chunk_tokenizer: str = WORDS

    def __post_init__(self) -> None:
        """Check the setting.

        Raises:
            ConfigError: There is no such unit, mode or tokenizer.
        """
        if self.unit not in UNITS or self.mode not in MODES:
            raise ConfigError(
                f"felm: unit {self.unit!r} and mode {self.mode!r}, expected one of {UNITS} and one"
                f" of {MODES}"
            )
        token_starts(self.chunk_tokenizer)

    def unit_of(self, row: FelmRow) -> str:
        """Math and reasoning are judged by segments in every setting, as in the paper."""
        return "segment" if row.domain in WITHOUT_REFERENCES else self.unit

    def ask(
        self, row: FelmRow, claims: RowClaims | None = None, texts: tuple[str, ...] | None = None
    ) -> Question:
        """Make the question about a row.

        Args:
            row: The row.
            claims: Its claims, if claims are judged.
            texts: The contents of its references, if the row's own are not to be used.
        """
        unit = self.unit_of(row)
        units = [segment_text(segment, self.protocol) for segment in row.segments]
        if unit == "claim":
            if claims is None:
                raise ConfigError(
                    f"felm: row {row.index} has no claims; extract them again: lm-factuality claims"
                    " extract"
                )
            units = claims.numbered()
        links: list[str] = []
        passages: list[str] = []
        mode, instructions = self.mode, self.mode
        if mode in MODES_WITH_REFERENCES:
            has_references = row.domain not in WITHOUT_REFERENCES
            # The authors' script shows no references, but gives the instructions about them.
            is_script = self.protocol == "code"
            if has_references and not is_script:
                links, passages = self._references(row, units, texts)
            mode = mode if links or passages else "vanilla"
            instructions = self.mode if has_references and is_script else mode
        subject = {**_subject(f"{unit}s", row, units), "links": links, "passages": passages}
        return Question(f"felm/{unit}_{mode}", mode, subject, instructions)

    def _references(
        self, row: FelmRow, units: Sequence[str], texts: tuple[str, ...] | None
    ) -> tuple[list[str], list[str]]:
        """Return the links, or the chunks of documents."""
        if self.mode == "link":
            return [link.strip().rstrip(",") for link in row.references if link.strip()], []
        query = "\n".join([row.prompt, *units])
        texts = row.reference_texts if texts is None else texts
        return [], choose(texts, query, tokenizer=self.chunk_tokenizer)


def extraction_subject(row: FelmRow) -> JsonObject:
    """Return what the prompt for claims is about."""
    return _subject("extract_claims", row, [segment_text(segment) for segment in row.segments])


_DEMONSTRATIONS = load_yaml(__package__, "prompts/demonstrations.yaml")


def _subject(kind: str, row: FelmRow, units: Sequence[str]) -> JsonObject:
    return {
        "kind": kind,
        "question": row.prompt.strip(),
        "units": units,
        "demonstration": _DEMONSTRATIONS[_GROUPS.get(row.domain, "world")],
    }


def segment_text(segment: str, protocol: str = "paper") -> str:
    """A segment on one line. By ``code`` all before its first Latin letter is dropped, which blanks
    segments of numbers."""
    if protocol == "code":
        found = re.search("[a-zA-Z]", segment)
        return segment[found.start() :] if found else ""
    return " ".join(segment.split()) or "(no text)"


@cache
def token_starts(tokenizer: str) -> Callable[[str], list[int]]:
    """Where the tokens of a text begin: by ``words``, by ``tiktoken:ENCODING``, or by a fast
    tokenizer of transformers (a folder or a name on the Hub). Raises ConfigError: it cannot be
    loaded."""
    if tokenizer == WORDS:
        return lambda text: [match.start() for match in _TOKEN.finditer(text)]
    try:
        if tokenizer.startswith(_TIKTOKEN):
            import tiktoken

            encoding = tiktoken.get_encoding(tokenizer.removeprefix(_TIKTOKEN))
            return lambda text: encoding.decode_with_offsets(
                encoding.encode(text, disallowed_special=())
            )[1]
        from transformers import AutoTokenizer

        fast = AutoTokenizer.from_pretrained(tokenizer, use_fast=True)
        fast("", return_offsets_mapping=True)
    except (ImportError, OSError, ValueError, NotImplementedError) as error:
        raise ConfigError(
            f"chunk_tokenizer {tokenizer!r} cannot be loaded: {' '.join(str(error).split())};"
            f" expected {WORDS}, {_TIKTOKEN}cl100k_base, or a fast tokenizer"
        ) from error
    return lambda text: [
        start
        for start, _ in fast(
            text, add_special_tokens=False, return_offsets_mapping=True, verbose=False
        )["offset_mapping"]
    ]


def chunk(text: str, size: int = CHUNK_TOKENS, tokenizer: str = WORDS) -> list[str]:
    """Cut a text into pieces of ``size`` tokens, the last one shorter."""
    borders = [*token_starts(tokenizer)(text)[::size], len(text)]
    pieces = [text[start:end].strip() for start, end in itertools.pairwise(borders)]
    return list(filter(None, pieces))


def choose(
    documents: Sequence[str], query: str, size: int = CHUNK_TOKENS, tokenizer: str = WORDS
) -> list[str]:
    """Choose from each document that has any text the chunk with the highest BM25 score.

    Of equal chunks it is the first.
    """
    chosen = []
    for document in documents:
        chunks = chunk(document, size, tokenizer)
        best = Searcher.of(chunks).best(query, 1) if len(chunks) > 1 else []
        place = best[0][0] if best else 0
        chosen += chunks[place : place + 1]
    return chosen


_NAMES = load_yaml(__package__, "authors.yaml")  # of their folders and files


class AuthorsPrompts:
    """The prompts of a checkout of the authors' repository, followed by the row as their script
    writes it."""

    def __init__(self, checkout: Path) -> None:
        self._folder = checkout / "eval" / "prompt"
        if not self._folder.is_dir():
            raise ConfigError(
                f"{checkout}: has no folder eval/prompt; expected a checkout of hkust-nlp/felm"
            )

    def render(self, row: FelmRow, question: Question) -> str:
        """Render the authors' instructions for this row and mode, then the row.

        The question and its segments are byte for byte as their script writes them, segments
        without a letter blank. Claims and references, which it never writes, stand as in their
        examples.

        Raises:
            ConfigError: The checkout lacks the file.
        """
        subject = question.subject
        is_claim = subject["kind"] == "claims"
        unit = "claim" if is_claim else "segment"
        folder = _NAMES["folders"].get(row.domain, "wk")
        name = _NAMES[unit][folder][question.instructions]
        path = self._folder / unit / folder / f"{name}.txt"
        try:
            instructions = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"{path}: cannot be read: {error}; is this a whole checkout of hkust-nlp/felm?"
            ) from error
        units = [segment_text(segment, "code") for segment in row.segments]
        heading, asked = "Segments: ", row.prompt
        if is_claim:
            units, heading, asked = subject["units"], "Claims: \n", subject["question"]
        numbered = "".join(f"{number}. {text}\n" for number, text in enumerate(units, 1))
        text = f"{instructions}\n\nQuestion: {asked}\n{heading}{numbered}"
        if subject["links"]:
            text += f"Reference Links:\n{', '.join(subject['links'])}\n"
        if subject["passages"]:
            text += "Reference doc:\n" + "\n".join(subject["passages"]) + "\n"
        return text

    def hash(self) -> str:
        """Return the first 16 hexadecimal digits of the SHA-256 of all prompt files."""
        digest = hashlib.sha256()
        for path in sorted(self._folder.rglob("*.txt")):
            name = path.relative_to(self._folder).as_posix()
            digest.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
        return digest.hexdigest()[:16]
