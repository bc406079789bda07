"""The documents behind a FACTOR file: no text is lost without a count, none is there twice."""

import pytest

from lm_factuality.benchmarks.factor.corpus import read_task_config
from lm_factuality.benchmarks.factor.rows import make_row
from lm_factuality.benchmarks.perplexity.documents import (
    TextsYaml,
    load_documents,
    rebuild_documents,
)
from lm_factuality.ground.errors import ConfigError, DataError
from tests.conftest import example_row


def make_factor_row(doc_id, prefix, completion):
    """Make a row of FACTOR with this true completion."""
    return make_row("f:1", doc_id, prefix, [completion, "Something false."], 0, ["", ""])


def rebuild_texts(*rows):
    """Rebuild the documents of rows, and return the id and the text of each."""
    return [(document.doc_id, document.text) for document in rebuild_documents(rows)]


def test_longest_text_of_a_document_replaces_its_parts():
    """Rows cut a document at several places, and each word counts once in its perplexity."""
    texts = rebuild_texts(
        make_factor_row("a", "One. ", "Two."),
        make_factor_row("b", "Other. ", "End."),
        make_factor_row("a", "One. Two.  Three. ", " Four."),
        make_factor_row("a", "", "One."),
    )

    assert texts == [("b", "Other. End."), ("a", "One. Two.  Three. Four.")]


def test_differently_starting_texts_of_a_document_are_all_kept():
    """Two prefixes without a common beginning are parts of the document that no row connects."""
    texts = rebuild_texts(
        make_factor_row("a", "One. ", "Two."), make_factor_row("a", "Three. ", "Four.")
    )

    assert texts == [("a", "One. Two."), ("a", "Three. Four.")]


def test_prefix_with_another_completion_is_not_counted_twice():
    """The first row ends in "Short.", which the longer text does not have."""
    texts = rebuild_texts(
        make_factor_row("a", "Title. ", "Short."),
        make_factor_row("a", "Title. A longer story. ", "Its end."),
    )

    assert texts == [("a", "Title. A longer story. Its end.")]


def test_text_repeated_at_the_start_of_another_document_is_dropped():
    """Counted twice, a text would weigh more in the perplexity."""
    texts = rebuild_texts(
        make_factor_row("a", "One. ", "Two."),
        make_factor_row("b", "One.\n", "Two."),
        make_factor_row("c", "One. Two. ", "Three."),
    )

    assert texts == [("c", "One. Two. Three.")]


def test_texts_with_only_a_common_beginning_are_both_kept():
    """Neither text is part of the other."""
    texts = rebuild_texts(
        make_factor_row("c", "One. Two. ", "Three."), make_factor_row("d", "One. ", "Nine.")
    )

    assert texts == [("c", "One. Two. Three."), ("d", "One. Nine.")]


def test_empty_document_is_kept_in_its_place():
    """The document is reported as unscored and not dropped silently."""
    (document,) = rebuild_documents([make_factor_row("a", " ", "")])

    assert document.problem == "the document is empty"


@pytest.fixture
def load(tmp_path):
    """Return a function that loads the documents of a task whose YAML is in ``tmp_path``.

    Its arguments are the keys of the YAML, and under ``metadata`` its settings.
    """

    def load_texts(metadata=None, **keys):
        return load_documents(parse_yaml(tmp_path, metadata or {}, **keys))

    return load_texts


def parse_yaml(folder, metadata, **keys):
    """Parse the YAML of a perplexity task in a folder, with these settings and keys."""
    path = str(folder / "t.yaml")
    return read_task_config(
        TextsYaml, {"task": "t", "metadata": {"config_source": path, **metadata}, **keys}
    )


@pytest.fixture
def rows_file(write_rows):
    """Return the name of a file with a row whose usual prefix was cut, as in the published files.

    The whole prefix is in another column.
    """
    return write_rows([example_row(full_prefix="Long ago. The library opened in 1870. ")]).name


