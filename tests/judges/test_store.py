"""The answer store: kept at once, shared by processes, and clear about files that are not one."""

from __future__ import annotations

import multiprocessing
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from judges.answers import Answer
from judges.store import AnswerStore, default_store
from lm_factuality.ground.errors import DataError
from tests.conftest import REPOSITORY

FINE = Answer("fine ✓", "stop", 3, 1)


def test_answers_come_back_as_they_were(tmp_path: Path):
    with closing(AnswerStore(tmp_path / "new" / "a.sqlite")) as store:
        store.put("k1", FINE, "some model")
        store.put("k2", Answer("", "length"))
    with closing(AnswerStore(tmp_path / "new" / "a.sqlite")) as store:
        assert store.get_many(["k1", "k2", "k3"]) == {"k1": FINE, "k2": Answer("", "length")}
        assert store.get_many(f"k{number}" for number in range(2000)).keys() == {"k1", "k2"}
    row = (
        sqlite3.connect(tmp_path / "new" / "a.sqlite")
        .execute("SELECT model, time FROM answers WHERE key = 'k1'")
        .fetchone()
    )
    assert row[0] == "some model"
    assert row[1].startswith("20")


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
def test_a_damaged_answer_names_the_file_and_what_to_do(tmp_path: Path, damaged: str):
    path = tmp_path / "a.sqlite"
    with closing(AnswerStore(path)) as store:
        store.put("good", FINE)
    with sqlite3.connect(path) as database:
        database.execute("INSERT INTO answers VALUES ('bad', ?, '2025-01-01', 'm')", (damaged,))
    with closing(AnswerStore(path)) as store:
        assert store.get_many(["good"]) == {"good": FINE}
        with pytest.raises(
            DataError, match=r"a\.sqlite: the answer bad cannot be read.*delete that row"
        ):
            store.get_many(["good", "bad"])


def test_errors_are_not_kept_and_the_first_answer_stays(store):
    assert store.put("k", Answer(None, error="no")) == Answer(None, error="no")
    assert store.get_many(["k"]) == {}
    assert store.put("k", FINE) == FINE
    assert store.put("k", Answer("late")) == FINE
    assert store.get_many(["k"]) == {"k": FINE}


def test_a_key_is_claimed_once_until_it_is_given_back(tmp_path: Path):
    path = tmp_path / "a.sqlite"
    with closing(AnswerStore(path)) as one, closing(AnswerStore(path)) as two:
        assert one.claim(["a", "b"]) == {"a", "b"}
        assert one.claim(["a"]) == set()  # another thread of the same process
        assert two.claim(["a", "b", "c"]) == {"c"}
        one.release(["a"])
        two.release(["b"])  # not its own
        assert two.claim(["a", "b"]) == {"a"}
        one.put("b", FINE)
        one.release(["b"])
        assert two.claim(["b"]) == set()  # has its answer
    with closing(AnswerStore(path)) as three:
        assert three.claim(["a", "c"]) == {"a", "c"}  # close gives back


_CLAIM = "import sys, time; from judges.store import AnswerStore; s = AnswerStore(sys.argv[1]); s.claim(['a']); print('ok', flush=True); time.sleep(60)"


def test_what_a_killed_process_had_claimed_is_free_at_once(tmp_path: Path):
    path = tmp_path / "a.sqlite"
    process = subprocess.Popen(
        [sys.executable, "-c", _CLAIM, str(path)], stdout=subprocess.PIPE, cwd=REPOSITORY
    )
    try:
        assert process.stdout.readline() == b"ok\n"
        with closing(AnswerStore(path)) as store:
            assert store.claim(["a"]) == set()
            process.kill()
            process.wait()
            assert store.claim(["a"]) == {"a"}
    finally:
        process.kill()
        process.wait()


def test_a_claim_of_an_owner_without_a_lock_is_free(tmp_path: Path):
    """A store that was written before owners held locks may have such claims."""
    with closing(AnswerStore(tmp_path / "a.sqlite")) as store:
        store._database.execute("INSERT INTO leases VALUES ('a', 'nobody')")
        assert store.claim(["a"]) == {"a"}


def _write(path: str, start: int) -> None:
    with closing(AnswerStore(path)) as store:
        for number in range(start, start + 200):
            if store.claim([f"k{number % 300}"]):
                store.put(f"k{number % 300}", Answer(str(number % 300)))


def test_processes_and_threads_at_once(tmp_path: Path):
    path = tmp_path / "a.sqlite"
    context = multiprocessing.get_context("spawn")
    processes = [
        context.Process(target=_write, args=(str(path), 100 * number)) for number in range(4)
    ]
    for process in processes:
        process.start()
    threads = [
        threading.Thread(target=_write, args=(str(path), 50 * number)) for number in range(4)
    ]
    for thread in threads:
        thread.start()
    for each in [*processes, *threads]:
        each.join()
    assert [process.exitcode for process in processes] == [0] * 4
    with closing(AnswerStore(path)) as store:
        assert store.get_many(f"k{n}" for n in range(300)) == {
            f"k{n}": Answer(str(n)) for n in range(300)
        }


def _another_database(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE documents (title TEXT)")


def _damaged(path: Path) -> None:
    with closing(AnswerStore(path)) as store:
        for number in range(2000):
            store.put(f"k{number}", FINE)
    content = bytearray(path.read_bytes())
    content[4096:] = b"\x07" * (len(content) - 4096)
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda path: path.write_bytes(b"not a database" * 100), "cannot be used"),
        (_another_database, "not of judges' answers"),
        (_damaged, "damaged"),
        (lambda path: path.mkdir(), "cannot be used"),
    ],
    ids=["text", "other", "damaged", "folder"],
)
def test_a_file_that_is_no_store_is_named(tmp_path: Path, make, says):
    path = tmp_path / "a.sqlite"
    make(path)
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(DataError, match=says) as caught, closing(AnswerStore(path)) as store:
        store.get_many(f"k{number}" for number in range(2000))
    assert str(path) in str(caught.value)
    assert before is None or path.read_bytes() == before  # and left alone


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be used"):
        AnswerStore(tmp_path / "file" / "a.sqlite")


def test_the_default_store_lies_in_the_cache_folder(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("LM_FACTUALITY_HOME", str(tmp_path))
    assert default_store() == tmp_path / "answers.sqlite"
