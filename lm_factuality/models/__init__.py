"""Models for lm_eval's ``--model``.

`hf_tree` shares positions between requests, `hf_ralm` reads retrieved passages, `hf_decoding`
contrasts a model with something weaker, and `baselines` have learned nothing.
"""
