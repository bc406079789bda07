"""``factor-gen build``: make the benchmark that a YAML describes."""

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Argument, Option

from lm_factuality.ground.console import print_table

if TYPE_CHECKING:
    from factor_gen.output.counts import BuiltBenchmark


def build(
    config: Annotated[Path, Argument(help="YAML with the corpus and the settings.")],
    out: Annotated[
        Path,
        Option(help="Folder for the benchmark; an interrupted build resumes in it."),
    ],
    engine: Annotated[
        Literal["local", "ray"] | None,
        Option(help="Local processes, or Ray's on many machines (default: the YAML's)."),
    ] = None,
    workers: Annotated[
        int | None,
        Option(min=1, help="Processes, or actors per stage (default: the YAML's, or the cores)."),
    ] = None,
    documents: Annotated[
        int | None, Option(min=1, help="Read this many documents at most.")
    ] = None,
    restart: Annotated[
        bool, Option("--restart", help="Discard what an earlier build left in the folder.")
    ] = False,
) -> None:
    """Make a FACTOR benchmark from a corpus.

    \b
    Examples:
      factor-gen build my_corpus.yaml --out my_factor
      factor-gen build my_corpus.yaml --out trial --documents 50        a first look
      RAY_ADDRESS=auto factor-gen build my_corpus.yaml --out /shared/my_factor --engine ray

    \b
    my_corpus.yaml, at the least:
      corpus: my_texts/*.txt
      generate: rules
      filter: none
    """
    from factor_gen import pipeline
    from factor_gen.config import load_build

    settings = load_build(config)
    engine = engine or settings.engine
    settings = replace(settings, engine=engine, workers=workers or settings.workers)
    if documents is not None:
        settings = replace(settings, corpus=replace(settings.corpus, documents=documents))
    built = pipeline.build(settings, out, restart=restart)
    _print_documents(settings.name, built)
    sys.stdout.writelines(f"{path}\n" for path in built.files.values())
    task = f"--include_path {shlex.quote(str(out))} --tasks {settings.name}"
    sys.stdout.write(
        "Next, score a model on it, and see what it gives away:\n"
        f"  lm-factuality run --model hf-tree --model_args pretrained=gpt2 {task}\n"
        f"  factor-gen audit {shlex.quote(str(out / settings.name))}.csv\n"
    )


def _print_documents(name: str, built: "BuiltBenchmark") -> None:
    """Print what became of the documents, and what the generator wrote to no avail.

    A model that cannot keep to the format is to be noticed at the first build.
    """
    counts = built.to_json()
    rows = [tuple(row.values()) for row in counts["unused"]]
    rows.append(("", "rows of the benchmark", built.rows))
    print_table(
        f"{name}: what became of {built.documents:,} documents",
        ("left at", "because", "#documents", "#share"),
        [(*where, f"{count:,}", f"{count / built.documents:.1%}") for *where, count in rows],
    )
    for title, column, reasons in (
        ("Rows that corpus.where left out", "#rows", counts["filtered"]),
        ("What was generated and could not be used", "#times", counts["lost"]),
    ):
        if reasons:
            rows_of_reasons = [(reason, f"{count:,}") for reason, count in reasons.items()]
            print_table(title, ("because", column), rows_of_reasons)
