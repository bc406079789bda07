"""How fast benchmarks are made: ``python -m factor_gen.bench``."""
