"""What a judge sees of a row in each setting."""

from __future__ import annotations

import json
import string
from dataclasses import replace
from pathlib import Path

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
    "0",
    "wk",
    "How many moons has Mars?",
    ("Mars has two moons.", "They  are big."),
    (True, False),
    ("https://moons.example/mars,",),
    ("Phobos and Deimos are tiny moons of Mars.",),
)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("mode", MODES)
def test_a_prompt_holds_what_its_setting_promises(unit: str, mode: str) -> None:
    question = FelmSettings(unit, mode).make_question(ROW, split_claims(ROW))
    text = Prompts().render(question.prompt, question.subject)
    asked = text.split("Now the one to judge:")[1]
    assert f"{unit.capitalize()}s:\n1. Mars has two moons.\n2. They are big." in asked
    assert ("https://moons.example/mars\n" in asked) == (mode == "link")
    assert ("tiny moons" in asked) == (mode == "doc")
    assert ("Thought:" in text) == (mode == "cot")
    assert text.count("Answer: ") == 2
    assert "ALL_CORRECT" in text


@pytest.mark.parametrize("mode", ["link", "doc"])
def test_without_references_the_prompt_is_the_plain_one(mode: str) -> None:
    bare = replace(ROW, references=(), reference_texts=())
    assert FelmSettings("segment", mode).make_question(bare).prompt == "felm/segment_vanilla"


@pytest.mark.parametrize("domain", ["math", "reasoning"])
def test_math_and_reasoning_are_judged_by_segments(domain: str) -> None:
    question = FelmSettings("claim", "cot").make_question(replace(ROW, domain=domain))
    assert question.prompt == "felm/segment_cot"
    assert Prompts().render(question.prompt, question.subject)


def test_protocol_code_blanks_segments_without_letters_and_shows_no_references() -> None:
    assert format_segment("1. 3 + 4 = 7", "code") == ""
    assert format_segment("1. So x = 7", "code") == "So x = 7"
    assert format_segment("1. 3 + 4 = 7") == "1. 3 + 4 = 7"
    assert FelmSettings("segment", "doc", "code").make_question(ROW).mode == "vanilla"


def test_the_published_file_loses_segments_to_the_authors_script_alone(shared: Path) -> None:
    segments = [
        segment
        for row in read_felm_rows(shared / "data" / "felm" / "all.jsonl")
        for segment in row.segments
    ]
    assert sum(format_segment(each, "code") == "" for each in segments) == 124


def test_documents_are_cut_into_chunks_that_lose_nothing() -> None:
    text = " ".join(f"word{number}, yes." for number in range(1000))
    pieces = split_into_chunks(text)
    assert " ".join(pieces).replace(" ", "") == text.replace(" ", "")
    assert {len(piece.replace(",", " ,").replace(".", " .").split()) for piece in pieces[:-1]} == {
        512
    }


def test_chunks_by_the_tokens_of_a_model(checkpoint: Path) -> None:
    from transformers import AutoTokenizer

    text = " ".join(f"word{number}, yes." for number in range(40))
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    pieces = split_into_chunks(text, str(checkpoint), 64)
    assert "".join(pieces).replace(" ", "") == text.replace(" ", "")
    assert len(pieces) == -(-len(tokenizer(text)["input_ids"]) // 64)
    assert pieces[0] == tokenizer.decode(tokenizer(text)["input_ids"][:64]).strip()
    with pytest.raises(
        ConfigError, match=r"chunk_tokenizer 'tiktoken:none' cannot be loaded.*cl100k_base"
    ):
        split_into_chunks(text, "tiktoken:none")


def test_the_chunk_nearest_to_the_question_is_chosen() -> None:
    filler = "the weather was mild and nothing of note happened " * 100
    documents = [f"{filler} Phobos goes round Mars. {filler}", "", "A short text."]
    chosen = best_chunks(documents, "How many moons has Mars?")
    assert len(chosen) == 2
    assert "Phobos" in chosen[0]
    assert chosen[1] == "A short text."
    assert best_chunks([filler], "zebra") == [split_into_chunks(filler)[0]]


def test_prompts_of_a_checkout_are_read_from_there(tmp_path: Path) -> None:
    folder = tmp_path / "eval" / "prompt" / "segment" / "wk"
    folder.mkdir(parents=True)
    (folder / "prompt_wk_raw.txt").write_text("Their words.\n")
    checkout = str(tmp_path)
    vanilla, cot = FelmSettings(mode="vanilla"), FelmSettings(mode="cot")
    text = render_authors_prompt(checkout, ROW, vanilla.make_question(ROW), vanilla)
    assert text == (
        "Their words.\n\n\nQuestion: How many moons has Mars?\nSegments: 1. Mars has two moons.\n"
        "2. They  are big.\n"
    )
    with pytest.raises(DataError, match=r"prompt_wk_cot\.txt: no such file; expected a checkout"):
        render_authors_prompt(checkout, ROW, cot.make_question(ROW), cot)


_THEIRS = {  # the file of each of the script's methods, for its domains
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


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("protocol", ["paper", "code"])
def test_the_authors_prompts_are_their_scripts_byte_for_byte(
    mode: str, protocol: str, shared: Path, tmp_path: Path
) -> None:
    """Against a rendering of the published rows by itself. With references, by ``paper``, they
    follow what the script writes."""
    (tmp_path / "eval").mkdir()
    (tmp_path / "eval" / "prompt").symlink_to(shared / "data" / "prompts" / "felm" / "prompt")
    settings = FelmSettings("segment", mode, protocol)
    rows = read_felm_rows(shared / "data" / "felm" / "all.jsonl")
    for row, line in zip(
        rows,
        (shared / "data" / "felm" / "all.jsonl").read_text(encoding="utf-8").split("\n"),
        strict=False,
    ):
        raw = json.loads(line)
        domain = "wk" if raw["domain"] == "writing_rec" else raw["domain"]
        question = settings.make_question(row)
        used = mode if protocol == "code" or question.mode == mode else "vanilla"
        expected = (
            tmp_path / "eval" / "prompt" / "segment" / f"{_THEIRS[used][domain]}.txt"
        ).read_text() + "\n\nQuestion: "
        expected += raw["prompt"] + "\nSegments: "
        for number, segment in enumerate(raw["segmented_response"]):
            letters = [place for place, sign in enumerate(segment) if sign in string.ascii_letters]
            expected += f"{number + 1}. {segment[letters[0] :] if letters else ''}\n"
        text = render_authors_prompt(str(tmp_path), row, question, settings)
        assert text == expected or (
            used in ("link", "doc")
            and protocol == "paper"
            and text.startswith(expected + "Reference ")
        )
