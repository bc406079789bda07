"""Rules that take a sentence apart into facts, and group the facts of a paragraph by individual.

With them the lexical judge decomposes and groups biographies without a model. They find fewer facts
than a model does: what they do not understand stays whole. The regular expressions are in
``facts.yaml`` and ``individuals.yaml``.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from judges.lexical.words import read_patterns, without_accents

_GRAMMAR = read_patterns("facts")
_WORDING = read_patterns("individuals")

# The most words of an item in a list of roles, such as "English landscape painter".
_MAX_ROLE_WORDS = 5

# The most words of a subject.
_MAX_SUBJECT_WORDS = 10

# Dates in brackets that begin later than this character are not about the subject.
_MAX_LIFE_START = 120

# Sentences that introduce an individual, and the plain statement that each becomes: "There is also
# Ada Lind, a painter" → "Ada Lind is a painter".
_REWRITES = (
    ("there_is", r"\g<subject> \g<rest>"),
    ("there_is_one", r"\g<subject> is \g<rest>"),
    ("introduced_as_one", r"\g<subject> is \g<rest>"),
    ("introduced_by_deed", r"\g<subject> \g<rest>"),
)


def split_facts(sentence: str) -> list[str]:
    """Split a sentence into short sentences that each state one fact.

    Example:
        ``Ada, born in 1900, was a painter.`` → ``Ada was born in 1900.``, ``Ada was a painter.``

    Args:
        sentence: An English sentence without citations.

    Returns:
        The facts in order, each once. A sentence about the search results, or about how many people
        bear a name, has none.
    """
    text = _without_lead(" ".join(sentence.split()).rstrip(" .!?;"))
    # Sentences about the task, such as "The documents do not say", state no facts.
    has_words = re.search(r"\w", text) is not None
    if not has_words or _GRAMMAR["about_the_task"].search(text):
        return []

    clauses: list[str] = []
    # "Ada sang, while the other was a pilot" states facts about two individuals.
    for statement in _GRAMMAR["other_half"].split(text):
        clauses += _split_statement(statement.strip(" ,"))

    facts = []
    for clause in clauses:
        if len(clause.split()) > 1 and not is_fragment(clause):
            # "he sang," becomes the sentence "He sang."
            facts.append(f"{clause[0].upper()}{clause[1:].rstrip(' .,;')}.")
    # dict.fromkeys drops duplicates and keeps the order.
    return list(dict.fromkeys(facts))


def _without_lead(text: str) -> str:
    """Remove words that only lead into a sentence: ``However, Ada sang`` → ``Ada sang``."""
    # "However, according to the documents, ..." has two leads.
    while lead := _GRAMMAR["lead"].match(text):
        text = text[lead.end() :]
    return text


def is_fragment(text: str) -> bool:
    """Return whether an English text has no verb.

    Headings have none, nor does the end of a text that was cut off ("In the late 19th century").
    """
    return _GRAMMAR["has_verb"].search(text) is None


def is_adverbial(text: str) -> bool:
    """Return whether an English text is only a time, a place or a circumstance ("In 1900")."""
    return _GRAMMAR["circumstance"].match(text) is not None and is_fragment(text)


class _Clause(NamedTuple):
    """The parts of a statement that begins with its subject."""

    subject: str
    """The subject, such as ``Ada``."""

    apposition: str
    """A description between commas, such as ``born in 1900``. Empty if there is none."""

    predicate: str
    """The rest, from the verb: ``was a painter``."""


def _split_statement(text: str) -> list[str]:
    """Split a statement about one subject into facts, without periods.

    A statement that does not begin with a birth, or with a subject and a verb, stays whole.

    Example:
        ``Born in 1900, Ada wrote plays and taught art`` → ``Ada was born in 1900``, ``Ada wrote
        plays``, ``Ada taught art``
    """
    leading_birth = _GRAMMAR["born_first"].match(text)
    # In "Born in 1900, Ada sang", the subject of the birth is that of the main clause.
    main_clause = leading_birth["rest"] if leading_birth else ""
    clause = _parse_clause(main_clause)
    if leading_birth is None or clause is None:
        return _split_main_clause(text)
    birth_facts = _split_birth(clause.subject, f"born {leading_birth['born']}")
    return birth_facts + _split_main_clause(main_clause)


def _split_main_clause(text: str) -> list[str]:
    """Split a statement that begins with its subject into facts, without periods.

    Example:
        ``Ada (1872-1934), a painter, wrote plays`` → ``Ada was born in 1872``, ``Ada died in
        1934``, ``Ada was a painter``, ``Ada wrote plays``

    Args:
        text: The statement. It stays whole if it does not begin with a subject and a verb.
    """
    statement = text
    life_phrases: list[str] = []
    # The search begins at the second character, since a subject stands before the bracket.
    bracket = _GRAMMAR["lifespan"].search(text, 1, _MAX_LIFE_START)
    if bracket:
        # "(1872-1934)" would hide where the subject ends, so it is cut out and becomes facts.
        statement = text[: bracket.start()] + text[bracket.end() :]
        life_phrases = _lifespan_as_verb_phrases(bracket)
    # "There is also Ada, a painter" becomes "Ada is a painter".
    for introduction, plain_statement in _REWRITES:
        statement = _GRAMMAR[introduction].sub(plain_statement, statement)

    clause = _parse_clause(statement)
    # What cannot be split stays as it was written, with its dates.
    if clause is None:
        return [text]
    facts: list[str] = []
    for verb_phrase in life_phrases:
        facts += _split_verb_phrase(clause.subject, verb_phrase)
    if clause.apposition:
        facts += _split_predicate(clause.subject, _apposition_as_predicate(clause))
    return facts + _split_predicate(clause.subject, clause.predicate)


def _parse_clause(text: str) -> _Clause | None:
    """Parse a statement into subject, apposition and predicate.

    Example:
        ``Ada, born in 1900, was a painter`` → subject ``Ada``, apposition ``born in 1900``,
        predicate ``was a painter``

    Returns:
        The parts. None if the statement does not begin with a short subject and a verb.
    """
    # The pattern without an apposition fits more texts, so it is tried last.
    for form in ("clause_with_apposition", "clause_without_apposition"):
        match = _GRAMMAR[form].match(text)
        if match is None:
            continue
        subject = match["subject"]
        # A verb within a bracket is not the verb of the sentence.
        has_balanced_brackets = subject.count("(") == subject.count(")")
        if has_balanced_brackets and len(subject.split()) <= _MAX_SUBJECT_WORDS:
            return _Clause(subject, match["apposition"], match["predicate"])
    return None


def _split_birth(subject: str, phrase: str) -> list[str]:
    """Split a birth into the facts of name, date and place.

    Example:
        ``Ada`` and ``born Ada Lind on 3 May 1900 in Oslo`` → ``Ada was born Ada Lind``, ``Ada was
        born on 3 May 1900``, ``Ada was born in Oslo``
    """
    match = _GRAMMAR["birth"].match(phrase.rstrip(" ,"))
    # A birth of another form, as in "born to a pilot", stays whole.
    if match is None:
        return [f"{subject} was {phrase}"]
    # The groups of the pattern are name, date and place, of which some may be missing.
    return [f"{subject} was born {part.strip()}" for part in match.groups() if part]


def _lifespan_as_verb_phrases(bracket: re.Match[str]) -> list[str]:
    """Return the dates of birth and death in a bracket as verb phrases.

    Example:
        ``(1872-1934)`` → ``was born in 1872``, ``died in 1934``; ``(died 1934)`` → ``died in 1934``

    Args:
        bracket: The match of the pattern ``lifespan``. It has a group ``born`` for ``(1872-1934)``
            and a group ``only_born`` for ``(born 1872)``, and likewise for deaths.
    """
    birth_date = bracket["born"] or bracket["only_born"]
    death_date = bracket["died"] or bracket["only_died"]
    verb_phrases = []
    for verb, date in (("was born", birth_date), ("died", death_date)):
        if date:
            verb_phrases.append(f"{verb} {_with_preposition(date.strip())}")
    return verb_phrases


def _with_preposition(date: str) -> str:
    """Return a date with its preposition: ``in 1872``, ``on 3 May 1872``, ``around 1872``."""
    if _GRAMMAR["has_preposition"].match(date):
        return date
    return f"on {date}" if _GRAMMAR["has_day"].search(date) else f"in {date}"


def _apposition_as_predicate(clause: _Clause) -> str:
    """Return the apposition of a clause as a predicate, in the tense of the clause.

    Example:
        ``Ada, a painter, is in Oslo`` → ``is a painter``; ``Ada, who sang, ...`` → ``sang``;
        ``Ada, born in 1900, ...`` → ``was born in 1900``
    """
    apposition = clause.apposition
    # "who sang" has a verb already.
    if apposition.startswith("who "):
        return apposition.removeprefix("who ")
    is_in_present_tense = clause.predicate.startswith(("is ", "has ", "also is ", "also has "))
    # A birth is past even if the sentence is in the present tense.
    is_birth = apposition.startswith("born ")
    return f"is {apposition}" if is_in_present_tense and not is_birth else f"was {apposition}"


def _split_predicate(subject: str, predicate: str) -> list[str]:
    """Split a predicate at its verbs into facts that each have a subject.

    Example:
        ``Ada`` and ``was fined in Oslo and jailed in Rome`` → ``Ada was fined in Oslo``, ``Ada was
        jailed in Rome``

    Args:
        subject: The subject of the facts, such as ``Ada``.
        predicate: The text from the verb to the end of the sentence.
    """
    facts: list[str] = []
    auxiliary = ""
    for phrase in _split_into_verb_phrases(predicate):
        passive = _GRAMMAR["passive"].match(phrase)
        full_phrase = phrase
        if passive:
            auxiliary = passive["auxiliary"]
        elif auxiliary and _GRAMMAR["participle"].match(phrase):
            # In "was fined and jailed", both participles share the auxiliary "was".
            full_phrase = f"{auxiliary} {phrase}"
        else:
            # After an active verb, as in "was fined, sang and jailed", no auxiliary is shared.
            auxiliary = ""
        facts += _split_verb_phrase(subject, full_phrase)
    return facts


def _split_into_verb_phrases(predicate: str) -> list[str]:
    """Split a predicate into verb phrases, each with the object of its verb.

    Example:
        ``directed and presented a play and wrote a novel`` → ``directed and presented a play``,
        ``wrote a novel``
    """
    stripped_parts = (part.strip(" ,") for part in _GRAMMAR["between_verbs"].split(predicate))
    parts = list(filter(None, stripped_parts))
    phrases = []
    verbs_without_object = ""  # such as "directed and "
    for position, part in enumerate(parts, start=1):
        is_single_verb = " " not in part
        is_last = position == len(parts)
        # A single verb shares the object of the next one, unless it is the last.
        if is_single_verb and not is_last:
            verbs_without_object += f"{part} and "
        else:
            phrases.append(verbs_without_object + part)
            verbs_without_object = ""
    return phrases


def _split_verb_phrase(subject: str, phrase: str) -> list[str]:
    """Split a verb phrase into facts.

    Each fact begins with the subject. A phrase of another form stays whole.

    Example:
        ``is a singer, writer and judge`` → one fact for each role; ``was a painter who taught`` →
        ``was a painter`` and ``taught``; ``was born in 1900 in Oslo`` → a fact for date and place
    """
    if phrase.startswith(("was born ", "is born ")):
        _, birth = phrase.split(" ", 1)  # without "was" or "is"
        return _split_birth(subject, birth)

    who_clause = _GRAMMAR["who_clause"].match(phrase)
    if who_clause:
        # In "Ada was a painter who taught", Ada is the subject of both verbs.
        main_facts = _split_verb_phrase(subject, who_clause["main"])
        return main_facts + _split_predicate(subject, who_clause["relative_clause"])
    return _split_roles(subject, phrase)


def _split_roles(subject: str, phrase: str) -> list[str]:
    """Split a list of roles into one fact for each role.

    Example:
        ``Ada`` and ``is a singer, writer and judge`` → ``Ada is a singer``, ``Ada is a writer``,
        ``Ada is a judge``
    """
    match = _GRAMMAR["list_of_roles"].match(phrase)
    if match is None:
        return [f"{subject} {phrase}"]
    roles = [role.strip() for role in _GRAMMAR["between_roles"].split(match["roles"])]
    # The last role may be any noun, as in "a painter, singer and member of the council".
    if not all(_is_role(role) for role in roles[:-1]):
        return [f"{subject} {phrase}"]
    # Only the first role has its article in the text.
    roles[0] = f"{match['article']} {roles[0]}"
    return [f"{subject} {match['verb']} {_with_article(role)}" for role in roles]


def _with_article(noun: str) -> str:
    """Return a noun with an indefinite article, unless it has an article: ``an actor``."""
    if _GRAMMAR["has_article"].match(noun):
        return noun
    return f"an {noun}" if noun[:1].lower() in "aeiou" else f"a {noun}"


def _is_role(noun: str) -> bool:
    """Return whether a noun names the role of a person, such as ``English painter``."""
    is_short = len(noun.split()) <= _MAX_ROLE_WORDS
    if not is_short or _GRAMMAR["of_something"].search(noun):
        return False
    return _GRAMMAR["person"].search(noun) is not None


# The words of a name in lower case, such as ("ada", "lind").
_Name = tuple[str, ...]


@dataclass
class _Individual:
    """An individual in a paragraph, and what the sentences so far say about them."""

    names: list[_Name] = field(default_factory=list)
    """The names that sentences begin with."""

    birth_years: set[str] = field(default_factory=set)
    """The years of birth, such as ``1900``."""

    facts: list[int] = field(default_factory=list)
    """The indices of the facts about the individual."""

    is_introduced: bool = False
    """Whether a sentence has introduced the individual, by a description or a birth."""

    def can_be_called(self, name: _Name) -> bool:
        """Return whether a name may mean this individual.

        Example:
            ``Ada Lind`` can be called ``Ada Maria Lind``, and the reverse, but not ``Ada Hill``.

        Args:
            name: The words of the name, such as ``("ada", "lind")``.
        """
        # An individual without a known name can have any name.
        if not self.names:
            return True
        words = set(name)
        return any(words.issubset(known) or words.issuperset(known) for known in self.names)

    def add_mention(self, mention: _Mention, is_new: bool) -> None:
        """Note what a sentence says about the individual.

        Args:
            mention: How the sentence mentions the individual.
            is_new: Whether it is the first sentence about the individual.
        """
        # A first name alone does not tell individuals apart.
        if mention.is_full_name:
            self.names.append(mention.name)
        self.birth_years |= mention.birth_years
        # The first sentence about somebody introduces them, however it is worded.
        if mention.is_introduction or mention.birth_years or is_new:
            self.is_introduced = True


class _LeadingName(NamedTuple):
    """The name at the beginning of a sentence, and the text behind it."""

    words: _Name
    """The words of the name. Empty if the sentence does not begin with one."""

    rest: str
    """The text behind the name. Empty if there is no name."""


@dataclass(frozen=True)
class _Mention:
    """How a sentence mentions somebody who bears the name that the paragraph is about."""

    name: _Name
    """The name at the beginning of the sentence. Empty if there is none."""

    is_full_name: bool
    """Whether it has at least two words, or is as long as the name that is asked about."""

    is_introduction: bool
    """Whether the name is introduced, as in ``Ada Lind was a ...``."""

    is_described: bool
    """Whether a description follows, as in ``Ada Lind, a painter, ...``."""

    announces_another: bool
    """Whether the wording announces somebody else, as in ``Another Ada Lind``."""

    birth_years: set[str]
    """The years of birth that the sentence states."""


def group_by_individual(
    name: str, sentences: Sequence[str], facts: Sequence[str], sentence_indices: Sequence[int]
) -> list[list[int]]:
    """Group the facts of a paragraph by the individuals who share a name.

    A sentence is about the same individual as the sentence before, unless its wording shows that it
    is about an earlier or a new one.

    Example:
        ``Ada Lind was a painter. She sang. Another Ada Lind was a pilot.``, with one fact per
        sentence → ``[[0, 1], [2]]``

    Args:
        name: The name that all of them share.
        sentences: The sentences of the paragraph.
        facts: The facts of all sentences.
        sentence_indices: The index of the sentence that states each fact.

    Returns:
        The indices of each individual's facts, in the order of the first fact.
    """
    shared_name = _name_words(name)
    # The indices of the facts of each sentence.
    facts_of_sentence: dict[int, list[int]] = defaultdict(list)
    for fact_index, sentence_index in enumerate(sentence_indices):
        facts_of_sentence[sentence_index].append(fact_index)

    paragraph = _Paragraph()
    for sentence_index, sentence in enumerate(sentences):
        paragraph.switch_to(_parse_mention(sentence, shared_name))
        paragraph.add_facts(facts_of_sentence[sentence_index], facts)
    # Lists of indices are sorted by their first index.
    return sorted(individual.facts for individual in paragraph.individuals if individual.facts)


class _Paragraph:
    """The individuals whom the sentences of a paragraph are about, as far as they have been read.

    Attributes:
        current: The individual whom the last sentence is about.
        individuals: All individuals, in the order of their first sentence.
    """

    def __init__(self) -> None:
        """Begin with an individual of whom nothing is known, for the first sentence."""
        self.current = _Individual()
        self.individuals = [self.current]

    def add(self, individual: _Individual) -> None:
        """Add a new individual, whom the next facts are about."""
        self.current = individual
        self.individuals.append(individual)

    def add_facts(self, fact_indices: Sequence[int], facts: Sequence[str]) -> None:
        """Add the facts of the next sentence to the individuals whom they are about.

        Args:
            fact_indices: The indices of these facts among all.
            facts: The facts of all sentences.
        """
        # "Ada sang, while the other was a pilot" states its second fact about somebody else. The
        # first fact of a sentence is about the individual whom `switch_to` has chosen.
        follows_fact_about_current = False
        for index in fact_indices:
            is_about_the_other = _WORDING["about_the_other"].match(facts[index]) is not None
            if is_about_the_other and follows_fact_about_current:
                self.add(_Individual(is_introduced=True))
            self.current.facts.append(index)
            follows_fact_about_current = not is_about_the_other

    def switch_to(self, mention: _Mention) -> None:
        """Make the individual whom the next sentence mentions the current one.

        Args:
            mention: How the sentence mentions somebody.
        """
        earlier_individual = self._earlier_individual(mention)
        if earlier_individual is not None:
            self.current = earlier_individual
            return

        is_new = _begins_new_individual(mention, self.current)
        # The first individual is the one of the first fact, even if sentences without facts come
        # before it.
        has_facts = bool(self.individuals[0].facts)
        if is_new and has_facts:
            self.add(_Individual())
        self.current.add_mention(mention, is_new)

    def _earlier_individual(self, mention: _Mention) -> _Individual | None:
        """Return the individual to whom a sentence goes back, or None if it goes back to nobody.

        After sentences about Ada Lind and then about Ada Hill, one about ``Ada Lind`` goes back.
        """
        has_other_name = mention.is_full_name and not self.current.can_be_called(mention.name)
        if not has_other_name or mention.announces_another:
            return None
        for individual in self.individuals:
            if mention.name in individual.names:
                return individual
        return None


def _begins_new_individual(mention: _Mention, current: _Individual) -> bool:
    """Return whether a sentence is about another person than the sentence before.

    Args:
        mention: How the sentence mentions an individual.
        current: The individual of the sentence before.
    """
    # "Another Ada Lind was a pilot."
    if mention.announces_another:
        return True
    # A first name alone does not tell individuals apart.
    if not mention.is_full_name:
        return False
    # After sentences about Ada Lind: "Ada Hill was a pilot."
    if not current.can_be_called(mention.name):
        return mention.is_introduction

    # Nobody is born in two years.
    both_have_births = bool(mention.birth_years and current.birth_years)
    if both_have_births and mention.birth_years.isdisjoint(current.birth_years):
        return True
    # "Ada Lind, a painter, ..." describes somebody, and nobody is described twice in this way.
    return current.is_introduced and mention.is_described


def _parse_mention(sentence: str, shared_name: _Name) -> _Mention:
    """Parse how a sentence mentions an individual.

    Args:
        sentence: The sentence.
        shared_name: The words of the name that all individuals share.

    Returns:
        The name that the sentence begins with, and how it goes on.
    """
    name, rest = _parse_leading_name(sentence, shared_name)
    # A full name has two words, unless the shared name has only one, such as "Pelé".
    is_full_name = len(name) >= min(2, len(shared_name))
    # " was a painter" introduces the name before it, and ", a painter, sang" also describes it.
    is_introduction = bool(name) and _WORDING["introduction_follows"].match(rest) is not None
    is_described = _WORDING["description_follows"].match(rest) is not None

    birth_years: set[str] = set()
    # The pattern has a group for each way to state the year, such as "born in 1900" or "(1900-".
    for groups in _WORDING["birth_year"].findall(sentence):
        birth_years.update(year for year in groups if year)
    return _Mention(
        name=name,
        is_full_name=is_full_name,
        is_introduction=is_introduction,
        is_described=is_described,
        announces_another=_announces_another(sentence, is_full_name and is_introduction),
        birth_years=birth_years,
    )


def _announces_another(sentence: str, introduces_full_name: bool) -> bool:
    """Return whether a sentence says that it begins to talk about a different person.

    Example:
        ``Another Ada Lind was a pilot.``, ``By contrast, Ada Lind was a pilot.`` and ``Ada Hill is
        a different person.`` do; ``Another book followed.`` and ``By contrast, she sang.`` do not.

    Args:
        sentence: The sentence.
        introduces_full_name: Whether it introduces a full name, as ``Ada Lind was a pilot`` does.
    """
    # "Another" and "the second" may also be about a thing, such as a book of the same person.
    if _WORDING["begins_like_another"].match(sentence):
        return not _WORDING["is_another_thing"].match(sentence)
    # Without a full name, "by contrast" contrasts two facts about the same person.
    if introduces_full_name and _WORDING["says_in_contrast"].match(sentence):
        return True
    return _WORDING["says_different_person"].match(sentence) is not None


def _parse_leading_name(sentence: str, shared_name: _Name) -> _LeadingName:
    """Parse the name that a sentence begins with, if it has a word of the shared name.

    Example:
        ``However, Ada Lind was a pilot.`` → the name (ada, lind) and the rest `` was a pilot.``;
        ``The Ada Lind Society closed.`` → no name, since a society is no individual.

    Returns:
        The name and the text behind it, both empty if there is no name.
    """
    # Words such as "However," come before a name.
    text = _WORDING["before_name"].sub("", sentence, count=1)
    match = _WORDING["leading_name"].match(text)
    if match is None:
        return _LeadingName((), "")

    # The pattern also takes the space behind the name.
    name = match[0].rstrip()
    words = _name_words(name)
    if not set(shared_name) & set(words):
        return _LeadingName((), "")
    return _LeadingName(words, text.removeprefix(name))


def _name_words(text: str) -> _Name:
    """Return the words of a name that tell people apart, in lower case and without accents.

    Example:
        ``Dr. René "Ren" de Lind Jr.`` → ``("rene", "lind")``. A name of nothing but titles and
        particles keeps them.
    """
    # Nicknames stand in quotation marks.
    without_nickname = _WORDING["nickname"].sub("", without_accents(text))
    words = re.findall(r"\w+", without_nickname.casefold())
    significant_words = tuple(
        word for word in words if not _WORDING["title_or_particle"].match(word)
    )
    return significant_words or tuple(words)
