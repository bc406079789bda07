"""A whole build: read the corpus, run the stages, choose contradictions, write the benchmark.

``factor-gen build`` and :mod:`lm_factuality.api` call :func:`build`.
"""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from factor_gen.audit.records import FEWEST
from factor_gen.choose import choose_rows
from factor_gen.config import describe_settings
from factor_gen.corpus import (
    CLEANING,
    CorpusReader,
    describe_corpus,
    find_corpus_files,
    split_into_sentences,
)
from factor_gen.engine import LocalEngine
from factor_gen.generate.rules.collocations import (
    Collocations,
    gather_collocations,
    save_collocations,
)
from factor_gen.language import ENGLISH, check_language
from factor_gen.output.counts import BuiltBenchmark
from factor_gen.output.folder import finish_earlier_build, refuse_to_overwrite
from factor_gen.output.write import Provenance, write_benchmark
from factor_gen.ray_engine import RayEngine
from factor_gen.records import shorten_paths
from factor_gen.settings import BuildSettings
from factor_gen.shards import (
    ShardFolder,
    prepare_shard_folder,
    read_json_object,
    remove_folder,
    run_shards,
    sufficient_num_types,
)
from factor_gen.stages import READ, STAGES, StageOpener, StageRunner, open_stage
from lm_factuality.ground.console import plural
from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.ground.files import locked_folder, write_json
from lm_factuality.ground.packages import need

logger = logging.getLogger(__name__)

# So much of a corpus is read for the collocations of its words, in evenly spread shards.
_COLLOCATION_BYTES = 8_000_000


def build(
    settings: BuildSettings,
    out: Path,
    *,
    restart: bool = False,
    opener: StageOpener = open_stage,
) -> BuiltBenchmark:
    """Build a benchmark from a corpus.

    The files have the same bytes for every engine, and however often the build was stopped.

    Args:
        settings: The corpus, and the settings of every stage.
        out: The folder of the benchmark. If ``out/stages`` holds shards of an earlier build with
            the same settings, they are used.
        restart: Whether to remove these shards first.
        opener: The function that opens a stage. Tests replace it.

    Returns:
        The files of the benchmark, and the counts of documents and rows.

    Raises:
        ConfigError: The settings cannot be used.
        DataError: Another build is running in ``out``, the corpus cannot be read, a stage failed,
            or a file of the benchmark would replace one that no build wrote.
    """
    # Only the end of a build needs these packages. If one is missing, the user should learn it now
    # and not hours later.
    for module in ("rapidfuzz", "sklearn"):
        need(module, "factor-gen build", "generate")

    _refuse_output_in_corpus_folder(settings, out)
    with locked_folder(
        out,
        busy_message="another build is at work in this folder; wait for it, or choose another"
        " --out",
        advice="choose another --out",
    ):
        # The YAML and the texts may be in the folder of the benchmark, and must not be replaced.
        yamls = [settings.yaml] if settings.yaml else []
        corpus_files = find_corpus_files(settings).values()
        finish_earlier_build(out)
        refuse_to_overwrite(settings, out, [*yamls, *corpus_files])
        return _build_in_locked_folder(settings, out, restart, opener)


def _refuse_output_in_corpus_folder(settings: BuildSettings, out: Path) -> None:
    """Check that the benchmark is not written into the folder of the corpus.

    The next build would otherwise read the files of the benchmark as documents.

    Raises:
        ConfigError: ``corpus.path`` names a folder, and ``out`` is this folder or lies in it.
    """
    if settings.corpus.path is None:
        return
    corpus_path = settings.folder / Path(settings.corpus.path).expanduser()
    # If the path is a file or a pattern such as "my_texts/*.txt", a build reads no other files.
    if not corpus_path.is_dir():
        return
    if out.resolve().is_relative_to(corpus_path.resolve()):
        raise ConfigError(
            f"{out} lies in the folder of the corpus, {corpus_path}, all of whose files are read;"
            " choose another --out, or name the files: corpus: my_texts/*.txt"
        )


