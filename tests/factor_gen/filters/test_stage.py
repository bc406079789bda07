"""The stage ``filter``: what it keeps, what it says of the rest."""

from __future__ import annotations

import math

import pytest

from factor_gen.filter_models import DTYPE, ContradictionPair, FluencyModel, NliModel
from factor_gen.filters import FilterStage
from factor_gen.records import COREFERENCE, ENTITY, Candidate, Example
from factor_gen.settings import FilterSettings, FluencySettings, NliSettings
from factor_gen.stages import Stage
from lm_factuality.ground.errors import ModelError
from tests.factor_gen.tiny import save_deberta

PREFIX = "The academy stands on a hill. Its members wear brown gowns. "
COMPLETION = "They meet in the great hall every spring to choose a keeper."
WRONG = "They meet in the great hall every autumn to choose a keeper."
SCRAMBLED = "keeper great They spring choose in a every to hall meet the."


def candidate(text: str, kind: str = ENTITY) -> Candidate:
    return Candidate(text, kind, "old -> new", "rules/test")


EXAMPLES = [
    Example(
        "a",
        PREFIX,
        COMPLETION,
        (ENTITY,),
        (candidate(WRONG), candidate(SCRAMBLED), candidate(WRONG, COREFERENCE)),
    ),
    Example("b", unused="select: empty"),
    Example("c", "", "They left.", (ENTITY,), (candidate("They came."),)),
]


@pytest.fixture(scope="module")
def deberta(tmp_path_factory, checkpoint):
    return str(save_deberta(tmp_path_factory.mktemp("stage") / "deberta", checkpoint))


@pytest.fixture(scope="module")
def scores(deberta, checkpoint):
    pairs = [
        ContradictionPair(each.prefix, each.completion, one.text)
        for each in EXAMPLES
        for one in each.candidates
    ]
    language = FluencyModel(FluencySettings(str(checkpoint)))
    differences = [
        language.mean_logprobs([one.text], [""])[0]
        - language.mean_logprobs([each.completion], [""])[0]
        for each in EXAMPLES
        for one in each.candidates
    ]
    return NliModel(NliSettings(deberta)).contradiction_probabilities(pairs), differences


def flat(examples: list[Example]) -> list[Candidate]:
    return [one for each in examples for one in each.candidates]


def test_without_filters_everything_passes_as_it_is():
    stage: Stage = FilterStage(FilterSettings(None, None))
    assert stage.run(EXAMPLES) == EXAMPLES
    assert stage.fingerprint == {"nli": "none", "fluency": "none"}


def test_both_scores_are_recorded_and_the_first_failed_filter_is_the_reason(
    deberta, checkpoint, scores
):
    nli, fluency = scores
    threshold = sorted(nli)[1] + 1e-3  # between them, so that some fail and some pass
    settings = FilterSettings(
        NliSettings(deberta, threshold=threshold, coreference=0.0), FluencySettings(str(checkpoint))
    )
    found = FilterStage(settings).run(EXAMPLES)
    assert [each.doc_id for each in found] == ["a", "b", "c"]
    assert found[1] == EXAMPLES[1]
    assert [each.contradiction for each in flat(found)] == pytest.approx(nli, abs=1e-4)
    assert [each.fluency for each in flat(found)] == pytest.approx(fluency, abs=1e-4)
    for one, contradiction, fluent in zip(flat(found), nli, fluency, strict=True):
        is_contradictory = contradiction > (0.0 if one.type == COREFERENCE else threshold)
        expected = "" if fluent > -0.2 else "not fluent"
        assert one.rejected == (expected if is_contradictory else "not contradictory")
    assert {"not contradictory"} < {each.rejected for each in flat(found)}
    assert (
        found[0].candidates[0].text == found[0].candidates[2].text
    )  # once below its threshold, once above


