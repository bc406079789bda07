"""Rows that are documents and rows that are not; templates over columns; and the paper's three
corpora on local stand-ins."""

from __future__ import annotations

import datetime
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from factor_gen.config import describe_settings, load_build
from factor_gen.corpus import read_documents
from factor_gen.pipeline import build
from factor_gen.recipe import Condition
from lm_factuality.ground.errors import ConfigError, DataError
from tests.conftest import REPOSITORY
from tests.factor_gen.corpora import contents, town

REUTERS = "https://www.reuters.com/world/"
CONFIGS = REPOSITORY / "configs" / "corpora"


@pytest.mark.parametrize(
    ("said", "value", "failure"),
    [
        ({"one_of": ("en",)}, "en", ""),
        ({"one_of": ("en",)}, "de", "is not en"),
        ({"one_of": (3,)}, "3", ""),  # as CSV has it
        ({"one_of": (3,)}, None, "is not 3"),
        ({"one_of": (True,)}, "true", ""),
        ({"one_of": (True,)}, "False", "is not True"),
        ({"one_of": (True,)}, True, ""),
        ({"one_of": (False,)}, "no", ""),  # Norwegian, which YAML reads as false
        ({"one_of": ("en", False)}, "no", ""),
        ({"one_of": ("en", False)}, "yes", "is not en or False"),
        ({"one_of": ("en", "fr")}, "fr", ""),
        ({"one_of": ("en", "fr")}, "de", "is not en or fr"),
        ({"prefix": "https://"}, "https://a", ""),
        ({"prefix": "https://"}, "see https://a", "does not begin with https://"),
        ({"contains": "news"}, "old news", ""),
        ({"contains": "news"}, ["old news"], ""),
        ({"contains": "news"}, "olds", "does not hold news"),
        ({"at_least": 2.5}, 3, ""),
        ({"at_least": 2.5}, "2.4", "is not at least 2.5"),
        ({"at_least": 2.5}, "many", "is not at least 2.5"),
        ({"at_most": 5}, "5", ""),
        ({"at_most": 5}, float("nan"), "is not at most 5"),
        ({"since": "2021-10-01"}, f"{REUTERS}oil-falls-2021-10-01/", ""),
        (
            {"since": "2021-10-01"},
            f"{REUTERS}oil-falls-2021-09-30/",
            "has no date since 2021-10-01",
        ),
        ({"since": "2021-10-01"}, f"{REUTERS}idUSKBN20211002", "has no date since 2021-10-01"),
        ({"since": "2021-10-01"}, "/2020/01/01/story-2022-01-01", ""),  # the last one
        ({"since": "2021-10-01"}, datetime.datetime(2022, 1, 2), ""),
        ({"since": "2021-01-01", "contains": "x"}, "x 2021-06-01", ""),
    ],
)
def test_conditions(said: Mapping[str, Any], value: Any, failure: str) -> None:
    assert Condition(**said).describe_failure(value) == failure


