"""Readers of people's own documents: files and folders of text, pages, tables and office files.

`reader` walks through folders and chooses the reader of each file by its ending. `markdown`,
`restructured`, `pages` (HTML and PDF), `word` and `rows` (tables and JSON) read one format each.
"""

from lm_factuality.documents.document import Document, UnreadDocument
from lm_factuality.documents.reader import ENDINGS, list_files, read_documents

__all__ = ["ENDINGS", "Document", "UnreadDocument", "list_files", "read_documents"]
