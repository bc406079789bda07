"""What lies on disk between the stages, and how documents are drawn from again."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from factor_gen.config import load_build
from factor_gen.pipeline import Built, build
from factor_gen.records import Candidate, Example
from factor_gen.settings import BuildSettings, ChooseSettings, SelectSettings, TypesSettings
from factor_gen.shards import Goal, Shard, ShardFolder, goal_of, prepare, rank, split
from factor_gen.stages import Stage
from lm_factuality.ground.errors import DataError
from tests.conftest import half_written
from tests.factor_gen.corpora import write_corpus
from tests.factor_gen.tiny_stages import TinyStage, open_troubled

EXAMPLES = [
    Example(
        "a",
        "He left.\r\n\u2028 ",
        "She \x00 stayed.",
        ("entity",),
        (Candidate("x", "entity", "a -> b", "rules", 0.5),),
        {"why": 2},
    ),
    Example("b").drop("select", "the text is empty"),
]
GOAL = Goal(contradictions=3, types=2, least_types=1, most_doubtful=2)


# The folders


@pytest.mark.parametrize("examples", [EXAMPLES, []])
def test_what_is_written_is_read(tmp_path: Path, examples: list[Example]) -> None:
    folder = ShardFolder(tmp_path)

    folder.write(3, examples)

    assert [path.name for path in tmp_path.iterdir()] == ["part-00003.jsonl"]
    assert folder.has(3)
    assert list(folder.read(3)) == examples


def test_a_damaged_or_missing_shard_is_named(tmp_path: Path) -> None:
    folder = ShardFolder(tmp_path / "shards")
    folder.write(0, EXAMPLES)
    text = folder.part(0).read_text(encoding="utf-8")
    lines = text.split("\n")
    for damaged, problem in (
        (text[:-5], r"part-00000\.jsonl:3: damaged .*remove .*shards"),
        ("\n".join(lines[:1]), "the end is missing"),
        ("\n".join(lines[:2]), "the end is missing"),
        ("\n".join(lines[1:]), "the end is missing"),
        ("", "the end is missing"),
        ("[]\n" + text, ":1: damaged"),
        ('{"doc": 1}\n' + text, ":1: damaged"),
    ):
        folder.part(0).write_text(damaged)
        with pytest.raises(DataError, match=problem):
            list(folder.read(0))
    with pytest.raises(DataError, match="the shard is not there"):
        list(folder.read(1))


def test_shards_are_cut_by_number_and_by_length() -> None:
    short = [Example(str(number), prefix="x") for number in range(5)]
    long = [Example(str(number), prefix="x" * 9_000_000) for number in range(3)]

    assert [len(shard) for shard in split(short, 2)] == [2, 2, 1]
    assert [len(shard) for shard in split(long, 2)] == [1, 1, 1]
    assert list(split([], 2)) == []


def finished(root: Path) -> list[str]:
    return sorted(path.parent.name for path in root.glob("*/part-*.jsonl"))


def test_a_changed_setting_removes_its_folder_and_those_after_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plans = {
        "documents": {"shard": 2},
        "shards": {"select.min_words": 10, "seed": 0},
    }
    for folder in prepare(tmp_path, plans):
        folder.write(0, EXAMPLES)

    prepare(tmp_path, plans)
    assert finished(tmp_path) == ["documents", "shards"]

    with caplog.at_level(logging.WARNING):
        prepare(tmp_path, {**plans, "shards": {"select.min_words": 12, "seed": 0}})
    assert finished(tmp_path) == ["documents"]
    assert "shards are made again: select.min_words changed" in caplog.text

    prepare(tmp_path, plans)[1].write(0, EXAMPLES)
    prepare(tmp_path, {**plans, "documents": {"shard": 3}})
    assert finished(tmp_path) == []


def test_what_a_killed_build_left_half_written_is_removed(tmp_path: Path) -> None:
    (folder,) = prepare(tmp_path, {"documents": {"shard": 2}})
    half_written(folder.part(0)).write_text("half")

    folder.write(0, EXAMPLES)

    assert sorted(path.name for path in folder.path.iterdir()) == [
        "part-00000.jsonl",
        "settings.json",
    ]


def test_a_folder_without_its_settings_is_not_trusted(tmp_path: Path) -> None:
    plans = {"documents": {"shard": 2}}
    prepare(tmp_path, plans)[0].write(0, EXAMPLES)
    (tmp_path / "documents" / "settings.json").write_text("{")

    prepare(tmp_path, plans)

    assert finished(tmp_path) == []


# Drawing again


def draw(kinds: str, doubts: Mapping[int, int] | None = None, **keys: Any) -> Example:
    """An example with a contradiction for each letter, which stands for its type.

    A capital is rejected. ``doubts`` says how doubtful the contradictions at some places are.
    """
    names = {"e": "entity", "p": "predicate", "l": "link"}
    candidates = [
        Candidate(
            text=f"It is {place}.",
            type=names[kind.lower()],
            edit="",
            generator="test",
            rejected="bad" if kind.isupper() else "",
            doubtful=(doubts or {}).get(place, 0),
        )
        for place, kind in enumerate(kinds)
    ]
    return Example("d", "Before. ", "A sentence.", candidates=tuple(candidates), **keys)


def is_enough(example: Example, goal: Goal = GOAL) -> bool:
    """Whether a document of which this is the first draw is not drawn from again."""
    return not Shard(0, [Example("d", "A text.")], goal, draws=2).end_draw([example])


@pytest.mark.parametrize(
    ("kinds", "doubts", "expected"),
    [
        ("eep", {}, True),
        ("eee", {}, False),
        ("ep", {}, False),
        ("eepP", {}, True),
        ("eeP", {}, False),
        ("", {}, False),
        ("eepl", {}, True),
        ("eep", {2: 2}, False),
        ("eee", {2: 1}, False),
        ("eepp", {3: 2}, True),
    ],
)
def test_three_sure_contradictions_of_two_types_are_enough(
    kinds: str, doubts: Mapping[int, int], expected: bool
) -> None:
    assert is_enough(draw(kinds, doubts)) == expected


def test_draws_are_ranked_by_how_far_they_got() -> None:
    worst_first = [
        draw("eep").drop("filter", "some reason"),
        draw("eep", {2: 2}),
        draw("eee", {2: 1}),
        draw("eee"),
        draw("eep"),
    ]
    ranks = [rank(example, GOAL) for example in worst_first]

    assert ranks == sorted(ranks)
    assert len(set(ranks)) == len(ranks)
    assert rank(draw("eepp", {2: 2, 3: 2}), GOAL) == rank(draw("eep", {2: 2}), GOAL)


def test_a_draw_that_gives_a_row_is_better_than_a_surer_one_that_gives_none() -> None:
    goal = Goal(contradictions=3, types=2, least_types=2, most_doubtful=2)

    assert rank(draw("eee"), goal) < rank(draw("eep", {2: 2}), goal)


def test_the_goal_follows_the_settings(tmp_path: Path) -> None:
    settings = load_build(write_corpus(tmp_path))

    assert goal_of(settings) == (3, 2, 1, 2)
    assert goal_of(replace(settings, choose=ChooseSettings(min_types=3))) == (3, 3, 3, 2)
    assert goal_of(replace(settings, choose=ChooseSettings(contradictions=1))) == (1, 1, 1, 2)
    assert goal_of(replace(settings, types=TypesSettings(types=("entity",)))) == (3, 1, 1, 2)


def test_documents_without_a_row_are_drawn_from_where_the_last_draw_ended() -> None:
    repeated = Example("a").drop("read", "the id of another document")
    documents = [Example(name, f"The text of {name}.", repeated=(4,)) for name in "abcde"]
    shard = Shard(0, [*documents, repeated], GOAL, draws=3)

    has_another = shard.end_draw(
        [
            replace(draw("eep"), doc_id="a"),
            replace(draw("eee", spans=(0, 4, 5, 18), tried=1), doc_id="b"),
            Example("c").drop("select", "no sentence of 10 words or more"),
            replace(draw("", spans=(0, 18), tried=2), doc_id="d").drop("generate", "nothing"),
            Example("e", tried=3).drop("types", "nothing to edit"),
            repeated,
        ]
    )

    assert has_another
    assert shard.examples == [
        replace(documents[1], draw=2, spans=(0, 4, 5, 18), tried=1),
        replace(documents[3], draw=2, spans=(0, 18), tried=2),
        replace(documents[4], draw=2, tried=3),
    ]


def test_the_best_draw_is_kept_with_the_counts_of_all() -> None:
    shard = Shard(0, [Example(name, "A text.") for name in "abcd"], GOAL, draws=3)

    def end_draw(number: int, examples: Iterable[tuple[str, Example]]) -> bool:
        draws: Sequence[Example] = [
            replace(example, doc_id=name, draw=number) for name, example in examples
        ]
        return shard.end_draw(draws)

    second = draw("eel", lost={"no change": 2, "other": 1})
    nothing_left = Example("c").drop("select", "no other sentence")
    first_draw = {
        "a": draw("ee", lost={"no change": 1}),
        "b": draw("eee"),
        "c": draw("").drop("generate", "no contradiction"),
        "d": Example("d").drop("select", "too short"),
    }
    assert end_draw(1, first_draw.items())
    assert end_draw(2, {"a": second, "b": draw("eeee"), "c": draw("e")}.items())
    assert not end_draw(3, {"b": draw("ep"), "c": nothing_left}.items())

    kept = [(each.doc_id, each.draw, each.draws) for each in shard.results]
    assert kept == [("a", 2, 2), ("b", 1, 3), ("c", 2, 2), ("d", 1, 0)]
    assert dict(shard.results[0].lost) == {"no change": 3, "other": 1}
    assert shard.results[3].unused == "select: too short"


class Meagre(TinyStage):
    """Stages that make contradictions of two types of sentences about houses alone."""

    def _one(self, one: Example) -> Example:
        made = super()._one(one)
        is_good = "houses" in one.completion
        return made if is_good else replace(made, candidates=made.candidates[:1])


def open_meagre(settings: BuildSettings, name: str) -> Stage:
    return open_troubled(settings, name) if name == "select" else Meagre(name, settings.seed)


def counted_draws(built: Built) -> Any:
    return json.loads(built.files["manifest"].read_text())["counts"]["draws"]


def test_a_build_draws_until_every_document_gives_a_row(tmp_path: Path) -> None:
    settings = replace(load_build(write_corpus(tmp_path, documents=20, shard=4)), workers=1)
    one_draw = replace(settings, select=SelectSettings(draws=1))

    once = build(one_draw, tmp_path / "once", opener=open_meagre)
    many = build(settings, tmp_path / "many", opener=open_meagre)

    assert 0 < once.rows < many.rows == 20
    assert counted_draws(once) == [{"draw": 1, "documents": 20, "rows": once.rows}]
    assert counted_draws(many) == [
        {"draw": 1, "documents": 20, "rows": once.rows},
        {"draw": 2, "documents": 20 - once.rows, "rows": 20 - once.rows},
    ]
    unused = [json.loads(line) for line in once.files["unused"].read_text().splitlines()]
    assert {(line["reason"], line["draws"]) for line in unused} == {
        ("fewer than 3 contradictions", 1)
    }
    assert f"| 2 | {20 - once.rows} | {20 - once.rows} |" in many.files["card"].read_text()
