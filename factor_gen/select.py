"""The stage ``select`` (section 3.2.1): one sentence of each document, and all the text before it.

The sentence becomes the completion of a row. It has to be a whole sentence of running text in the
language of the corpus, no headline, and no part of a page's navigation.
"""

import random
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from typing import Any, NamedTuple

from factor_gen.language import ENGLISH, identify_language
from factor_gen.records import Draw, Example, Sentence
from factor_gen.settings import SelectSettings
from factor_gen.text.layout import find_verbatim_lines
from factor_gen.text.sentences import comparable_text
from lm_factuality.ground.sentences import spaced

# The version of the rules. Raise it if a change of them can change what is selected.
_RULES_VERSION = 5
# Words of more characters are codes or addresses.
_MAX_WORD_LENGTH = 60
# Shorter words are often in lower case in headlines, and capitalised in names.
_MIN_HEADLINE_WORD_LENGTH = 5
# Fewer words with a capital may all be names.
_MIN_HEADLINE_WORDS = 4
# The share of the words of a headline that have a capital.
_MIN_HEADLINE_CAPITALS = 0.9
# So many characters before a sentence tell whether another sentence ends there.
_CONTEXT_LENGTH = 40

# So many characters of documents are kept for their next draw. They take four times as many bytes.
_MOST_PREPARED_CHARACTERS = 20_000_000

# Sentences with more numbers and names than this are not preferred: they are often lists.
_MOST_FACTS = 3

# An end mark, and quotes or brackets that close after it.
_END = re.compile(r"[.!?。！？।؟][\"'“”’»«)\]」』）》]*\Z")
_ELLIPSIS = re.compile(r"(\.\s*\.|…|\b(?:e\.g|i\.e|viz|cf)\.)[\"'”’»)\]]*\Z")
# Capitals do not match, so that company names such as Amazon.com are allowed.
_WEB = re.compile(
    r"(?i:https?:|www\.|\w@\w)|\b[a-z0-9-]+\.(?:com|org|net|gov|edu|co\.uk|html?|php)\b"
)
_MARKUP = re.compile(
    r"\](?=[\[(])|</?[A-Za-z!][^>]*>?|&(?:#x?[0-9a-fA-F]+|[A-Za-z]+);|\{\{|\}\}|\[\[|\]\]|[|{}\\^~\t•●■▪►→]"
)
_OPENING_MARKS = "\"'“„‘«»([$€£¥¿¡「『《（"
# German quotes open with „ and close with “, which opens in English.
_OPENINGS_OF_CLOSING = {
    ")": "(",
    "]": "[",
    "”": "“„",
    "“": "„",
    "»": "«",
    "」": "「",
    "』": "『",
    "》": "《",
    "）": "（",
}
_OPENING_SIGNS = frozenset("".join(_OPENINGS_OF_CLOSING.values()))
# After these ends of sentences and labels, the next sentence may follow without a space.
_NO_SPACE_NEEDED = re.compile(r"([。！？][”」』）》]*|^\w+:)\Z", re.MULTILINE)
# A line that ends in a comma or one of these words goes on in the next line.
_UNFINISHED_WORDS = (
    "a an the of to in on at by for from with and or but that which is are was were be as if"
    " not its"
)
_UNFINISHED_LINE = re.compile(rf"(?:,|\b(?:{_UNFINISHED_WORDS.replace(' ', '|')}))[ \t\r]*\n\s*\Z")


