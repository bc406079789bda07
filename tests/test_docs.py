"""README.md, docs/ and the tasks' READMEs name only what exists: files, commands, options, targets,
modules; and the site builds."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from factor_gen.cli import app as factor_gen
from lm_factuality.cli.main import app
from tests.conftest import REPOSITORY, TASKS
from tests.test_project import PROJECT

PACKAGES = ("lm_factuality", "judges", "factor_gen")
PAGES = [
    REPOSITORY / "README.md",
    REPOSITORY / "CHANGELOG.md",
    REPOSITORY / ".github" / "CONTRIBUTING.md",
    *sorted((REPOSITORY / "docs").glob("*.md")),
    *sorted(TASKS.glob("*/README.md")),
]
_LINK = re.compile(r"\]\((?![a-z]+:)([^)\s]+)\)")
_PATH = re.compile(
    r"(?<![\w./-])(?:tasks|configs|lm_factuality|judges|factor_gen|docs|tests)/[\w./*-]*[\w/*]"
)
_MADE = ("tasks/sample/models/$model",)  # a variable of a shell loop
_LM_EVAL_COMMANDS = ("lm-factuality run", "lm_eval run")


def identify(path: Path) -> str:
    return path.relative_to(REPOSITORY).as_posix()


every_page = pytest.mark.parametrize("page", PAGES, ids=identify)


def code_of(text: str) -> Iterator[str]:
    """Everything in a page that is set as code: lines of blocks, continued lines joined, and spans
    in backticks."""
    blocks = re.findall(r"(?ms)^ *```[a-z]*\n(.*?)^ *```", text)
    for block in blocks:
        yield from re.sub(r"\\\n\s*", " ", block).splitlines()
    yield from re.findall(r"`([^`\n]+)`", re.sub(r"(?ms)^ *```.*?^ *```", "", text))


def anchors_of(page: Path) -> set[str]:
    """The anchors of a page's headings, as mkdocs and GitHub make them."""
    headings = re.findall(r"(?m)^#+ (.*)$", page.read_text(encoding="utf-8"))
    return {
        re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading.lower())).strip("-")
        for heading in headings
    }


PROGRAMS = {"lm-factuality": get_command(app), "factor-gen": get_command(factor_gen)}


def options_of(command: TyperCommand | TyperGroup, words: list[str]) -> set[str]:
    """The options of the command that ``words`` begin with, such as ``["leaderboard", "pack",
    ...]``."""
    options = {option for parameter in command.params for option in parameter.opts} | {"--help"}
    if not isinstance(command, TyperGroup) or not words or words[0].startswith("-"):
        return options
    assert words[0] in command.commands, f"{command.name} has no {words[0]!r}"
    return options | options_of(command.commands[words[0]], words[1:])


def every_option(command: TyperCommand | TyperGroup) -> set[str]:
    """The options of a command and of its subcommands."""
    options = options_of(command, [])
    if isinstance(command, TyperGroup):
        options = options.union(*map(every_option, command.commands.values()))
    return options


def lm_eval_options() -> set[str]:
    from lm_eval._cli import HarnessCLI

    (subparsers,) = (each for each in HarnessCLI()._parser._actions if each.choices)
    return set(subparsers.choices["run"]._option_string_actions)


def commands_in(line: str) -> Iterator[list[str]]:
    """The commands of the suite and of lm_eval in a line of code, as words."""
    try:
        words = shlex.split(line, comments=True)
    except ValueError:
        return
    while words and re.fullmatch(r"[A-Z_]+=\S*", words[0]):
        words = words[1:]  # variables of the environment
    if len(words) > 1 and words[0] in ("lm-factuality", "factor-gen", "lm_eval"):
        yield words


@every_page
def test_links_lead_to_files_and_headings(page):
    for link in _LINK.findall(page.read_text(encoding="utf-8")):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.is_file(), link
        assert not anchor or anchor in anchors_of(target), link


@every_page
def test_paths_exist(page):
    text = page.read_text(encoding="utf-8")
    for made in _MADE:
        text = text.replace(made, "")
    for path in _PATH.findall(text):
        found = list(REPOSITORY.glob(path)) if "*" in path else [REPOSITORY / path]
        assert found, path
        assert all(each.exists() for each in found), path


