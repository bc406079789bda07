"""Scoring in which every distinct token position of all requests is computed once.

`forest` turns requests into a forest of tokens and cuts it into forward passes, without torch.
`packed` computes a pass, `logits` takes the needed numbers from it, and `scorer` runs passes over a
forest and finds out whether a model can be trusted with them.
"""
