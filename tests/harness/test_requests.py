"""The request type on real models of several kinds: what is scored, what is counted, and what is
left unscored."""

from __future__ import annotations

import logging
import math

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from lm_factuality.ground.errors import ConfigError, ModelError
from tests.conftest import example_row
from tests.tiny_models import CompletionsServer, save_gpt2, save_opt, save_t5

ROWS = [
    example_row(doc_id="a"),
    example_row(doc_id="a", turncated_prefixes="A headline\n"),
    example_row(doc_id="b", turncated_prefixes="Two spaces.  "),
    example_row(doc_id="b", turncated_prefixes="Answer:"),
    example_row(doc_id="c", turncated_prefixes=""),
]
NUM_CHOICES = 4 * len(ROWS)
CHOICE_COLUMNS = ("completion", "contradiction_0", "contradiction_1", "contradiction_2")


@pytest.fixture
def tokenizer(checkpoint):
    """Return the tokenizer of the tiny checkpoint."""
    return AutoTokenizer.from_pretrained(checkpoint)


@pytest.fixture
def task(write_rows, factor_yaml, tmp_path):
    """Return a function that writes the task ``t`` about rows, and returns its folder."""

    def write_task(rows=ROWS, **metadata):
        write_rows(rows)
        factor_yaml("t", dataset_path="rows.jsonl", metadata=metadata)
        return tmp_path

    return write_task


def hf_arguments(folder, **arguments):
    """Return the arguments of lm_eval's ``hf`` for a checkpoint."""
    return {"pretrained": str(folder), "dtype": "float32", **arguments}


def mean_logprob_by_transformers(folder, prefix: str, completion: str) -> tuple[float, int]:
    """Score a completion with transformers alone, without code of the suite or of lm_eval.

    Returns:
        The mean log-probability of the completion's tokens, and their number.
    """
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    # The space before a completion is a part of its first token.
    if prefix.endswith(" "):
        prefix = prefix[:-1]
        completion = f" {completion}"
    tokens = tokenizer(prefix + completion)["input_ids"]
    num_tokens = len(tokens) - len(tokenizer(prefix)["input_ids"])
    if not prefix:
        # Without a prefix, the model's start token stands before the completion.
        start = tokenizer.bos_token_id
        tokens = tokens if tokens[0] == start else [start, *tokens]
        num_tokens = len(tokens) - 1

    with torch.no_grad():
        logprobs = model(torch.tensor([tokens])).logits[0].log_softmax(-1)
    # The logits at a position predict the token at the next position.
    completion_positions = range(len(tokens) - num_tokens, len(tokens))
    total = 0.0
    for position in completion_positions:
        total += logprobs[position - 1, tokens[position]].item()
    return total / num_tokens, num_tokens


def score_choices_by_transformers(folder, row):
    """Return the mean log-probabilities of a row's four choices, and their numbers of tokens."""
    scores = [
        mean_logprob_by_transformers(folder, row["turncated_prefixes"], row[column])
        for column in CHOICE_COLUMNS
    ]
    return [mean for mean, _ in scores], [num_tokens for _, num_tokens in scores]


def assert_equal_logprobs(samples, expected_samples):
    """Check that two runs give each choice the same mean log-probability."""
    for sample, expected in zip(samples, expected_samples, strict=True):
        assert sample["factor_mean_logprob"] == pytest.approx(
            expected["factor_mean_logprob"], abs=1e-5
        )


@pytest.mark.parametrize(
    "save",
    [
        pytest.param(save_gpt2, id="tokenizer without a start token"),
        pytest.param(save_opt, id="tokenizer with a start token"),
    ],
)
def test_causal_model_scores_equal_those_of_transformers(save, tokenizer, task, evaluate, tmp_path):
    """GPT-2 has no start token before a text and OPT has one, and both must be counted right."""
    folder = save(tmp_path / "model", tokenizer)

    output = evaluate("hf", ["t"], task(join="authors"), hf_arguments(folder), batch_size=3)

    for sample, row in zip(output["samples"]["t"], ROWS, strict=True):
        expected_means, expected_counts = score_choices_by_transformers(folder, row)
        assert sample["factor_num_tokens"] == expected_counts
        assert sample["factor_mean_logprob"] == pytest.approx(expected_means, abs=1e-5)
        assert sample["unscored"] is None


