"""Long-form factuality of any text: what share of the facts of a response is supported, and how
many there are?

``rows`` the YAML, and the prompts with what is known of each; ``metrics`` FActScore, F1@K and their
bounds; ``benchmark`` the steps of D-FActScore (``lm_factuality.benchmarks.biographies``) in other
words, and the scores out of samples."""
