"""Certificates for the steps of D-FActScore: how often a judge agrees with released decisions."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from judges.certificates import find_certificates, make_certificate, save_certificate
from judges.config import load_judge_config
from judges.judge import Judge
from lm_factuality.benchmarks.biographies.benchmark import BENCHMARK
from lm_factuality.benchmarks.biographies.certify import (
    SETTINGS,
    STEPS,
    StepTrial,
    compare_groups,
    match_facts,
)
from lm_factuality.benchmarks.biographies.decisions import (
    DecidedFact,
    DecidedResponse,
    FactAndEntity,
    ReleasedResponse,
)
from lm_factuality.benchmarks.biographies.types import GeneratedText, RetrievedPassage
from lm_factuality.benchmarks.certifiable import CertifyOptions
from lm_factuality.cli import main
from tests.judges.server import Act, JudgeServer

PAINTER = "Ada Lind (painter)"
SAILOR = "Ada Lind (sailor)"
PASSAGES = (
    RetrievedPassage(
        PAINTER, "Ada Lind was a painter. She was born in Oslo in 1901. She painted harbours."
    ),
    RetrievedPassage(
        SAILOR, "Ada Lind was a sailor. She sailed round the world in 1950. She was born in Bergen."
    ),
)
OUTPUT = (
    "Ada Lind was a painter born in Oslo in 1901 [1]. She painted harbours [1]. "
    "Another Ada Lind was a sailor [2]. She sailed round the world in 1950 [2]."
)


def supported(text, page):
    """Make the released decision on a fact that the page of an entity supports."""
    return DecidedFact(text, is_supported=True, supporting_topic=page)


def unsupported(text):
    """Make the released decision on a fact that no page supports."""
    return DecidedFact(text, is_supported=False, supporting_topic=None)


WAS_PAINTER = supported("Ada Lind was a painter.", PAINTER)
BORN_IN_OSLO = supported("Ada Lind was born in Oslo.", PAINTER)
LIGHTHOUSES = unsupported("She painted lighthouses.")
WAS_SAILOR = supported("Ada Lind was a sailor.", SAILOR)
SAILED = supported("She sailed round the world in 1950.", SAILOR)


def make_released(facts, facts_after_grouping=()):
    """Make a released response from the decisions on its facts before and after grouping."""
    return ReleasedResponse(
        GeneratedText("0", "Tell me a bio of Ada Lind", "Ada Lind", OUTPUT, PASSAGES),
        DecidedResponse(tuple(facts), tuple(facts_after_grouping)),
    )


@pytest.mark.parametrize(
    ("facts_after_grouping", "groups"),
    [
        pytest.param(
            [BORN_IN_OSLO, WAS_SAILOR, SAILED],
            [(PAINTER, [BORN_IN_OSLO]), (SAILOR, [WAS_SAILOR, SAILED])],
            id="two entities",
        ),
        pytest.param(
            [WAS_PAINTER, BORN_IN_OSLO, LIGHTHOUSES, WAS_SAILOR, SAILED],
            [(PAINTER, [WAS_PAINTER, BORN_IN_OSLO]), (SAILOR, [WAS_SAILOR, SAILED])],
            id="an unsupported fact between two groups is in none",
        ),
        pytest.param(
            [WAS_PAINTER, LIGHTHOUSES, BORN_IN_OSLO, WAS_SAILOR],
            [(PAINTER, [WAS_PAINTER, BORN_IN_OSLO, LIGHTHOUSES]), (SAILOR, [WAS_SAILOR])],
            id="an unsupported fact between two facts of a group is in it",
        ),
        pytest.param(
            [LIGHTHOUSES, BORN_IN_OSLO],
            [(PAINTER, [BORN_IN_OSLO, LIGHTHOUSES])],
            id="an unsupported fact before the first group is in it",
        ),
        pytest.param(
            [BORN_IN_OSLO, LIGHTHOUSES],
            [(PAINTER, [BORN_IN_OSLO, LIGHTHOUSES])],
            id="an unsupported fact after the last group is in it",
        ),
        pytest.param(
            [BORN_IN_OSLO, WAS_SAILOR, WAS_PAINTER],
            [(PAINTER, [BORN_IN_OSLO]), (SAILOR, [WAS_SAILOR]), (PAINTER, [WAS_PAINTER])],
            id="two groups of one entity",
        ),
        pytest.param(
            [BORN_IN_OSLO, supported("Made up by grouping.", PAINTER)],
            [(PAINTER, [BORN_IN_OSLO])],
            id="a fact that grouping made up is left out",
        ),
        pytest.param([LIGHTHOUSES], [], id="no entity"),
        pytest.param(
            [supported("Ada Lind was a painter.", "A"), supported("Ada Lind was a sailor.", "A")],
            [],
            id="letters in place of entities, as in some files",
        ),
    ],
)
def test_consecutive_facts_about_one_entity_form_a_group(facts_after_grouping, groups):
    """The released files do not name groups, but list the facts in their order after grouping."""
    facts = [WAS_PAINTER, BORN_IN_OSLO, LIGHTHOUSES, WAS_SAILOR, SAILED]
    released = make_released(facts, facts_after_grouping)

    assert [
        (group.entity, [facts[number] for number in group.facts]) for group in released.groups
    ] == groups


def test_supported_fact_has_a_verdict_for_its_supporting_page():
    """The released files name one supporting page, and leave open whether others support it too."""
    released = make_released(facts=[supported("Ada Lind was a painter.", PAINTER)])

    assert released.verdicts == {FactAndEntity(fact=0, entity=PAINTER): True}


def test_an_unsupported_fact_has_a_verdict_for_every_page():
    released = make_released(facts=[unsupported("She painted lighthouses.")])

    assert released.verdicts == {
        FactAndEntity(fact=0, entity=PAINTER): False,
        FactAndEntity(fact=0, entity=SAILOR): False,
    }


def test_fact_unsupported_by_its_group_page_has_a_verdict_for_that_page():
    """Grouping has put the sailor into the painter's group, which the neighbours show."""
    released = make_released(
        facts=[
            supported("Ada Lind was a painter.", PAINTER),
            supported("Ada Lind was a sailor.", SAILOR),
            supported("Ada Lind was born in Oslo.", PAINTER),
        ],
        facts_after_grouping=[
            supported("Ada Lind was a painter.", PAINTER),
            unsupported("Ada Lind was a sailor."),
            supported("Ada Lind was born in Oslo.", PAINTER),
        ],
    )

    assert released.verdicts == {
        FactAndEntity(fact=0, entity=PAINTER): True,
        FactAndEntity(fact=1, entity=SAILOR): True,
        FactAndEntity(fact=1, entity=PAINTER): False,
        FactAndEntity(fact=2, entity=PAINTER): True,
    }


