"""The command ``data``: list, download and check the published files of the benchmarks.

``lm_factuality.cli.main`` registers it.
"""

import fnmatch
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option, echo

from lm_factuality import __version__
from lm_factuality.ground.command_line import App
from lm_factuality.ground.console import print_table
from lm_factuality.ground.errors import DataError

if TYPE_CHECKING:
    from lm_factuality.ground.published import Source
    from lm_factuality.retrieval.references.cache import FetchReport
    from lm_factuality.retrieval.references.links import Links

_USER_AGENT = (
    f"lm-factuality/{__version__} (factuality research; asks once for each page that a data set"
    " cites)"
)

app = App()
Names = Annotated[
    list[str] | None,
    Argument(
        metavar="NAME", help="Names from 'data ls', or patterns such as '*_factor' (default: all)."
    ),
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
    Environment variables:
      LM_FACTUALITY_HOME     folder for downloads (default: lm-factuality in your cache folder)
      LM_FACTUALITY_DATA     folder whose files are used instead of downloads
      LM_FACTUALITY_MIRROR   host to download from (default: GitHub)
    """


@app.command()
def ls(names: Names = None) -> None:
    """List the files of the published benchmarks, with their rows and licences.

    \b
    Examples:
      lm-factuality data ls
      lm-factuality data ls "*_factor"
    """
    from lm_factuality.ground.published import cached_path

    rows = []
    for source in _find_sources(names):
        # Seven digits are enough to recognise a commit.
        row = (
            source.name,
            str(source.rows),
            source.license,
            f"{source.repository}@{source.commit[:7]}",
            source.filename,
            "here" if cached_path(source).is_file() else "not fetched",
        )
        rows.append(row)
    # The sign # marks columns of numbers, which are flush right.
    columns = ("name", "#rows", "licence", "upstream", "file", "download")
    print_table("Published data", columns, rows)


@app.command()
def fetch(names: Names = None) -> None:
    """Download the published benchmarks, and check that they are as published.

    \b
    Examples:
      lm-factuality data fetch
      lm-factuality data fetch news_factor "longfact_*"
    """
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
    """Check that the files of published benchmarks are unchanged. Nothing is downloaded.

    \b
    Examples:
      lm-factuality data verify
      lm-factuality data verify "*_factor" --data-dir my_folder
    """
    _check_files(names, lambda source: _find_local_file(source, data_dir))


def _find_local_file(source: "Source", data_dir: str | None) -> Path:
    """Find a published file on this machine, and never download it.

    Args:
        source: The published file.
        data_dir: The user's folder of files. None means the downloads.

    Raises:
        DataError: The file is not there.
    """
    from lm_factuality.ground.published import cached_path, locate

    # A folder that the user names takes the place of the downloads.
    if data_dir or os.environ.get("LM_FACTUALITY_DATA"):
        return locate(source, data_dir).path
    path = cached_path(source)
    if not path.is_file():
        raise DataError(
            f"{source.name}: not fetched ({path}); run: lm-factuality data fetch {source.name}"
        )
    return path


def _check_files(names: list[str] | None, find: Callable[["Source"], Path]) -> None:
    """Compare files with the published ones by their git blob ids, and print those that agree.

    A blob id is the hash by which git identifies the content of a file.

    Args:
        names: Names or patterns of published files. None means all of them.
        find: Returns the local path of a published file, or raises DataError.

    Raises:
        DataError: Files are missing or differ from the published ones. The error names them all.
    """
    from lm_factuality.ground.published import blob_id

    problems = []
    for source in _find_sources(names):
        try:
            path = find(source)
            blob = blob_id(path)
        except DataError as error:
            problems.append(str(error))
            continue
        if blob != source.blob:
            problems.append(f"{source.name}: {path} has git blob {blob}, expected {source.blob}")
            continue
        echo(f"{source.name}: {path}: git blob {blob}, as published")
        if source.note:
            echo(f"  {source.note}")
    if problems:
        raise DataError("\n".join(problems))


def _find_sources(patterns: list[str] | None) -> list["Source"]:
    """Find the published data files with these names, each once.

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
        Option(help="Folder with FELM's all.jsonl (default: it is downloaded)."),
    ] = None,
    cache: Annotated[
        Path | None,
        Option("--cache", "--out", help="Folder for the texts (default: the suite's cache)."),
    ] = None,
    report: Annotated[
        Path | None,
        Option(help="JSON file to write, with every link and what became of it."),
    ] = None,
    retry_dead: Annotated[
        bool, Option("--retry-dead", help="Ask again for links that were dead before.")
    ] = False,
    allow_address: Annotated[
        list[str] | None,
        Option(
            metavar="IP:PORT",
            help="Also connect to this private address, such as 127.0.0.1:8123. Can be repeated.",
        ),
    ] = None,
    delay: Annotated[float, Option(help="Seconds between two requests to the same host.")] = 1.0,
    user_agent: Annotated[
        str,
        Option(
            show_default=False,
            help="The name by which servers know you, such as 'my-lab/1.0 (me@example.org)'"
            " (default: the suite's name and version). Some sites require a way to reach you.",
        ),
    ] = _USER_AGENT,
) -> None:
    """Fetch the pages that FELM's rows cite, and keep their texts.

    \b
    Examples:
      lm-factuality data fetch-references --data-dir felm
      lm-factuality data fetch-references --report links.json --user-agent "me@example.org"
      lm-factuality data fetch-references --cache pages --retry-dead

    Fetched texts stay on disk: if the command is interrupted, run it again and it resumes. Dead
    links are remembered too, and --retry-dead asks for them again. The command connects to public
    addresses only, also when a page redirects it, and leaves out pages that robots.txt excludes.
    The exit code is 1 only if no server was reached at all.
    """
    from tqdm import tqdm

    from lm_factuality.benchmarks.felm.rows import FELM
    from lm_factuality.ground.files import check_writable
    from lm_factuality.ground.published import locate
    from lm_factuality.ground.settings import read_settings
    from lm_factuality.retrieval.references.cache import FetchReport, ReferenceCache
    from lm_factuality.retrieval.references.connection import Network
    from lm_factuality.retrieval.references.fetcher import RequestSettings, fetch_references
    from lm_factuality.retrieval.references.links import UNREACHED_KINDS, parse_endpoint

    # A folder that cannot be written should be reported before hours of fetching.
    if report:
        check_writable(report.parent, "the report")
    options = {"user_agent": user_agent, "delay": delay}
    request_settings = read_settings(RequestSettings, options, "fetch-references")
    private_addresses = frozenset(map(parse_endpoint, allow_address or ()))
    network = Network(user_agent=request_settings.user_agent, allowed=private_addresses)

    source = locate(FELM, data_dir).path
    links = _read_links(source)
    text_cache = ReferenceCache(cache)
    fetching = fetch_references(
        links.urls, text_cache, network, request_settings.delay, retry_dead=retry_dead
    )
    # Each page is fetched when the progress bar asks for its outcome.
    outcomes = tuple(tqdm(fetching, "references", len(links.urls), unit="link"))
    fetch_report = FetchReport(outcomes, links.not_links)
    if report:
        fetch_report.write(report)
    _print_fetch_report(fetch_report, source, text_cache.folder, report)
    if all(reference.kind in UNREACHED_KINDS for reference, _ in outcomes):
        raise DataError(
            "no server was reached: check the links and the network, then run the same command with"
            " --retry-dead"
        )


