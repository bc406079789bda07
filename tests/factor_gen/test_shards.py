"""The shards between the stages of a build, and further draws from documents without a row."""

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
    RunningShard,
    ShardFolder,
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
    # A text with line breaks and a control character.
    Example(
        doc_id="a",
        prefix="He left.\r\n\u2028 ",
        completion="She \x00 stayed.",
        types=("entity",),
        candidates=(Candidate("x", "entity", "a -> b", "rules", 0.5),),
        lost={"why": 2},
    ),
    Example("b").drop("select", "the text is empty"),
]
SETTINGS = BuildSettings("x", Path(), CorpusSettings("x.txt"), select=SelectSettings(draws=3))


def test_written_shard_replaces_a_partial_shard_and_is_read_back(tmp_path: Path) -> None:
    """A build that was killed leaves a file that it was writing."""
    folder = ShardFolder(tmp_path)
    half_written(folder.shard_path(3)).write_text("half")

    folder.write_shard(3, EXAMPLES)

    assert [path.name for path in tmp_path.iterdir()] == ["part-00003.jsonl"]
    assert list(folder.read_shard(3)) == EXAMPLES


@pytest.fixture
def shards(tmp_path: Path) -> ShardFolder:
    """Return a folder with one shard."""
    folder = ShardFolder(tmp_path / "shards")
    folder.write_shard(0, EXAMPLES)
    return folder


def test_truncated_shard_is_refused_with_its_line(shards: ShardFolder) -> None:
    """If the disk is full, the end of a file is missing, and its documents must not be lost."""
    text = shards.shard_path(0).read_text(encoding="utf-8")
    shards.shard_path(0).write_text(text[:-5])

    with pytest.raises(DataError, match=r"(?s)part-00000\.jsonl:3: damaged .*remove .*shards"):
        list(shards.read_shard(0))


def test_a_shard_without_its_last_line_is_refused(shards: ShardFolder) -> None:
    """The last line counts the examples, so a file without it may lack some."""
    text = shards.shard_path(0).read_text(encoding="utf-8")
    shards.shard_path(0).write_text(text.removesuffix("2 examples\n"))

    with pytest.raises(DataError, match=r":2: damaged \(the end is missing\)"):
        list(shards.read_shard(0))


def test_a_shard_without_its_first_line_is_refused(shards: ShardFolder) -> None:
    """The last line counts two examples, and one is left."""
    text = shards.shard_path(0).read_text(encoding="utf-8")
    _, other_lines = text.split("\n", 1)
    shards.shard_path(0).write_text(other_lines)

    with pytest.raises(DataError, match=":2: damaged"):
        list(shards.read_shard(0))


@pytest.mark.parametrize("line", ["[]", '{"doc": 1}'])
def test_a_line_that_is_no_example_is_refused(shards: ShardFolder, line: str) -> None:
    """Someone may have edited the file."""
    text = shards.shard_path(0).read_text(encoding="utf-8")
    shards.shard_path(0).write_text(f"{line}\n{text}")

    with pytest.raises(DataError, match=":1: damaged"):
        list(shards.read_shard(0))


def test_a_missing_shard_is_named(shards: ShardFolder) -> None:
    with pytest.raises(DataError, match=r"part-00001\.jsonl.*No such file"):
        list(shards.read_shard(1))


PLAN = {"select.min_words": 10, "seed": 0}
"""The settings on which the shards of a stage depend."""


@pytest.fixture
def planned_shards(tmp_path: Path) -> ShardFolder:
    """Return a folder with one shard that was made with the settings of `PLAN`."""
    folder = prepare_shard_folder(tmp_path / "shards", PLAN)
    folder.write_shard(0, EXAMPLES)
    return folder


def test_shards_with_the_same_settings_stay(planned_shards: ShardFolder, tmp_path: Path) -> None:
    """An interrupted build must not make them again."""
    prepare_shard_folder(tmp_path / "shards", PLAN)

    assert planned_shards.shard_path(0).is_file()


