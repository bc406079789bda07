"""Steps 1 and 2 of D-FActScore: the facts of a response, and the individuals that it tells of.

`method` asks the judge and reads its replies with the functions of this module.

Two things differ from the published code. The judge sees the text before a sentence, where the
code shows the sentence alone. The judge replies with JSON, where the code splits a reply at every
"- ", also in "1990- 1995", and loses the first fact of nearly every response.
"""

import re
from collections.abc import Collection, Mapping
from functools import cache
from itertools import chain
from typing import Any

from judges.lexical.facts import is_adverbial
from judges.typed import Reply, numbering_problem
from lm_factuality.benchmarks.biographies.types import JudgedBiography
from lm_factuality.benchmarks.felm_gen.steps import EMPTY, REFUSAL, why_no_answer
from lm_factuality.ground.packages import load_words, load_yaml
from lm_factuality.ground.sentences import LIST_MARKER, split_sentences, words_in
from lm_factuality.harness.generation import JsonObject
from lm_factuality.retrieval.bm25 import Searcher

_WORDS = load_words(__package__)
_SORRY = r"(?:i'?m|i am)(?: \w+){0,2} sorry|(?:my )?(?:sorry|apologies)|i (?:\w+ )?apologi[sz]e"
# Such as "Unfortunately, but that ".
_OPENING = re.compile(
    rf"^\W{{0,40}}(?:(?:unfortunately|sadly|regrettably|however|{_SORRY})\b[\s,:;-]{{0,20}}"
    r"(?:but |that )?)*",
    re.IGNORECASE,
)
_HAS_WORD = re.compile(r"\w")
# Either "I" declines, or an apology is the whole text.
_DECLINES = re.compile(
    rf"{_OPENING.pattern}(?:i (?:\w+ )?(?:{_WORDS['cannot']})\b|\W{{0,40}}$)", re.IGNORECASE
)
_NOTHING_FOUND = re.compile(_WORDS["nothing_found"], re.IGNORECASE)
_ASKS_FOR_MORE = re.compile(rf"^\W*(?:{_WORDS['asks']})", re.IGNORECASE)
_EMPHASIS = re.compile(r"\*{1,3}|__")
# A subject is named with a capital letter, or an article comes before it.
_UNKNOWN_SUBJECT = re.compile(
    rf"(?i:{_OPENING.pattern}i(?:'m| am)? (?:{_WORDS['unknown']})) (?=(?:an?|any|the) |[A-Z\"])"
)
_LIST_ITEM = re.compile(rf"\s*{LIST_MARKER}\s")
_WRITES_ANYWAY = re.compile(rf"^#|{_WORDS['writes_anyway']}", re.IGNORECASE | re.MULTILINE)
_UNDECIDED = re.compile(
    r"n't\b|\b(?:not|may|might|could|would|possibl\w+|perhaps|likely|if)\b", re.IGNORECASE
)
# Where a sentence may turn from an apology to a statement.
_TURN = re.compile(
    r";\s*|(?:,|(?<!\s))\s+(?:but|although|though|however|yet|except|other than|apart"
    r" from)\b[\s,]*(?:that\b\s*)?",
    re.I,
)

NO_FACTS = "no facts in any sentence"
MAX_GROUPING_TOKENS = 2048  # of a reply with the numbers of all facts, with room for white space
_NUM_FIXED_DEMONSTRATIONS = 7  # The first ones of the file are in every prompt.
LONGEST_QUOTATION = 80  # characters of a fact that a message quotes

# The lookbehind lets white space match from its beginning only. Without it, a long stretch of white
# space takes quadratic time.
CITATION = re.compile(r"(?<!\s)\s*\[\s*\d+(?:\s*[,;\u2013-]\s*\d+)*\s*\]")
# The end of an output that was cut off, such as " [1, 2".
_UNCLOSED_CITATION = re.compile(r"(?<!\s)\s*\[[\d,;\s\u2013'-]*$")

Groups = tuple[tuple[int, ...], ...]
"""The fact groups of a response: the numbers of the facts of each individual."""


def is_abstention(output: str) -> bool:
    """Return whether a response declines to answer, or is empty.

    Every clause of an abstention declines, says that nothing was found, or asks for more
    information. A response that only asks is no abstention. A response that apologises and then
    states anything is no abstention either, since the judge decides about what it states. If the
    first sentence says that the model does not know the subject, the rest may guess what was meant.

    Example:
        "I'm sorry, I cannot find her. Could you say more?" is an abstention. "I'm sorry, I know
        little, but she was a painter." is an answer.

    Args:
        output: The response as the model wrote it.
    """
    # The patterns have the straight apostrophe, but models also write the curly one.
    text = _EMPHASIS.sub("", output.replace("\u2019", "'")).strip()
    if why_no_answer(text) == EMPTY or _does_not_know_subject(text):
        return True

    has_declined = False
    for sentence in split_sentences(text):
        for clause in _split_clauses(sentence):
            if _is_declining(clause):
                has_declined = True
            elif not _ASKS_FOR_MORE.match(clause):
                return False
    return has_declined


