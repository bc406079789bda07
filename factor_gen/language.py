"""Which language a text is in, and what is there for it: rules, prompts, or neither."""

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from factor_gen.records import Example
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.packages import need

ENGLISH = "en"
_LISTS = Path(__file__).parent / "generate" / "rules" / "data" / "languages"
RULES = (ENGLISH, *sorted(path.stem for path in _LISTS.glob("*.tsv")))
"""The languages that the generator ``rules`` knows."""
_LONGEST = 400  # characters that tell a language; more take longer and tell no more
_SURE = 0.6  # of 2,712 English sentences of many genres none is as likely of another language
_LOOKED_AT = 100  # documents


@cache
def _identifier() -> Any:
    langid = need("py3langid.langid", "checking the language of a corpus", "generate")
    return langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE, norm_probs=True)


def identified(text: str) -> str:
    """Return the language of a text by its ISO 639-1 code; empty where it cannot be told surely."""
    middle = max(0, (len(text) - _LONGEST) // 2)  # a title or a licence stands at an end
    code, likely = _identifier().classify(" ".join(text[middle : middle + _LONGEST].split()))
    return str(code) if likely >= _SURE else ""


def in_language(documents: Iterable[Example], language: str) -> Iterator[Example]:
    """Yield documents as they come, and let the first hundred tell their language.

    No document is read twice, because a stream may take hours to them.

    Raises:
        DataError: Fewer than a third of those documents are in ``language``. Sentences in other
            languages are passed over later.
    """
    languages: Counter[str] = Counter()
    remaining = iter(documents)
    for document in islice(remaining, _LOOKED_AT):
        languages[identified(document.prefix)] += 1
        yield document
    del languages[""]  # texts whose language cannot be told speak neither for it nor against it
    if 3 * languages[language] < languages.total():
        most_common, count = languages.most_common(1)[0]
        advice = f"name it: corpus: {{language: {most_common}}}"
        if most_common not in RULES:
            advice = (
                "there are no rules for it: ask a model, with generate: {generator: llm}, and"
                f" {advice}"
            )
        raise DataError(
            f"{count} of the first {languages.total()} documents are in {most_common!r}, expected"
            f" {language!r}; {advice}"
        )
    yield from remaining
