"""A passage of evidence: its text and the title it stands under, if it has one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from judges.lexical.words import Text, read

_TITLED = re.compile(r"\s*Title:\s*(?P<title>[^\n]*)\n(?P<text>.*)", re.DOTALL)
_BRACKETS = re.compile(r"\([^()]*\)")


@dataclass(frozen=True)
class Passage:
    """``title`` is empty where there is none; a bracket in it, as in ``Ada Hill (painter)``, tells namesakes apart."""

    text: str
    title: str = ""

    @cached_property
    def words(self) -> Text:
        """The words of title and text, the title as a sentence of its own."""
        return read(f"{self.title}\n{self.text}" if self.title else self.text)

    @cached_property
    def name(self) -> frozenset[str]:
        """The stems of the title without its bracket: the name of what the passage is about."""
        return read(_BRACKETS.sub(" ", self.title)).stems


def parse_passage(text: str) -> Passage:
    """``text`` as a passage; a first line ``Title: ...`` is its title, as the citations of D-FActScore have it."""
    match = _TITLED.fullmatch(text)
    return Passage(match["text"], match["title"].strip()) if match else Passage(text)


def split_passages(joined: str) -> tuple[Passage, ...]:
    """The passages of a text in which each begins with a line ``Title: ...``."""
    return tuple(parse_passage(part) for part in re.split(r"\n(?=Title: )", joined) if part.strip())
