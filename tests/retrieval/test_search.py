"""Evidence from a search service, asked over HTTP: its forms, its failures, its keys, its store."""

from __future__ import annotations

import http.server
import json
import sqlite3
import threading
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from lm_factuality.ground import http as ground_http
from lm_factuality.ground.errors import BackendDownError, ConfigError, DataError
from lm_factuality.retrieval.references.connection import Limits, Network
from lm_factuality.retrieval.references.links import Endpoint
from lm_factuality.retrieval.search.config import SearchConfig, load_search_config
from lm_factuality.retrieval.search.request import RequestForm
from lm_factuality.retrieval.search.response import ResponseForm
from lm_factuality.retrieval.search.service import SearchProblem, SearchReport, SearchService
from lm_factuality.retrieval.search.store import SearchStore
from tests.conftest import REPOSITORY

KEY = "c0ffee/very+secret"


@dataclass
class SearchRequest:
    """A request that the service received."""

    path: str
    """The path of its address."""

    params: dict[str, str]
    """The parameters of its address."""

    headers: dict[str, str]
    """Its headers, with names in lower case."""

    body: Any
    """The JSON of its body. None if it has none."""

    attempt: int
    """How often the same request arrived before."""

    @property
    def query(self) -> str:
        """What is searched for."""
        return self.params.get("q") or self.body["q"]


@dataclass
class Answer:
    """What the service answers with."""

    content: Any = None
    """The JSON. Text is sent as it is."""

    status: int = 200
    """The HTTP status."""

    headers: dict[str, str] = field(default_factory=dict)
    """Further headers."""


class Service(http.server.ThreadingHTTPServer):
    """A web search service on this machine, whose answers a test scripts. It also has pages."""

    daemon_threads = True

    def __init__(self) -> None:
        """Start to listen at a free port."""
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script: Callable[[SearchRequest], Answer] = lambda _request: Answer(searxng_hits())
        self.pages: dict[str, str] = {}
        """The HTML of pages, by path."""
        self.requests: list[SearchRequest] = []
        """The searches, in the order of arrival."""
        self.page_paths: list[str] = []
        """The paths of pages that were asked for, with those of robots.txt."""
        self.attempts: Counter[str] = Counter()
        self.lock = threading.Lock()

    def url(self, path: str = "/search") -> str:
        """Return the address of a path."""
        return f"http://127.0.0.1:{self.server_port}{path}"

    def num_requests(self, query: str) -> int:
        """Count the requests for a query."""
        return sum(request.query == query for request in self.requests)


