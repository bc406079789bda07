"""What a reader of a run's scores has to know of its data, in the same words at the end of the run and on pages."""

from collections.abc import Iterator, Mapping

from lm_factuality.benchmarks import find_benchmark
from lm_factuality.harness.outputs import TaskResult, number_of


def warnings_of(task: TaskResult) -> Iterator[str]:
    """A sentence for each: the file is not as published, not all of it was run, rows were cut, and the task's own caution."""
    benchmark, data = find_benchmark(task.kind), task.metadata.get("data")
    data = data if isinstance(data, Mapping) else {}
    published = {source.filename for source in benchmark.sources} if benchmark else set()
    if data.get("is_upstream") is False or (data.get("is_published") is False and data.get("file") in published):
        rows = f", {data['rows']} rows of {data['upstream_rows']}" if "upstream_rows" in data else ""
        yield f"not the published file{rows}"
    if cut := int(number_of(task.metrics.get("truncated")) or 0):
        yield f"in {cut:,} of {task.effective:,} rows the beginning was cut off to fit the window"
    if caution := task.metadata.get("caution"):
        yield " ".join(str(caution).split())
