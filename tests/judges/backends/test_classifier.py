"""A classifier as a judge: replies by kind, answers on disk, identity, and what it cannot do."""

from __future__ import annotations

import json
import shutil
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from judges.answers import Answer
from judges.claims import CheckReply
from judges.config import load_judge_config
from judges.inference import EntailmentPair
from judges.inference.models import SupportModel, load_model
from judges.judge import Judge
from judges.lexical.words import ParsedPassage
from judges.verify import Pair, verify
from lm_factuality.cli.main import main
from lm_factuality.ground.errors import BackendDownError, ConfigError, ModelError
from lm_factuality.harness.samples import verdict_of

TITLE = "Ada Lind"
TEXT = "Ada Lind was a painter who taught at the school in the north."
PASSAGE = f"Title: {TITLE}\n{TEXT}"


@pytest.fixture
def open_judge(tmp_path):
    """Return a function that opens the judge of a YAML, always with the same store of answers."""

    def open_from_yaml(path: Path) -> Judge:
        return Judge.open(load_judge_config(path), tmp_path / "answers.sqlite")

    return open_from_yaml


def ask_one_question(judge: Judge, question: dict[str, Any]) -> Answer:
    """Return the one answer of a judge to a question of any kind."""
    # The prompt needs a claim and passages, although a classifier reads the question only.
    variables = {"claim": "", "passages": [], **question}
    answers_by_question = judge.ask("verify", [variables], "asking")
    (answer,) = answers_by_question[0]
    return answer


def probabilities_by_model(folder: Path, claims: list[str]) -> list[float]:
    """Ask the model itself how probable it is that ``PASSAGE`` supports each claim."""
    passages = (ParsedPassage(TEXT, TITLE),)
    pairs = [EntailmentPair(claim, passages) for claim in claims]
    supports = load_model(str(folder), device="cpu").support(pairs)
    return [support.probability for support in supports]


def test_a_claim_is_supported_if_its_probability_reaches_the_threshold(
    write_classifier, open_judge, set_probabilities
):
    """The reason states the probability, so that a user can choose another threshold."""
    set_probabilities({"It is old.": 0.79, "It is long.": 0.8, "It is blue.": 0.95})
    pairs = [Pair(claim, ("text",)) for claim in ("It is old.", "It is long.", "It is blue.")]

    with open_judge(write_classifier(threshold=0.8)) as judge:
        verifications = verify(judge, pairs)

    verdicts = [verification.verdict for verification in verifications]
    reasons = [verification.reason for verification in verifications]
    assert verdicts == ["not_supported", "supported", "supported"]
    assert reasons == [
        "probability of support 0.790",
        "probability of support 0.800",
        "probability of support 0.950",
    ]


@pytest.mark.parametrize("kind", ["roberta", "deberta", "nli", "single label"])
def test_the_score_of_a_claim_is_the_probability_of_the_model(
    write_classifier, model_folders, open_judge, kind
):
    """The model is read in the same way as without a judge, whatever its architecture."""
    claims = ["Ada Lind was a pilot.", "She taught at the school.", "She flew mail in 1870.", "Ada"]
    path = write_classifier(model=str(model_folders[kind]))

    with open_judge(path) as judge:
        verifications = verify(judge, [Pair(claim, (PASSAGE,)) for claim in claims])

    scores = [verification.score for verification in verifications]
    assert scores == pytest.approx(probabilities_by_model(model_folders[kind], claims), abs=1e-4)


def test_stored_answers_are_not_computed_again(write_classifier, open_judge, monkeypatch):
    """A classifier on a CPU takes seconds for a claim."""
    path = write_classifier(batch_size=2)
    claims = ["Ada Lind was a pilot.", "She taught at the school.", "Ada"]
    pairs = [Pair(claim, (PASSAGE,)) for claim in claims]
    with open_judge(path) as judge:
        verifications = verify(judge, pairs)
    assert judge.usage.calls == 3
    monkeypatch.setattr(SupportModel, "support", lambda *_: pytest.fail("computed again"))

    with open_judge(path) as later_judge:
        later_verifications = verify(later_judge, pairs)

    assert later_verifications == verifications
    assert later_judge.usage.calls == 0
    assert later_judge.usage.stored == 3


@pytest.mark.parametrize("kind", ["segments", "claims"])
def test_segments_below_the_threshold_are_named_as_wrong(
    write_classifier, open_judge, set_probabilities, kind
):
    """FELM's tasks read the numbers of the wrong parts from the last line of an answer."""
    set_probabilities({"It is old.": 0.3, "It is long.": 0.9, "It is blue.": 0.2})
    segments = ["It is old.", "It is long.", "It is blue."]

    with open_judge(write_classifier(threshold=0.5)) as judge:
        answer = ask_one_question(judge, {"kind": kind, "units": segments, "passages": ["text"]})

    assert answer.text.endswith("Answer: 1,3")


