"""The protocol ``dola`` against a small implementation of what DoLa's FACTOR script does."""

import re
from typing import NamedTuple

import pytest
import torch
import yaml
from lm_eval.tasks import TaskManager
from transformers import AutoModelForCausalLM, AutoTokenizer

from lm_factuality.benchmarks.audit import ExpectedRun
from lm_factuality.benchmarks.factor.benchmark import FactorAudit
from lm_factuality.benchmarks.factor.corpus import parse_corpus
from lm_factuality.benchmarks.factor.load import load_corpus
from lm_factuality.benchmarks.factor.page import sample_row
from lm_factuality.cli import main
from lm_factuality.ground.errors import ConfigError
from tests.benchmarks.factor.test_agreement import RIGHT_IN_4_OF_10_ROWS, write_results_of
from tests.conftest import REPOSITORY, TASKS, example_row
from tests.models.decoding_reference import DolaSettings, dola_scores
from tests.tiny_models import save_gpt2, save_opt

CHOICE_COLUMNS = ("completion", "contradiction_0", "contradiction_1", "contradiction_2")


class ScriptResult(NamedTuple):
    """What the script makes of a row."""

    sums: list[float]
    """The sum of log-probabilities of each choice, the true one first."""

    is_right: bool
    """Whether no false choice has a larger sum."""


class Script:
    """DoLa's FACTOR script, from its description.

    The prefix and a completion are tokenized together with a space between them, and the prefix
    also alone, with whatever special tokens the tokenizer adds. What follows as many tokens as the
    prefix has is summed.
    """

    def __init__(self, folder, layers=()):
        """Load a checkpoint.

        Args:
            folder: The folder of the checkpoint.
            layers: The early layers of DoLa. Without them, the model's own distribution is used.
        """
        self.model = AutoModelForCausalLM.from_pretrained(folder).eval()
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.layers = layers

    def score(self, row):
        """Score a row."""
        prefix = row["turncated_prefixes"]
        sums = [self.sum_logprobs(prefix, row[column]) for column in CHOICE_COLUMNS]
        true_sum, *false_sums = sums
        return ScriptResult(sums, is_right=true_sum >= max(false_sums))

    def sum_logprobs(self, prefix, choice):
        """Sum the log-probabilities of the tokens of a choice."""
        num_prefix_tokens = len(self.tokenizer(prefix)["input_ids"])
        tokens = self.tokenizer(f"{prefix} {choice}")["input_ids"]
        with torch.no_grad():
            output = self.model(torch.tensor([tokens]), output_hidden_states=True)
            # The position before a token predicts it.
            logprobs = self.log_distributions(output, slice(num_prefix_tokens - 1, -1))
        choice_tokens = torch.tensor(tokens[num_prefix_tokens:])
        return float(logprobs[torch.arange(len(choice_tokens)), choice_tokens].sum())

    def log_distributions(self, output, positions):
        """Return the log-probabilities of the vocabulary at some positions."""
        logits = output.logits[0, positions]
        if not self.layers:
            return logits.double().log_softmax(-1)
        states = [state[0, positions] for state in output.hidden_states]
        settings = DolaSettings(layers=self.layers, formula="code")
        return dola_scores(states, logits, self.model.get_output_embeddings(), settings)


@pytest.fixture
def rows():
    """Return rows in which prefixes end and completions begin in different ways.

    The last rows have true completions of few and of many tokens.
    """
    opened = "The library opened in 1870."
    prefixes = (f"{opened} ", f"{opened}\n", opened, "The library opened  ")
    completions = (
        "It fell.",
        "No.",
        "Who knows?",
        "It has a very long and winding name, which nobody in the whole town can spell.",
    )
    return [
        *[example_row(turncated_prefixes=prefix, doc_id=prefix) for prefix in prefixes],
        example_row(
            turncated_prefixes=f"{opened} ",
            completion="  Its first keeper was a sailor from the north.",
            doc_id="spaces",
        ),
        *[
            example_row(turncated_prefixes="A house. ", completion=completion, doc_id=completion)
            for completion in completions
        ],
    ]


class DolaRun(NamedTuple):
    """The output of lm_eval on a task with the protocol ``dola``."""

    metadata: dict
    scores: dict
    samples: list


