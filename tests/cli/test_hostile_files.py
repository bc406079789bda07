"""Hostile files in every place where a command takes one: an exit code and a sentence, never a
traceback, and in bounded time."""

from __future__ import annotations

import io
import json
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from factor_gen.cli import main as factor_gen
from lm_factuality.cli import main as lm_factuality
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.files import whole_folder
from tests.conftest import TASKS
from tests.hostile import write_hostile
from tests.report.results import factor_task, write_results

SAMPLE = TASKS / "sample"
LONGEST = 10  # seconds of one command on one file, on a busy machine
MOST_SAID = 20_000  # characters

# Of each command what stands before and behind the file, and the ending of its name; OUT, CORPUS
# and OTHER are made below.
COMMANDS: dict[str, tuple[str, str]] = {
    "validate FILE": (".yaml", ""),
    "validate FILE ": (".csv", ""),
    "validate FILE  ": (".jsonl", ""),
    "validate FILE   ": (".parquet", ""),
    "report FILE --out OUT": (".json", ""),
    "compare FILE": (".json", ""),
    "compare --with FILE": (".yaml", ""),
    "judge felm_gen --samples FILE --judge lexical --store STORE --out OUT": (".jsonl", ""),
    "judge ambigbio --generations FILE --judge lexical --store STORE --out OUT": (".json", ""),
    "judge ambigbio --generations GENERATIONS --metadata knowledge=FILE --judge lexical --store STORE --out OUT": (
        ".db",
        "",
    ),
    "judge felm_gen --samples OTHER --judge FILE --store STORE --out OUT": (".yaml", ""),
    "verify --pairs PAIRS --judge lexical --store FILE --out OUT": (".sqlite", "empty missing"),
    "verify --pairs FILE --judge lexical --store STORE --out OUT": (".jsonl", ""),
    "score ambigbio --decisions FILE --out OUT": (".json", ""),
    "score felm --outputs FILE --data-dir FELM --out OUT": (".jsonl", ""),
    "claims extract --judge rules --data-dir FELM_FOLDER --out OUT": (".jsonl", ""),
    "claims extract --judge FILE --data-dir FELM --store STORE --out OUT": (".yaml", ""),
    "certify --judge FILE --sample --store STORE": (".yaml", ""),
    "certify --judge lexical --sample --setting claim_doc --claims FILE --store STORE": (
        ".jsonl",
        "",
    ),
    "certify --judge lexical --setting biographies_grouping --data FILE FILE --store STORE": (
        ".json",
        "",
    ),
    "page --verdicts FILE --out OUT": (".jsonl", ""),
    "cite --generations FILE --nli lexical --out OUT": (".json", ""),
    "people sheet FILE --rows 3 --out OUT.html": (".jsonl", ""),
    "people sheet FILE --rows 3 --out OUT.html ": (".json", ""),
    "people sheet FILE --rows 3 --out OUT.html  ": (".csv", ""),
    "knowledge build FILE --out OUT": (".tsv", ""),
    "knowledge build FILE --out OUT ": (".jsonl", ""),
    "knowledge build FILE --out OUT  ": (".jsonl.gz", ""),
    "knowledge build FILE --out OUT   ": (".parquet", ""),
    "retrieve --names FILE --index FILE --out OUT": (".csv", ""),
    "index build FILE --out OUT": (".tsv", ""),
    "index build FILE --out OUT ": (".jsonl", ""),
    "index info FILE": (".json", ""),
    "leaderboard pack FILE --model a/b --out OUT": (".json", ""),
    "leaderboard check FOLDER": (".json", ""),
    "leaderboard build FOLDER --out OUT": (".json", "ALL"),  # the site says who was refused
    "factor-gen build FILE --out OUT": (".yaml", ""),
    "factor-gen build CORPUS --out OUT": (".jsonl", ""),
    "factor-gen audit FILE": (".csv", ""),
    "factor-gen audit FILE ": (".yaml", ""),
    "factor-gen audit FILE  ": (".jsonl", ""),
    "data verify wiki_factor --data-dir FILE": (".jsonl", ""),
}
# No rows are no fault of a file: what is said then is of the corpus, the claims or the index.
SAID_OF_OTHERS = {"empty", "blank", "bom", "parquet"}


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, Path]]:
    made: dict[str, dict[str, Path]] = {}

    def of(suffix: str) -> dict[str, Path]:
        if suffix not in made:
            made[suffix] = dict(write_hostile(tmp_path_factory.mktemp("hostile"), suffix))
            if suffix == ".yaml":  # as YAML it is one text of 8 MB, which takes PyYAML four seconds
                del made[suffix]["csv_columns"]
        return made[suffix]

    return of


def run(command: list[str]) -> int:
    return factor_gen(command[1:]) if command[0] == "factor-gen" else lm_factuality(command)


