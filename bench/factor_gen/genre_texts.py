"""Texts of many genres out of Debian packages: pinned in ``genres.yaml``, checked by hash, drawn by
a fixed rule, never committed."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import struct
import subprocess
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from lxml import etree, html
from pydantic import BaseModel, ConfigDict, TypeAdapter

from lm_factuality.ground.errors import DataError
from lm_factuality.ground.files import sha256_of, write_text
from lm_factuality.ground.suite import read_config

_PARAGRAPHS = {"p", "para", "dd", "dt", "li", "title", "h1", "h2", "h3", "h4", "h5", "h6"}
_HEADINGS = {"h1", "h2", "h3", "title"}
_SKIPPED = {
    "pre",
    "table",
    "nav",
    "script",
    "style",
    "footer",
    "form",
    "screen",
    "code-block",
    "info",
    "media",
    "header",
}
_SKIPPED_CLASSES = re.compile(
    r"\b(?:toc|navheader|navfooter|docnav|related|sphinxsidebar|footer|headerlink|sidebar|para-code)\b"
)
Use = Literal["tuning", "gate", "unread", "held out", "last", "fresh", "language"]
_QUOTED = r'(?:message|story)\s*=\s*_\s*"((?:[^"]|"")*)"'


class Package(BaseModel):
    """A Debian package of one version."""

    model_config = ConfigDict(extra="forbid")
    name: str
    version: str
    sha256: str


class Genre(BaseModel):
    """``use`` says whether rules may be tuned on it. ``files`` are patterns within the packages;
    ``entry`` is the first line of an entry, where ``reader`` is entries, and what is said in its
    first group, where it is dialogue; ``drop`` is left out of a text; sections longer than
    ``most_words`` are cut at a paragraph; documents have ``least_words`` or what all genres must
    have."""

    model_config = ConfigDict(extra="forbid")
    name: str
    use: Use
    language: str
    license: str
    packages: list[Package]
    files: str | list[str]
    reader: Literal["html", "mallard", "man", "text", "entries", "dialogue", "sword"]
    entry: str = ""
    drop: str = ""
    most_words: int = 600
    least_words: int = 0

    @property
    def file_name(self) -> str:
        """Its name as a file, and with it a build, may be called."""
        return re.sub(r"\W+", "_", self.name)


class Genres(BaseModel):
    """``each``: documents of a genre at most; ``least_words``: of a document, counted in characters
    by fours without spaces."""

    model_config = ConfigDict(extra="forbid")
    each: int
    least_words: int
    genres: list[Genre]


def load_genres() -> Genres:
    """The genres of ``genres.yaml``."""
    return TypeAdapter(Genres).validate_python(read_config(Path(__file__).with_name("genres.yaml")))


def draw(genre: Genre, settings: Genres, folder: Path) -> Path:
    """Writes ``folder/NAME.jsonl``, ``settings.each`` documents of the genre: those whose ids have
    the smallest hashes.

    Raises:
        DataError: a package cannot be had in the pinned version, or holds no such files.
    """
    target = folder / f"{genre.file_name}.jsonl"
    if target.is_file():
        return target
    texts: dict[str, str] = {}
    for package in genre.packages:
        root = unpacked(package, folder / "packages")
        patterns = [genre.files] if isinstance(genre.files, str) else genre.files
        files = sorted(
            {path for pattern in patterns for path in root.glob(pattern) if path.is_file()}
        )
        if not files:
            raise DataError(
                f"{package.name} {package.version}: holds no {genre.files}; mend files in genres.yaml"
            )
        alike = len({path.name for path in files}) == 1 < len(files)
        for path in files:
            name = path.relative_to(root).as_posix() if alike else path.name
            for number, text in enumerate(_READERS[genre.reader](path, genre)):
                text = re.sub(genre.drop, "", text) if genre.drop else text
                if _words(text) >= max(settings.least_words, genre.least_words):
                    texts[f"{name}#{number}"] = text
    order = sorted(texts, key=lambda name: hashlib.sha256(name.encode()).hexdigest())[
        : settings.each
    ]
    lines = [json.dumps({"id": name, "text": texts[name]}, ensure_ascii=False) for name in order]
    write_text(target, "".join(f"{line}\n" for line in lines))
    return target


def unpacked(package: Package, folder: Path) -> Path:
    """The folder that the package is unpacked in; downloaded by apt unless it is there.

    Raises:
        DataError: apt has no such version, or its file has another hash.
    """
    folder.mkdir(parents=True, exist_ok=True)
    root = folder / package.name
    if root.is_dir():
        return root
    for old in folder.glob(f"{package.name}_*.deb"):
        old.unlink()
    got = subprocess.run(
        ["apt-get", "download", "-qq", f"{package.name}={package.version}"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    found = sorted(folder.glob(f"{package.name}_*.deb"))
    if got.returncode or not found:
        raise DataError(
            f"{package.name}={package.version}: apt has no such package ({got.stderr.strip()[-300:]}); "
            "run apt-get update on Debian 12, or pin the version it has in genres.yaml"
        )
    if (hashed := sha256_of(found[0])) != package.sha256:
        raise DataError(
            f"{found[0].name}: sha256 is {hashed}, expected {package.sha256}; pin it in genres.yaml if that is right"
        )
    part = folder / f".{package.name}.part"
    subprocess.run(["dpkg-deb", "-x", str(found[0]), str(part)], check=True)
    return part.rename(root)


def _words(text: str) -> int:
    """Words; where a script has no spaces, two signs count as one."""
    return max(len(text.split()), sum("\u3400" <= sign <= "\u9fff" for sign in text) // 2)


def _plain(path: Path) -> str:
    raw = path.read_bytes()
    return (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode("utf-8", "replace")


def _sections(paragraphs: Iterable[tuple[str, str]], genre: Genre) -> Iterator[str]:
    """Documents of (tag, text), a paragraph a line: each begins at a heading or where one grows
    long."""
    lines: list[str] = []
    words = 0
    for tag, text in paragraphs:
        if lines and (tag in _HEADINGS or words > genre.most_words):
            yield "\n".join(lines)
            lines, words = [], 0
        lines.append(text)
        words += _words(text)
    if lines:
        yield "\n".join(lines)


def _html(path: Path, genre: Genre) -> Iterator[str]:
    tree = html.fromstring(
        path.read_bytes().replace(b"<?xml", b"<?x"), parser=html.HTMLParser(encoding="utf-8")
    )
    bodies = [tree.find(".//main"), tree.find(".//body"), tree]  # a piece of a page has none
    return _sections(_paragraphs(next(each for each in bodies if each is not None)), genre)


def _mallard(path: Path, _: Genre) -> Iterator[str]:
    yield "\n".join(text for _, text in _paragraphs(etree.parse(str(path)).getroot()))


def _paragraphs(root: etree._Element) -> Iterator[tuple[str, str]]:
    """(tag, text) of the paragraphs in order; of what a paragraph holds only its own words, and of
    lists and tables none."""
    if not isinstance(root.tag, str):
        return
    tag = etree.QName(root).localname
    if tag in _SKIPPED or _SKIPPED_CLASSES.search(root.get("class") or ""):
        return
    is_para = tag in _PARAGRAPHS or "para" in (root.get("class") or "").split()
    words = [root.text or ""]
    for child in root:
        if is_para and not _holds_block(child):
            words.append(_inner(child) if isinstance(child.tag, str) else "")
        else:
            yield from _line(tag, words, is_para)
            words = []
            yield from _paragraphs(child)
        words.append(child.tail or "")
    yield from _line(tag, words, is_para)


def _line(tag: str, words: Sequence[str], is_para: bool) -> Iterator[tuple[str, str]]:
    if is_para and (text := " ".join("".join(words).split())):
        yield tag, text


def _holds_block(element: etree._Element) -> bool:
    return any(isinstance(each.tag, str) and _is_block(each) for each in element.iter())


def _is_block(element: etree._Element) -> bool:
    tag = etree.QName(element).localname
    return (
        tag in _PARAGRAPHS | {"pre", "table", "ul", "ol", "dl"}
        or "para" in (element.get("class") or "").split()
    )


def _inner(element: etree._Element) -> str:
    """Its words, without marks that lead to itself, such as a paragraph sign behind a heading."""
    if _SKIPPED_CLASSES.search(element.get("class") or ""):
        return ""
    children = (
        f"{_inner(child) if isinstance(child.tag, str) else ''}{child.tail or ''}"
        for child in element
    )
    return f"{element.text or ''}{''.join(children)}"


def _man(path: Path, _: Genre) -> Iterator[str]:
    command = ["groff", "-mandoc", "-Tascii", "-rLL=78n", "-P-cbou"]
    source = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    shown = subprocess.run(
        command,
        input=source,
        capture_output=True,
        check=True,
        env={**os.environ, "GROFF_NO_SGR": "1"},
    )
    yield shown.stdout.decode("ascii", "replace")


def _text(path: Path, _: Genre) -> Iterator[str]:
    yield _plain(path)


def _entries(path: Path, genre: Genre) -> Iterator[str]:
    text = _plain(path)
    starts = [found.start() for found in re.finditer(genre.entry, text, re.MULTILINE)]
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        yield text[start:end].strip("\n")


def _dialogue(path: Path, genre: Genre) -> Iterator[str]:
    found = re.findall(genre.entry or _QUOTED, _plain(path))
    said = (re.sub(r"\\?\s+", " ", line).replace('""', '"').strip() for line in found)
    return _sections((("p", line) for line in said if line), genre)


def _sword(path: Path, genre: Genre) -> Iterator[str]:
    """Sections of a commentary: ``.bzz`` holds its books, each packed, ``.bzs`` the start, packed
    size and size of each."""
    raw = path.read_bytes()
    for start, size, _ in struct.iter_unpack("<3I", path.with_suffix(".bzs").read_bytes()):
        if size:
            marked = zlib.decompress(raw[start : start + size]).decode("utf-8")
            yield from _sections(
                _paragraphs(html.fromstring(re.sub(r'<div [^>]*type="x-p"/>', "<p>", marked))),
                genre,
            )


_READERS: Mapping[str, Callable[[Path, Genre], Iterator[str]]] = {
    "html": _html,
    "mallard": _mallard,
    "man": _man,
    "text": _text,
    "entries": _entries,
    "dialogue": _dialogue,
    "sword": _sword,
}
