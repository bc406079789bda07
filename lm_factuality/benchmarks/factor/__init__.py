"""FACTOR (Muhlgay et al., 2024): is a true sentence more likely than edited false ones?

``corpus`` checks a task's YAML, ``joining`` joins prefixes and completions, ``load`` reads the file
that the YAML names, and ``rows`` makes examples of it. ``scoring`` scores one row (equation 1) and
``metrics`` all rows. ``task`` is the task of lm_eval, ``compare`` sets accuracy beside perplexity
and model size, ``page`` is FACTOR's part of the report, and ``benchmark`` declares all of it.
"""