@pytest.mark.parametrize(
    ("question", "error"),
    [
        pytest.param(
            {"kind": "decompose"},
            "a classifier cannot judge 'decompose', only verify, check, segments, claims, marks",
            id="another kind of question",
        ),
        pytest.param(
            {"kind": "verify", "claim": "x", "passages": [" "]},
            "no evidence: this judge needs passages",
            id="blank passage",
        ),
        pytest.param(
            {"kind": "verify", "claim": "Ada " * 200, "passages": [TEXT]},
            "no verdict: the claim leaves no room for passages in 129 tokens",
            id="claim longer than the model reads",
        ),
    ],
)
def test_unsupported_question_gets_an_error(write_classifier, open_judge, question, error):
    """The error is the reason with which results list the row as unscored."""
    with open_judge(write_classifier()) as judge:
        answer = ask_one_question(judge, question)

    assert answer.error == error


@pytest.fixture
def identity_of(write_classifier, open_judge):
    """Return a function that gives the identity of a classifier with changed settings."""

    def open_and_identify(**changes) -> str:
        with open_judge(write_classifier(**changes)) as judge:
            return judge.identity

    return open_and_identify


@pytest.fixture
def copied_model(model_folders, tmp_path) -> Path:
    """Return a copy of the RoBERTa, in a folder of the same name."""
    copy = tmp_path / "elsewhere" / model_folders["roberta"].name
    shutil.copytree(model_folders["roberta"], copy)
    return copy


def test_the_identity_names_the_model(identity_of):
    """The identity is shown in results, where readers look for the model."""
    assert "MiniCheck-RoBERTa-Large@" in identity_of()


def test_the_identity_does_not_depend_on_the_folder_or_the_batch_size(identity_of, copied_model):
    """Neither changes a verdict, so stored answers stay valid."""
    identity = identity_of()
    identity_of_copy_in_other_folder = identity_of(model=str(copied_model))
    identity_with_other_batch_size = identity_of(batch_size=3)

    assert identity_of_copy_in_other_folder == identity
    assert identity_with_other_batch_size == identity


@pytest.mark.parametrize(
    "changes",
    [{"window": 50}, {"threshold": 0.4}, {"family": "alignscore"}],
    ids=["window", "threshold", "family"],
)
def test_settings_affecting_verdicts_are_part_of_the_identity(identity_of, changes):
    """Answers are stored under the identity, and must not be found with other settings."""
    default_identity = identity_of()

    assert identity_of(**changes) != default_identity


def test_the_weights_are_part_of_the_identity(identity_of, copied_model, model_folders):
    """A model that was trained further in the same folder must not get old answers."""
    identity_before = identity_of(model=str(copied_model))
    other_weights = model_folders["single label"] / "model.safetensors"

    shutil.copy(other_weights, copied_model / "model.safetensors")

    assert identity_of(model=str(copied_model)) != identity_before


def test_a_classifier_is_described_by_its_window_threshold_and_family(write_classifier):
    """A reader of results needs all three to repeat the verdicts."""
    description = load_judge_config(write_classifier(window=50)).describe()

    assert description["window"] == 50
    assert description["threshold"] == 0.5  # the default
    assert description["family"] is None  # the suite finds it by the model's name


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"threshold": 0.99}, "threshold is 0.99; expected less than or equal to 0.9"),
        ({"window": 4}, "window is 4; expected greater than or equal to 16"),
        ({"temperature": 1}, "unknown key 'temperature'"),
        ({"model": ""}, "model is missing: a model on the Hub, or its folder"),
    ],
)
def test_a_wrong_setting_is_refused_when_the_yaml_is_read(write_classifier, settings, message):
    """The error comes before a model of gigabytes is loaded."""
    path = write_classifier(**settings)

    with pytest.raises(ConfigError, match=message):
        load_judge_config(path)


def test_unknown_family_is_refused_before_the_first_question(write_classifier, open_judge):
    """A run of hours must not fail at its first verdict."""
    path = write_classifier(family="minichek")

    message = "no family of models is called 'minichek'; did you mean minicheck"
    with pytest.raises(ConfigError, match=message):
        open_judge(path)


def test_unknown_model_is_refused_before_the_first_question(write_classifier, open_judge):
    """A run of hours must not fail at its first verdict."""
    path = write_classifier(model="no/such")

    with pytest.raises(ModelError, match="the judge's model 'no/such' cannot be loaded"):
        open_judge(path)


def test_judge_with_an_unusable_model_is_down(write_classifier, open_judge):
    """Every claim would fail in the same way, so the run ends at the first."""
    # A MiniCheck has no label called entailment, as the family nli needs it.
    path = write_classifier(family="nli")

    message = "judge minicheck: .*its labels are"
    with open_judge(path) as judge, pytest.raises(BackendDownError, match=message):
        verify(judge, [Pair("Ada Lind was a pilot.", (PASSAGE,))])


