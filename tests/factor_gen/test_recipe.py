"""Recipes for corpora: conditions on rows, templates over columns, and the paper's three corpora."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from factor_gen.config import describe_settings, load_build
from factor_gen.corpus import CorpusReader
from factor_gen.pipeline import build
from factor_gen.recipe import Condition
from lm_factuality.ground.errors import ConfigError, DataError
from tests.conftest import REPOSITORY
from tests.factor_gen.corpora import contents, town

REUTERS = "https://www.reuters.com/world/"
CONFIGS = REPOSITORY / "configs" / "corpora"


@pytest.mark.parametrize(
    ("condition", "value", "failure"),
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
def test_failed_condition_states_the_reason(
    condition: Mapping[str, Any], value: Any, failure: str
) -> None:
    """The reason is empty if the value meets the condition.

    The build counts rejected rows by reason.
    """
    assert Condition(**condition).describe_failure(value) == failure


def write_jsonl(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows as a file of JSON lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def write_config(folder: Path, rows: Sequence[Mapping[str, Any]], **corpus: Any) -> Path:
    """Write rows and the YAML of a build from them, and return the path of the YAML.

    Args:
        folder: The folder of both files.
        rows: The rows of the corpus.
        corpus: Settings of the corpus, such as ``text`` and ``where``.
    """
    write_jsonl(folder / "rows.jsonl", rows)
    content = {"corpus": {"path": "rows.jsonl", **corpus}, "generate": "rules", "filter": "none"}
    (folder / "my.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    return folder / "my.yaml"


def prefixes_of(config: Path) -> list[str]:
    """Return the texts of the documents that a build reads."""
    documents = CorpusReader(load_build(config)).read()
    return [document.prefix for document in documents]


ROWS = [
    {"lang": "en", "meta": {"source": "news"}, "title": "One", "body": "First."},
    {"lang": "de", "meta": {"source": "news"}, "title": "Two", "body": "Second."},
    {"lang": "en", "meta": {"source": "mail"}, "title": "Three", "body": "Third."},
    {"lang": "en", "meta": None, "title": "Four", "body": None},
    {"lang": "fr", "meta": {"source": "news"}, "title": None, "body": "Fifth."},
]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Return the YAML of a build with a template, from English and French news only."""
    where = {"lang": ["en", "fr"], "meta.source": "news"}
    return write_config(tmp_path, ROWS, text="{{ title | upper }}: {{ body }}", where=where)


def test_kept_rows_retain_their_row_numbers(config: Path) -> None:
    """A document's id is the number of its row, so that a user can find it in the corpus.

    Only the first and the fifth of five rows are English or French news.
    """
    documents = list(CorpusReader(load_build(config)).read())

    assert [document.doc_id for document in documents] == ["1", "5"]


def test_a_template_makes_the_text_of_a_document_from_the_columns_of_a_row(
    tmp_path: Path,
) -> None:
    """A template can use the filters of Jinja, and a null is an empty text."""
    rows = [{"title": "One", "body": "First."}, {"title": None, "body": "Second."}]
    config = write_config(tmp_path, rows, text="{{ title | upper }}: {{ body }}")

    assert prefixes_of(config) == ["ONE: First.", ": Second."]


def test_rejected_rows_are_counted_by_their_first_failed_condition(tmp_path: Path) -> None:
    """A user sees which condition leaves out how many rows, and no row is counted twice."""
    rows = [
        {"lang": "en", "meta": {"source": "news"}, "body": "Meets both."},
        {"lang": "de", "meta": {"source": "news"}, "body": "Fails the first."},
        {"lang": "de", "meta": {"source": "mail"}, "body": "Fails both."},
        {"lang": "fr", "meta": {"source": "mail"}, "body": "Fails the second."},
        {"lang": "en", "meta": None, "body": "Fails the second, for want of a source."},
        {"lang": "en", "meta": {"source": "web"}, "body": "Fails the second."},
    ]
    where = {"lang": ["en", "fr"], "meta.source": "news"}
    settings = load_build(write_config(tmp_path, rows, text="body", where=where))
    reader = CorpusReader(settings)

    list(reader.read())

    assert reader.num_left_out == {"lang is not en or fr": 2, "meta.source is not news": 3}


def test_described_settings_name_each_requirement_of_a_condition(config: Path) -> None:
    """The YAML says ``lang: [en, fr]`` for short; the manifest says what that means."""
    described = describe_settings(load_build(config))

    assert described["corpus"]["where"] == {
        "lang": {"one_of": ["en", "fr"]},
        "meta.source": {"one_of": ["news"]},
    }


