"""Adverbs, comparisons, prepositions and link words: phrases of a list, each for another of its line."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from functools import cache

from factor_gen.generate.rules.edits import Edit, edit
from factor_gen.generate.rules.sentence import Sentence
from factor_gen.generate.rules.swaps import DOWN, UP
from factor_gen.generate.rules.words import DATA, drawn
from factor_gen.text.analysis import DATE, DURATION, MONEY, NUMBER, PERCENT, TIME
from factor_gen.text.lists import rows


@cache
def _phrases(operator: str) -> Mapping[str, tuple[tuple[tuple[str, ...], str, str, tuple[str, ...]], ...]]:
    found: dict[str, list[tuple[tuple[str, ...], str, str, tuple[str, ...]]]] = {}
    for name, error_type, follows, *members in rows(DATA / "phrases.tsv", 5):
        if name == operator:
            for member in members:
                words = tuple(member.split(" "))
                entry = (words, error_type, follows, tuple(each for each in members if each != member))
                if entry not in found.setdefault(words[0], []):
                    found[words[0]].append(entry)
    return {word: tuple(sorted(each, key=lambda entry: -len(entry[0]))) for word, each in found.items()}


def phrase(operator: str, sentence: Sentence, rng: random.Random) -> Iterator[Edit]:
    """A phrase of the list for another of its line, where what follows it lets both stand."""
    listed = _phrases(operator)
    done = -1
    for i, word in enumerate(sentence.small):
        if i < done:
            continue
        for words, error_type, follows, others in listed.get(word, ()):
            end = i + len(words)
            if sentence.small[i:end] != words or not _phrase_fits(sentence, i, end, follows):
                continue
            start, stop = sentence.tokens[i].start, sentence.tokens[end - 1].end
            old = " ".join(words)
            done = max(done, end)
            for new in [each for each in drawn(rng, old, others) if each not in sentence.text][:1]:
                yield edit(operator, error_type, (start, stop, new.replace(" ,", ",")))


def _phrase_fits(sentence: Sentence, i: int, end: int, follows: str) -> bool:
    start, stop = sentence.tokens[i].start, sentence.tokens[end - 1].end
    if (
        not sentence.is_free(start, stop)
        or sentence.text[start - 1 : start] == "-"
        or sentence.text[stop : stop + 1] == "-"
    ):
        return False
    if sentence.text[start:stop].lower().replace(",", "").split() != [w for w in sentence.small[i:end] if w != ","]:
        return False
    tag, word = sentence.tag(end), sentence.word(end)
    entity = sentence.entity_at(end)
    kind = entity.kind if entity else ""
    if follows == "number":
        if sentence.word(i - 1) in UP | DOWN:
            return False  # "rises above"
        return kind in (NUMBER, MONEY, PERCENT, DURATION) and sentence.word(i - 1) not in (
            "no",
            "not",
            "up",
            "down",
            "by",
            "per",
        )
    if follows == "date":
        return kind in (DATE, TIME) and sentence.tag(i - 1) != "VBN"
    if follows == "end":
        return word in (".", ",", ";", "") or tag in ("IN", "CC")
    if follows == "gerund":
        return tag == "VBG"
    if follows == "adjective":
        return (
            tag in ("JJ", "RB")
            and sentence.word(i - 1) not in ("the", "no", "any")
            and sentence.small[i] in ("more", "less")
        ) or (tag == "JJ" and sentence.word(i - 1) == "the")
    if follows == "noun":
        return _is_noun_phrase(sentence, end)
    if follows == "clause":
        return is_clause(sentence, end)
    return True


def _is_noun_phrase(sentence: Sentence, i: int) -> bool:
    """Whether a noun phrase and no clause starts there: no verb before the next break."""
    if not (sentence.tag(i).startswith(("DT", "NN", "JJ", "PRP$", "CD")) or sentence.entity_at(i)):
        return False
    return not _has_verb(sentence, i)


def is_clause(sentence: Sentence, i: int) -> bool:
    """Whether a clause starts there: a subject, and a verb before the next break."""
    if not (sentence.tag(i).startswith(("DT", "NN", "JJ", "PRP", "CD", "EX")) or sentence.entity_at(i)):
        return False
    return _has_verb(sentence, i)


def _has_verb(sentence: Sentence, i: int) -> bool:
    for at in range(i, min(i + 25, len(sentence.tokens))):
        if sentence.word(at) in (",", ".", ";", ":", "-", "–", "—", "who", "which", "that"):
            return False
        if sentence.tag(at) in ("VBD", "VBZ", "VBP", "MD") and at > i:
            return True
    return False
