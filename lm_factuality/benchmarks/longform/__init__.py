"""Long-form factuality of any text: what share of the facts of a response is supported, and how many there are?

``rows`` the YAML, and the prompts with what is known of each; ``method`` the steps of D-FActScore
(``lm_factuality.benchmarks.biographies``) in other words; ``metrics`` FActScore, F1@K and their bounds; ``judging`` all of it in
order, and the scores out of samples.
"""
