"""SimpleQA and SimpleQA Verified: short questions with one answer each (arXiv 2411.04368).

``benchmark`` declares the grades and scores, and ``task`` is the lm_eval task.
"""
