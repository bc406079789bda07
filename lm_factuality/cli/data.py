"""``lm-factuality data``: the published files that the benchmarks read."""

import argparse
import fnmatch
import os
import sys

from tqdm import tqdm

from lm_factuality import __version__
from lm_factuality.benchmarks import all_sources, find_source
from lm_factuality.benchmarks.felm.rows import FELM, read_rows
from lm_factuality.ground.console import print_table
from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.ground.files import check_writable
from lm_factuality.ground.published import Source, blob_id, cached_path, fetch, locate
from lm_factuality.ground.settings import read_settings
from lm_factuality.retrieval.references.cache import ReferenceCache, Report
from lm_factuality.retrieval.references.connection import Network
from lm_factuality.retrieval.references.fetcher import Manners, fetch_references
from lm_factuality.retrieval.references.links import (
    UNREACHED,
    collect_links,
    parse_endpoint,
    read_urls,
)

_AGENT = (
    f"lm-factuality/{__version__} (factuality research; asks once for each page that a data set"
    " cites)"
)
_SHOWN = 20  # entries that are no links


def data(parsed: argparse.Namespace) -> None:
    known = all_sources()
    names = [
        found for name in parsed.names for found in fnmatch.filter(known, name) or [name]
    ] or list(known)
    sources = [find_source(name) for name in dict.fromkeys(names)]
    if parsed.action == "ls":
        rows = [
            (
                each.name,
                str(each.rows),
                each.license,
                f"{each.repository}@{each.commit[:7]}",
                each.filename,
                here,
            )
            for each in sources
            for here in ["here" if cached_path(each).is_file() else "not fetched"]
        ]
        print_table(
            "Published data", ("name", "#rows", "licence", "upstream", "file", "download"), rows
        )
    elif failures := [line for source in sources if (line := _fetch_or_verify(parsed, source))]:
        raise DataError("\n".join(failures))


def _fetch_or_verify(parsed: argparse.Namespace, source: Source) -> str:
    """Prints that the source is in order; otherwise returns what is wrong."""
    try:
        if parsed.action == "fetch":
            path = fetch(source)
        elif parsed.data_dir or os.environ.get("LM_FACTUALITY_DATA"):
            path = locate(source, parsed.data_dir).path
        else:
            path = cached_path(source)
            if not path.is_file():
                return (
                    f"{source.name}: not fetched ({path}); run: lm-factuality data fetch"
                    f" {source.name}"
                )
        found = blob_id(path)
    except DataError as error:
        return str(error)
    if found != source.blob:
        return f"{source.name}: {path} has git blob {found}, expected {source.blob}"
    sys.stdout.write(f"{source.name}: {path}: git blob {found}, as published\n")
    return ""


def data_fetch_references(parsed: argparse.Namespace) -> None:
    if parsed.report:
        if parsed.report.suffix.lower() != ".json":
            raise ConfigError(
                f"--report {parsed.report}: expected a name that ends in .json, which it is"
            )
        check_writable(parsed.report.parent, "the report")  # before hours of fetching
    agent = _AGENT if parsed.user_agent is None else parsed.user_agent
    asked = {"user_agent": agent, "delay": parsed.delay, "obeys_robots": parsed.obeys_robots}
    manners = read_settings(Manners, asked, "fetch-references")
    network = Network(
        user_agent=agent, allowed=frozenset(map(parse_endpoint, parsed.allow_address))
    )
    source = parsed.urls or locate(FELM, parsed.data_dir).path
    entries = (
        read_urls(source)
        if parsed.urls
        else [entry for row in read_rows(source) for entry in row.references]
    )
    links = collect_links(entries)
    if not links.urls:
        raise DataError(
            f"{source}: no links among {len(entries)} entries; expected http(s) addresses"
        )
    cache = ReferenceCache(parsed.cache)
    fetched = fetch_references(links.urls, cache, network, manners, retry_dead=parsed.retry_dead)
    found = list(tqdm(fetched, "references", len(links.urls), unit="link"))
    report = Report(tuple(found), links.not_links)
    if parsed.report:
        report.write(parsed.report)
    notes = [f"texts: {cache.folder}"]
    if links.not_links:
        shown = "; ".join(repr(entry[:80]) for entry in links.not_links[:_SHOWN])
        notes.append(f"{len(links.not_links)} entries of {source} are not links: {shown}")
    if dead := sum(reference.is_dead for reference, _ in found):
        notes.append(f"{dead} links are dead; {parsed.report or '--report FILE'} lists them")
    counts = [
        (name, f"{new:,}", f"{old:,}", meaning) for name, new, old, meaning in report.counts()
    ]
    print_table(
        f"{source}: {len(links.urls):,} links",
        ("outcome", "#this run", "#from cache", "meaning"),
        counts,
        notes,
    )
    if all(reference.kind in UNREACHED for reference, _ in found):
        raise DataError(
            "no server was reached: check the links and the network, then run the same command with"
            " --retry-dead"
        )
