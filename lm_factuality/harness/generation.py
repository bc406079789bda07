"""The generations that a judge marks, and the types that judged benchmarks share.

`judging` writes generations during a run, and ``lm-factuality judge`` reads them from samples.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from judges.config import JudgeConfig
from lm_factuality.ground.errors import ConfigError, DataError, refuse
from lm_factuality.harness.samples import read_samples, responses_of

JsonObject: TypeAlias = dict[str, Any]
Doc: TypeAlias = Mapping[str, Any]
Docs: TypeAlias = Sequence[Doc]
Responses: TypeAlias = Sequence[Sequence[str]]  # one text or more for each document
Verdict: TypeAlias = Mapping[str, Any]
Table: TypeAlias = tuple[Sequence[str], Sequence[Sequence[str]], Sequence[str]]
JudgedMethod: TypeAlias = Any  # benchmarks.judged.JudgedMethod, which imports this package


def require_capabilities(config: JudgeConfig, method: JudgedMethod) -> None:
    """Check that a judge can answer all kinds of questions that a benchmark's method asks.

    Raises:
        ConfigError: It cannot. The message names the kinds of questions and says what to do.
    """
    missing = [kind for kind in method.required_kinds if not config.capabilities.can_answer(kind)]
    if missing:
        raise ConfigError(
            f"judge {config.name} (backend {config.backend}) cannot {' or '.join(missing)}, which"
            f" {method.name} needs: make it the first of a cascade whose second judge can"
            " (docs/judges.md)"
        )


def to_line(doc: Doc, responses: Sequence[str]) -> str:
    """Write a document and its responses as a line that `read_generations` reads.

    Values that JSON does not know are written as text, so that no generation is ever lost.

    Returns:
        JSON with two keys of lm_eval's samples, such as
        ``{"doc": {"id": 1}, "resps": [["Yes."]]}``.
    """
    return json.dumps({"doc": doc, "resps": [list(responses)]}, ensure_ascii=False, default=str)


def read_generations(
    paths: Sequence[Path], method: JudgedMethod
) -> tuple[Docs, list[tuple[str, ...]]]:
    """Read the documents of several samples files, and the model's responses to each.

    Args:
        paths: The samples files of one run with ``--log_samples``, or the generations that it
            saved. A run in several processes leaves several files.
        method: The benchmark's method, which checks each document.

    Returns:
        All documents in the order of the files, and the responses to each of them.

    Raises:
        DataError: A document is unusable or occurs twice, or there are no samples.
    """
    docs: list[Doc] = []
    responses = []
    problems = []
    earlier_docs = set()

    for path in paths:
        for number, sample in enumerate(read_samples(path, "resps"), start=1):
            doc = sample["doc"]
            try:
                texts = tuple(responses_of(sample))
                problem = method.document_problem(doc, texts)
            except ValueError as error:
                problem = str(error)
            # The files of two runs would count each document twice.
            doc_text = json.dumps(doc, sort_keys=True)
            if doc_text in earlier_docs:
                problem = "the same document as in an earlier line; give the files of one run only"
            if problem:
                problems.append(f"{path}: sample {number}: {problem}")
                continue
            earlier_docs.add(doc_text)
            docs.append(doc)
            responses.append(texts)

    refuse(problems, "samples")
    if not docs:
        raise DataError(
            f"{', '.join(map(str, paths))}: no samples; expected lm_eval's"
            f" samples_{method.name}_*.jsonl"
        )
    return docs, responses