class _Handler(http.server.BaseHTTPRequestHandler):
    """Answers the requests of one connection."""

    server: Service

    def do_GET(self) -> None:
        """Answer a search, or send a page."""
        parts = urlsplit(self.path)
        if parts.path == "/search":
            self._answer_search(None)
            return
        self.server.page_paths.append(parts.path)
        page = self.server.pages.get(parts.path)
        status = 404 if page is None else 200
        self._send(status, (page or "nothing here").encode(), {"Content-Type": "text/html"})

    def do_POST(self) -> None:
        """Answer a search with a body."""
        self._answer_search(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def _answer_search(self, body: Any) -> None:
        """Answer a search as the script of the test says."""
        parts = urlsplit(self.path)
        params = {name: values[0] for name, values in parse_qs(parts.query).items()}
        headers = {name.lower(): value for name, value in self.headers.items()}
        with self.server.lock:
            attempt = self.server.attempts[self.path + json.dumps(body)]
            self.server.attempts[self.path + json.dumps(body)] += 1
            request = SearchRequest(parts.path, params, headers, body, attempt)
            self.server.requests.append(request)
        answer = self.server.script(request)
        text = answer.content if isinstance(answer.content, str) else json.dumps(answer.content)
        self._send(answer.status, text.encode(), answer.headers)

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        """Send a whole answer."""
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def searxng_hits(*urls: str) -> dict[str, Any]:
    """Return an answer in SearXNG's form with a result for each address."""
    results = [
        {"url": url, "title": f"Title {number}", "content": f"Snippet {number}."}
        for number, url in enumerate(urls or ("https://a.example/x",), start=1)
    ]
    return {"query": "q", "number_of_results": 0, "results": results, "unresponsive_engines": []}


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """Run a search service, which finds ``https://a.example/x`` unless a test scripts it."""
    monkeypatch.setattr(ground_http, "FIRST_DELAY", 0.01)  # seconds between two tries
    monkeypatch.setenv("SEARCH_TEST_KEY", KEY)
    with Service() as server:
        thread = threading.Thread(
            target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        thread.start()
        yield server
        server.shutdown()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SearchStore]:
    """Open an empty store of searches."""
    with closing(SearchStore(tmp_path / "searches.sqlite")) as search_store:
        yield search_store


@pytest.fixture
def search(service: Service, store: SearchStore, tmp_path: Path) -> Callable[..., SearchReport]:
    """Return a function that searches for queries by a YAML with some settings.

    By default the service is SearXNG. ``network`` reads its pages.
    """

    def search_with_settings(
        *queries: str, network: Network | None = None, **settings: Any
    ) -> SearchReport:
        content = {"service": "searxng", "url": service.url(), "max_retries": 1, **settings}
        path = write_yaml(tmp_path, content)
        with closing(SearchService(load_search_config(path), store, network)) as search_service:
            return search_service.search_all(queries)

    return search_with_settings


def write_yaml(folder: Path, content: Any) -> Path:
    """Write the YAML of a service, and return its path."""
    path = folder / "service.yaml"
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def allowed_network(service: Service) -> Network:
    """Return a network that reaches the pages of the service, and no other private address."""
    endpoint = Endpoint(ip_address("127.0.0.1"), service.server_port)
    return Network(Limits(connect_seconds=1, request_seconds=5), allowed=frozenset({endpoint}))


def generic_settings(**changes: Any) -> dict[str, Any]:
    """Return the settings of a service that the YAML describes in full."""
    settings = {
        "service": "http",
        "key_env": "SEARCH_TEST_KEY",
        "request": {
            "params": {"q": "{{ query }}", "k": "{{ key }}", "n": "{{ results }}"},
        },
        "response": {"url": "web.items[].link", "text": "web.items[].data.text"},
    }
    return {**settings, **changes}


# The forms of services


def test_searxng_is_asked_for_json_and_its_results_are_read(service, search):
    hit = {"url": "https://a.example/x", "title": "A title", "content": "A snippet."}
    service.script = lambda _request: Answer({"results": [hit]})

    report = search("Orla Finch & lighthouse", service="searxng")

    (request,) = service.requests
    assert request.params == {"q": "Orla Finch & lighthouse", "format": "json"}
    (result,) = report.results["Orla Finch & lighthouse"]
    assert result.url == "https://a.example/x"
    assert result.title == "A title"
    assert result.text == "A snippet."
    assert result.is_snippet
    assert result.date_read.startswith("20")  # a year


def test_serper_is_sent_the_key_and_the_wanted_number_of_results(service, search, monkeypatch):
    monkeypatch.setenv("SERPER_API_KEY", "a-key")
    item = {"link": "https://b.example/", "title": "B", "snippet": "Text.", "position": 1}
    service.script = lambda _request: Answer({"searchParameters": {}, "organic": [item]})

    report = search("lighthouse", service="serper", results=7)

    (request,) = service.requests
    assert request.headers["x-api-key"] == "a-key"
    assert request.body == {"q": "lighthouse", "num": 7}
    assert [result.text for result in report.results["lighthouse"]] == ["Text."]


def test_a_generic_service_is_described_by_templates_and_paths(service, search, monkeypatch):
    """A user can describe any service in the YAML: its parameters, and where results are."""
    monkeypatch.setenv("MY_KEY", "a-key")
    items = [{"link": "https://c.example/", "data": {"text": "Deep text."}}]
    service.script = lambda _request: Answer({"web": {"items": items}})

    report = search(
        "lighthouse",
        service="http",
        key_env="MY_KEY",
        results=5,
        request={"params": {"q": "{{ query }}", "k": "{{ key }}", "n": "{{ results }}"}},
        response={"url": "web.items[].link", "text": "web.items[].data.text"},
    )

    assert service.requests[0].params == {"q": "lighthouse", "k": "a-key", "n": "5"}
    (result,) = report.results["lighthouse"]
    assert result.url == "https://c.example/"
    assert result.title == ""
    assert result.text == "Deep text."


def test_custom_parameters_extend_a_known_service(service, search):
    search("lighthouse", service="searxng", request={"params": {"language": "en"}})

    assert service.requests[0].params == {"q": "lighthouse", "format": "json", "language": "en"}


def test_results_beyond_the_requested_number_are_dropped(service, search):
    urls = ("https://a.example/", "https://b.example/", "https://c.example/")
    service.script = lambda _request: Answer(searxng_hits(*urls))

    report = search("lighthouse", results=2)

    urls_of_results = [result.url for result in report.results["lighthouse"]]
    assert urls_of_results == ["https://a.example/", "https://b.example/"]


def test_two_results_on_one_page_count_as_one(service, search):
    """An address with ``#part`` leads to a place within the page."""
    urls = ("https://a.example/x", "https://a.example/x#part", "https://b.example/")
    service.script = lambda _request: Answer(searxng_hits(*urls))

    report = search("lighthouse", results=3)

    urls_of_results = [result.url for result in report.results["lighthouse"]]
    assert urls_of_results == ["https://a.example/x", "https://b.example/"]


def test_repeated_results_are_not_replaced_by_later_ones(service, search):
    """The first three results are taken, of which two are the same page."""
    urls = (
        "https://a.example/x",
        "https://a.example/x#part",
        "https://b.example/",
        "https://c.example/",
    )
    service.script = lambda _request: Answer(searxng_hits(*urls))

    report = search("lighthouse", results=3)

    urls_of_results = [result.url for result in report.results["lighthouse"]]
    assert urls_of_results == ["https://a.example/x", "https://b.example/"]


def test_query_without_results_is_no_problem(service, search):
    """A claim is then "not found", whereas it is unscored if its search failed."""
    service.script = lambda _request: Answer({"results": [], "unresponsive_engines": []})

    report = search("lighthouse")

    assert report.results == {"lighthouse": ()}
    assert report.problems == {}


def test_result_address_outside_the_web_is_dropped(service, search):
    """The address becomes a link on a page, where ``javascript:`` would run a script."""
    service.script = lambda _request: Answer(searxng_hits("javascript:alert(1)"))

    report = search("lighthouse")

    (result,) = report.results["lighthouse"]
    assert result.url == ""
    assert "not one of the web" in result.note


# Failures


def test_failed_query_does_not_affect_other_queries(service, search):
    """The claims of the other queries are checked all the same."""

    def fail_bad_queries(request: SearchRequest) -> Answer:
        if request.query.startswith("bad"):
            return Answer("busy", status=503)
        return Answer(searxng_hits())

    service.script = fail_bad_queries

    report = search("good 1", "bad 1", "good 2", "bad 2", max_retries=1)

    assert list(report.results) == ["good 1", "good 2"]
    assert sorted(report.problems) == ["bad 1", "bad 2"]
    assert report.problems["bad 1"].reason == (
        "the search failed: HTTP 503: busy (given up after 2 tries)"
    )
    assert service.num_requests("bad 1") == 2


def test_busy_service_is_asked_again(service, search):
    def be_busy_at_first(request: SearchRequest) -> Answer:
        if request.attempt == 0:
            return Answer("slow down", status=429, headers={"Retry-After": "0"})
        return Answer(searxng_hits("https://a.example/x"))

    service.script = be_busy_at_first

    report = search("lighthouse", max_retries=1)

    assert [result.url for result in report.results["lighthouse"]] == ["https://a.example/x"]
    assert report.problems == {}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("<html>Hello</html>", "an answer that is not JSON"),
        ('{"results": [', "an answer that is not JSON"),
        ({"items": []}, "without the list results[] (found the keys 'items')"),
        ([1, 2], "without the list results[] (found a list)"),
        ({"results": {"url": "x"}}, "without the list results[]"),
        ({"results": [{"link": "x"}]}, "results without results[].url (found the keys 'link')"),
        ({"results": ["x"]}, "results without results[].url (found a str)"),
    ],
)
def test_malformed_answer_is_described_in_the_problem(service, search, content, reason):
    """The user has to correct the paths in the YAML, so the reason lists the keys to choose from."""
    service.script = lambda _request: Answer(content)

    report = search("lighthouse", service="searxng")

    assert reason in report.problems["lighthouse"].reason
    assert report.results == {}


