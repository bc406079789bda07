"""Where the embedded sample comes from: a fictional encyclopedia, for runs without network or
downloads. ``make sample`` runs it.

``world`` draws entities and their facts from a seed, ``render`` writes sentences from the forms in
``frames.yaml``, ``articles`` writes whole articles and the corpus that ``sample_factor`` is built
from (``configs/corpora/sample.yaml``), ``biographies`` answers about people whose truth is known,
and ``train`` trains the tiny checkpoints that ``sample_factor`` is run with.
"""
