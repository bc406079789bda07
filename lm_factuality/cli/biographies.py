"""The commands ``retrieve``, ``cite`` and ``page``, which work on biographies.

``lm_factuality.cli.main`` registers them.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Option, echo

from lm_factuality.ground.command_line import App
from lm_factuality.ground.console import format_interval, format_number, print_table
from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.ground.files import write_json, write_lines, write_text

if TYPE_CHECKING:
    from lm_factuality.retrieval.index import Index

# How `cite` describes what it measured, with keys of metrics.json in braces.
_CITATION_COUNTS = (
    "{num_responses} responses ({responses_without_citation} without a citation,"
    " {responses_without_sentence} without a sentence), {num_sentences} sentences"
    " ({sentences_without_citation} without a citation), {num_citations} citations and"
    " {dangling_citations} of passages that were not given; intervals: 95%, clustered by name"
)

app = App()


@app.command()
def page(
    verdicts: Annotated[Path, Option(help="The verdicts.jsonl that 'judge ambigbio' wrote.")],
    out: Annotated[Path, Option(help="The HTML file to write.")],
) -> None:
    """Show judged biographies as one HTML file.

    \b
    Examples:
      lm-factuality page --verdicts results/verdicts.jsonl --out page.html

    The file needs no network and no other file. Keyboard: / searches, and j and k (or the arrow
    keys in the list) go to the next response and to the previous one.
    """
    from lm_factuality.benchmarks.biographies.viewer import build_page

    records = _read_page_records(verdicts)
    # The page is called after the folder, such as the name of a run.
    title = f"Biographies: {verdicts.parent.resolve().name}"
    write_text(out, build_page(records, title, _read_provenance(verdicts)))
    mebibytes = out.stat().st_size / 2**20
    echo(f"{len(records)} responses in {out} ({mebibytes:.1f} MiB)")


def _read_provenance(verdicts: Path) -> dict[str, Any]:
    """Return how verdicts came about, for the head of their page.

    Args:
        verdicts: A file ``verdicts.jsonl``.

    Returns:
        The entry ``about`` of the file ``metrics.json`` beside it, such as ``{"judge": "my_judge",
        "knowledge": "wiki.db"}``, where the judge is reduced to its name. Empty without that file.
    """
    from lm_factuality.benchmarks.certifiable import as_mapping
    from lm_factuality.ground.records import read_model

    metrics = verdicts.with_name("metrics.json")
    if not metrics.is_file():
        return {}
    provenance = as_mapping(read_model(metrics, dict, "expected a JSON object").get("about"))
    return {**provenance, "judge": as_mapping(provenance.get("judge")).get("name")}


def _read_page_records(verdicts: Path) -> list[dict[str, Any]]:
    """Read judged biographies with all the keys that the HTML page shows.

    Args:
        verdicts: A file ``verdicts.jsonl``, with a biography per line.

    Raises:
        DataError: The biographies were judged with different settings, so that their scores cannot
            be compared on one page.
    """
    from lm_factuality.benchmarks.biographies.method import AmbigBio
    from lm_factuality.benchmarks.biographies.types import biography_from_record, read_verdicts

    records = []
    for record in read_verdicts(verdicts):
        # Verdicts on long-form answers have neither scores nor a linking. The line's keys win.
        scores = AmbigBio().make_record(biography_from_record(record))
        records.append({**scores, "linking": "none", **record})

    settings = {(record["protocol"], record["linking"]) for record in records}
    if len(settings) != 1:
        raise DataError(
            f"{verdicts}: verdicts of {len(settings)} protocols or linkings, expected those of one;"
            " make them with: lm-factuality judge ambigbio ... --out DIR"
        )
    return records


@app.command()
def cite(
    generations: Annotated[
        list[Path], Option(metavar="FILE...", help="Files with responses, as described below.")
    ],
    nli: Annotated[
        str,
        Option(
            help="The model that decides whether passages support a sentence: its name on the Hub,"
            " its folder, or 'lexical'."
        ),
    ],
    out: Annotated[Path, Option(help="Folder to write metrics.json and citations.jsonl to.")],
    protocol: Annotated[
        Literal["fixed", "code"],
        Option(
            help="How citations are read. fixed: in every form, such as [1, 2] or [1-3]. code: as"
            " ALCE's scorer reads them, which the authors used."
        ),
    ] = "fixed",
    sentences: Annotated[
        Literal["rules", "punkt"],
        Option(
            help="How texts are split into sentences. rules: by the suite's rules. punkt: as ALCE"
            " does; it needs NLTK's data."
        ),
    ] = "rules",
) -> None:
    """Measure whether the passages that a response cites support it.

    \b
    Examples:
      lm-factuality cite --generations generations.json.gz --nli lexical --out cited
      lm-factuality cite --generations alce.json --nli microsoft/deberta-large-mnli --out cited
      lm-factuality cite --generations alce.json --nli lexical --protocol code --out cited

    FILE is in ALCE's format: {"data": [{"question", "docs": [{"title", "text"}], "output"}]}.
    'lexical' needs no model: it compares words, numbers, dates and names.
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
    provenance = {
        "nli": entailment.identity,
        "pairs": len(entailment.verdicts),
        "sentences": sentences,
        "generations": [path.name for path in generations],
    }
    lines = (json.dumps(citation_record(response), ensure_ascii=False) for response in judged)
    write_lines(out / "citations.jsonl", lines)
    write_json(out / "metrics.json", {**summary, "about": provenance})
    _print_citation_scores(summary, provenance)
    echo(f"Written to {out / 'metrics.json'} and citations.jsonl beside it")


