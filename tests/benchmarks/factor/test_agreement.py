"""Perplexity beside accuracy: rankings, pairs, and how sure their differences are."""

import itertools
import json
import math
import random
import statistics
from types import SimpleNamespace

import pytest

from lm_factuality.benchmarks.chosen import score_figure
from lm_factuality.benchmarks.declaration import Run
from lm_factuality.benchmarks.factor.compare import (
    ModelOnCorpus,
    accuracy_difference,
    find_disagreements,
    kendall_tau,
    models_on_corpora,
    retrieval_gains,
)
from lm_factuality.ground.model_names import family, size_in_name, size_label
from lm_factuality.harness.outputs import TaskResult
from lm_factuality.results.compare import read_runs
from tests.report.results import factor_task


def point(model, accuracy, token=None, byte=None):
    """A model's accuracy in per cent and its perplexities, without rows."""
    metrics = {"factor_acc": accuracy / 100, "perplexity": token, "byte_perplexity": byte}
    task = TaskResult(
        task="t",
        kind="factor",
        metrics=metrics,
        stderrs={},
        num_samples=10,
        effective=10,
        limit=None,
        metadata={},
        config={},
        version="1",
        samples=None,
    )
    file = SimpleNamespace(label=model, model=model, variant="")
    return ModelOnCorpus(Run(file, task), score_figure(task, "factor_acc"), Run(file, task))


def by_definition(pairs):
    """Kendall's tau-b by counting pairs."""
    signs = [
        (
            math.copysign(1, a[0] - b[0]) * (a[0] != b[0]),
            math.copysign(1, a[1] - b[1]) * (a[1] != b[1]),
        )
        for a, b in itertools.combinations(pairs, 2)
    ]
    total = sum(x * y for x, y in signs)
    return total / math.sqrt(sum(x != 0 for x, _ in signs) * sum(y != 0 for _, y in signs))


def test_tau_is_kendalls_with_ties_and_lower_perplexity_is_better():
    generator = random.Random(3)
    points = [
        point(str(i), generator.randint(40, 46), generator.randint(7, 11), 2.0) for i in range(12)
    ]
    expected = by_definition(
        [(-point.perplexity("token").value, point.accuracy.value) for point in points]
    )
    assert kendall_tau(points, "token") == (pytest.approx(expected), 12)
    assert kendall_tau(points, "byte") == (None, 12)  # all tied
    assert kendall_tau(points[:1], "token") == (None, 1)


def test_pairs_may_disagree_by_one_unit_and_not_by_the_other():
    one = point("one", 50.0, 8.0, 1.9)
    two = point("two", 51.0, 9.0, 1.8)
    (pair,) = find_disagreements([one, two])
    assert (pair.better_by_perplexity.model, pair.better_by_accuracy.model, pair.units) == (
        "one",
        "two",
        ("token",),
    )
    assert (pair.accuracy_gap.shared_rows, pair.accuracy_gap.stderr, pair.accuracy_gap.p_value) == (
        0,
        None,
        None,
    )
    pairs = find_disagreements([one, two, point("four", 50.0, 7.0)])
    assert [(pair.better_by_perplexity.model, pair.better_by_accuracy.model) for pair in pairs] == [
        ("one", "two"),
        ("four", "two"),
    ]


