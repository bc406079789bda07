"""``lm-factuality judge`` marks generations that are on disk, ``certify`` says how well a judge does where the truth is known."""

import argparse
import dataclasses
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from judges.certificates import find_certificate, save_certificate, to_certificate
from judges.config import load_judge_config
from judges.judge import Judge
from lm_factuality.benchmarks import find_benchmark, find_generation, generation_names
from lm_factuality.benchmarks.biographies.generations import read_generations, to_doc
from lm_factuality.benchmarks.biographies.judging import AmbigBio
from lm_factuality.benchmarks.certifiable import Certifiable, Wanted
from lm_factuality.benchmarks.certified import all_settings
from lm_factuality.cli.actions import add_judge, print_plans
from lm_factuality.ground.console import print_table
from lm_factuality.ground.errors import BackendDown, ConfigError
from lm_factuality.ground.files import write_json, write_lines
from lm_factuality.harness.generation import Generation, Samples, read_samples, refuse_unable

_OPTIONS = ("knowledge", "linking", "facts", "protocol")  # settings
_LIMITED = {"files": "--data", "sample": "--sample", "rows": "--rows", "claims": "--claims", "prompts": "--prompts"}


def judge_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("task", choices=generation_names(), help="the task that the samples are of")
    given = parser.add_mutually_exclusive_group(required=True)
    given.add_argument("--samples", type=Path, nargs="+", metavar="FILE", help="generations of one run")
    given.add_argument("--generations", type=Path, nargs="+", metavar="FILE", help="ambigbio: ALCE's JSON, plain or .gz")
    add_judge(parser)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for metrics.json and verdicts.jsonl")
    parser.add_argument("--knowledge", type=Path, metavar="FILE", help="ambigbio: pages (default: the given documents)")
    parser.add_argument("--linking", choices=("greedy", "hungarian"), help="ambigbio: how individuals get entities")
    parser.add_argument("--facts", choices=("standalone", "as_written"), help="ambigbio: whether facts name whom they are about")
    parser.add_argument("--protocol", choices=("paper", "code"), help="ambigbio: the paper's choices or its code's")
    parser.add_argument("--metadata", default="", metavar="KEY=VALUE,...", help="settings, such as knowledge=INDEX,k=64, or JSON")
    parser.add_argument("--max-cost", type=float, metavar="USD", help="stop before this is spent; the config has to name prices")


def judge(parsed: argparse.Namespace) -> int:
    """Judges, writes both files and prints the table."""
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
    if parsed.samples:
        return read_samples(parsed.samples, generation)

    found = read_generations(parsed.generations)
    return Samples(tuple(to_doc(each) for each in found), tuple((each.output,) for each in found))


def certify_options(parser: argparse.ArgumentParser) -> None:
    add_judge(parser)
    parser.add_argument("--setting", choices=all_settings(), help="default segment_cot; segment_doc if the judge needs evidence")
    parser.add_argument("--rows", type=int, metavar="N", help="biographies_...: a random part, always the same")
    parser.add_argument("--data-dir", metavar="DIR", help="local folder with the published files, instead of a download")
    parser.add_argument("--data", type=Path, nargs="+", metavar="FILE", help="biographies_...: generations, decisions, ...")
    parser.add_argument("--sample", action="store_true", help="segment_..., claim_...: the embedded sample instead")
    parser.add_argument("--claims", type=Path, metavar="FILE", help="claim_...: of 'claims extract' (default: rules)")
    parser.add_argument("--prompts", type=Path, metavar="DIR", help="segment_..., claim_...: a checkout of hkust-nlp/felm")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the certificate here too")


def certify(parsed: argparse.Namespace) -> int:
    """Has the judge decide what is known, writes the certificate, prints it beside judges that do not read."""
    config = load_judge_config(parsed.judge)
    known = all_settings()
    setting = known[parsed.setting] if parsed.setting else next(each for each in known.values() if each.is_default(config))
    trial = setting.open(_wanted(parsed, setting, known))
    with Judge.open(config, store=parsed.store) as judge:
        if parsed.dry_run:
            print_plans(str(trial.data["file"]), config.name, [(setting.name, judge.rehearse(trial.ask))])
            return 0
        measured = trial.measure(judge)
        hashes = trial.prompt_hashes(judge)
        certificate = to_certificate(judge, setting.name, measured, prompt_hashes=hashes, data=trial.data)
    columns, rows, notes = trial.table(certificate, config.name)
    print_table(f"{trial.data['file']}, {setting.name}: {setting.what}", columns, rows, notes)
    for written in save_certificate(certificate, parsed.out):
        sys.stdout.write(f"Written to {written}\n")
    if not trial.data["is_published"]:
        sys.stdout.write("Not the data as published: no certificate that later runs would attach\n")
    return 0


def _wanted(parsed: argparse.Namespace, setting: Certifiable, known: Mapping[str, Certifiable]) -> Wanted:
    """Raises ConfigError: an option that means nothing in this setting."""
    given = Wanted(
        parsed.data_dir, tuple(parsed.data or ()), parsed.sample, parsed.rows, claims=parsed.claims, prompts=parsed.prompts
    )
    for name, option in _LIMITED.items():
        if getattr(given, name) not in (None, (), False) and name not in setting.takes:
            able = [each.name for each in known.values() if name in each.takes]
            raise ConfigError(f"{option} is not for --setting {setting.name}, but for {', '.join(able)}")
    if given.rows is not None and given.rows < 1:
        raise ConfigError(f"--rows: found {given.rows}, expected 1 or more")
    return given
