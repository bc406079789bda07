"""The edits that a model plans, and the sentences that they make."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from factor_gen.generate.llm.edits import (
    Contradictions,
    Edit,
    EditError,
    apply_edits,
    candidates_of_reply,
)
from factor_gen.generate.llm.generator import PROMPTS_FOLDER
from factor_gen.records import CIRCUMSTANCE, ENTITY, ERROR_TYPES, PREDICATE, Example
from judges.answers import Answer
from judges.typed import ParsedReply, read_reply

SENTENCE = "She left the valley before the council met , and she didn\u2019t come back."


def edit(sentence: str, *plan: str) -> str:
    """Make the edits of a plan such as ``valley -> harbour`` in a sentence."""
    edits = []
    for part in plan:
        old, _, new = part.partition(" -> ")
        edits.append(Edit(old=old, new=new))
    return apply_edits(sentence, edits)


@pytest.mark.parametrize(
    ("plan", "edited"),
    [
        pytest.param(["valley -> harbour"], ("valley", "harbour"), id="one word"),
        pytest.param(["the valley -> a harbour"], ("the valley", "a harbour"), id="two words"),
        pytest.param(["the  valley -> a  harbour"], ("the valley", "a harbour"), id="spaces"),
        pytest.param(["back -> back soon"], ("back", "back soon"), id="an insertion"),
        pytest.param(["didn't -> couldn't"], ("didn\u2019t", "couldn\u2019t"), id="an apostrophe"),
        pytest.param(["she left -> edwin left"], ("She", "Edwin"), id="a capital letter"),
        pytest.param(["council -> mayor"], ("council", "mayor"), id="no capital letter"),
    ],
)
def test_edit_changes_only_the_quoted_words(plan: list[str], edited: tuple[str, str]) -> None:
    assert edit(SENTENCE, *plan) == SENTENCE.replace(*edited)


@pytest.mark.parametrize(
    ("sentence", "plan", "edited"),
    [
        pytest.param("“She left.", "she -> edwin", "“Edwin left.", id="after a quote"),
        pytest.param("At Old Mill it rained.", "old -> new", "At New Mill it rained.", id="a name"),
        pytest.param("He met Anna there.", "Anna -> no one", "He met no one there.", id="no name"),
    ],
)
def test_edit_restores_a_missing_capital_letter(sentence: str, plan: str, edited: str) -> None:
    assert edit(sentence, plan) == edited


def test_edits_refer_to_places_in_the_original_sentence() -> None:
    edited = edit("He sold his boat to her.", "her -> his aunt", "his -> the old")

    assert edited == "He sold the old boat to his aunt."


@pytest.mark.parametrize(
    ("sentence", "plan", "edited"),
    [
        pytest.param("Der Müller ging.", "Müller -> Bauer", "Der Bauer ging.", id="German"),
        pytest.param("她再也没有回到山谷。", "山谷 -> 海边", "她再也没有回到海边。", id="Chinese"),
    ],
)
def test_edits_are_made_in_other_languages(sentence: str, plan: str, edited: str) -> None:
    assert edit(sentence, plan) == edited


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        pytest.param([], "no edit", id="no edit"),
        pytest.param([" -> often"], "an edit without words", id="an insertion without a place"),
        pytest.param(["valley -> "], "an edit without words", id="a deletion"),
        pytest.param(["mill -> farm"], "words that are not in the sentence", id="other words"),
        pytest.param(["all -> no"], "words that are not in the sentence", id="part of a word"),
        pytest.param(["the -> a"], "words that the sentence has twice", id="two places"),
        pytest.param(
            ["the valley -> a hut", "valley -> hill"], "edits of the same words", id="an overlap"
        ),
        pytest.param(["valley -> **harbour**"], "stray characters", id="Markdown"),
        pytest.param(["valley -> Valley"], "same as the sentence", id="no change"),
        pytest.param(["back. -> home"], "another end than that of the sentence", id="the end"),
        pytest.param(
            [
                "left the valley before the council met -> was in the harbour when the king died of it"
            ],
            "too far from the sentence",
            id="another sentence",
        ),
    ],
)
def test_impossible_edit_is_refused(plan: list[str], reason: str) -> None:
    with pytest.raises(EditError, match=re.escape(reason)):
        edit(SENTENCE, *plan)


EXAMPLE = Example("a", "", "The mill burned in 1903.", (PREDICATE, ENTITY))


def read_answer(content: object) -> ParsedReply[Contradictions]:
    """Read an answer of a model that consists of a JSON value."""
    return read_reply(Answer(json.dumps(content), "stop"), Contradictions, {})


def contradiction(error_type: str, old: str, new: str) -> dict[str, Any]:
    """Return a contradiction with one edit as a model writes it, with a key too many."""
    edits = [{"old": old, "new": new, "reason": "none"}]
    return {"type": error_type, "edits": edits, "confidence": 0.9}


def test_keys_that_were_not_asked_for_are_ignored() -> None:
    reply = read_answer({"contradictions": [contradiction(ENTITY, "mill", "inn")], "note": "ok"})

    [candidate] = candidates_of_reply(reply, EXAMPLE, most_per_type=2).candidates

    assert candidate.text == "The inn burned in 1903."


@pytest.mark.parametrize(
    ("contradictions", "lost"),
    [
        pytest.param(
            [contradiction(CIRCUMSTANCE, "1903", "1904")],
            {"llm: an error type that was not asked for": 1},
            id="another type",
        ),
        pytest.param(
            [contradiction("time", "1903", "1904"), contradiction(ENTITY, "mill", "inn")],
            {"llm: an error type that was not asked for": 1},
            id="a type that does not exist",
        ),
        pytest.param(
            [contradiction(ENTITY, "mill", new) for new in ("inn", "church", "bridge")],
            {"llm: more than were asked for": 1},
            id="a third of a type",
        ),
        pytest.param(
            [contradiction(ENTITY, "mill", "inn"), contradiction(PREDICATE, "mill", "inn")],
            {"llm: repeated": 1},
            id="the same sentence twice",
        ),
    ],
)
def test_unusable_contradictions_are_counted(
    contradictions: list[dict[str, Any]], lost: dict[str, int]
) -> None:
    parsed = candidates_of_reply(
        read_answer({"contradictions": contradictions}), EXAMPLE, most_per_type=2
    )

    assert lost.items() <= dict(parsed.lost).items()


def test_types_without_a_contradiction_are_counted() -> None:
    """The model was asked for errors of two types, and writes none."""
    example = Example("a", "", "The mill burned in 1903.", (PREDICATE, ENTITY))
    reply = read_answer({"contradictions": []})

    parsed = candidates_of_reply(reply, example, most_per_type=2)

    assert parsed.lost == {
        "llm: no predicate error to be made": 1,
        "llm: no entity error to be made": 1,
    }


def test_example_answers_in_the_prompt_are_valid() -> None:
    """Otherwise the prompt would teach models to write what is refused."""
    prompt = (PROMPTS_FOLDER / "edits.jinja").read_text(encoding="utf-8")
    _, *blocks, _ = prompt.split("##\n")

    for block in blocks:
        _, _, question_and_answer = block.partition("Sentence: ")
        completion, question, answer = question_and_answer.split("\n", maxsplit=2)
        types = [error_type for error_type in ERROR_TYPES if error_type in question]
        example = Example("a", "", completion, tuple(types))
        reply = read_reply(Answer(answer, "stop"), Contradictions, {})
        parsed = candidates_of_reply(reply, example, most_per_type=2)
        assert len(parsed.candidates) == answer.count('"type"'), parsed.lost