def test_failure_of_all_engines_is_a_problem(service, search):
    """SearXNG answers with HTTP 200 even then, but a claim must not count as "not found"."""
    service.script = lambda _request: Answer(
        {"results": [], "unresponsive_engines": [["wikipedia", "timeout"]]}
    )

    report = search("lighthouse")

    reason = report.problems["lighthouse"].reason
    assert "no results, and the service says [['wikipedia', 'timeout']]" in reason


def test_a_refused_query_is_not_tried_again(service, search):
    """The same query would be refused again."""
    service.script = lambda _request: Answer("too long", status=400)

    report = search("lighthouse", max_retries=5)

    assert report.problems["lighthouse"].reason == "the search failed: refused: HTTP 400: too long"
    assert len(service.requests) == 1


@pytest.mark.parametrize(
    ("status", "advice"),
    [
        pytest.param(401, "key_env", id="wrong key"),
        pytest.param(403, "search.formats", id="SearXNG without JSON"),
        pytest.param(404, "check url", id="wrong path"),
        pytest.param(302, "change url", id="moved"),
    ],
)
def test_permanent_http_error_ends_the_search(service, search, status, advice):
    """The message names the setting to mend."""
    service.script = lambda _request: Answer("no", status=status)

    with pytest.raises(BackendDownError, match=advice):
        search("first query", "second query", concurrency=1)

    assert len(service.requests) == 1


