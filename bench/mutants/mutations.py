"""Makes small mistakes (mutants) in a module: another comparison, operator, number or condition.

Names, messages, annotations and documentation stay as they are, since tests do not read them.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_COMPARISONS: dict[type, tuple[type, ...]] = {
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt,),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt,),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_OPERATORS: dict[type, type] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Div,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
}
_FUNCTIONS = {"min": "max", "max": "min", "any": "all", "all": "any", "sorted": "list"}
_KEYWORDS = ("key", "reverse", "default", "axis", "ddof")
"""Arguments that are left out."""

_UNCHANGED_FIELDS = ("annotation", "returns", "decorator_list", "exc", "cause")
_MAX_CHANGE = 160  # characters of a change, enough to tell it from others


@dataclass(frozen=True)
class Mutant:
    """A module with one small mistake."""

    file: str
    """The path of the module in the repository."""

    function: str
    """The class and the function in which the mistake is, empty outside of them."""

    change: str
    """The code before and after, as in ``a < b -> a <= b``."""

    line: int
    """The number of its line."""

    tree: ast.Module
    """The whole module."""

    parent: Any
    """Where `node` stands: an object of the tree, or a list of nodes."""

    place: Any
    """The field or the index of `node` in `parent`."""

    replacement: ast.AST
    """The mistake, which `compile` puts there."""

    @property
    def name(self) -> str:
        """Return the name of the mutant, which other lines of the module do not change."""
        return f"{self.file}::{self.function}: {self.change}"

    def compile(self) -> Any:
        """Make the mistake in the tree, for good, and compile the module."""
        if isinstance(self.parent, list):
            self.parent[self.place] = self.replacement
        else:
            setattr(self.parent, self.place, self.replacement)
        return compile(ast.fix_missing_locations(self.tree), self.file, "exec")


def mutants_of(root: Path, file: str) -> Iterator[Mutant]:
    """Make all mutants of a module.

    Args:
        root: The folder of the repository.
        file: The path of the module in it.
    """
    tree = ast.parse((root / file).read_text(encoding="utf-8"))
    num_changes: Counter[tuple[str, str]] = Counter()
    for function, parent, place, node in _nodes(tree, ""):
        for replacement in _replacements(node):
            change = _describe(node, replacement)
            num_changes[function, change] += 1
            count = num_changes[function, change]
            # The same code may stand in a function more than once.
            numbered = change if count == 1 else f"{change} (number {count})"
            line = getattr(node, "lineno", 0)
            yield Mutant(file, function, numbered, line, tree, parent, place, replacement)


def _nodes(node: ast.AST, function: str) -> Iterator[tuple[str, Any, Any, ast.AST]]:
    """Walk through the nodes that may be replaced.

    Yields:
        The function of each node, where the node stands (its parent and the field, or a list of
        nodes and the index), and the node.
    """
    for field, value in ast.iter_fields(node):
        if field in _UNCHANGED_FIELDS:
            continue
        siblings = value if isinstance(value, list) else [value]
        for index, child in enumerate(siblings):
            if not isinstance(child, ast.AST) or _is_unchanged(child):
                continue
            # Outside of functions, calls declare scores with labels and digits for tables.
            if not function and isinstance(child, ast.Call):
                continue
            if isinstance(value, list):
                yield function, value, index, child
            else:
                yield function, node, field, child
            name = function
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                name = f"{function}.{child.name}".lstrip(".")
            yield from _nodes(child, name)


def _is_unchanged(node: ast.AST) -> bool:
    """Tell whether a node is a message, documentation, or something that runs do not depend on."""
    match node:
        case ast.JoinedStr() | ast.Import() | ast.ImportFrom():
            return True
        case ast.Expr(value=ast.Constant()) | ast.keyword(arg="strict" | "leave"):
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
    return False


def _replacements(node: ast.AST) -> Iterator[ast.AST]:
    """Return the mistakes that a node can be replaced by."""
    if isinstance(node, ast.stmt):
        yield from _wrong_statements(node)
    elif isinstance(node, ast.Call):
        yield from _wrong_calls(node)
    elif isinstance(node, ast.Compare):
        for index, operator in enumerate(node.ops):
            for wrong in _COMPARISONS[type(operator)]:
                operators = [*node.ops[:index], wrong(), *node.ops[index + 1 :]]
                yield ast.Compare(node.left, operators, node.comparators)
    else:
        yield from _wrong_expressions(node)


def _wrong_expressions(node: ast.AST) -> Iterator[ast.AST]:
    """Return expressions with another operator, number, truth or condition."""
    match node:
        case ast.BoolOp(op=operator, values=values):
            yield ast.BoolOp(ast.Or() if isinstance(operator, ast.And) else ast.And(), values)
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _OPERATORS:
            yield ast.BinOp(left, _OPERATORS[type(operator)](), right)
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield operand
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value) | float(value)):
            yield ast.Constant(value + 1)
        case ast.IfExp(test=test, body=body, orelse=alternative):
            yield ast.IfExp(test, alternative, body)
        case ast.comprehension(target=target, iter=values, ifs=[_, *_], is_async=is_async):
            yield ast.comprehension(target, values, [], is_async)


def _wrong_statements(node: ast.stmt) -> Iterator[ast.stmt]:
    """Return statements that do something else, or nothing."""
    match node:
        case ast.AugAssign(target=target, op=operator, value=value):
            yield ast.Assign([target], value, lineno=node.lineno)
            if type(operator) in _OPERATORS:
                yield ast.AugAssign(target, _OPERATORS[type(operator)](), value)
        case ast.If(test=ast.Name() | ast.Attribute() | ast.Call() as test):
            yield ast.If(ast.UnaryOp(ast.Not(), test), node.body, node.orelse)
        # A test of truth does not tell False from None.
        case ast.Return(value=ast.AST() as value) if not isinstance(value, ast.Constant):
            yield ast.Return(ast.Constant(None))
        case ast.Expr(value=ast.Call()) | ast.Raise():
            yield ast.Pass()
        case ast.Continue():
            yield ast.Break()
        case ast.Break():
            yield ast.Continue()


def _wrong_calls(call: ast.Call) -> Iterator[ast.Call]:
    """Return a call of another function, and calls without one of the arguments."""
    if isinstance(call.func, ast.Name) and call.func.id in _FUNCTIONS:
        function = ast.Name(_FUNCTIONS[call.func.id], ast.Load())
        yield ast.Call(function, call.args, [] if function.id == "list" else call.keywords)
    for keyword in call.keywords:
        if keyword.arg in _KEYWORDS:
            others = [other for other in call.keywords if other is not keyword]
            yield ast.Call(call.func, call.args, others)


def _describe(node: ast.AST, replacement: ast.AST) -> str:
    """Return the code before and after a change, in one line."""
    if isinstance(node, ast.If):
        return f"if {ast.unparse(node.test)} -> if not"
    before, after = ast.unparse(node), ast.unparse(replacement)
    if isinstance(node, ast.comprehension):
        before, after = before.strip(), "no condition"
    change = " ".join(f"{before} -> {after}".split())
    if len(change) <= _MAX_CHANGE:
        return change
    half = _MAX_CHANGE // 2
    return f"{change[:half]} ... {change[-half:]}"
