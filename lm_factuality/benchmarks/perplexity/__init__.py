"""Perplexity of the documents that FACTOR's rows were made from (section 5.3 of the FACTOR paper).

``documents`` loads the texts, ``task`` has a model score them, ``benchmark`` computes the scores.
"""
