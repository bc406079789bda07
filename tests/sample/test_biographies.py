from __future__ import annotations

import pytest

from bench.sample.biographies import build_biographies
from bench.sample.build import write_biographies
from bench.sample.claims import read_biographies
from bench.sample.world import build_world
from lm_factuality.benchmarks.biographies.generations import read_generations
from lm_factuality.benchmarks.biographies.link import link_groups
from lm_factuality.benchmarks.biographies.types import Fact, JudgedBiography, Judgement
from lm_factuality.ground.errors import DataError
from lm_factuality.sample.quickstart import compare_with_truth, read_truth
from tests.conftest import TASKS

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
        link_groups(found, generation.entities, rows),
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


def test_a_judge_that_knows_everything_agrees(judged):
    truth = read_truth(SAMPLE / NAMES[2])
    for comparison in compare_with_truth(judged, truth):
        assert comparison.judge == pytest.approx(comparison.truth, abs=1e-12)
        assert comparison.pearson == pytest.approx(1)


def test_the_truth_of_something_else_is_refused(judged, tmp_path):
    truth = read_truth(SAMPLE / NAMES[2])
    with pytest.raises(DataError, match="found no truth about it"):
        compare_with_truth(judged, truth[1:])
    (tmp_path / "truth.jsonl").write_text('{"index": "0"}\n', encoding="utf-8")
    with pytest.raises(DataError, match="not the truth of made-up biographies"):
        read_truth(tmp_path / "truth.jsonl")