def test_described_settings_can_be_loaded_again(config: Path, tmp_path: Path) -> None:
    """The manifest of a benchmark has the settings, and others can build it again from them."""
    settings = load_build(config)
    described_config = tmp_path / "second.yaml"
    described_config.write_text(yaml.safe_dump(describe_settings(settings)), encoding="utf-8")

    settings_of_description = load_build(described_config)

    # The description names the check that was not named before.
    expected = replace(settings, contradiction=settings.contradiction_check)
    assert settings_of_description == expected


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
        ({"text": "{{ title * 10 ** 9 }}"}, "Mul is not taken in the templates of a YAML"),
    ],
)
def test_a_wrong_condition_or_template_is_refused(
    tmp_path: Path, corpus: Mapping[str, Any], message: str
) -> None:
    """A user learns of the mistake when the YAML is read, before a build that may take hours.

    Templates may not hold macros or arithmetic, with which a YAML of somebody else could use up
    the memory.
    """
    config = write_config(tmp_path, ROWS, **corpus)

    with pytest.raises(ConfigError) as error:
        load_build(config)

    assert message in str(error.value)


@pytest.mark.parametrize(
    ("corpus", "message"),
    [
        ({"text": "{{ titel }}"}, "rows.jsonl:1: no column 'titel'; did you mean title?"),
        ({"text": "body", "where": {"language": "en"}}, "no column 'language'"),
        (
            {"text": "{{ meta.author }}"},
            "rows.jsonl:1: the template of corpus.text cannot be filled in",
        ),
    ],
)
def test_unsuitable_row_of_a_template_or_condition_is_named(
    tmp_path: Path, corpus: Mapping[str, Any], message: str
) -> None:
    """Without an error, a misspelt column would be empty in every document."""
    settings = load_build(write_config(tmp_path, ROWS, **corpus))

    with pytest.raises(DataError) as error:
        list(CorpusReader(settings).read())

    assert message in str(error.value)


TEXTS = [town(number) for number in range(12)]
"""The texts of the stand-ins for the paper's corpora."""


def write_wiki(folder: Path) -> None:
    """Write files with the columns and names of the Pile: twelve texts of Wikipedia, and code."""
    rows = [{"text": text, "meta": {"pile_set_name": "Wikipedia (en)"}} for text in TEXTS]
    code = {"text": "def f(): pass", "meta": {"pile_set_name": "Github"}}
    write_jsonl(folder / "val.jsonl", [*rows, *[code] * 5])
    # The recipe reads the validation split only.
    write_jsonl(folder / "test.jsonl", rows[:1])


def write_news(folder: Path) -> None:
    """Write a file with the columns of RefinedWeb: news of several days, and another page.

    Of twelve articles, six have a date since 2021-10-01.
    """
    import pyarrow
    import pyarrow.parquet

    days = ["2021-10-05", "2022-08-01", "2021-09-30", ""] * 3
    rows = [
        {"content": text, "url": f"{REUTERS}n{number}-{day}/"}
        for number, (text, day) in enumerate(zip(TEXTS, days, strict=True))
    ]
    rows.append({"content": "Cake.", "url": "https://example.org/2022-01-01"})
    other_columns = {
        "timestamp": datetime.datetime(2022, 1, 1),
        "dump": "d",
        "segment": "s",
        "image_urls": [["a", "b"]],
    }
    table = pyarrow.Table.from_pylist([{**row, **other_columns} for row in rows])
    pyarrow.parquet.write_table(table, folder / "train-00000-of-00001.parquet")


EXPERT_CARD = """---
configs:
- config_name: main
  data_files: main.jsonl
- config_name: lfqa_random
  data_files:
  - split: train
    path: rand_lfqa_tra.json
  - split: validation
    path: rand_lfqa_val.json
  - split: test
    path: rand_lfqa_test.json
---
"""
"""The card of ExpertQA's repository, which says which file holds which split."""


def write_expert(folder: Path) -> None:
    """Write files with the columns and names of ExpertQA: four questions in each of three splits."""
    (folder / "README.md").write_text(EXPERT_CARD, encoding="utf-8")
    (folder / "main.jsonl").write_text('{"question": "?", "answers": {}}\n', encoding="utf-8")
    for split, file_name, texts in (
        ("train", "rand_lfqa_tra.json", TEXTS[:4]),
        ("validation", "rand_lfqa_val.json", TEXTS[4:8]),
        ("test", "rand_lfqa_test.json", TEXTS[8:]),
    ):
        rows = [
            {"question": f"What of {split}, {number}?", "answer": text}
            for number, text in enumerate(texts)
        ]
        (folder / file_name).write_text(json.dumps(rows), encoding="utf-8")


WRITE_STAND_IN = {"wiki": write_wiki, "news": write_news, "expert": write_expert}
"""Writes a local stand-in for the dataset of each of the paper's recipes."""


def config_with_stand_in(name: str, folder: Path) -> Path:
    """Write a stand-in for a recipe's dataset and a YAML that includes the recipe.

    The YAML replaces the steps that need a model by rules. Returns its path.
    """
    (folder / name).mkdir()
    WRITE_STAND_IN[name](folder / name)
    content = {
        "include": str(CONFIGS / f"{name}.yaml"),
        "corpus": {"dataset": name},
        "types": {"tagger": "pattern"},
        "generate": "rules",
        "filter": "none",
        "contradiction": "none",
    }
    config = folder / f"{name}.yaml"
    config.write_text(yaml.safe_dump(content), encoding="utf-8")
    return config


