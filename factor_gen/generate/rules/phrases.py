"""Adverbs, comparisons, prepositions and link words: phrases of a list, each for another of its
line."""

import random
from collections.abc import Iterator, Mapping
from functools import cache

from factor_gen.generate.rules.edits import Edit, edit
from factor_gen.generate.rules.sentence import Sentence
from factor_gen.generate.rules.words import DATA, WORDS, grouped
from factor_gen.text.analysis import DATE, DURATION, FINITE, MONEY, NUMBER, PERCENT, TIME
from factor_gen.text.lists import rows
from factor_gen.text.pattern import DO, NOT

_CLINGS = frozenset(["before", "after", "following", "prior"])
_BEFORE_OTHER_NUMBERS = frozenset(["no", "not", "up", "down", "by", "per"])


@cache
def _phrases(
    operator: str,
) -> Mapping[str, tuple[tuple[tuple[str, ...], str, str, tuple[str, ...]], ...]]:
    """By first word, the longest first: the words, their error type, what has to follow them, and
    what may stand for them."""
    listed = [
        (
            tuple(member.split(" ")),
            error_type,
            follows,
            tuple(each.removeprefix("=") for each in members if each != member),
        )
        for name, error_type, follows, *members in rows(DATA / "phrases.tsv", 5)
        for member in members
        if name == operator and not member.startswith("=")
    ]
    return grouped((each[0][0], each) for each in sorted(listed, key=lambda each: -len(each[0])))


def phrase(operator: str, sentence: Sentence, rng: random.Random) -> Iterator[Edit]:
    """A phrase of the list for another of its line, where what follows it lets both stand."""
    listed = _phrases(operator)
    done = -1
    for i, word in enumerate(sentence.small):
        if i < done:
            continue
        for words, error_type, follows, others in listed.get(word, ()):
            end = i + len(words)
            if sentence.small[i:end] != words or not _phrase_fits(
                operator, sentence, i, end, follows
            ):
                continue
            done = max(done, end)
            for new in [
                each
                for each in sentence.drawn(rng, " ".join(words), others)
                if each not in sentence.text
            ][:1]:
                yield edit(operator, error_type, (*sentence.span(i, end), new.replace(" ,", ",")))


def _phrase_fits(operator: str, sentence: Sentence, i: int, end: int, follows: str) -> bool:
    start, stop = sentence.span(i, end)
    if not sentence.is_free(start, stop) or sentence.is_joined(i, end, "-"):
        return False
    if sentence.text[start:stop].lower().replace(",", "").split() != [
        w for w in sentence.small[i:end] if w != ","
    ]:
        return False
    tag, word, kind, before = (
        sentence.tag(end),
        sentence.word(end),
        sentence.kind_at(end),
        sentence.word(i - 1),
    )
    if before in ("even", "just", "least", "most", "than") or (
        before in ("and", "or") and end == i + 1 and sentence.tag(i) == "RB"
    ):
        return False  # even after, at least once, together and simultaneously
    if (
        sentence.small[i] in ("usually", "often", "frequently", "rarely")
        and "only" in sentence.words
    ):
        return False  # usually only one
    if sentence.small[i] == "must" and (
        "least" in sentence.small[:i] or "or" in sentence.small[end:]
    ):
        return False  # at least two must; must leave or be shut in
    if operator == "cause" and (
        before in WORDS["focusing"] or (sentence.small[i] == "in" and "also" in sentence.words)
    ):
        return False  # especially if, also because of, in addition to ... also
    if follows == "clause" and sentence.is_past:
        return False  # it closed unless it rained
    if sentence.small[i] == "because" and (
        before in WORDS["before reasons"] or sentence.words & WORDS["conceding"]
    ):
        return False  # only because
    if (
        sentence.small[i] in ("due", "because")
        and follows == "noun"
        and before in WORDS["predicates"]
    ):
        return False  # these are due to
    if (
        word in NOT
        or sentence.word(end + 1) in NOT
        or (sentence.small[i].endswith("ly") and sentence.tag(i - 1) == "MD")
    ):
        return False  # usually do not, must usually
    if end == i + 1 and sentence.tag(i) == "RB" and (word in _CLINGS or before in ("than", "as")):
        return False  # immediately before, than previously
    if sentence.small[i] == "following" and sentence.tag(i - 1) in ("DT", "IN", "PRP$", "CC", "JJ"):
        return False  # the following commands
    if sentence.small[i] in ("immediately", "eventually") and tag == "IN":
        return False  # immediately above it
    if sentence.small[i].endswith("ly") and "," in (word, before if i else ","):
        return False  # Naturally, ...
    if sentence.small[i].endswith("ly") and NOT & {*sentence.small[max(0, i - 5) : i]}:
        return False  # not immediately
    if follows == "number":  # not "rises above", and not "more than one"
        fits = before not in WORDS["up"] | WORDS["down"] | _BEFORE_OTHER_NUMBERS
        return (
            fits and word != "one" and before != "to" and kind in (NUMBER, MONEY, PERCENT, DURATION)
        )
    if follows == "date":
        return kind in (DATE, TIME) and sentence.tag(i - 1) != "VBN"
    if follows in ("plural", "singular"):
        if (
            sentence.small[i] in ("all", "most", "many")
            and i > 0
            and before not in WORDS["before clauses"]
        ):
            return False  # few files are read, but not: filled with few
        is_one = sentence.small[i] in ("has", "had") and sentence.is_qualified(i)
        return (
            tag == {"plural": "NNS", "singular": "NN"}[follows]
            and before not in WORDS["before quantities"]
            and not is_one
        )
    if follows == "infinitive":
        return (
            tag == "VB"
            and sentence.tag(i) == "MD"
            and word not in {"have", *WORDS["wishes"]}
            and not sentence.is_qualified(i)
        )
    if follows == "obligation":
        if sentence.small[i] == "need" and sentence.tag(i - 1) in (
            "DT",
            "PRP$",
            "JJ",
            "IN",
            *FINITE,
        ):
            return False  # the need to read
        return (
            tag == "VB"
            and sentence.tag(i - 1) not in ("MD", "TO", "RB")
            and before not in DO
            and not sentence.is_qualified(i)
        )
    if follows == "plurals":
        head = next(
            (at for at in range(end, len(sentence.tokens)) if sentence.tag(at).startswith("NN")),
            end,
        )
        return _is_noun_phrase(sentence, end) and sentence.tag(head) == "NNS"
    if follows == "end":
        return word != "as" and (word in (".", ",", ";", "") or tag in ("IN", "CC"))
    if follows == "object":
        return tag.startswith(("DT", "NN", "JJ", "PRP", "CD", "VBG")) or bool(kind)
    if follows == "kind":  # in the same place
        return sentence.tag(i - 1) == "IN" and tag == "NN"
    if follows == "past":  # of one subject: she never did
        verb = sentence.tag(end) in ("VBD", "VBN") or sentence.tag(i - 1) == "VBD"
        return verb and not any(
            sentence.tag(at) in ("VBZ", "VBP", "MD", "NNS", "NNPS")
            for at in sentence.clause(i - 1, -1)
        )
    if follows == "gerund":
        if sentence.small[i] == "by" and (
            sentence.tag(0).startswith("VB") or word == "having" or before == "of"
        ):
            return False  # there may be other ways
        return tag == "VBG" and sentence.words.isdisjoint({"then", *WORDS["denied only"]})
    if follows == "adjective":
        return tag == "JJ" and before == "the"
    if follows == "verb":
        return _goes_with_verb(sentence, i, end)
    if follows == "time":
        return _orders(sentence, i, end)
    if follows == "event":
        return (
            _orders(sentence, i, end)
            and _is_noun_phrase(sentence, end)
            and head_noun(sentence, end) in WORDS["events"]
        )
    if follows == "noun":
        if sentence.small[i] in ("above", "below", "inside", "outside") and kind in (
            DURATION,
            DATE,
            TIME,
            NUMBER,
        ):
            return False
        return _is_noun_phrase(sentence, end)
    if follows == "clause":
        clause = {sentence.word(at) for at in sentence.clause(end)}
        if sentence.words & {"then", "only", "else"} or before in WORDS["whether"] or clause & NOT:
            return False  # unless they do not
        return is_clause(sentence, end)
    return True


