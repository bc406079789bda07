"""The dataset card: ``README.md`` as the Hub reads it.

It says what the benchmark was made from and with, and gives the counts.
"""

from collections.abc import Mapping
from typing import Any

import yaml
from jinja2 import Environment, StrictUndefined

from factor_gen.audit.records import PAPER, BenchmarkAudit
from factor_gen.audit.tables import baseline_table
from factor_gen.config import describe
from factor_gen.records import CUT_PREFIX, CUT_WORDS, PREFIX, portable, whole
from factor_gen.settings import BuildSettings
from factor_gen.shards import types_of_goal
from lm_factuality.ground.html import read_file

_SIZES = {1_000: "n<1K", 10_000: "1K<n<10K", 100_000: "10K<n<100K", 1_000_000: "100K<n<1M"}
"""What the Hub calls benchmarks of fewer rows."""


def dataset_card(
    settings: BuildSettings,
    corpus: Mapping[str, Any],
    counts: Mapping[str, Any],
    audit: BenchmarkAudit,
) -> str:
    """Return the text of ``README.md``.

    Args:
        settings: The settings of the build.
        corpus: The files or the dataset that were read.
        counts: What became of the documents, as the manifest has it.
        audit: What the rows give away.
    """
    sizes = (name for limit, name in _SIZES.items() if counts["rows"] < limit)
    eligible = max(counts["eligible"], 1)
    return whole(
        render(
            "card.md.jinja",
            settings=settings,
            source=corpus,
            counts=counts,
            size=next(sizes, "n>1M"),
            hub_licenses=read_file(f"{__package__}/data/hub_licenses.txt").split(),
            share=lambda rows: f"{100 * rows / eligible:.1f}%",
            distance=audit.distance,
            baselines=baseline_table(audit, settings.name),
            goal=types_of_goal(settings),
            yaml=yaml.safe_dump(describe(settings), sort_keys=False, allow_unicode=True),
            paper=PAPER,
            prefix=PREFIX,
            cut_prefix=CUT_PREFIX,
            cut_words=CUT_WORDS,
        )
    )


def render(template: str, **values: Any) -> str:
    """Return what a template of the folder ``data`` makes of values."""
    environment = Environment(
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 (Markdown and YAML)
    )
    environment.filters |= {"cell": _cell, "portable": portable}
    source = read_file(f"{__package__}/data/{template}")
    return environment.from_string(source).render(values)


def _cell(value: object) -> str:
    """Return a value as a cell of a table in Markdown."""
    text = f"{value:,}" if isinstance(value, int) else str(value)
    return " ".join(text.split()).replace("|", "\\|")
