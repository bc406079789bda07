"""The commands that work for longer, what each is given, and what it leaves when nobody disturbs
it."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from bench.attack.replies import Replying
from bench.attack.warm import Task, Warm
from lm_factuality.retrieval.build import build_index, open_index
from tests.conftest import TASKS
from tests.factor_gen.corpora import write_corpus
from tests.people.test_correct import labelled
from tests.people.test_correct import run as judged
from tests.report.results import ambigbio_task, factor_task, felm_task, write_results
from tests.retrieval.references.conftest import Site, page

SAMPLE = TASKS / "sample"
STORE = "answers.sqlite"
JUDGE = "judge.yaml"
OUT = "out"
_CACHE = "pages"


@dataclass
class World:
    """Who is asked over the network, the process that commands are forks of, and a folder for what
    several of them are given."""

    folder: Path
    judge: Replying = field(default_factory=Replying)
    site: Site = field(default_factory=Site)
    warm: Warm = field(default_factory=Warm)

    def __post_init__(self) -> None:
        threading.Thread(target=self.site.serve_forever, daemon=True).start()

    def task(self, words: Sequence[str], folder: Path, **more: Any) -> Task:
        """A command in ``folder``, with a home of its own. Temporary files are those of the system
        to remove."""
        (places := self.folder / "t").mkdir(exist_ok=True)  # a short name, for Ray's sockets
        return Task(
            words,
            str(folder),
            {"LM_FACTUALITY_HOME": str(folder / "home"), "TMPDIR": str(places)},
            **more,
        )

    def run(self, words: Sequence[str], folder: Path, **more: Any) -> int:
        """Its exit code."""
        self.warm.begin(self.task(words, folder, **more))
        return self.warm.end()[0]

    def close(self) -> None:
        self.warm.close()
        self.site.shutdown()
        self.site.server_close()
        self.judge.close()

    def calls(self) -> int:
        """How many calls have come in so far."""
        return len(self.judge.bodies) + sum(path != "/robots.txt" for path, *_ in self.site.log)


def said_by(folder: Path) -> str:
    """The errors and warnings of the last command in ``folder``."""
    return Path(f"{folder}.stderr").read_text(encoding="utf-8", errors="replace")


def kept(folder: Path) -> int:
    """How many calls have been answered for good: what a killed command has on disk."""
    count = len(list((folder / _CACHE).glob("*.json")))
    for path in (folder / STORE, folder / "home" / STORE):
        if path.is_file():
            with closing(sqlite3.connect(path)) as database:
                if database.execute(
                    "SELECT 1 FROM sqlite_master WHERE name = 'answers'"
                ).fetchone():
                    count += database.execute("SELECT COUNT(*) FROM answers").fetchone()[0]
    return count


# --- What is looked at
# -------------------------------------------------------------------------------------------------------

_MOMENT = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d[:-]\d\d[:-]\d\d(\.\d+)?(\+00:00|Z)?)?")
# What is different in every run: moments, how long it took, the machine, and who answered, the
# judge or the store.
_OF_THE_RUN = {
    "date",
    "start_time",
    "end_time",
    "total_evaluation_time_seconds",
    "pretty_env_info",
    "judge_usage",
    "fetched_at",
}
_OF_THE_RUN |= {"usage", "from_cache", "this_run"}


def seen(folder: Path) -> dict[str, Any]:
    """What the files below ``folder`` say, by their names, without what is different in every
    run."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if path.is_file() and name.name != ".lock":
            found[_MOMENT.sub("DATE", name.as_posix())] = _said(path)
    return found


def _said(path: Path) -> Any:
    content = path.read_bytes()
    if content.startswith(b"SQLite format 3\0"):
        return _rows(path)
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return content
    if path.suffix == ".json":
        with suppress(ValueError):  # half of a file is compared as it is
            text = json.dumps(_without(json.loads(text), _OF_THE_RUN))
    return _MOMENT.sub("DATE", text)


def _rows(path: Path) -> Any:
    columns = {"answers": "key, answer", "owners": "1", "leases": "1"}
    with closing(sqlite3.connect(path)) as database:
        tables = [
            name
            for (name,) in database.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
            )
        ]
        rows = {
            name: database.execute(
                f"SELECT {columns.get(name, '*')} FROM {name} ORDER BY 1"
            ).fetchall()
            for name in tables
        }
    return _MOMENT.sub(
        "DATE",
        repr({name: each for name, each in rows.items() if name not in ("owners", "leases")}),
    )


def _without(value: Any, keys: set[str]) -> Any:
    if isinstance(value, dict):
        return {name: _without(each, keys) for name, each in value.items() if name not in keys}
    return [_without(each, keys) for each in value] if isinstance(value, list) else value


