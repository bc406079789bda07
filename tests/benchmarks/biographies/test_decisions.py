"""Released decisions: every published figure, what each protocol makes of a small file, and files
that are broken."""

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

FIGURES = {  # ours: the authors'
    "factscore": "init_score",
    "factscore_penalised": "score",
    "d_factscore": "init_global_score",
    "num_entities": "num_supporting_topics",
    "num_biographies": "num_groups",
    "respond_ratio": "respond_ratio",
    "facts_per_response": "num_facts_per_response",
    "num_nan": "nan",
}
MODELS = (
    "chatgpt-0301__ambig",
    "chatgpt-0301__no-ambig",
    "llama2-13b-chat__ambig",
    "llama2-13b-chat__no-ambig",
)


def fact(text, topic="Ada Lind (painter)", supported=None):
    return {
        "atom": text,
        "is_supported": topic is not None if supported is None else supported,
        "supporting_topic": topic,
    }


@pytest.fixture
def write(tmp_path):
    """A function that writes a decision file and reads it."""

    def make(facts, grouped, **figures):
        path = tmp_path / "decisions.json"
        path.write_text(
            json.dumps({"decisions": facts, "global_decisions": grouped, **figures}),
            encoding="utf-8",
        )
        return read_decisions(path)

    return make


@pytest.mark.parametrize("model", MODELS)
def test_scores_equal_every_published_figure(shared, model):
    decisions = read_decisions(shared / "data" / "ambigbio" / "decisions" / f"{model}.json.gz")
    published = json.loads((shared / "reference" / "ambigbio_figures.json").read_text())[model]
    report = score_decisions(decisions)
    assert set(published) == set(FIGURES.values())
    for ours, theirs in FIGURES.items():
        assert report[ours] == pytest.approx(published[theirs], abs=1e-9), ours
    for key, (low, high) in report["intervals"].items():
        assert low < report[key] < high, key
    fixed = score_decisions(decisions, "fixed")
    bounds = fixed["unscored"]["d_factscore"]
    assert bounds["worst"] < fixed["d_factscore"] < bounds["best"]
    assert fixed["unscored"]["responses"] == published["nan"]


def test_protocols_differ_in_d_factscore_alone(write):
    """Two answered, one of them with nothing left after grouping; grouping lost "a" and made up
    "e"."""
    decisions = write(
        [
            [fact("a"), fact("b"), fact("c", None), fact("d", "Ada Lind (rower)")],
            None,
            [fact("f", None)],
        ],
        [[fact("b"), fact("c", None), fact("d", None), fact("e")], None, []],
        num_groups=1.5,
    )
    code, fixed = score_decisions(decisions), score_decisions(decisions, "fixed")
    for report in (code, fixed):
        assert report["factscore"] == pytest.approx((3 / 4 + 0) / 2)
        assert report["factscore_penalised"] == pytest.approx(3 / 4 * math.exp(1 - 10 / 4) / 2)
        assert report["num_entities"] == 1.0
        assert (report["respond_ratio"], report["facts_per_response"]) == (
            pytest.approx(2 / 3),
            2.5,
        )
        assert (report["num_nan"], report["num_biographies"], report["num_responses"]) == (
            1,
            1.5,
            2,
        )
        assert report["unscored"] == {
            "responses": 1,
            "facts": 2,
            "first_facts": 2,
            "facts_made_up": 1,
            "d_factscore": {"worst": 1 / 8, "best": (2 / 4 + 1) / 2},
        }
    assert (code["protocol"], code["d_factscore"]) == ("code", pytest.approx(2 / 4))
    assert (fixed["protocol"], fixed["d_factscore"]) == ("fixed", pytest.approx(1 / 3))
    assert fixed["difference"] == pytest.approx(3 / 4 - 1 / 3)  # over responses that have both


def test_facts_of_the_same_words_are_matched_in_order(write):
    decisions = write([[fact("x"), fact("b"), fact("b")]], [[fact("b"), fact("b", None)]])
    report = score_decisions(decisions, "fixed")
    assert report["d_factscore"] == 0.5
    assert report["unscored"]["facts"] == 1


SOUND = {"decisions": [[fact("a")]], "global_decisions": [[fact("a")]]}
BROKEN = {
    "no JSON": ("{", "decisions.json: "),
    "a list": ([], "expected a decision file"),
    "no decisions": ({"score": 1.0}, "decisions is missing; found .*score"),
    "lengths": (
        {**SOUND, "global_decisions": []},
        "entry 0: expected facts in both lists",
    ),
    "one null": ({**SOUND, "global_decisions": [None]}, "entry 0: expected facts in both lists"),
    "no facts": (
        {"decisions": [[]], "global_decisions": [[]]},
        r"decisions\[0\] is \[\]",
    ),
    "no responses": (
        {"decisions": [None], "global_decisions": [None]},
        "no responses in its 1 entries",
    ),
    "a text": ({**SOUND, "decisions": [["a"]]}, r"decisions\[0\]\[0\] is 'a'"),
    "no verdict": (
        {**SOUND, "global_decisions": [[{**fact("a"), "is_supported": "yes"}]]},
        r"global_decisions\[0\]\[0\].is_supported is 'yes'",
    ),
}


@pytest.mark.parametrize(("content", "expected"), BROKEN.values(), ids=BROKEN)
def test_a_broken_file_is_refused_and_named(tmp_path, content, expected):
    path = tmp_path / "decisions.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    with pytest.raises(DataError, match=expected) as error:
        read_decisions(path)
    assert str(path) in str(error.value)
