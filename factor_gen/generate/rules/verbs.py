"""A verb for one that says the opposite, in the same form and with the same objects."""

import random
from collections.abc import Iterator

from factor_gen.generate.rules.edits import Edit, edit
from factor_gen.generate.rules.phrases import head_noun, is_clause
from factor_gen.generate.rules.sentence import Sentence
from factor_gen.generate.rules.swaps import SET_PHRASES, keeps_sense
from factor_gen.generate.rules.words import FORMS, WORDS, Verb, inflect, verbs
from factor_gen.records import PREDICATE
from factor_gen.text.analysis import DATE, MONEY, NUMBER, PERCENT, TIME
from factor_gen.text.pattern import DO, NOT

_PASSED = NOT | WORDS["adverbs"]


def antonym(sentence: Sentence, rng: random.Random) -> Iterator[Edit]:
    """One edit for each verb of the sentence that has an opposite in the list."""
    for i, word in enumerate(sentence.small):
        listed = verbs().get(word)
        if (
            word == "leaving"
            or listed is None
            or _is_idiom(sentence, i)
            or not sentence.is_free(*sentence.span(i, i + 1))
        ):
            continue
        tag = form_of(sentence, i, tuple(dict.fromkeys(tag for _, tag in listed)))
        if tag is None:
            continue
        choices: list[tuple[int, int, str]] = []
        for verb, its_tag in listed:
            rest = verb.base.split(" ")[1:]
            end = i + 1 + len(rest)
            if its_tag != tag or list(sentence.small[i + 1 : end]) != rest:
                continue
            if not _fits(sentence, i, end, verb.frame, tag) or _is_said_again(sentence, i, verb):
                continue
            new = inflect(verb.other, tag)
            if _goes_astray(sentence, end, verb.other) or not keeps_sense(sentence, i, word):
                continue
            if sentence.drawn(rng, " ".join([word, *rest]), [new]) and sentence.takes(i, end, new):
                choices.append((len(rest), end, new))
        if choices:
            most = max(choices)[0]  # of "set up" and "set" the longer is meant
            fit = sorted({each for each in choices if each[0] == most})
            for _, end, new in rng.sample(fit, min(2, len(fit))):
                yield edit("antonym", PREDICATE, (*sentence.span(i, end), new))


def _is_said_again(sentence: Sentence, i: int, verb: Verb) -> bool:
    """Whether a form of the verb stands elsewhere, or one of its opposite: they would be at odds,
    or the same."""
    others = {*sentence.small[:i], *sentence.small[i + 1 :]}
    forms = {inflect(each, tag).split(" ")[0] for each in (verb.base, verb.other) for tag in FORMS}
    return bool(others & forms)


def _goes_astray(sentence: Sentence, end: int, new: str) -> bool:
    """Whether a preposition of the clause goes with the old verb alone: nothing is *removed to*, or
    *added from*."""
    wrong = (
        ("to", "into")
        if new in WORDS["verbs with from"]
        else ("from",)
        if new in WORDS["verbs with to"]
        else ()
    )
    return any(
        sentence.word(at) in wrong and sentence.tag(at + 1) != "VB" for at in sentence.clause(end)
    )


def _is_idiom(sentence: Sentence, i: int) -> bool:
    """Whether the verb is part of a phrase of its own: *selling price*, *fall on somebody*, *fall
    ill*."""
    if f"{sentence.small[i]} {sentence.word(i + 1)}" in SET_PHRASES:
        return True
    if sentence.small[i] not in ("fall", "falls", "fell", "falling", "fallen"):
        return False
    at = i + 2 if sentence.word(i + 1) in ("only", "mainly", "largely") else i + 1
    if sentence.word(at) == "on":
        return sentence.kind_at(at + 1) not in (DATE, TIME)
    return sentence.word(at) in WORDS["after falls"]


def governor(sentence: Sentence, i: int) -> int:
    """Which token before ``i`` governs a verb there: the nearest that is neither an adverb nor
    *not*; -1 if there is none."""
    at = i - 1
    while at >= 0 and (
        sentence.word(at) in _PASSED
        or (sentence.tag(at) == "RB" and sentence.word(at).endswith("ly"))
    ):
        at -= 1
    return at


def form_of(sentence: Sentence, i: int, possible: tuple[str, ...]) -> str | None:
    """The tag of the verb at ``i`` among those that its form may have, or None where it is no verb,
    or it can't be told."""
    at = governor(sentence, i)
    before, before_tag = sentence.word(at), sentence.tag(at)
    tag, following = sentence.tag(i), sentence.tag(i + 1)
    is_joined = sentence.text[
        sentence.tokens[i].end : sentence.tokens[i].end + 1
    ] == "-" or sentence.word(i - 1) in ("-", "–")
    if is_joined or sentence.tokens[i].text != sentence.small[i]:
        return None
    if before in WORDS["modals"] or before in DO:
        governs = before_tag in ("MD", "VBD", "VBP", "VBZ", "VB") and tag in (
            "VB",
            "VBP",
            "NN",
            "VBD",
        )
        return "VB" if "VB" in possible and governs else None
    if before == "to":
        return "VB" if "VB" in possible and tag == "VB" else None
    if before in WORDS["have"] and "VBN" in possible:
        return "VBN" if tag in ("VBN", "VBD", "VB", "VBP") and following != "NNS" else None
    if before in WORDS["be"] or (before in ("'s", "’s") and before_tag == "VBZ"):
        if "VBG" in possible and tag == "VBG":
            return "VBG"
        return "VBN" if "VBN" in possible and tag in ("VBN", "VBD") else None
    if "VBG" in possible:
        return "VBG" if tag == "VBG" and _is_participle(before, before_tag, following) else None
    if {"VBD", "VBN"} & set(possible):
        return _past(sentence, i, at, possible)
    if "VBZ" in possible and tag == "VBZ":
        return "VBZ" if before_tag in ("NN", "NNP", "PRP", "WDT", "WP", "NNPS") else None
    if "VBP" in possible and tag == "VBP":
        return (
            "VBP"
            if before_tag in ("NNS", "NNPS") or before in ("they", "we", "i", "you", "who", "which")
            else None
        )
    return None


