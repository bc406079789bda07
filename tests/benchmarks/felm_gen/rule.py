"""A rule that plays the judge of FELM-gen: a segment with "seven" in it is wrong."""

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


def mark(prompt, attempt):
    """Reply to a judge's prompt.

    If the prompt asks to group pieces of text, each piece becomes a segment. Otherwise, the reply
    marks the segments that contain "seven" as errors of knowledge.
    """
    if "Now the pieces to group:" in prompt:
        pieces = prompt.rsplit("Now the pieces to group:", 1)[1]
        numbers = re.findall(r"^(\d+)\. ", pieces, re.MULTILINE)
        return Act(text=json.dumps({"segments": [[int(number)] for number in numbers]}))
    segments = prompt.rsplit("\nSegments:\n", 1)[1]
    wrong = [
        {"number": int(number), "reason": "as the rule says", "type": "knowledge"}
        for number, text in re.findall(r"^(\d+)\. (.*)$", segments, re.MULTILINE)
        if "seven" in text
    ]
    return Act(text=json.dumps({"wrong": wrong}))


def felm_line(index, domain, prompt, reference):
    """Make a row in the form of FELM's file; its response is one segment, labelled correct."""
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
