"""Passages that can be searched, pages by title (``knowledge``), and pages that annotators cite
(``references``).

``sources`` reads files and datasets as a stream of ``passages``; ``bm25`` (Tantivy) and ``dense``
rank them for queries; ``build`` makes an index that can be interrupted, and opens it. Nothing here
knows lm_eval.
"""
