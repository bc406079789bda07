"""A YAML of a user's own: prompts from files of any kind, and the evidence for each."""

import json
import shutil

import pytest

from lm_factuality.benchmarks.factor.corpus import read_task_config
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
ROWS = "rows.jsonl"
PROMPT = {"prompt": "Tell me about Grayport.", "title": "Grayport"}


@pytest.fixture
def read(tmp_path):
    """Return a function that reads the documents of a task whose YAML lies in ``tmp_path``.

    Its arguments:
        rows: The rows of the table ``rows.jsonl``.
        data_dir: A folder with the files of LongFact.
        doc_to_text: The template of the prompt.
        table: The name of the table, None if the YAML names none.
        **metadata: Settings of the YAML.
    """

    def read_documents(rows=(PROMPT,), data_dir=None, doc_to_text=None, table=ROWS, **metadata):
        if table == ROWS:
            write_lines(tmp_path / ROWS, rows)
        config = {
            "task": "my",
            "output_type": "generate_until",
            "metadata": {"config_source": str(tmp_path / "my.yaml"), "judge": "lexical"} | metadata,
        }
        if table:
            config["dataset_path"] = table
        if doc_to_text:
            config["doc_to_text"] = doc_to_text
        task = read_task_config(LongFormYaml, config)
        knowledge = open_knowledge(task.knowledge_path) if task.knowledge_path else None
        docs, _provenance = read_prompts(task, knowledge, data_dir)
        return docs

    return read_documents


