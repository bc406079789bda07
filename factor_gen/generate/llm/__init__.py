"""Contradictions by a language model, which plans edits and then writes the edited sentence.

The method is that of the paper (section 3.2.2 and appendix D).
"""
