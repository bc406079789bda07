from tests.factor_gen.rules.support import always

__all__ = ["always"]
