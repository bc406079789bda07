"""Judges, which decide whether a text is factual: language models, classifiers or word overlap.

The modules, in the order in which a question passes through them:

- ``config`` reads the YAML file of a judge, and ``capabilities`` says what its backend can do.
- ``judge`` asks the questions. ``templates`` holds the prompts, ``typed`` parses the replies.
- ``verify`` asks whether passages support a claim, and ``queries`` how to search for evidence.
- ``answers`` defines requests and answers. ``store`` keeps every answer on disk.
- ``backends`` reach a model, ``inference`` runs classifiers, and ``lexical`` is a judge without a
  model. ``budget`` limits what a judge may spend.
- ``certificates`` record how well a judge decides questions whose answers are known.
"""

__all__ = ["LEXICAL"]

LEXICAL = "lexical"
"""The name of the judge without a model, which is for trying things out."""
