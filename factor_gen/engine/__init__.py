"""What runs the stages over the shards: processes of this machine, or Ray's of many."""

from factor_gen.engine.running import run_shards
from factor_gen.engine.shard import StageFailed

__all__ = ["StageFailed", "run_shards"]
