"""A rule that plays the judge of open generation."""

import json
import re

from lm_factuality.benchmarks.factor_generation.facts import FALSE, NEUTRAL, TRUE
from tests.judges.server import Act


def mark_by_wording(prompt, attempt):
    """Reply to a judge's prompt with the wording of the fact that the model's sentence contains."""
    sentence = re.search(r"as the model finished it.*\n(.*)\n", prompt)[1]
    wordings = re.search(r'correct sentence has "(.*)", the incorrect one "(.*)"\.', prompt)
    mark = NEUTRAL
    if wordings[1] in sentence:
        mark = TRUE
    elif wordings[2] in sentence:
        mark = FALSE
    return Act(text=json.dumps({"reason": "by rule", "mark": mark}))
