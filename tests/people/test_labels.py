"""Labels are read strictly: all problems at once, and no label is used if one is wrong."""

from __future__ import annotations

import csv
import json
from dataclasses import asdict, replace

import pytest

from lm_factuality.ground.errors import DataError
from lm_factuality.people.labels import COLUMNS, read_key, read_labels
from lm_factuality.people.sheet import write_sheet
from tests.people.conftest import labels_like_the_judge


@pytest.fixture
def labels_path(tmp_path):
    """Return the path of a file of labels that is still to be written."""
    return tmp_path / "labels.csv"


@pytest.fixture
def key_path(sheet, tmp_path):
    """Return the key file of the sheet."""
    *_, path = write_sheet(sheet, tmp_path / "sheet.html")
    return path


def write_csv(path, rows, columns=COLUMNS):
    """Write rows as a CSV file, in which missing cells are empty."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, restval="", extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)


def majority_answer_to(item, labels):
    """Return what most people answer to an item, or None if there is no such answer."""
    return labels.majority_answers.get(item.unit_key, {}).get(item.item)


def count_answers(labels):
    """Return the number of answers of all people to all items."""
    return sum(len(answer_by_person) for answer_by_person in labels.answers.values())


def test_answers_to_all_items_are_read(labels_path, sheet):
    """Ana gives the judge's verdict to every item, and skips the items without a verdict."""
    write_csv(labels_path, labels_like_the_judge(sheet.key, person="Ana"))

    labels = read_labels([labels_path], sheet.key)

    assert labels.people == ("Ana",)
    assert count_answers(labels) == len(sheet.key.items)
    for item in sheet.key.items:
        assert majority_answer_to(item, labels) == item.judge


@pytest.mark.parametrize(
    ("answers_by_person", "majority"),
    [
        pytest.param(
            {"Ana": "factual", "Bo": "knowledge", "Cy": "factual"}, "factual", id="two of three"
        ),
        pytest.param({"Ana": "factual", "Bo": "knowledge"}, None, id="a tie"),
        pytest.param({"Bo": "knowledge", "Di": "skip"}, "knowledge", id="one answer and a skip"),
        pytest.param({"Di": "skip"}, None, id="only a skip"),
    ],
)
def test_skipped_answers_do_not_count_in_the_majority(
    labels_path, sheet, answers_by_person, majority
):
    """A person who skips an item has no opinion, and a tie has no winner."""
    first_item = sheet.key.items[0]
    cells_of_item = {"sheet": sheet.key.sheet, "number": 1, "question": first_item.question}
    rows = []
    for person, answer in answers_by_person.items():
        rows.append({**cells_of_item, "person": person, "answer": answer})
    write_csv(labels_path, rows)

    labels = read_labels([labels_path], sheet.key)

    assert majority_answer_to(first_item, labels) == majority


def test_answers_in_capitals_are_accepted(labels_path, sheet):
    first_label, *_ = labels_like_the_judge(sheet.key, person="Ana")
    write_csv(labels_path, [{**first_label, "answer": "FACTUAL"}])

    labels = read_labels([labels_path], sheet.key)

    assert labels.answers == {1: {"Ana": "factual"}}


def test_the_first_answer_to_a_repeated_item_counts(labels_path, sheet):
    """The second answer only shows how sure the person is."""
    repeat = next(item for item in sheet.key.items if item.repeat_of is not None)
    label_by_number = {
        label["number"]: label for label in labels_like_the_judge(sheet.key, person="Ana")
    }
    first_label = {**label_by_number[repeat.repeat_of], "answer": "factual"}
    second_label = {**label_by_number[repeat.number], "answer": "fooled"}
    write_csv(labels_path, [second_label, first_label])

    labels = read_labels([labels_path], sheet.key)

    assert labels.majority_answers == {repeat.unit_key: {repeat.item: "factual"}}
    assert labels.answers == {repeat.repeat_of: {"Ana": "factual", "Ana again": "fooled"}}


@pytest.mark.parametrize(
    ("wrong_cell", "message"),
    [
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
    ],
)
def test_wrong_cell_is_refused_with_its_line_number(labels_path, sheet, wrong_cell, message):
    first_label, *more_labels = labels_like_the_judge(sheet.key)
    write_csv(labels_path, [{**first_label, **wrong_cell}, *more_labels])

    # Line 1 has the names of the columns, and line 2 the first label.
    with pytest.raises(DataError, match=f"(?s){labels_path}:2: {message}"):
        read_labels([labels_path], sheet.key)


