"""The command ``data``: list, download and check the published files of the benchmarks.

``lm_factuality.cli.main`` registers it.
"""

import fnmatch
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from lm_factuality import __version__
from lm_factuality.ground.command_line import App
from lm_factuality.ground.console import print_table
from lm_factuality.ground.errors import DataError

if TYPE_CHECKING:
    from lm_factuality.ground.published import Source

_AGENT = (
    f"lm-factuality/{__version__} (factuality research; asks once for each page that a data set"
    " cites)"
)

app = App()
Names = Annotated[
    list[str] | None,
    Argument(metavar="NAME", help="A name from 'data ls', or a pattern (default: all)."),
]


@app.callback()
def data() -> None:
    """List, download or verify the published benchmarks.

    \b
    Examples:
      lm-factuality data ls
      lm-factuality data fetch news_factor "longfact_*"
      lm-factuality data verify "*_factor" --data-dir my_folder
      lm-factuality data fetch-references --data-dir felm

    \b
    Environment:
      LM_FACTUALITY_HOME     folder for downloads (default: lm-factuality in your cache folder)
      LM_FACTUALITY_DATA     folder whose files are used instead of downloads
      LM_FACTUALITY_MIRROR   host to download from (default: GitHub)
    """


@app.command()
def ls(names: Names = None) -> None:
    """List the published benchmarks."""
    from lm_factuality.ground.published import cached_path

    rows = []
    for source in _sources(names):
        upstream = f"{source.repository}@{source.commit[:7]}"
        download = "here" if cached_path(source).is_file() else "not fetched"
        rows.append(
            (source.name, str(source.rows), source.license, upstream, source.filename, download)
        )
    columns = ("name", "#rows", "licence", "upstream", "file", "download")
    print_table("Published data", columns, rows)


@app.command()
def fetch(names: Names = None) -> None:
    """Download and check the published benchmarks."""
    from lm_factuality.ground import published

    _check_files(names, published.fetch)


@app.command()
def verify(
    names: Names = None,
    data_dir: Annotated[
        str | None,
        Option(help="Verify the files of this folder instead of the downloads."),
    ] = None,
) -> None:
    """Check that the files of published benchmarks are unchanged. Nothing is downloaded."""
    from lm_factuality.ground.published import cached_path, locate

    def find_local(source: "Source") -> Path:
        """Find a published file on this machine, and never download it."""
        if data_dir or os.environ.get("LM_FACTUALITY_DATA"):
            return locate(source, data_dir).path
        path = cached_path(source)
        if not path.is_file():
            advice = f"run: lm-factuality data fetch {source.name}"
            raise DataError(f"{source.name}: not fetched ({path}); {advice}")
        return path

    _check_files(names, find_local)


def _check_files(names: list[str] | None, find: Callable[["Source"], Path]) -> None:
    """Compare files with the published ones by their git blob ids, and print those that agree.

    Args:
        names: Names or patterns of published files. None means all of them.
        find: Returns the local path of a published file, or raises DataError.

    Raises:
        DataError: Files are missing or differ from the published ones. The error names them all.
    """
    from lm_factuality.ground.published import blob_id

    problems = []
    for source in _sources(names):
        try:
            path = find(source)
            blob = blob_id(path)
        except DataError as error:
            problems.append(str(error))
            continue
        if blob == source.blob:
            sys.stdout.write(f"{source.name}: {path}: git blob {blob}, as published\n")
        else:
            problems.append(f"{source.name}: {path} has git blob {blob}, expected {source.blob}")
    if problems:
        raise DataError("\n".join(problems))


def _sources(patterns: list[str] | None) -> list["Source"]:
    """Find the published files with these names, each once.

    Args:
        patterns: Names or patterns such as ``*_factor``. None or empty means all files.

    Raises:
        ConfigError: No file has such a name.
    """
    from lm_factuality.benchmarks import all_sources, find_source

    all_names = all_sources()
    names: list[str] = []
    for pattern in patterns or all_names:
        # A pattern without a match is looked up as a name, so that the error suggests another.
        names += fnmatch.filter(all_names, pattern) or [pattern]
    # Two patterns can match the same name.
    return [find_source(name) for name in dict.fromkeys(names)]


