"""Where to set a filter's threshold (appendix A.2)."""

from factor_gen.thresholds.precision import MOST_FILTERED, THRESHOLDS, Curve, Point, Share, curves, to_json

__all__ = ["MOST_FILTERED", "THRESHOLDS", "Curve", "Point", "Share", "curves", "to_json"]
