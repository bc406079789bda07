"""Operators that deny what a sentence says, or take its denial back.

The tables of ``conditions.yaml`` say which verbs can be denied, and how.
"""

import random
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from factor_gen.generate.rules.edits import Replacement, SentenceEdit, make_edit
from factor_gen.generate.rules.sentence import Span, TaggedSentence
from factor_gen.generate.rules.substitutes import verb_tag
from factor_gen.generate.rules.words import WORDS, inflect
from factor_gen.records import PREDICATE
from factor_gen.text.pattern import base_forms

ADDED_DENIAL_SHARE = 0.15
"""The share of the sentences that are denied although enough else can be edited.

Few true sentences have a *not*, so that a *not* in many false ones would give them away.
"""

# The form of the verb without "do": "did not rise" becomes "rose".
_TAGS_WITHOUT_DO = {"do": "VBP", "does": "VBZ", "did": "VBD"}
# The auxiliaries that are shortened before "n't".
_SHORT_AUXILIARIES = {"wo": "will", "ca": "can", "sha": "shall"}
_LONGEST_PURPOSE = 40  # tokens before an imperative, as in "to see the yard, open the gate"
_DENIED_IMPERATIVE = "do not {word} | never {word}"


class Denial(NamedTuple):
    """A way to deny a sentence by replacing its verb."""

    span: Span
    """The characters of the verb."""
    with_not: str
    """The verb with *not*, such as *did not rise*."""
    without_not: str
    """The verb denied in other words, such as *never rose*."""


def remove_negations(sentence: TaggedSentence, rng: random.Random) -> Iterator[SentenceEdit]:
    """Remove each *not*: *It did not rise* becomes *It rose*, and *cannot* becomes *can*.

    Args:
        sentence: The sentence to edit.
        rng: Not used. All operators have this parameter.

    Yields:
        Edits of one denial.
    """
    for index, word in enumerate(sentence.lowercase_words):
        is_negation = word == "cannot" or word in WORDS["not"]
        # Table "kept denials" of conditions.yaml: what cannot be taken back, as in "may not".
        if not is_negation or sentence.context_of_tokens(index).matches("kept denials"):
            continue
        replacement = _without_negation(sentence, index)
        if replacement:
            yield make_edit("negation removed", PREDICATE, replacement)


def _without_negation(sentence: TaggedSentence, index: int) -> Replacement | None:
    """Replace a *not* and the words around it by the verb that they deny.

    Args:
        sentence: The sentence to edit.
        index: The index of *not*, *n't* or *cannot*.

    Returns:
        The replacement, such as ``wo n't -> will``; None if the *not* denies no verb.
    """
    context = sentence.context_of_tokens(index)
    if context.value_at("word", index) == "cannot":
        return Replacement(*sentence.span_of_tokens(index), "can")

    auxiliary = context.value_at("word", index - 1)
    if auxiliary in _TAGS_WITHOUT_DO:
        verb = context.value_at("word", index + 1)
        # "Did not" may stand at the end, or before an adverb.
        if not verb or verb not in base_forms(verb):
            return None
        # "Did not rise" as a whole becomes "rose".
        span = sentence.span_of_tokens(index - 1, index + 2)
        return Replacement(*span, inflect(verb, _TAGS_WITHOUT_DO[auxiliary]))

    if auxiliary not in WORDS["auxiliaries"]:
        return None
    # "Will not" becomes "will".
    span = sentence.span_of_tokens(index - 1, index + 1)
    return Replacement(*span, _SHORT_AUXILIARIES.get(auxiliary, auxiliary))


def add_negation(sentence: TaggedSentence, rng: random.Random) -> Iterator[SentenceEdit]:
    """Deny a verb with *not*: *It rose* becomes *It did not rise*.

    Args:
        sentence: The sentence to edit.
        rng: The random numbers that decide which denial is taken, if any.

    Yields:
        One denial of few sentences (see `ADDED_DENIAL_SHARE`). If the sentence offers all edits,
        every denial.
    """
    denials = find_denials(sentence)
    if not sentence.offers_all_edits:
        is_drawn = rng.random() < ADDED_DENIAL_SHARE
        denials = [rng.choice(denials)] if is_drawn and denials else []
    for denial in denials:
        replacement = Replacement(*denial.span, denial.with_not)
        yield make_edit("negation added", PREDICATE, replacement)