def _is_participle(before: str, before_tag: str, following: str) -> bool:
    """Whether a form in -ing is a verb there, and no noun (*the opening*) or adjective (*by rising
    prices*)."""
    if before_tag in ("IN", "CC", "VBD", "VBZ", "VB", "VBP") and following == "NNS":
        return False
    return before in WORDS["before gerunds"] or before_tag not in (
        "DT",
        "JJ",
        "PRP$",
        "POS",
        "JJS",
        "CD",
        "IN",
    )


def _past(sentence: Sentence, i: int, at: int, possible: tuple[str, ...]) -> str | None:
    """Past tense or participle of a form without auxiliary."""
    before_tag, before, tag = sentence.tag(at), sentence.word(at), sentence.tag(i)
    if tag not in ("VBD", "VBN", "VBP", "VB") or before_tag in (
        "DT",
        "JJ",
        "PRP$",
        "POS",
        "JJS",
        "JJR",
        "TO",
    ):
        return None
    has_agent = sentence.word(i + 1) == "by" and sentence.kind_at(i + 2) not in (
        PERCENT,
        NUMBER,
        MONEY,
    )  # not "rose by 5%"
    if has_agent and {"VBN", "VBD"} <= set(possible):
        return "VBN" if before_tag.startswith("NN") or before == "," else None
    if "VBD" not in possible:
        return None
    if before_tag in ("PRP", "WDT", "WP") or (
        before_tag.startswith("NN") and sentence.tag(i - 1) != "CC"
    ):
        return "VBD"
    if before in ("and", "but", "or", "then") and any(
        sentence.tag(k) in ("VBD", "VBN") for k in range(max(0, i - 15), i - 1)
    ):
        return "VBD" if not sentence.tag(i + 1).startswith("NN") else None
    after_name = at >= 0 and any(each.end == sentence.tokens[at].end for each in sentence.entities)
    after_aside = (
        before in (")", ",") and at > 1 and tag == "VBD" and _object_follows(sentence, i + 1)
    )
    return "VBD" if after_name or after_aside else None


def _object_follows(sentence: Sentence, end: int) -> bool:
    """Whether an object follows: a noun phrase that is no date."""
    tag, word = sentence.tag(end), sentence.word(end)
    return not (
        sentence.kind_at(end) in (DATE, TIME)
        or (word in ("that", "this") and sentence.tag(end + 1).startswith(("DT", "PRP")))
        or (
            tag == "DT"
            and sentence.word(end + 1) in ("day", "week", "month", "year", "weekend", "morning")
        )
        or not tag.startswith(("DT", "PRP", "CD", "JJ", "NN", "POS"))
        or word in WORDS["no objects"]
    )


def _complement_follows(sentence: Sentence, end: int) -> bool:
    """Whether an infinitive or *from doing* follows in the clause, which not every verb takes."""
    for at in range(end, min(end + 10, len(sentence.tokens))):
        word = sentence.word(at)
        if word in (",", ".", ";", ":", "who", "which", "that"):
            return False
        if sentence.tag(at) == "VB" or (word, sentence.tag(at + 1)) in (
            ("to", "VB"),
            ("from", "VBG"),
        ):
            return True
    return False


def _fits(sentence: Sentence, i: int, end: int, frame: str, tag: str) -> bool:
    is_new = sentence.kind_at(end) == MONEY or head_noun(sentence, end) in WORDS["raised anew"]
    if sentence.small[i].startswith("rais") and is_new:
        return False  # money, a question, a child: nothing that was there before and is now higher
    passive = tag == "VBN" and sentence.word(governor(sentence, i)) in WORDS["be"]
    word = sentence.word(end)
    if word in WORDS["after phrasal verbs"] and sentence.small[end - 1] not in ("rise", "fall"):
        return False  # a phrasal verb of another meaning, or one that the list doesn't have
    if frame in ("x", "i") and end == i + 1 and word in ("with", "by"):
        return False  # started with a letter
    if frame == "x":
        return not (passive and end > i + 1)
    if frame == "to":
        return word == "to"
    follows = _object_follows(sentence, end)
    if frame == "n" and _complement_follows(sentence, end):
        return False
    if frame == "c":
        return word == "that" or (not passive and is_clause(sentence, end))
    if frame in ("t", "n"):
        if passive and sentence.tag(end).startswith("JJ"):
            return False  # "kept low", "found dead"
        if passive or (tag == "VBN" and word == "by"):
            return True
        if is_clause(sentence, end):
            return False  # "predicts sales will fall"
        return (follows and word not in ("that", "it")) or word in (
            "it",
            "them",
            "him",
            "her",
            "us",
            "me",
        )
    if passive:
        return False
    if frame == "m" and follows:
        return sentence.kind_at(end) in (NUMBER, MONEY, PERCENT)
    to_a_level = frame == "m" and word == "to" and sentence.tag(end + 1) != "VB"
    return to_a_level or (not follows and word not in ("that", "how", "whether", "to"))
