"""What the suite costs beside the alternatives, measured: ``python -m lm_factuality.bench``, or ``make bench``.

``scoring`` times hf-tree beside hf, ``ralm`` hf-ralm beside one request a window, ``index`` building and asking an index,
``harness`` the FACTOR task beside lm_eval's multiple choice; ``workers`` runs each way in a process of its own, in turn, and
``shapes`` makes models and requests of published sizes without downloads.
"""
