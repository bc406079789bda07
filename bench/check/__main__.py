"""Measures the verdicts of judges: ``python -m bench.check PART``.

``altered`` prints how often it flags false and true sentences of three genres, and ``classes`` how
well it tells the three verdicts apart. ``together`` asks any judge about up to eight claims at once
and about one at a time. ``index`` times the index of people's documents.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.check.index import measure_index
from bench.check.texts import GENRES, Case, is_of_tuning_half, make_cases, read_documents
from bench.check.together import Papers, measure_together
from bench.timing import Record, run_parts
from judges.lexical.model import load_lexical_model
from judges.lexical.verdicts import SUPPORT_THRESHOLD, LexicalFinding, find_verdict
from judges.lexical.words import ParsedPassage
from lm_factuality.ground.console import format_interval
from lm_factuality.ground.files import parse_json
from lm_factuality.retrieval.bm25 import Searcher
from lm_factuality.scores.intervals import mean_interval

SAMPLE = Path(__file__).resolve().parents[2] / "tasks" / "sample"

NUM_PASSAGES = 5
"""The passages that each claim is held against."""

MIN_FLAGGED = 0.9
"""The share of altered sentences that the threshold has to flag on the tuning half.

It is above the goal of 80%, since the other half may differ by chance.
"""

CLASSES = ("supported", "contradicted", "not_found")


@dataclass(frozen=True)
class Result:
    """A case and what the judge finds about it."""

    case: Case
    """The case."""

    finding: LexicalFinding
    """The finding with the threshold 0, at which every claim that is not doubted is supported."""

    def is_flagged(self, threshold: float) -> bool:
        """Return whether the claim is contradicted or not found at a threshold of support."""
        return self.finding.verdict != "supported" or self.finding.probability < threshold


class Knowledge:
    """Passages, and the lexical judge that holds claims against the best of them."""

    def __init__(self, passages: Sequence[ParsedPassage]) -> None:
        """Index passages in memory."""
        self._passages = passages
        texts = [f"{passage.title}\n{passage.text}" for passage in passages]
        self._searcher = Searcher.from_texts(texts)
        self._model = load_lexical_model()

    def check(self, claim: str, threshold: float = SUPPORT_THRESHOLD) -> LexicalFinding:
        """Check a claim against the passages that a search finds for it."""
        ranking = self._searcher.rank(claim, NUM_PASSAGES)
        passages = [self._passages[number] for number, _ in ranking]
        if not passages:
            return LexicalFinding("not_found", 0.0, "no passage found")
        return find_verdict(self._model, claim, passages, threshold)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure the parts that the user names, and print their tables.

    Returns:
        The exit code.
    """
    parser = argparse.ArgumentParser(
        prog="python -m bench.check",
        description="Measure how well judges check claims, and how fast.",
    )
    parser.add_argument(
        "--misses",
        action="store_true",
        help="list the wrong verdicts of the tuning half, or for together the different verdicts",
    )
    parser.add_argument("--judge", default="lexical", help="together: the judge's YAML file")
    parser.add_argument(
        "--rows", type=int, default=8, metavar="N", help="together: documents, of 5 claims each (8)"
    )
    parser.add_argument(
        "--papers",
        type=Path,
        nargs=3,
        metavar=("ANSWERS", "KNOWLEDGE", "KEY"),
        help="together: answers, their documents, and JSON Lines of id and wrong statement",
    )
    parser.add_argument(
        "--documents",
        type=int,
        default=10_000,
        metavar="N",
        help="the number of documents to index (10,000)",
    )
    parts = {
        "altered": _measure_altered,
        "classes": _measure_classes,
        "together": _measure_together,
        "index": lambda options: measure_index(options.documents),
    }
    return run_parts(parser, parts, Path(__file__).with_name("tables.yaml"), argv, needs_part=True)


def _measure_together(options: argparse.Namespace) -> Iterator[Record]:
    """Measure whether verdicts depend on how many claims are asked about at once."""
    papers = Papers(*options.papers) if options.papers else None
    return measure_together(options.judge, options.rows, papers, options.misses)


def _measure_altered(options: argparse.Namespace) -> Iterator[Record]:
    """Measure which sentences are flagged, on the half of the documents not used for tuning."""
    results = _check_cases()
    tuning_results = [result for result in results if result.case.is_tuning]
    test_results = [result for result in results if not result.case.is_tuning]
    chosen = choose_threshold(tuning_results)
    if options.misses:
        _print_misses(tuning_results)

    yield from _flag_records(f"tuning half, threshold {chosen:.2f}", tuning_results, chosen)
    yield from _flag_records("test half", test_results, SUPPORT_THRESHOLD)
    for genre in GENRES:
        of_genre = [result for result in test_results if result.case.genre == genre]
        yield from _flag_records(f"test half, {genre}", of_genre, SUPPORT_THRESHOLD)

    kinds = sorted({result.case.change for result in results if result.case.change})
    for kind in kinds:
        of_kind = [result for result in test_results if result.case.change == kind]
        yield _flag_record("test half", f"altered {kind}", of_kind, SUPPORT_THRESHOLD)


def _check_cases() -> list[Result]:
    """Check all cases against the documents of all genres."""
    documents = {genre: read_documents(genre) for genre in GENRES}
    passages = []
    for documents_of_genre in documents.values():
        for document in documents_of_genre:
            passages.append(ParsedPassage(document.text, document.title))
    knowledge = Knowledge(passages)

    results = []
    for genre, documents_of_genre in documents.items():
        for case in make_cases(genre, documents_of_genre):
            results.append(Result(case, knowledge.check(case.claim, threshold=0.0)))
    return results


