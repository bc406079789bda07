"""What a benchmark of another package may declare, and what happens if it declares something
else."""

from dataclasses import replace

import pytest

from judges.templates import Prompts, register_prompts
from lm_factuality import benchmarks
from lm_factuality.benchmarks import all_benchmarks, all_sources, find_benchmark
from lm_factuality.benchmarks.declaration import Data, Page, Score
from lm_factuality.ground.errors import ConfigError

FACTOR = find_benchmark("factor")


def with_scoring(**changes):
    """FACTOR under another name, with changes of its scoring."""
    return replace(FACTOR, kind="capitals", scoring=replace(FACTOR.scoring, **changes))


@pytest.mark.parametrize(
    "name", ["index", "compare", "samples", "other", "a/../../b", "Capitals", "", "a-b"]
)
def test_a_kind_is_a_name_that_files_and_results_can_have(name):
    with pytest.raises(ConfigError, match=r"(kind|page name): found .*; expected small letters"):
        replace(FACTOR, kind=name)
    if name:
        with pytest.raises(
            ConfigError, match=r"(kind|page name): found .*; expected small letters"
        ):
            replace(FACTOR, kind="capitals", page=Page(name=name))


def test_headlines_are_scores_and_scores_have_one_name_each():
    with pytest.raises(ConfigError, match=r"headlines: found \('typo',\)"):
        with_scoring(headlines=("typo",))
    with pytest.raises(ConfigError, match=r"headlines: found \(\)"):
        with_scoring(headlines=())
    scores = FACTOR.scoring.scores
    twice = (*scores, Score("acc", scores[0].aggregation))
    with pytest.raises(ConfigError, match="two scores are called 'acc'"):
        with_scoring(scores=twice)


class Point:
    name, value, dist = "capitals", "capitals:BENCHMARK", None

    def __init__(self, load):
        self.load = load


@pytest.fixture
def declare(monkeypatch):
    """Declares what ``load`` gives, as an installed package does."""

    def add(load):
        all_benchmarks.cache_clear()
        all_sources.cache_clear()
        monkeypatch.setattr(benchmarks, "entry_points", lambda group: [Point(load)])

    yield add
    all_benchmarks.cache_clear()
    all_sources.cache_clear()


def broken():
    raise ModuleNotFoundError("No module named 'capitals'")


@pytest.mark.parametrize(
    ("load", "message"),
    [
        (
            broken,
            "entry point capitals = capitals:BENCHMARK of a package: cannot be loaded: ModuleNotFoundError",
        ),
        (lambda: "text", "found a str, expected a Benchmark"),
        (lambda: replace(FACTOR, title="Another"), "two benchmarks are called 'factor'"),
    ],
)
def test_a_package_that_cannot_be_used_is_named(load, message, declare):
    declare(load)
    with pytest.raises(ConfigError, match=message):
        all_benchmarks()


def test_no_package_replaces_a_published_file(declare):
    mine = replace(FACTOR.data.sources[0], blob="0" * 40)
    declare(lambda: replace(FACTOR, kind="capitals", data=Data(sources=(mine,))))
    with pytest.raises(ConfigError, match="another benchmark has a source called 'wiki_factor'"):
        all_sources()


def test_no_package_replaces_prompts(tmp_path):
    before = Prompts().hash("biographies/decompose"), Prompts().hash("verify")
    with pytest.raises(ConfigError, match="take another prefix"):
        register_prompts("biographies", tmp_path)
    assert (Prompts().hash("biographies/decompose"), Prompts().hash("verify")) == before
