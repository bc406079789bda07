"""The command ``check``, which checks people's own answers against their own documents.

``lm_factuality.cli.main`` registers it.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option, echo

from lm_factuality.cli.judge import MaxCost, Store, read_judge
from lm_factuality.ground.command_line import App
from lm_factuality.ground.console import format_interval, format_number, plural, print_table
from lm_factuality.ground.errors import ConfigError, FactualityError, message_of
from lm_factuality.ground.files import check_writable, whole_files

if TYPE_CHECKING:
    from lm_factuality.check.against import AnswerPair, Comparison
    from lm_factuality.check.results import CheckedClaim, CheckResult
    from lm_factuality.check.run import FinishedCheck

app = App()

_EXAMPLE = Path(__file__).parents[1] / "check" / "example"
# The most that the terminal shows of each. Files and the page have all.
_NUM_WORST = 10
_NUM_PROBLEMS = 20
_NUM_REASONS = 3
_NUM_CHANGED_CLAIMS = 3
# Exit codes.
_FAILED = 1
_UNUSABLE = 2


@app.command()
def check(
    answers: Annotated[
        Path | None,
        Argument(
            help="The answers: a CSV, TSV, JSON Lines, JSON, Parquet, text or Markdown file, a"
            " folder of them or of lm_eval's results, or - for standard input (default: an"
            " example that comes with the suite)."
        ),
    ] = None,
    knowledge: Annotated[
        Path | None,
        Option(help="The documents: a folder, a file, or a database of 'knowledge build'."),
    ] = None,
    search: Annotated[
        Path | None,
        Option(help="The YAML file of a search service, instead of documents."),
    ] = None,
    judge: Annotated[
        str,
        Option(help="The judge's YAML file, or 'lexical' for the offline judge."),
    ] = "lexical",
    columns: Annotated[
        list[str] | None,
        Option(
            metavar="ROLE=NAME...",
            help="The columns of a table: answer=NAME, question=NAME, id=NAME.",
        ),
    ] = None,
    out: Annotated[
        Path | None, Option(help="Folder to write claims, figures and a page to.")
    ] = None,
    against: Annotated[
        Path | None,
        Option(help="Another system's answers to the same questions, to compare with."),
    ] = None,
    corrections: Annotated[
        list[Path] | None,
        Option(
            metavar="FILE...",
            help="Corrections that people saved on the page, to count in place of the judge's"
            " verdicts on the answers.",
        ),
    ] = None,
    fail_under: Annotated[
        float | None,
        Option(
            min=0,
            max=100,
            help="Exit with 1 if fewer than this many per cent of the claims are supported.",
        ),
    ] = None,
    store: Store = None,
    max_cost: MaxCost = None,
) -> None:
    """Check whether answers are factual, claim by claim, against your documents or a search.

    \b
    Examples:
      lm-factuality check
      lm-factuality check answers.csv --knowledge docs/
      lm-factuality check answers.jsonl --knowledge docs/ --judge gpt.yaml --out checked
      lm-factuality check answers.csv --search search.yaml --judge gpt.yaml
      lm-factuality check results/ --knowledge wiki.db --judge gpt.yaml
      lm-factuality check answers.csv --knowledge docs/ --fail-under 95
      lm-factuality check new.csv --knowledge docs/ --against old.csv
      lm-factuality check answers.csv --knowledge docs/ --corrections corrections-ana.jsonl

    The exit code is 1 with --fail-under if too few claims are supported, and 2 if the input cannot
    be used or more than half of the claims are unscored. Answers of judges and results of searches
    stay on disk, so that the same command continues after an interruption.
    """
    from judges.budget import SpendingLimit
    from lm_factuality.check.against import compare_checks
    from lm_factuality.check.answers import STANDARD_INPUT, parse_columns, read_answers
    from lm_factuality.check.corrections import apply_corrections, read_corrections
    from lm_factuality.check.run import run_check

    with _exit_on_errors():
        is_example = answers is None
        if answers is None:
            if knowledge or search or against or corrections:
                raise ConfigError(
                    "name the answers, as in lm-factuality check answers.csv --knowledge docs/"
                )
            answers = _EXAMPLE / "answers.csv"
            knowledge = _EXAMPLE / "documents"

        # All files are read, and the output folder is tried, before the judge costs anything.
        config = read_judge(judge, max_cost)
        column_names = parse_columns(columns or [])
        files = [answers] if against is None else [answers, against]
        answer_files = []
        for file in files:
            source = STANDARD_INPUT if str(file) == STANDARD_INPUT else file
            answer_files.append(read_answers(source, column_names))
        people_corrections = list(chain.from_iterable(map(read_corrections, corrections or ())))
        if out is not None:
            check_writable(out, "files")

        # Both systems' answers together may not cost more than the limit.
        spending_limit = SpendingLimit(config.max_cost)
        checks = [
            run_check(file, knowledge, search, config, store, spending_limit)
            for file in answer_files
        ]
        checked = checks[0]
        if people_corrections:
            corrected_result = apply_corrections(checked.result, people_corrections)
            checked = checked._replace(result=corrected_result)
        comparison = None
        if against is not None:
            comparison = compare_checks(checked.result, checks[1].result)

        if out is not None:
            with whole_files(out) as unfinished:
                _write_results(checked, comparison, answers, unfinished)
        _print_result(checked, out)
        if comparison is not None:
            _print_comparison(comparison, [str(file) for file in files])
            other = checks[1]
            echo(f"{against}: {_unscored_note(other.result)}; {_cost_note(other.about)}")
        if is_example:
            echo(
                "To check your own answers:"
                " lm-factuality check answers.csv --knowledge docs/ --out checked"
            )
    raise typer.Exit(_explain_exit_code(checked.result, fail_under))


@contextmanager
def _exit_on_errors() -> Iterator[None]:
    """Print an error of the block, such as an unusable file, and exit with 2."""
    try:
        yield
    except (FactualityError, OSError) as error:
        echo(f"lm-factuality check: {message_of(error)}", err=True)
        raise typer.Exit(_UNUSABLE) from error


def _write_results(
    checked: "FinishedCheck", comparison: "Comparison | None", answers: Path, folder: Path
) -> None:
    """Write the files and the page of a check."""
    from lm_factuality.check.against import summarise_comparison, write_changes
    from lm_factuality.check.outputs import write_files
    from lm_factuality.check.page import write_page

    about = {"answers": str(answers), **checked.about}
    if comparison is not None:
        write_changes(comparison, folder / "changes.jsonl")
        about["against"] = summarise_comparison(comparison)
    write_files(checked.result, folder, about)
    write_page(
        checked.result,
        folder / "index.html",
        title=f"Check of {answers.name}",
        note=_evidence_note(checked),
        source=_path_from_here(_evidence_source(checked)),
    )


def _evidence_note(checked: "FinishedCheck") -> str:
    """Say what the answers were checked against, and by whom."""
    source_name = _evidence_source(checked).name
    judge_name = checked.about["judge"]["name"]
    # A search service does not say how many documents it has.
    if "documents" not in checked.about:
        return f"Checked against {source_name} by the judge {judge_name}"
    num_documents = plural(checked.about["documents"], "document")
    return f"Checked against {source_name}, {num_documents}, by the judge {judge_name}"


def _evidence_source(checked: "FinishedCheck") -> Path:
    """Return the path of the documents, or of the YAML file of the search service."""
    return Path(checked.about.get("search") or checked.about["knowledge"]).resolve()


def _path_from_here(path: Path) -> str:
    """Return a path from the working folder, or only the last part of a path outside of it.

    Others who get a page need not learn how the folders of this machine are called.
    """
    folder = Path.cwd()
    return str(path.relative_to(folder)) if path.is_relative_to(folder) else path.name


def _print_result(checked: "FinishedCheck", out: Path | None) -> None:
    """Print the figures of a check, the ten worst claims, and what to do next."""
    from lm_factuality.check.outputs import figure_rows, figures_title

    result = checked.result
    print_table(
        figures_title(result),
        ("verdict", "#number", "#of scored", "#95% interval"),
        figure_rows(result),
        list(_notes(checked)),
    )
    for claim in result.worst_claims(_NUM_WORST):
        _print_claim(claim)
    num_unsupported = result.count("contradicted") + result.count("not_found")
    num_left = num_unsupported - _NUM_WORST
    if num_left > 0:
        echo(f"... and {plural(num_left, 'claim')} more that are contradicted or not found")
    if out is None:
        echo("To see every claim beside its evidence, add --out checked and open its index.html.")
    else:
        echo(f"Open {out / 'index.html'} to see every claim beside its evidence.")


def _notes(checked: "FinishedCheck") -> Iterator[str]:
    """Yield the notes below the table: the evidence, corrections, refusals and problems."""
    result = checked.result
    yield f"{_evidence_note(checked)}."
    yield "The intervals allow for claims of one answer being right or wrong together."
    yield f"The judge's verdicts: {checked.certification}."
    if result.num_corrected:
        share = format_number(result.as_judged().share_supported)
        num_corrected = plural(result.num_corrected, "verdict")
        yield f"{num_corrected} corrected or confirmed; as judged, {share} supported."
    yield _cost_note(checked.about)
    if result.num_refusals:
        yield f"{plural(result.num_refusals, 'refusal')}, not judged."
    num_without_claim = sum(
        not answer.claims and not answer.is_refusal for answer in result.answers
    )
    if num_without_claim:
        yield f"{plural(num_without_claim, 'answer')} without a claim, such as one of code alone."
    reasons = Counter(claim.reason for claim in result.claims if claim.verdict == "unscored")
    for reason, num_claims in reasons.most_common(_NUM_REASONS):
        yield f"{plural(num_claims, 'claim')} unscored: {reason}."
    yield from result.problems[:_NUM_PROBLEMS]
    num_left = len(result.problems) - _NUM_PROBLEMS
    if num_left > 0:
        yield f"... and {num_left:,} more that could not be used."


def _unscored_note(result: "CheckResult") -> str:
    """Say how many claims are unscored and how many answers could not be read."""
    num_unscored = plural(result.count("unscored"), "claim")
    num_unread = plural(len(result.unread_answers), "answer")
    return f"{num_unscored} unscored, {num_unread} not read"


def _cost_note(about: Mapping[str, Any]) -> str:
    """Say what a check took: calls, tokens and US dollars of the judge, searches, and seconds."""
    costs = list(_judge_costs(about["judge_usage"]))
    if "searches_sent" in about:
        costs.append(f"searches: {about['searches_sent']:,} sent")
        costs.append(f"{about['searches_failed']:,} failed")
    costs.append(f"{about['seconds']:.1f} seconds")
    return f"{'; '.join(costs)}."


def _judge_costs(usage: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a judge took, such as ``12 calls to the judge, ...`` and ``0.0041 USD``."""
    if usage["calls"]:
        yield (
            f"{plural(usage['calls'], 'call')} to the judge, {usage['prompt_tokens']:,} prompt"
            f" tokens, {usage['completion_tokens']:,} completion tokens"
        )
        # The price is None if the judge's YAML file names no prices.
        price = usage["cost"]
        yield "no prices known" if price is None else f"{price:.4f} USD"
    if usage["stored"]:
        yield f"{plural(usage['stored'], 'answer')} of the judge on disk already"
    if usage["errors"]:
        yield f"{plural(usage['errors'], 'request')} without an answer, to be asked again"


