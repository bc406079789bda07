"""BM25: the scores of its formula, and what a query returns."""

from __future__ import annotations

import json
import math
import re
from collections import Counter

import pytest
import Stemmer

from lm_factuality.ground.errors import ConfigError
from lm_factuality.retrieval import bm25
from lm_factuality.retrieval.bm25 import BM25Parameters, Searcher
from lm_factuality.retrieval.build import build_index
from tests.retrieval.conftest import ENCYCLOPEDIA

# Lucene's
STOPWORDS = frozenset(
    """a an and are as at be but by for if in into is it no not of on or such that the their then there these they this to was
    will with""".split()  # noqa: SIM905
)


def sentences():
    """Each passage of the encyclopedia with its number and its sentences."""
    for number, line in enumerate(ENCYCLOPEDIA.read_text(encoding="utf-8").splitlines()):
        row = json.loads(line)
        yield number, row["title"], [sentence for sentence in row["text"].split(". ") if sentence]


def terms_of(text, stemmer):
    words = re.findall(r"[^\W_]+", text.lower())
    return (
        Stemmer.Stemmer("english").stemWords([word for word in words if word not in STOPWORDS])
        if stemmer == "english"
        else words
    )


def kept(length):
    """A length as Lucene and Tantivy keep it in a byte: exact up to 40, then with four bits."""
    if length <= 40:
        return length
    bits = (length - 24).bit_length() - 4
    return 24 + ((length - 24) >> bits << bits)


def reference(contents, stemmer, query):
    """Lucene's BM25 of every passage, by its formula (Kamphuis et al., 2020, table 1, with the
    factor k1 + 1)."""
    passages = [Counter(terms_of(text, stemmer)) for text in contents]
    lengths = [passage.total() for passage in passages]
    mean = sum(lengths) / len(lengths)
    scores = [0.0] * len(contents)
    for term in terms_of(query, stemmer):
        found = [number for number, passage in enumerate(passages) if term in passage]
        weight = math.log(1 + (len(contents) - len(found) + 0.5) / (len(found) + 0.5))
        for number in found:
            frequency = passages[number][term]
            norm = 1.2 * (0.25 + 0.75 * kept(lengths[number]) / mean)
            scores[number] += weight * 2.2 * frequency / (frequency + norm)
    return scores


@pytest.mark.parametrize("stemmer", ["english", "none"])
@pytest.mark.parametrize("commit", [7, 1000])
def test_scores_are_those_of_the_formula(stemmer, commit, tmp_path, monkeypatch):
    monkeypatch.setattr(bm25, "_COMMIT_INTERVAL", commit)
    index = build_index(ENCYCLOPEDIA, tmp_path / "index", BM25Parameters(stemmer=stemmer))
    contents = [passage.contents for passage in index.passages.iterate_from(0)]
    for _, title, parts in list(sentences())[::20]:
        for query in (title, parts[1]):
            wanted = reference(contents, stemmer, query)
            hits = index.retrieve([query], 20)[0]
            assert [hit.score for hit in hits] == pytest.approx(
                sorted(wanted, reverse=True)[: len(hits)], abs=1e-3
            )
            assert [hit.score for hit in hits] == pytest.approx(
                [wanted[hit.number] for hit in hits], abs=1e-3
            )


def test_a_few_texts_in_memory_are_ranked_as_on_disk(index):
    searcher = Searcher.from_texts([passage.contents for passage in index.passages.iterate_from(0)])
    for _, title, parts in list(sentences())[::20]:
        for query in (title, parts[0]):
            assert searcher.rank(query, 5) == [
                (hit.number, hit.score) for hit in index.retrieve([query], 5)[0]
            ]


@pytest.mark.parametrize(
    "query",
    [
        'painter AND (" OR',
        "title:painter^9",
        "[a TO",
        "painter~ -mill +",
        "\\",
        "*",
        "\0painter",
        "\ud83d painter",
    ],
)
def test_no_text_is_query_syntax(query, index):
    hits = index.retrieve([query], 3)[0]
    assert len(hits) == (3 if "painter" in query else 0)


def test_queries_without_a_known_word_find_nothing(index):
    assert index.retrieve(["", "  ", "the of and", "qqqzzz", "a?"], 3) == [[], [], [], [], []]
    assert index.retrieve([], 3) == []


def test_fewer_than_k_where_fewer_match(write_tsv, tmp_path):
    index = build_index(write_tsv(["red boat", "blue boat", "green tree"]), tmp_path / "index")
    assert [hit.number for hit in index.retrieve(["boat"], 10)[0]] == [0, 1]
    assert [hit.number for hit in index.retrieve(["boat tree"], 10)[0]] == [2, 0, 1]


def test_equal_scores_come_in_order_of_number(write_tsv, tmp_path):
    texts = ["red boat" if number % 3 else "red red boat boat" for number in range(5000)]
    index = build_index(write_tsv(texts), tmp_path / "index")
    first = [number for number in range(5000) if number % 3 == 0]
    for k in (1, 3, 10, 2000):
        numbers = [hit.number for hit in index.retrieve(["boat"], k)[0]]
        assert numbers == (first + sorted(set(range(5000)) - set(first)))[:k]


def test_equal_queries_are_searched_for_once(index, monkeypatch):
    asked: list[list[str]] = []
    search = type(index)._search
    monkeypatch.setattr(
        type(index),
        "_search",
        lambda self, queries, k: asked.append(list(queries)) or search(self, queries, k),
    )
    hits = index.retrieve(["painter", "mill", "painter"], 2)
    assert asked == [["painter", "mill"]]
    assert hits[0] == hits[2] != hits[1]


def test_excluded_passages_make_room_for_the_next_best(index):
    every = index.retrieve(["painter prize"], len(index))[0]
    assert len(every) > 40
    for left_out in (1, 5, 40, len(every) - 1):
        banned = {hit.number for hit in every[:left_out]}
        titles = {index.passages[number].id for number in banned}
        hits = index.retrieve(
            ["painter prize"], 3, exclude=lambda _, hit, titles=titles: hit.passage.id in titles
        )[0]
        assert hits == every[left_out : left_out + 3]
    assert index.retrieve(["painter prize"], 3, exclude=lambda query, hit: True) == [[]]


def test_a_stemmer_that_is_not_known():
    with pytest.raises(ConfigError, match="stemmer: found 'german', expected english or none"):
        BM25Parameters(stemmer="german")
