"""What a model answers: one of the words that it was offered, or the reason why it is none of them."""

import math
import re
from collections.abc import Sequence

from lm_factuality.ground.reasons import curable
from lm_factuality.ground.thinking import UNFINISHED, plain
from lm_factuality.harness.scored import WordAnswer

_MARKS = " >#\"'(["
_ALONE = curable(" alone", "try --apply_chat_template, or --metadata answers=logprobs")  # see read_word
_NAMED = re.compile(r"(?:(?:the|my) )?(?:final )?answer(?: is)?(?: ?:| ) ?", re.IGNORECASE)
_BUT = re.compile(
    r"\b(?:but|however|except|although|though|unless|only|mostly|part(?:ly|ially)|wrong|not|nothing|\w+n't)\b", re.IGNORECASE
)


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
