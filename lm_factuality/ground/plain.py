"""What a model writes, as plain words: readers of answers see letters, not how they are set."""

import re
import unicodedata

from lm_factuality.ground.thinking import without_thinking

_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u2060\ufeff]")  # soft hyphen, zero-width characters, marks of direction
_SAME = str.maketrans("\u2018\u2019\u201c\u201d\u2010\u2011\u2012\u2013\u2014\u2212", "''\"\"------")
_CODE = re.compile(r"```\w*|`")


def plain(output: str) -> str | None:
    """``output`` without thinking, emphasis, code marks and invisible characters, in compatibility forms (NFKC), with straight
    quotes, plain hyphens and single spaces, empty lines left out; None if the thinking never ends."""
    text = without_thinking(_INVISIBLE.sub("", unicodedata.normalize("NFKC", output)))
    if text is None:
        return None
    text = _CODE.sub("", text.replace("\\_", "_").translate(_SAME))
    text = re.sub(r"_+", _within, re.sub(r"\*+", _within, text))
    return "\n".join(" ".join(line.split()) for line in text.splitlines() if line.strip())


def _within(marks: re.Match[str]) -> str:
    """Stars within a number (1*2 is not 12) and lines within a word (ALL_CORRECT) as they are, else nothing."""
    around = marks.string[max(0, marks.start() - 1) : marks.start()], marks.string[marks.end() : marks.end() + 1]
    return marks[0] if all(map(str.isdigit if marks[0][0] == "*" else str.isalnum, around)) else ""
