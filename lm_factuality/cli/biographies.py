"""The commands ``retrieve``, ``cite`` and ``page``, which work on biographies.

``lm_factuality.cli.main`` registers them.
"""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Option

from lm_factuality.ground.command_line import App
from lm_factuality.ground.console import format_interval, format_number, print_table
from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.ground.files import write_json, write_lines, write_text

app = App()


@app.command()
def page(
    verdicts: Annotated[Path, Option(help="verdicts.jsonl of 'judge ambigbio'.")],
    out: Annotated[Path, Option(help="The HTML file to write.")],
) -> None:
    """Show judged biographies as one HTML file.

    \b
    Examples:
      lm-factuality page --verdicts results/verdicts.jsonl --out page.html

    The file needs no network and no other file. Keys: / searches, j and k (or the arrows in the
    list) go to the next response and to the previous one.
    """
    from lm_factuality.benchmarks.biographies.method import AmbigBio
    from lm_factuality.benchmarks.biographies.types import biography_from_record, read_verdicts
    from lm_factuality.benchmarks.biographies.viewer import build_page

    # Verdicts on long-form answers have no scores of their own, and nothing was linked.
    records = [
        {**AmbigBio().make_record(biography_from_record(record)), "linking": "none", **record}
        for record in read_verdicts(verdicts)
    ]
    settings = {(record["protocol"], record["linking"]) for record in records}
    if len(settings) != 1:
        raise DataError(
            f"{verdicts}: verdicts of {len(settings)} protocols or linkings, expected those of one;"
            " make them with: lm-factuality judge ambigbio ... --out DIR"
        )
    title = f"Biographies: {verdicts.parent.resolve().name}"
    write_text(out, build_page(records, title))
    size = out.stat().st_size / 2**20
    sys.stdout.write(f"{len(records)} responses in {out} ({size:.1f} MiB)\n")


@app.command()
def cite(
    generations: Annotated[list[Path], Option(metavar="FILE...", help="Responses, as below.")],
    nli: Annotated[
        str,
        Option(help="lexical, or an inference model on the Hub or in a folder."),
    ],
    out: Annotated[Path, Option(help="Folder for metrics.json and citations.jsonl.")],
    protocol: Annotated[
        Literal["fixed", "code"],
        Option(
            help="fixed: every way of citing is read; code: as the authors did with ALCE's scorer."
        ),
    ] = "fixed",
    sentences: Annotated[
        Literal["rules", "punkt"],
        Option(help="How sentences are found; punkt is ALCE's and needs NLTK's data."),
    ] = "rules",
) -> None:
    """Measure whether cited passages support a response.

    \b
    Examples:
      lm-factuality cite --generations generations.json.gz --nli lexical --out cited
      lm-factuality cite --generations alce.json --nli microsoft/deberta-large-mnli --out cited
      lm-factuality cite --generations alce.json --nli lexical --protocol code --out cited

    generations.json is ALCE's: {"data": [{"question", "docs": [{"title", "text"}], "output"}]}.
    'lexical' needs no model: it goes by words, numbers, dates and names.
    """
    from judges.inference import load_entailment
    from lm_factuality.benchmarks.biographies.citations import (
        citation_record,
        judge_citations,
        sentence_splitter,
        summarise_citations,
    )
    from lm_factuality.benchmarks.biographies.generations import read_generations

    split = sentence_splitter(sentences)
    responses = read_generations(generations)
    entailment = load_entailment(nli)
    judged = judge_citations(responses, entailment, protocol, split)
    summary = summarise_citations(judged)
    about = {
        "nli": entailment.identity,
        "pairs": len(entailment.verdicts),
        "sentences": sentences,
        "generations": [path.name for path in generations],
    }
    lines = (json.dumps(citation_record(response), ensure_ascii=False) for response in judged)
    write_lines(out / "citations.jsonl", lines)
    write_json(out / "metrics.json", {**summary, "about": about})
    _print_citations(summary, about)
    sys.stdout.write(f"Written to {out / 'metrics.json'} and citations.jsonl beside it\n")