def _does_not_know_subject(text: str) -> bool:
    """Return whether a response says that its subject is unknown, and nothing else about it.

    Example:
        ``I'm not aware of a town called Elby. You may be thinking of Selby, a town in Yorkshire.``
        does. With the sentence ``Elby is in Kent.`` it does not.

    Args:
        text: The response without emphasis.
    """
    opening = _UNKNOWN_SUBJECT.match(text)
    if opening is None or _WRITES_ANYWAY.search(text):
        return False
    # The items of a list are guesses and offers.
    lines = [line for line in text.splitlines() if not _LIST_ITEM.match(line)]
    sentences = list(chain.from_iterable(map(split_sentences, lines)))
    # In "I don't know Ada, but she sang.", a second clause states something.
    if not sentences or len(_split_clauses(sentences[0])) > 1:
        return False

    # The text begins with the opening, such as "I don't know ", and so does its first sentence. The
    # words with a capital letter behind the opening are the subject's name.
    name_words = re.findall(r"[A-Z]\w+", sentences[0][opening.end() :])
    subjects = {"he", "she", "they", "it", *(word.lower() for word in name_words)}
    return not any(_asserts_something(sentence, subjects) for sentence in sentences[1:])


def _asserts_something(sentence: str, subjects: Collection[str]) -> bool:
    """Return whether a sentence begins with a subject and says something of it for certain.

    Example:
        With the subject "she", "She was a painter." does, and "She may be a painter." does not.

    Args:
        sentence: A sentence of the response.
        subjects: The words in lower case that stand for the subject.
    """
    first_word = re.search(r"\w+", sentence)
    is_about_subject = first_word is not None and first_word[0].lower() in subjects
    return is_about_subject and not _UNDECIDED.search(sentence)


def _split_clauses(sentence: str) -> list[str]:
    """Split a sentence where it may turn from an apology to a statement, and drop the apology.

    Example:
        "Sorry, I know little, but he was a painter." becomes "I know little" and "he was a
        painter.". A sentence that only apologises is returned whole.

    Args:
        sentence: A sentence of the response.
    """
    statement = _OPENING.sub("", sentence)
    # Nothing is left of a sentence that only apologises.
    if not _HAS_WORD.search(statement):
        return [sentence]
    return [clause for clause in _TURN.split(statement) if _HAS_WORD.search(clause)]


def _is_declining(clause: str) -> bool:
    """Return whether a clause declines to answer or says that nothing was found."""
    if _DECLINES.match(clause) or _NOTHING_FOUND.search(clause):
        return True
    return why_no_answer(clause) == REFUSAL


def response_sentences(output: str) -> tuple[str, ...]:
    """Split a response into sentences, after removing its citations.

    Sentences of fewer than two words are left out. A sentence never spans two lines.

    Args:
        output: The response as the model wrote it.
    """
    return tuple(chain.from_iterable(response_paragraphs(output)))


def response_paragraphs(output: str) -> list[list[str]]:
    """Split a response into paragraphs, i.e. lines, and these into sentences without citations.

    Example:
        "Ada sang [1]. She won.", a line break and "He died." become [["Ada sang.", "She won."],
        ["He died."]].
    """
    paragraphs = []
    # Headings and list items often have no full stop, but end with the line.
    for line in remove_citations(output).splitlines():
        sentences = split_sentences(line.strip())
        # A single word, such as a heading, is no sentence.
        paragraphs.append([sentence for sentence in sentences if len(words_in(sentence)) > 1])
    return paragraphs


def remove_citations(text: str) -> str:
    """Remove citations such as [1], [1, 2] and [1][2], and an unclosed one at the end.

    Example:
        "She sang [1][2]. He won [3" becomes "She sang. He won".
    """
    without_closed = CITATION.sub("", text)
    without_any = _UNCLOSED_CITATION.sub("", without_closed)
    return re.sub(r"[ \t]{2,}", " ", without_any).strip()


def select_demonstrations(sentence: str) -> list[dict[str, Any]]:
    """Choose the demonstrations that show the judge how to decompose a sentence.

    Args:
        sentence: The sentence that the judge is to decompose.

    Returns:
        Seven demonstrations that are the same for every sentence, then the one of the others that
        is most similar by BM25, as in the code of FActScore.
    """
    demonstrations = _load_demonstrations()
    ranking = _index_selectable_demonstrations().rank(sentence, 1)
    # The ranking is empty if the sentence shares no word with any demonstration.
    nearest = ranking[0][0] if ranking else 0
    fixed = demonstrations[:_NUM_FIXED_DEMONSTRATIONS]
    return [*fixed, demonstrations[_NUM_FIXED_DEMONSTRATIONS + nearest]]


