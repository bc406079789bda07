"""The answer store: kept at once, shared by processes, and clear about files that are not one."""

from __future__ import annotations

import gc
import json
import multiprocessing
import re
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from judges.answers import Answer
from judges.store import AnswerStore, default_store
from lm_factuality.ground.errors import DataError
from tests.conftest import REPOSITORY

ANSWER = Answer("fine ✓", finish_reason="stop", prompt_tokens=3, completion_tokens=1)


@pytest.fixture
def store_path(tmp_path: Path) -> Path:
    """Return where a test keeps its store, in a folder that does not exist yet."""
    return tmp_path / "new" / "answers.sqlite"


def test_stored_answers_are_read_back_unchanged(store_path: Path):
    answer = Answer("fine ✓", finish_reason="stop", prompt_tokens=3, completion_tokens=1)
    answer_without_token_counts = Answer("", finish_reason="length")
    with closing(AnswerStore(store_path)) as store:
        store.put("k1", answer)
        store.put("k2", answer_without_token_counts)

    with closing(AnswerStore(store_path)) as store:
        answers = store.get_many(["k1", "k2", "key without an answer"])

    assert answers == {"k1": answer, "k2": answer_without_token_counts}


def test_many_keys_are_looked_up_in_several_queries(store):
    """A run of a benchmark looks up thousands of answers at once."""
    store.put("k1", ANSWER)

    keys = [f"k{number}" for number in range(2000)]
    answers = store.get_many(keys)

    assert answers == {"k1": ANSWER}


def test_an_answer_is_kept_with_its_model_and_time(store_path: Path):
    """A user can delete the answers of one model with SQL."""
    with closing(AnswerStore(store_path)) as store:
        store.put("k1", ANSWER, "some model")

    with closing(sqlite3.connect(store_path)) as database:
        rows = database.execute("SELECT model, time FROM answers").fetchall()
    model, time = rows[0]
    assert model == "some model"
    assert time.startswith("20")  # the century of a year


@pytest.mark.parametrize(
    "damaged",
    [
        "{}",
        "[]",
        "null",
        "{",
        "4",
        '"fine"',
        '{"text": null}',
        '{"text": 3}',
        '{"text": "a", "finish_reason": ["stop"]}',
        '{"text": "a", "new_field": 1}',
        '{"text": "a", "first_token_logprobs": [["a"]]}',
        '{"text": "a", "first_token_logprobs": [["a", {}]]}',
        '{"text": "a", "first_token_logprobs": 0.5}',
    ],
)
def test_a_damaged_answer_is_refused_and_the_others_are_read(store_path: Path, damaged: str):
    """The message tells which row to delete, so that no other answer is lost."""
    with closing(AnswerStore(store_path)) as store:
        store.put("good", ANSWER)
    with sqlite3.connect(store_path) as database:
        database.execute("INSERT INTO answers VALUES ('bad', ?, '2025-01-01', 'm')", (damaged,))

    with closing(AnswerStore(store_path)) as store:
        readable_answers = store.get_many(["good"])
        with pytest.raises(DataError) as error:
            store.get_many(["good", "bad"])

    assert readable_answers == {"good": ANSWER}
    assert re.search(
        r"answers\.sqlite: the answer bad cannot be read.*delete that row", str(error.value)
    )


def test_an_error_is_returned_but_not_kept(store):
    """The next run asks again, when the server may work."""
    error = Answer(None, error="HTTP 503")

    returned = store.put("k", error)

    assert returned == error
    assert store.get_many(["k"]) == {}


def test_the_first_answer_under_a_key_is_kept_and_returned(store):
    """If two processes get an answer each, both must use the same one."""
    store.put("k", Answer("first"))

    returned = store.put("k", Answer("second"))

    assert returned == Answer("first")
    assert store.get_many(["k"]) == {"k": Answer("first")}


@pytest.fixture
def two_stores(store_path: Path):
    """Open two stores on the same file, as two processes do."""
    with closing(AnswerStore(store_path)) as first, closing(AnswerStore(store_path)) as second:
        yield first, second


def test_a_claimed_key_cannot_be_claimed_again(two_stores):
    """Whoever claims a key asks its question, so that nobody pays for it twice."""
    first, second = two_stores

    claimed_by_first = first.claim(["a", "b"])
    claimed_by_first_again = first.claim(["a"])
    claimed_by_second = second.claim(["a", "b", "c"])

    assert claimed_by_first == {"a", "b"}
    assert claimed_by_first_again == set()
    assert claimed_by_second == {"c"}


