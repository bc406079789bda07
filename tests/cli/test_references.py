"""``lm-factuality data fetch-references`` as a user types it, against a server on this machine."""

from __future__ import annotations

import json

import pytest

from lm_factuality.ground.errors import ConfigError, DataError, FactualityError
from tests.conftest import run_command
from tests.retrieval.references.conftest import page, redirect, site

__all__ = ["site"]  # a fixture


def run(*arguments: object) -> int:
    return run_command("data", "fetch-references", *map(str, arguments))


@pytest.fixture
def felm(tmp_path, site):
    """FELM's file in small: two links that work, two that do not, one entry that is none."""
    site.routes |= {
        "/a": page(),
        "/b": redirect("/a"),
        "/metadata": redirect("http://169.254.169.254/"),
    }
    rows = [
        {"index": "0", "ref": [site.url("/a") + ",", "common knowledge"]},
        {"index": "1", "ref": [f"{site.url('/b')}, {site.url('/gone')}"]},
        {"index": "2", "ref": ""},
        {"index": "3", "ref": [site.url("/metadata"), site.url("/a")]},
    ]
    about = {"domain": "wk", "prompt": "?", "segmented_response": ["So."], "labels": [True]}
    rows = [about | row for row in rows]
    folder = tmp_path / "felm"
    folder.mkdir()
    (folder / "all.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8"
    )
    return folder


@pytest.fixture
def options(tmp_path, felm, site):
    return [
        "--data-dir",
        felm,
        "--cache",
        tmp_path / "cache",
        "--delay",
        0,
        "--allow-address",
        f"127.0.0.1:{site.server_port}",
    ]


def test_counts_report_and_a_second_run(options, site, tmp_path, capsys):
    report = tmp_path / "links.json"
    assert run(*options, "--report", report) == 0
    captured = capsys.readouterr()
    lines = [line.split() for line in captured.out.splitlines()]
    assert ["fetched", "2", "0", "text", "is", "in", "the", "cache"] in lines
    assert ["http", "404", "1", "0", "an", "error", "status"] in lines
    assert ["forbidden", "address", "1", "0"] in [line[:4] for line in lines]
    assert "1 entries of" in captured.out
    assert "2 links are dead" in captured.out
    assert "references: 100%" in captured.err
    content = json.loads(report.read_text(encoding="utf-8"))
    assert content["counts"]["fetched"] == {"this_run": 2, "from_cache": 0}
    assert {row["url"]: row["outcome"] for row in content["dead"]} == {
        site.url("/gone"): "http 404",
        site.url("/metadata"): "forbidden address",
    }
    assert len(content["links"]) == 4
    assert content["not_links"] == ["common knowledge"]

    requests = len(site.log)
    assert run(*options, "--report", report) == 0
    assert len(site.log) == requests
    rows = {row["url"]: row for row in json.loads(report.read_text(encoding="utf-8"))["links"]}
    assert rows[site.url("/b")]["outcome"] == "fetched"
    assert rows[site.url("/b")]["final_url"] == site.url("/a")
    assert rows[site.url("/b")]["from_cache"] is True

    site.routes["/gone"] = page()
    assert run(*options, "--retry-dead") == 0
    assert site.asked("/a") == 2  # for itself and where /b leads
    assert ["fetched", "1", "2"] in [
        line.split()[:3] for line in capsys.readouterr().out.splitlines()
    ]


# arguments after those that work, which they override: what the error must say
WRONG = {
    "no data": (["--data-dir", "/dev/null"], DataError, "no such file"),
    "folder of report": (
        ["--report", "/dev/null/links.json"],
        DataError,
        "the report cannot be written here",
    ),
    "delay": (["--delay", "-1"], ConfigError, "delay is -1.0"),
    "no delay": (
        ["--delay", "nan"],
        ConfigError,
        "delay is nan; expected less than or equal to 86400",
    ),
    "endless delay": (["--delay", "inf"], ConfigError, "delay is inf"),
    "no product": (
        ["--user-agent", "/1.0"],
        ConfigError,
        "user_agent is '/1.0'; expected one line of ASCII text with the name of a program first",
    ),
    "only a comment": (
        ["--user-agent", "(me@example.org)"],
        ConfigError,
        "the name of a program first",
    ),
    "blank user agent": (["--user-agent", "  "], ConfigError, "the name of a program first"),
    "user agent": (["--user-agent", "me\r\nCookie: x"], ConfigError, "expected one line of ASCII"),
    "address": (["--allow-address", "localhost:80"], ConfigError, "expected IP:PORT"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_use(name, options, site, tmp_path, monkeypatch):
    arguments, kind, expected = WRONG[name]
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FactualityError) as raised:
        run(*options, *arguments)
    assert isinstance(raised.value, kind)
    assert expected in str(raised.value)
    assert site.log == []
