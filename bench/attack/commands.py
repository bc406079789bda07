"""The commands that `bench.attack.kill` stops, which take long, and what each of them reads."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from bench.attack.state import State, read_state, read_state_of_index
from bench.attack.world import KEPT, PAGE_CACHE, STORE, World, read_errors
from lm_factuality.retrieval.build import build_index
from tests.conftest import TASKS
from tests.factor_gen.corpora import write_corpus
from tests.people.test_correct import write_labelled_sheet, write_run
from tests.report.results import ambigbio_task, factor_task, felm_task, write_results
from tests.retrieval.references.conftest import page

SAMPLE = TASKS / "sample"
"""The folder of the embedded sample."""

JUDGE = "judge.yaml"
"""The name of the judge's YAML file in a command's folder."""

OUT = "out"
"""The name of a command's output in its folder."""

_LEADERBOARD_CONFIG = TASKS.parent / "configs" / "leaderboard" / "sample.yaml"
_MODEL = (
    f"--model hf --model_args pretrained={SAMPLE / 'models' / 'smaller'},dtype=float32"
    " --device cpu --batch_size 32"
)
# The tasks of local models ask for scores, perplexities, and several samples of each text.
_RUN_ARGUMENTS = f"--use_cache {KEPT} --output_path {OUT} --log_samples --limit 8"
_LOCAL_RUN = (
    f"--model_args pretrained={SAMPLE / 'models' / 'smaller'},dtype=float32"
    " --tasks sample_factor,sample_factor_perplexity,sample_factor_generation"
    f" --gen_kwargs max_gen_toks=20 {_RUN_ARGUMENTS}"
)
_CONCURRENCY = 8  # the calls to the judge that may be under way at once
# lm_eval writes its results, whose names have a date, in place.
_GROWING_IN_RUNS = rf"({KEPT}|answers)\.sqlite.*|home/.*|{OUT}/.*_DATE\.jsonl?"
_PACK = "leaderboard pack run --model example/smaller --certificate certificate.json --out"
# Builds of factor-gen keep the work of each stage, and hidden files, until they are over.
_BUILD_FILES = rf"{OUT}/(stages/.*|\..*)"


@dataclass(frozen=True)
class AttackedCommand:
    """A command, and what is known about its files."""

    command: str
    """The arguments of ``lm-factuality``, or a command line of ``factor-gen``.

    ``PORT`` stands for the port of the web site, and ``SERVER`` for the URL of the judge's server.
    """

    prepare: Callable[[Path, World], None]
    """Writes what the command reads into its folder."""

    read_state: Callable[[Path], State] = read_state
    """Reads the command's folder, for comparisons with an undisturbed run."""

    is_slow: bool = False
    """Whether the command takes so long that it is stopped at a tenth of the points."""

    growing: str = r"answers\.sqlite.*|home/.*|pages/.*"
    """A pattern of the files that may be incomplete while the command is stopped."""

    replaces: bool = True
    """Whether the command replaces an earlier output, whatever its content."""

    most_lost_calls: int = _CONCURRENCY
    """The most calls whose replies may be lost at one stop: those that were under way."""

    refuses: str = ""
    """Words of the error with which the command refuses to run again once it is over."""

    needs: str = ""
    """A package that the command needs, and that may be missing."""

    def arguments(self, world: World) -> list[str]:
        """Return the program and its arguments."""
        command = self.command.replace("PORT", str(world.site.server_port))
        words = command.replace("SERVER", world.judge.base_url).split()
        return words if words[0] == "factor-gen" else ["lm-factuality", *words]


# What commands read. Each function writes into the command's folder.


def _write_nothing(folder: Path, world: World) -> None:
    """Write nothing, for commands that read the sample alone."""


def _write_judge(folder: Path, world: World) -> None:
    """Write the YAML of a judge behind the world's server."""
    config = {
        "backend": "openai",
        "model": "m",
        "base_url": world.judge.base_url,
        "concurrency": _CONCURRENCY,
    }
    (folder / JUDGE).write_text(yaml.safe_dump(config), encoding="utf-8")


def _write_felm(folder: Path, world: World) -> None:
    """Write a judge, and a file of FELM with 40 rows."""
    _write_judge(folder, world)
    _write_json_lines(folder / "felm" / "all.jsonl", _sample_rows("sample_felm.jsonl", 40))


def _write_felm_responses(folder: Path, world: World) -> None:
    """Write a judge, and the samples of a run of ``felm_gen`` with 40 responses."""
    _write_judge(folder, world)
    samples = []
    for row in _sample_rows("sample_felm.jsonl", 40):
        doc = {name: row[name] for name in ("index", "domain", "prompt")}
        doc["reference_texts"] = row["ref_contents"]
        samples.append({"doc": doc, "resps": [[row["response"]]]})
    _write_json_lines(folder / "samples.jsonl", samples)


