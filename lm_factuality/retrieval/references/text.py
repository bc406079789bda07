"""The text of a downloaded document, whose kind its HTTP headers and its first bytes tell.

`fetcher` calls it for each document that it has downloaded.
"""

import re
from collections.abc import Mapping

from lm_factuality.documents.document import UnreadableError
from lm_factuality.documents.extract import ExtractedText
from lm_factuality.documents.isolated import ExtractionLimits, extract_in_process
from lm_factuality.retrieval.references.connection import Limits
from lm_factuality.retrieval.references.links import TABLES, DeadLinkError

# The kind of a document, ``html``, ``plain`` or ``pdf``, by its content type.
_KINDS: Mapping[str, str] = TABLES["content_types"]
_HTML_TAG = re.compile(rb"<(?:!doctype\s+html|html|head|body|title)\b", re.IGNORECASE)
# The number of bytes at the start of a document from which its kind is guessed.
_NUM_SNIFFED = 1024
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([\w.:-]{1,40})", re.ASCII | re.IGNORECASE)


def extract_text(headers: Mapping[str, str], body: bytes, limits: Limits) -> ExtractedText:
    """Extract the title and the text of a downloaded document in a separate process.

    Args:
        headers: The headers of the HTTP response, whose content type tells the kind of document.
        body: The document: HTML, PDF or plain text.
        limits: The limits of pages, characters, time and memory.

    Raises:
        DeadLinkError: The document has no text or another kind, or exceeds the time or the memory.
    """
    kind = _kind_of_document(headers, body)
    charset = _CHARSET.search(headers.get("Content-Type", ""))
    extraction_limits = ExtractionLimits(
        max_pages=limits.max_pages,
        # A text has no more characters than bytes. The text of a hostile PDF could be far longer.
        max_characters=limits.max_bytes,
        seconds=limits.extraction_seconds,
        memory=limits.extraction_memory,
    )
    try:
        extracted = extract_in_process(body, kind, charset[1] if charset else "", extraction_limits)
    except UnreadableError as error:
        raise DeadLinkError("unreadable", str(error)) from None

    if not extracted.text.strip():
        raise DeadLinkError(
            "no text",
            f"no text in this {kind}; pages made by scripts and scanned documents have none",
        )
    return extracted


def _kind_of_document(headers: Mapping[str, str], body: bytes) -> str:
    """Return the kind of a document: ``html``, ``plain`` or ``pdf``.

    Args:
        headers: The headers of the HTTP response.
        body: The document. Its first bytes decide if the content type is missing or unspecific.

    Raises:
        DeadLinkError: The document is of another kind, such as an image.
    """
    start = body[:_NUM_SNIFFED]
    # The header may have parameters: "text/html; charset=utf-8".
    content_type = headers.get("Content-Type", "").split(";")[0].strip().lower()

    # Many servers send a PDF with a wrong content type.
    if start.lstrip().startswith(b"%PDF-"):
        return "pdf"
    if content_type in _KINDS:
        return _KINDS[content_type]
    # Types such as "application/octet-stream" say nothing, but a text contains no zero byte.
    if content_type not in TABLES["unspecific_content_types"] or b"\0" in start:
        raise DeadLinkError(
            "not text",
            f"its content is {content_type[:60] or 'binary'}, expected HTML, text or PDF",
        )
    return "html" if _HTML_TAG.search(start) else "plain"