@every_page
def test_commands_and_their_options_exist(page):
    for line in code_of(page.read_text(encoding="utf-8")):
        for words in commands_in(line):
            if " ".join(words[:2]) in _LM_EVAL_COMMANDS:
                known = lm_eval_options()
            else:
                assert words[0] != "lm_eval", line
                known = options_of(PROGRAMS[words[0]], words[1:])
            options = {word.partition("=")[0] for word in words if word.startswith("--")}
            assert options <= known, f"{options - known} in: {line}"


@every_page
def test_options_named_alone_are_options_of_some_command(page):
    known = lm_eval_options().union(*map(every_option, PROGRAMS.values()))
    for span in re.findall(r"`(--[^`\n]+)`", page.read_text(encoding="utf-8")):
        assert span.split()[0].partition("=")[0] in known, span


@every_page
def test_make_targets_and_modules_exist(page):
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    for line in code_of(page.read_text(encoding="utf-8")):
        if target := re.match(r"make ([a-z-]+)", line):
            assert re.search(rf"(?m)^{target[1]}:", makefile), line
        if module := re.search(r"python -m ([\w.]+)", line):
            assert find_spec(module[1]), line


def test_every_command_is_documented():
    lines = [line for page in PAGES for line in code_of(page.read_text(encoding="utf-8"))]
    shown = {" ".join(words[:2]) for line in lines for words in commands_in(line)}
    assert {f"lm-factuality {name}" for name in PROGRAMS["lm-factuality"].commands} - shown <= {
        "lm-factuality quickstart"
    }  # make quickstart


def test_every_extra_and_every_variable_of_the_suite_is_documented():
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    extras = set(PROJECT["optional-dependencies"])
    assert {
        name
        for names in re.findall(r"lm-factuality\[([a-z,]+)\]", text)
        for name in names.split(",")
    } == extras
    code = [
        path.read_text(encoding="utf-8")
        for name in PACKAGES
        for path in (REPOSITORY / name).rglob("*.py")
    ]
    read = {name for each in code for name in re.findall(r"\bLM_FACTUALITY_[A-Z]+\b", each)}
    assert set(re.findall(r"\bLM_FACTUALITY_[A-Z]+\b", text)) == read


def test_the_readme_is_short():
    assert len((REPOSITORY / "README.md").read_text(encoding="utf-8").splitlines()) <= 150


@pytest.mark.parametrize(
    "folder", sorted(path for path in TASKS.iterdir() if path.is_dir()), ids=lambda path: path.name
)
def test_every_folder_of_tasks_has_a_readme_that_names_its_tasks_and_groups(folder):
    text = (folder / "README.md").read_text(encoding="utf-8")
    for heading in ("### Paper", "### Tasks", "### Data and licence"):
        assert f"\n{heading}\n" in text, heading
    for path in folder.glob("[!_]*.yaml"):
        config = yaml.safe_load(path.read_text(encoding="utf-8").replace("!function ", ""))
        assert f"`{config.get('group') or config['task']}`" in text, path.name


def test_the_site_builds_without_a_warning_and_loads_nothing_from_the_network(tmp_path):
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--config-file",
        "docs/theme/mkdocs.yml",
        "--site-dir",
        str(tmp_path),
    ]
    environment = {
        **os.environ,
        "NO_MKDOCS_2_WARNING": "1",
        "http_proxy": "http://127.0.0.1:9",
        "https_proxy": "http://127.0.0.1:9",
    }
    built = subprocess.run(
        command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > len(PAGES)  # 404.html besides
    for page in pages:
        text = page.read_text(encoding="utf-8")
        loaded = re.findall(
            r"<(?:script|img|iframe)[^>]*\ssrc=\"?([^\s\">]+)|<link[^>]*\shref=\"?([^\s\">]+)", text
        )
        assert not [url for urls in loaded for url in urls if re.match(r"(?:[a-z]+:)?//", url)], (
            page.name
        )


def test_the_page_on_adding_a_benchmark_shows_what_tests_seventh_runs():
    page = (REPOSITORY / "docs" / "add_a_benchmark.md").read_text(encoding="utf-8")
    files = [
        (REPOSITORY / "tests" / "seventh" / name).read_text(encoding="utf-8")
        for name in ("capitals.py", "capitals.yaml", "rivers.py")
    ]
    assert re.findall(r"```(?:python|yaml)\n(.*?)```", page, flags=re.DOTALL) == files
    assert all(file.count("\n") <= 40 for file in files)
