"""Long-form factuality: the share of supported facts in long answers, and how many there are.

``rows`` reads the prompts with their passages, ``metrics`` holds FActScore and F1@K, ``benchmark``
adapts the steps of D-FActScore (``lm_factuality.benchmarks.biographies``), and ``task`` runs them.
"""
