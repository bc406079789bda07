"""``python -m factor_gen``: the ``factor-gen`` command."""

import sys

from factor_gen.cli import main

sys.exit(main())
