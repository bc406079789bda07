"""Lines of verdicts.jsonl: what is read back, and what is none."""

from __future__ import annotations

import json

import pytest

from lm_factuality.benchmarks.biographies.types import from_record, read_lines, to_record
from lm_factuality.ground.errors import DataError
from tests.report.conftest import biography

ODD = "Lind,\u2028a baker\x85 and\x1csailor"  # str.splitlines breaks it into four


def changed(*path, to):
    """A record with ``to`` at ``path``."""
    record = json.loads(json.dumps(to_record(biography())))
    place = record
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = to
    return record


# what is changed, into what, and what the error must say
WRONG = {
    "groups are numbers": (("groups",), [0, 1], r"groups\[0\] is 0; expected a valid tuple"),
    "no such fact": (
        ("groups", 0),
        [0, 2],
        "a fact in 'groups': found 2, expected the number of one of 2, counted from 0",
    ),
    "negative fact": (("groups", 0), [-1], "a fact in 'groups': found -1"),
    "fact by name": (("groups", 0), ["0"], r"groups\[0\]\[0\] is '0'; expected a valid integer"),
    "fact true": (("groups", 0), [True], r"groups\[0\]\[0\] is True; expected a valid integer"),
    "a fact twice": (("groups", 0), [1, 1], "a fact is in two groups"),
    "no such entity": (("links",), [2], "an entity in 'links': found 2"),
    "negative link": (("links",), [-1], "an entity in 'links': found -1"),
    "fractional link": (("links",), [0.0], r"links\[0\] is 0.0; expected a valid integer"),
    "more links than groups": (
        ("links",),
        [0, 0],
        "links has 2 elements, expected 1",
    ),
    "short matrix": (("matrix",), [], "matrix has 0 elements, expected 2"),
    "short row": (("matrix", 1), [], "a row of 'matrix' has 0 elements, expected 2"),
    "outcome": (
        ("matrix", 0, 0, "outcome"),
        "true",
        r"matrix\[0\]\[0\].outcome is 'true'; expected 'supported', 'not_supported', 'irrelevant' or 'unscored'",
    ),
    "score NaN": (
        ("matrix", 0, 0, "score"),
        float("nan"),
        r"matrix\[0\]\[0\].score is nan; expected less than or equal to 1",
    ),
    "score infinite": (
        ("matrix", 0, 0, "score"),
        float("inf"),
        r"matrix\[0\]\[0\].score is inf; expected less than or equal to 1",
    ),
    "score text": (
        ("matrix", 0, 0, "score"),
        "1",
        r"matrix\[0\]\[0\].score is '1'; expected a valid number",
    ),
    "score above 1": (
        ("matrix", 0, 0, "score"),
        95,
        r"matrix\[0\]\[0\].score is 95; expected less than or equal to 1",
    ),
    "reason": (
        ("matrix", 0, 0, "reason"),
        None,
        r"matrix\[0\]\[0\].reason is empty; expected a valid string",
    ),
    "evidence": (("matrix", 0, 0, "evidence"), [9], "'matrix' and 'evidence': KeyError: 9"),
    "negative evidence": (
        ("matrix", 0, 0, "evidence"),
        [-1],
        "'matrix' and 'evidence': KeyError: -1",
    ),
    "sentence": (("facts", 0, "sentence"), 7, "the sentence of a fact: found 7"),
    "fact without text": (("facts", 0), {}, r"facts\[0\].text is missing"),
    "fact text": (
        ("facts", 0),
        "She rowed.",
        r"facts\[0\] is 'She rowed.'; expected a dictionary or an instance of Fact",
    ),
    "entities text": (("entities",), "ab", "entities is 'ab'; expected a valid tuple"),
    "index number": (("generation", "index"), 0, "generation.index is 0; expected a valid string"),
    "passage": (
        ("generation", "passages", 0),
        {"title": "a"},
        r"generation.passages\[0\].text is missing",
    ),
    "abstained": (("abstained",), "no", "abstained is 'no'; expected a valid boolean"),
    "problem": (("problem",), 3, "problem is 3; expected a valid string"),
}


@pytest.mark.parametrize(("path", "value", "expected"), WRONG.values(), ids=WRONG)
def test_what_does_not_fit_is_named_with_its_line(tmp_path, path, value, expected):
    file = tmp_path / "verdicts.jsonl"
    lines = [json.dumps(to_record(biography())), json.dumps(changed(*path, to=value))]
    file.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(
        DataError, match=f"verdicts.jsonl:2: not a record of a judged biography: .*{expected}"
    ):
        read_lines(file)


@pytest.mark.parametrize("line", ["[]", "7", "null", '{"generation": null}', "{", "[" * 100_000])
def test_other_lines_are_none(tmp_path, line):
    file = tmp_path / "verdicts.jsonl"
    file.write_text(f"\n{line}\n", encoding="utf-8")
    with pytest.raises(DataError, match="verdicts.jsonl:2: "):
        read_lines(file)


@pytest.mark.parametrize("key", ["generation", "facts", "groups", "matrix", "evidence", "links"])
def test_a_missing_key_is_named(key):
    record = changed("problem", to=None)
    del record[key]
    with pytest.raises(ValueError, match=key):
        from_record(record)


def test_a_line_may_name_its_settings(tmp_path):
    file = tmp_path / "verdicts.jsonl"
    record = to_record(biography())
    lines = [record, {**record, "protocol": "code", "linking": "hungarian"}]
    file.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    assert [(each.protocol, each.linking) for each in read_lines(file)] == [
        (None, None),
        ("code", "hungarian"),
    ]
