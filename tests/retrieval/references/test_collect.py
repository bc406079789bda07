"""Whole fetches from a real server: what becomes of good, bad and hostile documents."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import socket
import time
from contextlib import closing
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
"""The beginning of an answer with plain text."""


@pytest.fixture
def cache(tmp_path):
    """Return an empty cache of references."""
    return ReferenceCache(tmp_path / "cache")


@pytest.fixture
def fetch(cache, network):
    """Return a function that fetches addresses, and returns the references in their order.

    Its keyword arguments are options of ``fetch_references``.
    """

    def fetch_all(*urls, **options):
        options = {"cache": cache, "network": network, "delay": 0, **options}
        references = {
            reference.url: reference for reference, _ in fetch_references(urls, **options)
        }
        return [references[url] for url in urls]

    return fetch_all


@pytest.fixture
def fetch_route(site, fetch):
    """Return a function that fetches the address ``/x`` from a site that does this with it."""

    def fetch_from(route, **options):
        site.routes["/x"] = route
        (reference,) = fetch(site.url("/x"), **options)
        return reference

    return fetch_from


def answer_without_length(handler):
    """Answer with a text that ends with the connection."""
    handler.wfile.write(HEAD + b"Connection: close\r\n\r\nkeeper")
    handler.close_connection = True


PAGE_IN_TWO_MEMBERS = gzip.compress(PAGE[:100]) + gzip.compress(PAGE[100:])
HTML_IN_LATIN_1 = (
    b"<html><head><meta charset='iso-8859-1'></head><body><p>W\xe4rter im Turm</p></body>"
)


@pytest.mark.parametrize(
    ("route", "text"),
    [
        pytest.param(page(), SENTENCE, id="HTML"),
        pytest.param(zipped(PAGE), SENTENCE, id="gzip"),
        pytest.param(
            page(PAGE_IN_TWO_MEMBERS, Content_Encoding="gzip"), SENTENCE, id="gzip in two members"
        ),
        pytest.param(page(Content_Type=""), SENTENCE, id="HTML without a type"),
        pytest.param(
            page("Wärter".encode("latin-1"), Content_Type="text/plain; charset=iso-8859-1"),
            "Wärter",
            id="text in Latin-1",
        ),
        pytest.param(
            page(HTML_IN_LATIN_1), "Wärter im Turm", id="HTML that names its own encoding"
        ),
        pytest.param(
            page(make_pdf("Built in 1871", "by Orla Finch"), Content_Type="application/pdf"),
            "by Orla Finch",
            id="PDF",
        ),
        pytest.param(page(make_pdf("Built in 1871")), "Built in 1871", id="PDF called HTML"),
        pytest.param(
            page(make_pdf("Built in 1871"), Content_Type="application/octet-stream"),
            "Built in 1871",
            id="PDF as a download",
        ),
        pytest.param(answer_without_length, "keeper", id="answer without a length"),
    ],
)
def test_the_text_of_a_document_is_read(fetch_route, route, text):
    """Servers may send a page without its type or with a wrong type."""
    reference = fetch_route(route)

    assert reference.error is None
    assert reference.outcome == "fetched"
    assert text in reference.text
    assert "nothing" not in reference.text  # a word in the script of the page


@pytest.mark.parametrize(
    ("address", "path"),
    [
        pytest.param("../page", "/page", id="relative"),
        pytest.param("/p\u00c3\u00a4ge", "/p%C3%A4ge", id="UTF-8 in a header of Latin-1"),
    ],
)
def test_a_redirect_is_followed(site, fetch_route, address, path):
    """Many cited pages have moved to another address."""
    site.routes[path] = page()

    reference = fetch_route(redirect(address))

    assert reference.error is None
    assert SENTENCE in reference.text


@pytest.fixture
def moved_reference(site, fetch_route):
    """Return the reference of a page that was moved."""
    site.routes["/page"] = page(Content_Type="text/html; charset=utf-8")
    return fetch_route(redirect("/page#part", 301))


def test_a_reference_describes_the_document(site, moved_reference):
    """By the hash, a reader can check later whether the page has changed."""
    assert moved_reference.title == "The Lighthouse"
    assert moved_reference.status == 200
    assert moved_reference.final_url == site.url("/page")
    assert moved_reference.sha256 == hashlib.sha256(PAGE).hexdigest()
    assert moved_reference.num_bytes == len(PAGE)
    assert moved_reference.content_type == "text/html; charset=utf-8"


def test_a_reference_has_the_time_of_the_fetch(moved_reference):
    """Pages change, so a verdict is valid for the page at that time."""
    age = abs(datetime.now(timezone.utc) - datetime.fromisoformat(moved_reference.fetched_at))

    assert age < timedelta(minutes=1)


def test_a_reference_is_kept_in_the_cache(site, moved_reference, cache):
    """A second run must not ask for the page again."""
    assert cache.get(site.url("/x")) == moved_reference


def test_requests_identify_the_suite_without_private_data(site, network, fetch_route):
    """Owners of sites can see who asks, and block it."""
    site.routes["/page"] = page()

    fetch_route(redirect("/page"), network=replace(network, user_agent="lm-factuality/test"))

    request = site.log[-1]
    assert request.path == "/page"
    assert request.headers["User-Agent"] == "lm-factuality/test"
    assert request.headers["Host"] == f"127.0.0.1:{site.server_port}"
    assert not {"Authorization", "Cookie", "Referer"} & request.headers.keys()


def test_pages_of_a_pdf_beyond_the_limit_are_left_out_with_a_note(fetch_route):
    """The limit of these tests is three pages; books have hundreds."""
    pdf = make_pdf("one", "two", "three", "four")

    reference = fetch_route(page(pdf, Content_Type="application/pdf"))

    assert reference.text.split() == ["one", "two", "three"]
    assert reference.note == "the first 3 of 4 pages"


def reset_connection(handler):
    """Hang up without an answer."""
    handler.reset()


def answer_as_mail_server(handler):
    """Answer in another protocol than HTTP."""
    handler.wfile.write(b"220 mail ready\r\n\r\n")


def answer_without_end(handler):
    """Send plain text, fast and without end."""
    handler.drip(HEAD + b"\r\n" + b"y" * 100_000, b"y" * 50_000, 0)


def drip_body(handler):
    """Send a body byte by byte."""
    handler.drip(HEAD + b"\r\n")


def drip_headers(handler):
    """Send headers byte by byte."""
    handler.drip(b"HTTP/1.1 200 OK\r\nX: ")


def keep_silent(handler):
    """Send nothing."""
    handler.server.ends.wait(10)


NOT_HTTP = "no whole answer in HTTP"


@pytest.fixture
def fetch_dead(site, fetch_route, cache):
    """Return a function that fetches the address ``/x``, which must not give a text.

    Dead links count in the score of citations, so they are kept in the cache like others.
    """

    def fetch_and_check(route):
        start = time.monotonic()
        reference = fetch_route(route)
        assert time.monotonic() - start < 8  # the limit of 2 seconds, on a busy machine
        assert reference.text is None
        assert cache.get(site.url("/x")) == reference
        return reference

    return fetch_and_check


@pytest.mark.parametrize(
    ("route", "kind", "error"),
    [
        pytest.param(page(b"", 404), "http", "status 404", id="not found"),
        pytest.param(page(b"", 302), "http", "status 302", id="redirect without an address"),
        pytest.param(page(b"", 500), "http", "status 500", id="error of the server"),
        pytest.param(reset_connection, "broken", NOT_HTTP, id="connection reset"),
        pytest.param(
            page(b"short", Content_Length="5000", Connection="close"),
            "broken",
            NOT_HTTP,
            id="body that ends early",
        ),
        pytest.param(answer_as_mail_server, "broken", NOT_HTTP, id="other protocol"),
    ],
)
def test_a_link_without_a_whole_answer_of_http_is_dead(fetch_dead, route, kind, error):
    """The page was removed, or the server does not work."""
    reference = fetch_dead(route)

    assert reference.kind == kind
    assert error in reference.error


@pytest.mark.parametrize(
    ("route", "kind", "error"),
    [
        pytest.param(
            page(b"\x1f\x8b" + b"junk" * 9, Content_Encoding="gzip"),
            "broken",
            "damaged gzip",
            id="damaged gzip",
        ),
        pytest.param(
            page(gzip.compress(PAGE)[:-9], Content_Encoding="gzip"),
            "broken",
            "its gzip data ends too early",
            id="gzip that ends early",
        ),
        pytest.param(
            page(gzip.compress(gzip.compress(PAGE)), Content_Encoding="gzip, gzip"),
            "broken",
            "only gzip was asked for",
            id="gzip in gzip",
        ),
        pytest.param(
            page(b"\x89PNG", Content_Type="image/png"),
            "not text",
            "its content is image/png",
            id="image",
        ),
        pytest.param(
            page(b"\x00\x01\x02", Content_Type=""),
            "not text",
            "its content is binary",
            id="bytes without a type",
        ),
        pytest.param(
            page(b"<html><body><script>1</script></body></html>"),
            "no text",
            "no text in this html",
            id="page with a script alone",
        ),
        pytest.param(page(b""), "no text", "no text in this html", id="empty page"),
        pytest.param(
            page(b"%PDF-1.4\njunk", Content_Type="application/pdf"),
            "unreadable",
            "this pdf cannot be read",
            id="damaged PDF",
        ),
    ],
)
def test_a_link_to_content_without_readable_text_is_dead(fetch_dead, route, kind, error):
    """Nobody can compare a claim with an image or a damaged file."""
    reference = fetch_dead(route)

    assert reference.kind == kind
    assert error in reference.error


@pytest.mark.parametrize(
    ("route", "kind", "error"),
    [
        pytest.param(
            answer_without_end,
            "too large",
            "more than the limit of 200,000 bytes",
            id="endless body",
        ),
        pytest.param(zipped(bytes(50_000_000)), "too large", "more than the limit", id="gzip bomb"),
        pytest.param(drip_body, "timeout", "not done after 2 s", id="slow body"),
        pytest.param(drip_headers, "timeout", "not done after 2 s", id="slow headers"),
        pytest.param(keep_silent, "timeout", "silent for too long", id="no answer"),
    ],
)
def test_a_link_beyond_a_limit_of_size_or_time_is_dead(fetch_dead, route, kind, error):
    """The limits of these tests are 200,000 bytes, 2 seconds for all, and 0.5 for each silence."""
    reference = fetch_dead(route)

    assert reference.kind == kind
    assert error in reference.error


@pytest.mark.parametrize(
    ("route", "kind", "error"),
    [
        pytest.param(redirect("/x"), "redirects", "in a loop", id="redirect to itself"),
        pytest.param(
            redirect("file:///etc/passwd"),
            "scheme",
            "only http and https",
            id="redirect to a file",
        ),
        pytest.param(
            redirect("http://[::/"), "broken", NOT_HTTP, id="redirect to a broken address"
        ),
        pytest.param(
            redirect("http://169.254.169.254/latest"),
            "forbidden address",
            "169.254.169.254, a forbidden address",
            id="redirect to the metadata of a cloud's machine",
        ),
        pytest.param(
            redirect("http://[::1]/"),
            "forbidden address",
            "::1, a forbidden",
            id="redirect to this machine",
        ),
        pytest.param(
            redirect("//[::ffff:127.0.0.1]/"),
            "forbidden address",
            "::ffff:7f00:1, a forbidden address",
            id="redirect to this machine in IPv6",
        ),
    ],
)
def test_a_link_with_a_refused_redirect_is_dead(fetch_dead, route, kind, error):
    """A redirect could otherwise lead to files and services that only this machine can reach."""
    reference = fetch_dead(route)

    assert reference.kind == kind
    assert error in reference.error


def test_a_link_with_too_many_redirects_is_dead(site, fetch_route):
    """Redirects could otherwise go on without end."""
    for number in range(9):
        site.routes[f"/{number}"] = redirect(f"/{number + 1}")

    reference = fetch_route(redirect("/0"))

    assert reference.kind == "redirects"
    assert "too many" in reference.error


def test_a_redirect_with_a_password_is_dead_and_not_kept(site, fetch_route, cache):
    """The suite must neither use nor store somebody else's password."""
    reference = fetch_route(redirect("http://me:secret@127.0.0.1/"))

    assert reference.kind == "credentials"
    assert "a user name or password" in reference.error
    assert "secret" not in cache.path(site.url("/x")).read_text(encoding="utf-8")


