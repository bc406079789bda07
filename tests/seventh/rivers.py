"""Rivers: which river does a city lie on? A judge grades the answers."""

from pathlib import Path
from typing import Literal

from judges.typed import Reply
from lm_factuality.benchmarks.graded import graded_benchmark
from lm_factuality.benchmarks.graded_task import GradedTask
from lm_factuality.benchmarks.grading import grade_share


class RiverGrading(Reply):
    """The judge's reply: the reason first, so that the grade follows from it."""

    reason: str
    grade: Literal["CORRECT", "INCORRECT"]


BENCHMARK = graded_benchmark(
    name="rivers",
    title="Rivers",
    lead="Does the model know on which rivers cities lie?",
    question="question",
    reference="river",
    prompt="rivers/grade",
    prompts=Path(__file__).with_name("prompts"),
    reply=RiverGrading,
    scores=[grade_share("river_acc", "Accuracy", grade="CORRECT", out_of=("CORRECT", "INCORRECT"))],
    headline="river_acc",
    worst_grade="INCORRECT",
    best_grade="CORRECT",
)


class RiversTask(GradedTask):
    """A task by ``rivers.yaml``."""

    declared = BENCHMARK
