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
from typing import Any, Literal, get_args

from lm_factuality.benchmarks.biographies.generations import nearest_passages
from lm_factuality.benchmarks.felm.rows import (
    MODES_WITH_REFERENCES,
    PUBLISHED,
    RULES,
    WITHOUT_REFERENCES,
    FelmRow,
    RowClaims,
    read_claims,
    split_claims,
)
from lm_factuality.ground.errors import ConfigError
from lm_factuality.ground.packages import load_yaml
from lm_factuality.ground.records import read_text
from lm_factuality.harness.generation import JsonObject

Unit = Literal["segment", "claim"]
Mode = Literal["vanilla", "cot", "link", "doc"]
UNITS: tuple[Unit, ...] = get_args(Unit)
MODES: tuple[Mode, ...] = get_args(Mode)
CHUNK_TOKENS = 512
PROMPTS = "eval/prompt"  # in the authors' repository
WORDS, _TIKTOKEN = "words", "tiktoken:"
_TOKEN = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True)
class RowQuestion:
    """What a judge is asked about a row."""

    prompt: str
    """The name of the prompt."""

    mode: str
    """The mode asked for, or ``vanilla`` if the row has no references for it."""

    subject: Mapping[str, Any]
    """What the prompt is about."""


@dataclass(frozen=True)
class FelmSettings:
    """How a judge is asked about rows, and what it is told, as the metadata of a task has it."""

    unit: Unit = "segment"
    mode: Mode = "vanilla"
    protocol: Literal["paper", "code"] = "paper"
    chunk_tokenizer: str = WORDS

    claims: str = RULES
    """``rules``, or a file of ``lm-factuality claims extract``."""

    prompts: str | None = None
    """A checkout of the authors' repository, whose prompts are used. None for the suite's."""

    references: str = PUBLISHED
    """``published``, or the folder of ``lm-factuality data fetch-references``."""

    def unit_of(self, row: FelmRow) -> str:
        """Math and reasoning are judged by segments in every setting, as in the paper."""
        return "segment" if row.domain in WITHOUT_REFERENCES else self.unit

    def claims_of(self, rows: Sequence[FelmRow]) -> dict[str, RowClaims]:
        """Return the claims of the rows that are judged by claims, by the index of the row.

        Raises:
            DataError: The file of claims cannot be read.
        """
        judged = [row for row in rows if self.unit_of(row) == "claim"]
        if self.claims == RULES:
            return {row.index: split_claims(row) for row in judged}
        claims = read_claims(Path(self.claims), rows) if judged else {}
        return {row.index: claims[row.index] for row in judged if row.index in claims}

    def ask(
        self, row: FelmRow, claims: RowClaims | None = None, texts: tuple[str, ...] | None = None
    ) -> RowQuestion | None:
        """Make the question about a row.

        Args:
            row: The row.
            claims: Its claims, if claims are judged.
            texts: The contents of its references, if the row's own are not to be used.

        Returns:
            The question, or None if claims are judged and there are none.
        """
        unit = self.unit_of(row)
        units = [segment_text(segment, self.protocol) for segment in row.segments]
        if unit == "claim":
            units = claims.numbered() if claims and not claims.problem else []
        if not units:
            return None
        links: list[str] = []
        passages: list[str] = []
        shows_references = self.mode in MODES_WITH_REFERENCES
        # The authors' script shows no references.
        if shows_references and row.domain not in WITHOUT_REFERENCES and self.protocol != "code":
            if self.mode == "link":
                links = [link.strip().rstrip(",") for link in row.references if link.strip()]
            else:
                query = "\n".join([row.prompt, *units])
                texts = row.reference_texts if texts is None else texts
                passages = choose(texts, query, self.chunk_tokenizer)
        mode = "vanilla" if shows_references and not (links or passages) else self.mode
        subject = {**_subject(f"{unit}s", row, units), "links": links, "passages": passages}
        return RowQuestion(f"felm/{unit}_{mode}", mode, subject)


