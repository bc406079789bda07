"""From the bytes of a document to its text, by a process that a hostile document may crash."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from lm_factuality.retrieval.references import extract
from lm_factuality.retrieval.references.connection import Limits
from lm_factuality.retrieval.references.links import TABLES, DeadLinkError

_KINDS: Mapping[str, str] = TABLES["content_types"]
_HTML = re.compile(rb"<(?:!doctype\s+html|html|head|body|title)\b", re.IGNORECASE)
# The first bytes of a document, by which its kind is guessed.
_NUM_SNIFFED = 1024
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([\w.:-]{1,40})", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True)
class ExtractedText:
    """The text of a document."""

    title: str
    text: str
    note: str
    """What was left out, if anything was."""


def extract_text(headers: Mapping[str, str], body: bytes, limits: Limits) -> ExtractedText:
    """Return the title and text of a document.

    Raises:
        DeadLinkError: There is no text, or it takes too long or too much memory.
    """
    kind = _kind(headers, body)
    charset = _CHARSET.search(headers.get("Content-Type", ""))
    bounds = (limits.max_pages, limits.max_bytes, int(limits.reading) + 1, limits.memory)
    arguments = [kind, charset[1] if charset else "", *map(str, bounds)]
    try:
        process = subprocess.run(  # noqa: S603 (our own program, arguments of fixed form)
            [sys.executable, "-I", extract.__file__, *arguments],
            input=body,
            capture_output=True,
            timeout=limits.reading,
            check=True,
            # No keys for a hostile document to find.
            env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8"},
        )
    except subprocess.TimeoutExpired:
        sentence = f"no text of this {kind} after {limits.reading:g} s"
        raise DeadLinkError("unreadable", sentence) from None
    except subprocess.CalledProcessError as error:
        reason = error.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        sentence = f"this {kind} cannot be read: {reason[:200]}"
        raise DeadLinkError("unreadable", sentence) from None
    extracted = ExtractedText(**json.loads(process.stdout))
    if not extracted.text.strip():
        raise DeadLinkError(
            "no text",
            f"no text in this {kind}; pages made by scripts and scanned documents have none",
        )
    return extracted


def _kind(headers: Mapping[str, str], body: bytes) -> str:
    """Return ``html``, ``plain`` or ``pdf``.

    Raises:
        DeadLinkError: The document is none of these.
    """
    start = body[:_NUM_SNIFFED]
    content_type = headers.get("Content-Type", "").split(";")[0].strip().lower()
    if start.lstrip().startswith(b"%PDF-"):
        return "pdf"
    if content_type in _KINDS:
        return _KINDS[content_type]
    if content_type not in TABLES["unspecific_content_types"] or b"\0" in start:
        sentence = f"its content is {content_type[:60] or 'binary'}, expected HTML, text or PDF"
        raise DeadLinkError("not text", sentence)
    return "html" if _HTML.search(start) else "plain"
