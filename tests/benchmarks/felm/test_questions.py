"""What a judge sees of a row of FELM in each setting."""

import json
import math
import re
from dataclasses import replace

import pytest

from judges.templates import Prompts
from lm_factuality.benchmarks.felm.questions import (
    MODES,
    UNITS,
    FelmSettings,
    best_chunks,
    format_segment,
    render_authors_prompt,
    split_into_chunks,
)
from lm_factuality.benchmarks.felm.rows import FelmRow, read_felm_rows, split_claims
from lm_factuality.ground.errors import ConfigError, DataError

ROW = FelmRow(
    index="0",
    domain="wk",
    prompt="How many moons has Mars?",
    segments=("Mars has two moons.", "They  are big."),
    labels=(True, False),
    references=("https://moons.example/mars,",),
    reference_texts=("Phobos and Deimos are tiny moons of Mars.",),
)
CHUNK_TOKENS = 512
"""The number of words and punctuation marks in a chunk of a reference text."""


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("mode", MODES)
def test_a_prompt_lists_the_units_and_the_references_of_its_mode(unit, mode):
    """The second segment has two spaces in a row, which the prompt makes one."""
    question = FelmSettings(unit, mode).make_question(ROW, split_claims(ROW))

    prompt = Prompts().render(question.prompt, question.subject)

    asked = prompt.split("Now the one to judge:")[1]
    assert f"{unit.capitalize()}s:\n1. Mars has two moons.\n2. They are big." in asked
    assert ("https://moons.example/mars\n" in asked) == (mode == "link")
    assert ("tiny moons" in asked) == (mode == "doc")


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("mode", MODES)
def test_a_prompt_shows_two_answers_and_thoughts_in_mode_cot(unit, mode):
    """The judge learns the form of an answer from the two examples."""
    question = FelmSettings(unit, mode).make_question(ROW, split_claims(ROW))

    prompt = Prompts().render(question.prompt, question.subject)

    assert prompt.count("Answer: ") == 2
    assert "ALL_CORRECT" in prompt
    assert ("Thought:" in prompt) == (mode == "cot")


@pytest.mark.parametrize("mode", ["link", "doc"])
def test_a_row_without_references_gets_the_plain_prompt(mode):
    """A prompt that announces references would show none."""
    row = replace(ROW, references=(), reference_texts=())

    question = FelmSettings("segment", mode).make_question(row)

    assert question.prompt == "felm/segment_vanilla"


@pytest.mark.parametrize("domain", ["math", "reasoning"])
def test_math_and_reasoning_are_judged_by_segments(domain):
    """The paper extracts no claims in these domains."""
    question = FelmSettings("claim", "cot").make_question(replace(ROW, domain=domain))

    assert question.prompt == "felm/segment_cot"
    assert Prompts().render(question.prompt, question.subject)


@pytest.mark.parametrize(
    ("segment", "protocol", "formatted"),
    [
        pytest.param("1. 3 + 4 = 7", "code", "", id="code blanks a segment without letters"),
        pytest.param("1. So x = 7", "code", "So x = 7", id="code begins at the first letter"),
        pytest.param("1. 3 + 4 = 7", "paper", "1. 3 + 4 = 7", id="paper keeps the segment"),
    ],
)
def test_segments_are_formatted_by_protocol(segment, protocol, formatted):
    """The authors' script strips all before the first letter, and so loses equations."""
    assert format_segment(segment, protocol) == formatted


def test_protocol_code_shows_no_references():
    """The authors' script never inserts them, though the paper says so."""
    settings = FelmSettings(unit="segment", mode="doc", protocol="code")

    assert settings.make_question(ROW).mode == "vanilla"


def test_protocol_code_blanks_124_segments_of_the_published_file(shared):
    """The authors' script blanks segments without a letter, such as equations."""
    segments = []
    for row in read_felm_rows(shared / "data" / "felm" / "all.jsonl"):
        segments += row.segments

    formatted = [format_segment(segment, "code") for segment in segments]

    assert formatted.count("") == 124


def count_tokens(chunk):
    """Count the words, commas and full stops of a chunk."""
    return len(chunk.replace(",", " ,").replace(".", " .").split())


def test_documents_are_split_into_512_token_chunks_without_loss():
    """The authors choose among chunks of 512 tokens. Only the last chunk may be shorter."""
    text = " ".join(f"word{number}, yes." for number in range(1000))

    chunks = split_into_chunks(text)

    assert " ".join(chunks).replace(" ", "") == text.replace(" ", "")
    assert {count_tokens(chunk) for chunk in chunks[:-1]} == {CHUNK_TOKENS}


def test_chunks_can_be_counted_in_model_tokens(checkpoint):
    """A judge's context is limited by its own tokens."""
    from transformers import AutoTokenizer

    text = " ".join(f"word{number}, yes." for number in range(40))
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    tokens = tokenizer(text)["input_ids"]

    chunks = split_into_chunks(text, str(checkpoint), 64)

    assert "".join(chunks).replace(" ", "") == text.replace(" ", "")
    assert len(chunks) == math.ceil(len(tokens) / 64)
    assert chunks[0] == tokenizer.decode(tokens[:64]).strip()


def test_unknown_chunk_tokenizer_is_refused():
    """The message names a tokenizer that exists."""
    message = r"chunk_tokenizer 'tiktoken:none' cannot be loaded.*cl100k_base"

    with pytest.raises(ConfigError, match=message):
        split_into_chunks("word0, yes.", "tiktoken:none")


