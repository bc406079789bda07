"""A sentence denied, or its denial taken back."""

import random
import re
from collections.abc import Iterator
from functools import lru_cache

from factor_gen.generate.rules.edits import Edit, edit
from factor_gen.generate.rules.sentence import Sentence
from factor_gen.generate.rules.swaps import keeps_sense
from factor_gen.generate.rules.verbs import form_of
from factor_gen.generate.rules.words import WORDS, inflect
from factor_gen.records import PREDICATE
from factor_gen.text.analysis import DATE, FINITE, TIME
from factor_gen.text.pattern import NOT, SUBJECTS, lemmas

ADDED = 0.15
"""How often a denial is offered of a sentence in which there is enough else to change: few true
sentences have a *not*, and few false ones shall."""

_AUXILIARIES = WORDS["be"] | WORDS["auxiliaries"]
_HAVE_FORMS = {"has": "does", "have": "do", "had": "did"}
_DO_FORMS = {"do": "VBP", "does": "VBZ", "did": "VBD"}
_ASIDE = re.compile(
    r"\s(?:of course|of late|for example|for instance|for ever|for once|above all|on the whole)\b"
)
_THE_MORE = re.compile(
    r"\bthe (?:more|less|\w+er)\b[^.;]*, the (?:more|less|\w+er)\b", re.IGNORECASE
)
_CLIPPED = {"wo": "will", "ca": "can", "sha": "shall"}
_PREDICATES = ("VBG", "VBN", "DT", "JJ", "JJR", "NN", "NNS", "NNP", "PRP$")
_POSSESSIONS = ("DT", "JJ", "NN", "NNS", "PRP$")
_ALONG = re.compile(r", (?:which|who|whose|not)\b|\b(?:so that|as well as|except)\b")
_PRESENT = {"VBZ": ("NN", "NNP", "PRP"), "VBP": ("NNS", "PRP")}


def taken_back(sentence: Sentence, rng: random.Random) -> Iterator[Edit]:
    """*Did not rise* becomes *rose*, *cannot* becomes *can*."""
    for i, word in enumerate(sentence.small):
        token = sentence.tokens[i]
        if (word != "cannot" and word not in NOT) or not sentence.is_free(token.start, token.end):
            continue
        if _later(sentence, i, WORDS["denied only"] | WORDS["after denials"]) or _is_argued(
            sentence, i
        ):
            continue  # do not stop and rest, cannot be said enough
        if " at all" in sentence.text[token.end : sentence.clause_end(token.end)]:
            continue
        if word == "cannot":
            yield edit("negation removed", PREDICATE, (token.start, token.end, "can"))
        if word not in NOT or i == 0 or sentence.word(i + 1) in WORDS["after kept negations"]:
            continue
        helper = sentence.tokens[i - 1]
        small = helper.text.lower()
        if small in ("may", "might"):
            continue  # may and may not
        if (
            small in _DO_FORMS
            and sentence.tag(i + 1) in ("VB", "VBP", "NN")
            and lemmas(sentence.word(i + 1), "VERB")
        ):
            verb = sentence.tokens[i + 1]
            if verb.text.islower() and verb.text in lemmas(verb.text, "VERB"):
                yield edit(
                    "negation removed",
                    PREDICATE,
                    (helper.start, verb.end, inflect(verb.text, _DO_FORMS[small])),
                )
        elif small in _AUXILIARIES or small in _CLIPPED:
            if helper.text[0].isupper() and not sentence.tag(i + 1).startswith(("PRP", "DT", "NN")):
                continue  # "Can't resist" has no subject
            new = _CLIPPED.get(small, helper.text)
            new = new.capitalize() if helper.text[0].isupper() else new
            yield edit("negation removed", PREDICATE, (helper.start, token.end, new))


def added(sentence: Sentence, rng: random.Random) -> Iterator[Edit]:
    """*Rose* becomes *did not rise*, *will* becomes *will not*; seldom, see ``ADDED``."""
    if sentence.every:
        yield from denials(sentence)
    elif rng.random() < ADDED and (found := denials(sentence)):
        yield rng.choice(found)


