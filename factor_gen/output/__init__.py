"""The files of a finished benchmark: rows, an lm_eval task, a dataset card and a manifest.

:mod:`factor_gen.pipeline` calls :func:`write_benchmark` at the end of a build.
"""