def test_all_problems_of_all_files_are_reported_at_once(tmp_path, sheet):
    """The user can then correct all of them before the next try."""
    first_label, second_label, third_label, *_ = labels_like_the_judge(sheet.key, person="Ana")
    a_path = tmp_path / "a.csv"
    b_path = tmp_path / "b.csv"
    write_csv(a_path, [{**first_label, "answer": ""}, second_label])
    write_csv(b_path, [second_label, {**third_label, "answer": "maybe"}])

    with pytest.raises(DataError) as error:
        read_labels([a_path, b_path], sheet.key)

    *problems, _advice = str(error.value).split("\n")
    assert len(problems) == 3
    assert problems[0].startswith(f"{a_path}:2: answer is ''")
    assert problems[1] == f"{b_path}:2: 'Ana' answers number 2 again, as in {a_path}:3"
    assert problems[2].startswith(f"{b_path}:3: answer 'maybe'")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(
            "sheet;number;question;answer;person;note\n1;2;3;4;5;6\n",
            ":2: sheet is missing; found .*sheet;number;question",
            id="semicolons",
        ),
        pytest.param(
            "sheet,number,question,answer,note\na,1,b,c,d\n",
            ":2: person is missing",
            id="a column missing",
        ),
        pytest.param(
            "sheet,number,question,answer,person,note,note\na,1,b,c,d,e,f\n",
            ":1: columns named more than once: note",
            id="a column twice",
        ),
        pytest.param(
            "sheet,number,question,answer,person,note\na,1\n",
            ":2: 2 cells, expected 6",
            id="a short line",
        ),
        pytest.param("", "no rows", id="empty"),
    ],
)
def test_a_table_without_labels_is_refused(labels_path, sheet, text, message):
    """Spreadsheets may write other separators, or lose columns."""
    labels_path.write_text(text, encoding="utf-8")

    with pytest.raises(DataError, match=message):
        read_labels([labels_path], sheet.key)


def test_filled_in_csv_sheet_is_read(tmp_path, labels_path, sheet):
    """A person may prefer a spreadsheet to the page."""
    _, table_path, *_ = write_sheet(sheet, tmp_path / "sheet.html")
    with table_path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for row, label in zip(rows, labels_like_the_judge(sheet.key), strict=True):
        row["answer"] = label["answer"]
        row["person"] = "Bo"
    write_csv(labels_path, rows, columns=list(rows[0]))

    labels = read_labels([labels_path], sheet.key)

    assert labels.people == ("Bo",)
    assert count_answers(labels) == len(rows)


def test_empty_csv_sheet_is_refused(tmp_path, sheet):
    """An empty cell must not count as an answer."""
    _, table_path, *_ = write_sheet(sheet, tmp_path / "sheet.html")

    with pytest.raises(DataError, match=":2: answer is ''"):
        read_labels([table_path], sheet.key)


def test_key_is_read_unchanged(key_path, sheet):
    """All measures compare people's labels with the judge's answers in the key."""
    assert read_key(key_path) == sheet.key


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(
            lambda content: content["items"][0].update(judge="fooled"),
            "changed since sheet",
            id="another verdict",
        ),
        pytest.param(
            lambda content: content.pop("items"),
            "not the key of a sheet: items is missing",
            id="no items",
        ),
        pytest.param(
            lambda content: content["items"][0].update(probability=0),
            r"items\[0\].probability is 0; expected greater than 0",
            id="an impossible probability",
        ),
        pytest.param(
            lambda content: content.update(format=2), "format is 2; expected 1", id="another format"
        ),
    ],
)
def test_a_changed_key_is_refused(key_path, change, message):
    """The key holds the judge's verdicts, so a change of it would change the agreement."""
    content = json.loads(key_path.read_text(encoding="utf-8"))
    change(content)
    key_path.write_text(json.dumps(content), encoding="utf-8")

    with pytest.raises(DataError, match=message):
        read_key(key_path)


def test_non_json_key_is_refused(key_path):
    """The user may have given another file."""
    key_path.write_text("sheet", encoding="utf-8")

    with pytest.raises(DataError, match="not the key of a sheet"):
        read_key(key_path)


def test_key_repeating_an_unknown_item_is_refused(key_path, sheet):
    """There is no first answer with which the second could be compared."""
    first_item, *more_items = sheet.key.items
    number_after_the_last = len(sheet.key.items) + 1
    repetition = replace(first_item, repeat_of=number_after_the_last)
    key = replace(sheet.key, items=(repetition, *more_items)).with_sheet_id()
    key_path.write_text(json.dumps(asdict(key)), encoding="utf-8")

    with pytest.raises(DataError, match="item 1 repeats item"):
        read_key(key_path)


def test_json_lines_identify_items_by_id_and_people_by_file_name(tmp_path, sheet):
    """Programs for labelling write one file for each person, with a line for each item."""
    path_of_di = tmp_path / "Di.jsonl"
    id_of_first_item = f"{sheet.key.sheet}-1"
    line = {"id": id_of_first_item, "verdict": "factual", "reason": "seen"}
    path_of_di.write_text(json.dumps(line) + "\n")

    labels = read_labels([path_of_di], sheet.key)

    assert labels.answers == {1: {"Di": "factual"}}
