"""Lines of verdicts.jsonl: what is read back, and what is refused."""

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
def record():
    """Return the record of a biography of two facts, one group and two entities, as from a file."""
    return json.loads(json.dumps(biography_to_record(biography())))


def replace_field(record, field, value):
    """Replace the value of a field, such as ``("matrix", 0, 0, "score")``, in a record."""
    *parents, last_key = field
    container = record
    for key in parents:
        container = container[key]
    container[last_key] = value


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        pytest.param(
            ("groups",),
            [0, 1],
            r"groups\[0\] is 0; expected a valid tuple",
            id="groups are numbers",
        ),
        pytest.param(("groups", 0), [0, 2], "a fact in 'groups'", id="group of an unknown fact"),
        pytest.param(
            ("groups", 0),
            [True],
            r"groups\[0\]\[0\] is True; expected a valid integer",
            id="true as the number of a fact",
        ),
        pytest.param(("groups", 0), [1, 1], "a fact twice in 'groups'", id="a fact twice"),
        pytest.param(("links",), [2], "an entity in 'links'", id="link to an unknown entity"),
        pytest.param(
            ("links",), [0, 0], "the length of 'links'", id="more links than there are groups"
        ),
        pytest.param(("matrix", 1), [], "the lengths in 'matrix'", id="row without verdicts"),
        pytest.param(
            ("matrix", 0, 0, "outcome"),
            "true",
            "outcome is 'true'; expected 'supported', 'not_",
            id="unknown outcome",
        ),
        pytest.param(
            ("matrix", 0, 0, "score"),
            float("nan"),
            "score is nan; expected less than or equal to 1",
            id="score that is no number",
        ),
        pytest.param(
            ("matrix", 0, 0, "score"),
            "1",
            "score is '1'; expected a valid number",
            id="score that is a text",
        ),
        pytest.param(("matrix", 0, 0, "evidence"), [9], "KeyError: 9", id="unknown evidence"),
        pytest.param(("matrix", 0, 0, "evidence"), [-1], "KeyError: -1", id="negative evidence"),
        pytest.param(
            ("facts", 0, "sentence"), 7, "a sentence in 'facts'", id="fact of an unknown sentence"
        ),
        pytest.param(
            ("generation", "index"),
            0,
            "generation.index is 0; expected a valid string",
            id="index that is a number",
        ),
        pytest.param(
            ("abstained",),
            "no",
            "abstained is 'no'; expected a valid boolean",
            id="abstained that is a text",
        ),
    ],
)
def test_malformed_record_is_refused(record, field, value, problem):
    """A user may have edited a line by hand. The message names the value that is wrong."""
    replace_field(record, field, value)

    with pytest.raises(ValueError, match=f"not a record of a judged biography: .*{problem}"):
        biography_from_record(record)


def test_consistent_record_is_accepted(record):
    """The scores of the record follow from its decisions."""
    AmbigBio().check_record({}, record)


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        pytest.param(
            ("matrix", 0, 0, "score"),
            0.05,
            "supported, but its score is 0.05",
            id="score of another outcome",
        ),
        pytest.param(
            ("matrix", 0, 0, "score"), None, "supported, but its score is None", id="no score"
        ),
        pytest.param(
            ("matrix", 0, 0, "outcome"),
            "unscored",
            "unscored, but its score is 0.5",
            id="unscored with a score",
        ),
        pytest.param(
            ("facts", 1),
            {"text": "Ada Lind was a baker.", "sentence": 0},
            "there twice",
            id="a fact of a sentence twice",
        ),
        pytest.param(
            ("facts", 1, "text"),
            "Ada Lind was a baker.",
            "different judgements",
            id="different judgements of one text",
        ),
        pytest.param(
            ("ungrouped",),
            "no reply",
            "groups and a reason why it has none",
            id="ungrouped with groups",
        ),
        pytest.param(("groups",), [[0]], "do not hold each fact once", id="a fact in no group"),
    ],
)
def test_inconsistent_record_is_refused(record, field, value, problem):
    """A participant of a leaderboard may have changed a decision without the others."""
    replace_field(record, field, value)

    with pytest.raises(ValueError, match=problem):
        AmbigBio().check_record({}, record)


@pytest.mark.parametrize("key", ["generation", "facts", "groups", "matrix", "evidence", "links"])
def test_missing_record_key_is_named(record, key):
    """The file may be of another benchmark, or of an older version."""
    del record[key]

    with pytest.raises(ValueError, match=key):
        biography_from_record(record)


@pytest.fixture
def verdicts_path(tmp_path):
    """Return the path of a file of verdicts."""
    return tmp_path / "verdicts.jsonl"


def test_records_are_read_from_a_file_unchanged(verdicts_path):
    """Only a line feed ends a record, and blank lines are skipped."""
    unusual_line_breaks = "Lind,\u2028a baker\x85 and\x1csailor"
    biographies = [biography(output=unusual_line_breaks), abstention("1", "Bo Ek")]
    records = [AmbigBio(protocol="code").make_record(judged) for judged in biographies]
    lines = [json.dumps(record) for record in records]
    verdicts_path.write_text("\n".join(["", *lines]), encoding="utf-8")  # with a blank line

    assert read_verdicts(verdicts_path) == records


@pytest.mark.parametrize(
    "judged",
    [
        pytest.param(biography(), id="biography"),
        pytest.param(
            biography(output="Lind,\u2028a baker\x85 and\x1csailor"), id="unusual line breaks"
        ),
        pytest.param(abstention("1", "Bo Ek"), id="abstention"),
    ],
)
def test_biography_is_restored_from_its_record(judged):
    """Commands that read verdicts compute the scores of such biographies."""
    record = AmbigBio(protocol="code").make_record(judged)

    assert biography_from_record(record) == judged


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("[]", id="list"),
        pytest.param("null", id="null"),
        pytest.param('{"generation": null}', id="object without a response"),
        pytest.param("{", id="no JSON"),
        pytest.param("[" * 100_000, id="deep nesting"),
    ],
)
def test_invalid_verdict_line_is_named(verdicts_path, line):
    """The line follows a blank one, and a user finds it by its number in an editor."""
    verdicts_path.write_text(f"\n{line}", encoding="utf-8")

    with pytest.raises(DataError, match="verdicts.jsonl:2: "):
        read_verdicts(verdicts_path)


def test_page_can_show_verdicts_without_scores(verdicts_path, record, tmp_path):
    """Such a record does not say how facts were linked, and the page does not guess."""
    verdicts_path.write_text(json.dumps(record), encoding="utf-8")
    page_path = tmp_path / "page.html"

    exit_code = main(["page", "--verdicts", str(verdicts_path), "--out", str(page_path)])

    assert exit_code == 0
    html_without_spaces = page_path.read_text(encoding="utf-8").replace('": "', '":"')
    assert '"linking":"none"' in html_without_spaces
