"""Makes the sample, which runs without a network: a fictional encyclopedia and its benchmarks.

``make sample`` runs these modules in this order:

- ``world`` draws entities and their facts from a seed.
- ``render`` writes sentences from facts and the forms in ``frames.yaml``.
- ``articles`` writes the encyclopedia, the training text, and the documents of which factor-gen
  makes ``sample_factor`` (``configs/corpora/sample.yaml``).
- ``answers``, ``biographies`` and ``questions`` write rows of other benchmarks. ``claims`` knows
  what is true of the biographies.
- ``build`` writes all of these to files.
- ``train`` trains the tiny checkpoints that are scored on the sample.
"""
