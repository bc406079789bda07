"""Lines of verdicts.jsonl: what is read back, and what is none."""

import json

import pytest

from lm_factuality.benchmarks.biographies.method import AmbigBio
from lm_factuality.benchmarks.biographies.types import (
    biography_from_record,
    biography_to_record,
    read_verdicts,
)
from lm_factuality.cli.main import main
from lm_factuality.ground.errors import DataError
from tests.report.conftest import abstention, biography


@pytest.fixture
def read(tmp_path):
    """Writes lines, one of them blank, and reads the file."""
    path = tmp_path / "verdicts.jsonl"

    def write_and_read(*lines):
        path.write_text("\n".join(["", *lines]), encoding="utf-8")
        return read_verdicts(path)

    return write_and_read


def changed(*path, to):
    """A record with ``to`` at ``path``."""
    record = json.loads(json.dumps(biography_to_record(biography())))
    place = record
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = to
    return record


CELL = ("matrix", 0, 0)
# what is changed, into what, and what the error must say
WRONG = {
    "groups are numbers": (("groups",), [0, 1], r"groups\[0\] is 0; expected a valid tuple"),
    "no such fact": (("groups", 0), [0, 2], "a fact in 'groups'"),
    "fact true": (("groups", 0), [True], r"groups\[0\]\[0\] is True; expected a valid integer"),
    "a fact twice": (("groups", 0), [1, 1], "a fact twice in 'groups'"),
    "no such entity": (("links",), [2], "an entity in 'links'"),
    "more links than groups": (("links",), [0, 0], "the length of 'links'"),
    "short row": (("matrix", 1), [], "the lengths in 'matrix'"),
    "outcome": ((*CELL, "outcome"), "true", "outcome is 'true'; expected 'supported', 'not_"),
    "score NaN": ((*CELL, "score"), float("nan"), "score is nan; expected less than or equal to 1"),
    "score text": ((*CELL, "score"), "1", "score is '1'; expected a valid number"),
    "evidence": ((*CELL, "evidence"), [9], "KeyError: 9"),
    "negative evidence": ((*CELL, "evidence"), [-1], "KeyError: -1"),
    "sentence": (("facts", 0, "sentence"), 7, "a sentence in 'facts'"),
    "index number": (("generation", "index"), 0, "generation.index is 0; expected a valid string"),
    "abstained": (("abstained",), "no", "abstained is 'no'; expected a valid boolean"),
}


@pytest.mark.parametrize(("path", "value", "expected"), WRONG.values(), ids=WRONG)
def test_what_does_not_fit_is_named(path, value, expected):
    with pytest.raises(ValueError, match=f"not a record of a judged biography: .*{expected}"):
        biography_from_record(changed(*path, to=value))


FORGED = {
    "score of another outcome": ((*CELL, "score"), 0.05, "supported, but its score is 0.05"),
    "no score": ((*CELL, "score"), None, "supported, but its score is None"),
    "unscored": ((*CELL, "outcome"), "unscored", "unscored, but its score is 0.5"),
    "same fact": (("facts", 1), {"text": "Ada Lind was a baker.", "sentence": 0}, "there twice"),
    "same text": (("facts", 1, "text"), "Ada Lind was a baker.", "different judgements"),
    "ungrouped": (("ungrouped",), "no reply", "groups and a reason why it has none"),
    "a fact in no group": (("groups",), [[0]], "do not hold each fact once"),
}


@pytest.mark.parametrize(("path", "value", "expected"), FORGED.values(), ids=FORGED)
def test_what_no_judge_decides_is_refused(path, value, expected):
    AmbigBio().check_record({}, changed("problem", to=None))
    with pytest.raises(ValueError, match=expected):
        AmbigBio().check_record({}, changed(*path, to=value))


@pytest.mark.parametrize("key", ["generation", "facts", "groups", "matrix", "evidence", "links"])
def test_a_missing_key_is_named(key):
    record = changed("problem", to=None)
    del record[key]
    with pytest.raises(ValueError, match=key):
        biography_from_record(record)


def test_records_come_back_as_they_were(read):
    judged = [biography(output="Lind,\u2028a baker\x85 and\x1csailor"), abstention("1", "Bo Ek")]
    records = [AmbigBio(protocol="code").make_record(each) for each in judged]
    assert read(*map(json.dumps, records)) == records
    assert [biography_from_record(record) for record in records] == judged


@pytest.mark.parametrize(
    "line",
    ["[]", "null", '{"generation": null}', "{", "[" * 100_000],
)
def test_lines_that_are_no_verdicts_are_named(read, line):
    with pytest.raises(DataError, match="verdicts.jsonl:2: "):
        read(line)


def test_verdicts_without_scores_are_drawn(tmp_path):
    path = tmp_path / "verdicts.jsonl"
    path.write_text(json.dumps(biography_to_record(biography())), encoding="utf-8")
    out = tmp_path / "page.html"
    assert main(["page", "--verdicts", str(path), "--out", str(out)]) == 0
    assert '"linking": "none"' in out.read_text(encoding="utf-8").replace('":"', '": "')
