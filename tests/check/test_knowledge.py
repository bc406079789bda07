"""An index of people's documents finds passages, and follows the files."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lm_factuality.check import knowledge as knowledge_module
from lm_factuality.check.check import FoundEvidence
from lm_factuality.check.knowledge import CheckKnowledge, open_knowledge
from lm_factuality.check.knowledge_store import STORE
from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.retrieval.build import build_knowledge

LONG_AGO = 1_600_000_000  # seconds, the time of files that did not change just now


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with two documents."""
    folder = tmp_path / "docs"
    write(folder / "harbour.md", "# Harbour\n\nThe harbour froze in 1840.\n")
    write(folder / "guides" / "mill.md", "# Mill\n\nThe mill burned down in 1852.\n")
    return folder


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """Return the folder for indexes."""
    return tmp_path / "cache"


@pytest.fixture
def files_read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list to which the name of each file is added that is read from now on."""
    names: list[str] = []
    read_documents = knowledge_module.read_documents

    def read_and_note(paths):
        names.extend(path.name for path in paths)
        return read_documents(paths)

    monkeypatch.setattr(knowledge_module, "read_documents", read_and_note)
    return names


def write(path: Path, text: str, seconds: int = LONG_AGO) -> None:
    """Write a file that was last changed at the given time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    os.utime(path, (seconds, seconds))


def found_documents(knowledge: CheckKnowledge, claim: str) -> list[str]:
    """Return the documents of the passages that are found for a claim."""
    (evidence,) = knowledge.find([claim])
    return [passage.document for passage in evidence.passages]


def index_folder(cache: Path) -> Path:
    """Return the folder of the only index."""
    (store,) = cache.glob(f"*/{STORE}")
    return store.parent


# Search


def test_the_passage_about_a_claim_is_found(folder, cache):
    """The user sees the passage with its document and title."""
    write(folder / "harbour.md", "# Harbour\n\nThe harbour froze in 1840.\n")
    knowledge = open_knowledge(folder, cache)

    (evidence,) = knowledge.find(["The harbour froze."])

    best_passage = evidence.passages[0]
    assert best_passage.document == "harbour.md"
    assert best_passage.title == "Harbour"
    assert "The harbour froze in 1840." in best_passage.text
    assert evidence.scores[0] > 0


def test_document_in_a_subfolder_has_its_path_as_id(folder, cache):
    """Two folders may have a file of the same name."""
    write(folder / "guides" / "mill.md", "The mill burned down in 1852.")
    knowledge = open_knowledge(folder, cache)

    assert found_documents(knowledge, "burned mill") == ["guides/mill.md"]


def test_best_passages_up_to_the_count_are_returned(folder, cache):
    """A judge reads each passage, which takes time."""
    for number in range(8):
        write(folder / f"{number}.txt", "The lighthouse. " * (number + 1))
    knowledge = open_knowledge(folder, cache)

    (evidence,) = knowledge.find(["lighthouse"], count=3)

    scores = list(evidence.scores)
    assert len(scores) == 3
    assert scores == sorted(scores, reverse=True)


def test_claims_with_unknown_words_find_nothing(folder, cache):
    """Models sometimes write half of a surrogate pair, such as ``\\ud800``."""
    knowledge = open_knowledge(folder, cache)

    evidence_of_claims = knowledge.find(["zebra", "", "?!", "\ud800"])

    nothing = FoundEvidence()
    assert evidence_of_claims == [nothing, nothing, nothing, nothing]


def test_a_count_below_one_is_refused(folder, cache):
    """Without passages, every claim would be "not found"."""
    with pytest.raises(ConfigError, match="count is 0, expected at least 1"):
        open_knowledge(folder, cache).find(["harbour"], count=0)


def test_words_are_found_in_scripts_without_spaces(folder, cache):
    """Chinese words are not separated, so the claim is not in the text as it is written."""
    harbour_froze_in_1840 = "港口在1840年结冰。"
    harbour_froze = "港口结冰"
    write(folder / "port.txt", harbour_froze_in_1840)
    knowledge = open_knowledge(folder, cache)

    assert found_documents(knowledge, harbour_froze) == ["port.txt"]


