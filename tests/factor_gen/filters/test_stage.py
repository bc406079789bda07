"""The stage ``filter``: what it keeps, and what it says of the rest."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from factor_gen.filter_models import DTYPE, ContradictionPair, FluencyModel, NliModel
from factor_gen.filters import FilterStage
from factor_gen.records import COREFERENCE, ENTITY, Candidate, Example
from factor_gen.settings import FilterSettings, FluencySettings, NliSettings
from lm_factuality.ground.errors import ModelError
from tests.factor_gen.tiny import save_deberta

PREFIX = "The academy stands on a hill. Its members wear brown gowns. "
COMPLETION = "They meet in the great hall every spring to choose a keeper."
AUTUMN_SENTENCE = "They meet in the great hall every autumn to choose a keeper."
SCRAMBLED_SENTENCE = "keeper great They spring choose in a every to hall meet the."


def make_candidate(text: str, error_type: str = ENTITY) -> Candidate:
    """Return a contradiction that no filter has seen."""
    return Candidate(text, error_type, "old -> new", "rules/test")


def make_example(*candidates: Candidate) -> Example:
    """Return a document about the academy with these contradictions."""
    return Example("a", PREFIX, COMPLETION, (ENTITY,), candidates)


ACADEMY = make_example(
    make_candidate(AUTUMN_SENTENCE),
    make_candidate(SCRAMBLED_SENTENCE),
    make_candidate(AUTUMN_SENTENCE, COREFERENCE),
)
UNUSED = Example("b", unused="select: empty")
WITHOUT_PREFIX = Example("c", "", "They left.", (ENTITY,), (make_candidate("They came."),))
EXAMPLES = [ACADEMY, UNUSED, WITHOUT_PREFIX]


def candidates_of(examples: Iterable[Example]) -> list[Candidate]:
    """Return the contradictions of all examples, in order."""
    candidates: list[Candidate] = []
    for example in examples:
        candidates.extend(example.candidates)
    return candidates


@pytest.fixture(scope="module")
def deberta(tmp_path_factory: pytest.TempPathFactory, checkpoint: Path) -> str:
    """Return the folder of a tiny DeBERTa with random weights."""
    return str(save_deberta(tmp_path_factory.mktemp("stage") / "deberta", checkpoint))


@pytest.fixture(scope="module")
def fluency(checkpoint: Path) -> FluencySettings:
    """Return the settings of a fluency filter with the sample's checkpoint."""
    return FluencySettings(str(checkpoint))


@pytest.fixture(scope="module")
def nli_scores(deberta: str) -> list[float]:
    """Return the probability that each contradiction of `EXAMPLES` is one, by the model alone."""
    pairs = []
    for example in EXAMPLES:
        for candidate in example.candidates:
            pairs.append(ContradictionPair(example.prefix, example.completion, candidate.text))
    return NliModel(NliSettings(deberta)).contradiction_probabilities(pairs)


@pytest.fixture(scope="module")
def fluency_scores(fluency: FluencySettings) -> list[float]:
    """Return how much more likely each contradiction of `EXAMPLES` is than its completion."""
    model = FluencyModel(fluency)
    scores = []
    for example in EXAMPLES:
        for candidate in example.candidates:
            texts = [candidate.text, example.completion]
            [logprob, completion_logprob] = model.mean_logprobs(texts, ["", ""])
            scores.append(logprob - completion_logprob)
    return scores


def test_without_filters_everything_passes_unchanged() -> None:
    stage = FilterStage(FilterSettings(nli=None, fluency=None))

    assert stage.run(EXAMPLES) == EXAMPLES
    assert stage.fingerprint == {"nli": "none", "fluency": "none"}


@pytest.fixture(scope="module")
def threshold(nli_scores: list[float]) -> float:
    """Return a threshold of the NLI filter at which some contradictions fail and others pass."""
    return sorted(nli_scores)[1] + 1e-3


@pytest.fixture(scope="module")
def filtered(deberta: str, fluency: FluencySettings, threshold: float) -> list[Example]:
    """Return `EXAMPLES` after both filters. The NLI filter lets all of coreference pass."""
    nli = NliSettings(deberta, threshold=threshold, coreference=0.0)
    return FilterStage(FilterSettings(nli, fluency)).run(EXAMPLES)


