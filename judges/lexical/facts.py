"""The facts of a sentence, and the individuals of a paragraph, without any model.

The stated fallback for the lexical judge. It takes apart less than a model does, and whatever it
does not know stays whole. A sentence about the search results or about how many people bear a name
has no facts.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from judges.lexical.words import CAPITALS, fold, read_patterns

_PATTERNS = read_patterns("facts")
_LONGEST_NOUN = 5  # words of an item of a list


def split_facts(sentence: str) -> list[str]:
    """The facts of a sentence that has no citations."""
    text = " ".join(sentence.split()).rstrip(" .!?;")
    while lead := _PATTERNS["lead"].match(text):
        text = text[lead.end() :]
    if not re.search(r"\w", text) or _PATTERNS["about_the_task"].search(text):
        return []
    halves = _PATTERNS["other_half"].split(text)
    found = [
        fact for half in halves for fact in _split_half(half.strip(" ,")) if not is_fragment(fact)
    ]
    return list(
        dict.fromkeys(
            f"{fact[0].upper()}{fact[1:].rstrip(' .,;')}."
            for fact in found
            if len(fact.split()) > 1
        )
    )


def is_fragment(text: str) -> bool:
    """Whether an English text has no verb, as a heading or the end of a text that was cut off ("In
    the late 19th century")."""
    return _PATTERNS["has_verb"].search(text) is None


def is_adverbial(text: str) -> bool:
    """Whether an English text is a time, a place or a circumstance alone."""
    return _PATTERNS["circumstance"].match(text) is not None and is_fragment(text)


def _split_half(text: str) -> list[str]:
    facts: list[str] = []
    if (born := _PATTERNS["born_first"].match(text)) and (clause := _clause(born["rest"])):
        facts += _born(clause[0], f"born {born['born']}")
        text = born["rest"]
    text, inside = _without_life(text)
    if there := _PATTERNS["there_is"].match(text):
        verb = "is " if re.match(r"(?:an?|the|born)\b", there["rest"]) else ""
        text = f"{there['subject']} {verb}{there['rest']}"
    if presents := _PATTERNS["presents"].match(text):
        rest = presents["rest"]
        text = f"{presents['subject']} {rest[4:] if rest.startswith('who ') else f'is {rest}'}"
    clause = _clause(text)
    if clause is None:
        return [*facts, f"{text} ({inside})" if inside else text]
    subject, apposition, predicate = clause
    if inside:
        facts += _life(subject, inside)
    return [*facts, *_appositions(subject, apposition, predicate), *_predicates(subject, predicate)]


def _without_life(text: str) -> tuple[str, str]:
    """The text without a bracket of dates near its beginning, and what the bracket holds; None if
    there is no such bracket."""
    life = _PATTERNS["life"].search(text, 0, 120)
    if life is None or life.start() == 0 or not _life("", life["inside"]):
        return text, ""
    return text[: life.start()] + text[life.end() :], life["inside"]


def _clause(text: str) -> tuple[str, str, str] | None:
    """(subject, apposition, predicate); None if the sentence does not begin with a subject."""
    apposed = _PATTERNS["apposed"].match(text)
    if (
        apposed
        and _PATTERNS["apposed_start"].match(apposed["apposition"])
        and _is_subject(apposed["subject"])
    ):
        return apposed["subject"], apposed["apposition"], apposed["predicate"]
    plain = _PATTERNS["plain"].match(text)
    if plain and _is_subject(plain["subject"]):
        return plain["subject"], "", plain["predicate"]
    return None


def _is_subject(text: str) -> bool:
    return len(text.split()) <= 10 and text.count("(") == text.count(")")


def _appositions(subject: str, apposition: str, predicate: str) -> list[str]:
    if not apposition:
        return []
    if re.match(r"born\b", apposition):
        return _born(subject, apposition)
    if re.match(r"who\b", apposition):
        return _predicates(subject, apposition[4:])
    be = "is" if re.match(r"(?:also )?(?:is|has)\b", predicate) else "was"
    return _predicates(subject, f"{be} {apposition}")


def _born(subject: str, text: str) -> list[str]:
    """Of "born NAME on DATE in PLACE" each of the three."""
    parts = _PATTERNS["born"].match(text.rstrip(" ,"))
    if parts is None:
        return [f"{subject} was {text}"]
    named = [f"{subject} was born {parts['as']}"] if parts["as"] else []
    return [
        *named,
        f"{subject} was born {parts['when'].strip()}",
        f"{subject} was born {parts['where']}",
    ]


def _life(subject: str, inside: str) -> list[str]:
    """Of "(1872-1934)", "(born 1872)" or "(died 1934)" the dates; None if the bracket holds
    something else."""
    inside = inside.strip()
    if span := _PATTERNS["span"].match(inside):
        born = re.sub(r"^born\s+", "", span["born"])
        return [
            f"{subject} was born {_preposition(born)}",
            f"{subject} died {_preposition(span['died'].strip())}",
        ]
    if re.match(r"(?:born|b\.)\s", inside):
        when = re.sub(r"^(?:born|b\.)\s+(?:(?:on|in)\s+)?", "", inside)
        return _born(subject, f"born {_preposition(when)}")
    if re.match(r"(?:died|d\.)\s", inside):
        when = re.sub(r"^(?:died|d\.)\s+(?:(?:on|in)\s+)?", "", inside)
        return [f"{subject} died {_preposition(when)}"]
    return []


def _preposition(date: str) -> str:
    if re.match(r"(?:on|in|c|circa|around|about|before|after)\b", date):
        return date
    return (
        f"{'on' if re.search(r'[0-9] [A-Z]|[A-Z][a-z]+ [0-9]{1,2}(?![0-9])', date) else 'in'}"
        f" {date}"
    )


def _predicates(subject: str, predicate: str) -> list[str]:
    """The coordinated verb phrases, each with the subject."""
    pieces = [
        piece.strip(" ,")
        for part in _PATTERNS["and_verb"].split(predicate)
        for piece in _PATTERNS["comma_verb"].split(part)
    ]
    facts: list[str] = []
    auxiliary = ""  # of a passive that goes on: "was fined and imprisoned"
    shared = (  # verbs that have their object in common with the next: "directed and presented a play"  # noqa: E501
        ""
    )
    for piece in pieces:
        if not piece:
            continue
        if len(piece.split()) == 1 and piece != pieces[-1]:
            shared += f"{piece} and "
            continue
        piece, shared = shared + piece, ""
        passive = re.match(
            r"(?:also |later |then )?(is|was|were|has been) (?:\w+ly"
            r" )?(?:\w+ed|born|known|made|held|given|sent)\b",
            piece,
        )
        is_bare = bool(auxiliary) and bool(
            re.match(r"(?:\w+ed|born|known|made|held|given|sent)\b", piece)
        )
        if is_bare:
            piece = f"{auxiliary} {piece}"
        auxiliary = passive[1] if passive else auxiliary if is_bare else ""
        facts += _nouns(subject, piece)
    return facts


def _nouns(subject: str, piece: str) -> list[str]:
    """Of "is a singer, writer and judge" each; of "was a painter who taught" both; of "was born on
    DATE in PLACE" both."""
    if piece.startswith(("was born ", "is born ")):
        return _born(subject, piece.split(" ", 1)[1])
    if who := _PATTERNS["who"].match(piece):
        return [*_nouns(subject, who["main"]), *_predicates(subject, who["more"])]
    nouns = _PATTERNS["nouns"].match(piece)
    if nouns is None:
        return [f"{subject} {piece}"]
    items = [item.strip() for item in re.split(r",? and |, ", nouns["list"])]
    if not all(_is_person(item) for item in items[:-1]):
        return [f"{subject} {piece}"]
    facts = []
    for number, item in enumerate(items):
        has_article = number > 0 and re.match(r"(?:an?|the|his|her|one)\b", item)
        article = (
            ""
            if has_article
            else nouns["article"]
            if number == 0
            else "an"
            if item[:1].lower() in "aeiou"
            else "a"
        )
        facts.append(" ".join(filter(None, (subject, nouns["be"], article, item))))
    return facts


def _is_person(item: str) -> bool:
    is_short = len(item.split()) <= _LONGEST_NOUN and not re.search(
        r"\b(?:of|in|for|at|by|with|from|to)\b", item
    )
    return is_short and bool(_PATTERNS["person"].search(item))


_WORDING = read_patterns("individuals")
_NEAR = 120  # characters of a sentence in which a birth belongs to its subject
_SUFFIX = frozenset(
    {"jr", "sr", "ii", "iii", "iv", "sir", "dr", "st", "the", "of", "de", "van", "von"}
)


@dataclass
class _Individual:
    """What the paragraph has said of one of them so far: the words of the names it was given, its
    birth, whether introduced."""

    names: list[tuple[str, ...]] = field(default_factory=list)
    births: set[str] = field(default_factory=set)
    is_introduced: bool = False

    def takes(self, name: tuple[str, ...]) -> bool:
        """Whether somebody with ``name`` can be this one: one of the two names has all words of the
        other, initials included."""
        return any(_agree(name, known) for known in self.names) or not self.names


def split_individuals(
    name: str, sentences: Sequence[str], facts: Sequence[str], owners: Sequence[int]
) -> list[list[int]]:
    """The numbers of the facts of each individual, in the order of appearance; ``owners`` are the
    sentences of ``facts``.

    A sentence (or the second half of one) begins a new individual if it says so ("another", "the
    second", "there is also") or introduces the name again: with other first names, or with a
    description or a birth that a reader has had already. A later sentence that uses the full name
    of an earlier individual goes back to that one.
    """
    target = tuple(word for word in _name_words(name) if word not in _SUFFIX) or _name_words(name)
    found: list[_Individual] = [_Individual()]
    current = 0
    members: dict[int, list[int]] = {}
    for number, sentence in enumerate(sentences):
        own = [fact for fact, owner in enumerate(owners) if owner == number]
        current = _turn(sentence, target, found, current, has_facts=bool(members))
        has_halves = bool(own) and not _WORDING["other_half"].match(facts[own[0]])
        for fact in own:
            if has_halves and _WORDING["other_half"].match(facts[fact]):
                found.append(_Individual(is_introduced=True))
                current, has_halves = len(found) - 1, False
            members.setdefault(current, []).append(fact)
    return list(members.values())


def _turn(
    sentence: str, target: tuple[str, ...], found: list[_Individual], current: int, has_facts: bool
) -> int:
    """The individual that ``sentence`` is about; a new one is added to ``found``."""
    name, rest = _leading_name(sentence, target)
    is_full = len(name) >= min(2, len(target))
    births = {year for match in _WORDING["birth"].findall(sentence) for year in match if year}
    introduces = bool(name) and bool(_WORDING["introduces"].match(rest))
    here = found[current]
    is_new = _says_so(sentence, is_full and introduces)
    if not is_new and is_full:
        if not here.takes(name):
            earlier = [number for number, each in enumerate(found) if name in each.names]
            if earlier:
                return earlier[0]
            is_new = introduces
        elif births and here.births and not births & here.births:
            is_new = bool(re.search(r"\bborn\b|\(|\blived\b", sentence[:_NEAR]))
        else:
            is_new = here.is_introduced and bool(_WORDING["describes_again"].match(rest))
    if is_new and has_facts:
        here = _Individual()
        found.append(here)
        current = len(found) - 1
    if is_full:
        here.names.append(name)
    here.births |= births
    here.is_introduced = here.is_introduced or introduces or bool(births) or is_new
    return current


def _says_so(sentence: str, introduces: bool) -> bool:
    """Whether the wording itself announces somebody else."""
    if _WORDING["announced"].match(sentence):
        return not _WORDING["of_something_else"].match(sentence)
    return bool(_WORDING["is_another"].match(sentence)) or (
        introduces and bool(_WORDING["contrasts"].match(sentence))
    )


def _leading_name(sentence: str, target: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    """The name that the sentence begins with, if it has a word of the target's name, and what
    follows it."""
    text = _WORDING["before_name"].sub("", sentence, count=1)
    if re.match(r"(?:The|A|An|In|His|Her) ", text):  # "The Ada Lind Society"
        return (), ""
    end = 0
    while (match := _WORDING["name"].match(text, end)) and text[
        match.end() - 1 : match.end()
    ] == " ":
        end = match.end()
    if last := re.match(
        rf"[{CAPITALS}][\w.'\u2019-]*", text[end:]
    ):  # a last word that a comma or a bracket follows
        end += last.end()
    words = tuple(word for word in _name_words(text[:end]) if word not in _SUFFIX)
    rest = text[len(text[:end].rstrip()) :]
    return (words, rest) if set(target) & set(words) else ((), "")


def _agree(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Whether the words of the shorter name are in the longer one, in order, an initial standing
    for any word with it."""
    short, long = sorted((one, other), key=len)
    rest = iter(long)
    return all(any(a == b or (1 in (len(a), len(b)) and a[0] == b[0]) for b in rest) for a in short)


def _name_words(text: str) -> tuple[str, ...]:
    """The words of a name without nicknames in quotation marks, in lower case and without
    accents."""
    return tuple(
        re.findall(r"\w+", re.sub(r"[\"\u201c][^\"\u201d]*[\"\u201d]", "", fold(text)).casefold())
    )
