"""The texts of the benchmark: documents, true claims about them, and altered claims.

The documents of each genre stand in a YAML file beside this module. A document says about half of
its claims verbatim, and the others in other words.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import yaml

from lm_factuality.ground.records import to_model

GENRES = ("encyclopedia", "manuals", "policies")
"""The genres, which are also the names of the files."""


@dataclass(frozen=True)
class Statement:
    """A true claim, and how its document says it."""

    claim: str
    """The claim."""

    says: str = ""
    """What the document says instead, in other words. Empty if it has the claim verbatim."""

    change: tuple[str, str, str] | None = None
    """The kind of a change that makes the claim false, the words before and those after it."""


@dataclass(frozen=True)
class Document:
    """A document with its statements."""

    title: str
    """The title."""

    sentences: list[Statement] = field(default_factory=list)
    """The statements, in the order of the text."""

    is_held_out: bool = False
    """Whether it belongs to the test half alone, since rules were changed after reading others."""

    @property
    def text(self) -> str:
        """The text without the title."""
        return " ".join(statement.says or statement.claim for statement in self.sentences)


Form = Literal["verbatim", "paraphrase"]
"""Whether the document of a claim says it verbatim or in other words."""


@dataclass(frozen=True)
class Case:
    """A claim that is checked against all documents."""

    claim: str
    """The claim."""

    title: str
    """The title of the document that it is about."""

    genre: str
    """The genre of the document."""

    form: Form
    """How the document says the true claim."""

    change: str
    """The kind of the change that made the claim false, such as ``number``. Empty if it is true."""

    is_tuning: bool
    """Whether the document is in the half on which thresholds are chosen."""


def read_documents(genre: str) -> list[Document]:
    """Read the documents of a genre."""
    path = Path(__file__).with_name(f"{genre}.yaml")
    rows = yaml.safe_load(path.read_text(encoding="utf-8"))
    return [to_model(Document, row) for row in rows]


def is_of_tuning_half(index: int, document: Document) -> bool:
    """Return whether thresholds are chosen on a document, which is the one at an index."""
    return index % 2 == 0 and not document.is_held_out


def make_cases(genre: str, documents: Sequence[Document]) -> list[Case]:
    """Make the claims about the documents of a genre: every true one, and every altered one."""
    cases = []
    for index, document in enumerate(documents):
        is_tuning = is_of_tuning_half(index, document)
        for statement in document.sentences:
            form: Form = "paraphrase" if statement.says else "verbatim"
            cases.append(Case(statement.claim, document.title, genre, form, "", is_tuning))
            if statement.change is None:
                continue
            kind, before, after = statement.change
            altered_claim = statement.claim.replace(before, after, 1)
            cases.append(Case(altered_claim, document.title, genre, form, kind, is_tuning))
    return cases
