"""The settings of a long-form task, and its prompts as documents with their passages.

The task reads them. Prompts come from a user's table, or from LongFact (Wei et al., 2024), which
has 30 prompts on each of 38 topics, once about objects and once about concepts.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
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
from lm_factuality.benchmarks.biographies.types import GeneratedText, Linking, RetrievedPassage
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

DEFAULT_K = (64,)
"""The number of facts that are enough: the median of responses to LongFact's prompts."""

INDEX = "index"
"""The value of a document's ``evidence`` if an index finds the passages for each fact."""

KnowledgeSource: TypeAlias = Knowledge | Index
"""The pages or the index that facts are verified against."""

_Count = Annotated[int, Field(ge=1)]

_DISAMBIGUATION = re.compile(r"(?:(?<!\s)\s+)?\([^()]*\)\s*$")
"""The end of a title that tells namesakes apart, such as ``(Eastmark)``."""


def as_tuple(value: object) -> object:
    """Return a single value in a tuple, so that ``--metadata k=64`` can stand for a list.

    Lists, tuples and None stay unchanged.
    """
    if value is None or isinstance(value, list | tuple):
        return value
    return (value,)


class PromptColumns(Strict):
    """The names of the columns of the table."""

    prompt: str = "prompt"
    """The prompt, or the part of it that a template inserts."""

    id: Column = None
    """An id of the prompt. By default, this is its number."""

    title: Column = None
    """The title of a page, or a list of the titles that share a name."""

    passages: Column = None
    """The passages that facts are verified against."""


class LongFormMetadata(TableMetadata):
    """The settings of a long-form task."""

    columns: PromptColumns = PromptColumns()

    longfact: Literal["concepts", "objects"] | None = None
    """Which of LongFact's sets the prompts are from. None for a user's prompts."""

    topics: Annotated[
        Annotated[tuple[str, ...], Field(strict=False)] | None, BeforeValidator(as_tuple)
    ] = None
    """LongFact's topics, or None for all."""

    knowledge: str | None = None
    """The folder of an index, or a SQLite file with pages."""

    passages: _Count = MAX_PASSAGES
    """The number of passages that the judge sees with a fact."""

    k: Annotated[
        tuple[_Count, ...], BeforeValidator(as_tuple), Field(strict=False, min_length=1)
    ] = DEFAULT_K
    """The numbers K of facts that are enough."""

    entities: Annotated[bool, Field(strict=False)] = False
    """Whether several entities share a name, so that facts are grouped and linked."""

    entity_kind: Annotated[str, Field(min_length=1)] = "entity"
    """The word for these entities, such as ``town``."""

    linking: Linking = "greedy"
    """How fact groups are linked to entities."""

    method: Literal["joint", "stepwise"] = "stepwise"
    """Whether one question covers facts, groups and links, or each step has its own questions."""

    @property
    def kind(self) -> str:
        """The word for entities that share a name, or an empty text for one subject."""
        return self.entity_kind if self.entities else ""


class LongFormYaml(TableYaml):
    """The YAML of a long-form task."""

    output_type: Literal["generate_until"] = "generate_until"
    doc_to_text: Any = None
    doc_to_target: Literal["index"] = "index"
    generation_kwargs: Any = None
    repeats: Literal[1] | None = None
    metadata: LongFormMetadata

    @model_validator(mode="after")
    def _check_sources(self) -> "LongFormYaml":
        """Check that prompts and passages have exactly one source each.

        Raises:
            ValueError: None or both are given. pydantic turns it into a validation error.
        """
        metadata = self.metadata
        # Equal truth values mean that both are given, or neither.
        if bool(self.dataset_path) == bool(metadata.longfact):
            raise ValueError(
                "expected exactly one source of prompts: dataset_path or metadata.longfact"
            )
        if bool(metadata.knowledge) == bool(metadata.columns.passages):
            raise ValueError(
                "expected exactly one source to verify facts against: metadata.knowledge (an index,"
                " or pages) or metadata.columns.passages"
            )
        return self

    @property
    def template(self) -> object:
        """The name of the column with the prompts, or a Jinja template over columns."""
        return self.doc_to_text or self.metadata.columns.prompt

    @property
    def knowledge_path(self) -> Path | None:
        """The path of the knowledge source, or None if a column holds the passages.

        A relative path is looked up in the folder of the YAML first. If nothing is there, it is
        relative to the working folder, as paths on the command line are.
        """
        if self.metadata.knowledge is None:
            return None
        path = Path(self.metadata.knowledge).expanduser()
        path_from_yaml = (self.folder or Path()) / path
        return path_from_yaml if path_from_yaml.exists() else path


_BLOB_BY_TOPIC: dict[str, dict[str, str]] = load_yaml(__package__, "longfact.yaml")
"""The git blob id of each file of LongFact, by set and topic."""

_LONGFACT_COMMIT = "9d27158d198ced0a9d8271a80147cae580614601"

_PROMPTS_PER_TOPIC = 30
"""The number of prompts in each file of LongFact."""


