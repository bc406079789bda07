"""Contradictions by a language model that plans an edit and then writes the sentence out (section
3.2.2, appendix D)."""