@app.command()
def fetch_references(
    data_dir: Annotated[
        Path | None,
        Option(help="Folder with FELM's all.jsonl, instead of the download."),
    ] = None,
    cache: Annotated[
        Path | None,
        Option("--cache", "--out", help="Folder for the texts (default: the cache)."),
    ] = None,
    report: Annotated[
        Path | None,
        Option(help="JSON to write: every link and what became of it."),
    ] = None,
    retry_dead: Annotated[
        bool, Option("--retry-dead", help="Ask again for links that were dead before.")
    ] = False,
    allow_address: Annotated[
        list[str] | None,
        Option(
            metavar="IP:PORT",
            help="Connect to this private address too, such as 127.0.0.1:8123; can be repeated.",
        ),
    ] = None,
    delay: Annotated[float, Option(help="Seconds between requests to a host.")] = 1.0,
    user_agent: Annotated[
        str,
        Option(
            show_default=False,
            help="Who asks; some sites want a way to reach you in it.",
        ),
    ] = _AGENT,
) -> None:
    """Fetch the pages that FELM's rows cite and keep their text.

    \b
    Examples:
      lm-factuality data fetch-references --data-dir felm
      lm-factuality data fetch-references --report links.json --user-agent "me@example.org"
      lm-factuality data fetch-references --cache pages --retry-dead

    What was fetched is kept, and an interrupted run resumes where it ended. Dead links are kept as
    well and not asked for again without --retry-dead. Only public addresses are connected to, at
    every redirect; pages that robots.txt excludes are left out. The exit code is 1 only if no
    server was reached at all.
    """
    from tqdm import tqdm

    from lm_factuality.benchmarks.felm.rows import FELM, read_felm_rows
    from lm_factuality.ground.files import check_writable
    from lm_factuality.ground.published import locate
    from lm_factuality.ground.settings import read_settings
    from lm_factuality.retrieval.references.cache import FetchReport, ReferenceCache
    from lm_factuality.retrieval.references.connection import Network
    from lm_factuality.retrieval.references.fetcher import Manners, fetch_references
    from lm_factuality.retrieval.references.links import (
        UNREACHED,
        collect_links,
        parse_endpoint,
    )

    if report:
        check_writable(report.parent, "the report")  # before hours of fetching
    settings = {"user_agent": user_agent, "delay": delay}
    manners = read_settings(Manners, settings, "fetch-references")
    private_addresses = frozenset(map(parse_endpoint, allow_address or ()))
    network = Network(user_agent=user_agent, allowed=private_addresses)
    source = locate(FELM, data_dir).path
    entries = [entry for row in read_felm_rows(source) for entry in row.references]
    links = collect_links(entries)
    if not links.urls:
        raise DataError(
            f"{source}: no links among {len(entries)} entries; expected http(s) addresses"
        )
    texts = ReferenceCache(cache)
    fetched = fetch_references(links.urls, texts, network, manners, retry_dead=retry_dead)
    outcomes = tuple(tqdm(fetched, "references", len(links.urls), unit="link"))
    summary = FetchReport(outcomes, links.not_links)
    if report:
        summary.write(report)
    notes = [f"texts: {texts.folder}"]
    if links.not_links:
        notes.append(f"{len(links.not_links)} entries of {source} are not links")
    dead = sum(reference.is_dead for reference, _ in outcomes)
    if dead:
        notes.append(f"{dead} links are dead; {report or '--report FILE'} lists them")
    rows = [(name, f"{new:,}", f"{old:,}", meaning) for name, new, old, meaning in summary.counts()]
    columns = ("outcome", "#this run", "#from cache", "meaning")
    print_table(f"{source}: {len(links.urls):,} links", columns, rows, notes)
    if all(reference.kind in UNREACHED for reference, _ in outcomes):
        raise DataError(
            "no server was reached: check the links and the network, then run the same command with"
            " --retry-dead"
        )
