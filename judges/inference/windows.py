"""Passages cut into windows that fit a model, each from the beginning of a sentence to the end of one, with an overlap."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Any

from judges.inference import Titled

_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")  # half a sentence may say the reverse of the whole
_OVERLAP = 4  # a quarter of a window is in the one before it too


class Windows:
    """Cuts by the tokens of ``tokenizer``, a fast one; passages that several claims are held against are cut once."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._known: dict[tuple[tuple[Titled, ...], int], list[str]] = {}

    def of(self, passages: tuple[Titled, ...], size: int) -> list[str]:
        """Texts of at most ``size`` tokens that hold all ``passages``, each part of one under its title, as ALCE writes it. Short
        passages share a window."""
        if (passages, size) not in self._known:
            self._known[passages, size] = self._packed(passages, size)
        return self._known[passages, size]

    def _packed(self, passages: Sequence[Titled], size: int) -> list[str]:
        packed: list[str] = []
        used = 0
        for passage in passages:
            lead = f"Title: {passage.title}\n" if passage.title else ""
            lead_tokens = len(self._spans(lead))
            if 2 * lead_tokens > size:
                lead, lead_tokens = "", 0
            for text in self._cut(passage.text, size - lead_tokens - 1):
                length = lead_tokens + len(self._spans(text)) + 1
                if packed and used + length <= size:
                    packed[-1], used = f"{packed[-1]}\n{lead}{text}", used + length
                else:
                    packed.append(lead + text)
                    used = length
        return packed

    def _cut(self, text: str, size: int) -> Iterator[str]:
        spans = self._spans(text)
        starts = [start for start, _ in spans]
        sentences = sorted({bisect_left(starts, match.end()) for match in _SENTENCE.finditer(text)})
        begin = 0
        while len(spans) - begin > size:
            last = bisect_right(sentences, begin + size) - 1
            stop = sentences[last] if last >= 0 and sentences[last] > begin + size // 2 else begin + size
            yield text[spans[begin][0] : spans[stop - 1][1]].strip()
            following = bisect_left(sentences, stop - size // _OVERLAP)
            begin = (
                sentences[following] if following < len(sentences) and sentences[following] <= stop else stop - size // _OVERLAP
            )
        yield text[spans[begin][0] :].strip() if spans else text

    def _spans(self, text: str) -> list[tuple[int, int]]:
        asked = {"add_special_tokens": False, "return_offsets_mapping": True, "verbose": False}
        found: list[tuple[int, int]] = self._tokenizer(text, **asked)["offset_mapping"]
        return found
