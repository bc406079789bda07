"""Commands that ask a judge: mark generations, check claims, measure a judge."""

import json
import sys
from collections.abc import Collection, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from lm_factuality.ground.command_line import App, one_of
from lm_factuality.ground.console import print_table, shown
from lm_factuality.ground.errors import BackendDownError, ConfigError

if TYPE_CHECKING:
    from judges.config import JudgeConfig
    from judges.judge import Plan
    from lm_factuality.benchmarks.judged import JudgedMethod

app = App()
JudgeName = Annotated[
    str,
    Option(help="A judge's YAML, or 'lexical' to try things out."),
]
Store = Annotated[
    Path | None,
    Option(help="Where answers are kept (default: the shared store)."),
]
DryRun = Annotated[
    bool,
    Option("--dry-run", help="Print calls, tokens and cost; ask and write nothing."),
]
MaxCost = Annotated[
    float | None,
    Option(help="Stop before this is spent; the judge's config has to name prices."),
]


def _task_names() -> Collection[str]:
    from lm_factuality.benchmarks import judged_benchmark_names

    return judged_benchmark_names()


def _setting_names() -> Collection[str]:
    from lm_factuality.benchmarks.certified import certifiable_settings

    return certifiable_settings()


@app.command()
def judge(
    task: Annotated[
        str,
        Argument(help="The task that the samples are of.", **one_of(_task_names)),
    ],
    judge: JudgeName,
    out: Annotated[Path, Option(help="Folder for metrics.json and verdicts.jsonl.")],
    samples: Annotated[
        list[Path] | None, Option(metavar="FILE...", help="Generations of one run.")
    ] = None,
    generations: Annotated[
        list[Path] | None,
        Option(metavar="FILE...", help="ambigbio: ALCE's JSON, plain or .gz."),
    ] = None,
    store: Store = None,
    dry_run: DryRun = False,
    metadata: Annotated[
        str,
        Option(metavar="KEY=VALUE", help="Settings, such as knowledge=INDEX,k=64, or JSON."),
    ] = "",
    max_cost: MaxCost = None,
) -> None:
    """Mark generations that are on disk.

    \b
    Examples:
      lm-factuality judge felm_gen --samples samples_felm_gen_*.jsonl --judge lexical --out judged
      lm-factuality judge felm_gen --samples FILE --judge my_judge.yaml --out judged --dry-run
      lm-factuality judge felm_gen --samples FILE --judge my_judge.yaml --out judged --max-cost 5
      lm-factuality judge ambigbio --generations FILE --judge lexical --out judged \\
        --metadata knowledge=wikipedia.db,linking=hungarian
      lm-factuality judge longform --samples FILE --judge lexical --metadata k=64 --out judged

    FILE is a samples file of lm_eval (--log_samples), or what a run saved before its judge began.
    Answers that the judge gave before are not asked for again: an interrupted command, given again,
    resumes where it ended.
    """
    from judges.certificates import find_certificates
    from judges.judge import Judge
    from lm_factuality.benchmarks import find_benchmark
    from lm_factuality.benchmarks.biographies.generations import generation_to_doc, read_generations
    from lm_factuality.ground.files import write_json, write_lines
    from lm_factuality.harness.generation import read_generations as read_samples
    from lm_factuality.harness.generation import refuse_unable

    if bool(samples) == bool(generations):
        raise typer.BadParameter("give either --samples or --generations")
    config = read_judge(judge, max_cost)
    generation = _find_generation(task, metadata, bool(generations))
    refuse_unable(config, generation)
    if samples:
        docs, responses = read_samples(samples, generation)
    else:
        read = read_generations(generations or ())
        docs = [generation_to_doc(response) for response in read]
        responses = [(response.output,) for response in read]
    with Judge.open(config, store) as opened:
        if dry_run:
            print_plans(task, config.name, generation.plan_questions(opened, docs, responses))
            return
        certificate = find_certificates(opened)
        verdicts = generation.judge(opened, docs, responses)
        usage = opened.usage
    summary = generation.summarise(docs, verdicts)
    caution = config.capabilities.caution
    about: dict[str, Any] = {
        "task": task,
        "judge": config.describe(generation.prompt_names),
        "judge_usage": asdict(usage),
        "judge_certificate": certificate,
        **({"caution": caution} if caution else {}),
        "samples": [path.name for path in samples or generations or ()],
        **getattr(generation, "recorded_settings", {}),
    }
    lines = (json.dumps(verdict, ensure_ascii=False) for verdict in verdicts)
    write_lines(out / "verdicts.jsonl", lines)
    write_json(out / "metrics.json", {**summary, "about": about})

    columns, rows, table_notes = generation.summary_table(summary)
    notes = [
        *table_notes,
        f"Judge {config.name}: {usage.stored} answers were on disk, {usage.calls} calls, {usage}.",
    ]
    benchmark = find_benchmark(task)
    if benchmark:
        steps = benchmark.certification_statuses({**about, "judge_config": about["judge"]})
        notes += [f"{step.step}: {step.text}." for step in steps]
    if usage.errors:
        notes.append(f"{usage.errors} requests got no answer: the same command asks them again.")
    if caution:
        notes.append(caution)
    print_table(f"{task}, judged by {config.name}", columns, rows, notes)
    sys.stdout.write(f"Written to {out / 'metrics.json'} and verdicts.jsonl beside it\n")
    if usage.errors and all(verdict["unscored"] for verdict in verdicts):
        raise BackendDownError(
            f"judge {config.name}: nothing has a verdict, the first: {verdicts[0]['unscored']}"
        )