def test_an_encoder_decoder_model_is_scored(tokenizer, task, evaluate, tmp_path):
    """The encoder reads the prefix, and the decoder scores the completion alone."""
    folder = save_t5(tmp_path / "model", tokenizer)

    output = evaluate("hf", ["t"], task(ROWS[:2]), hf_arguments(folder, backend="seq2seq"))

    completion_tokens = tokenizer(" " + ROWS[0]["completion"])["input_ids"]
    assert output["results"]["t"]["unscored,none"] == 0
    assert output["samples"]["t"][0]["factor_num_tokens"][0] == len(completion_tokens)


def test_a_model_that_returns_nan_is_unscored(tokenizer, task, evaluate, tmp_path):
    """The FACTOR authors' script takes the first of four NaN scores, which is the true choice."""
    folder = save_gpt2(tmp_path / "model", tokenizer, value=math.nan)

    results = evaluate("hf", ["t"], task(), hf_arguments(folder))["results"]["t"]

    assert results["factor_acc,none"] == "N/A"
    assert results["unscored,none"] == len(ROWS)
    assert results["factor_acc_worst,none"] == 0.0
    assert results["factor_acc_best,none"] == 1.0


@pytest.fixture
def samples_with_window(tokenizer, task, evaluate, tmp_path):
    """Return a function that scores a row with a long and one with a short prefix.

    The prefixes have some 400 and 20 tokens, and the model itself reads 256.
    """
    folder = save_gpt2(tmp_path / "model", tokenizer)
    rows = [
        example_row(turncated_prefixes="word " * 400),
        example_row(turncated_prefixes="word " * 20, doc_id="d2"),
    ]

    def score_rows(command_line_metadata=None, **metadata):
        output = evaluate(
            "hf",
            ["t"],
            task(rows, **metadata),
            hf_arguments(folder),
            metadata=command_line_metadata or {},
        )
        return output["samples"]["t"]

    return score_rows


def test_prefix_beyond_the_context_length_is_truncated(samples_with_window):
    """Results count such rows, since the model did not see all that the question is about."""
    samples = samples_with_window()

    # Only the first prefix has more than the model's 256 tokens.
    assert [bool(sample["truncated"]) for sample in samples] == [True, False]


def test_prefix_beyond_the_window_loses_its_beginning(samples_with_window):
    """What stands next to the completion says most about it."""
    long_sample, short_sample = samples_with_window(window=40)

    assert long_sample["truncated"]
    assert short_sample["truncated"]
    # Both are cut to the same 40 tokens.
    assert_equal_logprobs([long_sample], [short_sample])


def test_context_length_of_the_model_is_the_limit_without_a_window(samples_with_window):
    """The text "null" is what a command line can say for no window."""
    samples = samples_with_window(command_line_metadata={"window": "null"})

    *_, window = samples[0]["arguments"][0]
    assert window is None
    assert [bool(sample["truncated"]) for sample in samples] == [True, False]


def test_completion_longer_than_the_window_is_unscored(samples_with_window):
    """Cutting a completion would compare parts of sentences."""
    sample, _ = samples_with_window(window=5)

    assert "more than a window of 5 has room for" in sample["unscored"]
    assert sample["factor_acc"] is None


def test_missing_tokenizer_gives_a_warning_instead_of_factor_acc(task, evaluate, caplog):
    """FACTOR's accuracy compares means per token, so it needs the number of tokens."""
    with caplog.at_level(logging.WARNING):
        output = evaluate("surface-baseline", ["t"], task(), {"rule": "random"})

    metrics = set(output["results"]["t"])
    assert "factor_acc is absent" in caplog.text
    assert not any(name.startswith("factor_") for name in metrics)
    assert "truncated,none" not in metrics
    assert {"acc,none", "acc_stderr,none", "acc_bytes,none"} <= metrics