def test_a_file_of_documents_is_knowledge(folder, cache):
    knowledge = open_knowledge(folder / "harbour.md", cache)

    assert knowledge.num_documents == 1
    assert found_documents(knowledge, "harbour") == ["harbour.md"]


def test_passages_are_found_by_a_spelling_of_the_title(folder, cache):
    """The title of the page has a capital letter."""
    write(folder / "harbour.md", "# Harbour\n\nThe harbour froze in 1840.\n")
    knowledge = open_knowledge(folder, cache)

    (text,) = knowledge.passages("harbour")

    assert "The harbour froze in 1840." in text
    assert knowledge.passages("Nowhere") is None


def test_identity_of_knowledge_depends_on_its_contents(folder, cache):
    """Verdicts are stored by the identity, and must not be used for other documents."""
    first_identity = open_knowledge(folder, cache).identity
    write(folder / "new.txt", "A new text.")

    second_identity = open_knowledge(folder, cache).identity

    assert second_identity != first_identity


def test_each_table_row_is_a_passage_with_its_header(folder, cache):
    """The cell "40" alone does not say that it is a price in euros."""
    write(folder / "prices.csv", "item,price in euros\nRope,3\nSail,40\n")
    knowledge = open_knowledge(folder, cache)

    (evidence,) = knowledge.find(["sail"])
    (passage,) = evidence.passages

    assert passage.document == "prices.csv#2"
    assert passage.text == "item: Sail\nprice in euros: 40"


def test_each_row_of_a_table_in_a_page_is_a_passage_with_its_header(folder, cache):
    """The table is written in Markdown."""
    write(
        folder / "prices.md", "Prices:\n\n| item | price |\n|--|--|\n| Rope | 3 |\n| Sail | 40 |\n"
    )
    knowledge = open_knowledge(folder, cache)

    (evidence,) = knowledge.find(["sail"])
    (passage,) = evidence.passages

    assert passage.text == "item: Sail\nprice: 40"


def test_pages_of_a_database_are_found_by_their_titles(tmp_path, cache):
    """Rows of one title are one page, whose sentences may be marked by ``<s>``."""
    source = tmp_path / "pages.jsonl"
    pages = [
        {"title": "Harbour", "text": "<s>It froze in 1840.</s>"},
        {"title": "Harbour", "text": "It thawed in May."},
        {"title": "AC/DC", "text": "A band."},
    ]
    source.write_text("".join(json.dumps(page) + "\n" for page in pages))
    build_knowledge(source, tmp_path / "wiki.db")

    knowledge = open_knowledge(tmp_path / "wiki.db", cache)

    (evidence,) = knowledge.find(["thawed"])
    (passage,) = evidence.passages
    assert knowledge.num_documents == 2
    assert passage.document == "Harbour"
    assert passage.title == "Harbour"
    assert passage.text == "It froze in 1840.\nIt thawed in May."
    assert found_documents(knowledge, "band") == ["AC/DC"]


def test_non_text_page_of_a_database_is_named(tmp_path, cache):
    """The other pages can be used."""
    path = tmp_path / "wiki.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE documents(title, text)")
    connection.execute("INSERT INTO documents VALUES ('Mill', 'It burned.'), ('Blob', x'00')")
    connection.commit()
    connection.close()

    knowledge = open_knowledge(path, cache)

    (unread,) = knowledge.unread
    assert unread.path == str(path)
    assert unread.reason == "the page 'Blob' is a bytes, expected text"
    assert knowledge.num_documents == 1


# Changes


def test_an_unchanged_folder_is_not_read_again(folder, cache, files_read):
    """It would take minutes to read a large folder again for each check."""
    open_knowledge(folder, cache)
    files_read.clear()

    knowledge = open_knowledge(folder, cache)

    assert files_read == []
    assert found_documents(knowledge, "harbour") == ["harbour.md"]


