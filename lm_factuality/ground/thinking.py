"""What a model thinks before it speaks, taken off in one place: for evaluated models and judges alike."""

from __future__ import annotations

import re

_TAG = re.compile(r"<(/?)think(?:ing)?>", re.IGNORECASE)


def without_thinking(text: str) -> str | None:
    """``text`` without what stands between ``<think>`` or ``<thinking>`` and its end, and without all before an end that has no
    beginning (some servers keep the beginning to themselves); None if the thinking never ends."""
    spoken: list[str] = []
    position, is_thinking = 0, False
    for tag in _TAG.finditer(text):
        if tag[1]:
            if not is_thinking:
                spoken.clear()
            is_thinking = False
        elif not is_thinking:
            spoken.append(text[position : tag.start()])
            is_thinking = True
        position = tag.end()
    return None if is_thinking else "".join([*spoken, text[position:]])
