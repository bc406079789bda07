"""The benchmark command: which operations it counts, how it times ways, and a run on small sizes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from bench.suite.__main__ import main
from bench.suite.shapes import build_request_trie, count_operations
from bench.suite.ways import made_up
from bench.timing import time_in_processes
from tests.judges.server import Act, JudgeServer

WIDTH = 48
NUM_LAYERS = 3


def make_gpt2(num_positions: int = 64) -> GPT2LMHeadModel:
    """Return a tiny GPT-2 that sees so many tokens."""
    config = GPT2Config(
        vocab_size=500,
        n_positions=num_positions,
        n_embd=WIDTH,
        n_layer=NUM_LAYERS,
        n_head=4,
        attn_implementation="eager",
    )
    return GPT2LMHeadModel(config)


def make_llama() -> LlamaForCausalLM:
    """Return a tiny Llama."""
    config = LlamaConfig(
        vocab_size=500,
        hidden_size=WIDTH,
        intermediate_size=96,
        num_hidden_layers=NUM_LAYERS,
        num_attention_heads=4,
        num_key_value_heads=2,
        attn_implementation="eager",
    )
    return LlamaForCausalLM(config)


@pytest.mark.parametrize("make_model", [make_gpt2, make_llama])
def test_counted_operations_match_torch_with_causal_attention(make_model):
    """The counter of torch counts attention to all keys, and a query needs only earlier keys."""
    model = make_model()
    context = list(range(20))
    continuation = list(range(30, 37))
    inputs = context + continuation[:-1]  # the last token of the continuation is not read
    num_inputs = len(inputs)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(torch.tensor([inputs]))
    # A query and a key take 4 operations per number of their width.
    full_attention = 4 * WIDTH * NUM_LAYERS * num_inputs * num_inputs
    # The queries need 1, 2, 3, ... keys.
    share_of_keys_needed = (num_inputs + 1) / (2 * num_inputs)
    causal_attention = full_attention * share_of_keys_needed
    expected_operations = counter.get_total_flops() - full_attention + causal_attention

    billions_of_operations = count_operations(model, [(context, continuation)]).request_by_request

    assert 1e9 * billions_of_operations == pytest.approx(expected_operations, rel=1e-6)


@pytest.fixture
def requests_of_a_row():
    """Return the requests of a row whose four choices share 40 tokens of prefix, and 12 more."""
    return made_up(prefix_length=40, num_rows=1)


def test_shared_tokens_of_choices_form_one_path_of_the_trie(requests_of_a_row):
    """The four choices share 40 tokens of prefix and 12 more, and each has 11 tokens of its own."""
    trie = build_request_trie(requests_of_a_row)

    assert len(trie) == 40 + 12 + 4 * 11


def test_largest_possible_speedup_exceeds_the_ratio_of_positions(requests_of_a_row):
    """Sharing a prefix also saves the logits at its positions, which need many operations."""
    operations = count_operations(make_gpt2(num_positions=128), requests_of_a_row)

    # Four requests of 63 positions each have 96 distinct positions.
    ratio_of_positions = 4 * 63 / 96
    largest_speedup = operations.bound
    assert ratio_of_positions < largest_speedup < 1.2 * ratio_of_positions


def test_one_choice_takes_fewer_operations_than_four(requests_of_a_row):
    """Even if what the choices share is computed once, each has tokens of its own."""
    model = make_gpt2(num_positions=128)

    one_choice = count_operations(model, requests_of_a_row[:1])
    four_choices = count_operations(model, requests_of_a_row)

    assert one_choice.each_position_once < four_choices.each_position_once


def prepare_sleep(seconds: float) -> Callable[[], float]:
    """Return work that takes so many seconds, and returns their number."""

    def sleep() -> float:
        time.sleep(seconds)
        return seconds

    return sleep


def prepare_memory(megabytes: int) -> Callable[[], int]:
    """Return work that needs so much memory."""
    block = bytearray(megabytes * 2**20)
    return lambda: len(block)


@pytest.mark.slow
def test_every_method_is_timed_the_requested_number_of_times():
    """Each method runs in a separate process. Here both sleep, for 0.01 and 0.05 seconds."""
    ways = {"short": (prepare_sleep, (0.01,)), "long": (prepare_sleep, (0.05,))}

    timings = time_in_processes(ways, runs=3)

    assert len(timings["short"].seconds) == 3
    assert len(timings["long"].seconds) == 3
    assert timings["long"].median > timings["short"].median > 0.009
    assert timings["long"].result == 0.05


@pytest.mark.slow
def test_peak_memory_is_measured_separately_for_each_method():
    """The method that needs 300 MB runs first and must not affect the second method."""
    ways = {"much": (prepare_memory, (300,)), "little": (prepare_memory, (1,))}

    timings = time_in_processes(ways, runs=1)

    assert timings["much"].peak_mb > timings["little"].peak_mb + 250


@pytest.mark.slow
def test_command_prints_tables_and_writes_measurements(tmp_path, capsys):
    """Three parts are run on small sizes. Faster ways must give nearly the same scores."""
    out = tmp_path / "bench.json"
    parts = ["ralm", "index", "decoding"]
    sizes = ["--runs", "1", "--rows", "3", "--passages", "200"]

    exit_code = main([*parts, *sizes, "--json", str(out)])

    printed = capsys.readouterr().out
    measured = json.loads(out.read_text(encoding="utf-8"))
    one_by_one, dola = measured["decoding"]
    assert exit_code == 0
    assert "window by window" in printed
    assert "p50 ms" in printed
    assert measured["ralm"][0]["worst_difference_nats"] < 1e-3
    assert measured["index"][0]["num_passages"] == 200
    assert one_by_one["way"] == "one by one"
    assert dola["way"] == "hf-dola"
    assert one_by_one["worst_difference_nats"] < 1e-2


@pytest.fixture
def slow_server():
    """Return a server that takes 0.1 seconds for each answer."""
    server = JudgeServer(lambda prompt, attempt: Act(text="True", delay=0.1))
    yield server
    server.close()


@pytest.mark.slow
def test_parallel_questions_take_less_time(slow_server, tmp_path):
    """The server takes 0.1 seconds for each question, however many it has at once."""
    out = tmp_path / "bench.json"
    server_arguments = ("--chat-server", slow_server.base_url.removesuffix("/v1"), "none")

    exit_code = main(["chat", "--runs", "1", "--rows", "5", *server_arguments, "--json", str(out)])

    comparison, _ = json.loads(out.read_text(encoding="utf-8"))["chat"]
    seconds_one_by_one = comparison["seconds"][0]
    assert exit_code == 0
    num_questions = 5 * 4  # the choices of five rows
    assert comparison["questions"] == num_questions
    assert comparison["same"] == num_questions
    assert seconds_one_by_one >= 2  # num_questions * 0.1
    assert comparison["times"] > 3


@pytest.mark.parametrize("arguments", [["scorin"], ["--runs", "0"]], ids=" ".join)
def test_unknown_part_and_zero_runs_are_refused(arguments):
    """The parser ends the program with its usage."""
    with pytest.raises(SystemExit):
        main(arguments)


def test_a_data_folder_that_does_not_exist_is_an_error(capsys):
    """The message has the path as the user typed it."""
    exit_code = main(["scoring", "--data-dir", "/nowhere"])

    assert exit_code == 1
    assert "/nowhere" in capsys.readouterr().err