def test_a_service_that_is_not_running_is_an_error(search):
    """The search ends, since every other query would fail as well."""
    with pytest.raises(BackendDownError, match="is the search service running"):
        search("lighthouse", url="http://127.0.0.1:9/search")


def test_24_failures_in_a_row_end_the_search(service, search):
    """The other queries are not sent, since each would cost a long wait."""

    def fail_except_first(request: SearchRequest) -> Answer:
        return Answer(searxng_hits()) if request.query == "0" else Answer("down", status=500)

    service.script = fail_except_first
    queries = [str(number) for number in range(40)]

    with pytest.raises(BackendDownError, match="24 searches in a row failed"):
        search(*queries, max_retries=0, concurrency=1)

    num_succeeded = 1
    assert len(service.requests) == num_succeeded + 24


def test_repeated_search_keeps_earlier_results(service, search):
    """The query that succeeded in the failed search is not sent again."""

    def fail_except_first(request: SearchRequest) -> Answer:
        return Answer(searxng_hits()) if request.query == "0" else Answer("down", status=500)

    queries = [str(number) for number in range(40)]
    service.script = fail_except_first
    with pytest.raises(BackendDownError):
        search(*queries, max_retries=0, concurrency=1)
    service.script = lambda _request: Answer(searxng_hits())

    report = search(*queries)

    assert report.num_sent == 40 - 1


def test_slow_query_times_out(service, search):
    test_ends = threading.Event()

    def answer_after_five_seconds(_request: SearchRequest) -> Answer:
        test_ends.wait(timeout=5)
        return Answer(searxng_hits())

    service.script = answer_after_five_seconds

    report = search("lighthouse", timeout=0.2, max_retries=0)

    test_ends.set()
    assert "no answer within 0.2 s" in report.problems["lighthouse"].reason


def test_unrenderable_template_is_a_problem(service, search):
    """The template adds a number to a text, which fails only when it is rendered."""
    report = search("lighthouse", request={"params": {"q": "{{ query + 1 }}"}})

    assert "a template of request cannot be rendered" in report.problems["lighthouse"].reason
    assert service.requests == []


def test_a_blank_query_is_not_sent(service, search):
    report = search(" ")

    assert report.problems == {" ": SearchProblem("nothing to search for")}
    assert service.requests == []


# The store


def test_second_run_reuses_stored_results(service, search):
    """Searches cost money, and the web changes between two runs."""
    first_report = search("lighthouse", "harbour")

    second_report = search("harbour", "lighthouse")

    assert first_report.num_sent == 2
    assert second_report.num_sent == 0
    assert len(service.requests) == 2
    assert second_report.results["lighthouse"] == first_report.results["lighthouse"]


