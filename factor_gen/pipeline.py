"""A whole build: read the corpus, run the stages, choose contradictions, write the benchmark.

``factor-gen build`` and :mod:`lm_factuality.api` call :func:`build`.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from factor_gen.audit.audit import Reservoir
from factor_gen.audit.tables import card_figures
from factor_gen.choose import choose_rows
from factor_gen.config import describe
from factor_gen.corpus import (
    CLEANING,
    corpus_files,
    corpus_record,
    describe_corpus,
    distinct,
    read_documents,
)
from factor_gen.engine import LocalEngine
from factor_gen.generate.rules.contexts import gather, save
from factor_gen.language import ENGLISH, in_language
from factor_gen.output.card import Provenance
from factor_gen.output.counts import count_examples
from factor_gen.output.folder import refuse_another, refuse_to_overwrite
from factor_gen.output.write import Written, write_benchmark
from factor_gen.ray_engine import RayEngine
from factor_gen.records import Example, portable
from factor_gen.settings import BuildSettings
from factor_gen.shards import (
    Engine,
    ShardFolder,
    discard,
    goal_of,
    prepare,
    read_json,
    run_shards,
    split,
)
from factor_gen.stages import (
    ALL_STAGES,
    CHOOSE,
    READ,
    STAGES,
    Opener,
    StageRunner,
    check_packages_of_choose,
    open_stage,
)
from lm_factuality.ground.errors import ConfigError, DataError, did_you_mean
from lm_factuality.ground.files import alone, write_json

_FOLDER = "stages"
_DOCUMENTS = "documents"
_SHARDS = "shards"
_RECORD = "corpus.json"
_CONTEXT_BYTES = 8_000_000
"""How much of a corpus is read for the contexts of its words, in shards evenly spread."""


@dataclass(frozen=True)
class Built:
    """What a build made, and what became of the documents."""

    out: Path
    documents: int
    rows: int
    """Documents that got to the end of the last stage that ran."""
    unused: Mapping[tuple[str, str], int]
    """The other documents by stage and reason."""
    lost: Mapping[str, int]
    """What a generator wrote and could not be used, by reason."""
    files: Mapping[str, Path] = field(default_factory=dict)
    """The files by what they are; none if the build ended at an earlier stage."""
    filtered: Mapping[str, int] = field(default_factory=dict)
    """Rows of tables that ``corpus.where`` left out, by reason."""


def build(
    settings: BuildSettings,
    out: Path,
    *,
    restart: bool = False,
    until: str = CHOOSE,
    command: str = "",
    opener: Opener = open_stage,
) -> Built:
    """Build a benchmark.

    The files are the same bytes however often the build was stopped, and for every engine.

    Args:
        settings: What to build of what.
        out: The folder of the benchmark. What an earlier build left in ``out/stages`` is used as
            far as its settings are the same.
        restart: Throw that away first.
        until: The last stage to run.
        command: What the manifest says to type to build it again.
        opener: Opens the stages, for tests.

    Raises:
        ConfigError: The settings cannot be used.
        DataError: Another build is at work in ``out``, the corpus cannot be read, a stage failed
            on a shard (``StageFailed``), no document gave a row, or a file of the benchmark would
            replace one that no build wrote.
    """
    if until not in ALL_STAGES:
        close = did_you_mean(until, ALL_STAGES)
        raise ConfigError(
            f"no stage is called {until!r}{close}; expected one of {', '.join(ALL_STAGES)}"
        )
    check_packages_of_choose()
    names = [name for name in STAGES if ALL_STAGES.index(name) <= ALL_STAGES.index(until)]
    root = out / _FOLDER
    with alone(
        out,
        "another build is at work in this folder; wait for it, or choose another --out",
        "choose another --out",
    ):
        inputs = [path for path, _ in corpus_files(settings)]
        refuse_to_overwrite(settings, out, [*settings.yamls, *inputs])
        if restart:
            discard(root, [_DOCUMENTS, _SHARDS])
            (root / _RECORD).unlink(missing_ok=True)
        record = _update_record(settings, out, may_replace=restart)
        fingerprints = _fingerprints(settings, names, opener)
        documents, shards = _folders(settings, root, record, fingerprints)
        count = _read_corpus(settings, record, documents)
        if names:
            _run_stages(settings, documents, shards, count, names, opener)
        examples = _examples(shards if names else documents, count)
        if until != CHOOSE:
            written = Written({}, count_examples(examples))
        else:
            corpus = describe_corpus(record)
            if documents.filtered:
                corpus["left_out"] = documents.filtered
            written = _write(settings, examples, out, corpus, fingerprints, command)
        counts = written.counts
        return Built(
            out,
            documents=counts.documents,
            rows=counts.documents - counts.unused.total(),
            unused=counts.unused,
            lost=dict(sorted(counts.lost.items())),
            files=written.files,
            filtered=documents.filtered,
        )


def _update_record(settings: BuildSettings, out: Path, *, may_replace: bool) -> dict[str, Any]:
    """Return what the corpus is now, hashing again only the files that may have changed."""
    path = out / _FOLDER / _RECORD
    before = read_json(path) or {}
    record = corpus_record(settings, before)
    if record != before:
        if not may_replace:
            refuse_another(settings, out)
        write_json(path, record)
    return record


def _fingerprints(
    settings: BuildSettings, names: Sequence[str], opener: Opener
) -> dict[str, Mapping[str, Any]]:
    """Return what decides each stage's output. A stage that lacks something says so here."""
    fingerprints: dict[str, Mapping[str, Any]] = {}
    for name in names:
        with closing(StageRunner(settings, opener)) as runner:
            fingerprints[name] = dict(runner.open(name).fingerprint)
    return fingerprints