def test_touched_but_unchanged_file_is_not_read_again(folder, cache, files_read):
    """A checkout by Git gives every file a new time."""
    write(folder / "harbour.md", "The harbour froze.", seconds=LONG_AGO)
    open_knowledge(folder, cache)
    files_read.clear()
    write(folder / "harbour.md", "The harbour froze.", seconds=LONG_AGO + 60)

    open_knowledge(folder, cache)

    assert files_read == []


def test_only_a_changed_file_is_read_again(folder, cache, files_read):
    """The words that the file had before must not be found."""
    write(folder / "harbour.md", "The harbour froze.", seconds=LONG_AGO)
    open_knowledge(folder, cache)
    files_read.clear()
    write(folder / "harbour.md", "The harbour thawed.", seconds=LONG_AGO + 60)

    knowledge = open_knowledge(folder, cache)

    assert files_read == ["harbour.md"]
    assert found_documents(knowledge, "thawed") == ["harbour.md"]
    assert found_documents(knowledge, "froze") == []


def test_a_file_that_changed_twice_within_a_moment_is_read_again(folder, cache):
    """The time and the size do not show the change, since both texts have nine characters."""
    now = int(time.time())
    write(folder / "harbour.md", "It froze.", seconds=now)
    open_knowledge(folder, cache)
    write(folder / "harbour.md", "It rained", seconds=now)

    knowledge = open_knowledge(folder, cache)

    assert found_documents(knowledge, "rained") == ["harbour.md"]


def test_an_added_file_is_found(folder, cache, files_read):
    """Only the new file is read, and not the two that are in the folder already."""
    open_knowledge(folder, cache)
    files_read.clear()
    write(folder / "tower.txt", "The tower is tall.")

    knowledge = open_knowledge(folder, cache)

    assert files_read == ["tower.txt"]
    assert found_documents(knowledge, "tower") == ["tower.txt"]
    assert knowledge.num_documents == 3


def test_a_removed_file_is_no_longer_found(folder, cache):
    """Evidence must not come from a document that the user has removed."""
    write(folder / "harbour.md", "The harbour froze.")
    open_knowledge(folder, cache)
    (folder / "harbour.md").unlink()

    knowledge = open_knowledge(folder, cache)

    assert found_documents(knowledge, "harbour") == []
    assert knowledge.num_documents == 1


def test_a_renamed_file_is_found_by_its_new_name(folder, cache):
    """The name of the file is shown as the source of the evidence."""
    write(folder / "harbour.md", "The harbour froze.")
    open_knowledge(folder, cache)
    (folder / "harbour.md").rename(folder / "port.md")

    knowledge = open_knowledge(folder, cache)

    assert found_documents(knowledge, "harbour") == ["port.md"]


def test_updated_index_equals_a_fresh_index(folder, cache, tmp_path):
    """Old passages of a changed file are deleted, and must not change the ranking of others."""
    for number in range(20):
        write(folder / f"{number}.txt", f"Boat {number} is blue.")
    open_knowledge(folder, cache)
    for number in range(18):
        text = f"Boat {number} is green, and so is its sail."
        write(folder / f"{number}.txt", text, seconds=LONG_AGO + 60)
        if number % 3 == 2:  # after every third file
            updated_index = open_knowledge(folder, cache)

    fresh_index = open_knowledge(folder, tmp_path / "other cache")

    assert updated_index.num_passages == fresh_index.num_passages
    for claim in ["blue", "7", "harbour", "mill"]:
        documents = found_documents(updated_index, claim)
        assert set(documents) == set(found_documents(fresh_index, claim))


def test_open_index_does_not_change_during_an_update(folder, cache):
    """A check that uses the index must not lose its passages."""
    write(folder / "harbour.md", "The harbour froze.")
    open_index = open_knowledge(folder, cache)
    (folder / "harbour.md").unlink()

    open_knowledge(folder, cache)

    assert found_documents(open_index, "harbour") == ["harbour.md"]


# What cannot be read


