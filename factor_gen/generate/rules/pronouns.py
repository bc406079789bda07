"""Pronouns that mean somebody else: of the other sex, or a name in their place. *We*, *you* and
*they*, who may be anybody, and whoever a speaker means are left alone."""

import random
from collections import Counter
from collections.abc import Iterator, Mapping

from factor_gen.generate.rules.edits import Edit, edit
from factor_gen.generate.rules.sentence import Mention, Sentence
from factor_gen.generate.rules.words import WORDS
from factor_gen.records import COREFERENCE
from factor_gen.text.analysis import NAMES, ORGANISATION, PERSON
from factor_gen.text.names import FIRST_NAMES

HE = frozenset(["he", "him", "his", "himself"])
SHE = frozenset(["she", "her", "hers", "herself"])
_SEXED = WORDS["male"] | WORDS["female"]
_TO_SHE = {"he": "she", "him": "her", "his": "her", "himself": "herself"}
_TO_HE = {"she": "he", "hers": "his", "herself": "himself"}
_NOUN_LIKE = ("NN", "JJ", "CD")
_CLITICS = frozenset(["'s", "’s", "'d", "’d", "'ll", "’ll"])


def other_sex(sentence: Sentence, rng: random.Random) -> Iterator[Edit]:
    """Every *he* a *she*, with *his* and *him*, or the other way round; not where something else
    says which it is."""
    men, women = sentence.words & HE, sentence.words & SHE
    if (
        bool(men) == bool(women)
        or sentence.words & _SEXED
        or (women and sentence.words & WORDS["vessels"])
    ):
        return
    # "Angela ... she" names the person: the pronoun would contradict the name, not the facts
    if any(
        each.kind == PERSON and each.text.split()[0] in FIRST_NAMES for each in sentence.entities
    ):
        return
    if not any(each.kind == PERSON and " " in each.text for each in sentence.mentions):
        return  # nobody in particular: the reader ... he
    if not sentence.drawn(rng, "he" if men else "she", ["she" if men else "he"]):
        return
    found = []
    for i, word in enumerate(sentence.small):
        token = sentence.tokens[i]
        if word in HE or word in SHE:
            if not sentence.is_free(token.start, token.end) or _is_spoken(sentence, i):
                return
            new = (
                _TO_SHE.get(word)
                or _TO_HE.get(word)
                or ("his" if _is_possessive(sentence, i) else "him")
            )
            if word == "his" and not _is_possessive(sentence, i):
                new = "hers"
            found.append((token.start, token.end, _cased(new, token.text)))
    yield edit("pronoun", COREFERENCE, *found)


def wrong_person(sentence: Sentence, rng: random.Random) -> Iterator[Edit]:
    """A person or organisation of the text before in the place of a pronoun, one that it hardly
    means: neither the last that was named nor the one most often named."""
    people, organisations = _unlikely(sentence, PERSON), _unlikely(sentence, ORGANISATION)
    for i, word in enumerate(sentence.small):
        token = sentence.tokens[i]
        is_possessive, of_person = word in ("his", "her"), word in ("he", "she", "his", "her")
        names = people if of_person else organisations if word == "it" else []
        if not names or (word in ("she", "her") and sentence.words & WORDS["vessels"]):
            continue
        if word == "it":
            fits = sentence.word(i + 1) in WORDS["reporting"]
        elif is_possessive:
            fits = _is_possessive(sentence, i) and i < 8
        else:
            fits = _is_subject(sentence, i)
        if not fits:
            continue
        name = rng.choice(names)
        if (
            sentence.is_free(token.start, token.end)
            and not _has_antecedent(sentence, i)
            and not _is_spoken(sentence, i)
        ):
            new = f"{name}'" if name.endswith("s") else f"{name}'s"
            yield edit(
                "pronoun to name",
                COREFERENCE,
                (token.start, token.end, new if is_possessive else name),
            )
            return


def _unlikely(sentence: Sentence, kind: str) -> list[str]:
    mentions = [each for each in sentence.mentions if each.kind == kind]
    counts = Counter(_key(each) for each in mentions)
    most = max(counts.values(), default=0)
    recent = {key for key, count in counts.items() if count == most} | {
        _key(each) for each in mentions[-2:]
    }
    names = []
    for each in mentions:
        is_nobody = kind == PERSON and (each.article or " " not in each.text)
        if _key(each) in recent or sentence.knows(each.text) or is_nobody:
            continue
        name = each.text.split()[-1] if kind == PERSON and " " in each.text else each.text
        name = f"the {name}" if kind == ORGANISATION and each.article else name
        if name[0].isalpha() and len(name) > 2:
            names.append(name)
    return list(dict.fromkeys(names))


def _key(mention: Mention) -> str:
    return mention.text.split()[-1]


def _has_antecedent(sentence: Sentence, i: int) -> bool:
    """Whether something before in the sentence may be meant by the pronoun at token ``i``."""
    named = any(
        each.kind in NAMES and each.start < sentence.tokens[i].start for each in sentence.entities
    )
    return named or any(tag.startswith("NN") for tag in map(sentence.tag, range(i)))


def _is_spoken(sentence: Sentence, i: int) -> bool:
    return any(start <= sentence.tokens[i].start < end for start, end in sentence.quotes)


def _is_subject(sentence: Sentence, i: int) -> bool:
    return sentence.tag(i + 1) in ("VBD", "VBZ", "MD") and sentence.word(i + 1) not in _CLITICS


def _is_possessive(sentence: Sentence, i: int) -> bool:
    """Whether *her* or *his* stands before its noun."""
    tag, then = sentence.tag(i + 1), sentence.tag(i + 2)
    if tag in ("VBG", "VBN", "RB", "RBR", "VBD"):
        return then.startswith(("NN", "JJ", "VBN"))
    return tag.startswith(_NOUN_LIKE)


def _cased(new: str, old: str) -> str:
    return new.capitalize() if old[:1].isupper() and old != "I" else new


def sexes_of_names(sentence: Sentence) -> Mapping[str, str]:
    """``f`` or ``m`` by the names, and the surnames, of the people whose first name says it, here
    or in the text before."""
    found: dict[str, str] = {}
    people = [each.text for each in sentence.mentions if each.kind == PERSON]
    people += [each.text for each in sentence.entities if each.kind == PERSON]
    for name in people:
        sex = FIRST_NAMES.get(name.split()[0])
        if sex:
            found[name] = sex
            if " " in name:
                found[name.split()[-1]] = sex
    return found


def known_sexes(sentence: Sentence) -> frozenset[str]:
    """The sexes, ``f`` and ``m``, of which a pronoun or a named person of the sentence is."""
    names = sexes_of_names(sentence)
    found = {
        names[each.text] for each in sentence.entities if each.kind == PERSON and each.text in names
    }
    return frozenset(
        found
        | ({"m"} if sentence.words & HE else set())
        | ({"f"} if sentence.words & SHE else set())
    )