def test_a_repeated_query_is_sent_once(service, search):
    report = search("lighthouse", "harbour", "lighthouse")

    assert report.num_sent == 2
    assert sorted(request.query for request in service.requests) == ["harbour", "lighthouse"]


def test_a_failed_query_is_asked_again_in_the_next_run(service, search):
    """A failure is not stored, since it may have passed by then."""
    service.script = lambda _request: Answer("no", status=400)
    search("lighthouse")
    service.script = lambda _request: Answer(searxng_hits("https://a.example/x"))

    report = search("lighthouse")

    assert [result.url for result in report.results["lighthouse"]] == ["https://a.example/x"]


@pytest.mark.parametrize("change", [{"results": 3}, {"request": {"params": {"language": "de"}}}])
def test_a_query_is_sent_again_with_other_settings(service, search, change):
    """With other settings the service may find something else."""
    search("lighthouse")

    search("lighthouse", **change)

    assert len(service.requests) == 2


def test_a_query_has_results_or_a_problem(service, store, tmp_path):
    """A caller must not take a failed search for one that found nothing."""
    settings = {"service": "searxng", "url": service.url(), "max_retries": 0}
    config = load_search_config(write_yaml(tmp_path, settings))
    good_answer = Answer(searxng_hits("https://a.example/x"))
    service.script = lambda request: (
        good_answer if request.query == "good" else Answer("no", status=400)
    )

    with closing(SearchService(config, store)) as search_service:
        report = search_service.search_all(["good", "bad"])

    assert [result.url for result in report.results["good"]] == ["https://a.example/x"]
    assert list(report.problems) == ["bad"]


def test_another_database_is_refused_as_a_store(tmp_path):
    """The user may have named the wrong file."""
    path = tmp_path / "other.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE mine (a)")

    with pytest.raises(DataError, match="not of searches; name another file"):
        SearchStore(path)


@pytest.mark.usefixtures("service")
def test_damaged_row_of_the_store_is_an_error_with_advice(search, store):
    """If the user deletes this row, all other searches in the store are kept."""
    search("lighthouse")
    with closing(sqlite3.connect(store.path)) as database, database:
        database.execute("UPDATE searches SET results = '[{'")

    with pytest.raises(DataError, match="table searches cannot be read.*delete the row"):
        search("lighthouse")


# Keys


@pytest.mark.parametrize(
    "answer",
    [
        Answer("wrong key c0ffee/very+secret", status=400),
        Answer("wrong key c0ffee/very+secret", status=503),
        Answer("not JSON c0ffee/very+secret"),
        Answer({"c0ffee/very+secret": 1}),
    ],
)
def test_no_reason_quotes_the_key(service, search, monkeypatch, answer):
    """Services quote keys in their messages, and reasons are written to files that are shared."""
    monkeypatch.setenv("SEARCH_TEST_KEY", "c0ffee/very+secret")
    service.script = lambda _request: answer

    report = search("lighthouse", **generic_settings(max_retries=0))

    assert "c0ffee" not in report.problems["lighthouse"].reason


@pytest.mark.parametrize(
    "answer",
    [
        Answer("wrong key c0ffee/very+secret", status=401),
        Answer(
            "",
            status=302,
            headers={"Location": "https://d.example/?k=c0ffee%2Fvery%2Bsecret"},
        ),
    ],
)
def test_no_error_quotes_the_key(service, search, monkeypatch, answer):
    """A redirect may hold the key in the encoding of addresses."""
    monkeypatch.setenv("SEARCH_TEST_KEY", "c0ffee/very+secret")
    service.script = lambda _request: answer

    with pytest.raises(BackendDownError) as error:
        search("lighthouse", **generic_settings())

    assert "c0ffee" not in str(error.value)


def test_key_unfit_for_a_header_is_refused_and_not_quoted(search, monkeypatch):
    """The second line would be read as another header."""
    monkeypatch.setenv("SEARCH_TEST_KEY", "c0ffee\nsecond line")

    with pytest.raises(ConfigError, match="holds characters that no key has") as error:
        search("lighthouse", **generic_settings())

    assert "c0ffee" not in str(error.value)


def answer_with_hit(url: str, text: str) -> Answer:
    """Return an answer of one hit in the form of `generic_settings`."""
    return Answer({"web": {"items": [{"link": url, "data": {"text": text}}]}})


