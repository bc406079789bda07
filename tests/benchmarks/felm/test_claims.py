"""Claims by rules, out of a judge's text, and from a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from lm_factuality.benchmarks.felm.claims import RowClaims, parse_claims, read_claims, split_claims, to_line
from lm_factuality.benchmarks.felm.rows import FelmRow
from lm_factuality.ground.errors import DataError


def row(*segments: str, index: str = "0") -> FelmRow:
    return FelmRow(index, "wk", "Why?", " ".join(segments), segments, (True,) * len(segments), (None,) * len(segments), (), ())


def test_every_clause_is_a_claim() -> None:
    claims = split_claims(row("Mars is red; it has two moons. Both are small.", "Sure!", "First line\\n\\nSecond line"))
    assert claims.claims == (("Mars is red", "it has two moons.", "Both are small."), (), ("First line", "Second line"))
    assert claims.numbered()[3:] == ["First line", "Second line"]
    assert claims.owners() == [1, 1, 1, 3, 3]


@pytest.mark.parametrize(
    "output",
    [
        "Segment 1:\nClaim 1. Mars is red.\nClaim 2. Mars has moons.\nSegment 2:\nNo claims",
        "Answer:\n**Segment 1:**\n- Claim 1: Mars is red.\n- Claim 2: Mars has moons.\n\n**Segment 2:**\n- None",
        "Segment 1:\n1. Mars is red.\n2) Mars has moons.\nSegment 2: No factual claims.",
        "<think>Segment 1: hm\n- not sure</think>\nSegment 1:\n* Mars is red.\n* Mars has moons.\nSegment 2:\nNone.",
    ],
)
def test_claims_are_read_from_a_judges_text(output: str) -> None:
    claims = parse_claims(row("Mars is red and has moons.", "Sure!"), output, "judge")
    assert (claims.claims, claims.problem) == ((("Mars is red.", "Mars has moons."), ()), None)


@pytest.mark.parametrize(
    ("output", "cut", "problem"),
    [
        ("Mars is red.", False, "no line 'Segment N:'"),
        ("", False, "no line 'Segment N:'"),
        ("Segment 1:\nClaim 1. Mars is red.", False, "nothing about segment 2 of 2"),
        ("Segment 2:\nClaim 1. Mars is red.", False, "nothing about segment 1 of 2"),
        ("Segment 1: Mars is red.\nSegment 2:\nClaim 1. It has moons.", False, "neither a claim nor 'No claims': 'Mars is red.'"),
        ("Segment 1:\nClaim 1. Mars is red.\nSegment 2:\nClaim 1. It", True, "cut off"),
        ("Segment 1:\nClaim 1. Mars is red.\nSegment 3:\nClaim 1. x y", False, "segment 3 of 2"),
        ("Segment 1:\nNo claims\nSegment 2:\nNo claims", False, "no claims in the output"),
    ],
)
def test_incomplete_extractions_are_problems_not_claims(output: str, cut: bool, problem: str) -> None:
    claims = parse_claims(row("Mars is red.", "It has moons."), output, "judge", cut)
    assert problem in (claims.problem or "")
    assert claims.claims == ()


def test_claims_come_back_from_their_file(tmp_path: Path) -> None:
    path = tmp_path / "claims.jsonl"
    kept = [RowClaims("0", (("Mars is red.",), ()), "judge"), RowClaims("1", (), "judge", "refused")]
    path.write_text("".join(to_line(each) + "\n" for each in kept))
    assert list(read_claims(path, [row("Mars is red.", "Sure!"), row("x", index="1")]).values()) == kept


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"index": "0"}', "not a line of 'lm-factuality claims extract'"),
        ("[]", "not a line"),
        ('{"index": "0", "source": "j", "claims": [["a b"]]}', "claims of 1 segments, but row 0 has 2"),
    ],
)
def test_broken_claims_files_are_refused(line: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "claims.jsonl"
    path.write_text(line)
    with pytest.raises(DataError, match=message):
        read_claims(path, [row("Mars is red.", "Sure!")])


def test_lines_of_claims_end_at_line_feeds_alone(tmp_path: Path) -> None:
    claims = RowClaims("0", (("Mars is\u2028red.",), ("Sure\x85!",)), "rules")
    path = tmp_path / "claims.jsonl"
    path.write_text(to_line(claims) + "\n", encoding="utf-8")
    assert read_claims(path, [row("Mars is red.", "Sure!")]) == {"0": claims}
