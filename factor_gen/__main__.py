"""Runs the ``factor-gen`` command as ``python -m factor_gen``.

All commands are in `factor_gen.cli`.
"""

import sys

from factor_gen.cli import main

sys.exit(main())