def read_judge(judge: str, max_cost: float | None) -> "JudgeConfig":
    """Read the config of a judge, with another limit of costs if one is given."""
    from judges.config import load_judge_config

    config = load_judge_config(judge)
    return config if max_cost is None else replace(config, max_cost=max_cost)


def _find_generation(task: str, metadata: str, are_generations: bool) -> "JudgedMethod":
    """Return how a task's generations are judged, with the settings given."""
    from lm_factuality.benchmarks import find_judged_method
    from lm_factuality.benchmarks.biographies.method import AmbigBio

    settings = _read_metadata(metadata)
    known = {*getattr(find_judged_method(task), "recorded_settings", ())} - {"knowledge_identity"}
    unknown = settings.keys() - known
    if unknown:
        raise ConfigError(
            f"--metadata: {task} has no setting {', '.join(map(repr, sorted(unknown)))}; known:"
            f" {', '.join(sorted(known)) or 'none'}"
        )
    if are_generations and task != AmbigBio.name:
        raise ConfigError(f"--generations: only for {AmbigBio.name}, not for {task}")
    method: JudgedMethod = find_judged_method(task, settings)
    return method


def _read_metadata(text: str) -> dict[str, Any]:
    """Read settings as lm_eval's command line has them: ``KEY=VALUE,...``, or JSON."""
    import yaml

    try:
        return dict(
            yaml.safe_load(text if text.startswith("{") else f"{{{text.replace('=', ': ')}}}")
        )
    except yaml.YAMLError as error:
        raise ConfigError(
            f"--metadata: {text!r} cannot be read: {error}; expected KEY=VALUE,... or JSON"
        ) from error


@app.command()
def verify(
    pairs: Annotated[Path, Option(help="JSONL of claim and passages.")],
    judge: JudgeName,
    out: Annotated[Path, Option(help="JSONL with the verdicts, as below.")],
    store: Store = None,
    dry_run: DryRun = False,
    max_cost: MaxCost = None,
) -> None:
    """Say whether passages support claims.

    \b
    Examples:
      lm-factuality verify --pairs pairs.jsonl --judge lexical --out verdicts.jsonl
      lm-factuality verify --pairs pairs.jsonl --judge openai-server --dry-run --out verdicts.jsonl
      lm-factuality verify --pairs pairs.jsonl --judge my_judge.yaml --max-cost 2.50 --out verdicts

    \b
    A line of pairs.jsonl (any other keys are copied to the output):
      {"claim": "The bridge opened in 1870.", "passages": ["The old bridge, opened in 1870, ..."]}
      {"claim": "The bridge is iron.", "passages": [{"title": "Bridge", "text": "It is of ..."}]}

    A line of the output also has: verdict (supported, not_supported or unscored), score (0 to 1;
    null if unscored), reason, said (what the judge wrote). With verdicts: logprobs in the judge's
    YAML, score is the probability of True. Answers are kept as they arrive: after an interruption
    the same command resumes where it ended.
    """
    from lm_factuality.cli.verify import verify_file

    verify_file(pairs, read_judge(judge, max_cost), out, store, dry_run)


