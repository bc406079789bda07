"""The rules of the joint method, in replies that a strong reader gave to the prompts alone.

``joint_cases.json`` has five cases for each rule. An individual of a case has words that its facts
must have ("|" separates alternatives), and the titles of the pages that may describe it.
``joint_replies.jsonl`` has the recorded replies.
"""

import json
from collections import Counter
from pathlib import Path

import pytest

from lm_factuality.benchmarks.biographies.matrix import (
    FactPair,
    PairKey,
    judge_linked_pages_first,
)
from lm_factuality.benchmarks.biographies.method import AmbigBio
from lm_factuality.benchmarks.biographies.types import GeneratedText, RetrievedPassage
from tests.benchmarks.biographies.test_joint import ScriptedJudge

CASES = json.loads(Path(__file__).with_name("joint_cases.json").read_text(encoding="utf-8"))
REPLIES = Path(__file__).with_name("joint_replies.jsonl")


def recorded_replies():
    """Return the recorded replies, by the id of their case."""
    lines = REPLIES.read_text(encoding="utf-8").splitlines()
    return {entry["id"]: entry["reply"] for entry in map(json.loads, lines)}


def take_apart(case, judge):
    """Let a judge take the response of a case apart."""
    passages = tuple(RetrievedPassage(**passage) for passage in case["passages"])
    text = GeneratedText(
        "0", f"Tell me a bio of {case['name']}", case["name"], case["response"], passages
    )
    method = AmbigBio(method="joint", facts="as_written")
    (judged,) = method.decompose_and_group(judge, [method.prepare(text)])
    return judged


def verify(case, judge):
    """Let a judge verify the facts of a case against its page, and return the judgements."""
    pairs = {}
    for fact in case["verdicts"]:
        pair = FactPair(fact, case["page"], tuple(case["passages"]))
        pairs[PairKey(0, fact, case["page"])] = pair
    judgements = judge_linked_pages_first(judge, pairs, pairs.keys(), "biographies")
    return {key.fact: judgement for key, judgement in judgements.items()}


def problems_with_grouping(case, judged):
    """List what is wrong with the groups and pages of a case."""
    if judged.problem:
        return [judged.problem]
    problems = []
    if len(judged.groups) != len(case["individuals"]):
        problems.append(f"{len(judged.groups)} individuals")
    group_by_fact = {fact: index for index, facts in enumerate(judged.groups) for fact in facts}
    expected_groups = []
    for individual in case["individuals"]:
        groups = set()
        for words in individual["facts"]:
            facts = [
                index
                for index, fact in enumerate(judged.facts)
                if any(word in fact.text for word in words.split("|"))
            ]
            if not facts:
                problems.append(f"no fact with {words!r}")
            groups.update(group_by_fact[fact] for fact in facts)
        expected_groups.append(groups)
        titles = [
            None if judged.links[group] is None else judged.entities[judged.links[group]]
            for group in groups
        ]
        if len(groups) != 1 or titles[0] not in individual["pages"]:
            problems.append(f"{individual['facts']} is on {titles}")
    if len(set(map(frozenset, expected_groups))) < len(expected_groups):
        problems.append("individuals are merged")
    return problems


def problems_with_verdicts(case, judgements):
    """List the facts of a case whose verdict is wrong."""
    problems = []
    for fact, expected in case["verdicts"].items():
        judgement = judgements[fact]
        verdict = judgement.outcome
        if verdict == "not_supported":
            verdict = "contradicted" if judgement.is_contradicted else "not_found"
        if verdict not in expected.split("|"):
            problems.append(f"{fact} is {verdict}")
    return problems


def test_each_rule_has_five_cases():
    """One case could be right by chance."""
    rules = Counter(case["rule"] for cases in CASES.values() for case in cases)

    assert set(rules.values()) == {5}


def test_each_case_has_a_recorded_reply():
    """A case without a reply would test nothing."""
    case_ids = {case["id"] for cases in CASES.values() for case in cases}

    assert case_ids == recorded_replies().keys()


@pytest.mark.parametrize("case", CASES["joint"], ids=lambda case: case["id"])
def test_individuals_in_recorded_replies_follow_the_rules(case):
    """The judge tells people apart, and names the page of each, as the prompt says."""
    judge = ScriptedJudge([recorded_replies()[case["id"]]])

    judged = take_apart(case, judge)

    assert problems_with_grouping(case, judged) == []


@pytest.mark.parametrize("case", CASES["verify_page"], ids=lambda case: case["id"])
def test_verdicts_in_recorded_replies_follow_the_rules(case):
    """The judge decides in difficult cases whether a page supports a fact, as the prompt says."""
    judge = ScriptedJudge([recorded_replies()[case["id"]]], supported=None)

    judgements = verify(case, judge)

    assert problems_with_verdicts(case, judgements) == []
