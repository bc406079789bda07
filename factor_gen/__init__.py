"""Makes FACTOR benchmarks from any corpus, and audits what a benchmark gives away.

A build goes through the stages select, types, generate, filter and choose. The command line is in
`factor_gen.cli`, and `factor_gen.pipeline` has the build as a function.
"""
