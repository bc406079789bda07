"""No text breaks a build: a corpus of hostile documents becomes a sound benchmark."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from factor_gen.config import load_build
from factor_gen.output.counts import BuiltBenchmark
from factor_gen.pipeline import build
from lm_factuality.benchmarks.factor.corpus import parse_corpus
from lm_factuality.benchmarks.factor.load import load_corpus
from lm_factuality.benchmarks.factor.rows import Row
from lm_factuality.cli.validation import check_targets
from lm_factuality.ground.replies import replace_surrogates

pytestmark = pytest.mark.timeout(120)

START = "Anna Brown was born in London in 1975. Peter Smith was her teacher in Berlin."
"""Two sentences, which are too short to be selected."""

END = (
    "In 1998 she moved from London to Paris because her mother wanted to study chemistry before"
    " the war began there."
)
"""A sentence that can be selected, with something to edit for every error type."""

HOSTILE_FRAGMENTS = {
    "null": "A \x00 stands here.\x00\n",
    "control": "Bells \x07 and \x1b[31m red ones \x7f here.\n",
    "cr": "\r\nLine\rreturn.\r\n",
    "quotes": 'He said "hi", and, ""so"" on,\n',
    "curly": "“" * 400,
    "formula": "=cmd|'/c calc'!A1\n",
    "comma": ",,,;;;\t\t\n",
    "rtl": "\u0645\u0631\u062d\u0628\u0627. \u202eabc\u202c ",
    "emoji": "\U0001f600 \U0001f468\u200d\U0001f469\u200d\U0001f467 \n",
    "html": "<p class='x'>&nbsp;<script>alert(1)</script></p>\n",
    "lines": "One.\u2028Two.\u2029Three.\x0b\x0c\x85",
    "bom": "\ufeff\ufffe",
    "spaces": "\u00a0\u2003\u200b \u3000\n",
    "half": "\ud800 \udc00 ",
    "combining": "Z" + "\u0301" * 300 + " ",
    "long word": "x" * 20_000 + " ",
    "brackets": "(" * 500 + "[" * 500,
    "jinja": "{{ 7 * 7 }} {% include '/etc/passwd' %} ",
    "yaml": "---\n- !!python/object:os\n...\n",
    "backslash": "\\n\\x00\\u0000 %s %d {0} ",
    "fullwidth": "Ｉｎ １９９８ ｓｈｅ ｍｏｖｅｄ．",
    "digits": "\u0661\u0669\u0669\u0668 ² ③ ",
    "dots": "." * 900,
}
"""Fragments that are put into documents, by name."""

WHOLE_DOCUMENTS = {
    "empty": "",
    "word": "word",
    "white": " \n\t\u2028",
    "letters": "x" * 1_000_000,
    "marks": "?!.,;" * 2_000,
    "megabyte": "word " * 200_000,
    # An id with half of a surrogate pair, a null character, quotes and a line break.
    'bad \ud800 \x00 "id",\n': f"U {START} {END}",
}
"""Documents that are hostile as a whole, by their id."""


def hostile_documents() -> dict[str, str]:
    """Return the texts of all hostile documents by id.

    Each fragment is alone, before, between, after and inside good sentences.
    """
    texts = dict(WHOLE_DOCUMENTS)
    for name, fragment in HOSTILE_FRAGMENTS.items():
        # The first letter keeps the texts distinct.
        texts[f"{name} alone"] = fragment
        texts[f"{name} first"] = f"{fragment} {START} {END}"
        texts[f"{name} between"] = f"Q {START} {fragment} {END}"
        texts[f"{name} last"] = f"R {name} {START} {END} {fragment}"
        texts[f"{name} inside"] = f"S {START} {END.replace(' moved ', f' moved {fragment} ')}"
        texts[f"{name} touching"] = f"T {START}\n{fragment}{END}{fragment}"
    return texts


DOCUMENTS = hostile_documents()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> BuiltBenchmark:
    """Return the benchmark that the real stages build from the hostile documents."""
    folder = tmp_path_factory.mktemp("hostile")
    lines = [json.dumps({"id": doc_id, "text": text}) for doc_id, text in DOCUMENTS.items()]
    (folder / "hostile.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    config = folder / "hostile.yaml"
    # The documents share their sentences, which each of them may use.
    config.write_text(
        "corpus: hostile.jsonl\nselect: {once: false}\ngenerate: rules\nfilter: none\n",
        encoding="utf-8",
    )
    return build(replace(load_build(config), workers=1), folder / "out")


def load_rows(path: Path) -> list[Row]:
    """Return the rows of a file of the benchmark as the task reads them."""
    config = {
        "task": "t",
        "dataset_path": str(path),
        "metadata": {"columns": {"prefix": "full_prefix"}},
    }
    loaded = load_corpus(parse_corpus(config))
    assert not loaded.problems
    return list(loaded.rows)


def without_locations(rows: Sequence[Row]) -> list[Row]:
    """Return rows without the file and the line that they come from."""
    return [replace(row, location="") for row in rows]


def test_each_document_gives_a_row_or_a_reason(built: BuiltBenchmark) -> None:
    """Nobody would notice a document that vanishes without a reason."""
    num_documents = len(DOCUMENTS)

    assert built.documents == num_documents
    assert built.rows + sum(built.unused.values()) == num_documents
    # With fewer rows, the tests below would test little.
    assert built.rows > num_documents / 3


def test_csv_and_parquet_have_the_same_rows(built: BuiltBenchmark) -> None:
    """Users may choose either file, and scores on both must be the same."""
    csv_rows = load_rows(built.files["csv"])
    parquet_rows = load_rows(built.files["parquet"])

    assert len(csv_rows) == built.rows
    assert without_locations(csv_rows) == without_locations(parquet_rows)


def test_each_row_is_the_beginning_of_its_document_and_a_sentence(built: BuiltBenchmark) -> None:
    """A model must read what the document says."""
    texts = {}
    for doc_id, text in DOCUMENTS.items():
        texts[replace_surrogates(doc_id)] = replace_surrogates(text)

    for row in load_rows(built.files["csv"]):
        assert not row.problem
        assert texts[row.doc_id].startswith(row.prefix + row.choices[0])
        assert row.prefix.strip()
        assert row.prefix[-1].isspace()


def test_the_choices_of_each_row_are_four_distinct_lines(built: BuiltBenchmark) -> None:
    """Equal choices would make the score of a row senseless, even if only white space differs."""
    for row in load_rows(built.files["csv"]):
        distinct_choices = {" ".join(choice.split()) for choice in row.choices}
        assert len(row.choices) == 4
        assert len(distinct_choices) == 4
        for choice in row.choices:
            assert choice == choice.strip()
            assert choice == replace_surrogates(choice)
            assert len(choice.splitlines()) == 1


def test_documents_without_a_row_are_all_listed(built: BuiltBenchmark) -> None:
    """Users see which texts their benchmark leaves out."""
    all_ids = {replace_surrogates(doc_id) for doc_id in DOCUMENTS}
    ids_of_rows = {row.doc_id for row in load_rows(built.files["csv"])}

    # Other line breaks than \n are in the ids.
    with built.files["unused"].open(encoding="utf-8", newline="\n") as file:
        unused_ids = {json.loads(line)["doc_id"] for line in file}

    assert unused_ids == all_ids - ids_of_rows


@pytest.mark.parametrize("doc_id", ["null first", "emoji between", "html first", "formula between"])
def test_a_document_with_a_good_sentence_gives_a_row(built: BuiltBenchmark, doc_id: str) -> None:
    """An unusual sign in another sentence is no reason to drop a document."""
    assert doc_id in {row.doc_id for row in load_rows(built.files["csv"])}


def test_the_validation_finds_no_problem_but_replacement_characters(built: BuiltBenchmark) -> None:
    """U+FFFD stands for the halves of surrogate pairs, which cannot be written as UTF-8."""
    [report] = check_targets([str(built.files["task"])])

    problems = [problem for problem in report.problems if "U+FFFD" not in problem]
    assert problems == []
    assert report.num_rows == built.rows