def test_contradicting_verdicts_on_a_fact_are_dropped():
    """The same page supports the first fact before grouping, and does not support it afterwards."""
    released = make_released(
        facts=[
            supported("Ada Lind was a painter.", PAINTER),
            supported("Ada Lind was born in Oslo.", PAINTER),
        ],
        facts_after_grouping=[
            unsupported("Ada Lind was a painter."),
            supported("Ada Lind was born in Oslo.", PAINTER),
        ],
    )

    assert released.verdicts == {FactAndEntity(fact=1, entity=PAINTER): True}


def test_verdicts_on_non_candidate_entities_are_dropped():
    """A judge could not be asked about them, as the response has no page of theirs."""
    stranger = "Ada Lind (who is no candidate)"

    released = make_released(facts=[supported("Ada Lind was a painter.", stranger)])

    assert released.verdicts == {}


def test_released_facts_are_assigned_to_their_sentences_in_order():
    """The released files do not say which sentence states a fact."""
    released = ReleasedResponse(
        GeneratedText(
            index="0",
            question="Tell me a bio of Ada Lind",
            name="Ada Lind",
            output="Ada Lind was a painter born in Oslo [1]. Another Ada Lind was a sailor [2].",
            passages=PASSAGES,
        ),
        DecidedResponse(
            facts=(
                supported("Ada Lind was a painter.", PAINTER),
                supported("Ada Lind was born in Oslo.", PAINTER),
                supported("Ada Lind was a sailor.", SAILOR),
            ),
            grouped=(),
        ),
    )

    first, second, third = released.biography.facts

    assert first.sentence == 0
    assert second.sentence == 0
    assert third.sentence == 1


