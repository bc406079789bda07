"""Releases of lm_eval that lack what the suite relies on: a sentence instead of an AttributeError,
or a run that does without."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from lm_factuality.ground.errors import ConfigError
from lm_factuality.harness import internals
from tests.conftest import REPOSITORY

PAGE = (REPOSITORY / "docs" / "development.md").read_text(encoding="utf-8")

# A later lm_eval's own standard errors are out of the suite's reach, but lm_eval still finds them.
WITHOUT_STDERR = """
import builtins, logging
from lm_eval import evaluator_utils
builtins.stderr_for_metric = evaluator_utils.stderr_for_metric
del evaluator_utils.stderr_for_metric
logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")

from lm_eval import simple_evaluate
from lm_eval.tasks import TaskManager
from lm_factuality.harness.tasks import with_suite

manager = TaskManager(include_path=with_suite(), include_defaults=False)
arguments = {"pretrained": "tasks/sample/models/smaller", "dtype": "float32", "device": "cpu"}
tasks = ["sample_factor", "sample_factor_perplexity"]
found = simple_evaluate("hf", model_args=arguments, tasks=tasks, task_manager=manager, limit=4, batch_size=4)
results = found["results"]["sample_factor"]
print(results["factor_acc,none"], results["factor_acc_stderr,none"])
"""


def test_without_the_function_of_standard_errors_they_are_absent_with_one_warning():
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_STDERR],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    score, stderr = done.stdout.splitlines()[-1].split()
    assert 0 <= float(score) <= 1
    assert stderr == "N/A"
    warnings = [line for line in done.stderr.splitlines() if "standard errors are absent" in line]
    assert len(warnings) == 1
    assert "no lm_eval.evaluator_utils.stderr_for_metric" in warnings[0]


@pytest.mark.parametrize(
    "name", ["lm_eval.api.model:LM.gone", "lm_eval.gone:f", "lm_eval._cli:Gone.method"]
)
def test_a_missing_part_is_named_with_what_to_install(name):
    with pytest.raises(ConfigError, match=r"lm_eval \d+\.\d+\.\d+ has no lm_eval\.\w+") as raised:
        internals.internal(name)
    assert name.replace(":", ".") in str(raised.value)
    assert f"pip install '{internals.SUPPORTED}'" in str(raised.value)


def test_the_supported_releases_are_those_of_the_project():
    assert f'"{internals.SUPPORTED}"' in (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8")


NAMES = {
    name
    for path in (REPOSITORY / "lm_factuality").rglob("*.py")
    for name in re.findall(
        r'(?:internal|lacks)\(f?"(lm_eval[\w.:{}]+)"', path.read_text(encoding="utf-8")
    )
}


@pytest.mark.parametrize("name", sorted(NAMES))
def test_the_page_lists_what_is_looked_up(name):
    assert name.replace(":", ".").split(".{")[0] in PAGE


def test_every_private_module_is_looked_up_by_name():
    paths = [*(REPOSITORY / "lm_factuality").rglob("*.py"), *(REPOSITORY / "judges").rglob("*.py")]
    private = re.compile(r"^\s*(?:from|import) lm_eval(?:\.\w+)*\._\w+", re.MULTILINE)
    assert [path for path in paths if private.search(path.read_text(encoding="utf-8"))] == []
