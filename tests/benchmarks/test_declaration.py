"""What a benchmark of another package may declare, and why other declarations are refused."""

from dataclasses import replace
from inspect import signature

import pytest

from judges.templates import Prompts, register_prompts
from lm_factuality import benchmarks
from lm_factuality.benchmarks import all_benchmarks, all_sources, find_benchmark
from lm_factuality.benchmarks.declaration import Data, JudgeRole, Page, Score
from lm_factuality.benchmarks.judged import JudgedMethod
from lm_factuality.ground.errors import ConfigError
from lm_factuality.scores.statistics import MEAN

FACTOR = find_benchmark("factor")


def declare_with_scoring(**changes):
    """Declare FACTOR under another name, with changes of its scoring."""
    return replace(FACTOR, kind="capitals", scoring=replace(FACTOR.scoring, **changes))


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("index", id="a page of every report"),
        pytest.param("compare", id="another page of every report"),
        pytest.param("samples", id="a third page of every report"),
        pytest.param("other", id="the kind of tasks of other packages"),
        pytest.param("a/../../b", id="a path"),
        pytest.param("Capitals", id="a capital letter"),
        pytest.param("", id="empty"),
        pytest.param("a-b", id="a hyphen"),
    ],
)
def test_benchmark_kind_invalid_in_file_names_is_refused(kind):
    """Reports name a page, and results a key, after the kind of a benchmark."""
    with pytest.raises(ConfigError, match=r"(kind|page name): found .*; expected small letters"):
        replace(FACTOR, kind=kind)


@pytest.mark.parametrize(
    "page_name", ["index", "compare", "samples", "other", "a/../../b", "Capitals", "a-b"]
)
def test_page_name_invalid_as_a_file_name_is_refused(page_name):
    """The report writes NAME.html, which must not replace its own pages or leave its folder."""
    with pytest.raises(ConfigError, match=r"page name: found .*; expected small letters"):
        replace(FACTOR, kind="capitals", page=Page(name=page_name))


def test_headline_outside_the_declared_scores_is_refused():
    """The headline is the main score. Tables would have an empty first column."""
    with pytest.raises(ConfigError, match=r"headlines: found \('typo',\)"):
        declare_with_scoring(headlines=("typo",))


def test_a_benchmark_without_a_headline_is_refused():
    """Runs are ranked by the headline, the main score of a benchmark."""
    with pytest.raises(ConfigError, match=r"headlines: found \(\)"):
        declare_with_scoring(headlines=())


def test_duplicate_score_names_are_refused():
    """Results hold scores by their names, so one of the two would be lost."""
    scores = FACTOR.scoring.scores
    second_acc = Score("acc", scores[0].aggregation)

    with pytest.raises(ConfigError, match="two scores are called 'acc'"):
        declare_with_scoring(scores=(*scores, second_acc))


class FakeEntryPoint:
    """The entry point of an installed package that declares a benchmark."""

    name = "capitals"
    value = "capitals:BENCHMARK"
    dist = None

    def __init__(self, load):
        """Set the function that loads the benchmark."""
        self.load = load


@pytest.fixture
def install(monkeypatch):
    """Return a function that makes a package appear installed, given what loads its benchmark."""

    def add_entry_point(load):
        all_benchmarks.cache_clear()
        all_sources.cache_clear()
        monkeypatch.setattr(benchmarks, "entry_points", lambda group: [FakeEntryPoint(load)])

    yield add_entry_point
    all_benchmarks.cache_clear()
    all_sources.cache_clear()


def fail_to_import():
    """Fail as the import of a package that is gone."""
    raise ModuleNotFoundError("No module named 'capitals'")


@pytest.mark.parametrize(
    ("load", "message"),
    [
        pytest.param(
            fail_to_import,
            "entry point capitals = capitals:BENCHMARK of a package: cannot be loaded: "
            "ModuleNotFoundError",
            id="cannot be imported",
        ),
        pytest.param(lambda: "text", "found a str, expected a Benchmark", id="no benchmark"),
    ],
)
def test_package_with_an_unloadable_benchmark_is_skipped_by_name(install, caplog, load, message):
    """A broken package of somebody else must not stop runs of all other benchmarks."""
    install(load)

    kinds = [benchmark.kind for benchmark in all_benchmarks()]

    assert message in caplog.text
    assert "felm" in kinds
    assert "capitals" not in kinds


def test_a_second_benchmark_of_the_same_name_is_refused(install):
    """Results name their benchmark, and would be read by the wrong one."""
    install(lambda: replace(FACTOR, title="Another"))

    with pytest.raises(ConfigError, match="two benchmarks are called 'factor'"):
        all_benchmarks()


def test_a_package_cannot_replace_a_published_file(install):
    """Results on other data would be taken for results on the published data."""
    forged_file = replace(FACTOR.data.sources[0], blob="0" * 40)
    install(lambda: replace(FACTOR, kind="capitals", data=Data(sources=(forged_file,))))

    with pytest.raises(ConfigError, match="another benchmark has a source called 'wiki_factor'"):
        all_sources()


def test_package_cannot_reuse_an_existing_prompt_prefix(tmp_path):
    """A judge would be asked other questions than those it is certified for."""
    folder_of_package = tmp_path

    with pytest.raises(ConfigError, match="'biographies' already belongs .* take another prefix"):
        register_prompts("biographies", folder_of_package)


@pytest.mark.parametrize("prompt", ["biographies/decompose", "verify"])
def test_prompts_are_unchanged_after_a_refused_reuse_of_their_prefix(tmp_path, prompt):
    """The package has a prompt of its own, which must not replace one of the suite."""
    hash_before = Prompts().hash(prompt)
    (tmp_path / "decompose.jinja").write_text("Other words.")

    with pytest.raises(ConfigError, match="take another prefix"):
        register_prompts("biographies", tmp_path)

    assert Prompts().hash(prompt) == hash_before


@pytest.mark.parametrize(
    ("metadata", "label"),
    [
        pytest.param([{"k": [64, 178]}, {"k": [64]}], "F1@64", id="the first K of all runs"),
        pytest.param([{"k": [64]}, {"k": [8]}], "F1@K", id="runs that differ"),
        pytest.param([{"k": [64]}, {}], "F1@K", id="a run that does not say"),
    ],
)
def test_score_label_states_the_k_of_its_runs(metadata, label):
    """K is a setting of each run, so a table names it only if all of its runs have the same."""
    score = Score("f1_at_k", MEAN, label="F1@K")

    assert score.with_k_label(metadata).label == label


def _subclasses(base):
    """Yield all classes that inherit from a class."""
    for subclass in base.__subclasses__():
        yield subclass
        yield from _subclasses(subclass)


@pytest.mark.parametrize(
    "method", ["row_metrics", "check_record", "rebuild_record", "people_items", "relabel_record"]
)
def test_all_judged_methods_name_their_arguments_alike(method):
    """A call that names the arguments works for every benchmark."""
    all_benchmarks()  # imports all judged methods
    names = list(signature(getattr(JudgedMethod, method)).parameters)

    for judged_method in _subclasses(JudgedMethod):
        assert list(signature(getattr(judged_method, method)).parameters) == names, judged_method


def test_a_judge_without_certified_steps_can_be_declared():
    """The guide on new benchmarks names `steps` only for results that say what is certified."""
    role = JudgeRole(make_method=FACTOR.kind.format)

    assert role.steps == ()
