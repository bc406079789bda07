"""FACTOR in open generation through lm_eval: generations, a judge, and samples judged again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partialmethod
from pathlib import Path

import pytest
import yaml

from lm_factuality.benchmarks.factor_generation.judging import FACTOR_GENERATION
from lm_factuality.cli.main import main
from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.harness.samples import verdict_of
from tests.benchmarks.factor_generation.rule import mark_by_wording
from tests.conftest import TASKS, example_row, run_command
from tests.judges.server import JudgeServer

TASK = "sample_factor_generation"
BASE_YAML = TASKS / "factor" / "_factor_generation.yaml"
NUM_ROWS = 36
"""How many rows of the sample the model continues.

The model is tiny, and few of its sentences state or violate a fact. With half as many rows there
would be no accuracy.
"""
NUM_GENERATIONS = 3
"""The number of generations of a row with a fact, as the task's YAML says."""

ROW_WITH_FACT = example_row(doc_id="1")
ROW_WITHOUT_FACT = example_row(
    doc_id="2",
    # Each contradiction is a beginning of the true completion, so no wording differs.
    contradiction_0="Its",
    contradiction_1="Its first",
    contradiction_2="Its first keeper",
)
ROW_WITH_EMPTY_CHOICE = example_row(doc_id="3", contradiction_0="")


@pytest.fixture(scope="module", autouse=True)
def environment(tmp_path_factory) -> Iterator[None]:
    """Give the tests of this file an empty cache folder, and keep lm_eval's own tasks unread.

    Without it, judges could find answers of earlier runs, and each run would index all tasks of
    lm_eval, which takes seconds.
    """
    from lm_eval.tasks import TaskManager

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LM_FACTUALITY_HOME", str(tmp_path_factory.mktemp("home")))
        patch.delenv("OPENAI_API_KEY", raising=False)
        without_defaults = partialmethod(TaskManager.__init__, include_defaults=False)
        patch.setattr(TaskManager, "__init__", without_defaults)
        yield


@pytest.fixture(scope="session")
def model_args(checkpoint) -> dict[str, str]:
    """Return the arguments of the model that all tests of this file run."""
    return {"pretrained": str(checkpoint), "dtype": "float32"}


def read_json(path: Path) -> dict:
    """Read a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


def read_jsonl(path: Path) -> list[dict]:
    """Read a file with one JSON object per line."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def only_file(folder: Path, pattern: str) -> Path:
    """Return the only file below a folder whose path matches a pattern."""
    (path,) = folder.rglob(pattern)
    return path


def judge_again(samples: Path, out: Path) -> dict:
    """Judge saved generations with the lexical judge.

    Args:
        samples: A samples file of lm_eval, or the generations that the suite saves.
        out: The folder for the output of ``lm-factuality judge``.

    Returns:
        The content of ``metrics.json``.
    """
    exit_code = run_command(
        *("judge", "factor_generation"),
        *("--samples", str(samples)),
        *("--judge", "lexical"),
        *("--out", str(out)),
    )
    assert exit_code == 0
    return read_json(out / "metrics.json")


def assert_metrics_are_those_of(summary: dict, metrics: dict) -> None:
    """Check that lm_eval's metrics are those of a summary of the judge's marks."""
    for name, figure in summary.items():
        if not isinstance(figure, dict) or "value" not in figure:
            continue
        value = figure["value"]
        expected = "N/A" if value is None else pytest.approx(value)
        assert metrics[f"{name},judge"] == expected, name

    # The summary counts these by reason.
    assert metrics["unscored,judge"] == sum(summary["unscored"].values())
    assert metrics["without_fact,judge"] == sum(summary["without_fact"].values())


@pytest.fixture(scope="module")
def run_folder(model_args, tmp_path_factory) -> Path:
    """Return the output folder of ``lm-factuality run`` on rows of the sample."""
    folder = tmp_path_factory.mktemp("run")
    exit_code = main(
        [
            "run",
            *("--model", "hf"),
            *("--model_args", json.dumps(model_args)),
            *("--tasks", TASK),
            *("--limit", str(NUM_ROWS)),
            *("--device", "cpu"),
            *("--batch_size", "16"),
            *("--output_path", str(folder)),
            "--log_samples",
        ]
    )
    assert exit_code == 0
    return folder


