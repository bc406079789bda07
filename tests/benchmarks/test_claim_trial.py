"""Certificates of the verdicts on claims: their three sources of claims, and their tables."""

import gzip
import json

import pytest

from judges.certificates import make_certificate
from judges.claims import ClaimQuestion, Evidence
from judges.config import JudgeConfig
from judges.judge import Judge
from lm_factuality.benchmarks.certifiable import CertifyOptions
from lm_factuality.benchmarks.certified import certifiable_settings, is_on_published_data
from lm_factuality.benchmarks.claim_trial import ClaimTrial, LabelledClaim
from lm_factuality.cli import main
from lm_factuality.ground.errors import BackendDownError, ConfigError, DataError

BRIDGE = (Evidence("bridge", "Bridge", "Harrow Bridge was opened in 1871. It has four arches."),)
TRUE = "Harrow Bridge was opened in 1871."
WRONG_YEAR = "Harrow Bridge was opened in 1872."
UNKNOWN = "The painter Ola Brisk lived in Tromso."
DATA = {"file": "claims.csv", "git_blob": "0" * 40, "is_published": False}


@pytest.fixture
def lexical(tmp_path):
    """Open the offline judge."""
    with Judge.open(JudgeConfig("lexical", "lexical"), tmp_path / "store.sqlite") as judge:
        yield judge


def trial_of(*claims):
    """Make a trial of pairs of a claim about a bridge and its truth, each of its own document."""
    labelled = [
        LabelledClaim(ClaimQuestion(claim, BRIDGE), truth, f"document {number}")
        for number, (claim, truth) in enumerate(claims)
    ]
    return ClaimTrial(labelled, DATA, None)


def open_trial(setting, **options):
    """Open the trial of a setting."""
    return certifiable_settings()[setting].open_trial(CertifyOptions(**options))


def test_the_table_counts_the_verdicts_of_each_true_class(lexical):
    """The offline judge finds a wrong year, and no other kind of contradiction."""
    trial = trial_of(
        (TRUE, "supported"),
        (WRONG_YEAR, "contradicted"),
        (UNKNOWN, "contradicted"),
        (UNKNOWN, "not_found"),
    )

    scores = trial.measure(lexical)["scores"]["ALL"]

    assert scores["confusion"]["contradicted"] == {
        "supported": 0,
        "contradicted": 1,
        "not_found": 1,
        "unscored": 0,
    }
    assert scores["recall"] == {"supported": 1.0, "contradicted": 0.5, "not_found": 1.0}
    # The mean of the three recalls: 1, 0.5 and 1.
    assert scores["balanced_accuracy"] == pytest.approx(2.5 / 3)


@pytest.mark.parametrize("claim", [WRONG_YEAR, UNKNOWN])
def test_unsupported_claim_may_be_contradicted_or_not_found(lexical, claim):
    """Some data sets say only that evidence does not support a claim, so both verdicts fit."""
    trial = trial_of((TRUE, "supported"), (claim, "not_supported"))

    scores = trial.measure(lexical)["scores"]["ALL"]

    assert scores["balanced_accuracy"] == 1.0


def test_unscored_claims_are_excluded_from_shares_and_counted_by_reason(lexical):
    """The claim "..." has no words, so the judge has nothing to compare with the evidence."""
    trial = trial_of((TRUE, "supported"), ("...", "supported"))

    scores = trial.measure(lexical)["scores"]

    assert scores["ALL"]["recall"] == {"supported": 1.0}
    assert scores["unscored"] == {
        "responses": 1,
        "claims": 1,
        "reasons": {"no claim: the text has no words": 1},
    }


def test_a_judge_without_any_verdict_gets_no_certificate(lexical):
    """A certificate without scores would look like one of a judge that was tried."""
    trial = trial_of(("...", "supported"))

    with pytest.raises(BackendDownError, match="no verdict on any of 1 claims"):
        trial.measure(lexical)