def deny_in_other_words(sentence: TaggedSentence, rng: random.Random) -> Iterator[SentenceEdit]:
    """Deny a verb with *never* or *no longer*: *It rose* becomes *It never rose*.

    Args:
        sentence: The sentence to edit.
        rng: Not used. All operators have this parameter.

    Yields:
        Every denial if little else can be edited, otherwise none.
    """
    if not sentence.extra_values:
        return
    # Table "no second denial": "it never opened in 1921" does not deny that it opened.
    if sentence.context_of_tokens(0).matches("no second denial"):
        return
    for denial in find_denials(sentence):
        replacement = Replacement(*denial.span, denial.without_not)
        yield make_edit("negation in time", PREDICATE, replacement)


@lru_cache(maxsize=1)  # Two operators ask for the denials of the same sentence in turn.
def find_denials(sentence: TaggedSentence) -> list[Denial]:
    """Find all ways to deny a sentence: first its imperatives, then its other verbs in order."""
    denials = [
        _filled_denial(sentence, index, _DENIED_IMPERATIVE)
        for index in _imperative_indices(sentence)
    ]
    # Table "purpose": "to see the list, the button is not used" would deny the purpose alone.
    if not sentence.tokens or sentence.context_of_tokens(0).matches("purpose"):
        return denials
    for index in range(len(sentence.tokens)):
        template = _denial_template(sentence, index)
        if template:
            denials.append(_filled_denial(sentence, index, template))
    return denials


def _imperative_indices(sentence: TaggedSentence) -> Iterator[int]:
    """Find the verbs that tell the reader to do something, by the table ``orders``.

    Yields:
        The index of *press* in *press the key*, and of *open* in *to see the yard, open the gate*.
    """
    # An imperative begins the sentence, or follows the purpose at its beginning (table "begins
    # with to"): "to see the yard, open the gate".
    indices = [0]
    opening = sentence.lowercase_words[:_LONGEST_PURPOSE]
    if "," in opening and sentence.context_of_tokens(0).matches("begins with to"):
        indices.append(opening.index(",") + 1)
    for index in indices:
        context = sentence.context_of_tokens(index)
        word = context.value_at("word", index)
        # An imperative is in its base form. Table "orders" looks at the words after it.
        if word in base_forms(word) and context.matches("orders"):
            yield index


def _denial_template(sentence: TaggedSentence, index: int) -> str:
    """Find out how a verb is denied, by the table ``denials`` of ``conditions.yaml``.

    Args:
        sentence: The sentence to edit.
        index: The index of the verb's token.

    Returns:
        The verb with *not* and in other words, such as ``did not {base} | never {word}``; empty if
        the token is no verb, or if denying it would not deny the sentence.
    """
    context = sentence.context_of_tokens(index)
    # Table "before manner": in "is fully automatic", the adverb belongs to what is denied.
    is_before_adverb = context.matches("before manner")
    end = index + 2 if is_before_adverb else index + 1
    template = sentence.context_of_tokens(index, end).first_result("denials")
    # Table "kept statements": denying the verb of a relative clause does not deny the sentence.
    if not template or context.matches("kept statements"):
        return ""
    if "{base}" in template and not _can_take_do(sentence, index):
        return ""
    return template


def _can_take_do(sentence: TaggedSentence, index: int) -> bool:
    """Whether a verb is clearly in the present or past tense, and is denied with *do*.

    Args:
        sentence: The sentence to edit.
        index: The index of the verb's token.
    """
    verb = sentence.lowercase_words[index]
    tag = sentence.tokens[index].tag
    base = _base_form(verb)
    # The tag is wrong if the verb has no form that is spelled like this.
    if not base or inflect(base, tag) != verb:
        return False
    if tag != "VBD":
        return base not in WORDS["verbs without do"]
    # Table "participle": in "the houses sold in May were old", "sold" is no past tense.
    is_also_participle = inflect(base, "VBN") == verb
    if is_also_participle and sentence.context_of_tokens(index).matches("participle"):
        return False
    return verb_tag(sentence, index, ("VBD", "VBN")) == "VBD"


def _filled_denial(sentence: TaggedSentence, index: int, template: str) -> Denial:
    """Fill the verb into a template.

    Args:
        sentence: The sentence to edit.
        index: The index of the verb's token.
        template: Both denials, such as ``did not {base} | never {word}``.
    """
    word = sentence.lowercase_words[index]
    with_not, without_not = template.format(word=word, base=_base_form(word)).split(" | ")
    return Denial(sentence.span_of_tokens(index), with_not, without_not)


def _base_form(word: str) -> str:
    """Return the base form of a verb, such as *rise* of *rose*; empty if it has none."""
    return next(iter(base_forms(word)), "")
