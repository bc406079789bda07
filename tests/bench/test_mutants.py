"""Mutants: what is changed in a module, and whether tests notice it."""

from __future__ import annotations

import textwrap

import pytest

from bench.mutants.__main__ import Part, report
from bench.mutants.mutations import mutants_of
from bench.mutants.trial import measure, try_mutant


@pytest.fixture
def mutants(tmp_path):
    """Return a function that makes all mutants of some code."""

    def make(code):
        (tmp_path / "module.py").write_text(textwrap.dedent(code), encoding="utf-8")
        return list(mutants_of(tmp_path, "module.py"))

    return make


@pytest.mark.parametrize(
    ("code", "changes"),
    [
        ("a < b", ["a < b -> a <= b", "a < b -> a > b"]),
        ("a and b", ["a and b -> a or b"]),
        ("a + 2", ["a + 2 -> a - 2", "2 -> 3"]),
        ("not a", ["not a -> a"]),
        ("x = sorted(y, key=f)", ["sorted(y, key=f) -> list(y)", "sorted(y, key=f) -> sorted(y)"]),
        ("a[0] = b[0]", ["0 -> 1", "0 -> 1 (number 2)"]),
        ("x = {y for y in z if y}", ["for y in z if y -> no condition"]),
        ("raise ValueError(f'{1 + 2}')", ["raise ValueError(f'{1 + 2}') -> pass"]),
        ("x: Literal[1]", []),
        ('"""Documentation of 1 + 2."""', []),
    ],
)
def test_code_has_these_mutants(mutants, code, changes):
    """A mutant is one small change of a comparison, an operator, a number or a call.

    Types and documentation do not run, and have none.
    """
    all_mutants = mutants(f"def f():\n    {code}")

    assert [mutant.change for mutant in all_mutants] == changes


def test_declarations_of_a_module_have_no_mutants(mutants):
    """A declaration has no logic. A plain number such as a limit may still be wrong."""
    (mutant,) = mutants("LIMIT = 3\nSCORES = Score('mean', digits=2)")

    assert mutant.change == "3 -> 4"


def test_a_mutant_knows_its_function(mutants):
    """A survivor can then be found in a long module."""
    (mutant,) = mutants(
        """
        class House:
            def open(self):
                return self.door
        """
    )

    assert mutant.name == "module.py::House.open: return self.door -> return None"


@pytest.mark.parametrize(
    ("expected", "outcome"),
    [
        pytest.param("f(3) == 2", "survived", id="a test of neither border"),
        pytest.param("f(3) == 2 and f(1) == 1", "killed", id="a test of the border"),
    ],
)
def test_mutant_is_killed_if_a_test_detects_it(mutants, tmp_path, monkeypatch, expected, outcome):
    """A border that no test tries is a gap in the tests: here only x = 1 tells ``>`` from ``>=``."""
    all_mutants = mutants("def f(x):\n    return 2 if x > 1 else 1\n")
    (mutant,) = (mutant for mutant in all_mutants if mutant.change == "x > 1 -> x >= 1")
    test = f"import module\n\ndef test_f():\n    f = module.f\n    assert {expected}\n"
    (tmp_path / "test_module.py").write_text(test, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))

    tests = measure(["test_module.py"], tmp_path)

    outcome_of_mutant, *_ = try_mutant(mutant, tests, tmp_path)

    assert list(tests.costs) == ["test_module.py::test_f"]
    assert outcome_of_mutant == outcome


@pytest.mark.parametrize(("num_killed", "exit_code"), [(19, 0), (18, 1)])
def test_less_than_95_percent_of_killed_mutants_is_a_failure(mutants, num_killed, exit_code):
    """Of 20 mutants, 19 are 95%. An equivalent mutant, which no test can kill, does not count."""
    # Each line has one mutant, "or" in place of "and".
    *counted_mutants, equivalent_mutant = mutants("\n".join(["a and b"] * 21))
    outcomes = {equivalent_mutant.name: "survived"}
    for number, mutant in enumerate(counted_mutants, start=1):
        outcomes[mutant.name] = "killed" if number <= num_killed else "survived"
    part = Part("scoring", [*counted_mutants, equivalent_mutant], [])
    reasons_of_equivalents = {equivalent_mutant.name: "nobody reads the value"}

    assert report([part], outcomes, reasons_of_equivalents) == exit_code