def _seen_index(folder: Path) -> dict[str, Any]:
    """An index names the files of its segments as it likes, and how many there are depends on where
    it went on; what it finds does not."""
    found = {name: said for name, said in seen(folder).items() if not name.startswith(f"{OUT}/")}
    if (folder / OUT).is_dir():
        index = open_index(folder / OUT)
        found["hits"] = repr(
            index.retrieve(["the river", "a town on a slow river", "number 7"], 20)
        )
        found["index"] = _without(
            json.loads((folder / OUT / "manifest.json").read_text()), {"files", "built"}
        )
    return found


# --- The commands
# ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Attacked:
    """A command: ``prepare`` writes what it reads into a folder, ``look`` says what is there of its
    inputs and outputs, ``dear`` gets a tenth of the points. ``growing`` are patterns of files that
    are not whole before the command is over; what it ``refuses`` to do again once it is, by words
    of the error; what package it ``needs``."""

    command: str
    prepare: Callable[[Path, World], None]
    look: Callable[[Path], dict[str, Any]] = seen
    is_dear: bool = False
    growing: str = r"answers\.sqlite.*|home/.*|pages/.*"
    refuses: str = ""
    needs: str = ""

    def words(self, world: World) -> list[str]:
        program = [] if self.command.startswith("factor-gen") else ["lm-factuality"]
        return [*program, *self.command.replace("PORT", str(world.site.server_port)).split()]


def _judge(folder: Path, world: World) -> None:
    content = {
        "backend": "openai",
        "model": "m",
        "base_url": world.judge.base_url,
        "concurrency": 8,
    }
    (folder / JUDGE).write_text(yaml.safe_dump(content), encoding="utf-8")


