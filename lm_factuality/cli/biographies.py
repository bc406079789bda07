"""Commands on biographies: passages for ambiguous names, whether cited passages support what is
said, and judged ones to see."""

import argparse
import json
import sys
from dataclasses import asdict
from typing import Any

from tqdm import tqdm

from judges.inference import load_entailment
from lm_factuality.benchmarks.biographies.citations import (
    find_splitter,
    judge_citations,
    summarise_citations,
    to_record,
)
from lm_factuality.benchmarks.biographies.generations import query_of, read_generations, read_names
from lm_factuality.benchmarks.biographies.types import read_lines
from lm_factuality.benchmarks.biographies.viewer import build_page
from lm_factuality.ground.console import percent, print_table
from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.ground.files import write_json, write_lines, write_text
from lm_factuality.retrieval.build import open_index

_QUERIES = 256  # at a time
_SHOWN = 5  # names that a note lists


def retrieve(parsed: argparse.Namespace) -> None:
    """Writes the file and says how many passages there are; a name without any is left out, and
    named under ``about``."""
    if parsed.k < 1:
        raise ConfigError(f"--k {parsed.k}: expected at least 1 passage per name")
    names = read_names(parsed.names)
    index = open_index(parsed.index)
    rows: list[dict[str, Any]] = []
    starts = tqdm(range(0, len(names), _QUERIES), desc="retrieve", unit=" batches", delay=2)
    for start in starts:
        batch = names[start : start + _QUERIES]
        queries = [query_of(name) for name in batch]
        for name, query, hits in zip(
            batch, queries, index.retrieve(queries, parsed.k), strict=True
        ):
            docs = [{**asdict(hit.passage), "score": hit.score} for hit in hits]
            rows.append({"question": query, "name": name, "docs": docs})
    about = {
        "index": index.identity,
        "kind": index.manifest.kind,
        "parameters": dict(index.manifest.parameters),
        "k": parsed.k,
        "names": len(names),
        "without_passages": [row["name"] for row in rows if not row["docs"]],
    }
    found = [row for row in rows if row["docs"]]
    if not found:
        raise DataError(
            f"{parsed.index}: no passage for any of {len(names)} names; is this the index that was"
            " meant?"
        )
    write_json(parsed.out, {"data": found, "about": about})
    few = [row["name"] for row in found if len(row["docs"]) < parsed.k]
    lacking = (("no passage, left out", about["without_passages"]), (f"fewer than {parsed.k}", few))
    notes = [
        f"{what}: {', '.join(each[:_SHOWN])}{' ...' if len(each) > _SHOWN else ''}"
        for what, each in lacking
        if each
    ]
    counts = len(names), len(found), sum(len(row["docs"]) for row in found)
    columns = ("#names", "#with passages", "#passages")
    print_table(
        f"Passages from {parsed.index} ({index.manifest.kind})",
        columns,
        [tuple(map(str, counts))],
        notes,
    )
    sys.stdout.write(f"Written to {parsed.out}\n")


def cite(parsed: argparse.Namespace) -> None:
    if parsed.batch_size < 1:
        raise ConfigError(f"--batch-size {parsed.batch_size}: expected 1 or more")
    split = find_splitter(parsed.sentences)
    generations = read_generations(parsed.generations)
    entailment = load_entailment(parsed.nli, parsed.batch_size, parsed.device)
    judged = judge_citations(generations, entailment, parsed.protocol, split)
    summary = summarise_citations(judged, parsed.protocol)
    names = [path.name for path in parsed.generations]
    about = {
        "nli": entailment.identity,
        "pairs": len(entailment.known),
        "sentences": parsed.sentences,
        "generations": names,
    }
    write_lines(
        parsed.out / "citations.jsonl",
        (json.dumps(to_record(each), ensure_ascii=False) for each in judged),
    )
    write_json(parsed.out / "metrics.json", {**summary, "about": about})
    _print_citations(summary, about)
    sys.stdout.write(f"Written to {parsed.out / 'metrics.json'} and citations.jsonl beside it\n")


def _print_citations(summary: dict[str, Any], about: dict[str, Any]) -> None:
    lost = summary["unscored"]
    rows = [
        (name, percent(summary[key]), " - ".join(percent(end) for end in summary["intervals"][key]))
        for key, name in (
            ("citation_recall", "citation recall"),
            ("citation_precision", "citation precision"),
        )
    ]
    notes = [
        f"protocol {summary['protocol']}:",
        *(f"  {choice}" for choice in summary["choices"]),
        (
            f"{summary['num_responses']} responses ({summary['responses_without_citation']} without"
            f" a citation, {summary['responses_without_sentence']} without a sentence),"
            f" {summary['num_sentences']} sentences ({summary['sentences_without_citation']}"
            f" without a citation), {summary['num_citations']} citations and"
            f" {summary['dangling_citations']} of passages that were not given; intervals: 95%,"
            " bootstrap over names"
        ),
        f"{about['pairs']} pairs judged by {about['nli']}",
    ]
    if lost["sentences"] or lost["citations"]:
        ends = ", ".join(
            f"{key.removeprefix('citation_')} {percent(lost['worst'][key])} -"
            f" {percent(lost['best'][key])}"
            for key in ("citation_recall", "citation_precision")
        )
        notes.append(
            f"no verdict on {lost['sentences']} sentences and {lost['citations']} citations; worst"
            f" - best: {ends}"
        )
    print_table("Citations", ("figure", "#value", "#95% interval"), rows, notes)


def page(parsed: argparse.Namespace) -> None:
    lines = read_lines(parsed.verdicts)
    if not lines:
        raise DataError(
            f"{parsed.verdicts}: no verdicts; make them with: lm-factuality judge ambigbio ..."
            " --out DIR"
        )
    title = parsed.title or f"Biographies: {parsed.verdicts.parent.resolve().name}"
    found = sorted({each.protocol or "paper" for each in lines})
    if len(found) > 1 and not parsed.protocol:
        raise DataError(
            f"{parsed.verdicts}: verdicts of the protocols {' and '.join(found)}; choose one with"
            " --protocol"
        )
    protocol = parsed.protocol or found[0]
    linking = " and ".join(sorted({each.linking for each in lines if each.linking})) or None
    write_text(parsed.out, build_page([each.judged for each in lines], title, protocol, linking))
    size = parsed.out.stat().st_size / 2**20
    sys.stdout.write(f"{len(lines)} responses in {parsed.out} ({size:.1f} MiB)\n")