@pytest.fixture(scope="module")
def run_results(run_folder) -> dict:
    """Return the results file of the run."""
    return read_json(only_file(run_folder, "results_*.json"))


@pytest.fixture(scope="module")
def run_samples(run_folder) -> list[dict]:
    """Return the samples of the run."""
    return read_jsonl(only_file(run_folder, "samples_*.jsonl"))


@pytest.fixture(scope="module")
def judged_folder(run_folder, tmp_path_factory) -> Path:
    """Return the folder in which ``lm-factuality judge`` has judged the samples of the run."""
    folder = tmp_path_factory.mktemp("judged")
    judge_again(only_file(run_folder, "samples_*.jsonl"), folder)
    return folder


def test_real_model_writes_true_and_false_sentences(run_results):
    """An accuracy of 0 or 1 would come from a model or a judge that always does the same."""
    assert 0 < run_results["results"][TASK]["accuracy,judge"] < 1


def test_only_rows_with_a_fact_have_three_generations(run_samples):
    """Without a fact there is nothing that the model could state or violate."""
    for sample in run_samples:
        has_fact = bool(sample["doc"]["true_edit"])
        (generations,) = sample["resps"]
        assert len(generations) == (NUM_GENERATIONS if has_fact else 0)


def test_model_continues_from_the_words_shared_by_both_completions(run_samples):
    """The shared words lead the model to the fact, which it then states or violates."""
    for sample in run_samples:
        sent_prompt = sample["arguments"]["gen_args_0"]["arg_0"]  # lm_eval's names in samples
        shared_words = sample["doc"]["stem"]
        assert sent_prompt == sample["doc"]["prompt"]
        assert sent_prompt.endswith(shared_words)


def test_the_generations_of_a_row_are_sampled(run_samples):
    generations = set()
    for sample in run_samples:
        generations.update(sample["resps"][0])

    # Greedy decoding would give each row the same text three times.
    assert len(generations) > NUM_ROWS


def test_results_record_how_generations_were_judged(run_results):
    """Accuracies by other judges or prompts cannot be compared."""
    metadata = run_results["configs"][TASK]["metadata"]

    assert metadata["judge"] == "lexical"
    assert metadata["contradiction"] == "first"
    assert "in other words counts as neutral" in metadata["caution"]
    assert "factor_generation/mark" in metadata["judge_config"]["prompt_hashes"]


def test_judging_saved_samples_gives_the_metrics_of_the_run(judged_folder, run_results):
    """``lm-factuality judge`` reads a run's samples, and must give the same scores."""
    summary = read_json(judged_folder / "metrics.json")

    assert_metrics_are_those_of(summary, run_results["results"][TASK])


def test_judging_again_uses_stored_answers(judged_folder):
    """The run has stored the judge's answers, so judging its samples costs nothing."""
    summary = read_json(judged_folder / "metrics.json")

    assert summary["about"]["judge_usage"]["stored"] > 0


def test_every_generation_has_a_mark_or_a_reason(judged_folder, run_samples):
    """Each generation has a mark, or a reason why it has none, so that no failure stays hidden."""
    summary = read_json(judged_folder / "metrics.json")

    num_rows_with_fact = sum(bool(sample["doc"]["true_edit"]) for sample in run_samples)
    num_marked = sum(summary["generations"].values())
    num_unscored = sum(summary["unscored"].values())
    assert num_marked + num_unscored == NUM_GENERATIONS * num_rows_with_fact


def test_saved_generations_are_judged_like_samples(run_folder, judged_folder, tmp_path):
    """The suite saves generations before it judges them, so that a failed judge loses none."""
    generations = only_file(run_folder, "generations/*.jsonl")
    summary_of_samples = read_json(judged_folder / "metrics.json")
    verdicts_on_samples = read_jsonl(judged_folder / "verdicts.jsonl")

    summary = judge_again(generations, tmp_path)

    # ``about`` names the file that was judged.
    del summary["about"]
    del summary_of_samples["about"]
    assert summary == summary_of_samples
    assert read_jsonl(tmp_path / "verdicts.jsonl") == verdicts_on_samples


