"""The facts of a sentence, and the individuals of a paragraph, without any model.

This is the lexical judge's way to decompose and group. It takes apart less than a model does, and
whatever it does not know stays whole. The patterns are in ``facts.yaml`` and ``individuals.yaml``.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from judges.lexical.words import read_patterns, without_accents

_GRAMMAR = read_patterns("facts")
_LONGEST_NOUN = 5  # words of an item of a list
_LONGEST_SUBJECT = 10  # words
_LIFE_BEFORE = 120  # characters, before which a bracket with dates is about the subject
# Sentences that introduce somebody, and the plain statement that each becomes.
_REWRITES = (
    ("there_is", r"\g<subject> \g<rest>"),
    ("there_is_one", r"\g<subject> is \g<rest>"),
    ("introduced_as_one", r"\g<subject> is \g<rest>"),
    ("introduced_by_deed", r"\g<subject> \g<rest>"),
)


def split_facts(sentence: str) -> list[str]:
    """The facts of a sentence that has no citations.

    A sentence about the search results, or about how many people bear a name, has none.

    Example: ``Ada, born in 1900, was a painter.`` has the facts ``Ada was born in 1900.`` and
    ``Ada was a painter.``
    """
    text = " ".join(sentence.split()).rstrip(" .!?;")
    while lead := _GRAMMAR["lead"].match(text):
        text = text[lead.end() :]
    if not re.search(r"\w", text) or _GRAMMAR["about_the_task"].search(text):
        return []
    facts = []
    for half in _GRAMMAR["other_half"].split(text):
        for fact in _facts_of_half(half.strip(" ,")):
            if len(fact.split()) > 1 and not is_fragment(fact):
                facts.append(f"{fact[0].upper()}{fact[1:].rstrip(' .,;')}.")
    return list(dict.fromkeys(facts))


def is_fragment(text: str) -> bool:
    """Whether an English text has no verb.

    Headings have none, and the end of a text that was cut off ("In the late 19th century").
    """
    return _GRAMMAR["has_verb"].search(text) is None


def is_adverbial(text: str) -> bool:
    """Whether an English text is a time, a place or a circumstance alone."""
    return _GRAMMAR["circumstance"].match(text) is not None and is_fragment(text)


def _facts_of_half(text: str) -> list[str]:
    facts: list[str] = []
    born_first = _GRAMMAR["born_first"].match(text)
    clause = _clause(born_first["rest"]) if born_first else None
    if born_first and clause:
        facts += _born(clause["subject"], f"born {born_first['born']}")
        text = born_first["rest"]
    statement, life = _without_life(text)
    for introduction, plain in _REWRITES:
        statement = _GRAMMAR[introduction].sub(plain, statement)
    clause = _clause(statement)
    if clause is None:
        return [*facts, text]
    subject, predicate, apposition = clause.group("subject", "predicate", "apposition")
    for piece in life:
        facts += _verb_phrase(subject, piece)
    if apposition:
        is_present = predicate.startswith(("is ", "has ", "also is ", "also has "))
        be = "is" if is_present and not apposition.startswith("born ") else "was"
        more = f"{be} {apposition}"
        facts += _predicates(subject, apposition[4:] if apposition.startswith("who ") else more)
    return facts + _predicates(subject, predicate)


def _without_life(text: str) -> tuple[str, list[str]]:
    """The text without a bracket of dates near its beginning, and what the bracket says.

    Example: of ``Ada (1872-1934) sang`` it is ``Ada sang``, and ``was born in 1872`` and ``died in
    1934``.
    """
    bracket = _GRAMMAR["life"].search(text, 1, _LIFE_BEFORE)
    if bracket is None:
        return text, []
    deeds = (
        ("was born", bracket["born"] or bracket["only_born"]),
        ("died", bracket["died"] or bracket["only_died"]),
    )
    life = [f"{deed} {_with_preposition(date.strip())}" for deed, date in deeds if date]
    return text[: bracket.start()] + text[bracket.end() :], life


def _with_preposition(date: str) -> str:
    if _GRAMMAR["has_preposition"].match(date):
        return date
    return f"on {date}" if _GRAMMAR["has_day"].search(date) else f"in {date}"


def _clause(text: str) -> re.Match[str] | None:
    """Subject, apposition (or none) and predicate of a sentence that begins with its subject."""
    for form in ("apposed", "plain"):
        clause = _GRAMMAR[form].match(text)
        if clause:
            subject = clause["subject"]
            is_whole = subject.count("(") == subject.count(")")
            if is_whole and len(subject.split()) <= _LONGEST_SUBJECT:
                return clause
    return None


def _born(subject: str, text: str) -> list[str]:
    """Of "born NAME on DATE in PLACE" each of the three."""
    parts = _GRAMMAR["born"].match(text.rstrip(" ,"))
    if parts is None:
        return [f"{subject} was {text}"]
    return [f"{subject} was born {part.strip()}" for part in parts.groups() if part]


def _predicates(subject: str, predicate: str) -> list[str]:
    """The coordinated verb phrases, each with the subject."""
    pieces = [piece.strip(" ,") for piece in _GRAMMAR["between_verbs"].split(predicate)]
    facts: list[str] = []
    auxiliary = ""  # of a passive that goes on: "was fined and imprisoned"
    verbs = ""  # that share their object with the next one: "directed and presented a play"
    for piece in filter(None, pieces):
        if " " not in piece and piece != pieces[-1]:
            verbs += f"{piece} and "
            continue
        phrase = verbs + piece
        verbs = ""
        passive = _GRAMMAR["passive"].match(phrase)
        if passive:
            auxiliary = passive["auxiliary"]
        elif auxiliary and _GRAMMAR["participle"].match(phrase):
            phrase = f"{auxiliary} {phrase}"
        else:
            auxiliary = ""
        facts += _verb_phrase(subject, phrase)
    return facts


def _verb_phrase(subject: str, phrase: str) -> list[str]:
    """The facts of one verb phrase.

    Of "is a singer, writer and judge" each; of "was a painter who taught" both; of "was born on
    DATE in PLACE" both.
    """
    if phrase.startswith(("was born ", "is born ")):
        return _born(subject, phrase.split(" ", 1)[1])
    relative = _GRAMMAR["who"].match(phrase)
    if relative:
        return _verb_phrase(subject, relative["main"]) + _predicates(subject, relative["more"])
    nouns = _GRAMMAR["nouns"].match(phrase)
    items = [item.strip() for item in _GRAMMAR["joint"].split(nouns["list"])] if nouns else []
    if nouns is None or not all(map(_is_person, items[:-1])):
        return [f"{subject} {phrase}"]
    first, *rest = items
    with_articles = [f"{nouns['article']} {first}", *map(_with_article, rest)]
    return [f"{subject} {nouns['be']} {item}" for item in with_articles]


def _with_article(noun: str) -> str:
    if _GRAMMAR["has_article"].match(noun):
        return noun
    return f"an {noun}" if noun[:1].lower() in "aeiou" else f"a {noun}"


def _is_person(item: str) -> bool:
    """Whether an item of a list, such as "English painter", says what a person is."""
    is_short = len(item.split()) <= _LONGEST_NOUN and not _GRAMMAR["of_something"].search(item)
    return is_short and _GRAMMAR["person"].search(item) is not None


_WORDING = read_patterns("individuals")
_Name = tuple[str, ...]


@dataclass
class _Individual:
    """What the paragraph has said of one individual so far."""

    names: list[_Name] = field(default_factory=list)
    births: set[str] = field(default_factory=set)  # years
    facts: list[int] = field(default_factory=list)
    is_introduced: bool = False

    def can_be_called(self, name: _Name) -> bool:
        """Whether one of the individual's names has all words of ``name``, or the reverse."""
        words = set(name)
        return not self.names or any(words <= set(own) or words >= set(own) for own in self.names)