@pytest.fixture
def scored_requests(monkeypatch):
    """Return a list to which each call of lm_eval's ``hf`` adds its number of requests."""
    from lm_eval.models.huggingface import HFLM

    numbers = []
    original = HFLM._loglikelihood_tokens

    def count_and_score(model, requests, **options):
        numbers.append(len(requests))
        return original(model, requests, **options)

    monkeypatch.setattr(HFLM, "_loglikelihood_tokens", count_and_score)
    return numbers


def test_each_model_has_its_own_cached_answers(
    scored_requests, tokenizer, task, evaluate, tmp_path
):
    """Otherwise the second model would get the cached answers of the first."""
    first_model = save_gpt2(tmp_path / "first", tokenizer, 0)
    second_model = save_gpt2(tmp_path / "second", tokenizer, 1)
    cache = str(tmp_path / "cache" / "answers")

    logprobs_by_run = []
    for folder in (first_model, first_model, second_model):
        output = evaluate("hf", ["t"], task(), hf_arguments(folder), use_cache=cache)
        samples = output["samples"]["t"]
        logprobs_by_run.append([sample["factor_mean_logprob"] for sample in samples])

    first, first_again, second = logprobs_by_run
    assert sum(scored_requests) == 2 * NUM_CHOICES
    assert first == first_again
    assert first != second


@pytest.fixture
def gpt2_folder(tokenizer, tmp_path):
    """Return the folder of a tiny GPT-2."""
    return save_gpt2(tmp_path / "gpt2", tokenizer)


@pytest.fixture
def serve(gpt2_folder):
    """Return a function that starts a completions server with the tiny GPT-2."""
    servers = []

    def start_server(folder=gpt2_folder, **options):
        servers.append(CompletionsServer(folder, **options))
        return servers[-1]

    yield start_server
    for server in servers:
        server.close()


def client_arguments(server, folder, **arguments):
    """Return the arguments of lm_eval's client for a server of a checkpoint."""
    return {
        "model": "tiny",
        "base_url": server.url,
        "tokenizer": str(folder),
        "tokenizer_backend": "huggingface",
        "max_retries": 1,
        "max_length": 256,
        **arguments,
    }


@pytest.mark.parametrize("num_concurrent", [1, 4])
def test_server_scores_equal_those_of_the_served_model(
    serve, gpt2_folder, task, evaluate, num_concurrent
):
    """The same checkpoint must get the same scores, however it is run."""
    include = task(ROWS[:4])
    arguments = client_arguments(serve(), gpt2_folder, num_concurrent=num_concurrent)

    local = evaluate("hf", ["t"], include, hf_arguments(gpt2_folder))
    remote = evaluate("local-completions", ["t"], include, arguments)

    assert_equal_logprobs(remote["samples"]["t"], local["samples"]["t"])
    for sample, expected in zip(remote["samples"]["t"], local["samples"]["t"], strict=True):
        assert sample["factor_num_tokens"] == expected["factor_num_tokens"]
    accuracy = remote["results"]["t"]["factor_acc,none"]
    assert accuracy == local["results"]["t"]["factor_acc,none"]


def test_failing_request_leaves_only_its_row_unscored(
    serve, gpt2_folder, task, evaluate, tokenizer
):
    """A broken request must not cost the scores of the other rows."""

    # The last of four rows has the prefix "Answer:", and only its choice 3 ends with "south."
    def is_choice_3_of_last_row(tokens):
        text = tokenizer.decode(tokens)
        return text.startswith("Answer:") and text.endswith("south.")

    server = serve(fails=is_choice_3_of_last_row)

    output = evaluate(
        "local-completions", ["t"], task(ROWS[:4]), client_arguments(server, gpt2_folder)
    )

    results = output["results"]["t"]
    *other_reasons, reason = [sample["unscored"] for sample in output["samples"]["t"]]
    assert results["unscored,none"] == 1
    assert not any(other_reasons)
    assert "choice 3: the server gave no usable answer" in reason
    assert results["factor_acc_best,none"] > results["factor_acc_worst,none"]