def write_lines(path, rows):
    """Write rows as lines of JSON."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def list_passages(doc):
    """List the title and the text of each passage of a document."""
    return [(passage["title"], passage["text"]) for passage in doc["passages"]]


@pytest.fixture
def pages(tmp_path):
    """Write the page about Grayport as a knowledge source ``pages.db`` and an index ``index``."""
    write_lines(tmp_path / "pages.jsonl", [PAGE])
    build_knowledge(tmp_path / "pages.jsonl", tmp_path / "pages.db")
    build_index(tmp_path / "pages.jsonl", tmp_path / "index")


@pytest.mark.usefixtures("pages")
def test_the_prompt_and_the_name_of_a_document_come_from_its_row(read):
    """The name is the title of the page. A judge searches by it, and rows are numbered from 0."""
    (doc,) = read(knowledge="pages.db", columns={"title": "title"})

    assert doc["text"] == "Tell me about Grayport."
    assert doc["question"] == "Tell me about Grayport."
    assert doc["name"] == "Grayport"
    assert doc["index"] == "0"


@pytest.mark.usefixtures("pages")
def test_pages_are_found_by_title(read):
    """A column of the table names the page for each prompt."""
    row = {"prompt": "Tell me about Grayport.", "title": "Grayport"}

    (doc,) = read([row], knowledge="pages.db", columns={"title": "title"})

    assert doc["passages"] == [
        {"title": "Grayport", "text": "Grayport is a harbour town in Eastmark."}
    ]
    assert doc["evidence"] == "documents"


@pytest.mark.usefixtures("pages")
def test_document_has_no_passages_from_an_index(read):
    """The judge searches the index later, with each fact."""
    (doc,) = read(knowledge="index")

    assert doc["passages"] == []
    assert doc["evidence"] == "index"


@pytest.mark.usefixtures("pages")
def test_index_is_searched_with_the_prompt_if_entities_share_a_name(read):
    """The pages of all towns of the name have to be known before the facts are."""
    (doc,) = read(
        [{"prompt": "Tell me about Grayport."}],
        knowledge="index",
        entities=True,
        entity_kind="town",
    )

    assert doc["passages"] == [
        {"title": "Grayport", "text": "Grayport is a harbour town in Eastmark."}
    ]
    assert doc["evidence"] == "documents"


@pytest.mark.parametrize("ending", [".jsonl", ".csv"])
@pytest.mark.parametrize(
    ("cell", "passages"),
    [
        pytest.param("It is old.", [("", "It is old.")], id="a text"),
        pytest.param(
            ["It is old.", {"text": "It is big."}],
            [("", "It is old."), ("", "It is big.")],
            id="a list of texts",
        ),
        pytest.param(
            [{"title": "Hill", "text": "It is old."}],
            [("Hill", "It is old.")],
            id="a passage with a title",
        ),
    ],
)
def test_passages_are_read_from_a_column(read, tmp_path, cell, passages, ending):
    """Users bring evidence as texts or with titles. A table in CSV has it as JSON in a cell."""
    row = {"ask": "Grayport", "known": cell}
    write_table(tmp_path / f"own{ending}", [row], list(row))

    (doc,) = read(table=f"own{ending}", columns={"prompt": "ask", "passages": "known"})

    assert list_passages(doc) == passages


@pytest.mark.parametrize("ending", [".jsonl", ".csv"])
def test_the_columns_of_a_table_are_named_in_the_yaml(read, tmp_path, ending):
    """The model gets the prompt of the template, and the judge the question of the column."""
    row = {"ask": "Grayport", "known": "It is old.", "key": "g1"}
    write_table(tmp_path / f"own{ending}", [row], list(row))

    (doc,) = read(
        table=f"own{ending}",
        doc_to_text="Write about {{ ask }} at length.",
        columns={"prompt": "ask", "passages": "known", "id": "key"},
    )

    assert doc["text"] == "Write about Grayport at length."
    assert doc["question"] == "Grayport"
    assert doc["index"] == "g1"


def test_pages_of_several_titles_are_candidates_for_one_name(read, tmp_path):
    """Two towns are called Grayport, and a response may mix them up."""
    towns = [
        {"title": "Grayport (Eastmark)", "text": "It is in Eastmark."},
        {"title": "Grayport (Norland)", "text": "It is in Norland."},
    ]
    write_lines(tmp_path / "pages.jsonl", towns)
    build_knowledge(tmp_path / "pages.jsonl", tmp_path / "pages.db")
    row = {**PROMPT, "title": [town["title"] for town in towns]}

    (doc,) = read([row], knowledge="pages.db", columns={"title": "title"}, entities="true")

    assert doc["passages"] == towns
    assert doc["name"] == "Grayport"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param(
            {"knowledge": None},
            "expected exactly one source to verify facts against: metadata.knowledge",
            id="no evidence",
        ),
        pytest.param(
            {"table": None},
            "expected exactly one source of prompts: dataset_path or metadata.longfact",
            id="no prompts",
        ),
        pytest.param(
            {"longfact": "objects"},
            "expected exactly one source of prompts",
            id="two sources of prompts",
        ),
        pytest.param(
            {"longfact": "objcts", "table": None},
            "metadata.longfact is 'objcts'; expected 'concepts' or 'objects'",
            id="misspelt part of LongFact",
        ),
        pytest.param(
            {"longfact": "objects", "table": None, "topics": "astronmy"},
            "did you mean longfact_objects_astronomy",
            id="misspelt topic",
        ),
        pytest.param(
            {"columns": {"passages": "p"}},
            "expected exactly one source to verify facts against",
            id="two sources of evidence",
        ),
        pytest.param(
            {"columns": {"titel": "title"}},
            "unknown key 'titel' of metadata.columns; did you mean title?",
            id="misspelt key",
        ),
        pytest.param(
            {"columns": {"title": "name"}},
            "metadata.columns.title: no column 'name'; the table has the columns 'prompt', 'title'",
            id="missing column of titles",
        ),
        pytest.param(
            {"columns": {"prompt": "ask", "title": "title"}},
            "metadata.columns.prompt: no column 'ask'",
            id="missing column of prompts",
        ),
        pytest.param(
            {"doc_to_text": "asks"},
            "doc_to_text: no column 'asks'; expected a column",
            id="missing column of the template",
        ),
        pytest.param(
            {"k": [0]}, "metadata.k[0] is 0; expected greater than or equal to 1", id="K of 0"
        ),
        pytest.param(
            {"linking": "greed"},
            "metadata.linking is 'greed'; expected 'greedy' or 'hungarian'",
            id="misspelt linking",
        ),
    ],
)
@pytest.mark.usefixtures("pages")
def test_unusable_yaml_is_refused(read, changes, message):
    """Each case changes a setting of a YAML with a table of prompts and one source of pages."""
    settings = {"knowledge": "pages.db", "columns": {"title": "title"}, **changes}

    with pytest.raises(ConfigError) as error:
        read(**settings)

    assert message in str(error.value)


@pytest.mark.parametrize(
    ("rows", "changes", "message"),
    [
        pytest.param(
            [PROMPT, {**PROMPT, "prompt": " "}],
            {},
            r"rows.jsonl:2: the prompt is empty, expected a text",
            id="empty prompt",
        ),
        pytest.param(
            [{**PROMPT, "title": None}],
            {},
            "rows.jsonl:1: no title: pages are found by title",
            id="no title",
        ),
        pytest.param(
            [{**PROMPT, "title": [3]}],
            {},
            r"rows.jsonl:1: title\[0\] is 3; expected a valid string",
            id="title that is a number",
        ),
        pytest.param(
            [{**PROMPT, "p": [{"titel": "x"}]}],
            {"columns": {"passages": "p"}, "knowledge": None},
            r"rows.jsonl:1: passages\[0\].text is missing",
            id="passage without a text",
        ),
        pytest.param(
            [PROMPT],
            {"knowledge": "gone"},
            "gone: no such file; make it with: lm-factuality knowledge build",
            id="missing knowledge",
        ),
    ],
)
@pytest.mark.usefixtures("pages")
def test_unusable_rows_are_refused(read, rows, changes, message):
    """The message names the line of the table, or the file that is missing."""
    settings = {"knowledge": "pages.db", "columns": {"title": "title"}, **changes}

    with pytest.raises(DataError, match=message):
        read(rows, **settings)


def test_longfact_has_2280_prompts_in_two_files_for_each_of_38_topics():
    """These are the numbers of the paper: 30 prompts in a file on objects and one on concepts."""
    num_files = 2 * 38

    assert len({source.name for source in SOURCES}) == num_files
    assert sum(source.rows for source in SOURCES) == num_files * 30


@pytest.fixture
def read_longfact(read, pages):
    """Return a function that reads prompts of LongFact, with an index to verify facts."""

    def read_documents(data_dir, **metadata):
        return read(table=None, knowledge="index", data_dir=data_dir, **metadata)

    return read_documents


def test_longfact_files_equal_the_published_ones(shared):
    """The list of sources has the git hash of each file, by which a changed download is noticed."""
    blobs = {source.filename: source.blob for source in SOURCES}

    for path in (shared / "data" / "longfact").glob("*.jsonl"):
        assert blob_id(path) == blobs[path.name]


@pytest.mark.parametrize("longfact", ["objects", "concepts"])
def test_a_topic_of_longfact_has_30_prompts(read_longfact, shared, longfact):
    """A user may run a single topic of the 38."""
    docs = read_longfact(
        shared / "data" / "longfact", longfact=longfact, topics="20th-century-events"
    )

    assert len(docs) == 30
    assert len({doc["question"] for doc in docs}) == 30
    assert {doc["topic"] for doc in docs} == {"20th-century-events"}


@pytest.mark.parametrize("longfact", ["objects", "concepts"])
def test_longfact_prompts_omit_the_canary_line(read_longfact, shared, longfact):
    """A line of each file asks that nobody trains on it."""
    docs = read_longfact(
        shared / "data" / "longfact", longfact=longfact, topics="20th-century-events"
    )

    assert "canary" not in json.dumps(docs).lower()


@pytest.fixture
def astronomy_folder(shared, tmp_path):
    """Return a folder with a single file of LongFact, on concepts of astronomy."""
    shutil.copy(shared / "data" / "longfact" / "longfact-concepts_astronomy.jsonl", tmp_path)
    return tmp_path


def test_longfact_topic_needs_only_its_own_files(read_longfact, astronomy_folder):
    """The other 75 files need not be downloaded."""
    docs = read_longfact(astronomy_folder, longfact="concepts", topics="astronomy")

    assert len(docs) == 30


def test_missing_longfact_file_is_named(read_longfact, astronomy_folder):
    """The folder has a file on astronomy only, and the task needs one for each of 38 topics."""
    message = "longfact-concepts_20th-century-events.jsonl: no such file"

    with pytest.raises(DataError, match=message):
        read_longfact(astronomy_folder, longfact="concepts")