def _write_biographies(folder: Path, world: World) -> None:
    """Write a judge, and 12 biographies in the authors' form."""
    _write_judge(folder, world)
    path = SAMPLE / "sample_ambigbio_generations.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    rows = content["data"] if isinstance(content, dict) else content
    (folder / "generations.json").write_text(json.dumps({"data": rows[:12]}), encoding="utf-8")


def _write_pairs(folder: Path, world: World) -> None:
    """Write a judge, and 60 claims with a passage each."""
    _write_judge(folder, world)
    pairs = []
    for row in _sample_rows("sample_corpus.jsonl", 60):
        pairs.append({"claim": row["text"][:60], "passages": [row["text"]]})
    _write_json_lines(folder / "pairs.jsonl", pairs)


def _write_passages(folder: Path, world: World, count: int = 30_000) -> None:
    """Write a file of passages about towns."""
    lines = ["id\ttitle\ttext\n"]
    for number in range(count):
        text = f"The town of number {number} lies on a slow river."
        lines.append(f"p{number}\tTown {number // 3}\t{text}\n")
    (folder / "passages.tsv").write_text("".join(lines), encoding="utf-8")


def _write_index(folder: Path, world: World) -> None:
    """Write an index of 2,000 passages, and 600 names to search for."""
    _write_passages(folder, world, 2000)
    build_index(folder / "passages.tsv", folder / "index")
    names = "".join(f"Town {number}\n" for number in range(600))
    (folder / "names.txt").write_text(names, encoding="utf-8")


def _write_cited_pages(folder: Path, world: World) -> None:
    """Write a file of FELM whose 40 rows cite the world's web site, which has every other page."""
    rows = _sample_rows("sample_felm.jsonl", 40)
    for number, row in enumerate(rows):
        path = f"/page{number}"
        row["ref"] = [world.site.url(path)]
        if number % 2 == 0:
            world.site.routes[path] = page()
    _write_json_lines(folder / "felm" / "all.jsonl", rows)


def _write_two_runs(folder: Path, world: World) -> None:
    """Write the results of two models on three tasks."""
    for number in range(2):
        # One model is right on every second row, the other one on every third.
        is_right = [row % (2 + number) == 0 for row in range(30)]
        tasks = {
            "news_factor": factor_task(is_right),
            "felm": felm_task(["Answer: 2"] * 10),
            "bio": ambigbio_task(),
        }
        date = f"2026-01-02T03-04-05.00000{number}"
        write_results(folder / f"run{number}", tasks, f"org/model-{number}b", date)


def _write_labelled_run(folder: Path, world: World) -> None:
    """Write the results of a judged run of 60 rows, with people's labels of 30 of them."""
    write_labelled_sheet(write_run(folder / "runs", rows=60), folder, rows=30)


def _write_corpus(folder: Path, world: World) -> None:
    """Write a corpus of 24 documents, and the YAML of a build by rules."""
    write_corpus(folder, documents=24, shard=4, select={"draws": 2})


def _write_corpus_for_judge(folder: Path, world: World) -> None:
    """Write a corpus of 12 documents, and the YAML of a build that asks a judge."""
    _write_judge(folder, world)
    write_corpus(
        folder,
        documents=12,
        shard=3,
        select={"draws": 2},
        generate={"generator": "llm", "judge": JUDGE},
        choose={"contradictions": 1},
    )


def _write_leaderboard_run(folder: Path, world: World) -> None:
    """Copy a run of the sample's leaderboard and the judge's certificate, which are made once."""
    made = world.folder / "made"
    if not made.exists():
        made.mkdir()
        _run_or_fail(f"run --config {_LEADERBOARD_CONFIG} {_MODEL} --output_path run", made, world)
        _run_or_fail("certify --judge lexical --sample --out certificate.json", made, world)
    shutil.copytree(made / "run", folder / "run")
    shutil.copy(made / "certificate.json", folder)


def _write_submission(folder: Path, world: World) -> None:
    """Write a submission to the sample's leaderboard."""
    _write_leaderboard_run(folder, world)
    _run_or_fail(f"{_PACK} submissions", folder, world)


def _run_or_fail(arguments: str, folder: Path, world: World) -> None:
    """Run ``lm-factuality`` in a folder.

    Raises:
        AssertionError: The exit code is not 0.
    """
    ending = world.run(["lm-factuality", *arguments.split()], folder)
    assert ending.code == 0, read_errors(folder)


def _sample_rows(name: str, count: int) -> list[Any]:
    """Return the first rows of a JSONL file of the sample."""
    lines = (SAMPLE / name).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines[:count]]


def _write_json_lines(path: Path, rows: Sequence[Any]) -> None:
    """Write rows to a JSONL file."""
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


