"""Samples scored by people's answers: the judge's answers give its scores, others change them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lm_factuality.benchmarks import all_benchmarks, find_benchmark
from lm_factuality.benchmarks.biographies.generations import generation_to_doc
from lm_factuality.benchmarks.biographies.link import link_groups
from lm_factuality.benchmarks.biographies.method import AMBIGBIO, method_from_metadata
from lm_factuality.benchmarks.biographies.types import (
    Fact,
    GeneratedText,
    JudgedBiography,
    Judgement,
    RetrievedPassage,
)
from lm_factuality.benchmarks.longform.benchmark import long_form_method
from lm_factuality.benchmarks.pairs import sample_row_of
from lm_factuality.cli.main import main
from lm_factuality.harness.samples import keep_verdict, read_samples
from lm_factuality.people.sheet import read_pool
from lm_factuality.results.read import read_results_files
from lm_factuality.results.recompute import is_same_value, recompute
from tests.conftest import task_result
from tests.people.conftest import felm_gen_sample, refusal_sample


def task_of(kind, **metadata):
    """Return a task of a results file, of a kind of benchmark."""
    return task_result("task", kind, metadata=metadata)


def relabel(task, sample, answers):
    """Return the sample as people's answers by item change it, or None if they do not suffice."""
    return find_benchmark(task.kind).people.relabel(task, sample, answers)


def items_of(task, sample):
    """Return what people are asked about a sample."""
    return find_benchmark(task.kind).people.make_items(task, sample)


def judge_answers(task, sample):
    """Return the judge's own answers by item, or None if it left an item without a verdict."""
    answers = {item.id: item.judge for item in items_of(task, sample)}
    return None if None in answers.values() else answers


def assert_judge_answers_change_nothing(task, sample):
    """Assert that the judge's own answers change no value of a sample, and that each is needed.

    A sample that the judge left without a verdict cannot be scored without people's answers.
    """
    answers = judge_answers(task, sample)
    if answers is None:
        assert relabel(task, sample, {}) is None
        return

    # Values are compared as samples files store them.
    relabelled = json.loads(json.dumps(relabel(task, sample, answers)))
    original = json.loads(json.dumps(sample))
    for name in original.keys() - {"filtered_resps", "doc"}:
        assert is_same_value(relabelled[name], original[name])

    for item in list(answers)[:3]:
        if item.startswith("link:"):  # people may leave links to equation 1
            continue
        answers_to_others = {**answers}
        del answers_to_others[item]
        assert relabel(task, sample, answers_to_others) is None
        assert relabel(task, sample, {**answers, item: "skip"}) is None


@pytest.mark.parametrize("name", ["gen", "felm", "bio"])
def test_every_judge_verdict_is_a_possible_answer(runs, name):
    """People and judge can agree only if both choose from the same options."""
    pool = read_pool([runs], name)

    questions = {question.name: question for question in pool.questions}
    for unit in pool.units:
        for item in unit.items:
            if item.judge is None:
                continue
            options = item.options or questions[item.question].options
            assert item.judge in [option.value for option in options]


@pytest.mark.parametrize("name", ["gen", "felm", "bio"])
def test_item_ids_start_with_the_question_and_are_unique_per_unit(runs, name):
    """Answers are found by these ids."""
    for unit in read_pool([runs], name).units:
        ids = [item.id for item in unit.items]
        assert len(set(ids)) == len(ids)
        for item in unit.items:
            assert item.id.startswith(f"{item.question}:")


def segment_errors(*errors):
    """Return a strategy for the judge's verdicts on one to five segments: None or an error."""
    return st.lists(st.sampled_from([None, *errors]), min_size=1, max_size=5)


@given(segment_errors("knowledge", "reasoning", "fooled", "untyped"))
def test_answers_equal_to_the_judges_keep_the_scores_of_segments(errors):
    """People's scores can be compared with the judge's only if both are computed alike."""
    sample = felm_gen_sample(number=0, errors=errors)

    assert_judge_answers_change_nothing(task_of("felm_gen"), sample)


@given(segment_errors("reasoning"))
def test_answers_equal_to_the_judges_keep_the_scores_of_math_segments(errors):
    """Every error in mathematics counts as one of reasoning."""
    sample = felm_gen_sample(number=0, errors=errors, domain="math")

    assert_judge_answers_change_nothing(task_of("felm_gen"), sample)


