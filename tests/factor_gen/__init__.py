"""Tests of the generator of FACTOR benchmarks."""