@pytest.fixture
def run_protocol_dola(evaluate, factor_yaml, write_rows):
    """Return a function that runs a task with the protocol ``dola`` on rows."""

    def run_rows(folder, rows, model="hf-tree", **options):
        write_rows(rows)
        settings = {"version": 1.0, "protocol": "dola"}
        path = factor_yaml(dataset_path="rows.jsonl", metadata=settings)
        arguments = {"pretrained": str(folder), "dtype": "float32", **options}
        output = evaluate(model, ["my_factor"], path.parent, arguments, batch_size=4)
        return DolaRun(
            output["configs"]["my_factor"]["metadata"],
            output["results"]["my_factor"],
            output["samples"]["my_factor"],
        )

    return run_rows


def sums_of_sample(sample):
    """Return the sum of log-probabilities of each choice of a sample."""
    return [float(response[0]) for response in sample["filtered_resps"]]


def assert_scored_like_script(run, expected):
    """Check the sums and the verdict of each row, and the accuracy of all.

    Args:
        run: The output of lm_eval.
        expected: What the script makes of each row.
    """
    for sample, result in zip(run.samples, expected, strict=True):
        assert sums_of_sample(sample) == pytest.approx(result.sums, abs=2e-3)
        assert sample["factor_acc"] == result.is_right
        assert sample["acc"] == result.is_right
    num_right = sum(result.is_right for result in expected)
    assert run.scores["factor_acc,none"] == pytest.approx(num_right / len(expected))
    assert run.scores["unscored,none"] == 0


@pytest.fixture(
    params=[
        pytest.param(save_gpt2, id="tokenizer without a first token"),
        pytest.param(save_opt, id="tokenizer with a first token"),
    ]
)
def tiny_model(request, tmp_path, checkpoint):
    """Return the folder of a tiny model with random weights."""
    return request.param(tmp_path / "model", AutoTokenizer.from_pretrained(checkpoint))


def test_sums_and_verdicts_equal_those_of_the_script(tiny_model, rows, run_protocol_dola):
    """The figures of DoLa's paper come from its script, so the protocol must score as it does."""
    script = Script(tiny_model)

    run = run_protocol_dola(tiny_model, rows)

    assert_scored_like_script(run, [script.score(row) for row in rows])


def test_results_record_the_protocol_and_no_window(checkpoint, rows, run_protocol_dola):
    """Scores by other protocols cannot be compared. The script never cuts a prefix."""
    run = run_protocol_dola(checkpoint, rows)

    assert run.metadata["protocol"] == "dola"
    assert run.metadata["join"] == "dola"
    assert run.metadata["window"] is None


def test_margin_is_a_difference_of_sums(checkpoint, rows, run_protocol_dola):
    """DoLa's protocol compares sums of log-probabilities, and other protocols means per token."""
    run = run_protocol_dola(checkpoint, rows)

    *_, sample = run.samples
    true_sum, *false_sums = sums_of_sample(sample)
    unused_results = None
    margin = sample_row(unused_results, sample).margin
    assert margin == pytest.approx(true_sum - max(false_sums), abs=1e-3)


def test_dola_decoding_scores_equal_those_of_the_script(checkpoint, rows, run_protocol_dola):
    """The decoding contrasts the last layer with early ones, here with the layers 0 and 1."""
    script = Script(checkpoint, layers=(0, 1))

    run = run_protocol_dola(checkpoint, rows, "hf-dola", layers="0+1", formula="code")

    assert_scored_like_script(run, [script.score(row) for row in rows])


@pytest.fixture
def model_of_equal_tokens(tmp_path, checkpoint):
    """Return the folder of a model to which all tokens are equally likely: its weights are 0."""
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    return save_gpt2(tmp_path / "model", tokenizer, value=0.0)


def test_tie_counts_as_right_as_in_the_script(model_of_equal_tokens, run_protocol_dola):
    """With all tokens equally likely, choices of equal length tie, and a shorter choice wins."""
    tied_row = example_row(
        turncated_prefixes="It is ",
        completion="one two",
        contradiction_0="one one",
        contradiction_1="two two",
        contradiction_2="two one",
    )
    lost_row = {**tied_row, "contradiction_0": "one"}
    script = Script(model_of_equal_tokens)

    run = run_protocol_dola(model_of_equal_tokens, [tied_row, lost_row])

    tied_sample, lost_sample = run.samples
    assert tied_sample["factor_acc"] == 1
    assert lost_sample["factor_acc"] == 0
    assert_scored_like_script(run, [script.score(tied_row), script.score(lost_row)])