@pytest.mark.parametrize(
    ("judged", "released", "num_matches"),
    [
        pytest.param(
            ["Ada Lind was born in Oslo."], ["She was born in Oslo."], 1, id="name and pronoun"
        ),
        pytest.param(
            ["She was born in Oslo."], ["She was born in Bergen."], 0, id="different places"
        ),
        pytest.param(["She sailed.", "She sailed."], ["She sailed."], 1, id="a fact twice"),
        pytest.param(
            ["She sailed round the world."],
            ["She sailed round the world.", "She sailed round the world in 1950."],
            1,
            id="a fact that is like two",
        ),
        pytest.param(
            ["She painted harbours.", "She painted harbours by night."],
            ["She painted harbours by night.", "She painted harbours."],
            2,
            id="other order",
        ),
    ],
)
def test_facts_are_matched_one_to_one(judged, released, num_matches):
    """A judge may word the facts of a sentence in another way than the released files."""
    matches = match_facts(judged, released, name="Ada Lind")

    assert len(matches) == num_matches


def make_judged(groups, **changes):
    """Make a biography of facts that a judge has put into these groups."""
    num_facts = sum(len(group) for group in groups)
    facts = [unsupported(f"She painted {number} lighthouses.") for number in range(num_facts)]
    return replace(make_released(facts).biography, groups=groups, **changes)


def test_grouping_is_compared_by_pairs_of_facts():
    judged = make_judged(groups=((0, 1, 2), (3,)))

    decisions = compare_groups(judged, released_groups=((0, 1), (2, 3)))

    are_in_one_group = [
        {"judged": decision.judged, "released": decision.released} for decision in decisions
    ]
    assert are_in_one_group == [
        {"judged": True, "released": True},  # facts 0 and 1
        {"judged": True, "released": False},  # facts 0 and 2
        {"judged": False, "released": False},  # facts 0 and 3
        {"judged": True, "released": False},  # facts 1 and 2
        {"judged": False, "released": False},  # facts 1 and 3
        {"judged": False, "released": True},  # facts 2 and 3
    ]


def test_equal_groups_agree_in_all_pairs_of_facts():
    groups = ((0, 1, 2), (3, 4))

    decisions = list(compare_groups(make_judged(groups), released_groups=groups))

    assert len(decisions) == 10  # pairs of five facts
    for decision in decisions:
        assert decision.judged == decision.released


def test_ungrouped_facts_are_unscored():
    """A judge that cannot answer has made no mistake, but the certificate must count it."""
    judged = make_judged(groups=((0, 1),), ungrouped="no JSON object")

    (decision,) = compare_groups(judged, released_groups=((0, 1),))

    assert decision.judged is None
    assert decision.reason == "no JSON object"


def rename(value, name):
    """Return a JSON value in which another name stands in the place of Ada Lind."""
    return json.loads(json.dumps(value).replace("Ada Lind", name))


