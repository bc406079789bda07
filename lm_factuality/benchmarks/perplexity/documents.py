"""Whole documents to score as a perplexity YAML describes them: a table of texts, or those behind
the rows of a FACTOR file.

The YAML names a table by lm_eval's own keys (``dataset_path``, ``dataset_name``,
``dataset_kwargs``, ``test_split``); ``metadata`` has ``documents_of``, ``columns``, ``window``,
``stride``, ``caution``.

A FACTOR row's text is its prefix (``full_prefix`` where the file has one, since the published files
cut the other) joined to its true completion as for scoring. Of one document's texts those go that
another holds (white space aside), and those whose prefix begins another, which would be counted
twice; so do texts that begin any other in the file. What is left is for each document its longest
text, and any that begins differently. How many rows went is in the provenance."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from lm_factuality.benchmarks.declaration import wrong_metrics
from lm_factuality.benchmarks.factor import corpus as factor_corpus
from lm_factuality.benchmarks.factor import rows as factor_rows
from lm_factuality.benchmarks.factor.corpus import (
    PAPER_WINDOW,
    Column,
    Columns,
    Corpus,
    Joined,
    TableYaml,
    Window,
    metadata_of,
)
from lm_factuality.benchmarks.factor.joining import AUTHORS_JOIN, Join
from lm_factuality.benchmarks.factor.load import Loaded, column_names, find_table, table_rows
from lm_factuality.benchmarks.factor.rows import (
    HALF_A_PAIR,
    NO_TEXT,
    REPLACEMENT,
    SURROGATE,
    WRONGLY_DECODED,
    Row,
)
from lm_factuality.benchmarks.perplexity.benchmark import SCORES
from lm_factuality.ground.errors import ConfigError, did_you_mean
from lm_factuality.ground.settings import Strict
from lm_factuality.ground.tables import Table


class _TextColumns(Strict):
    text: Annotated[str, Field(description="a column name")] = "text"
    doc_id: Column = None


class _Metadata(Strict, extra="ignore"):
    documents_of: Annotated[
        str | None, Field(description="a published FACTOR file by name or a file's path")
    ] = None
    columns: _TextColumns | None = None
    window: Window = PAPER_WINDOW
    stride: Annotated[
        Annotated[int, Field(ge=1)] | None,
        BeforeValidator(factor_corpus.null_as_text),
        Field(description="a number of tokens, at least 1, or null for half of the window"),
    ] = None


class _RowsMetadata(_Metadata, Joined):
    columns: Columns | None = None  # type: ignore[assignment]


class _TextsYaml(TableYaml):
    output_type: Literal["loglikelihood_rolling"] = "loglikelihood_rolling"
    doc_to_text: Annotated[Literal[""], Field(description="'': nothing stands before a text")] = ""
    doc_to_target: Literal["doc_id"] = "doc_id"
    metadata: _Metadata | None = None


class _RowsYaml(_TextsYaml):
    metadata: _RowsMetadata


@dataclass(frozen=True)
class TextCorpus:
    """A perplexity YAML, checked. ``table`` says where its file lies, and how many tokens a model
    sees at once (its ``window``, None: as many as it can); ``from_rows`` that its rows are FACTOR
    examples, whose documents are to be rebuilt; ``text`` is the column of texts otherwise;
    ``stride`` how many tokens are scored in each window after the first (None: half of the
    window)."""

    table: Corpus
    from_rows: bool
    text: str
    stride: int | None


def parse_texts(config: Mapping[str, Any]) -> TextCorpus:
    """The corpus that the config of a perplexity task describes. Raises ConfigError: every key that
    is wrong."""
    from_rows = metadata_of(config).get("documents_of") is not None
    yaml = factor_corpus.read_yaml(
        _RowsYaml if from_rows else _TextsYaml, config, _problems(config, metadata_of(config))
    )
    metadata = yaml.metadata or _Metadata()
    given: Columns | _TextColumns = metadata.columns or _TextColumns()
    columns, text = (
        (Columns(doc_id=given.doc_id), given.text)
        if isinstance(given, _TextColumns)
        else (given, "text")
    )
    is_file = from_rows and str(metadata.documents_of).lower().endswith(
        tuple(factor_corpus.LOADERS.values())
    )
    source = None if is_file else metadata.documents_of
    path = metadata.documents_of if is_file else yaml.dataset_path
    join = metadata.rule(source) if isinstance(metadata, _RowsMetadata) else Join()
    settings = {"source": source, "columns": columns, "window": metadata.window, "join": join}
    table = factor_corpus.to_corpus(yaml, config, path, **settings)
    return TextCorpus(table, from_rows, text, metadata.stride)


def _problems(config: Mapping[str, Any], metadata: Mapping[str, Any]) -> Iterator[str]:
    yield from wrong_metrics(SCORES, config.get("metric_list"))
    yield from factor_corpus.wrong_join(config)
    documents_of = metadata.get("documents_of")
    if documents_of and config.get("dataset_path"):
        yield "dataset_path and metadata.documents_of both name the texts; keep one"
    if not documents_of and not config.get("dataset_path"):
        close = next((key for key in metadata if did_you_mean(str(key), ["documents_of"])), None)
        hint = f"; did you mean documents_of where metadata has {close}?" if close else ""
        yield (
            "no texts: give dataset_path (a CSV, JSONL or Parquet file with a column of texts, or"
            f" a dataset on the Hub) or metadata.documents_of (a FACTOR file){hint}"
        )
    stride, window = metadata.get("stride"), metadata.get("window", PAPER_WINDOW)
    if isinstance(stride, int) and isinstance(window, int) and stride >= window:
        yield f"metadata.stride: found {stride}, expected less than the window of {window} tokens"


# of the published files: the prefix before it was cut to the window of the authors' models
WHOLE_PREFIX = "full_prefix"


@dataclass(frozen=True)
class Document:
    """A text to score; ``doc_id`` is what standard errors are clustered by, ``problem`` why it
    cannot be scored, if it cannot."""

    location: str
    doc_id: str
    text: str
    problem: str = ""


def load_texts(corpus: TextCorpus, data_dir: str | Path | None = None) -> Loaded[Document]:
    """All documents of ``corpus``; one that cannot be scored keeps its place and says why. Raises
    ConfigError: columns that the table has not. Raises DataError: a file that is missing, or of
    which nothing can be read."""
    table, provenance = find_table(corpus.table, data_dir)
    if corpus.from_rows:
        names = column_names(table)
        described = corpus.table
        if described.columns.prefix is None and WHOLE_PREFIX in names:
            described = replace(
                described, columns=described.columns.model_copy(update={"prefix": WHOLE_PREFIX})
            )
        rows = table_rows(described, table)
        documents, dropped = rebuild(rows, described.join)
        provenance |= {"rows": len(rows), "rows_in_longer_texts": dropped}
    else:
        documents = _texts(corpus, table)
    return Loaded(tuple(documents), {**provenance, "documents": len(documents)}, table.problems)


def rebuild(rows: Sequence[Row], join: Join = AUTHORS_JOIN) -> tuple[list[Document], int]:
    """The documents that ``rows`` come from, as the module says, and how many rows' texts stand in
    those of others."""
    texts = [
        "".join(join(row.prefix, row.choices[row.gold])) if row.choices else row.prefix
        for row in rows
    ]
    plain = [_plain(text) for text in texts]
    # In sorted order a text that begins another, or repeats an earlier one, comes right before it.
    order = sorted(range(len(plain)), key=lambda index: (plain[index], -index))
    beginnings = {
        one for one, other in pairwise(order) if plain[one] and plain[other].startswith(plain[one])
    }
    of_document: dict[str, list[int]] = defaultdict(list)
    for index, row in enumerate(rows):
        of_document[row.doc_id].append(index)
    kept: set[int] = set()
    for indices in of_document.values():
        held: list[int] = []
        for index in sorted(indices, key=lambda index: len(plain[index]), reverse=True):
            prefix = _plain(rows[index].prefix)
            if not any(
                plain[index] in plain[other] or (prefix and plain[other].startswith(prefix))
                for other in held
            ):
                held.append(index)
        kept.update(index for index in held if index not in beginnings)
    left = [(rows[index], texts[index]) for index in sorted(kept)]
    documents = [Document(row.location, row.doc_id, text, _unscorable(text)) for row, text in left]
    return documents, len(rows) - len(documents)


def _plain(text: str) -> str:
    return " ".join(text.split())


def _texts(corpus: TextCorpus, table: Table) -> list[Document]:
    names = column_names(table)
    doc_id = corpus.table.columns.doc_id or "doc_id"
    wanted = {"text": corpus.text} | ({"doc_id": doc_id} if corpus.table.columns.doc_id else {})
    for key, name in wanted.items():
        if name not in names:
            raise ConfigError(
                f"{corpus.table.where}: metadata.columns.{key}: no column {name!r}; the table has"
                f" the columns {', '.join(map(repr, names))}. Say in metadata.columns which holds"
                " the texts."
            )
    documents = []
    for number, record in enumerate(table.records):
        value = factor_rows.cell_text(record.values.get(corpus.text))
        problem = f"the text {NO_TEXT}" if value is None else _unscorable(value)
        cluster = factor_rows.cell_text(record.values.get(doc_id)) or f"document {number}"
        documents.append(Document(record.location, cluster, factor_rows.encodable(value), problem))
    return documents


def _unscorable(text: str) -> str:
    if not text.strip():
        return "the document is empty"
    return HALF_A_PAIR if SURROGATE.search(text) else ""


def text_suspicions(documents: Sequence[Document]) -> Iterator[tuple[str, str]]:
    """(location, what) for documents that can be scored but should not be trusted as they stand."""
    seen: dict[str, str] = {}
    for document in documents:
        if document.problem:
            continue
        if REPLACEMENT in document.text:
            yield document.location, WRONGLY_DECODED
        first = seen.setdefault(_plain(document.text), document.location)
        if first != document.location:
            yield document.location, f"repeats the document at {first}"