@lru_cache(maxsize=1)  # asked for by two operators, one after the other
def denials(sentence: Sentence) -> tuple[Edit, ...]:
    """Each way to deny the sentence."""
    has_purpose = _begins_with_to(sentence) and (
        sentence.word(0) != "to" or sentence.tag(1) == "VB"
    )
    denied = () if has_purpose else _denied(sentence)  # To see the list, the button is not used
    return (*_forbidden(sentence), *denied)


def _begins_with_to(sentence: Sentence) -> bool:
    """Whether it begins with what something is done for: *to see it*, *in order not to see it*; *so
    as to* is an argument."""
    return sentence.word(0) == "to" or (
        sentence.small[:2] == ("in", "order") and "to" in sentence.small[2:4]
    )


def _denied(sentence: Sentence) -> Iterator[Edit]:
    """What the sentence asserts, denied."""
    for i, word in enumerate(sentence.small):
        token = sentence.tokens[i]
        if (
            not sentence.is_free(token.start, token.end)
            or not token.text.islower()
            or _later(sentence, i, WORDS["affirmed only"])
            or any(sentence.word(at) in WORDS["affirmed only"] for at in sentence.clause(i - 1, -1))
            or _clause_is_fronted(sentence, i)
            or _is_explained(sentence, i)
            or _is_argued(sentence, i)
            or sentence.is_qualified(i)
            or not keeps_sense(sentence, i, word)
            or _ASIDE.match(sentence.text, token.end)
        ):
            continue
        at = i + 2 if _is_manner(sentence, i + 1) else i + 1
        following, next_word = sentence.tag(at), sentence.word(at)
        if word in _HAVE_FORMS and at > i + 1 and sentence.tag(at + 1).startswith(("NN", "JJ")):
            continue  # has fully grown roots
        if _takes_not(word, sentence.tag(i), sentence.tag(i - 1), following, next_word):
            denied = "cannot" if word == "can" else f"{word} not"
            yield edit("negation added", PREDICATE, (token.start, token.end, denied))
        elif (
            sentence.tag(i) == "VBD"
            and word not in WORDS["be"]
            and word not in WORDS["reports"]
            and _is_plain(sentence, i)
        ):
            base = lemmas(word, "VERB")
            if base and inflect(base[0], "VBD") == word:
                yield edit(
                    "negation added", PREDICATE, (token.start, token.end, f"did not {base[0]}")
                )
        elif word in _HAVE_FORMS and _is_possession(sentence, i):
            yield edit(
                "negation added",
                PREDICATE,
                (token.start, token.end, f"{_HAVE_FORMS[word]} not have"),
            )
        elif sentence.tag(i) in _PRESENT and _is_present(sentence, i):
            helper = "does not" if sentence.tag(i) == "VBZ" else "do not"
            yield edit(
                "negation added",
                PREDICATE,
                (token.start, token.end, f"{helper} {lemmas(word, 'VERB')[0]}"),
            )


def in_time(sentence: Sentence, rng: random.Random) -> Iterator[Edit]:
    """Each denial in other words, where nothing else is left: *is no longer*, *was never*."""
    is_timed = not sentence.words.isdisjoint(WORDS["times"]) or any(
        each.kind in (DATE, TIME) for each in sentence.entities
    )
    if not sentence.spare or is_timed or _begins_with_to(sentence):
        return
    for each in denials(sentence):
        ((start, end, new),) = each.replacements
        first, _, verb = new.partition(" not ")
        old = sentence.text[start:end]
        if new == "cannot":
            new = "can no longer"
        elif first == "Do":
            new = f"Never {verb}"
        elif first in ("does", "do"):
            new = f"no longer {old}"
        elif first == "did":
            new = f"never {old}"
        else:
            new = f"{old} no longer" if old in ("is", "are") else f"{old} never"
        yield edit("negation in time", PREDICATE, (start, end, new))


