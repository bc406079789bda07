"""``lm-factuality cite``: do the cited passages support what a response says?"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from lm_factuality.cli.actions import Command
from lm_factuality.cli.printing import percent
from lm_factuality.ground.console import print_table
from lm_factuality.ground.errors import ConfigError
from lm_factuality.ground.files import write_json, write_lines


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--generations", type=Path, nargs="+", required=True, metavar="FILE", help="responses, as below")
    parser.add_argument("--nli", required=True, metavar="MODEL", help="lexical, or an inference model on the Hub or in a folder")
    parser.add_argument(
        "--protocol",
        choices=("fixed", "code"),
        default="fixed",
        help="fixed: every way of citing is read; code: as the authors did with ALCE's scorer (default %(default)s)",
    )
    parser.add_argument(
        "--sentences",
        choices=("rules", "punkt"),
        default="rules",
        help="how sentences are found; punkt is ALCE's and needs NLTK's data (default %(default)s)",
    )
    parser.add_argument("--batch-size", type=int, default=16, help="pairs given to a model at a time (default %(default)s)")
    parser.add_argument("--device", help="cpu, cuda, cuda:1, ... (default: a GPU if there is one)")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for metrics.json and citations.jsonl")


def cite(parsed: argparse.Namespace) -> int:
    """Judges, writes both files and prints the table.

    Raises:
        DataError: the generations; every bad row is named.
        ConfigError, ModelError: an option or the model cannot be used.
    """
    from judges.inference import Once, load_entailment
    from lm_factuality.benchmarks.biographies.citations import judge_citations, summarise_citations, to_record
    from lm_factuality.benchmarks.biographies.cite import find_splitter
    from lm_factuality.benchmarks.biographies.generations import read_generations

    if parsed.batch_size < 1:
        raise ConfigError(f"--batch-size {parsed.batch_size}: expected 1 or more")
    split = find_splitter(parsed.sentences)
    generations = read_generations(parsed.generations)
    once = Once(load_entailment(parsed.nli, parsed.batch_size, parsed.device))
    judged = judge_citations(generations, once, parsed.protocol, split)
    summary = summarise_citations(judged, parsed.protocol)
    about = {
        "nli": once.identity,
        "pairs": once.num_asked,
        "sentences": parsed.sentences,
        "generations": [path.name for path in parsed.generations],
    }
    write_lines(parsed.out / "citations.jsonl", (json.dumps(to_record(each), ensure_ascii=False) for each in judged))
    write_json(parsed.out / "metrics.json", {**summary, "about": about})
    _print(summary, about)
    sys.stdout.write(f"Written to {parsed.out / 'metrics.json'} and citations.jsonl beside it\n")
    return 0


def _print(summary: dict[str, Any], about: dict[str, Any]) -> None:
    unscored = summary["unscored"]
    rows = [
        (name, percent(summary[key]), " - ".join(percent(end) for end in summary["intervals"][key]))
        for key, name in (("citation_recall", "citation recall"), ("citation_precision", "citation precision"))
    ]
    notes = [
        f"protocol {summary['protocol']}:",
        *(f"  {choice}" for choice in summary["choices"]),
        f"{summary['num_responses']} responses ({summary['responses_without_citation']} without a citation, "
        f"{summary['responses_without_sentence']} without a sentence), {summary['num_sentences']} sentences "
        f"({summary['sentences_without_citation']} without a citation), {summary['num_citations']} citations and "
        f"{summary['dangling_citations']} of passages that were not given; intervals: 95%, bootstrap over names",
        f"{about['pairs']} pairs judged by {about['nli']}",
    ]
    if unscored["sentences"] or unscored["citations"]:
        ends = ", ".join(
            f"{key.removeprefix('citation_')} {percent(unscored['worst'][key])} - {percent(unscored['best'][key])}"
            for key in ("citation_recall", "citation_precision")
        )
        notes.append(
            f"no verdict on {unscored['sentences']} sentences and {unscored['citations']} citations; worst - best: {ends}"
        )
    print_table("Citations", ("figure", "#value", "#95% interval"), rows, notes)


COMMAND = Command("cite", "measure whether cited passages support what a response says", cite, options)
