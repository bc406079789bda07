"""The dataset card of a benchmark, i.e. the ``README.md`` that the Hub shows.

It says what the benchmark was made from and how, and gives the counts. `factor_gen.output.write`
renders it, and the YAML of the lm_eval task, from the templates in ``data``.
"""

from collections.abc import Mapping
from typing import Any

import yaml
from jinja2 import Environment, StrictUndefined

from factor_gen.audit.records import FEWEST, PAPER, BenchmarkAudit
from factor_gen.audit.tables import baseline_table
from factor_gen.config import describe_settings
from factor_gen.records import CUT_PREFIX, CUT_WORDS, PREFIX, shorten_paths
from factor_gen.settings import BuildSettings
from factor_gen.shards import sufficient_num_types
from lm_factuality.ground.html import read_file
from lm_factuality.ground.replies import replace_surrogates

# The Hub names the size of a benchmark with fewer rows than the key like this.
_SIZES = {1_000: "n<1K", 10_000: "1K<n<10K", 100_000: "10K<n<100K", 1_000_000: "100K<n<1M"}


def dataset_card(
    settings: BuildSettings,
    corpus: Mapping[str, Any],
    counts: Mapping[str, Any],
    audit: BenchmarkAudit,
) -> str:
    """Return the text of the dataset card, in Markdown with a YAML header.

    Args:
        settings: The settings of the build.
        corpus: The files or the dataset that were read, as the manifest lists them.
        counts: The counts of documents and rows, as the manifest lists them.
        audit: How well blind baselines find the true completions.
    """
    # Without eligible documents, all shares are 0%.
    num_eligible = max(counts["eligible"], 1)
    card = render_template(
        "card.md.jinja",
        settings=settings,
        source=corpus,
        counts=counts,
        size=_size_category(counts["rows"]),
        hub_licenses=read_file(f"{__package__}/data/hub_licenses.txt").split(),
        share=lambda rows: f"{100 * rows / num_eligible:.1f}%",
        distance=audit.distance,
        baselines=baseline_table(audit, settings.name),
        goal=sufficient_num_types(settings),
        yaml=yaml.safe_dump(describe_settings(settings), sort_keys=False, allow_unicode=True),
        paper=PAPER,
        is_small=audit.documents < FEWEST,
        fewest=FEWEST,
        prefix=PREFIX,
        cut_prefix=CUT_PREFIX,
        cut_words=CUT_WORDS,
    )
    # Names of files may hold bytes that cannot be written as UTF-8.
    return replace_surrogates(card)


def _size_category(num_rows: int) -> str:
    """Return the Hub's name for the size of a benchmark.

    Example:
        736 rows give ``n<1K``.
    """
    for limit, name in _SIZES.items():
        if num_rows < limit:
            return name
    return "n>1M"


def render_template(template: str, **values: Any) -> str:
    """Fill a template of the folder ``data`` in with values, and return the text.

    Args:
        template: The name of the template's file.
        **values: The values of its variables. Each variable needs one.

    Raises:
        jinja2.UndefinedError: A variable has no value.
    """
    environment = Environment(
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 (the templates are Markdown and YAML, not HTML)
    )
    environment.filters |= {"cell": _markdown_cell, "portable": shorten_paths}
    source = read_file(f"{__package__}/data/{template}")
    return environment.from_string(source).render(values)


def _markdown_cell(value: object) -> str:
    r"""Return a value as a cell of a Markdown table, in one line and with ``|`` escaped.

    Example:
        The number 1234 becomes ``1,234``, and the text ``a|b`` becomes ``a\|b``.
    """
    text = f"{value:,}" if isinstance(value, int) else str(value)
    return " ".join(text.split()).replace("|", "\\|")
