"""FACTOR (Muhlgay et al., 2024): is the true sentence likelier than minimally edited false ones?

``corpus`` reads a task YAML, ``load`` its file by columns or templates, ``rows`` turns them into
examples and finds what is wrong with them, ``scoring`` decides a row (equation 1), ``metrics`` all
rows; ``task`` is lm_eval's, ``compare`` sets accuracy beside perplexity and size, ``page`` is the
report's, and ``benchmark`` declares all of it, with the leaderboard's audit."""
