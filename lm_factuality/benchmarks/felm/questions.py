"""The questions that a judge is asked about a FELM row (tables 6 to 9 and appendix D of the paper).

FELM's tasks and certificates build prompts here; FELM-gen uses the choice of reference passages.
"""

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
"""What the judge decides about, one by one: the segments of an answer, or the claims in them."""

Mode = Literal["vanilla", "cot", "link", "doc"]
"""How the judge is asked: plainly, with reasoning, with links, or with passages of documents."""

UNITS: tuple[Unit, ...] = get_args(Unit)
MODES: tuple[Mode, ...] = get_args(Mode)

CHUNK_TOKENS = 512
"""The length of a chunk of a reference document (appendix D of the paper)."""

PROMPTS_FOLDER = "eval/prompt"
"""The folder of the prompts in the authors' repository."""

WORDS = "words"
"""The tokenizer for chunks that counts words and punctuation marks."""

_TIKTOKEN_PREFIX = "tiktoken:"
"""The beginning of a tokenizer's name that stands for an encoding of tiktoken.

The paper does not name the tokenizer of its 512-token chunks. ``tiktoken:cl100k_base``, the one of
its judges, is the likeliest, but has to be downloaded.
"""

_TOKEN = re.compile(r"\w+|[^\w\s]")
_DEMONSTRATIONS = load_yaml(__package__, "prompts/demonstrations.yaml")

# The authors' prompt file of each unit, domain and mode.
_AUTHORS_FILES = load_yaml(__package__, "authors.yaml")


@dataclass(frozen=True)
class RowQuestion:
    """The question to a judge about one row."""

    prompt: str
    """The name of the prompt template, such as ``felm/segment_cot``."""

    mode: str
    """The mode that was asked for, or ``vanilla`` if the row lacks the references for it."""

    subject: Mapping[str, Any]
    """The variables of the template, such as ``question``, ``units`` and ``passages``."""


@dataclass(frozen=True)
class FelmSettings:
    """How a judge is asked about FELM's rows. A task has these settings in its metadata."""

    unit: Unit = "segment"
    """Whether the judge sees segments or claims."""

    mode: Mode = "vanilla"
    """The kind of prompt."""

    protocol: Literal["chat", "paper", "code"] = "chat"
    """How outputs are read (see `verdicts.read_verdict`).

    ``code`` also follows the authors' script where its prompts differ from the paper's text.
    """

    answers: Literal["auto", "words", "schema"] = "auto"
    """``schema`` to have a server make the model answer in JSON. The others read its words."""

    chunk_tokenizer: str = WORDS
    """The tokenizer that measures chunks (see `make_token_finder`)."""

    claims: str = RULES
    """``rules``, or the path of a file written by ``lm-factuality claims extract``."""

    prompts: str | None = None
    """A checkout of the authors' repository, whose prompts are used. None for the suite's own."""

    references: str = PUBLISHED
    """``published``, or the folder filled by ``lm-factuality data fetch-references``."""

    def unit_for(self, row: FelmRow) -> str:
        """Return the unit for a row. Math and reasoning always use segments, as in the paper."""
        return "segment" if row.domain in WITHOUT_REFERENCES else self.unit

    def load_claims(self, rows: Sequence[FelmRow]) -> dict[str, RowClaims]:
        """Load the claims of the rows that are judged by claims, or make them by rules.

        Args:
            rows: All rows of the task. Rows that are judged by segments need no claims.

        Returns:
            The claims by the index of the row. Rows that the file of claims lacks are left out.

        Raises:
            DataError: The file of claims cannot be read.
        """
        rows_with_claims = [row for row in rows if self.unit_for(row) == "claim"]
        if not rows_with_claims:
            return {}
        if self.claims == RULES:
            return {row.index: split_claims(row) for row in rows_with_claims}

        # Otherwise the setting is the path of a file. A row that the file lacks stays unscored.
        claims_in_file = read_claims(Path(self.claims), rows)
        indices = {row.index for row in rows_with_claims}
        return {index: claims for index, claims in claims_in_file.items() if index in indices}

    def make_question(
        self,
        row: FelmRow,
        claims: RowClaims | None = None,
        reference_texts: tuple[str, ...] | None = None,
    ) -> RowQuestion | None:
        """Make the question that asks a judge which units of a row's answer contain errors.

        Units are segments or claims. In mode ``link`` the question shows the links that the row
        cites, and in mode ``doc`` the passage of each linked document that fits best.

        Args:
            row: The row.
            claims: The claims of the row. Only needed if claims are judged.
            reference_texts: The documents to quote in mode ``doc``. None for the row's own.

        Returns:
            The question, or None if claims are judged and the row has none.
        """
        unit = self.unit_for(row)
        units: list[str] = []
        if unit == "segment":
            units = [format_segment(segment, self.protocol) for segment in row.segments]
        elif claims and not claims.problem:
            units = claims.all_claims()
        # The file of claims may lack the row, and a judge may have failed to extract any.
        if not units:
            return None

        references = self._references_to_show(row, units, reference_texts)
        # A prompt that announces references and then shows none would confuse the judge. A row
        # without references is asked plainly instead.
        lacks_references = self.mode in MODES_WITH_REFERENCES and not any(references.values())
        mode = "vanilla" if lacks_references else self.mode
        subject = {**_template_variables(f"{unit}s", row, units), **references}
        return RowQuestion(f"felm/{unit}_{mode}", mode, subject)

    def _references_to_show(
        self, row: FelmRow, units: Sequence[str], reference_texts: tuple[str, ...] | None
    ) -> dict[str, list[str]]:
        """Choose the references that the prompt about a row shows.

        Args:
            row: The row.
            units: The segments or claims that the prompt shows.
            reference_texts: The documents to quote in mode ``doc``. None for the row's own.

        Returns:
            The template's variables ``links`` (used in mode ``link``) and ``passages`` (in mode
            ``doc``). Both lists are empty if there is nothing to show.
        """
        references: dict[str, list[str]] = {"links": [], "passages": []}
        # Math and reasoning have no references, and the authors' script shows none in any mode.
        if row.domain in WITHOUT_REFERENCES or self.protocol == "code":
            return references

        if self.mode == "link":
            # Some published links end with the comma of the list that they were copied from.
            links = [link.strip().rstrip(",") for link in row.references if link.strip()]
            references["links"] = links
        elif self.mode == "doc":
            # Fetched pages, if there are any, replace the texts in the published file.
            documents = row.reference_texts if reference_texts is None else reference_texts
            query = "\n".join([row.prompt, *units])
            references["passages"] = best_chunks(documents, query, self.chunk_tokenizer)
        return references


