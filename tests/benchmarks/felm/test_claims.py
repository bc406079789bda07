"""Claims by rules, from a judge, and from a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from judges.answers import Answer
from judges.typed import ParsedReply, read_reply
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


def row(*segments: str, index: str = "0") -> FelmRow:
    return FelmRow(index, "wk", "Why?", segments, (True,) * len(segments), (), ())


def test_every_clause_is_a_claim() -> None:
    claims = split_claims(
        row(
            "Mars is red; it has two moons. Both are small.", "Sure!", "First line\\n\\nSecond line"
        )
    )
    assert claims.claims == (
        ("Mars is red", "it has two moons.", "Both are small."),
        (),
        ("First line", "Second line"),
    )
    assert claims.all_claims()[3:] == ["First line", "Second line"]
    assert claims.segment_numbers() == [1, 1, 1, 3, 3]


SUBJECT = {"units": ["Mars is red and has moons.", "Sure!"]}
ROW = row(*SUBJECT["units"])


def reply(*claims: tuple[int, list[str]]) -> ParsedReply[ClaimsReply]:
    text = json.dumps(
        {"segments": [{"segment": number, "claims": texts} for number, texts in claims]}
    )
    return read_reply(Answer(text, "stop"), ClaimsReply, SUBJECT, find_claims_problem)


def test_claims_of_a_reply_are_those_of_the_segments_in_order() -> None:
    claims = claims_from_reply(
        ROW, reply((2, []), (1, ["Mars is red.", "Mars has moons."])), "judge"
    )
    assert claims == RowClaims("0", (("Mars is red.", "Mars has moons."), ()), "judge")


@pytest.mark.parametrize(
    ("read", "problem"),
    [
        (reply((1, ["Mars is red."])), "no segment 2"),
        (reply((1, ["Mars is red."]), (3, [])), "segment 3 of 2"),
        (reply((1, ["Mars is red."]), (2, []), (2, [])), "segment 2 twice"),
        (reply((1, []), (2, [])), "no claims"),
        (reply(), "no segment 1, 2"),
        (
            read_reply(Answer("Mars is red."), ClaimsReply, SUBJECT, find_claims_problem),
            "no JSON object",
        ),
        (
            read_reply(Answer(None, error="timed out"), ClaimsReply, SUBJECT, find_claims_problem),
            "judge error: timed out",
        ),
    ],
)
def test_incomplete_replies_are_problems_not_claims(
    read: ParsedReply[ClaimsReply], problem: str
) -> None:
    assert claims_from_reply(ROW, read, "judge") == RowClaims("0", (), "judge", problem)


def test_claims_come_back_from_their_file(tmp_path: Path) -> None:
    path = tmp_path / "claims.jsonl"
    kept = [
        RowClaims("0", (("Mars is red.",), ()), "judge"),
        RowClaims("1", (), "judge", "refused"),
    ]
    path.write_text("".join(claims_to_line(each) + "\n" for each in kept))
    assert (
        list(read_claims(path, [row("Mars is red.", "Sure!"), row("x", index="1")]).values())
        == kept
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"index": "0"}', "claims is missing(.|\n)*claims extract"),
        (
            '{"index": "0", "source": "j", "claims": [["a b"]]}',
            "claims of 1 segments, but row 0 has 2",
        ),
    ],
)
def test_broken_claims_files_are_refused(line: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "claims.jsonl"
    path.write_text(line)
    with pytest.raises(DataError, match=message):
        read_claims(path, [row("Mars is red.", "Sure!")])
