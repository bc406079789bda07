"""A judge works through rows of FELM: what becomes of its answers."""

import json

import pytest

from judges.judge import Judge
from lm_factuality.benchmarks.certifiable import CertifyOptions
from lm_factuality.benchmarks.felm.judging import FelmTrial
from tests.judges.server import Act


def make_line(index, segments):
    """Make a line of FELM's file whose segments are all labelled correct."""
    return json.dumps(
        {
            "index": index,
            "domain": "wk",
            "prompt": f"Why {index}?",
            "segmented_response": segments,
            "labels": [True] * len(segments),
        }
    )


@pytest.fixture
def trial(tmp_path):
    """A trial over two rows of three segments: the judge is asked which segments are wrong."""
    lines = [
        make_line("first", ["Iron rusts.", "Gold rusts.", "Salt melts."]),
        make_line("second", ["One.", "Two.", "Three."]),
    ]
    (tmp_path / "all.jsonl").write_text("\n".join(lines))
    return FelmTrial("segment", "vanilla", CertifyOptions(data_dir=str(tmp_path)))


@pytest.fixture
def ask(server, config, tmp_path, trial):
    """A function that asks the judge of the trial, which keeps its answers in one store."""

    def ask_judge():
        with Judge.open(config(), store=tmp_path / "a.sqlite") as judge:
            return trial.ask(judge)

    return ask_judge


def script_with_finish_reason(finish_reason):
    """Script a server whose answer on the first row ends for this reason, that on the second row
    with ``stop``."""

    def script(prompt, attempt):
        if "Why second?" in prompt:
            return Act(text="Answer: 3", finish_reason="stop")
        return Act(text="Answer: 1, 2", finish_reason=finish_reason)

    return script


def test_a_finished_list_flags_its_segments(server, ask):
    server.script = script_with_finish_reason("stop")

    first, second = ask()

    assert (first.flagged, first.reason) == ((True, True, False), None)
    assert (second.flagged, second.reason) == ((False, False, True), None)


def test_a_list_that_may_be_cut_off_is_no_verdict(server, ask):
    """Of the answer ``1, 2`` a third id may be missing, as it ended for want of tokens."""
    server.script = script_with_finish_reason("length")

    first, second = ask()

    assert (first.flagged, first.reason) == (None, "cut off in the answer")
    assert (second.flagged, second.reason) == ((False, False, True), None)


@pytest.mark.parametrize("finish_reason", ["stop", "length"])
def test_answers_come_from_the_store_the_second_time(server, ask, finish_reason):
    server.script = script_with_finish_reason(finish_reason)

    judged = ask()
    judged_again = ask()

    assert judged_again == judged
    assert len(server.bodies) == 2  # a request for each of the rows
