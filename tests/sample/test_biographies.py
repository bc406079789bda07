from __future__ import annotations

import dataclasses
import json
import re

import pytest

from bench.sample.biographies import PASSAGES, build_biographies
from bench.sample.build import write_biographies
from bench.sample.claims import read_biographies
from bench.sample.world import build_world
from lm_factuality.benchmarks.biographies.generations import read_generations
from lm_factuality.benchmarks.biographies.link import link
from lm_factuality.benchmarks.biographies.scores import score
from lm_factuality.benchmarks.biographies.types import Fact, JudgedBiography, Judgement
from lm_factuality.ground.errors import DataError
from lm_factuality.sample.quickstart import read_truth
from tests.conftest import TASKS
from tests.sample.steps import compare_steps, known_facts

SAMPLE = TASKS / "sample"
NAMES = ("sample_ambigbio.json", "sample_ambigbio_generations.json", "sample_ambigbio_truth.jsonl")


@pytest.fixture(scope="module")
def biographies():
    return list(build_biographies(build_world(0)))


@pytest.fixture(scope="module")
def truth():
    return read_biographies(SAMPLE / NAMES[2])


@pytest.fixture(scope="module")
def generations():
    return read_generations([SAMPLE / NAMES[1]])


def oracle(generation, told):
    """The response as a judge that knows everything would judge it, a fact a claim."""
    facts, rows, groups = [], [], {}
    for number, sentence in enumerate(told.sentences):
        for claim in sentence.claims:
            groups.setdefault(sentence.individual, []).append(len(facts))
            facts.append(Fact(f"{told.name}: {claim.words}", number))
            rows.append(
                tuple(
                    Judgement("supported" if title in claim.supported_by else "not_supported")
                    for title in generation.entities
                )
            )
    found = tuple(tuple(group) for group in groups.values())
    return JudgedBiography(
        generation,
        tuple(each.text for each in told.sentences),
        tuple(facts),
        found,
        generation.entities,
        tuple(rows),
        link(found, generation.entities, rows),
        abstained=told.abstained,
    )


@pytest.fixture(scope="module")
def judged(generations, truth):
    return [oracle(*pair) for pair in zip(generations, truth, strict=True)]


def test_the_committed_files_are_what_the_seed_gives(tmp_path):
    count = write_biographies(build_world(0), tmp_path)
    assert count > 80
    for name in NAMES:
        assert (tmp_path / name).read_bytes() == (SAMPLE / name).read_bytes(), (
            f"run: make sample ({name} is stale)"
        )


def test_every_kind_is_what_it_says(biographies):
    numbers = {
        "one": {(1, 1)},
        "merged": {(1, 2), (1, 3)},
        "apart": {(2, 2)},
        "leaking": {(2, 2)},
        "errors": {(1, 1), (2, 2)},
        "abstained": {(0, 0)},
    }
    for kind, expected in numbers.items():
        told = [each.to_truth() for each in biographies if each.kind == kind]
        assert {(each["num_biographies"], each["num_entities"]) for each in told} == expected
        for each in told:
            factscore, d_factscore = each["factscore"], each["d_factscore"]
            if kind in ("one", "apart"):
                assert factscore == d_factscore == 1
            elif kind in ("merged", "leaking"):
                assert factscore == 1 > d_factscore
            elif kind == "abstained":
                assert each["abstained"]
                assert factscore is None
            else:
                assert d_factscore <= factscore
    assert any(each.to_truth()["factscore"] < 0.8 for each in biographies if each.kind == "errors")


def test_rows_have_five_passages_of_those_who_bear_the_name(biographies):
    for each in biographies:
        assert len(each.passages) == PASSAGES
        titles = {passage["title"] for passage in each.passages}
        assert any(title.split(" (")[0] == each.name for title in titles)
        if each.kind in ("merged", "apart", "leaking"):
            assert sum(title.startswith(each.name) for title in titles) == 2


def test_the_text_is_its_sentences_and_their_citations(biographies):
    for each in biographies:
        if each.kind != "abstained":
            bare = re.sub(r" (\[[\d, ]+\])+(?=\.)", "", each.output).split()
            assert bare == " ".join(sentence.text for sentence in each.sentences).split()
        assert {
            int(number)
            for cited in re.findall(r"\[([\d, ]+)\]", each.output)
            for number in cited.split(",")
        } == {number for sentence in each.sentences for number in sentence.cites}


def test_a_claim_that_nobody_supports_was_planted_and_is_in_no_page(biographies):
    texts = {
        json.loads(line)["title"]: json.loads(line)["text"]
        for line in (SAMPLE / "encyclopedia.jsonl").read_text(encoding="utf-8").splitlines()
    }
    for each in biographies:
        for sentence in each.sentences:
            for claim in sentence.claims:
                if each.kind != "errors":
                    assert claim.supported_by
                if re.fullmatch(r"\d{4}|.* Prize", claim.words):
                    for title in claim.supported_by:
                        assert claim.words in texts[title]


def test_a_judge_that_knows_everything_agrees(judged, truth):
    comparison = compare_steps(judged, truth)
    for measure in comparison.measures:
        assert measure.judge - measure.truth == pytest.approx(0, abs=1e-12), measure
        assert measure.pearson == pytest.approx(1), measure
    assert {right for right, _ in comparison.steps.values()} == {1.0}
    assert all(count > 50 for _, count in comparison.steps.values())


def test_a_judge_that_supports_everything_does_not(judged, truth):
    yes = [
        dataclasses.replace(
            each, matrix=tuple(tuple(Judgement("supported") for _ in row) for row in each.matrix)
        )
        for each in judged
    ]
    comparison = compare_steps(yes, truth)
    measures = {measure.name: measure for measure in comparison.measures}
    assert measures["D-FActScore"].judge == 1.0
    assert measures["D-FActScore"].judge - measures["D-FActScore"].truth > 0.05
    assert comparison.steps["verification"][0] < 0.6
    assert comparison.steps["grouping: biographies"][0] == 1.0


def test_a_judge_that_sees_one_individual_everywhere_miscounts(judged, truth):
    one = [
        dataclasses.replace(each, groups=(tuple(range(len(each.facts))),), links=(0,))
        if each.facts
        else each
        for each in judged
    ]
    comparison = compare_steps(one, truth)
    measures = {measure.name: measure for measure in comparison.measures}
    assert measures["biographies"].judge == 1.0 < measures["biographies"].truth
    assert comparison.steps["grouping: biographies"][0] < 0.8
    assert comparison.steps["linking"][0] < 0.8


def test_what_is_true_of_a_fact_follows_its_words(generations, truth):
    told = next(
        each
        for each in truth
        if each.kind == "errors"
        and any(
            len(sentence.claims) > 1
            and not all(claim.supported_by for claim in sentence.claims)
            and any(claim.supported_by for claim in sentence.claims)
            for sentence in each.sentences
        )
    )
    each = oracle(generations[int(told.index)], told)
    claims = [claim for sentence in told.sentences for claim in sentence.claims]
    facts = known_facts(each, told)
    assert [bool(fact.holders) for fact in facts] == [bool(claim.supported_by) for claim in claims]
    assert score(each).factscore < 1


def test_the_truth_of_something_else_is_refused(judged, truth, tmp_path):
    with pytest.raises(DataError, match="found no truth about it"):
        compare_steps(judged, truth[1:])
    (tmp_path / "truth.jsonl").write_text('{"index": "0"}\n', encoding="utf-8")
    with pytest.raises(DataError, match="not the truth of made-up biographies"):
        read_truth(tmp_path / "truth.jsonl")
