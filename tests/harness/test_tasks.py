"""What is said before a model is loaded, as the command line says it: one line, exit code 1, no
traceback."""

from __future__ import annotations

import sys

import pytest

from lm_factuality.cli import main
from lm_factuality.cli.validation import check_targets as validate
from lm_factuality.ground.errors import ModelError
from lm_factuality.harness import checkpoints
from lm_factuality.harness.tasks import find_configs
from tests.conftest import REPOSITORY, TASKS

CHECKPOINT = str(TASKS / "sample" / "models" / "larger")


@pytest.fixture
def said(capsys, monkeypatch):
    """What ``run`` says of a command line, which would load a model if it found nothing wrong."""
    from lm_eval import evaluator

    def load(*arguments, **options):
        raise AssertionError("it goes on to load the model")

    def said(*arguments, model="hf", pretrained=CHECKPOINT):
        monkeypatch.setattr(sys, "argv", list(sys.argv))
        monkeypatch.setattr(evaluator, "simple_evaluate", load)
        given = [
            "--model",
            model,
            *(["--model_args", f"pretrained={pretrained}"] if pretrained else []),
        ]
        assert main(["run", *given, *arguments]) == 1
        return capsys.readouterr().err.partition("lm-factuality: ")[2]

    return said


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--tasks", "sample_facto"], "did you mean sample_factor"),
        (["--tasks", "zzzzqqqq"], "'zzzzqqqq' is not a task"),
        (["--tasks", "no_such.yaml"], "no_such.yaml: no such file"),
        (["--tasks", "a.yaml"], "a.yaml: no such file"),
        (
            ["--tasks", str(REPOSITORY / "configs/corpora/sample.yaml")],
            "a build of factor-gen, run the YAML that it writes",
        ),
        (["--tasks", "sample_factor", "--metadata", "windoww=4096"], "did you mean window?"),
        (
            ["--tasks", "sample_factor", "--metadata", "judge=lexical"],
            "--metadata judge: no task of this run has such a setting",
        ),
        (
            ["--tasks", "sample_felm", "--metadata", "protocol=papr"],
            "protocol is 'papr'; expected 'paper' or 'code'",
        ),
        (
            ["--tasks", "sample_felm_gen", "--metadata", "judge=lexicl"],
            "did you mean lexical?",
        ),
        (
            ["--tasks", "sample_ambigbio", "--metadata", "knowledge=nowhere.db"],
            "nowhere.db: no such file",
        ),
        (
            ["--tasks", "felm_gen", "--metadata", "judge=lexical,data_dir=/nowhere"],
            "/nowhere/all.jsonl: no such file",
        ),
    ],
    ids=lambda value: value[-1] if isinstance(value, list) else "",
)
def test_tasks_settings_judges_and_data(said, arguments, expected):
    assert expected in said(*arguments)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"model": "hff"}, "--model hff: no such model class; did you mean hf?"),
        ({"pretrained": None}, "--model hf: which one?"),
        (
            {"pretrained": "./lager"},
            "pretrained=./lager: no such folder; did you mean larger?",
        ),
        ({"pretrained": "checkpoints"}, "pretrained=checkpoints: a folder without config.json"),
        ({"pretrained": "nobody/has-it"}, "pretrained=nobody/has-it cannot be loaded"),
        ({"pretrained": "what is this"}, "pretrained=what is this cannot be loaded"),
    ],
    ids=str,
)
def test_models(said, options, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("larger", "checkpoints"):
        (tmp_path / name).mkdir()
    assert expected in said("--tasks", "sample_factor", **options)


def test_a_folder_in_the_format_of_mistral_is_a_checkpoint(tmp_path):
    import lm_eval.models  # noqa: F401  # fills the registry of model classes

    (tmp_path / "params.json").write_text("{}")
    checkpoints.check_model("vllm", {"pretrained": str(tmp_path)}, "")


@pytest.mark.parametrize(
    ("model", "arguments"),
    [
        (
            "hf",
            {"pretrained": CHECKPOINT, "offload_folder": "./offload", "cache_dir": "~/none/yet"},
        ),
        ("hf", {"pretrained": str(TASKS / "sample" / "models"), "subfolder": "larger"}),
        (
            "local-completions",
            {"pretrained": "my-model", "base_url": "http://127.0.0.1:1/v1/completions"},
        ),
        ("vllm", {"pretrained": "s3://bucket/model"}),
    ],
    ids=str,
)
def test_models_that_only_who_loads_them_can_judge(model, arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    import lm_eval.models  # noqa: F401  fills the registry

    checkpoints.check_model(model, arguments, "cpu")


GROUP = """group: mine
task:
  - group: within
    task: [sample_factor, {task: sample_felm, num_fewshot: 0}]
  - group: written
    task:
      - {task: made_here, dataset_path: nobody/has-it, output_type: loglikelihood}
  - group: deep_in
"""


def test_groups_that_are_written_out_within_a_group_are_lm_evals_to_read(said, tmp_path):
    (tmp_path / "mine.yaml").write_text(GROUP, encoding="utf-8")
    (tmp_path / "deep.yaml").write_text(
        "group: deep_in\ntask: [sample_factor_perplexity]\n", encoding="utf-8"
    )
    assert [name for name, _ in find_configs("mine", [str(tmp_path)])] == [
        *("sample_factor", "sample_felm", "made_here", "sample_factor_perplexity")
    ]
    (tmp_path / "mine.yaml").write_text(
        GROUP.replace("[sample_factor,", "[sample_facto,"), encoding="utf-8"
    )
    assert "did you mean sample_factor" in said("--tasks", "mine", "--include_path", str(tmp_path))


@pytest.mark.parametrize(
    ("device", "gpus", "expected"),
    [
        ("cuda:0", 0, "--device cuda:0: this machine shows no GPU"),
        ("cuda:2", 2, "--device cuda:2: no such GPU, and lm_eval would take the first instead"),
        ("cuda", 2, None),
        ("cuda:1", 2, None),
    ],
)
def test_a_gpu_that_is_not_there(monkeypatch, device, gpus, expected):
    monkeypatch.setattr("torch.cuda.device_count", lambda: gpus)
    arguments = {"pretrained": CHECKPOINT}
    if expected is None:
        checkpoints.check_model("hf", arguments, device)
    else:
        with pytest.raises(ModelError, match=expected):
            checkpoints.check_model("hf", arguments, device)


def test_memory_that_runs_out_ends_in_a_line_that_says_what_to_do(said, monkeypatch):
    import torch

    def too_large(*arguments, **options):
        raise torch.OutOfMemoryError(
            "CUDA out of memory. Tried to allocate 2.25 GiB. GPU 0 has a total capacity of 79.18 GiB."
        )

    monkeypatch.setattr("lm_eval._cli.run.Run._execute", too_large)
    told = said("--tasks", "sample_factor")
    assert told.startswith(
        "CUDA out of memory. Tried to allocate 2.25 GiB. GPU 0 has a total capacity of 79.18 GiB.;"
        " take a smaller --batch_size, --model hf-tree"
    )


@pytest.mark.parametrize(
    ("tasks", "with_lm_evals"),
    [
        ("sample_felm_gen,sample_ambigbio", False),
        pytest.param("sample_felm_gen,arc_easy", True, marks=pytest.mark.slow),
    ],
)
def test_all_is_well_and_lm_evals_own_tasks_are_indexed_where_they_are_wanted(
    said, monkeypatch, tasks, with_lm_evals
):
    from lm_eval.tasks import TaskManager
    from lm_eval.tasks._index import TaskIndex

    indexed, build, whole = [], TaskIndex.build, TaskManager.__init__

    def watched(paths, **options):
        indexed.extend(str(path) for path in paths)
        return build(paths, **options)

    monkeypatch.setattr(TaskIndex, "build", staticmethod(watched))
    with pytest.raises(AssertionError, match="goes on to load"):
        said("--tasks", tasks, "--metadata", "judge=lexical,thinking_tokens=0")
    assert any("site-packages" in path for path in indexed) == with_lm_evals
    assert TaskManager.__init__ is whole


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("colums: [a]", "unknown key 'colums'"),
        (
            "metadata: {demonstratons: ambiguous}",
            "metadata: no setting 'demonstratons'; did you mean demonstrations?",
        ),
        ("metadata: {my_note: of no matter}", ""),
    ],
)
def test_misspelt_keys_of_a_yaml(said, tmp_path, lines, expected):
    yaml = tmp_path / "own.yaml"
    data = TASKS / "sample" / "sample_ambigbio.json"
    yaml.write_text(
        f"include: {TASKS}/ambigbio/_ambigbio.yaml\ntask: own\ndataset_path: {data}\n{lines}\n",
        encoding="utf-8",
    )
    (report,) = validate([str(yaml)])
    assert expected in " ".join(report.problems)
    assert bool(report.problems) == bool(expected)
    if expected:
        assert expected in said("--tasks", str(yaml), "--metadata", "judge=lexical")
