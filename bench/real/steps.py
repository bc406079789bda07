"""The steps of the run: what ``make real`` does, in order. A new one is a line of ``STEPS``."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from string import Template

from bench.real import read
from bench.real.data import felm_lines, some_felm, spread, with_references
from bench.real.record import Place, Skipped, Step

_BIN = Path(sys.executable).parent
_CONFIGS = Path(__file__).parent
_WINDOW = 1025  # vLLM keeps one token of it free
Command = Callable[[Place], Sequence[str]]


def run(
    model: str,
    tasks: str,
    *more: str,
    sample: str = "",
    bin_of: Callable[[Place], Path] = lambda place: _BIN,
) -> Command:
    """``lm-factuality run`` on ``tasks``, or on ``sample`` where the published files of all of them
    are missing."""

    def words(place: Place) -> list[str]:
        there = [
            task
            for task in tasks.split(",")
            if not any(task.startswith(source) for source in place.missing)
        ]
        if not there and not sample:
            raise Skipped("; ".join(place.missing.values()))
        names = there or [sample]
        args = [
            f"pretrained={place.model}",
            "dtype=float32",
            *(each for each in more if not each.startswith("--")),
        ]
        words = [
            str(bin_of(place) / "lm-factuality"),
            "run",
            "--model",
            model,
            "--model_args",
            ",".join(args),
        ]
        words += [
            "--tasks",
            ",".join(names),
            *_rows(place, names),
            "--output_path",
            str(place.folder),
            "--log_samples",
        ]
        words += [part for each in more if each.startswith("--") for part in each.split(" ", 1)]
        return words

    return words


def _rows(place: Place, names: Sequence[str]) -> list[str]:
    """FELM's rows from all domains; those of ``felm_gen`` among the ones that have references,
    which the offline judge needs."""
    if not names[0].startswith("felm"):
        return ["--limit", str(place.rows)]
    usable = (
        with_references(place.data) if "felm_gen" in names else range(len(felm_lines(place.data)))
    )
    return [
        "--samples",
        json.dumps(
            {name: [usable[each] for each in spread(len(usable), place.rows)] for name in names}
        ),
    ]


def vllm(place: Place) -> Path:
    """The commands of the environment with vLLM."""
    if not (place.vllm / "lm-factuality").is_file():
        raise Skipped(
            f"{place.vllm} has no lm-factuality: 'make test-vllm' builds that environment"
        )
    return place.vllm


def judge(place: Place) -> list[str]:
    """``lm-factuality judge`` on the answers that the step before generated."""
    samples = sorted((place.out / "felm_gen").rglob("samples_*felm_gen_*.jsonl"))
    command = [
        str(_BIN / "lm-factuality"),
        "judge",
        "felm_gen",
        "--samples",
        *map(str, samples),
        "--judge",
        filled("judge", place),
    ]
    return [*command, "--store", _store(place), "--out", str(place.folder / "judged")]


def certify(place: Place) -> list[str]:
    """``lm-factuality certify`` on some rows of FELM, or on the sample."""
    command = [
        str(_BIN / "lm-factuality"),
        "certify",
        "--judge",
        filled("judge", place),
        "--setting",
        "segment_vanilla",
    ]
    if "felm" in place.missing:
        data = ["--sample"]
    else:
        some_felm(place.data, place.rows, place.folder / "felm")
        data = ["--data-dir", str(place.folder / "felm")]
    return [
        *command,
        *data,
        "--store",
        _store(place),
        "--out",
        str(place.folder / "certificate.json"),
    ]


def build(config: str) -> Command:
    """``factor-gen build`` with one of the configs beside this file."""

    def words(place: Place) -> list[str]:
        if "news_factor" in place.missing:
            raise Skipped(place.missing["news_factor"])
        return [
            str(_BIN / "factor-gen"),
            "build",
            filled(config, place),
            "--out",
            str(place.folder / "built"),
        ]

    return words


def filled(config: str, place: Place) -> str:
    """The path of a config with the paths of this run in it."""
    names = {"model": place.model, "data": place.data, "rows": place.rows}
    if config == "writer":
        names["judge"] = filled("judge", place)
    text = (_CONFIGS / f"{config}.yaml").read_text(encoding="utf-8")
    place.folder.mkdir(parents=True, exist_ok=True)
    path = place.folder / f"{config}.yaml"
    path.write_text(Template(text).substitute(names), encoding="utf-8")
    return str(path)


def _store(place: Place) -> str:
    return str(place.out / "answers.sqlite")


_EXPERT, _NEWS = "expert_factor,expert_factor_clean", "news_factor"
_PERPLEXITY = "expert_factor_perplexity,news_factor_perplexity"
_ASKED = "expert_factor_clean_chat"
_CHAT = ("--apply_chat_template", "--batch_size 8")
_EIGHT = "--batch_size 8"
_OFFLINE = "--metadata judge=lexical"
_VLLM = (f"max_model_len={_WINDOW}", "enforce_eager=True")
_FACTOR, _FELM = "sample_factor", "sample_felm"  # stand in where the published file is missing

STEPS = (  # name, rows, command, what it is, how it is read, steps before it
    Step(
        "expert",
        236,
        run("hf-tree", _EXPERT, sample=_FACTOR),
        "FACTOR with hf-tree: Expert, as published and clean",
    ),
    Step("news", 236, run("hf-tree", _NEWS, sample=_FACTOR), "FACTOR with hf-tree: News"),
    Step(
        "no_prefix",
        236,
        run("hf-prefix-free", f"{_EXPERT},{_NEWS}", _EIGHT, sample=_FACTOR),
        "both without the prefix",
    ),
    Step(
        "perplexity",
        12,
        run("hf-tree", _PERPLEXITY, sample="sample_factor_perplexity"),
        "the documents behind FACTOR",
    ),
    Step(
        "hf",
        8,
        run("hf", _NEWS, sample=_FACTOR),
        "hf beside hf-tree",
        read.beside("news"),
        ["news"],
    ),
    Step(
        "vllm",
        8,
        run("vllm", _NEWS, *_VLLM, sample=_FACTOR, bin_of=vllm),
        "vLLM beside hf-tree",
        read.beside("news"),
        ["news"],
    ),
    Step(
        "dola", 40, run("hf-dola", _NEWS, "layers=low", sample=_FACTOR), "FACTOR decoding by DoLa"
    ),
    Step(
        "chat",
        40,
        run("hf-tree", _ASKED, "--apply_chat_template", sample="sample_factor_chat"),
        "asked about each choice alone",
    ),
    Step(
        "letters",
        40,
        run(
            "hf-tree",
            _ASKED,
            "--apply_chat_template",
            "--metadata protocol=letters",
            sample="sample_factor_chat",
        ),
        "all four choices in one prompt, each rotation",
    ),
    Step(
        "felm_vanilla",
        24,
        run("hf", "felm_segment_vanilla", *_CHAT, sample=_FELM),
        "FELM, the verdict at once",
    ),
    Step(
        "felm_cot", 4, run("hf", "felm_segment_cot", *_CHAT, sample=_FELM), "FELM, reasoning first"
    ),
    Step(
        "felm_gen",
        4,
        run("hf", "felm_gen", *_CHAT, _OFFLINE, sample="sample_felm_gen"),
        "answers to FELM's questions, judged offline",
    ),
    Step(
        "felm_gen_judge",
        4,
        judge,
        "the same answers, judged by the model",
        read.judged,
        ["felm_gen"],
    ),
    Step(
        "ambigbio",
        3,
        run("hf", "ambigbio", *_CHAT, _OFFLINE, sample="sample_ambigbio"),
        "AmbigBio, judged offline",
    ),
    Step(
        "factor_generation",
        8,
        run("hf", "expert_factor_generation", _EIGHT, _OFFLINE, sample="sample_factor_generation"),
        "judged offline",
    ),
    Step("certify", 12, certify, "the model as a judge", read.certified),
    Step(
        "filter", 12, build("filter"), "factor-gen with the model as the fluency filter", read.built
    ),
    Step(
        "writer",
        2,
        build("writer"),
        "factor-gen with the model as the writer of contradictions",
        read.built,
        excused="gave one",
    ),
)
