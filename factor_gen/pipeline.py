"""A whole build: read, then the stages over all shards, then the choice and the files of the
benchmark."""

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from tqdm import tqdm

from factor_gen.audit.audit import Reservoir
from factor_gen.audit.tables import card_figures
from factor_gen.choose import choose_rows
from factor_gen.config import describe
from factor_gen.corpus import CorpusRecord, corpus_files, corpus_record
from factor_gen.documents import CLEANING, distinct, read_documents
from factor_gen.draws import Again, Goal, best_draws, goal_of
from factor_gen.engine import Source, Step, run_shards
from factor_gen.generate.rules.contexts import gather, save
from factor_gen.language import ENGLISH, in_language
from factor_gen.output.card import Provenance
from factor_gen.output.counts import Counts
from factor_gen.output.folder import refuse_another, refuse_to_overwrite
from factor_gen.output.write import Written, write_benchmark
from factor_gen.records import Example, portable
from factor_gen.settings import BuildSettings
from factor_gen.shards import StageFolder, discard, prepare, split
from factor_gen.stages import (
    ALL_STAGES,
    CHOOSE,
    READ,
    STAGES,
    Opener,
    check_packages_of_the_end,
    check_stage,
    close,
    open_stage,
)
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.files import alone, write_json

_LOG = logging.getLogger(__name__)
_FOLDER = "stages"
_CORPUS = "corpus.json"
# bytes of a corpus that are read for the contexts of its words, of shards evenly spread
_READ = 8_000_000


@dataclass(frozen=True)
class Built:
    """What a build made: its files by what they are (none if it ended at an earlier stage), and
    what became of the documents.

    ``unused`` counts documents by stage and reason; ``rows`` are those that got to the end of the
    last stage that ran. ``lost`` counts by reason what a generator wrote and could not be used,
    ``filtered`` the rows of tables that ``corpus.where`` left out.
    """

    out: Path
    documents: int
    rows: int
    unused: Mapping[tuple[str, str], int]
    lost: Mapping[str, int]
    files: Mapping[str, Path] = field(default_factory=dict)
    filtered: Mapping[str, int] = field(default_factory=dict)


def build(
    settings: BuildSettings,
    out: Path,
    *,
    restart: bool = False,
    until: str = CHOOSE,
    command: str = "",
    opener: Opener = open_stage,
) -> Built:
    """Builds the benchmark in ``out``, from what an earlier build left in ``out/stages`` as far as
    its settings are the same.

    ``restart`` throws that away first. ``until`` names the last stage to run. ``command`` is what
    the manifest says to type to build it again. The files are the same bytes however often the
    build was stopped, and for every engine. Raises ConfigError: settings that cannot be used;
    DataError: another build at work in ``out``; a corpus that cannot be read, a stage that failed
    on a shard (StageFailed), no row in the end, or a file in ``out`` that no build wrote where a
    file of the benchmark is to go.
    """
    check_stage(until, ALL_STAGES)
    wanted = ALL_STAGES[1 : ALL_STAGES.index(until) + 1]
    root = out / _FOLDER
    check_packages_of_the_end()
    with alone(
        out,
        "another build is at work in this folder; wait for it, or choose another --out",
        "choose another --out",
    ):
        refuse_to_overwrite(
            settings, out, [*settings.yamls, *(path for path, _ in corpus_files(settings))]
        )
        if restart:
            discard(root)
            (root / _CORPUS).unlink(missing_ok=True)
        record = _record(settings, out, restart)
        fingerprints = _fingerprints(settings, [name for name in wanted if name != CHOOSE], opener)
        # which documents are read, and how they are cut into shards
        corpus = {
            name: getattr(settings.corpus, name)
            for name in ("config", "split", "text", "id", "documents", "unwrap", "language")
        }
        corpus |= (
            {"where": {name: each.said for name, each in settings.corpus.where.items()}}
            if settings.corpus.where
            else {}
        )
        reads = {
            "corpus": record.describe(),
            **corpus,
            "shard": settings.shard,
            "cleaning": CLEANING,
        }
        goal = goal_of(settings)
        stages = [(READ, reads), *fingerprints.items()]
        for draw in range(2, settings.select.draws + 1 if STAGES[-1] in wanted else 0):
            aim = {"select": {**fingerprints["select"], "draw": draw, "goal": goal}}
            stages += (fingerprints | aim).items()
        read, *folders = prepare(root.resolve(), stages)
        shards = _read(settings, record, read)
        if (
            settings.generate.generator == "rules"
            and settings.corpus.language == ENGLISH
            and "generate" in wanted
        ):
            settings = replace(settings, contexts=_contexts(read, shards).resolve())
        draws = [
            folders[start : start + len(fingerprints)]
            for start in range(0, len(folders), max(1, len(fingerprints)))
        ]
        run_shards(settings, list(_steps(read, draws, goal)), shards, opener)
        examples = best_draws([draw[-1] for draw in draws] or [read], shards, goal)
        if until == CHOOSE:
            described = {
                **record.describe(),
                **({"left_out": filtered} if (filtered := read.filtered) else {}),
            }
            written = _written(settings, examples, out, described, fingerprints, command)
            counts, files = written.counts, written.files
        else:
            counts, files = Counts(), {}
            for example in examples:
                counts.add(example)
    rows = counts.documents - counts.unused.total()
    lost = dict(sorted(counts.lost.items()))
    return Built(out, counts.documents, rows, counts.unused, lost, files, read.filtered)


