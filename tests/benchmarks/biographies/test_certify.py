"""Certificates for the steps of D-FActScore: what the released decisions say, what is counted, and
what is written of a judge."""

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
    count_matches,
)
from lm_factuality.benchmarks.biographies.decisions import (
    DecidedFact,
    DecidedResponse,
    ReleasedResponse,
)
from lm_factuality.benchmarks.biographies.types import GeneratedText, RetrievedPassage
from lm_factuality.benchmarks.certifiable import CertifyOptions
from lm_factuality.cli import main
from tests.judges.server import Act, JudgeServer

PAINTER, SAILOR = "Ada Lind (painter)", "Ada Lind (sailor)"
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
FACTS = (
    ("Ada Lind was a painter.", PAINTER),
    ("Ada Lind was born in Oslo.", PAINTER),
    ("She painted lighthouses.", None),
    ("Ada Lind was a sailor.", SAILOR),
    ("She sailed round the world in 1950.", SAILOR),
)


def fact(text, entity):
    return DecidedFact(text, entity is not None, entity)


def known(grouped=FACTS[1:], facts=FACTS):
    decided = DecidedResponse(
        tuple(fact(*each) for each in facts), tuple(fact(*each) for each in grouped)
    )
    return ReleasedResponse(
        GeneratedText("0", "Tell me a bio of Ada Lind", "Ada Lind", OUTPUT, PASSAGES), decided
    )


A, B, C, D, E = FACTS


@pytest.mark.parametrize(
    ("grouped", "groups"),
    [
        ((B, D, E), [(PAINTER, (1,)), (SAILOR, (3, 4))]),
        ((A, B, C, D, E), [(PAINTER, (0, 1)), (SAILOR, (3, 4))]),  # the third may be in either
        ((A, C, B, D), [(PAINTER, (0, 1, 2)), (SAILOR, (3,))]),  # between two of one group
        ((C, B), [(PAINTER, (1, 2))]),  # before the first
        ((B, C), [(PAINTER, (1, 2))]),  # behind the last
        ((B, D, A), [(PAINTER, (1,)), (SAILOR, (3,)), (PAINTER, (0,))]),
        ((B, ("Made up by grouping.", PAINTER)), [(PAINTER, (1,))]),
        ((C,), []),
        ((("Ada Lind was a painter.", "A"), ("Ada Lind was a sailor.", "A")), []),  # letters
    ],
)
def test_groups_are_runs_of_facts_with_one_entity(grouped, groups):
    assert list(known(grouped).groups) == groups


def test_a_verdict_is_known_of_a_fact_and_the_entity_that_the_files_name():
    found = known(
        [
            B,
            ("She painted lighthouses.", None),
            ("Ada Lind was a sailor.", None),
            ("She painted lighthouses.", PAINTER),
        ]
    )
    assert found.verdicts == {
        (0, PAINTER): True,
        (1, PAINTER): True,
        (2, PAINTER): False,
        (2, SAILOR): False,
        (3, SAILOR): True,
        (3, PAINTER): False,  # not supported by the entity of its group
        (4, SAILOR): True,
    }
    twice = known([(FACTS[0][0], PAINTER), (FACTS[3][0], None), (FACTS[1][0], PAINTER)], (A, D, B))
    assert twice.verdicts[1, PAINTER] is False
    contradicted = known([("Ada Lind was a painter.", None), B], (A, B))
    assert (0, PAINTER) not in contradicted.verdicts
    assert contradicted.verdicts == {(1, PAINTER): True}
    elsewhere = known(
        facts=(("Ada Lind was a painter.", "Ada Lind (who is no candidate)"),), grouped=()
    )
    assert elsewhere.verdicts == {}


def test_facts_are_beside_their_sentences_in_order():
    assert [each.sentence for each in known().biography.facts] == [0, 0, 1, 2, 3]


@pytest.mark.parametrize(
    ("own", "released", "count"),
    [
        (["Ada Lind was born in Oslo."], ["She was born in Oslo."], 1),  # pronoun or name
        (["She was born in Oslo."], ["She was born in Bergen."], 0),
        (["She sailed.", "She sailed."], ["She sailed."], 1),  # one to one
        (
            ["She sailed round the world."],
            ["She sailed round the world.", "She sailed round the world in 1950."],
            1,
        ),
        (
            ["She painted harbours.", "She painted harbours by night."],
            ["She painted harbours by night.", "She painted harbours."],
            2,
        ),
    ],
)
def test_facts_are_matched_one_to_one(own, released, count):
    assert count_matches(own, released, "Ada Lind") == count


