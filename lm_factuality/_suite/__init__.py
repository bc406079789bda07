"""The folders ``tasks`` and ``configs`` as packages, so that entry points can name them.

In an installed wheel they are in this folder, otherwise at the root of the checkout.
"""

from lm_factuality.ground.suite import tasks_folder

__path__ = [str(tasks_folder().parent)]
