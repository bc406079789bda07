"""FELM: can a model find the factual errors in somebody else's answer?

In the order of the paper: ``rows`` the benchmark, the texts of its references and the statements in
its segments, ``questions`` what a judge is asked of a row, also in the authors' own words,
``verdicts`` what its outputs say (``grammar``: by which rules), ``metrics`` from verdicts to
scores. ``task`` asks the evaluated model, ``judging`` a judge, which it also certifies."""