@pytest.mark.parametrize(
    ("domain", "error_metric"), [("wk", "errors_knowledge"), ("math", "errors_reasoning")]
)
@given(errors=segment_errors("knowledge", "reasoning", "fooled", "untyped"))
def test_opposite_segment_answers_swap_errors(domain, error_metric, errors):
    """People find an error in exactly those segments in which the judge found none."""
    sample = felm_gen_sample(number=0, errors=errors, domain=domain)
    opposite_answers = {}
    for place, error in enumerate(errors):
        opposite_answers[f"segment:{place}"] = "knowledge" if error is None else "factual"

    relabelled = relabel(task_of("felm_gen"), sample, opposite_answers)

    num_factual_by_judge = errors.count(None)
    num_errors_by_people = num_factual_by_judge
    assert relabelled["segment_error_rate"] == [num_errors_by_people, len(errors)]
    assert relabelled["response_error_rate"] == [int(num_errors_by_people > 0), 1]
    assert relabelled[error_metric] == num_errors_by_people


def test_sample_without_verdict_is_not_scored_by_answers_to_some_items():
    """The judge has no verdict on the two segments, and people answer only one of them."""
    two_segments_without_verdict = felm_gen_sample(number=0, errors=None)

    relabelled = relabel(
        task_of("felm_gen"), two_segments_without_verdict, answers={"segment:0": "factual"}
    )

    assert relabelled is None  # the sample has no score by people


def test_people_can_decide_a_sample_without_verdict():
    two_segments_without_verdict = felm_gen_sample(number=0, errors=None)
    answers = {"segment:0": "factual", "segment:1": "fooled"}

    relabelled = relabel(task_of("felm_gen"), two_segments_without_verdict, answers)

    assert relabelled["unscored"] is None
    assert relabelled["segment_error_rate"] == [1, 2]  # one error in two segments


def test_refusal_has_no_items_and_stays_unchanged():
    """A refusal is counted by rules, which need no judge."""
    task = task_of("felm_gen")
    refusal = refusal_sample(number=1)

    assert items_of(task, refusal) == []
    assert relabel(task, refusal, {}) == refusal


def with_metrics(task, sample):
    """Return the sample with the metrics that follow from its record."""
    rescorer = find_benchmark(task.kind).scoring.make_rescorer(task, ())
    return {**sample, **rescorer.row_metrics(keep_verdict(sample))}


def generation_sample(marks):
    """Return a sample of FACTOR's generations, of a sentence for each mark; None is a tie."""
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
        "error_type": "",
        "contradiction": 1,
        "mean_logprob": [-1.0, -2.0],
        "problem": "",
        "no_fact": "",
        "factor_acc": 1.0,
    }
    sample = {
        "doc_id": 0,
        "doc": doc,
        "resps": [record["sentences"]],
        "filtered_resps": [json.dumps(record)],
    }
    return with_metrics(task_of("factor_generation"), sample)


sentence_marks = st.lists(
    st.sampled_from(["true", "false", "neutral", None]), min_size=1, max_size=4
)


@given(sentence_marks)
def test_answers_equal_to_the_judges_keep_the_scores_of_generations(marks):
    """People who mark sentences as the judge does get the same accuracy."""
    assert_judge_answers_change_nothing(task_of("factor_generation"), generation_sample(marks))


def score_counts_of(task, sample):
    """Return the counts of a sample in each score, such as true sentences and all sentences."""
    return sample_row_of(task, find_benchmark(task.kind).page.samples, sample).score_counts


@given(sentence_marks)
def test_generations_marked_false_have_an_accuracy_of_zero(marks):
    """Whatever the judge's marks were, people mark every sentence as false."""
    task = task_of("factor_generation")
    answers_of_people = {f"mark:{place}": "false" for place in range(len(marks))}

    relabelled = relabel(task, generation_sample(marks), answers_of_people)

    num_true, num_sentences = 0, len(marks)
    assert score_counts_of(task, relabelled) == {"accuracy_pooled": (num_true, num_sentences)}


@st.composite
def judgement_matrices(draw, facts, num_pages, has_missing_pages):
    """Draw a judgement of each fact beside each page, the same for facts of the same text."""
    missing = draw(st.sets(st.integers(0, num_pages - 1))) if has_missing_pages else set()
    judgements = {}
    for fact in facts:
        for page in range(num_pages):
            # About one verdict in ten may be missing.
            outcomes = ["supported", "not_supported", "irrelevant"]
            if draw(st.integers(0, 9)) == 0:
                outcomes.append("unscored")
            outcome = draw(st.sampled_from(outcomes))
            score = None if outcome == "unscored" else float(outcome == "supported")
            judgement = Judgement(outcome, score, "a reason", (f"Page {page}.",))
            if page in missing:
                judgement = Judgement("not_supported", 0.0, "no page: none")
            judgements.setdefault((fact.text, page), judgement)
    return tuple(tuple(judgements[fact.text, page] for page in range(num_pages)) for fact in facts)