def claim_extraction_subject(row: FelmRow) -> JsonObject:
    """Return the variables of the prompt that asks a judge to extract the claims of a row."""
    segments = [format_segment(segment) for segment in row.segments]
    return _template_variables("extract_claims", row, segments)


def _template_variables(kind: str, row: FelmRow, units: Sequence[str]) -> JsonObject:
    """Return the variables that all prompts about a row have.

    Args:
        kind: The kind of question: ``segments``, ``claims`` or ``extract_claims``.
        row: The row.
        units: The segments or claims to list in the prompt.
    """
    # Domains without a demonstration of their own share the one about world knowledge.
    demonstration = _DEMONSTRATIONS.get(row.domain, _DEMONSTRATIONS["world"])
    return {
        "kind": kind,
        "question": row.prompt.strip(),
        "units": units,
        "demonstration": demonstration,
    }


def format_segment(segment: str, protocol: str = "paper") -> str:
    """Format a segment as one line of a prompt.

    Example:
        ``They  are   big.`` → ``They are big.``

    Args:
        segment: The segment as FELM's file holds it.
        protocol: ``paper``, or ``code`` to drop everything before the first Latin letter, as the
            authors' script does. Segments without letters then become empty.
    """
    if protocol == "code":
        return re.sub("^[^a-zA-Z]*", "", segment)
    # A numbered line without text would look like a mistake of the prompt.
    return " ".join(segment.split()) or "(no text)"


def best_chunks(documents: Sequence[str], query: str, tokenizer: str = WORDS) -> list[str]:
    """Choose the chunk of each document that BM25 ranks first for a query.

    Args:
        documents: The texts of the reference documents. Empty ones are left out.
        query: The question and the units that the judge sees.
        tokenizer: The tokenizer that measures chunks.
    """
    best: list[str] = []
    for document in documents:
        # nearest_passages() caches its index of the chunks, so they have to be hashable.
        chunks = tuple(split_into_chunks(document, tokenizer))
        best += nearest_passages(chunks, query, 1)
    return best


def split_into_chunks(text: str, tokenizer: str = WORDS, size: int = CHUNK_TOKENS) -> list[str]:
    """Cut a text into consecutive chunks of equally many tokens.

    Args:
        text: The text of a document.
        tokenizer: The tokenizer, as for `make_token_finder`.
        size: The number of tokens in a chunk. The last chunk may have fewer.

    Returns:
        The chunks without white space around them. Empty chunks are left out.
    """
    find_token_starts = make_token_finder(tokenizer)
    # Every token at a multiple of the size begins a new chunk.
    boundaries = [*find_token_starts(text)[::size], len(text)]
    chunks = [text[start:end].strip() for start, end in itertools.pairwise(boundaries)]
    return [chunk for chunk in chunks if chunk]


@cache
def make_token_finder(tokenizer: str) -> Callable[[str], list[int]]:
    """Make a function that returns the character offset of each token of a text.

    Example:
        ``make_token_finder("words")("It is old.")`` → ``[0, 3, 6, 9]``

    Args:
        tokenizer: ``words``, ``tiktoken:ENCODING``, or the name or folder of a fast tokenizer of
            transformers.

    Raises:
        ConfigError: The tokenizer cannot be loaded.
    """
    if tokenizer == WORDS:
        return lambda text: [match.start() for match in _TOKEN.finditer(text)]

    # All of these errors mean that this machine does not have the tokenizer.
    try:
        if tokenizer.startswith(_TIKTOKEN_PREFIX):
            return _make_tiktoken_finder(tokenizer.removeprefix(_TIKTOKEN_PREFIX))
        return _make_transformers_finder(tokenizer)
    except (ImportError, OSError, ValueError, NotImplementedError) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(
            f"chunk_tokenizer {tokenizer!r} cannot be loaded: {reason};"
            f" expected {WORDS}, {_TIKTOKEN_PREFIX}cl100k_base, or a fast tokenizer"
        ) from error


