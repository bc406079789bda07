"""The genres of prose that ``genres.yaml`` describes, each with the Debian packages of its texts.

`bench.factor_gen.genre_texts` draws documents of a genre, and `bench.factor_gen.genres` builds
benchmarks from them.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, TypeAdapter

from lm_factuality.ground.suite import read_config

Use = Literal["tuning", "gate", "unread", "held out", "last", "fresh", "language"]
"""What a genre is for. ``genres.yaml`` explains the values."""


class Package(BaseModel):
    """A Debian package of one version."""

    model_config = ConfigDict(extra="forbid")

    name: str
    """The name that apt knows."""

    version: str
    """The version that apt knows."""

    sha256: str
    """The hash of the package's file."""


class Genre(BaseModel):
    """A kind of prose, and how its documents are made of the files of packages."""

    model_config = ConfigDict(extra="forbid")

    name: str
    """Its name, by which users choose it."""

    use: Use
    """Whether rules may be tuned on it, or when people read its contradictions."""

    language: str
    """The language of its texts, such as ``en``."""

    license: str
    """The license of its texts."""

    packages: list[Package]
    """The packages with its texts."""

    files: str | list[str]
    """Patterns of the files within the unpacked packages."""

    reader: Literal["html", "mallard", "man", "text", "entries", "dialogue", "sword"]
    """How a file becomes documents, as `bench.factor_gen.genre_readers` does it."""

    entry: str = ""
    """A regular expression that the readers ``entries`` and ``dialogue`` need.

    For ``entries`` it matches the first line of an entry. For ``dialogue`` its first group is what
    somebody says. The default for ``dialogue`` is the form of Wesnoth's files.
    """

    drop: str = ""
    """A regular expression of what is left out of a document."""

    most_words: int = 600
    """A section with more words ends at the next paragraph."""

    least_words: int = 0
    """The number of words that a document must have, if it is larger than that of all genres."""

    @property
    def file_name(self) -> str:
        """The name of its files and builds."""
        return re.sub(r"\W+", "_", self.name)


class Genres(BaseModel):
    """The content of ``genres.yaml``."""

    model_config = ConfigDict(extra="forbid")

    most_documents: int
    """How many documents of a genre are drawn."""

    least_words: int
    """The number of words that a document must have."""

    genres: list[Genre]
    """The genres."""


def load_genres() -> Genres:
    """Read ``genres.yaml``."""
    content = read_config(Path(__file__).with_name("genres.yaml"))
    return TypeAdapter(Genres).validate_python(content)