NAMES = ("Ada Lind", "Ada Berg", "Ada Dahl", "Ada Moe", "Ada Vik", "Ada Aas")


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Return the paths of released generations about six names, and of the decisions on them.

    Each response has five facts: two of the painter, one that no page supports, and two of the
    sailor. The first fact of the painter is missing after grouping.
    """
    monkeypatch.setenv("LM_FACTUALITY_HOME", str(tmp_path / "home"))
    row = {
        "question": "Tell me a bio of Ada Lind",
        "output": OUTPUT,
        "docs": [vars(passage) for passage in PASSAGES],
    }
    five_facts = [WAS_PAINTER, BORN_IN_OSLO, LIGHTHOUSES, WAS_SAILOR, SAILED]
    decided = [vars(fact) for fact in five_facts]
    facts = [rename(decided, name) for name in NAMES]
    grouped = [rename(decided[1:], name) for name in NAMES]
    generations = tmp_path / "generations.json"
    generations.write_text(json.dumps({"data": [rename(row, name) for name in NAMES]}))
    decisions = tmp_path / "decisions.json"
    decisions.write_text(
        json.dumps({"decisions": [*facts, None], "global_decisions": [*grouped, None]})
    )
    return [str(generations), str(decisions)]


def certify(judge, step, files, *options):
    """Run the command that certifies a step of the judge."""
    setting = f"biographies_{step}"
    command = ["certify", "--judge", judge, "--setting", setting, "--data", *files, *options]
    assert main(command) == 0


def make_step_certificate(judge, step, files, path):
    """Certify a step of the judge, and read the certificate."""
    certify(judge, step, files, "--out", str(path))
    return json.loads(path.read_text())


@pytest.fixture
def lexical_certificate(files, tmp_path):
    """Return a function that certifies a step of the judge without a model."""
    return lambda step: make_step_certificate("lexical", step, files, tmp_path / "step.json")


def test_grouping_of_the_lexical_judge_is_certified(lexical_certificate):
    """Released groups of each response have one fact about the painter, and two about the sailor."""
    scores = lexical_certificate("grouping")["scores"]["ALL"]

    num_responses = 6
    num_pairs_in_one_group = 1  # of the two facts about the sailor
    assert scores["tp"] + scores["fn"] == num_responses * num_pairs_in_one_group
    assert scores["f1"] == 1


def test_linking_of_the_lexical_judge_is_certified(lexical_certificate):
    """Each of six responses has a group about the painter, whose page comes first, and another."""
    certificate = lexical_certificate("linking")

    num_groups = 6 * 2
    assert certificate["scores"]["ALL"] == {
        "tp": num_groups,
        "fp": 0,
        "fn": 0,
        "tn": 0,
        "accuracy": 1,
    }
    assert certificate["baselines"]["first retrieved"]["accuracy"] == 1 / 2


def test_verification_of_the_lexical_judge_is_certified(lexical_certificate):
    """Each of six responses has four supported facts, and one that neither of two pages supports."""
    certificate = lexical_certificate("verification")

    scores = certificate["scores"]["ALL"]
    baseline = certificate["baselines"]["all supported"]
    assert scores["tp"] + scores["fn"] == 6 * 4
    assert scores["fp"] + scores["tn"] == 6 * 2
    assert scores["recall"] > 0.9
    assert baseline["recall"] == 1
    assert baseline["balanced_accuracy"] == 0.5


def test_decomposition_of_the_lexical_judge_is_certified(lexical_certificate):
    """Each of six responses has five released facts in four sentences."""
    certificate = lexical_certificate("decomposition")

    scores = certificate["scores"]["ALL"]
    baseline = certificate["baselines"]["each sentence"]
    assert scores["tp"] + scores["fn"] == 6 * 5
    assert baseline["tp"] + baseline["fp"] == 6 * 4


# The groups of the files hold no unsupported fact, so this step has no balanced accuracy.
@pytest.mark.parametrize("step", [step for step in STEPS if step != "joint_verification"])
def test_a_certificate_has_the_interval_of_its_headline_and_its_data(lexical_certificate, step):
    """The certificate is measured on six responses, which are not those of the authors."""
    certificate = lexical_certificate(step)

    headline = SETTINGS[step].headline[0]
    low, high = certificate["intervals"][headline]
    data = {"rows": 6, "of": 6, "is_published": False, "without": 0}
    assert low <= certificate["scores"]["ALL"][headline] <= high
    assert certificate["data"].items() >= data.items()


def answer_without_reading(prompt, attempt):
    """Take all facts for those of one individual, support nothing, and say nothing of Ada Moe."""
    if '{"groups"' in prompt:
        count = int(re.findall(r"^(\d+)\. ", prompt, flags=re.MULTILINE)[-1])
        return Act(text=json.dumps({"groups": [list(range(1, count + 1))]}))
    if "Ada Moe" in prompt:
        return Act(text="I would rather not say.")
    return Act(text=json.dumps({"reason": "so", "verdict": "not_supported"}))


@pytest.fixture
def blind_server(monkeypatch):
    """Return a server whose judge answers without reading."""
    monkeypatch.setenv("OPENAI_API_KEY", "key-of-nobody")
    server = JudgeServer(answer_without_reading)
    yield server
    server.close()


@pytest.fixture
def blind_judge(blind_server, tmp_path):
    """Return the path of the configuration of a judge that answers without reading."""
    path = tmp_path / "judge.yaml"
    config = {"backend": "openai", "model": "small-judge", "base_url": blind_server.base_url}
    path.write_text(yaml.safe_dump(config))
    return str(path)


def test_dry_run_prints_the_number_of_requests_and_sends_none(
    files, blind_judge, blind_server, capsys
):
    """The columns are requests to send, stored answers, and calls without and with retries."""
    certify(blind_judge, "grouping", files, "--dry-run")

    output = capsys.readouterr().out
    assert re.search(r"biographies_grouping +6 +0 +6 +12", output)
    assert not blind_server.attempts


def test_judge_with_one_group_scores_like_the_baseline(files, blind_judge, tmp_path):
    """Both put all facts of a response into one group."""
    certificate = make_step_certificate(blind_judge, "grouping", files, tmp_path / "g.json")

    num_responses = 6
    assert certificate["scores"]["ALL"] == certificate["baselines"]["one group"]
    assert certificate["usage"]["calls"] == num_responses


def test_certificate_counts_unreadable_replies(files, blind_judge, tmp_path):
    """The judge refuses to answer about one of six names."""
    certificate = make_step_certificate(blind_judge, "verification", files, tmp_path / "v.json")

    unscored = certificate["scores"]["unscored"]
    assert unscored["responses"] == 1
    # Four supported facts with a page each, and an unsupported fact with two pages.
    assert unscored["items"] == 4 * 1 + 1 * 2
    assert list(unscored["reasons"]) == ["no JSON object"]


def test_certificate_scores_the_readable_replies(files, blind_judge, tmp_path):
    """The judge supports no fact of five responses, and refuses to answer about the sixth."""
    certificate = make_step_certificate(blind_judge, "verification", files, tmp_path / "v.json")

    scores = certificate["scores"]["ALL"]
    assert scores["tp"] == 0
    assert scores["tn"] == 5 * 2  # an unsupported fact of each response, with two pages


@pytest.fixture
def metadata(files):
    """Return the metadata of a run whose judge is certified for grouping.

    The certificate says that it was measured on the published data.
    """
    config = load_judge_config("lexical")
    trial = StepTrial.open("grouping", CertifyOptions(files=tuple(map(Path, files))))
    blob = SETTINGS["grouping"].git_blob
    with Judge.open(config) as judge:
        certificate = make_certificate(
            judge,
            "biographies_grouping",
            trial.measure(judge),
            prompt_hashes=trial.prompt_hashes(judge),
            data={**trial.data, "is_published": True, "git_blob": blob},
        )
        save_certificate(certificate, None)
        certificates = find_certificates(judge)
    return {
        "judge_config": config.describe(BENCHMARK.judging.make_method({}).prompt_names),
        "judge_certificate": certificates,
    }


def statuses_by_step(metadata):
    """Return the certification status of each step, such as ``grouping``."""
    statuses = BENCHMARK.certification_statuses(metadata)
    return {status.step.partition(" ")[0]: status for status in statuses}


def test_a_run_finds_the_certificate_of_each_step_of_its_judge(metadata):
    """The judge of this run is certified for grouping alone."""
    statuses = statuses_by_step(metadata)

    certified_steps = [step for step, status in statuses.items() if status.is_certified]
    assert certified_steps == ["grouping"]
    assert statuses["grouping"].text.startswith(
        "F1 of pairs of facts 100.0% [75.8%, 100.0%], on 6 of 6 responses (biographies_grouping"
    )
    assert statuses["linking"].text == (
        "not certified; run lm-factuality certify --judge lexical --setting biographies_linking"
    )


def test_steps_with_unsupported_settings_cannot_be_certified(metadata):
    """Judges are measured with the passages of the response and with greedy linking only."""
    statuses = statuses_by_step({**metadata, "knowledge": "wikipedia.db", "linking": "hungarian"})

    reason = "no judge is measured with"
    assert reason in statuses["linking"].text
    assert reason in statuses["verification"].text
    assert reason not in statuses["decomposition"].text
    assert reason not in statuses["grouping"].text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param(
            ["--setting", "biographies_grouping", "--sample"],
            "--sample is not for --setting biographies_grouping, but for segment_",
            id="sample",
        ),
        pytest.param(
            ["--rows", "3"],
            "--rows is not for --setting segment_doc, but for check_mutations",
            id="rows",
        ),
        pytest.param(
            ["--setting", "biographies_linking", "--rows", "0"], "--rows: found 0", id="no rows"
        ),
        pytest.param(
            ["--setting", "biographies_linking", "--data", "one.json"],
            "--data: expected generations and their decisions in turn",
            id="data without decisions",
        ),
    ],
)
def test_option_without_effect_is_refused(options, message, capsys):
    """An option that is silently ignored would let a user believe that it had an effect."""
    exit_code = main(["certify", "--judge", "lexical", *options])

    assert exit_code == 1
    assert message in capsys.readouterr().err


def test_joint_run_uses_certificates_of_joint_steps():
    """A joint run asks one question in place of several, which a judge may answer less well."""
    metadata = {"method": "joint", "judge_config": {"name": "j"}}

    statuses = BENCHMARK.certification_statuses(metadata)

    step_names = [status.step.split(" (")[0] for status in statuses]
    assert step_names == [
        "joint_decomposition",
        "joint_grouping",
        "joint_linking",
        "joint_verification",
    ]


def ask_lexical_judge(step, case, folder):
    """Have the judge without a model take a step for one case."""
    with Judge.open(load_judge_config("lexical"), folder / "answers.sqlite") as judge:
        (judged,) = step.ask_judge(judge, [case.biography])
    return judged


def test_joint_verification_is_certified_on_the_page_of_each_group(tmp_path):
    """The painter's group has a fact that her page does not support, the one about lighthouses."""
    released = make_released(
        facts=[WAS_PAINTER, BORN_IN_OSLO, LIGHTHOUSES, WAS_SAILOR, SAILED],
        facts_after_grouping=[WAS_PAINTER, LIGHTHOUSES, BORN_IN_OSLO, WAS_SAILOR],
    )
    step = STEPS["joint_verification"]
    (case,) = step.make_cases(released)
    judged = ask_lexical_judge(step, case, tmp_path)

    decisions = list(step.compare(judged, case.released))

    pages_and_verdicts = []
    for decision in decisions:
        first_passage, *_ = decision.evidence
        title, _text = first_passage
        pages_and_verdicts.append({"page": title, "is_supported": decision.released})
    assert pages_and_verdicts == [
        {"page": "Ada Lind (painter)", "is_supported": True},
        {"page": "Ada Lind (painter)", "is_supported": True},
        {"page": "Ada Lind (painter)", "is_supported": False},
        {"page": "Ada Lind (sailor)", "is_supported": True},
    ]


@pytest.mark.parametrize("name", ["joint_grouping", "joint_linking", "joint_verification"])
def test_joint_step_of_an_agreeing_judge_has_full_agreement(tmp_path, name):
    """The lexical judge agrees with the released files in everything about this response.

    Grouping leaves out the fact about lighthouses, which no page supports.
    """
    released = make_released(
        facts=[WAS_PAINTER, BORN_IN_OSLO, LIGHTHOUSES, WAS_SAILOR, SAILED],
        facts_after_grouping=[WAS_PAINTER, BORN_IN_OSLO, WAS_SAILOR, SAILED],
    )
    step = STEPS[name]
    (case,) = step.make_cases(released)
    judged = ask_lexical_judge(step, case, tmp_path)

    comparisons = list(step.compare(judged, case.released))

    assert comparisons
    for comparison in comparisons:
        assert comparison.judged == comparison.released