def test_full_prefix_of_a_row_is_used(load, rows_file):
    """A perplexity is of whole documents, not of what fits into the authors' window."""
    (document,) = load({"documents_of": rows_file}).rows

    assert document.text == (
        "Long ago. The library opened in 1870. Its first keeper was a sailor from the north."
    )


def test_yaml_can_select_the_truncated_prefix(load, rows_file):
    """A perplexity can then be compared with that of the text that FACTOR's models saw."""
    columns = {"prefix": "turncated_prefixes"}

    (document,) = load({"documents_of": rows_file, "columns": columns}).rows

    assert document.text.startswith("The library")


def test_provenance_identifies_the_texts(load, write_rows):
    """Two perplexities can be compared only if they are of the same texts."""
    path = write_rows([example_row()])

    provenance = load({"documents_of": path.name}).provenance

    assert provenance["documents"] == 1
    assert provenance["rows"] == 1
    assert len(provenance["git_blob"]) == 40  # hexadecimal digits, as git hashes files


@pytest.fixture
def load_published(shared):
    """Return a function that loads the documents of a published file."""

    def load_file(name):
        settings = read_task_config(TextsYaml, {"task": "t", "metadata": {"documents_of": name}})
        return load_documents(settings, shared / "data" / "factor")

    return load_file


@pytest.mark.parametrize("name", ["news_factor", "expert_factor"])
def test_published_documents_have_no_problem(load_published, name):
    """A perplexity of all published documents can then be reported."""
    assert not any(document.problem for document in load_published(name).rows)


def test_each_row_of_news_factor_is_a_document(load_published):
    news = load_published("news_factor")

    assert len(news.rows) == news.provenance["rows"]


def test_expert_factor_rows_are_documents_or_parts_of_documents(load_published):
    """The file has 236 rows, of which some continue the text of others."""
    expert = load_published("expert_factor")

    assert len(expert.rows) + expert.provenance["rows_in_longer_texts"] == 236


@pytest.fixture
def load_table(load, write_rows):
    """Return a function that loads the documents of a table with the columns body and page."""

    def load_rows(*rows):
        write_rows(rows, "texts.jsonl")
        columns = {"text": "body", "doc_id": "page"}
        return load({"columns": columns}, dataset_path="texts.jsonl").rows

    return load_rows