class CertifyOutput(NamedTuple):
    """What the command ``certify`` wrote."""

    certificate: dict[str, Any]
    """The content of the file."""

    printed_words: str
    """What it printed, without line breaks and with single spaces."""


@pytest.fixture(scope="module")
def certify_output(model_folders, tmp_path_factory) -> CertifyOutput:
    """Certify the RoBERTa on the sample once for all tests of this file."""
    folder = tmp_path_factory.mktemp("certify")
    judge_path = folder / "minicheck.yaml"
    keys = {"backend": "classifier", "model": str(model_folders["roberta"]), "device": "cpu"}
    judge_path.write_text(yaml.safe_dump(keys), encoding="utf-8")
    certificate_path = folder / "certificate.json"
    arguments = ["--judge", str(judge_path), "--sample", "--out", str(certificate_path)]

    with pytest.MonkeyPatch.context() as patch, redirect_stdout(StringIO()) as printed:
        patch.setenv("LM_FACTUALITY_HOME", str(folder / "home"))
        assert main(["certify", *arguments]) == 0

    certificate = json.loads(certificate_path.read_text(encoding="utf-8"))
    return CertifyOutput(certificate, " ".join(printed.getvalue().split()))


def test_certify_gives_a_classifier_documents(certify_output):
    """A classifier has no knowledge of its own, so it cannot judge without documents."""
    certificate = certify_output.certificate

    assert certificate["setting"] == "segment_doc"
    assert certificate["scores"]["unscored"]["responses"] == 0


def test_certify_says_how_well_the_probabilities_are_calibrated(certify_output):
    """Users who filter by probability need to know how far they can trust it."""
    bins = certify_output.certificate["calibration"]

    lower_bounds = [calibration_bin["low"] for calibration_bin in bins]
    assert lower_bounds == [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
    assert sum(calibration_bin["units"] for calibration_bin in bins) > 100
    assert "segments with references and a probability of" in certify_output.printed_words


def test_certificate_counts_segments_below_one_half_as_flagged(certify_output):
    """One half is the default threshold, with which this judge was certified."""
    bins = certify_output.certificate["calibration"]
    counts = certify_output.certificate["scores"]["ALL"]["segment"]

    num_below_half = sum(one_bin["units"] for one_bin in bins if one_bin["low"] < 0.5)
    num_flagged = counts["tp"] + counts["fp"]
    assert num_flagged == num_below_half


def test_wrong_verdicts_of_a_certificate_are_counted_by_probability(certify_output):
    """A user learns at which probabilities the verdicts can be trusted."""
    bins = certify_output.certificate["calibration"]
    bins_below_half = [one_bin for one_bin in bins if one_bin["low"] < 0.5]
    bins_above_half = [one_bin for one_bin in bins if one_bin["low"] >= 0.5]

    # Segments below one half are flagged, which is wrong if their label is "supported".
    num_supported = [one_bin["supported"] for one_bin in bins_below_half]
    assert [one_bin["wrong"] for one_bin in bins_below_half] == num_supported
    # Segments above it are not flagged, which is wrong if their label is another.
    num_not_supported = [one_bin["units"] - one_bin["supported"] for one_bin in bins_above_half]
    assert [one_bin["wrong"] for one_bin in bins_above_half] == num_not_supported


def test_a_classifier_does_not_judge_open_generation_by_word_overlap(
    evaluate, checkpoint, write_classifier
):
    """The offline judge compares words, and results warn of that. Here they must not."""
    output = evaluate(
        "hf",
        ["sample_factor_generation"],
        model_args={"pretrained": str(checkpoint), "dtype": "float32"},
        metadata={"judge": str(write_classifier())},
        limit=3,
    )

    caution = output["configs"]["sample_factor_generation"]["metadata"]["caution"]
    assert "reads no prompt" in caution
    assert "Judged by word overlap" not in caution
    verdicts = [verdict_of(sample) for sample in output["samples"]["sample_factor_generation"]]
    assert len(verdicts) == 3
    assert "content word" not in str([verdict["reasons"] for verdict in verdicts])


def test_a_classifier_finds_claims_supported_or_not_found(write_classifier, open_judge):
    """A classifier gives one probability, which cannot tell "contradicted" from "not found"."""
    claims = ["Ada Lind was a pilot.", "She taught at the school."]

    with open_judge(write_classifier()) as judge:
        answer = ask_one_question(judge, {"kind": "check", "claims": claims, "passages": [PASSAGE]})

    findings = CheckReply.model_validate_json(answer.text).verdicts
    assert [finding.number for finding in findings] == [1, 2]
    for finding in findings:
        assert finding.verdict in ("supported", "not_found")
