"""``lm-factuality judge`` marks generations that are on disk, ``certify`` says how well a judge
does where the truth is known."""

import argparse
import dataclasses
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from judges.certificates import find_certificate, save_certificate, to_certificate
from judges.config import load_judge_config
from judges.judge import Judge, Plan
from lm_factuality.benchmarks import find_benchmark, find_generation
from lm_factuality.benchmarks.biographies.generations import read_generations, to_doc
from lm_factuality.benchmarks.biographies.judging import AmbigBio
from lm_factuality.benchmarks.certifiable import Certifiable, Wanted
from lm_factuality.benchmarks.certified import all_settings
from lm_factuality.ground.console import print_table
from lm_factuality.ground.errors import BackendDown, ConfigError
from lm_factuality.ground.files import write_json, write_lines
from lm_factuality.harness.generation import Generation, read_samples, refuse_unable

_OPTIONS = ("knowledge", "linking", "facts", "protocol")  # settings
_COUNTED = (
    "step",
    "#requests",
    "#distinct",
    "#on disk",
    "#to send",
    "#at most",
    "#prompt tokens",
    "#generated at most",
)

_LIMITED = {
    "files": "--data",
    "sample": "--sample",
    "rows": "--rows",
    "claims": "--claims",
    "prompts": "--prompts",
}


def judge(parsed: argparse.Namespace) -> None:
    config = load_judge_config(parsed.judge)
    if parsed.max_cost is not None:
        config = dataclasses.replace(config, max_cost=parsed.max_cost)
    generation = _find_generation(parsed)
    refuse_unable(config, generation)
    if parsed.samples:
        docs, responses = read_samples(parsed.samples, generation)
    else:
        found = read_generations(parsed.generations)
        docs, responses = list(map(to_doc, found)), [(each.output,) for each in found]
    with Judge.open(config, parsed.store) as opened:
        if parsed.dry_run:
            print_plans(parsed.task, config.name, generation.plan(opened, docs, responses))
            return
        certificate = find_certificate(opened)
        verdicts = generation.judge(opened, docs, responses)
        usage = opened.usage
    summary, caution = generation.summarise(docs, verdicts), config.capabilities.caution
    about: dict[str, Any] = {
        "task": parsed.task,
        "judge": config.describe(generation.prompt_names),
        "judge_usage": dataclasses.asdict(usage),
        "judge_certificate": certificate,
        **({"caution": caution} if caution else {}),
        "samples": [path.name for path in parsed.samples or parsed.generations],
        **getattr(generation, "about", {}),
    }
    write_lines(
        parsed.out / "verdicts.jsonl",
        (json.dumps(verdict, ensure_ascii=False) for verdict in verdicts),
    )
    write_json(parsed.out / "metrics.json", {**summary, "about": about})
    columns, rows, notes = generation.table(summary)
    asked = (
        f"Judge {config.name}: {usage.stored} answers were on disk, {usage.calls} calls, {usage}."
    )
    benchmark = find_benchmark(parsed.task)
    stated = benchmark.certified({**about, "judge_config": about["judge"]}) if benchmark else []
    steps = [f"{each.step}: {each.text}." for each in stated]
    again = (
        [f"{usage.errors} requests got no answer: the same command asks them again."]
        if usage.errors
        else []
    )
    notes = [*notes, asked, *steps, *again, *filter(None, [caution])]
    print_table(f"{parsed.task}, judged by {config.name}", columns, rows, notes)
    sys.stdout.write(f"Written to {parsed.out / 'metrics.json'} and verdicts.jsonl beside it\n")
    if usage.errors and all(verdict["unscored"] for verdict in verdicts):
        raise BackendDown(
            f"judge {config.name}: nothing has a verdict, the first: {verdicts[0]['unscored']}"
        )


def _find_generation(parsed: argparse.Namespace) -> Generation:
    given = {name: value for name in _OPTIONS if (value := getattr(parsed, name)) is not None}
    settings, about = (
        {**_metadata(parsed.metadata), **given},
        getattr(find_generation(parsed.task), "about", {}),
    )
    known = [name for name in about if name != "knowledge_identity"]
    if unknown := [name for name in settings if name not in known]:
        option = f"--{unknown[0]}" if unknown[0] in given else "--metadata"
        raise ConfigError(
            f"{option}: {parsed.task} has no setting {unknown[0]!r}; known:"
            f" {', '.join(known) or 'none'}"
        )
    if parsed.generations and parsed.task != AmbigBio.name:
        raise ConfigError(f"--generations: only for {AmbigBio.name}, not for {parsed.task}")
    return find_generation(parsed.task, settings)


