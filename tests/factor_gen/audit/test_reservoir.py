from __future__ import annotations

from factor_gen.audit.audit import Reservoir
from factor_gen.choose import Chosen
from factor_gen.records import Candidate, Example


def items(count: int) -> list[Chosen | Example]:
    false = tuple(
        Candidate(text, "entity", "a -> b", "test") for text in ("It is b.", "It is c.", "It is d.")
    )
    rows = [Chosen(Example(str(number), "Before. ", "It is a."), false) for number in range(count)]
    return [each for row in rows for each in (Example("none", unused="select: empty"), row)]


def test_items_pass_and_some_rows_are_kept() -> None:
    kept = Reservoir(seed=0, size=10)
    assert list(kept.watch(items(200))) == items(200)
    places = [int(row.doc_id) for row in kept.rows]
    assert len(set(places)) == 10
    assert max(places) > 100
    assert kept.rows[0].choices == ("It is a.", "It is b.", "It is c.", "It is d.")
    again = Reservoir(seed=0, size=10)
    list(again.watch(items(200)))
    assert again.rows == kept.rows


def test_few_rows_are_all_kept() -> None:
    kept = Reservoir(seed=0, size=10)
    list(kept.watch(items(7)))
    assert [row.doc_id for row in kept.rows] == [str(number) for number in range(7)]