def _longfact_sources() -> tuple[Source, ...]:
    """Return the published files of LongFact, such as ``longfact_objects_music``."""
    # The date is part of the names of the folders.
    dates = {"concepts": "01-10-2024", "objects": "01-12-2024"}
    sources = []
    for set_name, blobs in _BLOB_BY_TOPIC.items():
        folder = f"longfact/longfact-{set_name}_gpt4_{dates[set_name]}_noduplicates"
        for topic, blob in blobs.items():
            source = Source(
                name=f"longfact_{set_name}_{topic}",
                repository="google-deepmind/long-form-factuality",
                commit=_LONGFACT_COMMIT,
                path=f"{folder}/longfact-{set_name}_{topic}.jsonl",
                blob=blob,
                license="CC-BY-4.0",
                rows=_PROMPTS_PER_TOPIC,
            )
            sources.append(source)
    return tuple(sources)


SOURCES = _longfact_sources()


def _cell_items(cell: object) -> list[Any]:
    """Return the items of a cell that holds one value or a list.

    Example:
        ``Grayport`` gives ``["Grayport"]``, and so does ``["Grayport"]`` as the text of a CSV cell.
    """
    # CSV files have no lists, so these are written as JSON.
    if isinstance(cell, str) and cell.lstrip().startswith("["):
        cell = parse_json(cell)
    if isinstance(cell, list | tuple):
        return list(cell)
    return [] if cell is None else [cell]


class PassageCell(BaseModel):
    """A passage in a cell: a text, or a mapping with ``title`` and ``text``."""

    title: str = ""
    text: str

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, cell: object) -> object:
        """Turn a plain text into the fields of a passage without a title."""
        return {"text": cell} if isinstance(cell, str) else cell


class PromptCells(BaseModel):
    """The cells of a row that may hold lists."""

    title: Annotated[list[str], BeforeValidator(_cell_items)] = []
    passages: Annotated[list[PassageCell], BeforeValidator(_cell_items)] = []


def open_knowledge(path: Path) -> KnowledgeSource:
    """Open a knowledge source: the index in a folder, or the pages in a SQLite file.

    Raises:
        DataError: It cannot be used.
    """
    # An index is a folder of files, and pages are in one file.
    return open_index(path) if path.is_dir() else Knowledge(path)


def read_prompts(
    task: LongFormYaml, knowledge: KnowledgeSource | None, data_dir: str | None
) -> tuple[list[JsonObject], JsonObject]:
    """Read the prompts of a task with the passages that facts are verified against.

    Args:
        task: The settings of the task from its YAML.
        knowledge: The opened knowledge source, or None if a column holds the passages.
        data_dir: The folder with downloaded data. None stands for the default folder.

    Returns:
        The documents, and the description of the data for results files. In a document, ``text`` is
        the prompt, and ``evidence`` says whether the passages are in the document.

    Raises:
        ConfigError: A column is missing, or a template cannot be compiled.
        DataError: Some rows cannot be used. The message names each of them.
    """
    metadata = task.metadata
    if metadata.longfact:
        topics = metadata.topics or _BLOB_BY_TOPIC[metadata.longfact]
        table, description = _read_longfact(metadata.longfact, topics, data_dir)
    else:
        # These are the prompts of a user.
        table, description = load_table(task)
    # The problems of a table are rows that cannot be read. Any problem raises a DataError.
    refuse(table.problems)
    _require_columns(task, table)
    return _make_documents(task, table, knowledge), description


def _require_columns(task: LongFormYaml, table: Table) -> None:
    """Check that a table of prompts has the columns that the YAML names.

    Raises:
        ConfigError: A column is missing.
    """
    for field, column in task.metadata.columns:
        # A template need not use the column "prompt".
        is_used = field != "prompt" or task.template == column
        if column and is_used:
            require_column(task.where, f"metadata.columns.{field}", column, table)


def _read_longfact(
    set_name: str, topics: Iterable[str], data_dir: str | None
) -> tuple[Table, JsonObject]:
    """Read LongFact's prompts on some topics, and download them if necessary.

    Args:
        set_name: ``objects`` or ``concepts``.
        topics: The names of the topics.
        data_dir: The folder with downloaded data. None stands for the default folder.

    Returns:
        A table with ``prompt``, ``topic`` and ``id``, such as ``music-0``, and the description of
        the data for results files.
    """
    rows = []
    is_published = True
    for topic in topics:
        located = locate(find_source(f"longfact_{set_name}_{topic}"), data_dir)
        # A user may have changed the local file. The data is as published if every file is.
        is_published = is_published and located.is_published
        table = read_table(located.path)
        refuse(table.problems)
        for number, row in enumerate(table.records):
            # LongFact does not number its prompts, so the id is made from the order of the file.
            prompt_id = f"{topic}-{number}"
            values = {"prompt": row.values.get("prompt"), "topic": topic, "id": prompt_id}
            rows.append(TableRow(row.location, values))
    description = {"source": f"longfact_{set_name}", "is_published": is_published}
    return Table(records=tuple(rows)), description


