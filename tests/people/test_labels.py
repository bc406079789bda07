"""Labels are read as strictly as a corpus: every problem at once, and none is used if one is
wrong."""

from __future__ import annotations

import csv
import json
from dataclasses import asdict, replace

import pytest

from lm_factuality.ground.errors import DataError
from lm_factuality.people.labels import COLUMNS, read_key, read_labels
from lm_factuality.people.sheet import write_sheet
from tests.people.conftest import answers


def write_csv(path, lines, header=COLUMNS, delimiter=","):
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(header)
        writer.writerows([[line.get(name, "") for name in header] for line in lines])
    return path


def test_answers_by_unit_and_item(tmp_path, sheet):
    key = sheet.key
    labels = read_labels([write_csv(tmp_path / "labels.csv", answers(key))], key)
    assert labels.people == ("Ana",)
    assert sum(map(len, labels.answers.values())) == len(key.items)
    firsts = [entry for entry in key.items if entry.repeat_of is None]
    said = {(*entry.unit_key, entry.item): entry.judge for entry in firsts if entry.judge}
    assert {
        (*unit, item): answer
        for unit, each in labels.majority_answers.items()
        for item, answer in each.items()
    } == said


def test_most_decide_a_tie_does_not_and_who_cannot_tell_has_no_vote(tmp_path, sheet):
    key = sheet.key
    number = next(entry.number for entry in key.items if entry.repeat_of is None)
    votes = {"Ana": "factual", "Bo": "knowledge", "Cy": "factual", "Di": "skip"}
    line = {**answers(key)[number - 1]}

    def decided(*people):
        lines = [{**line, "person": person, "answer": votes[person]} for person in people]
        found = read_labels([write_csv(tmp_path / "labels.csv", lines)], key)
        return [answer for each in found.majority_answers.values() for answer in each.values()]

    assert decided("Ana", "Bo", "Cy") == ["factual"]
    assert decided("Ana", "Bo") == []
    assert decided("Bo", "Di") == ["knowledge"]
    assert decided("Di") == []


def test_a_spreadsheet_may_write_words_in_capitals(tmp_path, sheet):
    line = {**answers(sheet.key)[0], "answer": "FACTUAL"}
    labels = read_labels([write_csv(tmp_path / "labels.csv", [line])], sheet.key)
    assert labels.answers == {1: {"Ana": "factual"}}


def test_an_item_that_comes_twice_counts_as_it_was_answered_first(tmp_path, sheet):
    key = sheet.key
    again = next(entry for entry in key.items if entry.repeat_of is not None)
    lines = [each for each in answers(key) if each["number"] in (again.number, again.repeat_of)]
    for each in lines:
        each["answer"] = "fooled" if each["number"] == again.number else "factual"
    labels = read_labels([write_csv(tmp_path / "labels.csv", list(reversed(lines)))], key)
    assert labels.majority_answers == {again.unit_key: {again.item: "factual"}}
    assert labels.answers == {again.repeat_of: {"Ana": "factual", "Ana again": "fooled"}}


WRONG = [
    ({"sheet": "0123456789ab"}, "sheet '0123456789ab', expected "),
    ({"number": 999}, "number 999 is not on the sheet, expected 1 to "),
    ({"number": "one"}, "number is 'one'; expected a valid integer"),
    ({"question": "verdict"}, "question 'verdict', but number 1 asks 'segment'"),
    ({"answer": ""}, "answer is ''; expected an answer"),
    (
        {"answer": "factuall"},
        "answer 'factuall', expected factual, knowledge, .* or skip; did you mean factual?",
    ),
    ({"answer": "Right"}, "answer 'right', expected factual"),
    ({"person": " "}, "person is ' '; expected the name of who answered"),
]


@pytest.mark.parametrize(("change", "message"), WRONG)
def test_a_line_that_is_no_label(tmp_path, sheet, change, message):
    lines = answers(sheet.key)
    lines[0] |= change
    path = write_csv(tmp_path / "labels.csv", lines)
    with pytest.raises(DataError, match=f"(?s){path}:2: {message}"):
        read_labels([path], sheet.key)


def test_every_problem_of_all_files_at_once(tmp_path, sheet):
    lines = answers(sheet.key)
    first = write_csv(tmp_path / "a.csv", [{**lines[0], "answer": ""}, lines[1]])
    second = write_csv(tmp_path / "b.csv", [lines[1], {**lines[3], "answer": "maybe"}])
    with pytest.raises(DataError) as error:
        read_labels([first, second], sheet.key)
    found = str(error.value).split("\n")
    assert len(found) == 4
    assert found[0].startswith(f"{first}:2: answer is ''")
    assert found[1] == f"{second}:2: 'Ana' answers number 2 again, as in {first}:3"
    assert found[2].startswith(f"{second}:3: answer 'maybe'")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "sheet;number;question;answer;person;note\n1;2;3;4;5;6\n",
            ":2: sheet is missing; found .*sheet;number;question",
        ),
        ("sheet,number,question,answer,note\na,1,b,c,d\n", ":2: person is missing"),
        (
            "sheet,number,question,answer,person,note,note\na,1,b,c,d,e,f\n",
            ":1: columns named more than once: note",
        ),
        ("sheet,number,question,answer,person,note\na,1\n", ":2: 2 cells, expected 6"),
        ("", "no rows"),
    ],
)
def test_a_table_that_holds_no_labels(tmp_path, sheet, text, message):
    path = tmp_path / "labels.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        read_labels([path], sheet.key)


def test_the_table_of_the_sheet_filled_in(tmp_path, sheet):
    _, table, key_file = write_sheet(sheet, tmp_path / "sheet.html")
    key = read_key(key_file)
    assert key == sheet.key
    with table.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    said = answers(key, "Bo")
    filled = [
        {**row, "answer": each["answer"], "person": "Bo"}
        for row, each in zip(rows, said, strict=True)
    ]
    labels = read_labels([write_csv(tmp_path / "filled.csv", filled, tuple(rows[0]))], key)
    assert sum(map(len, labels.answers.values())) == len(said)
    with pytest.raises(DataError, match=":2: answer is ''"):
        read_labels([table], key)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: content["items"][0].update(judge="fooled"), "was changed by hand"),
        (lambda content: content.pop("items"), "not the key of a sheet: items is missing"),
        (
            lambda content: content["items"][0].update(probability=0),
            r"items\[0\].probability is 0; expected greater than 0",
        ),
        (lambda content: content.update(format=2), "format is 2; expected 1"),
    ],
)
def test_a_key_that_was_changed(tmp_path, sheet, change, message):
    _, _, path = write_sheet(sheet, tmp_path / "sheet.html")
    content = json.loads(path.read_text(encoding="utf-8"))
    change(content)
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(DataError, match=message):
        read_key(path)
    path.write_text("sheet", encoding="utf-8")
    with pytest.raises(DataError, match="not the key of a sheet"):
        read_key(path)


def test_a_key_whose_items_repeat_none_before_them(tmp_path, sheet):
    _, _, path = write_sheet(sheet, tmp_path / "sheet.html")
    key = read_key(path)
    items = (replace(key.items[0], repeat_of=len(key.items) + 1), *key.items[1:])
    path.write_text(json.dumps(asdict(replace(key, items=items).with_sheet_id())), encoding="utf-8")
    with pytest.raises(DataError, match="repeat_of of item 1 is"):
        read_key(path)
