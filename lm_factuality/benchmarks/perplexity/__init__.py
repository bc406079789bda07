"""Perplexity of the documents behind a FACTOR corpus (figure 2 of the FACTOR paper sets accuracy
against it)."""
