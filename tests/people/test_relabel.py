"""People in the judge's place: with the judge's own answers every metric stays as it is, with
others it is what follows."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lm_factuality.benchmarks import all_benchmarks, find_benchmark
from lm_factuality.benchmarks.biographies.generations import generation_to_doc
from lm_factuality.benchmarks.biographies.link import link_groups
from lm_factuality.benchmarks.biographies.method import method_from_metadata as ambigbio
from lm_factuality.benchmarks.biographies.types import (
    Fact,
    GeneratedText,
    JudgedBiography,
    Judgement,
    RetrievedPassage,
)
from lm_factuality.benchmarks.longform.benchmark import long_form_method
from lm_factuality.benchmarks.pairs import sample_row_of
from lm_factuality.harness.samples import keep_verdict, read_samples
from lm_factuality.people.sheet import read_pool
from lm_factuality.results.read import read_results_files
from lm_factuality.results.recompute import is_same_value, recompute
from tests.conftest import task_result
from tests.people.conftest import felm_gen_sample

OUTCOMES = ("supported", "not_supported", "irrelevant")


def task_of(kind, **metadata):
    return task_result("task", kind, metadata=metadata)


def by_judge(people, task, sample):
    """The judge's own answers; None if it gave none to an item."""
    found = {item.id: item.judge for item in people.items(task, sample)}
    return None if None in found.values() else found


def assert_stays(task, sample):
    """With the judge's answers the metrics are, in JSON, those of the sample."""
    people = find_benchmark(task.kind).people
    said = by_judge(people, task, sample)
    if said is None:
        assert (
            people.relabel(
                task, sample, {key: value for key, value in (said or {}).items() if value}
            )
            is None
        )
        return
    changed = json.loads(json.dumps(people.relabel(task, sample, said)))
    before = json.loads(json.dumps(sample))
    assert all(
        is_same_value(changed[name], before[name])
        for name in before
        if name not in ("filtered_resps", "doc")
    )
    for item in list(said)[:3]:
        without = {key: value for key, value in said.items() if key != item}
        if not item.startswith("link:"):
            assert people.relabel(task, sample, without) is None
            assert people.relabel(task, sample, {**said, item: "skip"}) is None


def test_every_item_can_be_answered_as_the_judge_did_and_ids_are_its_own(runs):
    for name in ("gen", "felm", "bio"):
        pool = read_pool([runs], name)
        questions = {each.name: each for each in pool.questions}
        for unit in pool.units:
            assert len({item.id for item in unit.items}) == len(unit.items)
            for item in unit.items:
                options = item.options or questions[item.question].options
                assert item.judge is None or item.judge in [option.value for option in options]
                assert item.id.startswith(f"{item.question}:")


@given(
    st.lists(
        st.sampled_from([None, "knowledge", "reasoning", "fooled", "untyped"]),
        min_size=1,
        max_size=5,
    ),
    st.booleans(),
)
def test_segments_of_answers(errors, is_math):
    if is_math:
        errors = [error and "reasoning" for error in errors]
    task, sample = task_of("felm_gen"), felm_gen_sample(0, errors, "math" if is_math else "wk")
    assert_stays(task, sample)
    flipped = {
        f"segment:{place}": "factual" if error else "knowledge"
        for place, error in enumerate(errors)
    }
    changed = find_benchmark("felm_gen").people.relabel(task, sample, flipped)
    wrong = errors.count(None)
    assert changed["segment_error_rate"] == [wrong, len(errors)]
    assert changed["response_error_rate"] == [int(wrong > 0), 1]
    assert changed["errors_reasoning" if is_math else "errors_knowledge"] == wrong


def test_people_decide_what_the_judge_could_not(runs):
    people, task, sample = (
        find_benchmark("felm_gen").people,
        task_of("felm_gen"),
        felm_gen_sample(0, None),
    )
    assert people.relabel(task, sample, {"segment:0": "factual"}) is None
    changed = people.relabel(task, sample, {"segment:0": "factual", "segment:1": "fooled"})
    assert changed["unscored"] is None
    assert changed["segment_error_rate"] == [1, 2]
    refusal = felm_gen_sample(
        1, None, segments=[], no_answer="refusal", unscored="no answer: refusal"
    )
    assert people.items(task, refusal) == []
    assert people.relabel(task, refusal, {}) == refusal


