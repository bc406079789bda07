"""Who decides whether text is factual: backends that answer prompts, the prompts, and the steps
made of them.

``answers`` what is asked and what comes back, ``backends`` ways to reach a model, ``store`` every
answer on disk before it is used, ``judge`` the three together, ``config`` a judge as a YAML file,
``templates`` its words, ``verify`` what it says of a claim, ``certificates`` how good it is,
``lexical`` one without a model, ``inference`` models of entailment."""

PROJECT = "lm-factuality"  # tells this package from the one of the same name on the package index
LEXICAL = "lexical"  # the judge without a model, for trying things out
