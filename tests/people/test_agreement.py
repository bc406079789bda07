"""Agreement on a sheet: who is held against whom, in which groups, by what weights, and what is
left out."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score, cohen_kappa_score, recall_score

from lm_factuality.ground.errors import ConfigError
from lm_factuality.people.agreement import JUDGE, TOGETHER, agreement_of
from lm_factuality.people.labels import Key, SheetItem, SheetSource, read_labels
from lm_factuality.scores.agreement import fleiss_kappa, krippendorff_alpha

SEGMENT = ("factual", "wrong")


def entry(
    number,
    judge="factual",
    question="segment",
    item=None,
    weight=1.0,
    strata=None,
    repeat_of=None,
    cluster=None,
):
    unit = f"u{repeat_of or number}"
    options = SEGMENT if question == "segment" else ("yes", "no")
    drawn = (0, unit, cluster or unit, "", strata or {}, 1 / weight, weight)
    item = item or f"{question}:0"
    return SheetItem(*drawn, number, item, question, options, judge, repeat_of)


def sheet(items, benchmark="felm"):
    questions = tuple(dict.fromkeys(each.question for each in items))
    return Key(
        benchmark, 0, questions, (), (SheetSource("results.json", "0"),), (), tuple(items)
    ).with_sheet_id()


def answered(tmp_path, key, answers):
    """Labels read from a file; ``answers`` by person, one an item of the sheet, "-" for none."""
    lines = ["sheet,number,question,answer,person,note"]
    for person, given in answers.items():
        words = {"f": "factual", "w": "wrong", "s": "skip", "y": "yes", "n": "no"}
        for each, letter in zip(key.items, given, strict=True):
            if letter != "-":
                lines.append(f"{key.sheet},{each.number},{each.question},{words[letter]},{person},")
    path = tmp_path / "labels.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return read_labels([path], key)


def cells(key, labels, by=""):
    return {
        (each.table, each.row, each.column): each.measure for each in agreement_of(key, labels, by)
    }


def test_figures_are_those_of_sklearn_and_of_the_coefficients(tmp_path):
    random = np.random.default_rng(3)
    truth = random.random(80) < 0.7
    wrong = {
        name: random.random(80) < rate
        for name, rate in (("judge", 0.25), ("ann", 0.1), ("ben", 0.1), ("cy", 0.1))
    }
    said = {name: ["fw"[int(each)] for each in truth == flips] for name, flips in wrong.items()}
    words = {"f": "factual", "w": "wrong"}
    key = sheet([entry(place + 1, words[letter]) for place, letter in enumerate(said["judge"])])
    people = {name: "".join(said[name]) for name in ("ann", "ben", "cy")}
    found = cells(key, answered(tmp_path, key, people))
    items = [list(each) for each in zip(*people.values(), strict=True)]
    about = ("segment", "all")
    assert found["people", about, "Fleiss' kappa"].value == pytest.approx(fleiss_kappa(items))
    assert found["people", about, "Krippendorff's alpha"].value == pytest.approx(
        krippendorff_alpha(items)
    )
    pairs = [each[a] == each[b] for each in items for a, b in ((0, 1), (0, 2), (1, 2))]
    assert found["people", about, "agreement, %"].value == pytest.approx(np.mean(pairs))
    assert found["pairs", (*about, "ann", "cy"), "Cohen's kappa"].value == pytest.approx(
        cohen_kappa_score(list(people["ann"]), list(people["cy"]))
    )
    most = [max(each, key=each.count) for each in items]
    row = (*about, TOGETHER, JUDGE)
    recalls = [recall_score(most, said["judge"], pos_label=letter) for letter in "wf"]
    assert [
        found["pairs", row, name].value for name in ("sensitivity, %", "specificity, %")
    ] == pytest.approx(recalls)
    assert found["pairs", row, "balanced, %"].value == pytest.approx(
        balanced_accuracy_score(most, said["judge"])
    )
    assert found["pairs", row, "sensitivity, %"].count == most.count("w")
    assert found["answers", (*about, "wrong"), "share, %"].value == pytest.approx(
        most.count("w") / 80
    )
    for measure in found.values():
        assert measure.low is None or measure.low <= measure.value <= measure.high


def test_what_is_left_out_and_why(tmp_path):
    key = sheet([entry(1), entry(2), entry(3), entry(4), entry(5, None), entry(6)])
    found = cells(key, answered(tmp_path, key, {"ann": "ffsff-", "ben": "fwf-f-"}))
    about = ("segment", "all")
    left = {column: each.value for (table, _, column), each in found.items() if table == "left out"}
    assert left == {
        "skipped": 1,
        "one answer": 2,
        "no majority": 1,
        "no answer": 1,
        "unscored by the judge": 1,
    }
    assert found["people", about, "items"].value == 5
    assert found["people", about, "agreement, %"].value == pytest.approx(2 / 3)  # items 1, 2 and 5
    assert (
        found["pairs", (*about, TOGETHER, JUDGE), "items"].value == 3
    )  # 1, 3 and 4: 2 is a tie, 5 has no verdict


def test_people_with_themselves(tmp_path):
    key = sheet(
        [
            entry(1),
            entry(2),
            entry(3),
            entry(4, repeat_of=1),
            entry(5, repeat_of=2),
            entry(6, repeat_of=3),
        ]
    )
    found = cells(key, answered(tmp_path, key, {"ann": "fwffff", "ben": "ff-f-w"}))
    again = found["pairs", ("segment", "all", "ann", "ann again"), "agreement, %"]
    assert (again.value, again.count) == (pytest.approx(2 / 3), 3)
    assert (
        found["pairs", ("segment", "all", "ben", "ben again"), "items"].value == 1
    )  # of 2 a single answer, of 3 a first one
    assert (
        found["people", ("segment", "all"), "items"].value == 3
    )  # a second look is no further item


def test_shares_count_items_by_their_weights(tmp_path):
    key = sheet([entry(1, weight=9.0), *(entry(number, "wrong") for number in (2, 3, 4))])
    found = cells(key, answered(tmp_path, key, {"ann": "wwww", "ben": "wfff"}))
    assert found["people", ("segment", "all"), "agreement, %"].value == pytest.approx(9 / 12)
    found = cells(key, answered(tmp_path, key, {"ann": "wwww"}))
    assert found[
        "pairs", ("segment", "all", TOGETHER, JUDGE), "sensitivity, %"
    ].value == pytest.approx(3 / 12)


def test_groups_by_stratum(tmp_path):
    key = sheet(
        [
            entry(1, strata={"domain": "wk"}),
            entry(2, strata={"domain": "wk"}),
            entry(3, strata={"domain": "math"}),
        ]
    )
    found = cells(key, answered(tmp_path, key, {"ann": "fff", "ben": "fwf"}), "domain")
    agreement = {
        row[1]: each.value
        for (table, row, column), each in found.items()
        if (table, column) == ("people", "agreement, %")
    }
    assert agreement == {"all": pytest.approx(2 / 3), "math": 1, "wk": 0.5}
    assert list(agreement) == ["all", "math", "wk"]
    with pytest.raises(
        ConfigError, match="--by 'domian': expected one of domain, segment; did you mean domain"
    ):
        agreement_of(key, answered(tmp_path, key, {"ann": "fff"}), "domian")


def test_groups_by_the_answer_to_another_question_on_the_same_text(tmp_path):
    """Table 2 of FACTOR, by a question on the same contradiction."""
    items = []
    for unit in (1, 2, 3):
        for question in ("fluent", "non_factual"):
            number = len(items) + 1
            items.append(
                SheetItem(
                    *(0, f"u{unit}", "c", "", {}, 1.0, 1.0),
                    *(number, f"{question}:1", question, ("yes", "no"), None),
                )
            )
    key = sheet(items, "factor")
    found = cells(key, answered(tmp_path, key, {"ann": "yyynny"}), "fluent")
    shares = {
        row[1:]: each.value
        for (table, row, column), each in found.items()
        if table == "answers" and row[0] == "non_factual"
    }
    assert shares == {
        ("all", "yes"): pytest.approx(2 / 3), ("all", "no"): pytest.approx(1 / 3),
        ("no", "yes"): 1, ("yes", "yes"): 0.5, ("yes", "no"): 0.5,
    }  # fmt: skip
    assert (
        "answers",
        ("fluent", "yes", "yes"),
        "share, %",
    ) not in found  # a question is not grouped by itself


def test_a_person_may_be_called_judge(tmp_path):
    key = sheet([entry(1), entry(2, "wrong")])
    found = cells(key, answered(tmp_path, key, {"judge": "ff", "ann": "ff"}))
    assert found["pairs", ("segment", "all", "ann", "judge"), "agreement, %"].value == 1
    assert found["pairs", ("segment", "all", "judge", JUDGE), "agreement, %"].value == 0.5
