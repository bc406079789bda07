"""Models for lm_eval's ``--model``.

`hf_tree` shares positions between requests, `hf_ralm` reads retrieved passages, `hf_decoding`
contrasts a model with weaker logits, and `baselines` need no model.
"""

__all__ = ["baselines", "decoding", "hf_decoding", "hf_ralm", "hf_tree", "ralm", "tree"]
