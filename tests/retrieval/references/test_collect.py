"""Whole fetches from a real server: what becomes of good, bad and hostile documents."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import socket
import time
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from itertools import pairwise

import pytest

from lm_factuality.ground.errors import DataError
from lm_factuality.retrieval.references.cache import ReferenceCache
from lm_factuality.retrieval.references.fetcher import fetch_references
from tests.conftest import half_written
from tests.retrieval.references.conftest import PAGE, SENTENCE, make_pdf, page, redirect, zipped

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"


@pytest.fixture
def cache(tmp_path):
    return ReferenceCache(tmp_path / "cache")


@pytest.fixture
def fetch(cache, network):
    """Fetches addresses; the references in the order of the addresses."""

    def run(*urls, **options):
        chosen = {"cache": cache, "network": network, "delay": 0, **options}
        found = {reference.url: reference for reference, _ in fetch_references(urls, **chosen)}
        return [found[url] for url in urls]

    return run


# what the server sends: a text that the reference must hold
READABLE = {
    "html": (page(), SENTENCE),
    "gzip": (zipped(PAGE), SENTENCE),
    "gzip in two members": (
        page(gzip.compress(PAGE[:100]) + gzip.compress(PAGE[100:]), Content_Encoding="gzip"),
        SENTENCE,
    ),
    "no type, html": (page(Content_Type=""), SENTENCE),
    "text in Latin-1": (
        page("Wärter".encode("latin-1"), Content_Type="text/plain; charset=iso-8859-1"),
        "Wärter",
    ),
    "html with its charset inside": (
        page(
            b"<html><head><meta charset='iso-8859-1'></head><body><p>W\xe4rter im Turm</p></body>"
        ),
        "Wärter im Turm",
    ),
    "pdf": (
        page(make_pdf("Built in 1871", "by Orla Finch"), Content_Type="application/pdf"),
        "by Orla Finch",
    ),
    "pdf said to be html": (page(make_pdf("Built in 1871")), "Built in 1871"),
    "pdf as a download": (
        page(make_pdf("Built in 1871"), Content_Type="application/octet-stream"),
        "Built in 1871",
    ),
    "no length": (
        lambda handler: (
            handler.wfile.write(HEAD + b"Connection: close\r\n\r\nkeeper"),
            setattr(handler, "close_connection", True),
        ),
        "keeper",
    ),
    "relative redirect": (redirect("../page"), SENTENCE),
    "redirect in UTF-8": (redirect("/p\u00c3\u00a4ge"), SENTENCE),
}


@pytest.mark.parametrize("name", READABLE)
def test_readable(name, site, fetch):
    route, expected = READABLE[name]
    site.routes |= {"/x": route, "/page": page(), "/p%C3%A4ge": page()}
    (reference,) = fetch(site.url("/x"))
    assert reference.error is None
    assert expected in reference.text
    assert "nothing" not in reference.text  # of scripts
    assert reference.outcome == "fetched"


def test_everything_that_is_known_is_kept(site, fetch, cache):
    site.routes |= {
        "/x": redirect("/page#part", 301),
        "/page": page(Content_Type="text/html; charset=utf-8"),
    }
    (reference,) = fetch(site.url("/x"))
    assert reference == cache.get(site.url("/x"))
    assert (reference.title, reference.status, reference.final_url) == (
        "The Lighthouse",
        200,
        site.url("/page"),
    )
    assert reference.sha256 == hashlib.sha256(PAGE).hexdigest()
    assert (reference.num_bytes, reference.content_type) == (len(PAGE), "text/html; charset=utf-8")
    assert abs(
        datetime.fromisoformat(reference.fetched_at) - datetime.now(timezone.utc)
    ) < timedelta(minutes=1)
    headers = site.log[-1][2]
    assert headers["User-Agent"] == "lm-factuality/test"
    assert headers["Host"] == f"127.0.0.1:{site.server_port}"
    assert not {"Authorization", "Cookie", "Referer"} & headers.keys()


def test_pages_beyond_the_limit_are_left_out_and_it_says_so(site, fetch):
    site.routes["/x"] = page(
        make_pdf("one", "two", "three", "four"), Content_Type="application/pdf"
    )
    (reference,) = fetch(site.url("/x"))
    assert reference.text.split() == ["one", "two", "three"]
    assert reference.note == "the first 3 of 4 pages"


def endless(handler):
    """Plain text without end."""
    handler.drip(HEAD + b"\r\n" + b"y" * 100_000, b"y" * 50_000, 0)


# what the server sends: kind of death, what the error says
DEAD = {
    "not found": (page(b"", 404), "http", "status 404"),
    "no such redirect": (page(b"", 302), "http", "status 302"),
    "server error": (page(b"", 500), "http", "status 500"),
    "reset": (lambda handler: handler.reset(), "broken", "no whole answer in HTTP"),
    "early end": (
        page(b"short", Content_Length="5000", Connection="close"),
        "broken",
        "no whole answer in HTTP",
    ),
    "damaged gzip": (
        page(b"\x1f\x8b" + b"junk" * 9, Content_Encoding="gzip"),
        "broken",
        "damaged gzip",
    ),
    "early end of gzip": (
        page(gzip.compress(PAGE)[:-9], Content_Encoding="gzip"),
        "broken",
        "its gzip data ends too early",
    ),
    "gzip in gzip": (
        page(gzip.compress(gzip.compress(PAGE)), Content_Encoding="gzip, gzip"),
        "broken",
        "only gzip was asked for",
    ),
    "not HTTP": (
        lambda handler: handler.wfile.write(b"220 mail ready\r\n\r\n"),
        "broken",
        "no whole answer in HTTP",
    ),
    "huge": (endless, "too large", "more than the limit of 200,000 bytes"),
    "gzip bomb": (zipped(bytes(50_000_000)), "too large", "more than the limit"),
    "slow body": (lambda handler: handler.drip(HEAD + b"\r\n"), "timeout", "not done after 2 s"),
    "slow headers": (
        lambda handler: handler.drip(b"HTTP/1.1 200 OK\r\nX: "),
        "timeout",
        "not done after 2 s",
    ),
    "silence": (
        lambda handler: handler.server.ends.wait(10),
        "timeout",
        "silent for too long",
    ),
    "image": (
        page(b"\x89PNG", Content_Type="image/png"),
        "not text",
        "its content is image/png",
    ),
    "no type, binary": (
        page(b"\x00\x01\x02", Content_Type=""),
        "not text",
        "its content is binary",
    ),
    "no text": (
        page(b"<html><body><script>1</script></body></html>"),
        "no text",
        "no text in this html",
    ),
    "nothing": (page(b""), "no text", "no text in this html"),
    "damaged pdf": (
        page(b"%PDF-1.4\njunk", Content_Type="application/pdf"),
        "unreadable",
        "this pdf cannot be read",
    ),
    "redirect to itself": (redirect("/x"), "redirects", "in a loop"),
    "too many redirects": (redirect("/1"), "redirects", "too many"),
    "redirect to a file": (redirect("file:///etc/passwd"), "scheme", "only http and https"),
    "redirect with a password": (
        redirect("http://me:secret@127.0.0.1/"),
        "credentials",
        "a user name or password",
    ),
    "redirect to nowhere": (redirect("http://[::/"), "broken", "no whole answer in HTTP"),
    "redirect to metadata": (
        redirect("http://169.254.169.254/latest"),
        "forbidden address",
        "169.254.169.254, a forbidden address",
    ),
    "redirect to loopback": (redirect("http://[::1]/"), "forbidden address", "::1, a forbidden"),
    "redirect to mapped loopback": (
        redirect("//[::ffff:127.0.0.1]/"),
        "forbidden address",
        "::ffff:7f00:1, a forbidden address",
    ),
}


@pytest.mark.parametrize("name", DEAD)
def test_dead(name, site, fetch, cache):
    route, kind, expected = DEAD[name]
    site.routes |= {
        "/x": route,
        **{f"/{number}": redirect(f"/{number + 1}") for number in range(9)},
    }
    started = time.monotonic()
    (reference,) = fetch(site.url("/x"))
    assert time.monotonic() - started < 8
    assert (reference.kind, reference.text) == (kind, None)
    assert expected in reference.error
    assert "secret" not in cache.path(site.url("/x")).read_text(encoding="utf-8")
    assert cache.get(site.url("/x")) == reference


def test_nothing_private_without_leave(site, network, fetch):
    site.routes["/x"] = page()
    (reference,) = fetch(site.url("/x"), network=replace(network, allowed=frozenset()))
    assert reference.kind == "forbidden address"
    assert site.log == []


def test_a_refused_connection(site, network, fetch):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    (reference,) = fetch(
        f"http://127.0.0.1:{port}/",
        network=replace(network, allowed=frozenset({(site.endpoint[0], port)})),
    )
    assert (reference.kind, reference.status) == ("unreachable", None)


def test_a_page_made_to_hang_its_reader_is_dead_and_the_rest_goes_on(site, network, fetch):
    limits = replace(network.limits, max_bytes=20_000_000, extraction_seconds=2)
    site.routes |= {"/x": page(b"<div>" * 2_000_000), "/page": page()}
    hostile, sound = fetch(
        site.url("/x"), site.url("/page"), network=replace(network, limits=limits)
    )
    assert (hostile.kind, hostile.error) == ("unreadable", "no text of this html after 2 s")
    assert SENTENCE in sound.text


def test_a_second_run_asks_for_nothing_again(site, fetch, cache, network):
    site.routes["/x"] = page()
    urls = [site.url("/x"), site.url("/gone")]
    first = fetch(*urls)
    requests = len(site.log)
    assert fetch(*urls) == first
    assert [known for _, known in fetch_references(urls, cache, network, 0)] == [True, True]
    assert len(site.log) == requests
    site.routes["/gone"] = page()
    again = fetch(*urls, retry_dead=True)
    assert not again[1].is_dead
    assert (site.asked("/x"), site.asked("/gone")) == (1, 2)


def test_a_run_that_is_cut_off_goes_on_where_it_ended(site, cache, network):
    paths = [f"/{number}" for number in range(12)]
    site.routes |= dict.fromkeys(paths, page())
    urls = [site.url(path) for path in paths]
    network = replace(
        network,
        limits=replace(network.limits, request_seconds=20, connect_seconds=10, read_seconds=10),
    )  # a busy machine asks nothing twice
    for count, _ in enumerate(fetch_references(urls, cache, network, 0), start=1):
        if count == 5:
            break
    assert 5 <= sum(cache.get(url) is not None for url in urls) < 12
    (left := half_written(cache.folder / "dead.json")).write_text("{", encoding="utf-8")
    found = list(fetch_references(urls, cache, network, 0))
    assert len(found) == 12
    assert sum(from_cache for _, from_cache in found) >= 5
    assert [site.asked(path) for path in paths] == [1] * 12
    assert len(list(cache.folder.glob("*.json"))) == 12
    assert not left.exists()


def test_two_runs_do_not_share_a_cache(site, cache, network):
    site.routes |= {"/x": page(), "/y": page()}
    run = fetch_references([site.url("/x"), site.url("/y")], cache, network, 0)
    next(run)
    with pytest.raises(DataError, match="another run"):
        next(fetch_references([site.url("/z")], cache, network, 0))
    run.close()


def test_a_damaged_cache_file_is_named(cache, fetch, site):
    path = cache.path(site.url("/x"))
    cache.folder.mkdir()
    for content in (
        "{",
        "[]",
        "{}",
        json.dumps({"format": 1, "url": "another"}),
        json.dumps({"format": 2, "url": site.url("/x")}),
    ):
        path.write_text(content, encoding="utf-8")
        with pytest.raises(DataError, match=f"{re.escape(str(path))}: not a reference"):
            fetch(site.url("/x"))


ROBOTS = b"User-agent: *\nDisallow: /private\nAllow: /private/but-this$\n\nUser-agent: slow-bot\nCrawl-delay: 0.5\n"


def test_robots(site, fetch):
    site.routes |= {"/robots.txt": page(ROBOTS, Content_Type="text/plain")}
    site.routes |= dict.fromkeys(("/private/x", "/private/but-this", "/open", "/slow"), page())
    closed, excepted, opened = fetch(*map(site.url, ("/private/x", "/private/but-this", "/open")))
    assert closed.kind == "robots"
    assert not excepted.is_dead
    assert not opened.is_dead
    assert site.asked("/robots.txt") == 1
    assert site.asked("/private/x") == 0


def test_crawl_delay(site, fetch, network):
    paths = [f"/{number}" for number in range(3)]
    site.routes |= {"/robots.txt": page(ROBOTS), **dict.fromkeys(paths, page())}
    fetch(
        *map(site.url, paths),
        network=replace(network, user_agent="slow-bot/2.0 (me@a.example)"),
    )
    moments = [moment for path, moment, _ in site.log if path != "/robots.txt"]
    assert min(later - earlier for earlier, later in pairwise(moments)) >= 0.45


# what robots.txt answers: the outcome of a page
ROBOTS_ANSWERS = {
    "none": (page(b"", 404), "fetched"),
    "forbidden": (page(b"", 403), "fetched"),
    "failing": (page(b"", 500), "robots"),
    "a loop": (redirect("/robots.txt"), "fetched"),
    "moved": (redirect("/moved"), "robots"),
    "moved to a private address": (redirect("http://10.0.0.1/"), "forbidden address"),
    "huge": (page(b"#" * 600_000), "too large"),
    "binary": (page(bytes(range(256))), "fetched"),
    "reset": (lambda handler: handler.reset(), "broken"),
}


@pytest.mark.parametrize("name", ROBOTS_ANSWERS)
def test_robots_that_are_not_as_they_should_be(name, site, fetch):
    route, expected = ROBOTS_ANSWERS[name]
    site.routes |= {
        "/robots.txt": route,
        "/moved": page(b"User-agent: *\nDisallow: /x"),
        "/x": page(),
    }
    (reference,) = fetch(site.url("/x"))
    assert reference.outcome == expected
    assert site.asked("/x") == (expected == "fetched")
