"""How fast benchmarks are made: ``python -m bench.factor_gen``."""