def test_unreadable_files_are_named_on_every_run(folder, cache):
    """Claims about them are "not found", and the user should know why."""
    write(folder / "logo.png", "x")
    write(folder / "guides" / "empty.md", "")
    write(folder / "rows.csv", "a,b\n1,2\n1,2,3\n")
    open_knowledge(folder, cache)

    unread = open_knowledge(folder, cache).unread

    reasons = {document.path: document.reason for document in unread}
    assert list(reasons) == [
        str(folder / "guides" / "empty.md"),
        str(folder / "logo.png"),
        f"{folder / 'rows.csv'}:3",
    ]
    assert "ends in '.png'" in reasons[str(folder / "logo.png")]


def test_repaired_file_is_no_longer_named(folder, cache):
    """The file was empty when the index was opened for the first time."""
    write(folder / "tower.md", "")
    open_knowledge(folder, cache)
    write(folder / "tower.md", "The tower.")

    assert open_knowledge(folder, cache).unread == []


def test_broken_link_is_named(folder, cache):
    (folder / "link.md").symlink_to(folder / "missing.md")

    (unread,) = open_knowledge(folder, cache).unread

    assert unread.path == str(folder / "link.md")
    assert "a link to a file that is missing" in unread.reason


def test_file_with_a_non_unicode_name_is_indexed(folder, cache):
    """Older systems wrote names in Latin-1, of which a byte is shown as an unknown character."""
    broken_name = os.fsdecode(b"caf\xe9.txt")
    write(folder / broken_name, "The lighthouse.")

    knowledge = open_knowledge(folder, cache)

    assert found_documents(knowledge, "lighthouse") == ["caf\ufffd.txt"]


def test_a_missing_folder_is_an_error(tmp_path, cache):
    """If an index of no documents were made, every claim would be "not found"."""
    with pytest.raises(DataError, match="nowhere: no such file or folder"):
        open_knowledge(tmp_path / "nowhere", cache)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([], "there are no files in this folder"),
        (
            ["a.png", "b.png"],
            r"nothing here can be read; the first of 2 problems is in .*a\.png: ends in '\.png'",
        ),
    ],
)
def test_folder_without_readable_files_is_an_error(tmp_path, cache, names, message):
    """Otherwise every claim would be "not found"."""
    for name in names:
        write(tmp_path / "docs" / name, "x")
    (tmp_path / "docs").mkdir(exist_ok=True)

    with pytest.raises(DataError, match=message):
        open_knowledge(tmp_path / "docs", cache)


# Damage and interruption


def truncate(path: Path) -> None:
    """Cut a file in half."""
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def truncate_words(index: Path) -> None:
    """Cut one of Tantivy's files."""
    truncate(next((index / "tantivy").glob("*.term")))


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda index: truncate(index / STORE), id="half of the store"),
        pytest.param(lambda index: (index / STORE).write_bytes(b"no database"), id="no database"),
        pytest.param(lambda index: (index / STORE).write_bytes(b""), id="empty store"),
        pytest.param(lambda index: (index / STORE).unlink(), id="no store"),
        pytest.param(lambda index: (index / "tantivy" / "meta.json").unlink(), id="no metadata"),
        pytest.param(
            lambda index: (index / "tantivy" / "meta.json").write_text("{}"), id="empty metadata"
        ),
        pytest.param(truncate_words, id="half of the words"),
    ],
)
def test_a_damaged_index_is_built_anew_with_a_note(
    folder, cache, caplog, damage: Callable[[Path], object]
):
    """Nothing is lost, because the index can be built from the documents."""
    open_knowledge(folder, cache)
    damage(index_folder(cache))

    knowledge = open_knowledge(folder, cache)

    assert "its index is damaged" in caplog.text
    assert found_documents(knowledge, "harbour") == ["harbour.md"]


def test_an_index_of_other_versions_is_built_anew_with_a_note(
    folder, cache, caplog, files_read, monkeypatch
):
    """Another version may cut documents into other passages."""
    open_knowledge(folder, cache)
    monkeypatch.setattr(knowledge_module, "__version__", "0.0.0")
    files_read.clear()

    open_knowledge(folder, cache)

    assert "of other versions" in caplog.text
    assert files_read == ["mill.md", "harbour.md"]


