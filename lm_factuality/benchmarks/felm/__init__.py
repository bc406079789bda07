"""FELM: can a model find the factual errors in somebody else's answer?

In the order of the paper: ``rows`` the benchmark and the texts of its references, ``claims`` the statements in its segments,
``questions`` what a judge is asked of a row (``authors``: in the authors' own words), ``verdicts`` what its outputs say
(``grammar``: by which rules), ``metrics`` from verdicts to scores. ``task`` asks the evaluated model, ``judging`` a judge;
``outputs`` reads saved answers, and ``certify`` measures judges, beside some that do not read.
"""
