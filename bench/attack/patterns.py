"""Attacks each regular expression of the three packages with texts made from its own repeats.

    python -m bench.attack.patterns [PART_OF_NAME ...]

Each repeat without a small limit is pumped: the texts repeat what it matches, behind the beginning
that leads to it and before an end that does not match. A text of four times the length may take no
more than eight times as long, with the methods (``match``, ``sub``, ...) that the code calls. Where
the calls cannot be found, the pattern is searched for. The exit code is 1 if a pattern is slow.
"""

from __future__ import annotations

import ast
import importlib
import re
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tqdm.auto import tqdm

from lm_factuality.ground.console import print_table
from lm_factuality.ground.packages import Patterns

PACKAGES = ("lm_factuality", "judges", "factor_gen")

if sys.version_info >= (3, 11):
    from re import _constants as codes  # type: ignore[attr-defined]
    from re import _parser as parser  # type: ignore[attr-defined]
else:
    import sre_constants as codes
    import sre_parse as parser

NOT_FROM_OUTSIDE = {
    "lm_factuality.ground.settings": "types and keys of a user's own YAML, in an error",
    "lm_factuality.retrieval.search.config": "templates of a user's own YAML",
    "factor_gen.text.conditions": "conditions of a user's own YAML",
    "lm_factuality.harness.outputs": "names of files, which have at most 255 bytes",
    "lm_factuality.ground.secrets": "names of settings, cut to 200 characters",
    "lm_factuality.ground.thinking:_PART_OF_MARK": "special tokens of a tokenizer",
    "judges.lexical.facts:_GRAMMAR['lifespan']": "searched in the first 120 characters alone",
}
"""Patterns that may be slow, by module or by module and name, with the reason."""

_LENGTH = 3000  # characters of the shorter text
_GROWTH = 4  # the longer text in multiples of the shorter
_MOST_SLOWDOWN = 8.0  # linear time gives 4, and quadratic time 16
_NEGLIGIBLE = 0.03  # seconds; a longer text that takes less is no problem
_PATIENCE = 5  # seconds after which a text counts as slow
_LONGEST_REPEAT = 200  # a repeat with a larger limit is pumped
_MOST_TEXTS = 120  # of a pattern
_ENDS = ("\0", "qz!", "\n", ". ")
_METHODS = {"match", "fullmatch", "search", "finditer", "findall", "sub", "subn", "split"}
_SAMPLES = " a1A.,-:\n([{<\"'*_#%"  # tried as members of a class of characters

_Tree = Sequence[tuple[Any, Any]]


class Expression(NamedTuple):
    """A regular expression of the packages."""

    name: str
    """The module and the name in it, such as ``judges.claims:_ELLIPSIS``."""

    pattern: re.Pattern[str]
    methods: frozenset[str]
    """The methods that the code calls. Empty if they are not known."""


class Pump(NamedTuple):
    """Texts of any length on which a pattern may be slow."""

    before: str
    repeated: str
    after: str

    def text(self, length: int) -> str:
        """Return the text in which the repeated part has about ``length`` characters."""
        return f"{self.before}{self.repeated * (length // len(self.repeated) + 1)}{self.after}"


def collect_expressions() -> list[Expression]:
    """Return the regular expressions in modules and in files ``patterns.yaml``."""
    patterns: dict[str, re.Pattern[str]] = {}
    methods: dict[str, set[str]] = defaultdict(set)
    for package in PACKAGES:
        for path in sorted(Path(package).rglob("*.py")):
            # Tasks are read by lm_eval, and a __main__ runs when it is imported.
            if "_suite" in path.parts or path.name == "__main__.py":
                continue
            module_name = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
            module = importlib.import_module(module_name)
            for name, value in vars(module).items():
                for suffix, pattern in _patterns_in(value):
                    patterns.setdefault(f"{module_name}:{name}{suffix}", pattern)
            for name, method in _calls_in(path):
                methods[f"{module_name}:{name}"].add(method)

    # An imported pattern is called under the name of another module.
    methods_by_pattern: dict[re.Pattern[str], set[str]] = defaultdict(set)
    for name, pattern in patterns.items():
        methods_by_pattern[pattern] |= methods[name]
    names = {pattern: name for name, pattern in reversed(patterns.items())}
    return [
        Expression(name, pattern, frozenset(methods_by_pattern[pattern]))
        for pattern, name in sorted(names.items(), key=lambda item: item[1])
    ]