def _folders(
    settings: BuildSettings,
    root: Path,
    record: Mapping[str, Any],
    fingerprints: Mapping[str, Mapping[str, Any]],
) -> tuple[ShardFolder, ShardFolder]:
    """Return the folders of the documents and of the finished shards."""
    corpus = settings.corpus
    names = ("config", "split", "text", "id", "documents", "unwrap", "language")
    reading = {name: getattr(corpus, name) for name in names}
    if corpus.where:
        reading["where"] = {name: each.said for name, each in corpus.where.items()}
    reading |= {
        "corpus": describe_corpus(record),
        "shard": settings.shard,
        "cleaning": CLEANING,
    }
    running: dict[str, Any] = {
        f"{name}.{key}": value
        for name, fingerprint in fingerprints.items()
        for key, value in fingerprint.items()
    }
    running |= {"stages": list(fingerprints), "draws": settings.select.draws}
    running["goal"] = goal_of(settings)._asdict()
    documents, shards = prepare(root.resolve(), {_DOCUMENTS: reading, _SHARDS: running})
    return documents, shards


def _read_corpus(settings: BuildSettings, record: Mapping[str, Any], folder: ShardFolder) -> int:
    """Cut the corpus into shards, unless that is done; return their number.

    Shards of a build that was stopped while it read are passed over.
    """
    if folder.shards is not None:
        return folder.shards
    filtered: Counter[str] = Counter()
    rows = read_documents(settings, record.get("commit"), filtered)
    corpus = settings.corpus
    documents = in_language(tqdm(rows, desc=READ, unit=" documents", delay=2), corpus.language)
    examples = distinct(documents, corpus.unwrap, corpus.language)
    count = 0
    for shard in split(examples, settings.shard):
        if not folder.has(count):
            folder.write(count, shard)
        count += 1
    if not count:
        reasons = [
            f"; {rows:,} rows are left out: {reason}" for reason, rows in filtered.most_common(5)
        ]
        raise DataError(
            "the corpus holds no documents; look at corpus in the YAML: path or dataset, where,"
            f" and documents{''.join(reasons)}"
        )
    folder.finish(count, filtered)
    return count


def _run_stages(
    settings: BuildSettings,
    documents: ShardFolder,
    shards: ShardFolder,
    count: int,
    names: Sequence[str],
    opener: Opener,
) -> None:
    """Take the shards that are not finished through the stages."""
    unfinished = [number for number in range(count) if not shards.has(number)]
    if not unfinished:
        return
    has_rules = settings.generate.generator == "rules" and "generate" in names
    if has_rules and settings.corpus.language == ENGLISH:
        settings = replace(settings, contexts=_write_contexts(documents, count).resolve())
    make_engine = RayEngine if settings.engine == "ray" else LocalEngine
    # a build that ends before the filter cannot tell which documents need another draw
    draws = settings.select.draws if STAGES[-1] in names else 1
    engine: Engine
    with closing(make_engine(settings, opener, names, len(unfinished))) as engine:
        run_shards(engine, unfinished, documents, shards, goal_of(settings), draws)


def _write_contexts(documents: ShardFolder, count: int) -> Path:
    """Write the contexts of the corpus's words beside the documents, unless they are there."""
    path = documents.path / "contexts.json"
    if not path.is_file():
        total = sum(documents.part(number).stat().st_size for number in range(count))
        step = 1 + total // _CONTEXT_BYTES
        numbers = tqdm(range(0, count, step), desc="contexts", unit=" shards", delay=2)
        save(path, gather(doc.prefix for number in numbers for doc in documents.read(number)))
    return path


def _examples(folder: ShardFolder, count: int) -> Iterator[Example]:
    for number in range(count):
        yield from folder.read(number)


def _write(
    settings: BuildSettings,
    examples: Iterator[Example],
    out: Path,
    corpus: Mapping[str, Any],
    fingerprints: Mapping[str, Mapping[str, Any]],
    command: str,
) -> Written:
    reservoir = Reservoir(settings.seed)
    items = reservoir.watch(choose_rows(settings.choose, settings.seed, examples))
    stages = {name: portable(fingerprint) for name, fingerprint in fingerprints.items()}
    return write_benchmark(
        settings,
        items,
        out,
        Provenance(describe(settings), corpus, stages, command),
        audit=lambda: card_figures(reservoir.rows, settings.seed),
    )