def group_by_individual(
    name: str, sentences: Sequence[str], facts: Sequence[str], owners: Sequence[int]
) -> list[list[int]]:
    """Group the facts of a paragraph by the individuals who bear one name.

    A sentence (or the second half of one) begins a new individual if it says so ("another", "the
    second", "there is also") or introduces the name again: with other first names, or with a
    description or a birth that a reader has had already. A later sentence that uses the full name
    of an earlier individual goes back to that one.

    Args:
        name: The name that all of them bear.
        sentences: The paragraph.
        facts: What the sentences say.
        owners: The number of the sentence of each fact.

    Returns:
        The numbers of each individual's facts, in the order of appearance.
    """
    target = _name_words(name)
    individuals = [_Individual()]
    current = individuals[0]
    for number, sentence in enumerate(sentences):
        current = _individual_of(sentence, target, individuals, current)
        is_first_half = False
        for fact, owner in enumerate(owners):
            if owner != number:
                continue
            is_other_half = _WORDING["other_half"].match(facts[fact]) is not None
            if is_other_half and is_first_half:
                current = _Individual(is_introduced=True)
                individuals.append(current)
            is_first_half = not is_other_half
            current.facts.append(fact)
    return sorted(individual.facts for individual in individuals if individual.facts)


def _individual_of(
    sentence: str,
    target: _Name,
    individuals: list[_Individual],
    current: _Individual,
) -> _Individual:
    """The individual that ``sentence`` is about. A new one is added to ``individuals``."""
    name, rest = _leading_name(sentence, target)
    is_full_name = len(name) >= min(2, len(target))
    births = {year for years in _WORDING["birth"].findall(sentence) for year in years if year}
    introduces = bool(name) and _WORDING["introduces"].match(rest) is not None
    is_new = _announces_another(sentence, is_full_name and introduces)
    if is_full_name and not is_new:
        if not current.can_be_called(name):
            for individual in individuals:
                if name in individual.names:
                    return individual
            is_new = introduces
        elif births and current.births and not births & current.births:
            is_new = True
        elif current.is_introduced:
            is_new = _WORDING["describes_again"].match(rest) is not None
    if is_new and any(individual.facts for individual in individuals):
        current = _Individual()
        individuals.append(current)
    if is_full_name:
        current.names.append(name)
    current.births |= births
    current.is_introduced = current.is_introduced or introduces or bool(births) or is_new
    return current


def _announces_another(sentence: str, introduces: bool) -> bool:
    """Whether the wording itself announces somebody else."""
    if _WORDING["announced"].match(sentence):
        return not _WORDING["of_something_else"].match(sentence)
    if introduces and _WORDING["contrasts"].match(sentence):
        return True
    return _WORDING["is_another"].match(sentence) is not None


def _leading_name(sentence: str, target: _Name) -> tuple[_Name, str]:
    """The name that the sentence begins with, if it has a word of the target's, and what follows.

    "The Ada Lind Society" is no name.
    """
    text = _WORDING["before_name"].sub("", sentence, count=1)
    name = _WORDING["leading_name"].match(text)
    words = _name_words(name[0]) if name else ()
    if name is None or not set(target) & set(words):
        return (), ""
    return words, text[len(name[0].rstrip()) :]


def _name_words(text: str) -> _Name:
    """The words of a name in lower case, without accents, nicknames, titles and particles."""
    words = re.findall(r"\w+", _WORDING["nickname"].sub("", without_accents(text)).casefold())
    return tuple(word for word in words if not _WORDING["suffix"].match(word)) or tuple(words)
