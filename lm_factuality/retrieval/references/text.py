"""From the bytes of a document to its text."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from email.message import Message

from lm_factuality.retrieval.references import extract
from lm_factuality.retrieval.references.connection import Limits
from lm_factuality.retrieval.references.links import TABLES, Dead

_KINDS: Mapping[str, str] = TABLES["content_types"]
_UNSAID: Sequence[str] = TABLES["content_types_that_say_nothing"]
_HTML = re.compile(rb"<(?:!doctype\s+html|html|head|body|title)\b", re.IGNORECASE)
_SNIFFED = 1024  # bytes
_CHARSET = re.compile(r"[\w.:-]{1,40}", re.ASCII)


@dataclass(frozen=True)
class Extracted:
    """``note`` says what was left out, if anything was."""

    title: str
    text: str
    note: str


def accept(headers: Mapping[str, str]) -> None:
    """Raises ``Dead`` if the content type is none that is read; one that says nothing is left to
    ``read_text``."""
    content_type = _content_type(headers)
    if content_type not in _KINDS and content_type not in _UNSAID:
        raise Dead(
            "not text",
            f"its content is {content_type[:60]}, expected HTML, plain text or PDF",
            status=200,
        )


def read_text(headers: Mapping[str, str], body: bytes, limits: Limits) -> Extracted:
    """Title and text of a document, by a process of its own within ``limits.reading`` seconds.
    Raises Dead: there is none."""
    kind = _kind(headers, body)
    most = (limits.max_pages, limits.max_bytes, int(limits.reading) + 1, limits.memory)
    try:
        done = subprocess.run(  # noqa: S603 (our own program, arguments of fixed form)
            [sys.executable, "-I", extract.__file__, kind, _charset(headers), *map(str, most)],
            input=body,
            capture_output=True,
            timeout=limits.reading,
            check=False,
            env={
                "PATH": os.environ.get("PATH", ""),
                "LC_ALL": "C.UTF-8",
            },  # no keys for a hostile document to find
        )
    except subprocess.TimeoutExpired:
        raise Dead(
            "unreadable", f"no text of this {kind} after {limits.reading:g} s", status=200
        ) from None
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        why = (
            lines[-1][:200]
            if lines and done.returncode > 0
            else f"the reader ended with {done.returncode}"
        )
        raise Dead("unreadable", f"this {kind} cannot be read: {why}", status=200)
    extracted = Extracted(**json.loads(done.stdout))
    if not extracted.text.strip():
        raise Dead(
            "no text",
            f"no text in this {kind}; pages made by scripts and scanned documents have none",
            status=200,
        )
    return extracted


def _kind(headers: Mapping[str, str], body: bytes) -> str:
    """``html``, ``plain`` or ``pdf``: what a PDF's first bytes say, else the content type, else
    what it looks like."""
    start = body[:_SNIFFED]
    if start.lstrip().startswith(b"%PDF-"):
        return "pdf"
    if kind := _KINDS.get(_content_type(headers)):
        return kind
    if _HTML.search(start):
        return "html"
    is_text = b"\0" not in start
    try:
        start.decode("utf-8")
    except UnicodeDecodeError as error:
        is_text = is_text and error.start > len(start) - 4  # a character cut in two by the slice
    if not is_text:
        raise Dead(
            "not text",
            "its content has no named type and is neither HTML, text nor PDF",
            status=200,
        )
    return "plain"


def _content_type(headers: Mapping[str, str]) -> str:
    return headers.get("Content-Type", "").split(";")[0].strip().lower()


def _charset(headers: Mapping[str, str]) -> str:
    message = Message()
    message["Content-Type"] = headers.get("Content-Type", "")
    charset = str(message.get_content_charset(""))
    return charset if _CHARSET.fullmatch(charset) else ""
