"""Published files, and getting them onto this machine: from a local folder, the cache, or their
repository."""

import hashlib
import logging
import os
import ssl
from dataclasses import dataclass
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from functools import lru_cache
from pathlib import Path

from filelock import FileLock

from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.ground.files import whole_file

logger = logging.getLogger(__name__)

_HOST = "https://raw.githubusercontent.com"
_TIMEOUT = 60  # seconds without a byte
_CERTIFICATES = (
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_FILE",
    "CURL_CA_BUNDLE",
)  # a file, or a folder of them


@dataclass(frozen=True)
class Source:
    """A file in a public git repository, pinned to a commit; ``blob`` is git's id of its content,
    ``rows`` its examples."""

    name: str
    repository: str
    commit: str
    path: str
    blob: str
    license: str
    rows: int

    @property
    def filename(self) -> str:
        return self.path.rsplit("/", 1)[-1]


@dataclass(frozen=True)
class Located:
    """Where a source lies and whether it is the upstream file, byte for byte."""

    source: Source
    path: Path
    blob: str

    @property
    def is_upstream(self) -> bool:
        return self.blob == self.source.blob


def cache_folder() -> Path:
    """Where downloads go: ``LM_FACTUALITY_HOME``, or ``lm-factuality`` in the user's cache
    folder."""
    if home := os.environ.get("LM_FACTUALITY_HOME"):
        return Path(home).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lm-factuality"


@lru_cache(maxsize=1)
def tls_context() -> ssl.SSLContext:
    """Checks certificates against the list that the environment names, else certifi's. Raises
    ConfigError: it is no such list."""
    import httpx

    variable = next(filter(os.environ.get, _CERTIFICATES), None)
    if variable is None:
        return httpx.create_ssl_context()
    path = os.environ[variable]
    try:
        return (
            ssl.create_default_context(capath=path)
            if Path(path).is_dir()
            else ssl.create_default_context(cafile=path)
        )
    except OSError as error:
        raise ConfigError(
            f"{variable}: no certificates in {path} ({error}); name a PEM file, or unset {variable}"
        ) from error


def cached_path(source: Source) -> Path:
    """Where the download of ``source`` lies or will lie."""
    return (
        cache_folder()
        / "data"
        / source.repository.replace("/", "--")
        / source.commit
        / source.filename
    )


def blob_id(path: Path) -> str:
    """The id that git gives to the content of ``path``: SHA-1 of ``blob``, its size, a zero byte
    and the content."""
    content = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def locate(source: Source, data_dir: str | Path | None = None) -> Located:
    """The file of ``source``: in ``data_dir`` (or ``LM_FACTUALITY_DATA``) if one is named, else
    from the cache, else downloaded. A file in a folder that the user names is taken as it is;
    ``Located.is_upstream`` says whether it is the published one. Raises DataError: the named folder
    has no such file, or there is neither a file nor a way to download it."""
    folder = data_dir or os.environ.get("LM_FACTUALITY_DATA")
    if folder:
        path = Path(str(folder)).expanduser() / source.filename
        if not path.is_file():
            raise DataError(
                f"{path}: no such file; the data folder must hold {source.filename} of"
                f" {source.repository}, or leave data_dir and LM_FACTUALITY_DATA unset to"
                " download it"
            )
        located = Located(source, path, blob_id(path))
        if not located.is_upstream:
            said = (
                "%s: %s is not the published file (git blob %s, expected %s); its results are not"
                " comparable with published ones"
            )
            logger.warning(said, source.name, path, located.blob, source.blob)
        return located
    return Located(source, fetch(source), source.blob)


def fetch(source: Source) -> Path:
    """The checked download of ``source``, made now if need be, whole or not at all. Raises
    DataError: no network, or altered."""
    import httpx

    path = cached_path(source)
    if path.is_file():
        if (found := blob_id(path)) != source.blob:
            raise DataError(
                f"{path}: git blob {found}, expected {source.blob} ({source.repository} at"
                f" {source.commit[:12]}); delete it and run: lm-factuality data fetch {source.name}"
            )
        return path
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "TRUE", "YES", "ON"):
        raise _unreachable(source, "HF_HUB_OFFLINE is set")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{path}.lock"):
            if not path.is_file():
                _download(source, path)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise _unreachable(source, str(error).partition("\n")[0] or type(error).__name__) from error
    except OSError as error:
        raise DataError(
            f"{path}: cannot be written: {error}; set LM_FACTUALITY_HOME to a folder that can"
        ) from error
    return path


def _download(source: Source, path: Path) -> None:
    import httpx

    url = f"{os.environ.get('LM_FACTUALITY_MIRROR', _HOST)}/{source.repository}/{source.commit}/{source.path}"  # noqa: E501
    timeout = httpx.Timeout(_TIMEOUT, connect=10)
    response = httpx.get(
        url, timeout=timeout, follow_redirects=True, verify=tls_context()
    ).raise_for_status()
    with whole_file(path) as part:
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


def seconds_of(retry_after: str | None, now: datetime | None = None) -> float | None:
    """Seconds that a ``Retry-After`` header asks for, a number or an HTTP date; None if there is
    none or it is neither."""
    if retry_after is None:
        return None
    try:
        seconds = float(retry_after)
    except ValueError:
        try:
            moment = parsedate_to_datetime(retry_after)
        except ValueError:
            return None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=timezone.utc)
        seconds = (moment - (now or datetime.now(timezone.utc))).total_seconds()
    return max(0.0, seconds) if seconds == seconds and seconds != float("inf") else None