@pytest.mark.parametrize("status", [500, 401])
def test_permanently_failing_server_ends_the_run(serve, gpt2_folder, task, evaluate, status):
    """Waiting for thousands of failures would waste hours."""
    server = serve(fails=lambda prompt: True, status=status)

    with pytest.raises(ModelError, match="8 requests in a row failed"):
        evaluate("local-completions", ["t"], task(), client_arguments(server, gpt2_folder))


def test_server_refusing_all_requests_leaves_all_rows_unscored(serve, gpt2_folder, task, evaluate):
    """Status 400 says that a request is wrong, so the server still works and the run goes on."""
    server = serve(fails=lambda prompt: True, status=400)

    output = evaluate("local-completions", ["t"], task(), client_arguments(server, gpt2_folder))

    assert output["results"]["t"]["unscored,none"] == len(ROWS)


def test_a_client_without_a_tokenizer_is_refused(serve, gpt2_folder, task, evaluate):
    """Without it, nobody knows where the prefix ends."""
    arguments = client_arguments(serve(), gpt2_folder, tokenizer=None, tokenizer_backend="none")

    message = "pass tokenizer=PATH_OR_NAME and tokenizer_backend=huggingface"
    with pytest.raises(ModelError, match=message):
        evaluate("local-completions", ["t"], task(), arguments)


def test_a_chat_server_is_refused(serve, gpt2_folder, task, evaluate):
    """Chat servers give no log-probabilities of a text that they are sent."""
    arguments = client_arguments(serve(), gpt2_folder)

    with pytest.raises(ConfigError, match="or use --model local-completions"):
        evaluate("local-chat-completions", ["t"], task(), arguments, apply_chat_template=True)


@pytest.fixture
def opt_folder(tokenizer, tmp_path):
    """Return the folder of a tiny OPT, whose tokenizer begins every text with a start token."""
    return save_opt(tmp_path / "opt", tokenizer)


def test_start_token_omitted_by_the_client_gives_a_warning(
    serve, opt_folder, task, evaluate, caplog
):
    """A model that was trained with a start token scores worse without it, as OPT was."""
    arguments = client_arguments(serve(opt_folder), opt_folder)

    with caplog.at_level(logging.WARNING):
        evaluate("local-completions", ["t"], task(ROWS[:1]), arguments)

    assert "add_bos_token=True" in caplog.text


def test_server_scores_equal_model_scores_with_add_bos_token(serve, opt_folder, task, evaluate):
    """A warning recommends this option where the server's tokenizer adds a start token."""
    include = task(ROWS[:4])
    arguments = client_arguments(serve(opt_folder), opt_folder, add_bos_token=True)

    remote = evaluate("local-completions", ["t"], include, arguments)
    local = evaluate("hf", ["t"], include, hf_arguments(opt_folder))

    assert_equal_logprobs(remote["samples"]["t"], local["samples"]["t"])


@pytest.mark.parametrize(
    ("model", "softmax", "is_rounded"),
    [
        pytest.param("hf", {}, True, id="hf"),
        pytest.param("hf", {"softmax_dtype": "float32"}, False, id="hf with a float32 softmax"),
        pytest.param("hf-tree", {}, False, id="hf-tree"),
    ],
)
def test_log_probabilities_rounded_to_half_precision_give_a_warning(
    model, softmax, is_rounded, task, evaluate, checkpoint, caplog
):
    """Different choices could get equal scores in bfloat16, which has two to three digits."""
    arguments = {**hf_arguments(checkpoint), "dtype": "bfloat16", **softmax}

    with caplog.at_level(logging.WARNING):
        output = evaluate(model, ["t"], include=task(), model_args=arguments)

    logprobs = []
    for sample in output["samples"]["t"]:
        for response in sample["resps"]:
            logprobs.append(float(response[0][0]))
    exact = torch.tensor(logprobs)
    assert ("add softmax_dtype=float32" in caplog.text) == is_rounded
    assert torch.equal(exact.bfloat16().float(), exact) == is_rounded
