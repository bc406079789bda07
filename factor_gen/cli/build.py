"""``factor-gen build``: make the benchmark that a YAML describes."""

import shlex
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Option

from lm_factuality.ground.console import print_table

if TYPE_CHECKING:
    from factor_gen.pipeline import Built

_FILES = {
    "csv": "the rows, in the columns of the published files",
    "parquet": "the same rows",
    "task": "the task for lm_eval",
    "card": "the dataset card",
    "unused": "the other documents, each with the reason",
    "manifest": "what it was made from",
}


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
    seed: Annotated[int | None, Option(min=0, help="Instead of the YAML's.")] = None,
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
    options = {"engine": engine, "workers": workers, "seed": seed}
    given: dict[str, Any] = {name: each for name, each in options.items() if each is not None}
    if documents is not None:
        given["corpus"] = replace(settings.corpus, documents=documents)
    settings = replace(settings, **given)
    # The manifest keeps what to type to get the same files again, from the folder of the YAML.
    words = ["factor-gen", "build", config.name, "--out", settings.name]
    for name, value in (("documents", documents), ("seed", seed)):
        if value is not None:
            words += [f"--{name}", str(value)]
    command = shlex.join(words)
    built = pipeline.build(settings, out, restart=restart, command=command)
    _print_documents(settings.name, built)
    sys.stdout.writelines(f"{path}: {_FILES[kind]}\n" for kind, path in built.files.items())
    task = f"--include_path {shlex.quote(str(out))} --tasks {settings.name}"
    sys.stdout.write(
        "Next, score a model on it, and see what it gives away:\n"
        f"  lm-factuality run --model hf-tree --model_args pretrained=gpt2 {task}\n"
        f"  factor-gen audit {shlex.quote(str(out / settings.name))}.csv\n"
    )


def _print_documents(name: str, built: "Built") -> None:
    """Print what became of the documents, and what the generator wrote to no avail.

    A model that cannot keep to the format is to be noticed at the first build.
    """
    from factor_gen.stages import ALL_STAGES

    unused = [
        (ALL_STAGES.index(stage), -count, reason) for (stage, reason), count in built.unused.items()
    ]
    rows = [(ALL_STAGES[place], reason, -count) for place, count, reason in sorted(unused)]
    rows.append(("", "rows of the benchmark", built.rows))
    total = built.documents
    print_table(
        f"{name}: what became of {total:,} documents",
        ("left at", "because", "#documents", "#share"),
        [(*where, f"{count:,}", f"{count / total:.1%}") for *where, count in rows],
    )
    _print_reasons("Rows that corpus.where left out", "#rows", built.filtered)
    _print_reasons("What was generated and could not be used", "#times", built.lost)


def _print_reasons(title: str, column: str, counts: Mapping[str, int]) -> None:
    if counts:
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        rows = [(reason, f"{count:,}") for reason, count in ordered]
        print_table(title, ("because", column), rows)