WIKI_LEFT_OUT = {"meta.pile_set_name is not Wikipedia (en)": 5}
NEWS_LEFT_OUT = {
    "url does not begin with https://www.reuters.com/": 1,
    "url has no date since 2021-10-01": 6,
}
"""How many rows of the stand-ins the recipes leave out, by reason. That of ExpertQA loses none."""


@pytest.mark.parametrize(
    ("recipe", "num_documents", "num_left_out"),
    [
        ("wiki", 12, WIKI_LEFT_OUT),
        ("news", 6, NEWS_LEFT_OUT),
        # The validation and test splits have four questions each.
        ("expert", 8, {}),
    ],
)
def test_a_recipe_reads_the_documents_that_meet_its_conditions(
    tmp_path: Path, recipe: str, num_documents: int, num_left_out: Mapping[str, int]
) -> None:
    """Other sources, other web pages, old news and the splits of training are left out."""
    built = build(load_build(config_with_stand_in(recipe, tmp_path)), tmp_path / "out")

    assert built.documents == num_documents
    assert 0 < built.rows <= num_documents
    assert dict(built.filtered) == num_left_out


@pytest.mark.parametrize(
    ("recipe", "num_left_out"), [("wiki", WIKI_LEFT_OUT), ("news", NEWS_LEFT_OUT), ("expert", {})]
)
def test_manifest_and_card_say_how_many_rows_were_left_out(
    tmp_path: Path, recipe: str, num_left_out: Mapping[str, int]
) -> None:
    """A user of the benchmark sees what the corpus was reduced by, and for which reason."""
    built = build(load_build(config_with_stand_in(recipe, tmp_path)), tmp_path / "out")

    manifest = json.loads(built.files["manifest"].read_text(encoding="utf-8"))
    card = built.files["card"].read_text(encoding="utf-8")
    assert manifest["counts"]["filtered"] == num_left_out
    for reason, count in num_left_out.items():
        assert f"{count} rows: {reason}" in card


@pytest.mark.parametrize("recipe", ["wiki", "news", "expert"])
def test_a_second_build_changes_nothing(tmp_path: Path, recipe: str) -> None:
    """The second build reads no corpus, and has the counts of rows left out from the first."""
    config = config_with_stand_in(recipe, tmp_path)
    first_build = build(load_build(config), tmp_path / "out")
    first_files = contents(tmp_path / "out")

    second_build = build(load_build(config), tmp_path / "out")

    assert second_build.filtered == first_build.filtered
    assert contents(tmp_path / "out") == first_files


def test_expert_documents_have_the_form_of_the_published_prefixes(tmp_path: Path) -> None:
    """Models then see the same prompt as in the paper."""
    rows = [{"question": "What is old?", "answer": "The mill is old."}]
    config = config_with_stand_in("expert", tmp_path)
    validation_split = tmp_path / "expert" / "rand_lfqa_val.json"
    validation_split.write_text(json.dumps(rows), encoding="utf-8")

    [first_prefix, *_] = prefixes_of(config)

    # "Asnwer" is misspelt in the published file as well.
    assert first_prefix == "Question: What is old?\nAsnwer:The mill is old."


def test_expert_documents_have_different_ids(tmp_path: Path) -> None:
    """Two splits number their rows alike, but their four documents each are no repetitions."""
    settings = load_build(config_with_stand_in("expert", tmp_path))

    documents = CorpusReader(settings).read()

    assert len({document.doc_id for document in documents}) == 8


@pytest.mark.parametrize(
    "condition", ["2021-02-11", "[2021-02-11, 2021-02-12]", "{one_of: [2021-02-11]}"]
)
def test_a_date_without_quotes_is_read_as_text(tmp_path: Path, condition: str) -> None:
    """YAML reads such a date as a date, but in a corpus it is a text like any other.

    Of two rows, the one of 2021-02-11 meets each of the conditions.
    """
    rows = [{"body": "A.", "day": "2021-02-11"}, {"body": "B.", "day": "2021-02-13"}]
    config = write_config(tmp_path, rows, text="body")
    # yaml.safe_dump would put the date in quotes.
    content = config.read_text(encoding="utf-8")
    with_condition = content.replace("corpus:\n", f"corpus:\n  where: {{day: {condition}}}\n")
    config.write_text(with_condition, encoding="utf-8")

    prefixes = prefixes_of(config)

    assert prefixes == ["A."]
    assert describe_settings(load_build(config))["corpus"]["where"]


def test_a_corpus_without_documents_says_why_rows_are_left_out(tmp_path: Path) -> None:
    """No row is in Latin. The reason shows that the condition is at fault and not the corpus."""
    config = write_config(tmp_path, ROWS, text="body", where={"lang": "la"})

    with pytest.raises(DataError, match="no documents.*5 rows are left out: lang is not la"):
        build(load_build(config), tmp_path / "out")
