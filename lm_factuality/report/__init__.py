"""A report of one or many models as a static site: ``data`` writes the rows, and what two models
differ in, in files that pages load; ``build`` chooses the runs, says what the first page shows, and
puts all of it in place. What is of a benchmark (its page, its rows and how one looks) is in the
benchmark's folder.
"""
