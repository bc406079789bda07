"""``lm-factuality claims extract``: the claims in FELM's segments, once for all judges."""

import argparse
from pathlib import Path

from lm_factuality.cli.actions import Command
from lm_factuality.cli.printing import print_plans
from lm_factuality.ground.console import print_table
from lm_factuality.ground.errors import BackendDown, ConfigError
from lm_factuality.ground.files import write_lines


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("extract",), help="extract the claims of every segment")
    parser.add_argument("--judge", required=True, metavar="CONFIG", help="a judge's YAML, or 'rules'")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="JSONL to write, one row of FELM per line")
    parser.add_argument("--data-dir", metavar="DIR", help="local folder with all.jsonl, instead of a download")
    parser.add_argument("--store", type=Path, metavar="FILE", help="where answers are kept (default: the shared store)")
    parser.add_argument("--max-tokens", type=int, default=1500, help="for one row's claims (default %(default)s, appendix D)")
    parser.add_argument("--prompts", type=Path, metavar="DIR", help="a checkout of hkust-nlp/felm: the authors' prompt")
    parser.add_argument("--dry-run", action="store_true", help="print calls, tokens and cost; send nothing")


def claims(parsed: argparse.Namespace) -> int:
    """Extracts and writes claims; exit code 0 also where some rows have a problem, which the file names."""
    from lm_factuality.benchmarks.felm.claims import provenance, split_claims, to_line
    from lm_factuality.benchmarks.felm.rows import FELM, WITHOUT_REFERENCES, read_rows
    from lm_factuality.ground.published import locate

    if parsed.max_tokens < 1:
        raise ConfigError(f"--max-tokens is {parsed.max_tokens}, expected at least 1")
    rows = read_rows(locate(FELM, parsed.data_dir).path)
    rows = [row for row in rows if row.domain not in WITHOUT_REFERENCES]
    if parsed.judge == "rules":
        found = [split_claims(row) for row in rows]
    else:
        from judges.config import load_judge_config
        from judges.judge import Judge
        from lm_factuality.benchmarks.felm.authors import AuthorsPrompts
        from lm_factuality.benchmarks.felm.judging import extract_claims

        config = load_judge_config(parsed.judge)
        authors = AuthorsPrompts(parsed.prompts) if parsed.prompts else None
        with Judge.open(config, store=parsed.store) as judge:
            if parsed.dry_run:
                plan = judge.rehearse(lambda asked: extract_claims(asked, rows, parsed.max_tokens, authors))
                print_plans("FELM's claims", config.name, [("claims", plan)])
                return 0
            found = extract_claims(judge, rows, parsed.max_tokens, authors)
        if all(each.problem for each in found):
            raise BackendDown(
                f"judge {config.name}: no claims of any of {len(found)} rows, the first: {found[0].problem}; nothing was written"
                f"{'' if config.capabilities.reads_prompts else '; without a model, use --judge rules'}"
            )
    write_lines(parsed.out, (to_line(each) for each in found))
    problems = [each for each in found if each.problem]
    print_table(
        f"Claims of {len(found)} rows",
        ("from", "#rows"),
        [(source, str(count)) for source, count in provenance(found).items()],
        [
            f"{sum(len(each.numbered()) for each in found):,} claims, written to {parsed.out}",
            f"rows without claims, unscored when claims are judged: {len(problems)}",
            *(f"  row {each.index}: {each.problem}" for each in problems[:10]),
        ],
    )
    return 0


COMMAND = Command("claims", "take the claims out of FELM's segments, once for all judges", claims, options)
