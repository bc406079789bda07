"""The pages name only what exists: files, commands, options, targets, modules. The site builds."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Collection, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from factor_gen.cli import app as factor_gen_app
from lm_factuality.cli.main import _RUN_HELP, app
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
PROGRAMS = {"lm-factuality": get_command(app), "factor-gen": get_command(factor_gen_app)}

# The target of a link, unless it begins with a scheme such as https.
LINK_TARGET = re.compile(r"\]\((?![a-z]+:)([^)\s]+)\)")
PATH = re.compile(
    r"(?<![\w./-])(?:tasks|configs|lm_factuality|judges|factor_gen|docs|tests)/[\w./*-]*[\w/*]"
)
PATH_WITH_VARIABLE = "tasks/sample/models/$model"  # of a shell loop
CODE_BLOCK = re.compile(r"(?ms)^ *```[a-z]*\n(.*?)^ *```")
VARIABLE = re.compile(r"\bLM_FACTUALITY_[A-Z]+\b")

# Sources of scripts, images and styles in HTML.
LOADED_URL = re.compile(
    r"<(?:script|img|iframe)[^>]*\ssrc=\"?(?P<source>[^\s\">]+)"
    r"|<link[^>]*\shref=\"?(?P<link>[^\s\">]+)"
)


def read(page: Path) -> str:
    """Read a page."""
    return page.read_text(encoding="utf-8")


every_page = pytest.mark.parametrize(
    "page", PAGES, ids=lambda page: page.relative_to(REPOSITORY).as_posix()
)


def code_of(text: str) -> Iterator[str]:
    """Yield everything in a page that is set as code.

    Yields:
        The lines of each block, with lines that a backslash continues joined, and then each span in
        backticks.
    """
    for block in CODE_BLOCK.findall(text):
        yield from re.sub(r"\\\n\s*", " ", block).splitlines()
    yield from re.findall(r"`([^`\n]+)`", CODE_BLOCK.sub("", text))


def anchors_of(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as mkdocs and GitHub make them.

    Example:
        ``## What it needs`` has the anchor ``what-it-needs``.
    """
    anchors = set()
    for heading in re.findall(r"(?m)^#+ (.*)$", read(page)):
        letters = re.sub(r"[^\w\s-]", "", heading.lower())
        anchors.add(re.sub(r"[-\s]+", "-", letters).strip("-"))
    return anchors


def options_of(command: TyperCommand | TyperGroup, words: list[str]) -> set[str]:
    """Return the options that a command line may have.

    Args:
        command: The program, or a group of its commands.
        words: What follows its name, such as ``["leaderboard", "pack", "results"]``.
    """
    options = {option for parameter in command.params for option in parameter.opts} | {"--help"}
    has_subcommand = isinstance(command, TyperGroup) and words and not words[0].startswith("-")
    if not has_subcommand:
        return options
    assert words[0] in command.commands, f"{command.name} has no {words[0]!r}"
    return options | options_of(command.commands[words[0]], words[1:])


def all_options_of(command: TyperCommand | TyperGroup) -> set[str]:
    """Return the options of a command and of all its subcommands."""
    options = options_of(command, [])
    if isinstance(command, TyperGroup):
        for subcommand in command.commands.values():
            options |= all_options_of(subcommand)
    return options


@cache
def options_of_run() -> frozenset[str]:
    """Return the options of ``lm-factuality run``: those of ``lm_eval run``, and its own."""
    from lm_eval._cli import HarnessCLI

    (subparsers,) = [action for action in HarnessCLI()._parser._actions if action.choices]
    own_options = re.findall(r"^  (--[a-z-]+)", _RUN_HELP, re.MULTILINE)
    return frozenset({*subparsers.choices["run"]._option_string_actions, *own_options})


def known_options(words: list[str]) -> Collection[str]:
    """Return the options that the program of a command line knows."""
    program, subcommand, *_ = words
    if subcommand == "run" and program != "factor-gen":
        return options_of_run()
    assert program in PROGRAMS, words
    return options_of(PROGRAMS[program], words[1:])


def command_in(line: str) -> list[str]:
    """Return the words of a command of the suite or of lm_eval, or no words for other code."""
    try:
        words = shlex.split(line, comments=True)
    except ValueError:  # an open quote, as in a line of Python
        return []
    while words and re.fullmatch(r"[A-Z_]+=\S*", words[0]):
        words = words[1:]  # variables of the environment
    is_command = len(words) > 1 and words[0] in (*PROGRAMS, "lm_eval")
    return words if is_command else []


def commands_of(page: Path) -> Iterator[list[str]]:
    """Yield the words of each command of the suite or of lm_eval in a page."""
    for line in code_of(read(page)):
        words = command_in(line)
        if words:
            yield words


@every_page
def test_links_target_existing_files_and_headings(page):
    """A heading that was renamed breaks links of other pages."""
    for link in LINK_TARGET.findall(read(page)):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.is_file(), link
        assert not anchor or anchor in anchors_of(target), link


@every_page
def test_paths_of_the_repository_exist(page):
    """Readers copy paths, and a file that was moved leaves its old path behind."""
    text = read(page).replace(PATH_WITH_VARIABLE, "")

    for path in PATH.findall(text):
        if "*" in path:
            assert list(REPOSITORY.glob(path)), path
        else:
            assert (REPOSITORY / path).exists(), path