def _build_in_locked_folder(
    settings: BuildSettings, out: Path, restart: bool, opener: StageOpener
) -> BuiltBenchmark:
    """Build a benchmark in a folder that no other build works in.

    The documents are read into shards of a few hundred documents, all shards go through the stages,
    and the rows are written. Whatever an earlier build with the same settings finished is used.

    Args:
        settings: The corpus, and the settings of every stage.
        out: The folder of the benchmark. The shards are kept in ``out/stages``.
        restart: Whether to remove the shards of an earlier build first.
        opener: The function that opens a stage.
    """
    stages_folder = out.resolve() / "stages"
    if restart:
        remove_folder(stages_folder)

    # A dataset of the Hub is read at the commit that the first start of this build found.
    corpus_file = stages_folder / "corpus.json"
    corpus = describe_corpus(settings, read_json_object(corpus_file))
    write_json(corpus_file, corpus)

    # Opening the stages now shows at once if one of them lacks a package or a model.
    with closing(StageRunner(settings, opener)) as runner:
        stages = {name: runner.open(name) for name in STAGES}
        fingerprints = {name: dict(stage.fingerprint) for name, stage in stages.items()}
        # Only stages that ask the model of a judge have prices.
        prices = {name: getattr(stage, "prices", None) for name, stage in stages.items()}

    # A folder keeps its shards if the settings that they depend on, the plan, are the same.
    reading_plan = _plan_of_reading(settings, corpus)
    document_folder = prepare_shard_folder(stages_folder / "documents", reading_plan)
    stages_plan = _plan_of_stages(settings, reading_plan, fingerprints)
    finished_folder = prepare_shard_folder(stages_folder / "shards", stages_plan)

    corpus_counts = _read_corpus(settings, corpus.get("commit"), document_folder)
    shard_numbers = range(corpus_counts["shards"])
    _run_unfinished_shards(settings, opener, document_folder, finished_folder, shard_numbers)

    # Rows are chosen while they are written, so that only one shard is in memory at a time.
    examples = chain.from_iterable(map(finished_folder.read_shard, shard_numbers))
    outcomes = choose_rows(settings.choose, settings.seed, examples)
    # The manifest must not name the folders of this machine.
    published_fingerprints = shorten_paths(fingerprints)
    provenance = Provenance(corpus, published_fingerprints, corpus_counts["filtered"], prices)
    return write_benchmark(settings, outcomes, out, provenance)


def _plan_of_reading(settings: BuildSettings, corpus: Mapping[str, Any]) -> dict[str, Any]:
    """Return everything that decides which documents are read, and how they are cut into shards.

    Args:
        settings: The settings of the build.
        corpus: The files of the corpus with their hashes, or its dataset with the commit.
    """
    plan: dict[str, Any] = describe_settings(settings)["corpus"]
    # These settings are only printed on the dataset card.
    for key in ("license", "source"):
        plan.pop(key, None)
    return {**plan, "corpus": corpus, "shard": settings.shard, "cleaning": CLEANING}


