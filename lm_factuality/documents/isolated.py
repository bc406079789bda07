"""Extraction of a document's text by a process of its own, which a hostile document may crash.

`pages` calls it for PDF files, and the package ``references`` for downloaded documents. The program
that is run is `extract`.
"""

import json
import os
import subprocess
import sys
from dataclasses import dataclass

from lm_factuality.documents import extract
from lm_factuality.documents.document import EncryptedError, UnreadableError
from lm_factuality.documents.extract import ExtractedText


@dataclass(frozen=True)
class ExtractionLimits:
    """What the process may use."""

    max_pages: int
    """The number of pages of a PDF that are read."""

    max_characters: int
    """The length of the text."""

    seconds: float
    """The time."""

    memory: int
    """The bytes of memory."""


def extract_in_process(
    body: bytes, kind: str, charset: str, limits: ExtractionLimits
) -> ExtractedText:
    """Extract the title and the text of a document in a process of its own.

    Args:
        body: The document.
        kind: ``html``, ``pdf`` or ``plain``.
        charset: The charset of the document, or an empty string if it is not known.
        limits: What the process may use.

    Raises:
        EncryptedError: The document is a PDF with a password.
        UnreadableError: The document cannot be read, or exceeds the time or the memory.
    """
    options = {
        "kind": kind,
        "charset": charset,
        "max_pages": limits.max_pages,
        "max_characters": limits.max_characters,
        # The process may use a little more processor time than the time that we wait for it, so
        # that a slow document is reported as such and not as a crash.
        "seconds": int(limits.seconds) + 1,
        "memory": limits.memory,
    }
    try:
        process = subprocess.run(  # noqa: S603 (our own program, with its options as JSON)
            [sys.executable, "-I", extract.__file__, json.dumps(options)],
            input=body,
            capture_output=True,
            timeout=limits.seconds,
            check=True,
            # A hostile document shall find no API keys in the environment.
            env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8"},
        )
    except subprocess.TimeoutExpired:
        raise UnreadableError(f"no text of this {kind} after {limits.seconds:g} s") from None
    except subprocess.CalledProcessError as error:
        raise _error_of_traceback(error.stderr.decode("utf-8", "replace"), kind, limits) from None
    return ExtractedText(**json.loads(process.stdout))


def _error_of_traceback(traceback: str, kind: str, limits: ExtractionLimits) -> UnreadableError:
    """Return the error that says why the process could not read a document.

    Args:
        traceback: What the process wrote to standard error. Its last line names the exception.
        kind: The kind of the document.
        limits: What the process could use.
    """
    reason = traceback.strip().rpartition("\n")[2]
    if reason.startswith("MemoryError"):
        reason = f"it takes more than {limits.memory:,} bytes of memory; split it"
    is_encrypted = reason.startswith("pypdf.errors.FileNotDecryptedError")
    error_type = EncryptedError if is_encrypted else UnreadableError
    return error_type(f"this {kind} cannot be read: {reason[:200]}")
