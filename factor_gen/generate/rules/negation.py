"""A sentence denied, or its denial taken back."""

import random
from collections.abc import Iterator
from functools import lru_cache

from factor_gen.generate.rules.conditions import Place
from factor_gen.generate.rules.edits import Edit, edit
from factor_gen.generate.rules.sentence import Sentence
from factor_gen.generate.rules.verbs import form_of
from factor_gen.generate.rules.words import WORDS, inflect
from factor_gen.records import PREDICATE
from factor_gen.text.analysis import DATE, FINITE, TIME
from factor_gen.text.pattern import lemmas

ADDED = 0.15
"""How often a denial is offered of a sentence in which there is enough else to change.

Few true sentences have a *not*, so few false ones shall.
"""

_DO_FORMS = {"do": "VBP", "does": "VBZ", "did": "VBD"}
_DO_FOR_HAVE = {"has": "does", "have": "do", "had": "did"}
_CLIPPED = {"wo": "will", "ca": "can", "sha": "shall"}
_FARTHEST_ORDER = 40  # tokens before an order, as in "to see the yard, open the gate"


def taken_back(sentence: Sentence, rng: random.Random) -> Iterator[Edit]:
    """Make *rose* of *did not rise*, and *can* of *cannot*."""
    for i, word in enumerate(sentence.small):
        place = Place(sentence, i, i + 1)
        is_denial = word == "cannot" or word in WORDS["not"]
        if not is_denial or not _is_free(sentence, i) or place.meets("kept denials"):
            continue
        if word == "cannot":
            yield _edit("negation removed", sentence, i, i + 1, "can")
            continue
        helper = sentence.word(i - 1)
        if helper in _DO_FORMS:
            verb = sentence.tokens[i + 1].text
            if verb in lemmas(verb, "VERB"):
                affirmed = inflect(verb, _DO_FORMS[helper])
                yield _edit("negation removed", sentence, i - 1, i + 2, affirmed)
        elif helper in _CLIPPED or helper in WORDS["be"] | WORDS["auxiliaries"]:
            affirmed = _CLIPPED.get(helper, helper)
            if sentence.is_capital(i - 1):
                affirmed = affirmed.capitalize()
            yield _edit("negation removed", sentence, i - 1, i + 1, affirmed)


def added(sentence: Sentence, rng: random.Random) -> Iterator[Edit]:
    """Make *did not rise* of *rose*, and *will not* of *will*; seldom, see `ADDED`."""
    if sentence.every:
        yield from denials(sentence)
    elif rng.random() < ADDED:
        edits = denials(sentence)
        if edits:
            yield rng.choice(edits)


def in_time(sentence: Sentence, rng: random.Random) -> Iterator[Edit]:
    """Put each denial in other words where nothing else is left: *is no longer*, *was never*."""
    is_timed = any(entity.kind in (DATE, TIME) for entity in sentence.entities)
    is_timed |= not sentence.words.isdisjoint(WORDS["times"])
    if not sentence.spare or is_timed or Place(sentence, 0, 1).meets("begins with to"):
        return
    for denial in denials(sentence):
        ((start, end, denied),) = denial.replacements
        statement = sentence.text[start:end]
        helper, _, verb = denied.partition(" not ")
        if denied == "cannot":
            new = "can no longer"
        elif helper == "Do":
            new = f"Never {verb}"
        elif helper in ("does", "do"):
            new = f"no longer {statement}"
        elif helper == "did":
            new = f"never {statement}"
        else:
            new = f"{statement} {'no longer' if statement in ('is', 'are') else 'never'}"
        yield edit("negation in time", PREDICATE, (start, end, new))


@lru_cache(maxsize=1)  # Two operators ask for them, one after the other.
def denials(sentence: Sentence) -> tuple[Edit, ...]:
    """Deny the sentence in each way that there is."""
    edits = list(_forbidden(sentence))
    # "To see the list, the button is not used" would deny the purpose.
    if sentence.tokens and not Place(sentence, 0, 1).meets("purpose"):
        for i in range(len(sentence.tokens)):
            denied = _denied(sentence, i)
            if denied:
                edits.append(_edit("negation added", sentence, i, i + 1, denied))
    return tuple(edits)


def _forbidden(sentence: Sentence) -> Iterator[Edit]:
    """Make *do not press the key* of *press the key*, also after *to change it,*."""
    starts = [0]
    opening = sentence.small[:_FARTHEST_ORDER]
    if "," in opening and Place(sentence, 0, 1).meets("begins with to"):
        starts.append(opening.index(",") + 1)
    for i in starts:
        word = sentence.word(i)
        if word not in lemmas(word, "VERB") or not _is_free(sentence, i):
            continue
        place = Place(sentence, i, i + 1)
        if place.meets("orders") and not place.meets("no orders"):
            helper = "Do" if sentence.is_capital(i) else "do"
            yield _edit("negation added", sentence, i, i + 1, f"{helper} not {word}")


def _denied(sentence: Sentence, i: int) -> str | None:
    """Deny the verb at a token; None if there is none, or its denial does not deny the sentence."""
    word, tag = sentence.small[i], sentence.tag(i)
    place = Place(sentence, i, i + 2 if Place(sentence, i, i + 1).meets("before manner") else i + 1)
    denial = place.first_rule("denials")
    if denial is None or denial.result == "none" or not _is_free(sentence, i):
        return None
    if Place(sentence, i, i + 1).meets("kept statements"):
        return None
    if denial.result == "not":
        return "cannot" if word == "can" else f"{word} not"
    if denial.result == "not have":
        return f"{_DO_FOR_HAVE[word]} not have"
    bases = lemmas(word, "VERB")
    if not bases or inflect(bases[0], tag) != word:
        return None
    if tag == "VBD" and not _is_past_tense(sentence, i, bases[0]):
        return None
    if tag != "VBD" and bases[0] in WORDS["verbs without do"]:
        return None
    return f"{denial.result} {bases[0]}"


def _is_past_tense(sentence: Sentence, i: int, base: str) -> bool:
    """Whether a form is beyond doubt no participle, as in *the houses sold in May were old*."""
    if form_of(sentence, i, ("VBD", "VBN")) != "VBD":
        return False
    may_be_participle = sentence.tag(i - 1) != "PRP" and inflect(base, "VBN") == sentence.small[i]
    if not may_be_participle or not Place(sentence, i, i + 1).meets("participle"):
        return True
    others = (*sentence.tokens[:i], *sentence.tokens[i + 1 :])
    return not any(token.tag in FINITE or _may_be_verb(token.text.lower()) for token in others)


def _may_be_verb(word: str) -> bool:
    bases = lemmas(word, "VERB")[:1]
    return any(word == inflect(base, tag) for base in bases for tag in ("VBP", "VBZ"))


def _is_free(sentence: Sentence, i: int) -> bool:
    return sentence.is_free(*sentence.span(i, i + 1))


def _edit(operator: str, sentence: Sentence, i: int, end: int, new: str) -> Edit:
    return edit(operator, PREDICATE, (*sentence.span(i, end), new))