@every_page
def test_commands_and_their_options_exist(page):
    """Readers copy commands, so a renamed option must be renamed on the pages too."""
    for words in commands_of(page):
        options = {word.partition("=")[0] for word in words if word.startswith("--")}

        assert options <= known_options(words), words


@every_page
def test_options_without_a_command_exist_in_some_command(page):
    """A page may name an option in a sentence, without its command."""
    all_options = set(options_of_run())
    for program in PROGRAMS.values():
        all_options |= all_options_of(program)

    for span in re.findall(r"`(--[^`\n]+)`", read(page)):
        option, _, _ = span.split()[0].partition("=")
        assert option in all_options, span


@every_page
def test_targets_of_make_exist(page):
    """Contributors copy these commands."""
    makefile = read(REPOSITORY / "Makefile")

    for line in code_of(read(page)):
        match = re.match(r"make ([a-z-]+)", line)
        if match:
            assert re.search(rf"(?m)^{match[1]}:", makefile), line


@every_page
def test_modules_that_python_runs_exist(page):
    """Readers copy commands such as ``python -m bench``, and modules change their names."""
    for line in code_of(read(page)):
        match = re.search(r"python -m ([\w.]+)", line)
        if match:
            assert find_spec(match[1]), line


def test_every_command_is_documented():
    """Users do not find a command that no page names."""
    documented_commands = set()
    for page in PAGES:
        for _program, command, *_ in commands_of(page):
            documented_commands.add(command)

    undocumented_commands = set(PROGRAMS["lm-factuality"].commands) - documented_commands
    # The pages show "make quickstart" instead.
    assert undocumented_commands <= {"quickstart"}


def test_every_extra_of_the_package_is_documented():
    """A user needs the name of an extra to install it."""
    documented_extras = set()
    for page in PAGES:
        for names in re.findall(r"lm-factuality\[([a-z,]+)\]", read(page)):
            documented_extras.update(names.split(","))

    assert documented_extras == set(PROJECT["optional-dependencies"])


def test_every_environment_variable_of_the_suite_is_documented():
    """Variables that were removed must leave the pages as well."""
    documented_variables = set()
    for page in PAGES:
        documented_variables.update(VARIABLE.findall(read(page)))

    variables = set()
    for package in PACKAGES:
        for path in (REPOSITORY / package).rglob("*.py"):
            variables.update(VARIABLE.findall(read(path)))
    assert documented_variables == variables


def test_the_readme_is_short():
    """A visitor decides by this page, and reads no more than it."""
    assert len(read(REPOSITORY / "README.md").splitlines()) <= 150


every_task_folder = pytest.mark.parametrize(
    "folder",
    sorted(path for path in TASKS.iterdir() if path.is_dir()),
    ids=lambda folder: folder.name,
)


@every_task_folder
@pytest.mark.parametrize("heading", ["### Paper", "### Tasks", "### Data and licence"])
def test_the_readme_of_a_folder_of_tasks_has_the_headings_of_lm_eval(folder, heading):
    """lm_eval asks these of tasks that are contributed to it."""
    assert f"\n{heading}\n" in read(folder / "README.md")


@every_task_folder
def test_the_readme_of_a_folder_of_tasks_names_its_tasks_and_groups(folder):
    """Users look there for what they can run."""
    text = read(folder / "README.md")

    # A file whose name begins with "_" is part of others and no task.
    for path in folder.glob("[!_]*.yaml"):
        # Without lm_eval, nothing knows the tag "!function".
        config = yaml.safe_load(read(path).replace("!function ", ""))
        name = config.get("group") or config["task"]
        assert f"`{name}`" in text, path.name


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """Build the site without a network and with warnings as errors, and return its folder."""
    folder = tmp_path_factory.mktemp("site")
    no_server = "http://127.0.0.1:9"
    environment = {
        **os.environ,
        "NO_MKDOCS_2_WARNING": "1",
        "http_proxy": no_server,
        "https_proxy": no_server,
    }
    options = ["--strict", "--config-file", "docs/theme/mkdocs.yml", "--site-dir", str(folder)]
    process = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", *options],
        cwd=REPOSITORY,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return folder


def test_the_site_has_all_pages(site):
    """A page that the navigation forgets would not be built.

    There is a page for wrong addresses besides.
    """
    assert len(list(site.rglob("*.html"))) > len(PAGES)  # 404.html besides


def test_the_site_loads_nothing_from_the_network(site):
    """No other server learns of a reader, and the pages work without a network."""
    for page in site.rglob("*.html"):
        for match in LOADED_URL.finditer(read(page)):
            url = match["source"] or match["link"]
            has_server = re.match(r"(?:[a-z]+:)?//", url)
            assert not has_server, (page.name, url)


EXAMPLE_FILES = ("capitals.py", "capitals.yaml", "rivers.py")


def test_page_on_adding_a_benchmark_shows_the_tested_files():
    """Readers copy these files, so they must be the ones that work."""
    page = read(REPOSITORY / "docs" / "add_a_benchmark.md")

    blocks = re.findall(r"```(?:python|yaml)\n(.*?)```", page, flags=re.DOTALL)

    assert blocks == [read(REPOSITORY / "tests" / "seventh" / name) for name in EXAMPLE_FILES]


@pytest.mark.parametrize("name", EXAMPLE_FILES)
def test_a_benchmark_is_added_by_files_of_forty_lines(name):
    """The page promises it."""
    assert len(read(REPOSITORY / "tests" / "seventh" / name).splitlines()) <= 40