@cache
def _load_demonstrations() -> list[dict[str, Any]]:
    """Load all demonstrations from the file ``prompts/decompose.yaml``.

    Each has a ``sentence``, the ``text`` before it, its ``facts`` in words that stand alone, and
    under ``as_written`` the same facts in the words of the sentence. The file leaves ``text`` out
    if the sentence is the first one, and ``as_written`` if it equals ``facts``.
    """
    demonstrations = []
    for entry in load_yaml(__package__, "prompts/decompose.yaml"):
        defaults = {"text": "", "as_written": entry["facts"]}
        demonstrations.append({**defaults, **entry})
    return demonstrations


@cache
def _index_selectable_demonstrations() -> Searcher:
    """Index the sentences of the demonstrations after the fixed ones."""
    selectable = _load_demonstrations()[_NUM_FIXED_DEMONSTRATIONS:]
    return Searcher.from_texts([demonstration["sentence"] for demonstration in selectable])


# The schema of a reply, with the docstring of its class, is part of the keys of stored answers.
class FactsReply(Reply):
    """The facts of a sentence; none where it says nothing about anybody."""

    facts: list[str]


def problem_with_facts(reply: FactsReply, prompt_variables: Mapping[str, Any]) -> str:
    """Say why the facts that a judge found in a sentence cannot be used.

    A fact needs at least two words, and must say more than a circumstance such as "In the late 19th
    century.".

    Args:
        reply: The facts.
        prompt_variables: The variables of the prompt, among them the ``sentence``.

    Returns:
        The problem, or an empty string if the facts are usable.
    """
    num_words = len(words_in(prompt_variables["sentence"]))
    # A judge that lists more facts than the sentence has words repeats itself. The limit leaves
    # room for one more, so that only clear cases are refused.
    if len(reply.facts) > num_words + 1:
        return f"{len(reply.facts)} facts of a sentence of {num_words} words"
    for text in reply.facts:
        # `clean_fact` returns an empty string for fewer than two words.
        if not clean_fact(text) or is_adverbial(text):
            return f"not a whole sentence: {text[:LONGEST_QUOTATION]!r}"
    return ""


def reply_to_facts(reply: FactsReply) -> tuple[str, ...]:
    """Return the distinct facts of a reply, in its order and without citations."""
    # A dict keeps the order and drops repeated facts.
    return tuple(dict.fromkeys(clean_fact(text) for text in reply.facts))


def clean_fact(text: str) -> str:
    """Remove citations and repeated white space from a fact that a judge wrote.

    Example:
        "She  sang [1]." becomes "She sang.". A fact of fewer than two words becomes an empty text.
    """
    # Some judges copy the citations of the sentence.
    fact = " ".join(remove_citations(text).split())
    return fact if len(words_in(fact)) > 1 else ""


class GroupsReply(Reply):
    """The numbers, from 1, of the facts of each individual."""

    groups: list[list[int]]


def grouping_variables(biography: JudgedBiography) -> JsonObject:
    """Return the variables of the prompt that asks a judge to group the facts of a response.

    The prompt shows ``name``, ``paragraph`` and ``facts``. ``sentences``, and under ``owners`` the
    number of each fact's sentence, are for a judge that reads no prose.
    """
    return {
        "kind": "group",
        "name": biography.generation.name,
        "paragraph": remove_citations(biography.generation.output),
        "facts": [fact.text for fact in biography.facts],
        "owners": [fact.sentence for fact in biography.facts],
        "sentences": list(biography.sentences),
    }


def problem_with_groups(reply: GroupsReply, prompt_variables: Mapping[str, Any]) -> str:
    """Say why the groups of a judge cannot be used: a fact is in no group, or in several.

    Args:
        reply: The groups, with facts numbered from 1.
        prompt_variables: The variables of the prompt, among them the ``facts``.

    Returns:
        The problem, such as "no fact 3", or an empty string if the groups are usable.
    """
    numbers = list(chain.from_iterable(reply.groups))
    return numbering_problem(numbers, len(prompt_variables["facts"]), "fact")


def reply_to_groups(reply: GroupsReply) -> Groups:
    """Convert the groups of a reply, which number facts from 1, to fact numbers from 0.

    Example:
        The groups [[2, 1], [], [3]] become ((0, 1), (2,)).

    Args:
        reply: A reply whose groups `problem_with_groups` found usable.
    """
    groups = []
    for group in reply.groups:
        # Some judges add an empty group.
        if group:
            groups.append(tuple(sorted(number - 1 for number in group)))
    return tuple(groups)
