"""Contradictions by a language model, which plans edits that our code then makes.

The method is that of the paper (section 3.2.2 and appendix D), but one question asks for the edits
of all error types, and the model does not write the edited sentence.
"""
