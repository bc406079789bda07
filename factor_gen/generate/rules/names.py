"""The operator that replaces a name by another name of the same kind from the prefix.

The tables of ``conditions.yaml`` say which names may be replaced, and by which.
"""

import random
import re
from collections.abc import Iterable, Iterator

from factor_gen.generate.compatible import is_within
from factor_gen.generate.rules.edits import Replacement, SentenceEdit, make_edit
from factor_gen.generate.rules.sentence import NEWS_AGENCIES, Span, TaggedSentence, overlaps_any
from factor_gen.records import CIRCUMSTANCE, ENTITY
from factor_gen.text.analysis import PERSON, PLACE, Entity
from factor_gen.text.conditions import TokenContext
from factor_gen.text.names import FIRST_NAMES, may_be_same, places

_MOST_NEW_NAMES = 2  # for each name


def replace_names(sentence: TaggedSentence, rng: random.Random) -> Iterator[SentenceEdit]:
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
        if _context_of_name(sentence, name).matches("kept names"):
            continue
        if _is_located_twice(sentence, name):
            continue
        # A name that the prefix has several times counts once.
        new_names = list(dict.fromkeys(_fitting_names(sentence, name)))
        rng.shuffle(new_names)

        mentions = re.finditer(rf"(?<!\w){re.escape(name.text)}(?!\w)", sentence.text)
        spans = [Span(*mention.span()) for mention in mentions]
        # A mention within a longer name, as "Lund" in "Lund Bank", is of another thing.
        if not spans or not spans_of_names.issuperset(spans):
            continue
        # A place says where an event was (section 3.1 of the paper).
        error_type = CIRCUMSTANCE if name.kind == PLACE else ENTITY
        for new_name in new_names[:_MOST_NEW_NAMES]:
            replacements = [Replacement(*span, new_name) for span in spans]
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
    is_title = overlaps_any(sentence.titles, Span(name.start, name.end))
    if name.text in NEWS_AGENCIES or is_title:
        return False
    # Table "no whole name" of conditions.yaml: parts of longer names.
    return not _context_of_name(sentence, name).matches("no whole name")


def _is_located_twice(sentence: TaggedSentence, name: Entity) -> bool:
    """Whether the dateline or another name also says where a place is.

    *NAIROBI - Kenya's bank* and *In Japan the Japanese* would be at odds with another country.

    Args:
        sentence: The sentence.
        name: A name in it. Only a place can be located twice.
    """
    if name.kind != PLACE:
        return False
    dateline = sentence.text[: sentence.dateline_end]
    if name.text.upper() in dateline.upper():
        return True
    for entity in sentence.entities:
        # "JAPAN" is looked up as "Japan".
        other_name = entity.text.title() if entity.text.isupper() else entity.text
        if entity.text != name.text and is_within(other_name, name.text):
            return True
    return False


def _fitting_names(sentence: TaggedSentence, name: Entity) -> Iterator[str]:
    """Find the names of the prefix that may replace a name of the sentence.

    Args:
        sentence: The sentence to edit.
        name: A name in it.

    Yields:
        Names of the same kind with as many words, and with an article if the name has one. A
        surname is replaced by the surname of another person.
    """
    size = len(name.text.split())
    is_surname = name.kind == PERSON and size == 1
    has_article = sentence.text[: name.start].lower().endswith("the ")
    prefix_names = [
        prefix_name for prefix_name in sentence.prefix_names if prefix_name.kind == name.kind
    ]
    # A single word that is no surname in the prefix may be the name of a program.
    full_name_end = f" {name.text}"
    has_full_name = any(prefix_name.text.endswith(full_name_end) for prefix_name in prefix_names)
    if is_surname and not has_full_name:
        return

    for prefix_name in prefix_names:
        words = prefix_name.text.split()
        new_name = words[-1] if is_surname else prefix_name.text
        is_alike = (
            prefix_name.has_article == has_article
            and len(new_name.split()) == size
            and new_name.isupper() == name.text.isupper()
            and _sort_of_place(new_name) == _sort_of_place(name.text)
        )
        if not is_alike or _is_mentioned(sentence, prefix_name.text):
            continue
        # A woman's name does not replace the name that a "he" refers to.
        sex = FIRST_NAMES.get(words[0], "")
        context = _context_of_name(
            sentence, name, new=[new_name], new_words=new_name.split(), sex=[sex]
        )
        # Table "unfit names" of conditions.yaml: "Mr Anne" is none.
        if not context.matches("unfit names"):
            yield new_name


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