def _patterns_in(value: object) -> Iterator[tuple[str, re.Pattern[str]]]:
    """Yield the patterns in a value of a module, each with what follows the name of the value."""
    if isinstance(value, re.Pattern) and isinstance(value.pattern, str):
        yield "", value
    elif isinstance(value, Patterns):
        for name in value._texts:
            yield f"[{name!r}]", value[name]
    elif isinstance(value, dict):
        for name, item in value.items():
            for suffix, pattern in _patterns_in(item):
                yield f"[{name!r}]{suffix}", pattern
    elif isinstance(value, tuple | list):
        for item in value:
            for suffix, pattern in _patterns_in(item):
                yield f"[]{suffix}", pattern


def _calls_in(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the names of patterns in a file whose methods it uses, each with the method.

    Example:
        ``_PATTERNS["bullet"].sub`` gives ``_PATTERNS['bullet']`` and ``sub``.
    """
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Attribute) or node.attr not in _METHODS:
            continue
        owner = node.value
        if isinstance(owner, ast.Name):
            yield owner.id, node.attr
        elif isinstance(owner, ast.Subscript) and isinstance(owner.value, ast.Name):
            key = owner.slice.value if isinstance(owner.slice, ast.Constant) else ""
            yield f"{owner.value.id}[{key!r}]", node.attr


def find_slow_text(expression: Expression) -> str:
    """Return how a pattern is slow, such as ``match: 'a' + ' ' * n``, empty if it is not."""
    tree = parser.parse(expression.pattern.pattern, expression.pattern.flags & ~re.UNICODE)
    pumps = []
    for before, repeated in dict.fromkeys(_repeats(tree, "")):
        pumps += [(before, repeated), ("", before + repeated), ("", before)]
    for before, repeated in list(dict.fromkeys(pumps))[:_MOST_TEXTS]:
        for after in _ENDS if repeated else ():
            pump = Pump(before, repeated, after)
            for method in sorted(expression.methods or {"search"}):
                if not _is_linear(_caller(expression.pattern, method), pump):
                    return f"{method}: {before!r} + {repeated!r} * n + {after!r}"
    return ""


def _caller(pattern: re.Pattern[str], method: str) -> Callable[[str], object]:
    """Return a function that calls a method of a pattern on a text, to the text's end."""
    if method in ("sub", "subn"):
        return lambda text: pattern.sub("", text)
    if method == "finditer":
        return pattern.findall
    call: Callable[[str], object] = getattr(pattern, method)
    return call


def _is_linear(call: Callable[[str], object], pump: Pump) -> bool:
    """Return whether the time of a call grows in proportion to the length of the text."""
    short_text = pump.text(_LENGTH)
    long_text = pump.text(_GROWTH * _LENGTH)
    try:
        with _time_limit():
            long_seconds = _seconds(call, long_text)
            short_seconds = _seconds(call, short_text)
            # On a busy machine a measurement may be too long, so the shortest of several counts.
            for _ in range(3):
                if long_seconds < max(_NEGLIGIBLE, _MOST_SLOWDOWN * short_seconds):
                    return True
                long_seconds = min(long_seconds, _seconds(call, long_text))
                short_seconds = min(short_seconds, _seconds(call, short_text))
    except TimeoutError:
        pass
    return False


def _seconds(call: Callable[[str], object], text: str) -> float:
    """Return how many seconds of the processor a call takes."""
    start = time.process_time()
    call(text)
    return time.process_time() - start


@contextmanager
def _time_limit() -> Iterator[None]:
    """Raise TimeoutError if the block uses the processor for too long."""

    def stop(*_: object) -> None:
        raise TimeoutError

    previous = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, _PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, previous)