def _goes_with_verb(sentence: Sentence, i: int, end: int) -> bool:
    """Whether an adverb of time is next to its verb: not a *still* that means *all the same*, or
    that grades or is denied."""
    near = {*sentence.small[max(0, i - 2) : i], *sentence.small[end : end + 3]}
    if (
        near & NOT
        or sentence.tag(end) in ("JJR", "RBR", "RB")
        or sentence.word(end) in (",", "a", "more", "another")
    ):
        return False
    return sentence.tag(i - 1) in ("VBZ", "VBP", "VBD", "MD") or (
        sentence.tag(i - 1) in ("PRP", "NNS", "NN") and sentence.tag(end) in ("VBZ", "VBP", "VBD")
    )


def _orders(sentence: Sentence, i: int, end: int) -> bool:
    """Whether *before*, *after* or *during* sets an event after or before a past one, which the
    other may do as well."""
    if sentence.kind_at(end) in (DURATION, NUMBER, MONEY, PERCENT):
        return False  # after two years
    ends = sentence.tag(end) in ("", ".", ",", "IN") or sentence.word(end) in (";", ":", "all")
    if sentence.word(i - 1) in {"brought", *WORDS["not in time"]} or ends:
        return False
    verb = next((tag for tag in map(sentence.tag, range(i - 1, -1, -1)) if tag in FINITE), "")
    # "rises after it fell" would be "rises before it fell"
    is_span = (
        sentence.word(end + 1) in WORDS["spans"]
    )  # after a while, which may be tagged as the conjunction
    return (
        verb not in ("VBZ", "VBP")
        and not is_span
        and head_noun(sentence, end) not in WORDS["before whom"] | WORDS["spans"]
    )


def head_noun(sentence: Sentence, i: int) -> str:
    """The last noun of the noun phrase that starts there; empty if there is none."""
    head = ""
    while sentence.tag(i).startswith(("DT", "PRP$", "POS", "JJ", "NN", "CD")):
        if sentence.tag(i).startswith("NN"):
            head = sentence.word(i)
        i += 1
    return head


def _is_noun_phrase(sentence: Sentence, i: int) -> bool:
    """Whether a noun phrase and no clause starts there: no verb before the next break."""
    starts = sentence.tag(i).startswith(("DT", "NN", "JJ", "PRP$", "CD")) or bool(
        sentence.kind_at(i)
    )
    return starts and not _has_verb(sentence, i)


def is_clause(sentence: Sentence, i: int) -> bool:
    """Whether a clause starts there: a subject, and a verb before the next break."""
    starts = sentence.tag(i).startswith(("DT", "NN", "JJ", "PRP", "CD", "EX")) or bool(
        sentence.kind_at(i)
    )
    return starts and _has_verb(sentence, i)


def _has_verb(sentence: Sentence, i: int) -> bool:
    for at in range(i, min(i + 25, len(sentence.tokens))):
        if sentence.word(at) in (",", ".", ";", ":", "-", "–", "—", "who", "which", "that"):
            return False
        if sentence.tag(at) in FINITE and at > i:
            return True
    return False