def _forbidden(sentence: Sentence) -> Iterator[Edit]:
    """*Press the key* becomes *Do not press the key*; so does what is to be done *to change it,
    ...*."""
    commas = (
        [at + 1 for at, word in enumerate(sentence.small[:40]) if word == ","]
        if _begins_with_to(sentence)
        else []
    )
    for i in (0, *commas[:1]):
        word = sentence.word(i)
        if (
            word in {"", *WORDS["not forbidden"], *WORDS["function words"]}
            or word not in lemmas(word, "VERB")
            or not sentence.is_free(*sentence.span(i, i + 1))
        ):
            continue
        is_verb = sentence.tag(i) == "VB" and sentence.tag(i + 1) == "NNP"  # Open Settings
        is_verb |= (
            sentence.tag(i + 1) in ("DT", "PRP$", "PRP") and sentence.tokens[i + 1].text.islower()
        )
        is_verb |= sentence.tag(i) == "VB" and sentence.tag(i + 1) in (
            "IN",
            "TO",
        )  # Click on the button
        is_order = (
            is_verb
            and not _is_argued(sentence, i)
            and sentence.words.isdisjoint({"and", "then", "or"})
        )
        is_order = is_order and not any(
            sentence.tag(at) in FINITE for at in sentence.clause(i + 1)
        )  # Show Grid shows it
        if is_order and not _later(sentence, i, WORDS["affirmed only"]):
            old = sentence.tokens[i].text
            helper = "Do" if old[0].isupper() else "do"
            yield edit(
                "negation added", PREDICATE, (*sentence.span(i, i + 1), f"{helper} not {word}")
            )


def _takes_not(word: str, tag: str, before: str, following: str, next_word: str) -> bool:
    """Whether the word is an auxiliary, or a form of *be* that a predicate follows."""
    if word in ("is", "are", "was", "were"):
        is_predicate = following in _PREDICATES and next_word not in WORDS["shown"]
        return (is_predicate and next_word not in ("much", "far")) or next_word in WORDS["after be"]
    if word in ("has", "have", "had"):
        return following == "VBN" and before not in ("MD", "TO")  # it should have not
    return (
        word in ("will", "would", "can", "could", "should")
        and tag == "MD"
        and following == "VB"
        and next_word != "know"
    )


def _is_manner(sentence: Sentence, i: int) -> bool:
    """Whether an adverb says how or when (*is fully automatic*), and is denied with what follows;
    not what the speaker thinks."""
    word = sentence.word(i)
    return sentence.tag(i) == "RB" and word.endswith("ly") and word not in WORDS["remarks"]


def _is_possession(sentence: Sentence, i: int) -> bool:
    """Whether *have* is no auxiliary: a thing after it, a subject before it, and no other verb of
    which it could be part, or on which it depends (*let users have access*)."""
    return (
        sentence.tag(i + 1) in _POSSESSIONS
        and sentence.tag(i - 1).startswith(("NN", "PRP"))
        and not any(sentence.tag(at) == "VBN" for at in range(i + 1, i + 5))
        and not any(
            sentence.tag(at) in FINITE or sentence.word(at) in WORDS["letting"]
            for at in sentence.clause(i - 1, -1)
        )
    )


def _is_plain(sentence: Sentence, i: int) -> bool:
    """Whether the past tense there is beyond doubt: a pronoun or a name before it, an object or
    preposition after it."""
    before = sentence.tag(i - 1)
    return (
        form_of(sentence, i, ("VBD", "VBN")) == "VBD"
        and before in ("PRP", "NNP", "NNS", "NN")
        and sentence.tag(i + 1) not in ("VBN", "RB")
        and (before == "PRP" or not _may_be_participle(sentence, i))
    )


def _is_present(sentence: Sentence, i: int) -> bool:
    """Whether the present tense there is beyond doubt: a subject in its number before it, an object
    or preposition after it."""
    word, tag = sentence.small[i], sentence.tag(i)
    base = lemmas(word, "VERB")[:1]
    return (
        bool(base)
        and base[0] not in WORDS["verbs without do"]
        and not sentence.kind_at(i)
        and inflect(base[0], tag) == word
        and sentence.tag(i - 2 if sentence.word(i - 1) == "then" else i - 1) in _PRESENT[tag]
        and sentence.tag(i + 1).startswith(
            ("DT", "IN", "TO", "PRP", "JJ", "CD", "NNS", "NNP", "WRB", "WP")
        )
        and not any(sentence.tag(at) in FINITE for at in sentence.clause(i - 1, -1))
    )


