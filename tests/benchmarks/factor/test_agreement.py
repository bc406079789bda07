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


def make_model(name, accuracy, token=None, byte=None):
    """Make a model with an accuracy and perplexities on one corpus. It has no samples.

    Args:
        name: The name of the model.
        accuracy: The accuracy in percent.
        token: The perplexity per token.
        byte: The perplexity per byte.
    """
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
    file = SimpleNamespace(label=name, model=name, variant="")
    return ModelOnCorpus(Run(file, task), score_figure(task, "factor_acc"), Run(file, task))


def sign(number):
    """Return -1, 0 or 1."""
    return (number > 0) - (number < 0)


def tau_by_definition(pairs):
    """Compute Kendall's tau-b by counting the pairs that agree and disagree."""
    num_agreeing_more = 0
    num_untied_x = 0
    num_untied_y = 0
    for (x1, y1), (x2, y2) in itertools.combinations(pairs, 2):
        num_agreeing_more += sign(x1 - x2) * sign(y1 - y2)
        num_untied_x += x1 != x2
        num_untied_y += y1 != y2
    return num_agreeing_more / math.sqrt(num_untied_x * num_untied_y)


def test_tau_equals_kendalls_with_lower_perplexity_as_better():
    """Of twelve models, some have equal accuracies or perplexities."""
    draw = random.Random(3)
    models = []
    for number in range(12):
        accuracy = draw.randint(40, 46)
        perplexity = draw.randint(7, 11)
        models.append(make_model(str(number), accuracy, token=perplexity))

    tau, num_models = kendall_tau(models, "token")

    # Perplexities get a minus sign, so that higher values are better on both sides.
    pairs = [(-model.perplexity("token").value, model.accuracy.value) for model in models]
    assert tau == pytest.approx(tau_by_definition(pairs))
    assert num_models == 12


def test_tau_is_one_if_accuracy_rises_as_perplexity_falls():
    models = [
        make_model("worst", 40.0, token=11.0),
        make_model("middle", 43.0, token=9.0),
        make_model("best", 46.0, token=7.0),
    ]

    tau, num_models = kendall_tau(models, "token")

    assert tau == pytest.approx(1.0)
    assert num_models == 3


def test_tau_is_undefined_if_all_perplexities_are_equal():
    """Equal values have no order that accuracy could agree with."""
    models = [
        make_model("one", accuracy=50.0, byte=2.0),
        make_model("two", accuracy=51.0, byte=2.0),
    ]

    tau, num_models = kendall_tau(models, "byte")

    assert tau is None
    assert num_models == 2


def test_tau_of_one_model_is_undefined():
    tau, num_models = kendall_tau([make_model("one", accuracy=50.0, token=8.0)], "token")

    assert tau is None
    assert num_models == 1


def better_models(pair):
    """Return the names of the better models of a pair, by perplexity and by accuracy."""
    return {
        "by perplexity": pair.better_by_perplexity.model_name,
        "by accuracy": pair.better_by_accuracy.model_name,
    }


def test_models_may_disagree_only_in_perplexity_per_token():
    """Model "two" is better per byte and in accuracy, but worse per token."""
    models = [
        make_model("one", accuracy=50.0, token=8.0, byte=1.9),
        make_model("two", accuracy=51.0, token=9.0, byte=1.8),
    ]

    (pair,) = find_disagreements(models)

    assert better_models(pair) == {"by perplexity": "one", "by accuracy": "two"}
    assert pair.units == ("token",)


def test_models_without_samples_have_no_shared_rows():
    """Without rows there is no interval of the difference."""
    models = [
        make_model("one", accuracy=50.0, token=8.0),
        make_model("two", accuracy=51.0, token=9.0),
    ]

    (pair,) = find_disagreements(models)

    assert pair.accuracy_gap.shared_rows == 0
    assert pair.accuracy_gap.interval is None
    assert pair.accuracy_gap.p_value is None


def test_every_disagreeing_pair_is_found():
    """Model "two" has the highest accuracy, but a higher perplexity per token than the others."""
    models = [
        make_model("one", accuracy=50.0, token=8.0, byte=1.9),
        make_model("two", accuracy=51.0, token=9.0, byte=1.8),
        make_model("three", accuracy=50.0, token=7.0),
    ]

    pairs = find_disagreements(models)

    assert [better_models(pair) for pair in pairs] == [
        {"by perplexity": "one", "by accuracy": "two"},
        {"by perplexity": "three", "by accuracy": "two"},
    ]