def results(
    folder,
    model,
    right,
    perplexity,
    date="2026-01-01T00-00-00.0",
    samples=True,
    backend="hf",
    **config,
):
    """A results file with both tasks, and the samples of the FACTOR task; two rows a document."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = len(right)
    data = {"rows": rows, "documents": rows // 2, "git_blob": "abc"}
    content = {
        "results": {
            "x_factor": {
                "sample_len": rows,
                "acc_bytes,none": 0.5,
                "factor_acc,none": statistics.mean(value for value in right if value is not None),
                "unscored,none": right.count(None),
                "factor_acc_stderr,none": 0.04,
            },
            "x_factor_perplexity": {
                "sample_len": rows // 2,
                "perplexity,none": perplexity,
                "perplexity_stderr,none": 0.1,
                "byte_perplexity,none": 1 + perplexity / 10,
                "byte_perplexity_stderr,none": 0.01,
                "num_tokens,none": 5000.0,
                "unscored,none": 0,
            },
        },
        "configs": {
            "x_factor": {
                "metadata": {
                    "suite_version": "0.2.0",
                    "benchmark": "factor",
                    "window": 1024,
                    "data": data,
                }
            },
            "x_factor_perplexity": {
                "metadata": {
                    "suite_version": "0.2.0",
                    "benchmark": "perplexity",
                    "window": 1024,
                    "window_used": 1024,
                    "data": data,
                }
            },
        },
        "config": {"model": backend, **config},
        "model_name": model,
        "date": float(date[8:10]),
    }
    if samples:
        lines = factor_task([None if value is None else bool(value) for value in right])["samples"]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / f"samples_x_factor_{date}.jsonl").write_text(text, encoding="utf-8")
    path = folder / f"results_{date}.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


ONE = [1, 1, 0, 0, 1, 0, 0, 1, 0, 0]
TWO = [1, 1, 0, 1, 1, 1, 0, 1, 0, 0]


def test_differences_are_paired_by_row_and_clustered_by_document(tmp_path):
    results(tmp_path / "a", "one", ONE, 8.0, model_num_parameters=5e8)
    results(tmp_path / "b", "two", TWO, 9.0)
    points, _ = models_on_corpora(read_runs([tmp_path])[0])
    (pair,) = find_disagreements(points)
    assert (pair.better_by_perplexity.model, pair.better_by_accuracy.model, pair.units) == (
        "one",
        "two",
        ("token", "byte"),
    )
    gaps = [
        sum(TWO[i : i + 2]) - sum(ONE[i : i + 2]) - 0.4 for i in range(0, 10, 2)
    ]  # less the mean of 2 rows
    assert pair.accuracy_gap.difference == pytest.approx(0.2)
    assert pair.accuracy_gap.stderr == pytest.approx(
        math.sqrt(5 / 4 * sum(gap**2 for gap in gaps)) / 10
    )
    assert (pair.accuracy_gap.shared_rows, pair.accuracy_gap.p_value) == (
        10,
        0.5,
    )  # two documents differ, both in favour of the same model: 2 of 4 flips


@pytest.mark.parametrize("change", ["no samples", "other rows", "other accuracy"])
def test_without_the_samples_of_the_same_rows_nothing_is_known_of_a_difference(change, tmp_path):
    results(tmp_path / "a", "one", ONE, 8.0)
    results(tmp_path / "b", "two", TWO, 9.0, samples=change != "no samples")
    samples = tmp_path / "b" / "samples_x_factor_2026-01-01T00-00-00.0.jsonl"
    if change == "other rows":
        samples.write_text(
            samples.read_text(encoding="utf-8").replace("1870", "1880"), encoding="utf-8"
        )
    elif change == "other accuracy":
        text = samples.read_text(encoding="utf-8").replace('"factor_acc": 1.0', '"factor_acc": 0.0')
        samples.write_text(text, encoding="utf-8")
    (pair,) = find_disagreements(models_on_corpora(read_runs([tmp_path])[0])[0])
    assert pair.accuracy_gap.difference == pytest.approx(0.2)
    assert (pair.accuracy_gap.shared_rows, pair.accuracy_gap.p_value) == (0, None)


def test_unscored_rows_are_in_no_pair(tmp_path):
    results(tmp_path / "a", "one", [None, *ONE[1:]], 8.0)
    results(tmp_path / "b", "two", [None, *TWO[1:]], 8.0)
    one, two = models_on_corpora(read_runs([tmp_path])[0])[0]
    assert (
        accuracy_difference(two, one).shared_rows,
        accuracy_difference(two, one).difference,
    ) == (
        9,
        pytest.approx(2 / 9),
    )


def test_p_values_of_disagreements_are_corrected_for_all_pairs(tmp_path):
    """Of three pairs one agrees with perplexity; it counts all the same."""
    for number, (right, perplexity) in enumerate((([1] * 10, 9.0), (ONE, 8.5), (TWO, 8.0))):
        results(tmp_path / str(number), f"m{number}", right, perplexity)
    found = find_disagreements(models_on_corpora(read_runs([tmp_path])[0])[0])
    assert {
        (pair.better_by_perplexity.model, pair.better_by_accuracy.model): (
            pair.accuracy_gap.p_value,
            pair.accuracy_gap.adjusted_p_value,
        )
        for pair in found
    } == {
        ("m1", "m0"): (2 / 2**4, 3 * 2 / 2**4),
        ("m2", "m0"): (2 / 2**3, 2 * 2 / 2**3),
    }


def test_gains_pair_each_model_with_itself_without_retrieval(tmp_path):
    results(tmp_path / "a", "org/m-125m", ONE, 8.0)
    results(tmp_path / "b", "org/m-125m", TWO, 8.0, backend="hf-ralm")
    results(tmp_path / "c", "org/m-125m", [0] * 10, 8.0, backend="hf-prefix-free")
    results(tmp_path / "d", "org/m-125m", TWO, 8.0, backend="hf-ralm", model_revision="step1")
    results(tmp_path / "e", "org/n-1b", [1] * 10, 8.0, backend="hf-ralm")
    results(tmp_path / "f", "org/n-1b", TWO, 8.0)
    points, _ = models_on_corpora(read_runs([tmp_path])[0])
    found = retrieval_gains(points)
    assert [(gain.without_retrieval.model, gain.with_retrieval.model) for gain in found] == [
        ("org/m-125m", "org/m-125m (hf-ralm)"),
        ("org/n-1b", "org/n-1b (hf-ralm)"),
    ]
    assert [gain.difference.difference for gain in found] == [
        pytest.approx(0.2),
        pytest.approx(0.4),
    ]
    assert [(gain.difference.p_value, gain.difference.adjusted_p_value) for gain in found] == [
        (0.5, 0.5),
        (0.25, 0.5),
    ]


def test_the_newest_result_counts_and_the_older_is_named(tmp_path):
    results(tmp_path, "one", ONE, 8.0)
    results(tmp_path, "one", TWO, 7.0, date="2026-01-02T00-00-00.0")
    points, notes = models_on_corpora(read_runs([tmp_path])[0])
    (point,) = points
    assert (point.accuracy.value, point.perplexity("token").value) == (0.6, 7.0)
    assert len(notes) == 2
    assert all("results_2026-01-01T00-00-00.0.json is older" in note for note in notes)


def test_backends_that_only_score_give_one_model_and_others_another(tmp_path):
    for number, backend in enumerate(("hf", "hf-tree", "vllm", "hf-ralm")):
        right = TWO if backend == "vllm" else ONE
        results(
            tmp_path / backend,
            "one",
            right,
            8.0,
            date=f"2026-01-0{number + 1}T00-00-00.0",
            backend=backend,
        )
    results(tmp_path / "early", "one", ONE, 9.0, model_revision="step1000")
    points, _ = models_on_corpora(read_runs([tmp_path])[0])
    assert [point.model for point in points] == ["one", "one (hf-ralm)", "one (step1000)"]
    assert points[0].accuracy.value == 0.6


def test_a_perplexity_without_an_accuracy_is_named(tmp_path):
    path = results(tmp_path, "one", ONE, 8.0)
    content = json.loads(path.read_text(encoding="utf-8"))
    del content["results"]["x_factor"]
    path.write_text(json.dumps(content), encoding="utf-8")
    points, (note,) = models_on_corpora(read_runs([tmp_path])[0])
    assert points == []
    assert (
        note
        == "x_factor_perplexity, one: perplexity 8.00, per byte 1.800; no accuracy on x_factor to go with it"
    )


@pytest.mark.parametrize(
    ("name", "expected", "size"),
    [
        ("gpt2", "GPT-2", 124e6),
        ("openai-community/gpt2-xl", "GPT-2", 1558e6),
        ("EleutherAI/gpt-neo-2.7B", "GPT-Neo", 2.7e9),
        ("EleutherAI/gpt-j-6b", "GPT-Neo", 6e9),
        ("EleutherAI/gpt-neox-20b", "GPT-Neo", 20e9),
        ("facebook/opt-66b", "OPT", 66e9),
        ("EleutherAI/pythia-160m-deduped", "Pythia", 160e6),
        ("meta-llama/Llama-3.1-8B-Instruct", "Llama", 8e9),
        ("Qwen/Qwen2.5-0.5B", "Qwen", 0.5e9),
        ("mistralai/Mistral-7B-v0.1", "Mistral", 7e9),
        ("google/gemma-2-2b", "Gemma", 2e9),
        ("tasks/sample/models/larger", "other", None),
        ("facebook/opt-125m (hf-ralm)", "OPT", 125e6),
    ],
)
def test_families_and_sizes_by_name(name, expected, size):
    assert family(name) == expected
    assert size_in_name(name) == size


def test_sizes_as_models_are_called_by_them():
    assert [size_label(size) for size in (66e9, 2.7e9, 125e6, 1.5e6, 644_160, 12)] == [
        "66B",
        "2.7B",
        "125M",
        "1.5M",
        "644K",
        "12",
    ]
