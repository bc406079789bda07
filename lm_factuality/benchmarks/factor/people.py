"""What people are asked of the contradictions of a FACTOR file, as in section 3.3 of the paper (tables 2 and 3)."""

from pathlib import Path

from lm_factuality.benchmarks.asked import Item, Option, People, Question, Unit
from lm_factuality.benchmarks.factor.corpus import parse_corpus
from lm_factuality.benchmarks.factor.load import load_corpus
from lm_factuality.benchmarks.factor.rows import Row
from lm_factuality.ground.errors import refuse
from lm_factuality.ground.packaged import load_yaml

_YES_NO = (Option("yes", "Yes", "1", True), Option("no", "No", "2", False))
_QUESTIONS = load_yaml(__package__, "people.yaml")
_TYPE = "error_type"
_TYPES = tuple(Option(value, label, str(key)) for key, (value, label) in enumerate(_QUESTIONS["types"].items(), start=1))


def read(path: Path) -> list[Unit]:
    """The rows of a table in the authors' columns. Of the types of contradictions the judge is the file.

    Raises:
        ConfigError, DataError: no such table, or one that cannot be used.
    """
    config = {"task": path.stem, "dataset_path": str(path.resolve()), "metadata": {"config_source": str(path)}}
    loaded = load_corpus(parse_corpus(config))
    refuse(loaded.problems)
    return [_unit(number, row) for number, row in enumerate(loaded.rows) if not row.problem]


def _unit(number: int, row: Row) -> Unit:
    beside = (("Text before", row.prefix.strip()), ("The true sentence", row.choices[row.gold]))
    wrong = [place for place in range(len(row.choices)) if place != row.gold]
    items = [
        Item(f"{name}:{place}", name, row.choices[place], beside, row.error_types[place] or None if name == _TYPE else None)
        for place in wrong
        for name in _QUESTIONS["ask"]
    ]
    types = " + ".join(sorted({row.error_types[place] for place in wrong} - {""}))
    return Unit(str(number), row.doc_id, tuple(items), {"error type": types} if types else {})


PEOPLE = People(
    tuple(Question(name, ask, _TYPES if name == _TYPE else _YES_NO) for name, ask in _QUESTIONS["ask"].items()), data=read
)
