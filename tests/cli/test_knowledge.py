"""``lm-factuality knowledge`` as a user types it."""

from __future__ import annotations

import pytest

from lm_factuality.cli import main
from tests.conftest import TASKS

ENCYCLOPEDIA = str(TASKS / "sample" / "encyclopedia.jsonl")


@pytest.fixture
def knowledge(tmp_path):
    """Return the path of a knowledge source with the pages of the sample's encyclopedia."""
    path = tmp_path / "knowledge.db"
    assert main(["knowledge", "build", ENCYCLOPEDIA, "--out", str(path)]) == 0
    return path


def test_build_tells_the_file_and_the_number_of_pages(tmp_path, capsys):
    """The sample's encyclopedia has 220 pages."""
    path = tmp_path / "knowledge.db"

    exit_code = main(["knowledge", "build", ENCYCLOPEDIA, "--out", str(path)])

    assert exit_code == 0
    assert f"{path}: 220 pages of 220 rows, knowledge " in capsys.readouterr().out


@pytest.mark.parametrize(
    "text", ["pages 220", "encyclopedia.jsonl: 167,124 bytes, SHA-256", "by lm-factuality"]
)
def test_info_describes_a_knowledge_source(knowledge, capsys, text):
    """The checksum tells whether two files were made from the same pages."""
    exit_code = main(["knowledge", "info", str(knowledge)])

    output = " ".join(capsys.readouterr().out.split())  # without the columns of the table
    assert exit_code == 0
    assert text in output


def test_info_shows_the_page_of_a_title(knowledge, capsys):
    """Titles may be written with underscores, as in addresses of Wikipedia."""
    title = "Lianelle_Dickess (painter)"

    exit_code = main(["knowledge", "info", str(knowledge), "--title", title])

    assert exit_code == 0
    assert "Lianelle Dickess" in capsys.readouterr().out


def test_an_unknown_title_is_refused(knowledge, capsys):
    """The message names the other spellings in which the title was looked for."""
    exit_code = main(["knowledge", "info", str(knowledge), "--title", "Nobody"])

    message = "no page is called 'Nobody', nor with other spaces, underscores"
    assert exit_code == 1
    assert message in capsys.readouterr().err


def test_info_of_a_missing_file_is_refused(tmp_path, capsys):
    """The message names the command that makes the file."""
    exit_code = main(["knowledge", "info", str(tmp_path / "gone.db")])

    assert exit_code == 1
    assert "gone.db: no such file; make it with" in capsys.readouterr().err


def test_a_file_is_not_overwritten_without_the_option(tmp_path, capsys):
    """The file may be a large source of knowledge, which took hours to build."""
    existing_file = tmp_path / "knowledge.db"
    existing_file.write_text("earlier")

    exit_code = main(["knowledge", "build", ENCYCLOPEDIA, "--out", str(existing_file)])

    assert exit_code == 1
    assert "exists; give another name, or --overwrite" in capsys.readouterr().err
    assert existing_file.read_text() == "earlier"


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        pytest.param("gone.jsonl", [], "gone.jsonl: no such file", id="missing source"),
        pytest.param(
            ENCYCLOPEDIA,
            ["--fields", "title=heading"],
            "no column 'heading'",
            id="missing column",
        ),
        pytest.param(
            ENCYCLOPEDIA, ["--fields", "titel=a"], "unknown key 'titel'", id="unknown field"
        ),
    ],
)
def test_impossible_build_is_refused(tmp_path, capsys, source, options, message):
    out = str(tmp_path / "new.db")

    exit_code = main(["knowledge", "build", source, "--out", out, *options])

    assert exit_code == 1
    assert message in capsys.readouterr().err


@pytest.fixture
def documents(tmp_path):
    """Return a folder with a Markdown file and a picture."""
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "setup.md").write_text("# Setting up\n\nTurn the *key*.\n")
    (folder / "logo.png").write_bytes(b"\x89PNG")
    return folder


def test_folder_build_names_unread_files(documents, tmp_path, capsys):
    """The folder has a Markdown file and a picture."""
    exit_code = main(["knowledge", "build", str(documents), "--out", str(tmp_path / "k.db")])

    output = capsys.readouterr().out
    assert exit_code == 0
    assert "1 pages of 1 rows" in output
    assert "1 documents read, 1 could not be read" in output
    assert f"{documents / 'logo.png'}: ends in '.png', expected Markdown" in output


@pytest.fixture
def knowledge_of_documents(documents, tmp_path, capsys):
    """Return the path of a knowledge source with the page of the folder of documents."""
    path = tmp_path / "documents.db"
    assert main(["knowledge", "build", str(documents), "--out", str(path)]) == 0
    capsys.readouterr()
    return path


def test_a_document_is_found_by_its_heading_without_its_markup(knowledge_of_documents, capsys):
    """The document is "# Setting up" and "Turn the *key*." in Markdown."""
    exit_code = main(["knowledge", "info", str(knowledge_of_documents), "--title", "Setting up"])

    assert exit_code == 0
    assert "Turn the key." in capsys.readouterr().out


def test_info_counts_documents_that_could_not_be_read(knowledge_of_documents, capsys):
    """One of the two documents could not be read, and a user of the file should know it."""
    exit_code = main(["knowledge", "info", str(knowledge_of_documents)])

    assert exit_code == 0
    assert "1 read, 1 not" in capsys.readouterr().out


def test_folder_without_readable_files_is_refused(documents, tmp_path, capsys):
    """Only a picture is left in the folder."""
    (documents / "setup.md").unlink()

    exit_code = main(["knowledge", "build", str(documents), "--out", str(tmp_path / "k.db")])

    message = capsys.readouterr().err
    assert exit_code == 1
    assert "none of 1 files can be read" in message
    assert "logo.png: ends in '.png'" in message


def test_an_index_of_a_folder_of_documents_counts_unread_files(documents, tmp_path, capsys):
    """The folder has a Markdown file and a picture."""
    exit_code = main(["index", "build", str(documents), "--out", str(tmp_path / "index")])

    assert exit_code == 0
    assert "1 documents read, 1 could not be read" in capsys.readouterr().out
