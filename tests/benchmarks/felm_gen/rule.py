"""What a server says that plays the judge of FELM-gen: a sentence with *seven* in it is wrong."""

from __future__ import annotations

import json
import re

from tests.judges.server import Act

ROWS = (  # index, domain, prompt, text of its reference
    (
        "0",
        "wk",
        "How old is the Lantern Bridge?",
        "The Lantern Bridge was opened in 1870 and is made of iron.",
    ),
    ("1", "science", "Why is the harbour warm?", "A current from the south warms the harbour."),
    ("2", "math", "What is 3 times 4?", ""),
    ("3", "writing_rec", "Recommend a museum in Odd.", "The museum of Odd shows lanterns."),
    ("4", "reasoning", "Two boats carry six crates each. How many crates are there?", ""),
)


def mark(prompt: str, attempt: int) -> Act:
    """Leaves every piece by itself, or marks the segments, as the prompt asks."""
    if "Now the pieces to group:" in prompt:
        pieces = re.findall(
            r"^(\d+)\. ", prompt.rsplit("Now the pieces to group:", 1)[1], re.MULTILINE
        )
        return Act(text=json.dumps({"segments": [[int(number)] for number in pieces]}))
    segments = re.findall(r"^(\d+)\. (.*)$", prompt.rsplit("\nSegments:\n", 1)[1], re.MULTILINE)
    wrong = [int(number) for number, text in segments if "seven" in text]
    found = [
        {"number": number, "reason": "as the rule says", "type": "knowledge"} for number in wrong
    ]
    return Act(text=json.dumps({"wrong": found}))


def felm_line(index: str, domain: str, prompt: str, reference: str) -> dict[str, object]:
    """A row in the form of FELM's file."""
    return {
        "index": index,
        "domain": domain,
        "source": "ours",
        "prompt": prompt,
        "response": "So.",
        "segmented_response": ["So."],
        "labels": [True],
        "comment": [""],
        "type": [],
        "ref": [],
        "ref_contents": [reference] if reference else "",
    }
