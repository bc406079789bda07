"""What lies on disk between the stages, and how documents are drawn from again."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from factor_gen.config import load_build
from factor_gen.pipeline import build
from factor_gen.records import Candidate, Draw, Example, Sentence
from factor_gen.settings import (
    BuildSettings,
    ChooseSettings,
    CorpusSettings,
    SelectSettings,
    TypesSettings,
)
from factor_gen.shards import (
    ShardFolder,
    draw_sentences,
    prepare_shard_folder,
    shortfall,
    sufficient_num_types,
)
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
SETTINGS = BuildSettings("x", Path(), CorpusSettings("x.txt"), select=SelectSettings(draws=3))


def test_what_is_written_is_read_and_half_written_files_go(tmp_path: Path) -> None:
    folder = ShardFolder(tmp_path)
    half_written(folder.shard_path(3)).write_text("half")

    folder.write_shard(3, EXAMPLES)

    assert [path.name for path in tmp_path.iterdir()] == ["part-00003.jsonl"]
    assert list(folder.read_shard(3)) == EXAMPLES


def test_a_damaged_or_missing_shard_is_named(tmp_path: Path) -> None:
    folder = ShardFolder(tmp_path / "shards")
    folder.write_shard(0, EXAMPLES)
    text = folder.shard_path(0).read_text(encoding="utf-8")
    for damaged, problem in (
        (text[:-5], r"(?s)part-00000\.jsonl:3: damaged .*remove .*shards"),
        (text.removesuffix("2 examples\n"), r":2: damaged \(the end is missing\)"),
        (text[text.index("\n") + 1 :], ":2: damaged"),
        ("[]\n" + text, ":1: damaged"),
        ('{"doc": 1}\n' + text, ":1: damaged"),
    ):
        folder.shard_path(0).write_text(damaged)
        with pytest.raises(DataError, match=problem):
            list(folder.read_shard(0))
    with pytest.raises(DataError, match=r"part-00001\.jsonl.*No such file"):
        list(folder.read_shard(1))


def test_a_folder_is_emptied_if_its_settings_changed_or_are_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "shards"
    plan = {"select.min_words": 10, "seed": 0}
    prepare_shard_folder(path, plan).write_shard(0, EXAMPLES)
    assert prepare_shard_folder(path, plan).shard_path(0).is_file()

    with caplog.at_level(logging.WARNING):
        folder = prepare_shard_folder(path, {**plan, "select.min_words": 12})
    assert not folder.shard_path(0).exists()
    assert "shards are made again: select.min_words changed" in caplog.text

    folder.write_shard(0, EXAMPLES)
    (path / "settings.json").write_text("{")
    assert not prepare_shard_folder(path, {**plan, "select.min_words": 12}).shard_path(0).exists()


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


@pytest.mark.parametrize(
    ("kinds", "doubts", "choose", "is_enough"),
    [
        ("eep", {}, {}, True),
        ("eee", {}, {}, False),
        ("ep", {}, {}, False),
        ("eepP", {}, {}, True),
        ("eeP", {}, {}, False),
        ("", {}, {}, False),
        ("eep", {2: 2}, {}, False),
        ("eee", {2: 1}, {}, False),
        ("eepp", {3: 2}, {}, True),
        ("eep", {}, {"min_types": 3}, False),
        ("epl", {}, {"min_types": 3}, True),
        ("eep", {2: 1}, {"most_doubtful": 1}, False),
        ("eeep", {3: 2}, {"min_types": 2, "most_doubtful": 2}, False),
    ],
)
def test_three_sure_contradictions_of_two_types_are_enough(
    kinds: str, doubts: Mapping[int, int], choose: Mapping[str, int], is_enough: bool
) -> None:
    settings = replace(SETTINGS, choose=ChooseSettings(**choose))
    draws = draw_sentences([Example("d", "A text.")], settings)
    next(draws)
    if is_enough:
        with pytest.raises(StopIteration):
            draws.send([draw(kinds, doubts)])
    else:
        _, (document,) = draws.send([draw(kinds, doubts)])
        assert document.draw.number == 2


def test_two_types_are_wanted_where_rows_of_them_can_be_had() -> None:
    one_type = replace(SETTINGS, types=TypesSettings(types=("entity",)))
    one_contradiction = replace(SETTINGS, choose=ChooseSettings(contradictions=1))
    assert [sufficient_num_types(each) for each in (SETTINGS, one_type, one_contradiction)] == [
        2,
        1,
        1,
    ]


def test_draws_are_ranked_by_how_far_they_got() -> None:
    worst_first = [
        draw("eep").drop("filter", "some reason"),
        draw("eep", {2: 2}),
        draw("eee", {2: 1}),
        draw("eee"),
        draw("eep"),
    ]
    ranks = [shortfall(example, SETTINGS) for example in worst_first]
    assert ranks == sorted(ranks, reverse=True)
    assert len(set(ranks)) == len(ranks)
    assert shortfall(draw("eepl"), SETTINGS) == shortfall(draw("eep"), SETTINGS) == (0,) * 5


def test_documents_without_a_row_are_drawn_from_where_the_last_draw_ended() -> None:
    repeated = Example("a").drop("read", "the id of another document")
    documents = [
        Example(name, f"The text of {name}.", sentences=(Sentence(0, 14),)) for name in "abcde"
    ]
    draws = draw_sentences([*documents, repeated], SETTINGS, num_groups=2)

    _, first = next(draws)
    assert draws.send(first) == (1, first)
    group, second = draws.send(
        [
            replace(draw("eep"), doc_id="a"),
            replace(draw("eee"), doc_id="b", draw=Draw(tried=1)),
            Example("c").drop("select", "no sentence of 10 words or more"),
            replace(draw(""), doc_id="d", draw=Draw(tried=2)).drop("generate", "nothing"),
            Example("e", draw=Draw(tried=3)).drop("types", "nothing to edit"),
            repeated,
        ]
    )

    assert group == 0
    assert second == [
        replace(documents[1], draw=Draw(2, tried=1)),
        replace(documents[3], draw=Draw(2, tried=2)),
        replace(documents[4], draw=Draw(2, tried=3)),
    ]


def test_the_best_draw_is_kept_with_the_counts_of_all() -> None:
    documents = [Example(name, "A text.") for name in "abcd"]

    def drawn(number: int, examples: Mapping[str, Example]) -> list[Example]:
        return [
            replace(example, doc_id=name, draw=Draw(number)) for name, example in examples.items()
        ]

    first_draw = {
        "a": draw("ee", lost={"no change": 1}),
        "b": draw("eee"),
        "c": draw("").drop("generate", "no contradiction"),
        "d": Example("d").drop("select", "too short"),
    }
    second = draw("eel", lost={"no change": 2, "other": 1})
    nothing_left = Example("c").drop("select", "no other sentence")
    draws = draw_sentences(documents, SETTINGS)
    next(draws)
    draws.send(drawn(1, first_draw))
    draws.send(drawn(2, {"a": second, "b": draw("eeee"), "c": draw("e")}))
    with pytest.raises(StopIteration) as end:
        draws.send(drawn(3, {"b": draw("ep"), "c": nothing_left}))

    best = end.value.value
    kept = [(example.doc_id, example.draw.number, example.draw.total) for example in best]
    assert kept == [("a", 2, 2), ("b", 1, 3), ("c", 2, 2), ("d", 1, 0)]
    assert dict(best[0].lost) == {"no change": 3, "other": 1}
    assert best[3].unused == "select: too short"


class Meagre(TinyStage):
    """Stages that make contradictions of two types of sentences about houses alone."""

    def _one(self, example: Example) -> Example:
        made = super()._one(example)
        is_good = "houses" in example.completion
        return made if is_good else replace(made, candidates=made.candidates[:1])


def open_meagre(settings: BuildSettings, name: str) -> Stage:
    return open_troubled(settings, name) if name == "select" else Meagre(name, settings.seed)


def test_a_build_draws_until_every_document_gives_a_row(tmp_path: Path) -> None:
    settings = replace(load_build(write_corpus(tmp_path, documents=20, shard=4)), workers=1)
    one_draw = replace(settings, select=SelectSettings(draws=1))

    once = build(one_draw, tmp_path / "once", opener=open_meagre)
    many = build(settings, tmp_path / "many", opener=open_meagre)

    assert 0 < once.rows < many.rows == 20
    assert json.loads(many.files["manifest"].read_text())["counts"]["draws"] == [
        {"draw": 1, "documents": 20, "rows": once.rows},
        {"draw": 2, "documents": 20 - once.rows, "rows": 20 - once.rows},
    ]
    unused = [json.loads(line) for line in once.files["unused"].read_text().splitlines()]
    assert {(line["reason"], line["draws"]) for line in unused} == {
        ("fewer than 3 contradictions", 1)
    }
    assert f"| 2 | {20 - once.rows} | {20 - once.rows} |" in many.files["card"].read_text()
