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


def test_it_imports_nothing_else_of_the_project():
    for path in (REPOSITORY / "judges").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [each.name for each in node.names] if isinstance(node, ast.Import) else []
            for name in names:
                allowed = not name.startswith(("lm_factuality", "factor_gen")) or name.startswith(
                    "lm_factuality.ground"
                )
                assert allowed or (
                    name == "lm_factuality"
                    and [each.name for each in node.names] == ["__version__"]
                ), (
                    path,
                    name,
                )


def test_prompts_are_known_by_the_prefix_of_whoever_registers_them(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(templates, "_registered_folders", {"": templates._registered_folders[""]})
    assert prompt_names() == ["verify", "verify_true_false"]
    prompts = Prompts()
    (tmp_path / "ask.jinja").write_text(
        '{% from "mine/_part" import word %}{{ word() }} {{ claim }}', encoding="utf-8"
    )
    (tmp_path / "_part.jinja").write_text(
        "{% macro word() %}Really:{% endmacro %}", encoding="utf-8"
    )
    register_prompts("mine", tmp_path)
    assert prompt_names() == ["mine/ask", "verify", "verify_true_false"]
    assert prompts.render("mine/ask", {"claim": "a"}) == "Really: a"
    before = prompts.hash("mine/ask")
    (tmp_path / "_part.jinja").write_text("{% macro word() %}Sure:{% endmacro %}", encoding="utf-8")
    assert Prompts().hash("mine/ask") != before
    with pytest.raises(ConfigError, match="no prompt is called 'mine/aks'; did you mean mine/ask"):
        Prompts({"mine/aks": tmp_path / "ask.jinja"})
    with pytest.raises(ConfigError, match="no prompt is called"):
        prompts.hash("mine/../../etc/passwd")


def test_every_backend_is_a_module_and_keys_of_the_config():
    fields = {each.name for each in dataclasses.fields(JudgeConfig)}
    for name, entry in BACKENDS.items():
        assert callable(resolve_name(entry.backend)), name
        assert set(entry.keys) <= fields
    assert capabilities_of("some other").reads_prompts
    assert not capabilities_of("lexical").can_answer("cut")
    assert capabilities_of("openai").can_answer("cut")
