"""``lm-factuality index`` and ``knowledge``: make an index of passages, or a source of pages by
title, and look at it."""

import argparse
import json
import sys
from dataclasses import asdict
from textwrap import shorten

from lm_factuality.ground.console import print_table
from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.ground.records import lines_of
from lm_factuality.retrieval.bm25 import BM25Parameters
from lm_factuality.retrieval.build import build_index, build_knowledge, open_index
from lm_factuality.retrieval.dense import DenseParameters
from lm_factuality.retrieval.index import check_files, read_manifest
from lm_factuality.retrieval.knowledge import Knowledge
from lm_factuality.retrieval.passages import parse_fields

_MOST = 124  # characters of a passage in a table


def index_build(parsed: argparse.Namespace) -> None:
    fields, parameters = parsed.fields and parse_fields(parsed.fields), _parameters(parsed)
    built = build_index(
        parsed.sources,
        parsed.out,
        parameters,
        words=parsed.words,
        fields=fields,
        overwrite=parsed.overwrite,
    )
    sys.stdout.write(f"{parsed.out}: {len(built):,} passages, index {built.identity}\n")


def _parameters(parsed: argparse.Namespace) -> BM25Parameters | DenseParameters:
    """The options of the index's kind; an option of the other kind is an error."""
    kinds = {"bm25": ("stemmer",), "dense": ("model", "precision")}
    for kind, names in kinds.items():
        for name in names:
            if kind != parsed.kind and getattr(parsed, name) is not None:
                raise ConfigError(f"--{name} is for --kind {kind}, but the kind is {parsed.kind}")
    given = {
        name: value for name in kinds[parsed.kind] if (value := getattr(parsed, name)) is not None
    }
    return DenseParameters(**given) if parsed.kind == "dense" else BM25Parameters(**given)


def index_info(parsed: argparse.Namespace) -> None:
    manifest = read_manifest(parsed.index)
    check_files(parsed.index, manifest, sums=True if parsed.verify else None)
    parameters = ", ".join(
        f"{name} {value}" for name, value in manifest.parameters.items() if name != "fields"
    )
    sources = [f"source {source.path}: {source.version}" for source in manifest.sources]
    notes = [f"{manifest.num_passages:,} passages", f"parameters: {parameters}", *sources]
    notes += [
        f"made by lm-factuality {manifest.suite_version}",
        *(["every file is as it was built"] if parsed.verify else []),
    ]
    files = [(file.name, f"{file.size:,}", file.sha256) for file in manifest.files]
    print_table(
        f"{parsed.index}: {manifest.kind} index {manifest.identity}",
        ("file", "#bytes", "SHA-256"),
        files,
        notes,
    )


def index_query(parsed: argparse.Namespace) -> None:
    if (parsed.text is None) == (parsed.queries is None):
        raise ConfigError("index query needs either a TEXT or --queries FILE")
    expected = "expected queries, one per line"
    queries = (
        [line for _, line in lines_of(parsed.queries, expected)]
        if parsed.queries
        else [parsed.text]
    )
    if not queries:
        raise DataError(f"{parsed.queries}: no queries; expected one per line")
    for query, hits in zip(
        queries, open_index(parsed.index).retrieve(queries, parsed.k), strict=True
    ):
        if parsed.json:
            found = [
                {"number": hit.number, "score": hit.score, **asdict(hit.passage)} for hit in hits
            ]
            sys.stdout.write(json.dumps({"query": query, "hits": found}, ensure_ascii=False) + "\n")
        else:
            rows = []
            for rank, hit in enumerate(hits, start=1):
                text = shorten(hit.passage.text, _MOST, placeholder=" ...")
                rows.append(
                    (str(rank), f"{hit.score:.4f}", hit.passage.id, hit.passage.title, text)
                )
            notes = [] if hits else ["No passage has a word of the query."]
            print_table(query, ("#rank", "#score", "id", "title", "text"), rows, notes)


def knowledge_build(parsed: argparse.Namespace) -> None:
    fields = parsed.fields and parse_fields(parsed.fields)
    built = build_knowledge(parsed.sources, parsed.out, fields=fields, overwrite=parsed.overwrite)
    assert built.manifest is not None
    sys.stdout.write(
        f"{parsed.out}: {len(built):,} pages of {built.manifest.rows:,} rows, knowledge"
        f" {built.identity}\n"
    )


def knowledge_info(parsed: argparse.Namespace) -> None:
    source = Knowledge(parsed.path)
    if parsed.verify:
        source.check()
    if parsed.title is not None:
        if (passages := source.passages(parsed.title)) is None:
            raise DataError(
                f"{parsed.path}: no page is called {parsed.title!r}, nor with other spaces,"
                " underscores, accents, quotes or dashes, or a capital first letter; case is"
                " otherwise part of a title, and so are brackets"
            )
        lines = [
            (str(number), str(len(text.split())), text) for number, text in enumerate(passages, 1)
        ]
        print_table(parsed.title, ("#passage", "#words", "text"), lines)
        return
    manifest = source.manifest
    rows = [
        ("pages", f"{len(source):,}"),
        ("bytes", f"{parsed.path.stat().st_size:,}"),
        ("identity", source.identity),
    ]
    if manifest is not None:
        rows += [
            ("rows", f"{manifest.rows:,}"),
            ("built", manifest.built),
            ("by", f"lm-factuality {manifest.suite_version}"),
        ]
        rows += [("source", f"{each.path}: {each.version}") for each in manifest.sources]
    notes = (
        []
        if manifest
        else ["No manifest: not made by lm-factuality, as FActScore's own files are not."]
    )
    print_table(
        str(parsed.path),
        ("what", "value"),
        rows,
        [*notes, *(["The whole file is sound."] if parsed.verify else [])],
    )
