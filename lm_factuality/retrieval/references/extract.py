"""Text of an HTML, PDF or plain document: a program of its own, run as a file, that a hostile
document may crash.

    python -I extract.py KIND CHARSET MAX_PAGES MAX_CHARACTERS SECONDS MEMORY < document >
    result.json

It imports nothing of the suite. It writes ``{"title", "text", "note"}``, or ends with an exception.
HTML goes through Resiliparse (the main content; the whole page where that is empty), PDF through
pypdf."""

import io
import json
import sys


def html(document: bytes, charset: str) -> tuple[str, str, str]:
    """Title, text, and a note on what was left out."""
    from resiliparse.extract.html2text import extract_plain_text
    from resiliparse.parse.html import HTMLTree

    tree = HTMLTree.parse_from_bytes(document, encoding(document, charset, from_html_meta=True))
    text = extract_plain_text(tree, main_content=True, alt_texts=False)
    return tree.title or "", text if text.strip() else extract_plain_text(tree, alt_texts=False), ""


def plain(document: bytes, charset: str) -> tuple[str, str, str]:
    """As ``html``; plain text has no title."""
    from resiliparse.parse.encoding import bytes_to_str

    return (
        "",
        bytes_to_str(document, encoding(document, charset, from_html_meta=False), errors="replace"),
        "",
    )


def encoding(document: bytes, charset: str, from_html_meta: bool) -> str:
    """The one that the server names, if it exists, else what the document says or looks like."""
    from resiliparse.parse.encoding import detect_encoding, map_encoding_to_html5

    named = map_encoding_to_html5(charset, fallback_utf8=False) if charset else None
    return named or detect_encoding(document, from_html_meta=from_html_meta) or "utf-8"


def pdf(document: bytes, max_pages: int, max_characters: int) -> tuple[str, str, str]:
    """As ``html``, of the first pages."""
    from pypdf import PdfReader

    reader = PdfReader(io.BytesIO(document))
    if reader.is_encrypted:
        reader.decrypt("")
    count = len(reader.pages)
    texts: list[str] = []
    for number in range(min(count, max_pages)):
        texts.append(reader.pages[number].extract_text())
        if sum(map(len, texts)) > max_characters:
            break
    title = str((reader.metadata.title if reader.metadata else None) or "")
    return (
        title,
        "\n\n".join(texts),
        f"the first {len(texts)} of {count} pages" if len(texts) < count else "",
    )


def limit(seconds: int, memory: int) -> None:
    """Bounds this process, where the system can."""
    try:
        import resource
    except ImportError:
        return
    for which, most in (
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CORE, 0),
    ):
        try:
            resource.setrlimit(which, (most, most))
        except (OSError, ValueError):
            continue


def main() -> None:
    kind, charset = sys.argv[1:3]
    max_pages, max_characters, seconds, memory = map(int, sys.argv[3:])
    limit(seconds, memory)
    document = sys.stdin.buffer.read()
    if kind == "pdf":
        title, text, note = pdf(document, max_pages, max_characters)
    else:
        title, text, note = html(document, charset) if kind == "html" else plain(document, charset)
    if len(text) > max_characters:
        text, note = text[:max_characters], f"the first {max_characters:,} characters"
    json.dump({"title": " ".join(title.split()), "text": text, "note": note}, sys.stdout)


if __name__ == "__main__":
    main()
