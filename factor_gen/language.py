"""The languages of corpora: which have rules, and how the language of a text is identified.

The stage ``select`` asks for the language of a sentence, and the pipeline for that of a corpus.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from factor_gen.records import Example
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.packages import need

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

ENGLISH = "en"
_LISTS = Path(__file__).parent / "generate" / "rules" / "data" / "languages"

# The generator "rules" has rules for these languages, given as ISO 639-1 codes.
LANGUAGES_WITH_RULES = (ENGLISH, *sorted(path.stem for path in _LISTS.glob("*.tsv")))

# More characters take longer to identify, and the result does not improve.
_NUM_SAMPLED_CHARACTERS = 400
# None of 2,712 English sentences of many genres has another language with this probability.
_MIN_PROBABILITY = 0.6
_NUM_SAMPLED_DOCUMENTS = 100


@cache
def _load_identifier() -> "LanguageIdentifier":
    """Load the model that identifies languages, once per process."""
    langid = need("py3langid.langid", "checking the language of a corpus", "generate")
    return langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE, norm_probs=True)


def identify_language(text: str) -> str:
    """Return the language of a text as an ISO 639-1 code, or an empty text if it is not certain.

    Example:
        ``identify_language("The house is very old and stands by the river.")`` is ``"en"``.
    """
    # A title or a licence stands at one end of a text, so that the middle tells more.
    start = max(0, (len(text) - _NUM_SAMPLED_CHARACTERS) // 2)
    middle = text[start : start + _NUM_SAMPLED_CHARACTERS]
    code, probability = _load_identifier().classify(" ".join(middle.split()))
    return str(code) if probability >= _MIN_PROBABILITY else ""


def check_language(documents: Iterable[Example], language: str) -> Iterator[Example]:
    """Yield documents unchanged, and stop if the first hundred are in another language.

    Documents pass as they are read, since the first hundred of a stream may take hours to arrive.

    Args:
        documents: Documents with their whole text as their prefix.
        language: The language that they should be in, as an ISO 639-1 code.

    Raises:
        DataError: Fewer than a third of the first hundred documents are in ``language``.
    """
    documents_by_language: Counter[str] = Counter()
    # One iterator for both loops: the second goes on where the first one stops.
    remaining = iter(documents)
    for document in islice(remaining, _NUM_SAMPLED_DOCUMENTS):
        # A file that could not be read has no text.
        if not document.unused:
            documents_by_language[identify_language(document.prefix)] += 1
        yield document

    # Documents of an uncertain language say nothing about the corpus.
    del documents_by_language[""]
    if 3 * documents_by_language[language] < documents_by_language.total():
        raise _wrong_language_error(documents_by_language, language)
    yield from remaining


def _wrong_language_error(documents_by_language: Counter[str], expected: str) -> DataError:
    """Return the error for a corpus that is not in the expected language.

    Args:
        documents_by_language: How many of the first documents are in each language.
        expected: The language in the settings.

    Example:
        ``62 of the first 100 documents are in 'de', expected 'en'; name it: corpus: {language:
        de}``
    """
    language, count = documents_by_language.most_common(1)[0]
    advice = f"name it: corpus: {{language: {language}}}"
    # Naming the language is not enough if there are no rules that make contradictions in it.
    if language not in LANGUAGES_WITH_RULES:
        advice = (
            "there are no rules for it: ask a model, with generate: {generator: llm}, and"
            f" {advice}"
        )
    return DataError(
        f"{count} of the first {documents_by_language.total()} documents are in {language!r},"
        f" expected {expected!r}; {advice}"
    )
