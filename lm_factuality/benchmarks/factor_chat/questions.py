"""What a row asks, what a model answers (one of the words that it was offered, or why it is none of them), and what the answers
say of the row's choices.

``statements`` asks about each choice by itself: with all of them in sight, whoever picks the one that is most like the others is
right in 84 to 91% of FACTOR's rows, since each contradiction was made from the true one by a small edit. ``letters`` shows all
choices, as exams do, and asks once for each rotation, so that a liking for a letter favours no choice.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Any

from lm_factuality.ground.reasons import curable
from lm_factuality.ground.thinking import UNFINISHED, plain
from lm_factuality.harness.outputs import WordAnswer

_MARKS = " >#\"'(["
_ALONE = curable(" alone", "try --apply_chat_template, or --metadata answers=logprobs")  # see read_word
_NAMED = re.compile(r"(?:(?:the|my) )?(?:final )?answer(?: is)?(?: ?:| ) ?", re.IGNORECASE)
_BUT = re.compile(
    r"\b(?:but|however|except|although|though|unless|only|mostly|part(?:ly|ially)|wrong|not|nothing|\w+n't)\b", re.IGNORECASE
)
LETTERS = ascii_uppercase
CENTRE = (
    "All choices are in one prompt, and FACTOR's contradictions are small edits of the true one: picking the choice that is most "
    "like the others is right in 84 to 91% of rows, whatever one knows. Report protocol=statements, which shows one at a time."
)


@dataclass(frozen=True)
class Protocol:
    """``prompt`` is rendered with each of ``subjects(prefix, choices)`` and answered by one of ``words(number of choices)``.
    ``of_choices`` makes, of the words' probabilities in all answers, the probability that each choice is the true one."""

    prompt: str
    subjects: Callable[[str, Sequence[str]], list[dict[str, Any]]]
    words: Callable[[int], tuple[str, ...]]
    of_choices: Callable[[Sequence[Sequence[float]]], list[float]]


def _statements(prefix: str, choices: Sequence[str]) -> list[dict[str, Any]]:
    return [{"prefix": prefix, "sentence": choice} for choice in choices]


def _rotations(prefix: str, choices: Sequence[str]) -> list[dict[str, Any]]:
    """The first letter stands for the first choice, then for the second, and so on."""
    rotated = ([*choices[first:], *choices[:first]] for first in range(len(choices)))
    return [{"prefix": prefix, "versions": list(zip(LETTERS, versions, strict=False))} for versions in rotated]


def _mean_over_rotations(answers: Sequence[Sequence[float]]) -> list[float]:
    count = len(answers)
    return [sum(answer[(choice - first) % count] for first, answer in enumerate(answers)) / count for choice in range(count)]


PROTOCOLS: Mapping[str, Protocol] = {
    "statements": Protocol(
        "factor_chat/statement", _statements, lambda count: ("True", "False"), lambda answers: [true for true, _ in answers]
    ),
    "letters": Protocol("factor_chat/letters", _rotations, lambda count: tuple(LETTERS[:count]), _mean_over_rotations),
}


def probabilities(answer: WordAnswer, words: Sequence[str]) -> tuple[float, ...] | str:
    """The probability of each of ``words`` if the answer is one of them: 0 or 1 by what the model wrote. A text is the reason why
    there is none."""
    if answer.problem:
        return answer.problem
    if answer.logprobs is None:
        place = read_word(answer.text, words)
        return place if isinstance(place, str) else tuple(float(place == other) for other in range(len(words)))
    known = [-math.inf if logprob is None else logprob for logprob in answer.logprobs]
    most = max(known)
    if not math.isfinite(most) or any(map(math.isnan, known)):
        return f"no probability of any of {', '.join(words)}"
    weights = [math.exp(logprob - most) for logprob in known]
    return tuple(weight / math.fsum(weights) for weight in weights)


def read_word(text: str, words: Sequence[str]) -> int | str:
    """The place of the word that ``text`` answers with: behind "answer", or else at its beginning, or alone on its last line; or
    why there is none. A stop or bracket has to set it off from what follows. Where two words are offered, what follows may not
    speak against the first (True), nor begin by restricting the second."""
    said = plain(text)
    if not said:
        return UNFINISHED if said is None else "an empty answer"
    lines = [line.lstrip(_MARKS) for line in said.split("\n")]
    one = "|".join(map(re.escape, words))
    answers = [line[named.end() :] for line in lines if (named := _NAMED.match(line))]
    if not answers:
        is_last = re.fullmatch(rf"\W*(?:{one})\W*", lines[-1], re.IGNORECASE)
        answers = [lines[0], lines[-1]] if is_last else lines[:1]
    found = [
        re.match(rf"(?P<word>{one})(?=[\"')\]]*(?:$| ?[.,:;!)\]-]))(?P<rest>.*)", line.lstrip(_MARKS), re.I) for line in answers
    ]
    read = {[word.lower() for word in words].index(match["word"].lower()) for match in found if match}
    if len(read) != 1:
        return "two answers that differ" if read else f"none of {', '.join(words)}{_ALONE}"
    (place,) = read
    rests = [match["rest"] for match in found if match]
    if len(words) == 2 and any(_BUT.search(rest) if place == 0 else _BUT.match(rest.lstrip(" ,;.-")) for rest in rests):
        return "an answer that is taken back"
    return place
