"""A report of one or many models as a static site.

``build`` chooses the runs and writes the pages. ``data`` writes the rows and the differences
between two models into files that the pages load. The page of a benchmark is in the benchmark's own
folder.
"""
