"""A YAML of one's own: prompts from files of any kind, what is known of each, and what is
refused."""

from __future__ import annotations

import json
import shutil

import pytest

from lm_factuality.benchmarks.factor.corpus import check_config
from lm_factuality.benchmarks.longform.rows import (
    SOURCES,
    LongFormYaml,
    open_knowledge,
    read_prompts,
)
from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.ground.published import blob_id
from lm_factuality.ground.tables import write_table
from lm_factuality.retrieval.build import build_index, build_knowledge

PAGE = {"title": "Grayport", "text": "Grayport is a harbour town in Eastmark."}
PROMPT = {"prompt": "Tell me about Grayport.", "title": "Grayport"}


@pytest.fixture
def read(tmp_path):
    """The documents of a task whose YAML lies in ``tmp_path``."""

    def documents(rows=(PROMPT,), data_dir=None, path="rows.jsonl", doc_to_text=None, **metadata):
        if path == "rows.jsonl":
            (tmp_path / path).write_text(
                "".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8"
            )
        about = {"config_source": str(tmp_path / "my.yaml"), "judge": "lexical", **metadata}
        config = {"task": "my", "output_type": "generate_until", "metadata": about}
        config |= {
            key: value
            for key, value in (("dataset_path", path), ("doc_to_text", doc_to_text))
            if value
        }
        task = check_config(LongFormYaml, config)
        knowledge = open_knowledge(task.knowledge_path) if task.knowledge_path else None
        return read_prompts(task, knowledge, data_dir)[0]

    return documents


@pytest.fixture
def pages(tmp_path):
    """A page in a SQLite file, and in an index."""
    (tmp_path / "pages.jsonl").write_text(json.dumps(PAGE) + "\n", encoding="utf-8")
    build_knowledge(tmp_path / "pages.jsonl", tmp_path / "pages.db")
    build_index(tmp_path / "pages.jsonl", tmp_path / "index")


def test_pages_are_found_by_title(read, pages):
    (doc,) = read(knowledge="pages.db", columns={"title": "title"})
    assert (doc["text"], doc["question"], doc["name"], doc["index"]) == (
        PROMPT["prompt"],
        PROMPT["prompt"],
        "Grayport",
        "0",
    )
    assert (doc["passages"], doc["evidence"]) == ([PAGE], "documents")


def test_an_index_is_asked_about_facts_and_where_names_are_shared_about_the_prompt(read, pages):
    (doc,) = read(knowledge="index")
    assert (doc["passages"], doc["evidence"]) == ([], "index")
    (doc,) = read(knowledge="index", entities=True, entity_kind="town")
    assert (doc["passages"], doc["evidence"]) == ([PAGE], "documents")


@pytest.mark.parametrize("ending", [".jsonl", ".csv"])
@pytest.mark.parametrize(
    ("cell", "passages"),
    [
        ("It is old.", [("", "It is old.")]),
        (["It is old.", {"text": "It is big."}], [("", "It is old."), ("", "It is big.")]),
        ([{"title": "Hill", "text": "It is old."}], [("Hill", "It is old.")]),
    ],
)
def test_passages_come_in_a_column(read, tmp_path, cell, passages, ending):
    row = {"ask": "Grayport", "known": cell, "key": "g1"}
    write_table(tmp_path / f"own{ending}", [row], list(row))
    (doc,) = read(
        path=f"own{ending}",
        doc_to_text="Write about {{ ask }} at length.",
        columns={"prompt": "ask", "passages": "known", "id": "key"},
    )
    assert doc["text"] == "Write about Grayport at length."
    assert (doc["question"], doc["index"]) == ("Grayport", "g1")
    assert [(page["title"], page["text"]) for page in doc["passages"]] == passages


