"""The criterion of the fluency filter: whether an edit spoils the sentence that it is made in.

Two properties of an edit tell broken sentences from good ones, whatever their length. The mean
log-likelihood, which the paper compares, mostly tells rare words from frequent ones.

- The words after the edit become much less likely than they are in the original.
- Another form of an edited word would be much likelier in its place, as in ``they has left``.

A word that stands there twice, as in ``the the mill``, is always broken.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import chain, dropwhile
from typing import NamedTuple

from factor_gen.filter_models import FluencyModel, ScoredText
from factor_gen.language import ENGLISH

# Words whose forms lemminflect does not know, or that it takes for other words.
_CLOSED_CLASSES = [
    set(forms.split())
    for forms in (
        "am is are",
        "was were",
        "has have",
        "does do",
        "a an",
        "this these",
        "that those",
        "he him his",
        "she her",
        "they them their",
        "it its",
    )
]
_WORD_WITH_MARKS = re.compile(r"(\W*)([A-Za-z]+)(\W*)")
_DOUBLED_WORD = re.compile(r"\b([^\W\d]+)\s+\1\b", re.IGNORECASE)
# The forms of more words are not compared, since a wide edit is seldom wrong in its forms alone.
_MOST_EDITED_WORDS = 5
# So many words after an edited word show whether its form fits.
_NUM_WORDS_AFTER = 2


@dataclass(frozen=True)
class Fluency:
    """How an edit changes the likelihood of its sentence. Both numbers are in nats."""

    change: float
    """The greatest fall in the log-probability of a token after the edit, as a negative number.

    It is 0 if no token follows the edit.
    """

    better_form: float
    """How much likelier another form would make an edited word and the two words after it.

    It is negative if all words have their likeliest form, and minus infinity without other forms.
    """

    doubles_word: bool
    """Whether the edit makes a word occur twice in a row."""


@dataclass(frozen=True)
class Comparison:
    """A sentence and an edit of it, with the text before both."""

    context: str
    """The text before the sentence."""

    completion: str
    """The original sentence."""

    candidate: str
    """The edited sentence."""


@dataclass(frozen=True)
class _Alternative:
    """Another form of an edited word, in the sentence that is cut two words after this word."""

    cut_text: str
    """The cut sentence with the word as it is, such as ``They has left us``."""

    cut_text_with_form: str
    """The cut sentence with the other form of the word, such as ``They have left us``."""


class _TextInContext(NamedTuple):
    """A text that the model scores after its context."""

    text: str
    context: str


@dataclass(frozen=True)
class _EditToMeasure:
    """A sentence and an edit of it, with the alternatives to its edited words."""

    comparison: Comparison
    alternatives: Sequence[_Alternative]

    def texts_to_score(self) -> list[_TextInContext]:
        """Return all texts whose scores tell how fluent the edited sentence is."""
        texts = [self.comparison.completion, self.comparison.candidate]
        for alternative in self.alternatives:
            texts += [alternative.cut_text, alternative.cut_text_with_form]
        return [_TextInContext(text, self.comparison.context) for text in texts]


def measure_fluency(
    model: FluencyModel, comparisons: Sequence[Comparison], language: str
) -> list[Fluency | None]:
    """Measure how edits change the likelihood of their sentences, in one pass of the model.

    Args:
        model: The language model.
        comparisons: The sentences and their edits.
        language: The language as an ISO 639-1 code. Only English has other forms of words.

    Returns:
        The measures, in the order of ``comparisons``. None for a sentence that is too long for the
        model, or has no tokens.
    """
    edits = []
    for comparison in comparisons:
        alternatives = list(_find_alternatives(comparison)) if language == ENGLISH else []
        edits.append(_EditToMeasure(comparison, alternatives))

    # All texts are scored together, so that the model computes shared beginnings once. Equal
    # texts, such as the original of several edits, are scored once.
    texts = list(dict.fromkeys(chain.from_iterable(edit.texts_to_score() for edit in edits)))
    scores = model.score([text.text for text in texts], [text.context for text in texts])
    score_of_text = dict(zip(texts, scores, strict=True))
    return [_measure_edit(edit, score_of_text) for edit in edits]


def _measure_edit(
    edit: _EditToMeasure, score_of_text: Mapping[_TextInContext, ScoredText | None]
) -> Fluency | None:
    """Measure how one edit changes the likelihood of its sentence.

    Args:
        edit: The edit, with the alternatives to it.
        score_of_text: The scores of all its texts.

    Returns:
        The measures, or None if one of the two sentences could not be scored.
    """
    comparison = edit.comparison

    def score_of(text: str) -> ScoredText | None:
        return score_of_text[_TextInContext(text, comparison.context)]

    completion = score_of(comparison.completion)
    candidate = score_of(comparison.candidate)
    if completion is None or candidate is None:
        return None

    # How much likelier each other form of a word is than the word itself.
    gains = []
    for alternative in edit.alternatives:
        with_word = score_of(alternative.cut_text)
        with_form = score_of(alternative.cut_text_with_form)
        if with_word is not None and with_form is not None:
            gains.append(float(with_form.logprobs.sum() - with_word.logprobs.sum()))
    return Fluency(
        change=_most_negative_change_after_edit(completion, candidate),
        better_form=max(gains, default=-math.inf),
        doubles_word=_count_doubled(comparison.candidate) > _count_doubled(comparison.completion),
    )


def _count_doubled(text: str) -> int:
    """Count the words that follow themselves, such as the second in ``the the``."""
    return len(_DOUBLED_WORD.findall(text))


def _most_negative_change_after_edit(completion: ScoredText, candidate: ScoredText) -> float:
    """Return the most negative change of a token's log-probability, in nats, after the first edit.

    Only tokens that both the original sentence and the edited one have are compared.
    """
    matcher = SequenceMatcher(None, completion.tokens, candidate.tokens, autojunk=False)
    # The first operation that is not "equal" is the first edit.
    from_first_edit = dropwhile(lambda operation: operation[0] == "equal", matcher.get_opcodes())
    changes = []
    for tag, start, stop, candidate_start, candidate_stop in from_first_edit:
        if tag == "equal":
            original = completion.logprobs[start:stop]
            edited = candidate.logprobs[candidate_start:candidate_stop]
            changes += (edited - original).tolist()
    return min(changes, default=0.0)


def _find_alternatives(comparison: Comparison) -> Iterator[_Alternative]:
    """Yield an alternative for each other form of each edited word.

    Example:
        ``We have left us now`` was edited to ``They has left us now``. For the edited word ``has``,
        the cut sentence is ``They has left us``, and with the other form it is ``They have left
        us``. The other forms of ``They`` give further alternatives.
    """
    words = comparison.candidate.split()
    for position in _edited_positions(comparison.completion.split(), words):
        cut_words = words[: position + 1 + _NUM_WORDS_AFTER]
        for form in other_forms(words[position]):
            words_with_form = cut_words.copy()
            words_with_form[position] = form
            yield _Alternative(" ".join(cut_words), " ".join(words_with_form))


def _edited_positions(words: Sequence[str], edited_words: Sequence[str]) -> list[int]:
    """Return the positions of the words that an edit put into a sentence, at most five.

    Args:
        words: The words of the original sentence.
        edited_words: The words of the edited sentence, whose positions are returned.
    """
    positions: list[int] = []
    matcher = SequenceMatcher(None, words, edited_words, autojunk=False)
    for tag, _, _, start, stop in matcher.get_opcodes():
        if tag != "equal":
            positions += range(start, stop)
    return positions[:_MOST_EDITED_WORDS]


@lru_cache(maxsize=20_000)
def other_forms(word: str) -> tuple[str, ...]:
    """Return the other forms of an English verb, noun or pronoun, with the marks around it.

    Example:
        ``(has`` has the other form ``(have``, and ``mills,`` has ``mill,``, ``milled,`` and
        ``milling,``.
    """
    match = _WORD_WITH_MARKS.fullmatch(word)
    if match is None:
        return ()
    opening, bare_word, closing = match.groups()
    forms = _forms_of(bare_word.lower()) - {bare_word.lower()}
    if bare_word[0].isupper():
        forms = {form.capitalize() for form in forms}
    return tuple(f"{opening}{form}{closing}" for form in sorted(forms) if form.isalpha())


def _forms_of(word: str) -> set[str]:
    """Return all forms of a word in lower case, such as *has* and *have* for *has*."""
    # lemminflect takes long to import, and only this function needs it.
    from lemminflect import getAllInflections, getAllLemmas

    forms = set()
    for closed_class in _CLOSED_CLASSES:
        if word in closed_class:
            forms |= closed_class
    if forms:
        return forms
    for part_of_speech in ("VERB", "NOUN"):
        for lemma in getAllLemmas(word, upos=part_of_speech).get(part_of_speech, ()):
            inflections = getAllInflections(lemma, upos=part_of_speech).values()
            # Of several spellings, the first is the usual one.
            forms |= {spellings[0] for spellings in inflections}
    return forms
