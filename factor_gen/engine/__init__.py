"""What runs the stages over the shards: processes of this machine, or Ray's of many."""

from factor_gen.engine.running import StageFailed, run_shards

__all__ = ["StageFailed", "run_shards"]