@dataclass(eq=False, repr=False)
class SelectStage:
    """The stage that draws a sentence of each document.

    Examples come in with a whole document as their ``prefix``. They go out with a sentence as their
    ``completion`` and the text before it as their ``prefix``. The sentence is the first suitable
    one among those that no earlier draw has tried.
    """

    name = "select"

    settings: SelectSettings
    """Which sentences are suitable, and which of them is tried first."""

    seed: int
    """The seed of the random order in which sentences are tried."""

    language: str = ENGLISH
    """The language of the corpus as an ISO 639-1 code."""

    _prepared: dict[str, "_Document"] = field(default_factory=dict, init=False)
    """A cache of documents by id, because several sentences of a document may be drawn."""

    _num_prepared_characters: int = field(default=0, init=False)
    """How many characters the texts of the documents in the cache have, which are limited."""

    @property
    def fingerprint(self) -> Mapping[str, Any]:
        """The settings and versions that decide which sentence is selected."""
        settings = asdict(self.settings)
        # The number of draws decides how often the stage runs, not what it selects in one of them.
        del settings["draws"]
        fingerprint = {
            "rules": _RULES_VERSION,
            "language": self.language,
            "py3langid": version("py3langid"),
            "sentencex": version("sentencex"),
            **settings,
        }
        if self.settings.position in ("facts", "random"):
            fingerprint["seed"] = self.seed
        return fingerprint

    def run(self, examples: Sequence[Example]) -> list[Example]:
        """Draw a sentence of each document, and drop documents without a suitable one.

        Args:
            examples: Documents with their whole text as their prefix. Those that are unused pass
                unchanged.

        Returns:
            One example for each of ``examples``, in the same order.
        """
        return [example if example.unused else self._select(example) for example in examples]

    def _select(self, example: Example) -> Example:
        """Select the first suitable sentence of a document that was not tried before.

        Args:
            example: A document with its whole text as its prefix. ``draw.tried`` is the number of
                its sentences that earlier draws have tried.

        Returns:
            The example with the sentence as its completion and the text before it as its prefix. If
            no sentence passes all checks, the example is marked as unused, with the reason.
        """
        document = self._prepare(example)
        num_tried = example.draw.tried
        failed_checks = []
        # The order is the same in every draw, so this draw continues where the last one ended.
        for sentence_span in document.ordered_spans[num_tried:]:
            num_tried += 1
            sentence = _SentenceInDocument(document, sentence_span)
            failed_check = sentence.first_failed_check()
            if failed_check is None:
                return Example(
                    example.doc_id,
                    prefix=sentence.prefix,
                    completion=sentence.text,
                    draw=replace(example.draw, tried=num_tried),
                )
            failed_checks.append(failed_check)

        reason = self._reason_unused(example, failed_checks)
        # No sentence is left for another draw, so the number of tried sentences is not kept.
        return Example(example.doc_id, draw=Draw(example.draw.number)).drop(self.name, reason)

    def _prepare(self, example: Example) -> "_Document":
        """Prepare a document for the checks of its sentences, or return it from an earlier draw.

        A long document takes time to prepare, and up to 1,000 of its sentences are drawn.
        """
        document = self._prepared.get(example.doc_id)
        if document is not None and document.text == example.prefix:
            return document
        if document is not None:
            self._forget(example.doc_id)

        document = _prepare_document(example, self.settings, self.seed, self.language)
        self._prepared[example.doc_id] = document
        self._num_prepared_characters += len(document.text)
        # The documents that were prepared first are forgotten first.
        while self._num_prepared_characters > _MOST_PREPARED_CHARACTERS and len(self._prepared) > 1:
            self._forget(next(iter(self._prepared)))
        return document

    def _forget(self, doc_id: str) -> None:
        """Forget a prepared document."""
        self._num_prepared_characters -= len(self._prepared.pop(doc_id).text)

    def _reason_unused(self, example: Example, failed_checks: Sequence[int]) -> str:
        """Say why no sentence of a document was selected.

        Sentences go through a list of checks. The reason names the last of these checks that a
        sentence got to, because this sentence was the closest to being selected.

        Args:
            example: The document.
            failed_checks: For each sentence that was tried, the index of the check that it failed.

        Returns:
            The reason for the dataset card and ``unused.jsonl``, such as ``no sentence of 10 words
            or more``.
        """
        # This is not the first draw: an earlier one selected a sentence, but it gave no row.
        if example.draw.tried:
            return "no other sentence"
        if not failed_checks:
            return "the text is empty"
        reason_template = list(_CHECKS)[max(failed_checks)]
        return reason_template.format(settings=self.settings, language=self.language)