def _lines(path: Path, rows: list[Any]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def _sample(name: str, most: int) -> list[Any]:
    return [
        json.loads(line) for line in (SAMPLE / name).read_text(encoding="utf-8").splitlines()[:most]
    ]


def _felm(folder: Path, world: World) -> None:
    _judge(folder, world)
    _lines(folder / "felm" / "all.jsonl", _sample("sample_felm.jsonl", 40))


def _responses(folder: Path, world: World) -> None:
    _judge(folder, world)
    rows = _sample("sample_felm.jsonl", 40)
    docs = [
        {
            **{name: row[name] for name in ("index", "domain", "prompt")},
            "reference_texts": row["ref_contents"],
        }
        for row in rows
    ]
    _lines(
        folder / "samples.jsonl",
        [{"doc": doc, "resps": [[row["response"]]]} for doc, row in zip(docs, rows, strict=True)],
    )


def _biographies(folder: Path, world: World) -> None:
    _judge(folder, world)
    content = json.loads((SAMPLE / "sample_ambigbio_generations.json").read_text(encoding="utf-8"))
    rows = content["data"] if isinstance(content, dict) else content
    (folder / "generations.json").write_text(json.dumps({"data": rows[:12]}), encoding="utf-8")


def _pairs(folder: Path, world: World) -> None:
    _judge(folder, world)
    rows = _sample("sample_corpus.jsonl", 60)
    _lines(
        folder / "pairs.jsonl",
        [{"claim": row["text"][:60], "passages": [row["text"]]} for row in rows],
    )


def _passages(folder: Path, world: World, count: int = 30_000) -> None:
    lines = (
        f"p{number}\tTown {number // 3}\tThe town of number {number} lies on a slow river.\n"
        for number in range(count)
    )
    (folder / "passages.tsv").write_text("id\ttitle\ttext\n" + "".join(lines), encoding="utf-8")


def _index(folder: Path, world: World) -> None:
    _passages(folder, world, 2000)
    build_index(folder / "passages.tsv", folder / "index")
    (folder / "names.txt").write_text(
        "".join(f"Town {number}\n" for number in range(600)), encoding="utf-8"
    )


def _links(folder: Path, world: World) -> None:
    paths = [f"/page{number}" for number in range(40)]
    world.site.routes |= {path: page() for path in paths[::2]}
    (folder / "links.txt").write_text(
        "".join(f"{world.site.url(path)}\n" for path in paths), encoding="utf-8"
    )


def _results(folder: Path, world: World) -> None:
    for number in range(2):
        answers = [each % (2 + number) == 0 for each in range(30)]
        tasks = {
            "news_factor": factor_task(answers),
            "felm": felm_task(["Answer: 2"] * 10),
            "bio": ambigbio_task(),
        }
        write_results(
            folder / f"run{number}",
            tasks,
            f"org/model-{number}b",
            f"2026-01-02T03-04-05.00000{number}",
        )


def _labelled(folder: Path, world: World) -> None:
    labelled(judged(folder / "runs", rows=60), folder, rows=30)


def _corpus(folder: Path, world: World) -> None:
    write_corpus(folder, documents=24, shard=4, select={"draws": 2})


def _corpus_of_a_judge(folder: Path, world: World) -> None:
    _judge(folder, world)
    write_corpus(
        folder,
        documents=12,
        shard=3,
        select={"draws": 2},
        generate={"generator": "llm", "judge": JUDGE},
        choose={"contradictions": 1},
    )


def _nothing(folder: Path, world: World) -> None:
    _judge(folder, world)


_MODEL = f"--model hf --model_args pretrained={SAMPLE / 'models' / 'smaller'},dtype=float32 --device cpu --batch_size 32"
_PACK = "leaderboard pack run --model example/smaller --certificate certificate.json --out"


def _run(folder: Path, world: World) -> None:
    """The run of the sample's leaderboard, made once, and the judge's certificate."""
    made = world.folder / "made"
    if not made.exists():
        made.mkdir()
        config = TASKS.parent / "configs" / "leaderboard" / "sample.yaml"
        for command in (
            f"run --config {config} {_MODEL} --output_path run",
            "certify --judge lexical --sample --out certificate.json",
        ):
            assert world.run(["lm-factuality", *command.split()], made) == 0, said_by(made)
    for name in ("run", "certificate.json"):
        copy = shutil.copytree if (made / name).is_dir() else shutil.copy
        copy(made / name, folder / name)


def _submission(folder: Path, world: World) -> None:
    _run(folder, world)
    assert world.run(["lm-factuality", *_PACK.split(), "submissions"], folder) == 0, said_by(folder)


COMMANDS: Mapping[str, Attacked] = {
    "run": Attacked(
        f"run {_MODEL} --tasks sample_felm_gen --limit 8 --gen_kwargs max_gen_toks=20 --output_path {OUT} --log_samples "
        f'--metadata {{"judge":"{JUDGE}","judge_store":"{STORE}"}}',
        _nothing,
        is_dear=True,
    ),
    "judge felm_gen": Attacked(
        f"judge felm_gen --samples samples.jsonl --judge {JUDGE} --store {STORE} --out {OUT}",
        _responses,
    ),
    "judge ambigbio": Attacked(
        f"judge ambigbio --generations generations.json --judge {JUDGE} --store {STORE} --out {OUT}",
        _biographies,
    ),
    "certify": Attacked(
        f"certify --judge {JUDGE} --sample --setting segment_vanilla --store {STORE} --out {OUT}.json",
        _nothing,
    ),
    "claims extract": Attacked(
        f"claims extract --judge {JUDGE} --data-dir felm --store {STORE} --out {OUT}.jsonl", _felm
    ),
    "verify": Attacked(
        f"verify --pairs pairs.jsonl --judge {JUDGE} --store {STORE} --out {OUT}.jsonl", _pairs
    ),
    "cite": Attacked(
        f"cite --generations generations.json --nli lexical --out {OUT}", _biographies
    ),
    "index build": Attacked(
        f"index build passages.tsv --out {OUT}",
        _passages,
        _seen_index,
        growing=rf"{OUT}\.partial/.*",
        refuses="exists",
    ),
    "knowledge build": Attacked(
        f"knowledge build passages.tsv --out {OUT}.db",
        _passages,
        growing=rf"{OUT}\.db\.(partial|lock).*",
        refuses="exists",
    ),
    "references": Attacked(
        f"data fetch-references --urls links.txt --cache {_CACHE} --report {OUT}.json --delay 0 --allow-address 127.0.0.1:PORT",
        _links,
    ),
    "retrieve": Attacked(
        f"retrieve --names names.txt --index index --out {OUT}.json", _index, growing="index/.*"
    ),
    "report": Attacked(f"report run0 run1 --out {OUT}", _results),
    "leaderboard pack": Attacked(f"{_PACK} {OUT}", _run, refuses="is there already"),
    "leaderboard build": Attacked(
        f"leaderboard build submissions --out {OUT}", _submission, growing="home/.*"
    ),
    "people sheet": Attacked(f"people sheet runs --task gen --rows 30 --out {OUT}.html", _labelled),
    "people correct": Attacked(
        "people correct runs --key sheet.key.json --labels labels.csv", _labelled
    ),
    "factor-gen build": Attacked(
        f"factor-gen build corpus.yaml --out {OUT} --workers 1",
        _corpus,
        growing=rf"{OUT}/(stages/.*|\..*)",
    ),
    "factor-gen build, asking": Attacked(
        f"factor-gen build corpus.yaml --out {OUT} --workers 1",
        _corpus_of_a_judge,
        growing=rf"home/.*|{OUT}/(stages/.*|\..*)",
    ),
    "factor-gen build, workers": Attacked(
        f"factor-gen build corpus.yaml --out {OUT} --workers 2",
        _corpus,
        is_dear=True,
        growing=rf"{OUT}/(stages/.*|\..*)",
    ),
    "factor-gen build, Ray": Attacked(
        f"factor-gen build corpus.yaml --out {OUT} --engine ray --workers 2",
        _corpus,
        is_dear=True,
        growing=rf"{OUT}/(stages/.*|\..*)",
        needs="ray",
    ),
}