def _make_tiktoken_finder(encoding_name: str) -> Callable[[str], list[int]]:
    """Make the function that finds tokens with an encoding of tiktoken, such as ``cl100k_base``."""
    # The package is optional, so it is imported only when it is needed.
    import tiktoken

    encoding = tiktoken.get_encoding(encoding_name)

    def find_token_starts(text: str) -> list[int]:
        """Return the offset of each token. Special tokens in the text are ordinary text."""
        tokens = encoding.encode(text, disallowed_special=())
        _, starts = encoding.decode_with_offsets(tokens)
        return starts

    return find_token_starts


def _make_transformers_finder(name: str) -> Callable[[str], list[int]]:
    """Make the function that finds tokens with a fast tokenizer of transformers.

    Args:
        name: The name or folder of the tokenizer.

    Raises:
        NotImplementedError: The tokenizer is not a fast one. Only these know offsets.
    """
    # The import takes seconds, so tasks that use words do without it.
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(name, use_fast=True)
    # A slow tokenizer raises its error now, and not at the first document.
    tokenizer("", return_offsets_mapping=True)

    def find_token_starts(text: str) -> list[int]:
        """Return the offset of each token."""
        encoding = tokenizer(
            text, add_special_tokens=False, return_offsets_mapping=True, verbose=False
        )
        return [start for start, _ in encoding["offset_mapping"]]

    return find_token_starts


def render_authors_prompt(
    checkout: str, row: FelmRow, question: RowQuestion, settings: FelmSettings
) -> str:
    """Render the question about a row with the prompt that the authors of FELM published.

    Question and segments have exactly the characters that the authors' script gives to its judge.
    The script writes no claims and no references. Here they have the form of the examples in the
    authors' prompts.

    Args:
        checkout: The folder of a checkout of the authors' repository.
        row: The row.
        question: The question about the row, as `FelmSettings.make_question` returns it.
        settings: The settings of the task.

    Returns:
        The authors' instructions, followed by the question, the units and the references.

    Raises:
        DataError: The checkout lacks the file of the prompt.
    """
    subject = question.subject
    if subject["kind"] == "claims":
        heading = f"\n\nQuestion: {subject['question']}\nClaims: \n"
        units = subject["units"]
    else:
        # The authors' script drops everything before the first letter of a segment. The units of
        # the subject may be formatted in another way.
        heading = f"\n\nQuestion: {row.prompt}\nSegments: "
        units = [format_segment(segment, "code") for segment in row.segments]

    sections = [_read_authors_instructions(checkout, row, question, settings), heading]
    sections += [f"{number}. {unit}\n" for number, unit in enumerate(units, start=1)]
    if subject["links"]:
        sections.append(f"Reference Links:\n{', '.join(subject['links'])}\n")
    if subject["passages"]:
        passages = "\n".join(subject["passages"])
        sections.append(f"Reference doc:\n{passages}\n")
    return "".join(sections)


def _read_authors_instructions(
    checkout: str, row: FelmRow, question: RowQuestion, settings: FelmSettings
) -> str:
    """Read the file with the authors' instructions and examples for a question.

    Args:
        checkout: The folder of a checkout of the authors' repository.
        row: The row.
        question: The question about the row.
        settings: The settings of the task.

    Raises:
        DataError: The checkout lacks the file.
    """
    mode = question.mode
    # The authors' script never shows references, but it gives the judge the instructions for
    # references if the mode is ``link`` or ``doc``. Here the mode of such a question is
    # ``vanilla``. Only math and reasoning have no instructions for references.
    if settings.protocol == "code" and row.domain not in WITHOUT_REFERENCES:
        mode = settings.mode

    unit = "claim" if question.subject["kind"] == "claims" else "segment"
    files_by_domain = _AUTHORS_FILES[unit]
    # Domains without prompts of their own use those of world knowledge.
    file = files_by_domain.get(row.domain, files_by_domain["wk"])[mode]
    return read_text(Path(checkout, PROMPTS_FOLDER, file), "expected a checkout of hkust-nlp/felm")


def hash_authors_prompts(checkout: str) -> str:
    """Hash all prompt files in a checkout of the authors' repository.

    Returns:
        The first 16 hexadecimal digits of the SHA-256 of the files' names and contents.
    """
    folder = Path(checkout, PROMPTS_FOLDER)
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.txt")):
        name = path.relative_to(folder).as_posix()
        # The zero bytes mark where a name or a content ends.
        digest.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]