def test_examples_keep_their_order_and_unused_ones_pass_unchanged(filtered: list[Example]) -> None:
    assert [example.doc_id for example in filtered] == ["a", "b", "c"]
    assert filtered[1] == UNUSED


def test_the_scores_of_both_filters_are_recorded(
    filtered: list[Example], nli_scores: list[float], fluency_scores: list[float]
) -> None:
    candidates = candidates_of(filtered)

    recorded_nli = [candidate.contradiction for candidate in candidates]
    recorded_fluency = [candidate.fluency for candidate in candidates]
    assert recorded_nli == pytest.approx(nli_scores, abs=1e-4)
    assert recorded_fluency == pytest.approx(fluency_scores, abs=1e-4)


def test_the_reason_is_the_first_filter_that_a_contradiction_fails(
    filtered: list[Example], threshold: float
) -> None:
    reasons = set()
    for candidate in candidates_of(filtered):
        reasons.add(candidate.rejected)
        least_probability = 0.0 if candidate.type == COREFERENCE else threshold
        if candidate.contradiction <= least_probability:
            assert candidate.rejected == "not contradictory"
        elif candidate.fluency <= -0.2:
            assert candidate.rejected == "not fluent"
        else:
            assert candidate.rejected == ""
    # Some were rejected by the first filter, and some were not.
    assert reasons > {"not contradictory"}


def test_coreference_has_a_threshold_of_its_own(deberta: str, nli_scores: list[float]) -> None:
    """The paper's is lower, because NLI models often overlook pronouns."""
    # The first and the last contradiction of the academy have the same text.
    nli = NliSettings(deberta, threshold=nli_scores[0] + 1e-3, coreference=0.0)

    [example] = FilterStage(FilterSettings(nli, None)).run([ACADEMY])

    first, _, last = example.candidates
    assert first.rejected == "not contradictory"
    assert last.rejected == ""


def test_scrambled_words_are_not_fluent(fluency: FluencySettings) -> None:
    [example] = FilterStage(FilterSettings(None, fluency)).run([ACADEMY])

    autumn, scrambled, _ = example.candidates
    assert scrambled.rejected == "not fluent"
    assert scrambled.fluency < autumn.fluency


def test_a_filter_that_is_off_records_no_score(fluency: FluencySettings) -> None:
    [example] = FilterStage(FilterSettings(None, fluency)).run([ACADEMY])

    assert {candidate.contradiction for candidate in example.candidates} == {None}


def test_the_most_fluent_contradiction_of_each_type_can_be_kept_alone(checkpoint: Path) -> None:
    example = make_example(
        make_candidate(COMPLETION.replace("spring", "autumn")),
        make_candidate(COMPLETION.replace("spring", "winter")),
        make_candidate(COMPLETION.replace("meet", "stand"), COREFERENCE),
    )
    # The margin lets all of them pass.
    fluency = FluencySettings(str(checkpoint), margin=9, best=1)

    [result] = FilterStage(FilterSettings(None, fluency)).run([example])

    *seasons, stand = result.candidates
    worse, better = sorted(seasons, key=lambda candidate: candidate.fluency)
    assert better.rejected == ""
    assert worse.rejected == "less fluent than others of its type"
    assert stand.rejected == ""


@pytest.fixture(scope="module")
def fluency_in_context(checkpoint: Path) -> FilterStage:
    """Return a stage that reads sentences after the 60 words before them."""
    return FilterStage(FilterSettings(None, FluencySettings(str(checkpoint), context=60)))


def test_the_context_changes_the_fluency(
    fluency_in_context: FilterStage, fluency: FluencySettings
) -> None:
    [alone] = FilterStage(FilterSettings(None, fluency)).run([ACADEMY])
    [in_context] = fluency_in_context.run([ACADEMY])

    score_alone = alone.candidates[0].fluency
    assert in_context.candidates[0].fluency != pytest.approx(score_alone, abs=1e-3)


