"""The papers' published data files, in a local folder, in the cache or in their repositories.

Benchmarks and ``lm-factuality data`` call `locate` and `fetch`.
"""

import hashlib
import logging
import os
from dataclasses import dataclass
from glob import escape
from pathlib import Path

from lm_factuality.ground.errors import DataError, listed
from lm_factuality.ground.files import whole_file
from lm_factuality.ground.packages import first_line

logger = logging.getLogger(__name__)

_HOST = "https://raw.githubusercontent.com"
_TIMEOUT = 60  # seconds to wait for the next byte
_CONNECT_TIMEOUT = 10  # seconds to wait for the connection


@dataclass(frozen=True)
class Source:
    """A file in a public git repository, pinned to a commit."""

    name: str
    """The name by which ``lm-factuality data fetch`` knows the file."""

    repository: str
    """The owner and the name of the repository on GitHub."""

    commit: str
    path: str
    """The path of the file in the repository."""

    blob: str
    """Git's id of the file's content, in hexadecimal."""

    license: str
    rows: int
    """The number of examples in the file."""

    note: str = ""
    """What users need to know besides, such as what the file lacks."""

    @property
    def filename(self) -> str:
        """The file's name without its folders."""
        return Path(self.path).name


@dataclass(frozen=True)
class Located:
    """The copy of a source on this machine."""

    source: Source
    path: Path
    blob: str
    """Git's id of the copy's content, which may differ from that of the source."""

    @property
    def is_published(self) -> bool:
        """Whether the copy equals the published file, byte for byte."""
        return self.blob == self.source.blob


def cache_folder() -> Path:
    """Return the folder for downloads.

    Returns:
        The folder in ``LM_FACTUALITY_HOME``, or ``lm-factuality`` in the user's cache folder.
    """
    home = os.environ.get("LM_FACTUALITY_HOME")
    if home:
        return Path(home).expanduser()
    user_cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(user_cache) / "lm-factuality"


def cached_path(source: Source) -> Path:
    """Return the path of a source's download in the cache, whether or not it exists."""
    repository = source.repository.replace("/", "--")
    return cache_folder() / "data" / repository / source.commit / source.filename


def blob_id(path: Path) -> str:
    """Compute the id that git gives to the content of a file.

    Returns:
        The SHA-1 of ``blob``, a space, the size in bytes, a zero byte and the content, in
        hexadecimal.
    """
    content = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def locate(source: Source, data_dir: str | Path | None = None) -> Located:
    """Find the copy of a published file on this machine, or download it.

    A copy that differs from the published file is used, with a warning in the log.

    Args:
        source: The published file.
        data_dir: The folder with the copy, which may be in a subfolder. None takes the folder in
            ``LM_FACTUALITY_DATA`` or, if that is not set, the cache, to which the file is
            downloaded if necessary.

    Returns:
        The copy.

    Raises:
        DataError: The folder has no such file or several, or the file cannot be downloaded.
    """
    folder = data_dir or os.environ.get("LM_FACTUALITY_DATA")
    if not folder:
        # `fetch` has compared the content, so its id is that of the source.
        return Located(source, fetch(source), source.blob)

    path = find_copy(source, Path(folder).expanduser())
    located = Located(source, path, blob_id(path))
    if not located.is_published:
        logger.warning(
            "%s: %s is not the published file (git blob %s, expected %s); its results are not"
            " comparable with published ones",
            source.name,
            path,
            located.blob,
            source.blob,
        )
    return located


def find_copy(source: Source, folder: Path) -> Path:
    """Find the copy of a published file in a folder of the user.

    Args:
        source: The published file.
        folder: The folder. Its subfolders are searched if the file is not directly in it.

    Returns:
        The copy, whose content may differ from the published one.

    Raises:
        DataError: There is no copy, or there are several and none has the published content.
    """
    path = folder / source.filename
    if path.is_file():
        return path

    copies = sorted(file for file in folder.rglob(escape(source.filename)) if file.is_file())
    if not copies:
        raise DataError(
            f"{path}: no such file, nor in a subfolder; the data folder must hold"
            f" {source.filename} of {source.repository}, or leave data_dir and LM_FACTUALITY_DATA"
            " unset to download it"
        )
    # Another data set may have a file of the same name.
    published = [copy for copy in copies if blob_id(copy) == source.blob]
    if not published and len(copies) > 1:
        raise DataError(
            f"{folder}: found {listed(copies)}, none of which is {source.filename} of"
            f" {source.repository} as published; name the folder of the right one"
        )
    return (published or copies)[0]


def fetch(source: Source) -> Path:
    """Return the path of a published file in the cache, and download it if it is not there.

    Args:
        source: The published file.

    Raises:
        DataError: The file cannot be downloaded, or the cached or downloaded content is not the
            published one.
    """
    path = cached_path(source)
    if not path.is_file():
        _download(source, path)
        return path

    blob = blob_id(path)
    if blob != source.blob:
        raise DataError(
            f"{path}: git blob {blob}, expected {source.blob} ({source.repository} at"
            f" {source.commit[:12]}); delete it and run: lm-factuality data fetch {source.name}"
        )
    return path


def _download(source: Source, path: Path) -> None:
    """Download a published file from GitHub, or from the server in ``LM_FACTUALITY_MIRROR``.

    Args:
        source: The published file.
        path: The file to write. It appears only if its content is the published one.

    Raises:
        DataError: The server cannot be reached, sent something else, or the file cannot be
            written.
    """
    import httpx

    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "TRUE", "YES", "ON"):
        raise _unreachable(source, "HF_HUB_OFFLINE is set")

    host = os.environ.get("LM_FACTUALITY_MIRROR", _HOST)
    url = f"{host}/{source.repository}/{source.commit}/{source.path}"
    timeout = httpx.Timeout(_TIMEOUT, connect=_CONNECT_TIMEOUT)
    try:
        response = httpx.get(url, timeout=timeout, follow_redirects=True).raise_for_status()
    # An OSError means that the certificates of this machine are damaged.
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        raise _unreachable(source, first_line(error)) from error

    advice = "set LM_FACTUALITY_HOME to a folder that can be written"
    with whole_file(path, advice=advice) as temporary:
        temporary.write_bytes(response.content)
        # The error leaves the block, so the file never appears in the cache.
        if blob_id(temporary) != source.blob:
            raise DataError(
                f"{source.name}: what {url} sent is not git blob {source.blob}; nothing was kept,"
                " try again later"
            )


def _unreachable(source: Source, reason: str) -> DataError:
    """Return the error for a file that cannot be downloaded, with two ways to get it."""
    return DataError(
        f"{source.name} is not on this machine and cannot be downloaded ({reason}): either run"
        f" 'lm-factuality data fetch {source.name}' where there is a network and copy"
        f" {cached_path(source)} here, or point LM_FACTUALITY_DATA (in a run also --metadata"
        f" data_dir=DIR) at a folder with {source.filename}."
    )