def _plan_of_stages(
    settings: BuildSettings,
    reading_plan: Mapping[str, Any],
    fingerprints: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    """Return everything that decides what the stages make of the documents.

    Args:
        settings: The settings of the build.
        reading_plan: Everything that decides which documents are read.
        fingerprints: By stage, every setting that can change its output.
    """
    choose = settings.choose
    # Sentences of a document are drawn until one can give a row that meets these settings.
    goal = [choose.contradictions, choose.min_types, sufficient_num_types(settings)]
    return {
        **fingerprints,
        "documents": reading_plan,
        "draws": settings.select.draws,
        "goal": goal,
    }


def _read_corpus(
    settings: BuildSettings, commit: str | None, folder: ShardFolder
) -> Mapping[str, Any]:
    """Write the documents of the corpus to a folder as shards, unless that is done already.

    Args:
        settings: The settings of the build.
        commit: The commit of a dataset of the Hub. None for other corpora.
        folder: The folder to write the shards to.

    Returns:
        How many ``shards`` there are, and by reason how many rows of tables ``corpus.where`` left
        out, such as ``{"shards": 3, "filtered": {"year is not at least 2020": 12}}``.

    Raises:
        DataError: The corpus cannot be read, is in another language, or holds no documents.
    """
    # This file is written when all shards are.
    path = folder.path / "done.json"
    saved_counts = read_json_object(path)
    if saved_counts:
        return saved_counts

    corpus = settings.corpus
    reader = CorpusReader(settings, commit)
    # Each of these steps is an iterator, so that no document is read before it is written below.
    progress = tqdm(reader.read(), desc=READ, unit=" documents", delay=2)
    checked_documents = check_language(progress, corpus.language)
    examples = split_into_sentences(checked_documents, corpus.unwrap, corpus.language)

    num_shards = 0
    num_documents = 0
    while shard := list(islice(examples, settings.shard)):
        folder.write_shard(num_shards, shard)
        num_shards += 1
        num_documents += len(shard)
    if num_shards == 0:
        raise _no_documents_error(reader.num_left_out)
    if num_documents < FEWEST:
        _warn_about_few_documents(num_documents)

    counts = {"shards": num_shards, "filtered": dict(sorted(reader.num_left_out.items()))}
    write_json(path, counts)
    return counts


def _warn_about_few_documents(num_documents: int) -> None:
    """Warn that a benchmark of so few documents cannot be audited."""
    logger.warning(
        "the corpus has %s, and a document gives at most one row: with fewer than %d the audit"
        " cannot tell what the rows give away; add documents, or split long ones into several"
        " files, for example at their headings",
        plural(num_documents, "document"),
        FEWEST,
    )


def _no_documents_error(num_left_out: Counter[str]) -> DataError:
    """Return the error for a corpus without documents.

    It names the conditions of ``corpus.where`` that left the most rows out. ``num_left_out`` has
    the number of these rows by condition.
    """
    reasons = "".join(
        f"; {count:,} rows are left out: {reason}" for reason, count in num_left_out.most_common(5)
    )
    return DataError(
        "the corpus holds no documents; look at corpus in the YAML: path or dataset, where,"
        f" and documents{reasons}"
    )


def _run_unfinished_shards(
    settings: BuildSettings,
    opener: StageOpener,
    document_folder: ShardFolder,
    finished_folder: ShardFolder,
    shard_numbers: Sequence[int],
) -> None:
    """Take the shards that have no file in ``finished_folder`` through the stages.

    Args:
        settings: The settings of the build.
        opener: The function that opens a stage.
        document_folder: The shards of the corpus, with their documents as they were read.
        finished_folder: The shards that went through all stages.
        shard_numbers: The numbers of all shards.
    """
    unfinished = [
        number for number in shard_numbers if not finished_folder.shard_path(number).is_file()
    ]
    if not unfinished:
        return
    settings = _save_collocations(settings, document_folder, shard_numbers)
    engine_class = RayEngine if settings.engine == "ray" else LocalEngine
    with closing(engine_class(settings, opener, len(unfinished))) as engine:
        run_shards(engine, unfinished, document_folder, finished_folder, settings)


def _save_collocations(
    settings: BuildSettings, document_folder: ShardFolder, shard_numbers: Sequence[int]
) -> BuildSettings:
    """Write the file of collocations, if the generator needs it and an earlier build has not.

    Collocations are words that occur side by side in the corpus. The English rules replace a word
    only by one that occurs with the same neighbours. Other generators need no collocations.

    Args:
        settings: The settings of the build.
        document_folder: The shards of the corpus.
        shard_numbers: The numbers of all shards.

    Returns:
        The settings with the path of the file; unchanged if no collocations are needed.
    """
    if settings.generate.generator != "rules" or settings.corpus.language != ENGLISH:
        return settings

    path = document_folder.path / "collocations.json"
    if not path.is_file():
        save_collocations(path, _gather_collocations_of_shards(document_folder, shard_numbers))
    return replace(settings, collocations=path)


def _gather_collocations_of_shards(
    document_folder: ShardFolder, shard_numbers: Sequence[int]
) -> Collocations:
    """Gather the collocations of a corpus, or of 8 MB of it if it is larger.

    Args:
        document_folder: The shards of the corpus.
        shard_numbers: The numbers of all shards.
    """
    shard_paths = map(document_folder.shard_path, shard_numbers)
    total_bytes = sum(shard_path.stat().st_size for shard_path in shard_paths)
    # To read about 8 MB that are evenly spread over the corpus, only every nth shard is read.
    step = 1 + total_bytes // _COLLOCATION_BYTES
    examples = chain.from_iterable(map(document_folder.read_shard, shard_numbers[::step]))
    # Before a sentence is drawn, the prefix of an example is its whole document.
    return gather_collocations(example.prefix for example in examples)
