"""Opens the judge and the evidence, and checks answers with them."""

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from judges.certificates import find_certificates
from judges.claims import CHECK
from judges.config import JudgeConfig
from judges.judge import Judge
from lm_factuality.benchmarks.certifiable import JudgedStep
from lm_factuality.benchmarks.factor.mutations import SETTING
from lm_factuality.check.answers import AnswerFile
from lm_factuality.check.check import check_answers
from lm_factuality.check.evidence import SearchEvidence
from lm_factuality.check.knowledge import CheckKnowledge, open_knowledge
from lm_factuality.check.results import CheckResult
from lm_factuality.ground.errors import ConfigError

if TYPE_CHECKING:
    from judges.budget import SpendingLimit

# The other settings know only two classes, or their data are not part of the suite.
_VERDICTS = JudgedStep("verdicts", (SETTING,), "all figures")


class FinishedCheck(NamedTuple):
    """The result of a check, and how it came about."""

    result: CheckResult
    """The checked answers."""

    about: dict[str, Any]
    """The evidence, the judge, its use and its certificates, as ``summary.json`` has them."""

    @property
    def certification(self) -> str:
        """How well the judge's verdicts agree with known ones, or how to measure it."""
        judge = self.about["judge"]
        certificates = self.about.get("judge_certificate")
        metadata = {"judge_config": judge, "judge_certificate": certificates}
        return _VERDICTS.certification_status(metadata).text


def run_check(
    answers: AnswerFile,
    knowledge: Path | None,
    search: Path | None,
    judge_config: JudgeConfig,
    store: Path | None = None,
    spending_limit: "SpendingLimit | None" = None,
) -> FinishedCheck:
    """Check answers against documents or the results of a search service.

    Args:
        answers: The answers.
        knowledge: The documents: a folder, a file, or a database of ``knowledge build``.
        search: The YAML file of a search service, instead of documents.
        judge_config: The judge.
        store: Where the judge's answers are kept. None: the shared store.
        spending_limit: The limit that several checks share. None: the judge's own ``max_cost``.

    Raises:
        ConfigError: Not exactly one of ``knowledge`` and ``search`` is given, or a setting cannot
            be used.
        DataError: The documents cannot be used.
        BackendDownError: The judge or the service cannot be reached. What was received is kept.
    """
    start = time.monotonic()
    with (
        Judge.open(judge_config, store, spending_limit) as judge,
        open_evidence(knowledge, search, judge) as evidence,
    ):
        # A damaged certificate is an error that costs no call.
        certificates = find_certificates(judge)
        result = check_answers(answers, evidence, judge)
        about = {
            **evidence.describe(),
            "judge": judge_config.describe([CHECK]),
            "judge_usage": asdict(judge.usage),
            "seconds": round(time.monotonic() - start, 1),
        }
        if certificates:
            about["judge_certificate"] = certificates
        problems = (*result.problems, *evidence.problems)
    return FinishedCheck(replace(result, problems=problems), about)


@contextmanager
def open_evidence(
    knowledge: Path | None, search: Path | None, judge: Judge | None = None
) -> Iterator[CheckKnowledge | SearchEvidence]:
    """Open the documents or the search service within a ``with`` block.

    Args:
        knowledge: The documents.
        search: The YAML file of a search service, instead of documents.
        judge: The judge that writes queries to the service. None: a claim's words are its query.

    Raises:
        ConfigError: Not exactly one of ``knowledge`` and ``search`` was named.
    """
    if knowledge is not None and search is None:
        with closing(open_knowledge(knowledge)) as documents:
            yield documents
    elif search is not None and knowledge is None:
        # A check against documents need not wait for the import of the HTTP client.
        from lm_factuality.retrieval.search.config import load_search_config
        from lm_factuality.retrieval.search.service import SearchService
        from lm_factuality.retrieval.search.store import SearchStore

        config = load_search_config(search)
        with closing(SearchStore()) as store, closing(SearchService(config, store)) as service:
            yield SearchEvidence(search, service, judge)
    else:
        raise ConfigError(
            "name either the documents that answers are checked against, as in --knowledge docs/,"
            " or a search service, as in --search search.yaml"
        )