@given(st.lists(st.sampled_from(["true", "false", "neutral", None]), min_size=1, max_size=4))
def test_marks_of_generations(marks):
    record = {
        "doc_id": "d",
        "sentences": [f"It opened in {1800 + place}." for place in range(len(marks))],
        "marks": marks,
        "reasons": [None if mark else "a tie between answers" for mark in marks],
        "unscored": None if any(marks) else "a tie between answers",
    }
    doc = {
        "doc_id": "d",
        "prefix": "A.",
        "stem": "It",
        "true": "It opened.",
        "false": "It closed.",
        "choices": ["a", "b"],
        "gold": 0,
    }
    doc |= {
        "error_type": "",
        "contradiction": 1,
        "mean_logprob": [-1.0, -2.0],
        "problem": "",
        "no_fact": "",
        "factor_acc": 1.0,
    }
    benchmark, task = find_benchmark("factor_generation"), task_of("factor_generation")
    sample = {
        "doc_id": 0,
        "doc": doc,
        "resps": [record["sentences"]],
        "filtered_resps": [json.dumps(record)],
    }
    sample |= benchmark.scoring.make_rescorer(task, ()).row_metrics(keep_verdict(sample))
    assert_stays(task, sample)
    every = {f"mark:{place}": "false" for place in range(len(marks))}
    assert sample_row_of(
        task, benchmark.page.samples, benchmark.people.relabel(task, sample, every)
    ).score_counts == {"accuracy_pooled": (0.0, float(len(marks)))}


@st.composite
def judged(draw, protocol, linking, has_entities=True):
    """A response of facts, some of the same text, in groups and beside pages, some missing."""
    size, pages = draw(st.integers(1, 6)), draw(st.integers(1, 3)) if has_entities else 1
    facts = tuple(Fact(f"Fact {draw(st.integers(0, size))}.", place) for place in range(size))
    titles = tuple(f"Ada ({place})" for place in range(pages)) if has_entities else ("",)
    missing = draw(st.sets(st.integers(0, pages - 1))) if has_entities else set()
    cells = {}
    for fact in facts:
        for page in range(pages):
            outcome = draw(
                st.sampled_from(
                    (*OUTCOMES, "unscored") if draw(st.integers(0, 9)) == 0 else OUTCOMES
                )
            )
            score = None if outcome == "unscored" else float(outcome == "supported")
            known = Judgement(outcome, score, "a reason", (f"Page {page}.",))
            cells.setdefault(
                (fact.text, page),
                Judgement("not_supported", 0.0, "no page: none") if page in missing else known,
            )
    matrix = tuple(tuple(cells[fact.text, page] for page in range(pages)) for fact in facts)
    people = [draw(st.integers(0, 2)) for _ in facts] if has_entities else [0] * size
    first = 1 if protocol == "code" else 0
    groups = tuple(
        tuple(place for place, each in enumerate(people) if each == person and place >= first)
        for person in draw(st.permutations(sorted(set(people))))
    )
    passages = tuple(
        RetrievedPassage(title, f"Page {place}.") for place, title in enumerate(titles) if title
    )
    given_ = GeneratedText(
        "0", "Who is Ada?", "Ada", " ".join(f"Sentence {place}." for place in range(size)), passages
    )
    sentences = tuple(f"Sentence {place}." for place in range(size))
    return JudgedBiography(
        given_,
        sentences,
        facts,
        groups,
        titles,
        matrix,
        link_groups(groups, titles, matrix, linking, protocol),
    )


def sample_of(kind, task, judged_, run):
    record = run.make_record(judged_)
    doc = {**generation_to_doc(judged_.generation), "topic": "", "evidence": "documents"}
    output = judged_.generation.output
    sample = {"doc_id": 0, "doc": doc, "resps": [[output]], "filtered_resps": [json.dumps(record)]}
    return sample | find_benchmark(kind).scoring.make_rescorer(task, ()).row_metrics(
        keep_verdict(sample)
    )


