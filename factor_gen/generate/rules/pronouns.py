"""The operator that turns *he* into *she* and *she* into *he*.

*We*, *you* and *they* are not edited, because they may mean anybody. The same holds for pronouns in
quotations.
"""

from collections.abc import Iterator, Sequence
from random import Random

from factor_gen.generate.rules.edits import Replacement, SentenceEdit, make_edit
from factor_gen.generate.rules.sentence import TaggedSentence, overlaps_any
from factor_gen.generate.rules.words import LISTS
from factor_gen.records import COREFERENCE
from factor_gen.text.analysis import PERSON
from factor_gen.text.names import FIRST_NAMES

_MALE_PRONOUNS = LISTS["he"]
_FEMALE_PRONOUNS = LISTS["she"]
_PRONOUN_OF_OTHER_GENDER = dict(
    zip(_MALE_PRONOUNS + _FEMALE_PRONOUNS, _FEMALE_PRONOUNS + _MALE_PRONOUNS, strict=True)
)
_POSSESSIVE_OF_OTHER_GENDER = {"his": "her", "her": "his"}


def swap_pronouns(sentence: TaggedSentence, rng: Random) -> Iterator[SentenceEdit]:
    """Swap the gender of all pronouns: *He sold his boat* becomes *She sold her boat*.

    Args:
        sentence: The sentence to edit.
        rng: The random numbers that decide whether the edit is made.

    Yields:
        One edit of all pronouns, or none if the sentence would contradict itself after it.
    """
    if not _may_swap_pronouns(sentence):
        return
    words = sentence.lowercase_words
    indices = [index for index, word in enumerate(words) if word in _PRONOUN_OF_OTHER_GENDER]
    if not indices:
        return

    # Chance decides whether the edit is made. "He", which is more common, becomes "she" less often
    # than the reverse, because "she" in many false sentences would give them away.
    pronoun = "he" if words[indices[0]] in _MALE_PRONOUNS else "she"
    drawn_pronouns = sentence.draw_substitutes(rng, pronoun, [_PRONOUN_OF_OTHER_GENDER[pronoun]])
    if not drawn_pronouns:
        return
    replacements = _swapped_pronouns(sentence, indices)
    if replacements:
        yield make_edit("pronoun", COREFERENCE, *replacements)


def _may_swap_pronouns(sentence: TaggedSentence) -> bool:
    """Whether *he* or *she* in a sentence means a person, whose gender the sentence does not tell.

    It tells the gender in *Angela said she left*, where *he* would contradict the name instead of
    the facts. In *the reader may skip what he knows*, the pronoun means nobody in particular. A
    person is therefore expected only if the prefix names one.
    """
    people = [entity for entity in sentence.entities if entity.kind == PERSON]
    has_first_name = any(person.text.split()[0] in FIRST_NAMES for person in people)
    # A single word, unlike "Mary Hollis", may be the name of something else.
    has_antecedent = any(name.kind == PERSON and " " in name.text for name in sentence.prefix_names)
    if has_first_name or not has_antecedent:
        return False
    # Table "sex is told" of conditions.yaml: "he loved his wife" would be at odds with "she".
    return not sentence.context_of_tokens(0).matches("sex is told")


def _swapped_pronouns(sentence: TaggedSentence, indices: Sequence[int]) -> list[Replacement]:
    """Replace each pronoun of a sentence by that of the other gender.

    Args:
        sentence: The sentence to edit.
        indices: The indices of the pronouns.

    Returns:
        One replacement for each pronoun; none at all if one of them may not be edited, because
        the others would be at odds with it.
    """
    replacements = []
    for index in indices:
        span = sentence.span_of_tokens(index)
        # The speaker of a quotation may be of either gender.
        if not sentence.is_editable(span) or overlaps_any(sentence.quotations, span):
            return []
        pronoun = sentence.lowercase_words[index]
        new_pronoun = _PRONOUN_OF_OTHER_GENDER[pronoun]
        # Table "possessive": "her" before a noun becomes "his", and otherwise "him".
        if sentence.context_of_tokens(index).matches("possessive"):
            new_pronoun = _POSSESSIVE_OF_OTHER_GENDER.get(pronoun, new_pronoun)
        replacements.append(Replacement(*span, new_pronoun))
    return replacements
