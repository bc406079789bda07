"""The pages of the site: what they show of scores, models and refused submissions."""

from __future__ import annotations

import html
import re

import pytest

from lm_factuality.leaderboard.site.board import render_pages, to_board
from tests.leaderboard.site.conftest import HOSTILE, make_entry, make_score, refuse


def render(*entries, reports=None) -> dict[str, str]:
    """Render the site of these entries, and return its pages by their paths.

    Args:
        *entries: The accepted and refused submissions.
        reports: The paths of reports, by the slug of the model.
    """
    return dict(render_pages(to_board(entries), "Board", reports or {}))


def render_factor_and_felm() -> dict[str, str]:
    """Render a site with the leaderboards of FACTOR and FELM, and return its pages."""
    felm_score = make_score(0.4, task="felm_segment_cot", kind="felm", metric="segment_f1")
    return render(
        make_entry("acme/one", make_score(0.8), leaderboard="factor"),
        make_entry("acme/one", felm_score, leaderboard="felm"),
    )


def test_each_leaderboard_has_a_page():
    """The start page, ``index.html``, is that of the first leaderboard, FACTOR."""
    pages = render_factor_and_felm()

    pages_outside_folders = {path for path in pages if "/" not in path}
    assert pages_outside_folders == {"index.html", "felm.html", "refused.html"}


@pytest.mark.parametrize("path", ["index.html", "felm.html"])
@pytest.mark.parametrize("target", ["index.html", "felm.html", "refused.html", "leaderboard.json"])
def test_each_leaderboard_links_to_all_pages(path, target):
    pages = render_factor_and_felm()

    assert f'href="{target}"' in pages[path]


def ranks_in_table(page: str) -> list[str]:
    """Return what the cells before the names of models say, which have their ranks."""
    return re.findall(r'<td class="number" data-value="\d*">([^<]+)</td>\s+<th scope="row"', page)


def test_a_score_is_shown_with_its_interval_rank_and_unscored_rows():
    score = make_score(0.8123, half_width=0.02, unscored=3, score_if_unscored_wrong=0.79)

    page = render(make_entry("acme/one", score))["index.html"]

    assert "<b>81.2</b>" in page
    assert "79.2 – 83.2" in page
    assert "3 unscored" in page
    assert ranks_in_table(page) == ["1"]


def test_a_browser_sorts_models_by_the_unrounded_score_and_rank():
    score = make_score(0.8123, half_width=0.02)

    page = render(make_entry("acme/one", score))["index.html"]

    assert 'data-value="0.8123"' in page
    assert 'data-value="1">1</td>' in page


def test_a_score_without_an_interval_has_no_rank():
    """Nobody can tell whether it is better than another score."""
    score = make_score(0.8, low=None, high=None)

    page = render(make_entry("acme/one", score))["index.html"]

    assert "<b>80.0</b>" in page
    assert ranks_in_table(page) == ["–"]
    assert 'data-value="">–</td>' in page


def test_rank_in_a_later_task_stands_under_its_score():
    """The first column has the rank in the first task, whose cell has none."""
    first_score = make_score(0.8, task="wiki_factor")
    later_score = make_score(0.7, task="news_factor")

    page = render(make_entry("acme/one", first_score, later_score))["index.html"]

    first_cell, later_cell = re.findall(r'<span class="figure">.*?</span>', page, re.DOTALL)
    assert "<b>80.0</b>" in first_cell
    assert "rank" not in first_cell
    assert "<b>70.0</b>" in later_cell
    assert "rank 1" in later_cell


def test_model_path_is_shortened_and_shown_as_a_tooltip():
    """A long path would make the table wide."""
    page = render(make_entry("/data/models/pythia", make_score(0.8)))["index.html"]

    assert 'title="/data/models/pythia">pythia</a>' in page


def test_the_page_of_a_model_shows_its_name_and_rank():
    entry = make_entry("acme/second", make_score(0.8))
    better_entry = make_entry("acme/first", make_score(0.9))

    page = render(entry, better_entry)[f"models/{entry.slug}.html"]

    assert "acme/second" in page
    assert ">2 of 2</td>" in page


def test_the_page_of_a_model_shows_the_settings_of_its_tasks():
    settings = {"wiki_factor": {"window": "1024", "judge, name": "strict"}}
    entry = make_entry("acme/one", make_score(0.8), settings=settings)

    page = render(entry)[f"models/{entry.slug}.html"]

    assert '<th scope="row">window</th><td><code>1024</code></td>' in page
    assert '<th scope="row">judge, name</th><td><code>strict</code></td>' in page


