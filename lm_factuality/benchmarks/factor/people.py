"""What people are asked of the contradictions of a FACTOR file, as in section 3.3 of the paper (tables 2 and 3)."""

from pathlib import Path

from lm_factuality.benchmarks.asked import Item, People, Unit, load_questions
from lm_factuality.benchmarks.factor.corpus import parse_corpus
from lm_factuality.benchmarks.factor.load import load_corpus
from lm_factuality.benchmarks.factor.rows import Row
from lm_factuality.ground.errors import DataError, refuse
from lm_factuality.ground.tables import FORMATS

_QUESTIONS = load_questions(__package__)
_TYPES = {option.value for option in _QUESTIONS["error_type"].options}


def read(path: Path) -> list[Unit]:
    """The rows of a table in the authors' columns. Of the types of contradictions the judge is the file.

    Raises:
        ConfigError, DataError: no such table, or one that cannot be used.
    """
    if path.suffix.lower() not in FORMATS or not path.is_file():
        raise DataError(f"{path}: expected results or samples of a run, or a table in FACTOR's columns ({', '.join(FORMATS)})")
    config = {"task": path.stem, "dataset_path": str(path.resolve()), "metadata": {"config_source": str(path)}}
    loaded = load_corpus(parse_corpus(config))
    refuse(loaded.problems)
    return [_unit(number, row) for number, row in enumerate(loaded.rows) if not row.problem]


def _unit(number: int, row: Row) -> Unit:
    beside = (("The true sentence", row.choices[row.gold]), ("Text before", row.prefix.strip()))
    wrong = [(place, row.choices[place], row.error_types[place]) for place in range(len(row.choices)) if place != row.gold]
    judged = [(place, text, {"error_type": kind if kind in _TYPES else None}) for place, text, kind in wrong]
    items = [Item(f"{name}:{place}", name, text, beside, said.get(name)) for place, text, said in judged for name in _QUESTIONS]
    types = " + ".join(sorted({kind for _, _, kind in wrong if kind}))
    return Unit(str(number), row.doc_id, tuple(items), {"error type": types} if types else {})


PEOPLE = People(tuple(_QUESTIONS.values()), data=read)
