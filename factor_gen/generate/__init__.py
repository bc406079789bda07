"""Ways to make contradictions: a model that is asked (``llm``), and rules that need none
(``rules``)."""