def test_a_private_address_is_not_asked_without_permission(site, network, fetch_route):
    """A link could otherwise reach services that only this machine can reach."""
    network_without_exceptions = replace(network, allowed=frozenset())

    reference = fetch_route(page(), network=network_without_exceptions)

    assert reference.kind == "forbidden address"
    assert site.log == []


def test_a_refused_connection_makes_a_link_dead(site, network, fetch):
    """A refused connection has no HTTP status."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        closed_port = server.getsockname()[1]
    address, _port = site.endpoint
    network = replace(network, allowed=frozenset({(address, closed_port)}))

    (reference,) = fetch(f"http://127.0.0.1:{closed_port}/", network=network)

    assert reference.kind == "unreachable"
    assert reference.status is None


def test_hanging_page_is_dead_and_the_next_page_is_fetched(site, network, fetch):
    """A parser needs very long for millions of open elements."""
    limits = replace(network.limits, max_bytes=20_000_000, extraction_seconds=2)
    network_with_limits = replace(network, limits=limits)
    site.routes["/deep"] = page(b"<div>" * 2_000_000)
    site.routes["/page"] = page()
    urls = (site.url("/deep"), site.url("/page"))

    hostile, sound = fetch(*urls, network=network_with_limits)

    assert hostile.kind == "unreadable"
    assert hostile.error == "no text of this html after 2 s"
    assert SENTENCE in sound.text


@pytest.fixture
def urls(site):
    """Return an address that works, and one that does not."""
    site.routes["/page"] = page()
    return [site.url("/page"), site.url("/gone")]


def test_a_second_run_sends_no_requests(site, urls, fetch):
    """The suite must not ask a server twice for the same page."""
    references = fetch(*urls)
    num_requests = len(site.log)

    assert fetch(*urls) == references
    assert len(site.log) == num_requests


def test_a_second_run_says_that_references_are_from_the_cache(urls, fetch, cache, network):
    """The command shows the user how many pages it has requested."""
    fetch(*urls)

    fetched = list(fetch_references(urls, cache, network, delay=0))

    assert [is_from_cache for _reference, is_from_cache in fetched] == [True, True]


def test_only_dead_links_are_retried_on_request(site, urls, fetch):
    """A server may have been down for a while only."""
    fetch(*urls)
    site.routes["/gone"] = page()

    _page, formerly_dead = fetch(*urls, retry_dead=True)

    assert not formerly_dead.is_dead
    assert site.asked("/page") == 1
    assert site.asked("/gone") == 2


@pytest.fixture
def patient_network(network):
    """Return a network that does not give up on a busy machine, and so asks nothing twice."""
    limits = replace(network.limits, request_seconds=20, connect_seconds=10, read_seconds=10)
    return replace(network, limits=limits)


@pytest.fixture
def interrupted_urls(site, cache, patient_network):
    """Interrupt a run after five of twelve pages, and return the addresses of all.

    A few more pages may have been under way, and are kept as well.
    """
    urls = []
    for number in range(12):
        site.routes[f"/{number}"] = page()
        urls.append(site.url(f"/{number}"))
    with closing(fetch_references(urls, cache, patient_network, delay=0)) as run:
        for _ in range(5):
            next(run)
    return urls


def test_interrupted_run_keeps_fetched_pages(interrupted_urls, cache):
    """Five of twelve pages were fetched, and a few more may have been under way."""
    num_kept = sum(cache.get(url) is not None for url in interrupted_urls)

    assert 5 <= num_kept < 12


def test_interrupted_run_resumes_without_repeated_requests(
    site, interrupted_urls, cache, patient_network
):
    """The interrupted run has fetched five of the twelve pages, or a few more."""
    fetched = list(fetch_references(interrupted_urls, cache, patient_network, delay=0))

    num_from_cache = sum(is_from_cache for _reference, is_from_cache in fetched)
    requests_per_page = [site.asked(f"/{number}") for number in range(12)]
    assert len(fetched) == 12
    assert num_from_cache >= 5
    assert requests_per_page == [1] * 12
    assert len(list(cache.folder.glob("*.json"))) == 12


def test_a_half_written_file_of_an_interrupted_run_is_removed(
    interrupted_urls, cache, patient_network
):
    """Otherwise each interruption would leave another file."""
    unfinished_file = half_written(cache.folder / "dead.json")
    unfinished_file.write_text("{", encoding="utf-8")

    list(fetch_references(interrupted_urls, cache, patient_network, delay=0))

    assert not unfinished_file.exists()


def test_concurrent_runs_with_one_cache_are_refused(site, cache, network):
    """Two runs would not keep the delay between requests to one server."""
    site.routes["/x"] = page()
    site.routes["/y"] = page()
    first_urls = [site.url("/x"), site.url("/y")]

    with closing(fetch_references(first_urls, cache, network, delay=0)) as first_run:
        next(first_run)  # one of the two pages is still to be fetched

        with pytest.raises(DataError, match="another run"):
            next(fetch_references([site.url("/z")], cache, network, delay=0))


@pytest.fixture
def cache_file(site, cache):
    """Return the path of the file of ``/x`` in the cache, which is not there yet."""
    cache.folder.mkdir()
    return cache.path(site.url("/x"))


@pytest.mark.parametrize(
    "content",
    ["{", "[]", "{}", pytest.param('{"format": 1, "url": "another"}', id="another address")],
)
def test_a_damaged_file_of_the_cache_is_named(site, cache_file, fetch, content):
    """The user can delete this file and keep the others."""
    cache_file.write_text(content, encoding="utf-8")

    with pytest.raises(DataError, match=f"{re.escape(str(cache_file))}: not a reference"):
        fetch(site.url("/x"))


def test_a_file_of_the_cache_in_a_later_format_is_named(site, cache_file, fetch):
    """A later version of the suite may have other fields."""
    content = json.dumps({"format": 2, "url": site.url("/x")})
    cache_file.write_text(content, encoding="utf-8")

    with pytest.raises(DataError, match=f"{re.escape(str(cache_file))}: not a reference"):
        fetch(site.url("/x"))


ROBOTS = b"""\
User-agent: *
Disallow: /private
Allow: /private/but-this$

