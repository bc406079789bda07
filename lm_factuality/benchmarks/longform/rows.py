"""A long-form task as its YAML describes it, and its prompts as lm_eval's documents, each with the
passages that facts are verified by, unless an index finds those. Besides a user's own, LongFact's
(Wei et al., 2024): 30 prompts on each of 38 topics, for objects and for concepts."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from jinja2 import TemplateError
from pydantic import BaseModel, BeforeValidator, Field

from lm_factuality.benchmarks.biographies.generations import DOCUMENTS, EVIDENCE, to_doc
from lm_factuality.benchmarks.biographies.types import GeneratedText, RetrievedPassage
from lm_factuality.benchmarks.factor.corpus import Column, TableMetadata, TableYaml, read_yaml
from lm_factuality.benchmarks.factor.load import column_names, find_table
from lm_factuality.benchmarks.factor.rows import cell_text, renderer
from lm_factuality.ground.errors import ConfigError, did_you_mean, refuse, short
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

_PROMPTS = "expected one source of prompts: dataset_path or metadata.longfact"
_KNOWN = (
    "expected one thing to verify facts against: metadata.knowledge (an index, or pages) or"
    " metadata.columns.passages"
)
K = (64,)  # facts that are enough, unless a task says otherwise: the median of LongFact's responses
_Count = Annotated[int, Field(ge=1)]


def listed(value: Any) -> Any:
    """``--metadata k=64`` arrives as one value."""
    return value if isinstance(value, list | tuple) or value is None else (value,)


def is_true(value: Any) -> Any:
    """``--metadata entities=true`` arrives as text."""
    return {"true": True, "false": False}.get(str(value).lower(), value)


class Columns(Strict):
    """Which column holds what; ``title`` is one, or a list of those that may be confused."""

    prompt: Annotated[str, Field(description="a column name")] = "prompt"
    id: Column = None
    title: Column = None
    passages: Column = None


class Metadata(TableMetadata):
    """Of a task. ``passages`` is how many a judge sees of a fact."""

    columns: Columns = Columns()
    longfact: Literal["concepts", "objects"] | None = None
    topics: Annotated[
        Annotated[tuple[str, ...], Field(strict=False)] | None, BeforeValidator(listed)
    ] = None
    knowledge: str | None = None
    passages: _Count = EVIDENCE
    k: Annotated[tuple[_Count, ...], BeforeValidator(listed), Field(strict=False, min_length=1)] = K
    entities: Annotated[bool, BeforeValidator(is_true)] = False
    entity_kind: Annotated[str, Field(min_length=1)] = "entity"
    linking: Literal["greedy", "hungarian"] = "greedy"

    @property
    def kind(self) -> str:
        return self.entity_kind if self.entities else ""


class LongFormYaml(TableYaml):
    """The YAML of a task."""

    output_type: Literal["generate_until"] = "generate_until"
    doc_to_text: Any = None
    doc_to_target: Literal["index"] = "index"
    generation_kwargs: Any = None
    repeats: Literal[1] | None = None
    metadata: Metadata

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


def parse_task(config: Mapping[str, Any]) -> LongFormYaml:
    """Read the YAML of a task.

    Raises:
        ConfigError: Keys are unknown, missing or of the wrong type, each of which is named.
    """
    yaml = read_yaml(LongFormYaml, config)
    metadata = yaml.metadata
    problems = []
    if bool(yaml.dataset_path) == bool(metadata.longfact):
        problems.append(_PROMPTS)
    if bool(metadata.knowledge) == bool(metadata.columns.passages):
        problems.append(_KNOWN)
    if problems:
        raise ConfigError("\n".join(f"{yaml.where}: {problem}" for problem in problems))
    return yaml


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


class _Page(BaseModel):
    title: str = ""
    text: str


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
    if task.metadata.longfact:
        table, about = _longfact(task, task.metadata.longfact, data_dir)
    else:
        table, about = find_table(task)
    refuse(table.problems)
    names, where = column_names(table), task.where
    for part, name in task.metadata.columns:
        if name and name not in names and (part != "prompt" or task.template == name):
            columns = ", ".join(map(repr, names))
            raise ConfigError(
                f"{where}: metadata.columns.{part}: no column {name!r}; the table has {columns}"
            )
    render = renderer(where, "doc_to_text", task.template, names)
    docs: list[JsonObject] = []
    problems = []
    for number, record in enumerate(table.records):
        try:
            text = (cell_text(render(record.values)) or "").strip()
            docs.append(_document(task, record.values, text, known, str(number)))
        except (ValueError, TypeError, TemplateError) as error:
            problems.append(f"{record.location}: {error}")
    refuse(problems, "rows")
    return docs, about


def _document(
    task: LongFormYaml, values: Mapping[str, Any], text: str, known: Known, number: str
) -> JsonObject:
    """Return the document of a row, whose prompt is ``text``."""
    if not text:
        raise ValueError("the prompt is empty, expected a text")
    columns, kind = task.metadata.columns, task.metadata.kind
    # What is asked, without what the template adds.
    question = (cell_text(values.get(columns.prompt)) or text).strip()
    titles = _items(values.get(columns.title or ""))
    if not all(isinstance(title, str) for title in titles):
        found = short(values[columns.title or ""])
        raise ValueError(f"the title is {found}, expected a text or a list of texts")
    name = " / ".join(titles)
    if kind:  # what the candidates have in common, for a reader who does not know of several
        name = _BRACKET.sub("", titles[0]) if titles else question
    passages: list[RetrievedPassage] = []
    if isinstance(known, Index):
        if kind:  # the candidates are found by the prompt
            (hits,) = known.retrieve([" ".join(titles) or question], task.metadata.passages)
            passages = [RetrievedPassage(hit.passage.title, hit.passage.text) for hit in hits]
    elif known is None:
        for cell in _items(values[columns.passages or ""]):
            page = _Page(text=cell) if isinstance(cell, str) else to_model(_Page, cell)
            if page.text.strip():
                passages.append(RetrievedPassage(page.title, page.text))
    elif titles:
        for title in titles:
            passages += [RetrievedPassage(title, page) for page in known.passages(title) or ()]
    else:
        raise ValueError(
            "no title: pages are found by title, so metadata.columns.title has to name the column"
            " with it"
        )
    index = cell_text(values.get(columns.id or "")) or number
    return {
        **to_doc(GeneratedText(index, question, name, "", tuple(passages))),
        "text": text,
        "topic": cell_text(values.get("topic")) or "",
        "evidence": INDEX if isinstance(known, Index) and not kind else DOCUMENTS,
    }


def _items(cell: Any) -> list[Any]:
    """Return one value or a list of them, which a CSV file has as JSON."""
    if isinstance(cell, str) and cell.lstrip().startswith("["):
        cell = parse_json(cell)
    if isinstance(cell, list | tuple):
        return list(cell)
    return [] if cell is None else [cell]


def _longfact(task: LongFormYaml, which: str, data_dir: str | None) -> tuple[Table, JsonObject]:
    """Read LongFact's prompts on the topics of a task."""
    sources = {source.name: source for source in SOURCES}
    records: list[TableRow] = []
    problems: list[str] = []
    is_published = True
    for topic in task.metadata.topics or _BLOBS[which]:
        if topic not in _BLOBS[which]:
            hint = did_you_mean(topic, _BLOBS[which]) or f"; known: {', '.join(_BLOBS[which])}"
            raise ConfigError(f"{task.where}: metadata.topics: found {topic!r}{hint}")
        located = locate(sources[f"longfact_{which}_{topic}"], data_dir)
        is_published = is_published and located.is_upstream
        table = read_table(located.path)
        problems += table.problems
        for number, record in enumerate(table.records):
            prompt = record.values.get("prompt")
            values = {"prompt": prompt, "topic": topic, "id": f"{topic}-{number}"}
            records.append(TableRow(record.location, values))
    about = {"source": f"longfact_{which}", "is_published": is_published}
    return Table(tuple(records), tuple(problems)), about