def test_the_context_of_a_document_without_a_prefix_changes_nothing(
    fluency_in_context: FilterStage, fluency: FluencySettings
) -> None:
    [alone] = FilterStage(FilterSettings(None, fluency)).run([WITHOUT_PREFIX])
    [in_context] = fluency_in_context.run([WITHOUT_PREFIX])

    score_alone = alone.candidates[0].fluency
    assert in_context.candidates[0].fluency == pytest.approx(score_alone, abs=1e-5)


@pytest.mark.parametrize(("margin", "reason"), [(0.0, "not fluent"), (1e-6, "")])
def test_a_contradiction_at_the_margin_is_not_fluent(
    checkpoint: Path, margin: float, reason: str
) -> None:
    # The completion itself, which is exactly as likely as the completion.
    example = make_example(make_candidate(COMPLETION))
    fluency = FluencySettings(str(checkpoint), margin=margin)

    [result] = FilterStage(FilterSettings(None, fluency)).run([example])

    assert result.candidates[0].rejected == reason


@pytest.fixture
def lenient_stage(deberta: str, checkpoint: Path) -> FilterStage:
    """Return a stage that accepts every score, however bad."""
    nli = NliSettings(deberta, threshold=0.0, coreference=0.0)
    return FilterStage(FilterSettings(nli, FluencySettings(str(checkpoint), margin=99.0)))


def test_a_contradiction_that_is_too_long_to_be_scored_is_rejected(
    lenient_stage: FilterStage,
) -> None:
    [example] = lenient_stage.run([make_example(make_candidate(COMPLETION * 50))])

    [candidate] = example.candidates
    assert candidate.rejected == "not scored"
    assert candidate.contradiction is None
    assert candidate.fluency is None


def test_a_contradiction_that_only_one_filter_can_score_is_rejected(
    lenient_stage: FilterStage,
) -> None:
    # An empty text has no tokens whose likelihood could be measured.
    [example] = lenient_stage.run([make_example(make_candidate(""))])

    [candidate] = example.candidates
    assert candidate.rejected == "not scored"
    assert candidate.fluency is None
    assert 0 <= candidate.contradiction <= 1


def test_the_scores_of_a_document_do_not_depend_on_the_others(
    deberta: str, fluency: FluencySettings
) -> None:
    """Otherwise the size of a shard would change the benchmark."""
    stage = FilterStage(FilterSettings(NliSettings(deberta), fluency))

    together = stage.run(EXAMPLES)

    assert together == [*stage.run([ACADEMY]), UNUSED, *stage.run([WITHOUT_PREFIX])]


def fingerprint_with(checkpoint: Path, deberta: str) -> dict[str, dict[str, object]]:
    """Return the fingerprint of a stage with a checkpoint as its fluency filter."""
    settings = FilterSettings(NliSettings(deberta), FluencySettings(str(checkpoint)))
    return dict(FilterStage(settings).fingerprint)


def test_the_fingerprint_has_the_settings_and_the_type_of_numbers(
    deberta: str, checkpoint: Path
) -> None:
    fingerprint = fingerprint_with(checkpoint, deberta)

    assert fingerprint["nli"]["threshold"] == 0.6
    assert fingerprint["fluency"]["dtype"] == str(DTYPE).removeprefix("torch.")


def test_a_copy_of_a_checkpoint_has_the_same_fingerprint(
    deberta: str, checkpoint: Path, tmp_path: Path
) -> None:
    copy = shutil.copytree(checkpoint, tmp_path / checkpoint.name)

    assert fingerprint_with(copy, deberta) == fingerprint_with(checkpoint, deberta)


def test_a_changed_weight_changes_the_fingerprint(
    deberta: str, checkpoint: Path, tmp_path: Path
) -> None:
    copy = shutil.copytree(checkpoint, tmp_path / checkpoint.name)
    weights = bytearray((copy / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (copy / "model.safetensors").write_bytes(weights)

    assert fingerprint_with(copy, deberta) != fingerprint_with(checkpoint, deberta)


def test_a_model_that_is_not_available_is_named() -> None:
    stage = FilterStage(FilterSettings(NliSettings("no/such-model"), None))

    with pytest.raises(ModelError, match="'no/such-model' cannot be loaded"):
        _ = stage.fingerprint