def _metadata(text: str) -> dict[str, Any]:
    """Settings as lm_eval's command line has them: ``KEY=VALUE,...``, or JSON."""
    try:
        return dict(
            yaml.safe_load(text if text.startswith("{") else f"{{{text.replace('=', ': ')}}}")
        )
    except yaml.YAMLError as error:
        raise ConfigError(
            f"--metadata: {text!r} cannot be read: {error}; expected KEY=VALUE,... or JSON"
        ) from error


def certify(parsed: argparse.Namespace) -> None:
    """Has the judge decide what is known, writes the certificate, prints it beside judges that do
    not read."""
    config = load_judge_config(parsed.judge)
    known = all_settings()
    setting = (
        known[parsed.setting]
        if parsed.setting
        else next(each for each in known.values() if each.is_default(config))
    )
    trial = setting.open(_wanted(parsed, setting, known))
    with Judge.open(config, store=parsed.store) as judge:
        if parsed.dry_run:
            print_plans(
                str(trial.data["file"]), config.name, [(setting.name, judge.rehearse(trial.ask))]
            )
            return
        measured = trial.measure(judge)
        hashes = trial.prompt_hashes(judge)
        certificate = to_certificate(
            judge, setting.name, measured, prompt_hashes=hashes, data=trial.data
        )
    columns, rows, notes = trial.table(certificate, config.name)
    print_table(f"{trial.data['file']}, {setting.name}: {setting.what}", columns, rows, notes)
    for written in save_certificate(certificate, parsed.out):
        sys.stdout.write(f"Written to {written}\n")
    if not trial.data["is_published"]:
        sys.stdout.write("Not the data as published: no certificate that later runs would attach\n")


def _wanted(
    parsed: argparse.Namespace, setting: Certifiable, known: Mapping[str, Certifiable]
) -> Wanted:
    given = Wanted(
        parsed.data_dir,
        tuple(parsed.data or ()),
        parsed.sample,
        parsed.rows,
        parsed.claims,
        parsed.prompts,
    )
    for name, option in _LIMITED.items():
        if getattr(given, name) not in (None, (), False) and name not in setting.takes:
            able = [each.name for each in known.values() if name in each.takes]
            raise ConfigError(
                f"{option} is not for --setting {setting.name}, but for {', '.join(able)}"
            )
    if given.rows is not None and given.rows < 1:
        raise ConfigError(f"--rows: found {given.rows}, expected 1 or more")
    return given


def print_plans(what: str, judge: str, steps: Sequence[tuple[str, Plan]]) -> None:
    """A line for each step of ``what``, and the sums of the costs, as estimated and at most (see
    ``max_cost``)."""
    rows, priced = [], []
    for step, plan in steps:
        costs = plan.estimate.estimated_cost, plan.at_most.max_cost
        counts = (plan.total, plan.distinct, plan.stored, plan.to_send, plan.at_most.calls)
        tokens = (plan.estimate.prompt_tokens, plan.at_most.max_completion_tokens)
        shown = ("-" if cost is None else f"{cost:.4f}" for cost in costs)
        rows.append((step, *(f"{count:,}" for count in (*counts, *tokens)), *shown))
        priced += [(costs[0], costs[1])] if costs[0] is not None and costs[1] is not None else []
    total = "No cost: the judge's config names no prices."
    if len(priced) == len(steps):
        estimated, most = sum(cost for cost, _ in priced), sum(cost for _, cost in priced)
        total = (
            f"All steps: ${estimated:.4f} estimated, at most ${most:.4f} if no call has to be"
            " repeated or to think longer."
        )
    counted = ", ".join(sorted({plan.estimate.counted_by for _, plan in steps}))
    note = (
        "At most: with as many answers asked for once more, and facts as short, as can be, if the"
        " judge need not think longer."
    )
    notes = [f"Prompt tokens: {counted}. Nothing was sent.", note, total]
    print_table(
        f"{what}, judged by {judge}: what would be asked",
        (*_COUNTED, "#USD estimated", "#USD at most"),
        rows,
        notes,
    )