def choose_threshold(results: Sequence[Result]) -> float:
    """Choose the threshold of support: the lowest that flags 90% of the altered sentences.

    A higher one flags more true sentences, so none is chosen that flags more of them than needed.

    Args:
        results: The tuning half.

    Returns:
        The threshold, in steps of 0.05. 1 if no lower one flags so many sentences.
    """
    altered = [result for result in results if result.case.change]
    for step in range(20):
        threshold = step * 5 / 100
        if _share_flagged(altered, threshold) >= MIN_FLAGGED:
            return threshold
    return 1.0


def _share_flagged(results: Sequence[Result], threshold: float) -> float:
    """Return the share of results that are flagged at a threshold."""
    return sum(result.is_flagged(threshold) for result in results) / len(results)


def _flag_records(part: str, results: Sequence[Result], threshold: float) -> Iterator[Record]:
    """Make the rows about altered, verbatim and paraphrased sentences."""
    groups: dict[str, Callable[[Case], bool]] = {
        "altered": lambda case: bool(case.change),
        "altered, document has the true words": (
            lambda case: bool(case.change) and case.form == "verbatim"
        ),
        "altered, document has other words": (
            lambda case: bool(case.change) and case.form == "paraphrase"
        ),
        "true, verbatim": lambda case: not case.change and case.form == "verbatim",
        "true, other words": lambda case: not case.change and case.form == "paraphrase",
    }
    for name, belongs in groups.items():
        members = [result for result in results if belongs(result.case)]
        yield _flag_record(part, name, members, threshold)


def _flag_record(part: str, sentences: str, results: Sequence[Result], threshold: float) -> Record:
    """Make the row about some sentences. Sentences of one document are a cluster."""
    flags = [float(result.is_flagged(threshold)) for result in results]
    num_contradicted = sum(result.finding.verdict == "contradicted" for result in results)
    interval = mean_interval(flags, [result.case.title for result in results])
    return {
        "part": part,
        "sentences": sentences,
        "count": len(results),
        "flagged": sum(flags) / len(flags),
        "interval": format_interval(interval),
        "contradicted": num_contradicted / len(results),
    }


def _print_misses(results: Sequence[Result]) -> None:
    """Print the wrong verdicts to stderr, to see what the judge misses."""
    for result in results:
        case = result.case
        is_false = bool(case.change)
        if result.is_flagged(SUPPORT_THRESHOLD) != is_false:
            sys.stderr.write(
                f"{case.change or 'true'} {case.form} {result.finding.probability:.3f}"
                f" {case.claim} | {result.finding.reason}\n"
            )


def _measure_classes(options: argparse.Namespace) -> Iterator[Record]:
    """Measure the confusion of the three verdicts on two corpora."""
    yield from _confusion_records("own texts", _classes_of_texts())
    yield from _confusion_records("factor-gen's sample", _classes_of_sample())


def _classes_of_texts() -> list[tuple[str, str]]:
    """Check the claims of this benchmark, with the documents of its test half as the knowledge.

    Returns:
        The true class and the verdict of each claim. True claims about the other documents are not
        in the knowledge.
    """
    passages = []
    cases = []
    for genre in GENRES:
        documents = read_documents(genre)
        cases += make_cases(genre, documents)
        for index, document in enumerate(documents):
            if not is_of_tuning_half(index, document):
                passages.append(ParsedPassage(document.text, document.title))
    knowledge = Knowledge(passages)

    pairs = []
    for case in cases:
        if case.is_tuning and case.change:
            continue
        truth = "contradicted" if case.change else "supported"
        if case.is_tuning:
            truth = "not_found"
        pairs.append((truth, knowledge.check(case.claim).verdict))
    return pairs


def _classes_of_sample() -> list[tuple[str, str]]:
    """Check the rows of the sample of FACTOR, with the documents of half of its pages as knowledge.

    Returns:
        The true class and the verdict of each sentence: completions, contradictions that the rules
        of factor-gen made of them, and completions about the other pages.
    """
    passages = []
    for line in (SAMPLE / "sample_corpus.jsonl").read_text(encoding="utf-8").splitlines():
        document = parse_json(line)
        if _is_in_knowledge(document["id"]):
            passages.append(ParsedPassage(document["text"], document["title"]))
    knowledge = Knowledge(passages)

    pairs = []
    with (SAMPLE / "sample_factor.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            is_known = _is_in_knowledge(row["doc_id"])
            truth = "supported" if is_known else "not_found"
            pairs.append((truth, knowledge.check(row["completion"]).verdict))
            if is_known:
                pairs.append(("contradicted", knowledge.check(row["contradiction_0"]).verdict))
    return pairs


def _is_in_knowledge(document_id: str) -> bool:
    """Return whether the page of a document, such as ``P000-3``, has an even number."""
    return int(document_id.split("-")[0][1:]) % 2 == 0


def _confusion_records(corpus: str, pairs: Sequence[tuple[str, str]]) -> Iterator[Record]:
    """Make a row of the confusion table for each true class."""
    for truth in CLASSES:
        verdicts = Counter(verdict for true_class, verdict in pairs if true_class == truth)
        total = sum(verdicts.values())
        shares = {verdict: verdicts[verdict] / total for verdict in CLASSES}
        yield {"corpus": corpus, "truth": truth, "count": total, **shares}


if __name__ == "__main__":
    sys.exit(main())