def _print_claim(claim: "CheckedClaim") -> None:
    """Print a claim that is not supported, with the sentence that contradicts it."""
    from judges.claims import deciding_sentence

    echo(f"{claim.verdict.replace('_', ' ')}: {claim.text}  ({claim.answer})")
    if claim.deciding is None:
        return
    deciding_passage = claim.evidence[claim.deciding]
    contradiction = deciding_sentence(claim.text, deciding_passage.text, claim.deciding_words)
    if contradiction is not None:
        echo(f"    {deciding_passage.document}: {contradiction.sentence}")


def _print_comparison(comparison: "Comparison", names: Sequence[str]) -> None:
    """Print how two systems differ on the questions that both answered."""
    echo(
        f"{plural(comparison.num_questions, 'question')} in both: supported"
        f" {format_number(comparison.first)} and {format_number(comparison.second)}, difference"
        f" {format_number(comparison.difference)}"
        f" (95% interval {format_interval(comparison.interval)})"
    )
    for answers in comparison.changes[:_NUM_WORST]:
        _print_answer_pair(answers, names)


def _print_answer_pair(answers: "AnswerPair", names: Sequence[str]) -> None:
    """Print how many claims of two answers are supported, and the worst differences."""
    echo(f"\n{answers.question}")
    for name, answer in zip(names, (answers.first, answers.second), strict=True):
        scored = plural(answer.num_scored, "claim")
        echo(f"  {name}: {answer.num_supported:,} of {scored} supported")
    for change in answers.claims[:_NUM_CHANGED_CLAIMS]:
        for name, claim in zip(names, change, strict=True):
            if claim is not None:
                echo(f"    {claim.verdict.replace('_', ' ')} in {name}: {claim.text}")
    num_left = len(answers.claims) - _NUM_CHANGED_CLAIMS
    if num_left > 0:
        echo(f"    ... and {num_left:,} more; --out writes all to changes.jsonl")


def _explain_exit_code(result: "CheckResult", fail_under: float | None) -> int:
    """Return the exit code of a check, after printing the reason to stderr if the check failed.

    Args:
        result: What the check found.
        fail_under: The least percentage of supported claims. None if any is enough.

    Returns:
        2 if more than half of the claims are unscored, 1 if too few are supported, or else 0.
    """
    if result.is_mostly_unscored:
        echo(f"lm-factuality check: too much has no verdict: {_unscored_note(result)}", err=True)
        return _UNUSABLE
    if fail_under is None:
        return 0
    # Without scored claims the share is NaN, which compares false, so such a check fails.
    has_passed = 100 * result.share_supported >= fail_under
    if not has_passed:
        share = format_number(result.share_supported)
        echo(f"lm-factuality check: supported: {share}, expected {fail_under:g}% or more", err=True)
        return _FAILED
    return 0