def write_results_of(
    folder,
    model,
    right,
    perplexity=8.0,
    date="2026-01-01T00-00-00.0",
    backend="hf",
    **config,
):
    """Write the results of a FACTOR task and its perplexity task, with samples of the former.

    Args:
        folder: The folder of the file.
        model: The name of the model.
        right: For each row 1 if the model is right, 0 if it is not, and None if the row is
            unscored. The rows are of documents of two rows each.
        perplexity: The perplexity per token. That per byte is 1 and a tenth of it.
        date: The date in the names of the files.
        backend: The model class of lm_eval.
        **config: Further keys of lm_eval's configuration.

    Returns:
        The path of the results file.
    """
    folder.mkdir(parents=True, exist_ok=True)
    rows = len(right)
    data = {"rows": rows, "documents": rows // 2, "git_blob": "abc"}
    metadata = {"suite_version": "0.2.0", "window": 1024, "data": data}
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
            "x_factor": {"metadata": {"benchmark": "factor", **metadata}},
            "x_factor_perplexity": {
                "metadata": {"benchmark": "perplexity", "window_used": 1024, **metadata}
            },
        },
        "config": {"model": backend, **config},
        "model_name": model,
        "date": float(date[8:10]),
    }
    lines = factor_task([None if value is None else bool(value) for value in right])["samples"]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / f"samples_x_factor_{date}.jsonl").write_text(text, encoding="utf-8")
    path = folder / f"results_{date}.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


# Rows 2 and 3 are of one document, and so are rows 4 and 5. The two models differ in one of each.
RIGHT_IN_4_OF_10_ROWS = [1, 1, 0, 0, 1, 0, 0, 1, 0, 0]
RIGHT_IN_6_OF_10_ROWS = [1, 1, 0, 1, 1, 1, 0, 1, 0, 0]


def read_points(folder):
    """Read the models with an accuracy and a perplexity from the results in a folder."""
    points, _notes = models_on_corpora(read_runs([folder])[0])
    return points


def test_models_may_disagree_in_both_units_of_perplexity(tmp_path):
    """The perplexity per byte that these files have grows with the one per token."""
    write_results_of(
        tmp_path / "a", "one", right=RIGHT_IN_4_OF_10_ROWS, perplexity=8.0, model_num_parameters=5e8
    )
    write_results_of(tmp_path / "b", "two", right=RIGHT_IN_6_OF_10_ROWS, perplexity=9.0)

    (pair,) = find_disagreements(read_points(tmp_path))

    assert better_models(pair) == {"by perplexity": "one", "by accuracy": "two"}
    assert pair.units == ("token", "byte")


def test_accuracy_gaps_are_paired_by_row_and_clustered_by_document(tmp_path):
    """The models differ in two documents, and 2 of 4 ways to swap these give as large a gap."""
    write_results_of(tmp_path / "a", "one", right=RIGHT_IN_4_OF_10_ROWS, perplexity=8.0)
    write_results_of(tmp_path / "b", "two", right=RIGHT_IN_6_OF_10_ROWS, perplexity=9.0)

    (pair,) = find_disagreements(read_points(tmp_path))

    gap = pair.accuracy_gap
    assert gap.difference == pytest.approx(2 / 10)
    assert gap.shared_clusters == 5
    assert gap.shared_rows == 10
    assert gap.p_value == 2 / 4


