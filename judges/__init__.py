"""Who decides whether text is factual.

``answers`` is what is asked and what comes back, ``backends`` are ways to reach a model, and
``store`` keeps every answer on disk before it is used. ``judge`` is the three together, ``config``
a judge as a YAML file, ``budget`` what it may spend, ``templates`` its words, ``typed`` the form of
its replies, ``verify`` what it says of a claim, and ``certificates`` how good it is. ``lexical`` is
a judge without a model, and ``inference`` has models of entailment.
"""

LEXICAL = "lexical"  # the judge without a model, for trying things out