def _repeats(tree: _Tree, before: str) -> Iterator[tuple[str, str]]:
    """Yield the texts that the repeats of a pattern match once, each with what leads to it."""
    for code, argument in tree:
        if code in (codes.MAX_REPEAT, codes.MIN_REPEAT):
            _, most, body = argument
            if most > _LONGEST_REPEAT:
                yield from ((before, text) for text in _texts_of(body))
            yield from _repeats(body, before)
        elif code is codes.SUBPATTERN:
            yield from _repeats(argument[3], before)
        elif code is codes.BRANCH:
            for branch in argument[1]:
                yield from _repeats(branch, before)
        elif code in (codes.ASSERT, codes.ASSERT_NOT):
            yield from _repeats(argument[1], before)
        before += _text_of([(code, argument)])


def _texts_of(body: _Tree) -> list[str]:
    """Return different texts that the body of a repeat matches."""
    texts = [_text_of(body)]
    if len(body) == 1:
        code, argument = body[0]
        if code is codes.IN:
            texts += _members(argument)
        elif code is codes.SUBPATTERN:
            texts += _texts_of(argument[3])
        elif code is codes.BRANCH:
            texts += [_text_of(branch) for branch in argument[1]]
        elif code in (codes.ANY, codes.NOT_LITERAL):
            texts += [" ", ".", '"']
    return [text for text in dict.fromkeys(texts) if text]


def _text_of(tree: _Tree) -> str:
    """Return a short text that a pattern matches, apart from what its assertions ask for."""
    text = ""
    for code, argument in tree:
        if code is codes.LITERAL:
            text += chr(argument)
        elif code is codes.NOT_LITERAL:
            text += "a" if argument != ord("a") else "b"
        elif code is codes.ANY:
            text += "a"
        elif code is codes.IN:
            text += _members(argument)[0]
        elif code in (codes.MAX_REPEAT, codes.MIN_REPEAT):
            text += _text_of(argument[2]) * argument[0]
        elif code is codes.SUBPATTERN:
            text += _text_of(argument[3])
        elif code is codes.BRANCH:
            text += _text_of(argument[1][0])
    return text


def _members(char_class: _Tree) -> list[str]:
    """Return up to four characters of a class, such as ``[a-z ]``."""
    candidates = list(_SAMPLES)
    for code, argument in char_class:
        if code is codes.LITERAL:
            candidates.append(chr(argument))
        elif code is codes.RANGE:
            candidates.append(chr(argument[0]))
    candidates.append("\u4e00")
    tests: dict[Any, Callable[[str], bool]] = {
        codes.CATEGORY_SPACE: str.isspace,
        codes.CATEGORY_DIGIT: str.isdigit,
        codes.CATEGORY_WORD: lambda text: text.isalnum() or text == "_",
    }
    opposites = {
        codes.CATEGORY_NOT_SPACE: codes.CATEGORY_SPACE,
        codes.CATEGORY_NOT_DIGIT: codes.CATEGORY_DIGIT,
        codes.CATEGORY_NOT_WORD: codes.CATEGORY_WORD,
    }

    def is_member(character: str) -> bool:
        """Return whether a character is in the class."""
        is_negated = False
        is_listed = False
        for code, argument in char_class:
            if code is codes.NEGATE:
                is_negated = True
            elif code is codes.LITERAL:
                is_listed = is_listed or ord(character) == argument
            elif code is codes.RANGE:
                is_listed = is_listed or argument[0] <= ord(character) <= argument[1]
            elif argument in opposites:
                is_listed = is_listed or not tests[opposites[argument]](character)
            else:
                is_listed = is_listed or tests[argument](character)
        return is_listed != is_negated

    return [character for character in dict.fromkeys(candidates) if is_member(character)][:4]


def main(parts_of_names: Sequence[str]) -> int:
    """Attack the patterns whose names have one of some parts, by default all.

    Returns:
        The exit code: 1 if a pattern is slow.
    """
    expressions = [
        expression
        for expression in collect_expressions()
        if not parts_of_names or any(part in expression.name for part in parts_of_names)
    ]
    rows = []
    for expression in tqdm(expressions, "patterns", disable=None):
        module = expression.name.partition(":")[0]
        if module in NOT_FROM_OUTSIDE or expression.name in NOT_FROM_OUTSIDE:
            continue
        slow_text = find_slow_text(expression)
        if slow_text:
            rows.append((expression.name, slow_text))
    title = f"{len(rows)} of {len(expressions)} patterns take more than linear time"
    print_table(title, ("pattern", "slow"), rows)
    return 1 if rows else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
