"""``lm-factuality data fetch-references`` as a user types it, against a server on this machine."""

from __future__ import annotations

import json

import pytest

from lm_factuality.ground.errors import ConfigError, DataError
from tests.conftest import run_command
from tests.retrieval.references.conftest import page, redirect, site

__all__ = ["site"]  # a fixture


@pytest.fixture
def felm_folder(tmp_path, site):
    """Return a folder with a small file of FELM.

    It has four links. Two of them lead to the same page, one is not found, and one leads to a
    forbidden address. A fifth entry is no link.
    """
    site.routes["/page"] = page()
    site.routes["/moved"] = redirect("/page")
    site.routes["/metadata"] = redirect("http://169.254.169.254/")  # of a cloud's machines
    references_of_rows = [
        [f"{site.url('/page')},", "common knowledge"],
        [f"{site.url('/moved')}, {site.url('/gone')}"],
        "",
        [site.url("/metadata"), site.url("/page")],
    ]
    lines = []
    for number, references in enumerate(references_of_rows):
        row = {
            "index": str(number),
            "domain": "wk",
            "prompt": "?",
            "segmented_response": ["So."],
            "labels": [True],
            "ref": references,
        }
        lines.append(json.dumps(row) + "\n")
    folder = tmp_path / "felm"
    folder.mkdir()
    (folder / "all.jsonl").write_text("".join(lines), encoding="utf-8")
    return folder


@pytest.fixture
def fetch(felm_folder, tmp_path, site):
    """Return a function that fetches the references of the file, and returns the exit status.

    Its arguments are further options, of which the last value counts.
    """

    def run_fetch(*options):
        return run_command(
            *("data", "fetch-references"),
            *("--data-dir", str(felm_folder)),
            *("--cache", str(tmp_path / "cache")),
            *("--delay", "0"),
            *("--allow-address", f"127.0.0.1:{site.server_port}"),
            *options,
        )

    return run_fetch


@pytest.fixture
def fetch_with_report(fetch, tmp_path):
    """Return a function that fetches the references, and returns the report."""

    def run_fetch():
        path = tmp_path / "links.json"
        assert fetch("--report", str(path)) == 0
        return json.loads(path.read_text(encoding="utf-8"))

    return run_fetch


def read_table(output):
    """Return the words of each line of a table."""
    return [line.split() for line in output.splitlines()]


def test_outcomes_of_links_are_counted_in_a_table(fetch, capsys):
    """A row has an outcome, its number of links in this run, and its number in the cache."""
    exit_code = fetch()

    rows = [" ".join(words) for words in read_table(capsys.readouterr().out)]
    assert exit_code == 0
    assert "fetched 2 0 text is in the cache" in rows
    assert "http 404 1 0 an error status" in rows
    assert any(row.startswith("forbidden address 1 0") for row in rows)


def test_dead_links_and_entries_without_links_are_counted(fetch, capsys):
    """The dead links are ``/gone`` and a forbidden address, and "common knowledge" is no link."""
    fetch()

    output = capsys.readouterr().out
    assert "1 entries of" in output
    assert "2 links are dead" in output


def test_progress_is_shown(fetch, capsys):
    """Fetching hundreds of links takes minutes."""
    fetch()

    assert "references: 100%" in capsys.readouterr().err


def test_the_report_names_dead_links_with_their_reasons(fetch_with_report, site):
    """A reader may try other addresses of the same pages."""
    report = fetch_with_report()

    outcomes = {link["url"]: link["outcome"] for link in report["dead"]}
    assert outcomes == {
        site.url("/gone"): "http 404",
        site.url("/metadata"): "forbidden address",
    }


def test_the_report_counts_links_and_names_other_entries(fetch_with_report):
    """Two of four links were fetched, and the entry "common knowledge" is no link."""
    report = fetch_with_report()

    assert report["counts"]["fetched"] == {"this_run": 2, "from_cache": 0}
    assert len(report["links"]) == 4
    assert report["not_links"] == ["common knowledge"]


def test_a_second_run_sends_no_requests(fetch, site):
    """Servers of others are not asked twice for the same page."""
    fetch()
    num_requests = len(site.log)

    exit_code = fetch()

    assert exit_code == 0
    assert len(site.log) == num_requests


def test_the_report_of_a_second_run_names_links_from_the_cache(fetch_with_report, site):
    """The address ``/moved`` leads to ``/page``, which an earlier run has fetched."""
    fetch_with_report()

    report = fetch_with_report()

    link_by_url = {link["url"]: link for link in report["links"]}
    moved_link = link_by_url[site.url("/moved")]
    assert moved_link["outcome"] == "fetched"
    assert moved_link["final_url"] == site.url("/page")
    assert moved_link["from_cache"] is True


def test_dead_links_can_be_tried_again(fetch, site, capsys):
    """A server may have been down for a while only."""
    fetch()
    capsys.readouterr()
    site.routes["/gone"] = page()
    num_requests_for_page = site.asked("/page")

    exit_code = fetch("--retry-dead")

    rows = read_table(capsys.readouterr().out)
    (fetched_row,) = [row for row in rows if row[:1] == ["fetched"]]
    _, num_in_this_run, num_in_cache, *_ = fetched_row
    assert exit_code == 0
    assert num_in_this_run == "1"  # the address /gone
    assert num_in_cache == "2"  # the addresses /page and /moved of the first run
    assert site.asked("/page") == num_requests_for_page


@pytest.mark.parametrize(
    ("option", "value", "error_class", "message"),
    [
        pytest.param("--data-dir", "/dev/null", DataError, "no such file", id="no data"),
        pytest.param(
            "--report",
            "/dev/null/links.json",
            DataError,
            "the report cannot be written here",
            id="report in no folder",
        ),
        pytest.param("--delay", "-1", ConfigError, "delay is -1.0", id="negative delay"),
        pytest.param(
            "--delay",
            "nan",
            ConfigError,
            "delay is nan; expected less than or equal to 86400",
            id="delay that is no number",
        ),
        pytest.param("--delay", "inf", ConfigError, "delay is inf", id="endless delay"),
        pytest.param(
            "--user-agent",
            "/1.0",
            ConfigError,
            "user_agent is '/1.0'; expected one line of ASCII text with the name of a program "
            "first",
            id="user agent without a name",
        ),
        pytest.param(
            "--user-agent",
            "(me@example.org)",
            ConfigError,
            "the name of a program first",
            id="user agent with a comment alone",
        ),
        pytest.param(
            "--user-agent",
            "  ",
            ConfigError,
            "the name of a program first",
            id="blank user agent",
        ),
        pytest.param(
            "--user-agent",
            "me\r\nCookie: x",
            ConfigError,
            "expected one line of ASCII",
            id="user agent of two lines",
        ),
        pytest.param(
            "--allow-address",
            "localhost:80",
            ConfigError,
            "expected IP:PORT",
            id="address with a name",
        ),
    ],
)
def test_invalid_option_is_refused_before_any_request(
    fetch, site, tmp_path, monkeypatch, option, value, error_class, message
):
    monkeypatch.chdir(tmp_path)

    with pytest.raises(error_class) as error:
        fetch(option, value)

    assert message in str(error.value)
    assert site.log == []