def test_the_store_holds_no_key(service, search, store, monkeypatch):
    """Users share the store to show how a run went, and a service may send the key back."""
    monkeypatch.setenv("SEARCH_TEST_KEY", "c0ffee/very+secret")
    service.script = lambda _request: answer_with_hit(
        "https://c.example/?k=c0ffee/very+secret", "It echoes c0ffee/very+secret."
    )

    report = search("lighthouse", **generic_settings(key_env="SEARCH_TEST_KEY"))

    assert report.results["lighthouse"][0].text == "It echoes ***."
    for file in store.path.parent.glob("searches.sqlite*"):
        assert b"c0ffee" not in file.read_bytes()


def test_the_log_holds_no_key(service, search, caplog, monkeypatch):
    """Users share the log to show how a run went, and a service may send the key back."""
    monkeypatch.setenv("SEARCH_TEST_KEY", "c0ffee/very+secret")
    service.script = lambda _request: answer_with_hit(
        "https://c.example/?k=c0ffee/very+secret", "It echoes c0ffee/very+secret."
    )

    with caplog.at_level("DEBUG"):
        search("lighthouse", **generic_settings(key_env="SEARCH_TEST_KEY"))

    assert "c0ffee" not in caplog.text


@pytest.mark.parametrize(
    "spelling",
    [
        pytest.param("".join(f"\\u{ord(letter):04x}" for letter in KEY), id="unicode escapes"),
        pytest.param(b64encode(KEY.encode()).decode(), id="base64"),
        pytest.param(" ".join(KEY), id="split by white space"),
    ],
)
def test_key_is_removed_in_every_spelling(service, search, monkeypatch, spelling):
    """Anyone can decode these spellings of the key."""
    monkeypatch.setenv("SEARCH_TEST_KEY", KEY)
    items = [{"link": "https://c.example/", "data": {"text": f"\u202eIt echoes {spelling}."}}]
    service.script = lambda _request: Answer({"web": {"items": items}})

    report = search("lighthouse", **generic_settings())

    assert report.results["lighthouse"][0].text == "It echoes ***."


def test_missing_key_is_an_error_naming_its_variable(search, monkeypatch):
    monkeypatch.delenv("SEARCH_TEST_KEY")

    with pytest.raises(ConfigError, match="the environment variable SEARCH_TEST_KEY is not set"):
        search("lighthouse", **generic_settings(key_env="SEARCH_TEST_KEY"))


# Pages


def test_the_text_of_a_page_replaces_the_snippet(service, search):
    """A snippet has a few words of the page only."""
    service.pages["/lighthouse"] = (
        "<html><head><title>The lighthouse</title></head>"
        "<body><p>Orla Finch built the lighthouse in 1871.</p></body></html>"
    )
    service.script = lambda _request: Answer(searxng_hits(service.url("/lighthouse")))

    report = search("lighthouse", fetch=True, network=allowed_network(service))

    (result,) = report.results["lighthouse"]
    assert result.title == "The lighthouse"
    assert result.text.strip() == "Orla Finch built the lighthouse in 1871."
    assert not result.is_snippet


def test_a_page_is_read_once_for_two_searches(service, search):
    service.pages["/lighthouse"] = "<p>Orla Finch built the lighthouse in 1871.</p>"
    service.script = lambda _request: Answer(searxng_hits(service.url("/lighthouse")))
    network = allowed_network(service)

    first_report = search("lighthouse", fetch=True, network=network)
    second_report = search("lighthouse", fetch=True, network=network)

    assert second_report.results == first_report.results
    assert service.page_paths == ["/robots.txt", "/lighthouse"]


def test_a_result_at_a_private_address_is_not_read(service, search):
    """A search result must not lead the suite to services of the user's own network."""
    service.pages["/lighthouse"] = "<p>Orla Finch built the lighthouse in 1871.</p>"
    hit = {"url": service.url("/lighthouse"), "title": "A title", "content": "A snippet."}
    service.script = lambda _request: Answer({"results": [hit]})

    report = search("lighthouse", fetch=True)

    (result,) = report.results["lighthouse"]
    assert service.page_paths == []
    assert result.text == "A snippet."
    assert result.is_snippet
    assert result.note == (
        "only the snippet, since the page was not read: forbidden address: its host, or one that it"
        " redirects to, is not on the public internet"
    )