COMMANDS: Mapping[str, AttackedCommand] = {
    "run": AttackedCommand(
        f"run {_MODEL} --tasks sample_felm_gen --limit 8 --gen_kwargs max_gen_toks=20"
        f" --output_path {OUT} --log_samples"
        f' --metadata {{"judge":"{JUDGE}","judge_store":"{STORE}"}}',
        _write_judge,
        is_slow=True,
        growing=_GROWING_IN_RUNS,
    ),
    "run hf": AttackedCommand(
        f"run --model hf --batch_size 8 {_LOCAL_RUN}", _write_nothing, growing=_GROWING_IN_RUNS
    ),
    "run hf-tree": AttackedCommand(
        f"run --model hf-tree --batch_size 1 {_LOCAL_RUN}",
        _write_nothing,
        growing=_GROWING_IN_RUNS,
    ),
    "run local-chat-completions": AttackedCommand(
        "run --model local-chat-completions --apply_chat_template"
        " --model_args model=m,base_url=SERVER/chat/completions,num_concurrent=4"
        f" --tasks sample_felm,sample_factor_chat {_RUN_ARGUMENTS}",
        _write_nothing,
        growing=_GROWING_IN_RUNS,
        most_lost_calls=4,
    ),
    "run vllm": AttackedCommand(
        f"run --model vllm --batch_size 8 {_LOCAL_RUN}"
        " --model_args enforce_eager=True,enable_prefix_caching=False,max_model_len=512",
        _write_nothing,
        growing=_GROWING_IN_RUNS,
        needs="vllm",
    ),
    "judge felm_gen": AttackedCommand(
        f"judge felm_gen --samples samples.jsonl --judge {JUDGE} --store {STORE} --out {OUT}",
        _write_felm_responses,
    ),
    "judge ambigbio": AttackedCommand(
        f"judge ambigbio --generations generations.json --judge {JUDGE} --store {STORE}"
        f" --out {OUT}",
        _write_biographies,
    ),
    "certify": AttackedCommand(
        f"certify --judge {JUDGE} --sample --setting segment_vanilla --store {STORE}"
        f" --out {OUT}.json",
        _write_judge,
    ),
    "claims extract": AttackedCommand(
        f"claims extract --judge {JUDGE} --data-dir felm --store {STORE} --out {OUT}.jsonl",
        _write_felm,
    ),
    "verify": AttackedCommand(
        f"verify --pairs pairs.jsonl --judge {JUDGE} --store {STORE} --out {OUT}.jsonl",
        _write_pairs,
    ),
    "cite": AttackedCommand(
        f"cite --generations generations.json --nli lexical --out {OUT}", _write_biographies
    ),
    "index build": AttackedCommand(
        f"index build passages.tsv --out {OUT}",
        _write_passages,
        partial(read_state_of_index, index_name=OUT),
        growing=rf"{OUT}\.partial/.*",
        refuses="exists",
    ),
    "knowledge build": AttackedCommand(
        f"knowledge build passages.tsv --out {OUT}.db",
        _write_passages,
        growing=rf"{OUT}\.db\.(partial|lock).*",
        refuses="exists",
    ),
    "references": AttackedCommand(
        f"data fetch-references --data-dir felm --cache {PAGE_CACHE} --report {OUT}.json"
        " --delay 0 --allow-address 127.0.0.1:PORT",
        _write_cited_pages,
    ),
    "retrieve": AttackedCommand(
        f"retrieve --names names.txt --index index --out {OUT}.json",
        _write_index,
        growing="index/.*",
    ),
    "report": AttackedCommand(f"report run0 run1 --out {OUT}", _write_two_runs),
    "leaderboard pack": AttackedCommand(
        f"{_PACK} {OUT}", _write_leaderboard_run, refuses="is there already"
    ),
    "leaderboard build": AttackedCommand(
        f"leaderboard build submissions --out {OUT}", _write_submission, growing="home/.*"
    ),
    "people sheet": AttackedCommand(
        f"people sheet runs --task gen --rows 30 --out {OUT}.html", _write_labelled_run
    ),
    "people correct": AttackedCommand(
        "people correct runs --key sheet.key.json --labels labels.csv", _write_labelled_run
    ),
    "factor-gen build": AttackedCommand(
        f"factor-gen build corpus.yaml --out {OUT} --workers 1",
        _write_corpus,
        growing=_BUILD_FILES,
    ),
    "factor-gen build, asking": AttackedCommand(
        f"factor-gen build corpus.yaml --out {OUT} --workers 1",
        _write_corpus_for_judge,
        growing=rf"home/.*|{_BUILD_FILES}",
    ),
    "factor-gen build, workers": AttackedCommand(
        f"factor-gen build corpus.yaml --out {OUT} --workers 2",
        _write_corpus,
        is_slow=True,
        growing=_BUILD_FILES,
    ),
    "factor-gen build, Ray": AttackedCommand(
        f"factor-gen build corpus.yaml --out {OUT} --engine ray --workers 2",
        _write_corpus,
        is_slow=True,
        growing=_BUILD_FILES,
        needs="ray",
    ),
}
"""The attacked commands by name."""
