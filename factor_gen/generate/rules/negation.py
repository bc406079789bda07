"""Operators that deny what a sentence says, or take its denial back.

The tables of ``conditions.yaml`` say which verbs can be denied, and how.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from random import Random
from typing import NamedTuple

from factor_gen.generate.rules.edits import Replacement, SentenceEdit, make_edit, sample_up_to
from factor_gen.generate.rules.sentence import Span, TaggedSentence
from factor_gen.generate.rules.substitutes import verb_tag
from factor_gen.generate.rules.words import WORDS, inflect
from factor_gen.records import PREDICATE
from factor_gen.text.pattern import base_forms

ADDED_DENIAL_SHARE = 0.15
"""The share of the sentences that are denied although enough else can be edited.

Few true sentences have a *not*, so that a *not* in many false ones would give them away.
"""

# The Penn tag of each form of "do", which the verb has without it: "did not rise" becomes "rose".
_TAGS_OF_DO = {"do": "VBP", "does": "VBZ", "did": "VBD"}
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
    in_time: str
    """The verb denied for some time, such as *never rose*."""


def remove_negations(sentence: TaggedSentence, rng: Random) -> Iterator[SentenceEdit]:
    """Remove each *not*: *It did not rise* becomes *It rose*, and *cannot* becomes *can*.

    Args:
        sentence: The sentence to edit.
        rng: Not used. All operators have this parameter.

    Yields:
        Edits of one denial.
    """
    for index, word in enumerate(sentence.lowercase_words):
        if word != "cannot" and word not in WORDS["not"]:
            continue
        # Table "kept denials" of conditions.yaml: "may" does not contradict "may not".
        if sentence.context_of_tokens(index).matches("kept denials"):
            continue
        replacement = _without_negation(sentence, index)
        if replacement:
            yield make_edit("negation removed", PREDICATE, replacement)


def _without_negation(sentence: TaggedSentence, index: int) -> Replacement | None:
    """Replace a *not* and the verbs beside it by what they say without it.

    Example:
        ``cannot -> can``, ``did not rise -> rose`` and ``wo n't -> will``.

    Args:
        sentence: The sentence to edit.
        index: The index of *not*, *n't* or *cannot*.

    Returns:
        The replacement; None if there is no auxiliary verb before the *not*, or no verb after *do
        not*.
    """
    context = sentence.context_of_tokens(index)
    if context.value_at("word", index) == "cannot":
        return Replacement(*sentence.span_of_tokens(index), "can")

    auxiliary = context.value_at("word", index - 1)
    if auxiliary in _TAGS_OF_DO:
        verb = context.value_at("word", index + 1)
        # "Did not" may stand at the end, or before an adverb.
        if not verb or verb not in base_forms(verb):
            return None
        # The span is that of "did", "not" and "rise".
        span = sentence.span_of_tokens(index - 1, index + 2)
        return Replacement(*span, inflect(verb, _TAGS_OF_DO[auxiliary]))

    if auxiliary not in WORDS["auxiliaries"]:
        return None
    # The span is that of "wo" and "n't", or of "will" and "not".
    span = sentence.span_of_tokens(index - 1, index + 1)
    return Replacement(*span, _SHORT_AUXILIARIES.get(auxiliary, auxiliary))


def add_negation(sentence: TaggedSentence, rng: Random) -> Iterator[SentenceEdit]:
    """Deny a verb with *not*: *It rose* becomes *It did not rise*.

    Args:
        sentence: The sentence to edit.
        rng: The random numbers that decide which denial is taken, if any.

    Yields:
        Every denial if the sentence offers all edits. Otherwise at most one, with the probability
        `ADDED_DENIAL_SHARE`.
    """
    denials = find_denials(sentence)
    if not sentence.offers_all_edits:
        # Few true sentences have a "not", so that one in many false ones would give them away.
        is_denied = rng.random() < ADDED_DENIAL_SHARE
        denials = sample_up_to(rng, denials, 1) if is_denied else []
    for denial in denials:
        yield make_edit("negation added", PREDICATE, Replacement(*denial.span, denial.with_not))


def deny_with_never(sentence: TaggedSentence, rng: Random) -> Iterator[SentenceEdit]:
    """Deny a verb with *never* or *no longer*: *It rose* becomes *It never rose*.

    True sentences seldom have these words, which would give many false ones away. So only sentences
    with few other edits are denied like this: those for which `extra_values` asks for more numbers
    than usual.

    Args:
        sentence: The sentence to edit.
        rng: Not used. All operators have this parameter.

    Yields:
        Every such denial, or none if the sentence has enough other edits.
    """
    if sentence.extra_values == 0:
        return
    # "It never opened in 1921" does not deny that it opened. The table "no second denial" finds
    # such sentences. It looks at the whole sentence, also if it is asked about the first token.
    if sentence.context_of_tokens(0).matches("no second denial"):
        return
    for denial in find_denials(sentence):
        yield make_edit("negation in time", PREDICATE, Replacement(*denial.span, denial.in_time))


# The operators "negation added" and "negation in time" use the denials of a sentence in turn.
@lru_cache(maxsize=1)
def find_denials(sentence: TaggedSentence) -> Sequence[Denial]:
    """Find all ways to deny a sentence: first its imperatives, then its other verbs in order.

    If the sentence begins with a purpose, as *to see the list, press the key*, only the imperative
    can be denied. *To never see the list* would deny the purpose alone.
    """
    denials = [
        _fill_denial(sentence, index, _DENIED_IMPERATIVE) for index in _imperative_indices(sentence)
    ]
    # Table "purpose" of conditions.yaml tells whether the sentence begins with a purpose.
    if not sentence.tokens or sentence.context_of_tokens(0).matches("purpose"):
        return denials
    for index in range(len(sentence.tokens)):
        template = _denial_template(sentence, index)
        if template:
            denials.append(_fill_denial(sentence, index, template))
    return denials


def _imperative_indices(sentence: TaggedSentence) -> Iterator[int]:
    """Find the verbs that tell the reader to do something.

    An imperative is the first word of the sentence, as in *press the key*, or the first after the
    purpose with which the sentence begins, as *open* in *to see the yard, open the gate*.

    Yields:
        The index of each imperative.
    """
    candidate_indices = [0]
    opening = sentence.lowercase_words[:_LONGEST_PURPOSE]
    # A purpose such as "to see the yard" ends with the first comma.
    if "," in opening and sentence.context_of_tokens(0).matches("begins with to"):
        candidate_indices.append(opening.index(",") + 1)
    for index in candidate_indices:
        context = sentence.context_of_tokens(index)
        word = context.value_at("word", index)
        # "Press" is its own base form. Table "orders" looks at the words after it.
        if word in base_forms(word) and context.matches("orders"):
            yield index


def _denial_template(sentence: TaggedSentence, index: int) -> str:
    """Look up how a verb is denied in the table ``denials`` of ``conditions.yaml``.

    Args:
        sentence: The sentence to edit.
        index: The index of the verb's token.

    Returns:
        The verb with *not* and in other words, such as ``did not {base} | never {word}``, in which
        ``{base}`` stands for *rise* and ``{word}`` for *rose*. It is empty if the token is no verb,
        or if denying it would not deny the sentence.
    """
    verb = sentence.context_of_tokens(index)
    # Table "before manner": in "is fully automatic", the adverb is looked up with the verb, because
    # "is not fully automatic" denies both.
    end = index + 2 if verb.matches("before manner") else index + 1
    template = sentence.context_of_tokens(index, end).first_result("denials")
    # Table "kept statements": denying the verb of a relative clause does not deny the sentence.
    if not template or verb.matches("kept statements"):
        return ""
    # Only a denial with "do" needs the base form of the verb.
    if "{base}" in template and not _is_denied_with_do(sentence, index):
        return ""
    return template


def _is_denied_with_do(sentence: TaggedSentence, index: int) -> bool:
    """Whether a verb is denied with *do*, as *rose* with *did not rise*.

    This holds for the present and past tense of most verbs, but not for *is*. It does not hold for
    participles, such as *sold* in *the houses sold in May were old*, and not if a word may be one.

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

    # The past tense "sold" is spelled like the participle. Table "participle" tells them apart.
    may_be_participle = inflect(base, "VBN") == verb
    if may_be_participle and sentence.context_of_tokens(index).matches("participle"):
        return False
    # The words around the verb must also say that it is in the past tense.
    return verb_tag(sentence, index, ("VBD", "VBN")) == "VBD"


def _fill_denial(sentence: TaggedSentence, index: int, template: str) -> Denial:
    """Fill a verb into a template.

    Args:
        sentence: The sentence to edit.
        index: The index of the verb's token.
        template: Both denials, such as ``did not {base} | never {word}``.

    Returns:
        The denial, such as *did not rise* and *never rose* for *rose*.
    """
    word = sentence.lowercase_words[index]
    with_not, in_time = template.format(word=word, base=_base_form(word)).split(" | ")
    return Denial(sentence.span_of_tokens(index), with_not, in_time)


def _base_form(word: str) -> str:
    """Return the base form of a verb, such as *rise* of *rose*; empty if it has none."""
    return next(iter(base_forms(word)), "")
