import html
import re

import pytest

from lm_factuality.leaderboard.site.board import Board, render_pages
from tests.leaderboard.site.conftest import HOSTILE, board_of, entry, refused, score


def page_of(board: Board, name: str) -> str:
    return dict(render_pages(board, "Board"))[name]


def test_a_page_a_leaderboard_and_links_between_them() -> None:
    felm = score(0.4, task="felm_segment_cot", kind="felm", metric="segment_f1")
    board = board_of([entry("a/one", score(0.8)), entry("a/one", felm, leaderboard="felm")])
    found = dict(render_pages(board, "Board"))
    assert {name for name in found if "/" not in name} == {
        "index.html",
        "felm.html",
        "refused.html",
    }
    for page in (found["index.html"], found["felm.html"]):
        assert all(
            f'href="{name}"' in page
            for name in ("index.html", "felm.html", "refused.html", "leaderboard.json")
        )


def test_a_score_with_its_interval_rank_and_unscored_rows() -> None:
    board = board_of([entry("a/one", score(0.8123, unscored=3, worst=0.79, best=0.82))])
    page = page_of(board, "index.html")
    for text in ("<b>81.2</b>", "79.2 – 83.2", "rank 1", "3 unscored", 'data-value="0.8123"'):
        assert text in page


def test_a_score_without_an_interval_has_no_rank() -> None:
    page = page_of(board_of([entry("a/one", score(0.8, low=None, high=None))]), "index.html")
    assert "<b>80.0</b>" in page
    assert "rank 1" not in page


def test_the_page_of_a_model() -> None:
    one = entry(
        "a/one",
        score(0.8, judge="strict", backend="lexical"),
        settings={"wiki_factor": {"window": "1024", "judge, name": "strict"}},
    )
    board = board_of([one, entry("a/two", score(0.9))])
    page = dict(render_pages(board, "Board", {one.slug: "../reports/x/index.html"}))[
        f"models/{one.slug}.html"
    ]
    for text in (
        "a/one",
        "1024",
        "strict",
        "2 of 2",
        one.digest,
        one.submission.model.revision,
        "cd" * 32,
        'href="../reports/x/index.html"',
        'href="../index.html"',
        "1,234",
        "Judged by word overlap, not by a model: ",
    ):
        assert text in page
    table = page_of(board_of([one]), "index.html")
    assert ">Judged by word overlap, not by a model</small>" in table


def test_refused_with_code_and_sentence() -> None:
    board = board_of(
        [refused("x", ("SCORE_CHANGED", "wiki_factor: 0.9"), ("LIMIT_RUN", "run it whole"))]
    )
    page = page_of(board, "refused.html")
    assert "<code>SCORE_CHANGED</code> wiki_factor: 0.9" in page
    assert "<code>LIMIT_RUN</code> run it whole" in page
    assert "No submission has been accepted yet" in page_of(board, "index.html")


def test_many_reasons_are_cut_and_counted() -> None:
    page = page_of(
        board_of([refused("x", *[("ROWS_MISSING", f"row {number}") for number in range(25)])]),
        "refused.html",
    )
    assert "row 19" in page
    assert "row 20" not in page
    assert "and 5 more" in page


@pytest.mark.parametrize("field", ["revision", "dtype", "backend", "folder"])
def test_hostile_texts_are_only_text(field: str) -> None:
    settings = {"wiki_factor": {HOSTILE: HOSTILE}}
    hostile = entry("a/one", score(0.8, judge=HOSTILE), settings=settings, **{field: HOSTILE})
    board = board_of([hostile, refused(HOSTILE, ("SECRET", HOSTILE))])
    for _, page in render_pages(board, HOSTILE):
        assert HOSTILE not in page
        assert "<img" not in page
        assert page.count("<script") == 1  # ours, by its address
        assert HOSTILE in html.unescape(page)


def test_the_name_of_a_page_is_safe() -> None:
    assert re.fullmatch(r"[A-Za-z0-9-]+", entry("a/one", folder="../../etc/passwd <x>").slug)


def test_nothing_is_loaded_from_elsewhere() -> None:
    one = entry("a/one", score(0.8))
    board = board_of([one])
    for _, page in render_pages(board, "Board"):
        assert not re.findall(r"""(?:src|href)="(?:https?:)?//""", page)
        assert "Content-Security-Policy" in page


def test_a_score_of_few_rows_is_withheld() -> None:
    page = page_of(board_of([entry("a/one", score(0.8, counted=9))]), "index.html")
    assert "<b>80.0</b>" not in page
    assert "of 9 rows" in page
    (one,) = [entry("a/one", score(0.8, counted=9))]
    page = page_of(board_of([one]), f"models/{one.slug}.html")
    assert "<b>80.0</b>" not in page
    assert "too few of 9 rows" in page
