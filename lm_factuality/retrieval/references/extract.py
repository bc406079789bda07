"""Text of an HTML, PDF or plain document: a program of its own, which a hostile document may crash.

    python -I extract.py KIND CHARSET MAX_PAGES MAX_CHARACTERS SECONDS MEMORY < document > result

It imports nothing of the suite. It writes ``{"title", "text", "note"}`` or ends with an exception.
Resiliparse reads HTML (the main content, or the whole page where that is empty), pypdf reads PDF.
"""

import io
import json
import sys


def main() -> None:
    """Read a document from standard input and write its text to standard output."""
    kind, charset = sys.argv[1:3]
    max_pages, max_characters, seconds, memory = map(int, sys.argv[3:])
    limit_resources(seconds, memory)
    document = sys.stdin.buffer.read()
    note = ""
    if kind == "pdf":
        title, text, note = read_pdf(document, max_pages, max_characters)
    else:
        title, text = (
            read_html(document, charset) if kind == "html" else read_plain(document, charset)
        )
    if len(text) > max_characters:
        text = text[:max_characters]
        note = f"the first {max_characters:,} characters"
    json.dump({"title": " ".join(title.split()), "text": text, "note": note}, sys.stdout)


def limit_resources(seconds: int, memory: int) -> None:
    """Bound this process, where the system can."""
    try:
        import resource
    except ImportError:
        return
    limits = {
        resource.RLIMIT_CPU: seconds,
        resource.RLIMIT_AS: memory,
        resource.RLIMIT_CORE: 0,
    }
    for kind, limit in limits.items():
        try:
            resource.setrlimit(kind, (limit, limit))
        except (OSError, ValueError):
            continue


def read_html(document: bytes, charset: str) -> tuple[str, str]:
    """Return title and text."""
    from resiliparse.extract.html2text import extract_plain_text
    from resiliparse.parse.html import HTMLTree

    tree = HTMLTree.parse_from_bytes(document, find_encoding(document, charset))
    text = extract_plain_text(tree, main_content=True, alt_texts=False)
    if not text.strip():
        text = extract_plain_text(tree, alt_texts=False)
    return tree.title or "", text


def read_plain(document: bytes, charset: str) -> tuple[str, str]:
    """Return no title, and the text."""
    from resiliparse.parse.encoding import bytes_to_str

    encoding = find_encoding(document, charset, from_html_meta=False)
    return "", bytes_to_str(document, encoding, errors="replace")


def find_encoding(document: bytes, charset: str, from_html_meta: bool = True) -> str:
    """Return the encoding that the server names if it exists, else what the document looks like."""
    from resiliparse.parse.encoding import detect_encoding, map_encoding_to_html5

    named = map_encoding_to_html5(charset, fallback_utf8=False) if charset else None
    return named or detect_encoding(document, from_html_meta=from_html_meta) or "utf-8"


def read_pdf(document: bytes, max_pages: int, max_characters: int) -> tuple[str, str, str]:
    """Return title, text and a note on pages that were left out."""
    from pypdf import PdfReader

    reader = PdfReader(io.BytesIO(document))
    if reader.is_encrypted:
        reader.decrypt("")
    texts: list[str] = []
    length = 0
    for page in reader.pages:
        if len(texts) == max_pages or length > max_characters:
            break
        texts.append(page.extract_text())
        length += len(texts[-1])
    title = str((reader.metadata and reader.metadata.title) or "")
    count = len(reader.pages)
    note = f"the first {len(texts)} of {count} pages" if len(texts) < count else ""
    return title, "\n\n".join(texts), note


if __name__ == "__main__":
    main()
