"""The bench: what it counts, how it times, and the command itself on small sizes."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from bench.suite.__main__ import main
from bench.suite.shapes import count_operations, grow
from bench.suite.ways import made_up
from bench.timing import time_in_processes
from tests.judges.server import Act, JudgeServer

GPT2 = GPT2Config(
    vocab_size=500, n_positions=64, n_embd=48, n_layer=3, n_head=4, attn_implementation="eager"
)
LLAMA = LlamaConfig(
    vocab_size=500,
    hidden_size=48,
    intermediate_size=96,
    num_hidden_layers=3,
    num_attention_heads=4,
    num_key_value_heads=2,
    attn_implementation="eager",
)


@pytest.mark.parametrize(
    "model", [GPT2LMHeadModel(GPT2), LlamaForCausalLM(LLAMA)], ids=["gpt2", "llama"]
)
def test_operations_are_those_that_torch_counts(model):
    request = (list(range(20)), list(range(30, 37)))
    found = count_operations(model, [request])
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(torch.tensor([request[0] + request[1][:-1]]))
    # torch counts attention over all keys, which causal attention needs half of.
    attention = 4 * 48 * 3 * 26 * 26
    causal = attention * (26 + 1) / (2 * 26)
    assert 1e9 * found.request_by_request == pytest.approx(
        counter.get_total_flops() - attention + causal, rel=1e-6
    )


def test_what_four_choices_share_is_counted_once():
    requests = made_up(prefix_length=40, num_rows=1)
    model = GPT2LMHeadModel(GPT2Config(**{**GPT2.to_dict(), "n_positions": 128}))
    forest = grow(requests)
    assert len(forest) == 40 + 12 + 4 * 11
    found = count_operations(model, requests)
    positions = 4 * 63 / len(forest)
    assert (
        positions < found.bound < 1.2 * positions
    )  # more than the share of positions, as fewer are projected
    assert count_operations(model, requests[:1]).each_position_once < found.each_position_once


def _sleeper(seconds):
    return lambda: time.sleep(seconds) or seconds


def _hungry(megabytes):
    block = bytearray(megabytes * 2**20)
    return lambda: len(block)


@pytest.mark.slow
def test_ways_are_timed_in_processes_of_their_own():
    found = time_in_processes({"short": (_sleeper, (0.01,)), "long": (_sleeper, (0.05,))}, runs=3)
    assert [len(timing.seconds) for timing in found.values()] == [3, 3]
    assert found["long"].median > found["short"].median > 0.009
    assert found["long"].result == 0.05
    memory = time_in_processes({"much": (_hungry, (300,)), "little": (_hungry, (1,))}, runs=1)
    assert memory["much"].peak_mb > memory["little"].peak_mb + 250


@pytest.mark.slow
def test_the_command_prints_and_writes(tmp_path: Path, capsys):
    out = tmp_path / "bench.json"
    assert (
        main(
            [
                "ralm",
                "index",
                "decoding",
                "--runs",
                "1",
                "--rows",
                "3",
                "--passages",
                "200",
                "--json",
                str(out),
            ]
        )
        == 0
    )
    printed = capsys.readouterr().out
    assert "window by window" in printed
    assert "p50 ms" in printed
    measured = json.loads(out.read_text())
    assert measured["ralm"][0]["worst_difference_nats"] < 1e-3
    assert measured["index"][0]["num_passages"] == 200
    assert [each["way"] for each in measured["decoding"]] == ["one by one", "hf-dola"]
    assert measured["decoding"][0]["worst_difference_nats"] < 1e-2


@pytest.mark.slow
def test_questions_at_once_beside_one_after_the_other(tmp_path: Path):
    slow = JudgeServer(lambda prompt, attempt: Act(text="True", delay=0.1))
    out = tmp_path / "bench.json"
    server = ["--chat-server", slow.base_url.removesuffix("/v1"), "none"]
    assert main(["chat", "--runs", "1", "--rows", "5", *server, "--json", str(out)]) == 0
    slow.close()
    one, _ = json.loads(out.read_text())["chat"]
    assert one["questions"] == one["same"] == 20
    assert one["seconds"][0] >= 2
    assert one["times"] > 3


def test_wrong_arguments_are_refused(capsys):
    for arguments in (["scorin"], ["--runs", "0"]):
        with pytest.raises(SystemExit):
            main(arguments)
    assert main(["scoring", "--data-dir", "/nowhere"]) == 1
    assert "/nowhere" in capsys.readouterr().err
