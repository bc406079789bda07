"""Steps 1 and 2, of a response that does not decline: the atomic facts of it, sentence by sentence
(Min et al., 2023, as section 5.1 takes it over), and the individuals that a reader without prior
knowledge sees, among whom they are split (section 4.1).

Like the published code, it asks for facts that name whom they are about (``standalone``);
``as_written`` leaves pronouns as they are. That code shows the judge the sentence alone, here it
sees the text before it; and it splits the judge's text at every "- ", also in "1990- 1995", where
here the reply is a list.

A judge replies with the numbers of the facts of each individual; each is in exactly one group. In
table 8 of the paper it repeats the facts, and the published code loses the first of every response,
because its prompt ends with that fact's hyphen."""

import re
from collections.abc import Mapping
from functools import cache
from itertools import chain
from typing import Any

from judges.lexical.facts import is_adverbial
from judges.typed import Reply, numbering_problem
from lm_factuality.benchmarks.biographies.types import JudgedBiography
from lm_factuality.benchmarks.felm_gen.steps import EMPTY, REFUSAL, no_answer
from lm_factuality.ground.packages import load_words, load_yaml
from lm_factuality.ground.sentences import split_sentences, words_in
from lm_factuality.harness.generation import JsonObject
from lm_factuality.retrieval.bm25 import Searcher

_WORDS = load_words(__package__)
_SORRY = r"(?:i'?m|i am)(?: \w+){0,2} sorry|(?:my )?(?:sorry|apologies)|i (?:\w+ )?apologi[sz]e"
_OPENING = (
    rf"^\W*(?:(?:unfortunately|sadly|regrettably|however|{_SORRY})\b[\s,:;-]*(?:but |that )?)*"
)
# In the first person; or an apology that is all.
_DECLINES = re.compile(rf"{_OPENING}(?:i (?:\w+ )?(?:{_WORDS['cannot']})\b|\W*$)", re.IGNORECASE)
_NOTHING_FOUND = re.compile(_WORDS["nothing_found"], re.IGNORECASE)
_ASKS = re.compile(rf"^\W*(?:{_WORDS['asks']})", re.IGNORECASE)
_TURN = re.compile(
    r";\s*|,?\s+(?:but|although|though|however|yet|except|other than|apart"
    r" from)\b[\s,]*(?:that\b\s*)?",
    re.I,
)


def is_abstention(output: str) -> bool:
    """Whether the response is empty, or every sentence of it declines ("I'm sorry, I cannot ..."),
    says that nothing was found, or asks for more, and not all only ask. One that complains of scant
    information, or is sorry, and then tells something of anybody is no abstention: what it tells is
    judged."""
    text = output.replace("\u2019", "'").strip()
    if no_answer(text) == EMPTY:
        return True
    parts = list(chain.from_iterable(map(_parts, split_sentences(text))))
    declining = [part for part in parts if _is_declining(part)]
    return bool(declining) and all(part in declining or _ASKS.match(part) for part in parts)


def _is_declining(part: str) -> bool:
    if _DECLINES.match(part) or _NOTHING_FOUND.search(part):
        return True
    return no_answer(part) == REFUSAL


def _parts(sentence: str) -> list[str]:
    """A sentence, cut where it turns ("..., but he was a painter"), without the words it opens
    with."""
    opening = re.match(_OPENING, sentence, re.IGNORECASE)
    start = opening.end() if opening else 0
    if not re.search(r"\w", sentence[start:]):
        return [sentence]
    return [part for part in _TURN.split(sentence[start:]) if re.search(r"\w", part)]


MAX_GROUPING_TOKENS = (
    2048  # that a judge may write: the numbers of all facts, with room for white space
)
_FIXED = 7  # demonstrations that are in every prompt
# White space is looked at from its beginning alone: from each place in it, a long one would take
# the square of its length.
CITATION = re.compile(r"(?<!\s)\s*\[\s*\d+(?:\s*[,;\u2013-]\s*\d+)*\s*\]")
_HALF_CITATION = re.compile(r"(?<!\s)\s*\[[\d,;\s\u2013'-]*$")  # of an output that was cut off


def remove_citations(text: str) -> str:
    """``text`` without [1], [1, 2], [1][2] and a bracket at its end that was never closed."""
    return re.sub(r"[ \t]{2,}", " ", _HALF_CITATION.sub("", CITATION.sub("", text))).strip()


def response_sentences(output: str) -> tuple[str, ...]:
    """The sentences of a response that hold a word, citations removed first."""
    lines = (line.strip() for line in remove_citations(output).splitlines())
    return tuple(
        sentence
        for line in lines
        for sentence in split_sentences(line)
        if len(words_in(sentence)) > 1
    )


def select_demonstrations(sentence: str) -> list[dict[str, Any]]:
    """The seven that every prompt has, and of the others the nearest by BM25, as in the published
    code."""
    known, searcher = _demonstrations()
    nearest = searcher.best(sentence, 1)
    return [*known[:_FIXED], known[_FIXED + nearest[0][0] if nearest else _FIXED]]


@cache
def _demonstrations() -> tuple[list[dict[str, Any]], Searcher]:
    """Sentences and their facts, which stand alone or are ``as_written``; ``text`` is what comes
    before the sentence."""
    found = [
        {"text": "", "as_written": each["facts"], **each}
        for each in load_yaml(__package__, "prompts/decompose.yaml")
    ]
    return found, Searcher.of([each["sentence"] for each in found[_FIXED:]])


class FactsReply(Reply):
    """The facts of a sentence; none where it says nothing about anybody."""

    facts: list[str]


def check_facts(reply: FactsReply, subject: Mapping[str, Any]) -> str:
    """A `judges.typed.Check`.

    Every fact has two words, and none is a circumstance alone ("In the late 19th century."). No
    sentence states more facts than it has words.
    """
    words = len(words_in(subject["sentence"]))
    if len(reply.facts) > words + 1:
        return f"{len(reply.facts)} facts of a sentence of {words} words"
    for text in reply.facts:
        if not _fact(text) or is_adverbial(text):
            return f"not a whole sentence: {text[:80]!r}"
    return ""


def reply_to_facts(reply: FactsReply) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_fact(text) for text in reply.facts))


def _fact(text: str) -> str:
    text = " ".join(remove_citations(text).split())
    return text if len(words_in(text)) > 1 else ""


Groups = tuple[tuple[int, ...], ...]


class GroupsReply(Reply):
    """The numbers, from 1, of the facts of each individual."""

    groups: list[list[int]]


def grouping_subject(judged: JudgedBiography) -> JsonObject:
    """Return what the prompt is about.

    ``sentences`` and ``owners`` are for a judge that reads no prose.
    """
    return {
        "kind": "group",
        "name": judged.generation.name,
        "paragraph": remove_citations(judged.generation.output),
        "facts": [fact.text for fact in judged.facts],
        "owners": [fact.sentence for fact in judged.facts],
        "sentences": list(judged.sentences),
    }


def check_groups(reply: GroupsReply, subject: Mapping[str, Any]) -> str:
    """A :data:`judges.typed.Check`: every fact is in exactly one group."""
    return numbering_problem(
        [number for group in reply.groups for number in group], len(subject["facts"]), "fact"
    )


def reply_to_groups(reply: GroupsReply) -> Groups:
    """The numbers, from 0, of the facts of each individual in order of appearance, none empty."""
    return tuple(tuple(sorted(number - 1 for number in group)) for group in reply.groups if group)