def test_the_page_of_a_model_shows_its_revision_and_the_hashes_of_its_files():
    """Readers can compare the files that they have by the hashes and sizes."""
    entry = make_entry("acme/one", make_score(0.8))

    page = render(entry)[f"models/{entry.slug}.html"]

    results_file = entry.submission.files[0]
    assert entry.submission.model.revision in page
    assert entry.digest in page
    assert results_file.sha256 in page
    assert f"{results_file.bytes:,}" in page


def test_the_page_of_a_model_links_to_its_report_and_back():
    entry = make_entry("acme/one", make_score(0.8))

    pages = render(entry, reports={entry.slug: "../reports/x/index.html"})

    page = pages[f"models/{entry.slug}.html"]
    assert 'href="../reports/x/index.html"' in page
    assert 'href="../index.html"' in page


def test_a_score_of_the_offline_judge_says_so_on_both_pages():
    """The offline judge (``lexical``) compares words, which is weaker than a model."""
    score = make_score(0.8, judge="strict", backend="lexical")
    entry = make_entry("acme/one", score)

    pages = render(entry)

    note = "Judged by word overlap, not by a model"
    assert f">{note}</small>" in pages["index.html"]
    assert f"{note}: " in pages[f"models/{entry.slug}.html"]


def test_a_refused_submission_is_shown_with_codes_and_sentences():
    refused = refuse("x", ("SCORE_CHANGED", "wiki_factor: 0.9"), ("LIMIT_RUN", "run it whole"))

    page = render(refused)["refused.html"]

    assert "<code>SCORE_CHANGED</code> wiki_factor: 0.9" in page
    assert "<code>LIMIT_RUN</code> run it whole" in page


def test_site_without_accepted_submissions_says_so():
    page = render(refuse("x", ("LIMIT_RUN", "run it whole")))["index.html"]

    assert "No submission has been accepted yet" in page


def test_only_twenty_reasons_are_shown_and_the_others_counted():
    """A broken submission may have thousands of reasons."""
    reasons = [("ROWS_MISSING", f"row {number}") for number in range(1, 26)]

    page = render(refuse("x", *reasons))["refused.html"]

    assert "row 20" in page
    assert "row 21" not in page
    assert "and 5 more" in page


@pytest.mark.parametrize("field", ["revision", "dtype", "backend", "folder"])
def test_markup_in_a_submission_is_shown_as_text(field):
    """Whoever sends a submission chooses these texts, which must not become HTML or a script.

    The hostile text has the tags ``script`` and ``img``, quotes and the beginning of a comment.
    """
    hostile_entry = make_entry(
        "acme/one",
        make_score(0.8, judge=HOSTILE),
        settings={"wiki_factor": {HOSTILE: HOSTILE}},
        **{field: HOSTILE},
    )
    board = to_board([hostile_entry, refuse(HOSTILE, ("SECRET", HOSTILE))])

    for _, page in render_pages(board, title=HOSTILE, reports={}):
        assert HOSTILE not in page
        assert HOSTILE in html.unescape(page)
        assert "<img" not in page
        assert page.count("<script") == 1  # the script of the site


def test_the_path_of_a_model_s_page_has_only_safe_letters():
    """Otherwise the folder of a submission could lead to a page outside of the site."""
    entry = make_entry("acme/one", folder="../../etc/passwd <x>")

    assert re.fullmatch(r"[A-Za-z0-9-]+", entry.slug)


def test_pages_load_nothing_from_other_sites():
    """Other sites would learn who reads the board."""
    for page in render(make_entry("acme/one", make_score(0.8))).values():
        assert not re.findall(r"""(?:src|href)="(?:https?:)?//""", page)
        assert "Content-Security-Policy" in page


def test_a_score_of_too_few_documents_is_not_shown():
    """An interval from fewer than five documents is not to be trusted."""
    entry = make_entry("acme/one", make_score(0.8, num_clusters=4))

    pages = render(entry)

    table_page = pages["index.html"]
    model_page = pages[f"models/{entry.slug}.html"]
    assert "<b>80.0</b>" not in table_page
    assert "4 documents, a score needs 5" in table_page
    assert "<b>80.0</b>" not in model_page
    assert "4 documents, a score needs 5" in model_page
    assert model_page.count("A score of too few documents is left out") == 1