def _contexts(folder: StageFolder, shards: int) -> Path:
    """The file with the contexts of the corpus that was read into ``folder``; written beside its
    shards unless it is there."""
    path = folder.path / "contexts.json"
    if not path.is_file():
        step = 1 + sum(folder.part(number).stat().st_size for number in range(shards)) // _READ
        shown = tqdm(range(0, shards, step), desc="contexts", unit=" shards", delay=2)
        save(path, gather(example.prefix for number in shown for example in folder.read(number)))
    return path


def _steps(
    read: StageFolder, draws: Sequence[Sequence[StageFolder]], goal: Goal
) -> Iterator[list[Step]]:
    """The steps of each draw, the first of which begins with what was read."""
    source: Source = read
    for number, folders in enumerate(draws, start=1):
        yield list(zip([source, *folders[:-1]], folders, strict=True))
        source = Again(read, folders[-1], number + 1, goal)


def _written(
    settings: BuildSettings,
    examples: Iterator[Example],
    out: Path,
    corpus: Mapping[str, Any],
    fingerprints: Mapping[str, Mapping[str, Any]],
    command: str,
) -> Written:
    kept = Reservoir(settings.seed)
    items = kept.watch(choose_rows(settings.choose, settings.seed, examples))
    stages = {name: portable(fingerprint) for name, fingerprint in fingerprints.items()}
    provenance = Provenance(describe(settings), corpus, stages, command)
    return write_benchmark(
        settings, items, out, provenance, lambda: card_figures(kept.rows, settings.seed)
    )


def _record(settings: BuildSettings, out: Path, may_replace: bool) -> CorpusRecord:
    """What the corpus is, summed up again only where it may have changed."""
    path = out / _FOLDER / _CORPUS
    before = None
    try:
        before = TypeAdapter(CorpusRecord).validate_json(path.read_bytes())
    except (OSError, ValueError):
        _LOG.debug("%s: no record of an earlier build", path)
    record = corpus_record(settings, before)
    if record != before:
        if not may_replace:
            refuse_another(settings, out)
        write_json(path, asdict(record))
    return record


def _fingerprints(
    settings: BuildSettings, names: list[str], opener: Opener
) -> dict[str, Mapping[str, Any]]:
    """What decides each stage's output; opening the stages here also tells at once what a stage
    lacks."""
    found: dict[str, Mapping[str, Any]] = {}
    for name in names:
        stage = opener(settings, name)
        try:
            found[name] = dict(stage.fingerprint)
        finally:
            close(stage)
    return found


def _read(settings: BuildSettings, record: CorpusRecord, folder: StageFolder) -> int:
    """Cuts the corpus into shards, unless that is done; returns their number. What was read of it
    before is passed over."""
    if (done := folder.shards) is not None:
        return done
    filtered: Counter[str] = Counter()
    found = tqdm(
        read_documents(settings, record.commit, filtered), desc=READ, unit=" documents", delay=2
    )
    documents = in_language(found, settings.corpus.language)
    shards = 0
    for shard in split(
        distinct(documents, settings.corpus.unwrap, settings.corpus.language), settings.shard
    ):
        if not folder.has(shards):
            folder.write(shards, shard)
        shards += 1
    if not shards:
        why = "".join(
            f"; {count:,} rows are left out: {reason}" for reason, count in filtered.most_common(5)
        )
        raise DataError(
            "the corpus holds no documents; look at corpus in the YAML: path or dataset, where,"
            f" and documents{why}"
        )
    folder.finish(shards, filtered)
    return shards
