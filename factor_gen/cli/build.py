"""``factor-gen build``: makes the benchmark that a YAML describes."""

from __future__ import annotations

import argparse
import shlex
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from factor_gen.settings import BuildSettings
from factor_gen.stages import ALL_STAGES
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


def build(parsed: argparse.Namespace) -> int:
    """Runs the build, prints what became of the documents, and says what to do next."""
    from factor_gen.config import load_build
    from factor_gen.pipeline import build

    settings = load_build(parsed.config)
    given = {
        name: getattr(parsed, name)
        for name in ("engine", "workers", "seed")
        if getattr(parsed, name) is not None
    }
    if parsed.documents is not None:
        given["corpus"] = replace(settings.corpus, documents=parsed.documents)
    settings = replace(settings, **given)
    built = build(
        settings,
        parsed.out,
        restart=parsed.restart,
        until=parsed.until,
        command=_command(settings, parsed),
    )
    _print(settings.name, built)
    for line in [
        *(f"{path}: {_FILES[kind]}" for kind, path in built.files.items()),
        *_next(settings, parsed, bool(built.files)),
    ]:
        sys.stdout.write(f"{line}\n")
    return 0


def _next(settings: BuildSettings, parsed: argparse.Namespace, is_whole: bool) -> list[str]:
    out = shlex.quote(str(parsed.out))
    if not is_whole:
        return [
            f"Stopped after {parsed.until}; its shards are in {parsed.out / 'stages'}. To continue,"
            " leave out --until."
        ]
    task = f"--include_path {out} --tasks {settings.name}"
    return [
        "Next, score a model on it, and see what it gives away:",
        f"  lm-factuality run --model hf-tree --model_args pretrained=gpt2 {task}",
        f"  factor-gen audit {shlex.quote(str(parsed.out / settings.name))}.csv",
    ]


def _command(settings: BuildSettings, parsed: argparse.Namespace) -> str:
    """What to type to get the same files again, from the folder of the YAML."""
    words = ["factor-gen", "build", parsed.config.name, "--out", settings.name]
    for name in ("documents", "seed"):
        if getattr(parsed, name) is not None:
            words += [f"--{name}", str(getattr(parsed, name))]
    return shlex.join(words)


def _print(name: str, built: Built) -> None:
    """What became of the documents, and what the generator wrote to no avail: a model that cannot
    keep to the format is to be noticed at the first build."""
    total = built.documents
    reasons = sorted(
        built.unused.items(), key=lambda each: (ALL_STAGES.index(each[0][0]), -each[1], each[0][1])
    )
    end = ("", "rows of the benchmark" if built.files else "go on to the next stage"), built.rows
    lines = [(*where, f"{count:,}", f"{count / total:.1%}") for where, count in [*reasons, end]]
    print_table(
        f"{name}: what became of {total:,} documents",
        ("left at", "because", "#documents", "#share"),
        lines,
    )
    if built.filtered:
        rows = [
            (reason, f"{count:,}")
            for reason, count in sorted(
                built.filtered.items(), key=lambda each: (-each[1], each[0])
            )
        ]
        print_table("Rows that corpus.where left out", ("because", "#rows"), rows)
    if built.lost:
        rows = [
            (reason, f"{count:,}")
            for reason, count in sorted(built.lost.items(), key=lambda each: (-each[1], each[0]))
        ]
        print_table("What was generated and could not be used", ("because", "#times"), rows)
