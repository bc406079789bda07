"""Released decisions: the published figures, the scores by two protocols, and broken files."""

import json
import math

import pytest

from lm_factuality.benchmarks.biographies.decisions import (
    read_decisions,
)
from lm_factuality.benchmarks.biographies.released import (
    score_decisions,
)
from lm_factuality.ground.errors import DataError

AUTHORS_NAMES = {
    "factscore": "init_score",
    "factscore_penalised": "score",
    "d_factscore": "init_global_score",
    "num_entities": "num_supporting_topics",
    "num_biographies": "num_groups",
    "respond_ratio": "respond_ratio",
    "facts_per_response": "num_facts_per_response",
    "num_nan": "nan",
}
"""The authors' name of each of our scores."""

RELEASED_SETS = (
    "chatgpt-0301__ambig",
    "chatgpt-0301__no-ambig",
    "llama2-13b-chat__ambig",
    "llama2-13b-chat__no-ambig",
)

PAINTER = "Ada Lind (painter)"
ROWER = "Ada Lind (rower)"


def make_fact(text, topic=PAINTER):
    """Make a fact in the form of the authors' files.

    Args:
        text: The fact.
        topic: The person whose page supports the fact. None if no page does.
    """
    return {"atom": text, "is_supported": topic is not None, "supporting_topic": topic}


@pytest.fixture
def read_file_of(tmp_path):
    """Return a function that writes a file of decisions and reads it.

    Its arguments are, for each response, the facts, and then the facts that were left after
    grouping. Keyword arguments are figures that the file states.
    """

    def write_and_read(facts, grouped_facts, **figures):
        path = tmp_path / "decisions.json"
        content = {"decisions": facts, "global_decisions": grouped_facts, **figures}
        path.write_text(json.dumps(content), encoding="utf-8")
        return read_decisions(path)

    return write_and_read


@pytest.fixture(params=RELEASED_SETS)
def released_set(request, shared):
    """Return the decisions of a released set, and the figures that the authors publish for it."""
    path = shared / "data" / "ambigbio" / "decisions" / f"{request.param}.json.gz"
    figures = json.loads((shared / "reference" / "ambigbio_figures.json").read_text())
    return read_decisions(path), figures[request.param]


def test_scores_equal_every_published_figure(released_set):
    """The authors' script computed the published figures from the same file."""
    decisions, figures = released_set

    report = score_decisions(decisions)

    scores = {theirs: report[ours] for ours, theirs in AUTHORS_NAMES.items()}
    assert scores == pytest.approx(figures, abs=1e-9)


def test_intervals_of_released_sets_contain_their_scores(released_set):
    """An interval that missed its own score would be computed of other rows."""
    decisions, _figures = released_set

    report = score_decisions(decisions)

    for name, (low, high) in report["intervals"].items():
        assert low < report[name] < high, name


def test_bounds_of_released_sets_contain_their_d_factscore(released_set):
    """The authors' script drops these responses, which grouping left without a fact."""
    decisions, figures = released_set

    report = score_decisions(decisions, "fixed")

    bounds = report["unscored"]["d_factscore"]
    assert bounds["worst"] < report["d_factscore"] < bounds["best"]
    assert report["unscored"]["responses"] == figures["nan"]


@pytest.fixture
def decisions(read_file_of):
    """Return decisions on two responses and an abstention.

    Of the first response, three of four facts are supported. Grouping lost the fact "a", made up
    the fact "e", and left "d" without support. Of the second, grouping left no fact.
    """
    return read_file_of(
        [
            [
                make_fact("a"),
                make_fact("b"),
                make_fact("c", None),
                make_fact("d", ROWER),
            ],
            None,
            [make_fact("f", None)],
        ],
        [
            [
                make_fact("b"),
                make_fact("c", None),
                make_fact("d", None),
                make_fact("e"),
            ],
            None,
            [],
        ],
        num_groups=1.5,
    )


