"""What the suite costs beside the alternatives, measured: ``python -m bench.suite``, or ``make
bench``.

``ways`` times hf-tree beside hf, hf-ralm beside one request a window, hf-dola beside one request
after the other, and the FACTOR task beside lm_eval's multiple choice; ``index`` building and asking
an index, ``leaderboard`` checking and building; ``shapes`` makes models and requests of published
sizes without downloads.
"""
