"""Benchmarks and attacks of the suite, each a command of its own (`make bench`, `make attack`)."""