@st.composite
def fact_groups(draw, num_facts, protocol):
    """Draw a person out of three for each fact, and return the facts of each person."""
    people = [draw(st.integers(0, 2)) for _ in range(num_facts)]
    first = 1 if protocol == "code" else 0  # the authors' code leaves out the first fact
    return tuple(
        tuple(fact for fact in range(first, num_facts) if people[fact] == person)
        for person in draw(st.permutations(sorted(set(people))))
    )


@st.composite
def judged_responses(draw, protocol, linking, has_entities=True):
    """Draw a judged response of up to six facts, in groups of a person each if it has entities."""
    num_facts = draw(st.integers(1, 6))
    facts = tuple(Fact(f"Fact {draw(st.integers(0, num_facts))}.", i) for i in range(num_facts))
    sentences = tuple(f"Sentence {i}." for i in range(num_facts))
    if has_entities:
        titles = tuple(f"Ada ({page})" for page in range(draw(st.integers(1, 3))))
        groups = draw(fact_groups(num_facts, protocol))
    else:
        titles = ("",)
        groups = (tuple(range(num_facts)),)
    matrix = draw(judgement_matrices(facts, len(titles), has_entities))
    passages = [
        RetrievedPassage(title, f"Page {page}.") for page, title in enumerate(titles) if title
    ]
    return JudgedBiography(
        generation=GeneratedText("0", "Who is Ada?", "Ada", " ".join(sentences), tuple(passages)),
        sentences=sentences,
        facts=facts,
        groups=groups,
        entities=titles,
        matrix=matrix,
        links=link_groups(groups, titles, matrix, linking, protocol),
    )


def response_sample(task, response, method):
    """Return the sample of a judged response."""
    sample = {
        "doc_id": 0,
        "doc": {**generation_to_doc(response.generation), "topic": "", "evidence": "documents"},
        "resps": [[response.generation.output]],
        "filtered_resps": [json.dumps(method.make_record(response))],
    }
    return with_metrics(task, sample)


@pytest.mark.parametrize("protocol", ["paper", "code"])
@pytest.mark.parametrize("linking", ["greedy", "hungarian"])
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_answers_equal_to_the_judges_keep_the_scores_of_biographies(protocol, linking, data):
    """People answer like the judge which facts are of one person, who that is and what is true."""
    task = task_of("ambigbio", protocol=protocol, linking=linking)
    biography = data.draw(judged_responses(protocol, linking))

    sample = response_sample(task, biography, method_from_metadata(task.metadata))

    assert_judge_answers_change_nothing(task, sample)


def has_pages_for_all_facts(biography):
    """Return whether each fact has a page. People are not asked about a fact without one."""
    for judgements_of_fact in biography.matrix:
        if not any(judgement.evidence for judgement in judgements_of_fact):
            return False
    return True


def answer_all_items(task, sample, **answer_by_question):
    """Give the same answer to all items of a question: ``verdict="supported"``, for example."""
    return {item.id: answer_by_question[item.question] for item in items_of(task, sample)}


@pytest.mark.parametrize("protocol", ["paper", "code"])
@pytest.mark.parametrize("linking", ["greedy", "hungarian"])
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_biography_of_one_person_with_all_facts_supported_has_a_factscore_of_one(
    protocol, linking, data
):
    """People put all facts into the group 1 and find them supported, whatever the judge found."""
    task = task_of("ambigbio", protocol=protocol, linking=linking)
    biography = data.draw(judged_responses(protocol, linking).filter(has_pages_for_all_facts))
    sample = response_sample(task, biography, method_from_metadata(task.metadata))
    answers = answer_all_items(task, sample, group="1", link="skip", verdict="supported")

    relabelled = relabel(task, sample, answers)

    assert relabelled["factscore"] == 1.0
    assert relabelled["num_biographies"] == 1


def long_answer_sample(data, task):
    """Draw a sample of the long-form task."""
    response = data.draw(judged_responses("paper", "greedy", has_entities=False))
    return response_sample(task, response, long_form_method(task.metadata))


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_answers_equal_to_the_judges_keep_the_scores_of_long_answers(data):
    """A long answer has verdicts alone, without groups and links."""
    task = task_of("longform", k=[2])

    assert_judge_answers_change_nothing(task, long_answer_sample(data, task))


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_long_answer_without_supported_facts_scores_zero(data):
    task = task_of("longform", k=[2])
    sample = long_answer_sample(data, task)
    assert {item.question for item in items_of(task, sample)} == {"verdict"}
    answers = answer_all_items(task, sample, verdict="not_supported")

    relabelled = relabel(task, sample, answers)

    assert relabelled["f1_at_k"] == 0.0
    assert relabelled["precision"] == 0.0