def interrupt(*_arguments, **_options):
    """Do what Ctrl-C does."""
    raise KeyboardInterrupt


@pytest.mark.parametrize("step", ["read_documents", "add_texts", "remove_texts", "_copy_index"])
def test_an_interrupted_update_is_finished_by_the_next_run(folder, cache, step, monkeypatch):
    """A user may press Ctrl-C at any step of an update."""
    for number in range(10):  # other files, which do not change
        write(folder / f"{number}.txt", f"Boat {number}.")
    write(folder / "harbour.md", "The harbour froze.")
    open_knowledge(folder, cache)
    write(folder / "harbour.md", "The harbour is dry.")
    with monkeypatch.context() as patch:
        patch.setattr(knowledge_module, step, interrupt)
        with pytest.raises(KeyboardInterrupt):
            open_knowledge(folder, cache)

    knowledge = open_knowledge(folder, cache)

    assert found_documents(knowledge, "dry") == ["harbour.md"]
    assert found_documents(knowledge, "froze") == []
    names_in_cache = [path.name for path in cache.iterdir() if path.suffix != ".lock"]
    assert names_in_cache == [index_folder(cache).name]


def build_slowly(folder: Path, cache: Path) -> None:
    """Build an index of which the last file is never read, in a process that is killed."""
    read_documents = knowledge_module.read_documents

    def read_or_wait(paths):
        if paths[0].name == "zebra.txt":
            time.sleep(600)
        return read_documents(paths)

    knowledge_module.read_documents = read_or_wait
    # Every file is committed.
    knowledge_module.KnowledgeStore.commit_seconds = 0.0
    open_knowledge(folder, cache)


def killed_build(folder: Path, cache: Path) -> None:
    """Kill a build while it reads the file zebra.txt, after all others."""
    write(folder / "zebra.txt", "The zebra.")
    process = multiprocessing.get_context("spawn").Process(
        target=build_slowly, args=(folder, cache)
    )
    process.start()
    deadline = time.monotonic() + 60
    while num_files_stored(cache) < 2 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()


def num_files_stored(cache: Path) -> int:
    """Return the number of files in the store of an unfinished index."""
    for store in cache.glob(f"*.partial/{STORE}"):
        connection = sqlite3.connect(store)
        try:
            return int(connection.execute("SELECT count(*) FROM files").fetchone()[0])
        except sqlite3.Error:
            return 0
        finally:
            connection.close()
    return 0


def test_killed_build_is_resumed(folder, cache, files_read):
    """It takes hours to index a large folder, so files are not read again."""
    killed_build(folder, cache)
    assert index_folder(cache).suffix == ".partial"

    knowledge = open_knowledge(folder, cache)

    assert files_read == ["zebra.txt"]
    assert knowledge.num_documents == 3
    assert found_documents(knowledge, "harbour") == ["harbour.md"]


def open_and_count(arguments: tuple[Path, Path]) -> int:
    """Open an index and return the number of its documents, in another process."""
    return open_knowledge(*arguments).num_documents


def test_two_processes_build_one_index(tmp_path, cache):
    """One process waits for the other, or opens the index that the other has built."""
    folder = tmp_path / "boats"
    for number in range(200):
        write(folder / f"{number}.txt", f"Boat {number}.")

    with multiprocessing.get_context("spawn").Pool(2) as pool:
        counts = pool.map(open_and_count, [(folder, cache)] * 2, chunksize=1)

    assert counts == [200, 200]


def test_unwritable_index_is_an_error(folder, tmp_path):
    """There is a file in place of the folder of indexes."""
    (tmp_path / "cache").write_text("a file")

    with pytest.raises(DataError, match="cache: indexes cannot be written here"):
        open_knowledge(folder, tmp_path / "cache")


def test_indexes_lie_in_the_cache_of_the_suite_by_default(folder, tmp_path, monkeypatch):
    """The suite writes no files into the user's folder of documents."""
    monkeypatch.setenv("LM_FACTUALITY_HOME", str(tmp_path / "home"))

    open_knowledge(folder)

    assert index_folder(tmp_path / "home" / "knowledge").is_dir()
