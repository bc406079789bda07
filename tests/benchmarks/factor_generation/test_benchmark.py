"""FACTOR in open generation: the minimal fact of a row, what counts as a sentence, what a judge
says, and the table."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.answers import Answer
from judges.config import load_judge_config
from judges.judge import Judge
from judges.typed import read_reply
from lm_factuality.benchmarks.factor.rows import make_row
from lm_factuality.benchmarks.factor_generation.facts import (
    FALSE,
    NEUTRAL,
    NO_WORD,
    TRUE,
    Mark,
    MarkReply,
    complete_sentence,
    end_of_prefix,
    find_first_difference,
    find_minimal_fact,
    majority_mark,
)
from lm_factuality.benchmarks.factor_generation.judging import (
    FACTOR_GENERATION,
)
from lm_factuality.benchmarks.factor_generation.tally import (
    RIGHT,
    UNSPLIT,
    WEIGHTED,
    WRONG,
    accuracy_bound,
    subset_score,
    sums_by_document,
    tally_row,
    why_undefined,
)
from tests.judges.server import Act

KEEPER = "Its first keeper was a sailor from the north."


@pytest.mark.parametrize(
    ("true", "false", "stem", "edits"),
    [
        (
            KEEPER,
            "Its first keeper was a baker from the north.",
            "Its first keeper was a",
            ("sailor", "baker"),
        ),
        (
            KEEPER,
            "Its first keeper was a sailor from the south.",
            "Its first keeper was a sailor from the",
            ("north", "south"),
        ),
        (KEEPER, "Its last keeper was a sailor from the north.", "Its", ("first", "last")),
        (
            "Rates rose to 6.52% in May.",
            "Rates rose to 5.33% in May.",
            "Rates rose to",
            ("6.52%", "5.33%"),
        ),
        (
            "It fell to $1.0075 today.",
            "It fell to $1.02 today.",
            "It fell to",
            ("$1.0075", "$1.02"),
        ),
        (
            "She went by the U.S. border.",
            "She went by the U.K. border.",
            "She went by the",
            ("U.S", "U.K"),
        ),
        (
            "The well-known tower fell.",
            "The well-kept tower fell.",
            "The",
            ("well-known", "well-kept"),
        ),
        ("In 1990, Ann left.", "In 1990, Ben left.", "In 1990,", ("Ann", "Ben")),
        ("In 1990, Ann left.", "In 1990 Ben left.", "In 1990", ("Ann", "Ben")),
        (
            'They called it "Blue" then.',
            'They called it "Red" then.',
            "They called it",
            ("Blue", "Red"),
        ),
        ("The bridge (iron) stands.", "The bridge (wood) stands.", "The bridge", ("iron", "wood")),
        (
            "The bridge was built.",
            "The bridge was never built.",
            "The bridge was",
            ("built", "never built"),
        ),
        (
            "The bridge was never built.",
            "The bridge was built.",
            "The bridge was",
            ("never built", "built"),
        ),
        (
            "The tall bridge and the old tower fell.",
            "The low bridge and the new tower fell.",
            "The",
            ("tall", "low"),
        ),
        (
            "It fell in 1800 ,then rose .",
            "It fell in 1800, then sank.",
            "It fell in 1800 ,then",
            ("rose", "sank"),
        ),
        ("It fell , then rose .", "It fell, then sank.", "It fell , then", ("rose", "sank")),
        (
            "Yields fell 3%,%, with a rise.",
            "Yields fell 3%, with a drop.",
            "Yields fell 3%,%, with a",
            ("rise", "drop"),
        ),
        ("She left early.", "He left early.", "", ("She", "He")),
        ("Ann Grey left early.", "Ben Grey left early.", "", ("Ann", "Ben")),
        ("Nobody left.", "Ann Grey came.", "", ("Nobody left", "Ann Grey came")),
        ("  The bridge is iron.", "The bridge is wood.", "The bridge is", ("iron", "wood")),
        ("Il était à Orléans.", "Il était à Angers.", "Il était à", ("Orléans", "Angers")),
    ],
)
def test_the_first_difference(true, false, stem, edits):
    edit = find_first_difference(true, false)
    assert (edit.stem, (edit.true_edit, edit.false_edit)) == (stem, edits)


@pytest.mark.parametrize(
    ("true", "false", "problem"),
    [
        (KEEPER, KEEPER, "differ in no word"),
        ("It fell , then rose .", "It fell, then rose.", "differ in no word"),
        ("...", "!", "differ in no word"),
        ("She left early.", "She left.", "nothing of the false completion is left"),
        ("She left.", "She left early.", "nothing of the true completion is left"),
        ("", "She left.", "nothing of the true completion is left"),
        ("She left.", "...", "nothing of the false completion is left"),
    ],
)
def test_completions_that_ask_nothing(true, false, problem):
    with pytest.raises(ValueError, match=problem):
        find_first_difference(true, false)


_words = st.lists(
    st.sampled_from(["the", "Ann", "1,200", "U.S.", "(so)", "-", '"x"', "é"]), max_size=8
).map(" ".join)


@given(_words, _words)
def test_the_stem_and_the_edit_are_what_the_completion_says(true, false):
    try:
        edit = find_first_difference(true, false)
    except ValueError:
        return
    assert edit.true.startswith(edit.stem)
    assert edit.true_edit in edit.true[len(edit.stem) :]
    assert edit.false_edit in edit.false
    assert edit.true_edit != edit.false_edit


def row(prefix, *choices, types=("entity", "predicate")):
    return make_row("rows.csv:2", "d1", prefix, choices, 0, ("", *types)[: len(choices)])


BAKER = "Its first keeper was a baker from the north."


@pytest.mark.parametrize(
    ("prefix", "true", "false", "prompt"),
    [
        ("It opened in 1870. ", KEEPER, BAKER, "It opened in 1870. Its first keeper was a"),
        ("It opened in 1870.\n", KEEPER, BAKER, "It opened in 1870.\nIts first keeper was a"),
        ("It opened in 1870.  ", KEEPER, BAKER, "It opened in 1870.  Its first keeper was a"),
        ("Answer:", KEEPER, BAKER, "Answer:Its first keeper was a"),  # as the authors join
        ("", KEEPER, BAKER, "Its first keeper was a"),
        # Nothing is common, so the prompt is the prefix alone.
        ("It rained.  ", "She left.", "He left.", "It rained."),
        ("It rained.\n", "She left.", "He left.", "It rained.\n"),
        ("  ", "She left.", "He left.", ""),
    ],
)
def test_prompts_are_joined_as_for_scoring(prefix, true, false, prompt):
    fact = find_minimal_fact(row(prefix, true, false))
    assert fact.prompt == prompt
    assert bool(fact.no_fact) == (not prompt)


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (
            "first",
            (1, "entity", "Its", "It opened."),
        ),  # nothing is common, so the prompt is the prefix alone
        ("entity", (1, "entity", "Its", "It opened.")),
        ("predicate", (2, "predicate", "was", "It opened. Its first keeper")),
        ("link", "type 'link'"),
    ],
)
def test_which_contradiction(choice, expected):
    fact = find_minimal_fact(
        row(
            "It opened. ",
            KEEPER,
            "Her first keeper was a sailor.",
            "Its first keeper had a sailor.",
        ),
        choice,
    )
    if isinstance(expected, str):
        assert expected in fact.no_fact
    else:
        assert (fact.contradiction, fact.error_type, fact.true_edit, fact.prompt) == expected


@pytest.mark.parametrize(
    ("source", "spacing", "usable"),
    [
        ("news_factor", "published", 736),
        ("expert_factor", "published", 236),
        ("expert_factor", "normalised", 236),
    ],
)
def test_published_rows(source, spacing, usable, shared):
    from lm_factuality.benchmarks.factor.corpus import parse_corpus
    from lm_factuality.benchmarks.factor.load import load_corpus

    corpus = parse_corpus({"task": source, "metadata": {"source": source, "spacing": spacing}})
    rows = load_corpus(corpus, shared / "data" / "factor").rows
    facts = [find_minimal_fact(each) for each in rows]
    assert sum(not fact.no_fact for fact in facts) == usable
    for each, fact in zip(rows, facts, strict=True):
        if not fact.no_fact:
            assert fact.prompt.startswith(each.prefix.rstrip(" "))
            assert not fact.prompt.endswith(" ")


@pytest.mark.parametrize(
    ("stem", "generation", "sentence"),
    [
        ("He was a", " baker. He then left.", "He was a baker."),
        ("He was a", "baker. He then left.", "He was a baker."),
        ("He was a", " baker", "He was a baker"),
        ("He was a", ", some say. So", "He was a, some say."),
        ("He was a", " baker\nHe was", "He was a baker"),
        ("He was a", "\n\n baker? No.", "He was a baker?"),
        ("He met", " Dr. Grey in St. Odd. Then", "He met Dr. Grey in St. Odd."),
        ("He met the U.S.", " envoy. Then", "He met the U.S. envoy."),
        ("It fell to", " 1.5 points. Then", "It fell to 1.5 points."),
        ("Sold by Odd Bros.", " Pictures in May. Then", "Sold by Odd Bros. Pictures in May."),
        ("", " He was a baker. He then left.", "He was a baker."),
        ("", "He met Dr. Grey. Then", "He met Dr. Grey."),
        ("", "\n", None),
        ("He was a", "", None),
        ("He was a", " \n", None),
        ("He was a", " ...", None),
    ],
)
def test_a_generation_ends_with_its_sentence(stem, generation, sentence):
    assert complete_sentence(stem, generation) == sentence


def test_a_judge_sees_the_end_of_the_prefix():
    assert end_of_prefix(" short. \n") == "short."
    cut = end_of_prefix("word " * 400)
    assert cut.startswith("... word word")
    assert len(cut) <= 604


def read(reply):
    """``reply`` as a judge's answer, or the mark of one."""
    if isinstance(reply, str):
        reply = Answer(json.dumps({"reason": "so", "mark": reply}))
    return read_reply(reply, MarkReply, {})


