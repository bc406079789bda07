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
from lm_factuality.benchmarks.certifiable import CertifiableSetting, CertifyOptions, describe_files
from lm_factuality.benchmarks.claim_trial import HEADLINE, ClaimTrial, LabelledClaim
from lm_factuality.ground.console import plural
from lm_factuality.ground.errors import ConfigError, DataError, refuse
from lm_factuality.ground.tables import TableRow, read_table
from lm_factuality.harness.own_data import require_text

_FILES_OF_SUITE = (
    Path(__file__).with_name("mutations.csv"),
    Path(__file__).with_name("mutations.jsonl"),
)
_BLOBS_OF_SUITE = (
    "9ed6c15aca2f3f7ac506ccd74f2a6b180601bd88,4d7df56910a2ac030688185293f23b622e146ecd"
)
_MAX_ROWS = 5
"""The number of rows of a document that are used.

With three claims of another document they make eight claims, which one question can hold.
"""

_MAX_PREFIX = 2_000
"""The number of characters of a prefix that are shown as evidence."""


@dataclass(frozen=True)
class _Document:
    """A document, with the rows of a table of factor-gen that are about it."""

    key: str
    """The id of the document."""

    title: str
    """Its title, empty if it is not known."""

    text: str
    """Its text, empty if it is not known."""

    rows: Sequence[TableRow]

    @property
    def passages(self) -> tuple[Evidence, ...]:
        """The text or, if it is not known, each completion with the text before it."""
        if self.text:
            return (Evidence(self.key, self.title, self.text),)
        passages = []
        for row in self.rows:
            prefix = require_text(row, "full_prefix")[-_MAX_PREFIX:]
            text = f"{prefix} {require_text(row, 'completion')}"
            passages.append(Evidence(self.key, "", text))
        return tuple(passages)

    def claims(self, column: str) -> list[str]:
        """Return the sentence of each row in a column, behind the title of the document.

        Example:
            ``Moon: It has two seas.`` With the title, a sentence can be understood alone.
        """
        heading = f"{self.title}: " if self.title else ""
        return [heading + require_text(row, column) for row in self.rows]


def _open_trial(options: CertifyOptions) -> ClaimTrial:
    """Read the sentences that judges are tested on, from the user's files or those of the suite.

    Args:
        options: The options of ``lm-factuality certify``. The first file is a table of factor-gen.
            A second file may hold its documents.

    Raises:
        ConfigError: The options name more than two files.
    """
    files = options.files or _FILES_OF_SUITE
    if len(files) > 2:
        raise ConfigError(
            f"--data: found {len(files)} files, expected a table of factor-gen and, optionally, a"
            " JSON Lines file of its documents with id, title and text"
        )
    documents = _read_documents(files)
    data = describe_files(files, _BLOBS_OF_SUITE)
    return ClaimTrial(list(_make_claims(documents)), data, options.rows)


def _read_documents(files: Sequence[Path]) -> list[_Document]:
    """Read the rows of a table, and group those of one document.

    Args:
        files: The table and, if there is one, the file with the titles and texts of documents.
    """
    table_file, *documents_files = files
    record_by_id = {}
    for file in documents_files:
        record_by_id = {require_text(record, "id"): record for record in _read_records(file)}

    rows_by_id: dict[str, list[TableRow]] = defaultdict(list)
    for row in _read_records(table_file):
        row_id = require_text(row, "doc_id")
        # The rows moon-1 and moon-2 are from the document moon, if there is one.
        document_id = row_id.rpartition("-")[0]
        if document_id not in record_by_id:
            document_id = row_id
        rows_by_id[document_id].append(row)

    documents = []
    for document_id, rows in rows_by_id.items():
        title = ""
        text = ""
        if document_id in record_by_id:
            record = record_by_id[document_id]
            title = require_text(record, "title")
            text = require_text(record, "text")
        documents.append(_Document(document_id, title, text, rows[:_MAX_ROWS]))
    return documents


def _read_records(path: Path) -> Sequence[TableRow]:
    """Return all records of a file, or raise a DataError about the lines that cannot be read."""
    table = read_table(path)
    refuse(table.problems)
    return table.records


def _make_claims(documents: Sequence[_Document]) -> Iterator[LabelledClaim]:
    """Make claims that their evidence supports, contradicts, or says nothing about.

    The evidence is the text of a document and of the next document. The claims on it are

    - for each row of the document its completion, which is supported, or its contradiction, which
      is contradicted, in turn, and
    - half as many completions of the previous document, which are not found.

    Raises:
        DataError: There are fewer than three documents, or a cell is missing.
    """
    if len(documents) < 3:
        raise DataError(
            f"found rows of {plural(len(documents), 'document')}, expected at least 3: the claims"
            " about one are held against another"
        )
    # The first document comes after the last.
    previous_documents = [documents[-1], *documents[:-1]]
    next_documents = [*documents[1:], documents[0]]
    num_rows = 0
    for previous_document, document, next_document in zip(
        previous_documents, documents, next_documents, strict=True
    ):
        evidence = document.passages + next_document.passages
        yield from _claims_about(document, evidence, num_rows)
        num_rows += len(document.rows)

        num_not_found = (len(document.rows) + 1) // 2
        for claim in previous_document.claims("completion")[:num_not_found]:
            yield LabelledClaim(ClaimQuestion(claim, evidence), "not_found", document.key)


def _claims_about(
    document: _Document, evidence: tuple[Evidence, ...], first_number: int
) -> Iterator[LabelledClaim]:
    """Make one claim of each row of a document: its completion or its contradiction, in turn.

    No row gives both, since two opposite claims together would show that one of them is wrong.

    Args:
        document: The document.
        evidence: What the judge is shown.
        first_number: The number of the first row among the rows of all documents, from 0. Rows with
            an even number give their completion.
    """
    completions = document.claims("completion")
    contradictions = document.claims("contradiction_0")
    for index, row in enumerate(document.rows):
        is_true = (first_number + index) % 2 == 0
        claim = completions[index] if is_true else contradictions[index]
        # A contradiction is verbatim, too, if the evidence has the true sentence that it changes.
        true_sentence = require_text(row, "completion")
        is_verbatim = any(true_sentence in passage.text for passage in evidence)
        yield LabelledClaim(
            question=ClaimQuestion(claim, evidence),
            truth="supported" if is_true else "contradicted",
            cluster=document.key,
            part="verbatim" if is_verbatim else "other words",
        )


SETTING = CertifiableSetting(
    name="check_mutations",
    description="true sentences, contradictions of them, and sentences of other documents",
    headline=(HEADLINE,),
    label="balanced accuracy of verdicts",
    git_blob=_BLOBS_OF_SUITE,
    open_trial=_open_trial,
    accepted_options=("files", "rows"),
)
"""The setting with three classes. Its data come with the suite."""
