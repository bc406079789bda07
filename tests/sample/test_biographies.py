from __future__ import annotations

import pytest

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
QUESTIONS = "sample_ambigbio.json"
GENERATIONS = "sample_ambigbio_generations.json"
TRUTH = "sample_ambigbio_truth.jsonl"


@pytest.fixture(scope="module")
def written_biographies():
    """Return the committed biographies with the truth about each claim."""
    return read_biographies(SAMPLE / TRUTH)


@pytest.fixture(scope="module")
def generations():
    """Return the responses that the committed file has, one for each biography."""
    return read_generations([SAMPLE / GENERATIONS])


def judge_with_all_knowledge(generation, biography):
    """Judge a response as a judge that knows everything would. Each claim is a fact."""
    facts, rows, groups = [], [], {}
    for number, sentence in enumerate(biography.sentences):
        for claim in sentence.claims:
            groups.setdefault(sentence.individual, []).append(len(facts))
            facts.append(Fact(f"{biography.name}: {claim.words}", number))
            rows.append(
                tuple(
                    Judgement("supported" if title in claim.supported_by else "not_supported")
                    for title in generation.entities
                )
            )
    fact_groups = tuple(tuple(group) for group in groups.values())
    return JudgedBiography(
        generation,
        tuple(sentence.text for sentence in biography.sentences),
        tuple(facts),
        fact_groups,
        generation.entities,
        tuple(rows),
        link_groups(fact_groups, generation.entities, rows),
        abstained=biography.abstained,
    )


@pytest.fixture(scope="module")
def judged(generations, written_biographies):
    """Return all biographies as a judge that knows everything judges them."""
    pairs = zip(generations, written_biographies, strict=True)
    return [judge_with_all_knowledge(generation, biography) for generation, biography in pairs]


@pytest.fixture(scope="module")
def truth():
    """Return the true scores of the committed biographies."""
    return read_truth(SAMPLE / TRUTH)


def test_seed_reproduces_the_committed_files(tmp_path):
    """Anyone can build the files again, byte for byte, and see that nobody edited them by hand."""
    num_biographies = write_biographies(build_world(0), tmp_path)

    assert num_biographies > 80
    for name in (QUESTIONS, GENERATIONS, TRUTH):
        assert (tmp_path / name).read_bytes() == (SAMPLE / name).read_bytes(), (
            f"run: make sample ({name} is stale)"
        )


def test_a_judge_that_knows_everything_agrees_with_the_truth(judged, truth):
    """If a judge without errors got other scores, the comparison itself would be wrong."""
    comparisons = compare_with_truth(judged, truth)

    for comparison in comparisons:
        assert comparison.judge == pytest.approx(comparison.truth, abs=1e-12)
        assert comparison.pearson == pytest.approx(1)


def test_a_biography_without_a_truth_is_refused(judged, truth):
    """A mean of the others would be of other biographies than the judge's."""
    truth_without_the_first = truth[1:]

    with pytest.raises(DataError, match="found no truth about it"):
        compare_with_truth(judged, truth_without_the_first)


def test_truth_file_in_another_format_is_refused(tmp_path):
    """The line is an object in JSON, but says nothing about claims."""
    path = tmp_path / "truth.jsonl"
    path.write_text('{"index": "0"}\n', encoding="utf-8")

    with pytest.raises(DataError, match="not the truth of made-up biographies"):
        read_truth(path)
