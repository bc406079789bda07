"""Statistics of scores: means over clusters, intervals, paired tests, agreement and corrections by
labels. Every function is pure; the package imports only the errors of ``lm_factuality.ground``."""