def _read_links(source: Path) -> "Links":
    """Read the links to web pages that FELM's rows cite as references.

    Args:
        source: FELM's file ``all.jsonl``. An entry of its references is text with links in it.

    Raises:
        DataError: The file has no links.
    """
    from lm_factuality.benchmarks.felm.rows import read_felm_rows
    from lm_factuality.retrieval.references.links import collect_links

    entries = [entry for row in read_felm_rows(source) for entry in row.references]
    links = collect_links(entries)
    if not links.urls:
        raise DataError(
            f"{source}: no links among {len(entries)} entries; expected http(s) addresses"
        )
    return links


def _print_fetch_report(
    report: "FetchReport", source: Path, folder: Path, report_path: Path | None
) -> None:
    """Print how many links gave a text, and why other links gave none.

    Args:
        report: The outcome of each link. A dead link is one that gave no text.
        source: The file with the links.
        folder: The folder that holds the texts.
        report_path: The JSON file that lists all links. None if the user asked for none.
    """
    notes = [f"texts: {folder}"]
    if report.not_links:
        notes.append(f"{len(report.not_links)} entries of {source} are not links")
    num_dead_links = sum(reference.is_dead for reference, _ in report.references)
    if num_dead_links:
        notes.append(
            f"{num_dead_links} links are dead; {report_path or '--report FILE'} lists them"
        )

    rows = [
        (outcome, f"{this_run:,}", f"{from_cache:,}", meaning)
        for outcome, this_run, from_cache, meaning in report.counts()
    ]
    # The sign # marks columns of numbers, which are flush right.
    columns = ("outcome", "#this run", "#from cache", "meaning")
    print_table(f"{source}: {len(report.references):,} links", columns, rows, notes)
