"""``factor-gen thresholds``: precision against share kept, and the paper's choice."""

from __future__ import annotations

import csv
import json
import math

import pytest
from scipy.stats import binomtest

from factor_gen.cli import build_parser
from factor_gen.cli import thresholds as command
from factor_gen.thresholds import THRESHOLDS, Labelled, Share, curves, read_labelled
from lm_factuality.ground.errors import ConfigError, DataError
from tests.factor_gen.tiny import save_deberta

# Ten samples, scores 0.05, 0.15 ... 0.95: the four lowest are no contradictions, nor is that of
# 0.75.
SAMPLES = [
    Labelled(number / 10 + 0.05, number not in (0, 1, 2, 3, 7), "entity" if number % 2 else "link")
    for number in range(10)
]


def parse(*arguments):
    return build_parser().parse_args(["thresholds", *(str(each) for each in arguments)])


def write_csv(path, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def test_precision_and_share_kept_at_each_threshold():
    every = curves(SAMPLES, is_margin=False)[0]
    assert (
        [point.threshold for point in every.points]
        == list(THRESHOLDS)
        == [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
    )
    assert [point.kept.count for point in every.points] == [9, 8, 7, 6, 5, 4, 3, 2, 1]
    assert [point.precision.count for point in every.points] == [5, 5, 5, 5, 4, 3, 2, 2, 1]
    assert (
        every.best.threshold == 0.3
    )  # 0.8 and above are more precise, but filter more than 35%; 0.4 filters 40%
    assert (every.true.count, every.true.total) == (5, 10)


def test_each_type_has_its_own():
    assert [
        (curve.group, curve.true.count, curve.true.total)
        for curve in curves(SAMPLES, is_margin=False)
    ] == [
        ("all", 5, 10),
        ("entity", 2, 5),
        ("link", 3, 5),
    ]


def test_a_margin_counts_downwards():
    samples = [Labelled(-number / 10 - 0.05, number < 5) for number in range(10)]
    (curve,) = curves(samples, is_margin=True)
    assert [point.kept.count for point in curve.points] == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert (
        curve.best.threshold == 0.7
    )  # the least that filters no more than 35%, and the most precise of these


def test_of_equal_precision_the_one_that_keeps_more_is_chosen():
    (curve,) = curves(
        [Labelled(score, True) for score in (0.25, 0.55, 0.85, 0.95)], is_margin=False
    )
    assert (curve.best.threshold, curve.best.kept.count) == (0.1, 4)


def test_exactly_35_percent_may_be_filtered_out():
    samples = [Labelled(0.85 if number < 13 else 0.15, number < 13) for number in range(20)]
    (curve,) = curves(samples, is_margin=False)
    assert (curve.best.threshold, curve.best.precision.value) == (0.2, 1.0)
    assert curves(samples[1:], is_margin=False)[0].best.threshold == 0.1


def test_without_an_eligible_threshold_none_is_chosen():
    (curve,) = curves([Labelled(0.05, True)] * 3, is_margin=False)
    assert curve.best is None
    assert math.isnan(curve.points[0].precision.value)


def test_a_sample_without_score_is_never_kept():
    (curve,) = curves([Labelled(math.nan, True), Labelled(0.99, True)], is_margin=False)
    assert (curve.unscored, curve.points[0].kept.count, curve.points[0].kept.total) == (1, 1, 2)


@pytest.mark.parametrize(("count", "total"), [(0, 5), (5, 5), (3, 7), (38, 40)])
def test_intervals_are_wilsons(count, total):
    expected = binomtest(count, total).proportion_ci(method="wilson")
    assert Share(count, total).interval == pytest.approx((expected.low, expected.high), abs=1e-6)


def test_scores_that_are_there_need_no_model(tmp_path, capsys):
    rows = [
        {
            "contradiction_score": each.score,
            "contradictory": int(each.label),
            "fluency_score": -each.score,
            "fluent": 1,
            "type": each.type,
        }
        for each in SAMPLES
    ]
    path, found, plot = (
        write_csv(tmp_path / "scored.csv", rows),
        tmp_path / "found.json",
        tmp_path / "plot.png",
    )
    assert command.thresholds(parse(path, "--json", found, "--plot", plot)) == 0
    said = capsys.readouterr().out
    assert "0.3 *" in said
    assert "71.4%" in said  # 5 of 7
    assert "type link" in said
    content = json.loads(found.read_text())
    assert {name: curve[0]["best"] for name, curve in content.items()} == {
        "nli": 0.3,
        "fluency": 0.9,
    }
    assert content["nli"][0]["thresholds"][2]["kept"] == 7
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_models_score_what_has_no_scores(tmp_path, checkpoint, capsys):
    sentence = "They meet in the great hall every spring to choose a keeper."
    scrambled = "keeper great They spring choose in a every to hall meet the."
    rows = [
        {
            "prefix": prefix,
            "completion": sentence,
            "contradiction": text,
            "contradictory": label,
            "fluent": label,
        }
        for prefix in ("", "The academy stands on a hill. ")
        for text, label in ((sentence.replace("spring", "autumn"), True), (scrambled, False))
    ]
    path = tmp_path / "labelled.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    deberta, found = save_deberta(tmp_path / "deberta", checkpoint), tmp_path / "found.json"
    options = (
        "--nli",
        deberta,
        "--nli-revision",
        "main",
        "--fluency",
        checkpoint,
        "--device",
        "cpu",
        "--json",
        found,
    )
    assert command.thresholds(parse(path, *options)) == 0
    content = json.loads(found.read_text())
    assert (
        content["fluency"][0]["thresholds"][-1]["kept"],
        content["fluency"][0]["thresholds"][-1]["precision"],
    ) == (2, 1.0)
    assert content["nli"][0]["samples"] == 4
    assert content["nli"][0]["unscored"] == 0
    assert "paper" in capsys.readouterr().out


GOOD = {
    "prefix": "",
    "completion": "It rained.",
    "contradiction": "It snowed.",
    "contradictory": "1",
    "type": "entity",
    "contradiction_score": "0.5",
}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"contradictory": "maybe"}, r"scored.csv:3: contradictory is 'maybe', expected 0 or 1"),
        ({"contradictory": ""}, "contradictory is '', expected 0 or 1"),
        ({"contradictory": "2"}, "expected 0 or 1"),
        ({"contradictory": "0.5"}, "expected 0 or 1"),
        ({"type": "enttiy"}, "type is 'enttiy'; did you mean entity"),
        ({"contradiction_score": "high"}, "contradiction_score is 'high', expected a number"),
        ({"contradiction_score": "nan"}, "expected a number"),
        ({"contradiction_score": "inf"}, "expected a number"),
    ],
)
def test_bad_rows_are_refused_by_place(tmp_path, change, said):
    path = write_csv(tmp_path / "scored.csv", [GOOD, {**GOOD, **change}])
    with pytest.raises(DataError, match=said):
        command.thresholds(parse(path))


