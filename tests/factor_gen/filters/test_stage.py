"""The stage ``filter``: what it keeps, and what it says of the rest."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from factor_gen.filter_models import FluencyModel
from factor_gen.filters import FilterStage
from factor_gen.fluency import Comparison, measure_fluency
from factor_gen.records import COREFERENCE, ENTITY, Candidate, Example, last_words
from factor_gen.settings import FilterSettings, FluencySettings
from lm_factuality.ground.errors import ModelError

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
def fluency(checkpoint: Path) -> FluencySettings:
    """Return the settings of a fluency filter with the sample's checkpoint."""
    return FluencySettings(str(checkpoint), context=0)


@pytest.fixture(scope="module")
def fluency_scores(fluency: FluencySettings) -> list[float]:
    """Return how far each contradiction of `EXAMPLES` is from the filter's nearest limit."""
    model = FluencyModel(fluency)
    scores = []
    for example in EXAMPLES:
        for candidate in example.candidates:
            context = last_words(example.prefix, fluency.context)
            comparison = Comparison(context, example.completion, candidate.text)
            [measure] = measure_fluency(model, [comparison], "en")
            scores.append(min(fluency.drop + measure.change, fluency.form - measure.better_form))
    return scores


def test_disabled_filters_change_nothing() -> None:
    """The fingerprint says so, since results with and without filters differ."""
    stage = FilterStage(FilterSettings(fluency=None))

    assert stage.run(EXAMPLES) == EXAMPLES
    assert stage.fingerprint == {"fluency": "none"}


@pytest.fixture(scope="module")
def filtered(fluency: FluencySettings) -> list[Example]:
    """Return `EXAMPLES` after the filter."""
    return FilterStage(FilterSettings(fluency)).run(EXAMPLES)


def test_filter_returns_documents_in_their_order(filtered: list[Example]) -> None:
    """The contradictions of all documents are scored together, and then given back to each."""
    assert [example.doc_id for example in filtered] == ["a", "b", "c"]


def test_filter_leaves_an_unused_document_unchanged(filtered: list[Example]) -> None:
    """An earlier stage dropped the second of the three documents."""
    [_, second, _] = filtered

    assert second == UNUSED


def test_the_fluency_of_each_contradiction_is_recorded(
    filtered: list[Example], fluency_scores: list[float]
) -> None:
    """The expected fluency is computed by the model alone, outside of the stage."""
    recorded = [candidate.fluency for candidate in candidates_of(filtered)]

    assert recorded == pytest.approx(fluency_scores, abs=1e-4)


def test_scrambled_words_are_not_fluent(fluency: FluencySettings) -> None:
    """A model would recognise such a sentence by its grammar."""
    [example] = FilterStage(FilterSettings(fluency)).run([ACADEMY])

    autumn, scrambled, _ = example.candidates
    assert scrambled.rejected == "not fluent"
    assert scrambled.fluency < autumn.fluency


@pytest.fixture(scope="module")
def fluency_in_context(checkpoint: Path) -> FilterStage:
    """Return a stage that reads sentences after the 60 words before them."""
    return FilterStage(FilterSettings(FluencySettings(str(checkpoint), context=60)))


def test_the_context_changes_the_fluency(
    fluency_in_context: FilterStage, fluency: FluencySettings
) -> None:
    """The words before a sentence make its own words more or less likely."""
    [alone] = FilterStage(FilterSettings(fluency)).run([ACADEMY])
    [in_context] = fluency_in_context.run([ACADEMY])

    score_alone = alone.candidates[0].fluency
    assert in_context.candidates[0].fluency != pytest.approx(score_alone, abs=1e-3)


def test_the_context_of_a_document_without_a_prefix_changes_nothing(
    fluency_in_context: FilterStage, fluency: FluencySettings
) -> None:
    """There are no words before the sentence."""
    [alone] = FilterStage(FilterSettings(fluency)).run([WITHOUT_PREFIX])
    [in_context] = fluency_in_context.run([WITHOUT_PREFIX])

    score_alone = alone.candidates[0].fluency
    assert in_context.candidates[0].fluency == pytest.approx(score_alone, abs=1e-5)


