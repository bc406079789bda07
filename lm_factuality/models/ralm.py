"""In-context RALM without torch: its windows, and what the model is shown.

Ram et al. (2023), section 3, with the stride and query length of FACTOR's section 4.3. Pure token arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Window:
    """Up to a stride of ``targets`` (token ids) after all tokens ``before`` them; ``request`` is the number of its request."""

    request: int
    before: list[int]
    targets: list[int]


def windows(requests: Sequence[tuple[list[int], list[int]]], stride: int) -> list[Window]:
    """The continuation of each (context, continuation) in windows of ``stride`` tokens, the last one of what is left."""
    return [
        Window(number, context + continuation[:start], continuation[start : start + stride])
        for number, (context, continuation) in enumerate(requests)
        for start in range(0, len(continuation), stride)
    ]


def augment(
    window: Window, document: Sequence[int], insertion: str, max_length: int, first_token: int | None, limit: int | None = None
) -> tuple[list[int], list[int]]:
    """(context, targets) in tokens, with the document's tokens in it; ``max_length`` is what the model takes as input, ``limit``
    what the task lets it see of everything, targets included (the paper's cap of 1,024), None for no such cap.

    ``paper``: the document stands before the text; of a text that does not fit beside it the beginning is left out. A first
    token that the tokenizer sets before every text stays first. ``code``: the text is cut to ``max_length`` tokens, targets
    included, and the document overwrites its beginning, which the model thus never sees, though there may have been room.
    """
    if not document:
        return window.before, window.targets
    targets = window.targets
    if insertion == "code":
        context = window.before[-(min(max_length, limit or max_length) - len(targets)) :]
        written = list(document)[: len(context)]
        return written + context[len(written) :], targets
    head, text = window.before[:0], window.before
    if first_token is not None and text[:1] == [first_token]:
        head, text = text[:1], text[1:]
    room = min(max_length + 1, limit or max_length + 1) - len(targets) - len(head)
    shown = list(document)[: max(0, room)]
    kept = text[max(0, len(text) - (room - len(shown))) :]
    return [*head, *shown, *kept], targets