def test_several_titles_are_candidates(read, tmp_path):
    towns = [
        {"title": f"Grayport ({where})", "text": f"It is in {where}."}
        for where in ("Eastmark", "Norland")
    ]
    (tmp_path / "pages.jsonl").write_text(
        "".join(json.dumps(each) + "\n" for each in towns), encoding="utf-8"
    )
    build_knowledge(tmp_path / "pages.jsonl", tmp_path / "pages.db")
    row = {**PROMPT, "title": [each["title"] for each in towns]}
    (doc,) = read([row], knowledge="pages.db", columns={"title": "title"}, entities="true")
    assert (doc["passages"], doc["name"]) == (
        towns,
        "Grayport",
    )  # the name does not tell that there are two


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"knowledge": None},
            "expected exactly one source to verify facts against: metadata.knowledge",
        ),
        (
            {"path": None},
            "expected exactly one source of prompts: dataset_path or metadata.longfact",
        ),
        ({"longfact": "objects"}, "expected exactly one source of prompts"),
        (
            {"longfact": "objcts", "path": None},
            "metadata.longfact is 'objcts'; expected 'concepts' or 'objects'",
        ),
        (
            {"longfact": "objects", "path": None, "topics": "astronmy"},
            "did you mean longfact_objects_astronomy",
        ),
        ({"columns": {"passages": "p"}}, "expected exactly one source to verify facts against"),
        (
            {"columns": {"titel": "title"}},
            "unknown key 'titel' of metadata.columns; did you mean title?",
        ),
        (
            {"columns": {"title": "name"}},
            "metadata.columns.title: no column 'name'; the table has the columns 'prompt', 'title'",
        ),
        (
            {"columns": {"prompt": "ask", "title": "title"}},
            "metadata.columns.prompt: no column 'ask'",
        ),
        ({"doc_to_text": "asks"}, "doc_to_text: no column 'asks'; expected a column"),
        ({"k": [0]}, "metadata.k[0] is 0; expected greater than or equal to 1"),
        (
            {"linking": "greed"},
            "metadata.linking is 'greed'; expected 'greedy' or 'hungarian'",
        ),
    ],
)
def test_a_yaml_that_cannot_be_used(read, pages, given, message):
    whole = {"knowledge": "pages.db", "columns": {"title": "title"}} | given
    with pytest.raises(ConfigError) as caught:
        read(**whole)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("rows", "given", "message"),
    [
        (
            [PROMPT, {**PROMPT, "prompt": " "}],
            {},
            r"rows.jsonl:2: the prompt is empty, expected a text",
        ),
        ([{**PROMPT, "title": None}], {}, "rows.jsonl:1: no title: pages are found by title"),
        (
            [{**PROMPT, "title": [3]}],
            {},
            r"rows.jsonl:1: title\[0\] is 3; expected a valid string",
        ),
        (
            [{**PROMPT, "p": [{"titel": "x"}]}],
            {"columns": {"passages": "p"}, "knowledge": None},
            r"rows.jsonl:1: passages\[0\].text is missing",
        ),
        (
            [PROMPT],
            {"knowledge": "gone"},
            "gone: no such file; make it with: lm-factuality knowledge build",
        ),
    ],
)
def test_rows_that_cannot_be_used(read, pages, rows, given, message):
    whole = {"knowledge": "pages.db", "columns": {"title": "title"}} | given
    with pytest.raises(DataError, match=message):
        read(rows, **whole)


def test_longfact_is_published_on_38_topics():
    assert (len({source.name for source in SOURCES}), sum(source.rows for source in SOURCES)) == (
        76,
        2280,
    )


def test_longfacts_prompts_come_without_the_line_against_training(read, shared, pages):
    folder = shared / "data" / "longfact"
    by_name = {source.filename: source for source in SOURCES}
    for path in folder.glob("*.jsonl"):
        assert blob_id(path) == by_name[path.name].blob
    given = {
        "path": None,
        "knowledge": "index",
        "topics": "20th-century-events",
        "data_dir": folder,
    }
    for which in ("objects", "concepts"):
        docs = read(longfact=which, **given)
        assert len({doc["question"] for doc in docs}) == len(docs) == 30
        assert {doc["topic"] for doc in docs} == {"20th-century-events"}
        assert "canary" not in json.dumps(docs).lower()


def test_a_file_of_longfact_that_is_not_there_is_named(read, shared, tmp_path, pages):
    shutil.copy(shared / "data" / "longfact" / "longfact-concepts_astronomy.jsonl", tmp_path)
    given = {"path": None, "knowledge": "index", "longfact": "concepts", "data_dir": tmp_path}
    assert len(read(topics="astronomy", **given)) == 30
    with pytest.raises(
        DataError, match="longfact-concepts_20th-century-events.jsonl: no such file"
    ):
        read(**given)
