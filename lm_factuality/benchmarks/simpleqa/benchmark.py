"""The declaration of SimpleQA and SimpleQA Verified: the judge's grades, and the scores of them.

The rest of the suite finds `BENCHMARK` here.
"""

from typing import Literal

from judges.typed import Reply
from lm_factuality.benchmarks.declaration import F1
from lm_factuality.benchmarks.graded import graded_benchmark
from lm_factuality.benchmarks.grading import grade_share, harmonic_mean_of_shares

GRADES = ("CORRECT", "INCORRECT", "NOT_ATTEMPTED")
"""The grades that the judge can give an answer."""


# Servers are sent the docstring as part of the schema of the reply, so it must not change.
class Grading(Reply):
    """The judge's reply: the reason first, so that the grade follows from it."""

    reason: str
    """Why the answer deserves the grade."""

    grade: Literal["CORRECT", "INCORRECT", "NOT_ATTEMPTED"]
    """One of `GRADES`."""


CORRECT = grade_share(
    "correct", "Correct", grade="CORRECT", out_of=GRADES, note="correct answers of all questions"
)
CORRECT_GIVEN_ATTEMPTED = grade_share(
    "correct_given_attempted",
    "Correct if attempted",
    grade="CORRECT",
    out_of=("CORRECT", "INCORRECT"),
    note="correct answers of the questions that the model attempted",
)

BENCHMARK = graded_benchmark(
    name="simpleqa",
    title="SimpleQA",
    lead=(
        "How many short questions does the model answer correctly, and does it know when it does"
        " not know?"
    ),
    question="problem",
    reference="answer",
    prompt="simpleqa/grade",
    reply=Grading,
    scores=(
        harmonic_mean_of_shares(
            "f1", "F1", (CORRECT, CORRECT_GIVEN_ATTEMPTED), F1, "of the two shares"
        ),
        CORRECT,
        CORRECT_GIVEN_ATTEMPTED,
    ),
    headline="f1",
    worst_grade="INCORRECT",
    best_grade="CORRECT",
    unreadable_grade_by_protocol={"simple-evals": "NOT_ATTEMPTED"},
    order=38,
)
