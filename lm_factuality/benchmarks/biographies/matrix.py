"""Step 3: what the page of each candidate entity says of each fact, each pair asked once; all scores read this matrix."""

import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from judges.answers import BLANKS, Answer
from judges.verify import NOT_SUPPORTED, SUPPORTED, UNSCORED, Verification, parse_verification
from lm_factuality.benchmarks.biographies.pages import Pages, nearest
from lm_factuality.benchmarks.biographies.scores import NO_PAGE
from lm_factuality.benchmarks.biographies.types import Fact, Judgement, Outcome
from lm_factuality.ground.packaged import load_words
from lm_factuality.ground.thinking import without_thinking

PROMPT = "biographies/verify"
PROMPT_BY_LOGPROBS = "biographies/verify_true_false"
CHOICES = ("True", "False")
TOP_LOGPROBS = 5  # alternatives: no server of completions has to give more
IRRELEVANT: Literal["irrelevant"] = "irrelevant"
_WORDS = load_words(__package__)
_OPEN_THOUGHT = re.compile(r"\s*<think", re.IGNORECASE)
_NAMED = r"(?:(?:therefore|thus|hence|so),? )?(?:my |the )?(?:final )?(?:answer|verdict|output)"
_LEAD = re.compile(rf"^[\s>#*_-]*(?:{_NAMED}(?:(?: is)?[\s*_]*:|\s+is\b))?[\s*_\"']*", re.IGNORECASE)
_WORD = re.compile(
    r"(?P<true>true|yes|correct)\b|(?P<false>not[ _]true|false|no|incorrect|untrue)\b|(?P<irrelevant>irrelevant|not relevant)\b",
    re.IGNORECASE,
)
_CHOICE = re.compile(r"^[\s*_\"']*(?:true|false)\s*(?:or|/|,)\s*(?:false|true|irrelevant)", re.IGNORECASE)
_ANSWER = re.compile(
    rf"^[\s>#*_-]*{_NAMED}(?:(?: is)?[\s*_]*:\s*\S|\s+is[\s*_\"']+(?:not[ _]true|true|false|irrelevant)\b)", re.IGNORECASE
)
_TURN = re.compile(_WORDS["takes_back"], re.IGNORECASE)
_QUALIFIED = re.compile(rf"^[\s*_\"',;:(\u2013\u2014-]*(?:{_WORDS['qualifies']})\b", re.IGNORECASE)
_AFFIRMED = re.compile(  # behind a verdict that denies
    r"^[\s*_\"',.!;:(\u2013\u2014-]*(?:it|this|that|the (?:fact|statement|claim)) is (?:\w+ )?(?<!not )"
    r"(?:true|correct|supported)\b(?! (?:of|for|about|that)\b)",
    re.IGNORECASE,
)
_TAKEN_BACK: Literal["taken back"] = "taken back"


@dataclass(frozen=True)
class Pair:
    """One fact to hold against the page of one entity; ``evidence`` is empty where there is nothing to show, and ``problem`` says
    why. A page that is missing supports nothing (``unasked``)."""

    fact: str
    entity: str
    evidence: tuple[str, ...]
    problem: str | None = None

    @property
    def subject(self) -> dict[str, Any]:
        """What the prompt is about."""
        passages = [f"Title: {self.entity}\n{text}" for text in self.evidence]
        return {"kind": "verify", "claim": self.fact, "passages": passages, "entity": self.entity}


@dataclass(frozen=True)
class Question:
    """What a judge is asked to verify facts: the name of the prompt, what each is about, and changes of the decoding."""

    prompt_name: str
    subjects: tuple[dict[str, Any], ...]
    decoding: Mapping[str, Any]


def question_about(pairs: Iterable[Pair], verdicts: str = "text") -> Question:
    """The question about those of ``pairs`` that have evidence; ``verdicts`` is that of ``judges.config.JudgeConfig``."""
    subjects = tuple(pair.subject for pair in pairs if pair.problem is None)
    if verdicts == "text":
        return Question(PROMPT, subjects, {})
    with_choices = tuple({**subject, "choices": CHOICES} for subject in subjects)
    return Question(PROMPT_BY_LOGPROBS, with_choices, {"top_logprobs": TOP_LOGPROBS})


def pairs_of(facts: Sequence[Fact], entities: Sequence[str], pages: Pages) -> dict[tuple[str, str], Pair]:
    """Every distinct fact with every entity, by (fact, entity)."""
    known = {entity: pages.passages(entity) for entity in entities}
    return {
        (fact, entity): _pair(fact, entity, known[entity])
        for fact in dict.fromkeys(each.text for each in facts)
        for entity in entities
    }


def to_matrix(
    facts: Sequence[Fact], entities: Sequence[str], judgements: Mapping[tuple[str, str], Judgement]
) -> tuple[tuple[Judgement, ...], ...]:
    """``matrix[fact][entity]``; facts of the same text share their judgements."""
    return tuple(tuple(judgements[fact.text, entity] for entity in entities) for fact in facts)


def unasked(pair: Pair) -> Judgement:
    """The judgement of a pair that nobody is asked about: not supported, for a fact is supported by what is known of an entity,
    and nothing is. (Left without a verdict, one such candidate would take every unsupported fact out of the scores.)"""
    return Judgement(NOT_SUPPORTED, 0.0, pair.problem or NO_PAGE)


