"""Scoring in which every distinct token position of all requests is computed once.

`forest` turns requests into a forest of tokens and cuts it into forward passes, without torch.
`packed` and `cached` are two engines that compute a pass, `logits` has what they share, and
`scorer` runs an engine over a forest and finds out which engine a model can be trusted with.
"""
