"""The documents behind a FACTOR file: no text is lost without a count, none is there twice."""

import json

import pytest

from lm_factuality.benchmarks.factor.rows import make_row
from lm_factuality.benchmarks.perplexity.documents import (
    load_documents,
    parse_texts,
    rebuild_documents,
)
from lm_factuality.ground.errors import ConfigError, DataError
from tests.conftest import example_row


def rows(*texts):
    """Rows from (doc_id, prefix, completion)."""
    return [
        make_row(f"f:{number}", doc_id, prefix, [completion, "Something false."], 0, ["", ""])
        for number, (doc_id, prefix, completion) in enumerate(texts)
    ]


def texts_of(documents):
    return [(document.doc_id, document.text) for document in documents]


def test_the_longest_text_of_a_document_holds_the_others():
    documents = rebuild_documents(
        rows(
            ("a", "One. ", "Two."),
            ("b", "Other. ", "End."),
            ("a", "One. Two.  Three. ", " Four."),
            ("a", "", "One."),
        )
    )
    assert texts_of(documents) == [
        ("b", "Other. End."),
        ("a", "One. Two.  Three.  Four.".replace(".  Four", ". Four")),
    ]


def test_texts_of_a_document_that_begin_differently_are_all_kept():
    documents = rebuild_documents(rows(("a", "One. ", "Two."), ("a", "Three. ", "Four.")))
    assert texts_of(documents) == [("a", "One. Two."), ("a", "Three. Four.")]


def test_a_prefix_is_not_counted_twice_though_its_completion_differs():
    documents = rebuild_documents(
        rows(("a", "Title. ", "Short."), ("a", "Title. A longer story. ", "Its end."))
    )
    assert texts_of(documents) == [("a", "Title. A longer story. Its end.")]


def test_repeats_go_whatever_their_document_but_shared_beginnings_of_two_documents_stay():
    documents = rebuild_documents(
        rows(
            ("a", "One. ", "Two."),
            ("b", "One.\n", "Two."),
            ("c", "One. Two. ", "Three."),
            ("d", "One. ", "Nine."),
        )
    )
    assert texts_of(documents) == [("c", "One. Two. Three."), ("d", "One. Nine.")]


def test_a_document_without_text_keeps_its_place():
    (document,) = rebuild_documents(rows(("a", " ", "")))
    assert document.problem == "the document is empty"


def config(tmp_path, **metadata):
    return {"task": "t", "metadata": {"config_source": str(tmp_path / "t.yaml"), **metadata}}


def test_the_uncut_prefix_of_published_files_is_used(tmp_path, write_rows):
    write_rows([example_row(full_prefix="Long ago. The library opened in 1870. ")])
    loaded = load_documents(parse_texts(config(tmp_path, documents_of="rows.jsonl")))
    assert (
        loaded.rows[0].text
        == "Long ago. The library opened in 1870. Its first keeper was a sailor from the north."
    )
    named = config(tmp_path, documents_of="rows.jsonl", columns={"prefix": "turncated_prefixes"})
    assert load_documents(parse_texts(named)).rows[0].text.startswith("The library")
    assert loaded.provenance["documents"] == loaded.provenance["rows"] == 1
    assert len(loaded.provenance["git_blob"]) == 40


def test_every_published_document_is_there_once(shared):
    folder = shared / "data" / "factor"
    news, expert = (
        load_documents(parse_texts({"task": "t", "metadata": {"documents_of": name}}), folder)
        for name in ("news_factor", "expert_factor")
    )
    assert len(news.rows) == news.provenance["rows"]
    assert len(expert.rows) + expert.provenance["rows_in_longer_texts"] == 236
    assert not any(document.problem for document in (*news.rows, *expert.rows))