@pytest.mark.parametrize(
    ("replies", "expected"),
    [
        ([TRUE], Mark(TRUE)),
        ([TRUE, FALSE, TRUE], Mark(TRUE)),
        ([Answer("?"), FALSE, Answer("?")], Mark(FALSE)),
        ([NEUTRAL], Mark(NEUTRAL)),
        ([TRUE, FALSE], Mark(None, "a tie between answers")),
        ([Answer("?"), Answer("")], Mark(None, "no JSON object")),
        (["maybe"], Mark(None, "wrong form: mark: Input should be 'true', 'false' or 'neutral'")),
        ([Answer('{"mark": "true"}')], Mark(None, "wrong form: reason: Field required")),
        ([Answer("It says that", "length")], Mark(None, "cut off")),
        (
            [Answer(None, error="HTTP 500 after 6 tries")],
            Mark(None, "judge error: HTTP 500 after 6 tries"),
        ),
    ],
)
def test_replies_and_votes(replies, expected):
    assert majority_mark([read(each) for each in replies]) == expected


def document(number=0, means=(-1.0, -2.0, -3.0, -4.0), no_fact="", problem="", **changes):
    """As ``lm_factuality.benchmarks.factor_generation.task`` makes it of a row about a keeper."""
    return {
        "doc_id": f"d{number}",
        "prefix": "The library opened in 1870. ",
        "problem": problem,
        "no_fact": no_fact,
        "choices": [KEEPER, "a", "b", "c"],
        "gold": 0,
        "contradiction": -1 if no_fact else 1,
        "mean_logprob": list(means),
        "factor_acc": None,
        "stem": "Its first keeper was a",
        "true": KEEPER,
        "false": "Its first keeper was a baker from the north.",
        "true_edit": "sailor",
        "false_edit": "baker",
        **changes,
    }