def _print_citation_scores(summary: Mapping[str, Any], provenance: Mapping[str, Any]) -> None:
    """Print a table with the citation recall and precision of all responses.

    Citation recall is the share of sentences that the cited passages support. Citation precision is
    the share of citations that their sentences need.

    Args:
        summary: The content of metrics.json: scores, intervals, counts and unscored items.
        provenance: The entry ``about`` of metrics.json, which names the inference model.
    """
    rows = []
    unscored = summary["unscored"]
    for name in ("citation_recall", "citation_precision"):
        value = format_number(summary[name])
        confidence_interval = format_interval(summary["intervals"][name])
        # The score if all unscored items failed, and if all passed.
        bounds = format_interval((unscored["worst"][name], unscored["best"][name]))
        rows.append((name.replace("_", " "), value, confidence_interval, bounds))

    notes = [f"protocol {summary['protocol']}:"]
    notes += [f"  {choice}" for choice in summary["choices"]]
    # The template names keys of metrics.json, such as num_responses.
    notes.append(_CITATION_COUNTS.format_map(summary))
    notes.append(f"{provenance['pairs']} pairs judged by {provenance['nli']}")
    notes.append(
        f"no verdict on {unscored['sentences']} sentences and {unscored['citations']} citations"
    )
    # The sign # marks columns of numbers, which are flush right.
    columns = ("figure", "#value", "#95% interval", "#worst - best")
    print_table("Citations", columns, rows, notes)


@app.command()
def retrieve(
    names: Annotated[Path, Option(help="AmbigBio.csv, or a file with one name per line.")],
    index: Annotated[Path, Option(help="Folder of an index that 'index build' made.")],
    out: Annotated[Path, Option(help="JSON file to write, in ALCE's format.")],
    k: Annotated[int, Option("--k", help="Number of passages per name.")] = 5,
) -> None:
    """Find passages about people with ambiguous names.

    \b
    Examples:
      lm-factuality retrieve --names AmbigBio.csv --index my_dense_index --k 5 --out retrieved.json
      lm-factuality retrieve --names names.txt --index my_index --out retrieved.json

    AmbigBio.csv is D-FActScore's file of names. The query is "Tell me a bio of NAME", where NAME
    has no "(disambiguation)". The D-FActScore paper retrieves with GTR from passages of 100 words
    of Wikipedia: 'lm-factuality index build --kind dense --words 100' makes such an index. A name
    without any passage is left out. The output lists these names in "about".
    """
    from lm_factuality.benchmarks.biographies.generations import read_names
    from lm_factuality.retrieval.build import open_index

    if k < 1:
        raise ConfigError(f"--k {k}: expected at least 1 passage per name")
    requested_names = read_names(names)
    opened_index = open_index(index)
    all_rows = _retrieve_rows(requested_names, opened_index, k)
    # A model cannot be asked about a name without passages.
    rows = [row for row in all_rows if row["docs"]]
    if not rows:
        raise DataError(
            f"{index}: no passage for any of {len(requested_names)} names; is this the index that"
            " was meant?"
        )

    manifest = opened_index.manifest
    provenance = {
        "index": opened_index.identity,
        "kind": manifest.kind,
        "parameters": dict(manifest.parameters),
        "k": k,
        "names": len(requested_names),
        "without_passages": [row["name"] for row in all_rows if not row["docs"]],
    }
    write_json(out, {"data": rows, "about": provenance})
    echo(
        f"Passages for {len(rows)} of {len(requested_names)} names from {index} ({manifest.kind})\n"
        f"Written to {out}"
    )


def _retrieve_rows(names: Sequence[str], index: "Index", k: int) -> list[dict[str, Any]]:
    """Find the best passages for each name, as rows of ALCE's JSON format.

    Args:
        names: The names of people, such as "Ada Lind".
        index: The passages to search.
        k: How many passages to return per name.

    Returns:
        A row ``{"question": ..., "name": ..., "docs": [...]}`` per name, in the order of ``names``.
        ``docs`` holds the passages. It is empty if no passage fits.
    """
    from lm_factuality.benchmarks.biographies.generations import question_about

    questions = [question_about(name) for name in names]
    hits_by_name = index.retrieve(questions, k)
    rows = []
    for name, question, hits in zip(names, questions, hits_by_name, strict=True):
        # A hit is a passage of the index with its score, the best hit first.
        docs = [{**asdict(hit.passage), "score": hit.score} for hit in hits]
        rows.append({"question": question, "name": name, "docs": docs})
    return rows
