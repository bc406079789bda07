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

STOPWORDS = frozenset(
    """a an and are as at be but by for if in into is it no not of on or such that the their then
    there these they this to was will with""".split()  # noqa: SIM905
)
"""The stopwords of Lucene."""

K1 = 1.2
B = 0.75


def read_queries():
    """Return the title and the second sentence of every twentieth page of the encyclopedia."""
    queries = []
    for line in ENCYCLOPEDIA.read_text(encoding="utf-8").splitlines()[::20]:
        row = json.loads(line)
        sentences = row["text"].split(". ")
        queries += [row["title"], sentences[1]]
    return queries


QUERIES = read_queries()


def terms_of(text, stemmer):
    """Return the terms of a text, which are its words or their stems without stopwords."""
    words = re.findall(r"[^\W_]+", text.lower())
    if stemmer == "none":
        return words
    content_words = [word for word in words if word not in STOPWORDS]
    return Stemmer.Stemmer("english").stemWords(content_words)


def stored_length(length):
    """Return the length of a passage as Lucene and Tantivy keep it in a byte.

    It is exact up to 40 terms. The significant bits of a longer one are four.
    """
    if length <= 40:
        return length
    num_dropped_bits = (length - 24).bit_length() - 4
    return 24 + ((length - 24) >> num_dropped_bits << num_dropped_bits)


class BM25Formula:
    """Lucene's BM25 by its formula (Kamphuis et al., 2020, table 1, with the factor k1 + 1)."""

    def __init__(self, texts, stemmer):
        """Count the terms of all passages."""
        self.stemmer = stemmer
        self.counts = [Counter(terms_of(text, stemmer)) for text in texts]
        lengths = [counts.total() for counts in self.counts]
        mean_length = sum(lengths) / len(lengths)
        self.norms = [K1 * (1 - B + B * stored_length(length) / mean_length) for length in lengths]

    def score(self, query):
        """Return the score of each passage."""
        scores = [0.0] * len(self.counts)
        for term in terms_of(query, self.stemmer):
            weight = self.weight_of(term)
            for number, counts in enumerate(self.counts):
                frequency = counts[term]
                scores[number] += weight * (K1 + 1) * frequency / (frequency + self.norms[number])
        return scores

    def weight_of(self, term):
        """Return the inverse document frequency of a term."""
        num_with_term = sum(term in counts for counts in self.counts)
        num_without_term = len(self.counts) - num_with_term
        return math.log(1 + (num_without_term + 0.5) / (num_with_term + 0.5))


@pytest.mark.parametrize("stemmer", ["english", "none"])
@pytest.mark.parametrize(
    "commit_interval",
    [
        pytest.param(7, id="several commits"),
        pytest.param(1000, id="one commit"),
    ],
)
def test_hits_and_scores_match_the_formula(stemmer, commit_interval, tmp_path, monkeypatch):
    """Results can be compared with those of Lucene, which has the same formula."""
    monkeypatch.setattr(bm25, "_COMMIT_INTERVAL", commit_interval)
    index = build_index(ENCYCLOPEDIA, tmp_path / "index", BM25Parameters(stemmer=stemmer))
    formula = BM25Formula([passage.contents for passage in index.passages], stemmer)

    hits_of_queries = index.retrieve(QUERIES, 20)

    for query, hits in zip(QUERIES, hits_of_queries, strict=True):
        formula_scores = formula.score(query)
        scores = [hit.score for hit in hits]
        assert scores == pytest.approx([formula_scores[hit.number] for hit in hits], abs=1e-3)
        best_formula_scores = sorted(formula_scores, reverse=True)[: len(hits)]
        assert scores == pytest.approx(best_formula_scores, abs=1e-3)


def test_ranking_is_the_same_in_memory_and_on_disk(index):
    """The suite searches a few passages in memory, and many in an index."""
    searcher = Searcher.from_texts([passage.contents for passage in index.passages])

    for query in QUERIES:
        (hits,) = index.retrieve([query], k=5)
        assert searcher.rank(query, 5) == [(hit.number, hit.score) for hit in hits]


@pytest.mark.parametrize(
    "query",
    [
        'painter AND (" OR',
        "title:painter^9",
        "painter~ -mill +",
        "\0painter",
        "\ud83d painter",
    ],
)
def test_the_syntax_of_queries_has_no_effect(query, write_tsv, tmp_path):
    """Claims hold quotation marks and brackets, which must not be read as commands."""
    source = write_tsv(["the first painter", "a green tree", "the second painter"])
    index = build_index(source, tmp_path / "index")

    (hits,) = index.retrieve([query], k=3)

    texts = {hit.passage.text for hit in hits}
    assert texts == {"the first painter", "the second painter"}


