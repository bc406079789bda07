"""The pages that FELM's annotators cite: their links are cleaned, fetched once, and kept as text.

``links`` finds URLs and says which addresses may be connected to. ``connection`` sends one GET
request by httpx, ``fetcher`` obeys robots.txt and follows redirects, ``text`` reads HTML and PDF,
and ``cache`` keeps the texts on disk, from which FELM's tasks read them.
"""
