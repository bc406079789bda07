"""The benchmarks, a folder each, which reads like its paper.

``declaration`` is what each says of itself; ``all_benchmarks`` and ``find_benchmark`` are how
everything else comes to know them. The suite's own are the folders here; another package adds one
by an entry point of the group ``lm_factuality.benchmarks`` that names its ``Benchmark``. Importing
this package makes the prompts of the suite's own known to judges."""

import pkgutil
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from judges.templates import register_prompts
from lm_factuality.benchmarks.declaration import Benchmark
from lm_factuality.ground.errors import ConfigError, did_you_mean, listed
from lm_factuality.ground.published import Source
from lm_factuality.harness.tasks import ENTRY_POINTS

for _folder in sorted(Path(__file__).resolve().parent.glob("*/prompts")):
    register_prompts(_folder.parent.name, _folder)


@cache
def all_benchmarks() -> tuple[Benchmark, ...]:
    """Every declared benchmark, in the order of lists. Raises ConfigError: two of one kind, or an
    entry point that names none."""
    found_here = [each.name for each in pkgutil.iter_modules(__path__) if each.ispkg]
    own = [import_module(f"{__name__}.{name}.benchmark").BENCHMARK for name in found_here]
    found: dict[str, Benchmark] = {}
    for benchmark in [*own, *map(_load, entry_points(group=ENTRY_POINTS))]:
        if found.setdefault(benchmark.kind, benchmark) is not benchmark:
            raise ConfigError(
                f"two benchmarks are called {benchmark.kind!r}; uninstall one of the packages that"
                " bring them"
            )
    return tuple(sorted(found.values(), key=lambda each: (each.order, each.kind)))


def _load(point: EntryPoint) -> Benchmark:
    where = (
        f"entry point {point.name} = {point.value} of"
        f" {point.dist.name if point.dist else 'a package'}"
    )
    try:
        found = point.load()
    except Exception as error:  # whatever a package of others raises
        cure = "fix or uninstall the package that brings it"
        raise ConfigError(
            f"{where}: cannot be loaded: {type(error).__name__}: {error}; {cure}"
        ) from error
    if not isinstance(found, Benchmark):
        raise ConfigError(f"{where}: found a {type(found).__name__}, expected a Benchmark")
    return found


def find_benchmark(kind: str) -> Benchmark | None:
    """The benchmark that results call ``kind``; None for tasks that are not the suite's."""
    return next((each for each in all_benchmarks() if each.kind == kind), None)


@cache
def all_sources() -> dict[str, Source]:
    """The published files that the benchmarks read, by name. Raises ConfigError: two call different
    files by one name."""
    found: dict[str, Source] = {}
    for benchmark in all_benchmarks():
        for source in benchmark.data.sources:
            if found.setdefault(source.name, source) != source:
                what = f"another benchmark has a source called {source.name!r}; rename it"
                raise ConfigError(f"benchmark {benchmark.kind!r}: {what}")
    return found


def find_source(name: str) -> Source:
    """The published file called ``name``. Raises ConfigError: there is none; the text lists those
    there are."""
    sources = all_sources()
    if name in sources:
        return sources[name]
    known = f"expected one of {listed(list(sources))}, as 'lm-factuality data ls' lists them"
    raise ConfigError(f"no data source is called {name!r}, {known}{did_you_mean(name, sources)}")


def judged_benchmark_names() -> list[str]:
    return [each.kind for each in all_benchmarks() if each.judging is not None]


def find_judged_method(name: str, metadata: Mapping[str, Any] | None = None) -> Any:
    """The `JudgedMethod` of the benchmark ``name``, with the settings of ``metadata``. Raises
    ConfigError: there is none."""
    benchmark = find_benchmark(name)
    if benchmark is None or benchmark.judging is None:
        known = judged_benchmark_names()
        hint = f"{did_you_mean(name, known)}; known: {', '.join(known)}"
        raise ConfigError(f"no benchmark with judged generations is called {name!r}{hint}")
    return benchmark.judging.make_method(metadata or {})
