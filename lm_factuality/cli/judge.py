"""The commands ``judge``, ``verify`` and ``certify``, which ask a judge.

``lm_factuality.cli.main`` registers them.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Argument, Option, echo

from lm_factuality.ground.command_line import App, choice_option_settings
from lm_factuality.ground.console import format_number, print_table
from lm_factuality.ground.errors import BackendDownError, ConfigError, DataError, refuse
from lm_factuality.ground.files import write_json, write_lines

if TYPE_CHECKING:
    from judges.answers import Answer, Usage
    from judges.config import JudgeConfig
    from judges.judge import Judge, Plan
    from lm_factuality.benchmarks.certifiable import (
        AdjudicableTrial,
        CertifiableSetting,
        CertifyOptions,
        Disagreement,
        SettingTrial,
    )
    from lm_factuality.benchmarks.judged import JudgedMethod
    from lm_factuality.check.evidence import SearchEvidence
    from lm_factuality.check.knowledge import CheckKnowledge
    from lm_factuality.harness.generation import Docs

app = App()
JudgeName = Annotated[
    str,
    Option(help="The judge's YAML file, or 'lexical' for the offline judge that needs no model."),
]
Store = Annotated[
    Path | None,
    Option(help="SQLite file that keeps the judge's answers (default: the shared store)."),
]
DryRun = Annotated[
    bool,
    Option(
        "--dry-run",
        help="Print how many calls, tokens and US dollars the judge would take, but ask it nothing"
        " and write no file.",
    ),
]
MaxCost = Annotated[
    float | None,
    Option(
        help="Stop before the judge costs more than this many US dollars (default: no limit). The"
        " judge's YAML file has to name prices."
    ),
]


# The options of `certify` that choose data, by their fields of `CertifyOptions`.
_DATA_OPTIONS = {"files": "--data", "sample": "--sample", "rows": "--rows", "claims": "--claims"}
_VERIFYING_SETTINGS = ("biographies_linking", "biographies_verification")

_SERVER = "openai"  # the backend that asks a server

# The columns of a plan. The sign # marks those of numbers, which are flush right.
_PLAN_COLUMNS = (
    "step",
    "#requests",
    "#on disk",
    "#to send",
    "#at most",
    "#prompt tokens",
    "#answer tokens",
    "#generated at most",
    "#seconds",
    "#USD estimated",
    "#USD at most",
)


def _task_names() -> Collection[str]:
    """Return the names of the tasks whose generations a judge can mark."""
    from lm_factuality.benchmarks import judged_benchmark_names

    return judged_benchmark_names()


def _setting_names() -> Collection[str]:
    """Return the names of the settings in which a judge can be certified."""
    from lm_factuality.benchmarks.certified import certifiable_settings

    return certifiable_settings()


@app.command()
def judge(
    task: Annotated[
        str,
        Argument(
            help="The task that generated the texts, such as felm_gen, ambigbio or longform.",
            **choice_option_settings(_task_names),
        ),
    ],
    judge: JudgeName,
    samples: Annotated[
        list[Path] | None,
        Option(
            metavar="FILE...",
            help="Samples files of one run (lm_eval --log_samples). longform also reads answers"
            " from CSV, TSV, JSON, JSON Lines, Parquet and text files.",
        ),
    ] = None,
    generations: Annotated[
        list[Path] | None,
        Option(
            metavar="FILE...",
            help="Only ambigbio: files in ALCE's JSON format, plain or .gz, instead of --samples.",
        ),
    ] = None,
    knowledge: Annotated[
        Path | None,
        Option(
            help="Only longform and ambigbio: what facts are checked against: a folder or file of"
            " documents, an index, or a database of 'knowledge build'. ambigbio looks pages up by"
            " title."
        ),
    ] = None,
    search: Annotated[
        Path | None,
        Option(help="Only longform: the YAML file of a search service, instead of documents."),
    ] = None,
    out: Annotated[
        Path | None,
        Option(help="Folder to write metrics.json and verdicts.jsonl to. Not for --dry-run."),
    ] = None,
    store: Store = None,
    dry_run: DryRun = False,
    metadata: Annotated[
        str,
        Option(
            metavar="KEY=VALUE",
            help="Settings of the task, such as linking=hungarian,k=64, or the same as JSON"
            " (default: the task's own).",
        ),
    ] = "",
    columns: Annotated[
        list[str] | None,
        Option(
            metavar="ROLE=NAME...",
            help="Only longform: the columns of answer, question and id, such as answer=reply"
            " (default: their usual names).",
        ),
    ] = None,
    max_cost: MaxCost = None,
) -> None:
    """Have a judge mark the texts that a model generated in an earlier run.

    \b
    Examples:
      lm-factuality judge felm_gen --samples samples_felm_gen_*.jsonl --judge lexical --out judged
      lm-factuality judge felm_gen --samples FILE --judge my_judge.yaml --dry-run
      lm-factuality judge felm_gen --samples FILE --judge my_judge.yaml --out judged --max-cost 5
      lm-factuality judge ambigbio --generations FILE --judge lexical --out judged \\
        --knowledge wikipedia.db --metadata linking=hungarian
      lm-factuality judge longform --samples FILE --judge lexical --metadata k=64 --out judged
      lm-factuality judge longform --samples answers.csv --columns answer=reply --judge lexical \\
        --knowledge docs/ --out judged

    FILE is a samples file of lm_eval (--log_samples), or the file that a run saved before its judge
    began. The judge's answers stay on disk and are not requested twice: if the command is
    interrupted, run it again and it resumes.
    """
    from judges.certificates import find_certificates
    from judges.judge import Judge
    from lm_factuality.harness.generation import require_capabilities

    if bool(samples) == bool(generations):
        raise typer.BadParameter("give either --samples or --generations")
    if out is None and not dry_run:
        raise typer.BadParameter("give --out, the folder to write to, or --dry-run")

    files = samples or generations or []
    are_alce_files = bool(generations)
    config = read_judge(judge, max_cost)
    with (
        _open_method(task, metadata, knowledge, search, are_alce_files) as method,
        Judge.open(config, store) as opened_judge,
    ):
        require_capabilities(config, method)
        docs, responses = _read_responses(files, method, columns or (), are_alce_files)
        if dry_run:
            print_plans(task, config, method.plan_questions(opened_judge, docs, responses))
            return
        assert out is not None, "checked above"
        # Certificates say how often this judge agreed with published labels.
        certificate = find_certificates(opened_judge)
        verdicts = method.judge(opened_judge, docs, responses)
        usage = opened_judge.usage

    summary = method.summarise(docs, verdicts)
    provenance = _describe_provenance(task, method, config, usage, certificate, files)
    lines = (json.dumps(verdict, ensure_ascii=False) for verdict in verdicts)
    write_lines(out / "verdicts.jsonl", lines)
    write_json(out / "metrics.json", {**summary, "about": provenance})

    table_columns, rows, table_notes = method.summary_table(summary)
    notes = [*table_notes, *_notes_on_judging(config, usage, provenance)]
    print_table(f"{task}, judged by {config.name}", table_columns, rows, notes)
    echo(f"Wrote {out / 'metrics.json'} and {out / 'verdicts.jsonl'}")
    # Some verdicts are better than none: only a judge that gave none is an error.
    if usage.errors and all(verdict["unscored"] for verdict in verdicts):
        raise BackendDownError(
            f"judge {config.name}: no response got a verdict; the first error is:"
            f" {verdicts[0]['unscored']}"
        )


def _describe_provenance(
    task: str,
    method: "JudgedMethod",
    config: "JudgeConfig",
    usage: "Usage",
    certificate: Mapping[str, Any] | None,
    files: Sequence[Path],
) -> dict[str, Any]:
    """Return the entry ``about`` of metrics.json, which says how the scores came about."""
    provenance: dict[str, Any] = {
        "task": task,
        "judge": config.describe(method.prompt_names),
        "judge_usage": asdict(usage),
        "judge_certificate": certificate,
    }
    if config.capabilities.caution:
        provenance["caution"] = config.capabilities.caution
    provenance["samples"] = [path.name for path in files]
    # Some methods have no settings at all.
    provenance.update(getattr(method, "recorded_settings", {}))
    return provenance


def _read_responses(
    files: Sequence[Path], method: "JudgedMethod", columns: Sequence[str], are_alce_files: bool
) -> tuple["Docs", Sequence[tuple[str, ...]]]:
    """Read the texts that a model generated.

    Args:
        files: The files of one run: samples of lm_eval, files in ALCE's format or, for long form,
            also tables and text files.
        method: The method by which a judge marks the texts of the task.
        columns: The values of ``--columns``.
        are_alce_files: Whether the files are in ALCE's JSON format.

    Returns:
        The rows of the task (docs), and the texts that the model generated for each row.
    """
    from lm_factuality.benchmarks.biographies.generations import generation_to_doc, read_generations
    from lm_factuality.benchmarks.longform.benchmark import LongForm
    from lm_factuality.check.answers import is_samples_file
    from lm_factuality.harness.generation import read_generations as read_samples

    if are_alce_files:
        generations = read_generations(files)
        docs = [generation_to_doc(generation) for generation in generations]
        # lm_eval's samples can hold several texts per row. ALCE's files hold one.
        return docs, [(generation.output,) for generation in generations]
    if method.name == LongForm.name and not any(map(is_samples_file, files)):
        return _read_plain_answers(files, method, columns)
    return read_samples(files, method)


def _read_plain_answers(
    files: Sequence[Path], method: "JudgedMethod", columns: Sequence[str]
) -> tuple["Docs", Sequence[tuple[str, ...]]]:
    """Read answers that were written outside of lm_eval.

    Args:
        files: Tables, text files or chat logs.
        method: The method of long form, which needs an index.
        columns: The values of ``--columns``.

    Returns:
        A document for each answer, and the answers.

    Raises:
        DataError: A row cannot be used, or the method has no index.
    """
    from lm_factuality.benchmarks.longform.benchmark import answer_to_doc
    from lm_factuality.check.answers import parse_columns, read_answers

    named_columns = parse_columns(columns)
    docs = []
    responses = []
    problems: list[str] = []
    for path in files:
        answer_file = read_answers(path, named_columns)
        problems += map(str, answer_file.problems)
        for answer in answer_file.answers:
            # Rows of several files may have the same id.
            answer_id = f"{path.name}/{answer.id}" if len(files) > 1 else answer.id
            docs.append(answer_to_doc(answer_id, answer.question))
            responses.append((answer.text,))
    refuse(problems, "rows", "Correct or remove these rows.")
    # All documents have the same problem: the method lacks an index.
    problem = method.document_problem(docs[0], responses[0])
    if problem:
        raise DataError(f"{files[0]}: {problem}")
    return docs, responses


def read_judge(judge: str, max_cost: float | None) -> "JudgeConfig":
    """Read the YAML file of a judge, or the judge ``lexical``, and limit its cost in US dollars."""
    from judges.config import load_judge_config

    config = load_judge_config(judge)
    return config if max_cost is None else replace(config, max_cost=max_cost)


@contextmanager
def _open_method(
    task: str,
    metadata: str,
    knowledge: Path | None,
    search: Path | None,
    reads_alce_files: bool,
) -> Iterator["JudgedMethod"]:
    """Open the method of a task within a ``with`` block, with the source that facts are checked by.

    Args:
        task: The name of the task.
        metadata: The text of ``--metadata``.
        knowledge: The documents, an index of passages, or a database of pages.
        search: The YAML file of a search service.
        reads_alce_files: Whether the user gave ``--generations``.

    Raises:
        ConfigError: The task takes no such source, or a setting cannot be used.
    """
    from lm_factuality.benchmarks.biographies.method import AmbigBio
    from lm_factuality.check.knowledge import is_database
    from lm_factuality.check.run import open_evidence
    from lm_factuality.retrieval.index import MANIFEST

    settings = _parse_metadata(metadata)
    named_sources = [source for source in (knowledge, search, settings.get("knowledge")) if source]
    if len(named_sources) > 1:
        raise ConfigError(
            f"{named_sources[0]} and {named_sources[1]}: facts are checked against one source; name"
            " it once, with --knowledge, --search or --metadata knowledge=..."
        )

    source = knowledge or search
    is_index = knowledge is not None and (knowledge / MANIFEST).is_file()
    is_page_database = knowledge is not None and task == AmbigBio.name and is_database(knowledge)
    # The method itself opens an index, or a database of pages.
    is_opened_by_method = is_index or is_page_database
    if is_opened_by_method:
        settings["knowledge"] = str(knowledge)
    method = _make_method(task, settings, reads_alce_files)
    if source is None or is_opened_by_method:
        yield method
        return

    with open_evidence(knowledge, search) as evidence:
        for problem in evidence.problems:
            echo(problem, err=True)
        # Results name the source without its folder, which differs between machines.
        yield _with_evidence(method, evidence, source.resolve().name, task)


def _with_evidence(
    method: "JudgedMethod", evidence: "CheckKnowledge | SearchEvidence", name: str, task: str
) -> "JudgedMethod":
    """Return a copy of a method that checks facts against documents or a search service.

    Args:
        method: The method, which has no evidence yet.
        evidence: The documents or the service.
        name: Their name in results.
        task: The name of the task, for the error.

    Raises:
        ConfigError: The method cannot use this evidence.
    """
    from lm_factuality.benchmarks.biographies.method import AmbigBio
    from lm_factuality.benchmarks.longform.benchmark import LongForm
    from lm_factuality.check.evidence import FactEvidence
    from lm_factuality.check.knowledge import CheckKnowledge

    # Long form searches passages for each fact, unless its task names a kind of entities, whose
    # pages it looks up by title.
    if isinstance(method, LongForm) and not method.kind:
        finder = FactEvidence(evidence, evidence.describe().get("identity"))
        return replace(method, finder=finder, knowledge=name)
    # Biographies look up pages by title, which a search service cannot do. LongForm, a subclass of
    # AmbigBio, is not meant here.
    if type(method) is AmbigBio and isinstance(evidence, CheckKnowledge):
        return replace(method, pages=evidence, knowledge=name)

    option = "--knowledge" if isinstance(evidence, CheckKnowledge) else "--search"
    raise ConfigError(
        f"{option}: {task} takes no evidence from there;"
        " only longform without the setting 'entities' does, and ambigbio with --knowledge"
    )


def _make_method(task: str, settings: Mapping[str, Any], reads_alce_files: bool) -> "JudgedMethod":
    """Make the method by which a judge marks a task's generations, with the user's settings.

    Args:
        task: The name of the task, such as ``felm_gen``.
        settings: The settings, such as ``{"k": 64, "linking": "hungarian"}``.
        reads_alce_files: Whether the user gave ``--generations``, i.e. files in ALCE's format,
            which only AmbigBio accepts.

    Raises:
        ConfigError: The task has no setting of such a name, or cannot read ALCE's files.
    """
    from lm_factuality.benchmarks import make_judged_method
    from lm_factuality.benchmarks.biographies.method import AmbigBio

    _check_settings(task, settings, make_judged_method(task))
    if reads_alce_files and task != AmbigBio.name:
        raise ConfigError(f"--generations: only for {AmbigBio.name}, not for {task}")
    method: JudgedMethod = make_judged_method(task, settings)
    return method


def _check_settings(task: str, settings: Mapping[str, Any], method: "JudgedMethod") -> None:
    """Check that a task's method has all settings that the user names.

    Raises:
        ConfigError: A setting is unknown.
    """
    # Some methods have no settings at all.
    accepted = set(getattr(method, "recorded_settings", ()))
    # The identity is computed from the knowledge source. Nobody can set it.
    accepted.discard("knowledge_identity")
    unknown = settings.keys() - accepted
    if unknown:
        unknown_names = ", ".join(repr(name) for name in sorted(unknown))
        accepted_names = ", ".join(sorted(accepted)) or "none"
        raise ConfigError(
            f"--metadata: {task} has no setting {unknown_names}; known: {accepted_names}"
        )


def _parse_metadata(text: str) -> dict[str, Any]:
    """Parse settings in the syntax of lm_eval's ``--metadata``.

    Args:
        text: Either ``KEY=VALUE,...`` or JSON. Empty means no settings.

    Returns:
        The settings with typed values: ``"k=64,linking=none"`` becomes
        ``{"k": 64, "linking": "none"}``.

    Raises:
        ConfigError: The text is in neither syntax.
    """
    import yaml

    # YAML reads JSON, and it reads "{k: 64, linking: none}" as a mapping with typed values.
    mapping = text
    if not text.startswith("{"):
        mapping = "{" + text.replace("=", ": ") + "}"
    try:
        return dict(yaml.safe_load(mapping))
    except yaml.YAMLError as error:
        raise ConfigError(
            f"--metadata: {text!r} cannot be read: {error}; expected KEY=VALUE,... or JSON"
        ) from error


def _notes_on_judging(
    config: "JudgeConfig", usage: "Usage", provenance: Mapping[str, Any]
) -> list[str]:
    """List the notes below a table of judged scores: cost, certificates and warnings.

    Args:
        config: The judge that gave the verdicts.
        usage: How many answers the judge gave, and how many requests failed.
        provenance: The entry ``about`` of metrics.json, which names the task and certificates.

    Returns:
        Full sentences, such as "Judge lexical: 0 answers were on disk, 12 calls, ...".
    """
    from lm_factuality.benchmarks import find_benchmark

    notes = [
        f"Judge {config.name}: {usage.stored} answers were on disk, {usage.calls} calls, {usage}."
    ]
    benchmark = find_benchmark(provenance["task"])
    if benchmark:
        # lm_eval's results call the judge's description "judge_config".
        results_metadata = {**provenance, "judge_config": provenance["judge"]}
        statuses = benchmark.certification_statuses(results_metadata)
        notes += [f"{status.step}: {status.text}." for status in statuses]
    if usage.errors:
        notes.append(f"{usage.errors} requests got no answer: the same command asks them again.")
    if config.capabilities.caution:
        notes.append(config.capabilities.caution)
    return notes


@app.command()
def verify(
    pairs: Annotated[Path, Option(help="JSONL file with a claim and its passages per line.")],
    judge: JudgeName,
    out: Annotated[
        Path | None,
        Option(help="JSONL file to write the verdicts to, as described below. Not for --dry-run."),
    ] = None,
    store: Store = None,
    dry_run: DryRun = False,
    max_cost: MaxCost = None,
) -> None:
    """Ask a judge whether passages support claims.

    \b
    Examples:
      lm-factuality verify --pairs pairs.jsonl --judge lexical --out verdicts.jsonl
      lm-factuality verify --pairs pairs.jsonl --judge openai-server --dry-run
      lm-factuality verify --pairs pairs.jsonl --judge my_judge.yaml --max-cost 2.50 --out verdicts

    \b
    A line of pairs.jsonl (any other keys are copied to the output):
      {"claim": "The bridge opened in 1870.", "passages": ["The old bridge, opened in 1870, ..."]}
      {"claim": "The bridge is iron.", "passages": [{"title": "Bridge", "text": "It is of ..."}]}

    \b
    A line of the output also has these keys:
      verdict   supported, not_supported or unscored
      score     the probability of support, from 0 to 1; null if the claim is unscored
      reason    the judge's reason, or why the claim is unscored
      said      the texts that the judge wrote

    If the judge's YAML file states "verdicts: logprobs", the score is the probability that the
    judge's answer begins with True. Answers are stored as they arrive: if the command is
    interrupted, run it again and it resumes.
    """
    from lm_factuality.cli.verify import verify_file

    if out is None and not dry_run:
        raise typer.BadParameter("give --out, the file to write to, or --dry-run")
    verify_file(pairs, read_judge(judge, max_cost), out, store, dry_run)


@app.command()
def certify(
    judge: JudgeName,
    store: Store = None,
    dry_run: DryRun = False,
    setting: Annotated[
        str | None,
        Option(
            help="What to measure, as described below (default: segment_cot, or segment_doc if the"
            " judge needs evidence).",
            **choice_option_settings(_setting_names),
        ),
    ] = None,
    rows: Annotated[
        int | None,
        Option(
            help="Only biographies_... and check_...: judge this many random rows, or documents,"
            " always the same ones (default: all)."
        ),
    ] = None,
    data_dir: Annotated[
        str | None,
        Option(help="Folder with the published files (default: they are downloaded)."),
    ] = None,
    data: Annotated[
        list[Path] | None,
        Option(
            metavar="FILE...",
            help="Only biographies_..., check_mutations and check_citations: your own files,"
            " instead of the published ones or the sample.",
        ),
    ] = None,
    sample: Annotated[
        bool,
        Option(
            "--sample",
            help="Only segment_... and claim_...: use the small sample in the package.",
        ),
    ] = False,
    claims: Annotated[
        Path | None,
        Option(
            help="Only claim_...: the file that 'claims extract' wrote (default: rules split"
            " segments into claims)."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        Option(
            help="JSON file to write the certificate to as well. The judge's answers, by which"
            " others can compute it again, go into NAME.answers.jsonl beside it."
        ),
    ] = None,
    cases: Annotated[
        Path | None,
        Option(
            metavar="FOLDER",
            help="Only biographies_... and check_...: write each disagreement of judge and label to"
            " cases.jsonl, and to the page cases.html, on which people say who is right.",
        ),
    ] = None,
    adjudicated: Annotated[
        list[Path] | None,
        Option(
            metavar="FILE...",
            help="CSV files that people exported from cases.html. The certificate then also has the"
            " scores after their corrections.",
        ),
    ] = None,
    also_verify: Annotated[
        Literal["fact", "page"] | None,
        Option(
            help="Only biographies_verification and _linking: also measure the judge with this"
            " 'verify', beside that of its YAML file."
        ),
    ] = None,
) -> None:
    """Measure how often a judge agrees with published labels.

    \b
    Examples:
      lm-factuality certify --judge configs/judges/openai-server.yaml --dry-run
      lm-factuality certify --judge my_judge.yaml --out certificate.json
      lm-factuality certify --judge my_judge.yaml --setting claim_doc --claims claims.jsonl
      lm-factuality certify --judge lexical --sample
      lm-factuality certify --judge my_judge.yaml --setting biographies_verification --rows 200
      lm-factuality certify --judge lexical --setting biographies_grouping --data FILE FILE
      lm-factuality certify --judge my_judge.yaml --setting check_mutations --rows 40
      lm-factuality certify --judge lexical --setting biographies_verification --cases cases
      lm-factuality certify --judge lexical --setting biographies_verification \\
        --adjudicated cases-Ann.csv

    The settings segment_... and claim_... measure how well a judge finds FELM's errors. The
    settings biographies_decomposition, _grouping, _linking and _verification measure how well it
    repeats the decisions that D-FActScore's authors released. The settings check_... measure the
    verdicts of 'check': check_mutations on sentences that factor-gen made (--data TABLE DOCUMENTS),
    check_references on FELM's segments, and check_citations on ALCE's log of citations.

    The newest certificate of each setting is attached to the results of later runs with the same
    judge (backend, model, decoding and prompts), if it was measured on the published data.
    """
    from judges.certificates import make_certificate, save_certificate
    from judges.config import load_judge_config
    from judges.judge import Judge
    from lm_factuality.benchmarks.certifiable import AdjudicableTrial, CertifyOptions

    config = load_judge_config(judge)
    certifiable = _choose_setting(setting, config)
    options = CertifyOptions(
        data_dir=data_dir, files=tuple(data or ()), sample=sample, rows=rows, claims=claims
    )
    _refuse_unused_options(options, also_verify, certifiable)

    # A trial is the setting with its data, which the judge is measured on.
    trial = certifiable.open_trial(options)
    if (cases or adjudicated) and not isinstance(trial, AdjudicableTrial):
        raise ConfigError(
            f"--cases and --adjudicated are not for --setting {certifiable.name}, but for"
            " biographies_... and check_..."
        )
    with Judge.open(config, store=store) as opened_judge:
        other_judge = opened_judge.with_verify(also_verify) if also_verify else None
        if dry_run:
            plans = [(certifiable.name, opened_judge.plan(trial.ask))]
            if other_judge:
                plans.append((f"verify: {also_verify}", other_judge.plan(trial.ask)))
            print_plans(str(trial.data["file"]), config, plans)
            return

        # Only the answers to these questions belong to the certificate, not those that follow.
        answers: list[Answer] = []
        opened_judge.record = answers
        measured = trial.measure(opened_judge)
        opened_judge.record = None
        if other_judge:
            measured["also_measured"] = {"verify": also_verify, **trial.measure(other_judge)}
        if isinstance(trial, AdjudicableTrial):
            label_files = adjudicated or ()
            measured |= _adjudicate(trial, opened_judge, certifiable.name, cases, label_files)
        certificate = make_certificate(
            opened_judge,
            certifiable.name,
            measured,
            prompt_hashes=trial.prompt_hashes(opened_judge),
            data=trial.data,
        )

    _print_certificate(certificate, trial, certifiable, config)
    for path in save_certificate(certificate, out, answers):
        echo(f"Written to {path}")
    if not trial.data["is_published"]:
        echo(
            "Later runs will not attach this certificate by themselves, since its data is not the"
            " data as published. To use it on the leaderboard sample, give it to 'leaderboard pack"
            " --certificate'."
        )


def _choose_setting(name: str | None, config: "JudgeConfig") -> "CertifiableSetting":
    """Return the setting that the user named, or else the default one for the judge."""
    from lm_factuality.benchmarks.certified import certifiable_settings

    settings = certifiable_settings()
    if name is not None:
        return settings[name]
    return next(setting for setting in settings.values() if setting.is_default(config))


def _refuse_unused_options(
    options: "CertifyOptions", also_verify: str | None, setting: "CertifiableSetting"
) -> None:
    """Refuse options of ``certify`` that the chosen setting would ignore, and a number of rows < 1.

    Args:
        options: The options that choose the data.
        also_verify: The value of ``--also-verify``.
        setting: The chosen setting.

    Raises:
        ConfigError: An option cannot be used. The error names the settings that accept it.
    """
    from lm_factuality.benchmarks.certified import certifiable_settings

    if options.rows is not None and options.rows < 1:
        raise ConfigError(f"--rows: found {options.rows}, expected 1 or more")
    for field, option in _DATA_OPTIONS.items():
        is_used = bool(getattr(options, field))
        if not is_used or field in setting.accepted_options:
            continue
        accepting_names = [
            other.name
            for other in certifiable_settings().values()
            if field in other.accepted_options
        ]
        raise ConfigError(
            f"{option} is not for --setting {setting.name}, but for {', '.join(accepting_names)}"
        )
    if also_verify and setting.name not in _VERIFYING_SETTINGS:
        raise ConfigError(
            f"--also-verify is not for --setting {setting.name}, but for"
            f" {' and '.join(_VERIFYING_SETTINGS)}"
        )


def _adjudicate(
    trial: "AdjudicableTrial",
    judge: "Judge",
    setting: str,
    cases_folder: Path | None,
    label_files: Sequence[Path],
) -> dict[str, Any]:
    """Let people decide where a judge and a published label disagree.

    Args:
        trial: What the judge was measured on.
        judge: The judge.
        setting: The name of the setting.
        cases_folder: The folder to write the disagreements to. None writes none.
        label_files: The files in which people say who is right. They may be missing.

    Returns:
        What the certificate says in addition: the scores after people's corrections under
        ``adjudicated``, or nothing if there are no corrections.
    """
    from lm_factuality.people.adjudicate import write_cases

    if cases_folder is None and not label_files:
        echo("Add --cases FOLDER to read where judge and label disagree.")
        return {}
    disagreements = trial.disagreements(judge)
    echo(f"Cases in which judge and label disagree: {len(disagreements)}.")
    if disagreements and cases_folder is not None:
        for path in write_cases(disagreements, setting, trial.data, cases_folder):
            echo(f"Written to {path}")
    if disagreements and label_files:
        corrected = _measure_corrected(trial, judge, setting, disagreements, label_files)
        return {"adjudicated": corrected}
    return {}


def _measure_corrected(
    trial: "AdjudicableTrial",
    judge: "Judge",
    setting: str,
    disagreements: "Sequence[Disagreement]",
    label_files: Sequence[Path],
) -> dict[str, Any]:
    """Measure a judge again, with the labels as people corrected them.

    Returns:
        The scores, with the names of the people, the number of disagreements, and how often people
        say that each side is right: ``{"people": ("Ann",), "cases": 9, "right": {"judge": 6,
        "label": 3}, "scores": ...}``.
    """
    from lm_factuality.people.adjudicate import read_adjudication

    people, right_sides = read_adjudication(label_files, disagreements, setting, trial.data)
    times_right = Counter(right_sides.values())
    summary = ", ".join(f"{side} in {count}" for side, count in times_right.items())
    echo(f"Right according to {', '.join(people)}: {summary}.")
    scores = trial.measure(judge, right_sides)
    return {"people": people, "cases": len(disagreements), "right": times_right, **scores}


def _print_certificate(
    certificate: Mapping[str, Any],
    trial: "SettingTrial",
    setting: "CertifiableSetting",
    config: "JudgeConfig",
) -> None:
    """Print the scores of a certificate, one table for each way in which they were measured.

    A further table has the scores with another 'verify' (``--also-verify``), and one those with the
    labels that people corrected (``--adjudicated``).
    """
    title = f"{trial.data['file']}, {setting.name}: {setting.description}"
    scores_by_title = {title: certificate}
    if "also_measured" in certificate:
        scores = certificate["also_measured"]
        scores_by_title[f"With verify: {scores['verify']}"] = scores
    if "adjudicated" in certificate:
        scores_by_title["After people corrected labels"] = certificate["adjudicated"]
    for heading, scores in scores_by_title.items():
        # The other entries of the certificate, such as its data, hold for all tables.
        print_table(heading, *trial.make_table({**certificate, **scores}, config.name))


def print_plans(subject: str, config: "JudgeConfig", steps: Sequence[tuple[str, "Plan"]]) -> None:
    """Print how many requests, tokens, seconds and US dollars a judge would take.

    Args:
        subject: The file or task to judge, for the title of the table.
        config: The judge.
        steps: The name of each step, such as ``claims``, and its plan. Each is a row of the table.
    """
    from judges.estimates import ASSUMED_SPEED

    rows = [_plan_row(step, plan, config) for step, plan in steps]
    plans = [plan for _, plan in steps]
    counted_by = ", ".join(sorted({plan.estimate.counted_by for plan in plans}))
    notes = [
        f"Prompt tokens: {counted_by or 'none'}. Facts and answer tokens: as in the offline judge's"
        " answers. Nothing was sent.",
        "At most: if every request is made twice, every answer is as long as allowed, and the judge"
        " finds no more facts, leaves none out and does not think longer.",
    ]
    if config.backend == _SERVER:
        notes.append(f"Seconds: {ASSUMED_SPEED} (assumed), {config.concurrency} at once.")
    notes.append(_describe_totals(plans, config))
    print_table(f"{subject}, judged by {config.name}: planned requests", _PLAN_COLUMNS, rows, notes)


def _plan_row(step: str, plan: "Plan", config: "JudgeConfig") -> list[str]:
    """Format the planned requests, tokens, seconds and costs of a step as a row of `print_plans`.

    Args:
        step: The name of the step, such as ``claims``.
        plan: What the judge would be asked. Its costs are None if the judge has no prices.
        config: The judge. The speed of judges without a server is not known.
    """
    counts = (
        plan.stored + plan.to_send,
        plan.stored,
        plan.to_send,
        plan.estimate_with_retries.calls,
        plan.estimate.prompt_tokens,
        plan.estimate.completion_tokens,
        plan.estimate_with_retries.max_completion_tokens,
    )
    costs = (plan.estimate.estimated_cost, plan.estimate_with_retries.max_cost)
    return [
        step,
        *(f"{count:,}" for count in counts),
        format_number(_seconds_of(plan, config), ",.0f"),
        *(format_number(cost, ".4f") for cost in costs),
    ]


def _seconds_of(plan: "Plan", config: "JudgeConfig") -> float | None:
    """Return the seconds that a server takes for a plan; None for a judge without a server."""
    from judges.estimates import seconds_of_server

    if config.backend != _SERVER:
        return None
    answer_tokens = plan.estimate.completion_tokens
    return seconds_of_server(plan.to_send, answer_tokens, config.concurrency)


def _describe_totals(plans: Sequence["Plan"], config: "JudgeConfig") -> str:
    """Return the last line of a dry run: what all steps take, and what is stored already.

    Example:
        ``Total: 43 requests (12 more are stored), 51,000 prompt tokens, 130 s, $0.0421 (at most
        $0.1010).``
    """
    num_stored = sum(plan.stored for plan in plans)
    num_requests = sum(plan.to_send for plan in plans)
    prompt_tokens = sum(plan.estimate.prompt_tokens for plan in plans)
    seconds = sum(_seconds_of(plan, config) or 0.0 for plan in plans)
    duration = f"{seconds:,.0f} s" if config.backend == _SERVER else "unknown seconds"
    return (
        f"Total: {num_requests:,} requests ({num_stored:,} more are stored),"
        f" {prompt_tokens:,} prompt tokens, {duration}, {_describe_price(plans)}."
    )


def _describe_price(plans: Sequence["Plan"]) -> str:
    """Return the expected and the highest cost of plans, such as ``$0.0421 (at most $0.1010)``."""
    cost = 0.0
    max_cost = 0.0
    for plan in plans:
        if plan.estimate.estimated_cost is None or plan.estimate_with_retries.max_cost is None:
            return "unknown USD, because the judge's YAML file names no prices"
        cost += plan.estimate.estimated_cost
        max_cost += plan.estimate_with_retries.max_cost
    return f"${cost:.4f} (at most ${max_cost:.4f})"
