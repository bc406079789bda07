"""The stage ``contradiction`` with the NLI model: what it keeps, and what it says of the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from factor_gen.contradiction.nli import ContradictionPair, NliCheck, NliModel
from factor_gen.contradiction.stage import ContradictionStage
from factor_gen.records import COREFERENCE, ENTITY, Candidate, Example
from factor_gen.settings import NliSettings
from lm_factuality.ground.errors import ModelError
from tests.factor_gen.tiny import save_deberta

PREFIX = "The academy stands on a hill. Its members wear brown gowns. "
COMPLETION = "They meet in the great hall every spring to choose over 20 keepers."
AUTUMN_SENTENCE = COMPLETION.replace("spring", "autumn")
COMPATIBLE_SENTENCE = COMPLETION.replace("20", "30")


def make_candidate(text: str, error_type: str = ENTITY, rejected: str = "") -> Candidate:
    """Return a contradiction that the stage has not seen."""
    return Candidate(text, error_type, "old -> new", "rules/test", rejected=rejected)


def make_example(*candidates: Candidate) -> Example:
    """Return a document about the academy with these contradictions."""
    return Example("a", PREFIX, COMPLETION, (ENTITY,), candidates)


@pytest.fixture(scope="module")
def deberta(tmp_path_factory: pytest.TempPathFactory, checkpoint: Path) -> str:
    """Return the folder of a tiny DeBERTa with random weights."""
    return str(save_deberta(tmp_path_factory.mktemp("stage") / "deberta", checkpoint))


@pytest.fixture(scope="module")
def autumn_probability(deberta: str) -> float:
    """Return the probability that `AUTUMN_SENTENCE` is a contradiction, by the model alone."""
    pair = ContradictionPair(PREFIX, COMPLETION, AUTUMN_SENTENCE)
    [probability] = NliModel(NliSettings(deberta)).contradiction_probabilities([pair])
    return probability


def run_nli(settings: NliSettings, *candidates: Candidate) -> list[Candidate]:
    """Return contradictions of the academy after the stage with an NLI model."""
    [example] = ContradictionStage(NliCheck(settings)).run([make_example(*candidates)])
    return list(example.candidates)


def test_disabled_check_changes_nothing() -> None:
    stage = ContradictionStage(None)
    example = make_example(make_candidate(COMPATIBLE_SENTENCE))

    assert stage.run([example]) == [example]
    assert stage.fingerprint == {"kind": "none"}


def test_the_probability_of_a_contradiction_is_recorded(
    deberta: str, autumn_probability: float
) -> None:
    [candidate] = run_nli(NliSettings(deberta), make_candidate(AUTUMN_SENTENCE))

    assert candidate.contradiction == pytest.approx(autumn_probability, abs=1e-4)


def test_a_probability_below_the_threshold_is_a_reason_for_rejection(
    deberta: str, autumn_probability: float
) -> None:
    candidate = make_candidate(AUTUMN_SENTENCE)

    [above] = run_nli(NliSettings(deberta, threshold=autumn_probability - 0.001), candidate)
    [below] = run_nli(NliSettings(deberta, threshold=autumn_probability + 0.001), candidate)

    assert above.rejected == ""
    assert below.rejected == "not contradictory"


def test_coreference_has_a_separate_threshold(deberta: str, autumn_probability: float) -> None:
    """FACTOR's authors use a lower threshold here, because NLI models often overlook pronouns."""
    settings = NliSettings(deberta, threshold=autumn_probability + 0.001, coreference=0.0)

    entity, coreference = run_nli(
        settings, make_candidate(AUTUMN_SENTENCE), make_candidate(AUTUMN_SENTENCE, COREFERENCE)
    )

    assert entity.rejected == "not contradictory"
    assert coreference.rejected == ""


def test_candidates_rejected_by_rules_do_not_reach_the_model(deberta: str) -> None:
    [candidate] = run_nli(NliSettings(deberta), make_candidate(COMPATIBLE_SENTENCE))

    assert candidate.rejected == "quantities that may both hold"
    assert candidate.contradiction is None


def test_rejected_candidate_keeps_its_first_reason(deberta: str) -> None:
    rejected = make_candidate(AUTUMN_SENTENCE, rejected="not fluent")

    assert run_nli(NliSettings(deberta), rejected) == [rejected]


def test_unscorably_long_contradiction_is_rejected(deberta: str) -> None:
    [candidate] = run_nli(NliSettings(deberta), make_candidate(COMPLETION * 50))

    assert candidate.rejected == "not scored"
    assert candidate.contradiction is None


def test_the_fingerprint_has_the_settings_and_the_type_of_numbers(deberta: str) -> None:
    """If one of them changes, shards of an earlier build are made again."""
    settings = NliSettings(deberta, threshold=0.6)

    fingerprint = ContradictionStage(NliCheck(settings)).fingerprint

    assert fingerprint["kind"] == "nli"
    assert fingerprint["threshold"] == 0.6
    assert fingerprint["dtype"] == "float32"


def test_a_model_that_is_not_available_is_named() -> None:
    stage = ContradictionStage(NliCheck(NliSettings("no/such-model")))

    with pytest.raises(ModelError, match="'no/such-model' cannot be loaded"):
        _ = stage.fingerprint
