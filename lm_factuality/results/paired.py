"""How sure the differences of all pairs of models are, task by task."""

from collections.abc import Iterator, Sequence

from lm_factuality.benchmarks.chosen import headline
from lm_factuality.benchmarks.declaration import Benchmark, Run, Score, Table
from lm_factuality.benchmarks.pairs import Pair, compare_all, compared_scores, written

_MOST_MODELS = 3  # of which tables have all scores, not only the headline
_ALPHA = 0.05
_COLUMNS = ("score", "A", "B", "#A - B", "#95% interval", "#p", "#p, Holm", "better", "#detectable", "#rows")
HOW = (
    "A - B over the rows that both have a score on, shares in percentage points.",
    "p: two-sided randomisation test that swaps the two models' answers to whole clusters (documents, responses or names); where "
    "a cluster is one row, right or wrong, it is McNemar's exact test. Holm: corrected for all pairs of models in one score.",
    "better: by the corrected p below 0.05. detectable: the smallest true difference that one such test finds with 80% power, "
    "(1.96 + 0.84) standard errors of the paired difference.",
)


def pair_tables(benchmark: Benchmark, runs: Sequence[Run], scores: Sequence[str] | None = None) -> Iterator[Table]:
    """A table for each task of which two of ``runs`` kept samples: every pair of models in each score that tables show, of many
    models in the headline, or in ``scores``."""
    for task in sorted({run.task.task for run in runs}):
        here = sorted((run for run in runs if run.task.task == task), key=lambda run: run.label)
        able = [run for run in here if run.scored]
        without = ", ".join(run.label for run in here if not run.scored)
        missing = f"{task}: without samples (--log_samples) and scored rows no difference can be tested: {without}"
        if len(able) < 2:
            if len(here) > 1 and without and benchmark.samples is not None:
                yield Table("", (), (), [missing])
            continue
        of_all = compared_scores(benchmark, sorted({name for run in able for name in run.scored}))
        wanted = scores or (
            [score.name for score in benchmark.shown] if len(able) <= _MOST_MODELS else [headline(able[0].task) or ""]
        )
        rows, notes = [], [missing] if without else []
        for score in [each for each in of_all if each.name in wanted]:
            scored = {run.label: run.scored[score.name] for run in able if score.name in run.scored}
            pairs = compare_all(scored, score, {run.label: run.task.metrics for run in able})
            rows += [_row(score, *models, pair) for models, pair in pairs.items()]
            notes += [f"{score.name}: {score.note}"] if pairs and score.note else []
        if not scores and len(able) > _MOST_MODELS:
            notes.append(f"Other scores by --scores: {', '.join(score.name for score in of_all if score.name not in wanted)}")
        if rows:
            yield Table(f"\nPairs of models on {task}, row by row", _COLUMNS, rows, notes)


def _row(score: Score, one: str, other: str, pair: Pair) -> tuple[str, ...]:
    *tested, least = written(pair, score)
    is_clear = pair.adjusted is not None and pair.adjusted < _ALPHA
    better = ("A" if (pair.difference > 0) == score.higher else "B") if is_clear else ""
    return score.name, one, other, *tested, better, least, f"{pair.n:,}"
