"""The registry of benchmarks: every command finds benchmarks and their published data here.

Each folder of this package declares one benchmark, and other packages add theirs by entry points of
the group ``lm_factuality.benchmarks``. Importing this package registers the judges' prompts.
"""

import pkgutil
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

from judges.templates import register_prompts
from lm_factuality.benchmarks.declaration import Benchmark
from lm_factuality.ground.errors import ConfigError, did_you_mean, listed
from lm_factuality.ground.published import Source
from lm_factuality.harness.tasks import ENTRY_POINTS

if TYPE_CHECKING:
    from lm_factuality.benchmarks.judged import JudgedMethod

__all__ = [
    "all_benchmarks",
    "all_sources",
    "find_benchmark",
    "find_judged_method",
    "find_source",
    "judged_benchmark_names",
]

for _prompts_folder in sorted(Path(__file__).resolve().parent.glob("*/prompts")):
    register_prompts(_prompts_folder.parent.name, _prompts_folder)


@cache
def all_benchmarks() -> tuple[Benchmark, ...]:
    """Load every benchmark: the folders of this package, and the plugins of installed packages.

    Returns:
        The benchmarks in the order in which lists show them.

    Raises:
        ConfigError: Two benchmarks have the same kind, or an entry point names no `Benchmark`.
    """
    benchmarks = []
    for module in pkgutil.iter_modules(__path__):
        # Plain modules hold code that several benchmarks share.
        if module.ispkg:
            declaration = import_module(f"{__name__}.{module.name}.benchmark")
            benchmarks.append(declaration.BENCHMARK)
    for entry_point in entry_points(group=ENTRY_POINTS):
        benchmarks.append(_load_plugin(entry_point))

    benchmark_by_kind: dict[str, Benchmark] = {}
    for benchmark in benchmarks:
        # Two entry points may name the same object.
        if benchmark_by_kind.setdefault(benchmark.kind, benchmark) is not benchmark:
            raise ConfigError(
                f"two benchmarks are called {benchmark.kind!r}; uninstall one of the packages that"
                " bring them"
            )
    # Equal numbers are put in the order of their names, so that lists never change.
    in_order = sorted(
        benchmark_by_kind.values(), key=lambda benchmark: (benchmark.order, benchmark.kind)
    )
    return tuple(in_order)


def _load_plugin(entry_point: EntryPoint) -> Benchmark:
    """Import the benchmark that another package registers by an entry point.

    Args:
        entry_point: The entry point, such as ``capitals = capitals:BENCHMARK``.

    Raises:
        ConfigError: The import fails, or the entry point names something else than a `Benchmark`.
    """
    # An entry point that was made by hand has no package.
    package = entry_point.dist.name if entry_point.dist else "a package"
    location = f"entry point {entry_point.name} = {entry_point.value} of {package}"
    try:
        benchmark = entry_point.load()
    except Exception as error:  # The code of another package can raise anything.
        raise ConfigError(
            f"{location}: cannot be loaded: {type(error).__name__}: {error}; fix or uninstall the"
            " package that brings it"
        ) from error
    if not isinstance(benchmark, Benchmark):
        raise ConfigError(f"{location}: found a {type(benchmark).__name__}, expected a Benchmark")
    return benchmark


def find_benchmark(kind: str) -> Benchmark | None:
    """Return the benchmark of a kind, such as ``factor``, or None for tasks of lm_eval itself."""
    for benchmark in all_benchmarks():
        # Kinds are unique, which all_benchmarks has checked.
        if benchmark.kind == kind:
            return benchmark
    return None


@cache
def all_sources() -> dict[str, Source]:
    """Return the published files that the benchmarks read, by the name of the source.

    Raises:
        ConfigError: Two benchmarks use one name for different files.
    """
    sources: dict[str, Source] = {}
    for benchmark in all_benchmarks():
        for source in benchmark.data.sources:
            # Several benchmarks may read the same file.
            if sources.get(source.name, source) != source:
                raise ConfigError(
                    f"benchmark {benchmark.kind!r}: another benchmark has a source called"
                    f" {source.name!r}; rename it"
                )
            sources[source.name] = source
    return sources


def find_source(name: str) -> Source:
    """Return the published file that is called ``name``, such as ``longfact_objects_music``.

    Raises:
        ConfigError: No source has this name. The message lists the names that exist.
    """
    sources = all_sources()
    if name in sources:
        return sources[name]
    # Names with one wrong letter get a suggestion.
    expected = f"expected one of {listed(list(sources))}, as 'lm-factuality data ls' lists them"
    hint = did_you_mean(name, sources)
    raise ConfigError(f"no data source is called {name!r}, {expected}{hint}")


def judged_benchmark_names() -> list[str]:
    """Return the kinds of the benchmarks in which a judge decides about generated responses."""
    return [benchmark.kind for benchmark in all_benchmarks() if benchmark.judging is not None]


def find_judged_method(name: str, metadata: Mapping[str, Any] | None = None) -> "JudgedMethod":
    """Make the method by which a judge decides about the responses of a benchmark.

    Args:
        name: The kind of the benchmark, such as ``felm_gen``.
        metadata: The settings of a task. None stands for the defaults.

    Raises:
        ConfigError: No benchmark with a judge has this name.
    """
    benchmark = find_benchmark(name)
    if benchmark is None or benchmark.judging is None:
        # A benchmark can exist and still have no judge, so the message lists those that do.
        names = judged_benchmark_names()
        hint = f"{did_you_mean(name, names)}; known: {', '.join(names)}"
        raise ConfigError(f"no benchmark with judged generations is called {name!r}{hint}")
    return benchmark.judging.make_method(metadata or {})