User-agent: slow-bot
Crawl-delay: 0.5
"""


@pytest.fixture
def site_with_robots(site):
    """Return the site with rules for robots, and with some pages."""
    site.routes["/robots.txt"] = page(ROBOTS, Content_Type="text/plain")
    for path in ("/private/x", "/private/but-this", "/open", "/also-open", "/open-too"):
        site.routes[path] = page()
    return site


def test_page_forbidden_to_robots_is_not_requested(site_with_robots, fetch):
    """Owners of sites say in ``robots.txt`` which pages programs may read."""
    (reference,) = fetch(site_with_robots.url("/private/x"))

    assert reference.kind == "robots"
    assert site_with_robots.asked("/private/x") == 0


@pytest.mark.parametrize("path", ["/private/but-this", "/open"])
def test_page_permitted_to_robots_is_fetched(site_with_robots, fetch, path):
    """The site forbids ``/private`` except for one page, and says nothing about ``/open``."""
    (reference,) = fetch(site_with_robots.url(path))

    assert not reference.is_dead


def test_robots_txt_is_requested_once(site_with_robots, fetch):
    """The rules are for all pages of a site."""
    fetch(site_with_robots.url("/open"), site_with_robots.url("/private/x"))

    assert site_with_robots.asked("/robots.txt") == 1


def test_requested_delay_of_a_site_is_respected(site_with_robots, fetch, network):
    """The rules name a bot that has to wait half a second between requests."""
    paths = ("/open", "/also-open", "/open-too")
    slow_bot = replace(network, user_agent="slow-bot/2.0 (me@a.example)")

    fetch(*[site_with_robots.url(path) for path in paths], network=slow_bot)

    times = [request.seconds for request in site_with_robots.log if request.path in paths]
    delays = [later - earlier for earlier, later in pairwise(times)]
    assert len(delays) == 2
    assert min(delays) >= 0.45  # the rules say 0.5


@pytest.mark.parametrize(
    "robots",
    [
        pytest.param(page(b"", 404), id="not found"),
        pytest.param(page(b"", 403), id="forbidden"),
        pytest.param(redirect("/robots.txt"), id="redirect to itself"),
        pytest.param(page(bytes(range(256))), id="bytes that are no text"),
    ],
)
def test_page_is_fetched_without_robots_txt(site, fetch_route, robots):
    """Without rules for robots, programs may read all pages (RFC 9309)."""
    site.routes["/robots.txt"] = robots

    assert fetch_route(page()).outcome == "fetched"
    assert site.asked("/x") == 1


@pytest.mark.parametrize(
    ("robots", "outcome"),
    [
        pytest.param(page(b"", 500), "robots", id="error of the server"),
        pytest.param(redirect("/moved"), "robots", id="redirect to rules that forbid the page"),
        pytest.param(
            redirect("http://10.0.0.1/"), "forbidden address", id="redirect to a private address"
        ),
        pytest.param(page(b"#" * 600_000), "too large", id="huge"),
        pytest.param(reset_connection, "broken", id="connection reset"),
    ],
)
def test_page_is_not_requested_if_robots_txt_forbids_or_fails(site, fetch_route, robots, outcome):
    """If in doubt, the suite does not ask for a page (RFC 9309)."""
    site.routes["/robots.txt"] = robots
    site.routes["/moved"] = page(b"User-agent: *\nDisallow: /x")

    assert fetch_route(page()).outcome == outcome
    assert site.asked("/x") == 0
