"""The engine stands on the ground alone, and whoever uses it brings their prompts."""

from __future__ import annotations

import ast
import dataclasses
from pathlib import Path
from pkgutil import resolve_name

import pytest

from judges import templates
from judges.capabilities import BACKENDS, capabilities_of
from judges.config import JudgeConfig
from judges.templates import Prompts, prompt_names, register_prompts
from lm_factuality.ground.errors import ConfigError
from tests.conftest import REPOSITORY


def imported_names(path: Path) -> set[str]:
    """What a module imports, with the name after "from" in front: ``judges.store.AnswerStore``."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return names


@pytest.mark.parametrize(
    "path", sorted((REPOSITORY / "judges").rglob("*.py")), ids=lambda path: path.stem
)
def test_engine_imports_only_the_ground_package(path: Path):
    """Other projects can use the engine of judges without the benchmarks.

    The ground is the package with what all packages share, such as errors and files.
    """
    other_packages = {
        name
        for name in imported_names(path)
        if name.startswith(("lm_factuality", "factor_gen"))
        and not name.startswith("lm_factuality.ground")
    }

    assert other_packages <= {"lm_factuality.__version__"}


@pytest.fixture
def only_prompts_of_engine(monkeypatch) -> None:
    """Hide the prompts of benchmarks, which other tests may have registered in this process."""
    engine_folders = {"": templates._registered_folders[""]}
    monkeypatch.setattr(templates, "_registered_folders", engine_folders)


@pytest.fixture
def mine(tmp_path: Path, only_prompts_of_engine) -> Path:
    """Return a folder with the prompt "ask", which takes a word from "_part".

    It is registered as "mine", and no other folder is registered but the engine's own.
    """
    (tmp_path / "ask.jinja").write_text(
        '{% from "mine/_part" import word %}{{ word() }} {{ claim }}', encoding="utf-8"
    )
    (tmp_path / "_part.jinja").write_text(
        "{% macro word() %}Really:{% endmacro %}", encoding="utf-8"
    )
    register_prompts("mine", tmp_path)
    return tmp_path


def test_engine_has_four_built_in_prompts(only_prompts_of_engine):
    assert prompt_names() == ["check", "queries", "verify", "verify_true_false"]


def test_registered_prompts_have_a_prefix(mine: Path):
    """So two packages can have a prompt of the same name."""
    assert prompt_names() == ["check", "mine/ask", "queries", "verify", "verify_true_false"]
    assert Prompts().render("mine/ask", {"claim": "a"}) == "Really: a"


def test_a_prompt_registered_later_is_known_to_earlier_prompts(tmp_path: Path, monkeypatch):
    """A benchmark registers its prompts when it is imported, which may be late."""
    monkeypatch.setattr(templates, "_registered_folders", dict(templates._registered_folders))
    prompts = Prompts()
    (tmp_path / "late.jinja").write_text("Is it {{ claim }}?", encoding="utf-8")

    register_prompts("later", tmp_path)

    assert prompts.render("later/late", {"claim": "a"}) == "Is it a?"


def test_the_hash_of_a_prompt_covers_the_parts_that_it_imports(mine: Path):
    """Results state the hash, and a changed part changes what the judge reads."""
    hash_before = Prompts().hash("mine/ask")

    (mine / "_part.jinja").write_text("{% macro word() %}Sure:{% endmacro %}", encoding="utf-8")

    assert Prompts().hash("mine/ask") != hash_before


def test_an_unknown_prompt_is_refused_with_the_nearest_name(mine: Path):
    """The text of a misspelt prompt would never be used."""
    with pytest.raises(ConfigError, match="no prompt is called 'mine/aks'; did you mean mine/ask"):
        Prompts({"mine/aks": mine / "ask.jinja"})


def test_a_prompt_outside_the_registered_folders_is_unknown(mine: Path):
    """A YAML of somebody else must not make the suite read any file of the user."""
    with pytest.raises(ConfigError, match="no prompt is called"):
        Prompts().hash("mine/../../etc/passwd")


@pytest.mark.parametrize("name", BACKENDS)
def test_a_backend_can_be_imported_and_reads_known_keys(name: str):
    """Backends are imported by name when they are needed, so a wrong name would show late."""
    config_keys = {field.name for field in dataclasses.fields(JudgeConfig)}

    backend = BACKENDS[name]
    assert callable(resolve_name(backend.backend))
    assert set(backend.keys) <= config_keys


def test_the_lexical_backend_cannot_cut_a_text_into_claims():
    """It compares words and writes no text. A language model can do both."""
    assert not capabilities_of("lexical").can_answer("cut")
    assert capabilities_of("openai").can_answer("cut")


def test_unknown_backend_is_assumed_to_read_prompts():
    """A backend of another package stands for a language model, as most do."""
    assert capabilities_of("some other").reads_prompts