@pytest.fixture
def parse_corpus_with(tmp_path, factor_yaml, write_rows):
    """Return a function that parses a YAML which names a column with whole prefixes for ``dola``.

    The row has the prefix "The library opened in 1870. ", and in full "Once. " before it.
    """
    write_rows([example_row(full_prefix="Once. The library opened in 1870. ")])
    path = factor_yaml(dataset_path=str(tmp_path / "rows.jsonl"))
    config = yaml.safe_load(path.read_text())
    del config["include"]

    def parse(metadata, **keys):
        settings = {"version": 1.0, "dola_prefix": "full_prefix", **metadata}
        return parse_corpus({**config, **keys, "metadata": settings})

    return parse


TEMPLATES = {
    "doc_to_text": "turncated_prefixes",
    "doc_to_choice": ["completion", "contradiction_0"],
    "doc_to_target": 0,
}


@pytest.mark.parametrize(
    "keys",
    [pytest.param({}, id="rows by columns"), pytest.param(TEMPLATES, id="rows by templates")],
)
@pytest.mark.parametrize(
    ("protocol", "beginning", "window"),
    [
        ("paper", "The library", 1024),
        ("code", "The library", 1024),
        ("dola", "Once. The library", None),
    ],
)
def test_only_protocol_dola_uses_the_full_prefix_column(
    parse_corpus_with, keys, protocol, beginning, window
):
    """DoLa's script reads whole prefixes, which the published files have in a column of their own."""
    corpus = parse_corpus_with({"protocol": protocol}, **keys)

    (row,) = load_corpus(corpus).rows
    assert row.prefix.startswith(beginning)
    assert corpus.metadata.window == window


def test_protocol_dola_can_have_a_window(parse_corpus_with):
    """Small models cannot take the whole prefixes of the script."""
    corpus = parse_corpus_with({"protocol": "dola", "window": 64})

    assert corpus.metadata.window == 64


def test_only_news_factor_is_read_with_full_prefixes():
    """The script looks for "news" in the name of the file."""
    yaml_paths = [
        path for path in (TASKS / "factor").glob("*.yaml") if "dola_prefix" in path.read_text()
    ]

    assert [path.name for path in yaml_paths] == ["news_factor.yaml"]


def arguments_as_in_file(sample):
    """Return the arguments of a sample's requests in the form of a samples file."""
    return {
        f"gen_args_{number}": {f"arg_{place}": value for place, value in enumerate(arguments)}
        for number, arguments in enumerate(sample["arguments"])
    }


@pytest.mark.parametrize(
    ("protocol", "join", "is_accepted"),
    [
        pytest.param("dola", "dola", True, id="the run's protocol"),
        pytest.param("paper", "authors", False, id="another protocol"),
    ],
)
def test_leaderboard_audit_expects_the_requests_of_the_protocol(
    checkpoint, rows, run_protocol_dola, protocol, join, is_accepted
):
    """A run by ``dola`` has other requests than a leaderboard by ``paper`` asks for."""
    run = run_protocol_dola(checkpoint, rows[:2])
    sample = {**run.samples[0], "arguments": arguments_as_in_file(run.samples[0])}
    expected_run = ExpectedRun(metadata={**run.metadata, "protocol": protocol, "join": join})

    problem = FactorAudit(expected_run).request_problem(sample)

    assert (problem is None) == is_accepted


def test_open_generation_refuses_protocol_dola():
    """Open generation has no choices that the script of DoLa could score."""
    manager = TaskManager(
        include_path=[str(TASKS)], include_defaults=False, metadata={"protocol": "dola"}
    )
    message = "protocol dola only scores choices; open generation has the protocols paper and code"

    with pytest.raises(ConfigError, match=message):
        manager.load_task_or_group("sample_factor_generation")


MODEL = "huggyllama/llama-7b"