def test_scores_have_intervals_clustered_by_document(lexical):
    """All ten verdicts are right, but ten documents do not exclude a few percent of errors."""
    claims = [(TRUE, "supported"), (UNKNOWN, "not_found")] * 5

    intervals = trial_of(*claims).measure(lexical)["intervals"]

    low, high = intervals["balanced_accuracy"]
    assert 0.5 < low < high
    assert high == pytest.approx(1.0)
    assert set(intervals["recall"]) == {"supported", "not_found"}


def test_rows_option_limits_the_number_of_documents():
    """The claims of a document stay together, since scores are clustered by document."""
    trial = open_trial("check_mutations", rows=4)

    documents = {claim.cluster for claim in trial.claims}
    assert len(documents) == 4
    assert trial.data["rows"] == 4


def test_rows_option_draws_the_same_documents_for_each_judge():
    """Certificates of two judges on different documents could not be compared."""
    first_trial = open_trial("check_mutations", rows=4)

    second_trial = open_trial("check_mutations", rows=4)

    assert {claim.cluster for claim in second_trial.claims} == {
        claim.cluster for claim in first_trial.claims
    }


def certify(judge, trial):
    """Make the certificate of a judge from a trial on mutations."""
    return make_certificate(
        judge,
        "check_mutations",
        trial.measure(judge),
        prompt_hashes=trial.prompt_hashes(judge),
        data=trial.data,
    )


def test_certificate_on_the_suites_mutations_is_on_published_data(lexical):
    """Any number of the suite's documents counts as its published data."""
    trial = open_trial("check_mutations", rows=3)

    assert is_on_published_data(certify(lexical, trial))


def passages_and_sentence(claim):
    """Return the text of a claim's evidence, and the claim without the title before it."""
    passages = " ".join(evidence.text for evidence in claim.question.evidence)
    _, _, sentence = claim.question.claim.partition(": ")
    return passages, sentence


def test_verbatim_sentence_is_in_its_evidence_only_if_supported():
    """A passage that also said the opposite would make the label wrong."""
    trial = open_trial("check_mutations")

    for claim in trial.claims:
        if claim.part == "verbatim":
            passages, sentence = passages_and_sentence(claim)
            assert (sentence in passages) == (claim.truth == "supported")


def test_paraphrased_sentence_is_never_in_its_evidence():
    """A judge that only searches for the sentence must not pass."""
    trial = open_trial("check_mutations")

    for claim in trial.claims:
        if claim.part != "verbatim":
            passages, sentence = passages_and_sentence(claim)
            assert sentence not in passages


def test_each_supported_or_contradicted_claim_is_asked_once():
    """Claims that are ``not_found`` repeat others, with the evidence of another document."""
    trial = open_trial("check_mutations")

    claims = [claim.question.claim for claim in trial.claims if claim.truth != "not_found"]
    assert len(claims) == len(set(claims))


def test_user_mutations_need_only_the_factor_gen_table(tmp_path):
    """A user may certify a judge on their own domain, without any labels by people."""
    path = tmp_path / "own.csv"
    rows = [f"d{n},Before {n}.,It is true {n}.,It is false {n}." for n in range(3)]
    path.write_text("\n".join(["doc_id,full_prefix,completion,contradiction_0", *rows]))

    trial = open_trial("check_mutations", files=(path,))

    first_claim = trial.claims[0]
    assert first_claim.question.claim == "It is true 0."
    assert [evidence.text for evidence in first_claim.question.evidence] == [
        "Before 0. It is true 0.",
        "Before 1. It is true 1.",
    ]
    first_truths = [claim.truth for claim in trial.claims[:3]]
    assert first_truths == ["supported", "not_found", "contradicted"]
    assert not trial.data["is_published"]


