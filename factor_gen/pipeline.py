"""A whole build: read the corpus, run the stages, choose contradictions, write the benchmark.

``factor-gen build`` and :mod:`lm_factuality.api` call :func:`build`.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

from tqdm import tqdm

from factor_gen.choose import choose_rows
from factor_gen.config import describe
from factor_gen.corpus import CLEANING, corpus_record, distinct, find_files, read_documents
from factor_gen.engine import LocalEngine
from factor_gen.generate.rules.collocations import gather_collocations, save_collocations
from factor_gen.language import ENGLISH, in_language
from factor_gen.output.counts import BuiltBenchmark
from factor_gen.output.folder import refuse_to_overwrite
from factor_gen.output.write import Provenance, write_benchmark
from factor_gen.ray_engine import RayEngine
from factor_gen.records import portable
from factor_gen.settings import BuildSettings
from factor_gen.shards import (
    ShardFolder,
    discard,
    prepare,
    read_json,
    run_shards,
    types_of_goal,
)
from factor_gen.stages import READ, STAGES, Opener, StageRunner, open_stage
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.files import alone, write_json
from lm_factuality.ground.packages import need

_CONTEXT_BYTES = 8_000_000
"""How much of a corpus is read for the contexts of its words, in shards evenly spread."""


def build(
    settings: BuildSettings,
    out: Path,
    *,
    restart: bool = False,
    opener: Opener = open_stage,
) -> BuiltBenchmark:
    """Build a benchmark.

    The files are the same bytes however often the build was stopped, and for every engine.

    Args:
        settings: What to build of what.
        out: The folder of the benchmark. What an earlier build left in ``out/stages`` is used as
            far as its settings are the same.
        restart: Throw that away first.
        opener: Opens the stages, for tests.

    Raises:
        ConfigError: The settings cannot be used.
        DataError: Another build is at work in ``out``, the corpus cannot be read, a stage failed
            or a file of the benchmark would replace one that no build wrote.
    """
    # The last stage and the card need these. Hours may be spent on the stages before.
    for module in ("rapidfuzz", "sklearn"):
        need(module, "factor-gen build", "generate")
    root = out.resolve() / "stages"
    with alone(
        out,
        "another build is at work in this folder; wait for it, or choose another --out",
        "choose another --out",
    ):
        yamls = [settings.yaml] if settings.yaml else []
        refuse_to_overwrite(settings, out, [*yamls, *find_files(settings).values()])
        if restart:
            discard(root)
        record_file = root / "corpus.json"
        record = corpus_record(settings, read_json(record_file))
        write_json(record_file, record)
        with closing(StageRunner(settings, opener)) as runner:
            # a stage that lacks something says so here
            fingerprints = {name: dict(runner.open(name).fingerprint) for name in STAGES}

        documents, shards = _prepare_folders(settings, root, record, fingerprints)
        reading = _read_corpus(settings, record, documents)
        numbers = range(reading["shards"])
        unfinished = [number for number in numbers if not shards.part(number).is_file()]
        if unfinished:
            settings_of_stages = _with_contexts(settings, documents, numbers)
            make_engine = RayEngine if settings.engine == "ray" else LocalEngine
            with closing(make_engine(settings_of_stages, opener, len(unfinished))) as engine:
                run_shards(engine, unfinished, documents, shards, settings)

        examples = chain.from_iterable(map(shards.read, numbers))
        rows = choose_rows(settings.choose, settings.seed, examples)
        provenance = Provenance(record, portable(fingerprints), reading["filtered"])
        return write_benchmark(settings, rows, out, provenance)


def _prepare_folders(
    settings: BuildSettings,
    root: Path,
    record: Mapping[str, Any],
    fingerprints: Mapping[str, Mapping[str, Any]],
) -> list[ShardFolder]:
    """Return the folders of the documents and of the finished shards."""
    reading = describe(settings)["corpus"]
    for name in ("license", "source"):
        reading.pop(name, None)
    reading |= {"corpus": record, "shard": settings.shard, "cleaning": CLEANING}
    choose = settings.choose
    running = {
        **fingerprints,
        "documents": reading,
        "draws": settings.select.draws,
        "goal": [
            choose.contradictions,
            choose.min_types,
            choose.most_doubtful,
            types_of_goal(settings),
        ],
    }
    return [prepare(root / "documents", reading), prepare(root / "shards", running)]


def _read_corpus(
    settings: BuildSettings, record: Mapping[str, Any], folder: ShardFolder
) -> Mapping[str, Any]:
    """Cut the corpus into shards, unless that is done.

    Returns:
        The number of ``shards``, and how many rows of tables were ``filtered``, by reason.
    """
    path = folder.path / "done.json"
    done = read_json(path)
    if done:
        return done
    filtered: Counter[str] = Counter()
    rows = read_documents(settings, record.get("commit"), filtered)
    corpus = settings.corpus
    documents = in_language(tqdm(rows, desc=READ, unit=" documents", delay=2), corpus.language)
    examples = distinct(documents, corpus.unwrap, corpus.language)
    count = 0
    while shard := list(islice(examples, settings.shard)):
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
    done = {"shards": count, "filtered": dict(sorted(filtered.items()))}
    write_json(path, done)
    return done


def _with_contexts(
    settings: BuildSettings, documents: ShardFolder, numbers: Sequence[int]
) -> BuildSettings:
    """Return the settings with the contexts of the corpus's words, if the rules need them."""
    if settings.generate.generator != "rules" or settings.corpus.language != ENGLISH:
        return settings
    path = documents.path / "contexts.json"
    if not path.is_file():
        total = sum(documents.part(number).stat().st_size for number in numbers)
        spread = numbers[:: 1 + total // _CONTEXT_BYTES]
        examples = chain.from_iterable(map(documents.read, spread))
        save_collocations(path, gather_collocations(example.prefix for example in examples))
    return replace(settings, contexts=path)
