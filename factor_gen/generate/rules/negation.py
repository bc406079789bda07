"""The operator that takes a denial back.

No operator adds one. Readers found a third of the denied sentences odd: plot summaries told what
does not happen, and sentences contradicted another part of themselves.
"""

from collections.abc import Iterator
from random import Random

from factor_gen.generate.rules.edits import Replacement, SentenceEdit, make_edit
from factor_gen.generate.rules.sentence import TaggedSentence
from factor_gen.generate.rules.words import WORDS, inflect
from factor_gen.records import PREDICATE
from factor_gen.text.pattern import base_forms

# The Penn tag of each form of "do", which the verb has without it: "did not rise" becomes "rose".
_TAGS_OF_DO = {"do": "VBP", "does": "VBZ", "did": "VBD"}
# The auxiliaries that are shortened before "n't".
_SHORT_AUXILIARIES = {"wo": "will", "ca": "can", "sha": "shall"}


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