@pytest.mark.parametrize("protocol", ["paper", "code"])
@pytest.mark.parametrize("linking", ["greedy", "hungarian"])
@given(st.data())
@settings(max_examples=60, deadline=None)
def test_facts_groups_and_links_of_biographies(protocol, linking, data):
    task = task_of("ambigbio", protocol=protocol, linking=linking)
    biography = data.draw(judged(protocol, linking))
    sample = sample_of("ambigbio", task, biography, ambigbio(task.metadata))
    assert_stays(task, sample)
    people = find_benchmark("ambigbio").people
    every = {
        item.id: {"group": "1", "link": "skip", "verdict": "supported"}[item.question]
        for item in people.items(task, sample)
    }
    changed = people.relabel(task, sample, every)
    has_pages = [any(cell.evidence for cell in row) for row in biography.matrix]
    if all(has_pages):
        assert (changed["factscore"], changed["num_biographies"]) == (1.0, 1)


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_facts_of_long_answers(data):
    task = task_of("longform", k=[2])
    answer = data.draw(judged("paper", "greedy", has_entities=False))
    sample = sample_of("longform", task, answer, long_form_method(task.metadata))
    assert_stays(task, sample)
    people = find_benchmark("longform").people
    items = people.items(task, sample)
    assert {item.question for item in items} == {"verdict"}
    changed = people.relabel(task, sample, {item.id: "not_supported" for item in items})
    assert (changed["f1_at_k"], changed["precision"]) == (0.0, 0.0)


def test_a_response_with_two_people_in_one_biography():
    """A worked example: two facts, true of different people. One biography of the first scores 1/2,
    two score 1."""
    page = [
        Judgement("supported", 1.0, "", ("Page.",)),
        Judgement("not_supported", 0.0, "", ("Page.",)),
    ]
    given_ = GeneratedText(
        "0",
        "Who is Ada?",
        "Ada",
        "A. B.",
        (RetrievedPassage("Ada (baker)", "Page."), RetrievedPassage("Ada (sailor)", "Page.")),
    )
    facts, titles = (Fact("A.", 0), Fact("B.", 1)), ("Ada (baker)", "Ada (sailor)")
    matrix = (tuple(page), tuple(reversed(page)))
    one = JudgedBiography(given_, ("A.", "B."), facts, ((0, 1),), titles, matrix, (0,))
    task = task_of("ambigbio")
    sample = sample_of("ambigbio", task, one, ambigbio({}))
    people = find_benchmark("ambigbio").people
    said = by_judge(people, task, sample)
    assert said == {
        "group:1": "1",
        "link:1": "0",
        "link:2": "absent",
        "verdict:0:0": "supported",
        "verdict:0:1": "not_supported",
        "verdict:1:0": "not_supported",
        "verdict:1:1": "supported",
    }
    assert people.relabel(task, sample, said)["d_factscore"] == 0.5
    two = {**said, "group:1": "2", "link:2": "1"}
    assert people.relabel(task, sample, two)["d_factscore"] == 1.0
    assert people.relabel(task, sample, {**two, "link:2": "0"})["d_factscore"] == 0.5
    assert (
        people.relabel(task, sample, {**two, "link:2": "skip"})["d_factscore"] == 1.0
    )  # as equation 1 links
    assert people.relabel(task, sample, {**two, "link:2": "none"})["d_factscore"] == 0.5


def test_every_judged_benchmark_asks_people():
    assert {each.kind for each in all_benchmarks() if each.judging} <= {
        each.kind for each in all_benchmarks() if each.people
    }


SAMPLE = (
    "sample_felm_gen",
    "sample_factor_generation",
    "sample_ambigbio",
    "sample_longform",
    "sample_felm",
)


@pytest.mark.slow
def test_real_runs_of_the_sample_stay_as_they_are(tmp_path, checkpoint):
    """Through lm_eval: every score of every task, recomputed from relabelled samples, is that of
    the results."""
    from lm_factuality.cli.main import main

    model = checkpoint.with_name("larger")
    options = [
        "--gen_kwargs",
        "max_gen_toks=40",
        "--limit",
        "5",
        "--device",
        "cpu",
        "--log_samples",
    ]
    run = [
        "run",
        "--model",
        "hf",
        "--model_args",
        f"pretrained={model}",
        "--tasks",
        ",".join(SAMPLE),
    ]
    assert main([*run, *options, "--output_path", str(tmp_path)]) == 0
    (file,) = read_results_files([tmp_path])
    asked = Counter()
    for name in SAMPLE:
        task = file.task(name)
        people, samples = find_benchmark(task.kind).people, list(read_samples(task.samples))
        said = [by_judge(people, task, sample) for sample in samples]
        again = [
            sample if each is None else people.relabel(task, sample, each)
            for sample, each in zip(samples, said, strict=True)
        ]
        found = recompute(task, json.loads(json.dumps(again)))
        assert {
            key: value for key, value in found.metrics.items() if value == value
        } == pytest.approx({key: value for key, value in task.metrics.items() if value == value})
        asked[name] = sum(map(len, filter(None, said)))
    assert all(asked[name] for name in SAMPLE), asked
