"""What a model thinks and what it answers, by the formats of the models that think."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lm_factuality.ground.thinking import (
    answer_or_thoughts,
    marks_thoughts,
    read_output,
    trailing_opening_mark,
    without_thinking,
)

# The marks around a thought, by model.
FORMATS = [
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
every_format = pytest.mark.parametrize(("opening", "closing"), FORMATS)
every_thought = pytest.mark.parametrize(
    "thought",
    [
        pytest.param("Let me see.\nQuestion: who?", id="lines"),
        pytest.param("It says <b> and [1]", id="with brackets"),
        pytest.param("", id="empty"),
    ],
)


@every_format
@every_thought
def test_a_thought_before_the_answer_is_removed(opening, closing, thought):
    """A thought quotes questions and wrong answers, which must not be scored."""
    assert (
        without_thinking(f"{opening}{thought}{closing}\n\nAda was a painter.")
        == "Ada was a painter."
    )


@every_format
@every_thought
def test_thought_opened_in_the_prompt_is_removed(opening, closing, thought):
    """Chat templates open the thought, so the output has only its end."""
    assert without_thinking(f"{thought}{closing}Ada was a painter.") == "Ada was a painter."


@every_format
def test_a_thought_without_an_end_leaves_no_answer(opening, closing):
    """The model ran out of tokens; the row is unscored with what it thought."""
    text = f"{opening}Let me see."

    assert without_thinking(text) is None
    assert answer_or_thoughts(text) == text


@pytest.mark.parametrize(
    "opening",
    [
        "<think>",
        "<thinking>",
        "<thought>",
        "<reasoning>",
        "<seed:think>",
        "<mm:think>",
        "<longcat_think>",
        "[THINK]",
        "◁think▷",
        "<|channel>thought\n",
        "<|START_THINKING|>",
        "<|begin_of_thought|>",
        "<|inner_prefix|>",
        "<|channel|>analysis<|message|>",
    ],
)
def test_an_opening_mark_alone_leaves_no_answer(opening):
    """The model ran out of tokens at the beginning of its thought."""
    assert without_thinking(opening) is None
    assert answer_or_thoughts(opening) == opening


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        pytest.param("", "", id="empty"),
        pytest.param("Ada.", "Ada.", id="no thought"),
        pytest.param("Ada.<think>hm</think>", "Ada.", id="thought at the end"),
        pytest.param("<think>a<think>b</think>c</think>Ada.", "Ada.", id="thought in a thought"),
        pytest.param("hm</think>Ada.<think>c</think> Eva.", "Ada.Eva.", id="two thoughts"),
        pytest.param(
            "<think>I end it with </thought> or [/THINK].</think>Ada.",
            "Ada.",
            id="marks of other formats in a thought",
        ),
        pytest.param("<think>hm</think>Ada.<think>", None, id="second thought without an end"),
    ],
)
def test_the_answer_is_all_text_outside_of_thoughts(text, answer):
    """Models think again after they began to answer."""
    assert without_thinking(text) == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        pytest.param(
            "<think>hm</think>\n<answer>\nAda.\n</answer>\n", "Ada.\n", id="marked answer"
        ),
        pytest.param("<think>hm</think><response>Ada.", "Ada.", id="without an end"),
        pytest.param(
            "<answer>Ada.</answer>", "<answer>Ada.</answer>", id="without a thought it is a text"
        ),
    ],
)
def test_marks_of_an_answer_after_a_thought_are_removed(text, answer):
    """They are the model's format and no words of the answer."""
    assert without_thinking(text) == answer


# gpt-oss writes in channels: analysis for thoughts, commentary for calls of tools, and final.
THOUGHT_AND_ANSWER = (
    "<|channel|>analysis<|message|>Who?<|end|>"
    "<|start|>assistant<|channel|>final<|message|>Ada.<|return|>"
)
TOOL_CALL = '<|channel|>commentary to=functions.look <|constrain|>json<|message|>{"a": 1}<|call|>'


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        pytest.param(THOUGHT_AND_ANSWER, "Ada.", id="thought"),
        pytest.param(
            TOOL_CALL + "<|start|>assistant" + THOUGHT_AND_ANSWER, "Ada.", id="call, then thought"
        ),
        pytest.param(TOOL_CALL, None, id="call alone"),
        pytest.param(
            THOUGHT_AND_ANSWER + "<|start|>assistant" + TOOL_CALL, None, id="call at the end"
        ),
        pytest.param(
            "<|channel|>final <|constrain|>JSON<|message|>[1]<|return|>", "[1]", id="JSON"
        ),
        pytest.param("<|channel|>analysis<|mess", None, id="cut off in a mark"),
    ],
)
def test_the_answer_of_gpt_oss_is_its_final_channel(text, answer):
    """The model writes its thoughts and its calls of tools on other channels."""
    assert without_thinking(text) == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        pytest.param("analysisWho is it?assistantfinalAda.", "Ada.", id="thought"),
        pytest.param(
            'analysisLook.assistantcommentary to=functions.look json{"a": 1}assistantfinalAda.',
            "Ada.",
            id="call of a tool",
        ),
        pytest.param("We need Ada.assistantfinalAda.", "Ada.", id="opened in the prompt"),
        pytest.param(
            "analysisWho?assistantcommentary to=functions.look json", None, id="call at the end"
        ),
        pytest.param(
            "analysis of the records shows Ada.",
            "analysis of the records shows Ada.",
            id="analysis as a word",
        ),
        pytest.param(
            "The assistant analysis was Ada's.",
            "The assistant analysis was Ada's.",
            id="both as words",
        ),
    ],
)
def test_channels_are_found_without_special_tokens(text, answer):
    """Tokenizers drop special tokens, and the names of the channels stay as words."""
    assert without_thinking(text) == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        pytest.param(
            "Here is my thought process: who? Here is my response: Ada.", "Ada.", id="both"
        ),
        pytest.param("Here's my thought process:\nwho?", None, id="no response"),
        pytest.param(
            "Sure. Here is my response: Ada.", "Sure. Here is my response: Ada.", id="no thought"
        ),
    ],
)
def test_verbal_headings_separate_thoughts_from_responses(text, answer):
    """Some models have no marks, but write these sentences."""
    assert without_thinking(text) == answer