@pytest.mark.parametrize("query", ["[a TO", "\\", "*"])
def test_a_query_of_nothing_but_syntax_finds_nothing(query, index):
    """It must not be an error either, because a model may write anything."""
    assert index.retrieve([query], k=3) == [[]]


@pytest.mark.parametrize(
    "query",
    [
        pytest.param("", id="empty"),
        pytest.param("  ", id="blank"),
        pytest.param("the of and", id="stopwords"),
        pytest.param("qqqzzz", id="unknown word"),
        pytest.param("a?", id="stopword with punctuation"),
    ],
)
def test_a_query_without_a_known_word_finds_nothing(query, index):
    """A passage that shares no word with a claim is no evidence."""
    assert index.retrieve([query], k=3) == [[]]


def test_no_queries_have_no_hits(index):
    assert index.retrieve([], k=3) == []


def test_only_passages_with_a_word_of_the_query_are_found(write_tsv, tmp_path):
    index = build_index(write_tsv(["red boat", "blue boat", "green tree"]), tmp_path / "index")

    (hits,) = index.retrieve(["boat"], k=10)

    assert [hit.passage.text for hit in hits] == ["red boat", "blue boat"]


def test_a_rare_word_weighs_more_than_a_frequent_one(write_tsv, tmp_path):
    index = build_index(write_tsv(["red boat", "blue boat", "green tree"]), tmp_path / "index")

    (hits,) = index.retrieve(["boat tree"], k=10)

    assert [hit.passage.text for hit in hits] == ["green tree", "red boat", "blue boat"]


@pytest.fixture(scope="module")
def index_with_ties(tmp_path_factory):
    """Return an index of 5,000 passages, of which every third says "boat" twice, others once."""
    folder = tmp_path_factory.mktemp("ties")
    lines = ["id\ttext\n"]
    for number in range(5000):
        text = "red boat" if number % 3 else "red red boat boat"
        lines.append(f"{number}\t{text}\n")
    (folder / "passages.tsv").write_text("".join(lines))
    return build_index(folder / "passages.tsv", folder / "index")


@pytest.mark.parametrize("k", [1, 3, 10, 2000])
def test_equal_scores_are_ordered_by_passage_number(index_with_ties, k):
    """The word is twice in every third passage of the index, and once in the others."""
    boat_twice = [number for number in range(5000) if number % 3 == 0]
    boat_once = [number for number in range(5000) if number % 3 != 0]

    (hits,) = index_with_ties.retrieve(["boat"], k)

    assert [hit.number for hit in hits] == [*boat_twice, *boat_once][:k]


def test_repeated_queries_are_searched_once(index, monkeypatch):
    """Responses often state the same fact, which becomes the same query."""
    searched_queries = []
    search = type(index)._search

    def record_queries(self, queries, k):
        searched_queries.extend(queries)
        return search(self, queries, k)

    monkeypatch.setattr(type(index), "_search", record_queries)

    painter_hits, mill_hits, second_painter_hits = index.retrieve(
        ["painter", "mill", "painter"], k=2
    )

    assert searched_queries == ["painter", "mill"]
    assert painter_hits == second_painter_hits
    assert painter_hits != mill_hits


@pytest.mark.parametrize("num_excluded", [1, 5, 40])
def test_excluded_passages_make_room_for_the_next_best(index, num_excluded):
    """A caller that excludes passages still gets as many as it asks for."""
    query = "painter prize"
    (all_hits,) = index.retrieve([query], k=len(index))
    excluded_ids = {hit.passage.id for hit in all_hits[:num_excluded]}

    (hits,) = index.retrieve(
        [query], k=3, exclude=lambda _query, hit: hit.passage.id in excluded_ids
    )

    assert hits == all_hits[num_excluded:][:3]
    assert len(hits) == 3


def test_the_last_passage_is_found_if_all_others_are_excluded(index):
    query = "painter prize"
    (all_hits,) = index.retrieve([query], k=len(index))
    last_hit = all_hits[-1]

    (hits,) = index.retrieve(
        [query], k=3, exclude=lambda _query, hit: hit.passage.id != last_hit.passage.id
    )

    assert hits == [last_hit]


def test_nothing_is_found_if_all_passages_are_excluded(index):
    """A benchmark excludes the pages that give its answers away, and those may be all."""
    hits_of_queries = index.retrieve(["painter prize"], k=3, exclude=lambda _query, _hit: True)

    assert hits_of_queries == [[]]


def test_an_unknown_stemmer_is_refused():
    with pytest.raises(ConfigError, match="stemmer: found 'german', expected english or none"):
        BM25Parameters(stemmer="german")