def verdict(*marks):
    return {"marks": list(marks), "reasons": [None if mark else "unread" for mark in marks]}


RIGHT_ROW, WRONG_ROW, UNSPLIT_ROW = (-1, -2, -3, -4), (-3, -2, -4, -1), (None, None, None, None)


def test_the_table_by_hand():
    docs = [
        document(0),
        document(0),
        document(1, WRONG_ROW),
        document(2, UNSPLIT_ROW),
        document(3, WRONG_ROW, "differ at once"),
    ]
    verdicts = [
        verdict(TRUE, FALSE, NEUTRAL),
        verdict(TRUE, TRUE, None),
        verdict(FALSE, FALSE, TRUE),
        verdict(TRUE),
        verdict(),
    ]
    summary = FACTOR_GENERATION.summarise(docs, verdicts)
    values = {name: entry["value"] for name, entry in summary.items() if "accuracy" in name}
    # Right in all three pairs of two rows and in one of three of two others, one of which has no
    # generations.
    true, false = (2 * 3 / 5 + 1 / 3) / 3, (2 * 1 / 5 + 2 / 3) / 3
    assert values == {
        "accuracy_right": 3 / 4,
        "accuracy_wrong": 1 / 3,
        "accuracy": pytest.approx(true / (true + false)),
        "accuracy_pooled": 5 / 8,
    }
    assert summary["true"]["value"] == pytest.approx(true)
    assert summary["false_wrong"]["value"] == 2 / 3
    assert summary["pairs_right"]["value"] == 8 / 12
    rows = {name: entry["rows"] for name, entry in summary.items() if name.startswith("true")}
    assert rows == {"true_right": 2, "true_wrong": 1, "true": 3, "true_pooled": 4}
    assert summary["pairs_right"]["rows"] == 4
    assert summary["accuracy"]["worst"] < values["accuracy"] < summary["accuracy"]["best"]
    counts = {"true": 5, "false": 3, "neutral": 1}
    assert (summary["rows"], summary["generations"]) == (5, counts)
    assert summary["without_fact"] == {"differ at once": 1}
    assert summary["unscored"] == {"unread": 1}
    _, rows, notes = FACTOR_GENERATION.summary_table(summary)
    assert ["True of true and false, %", "59.0"] in [list(row[:2]) for row in rows]
    assert "Unscored: unread 1." in notes


