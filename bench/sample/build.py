"""Writes the data of the sample benchmarks from the fictional world.

    python -m bench.sample.build --out tasks/sample

The files are the encyclopedia, the documents of which factor-gen makes ``sample_factor``, rows in
the formats of FELM, SimpleQA and AmbigBio, and prompts for long answers.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.sample.answers import build_answers
from bench.sample.articles import build_documents, build_encyclopedia
from bench.sample.biographies import build_biographies
from bench.sample.questions import build_questions
from bench.sample.world import World, build_world
from lm_factuality.ground.files import write_json, write_lines

NUM_ANSWERS = 120
NUM_QUESTIONS = 120

_PROMPTS = {
    "town": "Tell me about the town of {}.",
    "institution": "Write an article about the {}.",
}


def write_corpus(world: World, path: Path) -> int:
    """Write the documents of which factor-gen makes ``sample_factor``.

    Returns:
        The number of documents, each of which is a line with ``id``, ``title`` and ``text``.
    """
    return _write_records(path, map(asdict, build_documents(world)))


def write_encyclopedia(world: World, path: Path) -> int:
    """Write the articles of the encyclopedia.

    Returns:
        The number of articles, each of which is a line with ``id``, ``kind``, ``title``, ``name``
        and ``text``.
    """
    records = []
    for article in build_encyclopedia(world):
        record = {
            "id": article.entity.entity_id,
            "kind": article.entity.kind,
            "title": article.entity.title,
            "name": article.entity.name,
            "text": article.body,
        }
        records.append(record)
    return _write_records(path, records)


def write_biographies(world: World, folder: Path) -> int:
    """Write the files of the sample of AmbigBio to a folder.

    ``sample_ambigbio.json`` holds the questions with their passages,
    ``sample_ambigbio_generations.json`` made-up answers, and ``sample_ambigbio_truth.jsonl`` what
    is true of each answer.

    Returns:
        The number of answers.
    """
    biographies = list(build_biographies(world))
    questions = {biography.question: biography.to_question() for biography in biographies}
    generations = [biography.to_row() for biography in biographies]
    truths = [biography.to_truth() for biography in biographies]
    write_json(folder / "sample_ambigbio.json", {"data": list(questions.values())})
    write_json(folder / "sample_ambigbio_generations.json", {"data": generations})
    return _write_records(folder / "sample_ambigbio_truth.jsonl", truths)


def write_prompts(world: World, path: Path) -> int:
    """Write a prompt about each town and institution, with its article as the passage.

    Returns:
        The number of prompts, each of which is a line with ``prompt``, ``title``, ``topic`` and
        ``passages``.
    """
    records = []
    for article in build_encyclopedia(world):
        entity = article.entity
        if entity.kind == "person":
            continue
        record = {
            "prompt": _PROMPTS[entity.kind].format(entity.name),
            "title": entity.title,
            "topic": entity.kind,
            "passages": [{"title": entity.title, "text": article.body}],
        }
        records.append(record)
    return _write_records(path, records)


def _write_records(path: Path, records: Iterable[Mapping[str, Any]]) -> int:
    """Write each record as a line of JSON, and return the number of records."""
    lines = [json.dumps(record, ensure_ascii=False) for record in records]
    write_lines(path, lines)
    return len(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Write all files to the folder of ``--out``."""
    description = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser(prog="python -m bench.sample.build", description=description)
    parser.add_argument(
        "--out", type=Path, required=True, help="the folder to which the files are written"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="the seed of the world (default %(default)s)"
    )
    options = parser.parse_args(arguments)
    folder: Path = options.out
    folder.mkdir(parents=True, exist_ok=True)
    world = build_world(options.seed)

    answers = build_answers(world, NUM_ANSWERS)
    questions = build_questions(world, NUM_QUESTIONS)
    counts = {
        "documents": write_corpus(world, folder / "sample_corpus.jsonl"),
        "answers": _write_records(folder / "sample_felm.jsonl", answers),
        "questions": _write_records(folder / "sample_simpleqa.jsonl", questions),
        "biographies": write_biographies(world, folder),
        "prompts": write_prompts(world, folder / "sample_longform.jsonl"),
        "articles": write_encyclopedia(world, folder / "encyclopedia.jsonl"),
    }
    contents = ", ".join(f"{count} {name}" for name, count in counts.items())
    parser.exit(0, f"Wrote {contents} to {folder}.\n")


if __name__ == "__main__":
    main()