def judge_pair(pair: Pair, answers: Sequence[Answer], verdicts: str = "text") -> Judgement:
    """What the judge's answers, one a sample, say of a pair: the majority of those that could be read."""
    read_one = read_judgement if verdicts == "text" else read_by_logprobs
    read = [read_one(answer) for answer in answers]
    scored = [each for each in read if each.outcome != UNSCORED]
    if not scored:
        return replace(read[0] if read else Judgement(UNSCORED, None, "no answer"), evidence=pair.evidence)
    outcomes = [each.outcome for each in scored]
    best = max(dict.fromkeys(outcomes), key=outcomes.count)
    if any(other != best and outcomes.count(other) == outcomes.count(best) for other in outcomes):
        return Judgement(UNSCORED, None, f"tie among {len(scored)} samples", pair.evidence)
    first = next(each for each in scored if each.outcome == best)
    score = first.score if len(scored) == 1 else outcomes.count(SUPPORTED) / len(scored)
    return replace(first, score=score, evidence=pair.evidence)


def read_by_logprobs(answer: Answer) -> Judgement:
    """What the first word of one answer says: supported if true is more probable than false. What its text says where there are
    no log-probabilities of the two words, or the first word is that of a thought. ``reason`` tells which was read."""
    if answer.text is None:
        return read_judgement(answer)
    if answer.first_token_logprobs is None:
        why = "no log-probabilities"
    elif _OPEN_THOUGHT.match(answer.text):
        why = "a thought comes first"
    elif (word := read_first_word(answer.first_token_logprobs)) is None:
        why = "neither word among the most likely"
    else:
        outcome: Outcome = SUPPORTED if word.score > 0.5 else NOT_SUPPORTED
        return Judgement(outcome, word.score, f"by log-probabilities: true {word.true:.3g}, false {word.false:.3g}")
    found = read_judgement(answer)
    return replace(found, reason=f"by the text ({why}): {found.reason}")


@dataclass(frozen=True)
class FirstWord:
    """The probabilities that an answer begins with ``True`` and with ``False``."""

    true: float
    false: float

    @property
    def score(self) -> float:
        """The probability of true if it is one of the two."""
        return self.true / (self.true + self.false)


def read_first_word(alternatives: Sequence[tuple[str, float]]) -> FirstWord | None:
    """From (token, log-probability) of the alternatives, summed over case and white space; None if neither word is among them."""
    true, false = (
        math.fsum(math.exp(logprob) for token, logprob in alternatives if token.strip(BLANKS).lower() == word.lower())
        for word in CHOICES
    )
    return FirstWord(true, false) if true + false > 0 else None


def read_judgement(answer: Answer) -> Judgement:
    """What one answer says: ``True``, ``False`` or ``Irrelevant`` behind ``Answer:``, or at the beginning of the first line or
    alone on the last; or the verdicts of ``judges.verify``. The word behind ``Answer:`` counts whatever is explained in the
    sentences after it; elsewhere an explanation that denies the fact takes back a true verdict. "False. It is not true that ..."
    is false, unlike in the published code, and a text with none of the words is unscored, with the reason."""
    verification = parse_verification(answer)
    if verification.verdict != UNSCORED or answer.text is None:
        return _judgement(verification)
    text = without_thinking(unicodedata.normalize("NFKC", answer.text).replace("\u2019", "'")) or ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return _judgement(verification)
    named = [line for line in lines if _ANSWER.match(line)]
    read = {_outcome(line, _has_more, is_named=True) for line in named} if named else _at_the_ends(lines)
    found: list[Outcome] = [each for each in read if each is not None and each != _TAKEN_BACK]
    if len(found) != 1:
        if not found and _TAKEN_BACK in read:
            reason = "a verdict that the words behind it take back"
        elif found:
            reason = "two answers that differ"
        else:
            reason = "cut off before the answer" if answer.is_cut_off else "neither true nor false"
        return Judgement(UNSCORED, None, reason)
    (outcome,) = found
    return Judgement(outcome, float(outcome == SUPPORTED), " ".join(" ".join(lines).split())[:400])


def _at_the_ends(lines: Sequence[str]) -> set[Outcome | Literal["taken back"] | None]:
    """The verdict that the first line begins with, and the one that is all of the last line."""
    return {_outcome(lines[0], _has_more), _outcome(lines[-1], _is_whole_line)}


def _is_whole_line(rest: str) -> bool:
    return not re.search(r"\w", rest)


def _has_more(rest: str) -> bool:
    """Whether the verdict is the whole line, or an explanation set off by a mark follows."""
    return _is_whole_line(rest) or bool(re.match(r"[\s*_\"']*(?:[.,;:(!\u2013\u2014-]|because\b|since\b|as\b)", rest))


def _outcome(line: str, is_sound: Callable[[str], bool], is_named: bool = False) -> Outcome | Literal["taken back"] | None:
    """The verdict that a line begins with. ``is_named``: it stands behind ``Answer:``."""
    rest = _LEAD.sub("", line, count=1)
    match = _WORD.match(rest)
    if match is None or _CHOICE.match(rest) or not is_sound(rest[match.end() :]):
        return None
    if match["irrelevant"]:
        return IRRELEVANT
    behind = rest[match.end() :]
    if match["false"]:
        return _TAKEN_BACK if _AFFIRMED.match(behind) else NOT_SUPPORTED
    is_denied = _QUALIFIED.match(behind) or (not is_named and _TURN.search(behind))
    return _TAKEN_BACK if is_denied else SUPPORTED


def _judgement(verification: Verification) -> Judgement:
    return Judgement(verification.verdict, verification.score, verification.reason)


def _pair(fact: str, entity: str, page: list[str] | None) -> Pair:
    if page is None:
        return Pair(fact, entity, (), f"{NO_PAGE}: none is called {entity!r}")
    passages = tuple(passage for passage in page if passage.strip())
    if not passages:
        return Pair(fact, entity, (), f"{NO_PAGE}: that of {entity!r} is empty")
    return Pair(fact, entity, nearest(passages, fact))
