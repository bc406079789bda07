"""Sentences with the passages that they cite, on which ``certify`` measures a judge.

The file is ALCE's log of a run: for each sentence, the cited passages and whether the model
TRUE-11B finds that they entail it. These labels are not people's.
"""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Literal

from pydantic import BaseModel

from judges.claims import ClaimQuestion, Evidence
from lm_factuality.benchmarks.biographies.decompose import remove_citations
from lm_factuality.benchmarks.biographies.generations import split_document
from lm_factuality.benchmarks.biographies.types import RetrievedPassage
from lm_factuality.benchmarks.certifiable import CertifiableSetting, CertifyOptions, describe_files
from lm_factuality.benchmarks.claim_trial import HEADLINE, ClaimTrial, LabelledClaim, Truth
from lm_factuality.ground.errors import ConfigError
from lm_factuality.ground.records import read_model

_EXPECTED = "expected ALCE's JSON: {'autoais_log': [{'qid', 'claim', 'passage', 'model_output'}]}"


class _Entry(BaseModel):
    """A sentence of a response, and whether its citations entail it."""

    qid: int
    claim: str
    passage: list[str]
    model_output: Literal[0, 1]


class _Log(BaseModel):
    """The content of a file of ALCE with the verdicts on citations."""

    autoais_log: list[_Entry]


def _open_trial(options: CertifyOptions) -> ClaimTrial:
    """Make the trial of judges on the sentences in the files that the user named with ``--data``.

    Raises:
        ConfigError: The user named no file.
    """
    # The project knows no published copy, so the user has to name a file.
    if not options.files:
        raise ConfigError(
            f"--setting {SETTING.name} needs --data FILE..., ALCE's results with the key"
            " autoais_log, plain or .gz"
        )
    claims = list(chain.from_iterable(map(_read_claims, options.files)))
    return ClaimTrial(claims, describe_files(options.files, SETTING.git_blob), options.rows)


def _read_claims(path: Path) -> list[LabelledClaim]:
    """Read the sentences of a log as claims, each with the passages that it cites.

    Args:
        path: The file of ALCE.

    Returns:
        A claim for each entry, in the order of the log. Claims of one response share its name.
    """
    claims = []
    for entry in read_model(path, _Log, _EXPECTED).autoais_log:
        response = f"{path.name}, question {entry.qid}"
        passages = tuple(_cited_passages(entry, response))
        question = ClaimQuestion(remove_citations(entry.claim), passages)
        truth: Truth = "supported" if entry.model_output else "not_supported"
        claims.append(LabelledClaim(question, truth, response))
    return claims


def _cited_passages(entry: _Entry, response: str) -> Iterator[Evidence]:
    r"""Yield the passages that a sentence cites.

    Example:
        The text ``Title: Ada\nAda sang.\nTitle: Bea\nBea danced.`` of ALCE holds the passages
        ``Ada sang.`` of the page ``Ada`` and ``Bea danced.`` of the page ``Bea``.

    Args:
        entry: The sentence.
        response: The name of the response that it is from.
    """
    for text in entry.passage:
        # `split_document` takes lines "Title: ..." for titles only after a line break, so the first
        # one gets one too. Before it, there is an empty passage.
        for passage in split_document(RetrievedPassage("", f"\n{text}")):
            if passage.text:
                yield Evidence(response, passage.title, passage.text)


SETTING = CertifiableSetting(
    name="check_citations",
    description="sentences that the passages they cite entail",
    headline=(HEADLINE,),
    label="balanced accuracy of verdicts",
    git_blob="",
    open_trial=_open_trial,
    accepted_options=("files", "rows"),
)
"""The setting with the verdicts of TRUE-11B, which know two classes."""