def test_pairs_of_facts_are_compared():
    (case,) = STEPS["grouping"].make_cases(known((A, C, B, D, E)))
    # Released are facts 0, 1 and 2 of the painter, 3 and 4 of the sailor.
    apart = compare_groups(replace(case.biography, groups=((0, 3), (1, 2, 4))), case.released)
    tp, fp, fn, tn = ((True, True), (True, False), (False, True), (False, False))
    assert [apart.count(outcome) for outcome in (tp, fp, fn, tn)] == [1, 3, 3, 3]
    same = compare_groups(replace(case.biography, groups=((0, 1, 2), (3, 4))), case.released)
    assert [same.count(outcome) for outcome in (tp, fp, fn, tn)] == [4, 0, 0, 6]
    refused = replace(case.biography, ungrouped="no JSON object")
    assert compare_groups(refused, case.released) == ["no JSON object"]


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Released files of six names, and no earlier answers."""
    monkeypatch.setenv("LM_FACTUALITY_HOME", str(tmp_path / "home"))
    names = [f"Ada {word}" for word in ("Lind", "Berg", "Dahl", "Moe", "Vik", "Aas")]
    rows, facts, grouped = [], [], []
    for name in names:
        docs = [
            {key: text.replace("Ada Lind", name) for key, text in vars(each).items()}
            for each in PASSAGES
        ]
        rows.append(
            {
                "question": f"Tell me a bio of {name}",
                "output": OUTPUT.replace("Ada Lind", name),
                "docs": docs,
            }
        )
        decided = [
            {
                "atom": text.replace("Ada Lind", name),
                "is_supported": entity is not None,
                "supporting_topic": entity and entity.replace("Ada Lind", name),
            }
            for text, entity in FACTS
        ]
        facts.append(decided)
        grouped.append(decided[1:])
    generations, decisions = tmp_path / "generations.json", tmp_path / "decisions.json"
    generations.write_text(json.dumps({"data": rows}))
    decisions.write_text(
        json.dumps({"decisions": [*facts, None], "global_decisions": [*grouped, None]})
    )
    return [str(generations), str(decisions)]


def certified(judge, step, files, out, *more):
    arguments = [
        "certify",
        "--judge",
        judge,
        "--setting",
        f"biographies_{step}",
        "--data",
        *files,
        "--out",
        str(out),
        *more,
    ]
    assert main(arguments) == 0
    return json.loads(out.read_text())


def test_each_step_of_the_judge_without_a_model(files, tmp_path):
    found = {name: certified("lexical", name, files, tmp_path / f"{name}.json") for name in STEPS}
    scores = {name: each["scores"]["ALL"] for name, each in found.items()}
    assert (
        scores["grouping"]["tp"] + scores["grouping"]["fn"] == 6
    )  # facts 1 and 2 are of unknown or of one group
    assert scores["grouping"]["f1"] == 1
    assert scores["linking"] == {"tp": 12, "fp": 0, "fn": 0, "tn": 0, "accuracy": 1}
    assert scores["verification"]["tp"] + scores["verification"]["fn"] == 24
    assert scores["verification"]["fp"] + scores["verification"]["tn"] == 12
    assert scores["verification"]["recall"] > 0.9
    assert scores["decomposition"]["tp"] + scores["decomposition"]["fn"] == 30
    assert found["linking"]["baselines"]["first retrieved"]["accuracy"] == 0.5
    assert found["verification"]["baselines"]["all supported"]["recall"] == 1
    assert found["verification"]["baselines"]["all supported"]["balanced_accuracy"] == 0.5
    each_sentence = found["decomposition"]["baselines"]["each sentence"]
    assert each_sentence["tp"] + each_sentence["fp"] == 24
    for name, each in found.items():
        low, high = each["intervals"][each_headline(name)]
        assert low <= scores[name][each_headline(name)] <= high
        assert (
            each["data"] | {"rows": 6, "of": 6, "is_published": False, "without": 0} == each["data"]
        )


def each_headline(name):
    return SETTINGS[name].headline[0]


@pytest.fixture
def judge(tmp_path, monkeypatch):
    """(YAML of a judge, its server): it takes all facts for those of one individual, and supports
    nothing."""
    monkeypatch.setenv("OPENAI_API_KEY", "key-of-nobody")

    def answer(prompt, attempt):
        if '{"groups"' in prompt:
            count = int(re.findall(r"^(\d+)\. ", prompt, flags=re.MULTILINE)[-1])
            return Act(text=json.dumps({"groups": [list(range(1, count + 1))]}))
        if "Ada Moe" in prompt:
            return Act(text="I would rather not say.")
        return Act(text=json.dumps({"reason": "so", "verdict": "not_supported"}))

    server = JudgeServer(answer)
    path = tmp_path / "judge.yaml"
    path.write_text(
        yaml.safe_dump({"backend": "openai", "model": "small-judge", "base_url": server.base_url})
    )
    yield str(path), server
    server.close()


def test_a_judge_that_does_not_read_scores_as_its_baseline(files, judge, tmp_path, capsys):
    config, server = judge
    planned = [
        "certify",
        "--judge",
        config,
        "--setting",
        "biographies_grouping",
        "--data",
        *files,
        "--dry-run",
    ]
    assert main(planned) == 0
    assert not server.attempts
    assert re.search(r"biographies_grouping +6 +0 +6 +12", capsys.readouterr().out)
    found = certified(config, "grouping", files, tmp_path / "grouping.json")
    assert found["scores"]["ALL"] == found["baselines"]["one group"]
    assert found["usage"]["calls"] == 6
    found = certified(config, "verification", files, tmp_path / "verification.json")
    unscored = found["scores"]["unscored"]
    assert (unscored["responses"], unscored["items"]) == (1, 6)
    assert list(unscored["reasons"]) == ["no JSON object"]
    assert (found["scores"]["ALL"]["tp"], found["scores"]["ALL"]["tn"]) == (0, 10)


def published(judge, files):
    """A certificate as of the published data."""
    trial = StepTrial.open("grouping", CertifyOptions(files=tuple(map(Path, files))))
    data = {**trial.data, "is_published": True, "git_blob": SETTINGS["grouping"].git_blob}
    return make_certificate(
        judge,
        "biographies_grouping",
        trial.measure(judge),
        prompt_hashes=trial.prompt_hashes(judge),
        data=data,
    )


def test_what_is_certified_is_found_by_runs_of_the_judge_and_said_of_each_step(files, tmp_path):
    config = load_judge_config("lexical")
    with Judge.open(config) as judge:
        certificate = published(judge, files)
        save_certificate(certificate, None)
        found = find_certificates(judge)
    metadata = {
        "judge_config": config.describe(BENCHMARK.judging.make_method({}).prompt_names),
        "judge_certificate": found,
    }
    stated = {
        each.step.partition(" ")[0]: each for each in BENCHMARK.certification_statuses(metadata)
    }
    assert [name for name, each in stated.items() if each.is_certified] == ["grouping"]
    assert stated["grouping"].text.startswith(
        "F1 of pairs of facts 100.0% [100.0%, 100.0%], on 6 of 6 responses (biographies_grouping"
    )
    assert stated["linking"].text == (
        "not certified; run lm-factuality certify --judge lexical --setting biographies_linking"
    )
    elsewhere = {**metadata, "knowledge": "wikipedia.db", "linking": "hungarian"}
    for each in BENCHMARK.certification_statuses(elsewhere):
        is_measured = each.step.partition(" ")[0] in ("decomposition", "grouping")
        assert ("no judge is measured with" in each.text) is not is_measured


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ["--setting", "biographies_grouping", "--sample"],
            "--sample is not for --setting biographies_grouping, but for segment_",
        ),
        (["--rows", "3"], "--rows is not for --setting segment_doc, but for biographies_"),
        (["--setting", "biographies_linking", "--rows", "0"], "--rows: found 0"),
        (
            ["--setting", "biographies_linking", "--data", "one.json"],
            "--data: expected generations and their decisions in turn",
        ),
    ],
)
def test_options_that_mean_nothing_are_errors(arguments, expected, capsys):
    assert main(["certify", "--judge", "lexical", *arguments]) == 1
    assert expected in capsys.readouterr().err