@pytest.fixture(scope="module")
def output_of_both_tasks(evaluate, model_args):
    """Return lm_eval's output of the FACTOR task and the task of this file, on the same ten rows.

    Both score the four completions of each row.
    """
    return evaluate("hf", ["sample_factor", TASK], model_args=model_args, limit=10, batch_size=16)


def test_completions_are_scored_as_in_the_factor_task(output_of_both_tasks):
    """The paper compares which completion a model prefers with what it writes."""
    factor_metrics = output_of_both_tasks["results"]["sample_factor"]
    metrics = output_of_both_tasks["results"][TASK]
    factor_samples = output_of_both_tasks["samples"]["sample_factor"]
    samples = output_of_both_tasks["samples"][TASK]

    factor_stderr = factor_metrics["factor_acc_stderr,none"]
    assert metrics["factor_acc,judge"] == factor_metrics["factor_acc,none"]
    assert metrics["factor_acc_stderr,judge"] == pytest.approx(factor_stderr)
    for sample, factor_sample in zip(samples, factor_samples, strict=True):
        factor_logprobs = factor_sample["factor_mean_logprob"]
        assert sample["doc"]["mean_logprob"] == pytest.approx(factor_logprobs)


def prefers_true_completion(doc: dict) -> bool:
    """Return whether a model finds the true completion likelier than the contradiction."""
    logprob_by_choice = doc["mean_logprob"]
    return logprob_by_choice[doc["gold"]] > logprob_by_choice[doc["contradiction"]]


def test_accuracy_is_split_by_whether_the_model_prefers_the_true_completion(output_of_both_tasks):
    """The paper asks whether a model that prefers the truth also writes it more often."""
    docs_by_group = {"right": [], "wrong": [], "unsplit": []}
    for sample in output_of_both_tasks["samples"][TASK]:
        docs_by_group[sample["accuracy"].group].append(sample["doc"])

    assert all(prefers_true_completion(doc) for doc in docs_by_group["right"])
    assert not any(prefers_true_completion(doc) for doc in docs_by_group["wrong"])
    # Nothing is generated for a row without a fact.
    assert all(doc["true_edit"] for doc in docs_by_group["right"] + docs_by_group["wrong"])
    assert not any(doc["true_edit"] for doc in docs_by_group["unsplit"])


def count_beaten_contradictions(sample: dict) -> int:
    """Count the contradictions of a row that the model finds less likely than the truth."""
    true_logprob, *false_logprobs = sample["doc"]["mean_logprob"]
    return sum(logprob < true_logprob for logprob in false_logprobs)


def test_pairs_right_is_the_share_of_beaten_contradictions(output_of_both_tasks):
    """A pair is the true completion and one of three contradictions of one of ten rows."""
    samples = output_of_both_tasks["samples"][TASK]
    num_beaten = sum(count_beaten_contradictions(sample) for sample in samples)

    share = output_of_both_tasks["results"][TASK]["pairs_right,judge"]

    assert share == num_beaten / (10 * 3)


