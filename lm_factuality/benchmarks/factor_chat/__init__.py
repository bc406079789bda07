"""FACTOR for chat and API models, which are asked whether sentences are true.

Servers of such models give no log-probabilities of a prompt. ``metrics`` says what a row asks,
reads the answers and scores rows. ``task`` is the task of lm_eval, and ``benchmark`` declares all
of it, with the report's page and the leaderboard's audit.
"""
