"""The folders ``tasks`` and ``configs`` as packages, by which entry points name them: here in an
installed wheel, at the root of a checkout otherwise.
"""

from lm_factuality.ground.suite import tasks_folder

__path__ = [str(tasks_folder().parent)]