@pytest.mark.parametrize(
    ("right", "wrong", "weight", "expected"),
    [
        (
            (11.3, 26.3, 62.4),
            (5.4, 45.8, 48.8),
            0.787,
            {"accuracy": 24.8, "true": 10.0, "false": 30.5, "neutral": 59.5},
        ),
        (
            (21.4, 24.5, 54.1),
            (2.1, 42.8, 55.1),
            0.81,
            {"accuracy": 38.8, "true": 17.7, "neutral": 54.3},
        ),
    ],
)
def test_the_weighted_rows_of_the_papers_table_6(right, wrong, weight, expected):
    """Out of its right and wrong rows. The weights are not printed; they are what the neutral
    column needs. The share of false ones for OPT-66B, printed as 28.4, is left out: its row does
    not add up to 100."""
    sums = [*right, 0, *wrong, 0, 0, 0, 0, 0, weight, 1]
    assert subset_score(sums, RIGHT, "accuracy") == pytest.approx(right[0] / (right[0] + right[1]))
    for name, value in expected.items():
        assert 100 * subset_score(sums, WEIGHTED, name) == pytest.approx(value, abs=0.06)


R, W, NONE = [3, 1, 0, 0], [1, 3, 0, 0], [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("right", "wrong", "pairs", "worst", "best", "reason"),
    [
        (R, W, (3, 4), 0.625, 0.625, ""),
        (
            R,
            NONE,
            (3, 4),
            0.5625,
            0.8125,
            "the model is wrong in 25.0% of pairs, but no generation of such a row has a mark",
        ),
        (R, [0, 0, 0, 3], (3, 4), 0.5625, 0.8125, "wrong in 25.0%"),
        (NONE, W, (3, 4), 0.0625, 0.8125, "the model is right in 75.0% of pairs"),
        (R, NONE, (4, 4), 0.75, 0.75, ""),  # no pair is wrong, so none has to be known
        (
            [0, 0, 3, 0],
            [0, 0, 2, 0],
            (3, 4),
            0.0,
            1.0,
            "no generation is marked true or false",
        ),
        (
            [0, 0, 2, 1],
            NONE,
            (4, 4),
            0.0,
            1.0,
            "no generation is marked true or false",
        ),
        (R, W, (0, 0), 0.0, 1.0, "no pair of a true and a false completion has scores"),
        (NONE, NONE, (0, 0), 0.0, 1.0, "no pair"),
    ],
)
def test_bounds_are_numbers_though_the_accuracy_is_none(right, wrong, pairs, worst, best, reason):
    sums = [*right, *wrong, *NONE, *pairs]
    assert (accuracy_bound(sums, FALSE), accuracy_bound(sums, TRUE)) == pytest.approx((worst, best))
    assert reason in why_undefined(sums)
    is_undefined = math.isnan(subset_score(sums, WEIGHTED, "accuracy"))
    assert is_undefined == bool(why_undefined(sums)) == bool(reason)


def test_a_tie_is_not_right_and_scores_that_are_missing_tell_nothing():
    assert tally_row(document(means=(-2, -2, -1, None)), verdict(TRUE))[1:] == (
        WRONG,
        [1, 0, 0, 0],
        0,
        2,
    )
    assert tally_row(document(problem="choice 3 is empty", no_fact="x"), verdict())[3:] == (0, 0)


@pytest.mark.parametrize("gold", [-1, 4])
def test_a_row_without_its_gold_is_in_neither_subset(gold):
    assert tally_row(document(gold=gold), verdict(TRUE))[1:] == (UNSPLIT, [1, 0, 0, 0], 0, 0)


@pytest.mark.parametrize("row", [0, 1])
def test_an_accuracy_is_of_rows_with_a_true_or_a_false_generation(row):
    verdicts = [verdict(NEUTRAL), verdict(FALSE)][: row + 1]
    summary = FACTOR_GENERATION.summarise([document(0), document(1)][: row + 1], verdicts)
    assert (summary["accuracy"]["rows"], summary["neutral"]["rows"]) == (row, row + 1)


