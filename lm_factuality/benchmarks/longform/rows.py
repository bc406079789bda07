"""A long-form task as its YAML describes it, and its prompts as lm_eval's documents, each with the
passages that facts are verified by, unless an index finds those. Besides a user's own, LongFact's
(Wei et al., 2024): 30 prompts on each of 38 topics, for objects and for concepts."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from jinja2 import TemplateError
from pydantic import BaseModel, BeforeValidator, Field, model_validator

from lm_factuality.benchmarks import find_source
from lm_factuality.benchmarks.biographies.generations import (
    DOCUMENTS,
    MAX_PASSAGES,
    generation_to_doc,
)
from lm_factuality.benchmarks.biographies.types import GeneratedText, RetrievedPassage
from lm_factuality.benchmarks.factor.corpus import Column, TableMetadata, TableYaml
from lm_factuality.benchmarks.factor.load import column_names, load_table, require_column
from lm_factuality.benchmarks.factor.rows import cell_text, compile_cell_template
from lm_factuality.ground.errors import refuse
from lm_factuality.ground.files import parse_json
from lm_factuality.ground.packages import load_yaml
from lm_factuality.ground.published import Source, locate
from lm_factuality.ground.records import to_model
from lm_factuality.ground.settings import Strict
from lm_factuality.ground.tables import Table, TableRow, read_table
from lm_factuality.harness.generation import JsonObject
from lm_factuality.retrieval.build import open_index
from lm_factuality.retrieval.index import Index
from lm_factuality.retrieval.knowledge import Knowledge

K = (64,)  # facts that are enough, unless a task says otherwise: the median of LongFact's responses
_Count = Annotated[int, Field(ge=1)]


def in_tuple(value: Any) -> Any:
    """Read one value, as ``--metadata k=64`` has it, in place of a list."""
    return value if isinstance(value, list | tuple) or value is None else (value,)


class PromptColumns(Strict):
    """Which column holds what."""

    prompt: str = "prompt"
    id: Column = None

    title: Column = None
    """The title of a page, or a list of those that may be confused."""

    passages: Column = None


class LongFormMetadata(TableMetadata):
    """The settings of a task."""

    columns: PromptColumns = PromptColumns()
    longfact: Literal["concepts", "objects"] | None = None
    topics: Annotated[
        Annotated[tuple[str, ...], Field(strict=False)] | None, BeforeValidator(in_tuple)
    ] = None
    knowledge: str | None = None

    passages: _Count = MAX_PASSAGES
    """How many a judge sees of a fact."""

    k: Annotated[
        tuple[_Count, ...], BeforeValidator(in_tuple), Field(strict=False, min_length=1)
    ] = K
    entities: Annotated[bool, Field(strict=False)] = False
    entity_kind: Annotated[str, Field(min_length=1)] = "entity"
    linking: Literal["greedy", "hungarian"] = "greedy"

    @property
    def kind(self) -> str:
        """What the entities are that may be confused. Empty where there is one subject."""
        return self.entity_kind if self.entities else ""


class LongFormYaml(TableYaml):
    """The YAML of a task."""

    output_type: Literal["generate_until"] = "generate_until"
    doc_to_text: Any = None
    doc_to_target: Literal["index"] = "index"
    generation_kwargs: Any = None
    repeats: Literal[1] | None = None
    metadata: LongFormMetadata

    @model_validator(mode="after")
    def _has_prompts_and_knowledge(self) -> "LongFormYaml":
        metadata = self.metadata
        if bool(self.dataset_path) == bool(metadata.longfact):
            raise ValueError("expected one source of prompts: dataset_path or metadata.longfact")
        if bool(metadata.knowledge) == bool(metadata.columns.passages):
            raise ValueError(
                "expected one thing to verify facts against: metadata.knowledge (an index, or"
                " pages) or metadata.columns.passages"
            )
        return self

    @property
    def template(self) -> Any:
        """A column, or a template over columns."""
        return self.doc_to_text or self.metadata.columns.prompt

    @property
    def knowledge(self) -> Path | None:
        """What facts are verified against, or None where a column holds the passages.

        It is relative to the YAML, as its other paths, else as the command line has it.
        """
        if self.metadata.knowledge is None:
            return None
        path = Path(self.metadata.knowledge).expanduser()
        from_yaml = (self.folder or Path()) / path
        return from_yaml if from_yaml.exists() else path


_BRACKET = re.compile(r"\s*\([^()]*\)\s*$")
INDEX = "index"  # what finds the passages of each fact, where they are not in the documents
Known: TypeAlias = Knowledge | Index | None
_BLOBS: dict[str, dict[str, str]] = load_yaml(__package__, "longfact.yaml")
_DATES = {"concepts": "01-10-2024", "objects": "01-12-2024"}
_LONGFACT = ("google-deepmind/long-form-factuality", "9d27158d198ced0a9d8271a80147cae580614601")
_FILE = "longfact/longfact-{0}_gpt4_{1}_noduplicates/longfact-{0}_{2}.jsonl"
SOURCES = tuple(
    Source(
        f"longfact_{which}_{topic}",
        *_LONGFACT,
        _FILE.format(which, _DATES[which], topic),
        blob,
        "CC-BY-4.0",
        30,
    )
    for which, blobs in _BLOBS.items()
    for topic, blob in blobs.items()
)


def _items(cell: Any) -> list[Any]:
    """Return one value or a list of them, which a CSV file has as JSON."""
    if isinstance(cell, str) and cell.lstrip().startswith("["):
        cell = parse_json(cell)
    if isinstance(cell, list | tuple):
        return list(cell)
    return [] if cell is None else [cell]


class KnownPage(BaseModel):
    """A passage that is given with a prompt: a text, with or without a title."""

    title: str = ""
    text: str

    @model_validator(mode="before")
    @classmethod
    def _is_text_or_mapping(cls, cell: Any) -> Any:
        return {"text": cell} if isinstance(cell, str) else cell


class PromptCells(BaseModel):
    """The cells of a row that may hold lists."""

    title: Annotated[list[str], BeforeValidator(_items)] = []
    passages: Annotated[list[KnownPage], BeforeValidator(_items)] = []


def open_knowledge(path: Path) -> Knowledge | Index:
    """Open the index in a folder, or the pages in a SQLite file.

    Raises:
        DataError: It cannot be used.
    """
    return open_index(path) if path.is_dir() else Knowledge(path)


def read_rows(
    task: LongFormYaml, known: Known, data_dir: str | None
) -> tuple[list[JsonObject], JsonObject]:
    """Read the prompts of a task.

    Returns:
        The documents, and what results say of the data. In a document, ``text`` is what the model
        sees, and ``evidence`` is where passages come from.

    Raises:
        ConfigError: A column is not there, or a template fails.
        DataError: Rows cannot be used, each of which is named.
    """
    metadata = task.metadata
    if metadata.longfact:
        topics = metadata.topics or _BLOBS[metadata.longfact]
        table, about = _longfact(metadata.longfact, topics, data_dir)
    else:
        table, about = load_table(task)
    refuse(table.problems)
    for part, name in metadata.columns:
        if name and (part != "prompt" or task.template == name):
            require_column(task.where, f"metadata.columns.{part}", name, table)
    render = compile_cell_template(task.where, "doc_to_text", task.template, column_names(table))
    docs: list[JsonObject] = []
    problems = []
    for number, row in enumerate(table.records):
        try:
            text = (cell_text(render(row.values)) or "").strip()
            docs.append(_document(metadata, row.values, text, known, str(number)))
        except (ValueError, TypeError, TemplateError) as error:
            problems.append(f"{row.location}: {error}")
    refuse(problems, "rows")
    return docs, about


def _document(
    metadata: LongFormMetadata, values: Mapping[str, Any], text: str, known: Known, number: str
) -> JsonObject:
    """Return the document of a row, whose prompt is ``text``."""
    if not text:
        raise ValueError("the prompt is empty, expected a text")
    columns, kind = metadata.columns, metadata.kind
    cells = to_model(PromptCells, {part: values.get(name) for part, name in columns})
    titles = cells.title
    # What is asked, without what the template adds.
    question = (cell_text(values.get(columns.prompt)) or text).strip()
    name = " / ".join(titles)
    if kind:  # what the candidates have in common, for a reader who does not know of several
        name = _BRACKET.sub("", titles[0]) if titles else question
    pages = [(page.title, page.text) for page in cells.passages if page.text.strip()]
    if isinstance(known, Index) and kind:  # the candidates are found by the prompt
        (hits,) = known.retrieve([" ".join(titles) or question], metadata.passages)
        pages = [(hit.passage.title, hit.passage.text) for hit in hits]
    elif isinstance(known, Knowledge):
        if not titles:
            raise ValueError(
                "no title: pages are found by title, so metadata.columns.title has to name the"
                " column with it"
            )
        for title in titles:
            pages += [(title, page) for page in known.passages(title) or ()]
    index = cell_text(values.get(columns.id or "")) or number
    passages = tuple(RetrievedPassage(*page) for page in pages)
    return {
        **generation_to_doc(GeneratedText(index, question, name, "", passages)),
        "text": text,
        "topic": cell_text(values.get("topic")) or "",
        "evidence": INDEX if isinstance(known, Index) and not kind else DOCUMENTS,
    }


def _longfact(which: str, topics: Iterable[str], data_dir: str | None) -> tuple[Table, JsonObject]:
    """Read LongFact's prompts on some topics."""
    rows = []
    is_published = True
    for topic in topics:
        located = locate(find_source(f"longfact_{which}_{topic}"), data_dir)
        is_published = is_published and located.is_upstream
        table = read_table(located.path)
        refuse(table.problems)
        for number, row in enumerate(table.records):
            values = {"prompt": row.values.get("prompt"), "topic": topic, "id": f"{topic}-{number}"}
            rows.append(TableRow(row.location, values))
    return Table(tuple(rows), ()), {"source": f"longfact_{which}", "is_published": is_published}
