"""Which language a text is in, and what is there for it: rules, prompts, or neither."""

from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from factor_gen.records import Document
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.packages import need

ENGLISH = "en"
_DATA = Path(__file__).parent / "generate"
RULES = (ENGLISH, *sorted(path.stem for path in (_DATA / "rules" / "data" / "languages").glob("*.tsv")))
"""The languages that the generator ``rules`` knows."""
_LONGEST = 400  # characters that tell a language; more take longer and tell no more
_LEAST = 20  # characters that tell it
_SURE = 0.8  # of 2,712 English sentences of many genres none is as likely of another language
_LOOKED_AT = 100  # documents


@cache
def _identifier() -> Any:
    langid = need("py3langid.langid", "checking the language of a corpus", "generate")
    return langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE, norm_probs=True)


def identified(text: str) -> tuple[str, float]:
    """The language of a text by its ISO 639-1 code, and how likely it is; empty where there is too little to say."""
    middle = max(0, (len(text) - _LONGEST) // 2)  # a title or a licence stands at an end
    part = " ".join(text[middle : middle + _LONGEST].split())
    if len(part) < _LEAST and part.isascii():
        return "", 0.0
    code, likely = _identifier().classify(part)
    return str(code), float(likely)


def may_be_in(text: str, language: str) -> bool:
    """Whether nothing speaks for another language than ``language``."""
    code, likely = identified(text)
    return code in ("", language) or likely < _SURE


def check_language(documents: Iterable[Document], language: str) -> None:
    """Looks at documents until it knows the language of a hundred.

    Raises:
        DataError: fewer than a third of them are in ``language``; sentences in others are passed over.
    """
    found: Counter[str] = Counter()
    for document in documents:
        code, likely = identified(document.text)
        if code and likely >= _SURE:
            found[code] += 1
        if found.total() == _LOOKED_AT:
            break
    for other, count in found.most_common(1):
        if other != language and 3 * found[language] < found.total():
            advice = f"name it: corpus: {{language: {other}}}"
            if other not in RULES:
                advice = f"there are no rules for it: ask a model, with generate: {{generator: llm}}, and {advice}"
            raise DataError(f"{count} of the first {found.total()} documents are in {other!r}, expected {language!r}; {advice}")
