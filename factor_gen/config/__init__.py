"""A build as a YAML file, of about eight lines; everything else has the paper's values."""

from factor_gen.config.describing import describe
from factor_gen.config.reading import load_build

__all__ = ["describe", "load_build"]
