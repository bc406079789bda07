"""The part of the suite that knows lm_eval's internals; everything else uses its public interface.

The modules add request types to lm_eval (``requests``, ``rolling``, ``answers``, ``thinking``),
define what all tasks share (``suite_task``, and ``judging`` for tasks with a judge), find task
YAMLs (``tasks``) and run lm_eval (``run``).
"""