def _order_sentences(example: Example, settings: SelectSettings, seed: int) -> list[Sentence]:
    """Return the sentences of a document in the order in which they are tried.

    Args:
        example: The document with its sentences.
        settings: Their ``position`` names the order. In the order ``facts``, sentences with the
            most numbers and names come first, and equal ones are shuffled.
        seed: The seed of the build.
    """
    ordered = list(example.sentences)
    if settings.position in ("facts", "random"):
        # The order must not depend on the other documents of the shard.
        random.Random(f"{seed}/select/{example.doc_id}").shuffle(ordered)
    if settings.position == "facts":
        text = example.prefix
        ordered.sort(key=lambda span: _count_facts(text[span.start : span.end]), reverse=True)
    if settings.position == "last":
        ordered.reverse()
    return ordered


def _count_facts(sentence: str) -> int:
    """Count the numbers and names of a sentence, up to three.

    Every word with a capital counts as a name, so that the count tells little of German sentences.
    In scripts without spaces and capitals, it is 0 or 1.

    Example:
        "The mill closed in 1903, and Edwin left Leeds." counts as 3: 1903, Edwin and Leeds.
    """
    num_facts = 0
    # The first word of every sentence is capitalised.
    for word in sentence.split()[1:]:
        bare_word = word.strip(_OPENING_MARKS)
        if any(map(str.isdecimal, bare_word)) or bare_word[:1].isupper():
            num_facts += 1
    return min(num_facts, _MOST_FACTS)


class _Document(NamedTuple):
    """A document, with what the checks of all its sentences need."""

    text: str

    ordered_spans: Sequence[Sentence]
    """Where its sentences begin and end, in the order in which they are tried."""

    code_lines: Set[int]
    """The indexes of the lines that belong to code or a table."""

    plain_text: str
    """The text in lower case and with single spaces, in which a sentence is searched for."""

    settings: SelectSettings
    """Which sentences are suitable."""

    language: str
    """The language of the corpus as an ISO 639-1 code."""


def _prepare_document(
    example: Example, settings: SelectSettings, seed: int, language: str
) -> _Document:
    """Find out once what all checks of a document's sentences need.

    Args:
        example: The document with its sentences.
        settings: Which sentences are suitable, and which of them is tried first.
        seed: The seed of the random order in which sentences are tried.
        language: The language of the corpus as an ISO 639-1 code.
    """
    text = example.prefix
    return _Document(
        text=text,
        ordered_spans=_order_sentences(example, settings, seed),
        code_lines=find_verbatim_lines(text.split("\n")),
        plain_text=comparable_text(text),
        settings=settings,
        language=language,
    )


class _SentenceInDocument:
    """A sentence that may be selected, with its document and the text before it."""

    def __init__(self, document: _Document, sentence_span: Sentence) -> None:
        """Cut the sentence and the text before it out of the document.

        Args:
            document: The document.
            sentence_span: Where the sentence begins and ends.
        """
        self.document = document
        self.is_in_earlier_document = sentence_span.is_repeated
        self.prefix = document.text[: sentence_span.start]
        self.text = document.text[sentence_span.start : sentence_span.end]
        # Patterns are searched for only in the end of the prefix, since the prefix may be long.
        self.prefix_end = self.prefix[-_CONTEXT_LENGTH:]

    def first_failed_check(self) -> int | None:
        """Return the index of the first check that the sentence fails, or None if it passes all."""
        for index, passes_check in enumerate(_CHECKS.values()):
            if not passes_check(self):
                return index
        return None


def _has_end_mark(sentence: _SentenceInDocument) -> bool:
    """Tell whether the sentence ends with a full stop or the like, and not with an ellipsis."""
    return bool(_END.search(sentence.text)) and not _ELLIPSIS.search(sentence.text)