MARKS = [mark for marks in FORMATS for mark in marks]
mixed_texts = st.lists(
    st.sampled_from([*MARKS, "Ada. ", "\n", "<", "assistant", "</answer>"]), max_size=12
).map("".join)


@given(mixed_texts)
def test_pieces_of_an_answer_do_not_overlap(text):
    """Overlaps would repeat words of the answer."""
    spans = read_output(text).spans

    for (_, end), (next_start, _) in pairwise(spans):
        assert end <= next_start


@given(mixed_texts)
def test_two_functions_find_the_same_answer_in_a_finished_output(text):
    """`answer_or_thoughts` gives thoughts only if the model did not finish its answer."""
    output = read_output(text)
    assume(not output.is_unfinished)

    assert answer_or_thoughts(text) == output.text


@pytest.mark.parametrize(
    ("length", "expected_text"),
    [
        (0, "<think>Who?</think>"),
        (3, "<think>Who?</think>Ada"),
        (4, "<think>Who?</think>Ada."),
        (5, "<think>Who?</think>Ada.<think>Or?</think>E"),
        (8, "<think>Who?</think>Ada.<think>Or?</think>Eva."),
        (9, "<think>Who?</think>Ada.<think>Or?</think>Eva."),
    ],
)
def test_written_up_to_counts_only_characters_of_the_answer(length, expected_text):
    """A limit on the length of answers must not depend on how long the model thinks."""
    output = read_output("<think>Who?</think>Ada.<think>Or?</think>Eva.")

    assert output.written_up_to(length) == expected_text


def count_answer_characters(text: str, spans: list[tuple[int, int]]) -> int:
    """Count the characters of a text that lie in the spans of the answer."""
    return sum(len(text[start:end]) for start, end in spans)


@given(mixed_texts)
def test_written_up_to_keeps_a_prefix_with_that_many_answer_characters(text):
    output = read_output(text)

    for length in range(len(output.text) + 1):
        prefix = output.written_up_to(length)
        assert text.startswith(prefix)
        assert count_answer_characters(prefix, output.spans) == length


@given(mixed_texts)
def test_written_up_to_accepts_a_length_beyond_the_answer(text):
    output = read_output(text)

    assert text.startswith(output.written_up_to(len(output.text) + 1))


@pytest.mark.parametrize(
    ("prompt", "mark"),
    [
        pytest.param("<|im_start|>assistant\n<think>\n", "<think>", id="opened"),
        pytest.param("[|assistant|]<thought>\n", "<thought>", id="opened in another format"),
        pytest.param("<|im_start|>assistant\n<think>\n\n</think>\n\n", "", id="closed"),
        pytest.param("<|im_start|>assistant\n", "", id="not opened"),
        pytest.param("<think>\nAnswer:", "", id="with text behind"),
        pytest.param("", "", id="empty"),
    ],
)
def test_the_mark_that_opens_a_thought_at_the_end_of_a_prompt_is_found(prompt, mark):
    """It belongs to the output, although the template wrote it."""
    assert trailing_opening_mark(prompt) == mark


@pytest.mark.parametrize(
    "template",
    [
        "{% if enable_thinking %}<think>\n\n</think>{% endif %}",
        "{{ '<|channel|>analysis<|message|>' }}",
    ],
)
def test_chat_template_with_thought_marks_indicates_a_reasoning_model(template):
    """Such a model needs more tokens than its answer has."""
    assert marks_thoughts(template)


def test_chat_template_without_thought_marks_indicates_no_reasoning():
    """For other models, no tokens are reserved for thoughts."""
    template = "{% for message in messages %}<|im_start|>{{ message.role }}{% endfor %}"

    assert not marks_thoughts(template)
