"""The rules fit the suite: tasks, data, run configs and digests."""

from __future__ import annotations

import pytest
import yaml

from lm_factuality.benchmarks import all_sources
from lm_factuality.ground.errors import ConfigError
from lm_factuality.leaderboard.documents import DocumentDigest, digest_tasks
from lm_factuality.leaderboard.rules import leaderboard_names, read_rules
from tests.conftest import REPOSITORY

RUNS = REPOSITORY / "configs" / "leaderboard"


@pytest.mark.parametrize("name", leaderboard_names())
def test_the_run_config_makes_what_the_rules_want(name):
    rules = read_rules(name)
    config = yaml.safe_load((RUNS / f"{name}.yaml").read_text(encoding="utf-8"))
    assert config["tasks"] == [each.task for each in rules.by_task.values()]
    assert config["log_samples"] is True
    assert config["num_fewshot"] == 0
    assert ("judge" in config.get("metadata", {})) == (rules.certificate != "none")
    assert set(rules.headlines) == set(config["tasks"])


@pytest.mark.parametrize("name", [each for each in leaderboard_names() if each != "sample"])
def test_data_is_that_of_the_registry(name):
    blobs = {source.blob: source.rows for source in all_sources().values()}
    for task in read_rules(name).by_task.values():
        assert blobs[task.git_blob] == task.documents


@pytest.mark.parametrize("name", leaderboard_names())
def test_judges_are_asked_with_the_prompts_of_this_suite(name):
    from judges.templates import Prompts
    from lm_factuality.benchmarks import make_judged_method

    for rules in read_rules(name).by_task.values():
        kind = next(
            (kind for kind in ("felm_gen", "factor_generation", "ambigbio") if kind in rules.task),
            None,
        )
        expected = Prompts().hashes(make_judged_method(kind).prompt_names) if kind else {}
        assert rules.judge_prompts == expected


def test_versions_of_lm_eval_have_a_beginning():
    rules = read_rules("factor")
    taken = {
        version: rules.allows_lm_eval(version)
        for version in ("0.4.13", "0.4.14.dev1", "0.4.0", "0.4.9", "0.5", "", "0.4.x")
    }
    assert taken == {
        "0.4.13": True,
        "0.4.14.dev1": True,
        "0.4.0": False,
        "0.4.9": False,
        "0.5": False,
        "": False,
        "0.4.x": False,
    }


@pytest.mark.parametrize("name", leaderboard_names())
def test_generation_is_as_the_tasks_have_it(name):
    from lm_factuality.harness.tasks import find_configs

    changes = yaml.safe_load((RUNS / f"{name}.yaml").read_text(encoding="utf-8")).get(
        "gen_kwargs", {}
    )
    for rules in read_rules(name).by_task.values():
        ((_, config),) = find_configs(rules.task)
        expected = config.get("generation_kwargs")
        assert rules.generation_kwargs == (None if expected is None else {**expected, **changes})
        assert rules.repeats == config.get("repeats", 1)
        assert rules.version == str(config["metadata"]["version"])


def test_digests_of_the_sample_are_those_of_its_data():
    rules = read_rules("sample").by_task.values()
    found = digest_tasks([each.task for each in rules])
    assert {each.task: (each.documents, each.digest) for each in rules} == {
        name: (each.count, each.hexdigest()) for name, each in found.items()
    }


@pytest.mark.parametrize(
    ("leaderboard", "tasks", "folder"),
    [
        ("factor", ["expert_factor", "expert_factor_clean"], "factor"),
        ("factor_generation", ["expert_factor_generation"], "factor"),
        ("felm", ["felm_segment_vanilla", "felm_segment_doc"], "felm"),
        ("felm_gen", ["felm_gen"], "felm"),
    ],
)
def test_digests_are_those_of_the_published_data(leaderboard, tasks, folder, shared):
    found = digest_tasks(tasks, str(shared / "data" / folder))
    for name in tasks:
        assert read_rules(leaderboard).by_task[name].digest == found[name].hexdigest()


def test_a_digest_depends_on_every_document_and_not_on_their_order():
    docs = {number: {"text": str(number), "mean_logprob": [number]} for number in range(3)}

    def digest(items):
        found = DocumentDigest(("mean_logprob",))
        for number, doc in items:
            found.add(number, doc)
        return found.hexdigest()

    one = digest(docs.items())
    assert digest(reversed(docs.items())) == one
    assert (
        digest({**docs, 1: {"text": "1", "mean_logprob": [None]}}.items()) == one
    )  # what a model said is no part
    assert digest({**docs, 1: {"text": "2"}}.items()) != one
    assert digest(list(docs.items())[:2]) != one


def test_an_unknown_leaderboard_is_an_error():
    with pytest.raises(ConfigError, match="did you mean factor"):
        read_rules("factr")
    with pytest.raises(ConfigError, match="no leaderboard is called"):
        read_rules("../judges/lexical")


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (
            "certificate: any",
            "certifcate: any",
            "unknown key 'certifcate'; did you mean certificate?",
        ),
        (
            "certificate: any",
            "certificate: some",
            "certificate is 'some'; expected 'none', 'any' or 'published'",
        ),
        (
            "documents: 432",
            "documents: many",
            "tasks.sample_factor.documents is 'many'; expected a valid integer",
        ),
        (
            "    headline: factor_acc",
            "    headlne: factor_acc",
            "unknown key 'headlne' of tasks.sample_factor; did you mean headline?",
        ),
        (
            "max_unscored: 0.05",
            "max_unscored: 20",
            "max_unscored is 20; expected less than or equal to 1",
        ),
        *(
            (
                "lm_eval_versions: '>=0.4.13,<0.5'",
                f"lm_eval_versions: {versions}",
                f"lm_eval_versions is {versions}; expected versions such as '>=0.4.13,<0.5'",
            )
            for versions in ("['0.4.']", "0.4", "'0.4'")
        ),
    ],
)
def test_rules_that_are_not_in_order_are_named(before, after, message, tmp_path):
    own = (RUNS / "rules" / "sample.yaml").read_text(encoding="utf-8")
    assert before in own
    (tmp_path / "mine.yaml").write_text(own.replace(before, after), encoding="utf-8")
    with pytest.raises(ConfigError) as error:
        read_rules("mine", tmp_path)
    assert f"{tmp_path / 'mine.yaml'}: {message}" in str(error.value)


def test_rules_have_to_rank_by_something(tmp_path):
    own = (RUNS / "rules" / "sample.yaml").read_text(encoding="utf-8").splitlines()
    (tmp_path / "mine.yaml").write_text(
        "\n".join(line for line in own if "headline:" not in line), encoding="utf-8"
    )
    with pytest.raises(ConfigError, match="ranks nothing: no task has a headline"):
        read_rules("mine", tmp_path)
