"""Scoring in which every distinct token position of all requests is computed once.

`trie` merges the tokens of requests into a trie (a prefix tree) and cuts it into forward passes,
without torch. `packed` computes a pass and `batches` its attention masks, `logits` takes the needed
numbers from it, and `scorer` runs all passes and tests whether a model can be scored in this way.
"""

__all__ = ["batches", "logits", "packed", "scorer", "trie"]
