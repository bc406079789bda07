"""The rules of each leaderboard fit the suite: its tasks, data, run configs and digests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from judges.templates import Prompts
from lm_factuality.benchmarks import all_sources, make_judged_method
from lm_factuality.ground.errors import ConfigError
from lm_factuality.harness.tasks import find_configs
from lm_factuality.leaderboard.documents import DocumentDigest, digest_tasks
from lm_factuality.leaderboard.rules import leaderboard_names, read_rules
from tests.conftest import REPOSITORY

RUN_CONFIGS = REPOSITORY / "configs" / "leaderboard"
SAMPLE_RULES = RUN_CONFIGS / "rules" / "sample.yaml"
NAMES = leaderboard_names()
NAMES_WITH_PUBLISHED_DATA = [name for name in NAMES if name != "sample"]
ALL_TASK_RULES = [rules for name in NAMES for rules in read_rules(name).by_task.values()]


def read_run_config(name: str) -> dict[str, Any]:
    """Read the configuration with which models are run for a leaderboard."""
    return yaml.safe_load((RUN_CONFIGS / f"{name}.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", NAMES)
def test_the_run_config_runs_the_tasks_of_the_rules(name):
    """A participant who runs the config gets a submission that fulfils the rules."""
    assert read_run_config(name)["tasks"] == list(read_rules(name).by_task)


@pytest.mark.parametrize("name", NAMES)
def test_the_run_config_logs_samples_and_shows_no_examples(name):
    """Scores are checked by their samples, and the rules allow no examples in prompts."""
    run_config = read_run_config(name)

    assert run_config["log_samples"] is True
    assert run_config["num_fewshot"] == 0


@pytest.mark.parametrize("name", NAMES)
def test_the_run_config_names_a_judge_if_the_rules_want_a_certificate(name):
    """The certificate says how well the judge agrees with people."""
    has_judge = "judge" in read_run_config(name).get("metadata", {})
    wants_certificate = read_rules(name).certificate != "none"

    assert has_judge == wants_certificate


@pytest.mark.parametrize("name", NAMES)
def test_every_task_of_the_suites_leaderboards_has_a_headline(name):
    """The headline is the score of a task by which models are ranked."""
    rules = read_rules(name)

    assert set(rules.headlines) == set(rules.by_task)


@pytest.mark.parametrize("name", NAMES_WITH_PUBLISHED_DATA)
def test_the_data_of_the_rules_are_published_files_of_the_suite(name):
    """Anyone can download the data that the rules name, and they have as many rows."""
    rows_by_blob = {source.blob: source.rows for source in all_sources().values()}

    for task in read_rules(name).by_task.values():
        assert rows_by_blob[task.git_blob] == task.documents


def kind_of_judged_task(task: str) -> str | None:
    """Return the kind of benchmark of a task with a judge, or None for a task without one."""
    for kind in ("felm_gen", "factor_generation", "ambigbio"):
        if kind in task:
            return kind
    return None


@pytest.mark.parametrize("rules", ALL_TASK_RULES, ids=lambda rules: rules.task)
def test_rules_require_the_judge_prompts_of_the_suite(rules):
    """If a prompt is changed and the rules still name the old one, they refuse every run."""
    kind = kind_of_judged_task(rules.task)

    hashes = {}
    if kind is not None:
        hashes = Prompts().hashes(make_judged_method(kind).prompt_names)
    assert rules.judge_prompts == hashes


@pytest.mark.parametrize("version", ["0.4.13", "0.4.14.dev1"])
def test_recent_versions_of_lm_eval_are_allowed(version):
    """A development version counts as the release that it precedes."""
    assert read_rules("factor").allows_lm_eval(version)


@pytest.mark.parametrize(
    "version",
    [
        pytest.param("0.4.0", id="too old"),
        pytest.param("0.4.9", id="older, although 9 looks like more than 13"),
        pytest.param("0.5", id="not released yet"),
        pytest.param("", id="none"),
        pytest.param("0.4.x", id="no version"),
    ],
)
def test_other_versions_of_lm_eval_are_not_allowed(version):
    """The rules allow versions from 0.4.13 to the one before 0.5, whose scores were compared."""
    assert not read_rules("factor").allows_lm_eval(version)


def find_task_config(task: str) -> dict[str, Any]:
    """Return the content of a task's YAML."""
    ((_, task_config),) = find_configs(task)
    return task_config


def generation_settings_of_run(leaderboard: str, task: str) -> dict[str, Any] | None:
    """Return the task's settings with the changes of the leaderboard's run config.

    None stands for a task that generates nothing.
    """
    settings = find_task_config(task).get("generation_kwargs")
    if settings is None:
        return None
    return {**settings, **read_run_config(leaderboard).get("gen_kwargs", {})}


@pytest.mark.parametrize("name", NAMES)
def test_rules_require_the_generation_settings_of_the_run_config(name):
    """A run by the suite's own config must not be refused."""
    for task, rules in read_rules(name).by_task.items():
        assert rules.generation_kwargs == generation_settings_of_run(name, task)


@pytest.mark.parametrize("rules", ALL_TASK_RULES, ids=lambda rules: rules.task)
def test_rules_require_the_version_and_repeats_of_the_task(rules):
    """A task whose YAML names no repeats asks each question once."""
    task_config = find_task_config(rules.task)

    assert rules.version == str(task_config["metadata"]["version"])
    assert rules.repeats == task_config.get("repeats", 1)


def test_the_rules_of_the_sample_have_the_digests_of_its_data():
    """By the digest, rows of a submission can be checked without the data."""
    task_rules = read_rules("sample").by_task

    digests = digest_tasks(list(task_rules))

    for task, rules in task_rules.items():
        assert rules.documents == digests[task].count
        assert rules.digest == digests[task].hexdigest()