def test_table_texts_are_identified_by_id_column_or_position(load_table):
    """The column of ids is "page". Positions count from 0."""
    documents = load_table(
        {"body": "One.", "page": 1}, {"body": "Two.", "page": 1}, {"body": "Three."}
    )

    assert [document.doc_id for document in documents] == ["1", "1", "document 2"]


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        pytest.param("", "the document is empty", id="empty"),
        pytest.param(None, "the text is missing", id="missing"),
        pytest.param("\ud83d", "half of a surrogate pair", id="half of a surrogate pair"),
    ],
)
def test_unscorable_table_text_has_a_problem(load_table, body, problem):
    """Half of a surrogate pair is no character, so no tokenizer can encode it."""
    scorable, unscorable = load_table({"body": "One.", "page": 1}, {"body": body, "page": 2})

    assert scorable.problem == ""
    assert problem in unscorable.problem


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        pytest.param({}, "found neither", id="no data"),
        pytest.param(
            {"dataset_path": "a.csv", "doc_to_choice": "x"},
            "unknown key 'doc_to_choice'",
            id="key of another benchmark",
        ),
        pytest.param(
            {"dataset_path": "a.csv", "doc_to_text": "x"},
            "doc_to_text is 'x'; expected ''",
            id="prompt",
        ),
        pytest.param(
            {"dataset_path": "a.csv", "test_spit": "x"},
            "unknown key 'test_spit'; did you mean test_split?",
            id="misspelt key",
        ),
        pytest.param(
            {"dataset_path": "a.csv", "output_type": "multiple_choice"},
            "output_type is 'multiple_choice'; expected 'loglikelihood_rolling'",
            id="type of output",
        ),
        pytest.param(
            {"dataset_path": "a.csv", "num_fewshot": 2},
            "num_fewshot is 2; expected 0",
            id="examples",
        ),
        pytest.param(
            {"dataset_path": "a.csv", "test_split": 2},
            "test_split is 2; expected a valid string",
            id="split that is a number",
        ),
    ],
)
def test_a_yaml_with_a_wrong_key_is_refused(tmp_path, keys, message):
    """lm_eval takes any key, so a misspelt one would silently leave the default."""
    with pytest.raises(ConfigError) as error:
        parse_yaml(tmp_path, {}, **keys)

    assert_one_line_about(tmp_path / "t.yaml", message, error)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        pytest.param({"documents_of": "b.csv"}, "found both", id="two sources"),
        pytest.param(
            {"columns": {"txt": "a"}},
            "unknown key 'txt' of metadata.columns; did you mean text?",
            id="misspelt column",
        ),
        pytest.param(
            {"columns": {"text": 3}},
            "metadata.columns.text is 3; expected a valid string",
            id="column that is a number",
        ),
        pytest.param(
            {"columns": {"prefix": "a"}},
            "texts have no column for prefix",
            id="column of a FACTOR file",
        ),
        pytest.param(
            {"stride": 0},
            "metadata.stride is 0; expected a number of tokens, at least 1, or null for half of "
            "the window",
            id="stride of 0",
        ),
        pytest.param(
            {"stride": 64, "window": 64},
            "expected less than the window of 64",
            id="stride of a whole window",
        ),
        pytest.param(
            {"window": "wide"},
            "metadata.window is 'wide'; expected a number of tokens, at least 2, or null for no "
            "limit",
            id="window that is a word",
        ),
    ],
)
def test_wrong_setting_for_a_text_table_is_refused(tmp_path, settings, message):
    """A misspelt setting would silently leave the default."""
    with pytest.raises(ConfigError) as error:
        parse_yaml(tmp_path, settings, dataset_path="a.csv")

    assert_one_line_about(tmp_path / "t.yaml", message, error)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"documents_of": ["a.csv"]},
            "metadata.documents_of is ['a.csv']; expected a valid string",
        ),
        (
            {"documents_of": "a.csv", "columns": {"text": "body"}},
            "rows of FACTOR have no column for text",
        ),
    ],
)
def test_wrong_setting_for_factor_documents_is_refused(tmp_path, settings, message):
    """Files of FACTOR have fixed columns, from which the documents are rebuilt."""
    with pytest.raises(ConfigError) as error:
        parse_yaml(tmp_path, settings)

    assert_one_line_about(tmp_path / "t.yaml", message, error)


def assert_one_line_about(yaml_path, message, error):
    """Check that an error is one line, which names the YAML and has the message."""
    (line,) = str(error.value).split("\n")
    assert line.startswith(f"{yaml_path}: ")
    assert message in line


def test_missing_text_table_is_refused(load):
    """The message names the file, since the user may have mistyped it."""
    with pytest.raises(DataError, match=r"texts\.jsonl: no such file"):
        load(dataset_path="texts.jsonl")


def test_table_without_the_text_column_is_refused(load, tmp_path):
    """The message lists the columns, among which the user finds the right one."""
    (tmp_path / "texts.jsonl").write_text('{"body": "One."}\n', encoding="utf-8")
    message = r"metadata\.columns\.text: no column 'text'; the table has the columns 'body'"

    with pytest.raises(ConfigError, match=message):
        load(dataset_path="texts.jsonl")


def test_unknown_published_file_is_refused_with_a_similar_name(load):
    """A user who mistypes the name of a file need not look it up."""
    message = "no data source is called 'news_facto'.*did you mean news_factor"

    with pytest.raises(ConfigError, match=message):
        load({"documents_of": "news_facto"})