def test_a_table_of_texts(tmp_path):
    lines = [
        {"body": "One.", "page": 1},
        {"body": "", "page": 1},
        {"body": None},
        {"body": "\ud83d"},
        {"body": "One."},
    ]
    (tmp_path / "texts.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8"
    )
    described = config(tmp_path, columns={"text": "body", "doc_id": "page"}) | {
        "dataset_path": "texts.jsonl"
    }
    loaded = load_documents(parse_texts(described))
    assert [document.doc_id for document in loaded.rows] == [
        "1",
        "1",
        "document 2",
        "document 3",
        "document 4",
    ]
    problems = [document.problem for document in loaded.rows]
    assert [bool(problem) for problem in problems] == [False, True, True, True, False]
    assert problems[1] == "the document is empty"
    assert "half of a surrogate pair" in problems[3]


BROKEN = {
    "unknown key": (
        {"dataset_path": "a.csv", "doc_to_choice": "x"},
        {},
        "unknown key 'doc_to_choice'",
    ),
    "other text": (
        {"dataset_path": "a.csv", "doc_to_text": "x"},
        {},
        "doc_to_text is 'x'; expected ''",
    ),
    "typing error": (
        {"dataset_path": "a.csv", "test_spit": "x"},
        {},
        "unknown key 'test_spit'; did you mean test_split?",
    ),
    "no texts": ({}, {}, "found neither"),
    "both": ({"dataset_path": "a.csv"}, {"documents_of": "b.csv"}, "found both"),
    "no text": (
        {},
        {"documents_of": ["a.csv"]},
        "metadata.documents_of is ['a.csv']; expected a valid string",
    ),
    "output type": (
        {"dataset_path": "a.csv", "output_type": "multiple_choice"},
        {},
        "output_type is 'multiple_choice'; expected 'loglikelihood_rolling'",
    ),
    "column role": (
        {"dataset_path": "a.csv"},
        {"columns": {"txt": "a"}},
        "unknown key 'txt' of metadata.columns; did you mean text?",
    ),
    "column name": (
        {"dataset_path": "a.csv"},
        {"columns": {"text": 3}},
        "metadata.columns.text is 3; expected a valid string",
    ),
    "texts of a FACTOR file": (
        {},
        {"documents_of": "a.csv", "columns": {"text": "body"}},
        "rows of FACTOR have no column for text",
    ),
    "prefixes of texts": (
        {"dataset_path": "a.csv"},
        {"columns": {"prefix": "a"}},
        "texts have no column for prefix",
    ),
    "stride": (
        {"dataset_path": "a.csv"},
        {"stride": 0},
        "metadata.stride is 0; expected a number of tokens, at least 1, or null for half of the window",
    ),
    "long stride": (
        {"dataset_path": "a.csv"},
        {"stride": 64, "window": 64},
        "expected less than the window of 64",
    ),
    "window": (
        {"dataset_path": "a.csv"},
        {"window": "wide"},
        "metadata.window is 'wide'; expected a number of tokens, at least 2, or null for no limit",
    ),
    "demonstrations": (
        {"dataset_path": "a.csv", "num_fewshot": 2},
        {},
        "num_fewshot is 2; expected 0",
    ),
    "split": (
        {"dataset_path": "a.csv", "test_split": 2},
        {},
        "test_split is 2; expected a valid string",
    ),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_yamls_are_named(kind, tmp_path):
    keys, metadata, message = BROKEN[kind]
    with pytest.raises(ConfigError) as error:
        parse_texts(config(tmp_path, **metadata) | keys)
    lines = str(error.value).split("\n")
    assert len(lines) == 1, lines
    assert lines[0].startswith(str(tmp_path / "t.yaml: "))
    assert message in lines[0]


def test_broken_tables_are_named(tmp_path):
    described = config(tmp_path) | {"dataset_path": "texts.jsonl"}
    with pytest.raises(DataError, match=r"texts\.jsonl: no such file"):
        load_documents(parse_texts(described))
    (tmp_path / "texts.jsonl").write_text('{"body": "One."}\n', encoding="utf-8")
    with pytest.raises(
        ConfigError,
        match=r"metadata\.columns\.text: no column 'text'; the table has the columns 'body'",
    ):
        load_documents(parse_texts(described))
    with pytest.raises(
        ConfigError, match="no data source is called 'news_facto'.*did you mean news_factor"
    ):
        load_documents(parse_texts(config(tmp_path, documents_of="news_facto")))
