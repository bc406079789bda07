"""YAMLs of strangers: what they name is not imported unless the user says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from lm_factuality.cli import main
from lm_factuality.harness.run import run
from tests.conftest import TASKS

EVIL = "from pathlib import Path\nPath(__file__).with_name('ran').touch()\ndef f(docs):\n    return docs\nclass FactorTask: pass\n"
FACTOR = TASKS / "factor" / "_factor.yaml"
YAMLS = {
    "a filter of documents": f"include: {FACTOR}\ntask: mine\ndataset_path: rows.csv\nprocess_docs: !function evil.f\n",
    "a prompt": f"include: {FACTOR}\ntask: mine\ndataset_path: rows.csv\ndoc_to_text: !function evil.f\ndoc_to_choice: choices\n",
    "a class": "class: !function evil.FactorTask\ntask: mine\ndataset_path: rows.csv\n",
    "deep in a list": "task: mine\nmetric_list:\n- metric: !function evil.f\n",
    "in what it includes": "include: more.yaml\ntask: mine\n",
    "beside it, by the suite's name": "class: !function lm_factuality.benchmarks.factor.task.FactorTask\ntask: mine\n",
    "a path": "class: !function ../here/evil.f\ntask: mine\n",
    "a module of Python's": "class: !function os.system\ntask: mine\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "here"
    beside = found / "lm_factuality" / "benchmarks" / "factor"
    beside.mkdir(parents=True)
    for path in (found / "evil.py", beside / "task.py"):
        path.write_text(EVIL, encoding="utf-8")
    (found / "more.yaml").write_text("process_docs: !function evil.f\n", encoding="utf-8")
    return found


@pytest.mark.parametrize("name", YAMLS)
def test_validate_imports_no_python_that_a_yaml_names(name, folder, capsys):
    path = folder / "mine.yaml"
    path.write_text(YAMLS[name], encoding="utf-8")
    assert main(["validate", str(path)]) == 1
    assert not list(folder.rglob("ran"))
    assert "!function" in (told := capsys.readouterr().out)
    assert "--run-code" in told


def test_validate_imports_it_when_told_to(folder):
    path = folder / "mine.yaml"
    path.write_text(YAMLS["a prompt"], encoding="utf-8")
    main(["validate", "--run-code", str(path)])
    assert (folder / "ran").exists()


def test_run_says_what_it_imports(folder, caplog):
    path = folder / "mine.yaml"
    path.write_text(YAMLS["a prompt"], encoding="utf-8")
    with pytest.raises(Exception, match=r"rows\.csv"):
        run(["--model", "dummy", "--tasks", str(path)])
    assert any("importing evil.f" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\ntask: mine\n",
        "[" * 5000,
        "include: mine.yaml\n",
        "\x00",
    ],
)
def test_strange_yamls_are_told_of(text, folder, capsys):
    path = folder / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    assert main(["validate", str(path)]) == 1
    assert "Traceback" not in capsys.readouterr().err


def test_a_long_prompt_is_no_name_of_a_file(folder, capsys):
    path = folder / "mine.yaml"
    prompt = f"doc_to_text: '{'word ' * 100}. {{{{ prefix }}}}'"
    path.write_text(
        f"include: {FACTOR}\ntask: mine\ndataset_path: rows.csv\n{prompt}\ndoc_to_choice: choices\n",
        encoding="utf-8",
    )
    assert main(["validate", str(path)]) == 1
    assert "rows.csv" in capsys.readouterr().out