@pytest.mark.parametrize(
    ("leaderboard", "task", "data_folder"),
    [
        ("factor", "expert_factor", "factor"),
        ("factor", "expert_factor_clean", "factor"),
        ("factor_generation", "expert_factor_generation", "factor"),
        ("felm", "felm_segment_vanilla", "felm"),
        ("felm", "felm_segment_doc", "felm"),
        ("felm_gen", "felm_gen", "felm"),
    ],
)
def test_the_rules_have_the_digests_of_the_published_data(leaderboard, task, data_folder, shared):
    """These data are downloaded, and are not part of the repository."""
    digests = digest_tasks([task], str(shared / "data" / data_folder))

    assert read_rules(leaderboard).by_task[task].digest == digests[task].hexdigest()


def digest_of(documents: dict[int, dict[str, Any]]) -> str:
    """Return the digest of documents by number; ``mean_logprob`` is an output of the model."""
    digest = DocumentDigest(model_outputs=("mean_logprob",))
    for number, document in documents.items():
        digest.add(number, document)
    return digest.hexdigest()


FIRST_DOCUMENT = {"text": "first", "mean_logprob": [0]}
SECOND_DOCUMENT = {"text": "second", "mean_logprob": [1]}


def test_a_digest_does_not_depend_on_the_order_of_documents():
    """lm_eval logs rows in any order."""
    digest = digest_of({0: FIRST_DOCUMENT, 1: SECOND_DOCUMENT})

    assert digest_of({1: SECOND_DOCUMENT, 0: FIRST_DOCUMENT}) == digest


def test_a_digest_does_not_depend_on_outputs_of_the_model():
    """lm_eval adds outputs of the model, such as ``mean_logprob``, to some documents."""
    digest = digest_of({0: {"text": "first", "mean_logprob": [0]}})

    assert digest_of({0: {"text": "first", "mean_logprob": [None]}}) == digest


@pytest.mark.parametrize(
    "documents",
    [
        pytest.param({0: FIRST_DOCUMENT, 1: {"text": "other"}}, id="another text"),
        pytest.param({0: FIRST_DOCUMENT}, id="a missing document"),
    ],
)
def test_a_digest_depends_on_every_document(documents):
    """A forger could otherwise replace or leave out a hard document."""
    digest = digest_of({0: FIRST_DOCUMENT, 1: SECOND_DOCUMENT})

    assert digest_of(documents) != digest


def test_an_unknown_leaderboard_is_refused_with_the_nearest_name():
    with pytest.raises(ConfigError, match="did you mean factor"):
        read_rules("factr")


def test_path_is_refused_as_a_leaderboard_name():
    """The name comes from a submission, which must not make the suite read other files."""
    with pytest.raises(ConfigError, match="no leaderboard is called"):
        read_rules("../judges/lexical")


def write_changed_rules(folder: Path, line: str, changed_line: str) -> Path:
    """Write the sample's rules with one changed line as ``mine.yaml``, and return its path."""
    text = SAMPLE_RULES.read_text(encoding="utf-8")
    assert line in text
    path = folder / "mine.yaml"
    path.write_text(text.replace(line, changed_line), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("line", "changed_line", "message"),
    [
        pytest.param(
            "certificate: any",
            "certifcate: any",
            "unknown key 'certifcate'; did you mean certificate?",
            id="misspelt key",
        ),
        pytest.param(
            "certificate: any",
            "certificate: some",
            "certificate is 'some'; expected 'none', 'any' or 'published'",
            id="unknown value",
        ),
        pytest.param(
            "documents: 432",
            "documents: many",
            "tasks.sample_factor.documents is 'many'; expected a valid integer",
            id="no number",
        ),
        pytest.param(
            "    headline: factor_acc",
            "    headlne: factor_acc",
            "unknown key 'headlne' of tasks.sample_factor; did you mean headline?",
            id="misspelt key of a task",
        ),
        pytest.param(
            "max_unscored: 0.05",
            "max_unscored: 20",
            "max_unscored is 20; expected less than or equal to 1",
            id="share above 1",
        ),
    ],
)
def test_rules_with_a_wrong_line_are_refused(line, changed_line, message, tmp_path):
    """If a misspelt rule were ignored, the board would accept what the rule forbids."""
    path = write_changed_rules(tmp_path, line, changed_line)

    with pytest.raises(ConfigError) as error:
        read_rules("mine", tmp_path)

    assert f"{path}: {message}" in str(error.value)


@pytest.mark.parametrize("versions", ["['0.4.']", "0.4", "'0.4'"])
def test_rules_need_a_range_of_versions_of_lm_eval(versions, tmp_path):
    """A prefix such as "0.4." or the number 0.4 says neither where to begin nor where to end."""
    path = write_changed_rules(
        tmp_path, "lm_eval_versions: '>=0.4.13,<0.5'", f"lm_eval_versions: {versions}"
    )

    with pytest.raises(ConfigError) as error:
        read_rules("mine", tmp_path)

    message = f"lm_eval_versions is {versions}; expected versions such as '>=0.4.13,<0.5'"
    assert f"{path}: {message}" in str(error.value)


def test_rules_that_rank_by_no_score_are_refused(tmp_path):
    """A board needs something to sort models by."""
    lines = SAMPLE_RULES.read_text(encoding="utf-8").splitlines()
    without_headlines = [line for line in lines if "headline:" not in line]
    (tmp_path / "mine.yaml").write_text("\n".join(without_headlines), encoding="utf-8")

    with pytest.raises(ConfigError, match="ranks nothing: no task has a headline"):
        read_rules("mine", tmp_path)
