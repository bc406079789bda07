"""Evidence: searchable passages, pages by title, pages that annotators cite, and web search.

``sources`` reads files and datasets as a stream of ``passages``. ``bm25`` (Tantivy) and ``dense``
rank them for queries, and ``build`` makes and opens an index. ``knowledge`` holds pages by title,
and ``references`` fetches cited pages. ``search`` asks a web search service. Nothing here depends
on lm_eval.
"""
