"""Measures how long documents take to index, to open, to search and to check answers against.

``python -m bench.check index`` calls `measure_index`. Each step runs in a process of its own, so
that the memory of the process is the memory of that step alone.
"""

from __future__ import annotations

import io
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from bench.suite.index import draw_passages, run_in_process
from bench.timing import Record, peak_mb
from lm_factuality.ground.files import write_lines

_PARAGRAPHS = 5  # of 100 words each in a document
_WORDS_IN_SENTENCE = 20
_NUM_CLAIMS = 800
_CLAIMS_PER_ANSWER = 8


@dataclass(frozen=True)
class _Cost:
    """What a step takes."""

    seconds: float
    """The duration in seconds."""

    cpu_seconds: float
    """The seconds of all threads on the CPU, which other programs on the machine do not change."""

    peak_mb: float
    """The highest resident memory of the process, in MB."""


def measure_index(num_documents: int) -> Iterator[Record]:
    """Index generated documents of 500 words, open the index again, and search it.

    Args:
        num_documents: The number of documents, of which every second one is a Markdown file and the
            others are text files.

    Yields:
        A row for each step, with seconds, CPU seconds and peak memory in MB.
    """
    with tempfile.TemporaryDirectory() as temporary:
        documents = Path(temporary, "documents")
        # `run_check` finds the index here.
        cache = Path(temporary, "knowledge")
        claims = _write_documents(documents, num_documents)
        steps: dict[str, Callable[[], _Cost]] = {
            "index all documents": lambda: run_in_process(_open, documents, cache),
            "open the index, no file changed": lambda: run_in_process(_open, documents, cache),
            f"search {len(claims)} claims": lambda: run_in_process(
                _search, documents, cache, claims
            ),
            f"check {len(claims) // _CLAIMS_PER_ANSWER} answers of {_CLAIMS_PER_ANSWER} claims": (
                lambda: run_in_process(_check, documents, claims)
            ),
            "open the index, one file changed": lambda: run_in_process(
                _change_and_open, documents, cache
            ),
        }
        for name, measure_step in steps.items():
            cost = measure_step()
            yield {
                "num_documents": num_documents,
                "step": name,
                "seconds": cost.seconds,
                "cpu_seconds": cost.cpu_seconds,
                "peak_mb": cost.peak_mb,
            }


def _write_documents(folder: Path, num_documents: int) -> list[str]:
    """Write documents of invented words to a folder.

    Returns:
        Claims, which are sentences of documents that are spread over the folder.
    """
    folder.mkdir()
    paragraphs = draw_passages(num_documents * _PARAGRAPHS)
    documents_per_claim = max(1, num_documents // _NUM_CLAIMS)
    claims: list[str] = []
    for number in range(num_documents):
        texts = []
        for _ in range(_PARAGRAPHS):
            sentences = _sentences_of(next(paragraphs))
            texts.append(" ".join(sentences))
        if number % documents_per_claim == 0 and len(claims) < _NUM_CLAIMS:
            claims.append(sentences[0])
        if number % 2:
            path, text = folder / f"{number}.txt", "\n\n".join(texts)
        else:
            path, text = folder / f"{number}.md", "\n\n".join([f"# Page {number}", *texts])
        path.write_text(text, encoding="utf-8")
    return claims


def _sentences_of(words: Sequence[str]) -> list[str]:
    """Make sentences of words."""
    sentences = []
    for start in range(0, len(words), _WORDS_IN_SENTENCE):
        text = " ".join(words[start : start + _WORDS_IN_SENTENCE])
        sentences.append(f"{text.capitalize()}.")
    return sentences


def _open(documents: Path, cache: Path) -> _Cost:
    """Open the index of the documents, which is built if necessary."""
    # Imports are part of the memory of this process, but not of its seconds.
    from lm_factuality.check.knowledge import open_knowledge

    return _cost_of(lambda: open_knowledge(documents, cache))


def _change_and_open(documents: Path, cache: Path) -> _Cost:
    """Change one document, and open the index."""
    (documents / "0.md").write_text("# Page 0\n\nThis page is new.", encoding="utf-8")
    return _open(documents, cache)


def _search(documents: Path, cache: Path, claims: Sequence[str]) -> _Cost:
    """Search the passages for claims."""
    from lm_factuality.check.knowledge import open_knowledge

    knowledge = open_knowledge(documents, cache)
    return _cost_of(lambda: knowledge.find(claims))


def _check(documents: Path, claims: Sequence[str]) -> _Cost:
    """Check answers with the offline judge, as the command does, and write the files and page."""
    os.environ["LM_FACTUALITY_HOME"] = str(documents.parent)
    from lm_factuality.cli import main

    starts = range(0, len(claims), _CLAIMS_PER_ANSWER)
    rows = [{"answer": " ".join(claims[start : start + _CLAIMS_PER_ANSWER])} for start in starts]
    answers = documents.with_name("answers.jsonl")
    write_lines(answers, map(json.dumps, rows))
    options = ["--knowledge", str(documents), "--out", str(documents.with_name("checked"))]

    def run() -> None:
        """Run the command, without what it prints."""
        with redirect_stdout(io.StringIO()):
            exit_code = main(["check", str(answers), *options])
        assert exit_code == 0, f"exit code {exit_code}"

    return _cost_of(run)


def _cost_of(work: Callable[[], object]) -> _Cost:
    """Do some work and return what it takes."""
    start = time.perf_counter()
    cpu_start = time.process_time()
    work()
    cpu_seconds = time.process_time() - cpu_start
    return _Cost(time.perf_counter() - start, cpu_seconds, peak_mb())
