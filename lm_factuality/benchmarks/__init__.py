"""The registry of benchmarks: every command finds benchmarks and their published data here.

Each folder of this package declares one benchmark, and other packages add theirs by entry points of
the group ``lm_factuality.benchmarks``. Importing this package registers the judges' prompts.
"""

import logging
import pkgutil
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

from judges.templates import register_prompts
from lm_factuality.benchmarks.declaration import Benchmark
from lm_factuality.ground.errors import ConfigError, did_you_mean, listed
from lm_factuality.ground.packages import ENTRY_POINTS
from lm_factuality.ground.published import Source

if TYPE_CHECKING:
    from lm_factuality.benchmarks.judged import JudgedMethod

logger = logging.getLogger(__name__)

__all__ = [
    "all_benchmarks",
    "all_sources",
    "find_benchmark",
    "find_source",
    "judged_benchmark_names",
    "make_judged_method",
]

for _prompts_folder in sorted(Path(__file__).resolve().parent.glob("*/prompts")):
    register_prompts(_prompts_folder.parent.name, _prompts_folder)


@cache
def all_benchmarks() -> tuple[Benchmark, ...]:
    """Return every benchmark of this package and of installed plugins.

    A plugin that cannot be loaded is left out with a warning.

    Returns:
        The benchmarks in the order in which lists show them.

    Raises:
        ConfigError: Two benchmarks have the same kind.
    """
    benchmark_by_kind: dict[str, Benchmark] = {}
    for benchmark in _load_benchmarks():
        existing = benchmark_by_kind.get(benchmark.kind)
        # Two entry points may name the same benchmark, which is then listed once.
        if existing is not None and existing is not benchmark:
            raise ConfigError(
                f"two benchmarks are called {benchmark.kind!r}; uninstall one of the packages that"
                " bring them"
            )
        benchmark_by_kind[benchmark.kind] = benchmark
    # Benchmarks of the same order number are sorted by kind, so that lists never change.
    sorted_benchmarks = sorted(
        benchmark_by_kind.values(), key=lambda benchmark: (benchmark.order, benchmark.kind)
    )
    return tuple(sorted_benchmarks)


def _load_benchmarks() -> Iterator[Benchmark]:
    """Import and yield the benchmarks of this package, then those of other packages."""
    for module in pkgutil.iter_modules(__path__):
        # A benchmark is a folder. Plain modules hold code that several benchmarks share.
        if module.ispkg:
            declaration = import_module(f"{__name__}.{module.name}.benchmark")
            yield declaration.BENCHMARK
    for entry_point in entry_points(group=ENTRY_POINTS):
        # A broken plugin must not stop the other benchmarks.
        try:
            yield _load_plugin(entry_point)
        except ConfigError as error:
            logger.warning("%s", error)


def _load_plugin(entry_point: EntryPoint) -> Benchmark:
    """Import the benchmark that another package registers by an entry point.

    Args:
        entry_point: The entry point, such as ``capitals = capitals:BENCHMARK``.

    Raises:
        ConfigError: The import fails, or the entry point names something other than a `Benchmark`.
    """
    # An entry point that was made by hand has no package.
    package = entry_point.dist.name if entry_point.dist else "a package"
    location = f"entry point {entry_point.name} = {entry_point.value} of {package}"
    try:
        benchmark = entry_point.load()
    # The code of another package can raise anything.
    except Exception as error:
        raise ConfigError(
            f"{location}: cannot be loaded: {type(error).__name__}: {error}; its benchmark is left"
            " out until you fix or uninstall the package that brings it"
        ) from error
    if not isinstance(benchmark, Benchmark):
        raise ConfigError(
            f"{location}: found a {type(benchmark).__name__}, expected a Benchmark; it is left out"
        )
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
            existing = sources.get(source.name)
            # Several benchmarks may read the same file.
            if existing is not None and existing != source:
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
    # If the name is nearly that of a source, the message suggests it.
    hint = did_you_mean(name, sources)
    raise ConfigError(
        f"no data source is called {name!r}, expected one of {listed(list(sources))}, as"
        f" 'lm-factuality data ls' lists them{hint}"
    )


def judged_benchmark_names() -> list[str]:
    """Return the kinds of the benchmarks in which a judge decides about generated responses."""
    return [benchmark.kind for benchmark in all_benchmarks() if benchmark.judging is not None]


def make_judged_method(name: str, metadata: Mapping[str, Any] | None = None) -> "JudgedMethod":
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
        raise ConfigError(
            f"no benchmark with judged generations is called {name!r}{did_you_mean(name, names)};"
            f" known: {', '.join(names)}"
        )
    return benchmark.judging.make_method(metadata or {})
