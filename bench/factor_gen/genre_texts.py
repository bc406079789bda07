"""Draws documents of a genre from the files of Debian packages.

`bench.factor_gen.genres` builds benchmarks from them. The packages are pinned by version and hash
in ``genres.yaml``, and the texts are never committed.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from pathlib import Path

from bench.factor_gen.genre_config import Genre, Genres, Package
from bench.factor_gen.genre_readers import count_words, read_documents
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.files import sha256_of, write_text


def draw_documents(genre: Genre, settings: Genres, folder: Path) -> Path:
    """Write some documents of a genre as JSON lines, unless the file is there.

    The documents whose ids have the smallest hashes are drawn. Thus the same ones are drawn
    wherever others are missing.

    Args:
        genre: The genre.
        settings: How many documents to draw, and how many words they must have.
        folder: The folder for the file, and for the packages.

    Returns:
        The path of the file.

    Raises:
        DataError: The pinned version of a package cannot be had, or has no files of the genre.
    """
    target = folder / f"{genre.file_name}.jsonl"
    if target.is_file():
        return target
    texts: dict[str, str] = {}
    for package in genre.packages:
        texts |= _read_package(package, genre, settings, folder / "packages")
    drawn_names = sorted(texts, key=_hash_of_name)[: settings.most_documents]
    lines = []
    for name in drawn_names:
        document = {"id": name, "text": texts[name]}
        lines.append(json.dumps(document, ensure_ascii=False) + "\n")
    write_text(target, "".join(lines))
    return target


def _read_package(
    package: Package, genre: Genre, settings: Genres, packages_folder: Path
) -> dict[str, str]:
    """Return the documents of a genre in a package that are long enough, by their ids."""
    root = unpack_package(package, packages_folder)
    paths = _find_files(genre, package, root)
    # Manuals may have many files called index.html. Then their folders tell them apart.
    has_one_name = len(paths) > 1 and len({path.name for path in paths}) == 1
    least_words = max(settings.least_words, genre.least_words)
    texts = {}
    for path in paths:
        name = path.relative_to(root).as_posix() if has_one_name else path.name
        for number, document in enumerate(read_documents(path, genre)):
            text = re.sub(genre.drop, "", document) if genre.drop else document
            if count_words(text) >= least_words:
                texts[f"{name}#{number}"] = text
    return texts


def unpack_package(package: Package, folder: Path) -> Path:
    """Download a package with apt and unpack it, unless it is there.

    Args:
        package: The package.
        folder: The folder for all packages.

    Returns:
        The folder with the files of the package.

    Raises:
        DataError: apt has no such version, or its file has another hash.
    """
    folder.mkdir(parents=True, exist_ok=True)
    root = folder / package.name
    if root.is_dir():
        return root
    archive = _download_package(package, folder)
    sha256 = sha256_of(archive)
    if sha256 != package.sha256:
        raise DataError(
            f"{archive.name}: sha256 is {sha256}, expected {package.sha256};"
            " pin it in genres.yaml if that is right"
        )
    # An interrupted command must not leave the final folder with a part of the files.
    unfinished = folder / f".{package.name}.part"
    subprocess.run(["dpkg-deb", "-x", str(archive), str(unfinished)], check=True)
    return unfinished.rename(root)


def _download_package(package: Package, folder: Path) -> Path:
    """Download the file of a package to a folder with apt, and return its path.

    Raises:
        DataError: apt has no such version.
    """
    # The name of the file depends on apt, so that only the new one may match the pattern.
    pattern = f"{package.name}_*.deb"
    for old_archive in folder.glob(pattern):
        old_archive.unlink()
    apt = subprocess.run(
        ["apt-get", "download", "-qq", f"{package.name}={package.version}"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    archives = sorted(folder.glob(pattern))
    if apt.returncode or not archives:
        raise DataError(
            f"{package.name}={package.version}: apt has no such package"
            f" ({apt.stderr.strip()[-300:]}); run apt-get update on Debian 12, or pin the version"
            " it has in genres.yaml"
        )
    return archives[0]


def _find_files(genre: Genre, package: Package, root: Path) -> list[Path]:
    """Return the files of a genre in an unpacked package, sorted.

    Raises:
        DataError: There are none.
    """
    patterns = [genre.files] if isinstance(genre.files, str) else genre.files
    # A set, because two patterns may match the same file.
    paths: set[Path] = set()
    for pattern in patterns:
        paths.update(path for path in root.glob(pattern) if path.is_file())
    if not paths:
        raise DataError(
            f"{package.name} {package.version}: holds no {genre.files}; mend files in genres.yaml"
        )
    return sorted(paths)


def _hash_of_name(name: str) -> str:
    """Return the hash that orders documents as if at random."""
    return hashlib.sha256(name.encode()).hexdigest()
