"""``lm-factuality data fetch-references``: the pages behind a data set's links, as text on this machine."""

import argparse
from dataclasses import fields
from pathlib import Path
from typing import Any

from lm_factuality.cli.actions import add_action
from lm_factuality.ground.console import print_table
from lm_factuality.ground.errors import ConfigError, DataError

NAME = "fetch-references"
_SHOWN = 20  # entries that are no links


def add(actions: Any) -> None:
    """Adds ``fetch-references`` to the actions of ``data``."""
    from lm_factuality.retrieval.references.settings import USER_AGENT, Limits, Manners

    parser = add_action(actions, f"data {NAME}", "fetch the pages that FELM's rows cite and keep their text", fetch_references)
    limits, manners = Limits(), Manners()
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--data-dir", type=Path, metavar="DIR", help="folder with FELM's all.jsonl, instead of the download")
    source.add_argument("--urls", type=Path, metavar="FILE", help="links, one a line, instead of FELM's")
    parser.add_argument(
        "--cache", "--out", type=Path, metavar="DIR", help="folder for the texts (default: references in the suite's cache)"
    )
    parser.add_argument("--report", type=Path, metavar="FILE", help=".json or .csv: every link and what became of it")
    parser.add_argument("--limit", type=int, metavar="N", help="only the first N links")
    parser.add_argument("--retry-dead", action="store_true", help="ask again for links that were dead before")
    cost = parser.add_argument_group("what one document may cost")
    polite = parser.add_argument_group("how servers are asked")
    for group, name, default, line in (
        (cost, "--timeout", limits.seconds, "seconds in all (default %(default)g)"),
        (cost, "--max-bytes", limits.max_bytes, "default %(default)s"),
        (cost, "--max-redirects", limits.max_redirects, "default %(default)s"),
        (cost, "--max-pages", limits.max_pages, "of a PDF (default %(default)s)"),
        (polite, "--concurrency", manners.concurrency, "documents at a time (default %(default)s)"),
        (polite, "--per-host", manners.per_host, "of these from one host (default %(default)s)"),
        (polite, "--delay", manners.delay, "seconds between requests to a host (default %(default)g)"),
        (polite, "--retries", manners.retries, "after transient failures (default %(default)s)"),
    ):
        metavar, dest = "S" if line.startswith("seconds") else "N", "seconds" if name == "--timeout" else None
        group.add_argument(name, type=type(default), default=default, metavar=metavar, help=line, dest=dest)
    polite.add_argument(
        "--user-agent", default=USER_AGENT, metavar="TEXT", help="who asks; some sites want a way to reach you in it"
    )
    polite.add_argument(
        "--ignore-robots", action="store_false", dest="obeys_robots", help="fetch what robots.txt excludes as well"
    )
    reach = parser.add_argument_group("what may be connected to")
    reach.add_argument(
        "--allow-address",
        action="append",
        default=[],
        metavar="IP:PORT",
        help="connect to this private address too, such as 127.0.0.1:8123; may be given more than once",
    )


def fetch_references(parsed: argparse.Namespace) -> int:
    """Fetches, prints counts by outcome, writes the report."""
    from tqdm import tqdm

    from lm_factuality.ground.settings import read_settings
    from lm_factuality.retrieval.references.addresses import parse_endpoint
    from lm_factuality.retrieval.references.cache import ReferenceCache, Report, check_format
    from lm_factuality.retrieval.references.connection import Network
    from lm_factuality.retrieval.references.fetcher import fetch_references as fetch
    from lm_factuality.retrieval.references.links import collect_links
    from lm_factuality.retrieval.references.settings import Limits, Manners

    if parsed.report:
        check_format(parsed.report)
    if parsed.limit is not None and parsed.limit < 1:
        raise ConfigError(f"--limit is {parsed.limit}, expected at least 1")
    given = vars(parsed)
    limits = read_settings(Limits, {each.name: given[each.name] for each in fields(Limits) if each.name in given}, NAME)
    manners = read_settings(Manners, {each.name: given[each.name] for each in fields(Manners) if each.name in given}, NAME)
    allowed = frozenset(map(parse_endpoint, parsed.allow_address))
    network = Network(limits, parsed.user_agent, allowed)
    source, entries = _entries(parsed)
    links = collect_links(entries)
    urls = links.urls[: parsed.limit]
    if not urls:
        raise DataError(f"{source}: no links among {len(entries)} entries; expected http(s) addresses")
    cache = ReferenceCache(parsed.cache)
    fetched = fetch(urls, cache, network, manners, retry_dead=parsed.retry_dead)
    found = []
    try:
        for pair in tqdm(fetched, "references", len(urls), unit="link"):
            found.append(pair)
    except KeyboardInterrupt:
        raise DataError(
            f"interrupted; {len(found)} of {len(urls)} links are in {cache.folder}, the same command goes on with the rest"
        ) from None
    report = Report(tuple(found), links.not_links)
    if parsed.report:
        report.write(parsed.report)
    notes = [f"texts: {cache.folder}"]
    if links.not_links:
        shown = "; ".join(repr(entry[:80]) for entry in links.not_links[:_SHOWN])
        notes.append(f"{len(links.not_links)} entries of {source} are no links: {shown}")
    if dead := sum(reference.is_dead for reference, _ in found):
        notes.append(f"{dead} links are dead; {parsed.report or '--report FILE'} lists them")
    counts = [(name, f"{new:,}", f"{old:,}", meaning) for name, new, old, meaning in report.counts()]
    print_table(f"{source}: {len(urls):,} links", ("outcome", "#this run", "#from cache", "meaning"), counts, notes)
    if not report.was_anything_reached:
        raise DataError("no server was reached: check the links and the network, then run the same command with --retry-dead")
    return 0


def _entries(parsed: argparse.Namespace) -> tuple[Path, list[str]]:
    """Where links are taken from, and the entries that hold them."""
    from lm_factuality.benchmarks.felm.rows import FELM, read_rows
    from lm_factuality.ground.published import locate
    from lm_factuality.retrieval.references.links import read_urls

    if parsed.urls:
        return parsed.urls, read_urls(parsed.urls)
    path = locate(FELM, parsed.data_dir).path
    return path, [entry for row in read_rows(path) for entry in row.references]