def test_the_sample_checkpoint_rejects_scrambled_words(checkpoint):
    found = FilterStage(FilterSettings(None, FluencySettings(str(checkpoint)))).run(EXAMPLES[:1])
    right, scrambled, _ = found[0].candidates
    assert scrambled.rejected == "not fluent"
    assert scrambled.fluency < right.fluency
    assert scrambled.contradiction is None


def test_of_each_type_the_likeliest_are_kept(checkpoint):
    seasons = [candidate(COMPLETION.replace("spring", word)) for word in ("autumn", "winter")]
    others = [candidate(COMPLETION.replace("meet", "stand"), COREFERENCE)]
    example = Example("a", PREFIX, COMPLETION, (ENTITY,), (*seasons, *others))
    fluency = FluencySettings(str(checkpoint), margin=9, best=1)
    first, second, other = flat(FilterStage(FilterSettings(None, fluency)).run([example]))
    better, worse = (first, second) if first.fluency > second.fluency else (second, first)
    assert (better.rejected, other.rejected) == ("", "")
    assert worse.rejected == "less fluent than others of its type"


def test_sentences_are_read_in_their_context_where_asked(checkpoint):
    alone, near = (
        flat(
            FilterStage(FilterSettings(None, FluencySettings(str(checkpoint), context=n))).run(
                EXAMPLES
            )
        )
        for n in (0, 60)
    )
    assert alone[0].fluency != pytest.approx(near[0].fluency, abs=1e-3)
    # of a document without a prefix
    assert alone[-1].fluency == pytest.approx(near[-1].fluency, abs=1e-5)


def test_thresholds_are_strict(checkpoint):
    same = Example("a", PREFIX, COMPLETION, (ENTITY,), (candidate(COMPLETION),))
    for margin, rejected in ((0.0, "not fluent"), (1e-6, "")):
        settings = FilterSettings(None, FluencySettings(str(checkpoint), margin=margin))
        assert FilterStage(settings).run([same])[0].candidates[0].rejected == rejected


def test_what_has_no_score_is_never_accepted(deberta, checkpoint):
    endless = Example(
        "a", PREFIX, COMPLETION, (ENTITY,), (candidate(COMPLETION * 50), candidate(""))
    )
    settings = FilterSettings(
        NliSettings(deberta, threshold=0.0, coreference=0.0),
        FluencySettings(str(checkpoint), margin=99.0),
    )
    first, second = FilterStage(settings).run([endless])[0].candidates
    assert (first.rejected, first.contradiction, first.fluency) == ("not scored", None, None)
    assert (second.rejected, second.fluency) == ("not scored", None)
    assert second.contradiction is not None
    assert not math.isnan(second.contradiction)


def test_scores_of_a_document_do_not_depend_on_the_others(deberta, checkpoint):
    settings = FilterSettings(NliSettings(deberta), FluencySettings(str(checkpoint)))
    stage = FilterStage(settings)
    assert stage.run(EXAMPLES) == [stage.run([each])[0] for each in EXAMPLES]


def test_the_fingerprint_knows_what_a_checkpoint_holds(deberta, checkpoint, tmp_path):
    import shutil

    copy = shutil.copytree(checkpoint, tmp_path / checkpoint.name)
    one, other = (
        FilterStage(FilterSettings(NliSettings(deberta), FluencySettings(str(folder))))
        for folder in (checkpoint, copy)
    )
    assert one.fingerprint == other.fingerprint
    assert one.fingerprint["nli"]["threshold"] == 0.6
    assert one.fingerprint["fluency"]["dtype"] == str(DTYPE).removeprefix("torch.")
    weights = bytearray((copy / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (copy / "model.safetensors").write_bytes(weights)
    assert (
        FilterStage(FilterSettings(NliSettings(deberta), FluencySettings(str(copy)))).fingerprint
        != one.fingerprint
    )


def test_a_model_that_cannot_be_had_is_named():
    with pytest.raises(ModelError, match="'no/such-model' cannot be loaded"):
        assert FilterStage(FilterSettings(NliSettings("no/such-model"), None)).fingerprint
