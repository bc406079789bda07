"""``lm-factuality judge``: marks generations that are on disk, without the model that made them."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lm_factuality.cli.actions import Command
from lm_factuality.cli.printing import print_plans
from lm_factuality.ground.console import print_table
from lm_factuality.ground.errors import BackendDown, ConfigError

if TYPE_CHECKING:
    from lm_factuality.harness.generation import Generation, Samples

_OPTIONS = ("knowledge", "linking", "facts", "protocol")  # settings


def options(parser: argparse.ArgumentParser) -> None:
    from lm_factuality.benchmarks import generation_names

    parser.add_argument("task", choices=generation_names(), help="the task that the samples are of")
    given = parser.add_mutually_exclusive_group(required=True)
    given.add_argument("--samples", type=Path, nargs="+", metavar="FILE", help="generations of one run")
    given.add_argument("--generations", type=Path, nargs="+", metavar="FILE", help="ambigbio: ALCE's JSON, plain or .gz")
    parser.add_argument("--judge", required=True, metavar="CONFIG", help="a judge's YAML, or 'lexical' to try things out")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for metrics.json and verdicts.jsonl")
    parser.add_argument("--store", type=Path, metavar="FILE", help="where answers are kept (default: the shared store)")
    parser.add_argument("--knowledge", type=Path, metavar="FILE", help="ambigbio: pages (default: the given documents)")
    parser.add_argument("--linking", choices=("greedy", "hungarian"), help="ambigbio: how individuals get entities")
    parser.add_argument("--facts", choices=("standalone", "as_written"), help="ambigbio: whether facts name whom they are about")
    parser.add_argument("--protocol", choices=("paper", "code"), help="ambigbio: the paper's choices or its code's")
    parser.add_argument("--metadata", default="", metavar="KEY=VALUE,...", help="settings, such as knowledge=INDEX,k=64, or JSON")
    parser.add_argument("--dry-run", action="store_true", help="print calls, tokens and cost; send nothing")
    parser.add_argument("--max-cost", type=float, metavar="USD", help="stop before this is spent; the config has to name prices")


def judge(parsed: argparse.Namespace) -> int:
    """Judges, writes both files and prints the table.

    Raises:
        DataError: the samples; every bad line is named.
        ConfigError: the judge's config.
        BackendDown: the judge cannot be reached or its budget is spent; what it answered is kept.
    """
    from judges.certificates import find_certificate
    from judges.config import load_judge_config
    from judges.judge import Judge
    from lm_factuality.benchmarks import find_benchmark
    from lm_factuality.ground.files import write_json, write_lines
    from lm_factuality.harness.generation import refuse_unable

    config = load_judge_config(parsed.judge)
    if parsed.max_cost is not None:
        config = dataclasses.replace(config, max_cost=parsed.max_cost)
    generation = _find_generation(parsed)
    refuse_unable(config, generation)
    samples = _read(parsed, generation)
    with Judge.open(config, parsed.store) as opened:
        if parsed.dry_run:
            print_plans(parsed.task, config.name, generation.plan(opened, samples.docs, samples.responses))
            return 0
        certificate = find_certificate(opened)
        verdicts = generation.judge(opened, samples.docs, samples.responses)
        usage = opened.usage
    summary, caution = generation.summarise(samples.docs, verdicts), config.capabilities.caution
    about: dict[str, Any] = {
        "task": parsed.task,
        "judge": config.describe(generation.prompt_names),
        "judge_usage": dataclasses.asdict(usage),
        "judge_certificate": certificate,
        **({"caution": caution} if caution else {}),
        "samples": [path.name for path in parsed.samples or parsed.generations],
        **getattr(generation, "about", {}),
    }
    write_lines(parsed.out / "verdicts.jsonl", (json.dumps(verdict, ensure_ascii=False) for verdict in verdicts))
    write_json(parsed.out / "metrics.json", {**summary, "about": about})
    columns, rows, notes = generation.table(summary)
    asked = f"Judge {config.name}: {usage.stored} answers were on disk, {usage.calls} calls, {usage}."
    benchmark = find_benchmark(parsed.task)
    stated = benchmark.certified({**about, "judge_config": about["judge"]}) if benchmark else []
    steps = [f"{each.step}: {each.text}." for each in stated]
    again = [f"{usage.errors} requests got no answer: the same command asks them again."] if usage.errors else []
    print_table(
        f"{parsed.task}, judged by {config.name}", columns, rows, [*notes, asked, *steps, *again, *filter(None, [caution])]
    )
    sys.stdout.write(f"Written to {parsed.out / 'metrics.json'} and verdicts.jsonl beside it\n")
    if usage.errors and all(verdict["unscored"] for verdict in verdicts):
        raise BackendDown(f"judge {config.name}: nothing has a verdict, the first: {verdicts[0]['unscored']}")
    return 0


def _find_generation(parsed: argparse.Namespace) -> Generation:
    """The benchmark, with the settings of the run; some of them have options of their own, too."""
    from lm_factuality.benchmarks import find_generation
    from lm_factuality.benchmarks.biographies.judging import AmbigBio

    given = {name: value for name in _OPTIONS if (value := getattr(parsed, name)) is not None}
    settings, about = {**_metadata(parsed.metadata), **given}, getattr(find_generation(parsed.task), "about", {})
    known = [name for name in about if name != "knowledge_identity"]
    if unknown := [name for name in settings if name not in known]:
        option = f"--{unknown[0]}" if unknown[0] in given else "--metadata"
        raise ConfigError(f"{option}: {parsed.task} has no setting {unknown[0]!r}; known: {', '.join(known) or 'none'}")
    if parsed.generations and parsed.task != AmbigBio.name:
        raise ConfigError(f"--generations: only for {AmbigBio.name}, not for {parsed.task}")
    return find_generation(parsed.task, settings)


def _metadata(text: str) -> dict[str, Any]:
    """Settings as lm_eval's command line has them: ``KEY=VALUE,...``, or JSON."""
    import yaml

    try:
        return dict(yaml.safe_load(text if text.startswith("{") else f"{{{text.replace('=', ': ')}}}"))
    except yaml.YAMLError as error:
        raise ConfigError(f"--metadata: {text!r} cannot be read: {error}; expected KEY=VALUE,... or JSON") from error


def _read(parsed: argparse.Namespace, generation: Generation) -> Samples:
    from lm_factuality.harness.generation import Samples, read_samples

    if parsed.samples:
        return read_samples(parsed.samples, generation)
    from lm_factuality.benchmarks.biographies.generations import read_generations, to_doc

    found = read_generations(parsed.generations)
    return Samples(tuple(to_doc(each) for each in found), tuple((each.output,) for each in found))


COMMAND = Command("judge", "mark generations that are on disk, without the model that made them", judge, options)
