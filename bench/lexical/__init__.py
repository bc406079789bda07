"""Fits the lexical judge to labelled citations and facts, and tests it on citations."""
