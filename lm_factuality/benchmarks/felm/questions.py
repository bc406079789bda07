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

from lm_factuality.benchmarks.felm.rows import WITHOUT_REFERENCES, FelmRow, RowClaims
from lm_factuality.ground.errors import ConfigError
from lm_factuality.ground.packages import load_yaml
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
    """``subject`` is what the prompt called ``prompt`` is about; ``mode`` is the mode asked for, or
    ``vanilla`` if the row has no references for it; ``instructions`` is the mode whose instructions
    the authors give (their script, protocol ``code``, gives those about references though it shows
    none)."""

    prompt: str
    mode: str
    subject: Mapping[str, Any]
    instructions: str


class Questioner:
    def __init__(
        self, unit: str, mode: str, protocol: str = "paper", chunk_tokenizer: str = WORDS
    ) -> None:
        if unit not in UNITS or mode not in MODES:
            raise ConfigError(
                f"felm: unit {unit!r} and mode {mode!r}, expected one of {UNITS} and one of {MODES}"
            )
        self.unit, self.mode, self.protocol, self._chunk_tokenizer = (
            unit,
            mode,
            protocol,
            chunk_tokenizer,
        )
        token_starts(chunk_tokenizer)

    def unit_of(self, row: FelmRow) -> str:
        """Math and reasoning are judged by segments in every setting, as in the paper."""
        return "segment" if row.domain in WITHOUT_REFERENCES else self.unit

    def ask(
        self, row: FelmRow, claims: RowClaims | None = None, texts: tuple[str, ...] | None = None
    ) -> Question:
        """The question about ``row``; ``texts`` are the contents of its references if the row's own
        are not to be used."""
        unit = self.unit_of(row)
        units = [segment_text(segment, self.protocol) for segment in row.segments]
        if unit == "claim":
            if claims is None:
                raise ConfigError(
                    f"felm: row {row.index} has no claims; extract them again: lm-factuality claims"
                    " extract"
                )
            units = claims.numbered()
        links, passages = self._references(
            row, units, row.reference_texts if texts is None else texts
        )
        mode = self.mode if links or passages or self.mode == "cot" else "vanilla"
        subject = {**_subject(f"{unit}s", row, units), "links": links, "passages": passages}
        instructions = (
            self.mode if self.protocol == "code" and row.domain not in WITHOUT_REFERENCES else mode
        )
        return Question(f"felm/{unit}_{mode}", mode, subject, instructions)

    def _references(
        self, row: FelmRow, units: list[str], texts: tuple[str, ...]
    ) -> tuple[list[str], list[str]]:
        """Links or chunks of documents. Math and reasoning have none; the authors' script has them
        in no prompt."""
        if self.protocol == "code" or row.domain in WITHOUT_REFERENCES:
            return [], []
        if self.mode == "link":
            return [link.strip().rstrip(",") for link in row.references if link.strip()], []
        if self.mode == "doc":
            return [], choose(
                texts, "\n".join([row.prompt, *units]), tokenizer=self._chunk_tokenizer
            )
        return [], []


def extraction_subject(row: FelmRow) -> dict[str, Any]:
    return _subject("extract_claims", row, [segment_text(each) for each in row.segments])


_DEMONSTRATIONS = load_yaml(__package__, "prompts/demonstrations.yaml")


def _subject(kind: str, row: FelmRow, units: Sequence[str]) -> dict[str, Any]:
    demonstration = _DEMONSTRATIONS[_GROUPS.get(row.domain, "world")]
    return {
        "kind": kind,
        "question": row.prompt.strip(),
        "units": units,
        "demonstration": demonstration,
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
    """``text`` in pieces of ``size`` tokens, the last one shorter."""
    starts = token_starts(tokenizer)(text)
    borders = [*starts[::size], len(text)]
    pieces = (text[start:end].strip() for start, end in itertools.pairwise(borders))
    return [piece for piece in pieces if piece]


def choose(
    documents: Sequence[str], query: str, size: int = CHUNK_TOKENS, tokenizer: str = WORDS
) -> list[str]:
    """For each document that has any text its chunk with the highest BM25 score for ``query``; the
    first of equals."""
    chosen = []
    for chunks in filter(None, (chunk(document, size, tokenizer) for document in documents)):
        best = Searcher.of(chunks).best(query, 1) if len(chunks) > 1 else []
        chosen.append(chunks[best[0][0] if best else 0])
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
        """The authors' instructions for this row and mode, then the question and its segments byte
        for byte as their script writes them, segments without a letter blank. Claims and
        references, which it never writes, stand as in their examples. Raises ConfigError: the
        checkout lacks the file."""
        unit = "claim" if question.subject["kind"] == "claims" else "segment"
        folder = _NAMES["folders"].get(row.domain, "wk")
        instructions = self._instructions(
            f"{unit}/{folder}/{_NAMES[unit][folder][question.instructions]}"
        )
        if unit == "claim":
            text = _example(instructions, question.subject, "Claims")
        else:
            numbered = "".join(
                f"{number}. {segment_text(each, 'code')}\n"
                for number, each in enumerate(row.segments, 1)
            )
            text = f"{instructions}\n\nQuestion: {row.prompt}\nSegments: {numbered}"
        if question.subject["links"]:
            text += f"Reference Links:\n{', '.join(question.subject['links'])}\n"
        if question.subject["passages"]:
            text += "Reference doc:\n" + "\n".join(question.subject["passages"]) + "\n"
        return text

    def render_extraction(self, row: FelmRow, subject: Mapping[str, Any]) -> str:
        """The authors' instructions for the extraction of claims, then the question and its
        segments. Raises ConfigError: the checkout lacks the file."""
        folder = _NAMES["folders"].get(row.domain, "wk")
        return _example(
            self._instructions(f"claim/{folder}/claim_extract_{folder}"), subject, "Segments"
        )

    def _instructions(self, name: str) -> str:
        path = self._folder / f"{name}.txt"
        try:
            return path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"{path}: cannot be read: {error}; is this a whole checkout of hkust-nlp/felm?"
            ) from error

    def hash(self) -> str:
        """The first 16 hexadecimal digits of the SHA-256 of all prompt files of the checkout."""
        digest = hashlib.sha256()
        for path in sorted(self._folder.rglob("*.txt")):
            digest.update(
                path.relative_to(self._folder).as_posix().encode()
                + b"\0"
                + path.read_bytes()
                + b"\0"
            )
        return digest.hexdigest()[:16]


def _example(instructions: str, subject: Mapping[str, Any], name: str) -> str:
    numbered = "".join(f"{number}. {text}\n" for number, text in enumerate(subject["units"], 1))
    return f"{instructions}\n\nQuestion: {subject['question']}\n{name}: \n{numbered}"