@pytest.fixture
def write_task(tmp_path):
    """Return a function that writes the YAML of the task ``my_generation`` on ``rows.jsonl``.

    It takes keys of the YAML, with the settings under ``metadata``, and returns the task's name.
    """

    def write(metadata: dict | None = None, **keys) -> str:
        content = {
            "include": str(BASE_YAML),
            "task": "my_generation",
            "dataset_path": "rows.jsonl",
            "metadata": {"judge": "lexical", **(metadata or {})},
            **keys,
        }
        (tmp_path / "my_generation.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
        return "my_generation"

    return write


@pytest.fixture
def run_rows(evaluate, model_args, write_rows, write_task, tmp_path):
    """Return a function that runs the task on rows through lm_eval, and returns the output.

    It takes the rows, the ``keys`` of the task's YAML, and options of lm_eval's `simple_evaluate`.
    """
    short_generations = {"max_gen_toks": 8}  # the tests need no more, and longer ones take time

    def run_task(rows, keys=None, **options):
        write_rows(rows)
        task = write_task(**(keys or {}))
        return evaluate("hf", [task], tmp_path, model_args, gen_kwargs=short_generations, **options)

    return run_task


@pytest.fixture
def output_of_three_rows(run_rows):
    """Return the output of a row with a fact, one without, and one that cannot be scored."""
    return run_rows([ROW_WITH_FACT, ROW_WITHOUT_FACT, ROW_WITH_EMPTY_CHOICE])


def test_rows_without_a_fact_stay_in_the_samples_with_a_reason(output_of_three_rows):
    """Dropping such rows would hide how many there are."""
    with_fact, without_fact, with_empty_choice = output_of_three_rows["samples"]["my_generation"]

    assert len(with_fact["resps"][0]) == NUM_GENERATIONS
    assert without_fact["resps"] == with_empty_choice["resps"] == [[]]
    assert without_fact["without_fact"] == (
        "nothing of the false completion is left after the common words"
    )
    assert with_empty_choice["without_fact"] == "choice 1 (contradiction_0) is empty"
    assert output_of_three_rows["results"]["my_generation"]["without_fact,judge"] == 2


def test_pairs_right_omits_unscorable_rows(output_of_three_rows):
    """The third row has an empty choice, so only the pairs of the first two rows count."""
    with_fact, without_fact, _ = output_of_three_rows["samples"]["my_generation"]
    num_beaten = count_beaten_contradictions(with_fact) + count_beaten_contradictions(without_fact)

    share = output_of_three_rows["results"]["my_generation"]["pairs_right,judge"]

    assert share == num_beaten / (2 * 3)


def test_metrics_are_the_summary_of_the_verdicts(output_of_three_rows):
    """Verdicts of a samples file, summed up later, must give the metrics that lm_eval reported."""
    samples = output_of_three_rows["samples"]["my_generation"]
    docs = [sample["doc"] for sample in samples]
    verdicts = [verdict_of(sample) for sample in samples]

    summary = FACTOR_GENERATION.summarise(docs, verdicts)

    assert_metrics_are_those_of(summary, output_of_three_rows["results"]["my_generation"])


def test_rows_without_a_fact_can_be_judged_again(output_of_three_rows):
    """A samples file may hold rows without generations, and is not refused because of them."""
    _, without_fact, with_empty_choice = output_of_three_rows["samples"]["my_generation"]

    no_responses = ()
    assert FACTOR_GENERATION.document_problem(without_fact["doc"], no_responses) is None
    assert FACTOR_GENERATION.document_problem(with_empty_choice["doc"], no_responses) is None


@pytest.fixture
def output_without_a_fact(run_rows):
    """Return the output of a run whose only row has no fact. The limit leaves out the next one."""
    return run_rows([ROW_WITHOUT_FACT, ROW_WITH_FACT], limit=1)


def test_accuracy_is_undefined_without_facts(output_without_a_fact):
    """Without any mark the accuracy is undefined. It could be anything from 0 to 1."""
    metrics = output_without_a_fact["results"]["my_generation"]

    assert metrics["without_fact,judge"] == 1
    assert metrics["accuracy,judge"] == "N/A"
    assert metrics["accuracy_stderr,judge"] == "N/A"
    assert metrics["accuracy_worst,judge"] == 0
    assert metrics["accuracy_best,judge"] == 1


def test_results_give_the_reason_for_a_missing_accuracy(output_without_a_fact):
    """A missing accuracy without a reason would look like a failure of the run."""
    caution = output_without_a_fact["configs"]["my_generation"]["metadata"]["caution"]

    assert "No accuracy: the model is" in caution
    assert "no generation of such a row has a mark" in caution


def test_short_yaml_adds_a_corpus_with_other_columns(evaluate, model_args, write_rows, tmp_path):
    """The prompt ends with "The match was", the words that both completions begin with."""
    row = {
        "context": "It rained. ",
        "right": "The match was called off.",
        "wrong": "The match was won.",
        "article": 7,
    }
    write_rows([row])
    task_yaml = f"""\
include: {BASE_YAML}
task: weather_generation
dataset_path: rows.jsonl
metadata:
  version: 1.0
  license: CC0-1.0
  judge: lexical
  columns: {{prefix: context, completion: right, contradictions: [wrong], doc_id: article}}
"""
    (tmp_path / "weather.yaml").write_text(task_yaml, encoding="utf-8")

    output = evaluate("hf", ["weather_generation"], tmp_path, model_args)

    (sample,) = output["samples"]["weather_generation"]
    prompt, generation_settings = sample["arguments"][0]
    assert prompt == "It rained. The match was"
    assert generation_settings["until"] == ["\n"]
    assert sample["doc"]["prompt"] == prompt
    assert sample["doc"]["doc_id"] == "7"
    assert sample["doc"]["true_edit"] == "called off"
    assert sample["doc"]["false_edit"] == "won"


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        pytest.param(
            {"metadata": {"contradiction": "entitty"}},
            "'entitty', expected first or an error type",
            id="contradiction",
        ),
        pytest.param(
            {"metadata": {"judge": "lexcal"}},
            "no judge is called 'lexcal'; did you mean lexical",
            id="judge",
        ),
        pytest.param(
            {"metric_list": [{"metric": "acuracy"}]},
            "metric_list: no score 'acuracy'; did you mean accuracy",
            id="metric",
        ),
    ],
)
def test_a_misspelt_setting_is_refused(run_rows, keys, message):
    """The message names the wrong value and, where one is near, the right one."""
    with pytest.raises(ConfigError, match=message):
        run_rows([ROW_WITH_FACT], keys)


