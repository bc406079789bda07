"""Tables of pairs, as ``compare`` prints them."""

from __future__ import annotations

import random

import pytest

from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.results.compare import compare_runs, read_runs
from lm_factuality.scores.paired import holm
from tests.report.results import factor_task, felm_task, write_results

CLEAR = [True] * 30 + [False] * 10
POOR = [True] * 4 + [False] * 36


def pairs(folder, scores=None):
    """The rows of all tables of pairs, by (score, A, B), and the notes of all tables."""
    found, notes = {}, []
    for table in compare_runs(read_runs([folder])[0], [], scores):
        notes += table.notes
        if "better" in table.columns:
            found |= {
                tuple(row[:3]): dict(zip(table.columns[3:], row[3:], strict=True))
                for row in table.rows
            }
    return found, notes


def test_every_pair_is_compared_and_corrected_for_all(tmp_path):
    drawn = random.Random(0)
    for number in range(3):
        right = [drawn.random() < 0.3 + number / 20 for _ in range(80)]
        write_results(tmp_path / str(number), {"t": factor_task(right)}, f"org/m{number}")
    found, notes = pairs(tmp_path, ["factor_acc"])
    assert list(found) == [
        ("factor_acc", f"org/m{a}", f"org/m{b}") for a, b in ((0, 1), (0, 2), (1, 2))
    ]
    rows = list(found.values())
    alone, adjusted = ([float(row[name]) for row in rows] for name in ("#p", "#p, Holm"))
    assert adjusted == pytest.approx(holm(alone), abs=0.002)
    assert adjusted != alone
    assert all(row["#rows"] == "80" for row in rows)
    assert any("(1.96 + 0.84) standard errors" in note for note in notes)


def test_the_better_model_is_named_only_if_the_corrected_p_value_says_so(tmp_path):
    write_results(tmp_path / "a", {"t": factor_task(CLEAR)}, "org/a")
    write_results(tmp_path / "b", {"t": factor_task(POOR)}, "org/b")
    write_results(tmp_path / "c", {"t": factor_task([not CLEAR[0], *CLEAR[1:]])}, "org/c")
    found, _ = pairs(tmp_path, ["factor_acc"])
    assert {key[1:]: row["better"] for key, row in found.items()} == {
        ("org/a", "org/b"): "A",
        ("org/a", "org/c"): "",
        ("org/b", "org/c"): "B",
    }
    assert found["factor_acc", "org/a", "org/b"]["#A - B"] == "+65.0"
    assert found["factor_acc", "org/a", "org/c"]["#p"] == "1.000"


def test_of_many_models_the_headline_is_shown_and_the_others_are_named(tmp_path):
    for number in range(4):
        write_results(tmp_path / str(number), {"t": factor_task(CLEAR)}, f"org/m{number}")
    found, notes = pairs(tmp_path)
    assert {score for score, _, _ in found} == {"factor_acc"}
    others = "acc, acc_bytes, margin, factor_acc_vs_entity, factor_acc_vs_predicate"
    assert f"Other scores by --scores: {others}" in notes
    found, _ = pairs(tmp_path, ["factor_acc_vs_entity", "acc"])
    assert {score for score, _, _ in found} == {"factor_acc_vs_entity", "acc"}


def test_scores_of_pooled_counts_have_pairs_too(tmp_path):
    write_results(tmp_path / "a", {"t": felm_task(["Answer: 2"] * 30)}, "org/a")
    write_results(tmp_path / "b", {"t": felm_task(["Answer: 1,2", "Answer: 1"] * 15)}, "org/b")
    found, _ = pairs(tmp_path)
    assert found["segment_f1", "org/a", "org/b"]["#p"] == "<0.001"
    assert found["segment_f1", "org/a", "org/b"]["better"] == "A"


def test_margins_are_compared_within_one_tokenizer(tmp_path):
    for number, tokens in enumerate((10.0, 10.0, 12.0)):
        task = factor_task(CLEAR)
        task["samples"] = [{**sample, "margin": 0.1 * number} for sample in task["samples"]]
        task["results"] |= {"margin,none": 0.1 * number, "factor_num_tokens,none": tokens}
        write_results(tmp_path / str(number), {"t": task}, f"org/m{number}")
    found, _ = pairs(tmp_path, ["margin", "factor_acc"])
    assert [key[1:] for key in found if key[0] == "margin"] == [("org/m0", "org/m1")]
    assert len([key for key in found if key[0] == "factor_acc"]) == 3


def test_runs_without_samples_are_named(tmp_path):
    write_results(tmp_path / "a", {"t": factor_task(CLEAR)}, "org/a")
    write_results(tmp_path / "b", {"t": factor_task(POOR)}, "org/b", with_samples=False)
    found, notes = pairs(tmp_path)
    assert found == {}
    assert (
        "t: without samples (--log_samples) and scored rows no difference can be tested: org/b"
        in notes
    )


def test_only_the_newest_run_of_a_model_is_read(tmp_path):
    write_results(tmp_path, {"t": factor_task(POOR)}, "org/a", date="2026-01-01T00-00-00.000001")
    write_results(tmp_path, {"t": factor_task(CLEAR)}, "org/a", date="2026-01-01T00-00-00.000002")
    write_results(tmp_path, {"t": factor_task(CLEAR)}, "org/b", date="2026-01-01T00-00-00.000003")
    (tmp_path / "samples_t_2026-01-01T00-00-00.000001.jsonl").write_text(
        "not JSON", encoding="utf-8"
    )
    found, _ = pairs(tmp_path, ["factor_acc"])
    assert found["factor_acc", "org/a", "org/b"]["#A - B"] == "+0.0"
    assert found["factor_acc", "org/a", "org/b"]["#detectable"] == ""


def test_a_score_that_no_rows_have_is_an_error(tmp_path):
    write_results(tmp_path, {"t": factor_task(CLEAR)}, "org/a")
    with pytest.raises(
        ConfigError, match="--scores: no rows have a score 'factor_ac'; did you mean factor_acc"
    ):
        pairs(tmp_path, ["factor_ac"])
    with pytest.raises(ConfigError, match="factor_mean_logprob"):  # not comparable, so not offered
        pairs(tmp_path, ["factor_mean_logprob"])


def test_samples_of_another_task_are_an_error(tmp_path):
    write_results(tmp_path, {"t": factor_task(CLEAR)}, "org/a")
    (tmp_path / "samples_t_2026-01-02T03-04-05.000001.jsonl").write_text(
        '{"doc_id": 3, "doc": {}}\n', encoding="utf-8"
    )
    with pytest.raises(DataError, match=r"doc_id 3: not a sample of a factor task.*--log_samples"):
        read_runs([tmp_path])[0]