def test_a_released_key_can_be_claimed(two_stores):
    """Another process then asks what the first one gave up."""
    first, second = two_stores
    first.claim(["a", "b"])

    first.release(["a"])

    assert second.claim(["a", "b"]) == {"a"}


def test_key_of_a_failed_request_can_be_claimed(two_stores):
    """The request is not answered, so another process may try it."""
    first, second = two_stores
    first.claim(["a"])

    first.put("a", Answer(None, error="HTTP 503"))

    assert second.claim(["a"]) == {"a"}


def test_interrupted_claim_releases_its_keys(two_stores):
    """After Ctrl-C in the middle of a claim, no key may stay taken."""
    first, second = two_stores

    def interrupted_keys():
        yield "a"
        raise KeyboardInterrupt  # as if the user had pressed Ctrl-C after the first key

    with pytest.raises(KeyboardInterrupt):
        first.claim(interrupted_keys())

    assert second.claim(["a"]) == {"a"}


def test_a_key_is_released_only_by_its_owner(two_stores):
    """Otherwise a process could free a key whose question another process is asking."""
    first, second = two_stores
    first.claim(["a"])

    second.release(["a"])

    assert second.claim(["a"]) == set()


def test_a_key_with_an_answer_cannot_be_claimed(two_stores):
    """Whoever wants the key finds its answer in the store, and must not pay for another."""
    first, second = two_stores
    first.claim(["a"])
    first.put("a", Answer("fine"))
    first.release(["a"])  # as the last step of a request, after its answer is stored

    assert second.claim(["a"]) == set()


def test_closing_a_store_releases_its_keys(store_path: Path):
    """A later run can then ask the questions that a finished run left unanswered."""
    with closing(AnswerStore(store_path)) as store:
        store.claim(["a", "b"])

    with closing(AnswerStore(store_path)) as later_store:
        assert later_store.claim(["a", "b"]) == {"a", "b"}


def count_open_files() -> int:
    """Return the number of files that this process has open."""
    gc.collect()  # Garbage of other tests may have open files.
    return psutil.Process().num_fds()


def test_a_closed_store_leaves_no_claims_and_no_open_file(store_path: Path):
    """A program may open many stores, and the system limits its open files."""
    store_path.parent.mkdir()
    num_open_files = count_open_files()
    store = AnswerStore(store_path)
    store.claim(["a", "b"])

    store.close()

    assert psutil.Process().num_fds() == num_open_files
    assert list(store_path.parent.iterdir()) == [store_path]  # no lock file is left
    with closing(sqlite3.connect(store_path)) as database:
        assert database.execute("SELECT * FROM leases").fetchall() == []


def test_store_with_unreadable_lock_files_is_not_opened(store_path: Path):
    """Locks tell which claims are of processes that have ended."""
    folder_named_like_a_lock = store_path.with_name("answers.sqlite.owner.lock")
    folder_named_like_a_lock.mkdir(parents=True)
    num_open_files = count_open_files()

    with pytest.raises(DataError) as raised:
        AnswerStore(store_path)

    # The traceback in ``raised`` keeps the store alive, so that files which it left open count.
    assert psutil.Process().num_fds() == num_open_files
    assert re.search(r"answers\.sqlite: the store .* cannot be used", str(raised.value))


def test_opening_a_store_deletes_the_lock_files_of_killed_processes(store_path: Path):
    """A killed process cannot delete its own lock file."""
    lock_file = store_path.with_name("answers.sqlite.killed.lock")
    lock_file.parent.mkdir()
    lock_file.touch()

    with closing(AnswerStore(store_path)):
        assert not lock_file.exists()


def test_an_answer_is_kept_as_readable_json_without_its_empty_fields(store_path: Path):
    """Users read and search the store with SQL."""
    with closing(AnswerStore(store_path)) as store:
        store.put("k1", Answer("fine ✓", finish_reason="stop", prompt_tokens=3))

    with closing(sqlite3.connect(store_path)) as database:
        rows = database.execute("SELECT answer FROM answers").fetchall()
    text = rows[0][0]
    assert "fine ✓" in text  # and not "fine \\u2713"
    assert json.loads(text) == {"text": "fine ✓", "finish_reason": "stop", "prompt_tokens": 3}


