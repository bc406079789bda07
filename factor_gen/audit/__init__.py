"""Measures how well a FACTOR benchmark's true completions can be found without the prefixes.

``factor-gen audit`` and the writer of a build call it.
"""
