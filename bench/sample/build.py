"""Writes the embedded default's data: ``sample_corpus.jsonl``, which ``factor-gen`` makes
``sample_factor`` from, ``sample_felm.jsonl`` and ``sample_ambigbio*.json`` in the formats of the
published benchmarks, the prompts of ``sample_longform``, the questions of ``sample_simpleqa``, and the encyclopedia itself.

``python -m bench.sample.build --out tasks/sample``
"""

import argparse
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.sample.answers import build_answers
from bench.sample.articles import Article, build_documents, corpus
from bench.sample.biographies import build_biographies
from bench.sample.questions import build_questions
from bench.sample.world import Entity, World, build_world
from lm_factuality.ground.files import write_json, write_lines

ANSWERS = 120
QUESTIONS = 120
_PROMPTS = {
    "town": "Tell me about the town of {}.",
    "institution": "Write an article about the {}.",
}


def write_encyclopedia(world: World, path: Path) -> int:
    """Writes one JSON object an article (id, kind, title, name, text); returns how many."""
    return _write(path, (_article(article.entity, article.body) for article in corpus(world)))


def _article(entity: Entity, text: str) -> dict[str, str]:
    return {
        "id": entity.entity_id,
        "kind": entity.kind,
        "title": entity.title,
        "name": entity.name,
        "text": text,
    }


def write_corpus(world: World, path: Path) -> int:
    """Writes one JSON object a document (id, title, text), which ``factor-gen`` makes the FACTOR
    rows from; returns how many."""
    return _write(path, map(asdict, build_documents(world)))


def _write(path: Path, records: Iterable[Mapping[str, Any]]) -> int:
    lines = [json.dumps(record, ensure_ascii=False) for record in records]
    write_lines(path, lines)
    return len(lines)


def write_prompts(world: World, path: Path) -> int:
    """Writes one JSON object a place (prompt, title, topic, the passages on it); returns how
    many."""
    places = [article for article in corpus(world) if article.entity.kind != "person"]
    return _write(path, map(_prompt, places))


def _prompt(article: Article) -> dict[str, Any]:
    about = article.entity
    passages = [{"title": about.title, "text": article.body}]
    return {
        "prompt": _PROMPTS[about.kind].format(about.name),
        "title": about.title,
        "topic": about.kind,
        "passages": passages,
    }


def write_biographies(world: World, folder: Path) -> int:
    """Writes AmbigBio-style files: ``sample_ambigbio.json``, the questions with their passages;
    ``_generations.json``, made-up answers to them; ``_truth.jsonl``, what is true of each answer.
    Returns how many answers there are."""
    biographies = list(build_biographies(world))
    questions = {biography.question: biography.to_question() for biography in biographies}
    write_json(folder / "sample_ambigbio.json", {"data": list(questions.values())})
    write_json(
        folder / "sample_ambigbio_generations.json",
        {"data": [each.to_row() for each in biographies]},
    )
    return _write(folder / "sample_ambigbio_truth.jsonl", (each.to_truth() for each in biographies))


def main(argv: list[str] | None = None) -> None:
    """Writes the files under ``--out``."""
    parser = argparse.ArgumentParser(prog="python -m bench.sample.build", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder that gets the files")
    parser.add_argument("--seed", type=int, default=0, help="seed of the world (default 0)")
    arguments = parser.parse_args(argv)
    world = build_world(arguments.seed)
    arguments.out.mkdir(parents=True, exist_ok=True)
    documents = write_corpus(world, arguments.out / "sample_corpus.jsonl")
    articles = write_encyclopedia(world, arguments.out / "encyclopedia.jsonl")
    answers = _write(arguments.out / "sample_felm.jsonl", build_answers(world, ANSWERS))
    questions = _write(arguments.out / "sample_simpleqa.jsonl", build_questions(world, QUESTIONS))
    biographies = write_biographies(world, arguments.out)
    prompts = write_prompts(world, arguments.out / "sample_longform.jsonl")
    parser.exit(
        0,
        f"{documents} documents, {answers} answers, {questions} questions, {biographies} biographies, {prompts} prompts and {articles} articles "
        f"written to {arguments.out}\n",
    )


if __name__ == "__main__":
    main()
