"""Opens the judge and the evidence, and checks answers with them."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

from judges.claims import CHECK
from judges.config import JudgeConfig
from judges.judge import Judge
from lm_factuality.check.answers import AnswerFile
from lm_factuality.check.check import EvidenceSource, check_answers
from lm_factuality.check.evidence import DocumentEvidence, SearchEvidence
from lm_factuality.check.knowledge import open_knowledge
from lm_factuality.check.results import CheckResult
from lm_factuality.ground.errors import ConfigError
from lm_factuality.retrieval.search.config import load_search_config
from lm_factuality.retrieval.search.service import SearchService
from lm_factuality.retrieval.search.store import SearchStore


class FinishedCheck(NamedTuple):
    """The result of a check, and how it came about."""

    result: CheckResult
    """The checked answers."""

    about: dict[str, Any]
    """The evidence, the judge and its use, as ``summary.json`` has them."""


def run_check(
    answers: AnswerFile,
    knowledge: Path | None,
    search: Path | None,
    judge_config: JudgeConfig,
    store: Path | None = None,
) -> FinishedCheck:
    """Check answers against documents or the results of a search service.

    Args:
        answers: The answers.
        knowledge: The documents: a folder, a file, or a database of ``knowledge build``.
        search: The YAML file of a search service, instead of documents.
        judge_config: The judge.
        store: Where the judge's answers are kept. None: the shared store.

    Raises:
        ConfigError: Both or neither of ``knowledge`` and ``search`` are given, or a setting cannot
            be used.
        DataError: The documents cannot be used.
        BackendDownError: The judge or the service cannot be reached. What was received is kept.
    """
    with (
        Judge.open(judge_config, store) as judge,
        _open_evidence(knowledge, search, judge) as evidence,
    ):
        result = check_answers(answers, evidence.source, judge)
        about = {
            **evidence.about,
            "judge": judge_config.describe([CHECK]),
            "judge_usage": asdict(judge.usage),
        }
    problems = (*result.problems, *evidence.problems)
    return FinishedCheck(replace(result, problems=problems), about)


class _OpenedEvidence(NamedTuple):
    """An opened source of evidence."""

    source: EvidenceSource
    """The documents or the service."""

    about: dict[str, Any]
    """What it is, for ``summary.json``."""

    problems: tuple[str, ...]
    """A sentence about each document that could not be read."""


@contextmanager
def _open_evidence(
    knowledge: Path | None, search: Path | None, judge: Judge
) -> Iterator[_OpenedEvidence]:
    """Open the documents or the search service within a ``with`` block.

    Raises:
        ConfigError: Both or neither were named.
    """
    if (knowledge is None) == (search is None):
        raise ConfigError(
            "name the documents that answers are checked against, as in --knowledge docs/, or a"
            " search service, as in --search search.yaml"
        )
    if knowledge is not None:
        with closing(open_knowledge(knowledge)) as documents:
            about = {"knowledge": str(knowledge), "documents": documents.num_documents}
            problems = tuple(f"{unread.path}: {unread.reason}" for unread in documents.unread)
            yield _OpenedEvidence(DocumentEvidence(documents), about, problems)
        return

    assert search is not None
    config = load_search_config(search)
    with closing(SearchStore()) as store, closing(SearchService(config, store)) as service:
        yield _OpenedEvidence(SearchEvidence(service, judge), {"search": str(search)}, ())