@app.command()
def certify(
    judge: JudgeName,
    store: Store = None,
    dry_run: DryRun = False,
    setting: Annotated[
        str | None,
        Option(
            help="Default: segment_cot; segment_doc if the judge needs evidence.",
            **one_of(_setting_names),
        ),
    ] = None,
    rows: Annotated[
        int | None,
        Option(help="biographies_...: a random part, always the same."),
    ] = None,
    data_dir: Annotated[
        str | None,
        Option(help="Local folder with the published files, instead of a download."),
    ] = None,
    data: Annotated[
        list[Path] | None,
        Option(metavar="FILE...", help="biographies_...: generations, decisions, ..."),
    ] = None,
    sample: Annotated[
        bool, Option("--sample", help="segment_..., claim_...: the embedded sample instead.")
    ] = False,
    claims: Annotated[
        Path | None,
        Option(help="claim_...: of 'claims extract' (default: rules)."),
    ] = None,
    out: Annotated[Path | None, Option(help="Write the certificate here too.")] = None,
) -> None:
    """Measure a judge where the truth is known.

    \b
    Examples:
      lm-factuality certify --judge configs/judges/openai-server.yaml --dry-run
      lm-factuality certify --judge my_judge.yaml --out certificate.json
      lm-factuality certify --judge my_judge.yaml --setting claim_doc --claims claims.jsonl
      lm-factuality certify --judge lexical --sample
      lm-factuality certify --judge my_judge.yaml --setting biographies_verification --rows 200
      lm-factuality certify --judge lexical --setting biographies_grouping --data FILE FILE

    Settings: segment_... and claim_... find FELM's errors; biographies_decomposition, _grouping,
    _linking and _verification decide again what D-FActScore's authors released. Later runs of the
    same judge (backend, model, decoding, prompts) attach the newest certificate of each setting to
    their results. Only certificates measured on published data are kept for this.
    """
    from judges.certificates import make_certificate, save_certificate
    from judges.config import load_judge_config
    from judges.judge import Judge
    from lm_factuality.benchmarks.certifiable import CertifyOptions
    from lm_factuality.benchmarks.certified import certifiable_settings

    config = load_judge_config(judge)
    settings = certifiable_settings()
    if setting:
        chosen = settings[setting]
    else:
        chosen = next(each for each in settings.values() if each.is_default(config))
    if rows is not None and rows < 1:
        raise ConfigError(f"--rows: found {rows}, expected 1 or more")
    wanted = CertifyOptions(data_dir, tuple(data or ()), sample, rows, claims)
    for name in ("files", "sample", "rows", "claims"):
        if getattr(wanted, name) and name not in chosen.accepted_options:
            able = [
                certifiable.name
                for certifiable in settings.values()
                if name in certifiable.accepted_options
            ]
            option = "--data" if name == "files" else f"--{name}"
            raise ConfigError(
                f"{option} is not for --setting {chosen.name}, but for {', '.join(able)}"
            )
    trial = chosen.open_trial(wanted)
    with Judge.open(config, store=store) as opened:
        if dry_run:
            plan = opened.plan(trial.ask)
            print_plans(str(trial.data["file"]), config.name, [(chosen.name, plan)])
            return
        measured = trial.measure(opened)
        hashes = trial.prompt_hashes(opened)
        certificate = make_certificate(
            opened, chosen.name, measured, prompt_hashes=hashes, data=trial.data
        )
    columns, lines, notes = trial.table(certificate, config.name)
    print_table(f"{trial.data['file']}, {chosen.name}: {chosen.description}", columns, lines, notes)
    for path in save_certificate(certificate, out):
        sys.stdout.write(f"Written to {path}\n")
    if not trial.data["is_published"]:
        sys.stdout.write("Not the data as published: no certificate that later runs would attach\n")


def print_plans(subject: str, judge: str, steps: Sequence[tuple[str, "Plan"]]) -> None:
    """Print what a judge would be asked: a line for each step, and the sums of the costs."""
    rows = []
    estimated = []
    most = []
    for step, plan in steps:
        counts = (
            plan.stored + plan.to_send,
            plan.stored,
            plan.to_send,
            plan.estimate_with_retries.calls,
            plan.estimate.prompt_tokens,
            plan.estimate_with_retries.max_completion_tokens,
        )
        estimated.append(plan.estimate.estimated_cost)
        most.append(plan.estimate_with_retries.max_cost)
        costs = (shown(estimated[-1], ".4f"), shown(most[-1], ".4f"))
        rows.append((step, *(f"{count:,}" for count in counts), *costs))
    total = "No cost: the judge's config names no prices."
    if None not in estimated:
        total = (
            f"All steps: ${sum(filter(None, estimated)):.4f} estimated, at most"
            f" ${sum(filter(None, most)):.4f} if no call has to be repeated or to think longer, and"
            " no more facts are found than the rules find."
        )
    counted_by = ", ".join(sorted({plan.estimate.counted_by for _, plan in steps}))
    columns = (
        "step",
        "#requests",
        "#on disk",
        "#to send",
        "#at most",
        "#prompt tokens",
        "#generated at most",
        "#USD estimated",
        "#USD at most",
    )
    notes = [
        f"Prompt tokens: {counted_by}. Nothing was sent.",
        "At most: with as many answers asked for once more, and facts as short, as can be, if the"
        " judge need not think longer.",
        total,
    ]
    print_table(f"{subject}, judged by {judge}: what would be asked", columns, rows, notes)
