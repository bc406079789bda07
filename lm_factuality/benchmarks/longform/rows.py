"""A long-form task as its YAML describes it, and its prompts as lm_eval's documents, each with the
passages that facts are verified by, unless an index finds those. Besides a user's own, LongFact's
(Wei et al., 2024): 30 prompts on each of 38 topics, for objects and for concepts."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

from jinja2 import TemplateError
from pydantic import BaseModel, BeforeValidator, Field

from lm_factuality.benchmarks.biographies.generations import DOCUMENTS, EVIDENCE, to_doc
from lm_factuality.benchmarks.biographies.types import Generation, Passage
from lm_factuality.benchmarks.factor.corpus import Column, TableMetadata, TableYaml, read_yaml
from lm_factuality.benchmarks.factor.load import column_names, find_table
from lm_factuality.benchmarks.factor.rows import cell_text, renderer
from lm_factuality.ground.errors import ConfigError, did_you_mean, refuse, short
from lm_factuality.ground.files import parse_json
from lm_factuality.ground.packages import load_yaml
from lm_factuality.ground.published import Source, locate
from lm_factuality.ground.records import to_model
from lm_factuality.ground.settings import Strict
from lm_factuality.ground.tables import Record, Table, read_table
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


class _Yaml(TableYaml):
    output_type: Literal["generate_until"] = "generate_until"
    doc_to_text: Any = None
    doc_to_target: Literal["index"] = "index"
    generation_kwargs: Any = None
    repeats: Literal[1] | None = None
    metadata: Metadata


class LongFormTask(NamedTuple):
    """A YAML, checked: ``template`` is a column or a template, ``knowledge`` None where a column
    holds the passages."""

    table: TableYaml
    metadata: Metadata
    template: Any
    knowledge: Path | None


def parse_task(config: Mapping[str, Any]) -> LongFormTask:
    """The task that a config describes. Raises ConfigError: listing every key that is unknown,
    missing or of the wrong type."""
    yaml = read_yaml(_Yaml, config)
    metadata, table = yaml.metadata, yaml
    wrong = [] if bool(yaml.dataset_path) != bool(metadata.longfact) else [_PROMPTS]
    wrong += [] if bool(metadata.knowledge) != bool(metadata.columns.passages) else [_KNOWN]
    if wrong:
        raise ConfigError("\n".join(f"{yaml.where}: {problem}" for problem in wrong))
    template = yaml.doc_to_text or metadata.columns.prompt
    if metadata.knowledge is None:
        return LongFormTask(table, metadata, template, None)
    known = Path(metadata.knowledge).expanduser()
    beside = (
        table.folder or Path()
    ) / known  # the YAML, as its other paths; else as the command line has it
    return LongFormTask(table, metadata, template, beside if beside.exists() else known)


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
    """The index in a folder, or the pages in a SQLite file. Raises DataError: it cannot be used."""
    return open_index(path) if path.is_dir() else Knowledge(path)


def read_rows(
    task: LongFormTask, known: Known, data_dir: str | None
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The documents, and what results say of the data. ``text`` is what the model sees,
    ``evidence`` where passages come from. Raises ConfigError: a column that is not there, or a
    template that fails. Raises DataError: rows that cannot be used."""
    table, about = _longfact(task, data_dir) if task.metadata.longfact else find_table(task.table)
    refuse(table.problems)
    names, where = column_names(table), task.table.where
    for part, name in task.metadata.columns:
        if name and name not in names and (part != "prompt" or task.template == name):
            listed = ", ".join(map(repr, names))
            raise ConfigError(
                f"{where}: metadata.columns.{part}: no column {name!r}; the table has {listed}"
            )
    render = renderer(where, "doc_to_text", task.template, names)
    docs: list[dict[str, Any]] = []
    problems = []
    for number, record in enumerate(table.records):
        try:
            docs.append(_document(task, record.values, render, known, str(number)))
        except (ValueError, TypeError, TemplateError) as error:
            problems.append(f"{record.location}: {error}")
    refuse(problems, "rows")
    return docs, about


def _document(
    task: LongFormTask,
    values: Mapping[str, Any],
    render: Callable[[Mapping[str, Any]], Any],
    known: Known,
    number: str,
) -> dict[str, Any]:
    text, columns = (cell_text(render(values)) or "").strip(), task.metadata.columns
    if not text:
        raise ValueError("the prompt is empty, expected a text")
    question = (
        cell_text(values.get(columns.prompt)) or text
    ).strip()  # what is asked, without what the template adds
    titles = _items(values.get(columns.title or ""))
    if not all(isinstance(each, str) for each in titles):
        raise ValueError(
            f"the title is {short(values[columns.title or ''])}, expected a text or a list of texts"
        )
    found: Sequence[Passage] = ()
    if isinstance(known, Index):
        if task.metadata.kind:  # the candidates are found by the prompt
            (hits,) = known.retrieve([" ".join(titles) or question], task.metadata.passages)
            found = [Passage(hit.passage.title, hit.passage.text) for hit in hits]
    elif known is None:
        cells = _items(values[columns.passages or ""])
        pages = [
            _Page(text=each) if isinstance(each, str) else to_model(_Page, each) for each in cells
        ]
        found = [Passage(page.title, page.text) for page in pages if page.text.strip()]
    elif titles:
        found = [Passage(title, each) for title in titles for each in known.passages(title) or ()]
    else:
        raise ValueError(
            "no title: pages are found by title, so metadata.columns.title has to name the column"
            " with it"
        )
    index, name = cell_text(values.get(columns.id or "")) or number, " / ".join(titles)
    if (
        task.metadata.kind
    ):  # what the candidates have in common, for a reader who does not know that there are several
        name = _BRACKET.sub("", titles[0]) if titles else question
    return {
        **to_doc(Generation(index, question, name, "", tuple(found))),
        "text": text,
        "topic": cell_text(values.get("topic")) or "",
        "evidence": INDEX if isinstance(known, Index) and not task.metadata.kind else DOCUMENTS,
    }


def _items(cell: Any) -> list[Any]:
    """One value or a list of them, which a CSV file has as JSON."""
    if isinstance(cell, str) and cell.lstrip().startswith("["):
        cell = parse_json(cell)
    return list(cell) if isinstance(cell, list | tuple) else [] if cell is None else [cell]


def _longfact(task: LongFormTask, data_dir: str | None) -> tuple[Table, dict[str, Any]]:
    blobs, name = _BLOBS[task.metadata.longfact or ""], f"longfact_{task.metadata.longfact}"
    topics, known = (
        task.metadata.topics or tuple(blobs),
        {source.name: source for source in SOURCES},
    )
    if unknown := next((topic for topic in topics if topic not in blobs), None):
        hint = did_you_mean(unknown, blobs) or f"; known: {', '.join(blobs)}"
        raise ConfigError(f"{task.table.where}: metadata.topics: found {unknown!r}{hint}")
    located = [locate(known[f"{name}_{topic}"], data_dir) for topic in topics]
    records: list[Record] = []
    problems: list[str] = []
    for topic, table in zip(topics, (read_table(each.path) for each in located), strict=True):
        problems += table.problems
        for number, record in enumerate(table.records):
            values = {
                "prompt": record.values.get("prompt"),
                "topic": topic,
                "id": f"{topic}-{number}",
            }
            records.append(Record(record.location, values))
    about = {"source": name, "is_published": all(each.is_upstream for each in located)}
    return Table(tuple(records), tuple(problems)), about