def write(folder: Path, rows: Sequence[Mapping[str, Any]], **corpus: Any) -> Path:
    (folder / "rows.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8"
    )
    content = {"corpus": {"path": "rows.jsonl", **corpus}, "generate": "rules", "filter": "none"}
    (folder / "my.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    return folder / "my.yaml"


ROWS = [
    {"lang": "en", "meta": {"source": "news"}, "title": "One", "body": "First."},
    {"lang": "de", "meta": {"source": "news"}, "title": "Two", "body": "Second."},
    {"lang": "en", "meta": {"source": "mail"}, "title": "Three", "body": "Third."},
    {"lang": "en", "meta": None, "title": "Four", "body": None},
    {"lang": "fr", "meta": {"source": "news"}, "title": None, "body": "Fifth."},
]


def test_rows_are_left_out_by_the_first_condition_that_fails_and_keep_their_numbers(
    tmp_path: Path,
) -> None:
    where = {"lang": ["en", "fr"], "meta.source": "news"}
    settings = load_build(
        write(tmp_path, ROWS, text="{{ title | upper }}: {{ body }}", where=where)
    )
    filtered: Counter[str] = Counter()
    found = list(read_documents(settings, None, filtered))
    assert [(each.doc_id, each.prefix) for each in found] == [
        ("1", "ONE: First."),
        ("5", ": Fifth."),
    ]  # a null is an empty text
    assert filtered == {"lang is not en or fr": 1, "meta.source is not news": 2}
    described = describe_settings(settings)
    assert described["corpus"]["where"] == {
        "lang": {"one_of": ["en", "fr"]},
        "meta.source": {"one_of": ["news"]},
    }
    (tmp_path / "again.yaml").write_text(
        yaml.safe_dump({**described, "name": "my"}), encoding="utf-8"
    )
    assert load_build(tmp_path / "again.yaml").corpus == settings.corpus


@pytest.mark.parametrize(
    ("corpus", "message"),
    [
        ({"where": {"lang": {"begins": "e"}}}, "unknown key 'begins' of corpus.where.lang"),
        (
            {"where": {"lang": {}}},
            "says nothing; expected a value, a list of values, or some of one_of",
        ),
        ({"where": {"lang": {"since": "soon"}}}, "corpus.where.lang.since is 'soon'"),
        ({"where": {"lang": {"at_least": "ten"}}}, "corpus.where.lang.at_least is 'ten'"),
        (
            {"text": "{{ title | nothing }}"},
            "corpus.text is not a usable template: No filter named 'nothing'",
        ),
        ({"text": "{{ title "}, "corpus.text is not a usable template"),
        (
            {"text": "{% macro f() %}{{ f() }}{% endmacro %}"},
            "Macro is not taken in the templates of a YAML",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(
    tmp_path: Path, corpus: Mapping[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        load_build(write(tmp_path, ROWS, **corpus))
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("corpus", "message"),
    [
        ({"text": "{{ titel }}"}, "rows.jsonl:1: no column 'titel'; did you mean title?"),
        ({"text": "body", "where": {"language": "en"}}, "no column 'language'"),
        (
            {"text": "{{ meta.author }}"},
            "rows.jsonl:1: the template of corpus.text cannot be filled in",
        ),
        ({"text": "{{ title * 10 ** 9 }}"}, "cannot be filled in"),
        ({"text": "{{ title | join('x' * 100000) }}"}, "cannot be filled in"),
    ],
)
def test_rows_that_a_recipe_does_not_fit_are_named(
    tmp_path: Path, corpus: Mapping[str, Any], message: str
) -> None:
    settings = load_build(write(tmp_path, ROWS, **corpus))
    with pytest.raises(DataError) as raised:
        list(read_documents(settings, None, Counter()))
    assert message in str(raised.value)


def stand_in(folder: Path, name: str) -> Path:
    """A folder with files of the same columns, and in the same places, as the dataset of the recipe
    ``name``."""
    target = folder / name
    target.mkdir()
    texts = [town(number) for number in range(12)]
    if name == "wiki":
        rows = [{"text": text, "meta": {"pile_set_name": "Wikipedia (en)"}} for text in texts]
        rows += [{"text": "def f(): pass", "meta": {"pile_set_name": "Github"}}] * 5
        (target / "val.jsonl").write_text(
            "".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8"
        )
        (target / "test.jsonl").write_text(json.dumps(rows[0]) + "\n", encoding="utf-8")
    elif name == "news":
        import pyarrow
        import pyarrow.parquet

        days = ["2021-10-05", "2022-08-01", "2021-09-30", ""] * 3
        places = [f"{REUTERS}n{number}-{day}/" for number, day in enumerate(days)]
        rows = [{"content": text, "url": place} for text, place in zip(texts, places, strict=True)]
        rows.append({"content": "Cake.", "url": "https://example.org/2022-01-01"})
        common = {"timestamp": datetime.datetime(2022, 1, 1), "dump": "d", "segment": "s"}
        rows = [row | common | {"image_urls": [["a", "b"]]} for row in rows]
        pyarrow.parquet.write_table(
            pyarrow.Table.from_pylist(rows), target / "train-00000-of-00001.parquet"
        )
    else:
        named = {split: f"rand_lfqa_{split[:3]}.json" for split in ("train", "validation")} | {
            "test": "rand_lfqa_test.json"
        }
        files = "".join(f"  - split: {split}\n    path: {file}\n" for split, file in named.items())
        card = f"---\nconfigs:\n- config_name: main\n  data_files: main.jsonl\n- config_name: lfqa_random\n  data_files:\n{files}---\n"
        (target / "README.md").write_text(card, encoding="utf-8")
        (target / "main.jsonl").write_text('{"question": "?", "answers": {}}\n', encoding="utf-8")
        for number, (split, file) in enumerate(named.items()):
            rows = [
                {"question": f"What of {split}, {n}?", "answer": texts[4 * number + n]}
                for n in range(4)
            ]
            (target / file).write_text(json.dumps(rows), encoding="utf-8")
    return target


def small(folder: Path, name: str, **corpus: Any) -> Path:
    """A build as the recipe has it, with what needs no model in the place of the paper's."""
    content = {
        "include": str(CONFIGS / f"{name}.yaml"),
        "corpus": corpus,
        "types": {"tagger": "pattern"},
        "generate": "rules",
        "filter": "none",
    }
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    return folder / f"{name}.yaml"


OUTSIDE = {
    "wiki": (12, {"meta.pile_set_name is not Wikipedia (en)": 5}),
    "news": (
        6,
        {
            f"url does not begin with {REUTERS.removesuffix('world/')}": 1,
            "url has no date since 2021-10-01": 6,
        },
    ),
    "expert": (8, {}),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_the_papers_recipes_on_stand_ins(tmp_path: Path, name: str) -> None:
    stand_in(tmp_path, name)
    config = small(tmp_path, name, dataset=name)
    built = build(load_build(config), tmp_path / "out")
    documents, filtered = OUTSIDE[name]
    assert (built.documents, dict(built.filtered)) == (documents, filtered)
    assert 0 < built.rows <= documents
    manifest = json.loads(built.files["manifest"].read_text(encoding="utf-8"))
    assert manifest["counts"]["filtered"] == filtered
    card = built.files["card"].read_text(encoding="utf-8")
    assert all(f"{count} rows: {reason}" in card for reason, count in filtered.items())
    first = contents(tmp_path / "out")
    again = build(load_build(config), tmp_path / "out")  # goes on with what is there
    assert (dict(again.filtered), contents(tmp_path / "out")) == (filtered, first)


def test_expert_documents_read_as_the_published_prefixes_do(tmp_path: Path) -> None:
    stand_in(tmp_path, "expert")
    found = list(
        read_documents(load_build(small(tmp_path, "expert", dataset="expert")), None, Counter())
    )
    assert found[0].prefix == f"Question: What of validation, 0?\nAsnwer:{town(4)}"
    assert found[-1].prefix.startswith("Question: What of test, 3?\n")
    assert len({each.doc_id for each in found}) == 8


@pytest.mark.parametrize(
    "said", ["2021-02-11", "[2021-02-11, 2021-02-12]", "{one_of: [2021-02-11]}"]
)
def test_a_day_without_quotes_is_the_text_of_it(tmp_path: Path, said: str) -> None:
    config = write(
        tmp_path,
        [{"body": "A.", "day": "2021-02-11"}, {"body": "B.", "day": "2021-02-13"}],
        text="body",
    )
    config.write_text(
        config.read_text(encoding="utf-8").replace(
            "corpus:\n", f"corpus:\n  where: {{day: {said}}}\n"
        ),
        encoding="utf-8",
    )
    assert [each.prefix for each in read_documents(load_build(config), None, Counter())] == ["A."]
    assert describe_settings(load_build(config))["corpus"]["where"]


def test_a_corpus_without_documents_says_what_was_left_out(tmp_path: Path) -> None:
    config = write(tmp_path, ROWS, text="body", where={"lang": "la"})
    with pytest.raises(DataError, match="no documents.*5 rows are left out: lang is not la"):
        build(load_build(config), tmp_path / "out")