def _may_be_participle(sentence: Sentence, i: int) -> bool:
    """Whether the form after a noun may be a participle that belongs to it: *the houses sold in
    May*."""
    base = lemmas(sentence.small[i], "VERB")[:1]
    if not base or inflect(base[0], "VBN") != sentence.small[i]:
        return False
    others = (*sentence.tokens[:i], *sentence.tokens[i + 1 :])
    if not any(
        token.tag in FINITE or token.text.lower() in _verb_forms(token.text) for token in others
    ):
        return False  # no other word can be the verb
    is_dated = sentence.kind_at(i + 1) in (DATE, TIME)
    if not sentence.tag(i + 1).startswith(("DT", "PRP", "CD", "NN", "JJ")) or is_dated:
        return True
    return any(sentence.tag(at) in FINITE for at in sentence.clause(i + 1))


def _verb_forms(word: str) -> set[str]:
    """The present forms of the verb that the word may be a form of."""
    return {
        inflect(base, tag) for base in lemmas(word.lower(), "VERB")[:1] for tag in ("VBP", "VBZ")
    }


def _later(sentence: Sentence, i: int, words: frozenset[str]) -> bool:
    return any(sentence.word(at) in words for at in sentence.clause(i + 1))


def _is_argued(sentence: Sentence, i: int) -> bool:
    """Whether it is a ground for, or in contrast to, another part of the sentence, as its denial
    would not be; or nobody asserts it (*if links are made*, *the way links are made*)."""
    taken = WORDS["conditions"] | {"way", "how", "what", "why"}
    rest = sentence.small[i + 1 :]
    later = " ".join(rest)
    if WORDS["depending"].intersection(rest) or _ALONG.search(later):
        return True  # what follows depends on it, or is said along with it
    return _argues(sentence) or any(sentence.word(at) in taken for at in sentence.clause(i - 1, -1))


@lru_cache(maxsize=1)  # asked for each of its words
def _argues(sentence: Sentence) -> bool:
    """Whether any part of it may be a ground for another, or what it says of each is not so of all
    once it is denied."""
    is_of_each = sentence.word(0) in ("each", "every")
    return (
        is_of_each
        or bool(sentence.words & WORDS["arguing"])
        or bool(_THE_MORE.search(sentence.text))
    )


def _is_explained(sentence: Sentence, i: int) -> bool:
    """Whether a participle after the clause says how it came about, which a denial would not fit:
    *rose, lifted by*."""
    at = i + 1 + len(list(sentence.clause(i + 1)))
    return sentence.word(at) == "," and sentence.tag(at + 1) in ("VBN", "VBG", "VBD")


def _clause_is_fronted(sentence: Sentence, i: int) -> bool:
    """Whether the verb stands before its subject, as in a question or *said the minister*."""
    if i == 1 and sentence.word(0) in WORDS["pointing"]:
        return False  # This is
    return (
        i == 0
        or sentence.word(i - 1) in ("there", "here")
        or ("as" in sentence.small[max(0, i - 6) : i])  # as fast as it can
        or (
            sentence.tag(int(sentence.tag(0) == "CC")) in ("IN", "RB")
            and "," not in sentence.small[:i]
            and not _has_subject(sentence, i)
        )
        or sentence.tag(i - 1) in ("WRB", ",", "IN", "DT", "TO", "CC", "``", "''")
        or sentence.word(i - 1) in ('"', "”", "“")
    )


def _has_subject(sentence: Sentence, i: int) -> bool:
    """Whether what stands right before the verb is its subject: a pronoun, or a noun phrase that no
    preposition governs (*in 1932 he*, *in those days the town*)."""
    if sentence.word(i - 1) in SUBJECTS:
        return sentence.tag(i - 2) not in ("IN", "TO")
    at = i - 1
    while sentence.tag(at).startswith(("NN", "JJ", "CD", "POS")):
        at -= 1
    if sentence.tag(at).startswith(("DT", "PRP")):
        at -= 1
    return at < i - 1 and sentence.tag(at) not in ("IN", "TO")
