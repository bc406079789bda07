"""What the model generated and a judge marks, in a run of lm_eval and on saved samples.

The same `JudgedMethod` of a benchmark works in both. It stands above this package.
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


def refuse_unable(config: JudgeConfig, method: Any) -> None:
    """Refuse a judge that cannot answer what a method asks.

    Raises:
        ConfigError: It cannot.
    """
    missing = [kind for kind in method.required_kinds if not config.capabilities.can_answer(kind)]
    if missing:
        raise ConfigError(
            f"judge {config.name} (backend {config.backend}) cannot {' or '.join(missing)}, which"
            f" {method.name} needs: make it the first of a cascade whose second judge can"
            " (docs/judges.md)"
        )


def to_line(doc: Mapping[str, Any], responses: Sequence[str]) -> str:
    """A line that ``read_generations`` reads, with two keys of lm_eval's samples. It takes what is
    no JSON too, rather than fail."""
    return json.dumps({"doc": doc, "resps": [list(responses)]}, ensure_ascii=False, default=str)


def read_generations(paths: Sequence[Path], method: Any) -> tuple[Docs, list[tuple[str, ...]]]:
    """Read the documents of all files together, and what the model said of each.

    A run in several processes leaves several files. One with its samples once for each filter
    counts once.

    Args:
        paths: Samples of a run with ``--log_samples``, or the generations that it saved.
        method: The `JudgedMethod`, which checks them.

    Raises:
        DataError: A line is of no use.
    """
    docs: list[Doc] = []
    responses = []
    problems = []
    seen = set()
    for path in paths:
        for number, sample in enumerate(read_samples(path, "resps"), start=1):
            doc = sample["doc"]
            key = json.dumps(doc, sort_keys=True)
            try:
                texts = tuple(responses_of(sample))
                problem = method.document_problem(doc, texts)
            except ValueError as error:
                problem = str(error)
            if key in seen:
                problem = "the same document as in an earlier line; give the files of one run only"
            if problem:
                problems.append(f"{path}: sample {number}: {problem}")
                continue
            seen.add(key)
            docs.append(doc)
            responses.append(texts)
    refuse(problems, "samples")
    if not docs:
        raise DataError(
            f"{', '.join(map(str, paths))}: no samples; expected lm_eval's"
            f" samples_{method.name}_*.jsonl"
        )
    return docs, responses