def test_a_document_needs_its_contradiction_but_no_accuracy_of_the_model():
    doc = document()
    del doc["factor_acc"]
    assert FACTOR_GENERATION.document_problem(doc, ["x"]) is None
    assert FACTOR_GENERATION.row_metrics(doc, verdict(TRUE))["factor_acc"] is None
    del doc["contradiction"]
    assert "contradiction is missing" in (FACTOR_GENERATION.document_problem(doc, ["x"]) or "")


def test_documents_are_drawn_whole():
    tallies = [
        tally_row(document(0), verdict(TRUE)),
        tally_row(document(0), verdict(FALSE)),
        tally_row(document(1), verdict(TRUE)),
    ]
    assert [list(sums[:3]) for sums in sums_by_document(tallies)] == [[1, 1, 0], [1, 0, 0]]


RESPONSES = [[" sailor. He", " baker who sang", " quiet man.", ""]]


def test_the_lexical_judge_looks_for_both_wordings(tmp_path):
    docs = [
        *[document()],
        document(1, true_edit="he", false_edit="she"),
        document(2, no_fact="differ at once"),
    ]
    responses = [RESPONSES[0], [" he"], []]
    with Judge.open(load_judge_config("lexical"), tmp_path / "answers.sqlite") as judge:
        ((step, plan),) = FACTOR_GENERATION.plan_questions(judge, docs, responses)
        assert (step, plan.to_send) == ("marking", 6)
        first, second, third = FACTOR_GENERATION.judge(judge, docs, responses)
    assert first["marks"] == [TRUE, FALSE, NEUTRAL, None]
    assert first["reasons"] == [None, None, None, NO_WORD]
    assert first["sentences"][:2] == [
        "Its first keeper was a sailor.",
        "Its first keeper was a baker who sang",
    ]
    assert (second["marks"], second["unscored"]) == (
        [None],
        "the wordings differ in no content word, all that the lexical judge sees",
    )
    assert (third["marks"], third["unscored"]) == ([], "differ at once")


def mark_by_rule(prompt, attempt):
    """True or false if the model's sentence has that wording."""
    sentence = prompt.split("as the model finished it", 1)[1].split("\n", 2)[1]
    true, false = (
        prompt.split('the correct sentence has "', 1)[1]
        .split('".', 1)[0]
        .split('", the incorrect one "')
    )
    found = [label for edit, label in ((true, TRUE), (false, FALSE)) if edit in sentence]
    return Act(text=json.dumps({"reason": "by rule", "mark": found[0] if found else NEUTRAL}))


def test_a_judge_behind_a_server_is_asked_once_for_each_sentence(server, config, tmp_path):
    server.script = mark_by_rule
    with Judge.open(config(), tmp_path / "answers.sqlite") as judge:
        docs, responses = [document(), document(1)], [RESPONSES[0], [" sailor. Then"]]
        first, second = FACTOR_GENERATION.judge(judge, docs, responses)
    assert first["marks"] == [TRUE, FALSE, NEUTRAL, None]
    assert second["marks"] == [TRUE]
    assert len(server.bodies) == 3  # the sentence of the second document was asked about already
    prompt = server.bodies[0]["messages"][-1]["content"]
    for part in ("The library opened in 1870.", KEEPER, '"sailor"', '"baker"'):
        assert part in prompt


def test_a_judge_that_is_down_leaves_a_record():
    record = FACTOR_GENERATION.unscored_record(document(), RESPONSES[0], "the judge failed")
    assert record["reasons"] == ["the judge failed"] * 3 + [NO_WORD]
    assert record["unscored"] == "the judge failed"


@pytest.mark.parametrize(
    ("changes", "responses", "problem"),
    [
        ({"stem": None}, ["a"], "stem is empty; expected a valid string"),
        ({"choices": "x"}, ["a"], "choices is 'x'; expected a valid list"),
        ({"gold": None}, ["a"], "gold is empty; expected a valid integer"),
        ({"mean_logprob": [1.0]}, ["a"], "mean_logprob"),
        ({"mean_logprob": ["x"] * 4}, ["a"], "mean_logprob"),
        ({}, [], "expected at least one"),
        ({"no_fact": "x"}, ["a"], "expected none"),
    ],
)
def test_samples_that_cannot_be_judged(changes, responses, problem):
    assert problem in FACTOR_GENERATION.document_problem(document(**changes), responses)
