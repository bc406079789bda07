"""The claims in responses of FELM: by rules, from a judge, and from a file."""

import json

import pytest

from judges.answers import Answer
from judges.typed import read_reply
from lm_factuality.benchmarks.felm.rows import (
    ClaimsReply,
    FelmRow,
    RowClaims,
    claims_from_reply,
    claims_to_line,
    find_claims_problem,
    read_claims,
    split_claims,
)
from lm_factuality.ground.errors import DataError

SEGMENTS = ["Mars is red and has moons.", "Sure!"]


def make_row(*segments, index="0"):
    """Make a row of FELM whose response has these segments, all of them labelled correct."""
    return FelmRow(
        index=index,
        domain="wk",
        prompt="Why?",
        segments=segments,
        labels=(True,) * len(segments),
        references=(),
        reference_texts=(),
    )


def read_answer(answer):
    """Read a judge's answer to the question for the claims of ``SEGMENTS``."""
    return read_reply(answer, ClaimsReply, {"units": SEGMENTS}, find_claims_problem)


def make_reply(*claims_of_segments):
    """Make a judge's reply from pairs: the number of a segment, and the claims in it."""
    segments = [{"segment": number, "claims": claims} for number, claims in claims_of_segments]
    return read_answer(Answer(json.dumps({"segments": segments}), "stop"))


def test_rules_extract_one_claim_per_clause():
    """The second segment, "Sure!", says nothing."""
    row = make_row(
        "Mars is red; it has two moons. Both are small.", "Sure!", "First line\\n\\nSecond line"
    )

    row_claims = split_claims(row)

    assert row_claims.claims == (
        ("Mars is red", "it has two moons.", "Both are small."),
        (),
        ("First line", "Second line"),
    )


def test_all_claims_are_listed_with_the_numbers_of_their_segments():
    row_claims = RowClaims(
        index="0",
        claims=(("Mars is red.", "It has two moons."), (), ("Both are small.",)),
        source="rules",
    )

    assert row_claims.all_claims() == ["Mars is red.", "It has two moons.", "Both are small."]
    assert row_claims.segment_numbers() == [1, 1, 3]


def test_claims_are_sorted_by_segment():
    """The judge may name the segments in any order."""
    reply = make_reply((2, []), (1, ["Mars is red.", "Mars has moons."]))

    row_claims = claims_from_reply(make_row(*SEGMENTS), reply, "judge")

    assert row_claims == RowClaims("0", (("Mars is red.", "Mars has moons."), ()), "judge")


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        pytest.param(make_reply((1, ["Mars is red."])), "no segment 2", id="missing segment"),
        pytest.param(
            make_reply((1, ["Mars is red."]), (3, [])), "segment 3 of 2", id="unknown segment"
        ),
        pytest.param(
            make_reply((1, ["Mars is red."]), (2, []), (2, [])),
            "segment 2 twice",
            id="segment twice",
        ),
        pytest.param(make_reply((1, []), (2, [])), "no claims", id="no claims"),
        pytest.param(make_reply(), "no segment 1, 2", id="no segments"),
        pytest.param(read_answer(Answer("Mars is red.")), "no JSON object", id="no JSON"),
        pytest.param(
            read_answer(Answer(None, error="timed out")),
            "judge error: timed out",
            id="judge that is down",
        ),
    ],
)
def test_incomplete_reply_gives_a_problem_and_no_claims(reply, problem):
    """A segment that a judge leaves out might be wrong, so its whole reply is refused."""
    row_claims = claims_from_reply(make_row(*SEGMENTS), reply, "judge")

    assert row_claims == RowClaims("0", (), "judge", problem)


def test_claims_survive_writing_and_reading_a_file(tmp_path):
    """``claims extract`` writes the file, so that several judges mark the same claims."""
    rows = [make_row("Mars is red.", "Sure!"), make_row("x", index="1")]
    written = [
        RowClaims("0", (("Mars is red.",), ()), "judge"),
        RowClaims("1", (), "judge", "refused"),
    ]
    path = tmp_path / "claims.jsonl"
    path.write_text("".join(claims_to_line(row_claims) + "\n" for row_claims in written))

    claims_by_row = read_claims(path, rows)

    assert list(claims_by_row.values()) == written


@pytest.mark.parametrize(
    ("line", "message"),
    [
        pytest.param(
            '{"index": "0"}', "claims is missing(.|\n)*claims extract", id="another kind of file"
        ),
        pytest.param(
            '{"index": "0", "source": "j", "claims": [["a b"]]}',
            "claims of 1 segments, but row 0 has 2",
            id="claims of fewer segments",
        ),
    ],
)
def test_a_broken_claims_file_is_refused(line, message, tmp_path):
    """The file is of another kind, or its claims are not those of the row's two segments."""
    path = tmp_path / "claims.jsonl"
    path.write_text(line)

    with pytest.raises(DataError, match=message):
        read_claims(path, [make_row("Mars is red.", "Sure!")])
