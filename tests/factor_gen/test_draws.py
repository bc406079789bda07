"""Drawing again: until a sentence gives enough, the best of all that were drawn; the same bytes
however the work is shared out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.factor_gen.scale import write_documents
from factor_gen.config import load_build
from factor_gen.draws import Again, Goal, best_draws, goal_of, is_met, reached
from factor_gen.pipeline import Built, build
from factor_gen.records import Candidate, Example
from factor_gen.settings import BuildSettings, ChooseSettings, SelectSettings, TypesSettings
from factor_gen.shards import StageFolder
from factor_gen.stages import Stage
from tests.factor_gen.corpora import contents, write_corpus
from tests.factor_gen.tiny_stages import TinyStage, open_troubled


def example(doc_id: str, kinds: str, draw: int = 1, **keys: Any) -> Example:
    """A draw with a contradiction for each letter of ``kinds``, which stands for its type; in
    capitals it is rejected."""
    names = {"e": "entity", "p": "predicate", "l": "link"}
    found = tuple(
        Candidate(
            f"It is {place}.",
            names[kind.lower()],
            "",
            "test",
            rejected="bad" if kind.isupper() else "",
        )
        for place, kind in enumerate(kinds)
    )
    return Example(doc_id, "Before. ", f"Sentence {draw}.", candidates=found, draw=draw, **keys)


GOAL = Goal(3, 2, 1, 2)


def with_doubt(doc_id: str, kinds: str, *doubtful: int, doubt: int = 2) -> Example:
    """The same, with those at the places ``doubtful`` that are."""
    made = example(doc_id, kinds)
    return replace(
        made,
        candidates=tuple(
            replace(each, doubtful=doubt * (i in doubtful))
            for i, each in enumerate(made.candidates)
        ),
    )


def folders(path: Path, *draws: Sequence[Example]) -> list[StageFolder]:
    found = [StageFolder(path / f"{number}-filter") for number, _ in enumerate(draws, start=1)]
    for folder, examples in zip(found, draws, strict=True):
        folder.write(0, examples)
    return found


@pytest.mark.parametrize(
    ("kinds", "met"),
    [
        ("eep", True),
        ("eee", False),
        ("ep", False),
        ("eepP", True),
        ("eeP", False),
        ("", False),
        ("eepl", True),
    ],
)
def test_three_contradictions_of_two_types_end_the_draws(kinds: str, met: bool) -> None:
    assert is_met(example("d", kinds), GOAL) is met
    assert reached(example("d", kinds).drop("filter", "some reason"), GOAL) < (6, 0, 0, 0, 0)


def test_doubtful_contradictions_do_not_end_the_draws() -> None:
    """Three that are sure, be they of one type, are better than three of two types with one that is
    not."""
    sure, mixed, few = example("d", "eee"), with_doubt("d", "eep", 2), with_doubt("d", "eepp", 2, 3)
    assert not is_met(mixed, GOAL)
    assert not is_met(sure, GOAL)
    less = with_doubt("d", "eee", 2, doubt=1)
    assert not is_met(less, GOAL)
    assert (
        reached(few, GOAL)
        == reached(mixed, GOAL)
        < reached(less, GOAL)
        < reached(sure, GOAL)
        < reached(example("d", "eep"), GOAL)
    )
    assert is_met(with_doubt("d", "eepp", 3), GOAL)


def test_a_draw_that_gives_a_row_is_better_than_a_surer_one_that_gives_none() -> None:
    goal = Goal(3, 2, 2, 2)
    assert reached(example("d", "eee"), goal) < reached(with_doubt("d", "eep", 2), goal)


def test_what_is_wanted_follows_the_settings(tmp_path: Path) -> None:
    settings = load_build(write_corpus(tmp_path))
    assert goal_of(settings) == (3, 2, 1, 2)
    assert goal_of(replace(settings, choose=ChooseSettings(min_types=3))) == (3, 3, 3, 2)
    assert goal_of(replace(settings, choose=ChooseSettings(contradictions=1))) == (1, 1, 1, 2)
    assert goal_of(replace(settings, types=TypesSettings(types=("entity",)))) == (3, 1, 1, 2)


def test_documents_without_a_row_come_back(tmp_path: Path) -> None:
    read = StageFolder(tmp_path / "read")
    texts = [Example(doc_id, f"The text of {doc_id}.", repeated=(4,)) for doc_id in "abcde"]
    read.write(0, [*texts, Example("a").drop("read", "the id of another document")])
    last = [
        example("a", "eep"),
        example("b", "eee", spans=(0, 4, 5, 18), tried=1),
        Example("c").drop("select", "no sentence of 10 words or more"),
        example("d", "", spans=(0, 18), tried=2).drop("generate", "no contradiction"),
        Example("e", tried=3).drop("types", "nothing to edit"),
        Example("a").drop("read", "the id of another document"),
    ]
    (folder,) = folders(tmp_path, last)
    again = Again(read, folder, 2, GOAL).read(0)
    goes_on = [(1, (0, 4, 5, 18), 1), (3, (0, 18), 2), (4, (), 3)]
    assert again == [
        replace(texts[place], draw=2, spans=spans, tried=tried) for place, spans, tried in goes_on
    ]


def test_the_draw_that_got_furthest_is_kept(tmp_path: Path) -> None:
    first = [
        example("a", "eep"),
        example("b", "ee", lost={"no change": 1}),
        example("c", "").drop("generate", "no contradiction"),
        example("d", "eee"),
        Example("e").drop("select", "no sentence of 10 words or more"),
    ]
    second = [
        example("b", "eel", 2, lost={"no change": 2, "other": 1}),
        example("c", "e", 2),
        example("d", "eeee", 2),
    ]
    third = [Example("c", draw=3).drop("select", "no other sentence"), example("d", "ep", 3)]
    found = list(best_draws(folders(tmp_path, first, second, third), 1, GOAL))
    assert [(each.doc_id, each.draw, each.draws) for each in found] == [
        ("a", 1, 1),
        ("b", 2, 2),
        ("c", 2, 2),
        ("d", 1, 3),
        ("e", 1, 0),
    ]
    assert dict(found[1].lost) == {"no change": 3, "other": 1}
    assert found[4].unused == "select: no sentence of 10 words or more"


class Meagre(TinyStage):
    """Stages that make contradictions of two types of sentences about houses alone."""

    def _one(self, one: Example) -> Example:
        made = super()._one(one)
        is_good = "houses" in one.completion
        return made if is_good else replace(made, candidates=made.candidates[:1])


def open_meagre(settings: BuildSettings, name: str) -> Stage:
    return open_troubled(settings, name) if name == "select" else Meagre(name, settings.seed)


def drawn(built: Built) -> list[Mapping[str, int]]:
    found: list[Mapping[str, int]] = json.loads(built.files["manifest"].read_text())["counts"][
        "draws"
    ]
    return found


def test_one_draw_is_the_first_of_many(tmp_path: Path) -> None:
    settings = replace(load_build(write_corpus(tmp_path, documents=20, shard=4)), workers=1)
    once = build(
        replace(settings, select=SelectSettings(draws=1)), tmp_path / "once", opener=open_meagre
    )
    many = build(settings, tmp_path / "many", opener=open_meagre)
    assert (once.rows, many.rows) == (20 - once.unused["choose", "fewer than 3 contradictions"], 20)
    assert drawn(once) == [{"draw": 1, "documents": 20, "rows": once.rows}]
    assert drawn(many) == [
        {"draw": 1, "documents": 20, "rows": once.rows},
        {"draw": 2, "documents": 20 - once.rows, "rows": 20 - once.rows},
    ]
    assert 0 < once.rows < 20
    assert not (tmp_path / "once/stages/6-select").exists()
    unused = [json.loads(line) for line in once.files["unused"].read_text().splitlines()]
    assert {(each["reason"], each["draws"]) for each in unused} == {
        ("fewer than 3 contradictions", 1)
    }
    assert f"| 2 | {20 - once.rows} | {20 - once.rows} |" in many.files["card"].read_text()


def test_more_draws_go_on_with_those_that_were_made(tmp_path: Path) -> None:
    settings = replace(load_build(write_corpus(tmp_path, documents=20, shard=4)), workers=1)
    out = tmp_path / "out"
    build(replace(settings, select=SelectSettings(draws=1)), out, opener=open_meagre)
    before = {path: path.stat().st_mtime_ns for path in out.glob("stages/*/part-*")}
    build(settings, out, opener=open_meagre)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    build(settings, tmp_path / "other", opener=open_meagre)
    assert contents(out) == contents(tmp_path / "other")


def real(folder: Path) -> BuildSettings:
    write_documents(folder / "articles.jsonl", 40)
    text = "corpus: articles.jsonl\ngenerate: rules\nfilter: none\nshard: 8\n"
    (folder / "articles.yaml").write_text(text, encoding="utf-8")
    return load_build(folder / "articles.yaml")


def test_processes_and_a_killed_build_make_what_one_process_makes(tmp_path: Path) -> None:
    settings = real(tmp_path)
    build(replace(settings, workers=1), tmp_path / "one", until="filter")
    expected = contents(tmp_path / "one")
    assert (
        sum(
            b'"completion"' in line
            for line in expected["stages/10-select/part-00002.jsonl"].splitlines()
        )
        > 0
    )
    built = build(replace(settings, workers=2), tmp_path / "two", until="filter")
    assert contents(tmp_path / "two") == expected
    for path in (tmp_path / "two").glob("stages/[79]-*/part-0000[13]*"):
        path.unlink()
    assert build(replace(settings, workers=1), tmp_path / "two", until="filter") == built
    assert contents(tmp_path / "two") == expected


@pytest.mark.slow
def test_ray_draws_the_same(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="needs the extra ray")
    settings = real(tmp_path)
    build(replace(settings, workers=1), tmp_path / "local")
    build(replace(settings, engine="ray", workers=2), tmp_path / "ray")
    assert contents(tmp_path / "ray") == contents(tmp_path / "local")
