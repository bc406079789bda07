"""Measures what the suite costs, in turn with the usual ways to do the same.

    python -m bench.suite

`ways` times models and tasks, `chat` questions to a chat server, `index` the index of passages, and
`leaderboard` checking submissions and building a site. `shapes` makes models and requests of
published sizes without downloads.
"""