def test_doubled_word_is_rejected_at_any_limit(checkpoint: Path) -> None:
    """No limit lets "the the" through, because it gives the sentence away."""
    example = make_example(make_candidate(COMPLETION.replace("the great", "the the great")))
    fluency = FluencySettings(str(checkpoint), drop=99, form=99)

    [result] = FilterStage(FilterSettings(fluency)).run([example])

    assert result.candidates[0].rejected == "not fluent"


@pytest.mark.parametrize(("drop", "reason"), [(0.0, "not fluent"), (1e-3, "")])
def test_a_contradiction_at_the_limit_is_not_fluent(
    checkpoint: Path, drop: float, reason: str
) -> None:
    """The contradiction is the completion itself, so it is less likely by 0 nats."""
    example = make_example(make_candidate(COMPLETION))
    fluency = FluencySettings(str(checkpoint), drop=drop)

    [result] = FilterStage(FilterSettings(fluency)).run([example])

    assert result.candidates[0].rejected == reason


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(COMPLETION * 50, id="too long"),
        # An empty text has no tokens whose likelihood could be measured.
        pytest.param("", id="empty"),
    ],
)
def test_unscorable_contradiction_is_rejected(checkpoint: Path, text: str) -> None:
    """Contradictions that nobody has checked must not get into the benchmark."""
    stage = FilterStage(FilterSettings(FluencySettings(str(checkpoint), drop=99.0)))

    [example] = stage.run([make_example(make_candidate(text))])

    [candidate] = example.candidates
    assert candidate.rejected == "not scored"
    assert candidate.fluency is None


def test_the_scores_of_a_document_do_not_depend_on_the_others(fluency: FluencySettings) -> None:
    """Otherwise the size of a shard would change the benchmark."""
    stage = FilterStage(FilterSettings(fluency))

    together = stage.run(EXAMPLES)

    assert together == [*stage.run([ACADEMY]), UNUSED, *stage.run([WITHOUT_PREFIX])]


def fingerprint_with(checkpoint: Path) -> dict[str, dict[str, object]]:
    """Return the fingerprint of a stage with a checkpoint as its fluency filter."""
    settings = FilterSettings(FluencySettings(str(checkpoint)))
    return dict(FilterStage(settings).fingerprint)


def test_the_fingerprint_has_the_settings_and_the_type_of_numbers(checkpoint: Path) -> None:
    """If one of them changes, shards of an earlier build are made again."""
    fingerprint = fingerprint_with(checkpoint)

    assert fingerprint["fluency"]["drop"] == 6.0
    assert fingerprint["fluency"]["dtype"] == "float32"


def test_a_copy_of_a_checkpoint_has_the_same_fingerprint(checkpoint: Path, tmp_path: Path) -> None:
    """A build can go on after its model was moved to another folder."""
    copy = shutil.copytree(checkpoint, tmp_path / checkpoint.name)

    assert fingerprint_with(copy) == fingerprint_with(checkpoint)


def test_a_changed_weight_changes_the_fingerprint(checkpoint: Path, tmp_path: Path) -> None:
    """Another model would reject other contradictions."""
    copy = shutil.copytree(checkpoint, tmp_path / checkpoint.name)
    weights = bytearray((copy / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (copy / "model.safetensors").write_bytes(weights)

    assert fingerprint_with(copy) != fingerprint_with(checkpoint)


def test_a_model_that_is_not_available_is_named() -> None:
    """The error comes before the first document is read."""
    stage = FilterStage(FilterSettings(FluencySettings("no/such-model")))

    with pytest.raises(ModelError, match="'no/such-model' cannot be loaded"):
        _ = stage.fingerprint