def test_shards_with_other_settings_are_removed_with_a_warning(
    planned_shards: ShardFolder, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The warning names the setting that has changed."""
    with caplog.at_level(logging.WARNING):
        prepare_shard_folder(tmp_path / "shards", {**PLAN, "select.min_words": 12})

    assert not planned_shards.shard_path(0).exists()
    assert "shards are made again: select.min_words changed" in caplog.text


def test_shards_with_unreadable_settings_are_removed(
    planned_shards: ShardFolder, tmp_path: Path
) -> None:
    """Nobody can tell with which settings they were made."""
    (tmp_path / "shards" / "settings.json").write_text("{")

    prepare_shard_folder(tmp_path / "shards", PLAN)

    assert not planned_shards.shard_path(0).exists()


def example_with(*types: str, rejected_types: tuple[str, ...] = (), **fields: Any) -> Example:
    """Return an example with contradictions of these error types.

    Args:
        types: The error type of each contradiction.
        rejected_types: The error type of each further contradiction, which a filter rejected.
        fields: Other fields of the example.
    """
    candidates = []
    for error_type in types:
        text = f"It is {len(candidates)}."
        candidates.append(Candidate(text, error_type, edit="", generator="test"))
    for error_type in rejected_types:
        text = f"It is {len(candidates)}."
        candidates.append(Candidate(text, error_type, edit="", generator="test", rejected="bad"))
    return Example("d", "Before. ", "A sentence.", candidates=tuple(candidates), **fields)


def needs_second_draw(example: Example, **choose: int) -> bool:
    """Return whether another sentence is drawn from a document after its first draw.

    Args:
        example: The first draw from the document.
        choose: Settings of the choice, such as ``min_types``.
    """
    settings = replace(SETTINGS, choose=ChooseSettings(**choose))
    shard = RunningShard(0, [Example("d", "A text.")], settings)

    shard.advance([example])

    draw_numbers = [document.draw.number for document in shard.examples]
    assert draw_numbers in ([], [2])
    return bool(draw_numbers)


@pytest.mark.parametrize(
    ("example", "choose"),
    [
        pytest.param(example_with("entity", "entity", "predicate"), {}, id="three of two types"),
        pytest.param(
            example_with("entity", "entity", "predicate", rejected_types=("predicate",)),
            {},
            id="three and a rejected one",
        ),
        pytest.param(
            example_with("entity", "predicate", "link"),
            {"min_types": 3},
            id="three types, as required",
        ),
    ],
)
def test_three_contradictions_of_two_types_need_no_second_draw(
    example: Example, choose: Mapping[str, int]
) -> None:
    assert not needs_second_draw(example, **choose)


@pytest.mark.parametrize(
    ("example", "choose"),
    [
        pytest.param(example_with(), {}, id="none"),
        pytest.param(example_with("entity", "predicate"), {}, id="two"),
        pytest.param(example_with("entity", "entity", "entity"), {}, id="one type"),
        pytest.param(
            example_with("entity", "entity", rejected_types=("predicate",)),
            {},
            id="two and a rejected one",
        ),
        pytest.param(
            example_with("entity", "entity", "predicate"),
            {"min_types": 3},
            id="two of three required types",
        ),
    ],
)
def test_fewer_contradictions_need_a_second_draw(
    example: Example, choose: Mapping[str, int]
) -> None:
    """A row needs three contradictions, of two error types if possible."""
    assert needs_second_draw(example, **choose)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({}, 2, id="default"),
        pytest.param({"types": TypesSettings(types=("entity",))}, 1, id="one type is generated"),
        pytest.param({"choose": ChooseSettings(contradictions=1)}, 1, id="one contradiction"),
    ],
)
def test_two_types_suffice_for_a_row(changes: Mapping[str, Any], expected: int) -> None:
    """A row cannot have two types if only one is generated, or if it has one contradiction."""
    assert sufficient_num_types(replace(SETTINGS, **changes)) == expected


def test_draws_are_ranked_by_missing_contradictions() -> None:
    """A row needs three contradictions of two types, and a dropped draw gives none."""
    dropped = example_with("entity", "entity", "predicate").drop("filter", "some reason")
    of_one_type = example_with("entity", "entity", "entity")
    sufficient = example_with("entity", "entity", "predicate")

    assert shortfall(dropped, SETTINGS) > shortfall(of_one_type, SETTINGS)
    assert shortfall(of_one_type, SETTINGS) > shortfall(sufficient, SETTINGS)


@pytest.mark.parametrize(
    "types", [("entity", "entity", "predicate"), ("entity", "entity", "predicate", "link")]
)
def test_a_draw_with_enough_contradictions_lacks_nothing(types: tuple[str, ...]) -> None:
    """The first draw with the smallest shortfall is kept."""
    assert shortfall(example_with(*types), SETTINGS) == (0, 0, 0, 0)


def test_stages_of_the_second_group_get_the_results_of_the_first() -> None:
    document = Example("a", "A text.")
    shard = RunningShard(0, [document], SETTINGS, num_groups=2)

    shard.advance([document])

    assert shard.group == 1
    assert shard.examples == [document]


@pytest.mark.parametrize(
    "result",
    [
        pytest.param(example_with("entity", "entity", "entity"), id="contradictions of one type"),
        pytest.param(example_with().drop("generate", "nothing"), id="no contradiction"),
        pytest.param(Example("d").drop("types", "nothing to edit"), id="nothing to edit"),
    ],
)
def test_second_draw_skips_tried_sentences(result: Example) -> None:
    """The first two sentences of the document were tried, and gave no row."""
    document = Example("d", "A text.", sentences=(Sentence(0, 7),))
    shard = RunningShard(0, [document], SETTINGS)

    shard.advance([replace(result, draw=Draw(number=1, tried=2))])

    assert shard.examples == [replace(document, draw=Draw(number=2, tried=2))]


def test_second_draw_is_from_the_document_without_a_row() -> None:
    a = Example("a", "The text of a.")
    b = Example("b", "The text of b.")
    shard = RunningShard(0, [a, b], SETTINGS)
    row_of_a = replace(example_with("entity", "entity", "predicate"), doc_id="a")
    result_of_b = replace(example_with("entity"), doc_id="b", draw=Draw(number=1, tried=1))

    shard.advance([row_of_a, result_of_b])

    assert shard.examples == [replace(b, draw=Draw(number=2, tried=1))]


@pytest.mark.parametrize(
    "result",
    [
        pytest.param(
            Example("d").drop("select", "no sentence of 10 words or more"), id="no other sentence"
        ),
        pytest.param(Example("d").drop("read", "the id of another document"), id="unreadable"),
    ],
)
def test_no_second_draw_is_made_without_another_sentence(result: Example) -> None:
    shard = RunningShard(0, [Example("d", "A text.")], SETTINGS)

    shard.advance([result])

    assert shard.examples == []


def test_second_draw_is_made_in_the_first_group_of_stages() -> None:
    """Another sentence has to pass through all stages."""
    document = Example("d", "A text.")
    shard = RunningShard(0, [document], SETTINGS, num_groups=2)
    shard.advance([document])

    shard.advance([example_with("entity")])

    assert shard.group == 0
    assert [example.draw.number for example in shard.examples] == [2]


def numbered_draws(number: int, examples: Mapping[str, Example]) -> list[Example]:
    """Return the examples of a draw by document as draws with this number."""
    return [
        replace(example, doc_id=doc_id, draw=Draw(number)) for doc_id, example in examples.items()
    ]


def test_best_draw_is_kept_with_the_counts_of_all_draws() -> None:
    """A row needs three contradictions of two types, which only the second draw of "a" has."""
    shard = RunningShard(0, [Example(doc_id, "A text.") for doc_id in "abcd"], SETTINGS)
    first_draws = {
        "a": example_with("entity", "entity", lost={"no change": 1}),
        "b": example_with("entity", "entity", "entity"),
        "c": example_with().drop("generate", "no contradiction"),
        "d": Example("d").drop("select", "too short"),
    }
    second_draws = {
        "a": example_with("entity", "entity", "link", lost={"no change": 2, "other": 1}),
        "b": example_with("entity", "entity", "entity", "entity"),
        "c": example_with("entity"),
    }
    third_draws = {
        "b": example_with("entity", "predicate"),
        "c": Example("c").drop("select", "no other sentence"),
    }

    for number, draws in enumerate((first_draws, second_draws, third_draws), start=1):
        shard.advance(numbered_draws(number, draws))

    best = {example.doc_id: example for example in shard.best_draws.values()}
    number_of_best_draw = {doc_id: example.draw.number for doc_id, example in best.items()}
    number_of_draws = {doc_id: example.draw.total for doc_id, example in best.items()}
    assert not shard.examples
    assert number_of_best_draw == {"a": 2, "b": 1, "c": 2, "d": 1}
    assert number_of_draws == {"a": 2, "b": 3, "c": 2, "d": 0}
    assert dict(best["a"].lost) == {"no change": 1 + 2, "other": 1}
    # No stage rejected the contradictions of the draws that are not kept.
    not_rejected = ""
    assert best["a"].discarded == {not_rejected: 2}
    assert best["b"].discarded == {not_rejected: 4 + 2}
    assert best["d"].unused == "select: too short"


class MeagreStage(TinyStage):
    """A stage that makes two contradictions of sentences about houses, and one of others."""

    def _one(self, example: Example) -> Example:
        result = super()._one(example)
        if "houses" in example.completion:
            return result
        return replace(result, candidates=result.candidates[:1])


def open_meagre(settings: BuildSettings, name: str) -> Stage:
    """Open the real ``select``, and a meagre stage of any other name."""
    if name == "select":
        return open_troubled(settings, name)
    return MeagreStage(name, settings.seed)


@pytest.fixture
def meagre_settings(tmp_path: Path) -> BuildSettings:
    """Return the settings of a build of 20 documents."""
    config = write_corpus(tmp_path, documents=20, shard=4)
    return replace(load_build(config), workers=1)


def test_a_build_draws_until_every_document_gives_a_row(
    meagre_settings: BuildSettings, tmp_path: Path
) -> None:
    """Each document has two sentences, of which the one about houses has enough contradictions."""
    one_draw = replace(meagre_settings, select=SelectSettings(draws=1))
    rows_of_first_draw = build(one_draw, tmp_path / "once", opener=open_meagre).rows

    built = build(meagre_settings, tmp_path / "many", opener=open_meagre)

    assert 0 < rows_of_first_draw < 20
    assert built.rows == 20


def test_manifest_and_card_say_how_many_rows_each_draw_gave(
    meagre_settings: BuildSettings, tmp_path: Path
) -> None:
    one_draw = replace(meagre_settings, select=SelectSettings(draws=1))
    rows_of_first_draw = build(one_draw, tmp_path / "once", opener=open_meagre).rows

    built = build(meagre_settings, tmp_path / "many", opener=open_meagre)

    num_second_draws = 20 - rows_of_first_draw
    manifest = json.loads(built.files["manifest"].read_text())
    assert manifest["counts"]["draws"] == [
        {"draw": 1, "documents": 20, "rows": rows_of_first_draw},
        {"draw": 2, "documents": num_second_draws, "rows": num_second_draws},
    ]
    card_row = f"| 2 | {num_second_draws} | {num_second_draws} |"
    assert card_row in built.files["card"].read_text()


def test_documents_without_a_row_are_listed_with_their_number_of_draws(
    meagre_settings: BuildSettings, tmp_path: Path
) -> None:
    """A draw is a sentence that was tried. A user sees whether more draws might help.

    Here some sentences get one contradiction only.
    """
    one_draw = replace(meagre_settings, select=SelectSettings(draws=1))

    built = build(one_draw, tmp_path / "once", opener=open_meagre)

    unused_documents = map(json.loads, built.files["unused"].read_text().splitlines())
    reasons_and_draws = {(document["reason"], document["draws"]) for document in unused_documents}
    assert reasons_and_draws == {("fewer than 3 contradictions", 1)}