def test_data_without_any_fact_are_refused(run_rows):
    """A run on such data would generate nothing, and end without any score."""
    message = (
        "no row has a minimal fact, the first because: nothing of the false completion is left"
    )
    with pytest.raises(DataError, match=message):
        run_rows([ROW_WITHOUT_FACT, ROW_WITH_EMPTY_CHOICE])


def test_error_type_of_the_contradiction_can_be_chosen(run_rows):
    """By default, the fact is that of the first contradiction."""
    row = example_row(
        completion="Its first keeper was a sailor from the north.",
        contradiction_0_type="entity",
        contradiction_1="Its last keeper was a sailor from the north.",
        contradiction_1_type="predicate",
        contradiction_2_type="entity",
    )

    output = run_rows([row], {"metadata": {"contradiction": "predicate"}})

    (sample,) = output["samples"]["my_generation"]
    assert sample["doc"]["contradiction"] == 2  # choice 0 is the truth, 1 is contradiction_0
    assert sample["doc"]["error_type"] == "predicate"
    assert sample["doc"]["true_edit"] == "first"
    assert sample["doc"]["false_edit"] == "last"


@pytest.fixture
def server():
    """Return a server that answers chat requests."""
    started = JudgeServer(mark_by_wording)
    yield started
    started.close()


def test_chat_server_is_refused_before_generation(evaluate, server):
    """The task scores completions too, and chat servers give no log-probabilities of a text."""
    server_args = {"model": "any", "base_url": f"{server.base_url}/chat/completions"}

    with pytest.raises(ConfigError, match="which chat servers do not give"):
        evaluate(
            "local-chat-completions",
            [TASK],
            model_args=server_args,
            limit=1,
            apply_chat_template=True,
        )

    assert not server.bodies


def test_predict_only_generations_can_be_judged_later(run_rows):
    """With ``--predict_only`` no judge is asked, and samples hold what a judge needs later."""
    output = run_rows([ROW_WITH_FACT, ROW_WITHOUT_FACT, ROW_WITH_EMPTY_CHOICE], predict_only=True)

    with_fact, without_fact, with_empty_choice = output["samples"]["my_generation"]
    generations = with_fact["resps"][0]
    assert len(generations) == NUM_GENERATIONS
    assert without_fact["resps"] == with_empty_choice["resps"] == [[]]
    assert FACTOR_GENERATION.document_problem(with_fact["doc"], generations) is None
