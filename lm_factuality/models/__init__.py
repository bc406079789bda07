"""Models for lm_eval's ``--model``: ``hf_tree`` shares positions between requests, ``hf_ralm``
reads retrieved passages, ``hf_decoding`` contrasts what a model says with something weaker, and
``baselines`` read no prefix or always say the same."""