def _make_documents(
    task: LongFormYaml, table: Table, knowledge: KnowledgeSource | None
) -> list[JsonObject]:
    """Make a document of each row: its prompt, and the passages that facts are verified against.

    Args:
        task: The settings of the task from its YAML.
        table: The rows with the prompts.
        knowledge: The opened knowledge source, or None if a column holds the passages.

    Raises:
        ConfigError: A template cannot be compiled.
        DataError: Some rows cannot be used. The message names each of them.
    """
    metadata = task.metadata
    render_prompt = compile_cell_template(
        task.where, "doc_to_text", task.template, column_names(table)
    )
    # If no entities share a name, the index is searched later, for each fact.
    needs_index = isinstance(knowledge, Index) and not metadata.entities
    documents: list[JsonObject] = []
    problems = []
    for number, row in enumerate(table.records):
        try:
            prompt = (cell_text(render_prompt(row.values)) or "").strip()
            text = _text_to_generate(metadata, row.values, prompt, knowledge)
        except (ValueError, TypeError, TemplateError) as error:
            # All bad rows are collected, so that a user can mend them at once.
            problems.append(f"{row.location}: {error}")
            continue
        document = {
            **generation_to_doc(text),
            # Without an id, the row is identified by its number.
            "index": text.index or str(number),
            "text": prompt,
            "topic": cell_text(row.values.get("topic")) or "",
            "evidence": INDEX if needs_index else DOCUMENTS,
        }
        documents.append(document)
    refuse(problems, "rows")
    return documents


def _text_to_generate(
    metadata: LongFormMetadata,
    values: Mapping[str, Any],
    prompt: str,
    knowledge: KnowledgeSource | None,
) -> GeneratedText:
    """Read the question, the subject and the passages of a row. No model has answered it yet.

    Args:
        metadata: The settings of the task, which name the columns.
        values: The values of the row, by column.
        prompt: The prompt that the model gets.
        knowledge: The opened knowledge source, or None if a column holds the passages.

    Returns:
        The text without an output. Its ``index`` is empty if no column holds an id.

    Raises:
        ValueError: The prompt is empty, or a value cannot be used.
    """
    if not prompt:
        raise ValueError("the prompt is empty, expected a text")
    columns = metadata.columns
    # PromptCells turns cells such as '["Grayport"]' into lists.
    cells = to_model(PromptCells, {field: values.get(column) for field, column in columns})
    # The judge reads the question without the words that the template adds.
    question = (cell_text(values.get(columns.prompt)) or prompt).strip()
    row_id = cell_text(values.get(columns.id)) if columns.id else None
    return GeneratedText(
        index=row_id or "",
        question=question,
        name=_subject_name(metadata, cells.title, question),
        output="",
        passages=tuple(_document_passages(metadata, cells, question, knowledge)),
    )


def _subject_name(metadata: LongFormMetadata, titles: Sequence[str], question: str) -> str:
    """Return the name of what a prompt is about.

    Example:
        ``Grayport (Eastmark)`` and ``Grayport (Westmark)`` share the name ``Grayport``.
    """
    if not metadata.entities:
        return " / ".join(titles)
    # All titles share the name, so the first one is enough.
    return _DISAMBIGUATION.sub("", titles[0]) if titles else question


def _document_passages(
    metadata: LongFormMetadata,
    cells: PromptCells,
    question: str,
    knowledge: KnowledgeSource | None,
) -> list[RetrievedPassage]:
    """Return the passages that a document holds for the judge to compare facts with.

    Args:
        metadata: The settings of the task.
        cells: The titles and passages of the row.
        question: The question of the row.
        knowledge: The pages or the index. None if the row itself has the passages.

    Returns:
        The passages. There are none if an index is searched later, for each fact.

    Raises:
        ValueError: Pages are to be looked up, but the row has no title.
    """
    if knowledge is None:
        return [
            RetrievedPassage(passage.title, passage.text)
            for passage in cells.passages
            if passage.text.strip()
        ]
    if isinstance(knowledge, Knowledge):
        return _passages_of_pages(knowledge, cells.title)
    # If all facts are about one subject, a search for each fact finds better passages.
    if not metadata.entities:
        return []

    # Each fact is compared with the passages about every entity. One search finds these passages
    # for all facts. Without titles, the question is the text that names the entities.
    query = " ".join(cells.title) or question
    (hits,) = knowledge.retrieve([query], metadata.passages)
    return [RetrievedPassage(hit.passage.title, hit.passage.text) for hit in hits]


def _passages_of_pages(knowledge: Knowledge, titles: Sequence[str]) -> list[RetrievedPassage]:
    """Return all passages of the pages with these titles.

    A page that does not exist has no passages, and facts about it stay unscored.

    Raises:
        ValueError: There are no titles.
    """
    if not titles:
        raise ValueError(
            "no title: pages are found by title, so metadata.columns.title has to name the column"
            " with it"
        )
    passages = []
    for title in titles:
        texts = knowledge.passages(title) or ()
        passages += [RetrievedPassage(title, text) for text in texts]
    return passages