PROTOCOLS = ("code", "fixed")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_factscore_covers_all_facts_in_each_protocol(decisions, protocol):
    """Grouping, which loses facts, does not change this score."""
    report = score_decisions(decisions, protocol)

    penalty = math.exp(1 - 10 / 4)  # the first response has four facts, fewer than ten
    assert report["factscore"] == pytest.approx((3 / 4 + 0) / 2)
    assert report["factscore_penalised"] == pytest.approx(3 / 4 * penalty / 2)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_each_protocol_counts_responses_facts_and_people(read_file_of, protocol):
    """The abstention counts in the respond ratio alone."""
    four_facts = [
        make_fact("a", topic=PAINTER),
        make_fact("b", topic=PAINTER),
        make_fact("c", topic=None),
        make_fact("d", topic=ROWER),
    ]
    one_fact = [make_fact("e", topic=None)]
    abstention = None
    decisions = read_file_of(
        [four_facts, abstention, one_fact], [four_facts, abstention, []], num_groups=1.5
    )

    report = score_decisions(decisions, protocol)

    assert report["num_responses"] == 2
    assert report["respond_ratio"] == pytest.approx(2 / 3)
    assert report["facts_per_response"] == (4 + 1) / 2
    assert report["num_entities"] == (2 + 0) / 2
    assert report["num_biographies"] == 1.5  # as the file says
    assert report["num_nan"] == 1  # grouping left no fact of the last response


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_each_protocol_counts_facts_lost_in_grouping(decisions, protocol):
    """The released files lose the first fact of nearly every response."""
    report = score_decisions(decisions, protocol)

    assert report["unscored"] == {
        "responses": 1,
        "facts": 2,  # "a" and "f"
        "first_facts": 2,
        "facts_made_up": 1,  # "e"
        # "b" is supported and "a" may be. The second response may have any score.
        "d_factscore": {"worst": 1 / 8, "best": (2 / 4 + 1) / 2},
    }


@pytest.mark.parametrize(
    ("protocol", "d_factscore"),
    [
        pytest.param("code", 2 / 3, id="the authors' script counts all facts after grouping"),
        pytest.param("fixed", 1 / 2, id="the model never told the invented fact"),
    ],
)
def test_only_protocol_code_counts_facts_invented_by_grouping(read_file_of, protocol, d_factscore):
    facts = [make_fact("a"), make_fact("b", topic=None)]
    facts_after_grouping = [*facts, make_fact("invented")]

    report = score_decisions(read_file_of([facts], [facts_after_grouping]), protocol)

    assert report["protocol"] == protocol
    assert report["d_factscore"] == pytest.approx(d_factscore)


def test_score_difference_uses_responses_with_both_scores(decisions):
    """The second response has no D-FActScore, as grouping left it no fact."""
    report = score_decisions(decisions, "fixed")

    factscore = 3 / 4  # "a", "b" and "d" of the four facts are supported
    d_factscore = 1 / 3  # after grouping "b" of "b", "c" and "d"
    assert report["difference"] == pytest.approx(factscore - d_factscore)


def test_identically_worded_facts_are_matched_in_order(read_file_of):
    """A response can state a fact twice, and grouping can lose another one."""
    facts = [make_fact("a"), make_fact("b"), make_fact("b")]
    facts_after_grouping = [
        make_fact("b"),  # the first "b" is supported
        make_fact("b", topic=None),  # the second "b" is not
    ]

    report = score_decisions(read_file_of([facts], [facts_after_grouping]), "fixed")

    assert report["d_factscore"] == 1 / 2
    assert report["unscored"]["facts"] == 1  # "a"


SOUND = {"decisions": [[make_fact("a")]], "global_decisions": [[make_fact("a")]]}
FACT_WITHOUT_VERDICT = {**make_fact("a"), "is_supported": "yes"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param("{", "decisions.json: ", id="no JSON"),
        pytest.param("[]", "expected a decision file", id="a list"),
        pytest.param(
            json.dumps({"score": 1.0}), "decisions is missing; found .*score", id="no decisions"
        ),
        pytest.param(
            json.dumps({**SOUND, "global_decisions": []}),
            "entry 0: expected facts in both lists",
            id="lists of two lengths",
        ),
        pytest.param(
            json.dumps({**SOUND, "global_decisions": [None]}),
            "entry 0: expected facts in both lists",
            id="an abstention in one list",
        ),
        pytest.param(
            json.dumps({"decisions": [[]], "global_decisions": [[]]}),
            r"decisions\[0\] is \[\]",
            id="a response without facts",
        ),
        pytest.param(
            json.dumps({"decisions": [None], "global_decisions": [None]}),
            "no responses in its 1 entries",
            id="abstentions alone",
        ),
        pytest.param(
            json.dumps({**SOUND, "decisions": [["a"]]}),
            r"decisions\[0\]\[0\] is 'a'",
            id="a text in place of a fact",
        ),
        pytest.param(
            json.dumps({**SOUND, "global_decisions": [[FACT_WITHOUT_VERDICT]]}),
            r"global_decisions\[0\]\[0\].is_supported is 'yes'",
            id="a fact without a verdict",
        ),
    ],
)
def test_broken_file_is_refused_by_name(tmp_path, content, message):
    """Scores of the readable part would look like those of the whole file."""
    path = tmp_path / "decisions.json"
    path.write_text(content, encoding="utf-8")

    with pytest.raises(DataError, match=message) as error:
        read_decisions(path)

    assert str(path) in str(error.value)
