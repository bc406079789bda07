"""The operator that replaces a name by another name of the same kind from the prefix.

The tables of ``conditions.yaml`` say which names may be replaced, and by which.
"""

import re
from collections.abc import Iterable, Iterator
from random import Random

from factor_gen.contradiction.places import is_within
from factor_gen.generate.rules.edits import Replacement, SentenceEdit, make_edit
from factor_gen.generate.rules.sentence import (
    NEWS_AGENCIES,
    PrefixName,
    Span,
    TaggedSentence,
    find_spans,
)
from factor_gen.records import CIRCUMSTANCE, ENTITY
from factor_gen.text.analysis import PERSON, PLACE, Entity
from factor_gen.text.conditions import TokenContext
from factor_gen.text.names import FIRST_NAMES, may_be_same, places

_MOST_NEW_NAMES = 2  # for each name


def replace_names(sentence: TaggedSentence, rng: Random) -> Iterator[SentenceEdit]:
    """Replace a person, place or organisation: *Lund bought it* becomes *Berg bought it*.

    Args:
        sentence: The sentence to edit.
        rng: The random numbers that decide which names of the prefix are taken.

    Yields:
        Edits of all mentions of one name. There are none if a mention is part of a longer name.
    """
    names = [entity for entity in sentence.entities if _stands_alone(sentence, entity)]
    spans_of_names = {Span(name.start, name.end) for name in names}
    for name in names:
        # Table "kept names" of conditions.yaml: what may be true of another name as well.
        is_kept = _context_of_name(sentence, name).matches("kept names")
        if is_kept or _is_place_implied_elsewhere(sentence, name):
            continue
        # A name that the prefix has several times counts once.
        new_names = list(dict.fromkeys(_fitting_names(sentence, name)))
        rng.shuffle(new_names)

        whole_name = re.compile(rf"(?<!\w){re.escape(name.text)}(?!\w)")
        mentions = find_spans(whole_name, sentence.text)
        # All mentions must be names that stand alone: "Lund" in "Lund Bank" is another thing.
        if not mentions or not spans_of_names.issuperset(mentions):
            continue
        # A place says where an event was (section 3.1 of the paper).
        error_type = CIRCUMSTANCE if name.kind == PLACE else ENTITY
        for new_name in new_names[:_MOST_NEW_NAMES]:
            replacements = [Replacement(*mention, new_name) for mention in mentions]
            yield make_edit("name", error_type, *replacements)


def _context_of_name(
    sentence: TaggedSentence, name: Entity, **facts: Iterable[object]
) -> TokenContext:
    """Return a name in its context, of which the tables of ``conditions.yaml`` are asked.

    Args:
        sentence: The sentence.
        name: A name in it.
        **facts: The values of further features, such as the new name.
    """
    return sentence.context_of_characters(
        name.start, name.end, kind=[name.kind], name=[name.text], **facts
    )


def _stands_alone(sentence: TaggedSentence, name: Entity) -> bool:
    """Whether an entity is no part of a title or a longer name, as *Austin* in *Austin, Texas*.

    Args:
        sentence: The sentence.
        name: An entity in it.
    """
    if name.text in NEWS_AGENCIES or sentence.is_in_title(name):
        return False
    # Table "no whole name" of conditions.yaml: parts of longer names.
    return not _context_of_name(sentence, name).matches("no whole name")


def _is_place_implied_elsewhere(sentence: TaggedSentence, name: Entity) -> bool:
    """Whether a name is a place that another part of the sentence gives away.

    With another country, *In Japan the Japanese voted* would contradict itself, and a reader who
    knows nothing of the facts could tell that it is false.

    Args:
        sentence: The sentence.
        name: A name in it, perhaps of a person or organisation.

    Returns:
        True if the dateline has the place, or if a name of the sentence is within it, as *Nairobi*
        or *Japanese*.
    """
    if name.kind != PLACE:
        return False
    # A dateline writes its place in capitals, as in "NAIROBI, May 3 (Reuters) - ".
    dateline = sentence.text[: sentence.dateline_end]
    if name.text.upper() in dateline.upper():
        return True
    for entity in sentence.entities:
        if entity.text == name.text:
            continue
        # "NAIROBI" is looked up as "Nairobi".
        entity_name = entity.text.title() if entity.text.isupper() else entity.text
        if is_within(entity_name, name.text):
            return True
    return False


def _fitting_names(sentence: TaggedSentence, name: Entity) -> Iterator[str]:
    """Find the names of the prefix that may replace a name of the sentence.

    Args:
        sentence: The sentence to edit.
        name: A name in it. A single word for a person is taken for a surname.

    Yields:
        Names of the same kind and form. A surname is replaced by the surname of another person.
    """
    prefix_names = [
        prefix_name for prefix_name in sentence.prefix_names if prefix_name.kind == name.kind
    ]
    is_surname = name.kind == PERSON and len(name.text.split()) == 1
    # "Mary Hollis" in the prefix shows that "Hollis" is a surname, and not the name of a program.
    has_full_name = any(prefix_name.text.endswith(f" {name.text}") for prefix_name in prefix_names)
    if is_surname and not has_full_name:
        return

    has_article = sentence.text[: name.start].lower().endswith("the ")
    for prefix_name in prefix_names:
        new_name = prefix_name.text.split()[-1] if is_surname else prefix_name.text
        # "The Hague" replaces only a name that has an article too.
        if prefix_name.has_article != has_article:
            continue
        if not _have_same_form(new_name, name.text) or _is_mentioned(sentence, prefix_name.text):
            continue
        if not _is_unfit(sentence, name, prefix_name, new_name):
            yield new_name


def _have_same_form(first_name: str, second_name: str) -> bool:
    """Whether two names have as many words, are both or neither in capitals, and of one sort.

    Example:
        *Lund Bank* has the form of *Berg Mill*, but not of *BERG MILL* or *Berg*.
    """
    return (
        len(first_name.split()) == len(second_name.split())
        and first_name.isupper() == second_name.isupper()
        and _sort_of_place(first_name) == _sort_of_place(second_name)
    )


def _is_unfit(
    sentence: TaggedSentence, name: Entity, prefix_name: PrefixName, new_name: str
) -> bool:
    """Whether a new name does not go with the words around it, as *Anne* in *Mr Anne*.

    Args:
        sentence: The sentence.
        name: The name that is replaced.
        prefix_name: The full new name, whose first word may tell a person's sex.
        new_name: The new name as it would stand in the sentence.
    """
    first_name = prefix_name.text.split()[0]
    context = _context_of_name(
        sentence,
        name,
        new=[new_name],
        new_words=new_name.split(),
        sex=[FIRST_NAMES.get(first_name, "")],
    )
    return context.matches("unfit names")


def _sort_of_place(name: str) -> str:
    """Return the sort of a place, such as ``country``; all cities are ``city``.

    Returns:
        The sort; empty if the name is of no known place.
    """
    # A capital may replace any other city.
    sort = places().get(name, "")
    return "city" if "city" in sort or sort == "capital" else sort


def _is_mentioned(sentence: TaggedSentence, name: str) -> bool:
    """Whether the sentence has a word of a name, or another name of the same thing.

    Args:
        sentence: The sentence.
        name: A name of the prefix.
    """
    capital_words = {word for word in name.split() if word[0].isupper()}
    if not capital_words.isdisjoint(token.text for token in sentence.tokens):
        return True
    return any(may_be_same(name, entity.text) for entity in sentence.entities)
