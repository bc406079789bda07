"""The pages that FELM's annotators cite: links cleaned, fetched once, kept as text.

``links`` says what is an address, and which may be connected to; ``connection`` makes one bounded
GET with httpx; ``fetcher`` takes documents to their end, politely; ``text`` reads HTML and PDF;
``cache`` is what the suite reads.
"""