FILLER = "the weather was mild and nothing of note happened " * 100


def test_most_similar_chunk_is_chosen_from_each_document():
    """Whole documents do not fit into a prompt. The second document is empty and has no chunk."""
    documents = [f"{FILLER} Phobos goes round Mars. {FILLER}", "", "A short text."]

    long_document_chunk, short_document_chunk = best_chunks(documents, "How many moons has Mars?")

    assert "Phobos" in long_document_chunk
    assert short_document_chunk == "A short text."


def test_first_chunk_is_chosen_if_no_chunk_resembles_the_question():
    """Without a choice, the judge would see no reference at all."""
    first_chunk, *_ = split_into_chunks(FILLER)

    chunks = best_chunks([FILLER], "zebra")

    assert chunks == [first_chunk]


def test_the_authors_prompt_is_read_from_their_checkout(tmp_path):
    """Question and segments are added to the prompt's examples as they are, with double spaces."""
    folder = tmp_path / "eval" / "prompt" / "segment" / "wk"
    folder.mkdir(parents=True)
    (folder / "prompt_wk_raw.txt").write_text("The authors' examples.\n")
    row = replace(
        ROW,
        domain="wk",
        prompt="How many moons has Mars?",
        segments=("Mars has two moons.", "They  are big."),
    )
    settings = FelmSettings(mode="vanilla")

    prompt = render_authors_prompt(str(tmp_path), row, settings.make_question(row), settings)

    assert prompt == (
        "The authors' examples.\n\n\nQuestion: How many moons has Mars?\n"
        "Segments: 1. Mars has two moons.\n2. They  are big.\n"
    )


def test_prompt_missing_from_the_checkout_is_named(tmp_path):
    """The user may have given another folder than the checkout."""
    settings = FelmSettings(mode="cot")
    question = settings.make_question(ROW)

    with pytest.raises(DataError, match=r"prompt_wk_cot\.txt: no such file; expected a checkout"):
        render_authors_prompt(str(tmp_path), ROW, question, settings)


# The file of the authors' prompt for each of their script's methods and domains.
PROMPT_FILES = {
    "vanilla": {
        "wk": "wk/prompt_wk_raw",
        "science": "sci/prompt_sci_raw",
        "math": "math/raw",
        "reasoning": "reasoning/raw",
    },
    "cot": {
        "wk": "wk/prompt_wk_cot",
        "science": "sci/prompt_sci_cot",
        "math": "math/cot",
        "reasoning": "reasoning/cot",
    },
    "link": {
        "wk": "wk/prompt_wk_ret_link",
        "science": "sci/prompt_sci_ret_link",
        "math": "math/raw",
        "reasoning": "reasoning/raw",
    },
    "doc": {
        "wk": "wk/prompt_wk_ret_content",
        "science": "sci/prompt_sci_ret_content",
        "math": "math/raw",
        "reasoning": "reasoning/raw",
    },
}


def from_first_letter(segment):
    """Return a segment from its first letter on, which is nothing if it has no letter."""
    match = re.search("[A-Za-z]", segment)
    return segment[match.start() :] if match else ""


def render_like_the_script(line, mode, folder):
    """Render the prompt for a line of FELM's file as the authors' script does.

    Args:
        line: The line.
        mode: The method of prompting.
        folder: The folder of the authors' prompts.
    """
    # The script asks about writing_rec with the prompts of wk.
    domain = "wk" if line["domain"] == "writing_rec" else line["domain"]
    examples = (folder / "segment" / f"{PROMPT_FILES[mode][domain]}.txt").read_text()
    segments = [
        f"{number}. {from_first_letter(segment)}\n"
        for number, segment in enumerate(line["segmented_response"], 1)
    ]
    return f"{examples}\n\nQuestion: {line['prompt']}\nSegments: {''.join(segments)}"


@pytest.fixture
def published(shared):
    """Return the rows of the published file, each with its line."""
    path = shared / "data" / "felm" / "all.jsonl"
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
    return list(zip(read_felm_rows(path), lines, strict=True))


@pytest.fixture
def authors_checkout(shared, tmp_path):
    """Return a checkout of the authors' repository with all of their prompts."""
    (tmp_path / "eval").mkdir()
    (tmp_path / "eval" / "prompt").symlink_to(shared / "data" / "prompts" / "felm" / "prompt")
    return tmp_path


@pytest.mark.parametrize("mode", MODES)
def test_protocol_code_prompts_equal_the_scripts_byte_for_byte(mode, published, authors_checkout):
    """Another prompt could give another score than in the paper."""
    settings = FelmSettings(unit="segment", mode=mode, protocol="code")

    for row, line in published:
        expected = render_like_the_script(line, mode, authors_checkout / "eval" / "prompt")
        question = settings.make_question(row)
        assert render_authors_prompt(str(authors_checkout), row, question, settings) == expected


@pytest.mark.parametrize("mode", MODES)
def test_protocol_paper_prompts_add_only_the_references(mode, published, authors_checkout):
    """A difference between the protocols must come from the references, and from no other words."""
    settings = FelmSettings(unit="segment", mode=mode, protocol="paper")

    for row, line in published:
        question = settings.make_question(row)
        expected = render_like_the_script(line, question.mode, authors_checkout / "eval" / "prompt")
        prompt = render_authors_prompt(str(authors_checkout), row, question, settings)
        if question.mode in ("link", "doc"):
            assert prompt == expected or prompt.startswith(f"{expected}Reference ")
        else:
            assert prompt == expected