CLAIM_AND_SLEEP = """
import sys, time
from judges.store import AnswerStore
store = AnswerStore(sys.argv[1])
store.claim(["a"])
print("claimed", flush=True)
time.sleep(60)
"""


def test_the_keys_of_a_killed_process_are_free_at_once(store_path: Path):
    """Otherwise no later run could ask their questions."""
    process = subprocess.Popen(
        [sys.executable, "-c", CLAIM_AND_SLEEP, str(store_path)],
        stdout=subprocess.PIPE,
        cwd=REPOSITORY,
    )
    try:
        assert process.stdout.readline() == b"claimed\n"
        with closing(AnswerStore(store_path)) as store:
            assert store.claim(["a"]) == set()

            process.kill()
            process.wait()

            assert store.claim(["a"]) == {"a"}
    finally:
        process.kill()
        process.wait()


def test_claimed_key_without_a_lock_file_is_free(store):
    """Earlier versions of the suite wrote such claims."""
    store._database.execute("INSERT INTO leases VALUES ('a', 'nobody')")

    assert store.claim(["a"]) == {"a"}


def claim_and_put(path: str, start: int) -> None:
    """Put the answers of 200 of the keys k0 to k299, from ``start`` on, unless others do.

    After k299 comes k0.
    """
    with closing(AnswerStore(path)) as store:
        for position in range(start, start + 200):
            number = position % 300
            if store.claim([f"k{number}"]):
                store.put(f"k{number}", Answer(f"answer {number}"))


def test_processes_and_threads_fill_one_store_together(store_path: Path):
    """Each key is wanted by several of them, and must get its answer once."""
    context = multiprocessing.get_context("spawn")
    processes = [
        context.Process(target=claim_and_put, args=(str(store_path), start))
        for start in (0, 100, 200, 300)
    ]
    threads = [
        threading.Thread(target=claim_and_put, args=(str(store_path), start))
        for start in (0, 50, 100, 150)
    ]

    for worker in [*processes, *threads]:
        worker.start()
    for worker in [*processes, *threads]:
        worker.join()

    expected_answers = {f"k{number}": Answer(f"answer {number}") for number in range(300)}
    with closing(AnswerStore(store_path)) as store:
        stored_answers = store.get_many(expected_answers)
    assert [process.exitcode for process in processes] == [0, 0, 0, 0]
    assert stored_answers == expected_answers


def write_text(path: Path) -> None:
    """Write a file that is no database."""
    path.write_bytes(b"not a database" * 100)


def write_another_database(path: Path) -> None:
    """Write a sound SQLite database without the table of answers."""
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE documents (title TEXT)")


def write_damaged_store(path: Path) -> None:
    """Write a store with answers, of which only the first page (4096 bytes) is sound."""
    with closing(AnswerStore(path)) as store:
        for number in range(2000):
            store.put(f"k{number}", ANSWER)
    content = bytearray(path.read_bytes())
    content[4096:] = b"\x07" * (len(content) - 4096)
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("write_file", "message"),
    [
        pytest.param(write_text, "cannot be used", id="text"),
        pytest.param(write_another_database, "not of judges' answers", id="other database"),
        pytest.param(write_damaged_store, "damaged", id="damaged store"),
    ],
)
def test_unrelated_file_is_named_and_not_changed(tmp_path: Path, write_file, message):
    """The user may have named another file by mistake."""
    path = tmp_path / "answers.sqlite"
    write_file(path)
    content_before = path.read_bytes()
    keys = [f"k{number}" for number in range(2000)]

    with pytest.raises(DataError, match=message) as error, closing(AnswerStore(path)) as store:
        store.get_many(keys)

    assert str(path) in str(error.value)
    assert path.read_bytes() == content_before


def test_a_folder_in_the_place_of_the_store_is_named(tmp_path: Path):
    """SQLite itself would not say which path it could not open."""
    with pytest.raises(DataError, match="cannot be used") as error:
        AnswerStore(tmp_path)

    assert str(tmp_path) in str(error.value)


def test_a_store_below_a_file_is_refused(tmp_path: Path):
    (tmp_path / "file").write_text("")

    with pytest.raises(DataError, match="cannot be used"):
        AnswerStore(tmp_path / "file" / "answers.sqlite")


def test_the_default_store_lies_in_the_cache_folder(tmp_path: Path, monkeypatch):
    """Runs of one user share their answers without any setting."""
    monkeypatch.setenv("LM_FACTUALITY_HOME", str(tmp_path))

    assert default_store() == tmp_path / "answers.sqlite"
