"""True sentences and contradictions of them, on which ``certify`` measures a judge.

``mutations.csv`` is a table of factor-gen, whose rules made the contradictions. ``mutations.jsonl``
has the documents, which say half of the true sentences verbatim and the others in other words.
``python -m bench.check.mutations`` makes both.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from judges.claims import ClaimQuestion, Evidence
from lm_factuality.benchmarks.certifiable import CertifiableSetting, CertifyOptions
from lm_factuality.benchmarks.claim_trial import HEADLINE, ClaimTrial, LabelledClaim, Truth
from lm_factuality.ground.console import plural
from lm_factuality.ground.errors import ConfigError, DataError, refuse
from lm_factuality.ground.published import blob_id
from lm_factuality.ground.tables import TableRow, read_table
from lm_factuality.harness.own_data import require_text

_FILES = (Path(__file__).with_name("mutations.csv"), Path(__file__).with_name("mutations.jsonl"))
_BLOBS = "9ed6c15aca2f3f7ac506ccd74f2a6b180601bd88,4d7df56910a2ac030688185293f23b622e146ecd"
_MAX_ROWS = 5  # of a document, which stand in one question with three claims of another document
_MAX_PREFIX = 2_000  # characters before a completion


@dataclass(frozen=True)
class _Document:
    """Rows about one document, which share their evidence."""

    key: str
    """The id of the document."""

    title: str
    """Its title, empty if it is not known."""

    text: str
    """Its text, empty if it is not known."""

    rows: Sequence[TableRow]
    """Rows of a table of factor-gen."""

    @property
    def passages(self) -> tuple[Evidence, ...]:
        """The text or, if it is not known, each completion with the text before it."""
        if self.text:
            return (Evidence(self.key, self.title, self.text),)
        texts = []
        for row in self.rows:
            prefix = require_text(row, "full_prefix")[-_MAX_PREFIX:]
            texts.append(f"{prefix} {require_text(row, 'completion')}")
        return tuple(Evidence(self.key, "", text) for text in texts)

    def claims(self, column: str) -> list[str]:
        """Return the sentences in a column, after the title, so that they stand alone."""
        sentences = [require_text(row, column) for row in self.rows]
        return [f"{self.title}: {text}" if self.title else text for text in sentences]


def _open_trial(options: CertifyOptions) -> ClaimTrial:
    """Read the files and make their claims.

    Args:
        options: Its ``files`` are a table of factor-gen and, optionally, its documents. They
            replace those of the suite.
    """
    files = options.files or _FILES
    if len(files) > 2:
        raise ConfigError(
            f"--data: found {len(files)} files, expected a table of factor-gen and, optionally, a"
            " JSON Lines file of its documents with id, title and text"
        )
    documents = _read_documents(files[0], *files[1:])
    blobs = ",".join(blob_id(path) for path in files)
    data = {
        "file": ", ".join(path.name for path in files),
        "git_blob": blobs,
        "is_published": blobs == _BLOBS,
    }
    return ClaimTrial(list(_make_claims(documents)), data, options.rows)


def _read_documents(table_path: Path, documents_path: Path | None = None) -> list[_Document]:
    """Read the rows of a table, and group those of one document.

    Args:
        table_path: The table.
        documents_path: The documents. A row belongs to the one whose id is its ``doc_id``, or what
            stands there before the last hyphen.
    """
    texts = {require_text(record, "id"): record for record in _read_records(documents_path)}
    rows_by_key: dict[str, list[TableRow]] = defaultdict(list)
    for record in _read_records(table_path):
        row_id = require_text(record, "doc_id")
        parent_id = row_id.rpartition("-")[0]
        rows_by_key[parent_id if parent_id in texts else row_id].append(record)

    documents = []
    for key, rows in rows_by_key.items():
        title = require_text(texts[key], "title") if key in texts else ""
        text = require_text(texts[key], "text") if key in texts else ""
        documents.append(_Document(key, title, text, rows[:_MAX_ROWS]))
    return documents


def _read_records(path: Path | None) -> Sequence[TableRow]:
    """Read the records of a file, all of which have to be valid. None has none."""
    if path is None:
        return ()
    table = read_table(path)
    refuse(table.problems)
    return table.records


def _make_claims(documents: Sequence[_Document]) -> Iterator[LabelledClaim]:
    """Make claims of the three classes about each document.

    The evidence is the document and the next one. Of each row, either the completion or the
    contradiction is a claim, in turn, so that no claim stands beside its opposite. Half as many
    completions of the document before are not found.

    Raises:
        DataError: There are fewer than three documents, or a cell is missing.
    """
    if len(documents) < 3:
        raise DataError(
            f"found rows of {plural(len(documents), 'document')}, expected at least 3: the claims"
            " about one are held against another"
        )
    num_rows = 0
    for number, document in enumerate(documents):
        next_document = documents[(number + 1) % len(documents)]
        evidence = document.passages + next_document.passages
        contradictions = document.claims("contradiction_0")
        for row, completion in enumerate(document.claims("completion")):
            sentence = require_text(document.rows[row], "completion")
            is_verbatim = any(sentence in passage.text for passage in evidence)
            part = "verbatim" if is_verbatim else "other words"
            is_true = num_rows % 2 == 0
            claim = completion if is_true else contradictions[row]
            truth: Truth = "supported" if is_true else "contradicted"
            yield LabelledClaim(ClaimQuestion(claim, evidence), truth, document.key, part)
            num_rows += 1
        # The document before the first is the last.
        strangers = documents[number - 1].claims("completion")
        for claim in strangers[: (len(document.rows) + 1) // 2]:
            yield LabelledClaim(ClaimQuestion(claim, evidence), "not_found", document.key)


SETTING = CertifiableSetting(
    name="check_mutations",
    description="true sentences, contradictions of them, and sentences of other documents",
    headline=(HEADLINE,),
    label="balanced accuracy of verdicts",
    git_blob=_BLOBS,
    open_trial=_open_trial,
    accepted_options=("files", "rows"),
)
"""The setting with three classes. Its data come with the suite."""
