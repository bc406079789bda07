"""Submissions: made out of lm_eval's results (``pack``), and refused if anything about them is not
so (``check``).

``rules`` say what a leaderboard takes, ``submission`` what a submission says of itself and why one
is refused. The checks go from the outside in: ``contents`` (the files, and credentials in them),
``runs`` (how the model was run, and what was said of it), ``judges`` (who marked it, asked again
where that is possible), ``rows`` (the data, and the scores recomputed). ``site`` shows what is
accepted, ``workflow`` is the repository that submissions come to.
"""