def _has_capital_or_digit_first(sentence: _SentenceInDocument) -> bool:
    """Tell whether the sentence begins with a capital or a digit, after two quotes at most."""
    bare_text = sentence.text.lstrip(_OPENING_MARKS)
    num_marks = len(sentence.text) - len(bare_text)
    # A quote in a quote has two marks. More are no running text.
    if num_marks > 2:
        return False
    first = bare_text[:1]
    # Letters of scripts without case, such as Chinese, count as capitals.
    is_capital = first.isalpha() and not first.islower()
    return is_capital or first.isdecimal()


def _has_enough_words(sentence: _SentenceInDocument) -> bool:
    """Tell whether the sentence has as many words as the settings require."""
    return _count_words(sentence.text) >= sentence.document.settings.min_words


def _count_words(text: str) -> float:
    """Count the words of a text. In a script without spaces, two characters count as one word.

    Example:
        "Das ist gut." counts as 3, and "这很好。" as 2.
    """
    # `spaced` separates the characters of such scripts: the second example has one word without it,
    # and three with it. In other scripts it changes nothing.
    num_unspaced = _count_with_letters(text.split())
    num_spaced = _count_with_letters(spaced(text).split())
    return (num_unspaced + num_spaced) / 2


def _count_with_letters(words: Sequence[str]) -> int:
    """Count the words that have a letter or a digit, unlike ``-``."""
    return sum(any(map(str.isalnum, word)) for word in words)


def _is_short_enough(sentence: _SentenceInDocument) -> bool:
    """Tell whether the sentence has no more words than allowed, and no word is a long code."""
    word_lengths = map(len, spaced(sentence.text).split())
    if max(word_lengths, default=0) > _MAX_WORD_LENGTH:
        return False
    return _count_words(sentence.text) <= sentence.document.settings.max_words


def _is_running_text(sentence: _SentenceInDocument) -> bool:
    """Tell whether more than half of the characters are letters, and few of these capitals."""
    num_letters = sum(map(str.isalpha, sentence.text))
    num_characters = sum(not character.isspace() for character in sentence.text)
    # Lines of tables, for instance, are mostly digits.
    has_few_letters = 2 * num_letters <= num_characters
    if has_few_letters:
        return False
    # Headings may be all capitals.
    num_capitals = sum(map(str.isupper, sentence.text))
    return 2 * num_capitals < num_letters


def _is_headline(sentence: _SentenceInDocument) -> bool:
    """Tell whether nearly all long words of the sentence after its first word have a capital.

    Example:
        "Storm Leaves Thousands Without Power Near Coast." is a headline.
    """
    words: list[str] = re.findall(r"[^\W\d_]+", sentence.text)
    # The first word of every sentence is capitalised.
    long_words = [word for word in words[1:] if len(word) >= _MIN_HEADLINE_WORD_LENGTH]
    if len(long_words) < _MIN_HEADLINE_WORDS:
        return False
    num_capitalised = sum(word[0].isupper() for word in long_words)
    return num_capitalised >= _MIN_HEADLINE_CAPITALS * len(long_words)


def _has_no_control_characters(sentence: _SentenceInDocument) -> bool:
    """Tell whether the sentence has no control characters and no traces of a wrong encoding."""
    if "\N{REPLACEMENT CHARACTER}" in sentence.text:
        return False
    # The categories that begin with C are control, format, private and unassigned characters.
    return not any(unicodedata.category(character)[0] == "C" for character in sentence.text)


def _has_no_markup(sentence: _SentenceInDocument) -> bool:
    """Tell whether the sentence has no tags, entities or other signs of HTML, Wiki or LaTeX."""
    return not _MARKUP.search(sentence.text)


def _has_no_address(sentence: _SentenceInDocument) -> bool:
    """Tell whether the sentence has no web address and no e-mail address."""
    return not _WEB.search(sentence.text)


