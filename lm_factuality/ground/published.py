"""Published files, and getting them onto this machine: from a local folder, the cache, or their
repository."""

import hashlib
import logging
import os
from dataclasses import dataclass
from pathlib import Path

from lm_factuality.ground.errors import DataError
from lm_factuality.ground.files import whole_file
from lm_factuality.ground.packages import first_line

logger = logging.getLogger(__name__)

_HOST = "https://raw.githubusercontent.com"
_TIMEOUT = 60  # seconds without a byte


@dataclass(frozen=True)
class Source:
    """A file in a public git repository, pinned to a commit."""

    name: str
    repository: str
    commit: str
    path: str
    """Where it is in the repository."""

    blob: str
    """Git's id of its content."""

    license: str
    rows: int
    """The number of its examples."""

    @property
    def filename(self) -> str:
        return Path(self.path).name


@dataclass(frozen=True)
class Located:
    """Where a source lies."""

    source: Source
    path: Path
    blob: str

    @property
    def is_upstream(self) -> bool:
        """Whether it is the upstream file, byte for byte."""
        return self.blob == self.source.blob


def cache_folder() -> Path:
    """Where downloads go: ``LM_FACTUALITY_HOME``, or ``lm-factuality`` in the user's cache
    folder."""
    home = os.environ.get("LM_FACTUALITY_HOME")
    if home:
        return Path(home).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lm-factuality"


def cached_path(source: Source) -> Path:
    """Where the download of ``source`` lies or will lie."""
    repository = source.repository.replace("/", "--")
    return cache_folder() / "data" / repository / source.commit / source.filename


def blob_id(path: Path) -> str:
    """The id that git gives to the content of ``path``: SHA-1 of ``blob``, its size, a zero byte
    and the content."""
    content = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def locate(source: Source, data_dir: str | Path | None = None) -> Located:
    """Find the file of a source.

    Args:
        source: The source.
        data_dir: A folder that has it. Otherwise it is in ``LM_FACTUALITY_DATA`` if that is set,
            or in the cache, where it is downloaded to if need be.

    Raises:
        DataError: The folder has no such file, or there is neither a file nor a way to download it.
    """
    folder = data_dir or os.environ.get("LM_FACTUALITY_DATA")
    if not folder:
        return Located(source, fetch(source), source.blob)
    path = Path(folder).expanduser() / source.filename
    if not path.is_file():
        raise DataError(
            f"{path}: no such file; the data folder must hold {source.filename} of"
            f" {source.repository}, or leave data_dir and LM_FACTUALITY_DATA unset to download it"
        )
    located = Located(source, path, blob_id(path))
    if not located.is_upstream:
        logger.warning(
            "%s: %s is not the published file (git blob %s, expected %s); its results are not"
            " comparable with published ones",
            source.name,
            path,
            located.blob,
            source.blob,
        )
    return located


def fetch(source: Source) -> Path:
    """Return the download of a source, made now if need be, whole or not at all.

    Raises:
        DataError: There is no network, or what is there or was sent is not the published file.
    """
    path = cached_path(source)
    if not path.is_file():
        _download(source, path)
    elif blob_id(path) != source.blob:
        raise DataError(
            f"{path}: git blob {blob_id(path)}, expected {source.blob} ({source.repository} at"
            f" {source.commit[:12]}); delete it and run: lm-factuality data fetch {source.name}"
        )
    return path


def _download(source: Source, path: Path) -> None:
    import httpx

    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "TRUE", "YES", "ON"):
        raise _unreachable(source, "HF_HUB_OFFLINE is set")
    host = os.environ.get("LM_FACTUALITY_MIRROR", _HOST)
    url = f"{host}/{source.repository}/{source.commit}/{source.path}"
    timeout = httpx.Timeout(_TIMEOUT, connect=10)
    try:
        response = httpx.get(url, timeout=timeout, follow_redirects=True).raise_for_status()
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:  # OSError: bad certificates
        raise _unreachable(source, first_line(error)) from error
    with whole_file(path, cure="set LM_FACTUALITY_HOME to a folder that can") as part:
        part.write_bytes(response.content)
        if blob_id(part) != source.blob:
            raise DataError(
                f"{source.name}: what {url} sent is not git blob {source.blob}; nothing was kept,"
                " try again later"
            )


def _unreachable(source: Source, why: str) -> DataError:
    return DataError(
        f"{source.name} is not on this machine and cannot be downloaded ({why}): either run"
        f" 'lm-factuality data fetch {source.name}' where there is a network and copy"
        f" {cached_path(source)} here, or point LM_FACTUALITY_DATA (in a run also --metadata"
        f" data_dir=DIR) at a folder with {source.filename}."
    )