def test_unreadable_page_leaves_the_snippet_with_a_note(service, search):
    hit = {"url": service.url("/gone"), "title": "A title", "content": "A snippet."}
    service.script = lambda _request: Answer({"results": [hit]})

    report = search("lighthouse", fetch=True, network=allowed_network(service))

    (result,) = report.results["lighthouse"]
    assert result.text == "A snippet."
    assert "http 404: an error status" in result.note


# The YAML


@pytest.mark.parametrize("name", ["searxng", "serper", "http"])
def test_example_settings_are_valid(name):
    """Users copy these files."""
    config = load_search_config(REPOSITORY / f"configs/search/{name}.yaml")

    assert config.service == name


def test_every_key_is_documented():
    page = (REPOSITORY / "docs/configuration.md").read_text(encoding="utf-8")
    section_and_rest = page.partition("## Search services")[2]
    section = section_and_rest.partition("\n## ")[0]

    keys = set()
    for model in (SearchConfig, RequestForm, ResponseForm):
        keys |= {field.alias or name for name, field in model.model_fields.items()}
    undocumented_keys = {key for key in keys if f"`{key}`" not in section}
    assert undocumented_keys == set()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[1]", "expected a mapping of names to values"),
        ("service: serpre", "service is 'serpre'; expected one of searxng, serper, http; did you"),
        ("url: http://a.example", "service is None; expected one of searxng"),
        ("{service: searxng, resluts: 3}", "unknown key 'resluts'; did you mean results?"),
        ("{service: searxng, results: 0}", "results is 0; expected"),
        ("{service: searxng, results: many}", "results is 'many'; expected a valid integer"),
        ("{service: searxng, url: localhost}", "url is not an address"),
        (
            "{service: searxng, url: 'http://a.example/?q=1'}",
            "url must hold no user, password or ?query",
        ),
        ("{service: searxng, key_env: 'not a name'}", "name of an environment variable"),
        ("{service: searxng, key_env: A_KEY}", "key_env names a key that request does not send"),
        ("{service: http, url: 'http://a.example/'}", "request is missing; expected how"),
        (
            "{service: searxng, request: {params: {q: '{{ qeury }}'}}}",
            "in params.q with the unknown name 'qeury'; did you mean query?",
        ),
        ("{service: searxng, request: {params: {q: '{{ query'}}}", "a wrong template in params.q"),
        ("{service: searxng, request: {params: {q: x}}}", "has no template with the query"),
        (
            "{service: searxng, request: {parms: {}}}",
            "unknown key 'parms' of request; did you mean params?",
        ),
        ("{service: searxng, request: {json: {a: 1}}}", "has a json, which GET does not send"),
        (
            "{service: searxng, request: {headers: {A: 'Bearer {{ key }}'}}}",
            "key_env is missing",
        ),
        ("{service: searxng, response: {url: results.url}}", "response.url is 'results.url'"),
        ("{service: searxng, response: {url: 'hits[].url'}}", "paths through the lists"),
    ],
)
def test_a_wrong_setting_is_an_error_with_its_key(tmp_path, content, message):
    """If a misspelt setting were ignored, the search would differ from what the user wants."""
    path = write_yaml(tmp_path, content)

    with pytest.raises(ConfigError) as error:
        load_search_config(path)

    assert str(error.value).startswith(f"{path}: ")
    assert message in str(error.value)


@pytest.mark.parametrize(
    "request_settings",
    [
        {"headers": {"X-API-KEY": "abcdefgh12345"}},
        {"headers": {"Authorization": "Bearer abcdefgh12345"}},
        {"params": {"api_key": "abcdefgh12345"}},
        {"json": {"token": "abcdefgh12345 {{ key }}"}},
    ],
)
def test_a_key_in_the_yaml_is_refused_and_not_quoted(tmp_path, request_settings):
    """YAML files are shared, so keys belong in the environment."""
    path = write_yaml(tmp_path, {"service": "serper", "request": request_settings})

    with pytest.raises(ConfigError, match="write {{ key }} in its place") as error:
        load_search_config(path)

    assert "abcdefgh12345" not in str(error.value)
