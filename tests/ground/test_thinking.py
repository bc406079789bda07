"""What a model thinks and what it says, by the formats of the models that think."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_factuality.ground.thinking import (
    answer_or_thoughts,
    marks_thoughts,
    read_output,
    trailing_opening_mark,
    without_thinking,
)

HARMONY = "<|channel|>analysis<|message|>Who?<|end|><|start|>assistant<|channel|>final<|message|>Ada.<|return|>"
CALL = '<|channel|>commentary to=functions.look <|constrain|>json<|message|>{"a": 1}<|call|>'
PAIRS = [
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("<seed:think>", "</seed:think>"),
    ("<mm:think>", "</mm:think>"),
    ("<longcat_think>", "</longcat_think>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
    ("<|channel>thought\n", "<channel|>"),
    ("<|START_THINKING|>", "<|END_THINKING|><|START_RESPONSE|>"),
    ("<|begin_of_thought|>", "<|end_of_thought|>\n\n<|begin_of_solution|>"),
    ("<|inner_prefix|>", "<|inner_suffix|>"),
    ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
    ("analysis", "assistantfinal"),
]
MARKS = [mark for pair in PAIRS for mark in pair]


@pytest.mark.parametrize(("opens", "closes"), PAIRS)
@pytest.mark.parametrize("thought", ["Let me see.\nQuestion: who?", "It says <b> and [1]", ""])
def test_every_format(opens, closes, thought):
    assert (
        without_thinking(f"{opens}{thought}{closes}\n\nAda was a painter.") == "Ada was a painter."
    )
    assert (
        without_thinking(f"{thought}{closes}Ada was a painter.") == "Ada was a painter."
    )  # opened in the prompt
    if opens == "analysis" and not thought:
        return  # alone it is a word like any other
    assert without_thinking(f"{opens}{thought}") is None
    assert answer_or_thoughts(f"{opens}{thought}") == f"{opens}{thought}"


@pytest.mark.parametrize(
    ("written", "answer"),
    [
        ("", ""),
        ("Ada.", "Ada."),
        ("Ada.<think>hm</think>", "Ada."),
        ("<think>a<think>b</think>c</think>Ada.", "Ada."),
        ("hm</think>Ada.<think>c</think> Eva.", "Ada.Eva."),
        ("<think>I end it with </thought> or [/THINK].</think>Ada.", "Ada."),
        ("<think>hm</think>\n<answer>\nAda.\n</answer>\n", "Ada.\n"),
        ("<think>hm</think><response>Ada.", "Ada."),
        ("<answer>Ada.</answer>", "<answer>Ada.</answer>"),  # without a thought it is a text
        ("<think>hm</think>Ada.<think>", None),
        (HARMONY, "Ada."),
        (CALL + "<|start|>assistant" + HARMONY, "Ada."),
        (CALL, None),
        (HARMONY + "<|start|>assistant" + CALL, None),
        ("<|channel|>final <|constrain|>JSON<|message|>[1]<|return|>", "[1]"),
        ("<|channel|>analysis<|mess", None),
        ("analysisWho is it?assistantfinalAda.", "Ada."),
        (
            'analysisLook.assistantcommentary to=functions.look json{"a": 1}assistantfinalAda.',
            "Ada.",
        ),
        ("We need Ada.assistantfinalAda.", "Ada."),
        ("analysisWho?assistantcommentary to=functions.look json", None),
        ("analysis of the records shows Ada.", "analysis of the records shows Ada."),
        ("The assistant analysis was Ada's.", "The assistant analysis was Ada's."),
        ("Here is my thought process: who? Here is my response: Ada.", "Ada."),
        ("Here's my thought process:\nwho?", None),
        ("Sure. Here is my response: Ada.", "Sure. Here is my response: Ada."),
    ],
)
def test_cases(written, answer):
    assert without_thinking(written) == answer


@given(
    st.lists(
        st.sampled_from([*MARKS, "Ada. ", "\n", "<", "assistant", "</answer>"]), max_size=12
    ).map("".join)
)
def test_what_is_said_was_written_and_has_no_thought(written):
    output = read_output(written)
    assert output.is_unfinished or answer_or_thoughts(written) == output.text
    assert all(
        end <= begin for (_, end), (begin, _) in zip(output.spans, output.spans[1:], strict=False)
    )
    for length in range(len(output.text) + 2):
        cut = output.written_up_to(length)
        assert written.startswith(cut)
        assert (
            length > len(output.text)
            or sum(min(end, len(cut)) - begin for begin, end in output.spans if begin < len(cut))
            == length
        )


@pytest.mark.parametrize(
    ("prompt", "mark"),
    [
        ("<|im_start|>assistant\n<think>\n", "<think>"),
        ("[|assistant|]<thought>\n", "<thought>"),
        ("<|im_start|>assistant\n<think>\n\n</think>\n\n", ""),
        ("<|im_start|>assistant\n", ""),
        ("<think>\nAnswer:", ""),
        ("", ""),
    ],
)
def test_a_thought_opened_in_the_prompt(prompt, mark):
    assert trailing_opening_mark(prompt) == mark


def test_templates_of_models_that_think():
    assert marks_thoughts("{% if enable_thinking %}<think>\n\n</think>{% endif %}")
    assert marks_thoughts("{{ '<|channel|>analysis<|message|>' }}")
    assert not marks_thoughts(
        "{% for message in messages %}<|im_start|>{{ message.role }}{% endfor %}"
    )
