"""Finds out whether the tests notice small mistakes in the core of the suite (``make mutants``)."""