def _print_citations(summary: dict[str, Any], provenance: dict[str, Any]) -> None:
    """Print a table with the citation recall and precision of all responses.

    Args:
        summary: The content of metrics.json: scores, intervals, counts and unscored items.
        provenance: The entry ``about`` of metrics.json, which names the inference model.
    """
    rows = []
    unscored = summary["unscored"]
    for name in ("recall", "precision"):
        key = f"citation_{name}"
        confidence_interval = format_interval(summary["intervals"][key])
        # The score if all unscored items failed, and if all passed.
        bounds = format_interval((unscored["worst"][key], unscored["best"][key]))
        rows.append((f"citation {name}", format_number(summary[key]), confidence_interval, bounds))
    notes = [
        f"protocol {summary['protocol']}:",
        *(f"  {choice}" for choice in summary["choices"]),
        f"{summary['num_responses']} responses ({summary['responses_without_citation']} without a"
        f" citation, {summary['responses_without_sentence']} without a sentence),"
        f" {summary['num_sentences']} sentences ({summary['sentences_without_citation']} without a"
        f" citation), {summary['num_citations']} citations and {summary['dangling_citations']} of"
        " passages that were not given; intervals: 95%, bootstrap over names",
        f"{provenance['pairs']} pairs judged by {provenance['nli']}",
        f"no verdict on {unscored['sentences']} sentences and {unscored['citations']} citations",
    ]
    columns = ("figure", "#value", "#95% interval", "#worst - best")
    print_table("Citations", columns, rows, notes)


@app.command()
def retrieve(
    names: Annotated[Path, Option(help="AmbigBio.csv, or one name per line.")],
    index: Annotated[Path, Option(help="An index, BM25 or dense.")],
    out: Annotated[Path, Option(help="JSON file to write, in ALCE's format.")],
    k: Annotated[int, Option("--k", help="Number of passages per name.")] = 5,
) -> None:
    """Find passages for ambiguous names.

    \b
    Examples:
      lm-factuality retrieve --names AmbigBio.csv --index my_dense_index --k 5 --out retrieved.json
      lm-factuality retrieve --names names.txt --index my_index --out retrieved.json

    AmbigBio.csv is D-FActScore's: a question, a tab, the name in brackets; any other file has one
    name per line. The query is "Tell me a bio of NAME", without "(disambiguation)". 'lm-factuality
    index build' makes indexes: the paper's is --kind dense with GTR, over Wikipedia in passages of
    100 words. A name without any passage is left out, and named in the file under "about".
    """
    from lm_factuality.benchmarks.biographies.generations import question_about, read_names
    from lm_factuality.retrieval.build import open_index

    if k < 1:
        raise ConfigError(f"--k {k}: expected at least 1 passage per name")
    asked = read_names(names)
    passages = open_index(index)
    rows = []
    without = []
    hits_by_name = passages.retrieve([question_about(name) for name in asked], k)
    for name, hits in zip(asked, hits_by_name, strict=True):
        docs = [{**asdict(hit.passage), "score": hit.score} for hit in hits]
        if docs:
            rows.append({"question": question_about(name), "name": name, "docs": docs})
        else:
            without.append(name)
    if not rows:
        raise DataError(
            f"{index}: no passage for any of {len(asked)} names; is this the index that was meant?"
        )
    about = {
        "index": passages.identity,
        "kind": passages.manifest.kind,
        "parameters": dict(passages.manifest.parameters),
        "k": k,
        "names": len(asked),
        "without_passages": without,
    }
    write_json(out, {"data": rows, "about": about})
    sys.stdout.write(
        f"Passages for {len(rows)} of {len(asked)} names from {index} ({passages.manifest.kind})\n"
        f"Written to {out}\n"
    )
