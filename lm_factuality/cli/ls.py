"""``lm-factuality ls``: the suite's tasks."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from textwrap import fill
from typing import Any

from lm_factuality.cli.actions import Command


def ls(parsed: argparse.Namespace) -> int:
    """Prints what every task asks, its rows, licence and whether a judge marks it, and the groups; needs no model, no network."""
    from lm_factuality.ground.suite import tasks_folder
    from lm_factuality.harness.tasks import find_configs, suite_tasks

    manager = suite_tasks()
    rows: dict[str, list[tuple[str, ...]]] = {}  # by the question
    groups = []
    for name in manager.all_tasks:
        found = [config for _, config in find_configs(name) if isinstance(config, dict)]
        if name in manager.all_groups:
            groups.append(f"{name}: {', '.join(str(config['task']) for config in found)}")
        else:
            for asks, *about in map(_about, found):
                rows.setdefault(asks, []).append((name, *about))
    for asks, tasks in rows.items():
        sys.stdout.write(f"{asks}\n")
        for name, count, licence, judge in tasks:
            sys.stdout.write(f"  {name:<28} {count:>5} rows  {licence:<15}  {judge}".rstrip() + "\n")
    sys.stdout.write("\nGroups\n")
    for group in groups:
        sys.stdout.write(f"{fill(group, 78, initial_indent='  ', subsequent_indent='    ')}\n")
    sys.stdout.write(f"\nlm_eval takes these YAMLs with --include_path {tasks_folder()}\n")
    return 0


def _about(config: Mapping[str, Any]) -> tuple[str, str, str, str]:
    from lm_factuality.benchmarks import all_benchmarks, all_sources
    from lm_factuality.harness.suite_task import quietly

    kind, metadata = config["class"], config["metadata"]
    benchmark = kind.declared
    asks = benchmark.lead.partition("?")
    judge = "needs a judge" if benchmark.generation else ""
    named = [name for key in ("source", "documents_of") if (name := metadata.get(key)) in all_sources()]
    page = next((each.sources for each in all_benchmarks() if each.kind == benchmark.page), ())
    marks = tuple(f"{key}_{value}" for key, value in metadata.items() if isinstance(value, str))
    by_mark = [source for source in benchmark.sources if source.name.startswith(marks)]
    if config.get("dataset_path") or str(metadata.get("documents_of", "")).endswith(".csv"):
        with quietly():
            count, licence = len(kind(config={**config, "metadata": {"judge": "lexical", **metadata}}).eval_docs), ""
    else:
        sources = [all_sources()[name] for name in named] or by_mark or (benchmark.sources or page)[:1]
        count, licence = sum(each.rows for each in sources), ", ".join(sorted({each.license for each in sources}))
    return f"{asks[0]}{asks[1]}", f"{count:,}", str(metadata.get("license") or licence), judge


COMMAND = Command("ls", "list the suite's tasks: what each asks, its rows, its licence, and whether it needs a judge", ls)