def test_an_accuracy_gap_needs_samples(tmp_path):
    """Without them the difference of two accuracies is known, but not how sure it is."""
    write_results_of(tmp_path / "a", "one", right=RIGHT_IN_4_OF_10_ROWS, perplexity=8.0)
    write_results_of(tmp_path / "b", "two", right=RIGHT_IN_6_OF_10_ROWS, perplexity=9.0)
    (tmp_path / "b" / "samples_x_factor_2026-01-01T00-00-00.0.jsonl").unlink()

    (pair,) = find_disagreements(read_points(tmp_path))

    assert pair.accuracy_gap.difference == pytest.approx((6 - 4) / 10)
    assert pair.accuracy_gap.shared_rows == 0
    assert pair.accuracy_gap.p_value is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("1870", "1880", id="samples of rows with another text"),
        pytest.param('"factor_acc": 1.0', '"factor_acc": 0.0', id="samples with another accuracy"),
    ],
)
def test_an_accuracy_gap_needs_the_samples_of_the_same_rows(old, new, tmp_path):
    """Without them the difference of two accuracies is known, but not how sure it is."""
    write_results_of(tmp_path / "a", "one", right=RIGHT_IN_4_OF_10_ROWS, perplexity=8.0)
    write_results_of(tmp_path / "b", "two", right=RIGHT_IN_6_OF_10_ROWS, perplexity=9.0)
    samples_of_two = tmp_path / "b" / "samples_x_factor_2026-01-01T00-00-00.0.jsonl"
    content = samples_of_two.read_text(encoding="utf-8")
    samples_of_two.write_text(content.replace(old, new), encoding="utf-8")

    (pair,) = find_disagreements(read_points(tmp_path))

    assert pair.accuracy_gap.difference == pytest.approx((6 - 4) / 10)
    assert pair.accuracy_gap.shared_rows == 0
    assert pair.accuracy_gap.p_value is None


def test_accuracy_gap_omits_unscored_rows(tmp_path):
    """The first of ten rows is unscored, and of the others "two" is right in two more."""
    unscored = None
    write_results_of(tmp_path / "a", "one", [unscored, 1, 0, 0, 1, 0, 0, 1, 0, 0])
    write_results_of(tmp_path / "b", "two", [unscored, 1, 0, 1, 1, 1, 0, 1, 0, 0])
    one, two = read_points(tmp_path)

    gap = accuracy_difference(two, one)

    assert gap.shared_rows == 9
    assert gap.difference == pytest.approx(2 / 9)


def test_p_values_of_disagreements_are_corrected_for_all_pairs(tmp_path):
    """By Holm's method, the smallest p-value of three pairs is multiplied by 3, the next by 2."""
    write_results_of(tmp_path / "0", "right", right=[1] * 10, perplexity=9.0)
    write_results_of(tmp_path / "1", "one", right=RIGHT_IN_4_OF_10_ROWS, perplexity=8.5)
    write_results_of(tmp_path / "2", "two", right=RIGHT_IN_6_OF_10_ROWS, perplexity=8.0)

    pairs = find_disagreements(read_points(tmp_path))

    gaps = {pair.better_by_perplexity.model_name: pair.accuracy_gap for pair in pairs}
    assert {pair.better_by_accuracy.model_name for pair in pairs} == {"right"}
    # "right" differs from "one" in four documents, and from "two" in three. Of the 2**4 and 2**3
    # ways to swap the models in these documents, two give as large a gap.
    assert gaps["one"].p_value == 0.125
    assert gaps["one"].adjusted_p_value == 3 * 0.125
    assert gaps["two"].p_value == 0.25
    assert gaps["two"].adjusted_p_value == 2 * 0.25


def test_gains_pair_each_model_with_itself_without_retrieval(tmp_path):
    """A gain over another model would mix the model's skill with the retrieval's."""
    right = RIGHT_IN_4_OF_10_ROWS
    write_results_of(tmp_path / "a", "org/m-125m", right, backend="hf")
    write_results_of(tmp_path / "b", "org/m-125m", right, backend="hf-ralm")
    write_results_of(tmp_path / "c", "org/n-1b", right, backend="hf-ralm")
    write_results_of(tmp_path / "d", "org/n-1b", right, backend="hf")
    # These runs have no partner: one is by another method, the other of another revision.
    write_results_of(tmp_path / "e", "org/m-125m", right, backend="hf-prefix-free")
    write_results_of(tmp_path / "f", "org/m-125m", right, backend="hf-ralm", model_revision="step1")

    gains = retrieval_gains(read_points(tmp_path))

    names = [(gain.without_retrieval.model_name, gain.with_retrieval.model_name) for gain in gains]
    assert names == [
        ("org/m-125m", "org/m-125m (hf-ralm)"),
        ("org/n-1b", "org/n-1b (hf-ralm)"),
    ]