def test_mutations_of_a_single_document_are_refused(tmp_path):
    """Claims that are ``not_found`` need the passages of other documents."""
    path = tmp_path / "own.csv"
    path.write_text("doc_id,full_prefix,completion,contradiction_0\nd,Before.,True.,False.\n")

    with pytest.raises(DataError, match="rows of 1 document, expected at least 3"):
        open_trial("check_mutations", files=(path,))


def test_segments_without_a_reference_text_are_left_out(tmp_path):
    """Only 299 of FELM's 847 rows hold the texts of their references."""
    row = {
        "index": "1",
        "domain": "wk",
        "source": "own",
        "prompt": "When?",
        "segmented_response": ["It opened in 1871.", "It has nine arches."],
        "labels": [True, False],
        "ref": ["https://example.org"],
        "ref_contents": ["The bridge opened in 1871 and has four arches."],
    }
    bare_row = {**row, "index": "2", "ref_contents": ""}
    lines = [json.dumps(item) for item in (row, bare_row)]
    (tmp_path / "all.jsonl").write_text("\n".join(lines))

    trial = open_trial("check_references", data_dir=str(tmp_path))

    assert [(claim.cluster, claim.truth) for claim in trial.claims] == [
        ("1", "supported"),
        ("1", "not_supported"),
    ]


def test_citations_are_read_from_the_log_of_alce(tmp_path):
    """ALCE joins the cited passages into one text. Each is evidence of its own here."""
    entry = {
        "qid": 3,
        "claim": "She sang [1][2].",
        "passage": ["Title: Ada\nAda sang.\nTitle: Bea\nBea danced."],
        "model_output": 0,
    }
    path = tmp_path / "scores.json.gz"
    path.write_bytes(gzip.compress(json.dumps({"autoais_log": [entry]}).encode()))

    (claim,) = open_trial("check_citations", files=(path,)).claims

    assert claim.question.claim == "She sang."
    assert claim.truth == "not_supported"
    assert [(item.title, item.text) for item in claim.question.evidence] == [
        ("Ada", "Ada sang."),
        ("Bea", "Bea danced."),
    ]


def test_citations_need_a_file():
    """The log of ALCE's verdicts is not part of the suite, so the user must name it."""
    with pytest.raises(ConfigError, match="needs --data FILE"):
        open_trial("check_citations")


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """Return a function that runs a command with an empty store, and returns its output."""
    monkeypatch.setenv("LM_FACTUALITY_HOME", str(tmp_path / "cache"))

    def run(*arguments):
        main([*arguments, "--store", str(tmp_path / "store.sqlite")])
        # Long lines are broken where the terminal ends.
        return " ".join(capsys.readouterr().out.split())

    return run


def test_check_without_a_certificate_explains_how_to_certify_the_judge(command):
    """Verdicts of a judge that nobody has tried may be wrong, and the user can change that."""
    output = command("check")

    assert "certify --judge lexical --setting check_mutations" in output


def test_certify_prints_the_balanced_accuracy(command):
    """Most claims may have one verdict, so a judge of claims is ranked by the balanced accuracy."""
    output = command("certify", "--judge", "lexical", "--setting", "check_mutations", "--rows", "5")

    assert "balanced accuracy" in output


@pytest.fixture
def certify_on_5_documents(command):
    """Certify the offline judge for checks, on five of the documents of the suite."""
    command("certify", "--judge", "lexical", "--setting", "check_mutations", "--rows", "5")


@pytest.mark.usefixtures("certify_on_5_documents")
def test_check_prints_the_certificate_of_its_judge(command):
    """A reader of verdicts has to know how often the judge is right."""
    output = command("check")

    assert "balanced accuracy of verdicts" in output


@pytest.mark.usefixtures("certify_on_5_documents")
def test_check_summary_contains_the_certificate_of_its_judge(tmp_path, command):
    """Whoever gets only the file can see on how many documents the judge was tried."""
    command("check", "--out", str(tmp_path / "out"))

    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    certificate = summary["about"]["judge_certificate"]["check_mutations"]
    assert certificate["data"]["rows"] == 5