@pytest.fixture
def compare_with_figures(tmp_path, capsys):
    """Return a function that compares a run, whose accuracy is 40%, with the published figures.

    The function returns what the command prints. Its arguments are the backend of the run, further
    arguments of the model, and the protocol.
    """

    def compare(backend="hf", model_args="", protocol="dola"):
        path = write_results_of(
            tmp_path,
            MODEL,
            right=RIGHT_IN_4_OF_10_ROWS,
            perplexity=9.0,
            backend=backend,
            decoding={"method": "DoLa", "layers": [0, 2]} if backend == "hf-dola" else None,
            model_args=f"pretrained={MODEL},dtype=float16{model_args}",
        )
        text = path.read_text(encoding="utf-8").replace("x_factor", "news_factor")
        text = text.replace('"window": 1024,', f'"window": 1024, "protocol": "{protocol}",')
        path.write_text(text, encoding="utf-8")
        figures = REPOSITORY / "configs" / "reproduce" / "decoding_figures.yaml"
        assert main(["compare", str(path), "--with", str(figures)]) == 0
        return capsys.readouterr().out

    return compare


ARGUMENTS_OF_PAPER = ",layers=low,formula=code"
"""The arguments of the model with which the paper's figures of DoLa were measured."""


def read_differences(output):
    """Read the differences between the run's accuracy and published ones in a table."""
    return re.findall(rf"{MODEL}.* factor_acc +40\.0 +[\d.]+ +(-[\d.]+)", output)


@pytest.mark.parametrize(
    ("backend", "model_args", "difference"),
    [
        pytest.param("hf", "", "-18.3", id="plain decoding"),
        pytest.param("hf-dola", ARGUMENTS_OF_PAPER, "-22.0", id="DoLa"),
    ],
)
def test_published_figure_is_compared_with_a_run_of_equal_protocol_and_method(
    compare_with_figures, backend, model_args, difference
):
    """The run has an accuracy of 40.0%, and DoLa's paper 58.3% without DoLa and 62.0% with it."""
    output = compare_with_figures(backend=backend, model_args=model_args, protocol="dola")

    assert read_differences(output) == [difference]


@pytest.mark.parametrize(
    ("backend", "model_args", "protocol"),
    [
        pytest.param("hf-dola", "", "dola", id="DoLa with its default layers"),
        pytest.param("hf-dola", ",layers=high,formula=code", "dola", id="DoLa with high layers"),
        pytest.param("hf-ralm", ",index=wikipedia", "dola", id="retrieval"),
        pytest.param("hf", "", "paper", id="plain decoding by another protocol"),
        pytest.param("hf-dola", ARGUMENTS_OF_PAPER, "paper", id="DoLa by another protocol"),
    ],
)
def test_published_figure_is_not_compared_across_protocols_or_methods(
    compare_with_figures, backend, model_args, protocol
):
    """The figures are of plain decoding and of DoLa with low layers, by the protocol ``dola``."""
    output = compare_with_figures(backend=backend, model_args=model_args, protocol=protocol)

    assert read_differences(output) == []


def test_figures_are_listed_with_their_method_and_protocol(compare_with_figures):
    """A reader sees why a figure is not subtracted: it is of DoLa, and by another protocol."""
    output = compare_with_figures(backend="hf", protocol="paper")

    lines = [" ".join(line.split()) for line in output.splitlines()]
    assert (
        "wiki_factor huggyllama/llama-7b (hf-dola formula=code layers=low), protocol dola"
        " factor_acc 62.2 DoLa, tables 1, 11, 15"
    ) in lines


@pytest.mark.parametrize(("backend", "is_named"), [("hf-dola", True), ("hf", False)])
def test_output_names_the_decoding_of_a_run(compare_with_figures, backend, is_named):
    """Scores depend on the layers that DoLa contrasts."""
    output = compare_with_figures(backend=backend)

    assert ("decoding: method DoLa, layers [0, 2]" in output) == is_named


@pytest.mark.parametrize(("protocol", "is_explained"), [("dola", True), ("paper", False)])
def test_output_explains_protocol_dola(compare_with_figures, protocol, is_explained):
    """The usual protocol needs no explanation in the output."""
    output = compare_with_figures(backend="hf", protocol=protocol)

    assert ("protocol dola: scored as by DoLa's script" in output) == is_explained