def _is_balanced(sentence: _SentenceInDocument) -> bool:
    """Tell whether each bracket and quote that opens in a sentence closes in it, in right order.

    Example:
        ``He (a poet) left.`` is balanced. ``He (a poet.``, ``a poet) left.`` and ``(a [b)]`` are
        not.
    """
    # A straight quote opens and closes, so that only their number can be checked.
    if sentence.text.count('"') % 2:
        return False

    # The signs that are open, the last one at the end.
    open_signs: list[str] = []
    for character in sentence.text:
        # The signs that this one closes, such as "(" for ")". Most characters close none.
        closable_signs = _OPENINGS_OF_CLOSING.get(character, "")
        closes_last_sign = bool(open_signs) and open_signs[-1] in closable_signs
        if closes_last_sign:
            open_signs.pop()
            continue
        # "“" closes a German quote and opens an English one, so that closing comes first.
        if character in _OPENING_SIGNS:
            open_signs.append(character)
            continue
        # A closing sign that closes nothing.
        if closable_signs:
            return False
    return not open_signs


def _is_in_language(sentence: _SentenceInDocument) -> bool:
    """Tell whether the sentence is in the language of the corpus, or in no certain language."""
    return identify_language(sentence.text) in ("", sentence.document.language)


def _has_prefix(sentence: _SentenceInDocument) -> bool:
    """Tell whether there is text before the sentence."""
    return bool(sentence.prefix.strip())


def _has_space_before(sentence: _SentenceInDocument) -> bool:
    """Tell whether white space precedes the sentence, or an end mark that needs none."""
    is_after_space = sentence.prefix_end[-1].isspace()
    return is_after_space or bool(_NO_SPACE_NEEDED.search(sentence.prefix_end))


def _begins_after_sentence(sentence: _SentenceInDocument) -> bool:
    """Tell whether the line before the sentence does not break off in the middle of another."""
    return not _UNFINISHED_LINE.search(sentence.prefix_end)


def _is_unique_in_document(sentence: _SentenceInDocument) -> bool:
    """Tell whether the document has the sentence only once. Case and spaces do not matter."""
    document_text = sentence.document.plain_text
    sentence_text = comparable_text(sentence.text)
    first = document_text.find(sentence_text)
    return document_text.find(sentence_text, first + 1) < 0


def _is_unique_in_corpus(sentence: _SentenceInDocument) -> bool:
    """Tell whether no earlier document has the sentence, or whether that is allowed."""
    return not (sentence.is_in_earlier_document and sentence.document.settings.once)


def _is_no_code(sentence: _SentenceInDocument) -> bool:
    """Tell whether the sentence begins in a line that belongs to no code and no table."""
    line_number = sentence.prefix.count("\n")
    return line_number not in sentence.document.code_lines


_CHECKS: Mapping[str, Callable[[_SentenceInDocument], bool]] = {
    "no sentence that ends with . ! or ?": _has_end_mark,
    "no sentence that begins with a capital or a digit": _has_capital_or_digit_first,
    "no sentence of {settings.min_words} words or more": _has_enough_words,
    "no sentence that is short enough": _is_short_enough,
    "no sentence of running text": _is_running_text,
    "no sentence that isn't a headline": lambda sentence: not _is_headline(sentence),
    "no sentence without control characters": _has_no_control_characters,
    "no sentence without markup": _has_no_markup,
    "no sentence without a web address": _has_no_address,
    "no sentence whose quotes and brackets are balanced": _is_balanced,
    "no sentence in the language {language}": _is_in_language,
    "no text before the sentence": _has_prefix,
    "no white space before the sentence": _has_space_before,
    "no sentence that begins after the end of another": _begins_after_sentence,
    "no sentence that the rest of the text does not repeat": _is_unique_in_document,
    "no sentence that is not in a document before it": _is_unique_in_corpus,
    "no sentence outside code and tables": _is_no_code,
}
"""The checks that a sentence has to pass, in order.

The key is the reason of a document whose best sentence, i.e. the one that passed the most checks,
fails this check. It is a format string with the fields ``settings`` and ``language``.
"""