@pytest.fixture
def merged_biography():
    """Return the sample of a biography of two facts: one is of a baker, the other of a sailor.

    The judge takes both facts for facts of one person, and links that person to the baker.
    """
    titles = ("Ada (baker)", "Ada (sailor)")
    supported = Judgement("supported", 1.0, "", ("Page.",))
    not_supported = Judgement("not_supported", 0.0, "", ("Page.",))
    passages = tuple(RetrievedPassage(title, "Page.") for title in titles)
    biography = JudgedBiography(
        generation=GeneratedText("0", "Who is Ada?", "Ada", "A. B.", passages),
        sentences=("A.", "B."),
        facts=(Fact("A.", 0), Fact("B.", 1)),
        groups=((0, 1),),
        entities=titles,
        matrix=((supported, not_supported), (not_supported, supported)),
        links=(0,),
    )
    return response_sample(task_of("ambigbio"), biography, AMBIGBIO)


def test_judge_answers_are_groups_links_and_verdicts(merged_biography):
    assert judge_answers(task_of("ambigbio"), merged_biography) == {
        "group:1": "1",  # the second fact is of the same person as the first
        "link:1": "0",  # who is the baker, the entity 0
        "link:2": "absent",  # there is no second person
        "verdict:0:0": "supported",  # fact 0 by the page of the baker
        "verdict:0:1": "not_supported",
        "verdict:1:0": "not_supported",
        "verdict:1:1": "supported",  # fact 1 by the page of the sailor
    }


# Answers to the question which person a group of facts is about: an entity's number, or these.
BAKER = "0"
SAILOR = "1"
NOBODY = "none"
SKIPPED = "skip"
NO_SUCH_GROUP = "absent"


@pytest.mark.parametrize(
    ("group_of_sailors_fact", "person_of_group_2", "d_factscore"),
    [
        pytest.param("1", NO_SUCH_GROUP, 0.5, id="both facts in the baker's group"),
        pytest.param("2", SAILOR, 1.0, id="each fact linked to its person"),
        pytest.param("2", BAKER, 0.5, id="both groups linked to the baker"),
        # Without people's answer, equation 1 of the paper links the second group to the sailor.
        pytest.param("2", SKIPPED, 1.0, id="second link skipped"),
        pytest.param("2", NOBODY, 0.5, id="second group linked to nobody"),
    ],
)
def test_d_factscore_follows_from_groups_and_links(
    merged_biography, group_of_sailors_fact, person_of_group_2, d_factscore
):
    """The score is the share of the two facts that are true of the person they are linked to."""
    answers = {
        "group:1": group_of_sailors_fact,  # fact 0, of the baker, is always in group 1
        "link:1": BAKER,
        "link:2": person_of_group_2,
        "verdict:0:0": "supported",  # fact 0 is true of the baker, the entity 0
        "verdict:0:1": "not_supported",
        "verdict:1:0": "not_supported",
        "verdict:1:1": "supported",  # fact 1 is true of the sailor, the entity 1
    }

    relabelled = relabel(task_of("ambigbio"), merged_biography, answers)

    assert relabelled["d_factscore"] == d_factscore


def test_every_judged_benchmark_has_questions_for_people():
    """Without labels by people nobody can say how good a judge is."""
    for benchmark in all_benchmarks():
        if benchmark.judging:
            assert benchmark.people, benchmark.kind


SAMPLE_TASKS = (
    "sample_felm_gen",
    "sample_factor_generation",
    "sample_ambigbio",
    "sample_longform",
    "sample_felm",
)


@pytest.fixture(scope="module")
def sample_results(checkpoint, tmp_path_factory):
    """Run the sample's judged tasks on a real model, and return the results file."""
    folder = tmp_path_factory.mktemp("sample")
    arguments = ["run", "--model", "hf", "--device", "cpu", "--limit", "5", "--log_samples"]
    arguments += ["--model_args", f"pretrained={checkpoint.with_name('larger')}"]
    arguments += ["--tasks", ",".join(SAMPLE_TASKS), "--gen_kwargs", "max_gen_toks=40"]
    assert main([*arguments, "--output_path", str(folder)]) == 0
    (file,) = read_results_files([folder])
    return file


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLE_TASKS)
def test_answers_equal_to_the_judges_keep_the_scores_of_a_real_run(sample_results, name):
    """A real run has refusals and unscored rows that made-up samples may lack."""
    task = sample_results.task(name)
    relabelled = []
    num_answers = 0
    for sample in read_samples(task.samples):
        answers = judge_answers(task, sample)
        if answers is not None:
            sample = relabel(task, sample, answers)
            num_answers += len(answers)
        relabelled.append(sample)

    recomputed = recompute(task, json.loads(json.dumps(relabelled)))

    assert num_answers > 0
    assert recomputed.metrics == pytest.approx(task.metrics, nan_ok=True)