def test_gains_are_differences_with_corrected_p_values(tmp_path):
    """The smaller model gains in two documents, and the larger model in three."""
    write_results_of(tmp_path / "a", "m-125m", RIGHT_IN_4_OF_10_ROWS, backend="hf")
    write_results_of(tmp_path / "b", "m-125m", RIGHT_IN_6_OF_10_ROWS, backend="hf-ralm")
    write_results_of(tmp_path / "c", "n-1b", RIGHT_IN_6_OF_10_ROWS, backend="hf")
    write_results_of(tmp_path / "d", "n-1b", right=[1] * 10, backend="hf-ralm")

    gain_of_small_model, gain_of_large_model = retrieval_gains(read_points(tmp_path))

    small = gain_of_small_model.difference
    large = gain_of_large_model.difference
    assert small.difference == pytest.approx((6 - 4) / 10)
    assert large.difference == pytest.approx((10 - 6) / 10)
    # Of the 2**2 and 2**3 ways to swap the runs in these documents, two give as large a difference.
    assert small.p_value == 0.5
    assert large.p_value == 0.25
    # By Holm's method, the smallest of two p-values is multiplied by 2, and the other by 1.
    assert small.adjusted_p_value == 1 * 0.5
    assert large.adjusted_p_value == 2 * 0.25


def test_newest_result_is_used_and_older_results_are_listed(tmp_path):
    """A repeated run usually mends something, and the user should know that one is left out."""
    write_results_of(tmp_path, "one", right=RIGHT_IN_4_OF_10_ROWS, perplexity=8.0)
    write_results_of(
        tmp_path, "one", right=RIGHT_IN_6_OF_10_ROWS, perplexity=7.0, date="2026-01-02T00-00-00.0"
    )

    (point,), notes = models_on_corpora(read_runs([tmp_path])[0])

    note_on_accuracy, note_on_perplexity = notes
    assert point.accuracy.value == 6 / 10
    assert point.perplexity("token").value == 7.0
    assert "results_2026-01-01T00-00-00.0.json is older" in note_on_accuracy
    assert "results_2026-01-01T00-00-00.0.json is older" in note_on_perplexity


def test_newest_result_is_used_across_equivalent_backends(tmp_path):
    """These three backends give a model the same log-probabilities."""
    runs = [
        ("hf", "2026-01-01T00-00-00.0", RIGHT_IN_4_OF_10_ROWS),
        ("hf-tree", "2026-01-02T00-00-00.0", RIGHT_IN_4_OF_10_ROWS),
        ("vllm", "2026-01-03T00-00-00.0", RIGHT_IN_6_OF_10_ROWS),
    ]
    for backend, date, right in runs:
        write_results_of(tmp_path / backend, "one", right, date=date, backend=backend)

    (point,) = read_points(tmp_path)

    assert point.model_name == "one"
    assert point.accuracy.value == 6 / 10


def test_other_backends_and_revisions_count_as_separate_models(tmp_path):
    """Retrieval changes the scores of a model, and so does further training."""
    right = RIGHT_IN_4_OF_10_ROWS
    write_results_of(tmp_path / "a", "one", right, backend="hf")
    write_results_of(tmp_path / "b", "one", right, backend="hf-ralm")
    write_results_of(tmp_path / "c", "one", right, backend="hf", model_revision="step1000")

    models = [point.model_name for point in read_points(tmp_path)]

    assert models == ["one", "one (hf-ralm)", "one (step1000)"]


def test_perplexity_without_an_accuracy_is_listed(tmp_path):
    """Nothing is left out silently: a table of pairs cannot show a perplexity alone."""
    path = write_results_of(tmp_path, "one", right=RIGHT_IN_4_OF_10_ROWS, perplexity=8.0)
    content = json.loads(path.read_text(encoding="utf-8"))
    del content["results"]["x_factor"]
    path.write_text(json.dumps(content), encoding="utf-8")

    points, notes = models_on_corpora(read_runs([tmp_path])[0])

    assert points == []
    assert notes == [
        "x_factor_perplexity, one: perplexity 8.00, per byte 1.800; "
        "no accuracy on x_factor to go with it"
    ]


@pytest.mark.parametrize(
    ("name", "model_family", "size"),
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
def test_the_family_and_the_size_of_a_model_are_read_from_its_name(name, model_family, size):
    """Plots colour models by family and place them by size."""
    assert family(name) == model_family
    assert size_in_name(name) == size


@pytest.mark.parametrize(
    ("size", "label"),
    [
        (66e9, "66B"),
        (2.7e9, "2.7B"),
        (125e6, "125M"),
        (1.5e6, "1.5M"),
        (644_160, "644K"),
        (12, "12"),
    ],
)
def test_model_sizes_are_labelled_as_in_model_names(size, label):
    """Names of models state sizes such as 125M, and labels in plots should look the same."""
    assert size_label(size) == label
