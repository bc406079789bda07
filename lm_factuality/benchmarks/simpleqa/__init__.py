"""SimpleQA: short questions with one answer each (arXiv 2411.04368)."""