@pytest.mark.parametrize(
    ("yes", "no"),
    [(1, 0), ("1.0", "0.0"), ("true", "False"), (1.0, 0.0), (True, False), (" 1 ", "0")],
)
def test_labels_are_read_in_the_forms_that_tables_have_them(tmp_path, yes, no):
    path = tmp_path / "scored.jsonl"
    path.write_text(
        "".join(json.dumps({**GOOD, "contradictory": each}) + "\n" for each in (yes, no)),
        encoding="utf-8",
    )
    rows = read_labelled(path, "contradictory")
    assert [row.label for row in rows] == [True, False]


def test_options_that_cannot_be_used_are_refused(tmp_path, checkpoint):
    path = write_csv(tmp_path / "scored.csv", [GOOD])
    with pytest.raises(ConfigError, match=r"--device is 'cdua': .*; here there is cpu"):
        command.thresholds(parse(path, "--nli", checkpoint, "--device", "cdua"))
    with pytest.raises(ConfigError, match="--fluency-revision is of no use without --fluency"):
        command.thresholds(parse(path, "--fluency-revision", "abc"))


@pytest.mark.parametrize("change", [{"completion": " "}, {"contradiction": ""}])
def test_empty_sentences_are_refused_where_a_model_is_to_read_them(tmp_path, checkpoint, change):
    path = write_csv(tmp_path / "scored.csv", [{**GOOD, **change}])
    with pytest.raises(DataError, match="is empty or no text"):
        command.thresholds(parse(path, "--nli", checkpoint))


def test_half_a_surrogate_pair_is_refused(tmp_path):
    path = tmp_path / "lines.jsonl"
    path.write_text(json.dumps({**GOOD, "prefix": "\ud800"}), encoding="utf-8")
    with pytest.raises(DataError, match="prefix holds half of a surrogate pair"):
        command.thresholds(parse(path, "--nli", "model"))


def test_files_that_cannot_be_used_are_refused(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        command.thresholds(parse(tmp_path / "nowhere.csv"))
    (tmp_path / "empty.csv").write_text("", encoding="utf-8")
    (tmp_path / "unscored.csv").write_text("contradictory\n1\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="name a model with --nli or --fluency"):
        command.thresholds(parse(tmp_path / "unscored.csv"))
    with pytest.raises(DataError, match="no rows"):
        command.thresholds(parse(tmp_path / "empty.csv", "--nli", "model"))
    without = {key: value for key, value in GOOD.items() if key != "contradictory"}
    with pytest.raises(DataError, match="has no column contradictory; did you mean contradiction"):
        command.thresholds(parse(write_csv(tmp_path / "unlabelled.csv", [without])))
    (tmp_path / "lines.jsonl").write_text('{"a": 1}\n[1]\n', encoding="utf-8")
    with pytest.raises(DataError, match=r"lines.jsonl:2: found a JSON list, expected an object"):
        command.thresholds(parse(tmp_path / "lines.jsonl"))
    (tmp_path / "broken.jsonl").write_text('{"a": 1}\n{"a"\n', encoding="utf-8")
    with pytest.raises(DataError, match=r"broken.jsonl:2: not valid JSON"):
        command.thresholds(parse(tmp_path / "broken.jsonl"))
    (tmp_path / "cells.csv").write_text(
        "contradictory,contradiction_score\n1,0.5,7\n", encoding="utf-8"
    )
    with pytest.raises(DataError, match="cells.csv:2: 3 cells, expected 2"):
        command.thresholds(parse(tmp_path / "cells.csv"))
    (tmp_path / "latin.csv").write_bytes(b"contradictory\n\xe9\n")
    with pytest.raises(DataError, match="UTF-8"):
        command.thresholds(parse(tmp_path / "latin.csv"))