def extraction_subject(row: FelmRow) -> JsonObject:
    """Return what the prompt for claims is about."""
    return _subject("extract_claims", row, [segment_text(segment) for segment in row.segments])


_DEMONSTRATIONS = load_yaml(__package__, "prompts/demonstrations.yaml")


def _subject(kind: str, row: FelmRow, units: Sequence[str]) -> JsonObject:
    return {
        "kind": kind,
        "question": row.prompt.strip(),
        "units": units,
        "demonstration": _DEMONSTRATIONS.get(row.domain, _DEMONSTRATIONS["world"]),
    }


def segment_text(segment: str, protocol: str = "paper") -> str:
    """Return a segment on one line.

    By ``code`` all before its first Latin letter is dropped, which blanks segments of numbers.
    """
    if protocol == "code":
        return re.sub("^[^a-zA-Z]*", "", segment)
    return " ".join(segment.split()) or "(no text)"


@cache
def token_starts(tokenizer: str) -> Callable[[str], list[int]]:
    """Return what finds where the tokens of a text begin.

    Args:
        tokenizer: ``words``, ``tiktoken:ENCODING``, or a fast tokenizer of transformers (a folder
            or a name on the Hub).

    Raises:
        ConfigError: It cannot be loaded.
    """
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


def chunk(text: str, tokenizer: str = WORDS, size: int = CHUNK_TOKENS) -> list[str]:
    """Cut a text into pieces of ``size`` tokens, the last one shorter."""
    borders = [*token_starts(tokenizer)(text)[::size], len(text)]
    pieces = [text[start:end].strip() for start, end in itertools.pairwise(borders)]
    return list(filter(None, pieces))


def choose(documents: Sequence[str], query: str, tokenizer: str = WORDS) -> list[str]:
    """Choose from each document that has any text the chunk with the highest BM25 score.

    Of equal chunks it is the first.
    """
    chosen: list[str] = []
    for document in documents:
        chosen += nearest_passages(tuple(chunk(document, tokenizer)), query, 1)
    return chosen


_FILES = load_yaml(__package__, "authors.yaml")  # of their prompts


def authors_prompt(
    checkout: str, row: FelmRow, question: RowQuestion, settings: FelmSettings
) -> str:
    """Render the authors' instructions for a row and mode, then the row.

    The question and its segments are byte for byte as their script writes them, segments without a
    letter blank. Claims and references, which it never writes, stand as in their examples.

    Args:
        checkout: The folder of their repository.
        row: The row.
        question: What is asked about it.
        settings: How it is asked.

    Raises:
        DataError: The checkout lacks the file.
    """
    subject = question.subject
    is_claim = subject["kind"] == "claims"
    files = _FILES["claim" if is_claim else "segment"]
    # Their script gives the instructions about references though it shows none.
    is_script = settings.protocol == "code" and row.domain not in WITHOUT_REFERENCES
    mode = settings.mode if is_script else question.mode
    file = files.get(row.domain, files["wk"])[mode]
    text = read_text(Path(checkout, PROMPTS, file), "expected a checkout of hkust-nlp/felm")
    units = [segment_text(segment, "code") for segment in row.segments]
    heading, asked = "Segments: ", row.prompt
    if is_claim:
        units, heading, asked = subject["units"], "Claims: \n", subject["question"]
    numbered = "".join(f"{number}. {unit}\n" for number, unit in enumerate(units, 1))
    text += f"\n\nQuestion: {asked}\n{heading}{numbered}"
    if subject["links"]:
        text += f"Reference Links:\n{', '.join(subject['links'])}\n"
    if subject["passages"]:
        text += "Reference doc:\n" + "\n".join(subject["passages"]) + "\n"
    return text


def authors_hash(checkout: str) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 of all prompt files of a checkout."""
    folder = Path(checkout, PROMPTS)
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.txt")):
        name = path.relative_to(folder).as_posix()
        digest.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]