# Every sixth of them in every run; all of them with the slow tests.
EACH = [
    each if place % 6 == 0 else pytest.param(each, marks=pytest.mark.slow)
    for place, each in enumerate(COMMANDS)
]


@pytest.mark.parametrize("command", EACH)
def test_a_hostile_file_ends_in_a_sentence(command: str, hostile, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "500")
    suffix, may_succeed = COMMANDS[command]
    (tmp_path / "pairs.jsonl").write_text('{"claim": "It is old.", "passages": ["It is old."]}\n')
    (tmp_path / "felm").mkdir()
    shutil.copy(SAMPLE / "sample_felm.jsonl", tmp_path / "felm" / "all.jsonl")
    (tmp_path / "outputs.jsonl").write_text(
        '{"index": "0", "domain": "wk", "output": "Answer: 1"}\n'
    )
    for number, (name, path) in enumerate(hostile(suffix).items()):
        folder = tmp_path / str(number)
        (folder / "submission").mkdir(parents=True)
        if name not in ("missing", "folder", "loop", "below_a_file", "long_name"):
            (folder / "submission" / "submission.json").write_bytes(path.read_bytes())
            (folder / "all.jsonl").write_bytes(path.read_bytes())
        corpus = folder / "corpus.yaml"
        corpus.write_text(f"corpus: {json.dumps(str(path))}\ngenerate: rules\nfilter: none\n")
        places = {
            "FILE": path,
            "FOLDER": folder,
            "FELM_FOLDER": folder,
            "FELM": tmp_path / "felm",
            "OUTPUTS": tmp_path / "outputs.jsonl",
            "OUT": folder / "out",
            "OUT.html": folder / "out.html",
            "CORPUS": corpus,
            "STORE": tmp_path / "store.sqlite",
            "PAIRS": tmp_path / "pairs.jsonl",
            "OTHER": SAMPLE / "sample_felm.jsonl",
            "GENERATIONS": SAMPLE / "sample_ambigbio_generations.json",
        }
        words = [
            str(places.get(word, word)).replace("=FILE", f"={path}") for word in command.split()
        ]
        before = time.perf_counter()
        code = run(words)
        took = time.perf_counter() - before
        printed = capsys.readouterr()
        said = printed.err + printed.out
        assert took < LONGEST, f"{name}: {took:.1f} s"
        assert "Traceback" not in said
        assert len(said) < MOST_SAID, f"{name}: {len(said)} characters"
        if (
            may_succeed == "ALL" and list((folder / "submission").iterdir())
        ) or name in may_succeed.split():
            assert code == 0, name
            continue
        assert code == 1, f"{name}: {said[:300]}"
        if name not in SAID_OF_OTHERS and "FOLDER" not in command:
            assert path.name[:100] in said, f"{name}: {said[:300]}"


BLOCK = b"0" * 2**20


def test_a_link_as_out_stands_for_its_folder(tmp_path):
    (tmp_path / "disk").mkdir()
    link = tmp_path / "site"
    link.symlink_to(tmp_path / "disk")
    for content in ("one", "two"):
        with whole_folder(link, "mark") as part:
            (part / "mark").write_text(content)
        assert (tmp_path / "disk" / "mark").read_text() == content
        assert link.is_symlink()
    (tmp_path / "disk" / "mark").rename(tmp_path / "disk" / "of somebody")
    with pytest.raises(DataError, match="has no mark"), whole_folder(link, "mark"):
        pass


@pytest.mark.parametrize("task", ["my/task", "a\\\\b", "x" * 200])
def test_a_task_whose_name_no_file_can_have_is_refused(task, factor_yaml, evaluate, capsys):
    path = factor_yaml("named", dataset_path=str(SAMPLE / "sample_factor.csv"))
    path.write_text(path.read_text().replace("task: named", f'task: "{task}"'))
    assert lm_factuality(["validate", str(path)]) == 1
    assert "expected a name of at most 150 characters without slashes" in capsys.readouterr().out
    from lm_factuality.benchmarks.factor.task import FactorTask
    from lm_factuality.ground.errors import ConfigError

    with pytest.raises(ConfigError, match="without slashes"):
        FactorTask(
            config={
                "task": task.replace("\\\\", "\\"),
                "dataset_path": str(SAMPLE / "sample_factor.csv"),
            }
        )


def test_tables_are_printed_in_an_ascii_locale(tmp_path, monkeypatch):
    for number in range(2):
        tasks = {"news_factor": factor_task([True, False, number == 0])}
        write_results(
            tmp_path / str(number),
            tasks,
            f"org/modèle-\u6a21\u578b{number}",
            f"2026-01-02T03-04-05.00000{number}",
        )
    screen = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(screen, "ascii"))
    assert lm_factuality(["compare", str(tmp_path)]) == 0
    sys.stdout.flush()
    assert b"mod\\xe8le-\\u6a21" in screen.getvalue()
