"""Passages of the document behind a row are never retrieved for that row.

A passage that is recognised as part of the document bans its whole article, because other passages
of the article may state the answer in other words. Nothing else is banned.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partialmethod
from pathlib import Path
from typing import NamedTuple

import pytest
from lm_eval.api.instance import Instance
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

from lm_factuality.cli.main import main
from lm_factuality.ground.errors import ConfigError
from lm_factuality.models.hf_ralm import HFRALM
from lm_factuality.models.hf_tree import HFTree
from lm_factuality.models.ralm import Exclusion, Query, Search
from lm_factuality.retrieval.build import build_index
from lm_factuality.retrieval.index import Hit, Index
from tests.conftest import TASKS, example_row

READER = str(TASKS / "sample" / "models" / "reader")
OPTIONS = {"pretrained": READER, "device": "cpu", "dtype": "float32", "batch_size": 2}

OPENING = "The lighthouse of Steithstead was built by the guild of pilots after the great storm of that winter"
"""What the prefix of `ROW` and the first passage of its article have in common."""

ANSWER = "Its first keeper was the sailor Drondia Trertott"
"""What only the second passage of the article says."""

ROW = {
    "doc_id": "keepers",
    "prefix": f"{OPENING}. It stands on the northern pier.",
    "completion": " Its first keeper was a sailor from Rismar.",
}
PASSAGES = [
    {
        "id": "opening",
        "title": "Steithstead Lighthouse",
        "text": f"{OPENING}, and it still stands.",
    },
    {"id": "answer", "title": "Steithstead Lighthouse", "text": f"{ANSWER}, who came from Rismar."},
    # The id of this passage is that of the row by chance.
    {
        "id": "keepers",
        "title": "Keepers of Rismar",
        "text": "A keeper of Rismar was often a sailor first.",
    },
    {"id": "bakers", "title": "Bakers", "text": "Nobody in Prorholm bakes bread."},
]


def make_index(folder: Path, passages: Sequence[Mapping], **options) -> Index:
    """Build an index of passages in a folder. The options are those of `build_index`."""
    lines = [json.dumps(passage) + "\n" for passage in passages]
    (folder / "passages.jsonl").write_text("".join(lines), encoding="utf-8")
    return build_index(folder / "passages.jsonl", folder / "index", **options)


class SearchResult(NamedTuple):
    """What a search for a row retrieves, and what it leaves out."""

    ids: list[str]
    """The ids of the retrieved passages."""

    excluded: dict[str, str]
    """The rule by which each better passage was left out, by its id."""


def ids_of(hits: Sequence[Hit]) -> list[str]:
    """Return the ids of passages that a search returned."""
    return [hit.passage.id for hit in hits]


def retrieve_for_row(
    index: Index, query: str, rules: str = "title+overlap", **changed_keys
) -> SearchResult:
    """Retrieve one passage for `ROW`.

    Args:
        index: The index.
        query: The text to search for.
        rules: The rules that recognise passages of the row's document. Passages may share up to
            12 words in a row.
        **changed_keys: Other or more keys of the row.
    """
    row = {**ROW, **changed_keys}
    exclusion = Exclusion.parse(rules, overlap=13)
    document = exclusion.collect_features([row], [row["prefix"] + row["completion"]])
    search = Search(index, exclusion, {("task", 0): document})
    (retrieved,) = search.retrieve([Query(query, ("task", 0))], k=1).values()
    excluded = {hit.passage.id: rule for hit, rule in retrieved.excluded.items()}
    return SearchResult(ids_of(retrieved.hits), excluded)


def test_no_passage_from_the_rows_own_article_is_retrieved(tmp_path):
    """The article's second passage states the answer in other words than the row.

    The article is recognised by its first passage, which shares more than 12 consecutive words
    with the row.
    """
    passages = [
        {"id": "opening", "title": "Lighthouse", "text": f"{OPENING}, and it still stands."},
        {
            "id": "answer",
            "title": "Lighthouse",
            "text": "Its first keeper was the sailor Trertott.",
        },
        {"id": "keepers", "title": "Keepers", "text": "A keeper of Rismar was a sailor first."},
    ]
    query = "first keeper was the sailor Trertott"
    index = make_index(tmp_path, passages)
    best_hits = index.retrieve([query], 1)[0]
    assert ids_of(best_hits) == ["answer"]  # without exclusion

    result = retrieve_for_row(index, query)

    assert result.ids == ["keepers"]
    assert result.excluded == {"answer": "article"}


def test_a_passage_with_the_rows_id_is_retrieved_by_the_rules_title_and_overlap(tmp_path):
    """Equal ids mean nothing by these rules: an index and a benchmark number texts on their own."""
    index = make_index(tmp_path, PASSAGES)
    query = "a keeper of Rismar was often a sailor"

    result = retrieve_for_row(index, query, rules="title+overlap", doc_id="keepers")

    assert result.ids == ["keepers"]


def test_a_passage_with_the_rows_id_is_excluded_by_the_rule_id(tmp_path):
    """The user says by ``id:doc_id`` that ids of the index are those of the rows' documents."""
    index = make_index(tmp_path, PASSAGES)
    query = "a keeper of Rismar was often a sailor"

    result = retrieve_for_row(index, query, rules="id:doc_id+title+overlap", doc_id="keepers")

    assert result.ids == []
    assert result.excluded == {"keepers": "id", "answer": "article"}


def test_parts_of_a_split_text_count_as_one_article(tmp_path):
    """The second part of the text is banned, since the first one has the 18 words of the row."""
    passages = [
        {"id": "article", "text": f"{OPENING}. Its first keeper was Trertott."},
        {"id": "rumour", "text": "They say that its first keeper was a man called Trertott."},
    ]
    index = make_index(tmp_path, passages, max_words=18)
    assert [passage.id for passage in index.passages] == ["article#0", "article#1", "rumour#0"]

    result = retrieve_for_row(index, "Its first keeper was Trertott", prefix=f"{OPENING}.")

    assert result.ids == ["rumour#0"]
    assert result.excluded == {"article#1": "article"}


@pytest.fixture
def index_without_titles(tmp_path) -> Index:
    """Return an index that does not say which passages are of one article."""
    passages = [
        {"id": "opening", "text": f"{OPENING}, and it still stands."},
        {"id": "answer", "text": f"{ANSWER}, who came from Rismar."},
    ]
    return make_index(tmp_path, passages)


def test_other_passages_of_the_article_are_retrieved_without_titles(index_without_titles):
    """Without a title, nothing tells that they belong to the row's article."""
    result = retrieve_for_row(index_without_titles, ANSWER, prefix=OPENING)

    assert result.ids == ["answer"]


def test_passage_with_the_rows_words_is_excluded_without_titles(index_without_titles):
    """The row and the passage begin with the same 18 words."""
    result = retrieve_for_row(index_without_titles, OPENING, prefix=OPENING)

    assert result.excluded == {"opening": "overlap"}


def test_a_title_in_the_row_bans_the_article(tmp_path):
    """Titles are compared without regard to letter case and spaces."""
    index = make_index(tmp_path, PASSAGES)

    result = retrieve_for_row(index, ANSWER, rules="title", page="steithstead  LIGHTHOUSE")

    assert result.ids == ["keepers"]
    assert result.excluded == {"answer": "title"}


def test_title_rule_bans_nothing_for_a_row_without_title(tmp_path):
    """The rule compares titles only, and not the words of the row."""
    index = make_index(tmp_path, PASSAGES)

    result = retrieve_for_row(index, ANSWER, rules="title")

    assert result.ids == ["answer"]


@pytest.fixture
def late_search(tmp_path) -> Search:
    """Return a search for two rows, ("task", 0) and ("task", 1).

    It recognises the article of the first row only when a query finds its opening. Nothing is known
    of the document of the second row.
    """
    index = make_index(tmp_path, PASSAGES)
    # Without pieces, the index is not searched for the article before the first query.
    document = replace(Exclusion().collect_features([], [OPENING]), pieces=())
    unknown_document = Exclusion().collect_features([], [])
    documents = {("task", 0): document, ("task", 1): unknown_document}
    return Search(index, Exclusion(), documents)


def test_article_found_by_a_later_query_is_removed_from_earlier_queries(late_search):
    """All queries are answered together, so the order of queries does not matter."""
    answer_query = Query(ANSWER, ("task", 0))
    opening_query = Query(OPENING, ("task", 0))

    results = late_search.retrieve([answer_query, opening_query], k=1)

    # The article consists of two passages, "opening" and "answer".
    assert ids_of(results[answer_query].hits) == ["keepers"]
    assert "answer" in ids_of(results[answer_query].excluded)
    ids_for_opening = ids_of(results[opening_query].hits)
    assert "opening" not in ids_for_opening
    assert "answer" not in ids_for_opening


def test_article_is_banned_only_for_its_own_row(late_search):
    """For another row the article is a legitimate source."""
    row = ("task", 0)
    other_row = ("task", 1)
    query_that_finds_the_article = Query(OPENING, row)
    query_of_other_row = Query(ANSWER, other_row)

    results = late_search.retrieve([query_that_finds_the_article, query_of_other_row], k=1)

    assert ids_of(results[query_of_other_row].hits) == ["answer"]
    # The article was recognised by the passage of number 0, its opening.
    assert late_search.banned == {row: {"title steithstead lighthouse": 0}, other_row: {}}


def test_every_13_consecutive_words_are_together_in_some_search_piece():
    """A passage that shares 13 words would be missed if no query had all of them."""
    words = [f"w{number}" for number in range(300)]

    document = Exclusion().collect_features([], [" ".join(words)])

    # A space behind every word keeps "w1" from being found in "w10".
    pieces = [f"{piece} " for piece in document.pieces]
    last_start = 300 - 13
    for start in range(last_start + 1):
        text = "".join(f"{word} " for word in words[start : start + 13])
        assert any(text in piece for piece in pieces), f"no piece has {text}"


def test_short_text_is_a_single_search_piece():
    """Pieces are queries that find passages of the document. A short text must not be lost."""
    document = Exclusion().collect_features([], ["too short"])

    assert document.pieces == ("too short",)


def test_text_is_not_searched_for_if_words_are_not_compared():
    """Searching for a long text takes time, and nothing would use the result."""
    exclusion = Exclusion.parse("title", overlap=13)

    document = exclusion.collect_features([], ["some text"])

    assert document.pieces == ()


@pytest.fixture(scope="module")
def long_model(tmp_path_factory) -> str:
    """Return the folder of a Llama with random weights, which sees 2,048 tokens."""
    folder = tmp_path_factory.mktemp("llama")
    tokenizer = AutoTokenizer.from_pretrained(READER)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        max_position_embeddings=2048,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=1,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.fixture
def input_lengths(monkeypatch) -> list[int]:
    """Return the list of the numbers of tokens in the requests that ``hf-tree`` scores."""
    lengths = []
    score = HFTree.score_tokens

    def record_and_score(self, requests, *arguments, **options):
        lengths.extend(len(context) + len(targets) for _, context, targets in requests)
        return score(self, requests, *arguments, **options)

    monkeypatch.setattr(HFTree, "score_tokens", record_and_score)
    return lengths


@pytest.fixture
def folder_with_long_row(tmp_path) -> Path:
    """Return a folder with tasks on one long row, and an index with one long passage.

    The tasks ``windowed`` and ``windowed_perplexity`` let a model see 1,024 tokens.
    """
    sentence = "The first tower of Rismar fell on its own keeper, who had been a sailor. "
    make_index(tmp_path, [{"text": sentence * 30}])
    row = example_row(turncated_prefixes="The tower fell. " * 700)
    (tmp_path / "rows.jsonl").write_text(json.dumps(row), encoding="utf-8")
    factor_yaml = f"""\
include: {TASKS}/factor/_factor.yaml
task: windowed
dataset_path: rows.jsonl
metadata: {{version: 1.0, window: 1024}}
"""
    perplexity_yaml = f"""\
include: {TASKS}/factor/_perplexity.yaml
task: windowed_perplexity
metadata: {{version: 1.0, documents_of: rows.jsonl, window: 1024}}
"""
    (tmp_path / "windowed.yaml").write_text(factor_yaml, encoding="utf-8")
    (tmp_path / "windowed_perplexity.yaml").write_text(perplexity_yaml, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("task", "insertion"),
    [
        ("windowed", "paper"),
        ("windowed", "code"),
        ("windowed_perplexity", "paper"),
    ],
)
def test_passage_and_text_fit_the_window_of_the_task(
    evaluate, folder_with_long_row, long_model, input_lengths, task, insertion
):
    """Scores with and without retrieval are comparable only if the model sees equally much."""
    ralm = HFRALM(
        pretrained=long_model,
        device="cpu",
        dtype="float32",
        batch_size=2,
        index=str(folder_with_long_row / "index"),
        insertion=insertion,
        exclude="none",
        retrieval_stride=32,
    )
    assert ralm.max_length == 2048  # more than the window of 1,024 tokens

    evaluate(ralm, [task], folder_with_long_row)

    assert max(input_lengths) == 1024
    queries = ralm.retrieved[task, 0]["queries"]
    num_replaced_tokens = max(query["cut"] for query in queries)
    assert num_replaced_tokens >= 200  # tokens of the text that the passage replaces


def test_a_window_without_room_for_text_is_refused(long_model, tmp_path):
    """A model that sees passages only would be scored on guesses."""
    make_index(tmp_path, PASSAGES)
    ralm = HFRALM(index=str(tmp_path / "index"), **{**OPTIONS, "pretrained": long_model})
    request = Instance("scored", {}, ("A", " b"), 0)

    message = "no room for text in the task's window of 264; lower num_documents"
    with pytest.raises(ConfigError, match=message):
        ralm.loglikelihood_with_sources([(None, [1, 2], [3])], [request], [264])


COMPLETIONS = {
    "completion": f"{ANSWER}.",
    "contradiction_0": f"{ANSWER} too.",
    "contradiction_1": "Not.",
    "contradiction_2": "No.",
}


@pytest.fixture
def run_folder(tmp_path, monkeypatch, write_rows, factor_yaml) -> Path:
    """Return the output folder of a run with retrieval on two rows.

    The document of the first row is in the index, the article "Steithstead Lighthouse". The
    document of the second row is not.
    """
    from lm_eval.tasks import TaskManager

    # lm_eval's own tasks take seconds to read.
    without_defaults = partialmethod(TaskManager.__init__, include_defaults=False)
    monkeypatch.setattr(TaskManager, "__init__", without_defaults)
    make_index(tmp_path, PASSAGES)
    prefix = f"{ROW['prefix']} "
    write_rows(
        [example_row(doc_id="keepers", turncated_prefixes=prefix, **COMPLETIONS), example_row()]
    )
    factor_yaml(dataset_path="rows.jsonl")
    model_args = f"pretrained={READER},dtype=float32,index={tmp_path / 'index'},document_length=32"
    exit_code = main(
        [
            "run",
            *("--model", "hf-ralm"),
            *("--model_args", model_args),
            *("--include_path", str(tmp_path)),
            *("--tasks", "my_factor"),
            *("--output_path", str(tmp_path / "out")),
            "--log_samples",
            *("--device", "cpu"),
        ]
    )
    assert exit_code == 0
    return tmp_path / "out"


def only_file(folder: Path, pattern: str) -> Path:
    """Return the only file below a folder whose name matches a pattern."""
    (path,) = folder.rglob(pattern)
    return path


def read_retrieved(run_folder: Path) -> list[dict]:
    """Return the records of what was retrieved, one for each row."""
    path = only_file(run_folder, "retrieved_my_factor_*.jsonl")
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_results_count_rows_with_an_excluded_article(run_folder):
    """The counts show whether retrieval could have copied the answers of a benchmark."""
    results_file = only_file(run_folder, "results_*.json")

    results = json.loads(results_file.read_text(encoding="utf-8"))

    # Only the first of the two rows has its article in the index.
    assert results["config"]["ralm"]["retrieved"] == {
        "my_factor": {"rows": 2, "article_found": 1, "excluded": 1}
    }


def test_retrieved_passages_are_saved_next_to_the_samples(run_folder):
    """Whoever reads a sample can look up what the model was shown."""
    path = only_file(run_folder, "retrieved_my_factor_*.jsonl")

    samples_path = path.with_name(path.name.replace("retrieved_", "samples_"))
    assert samples_path.is_file()
    assert [record["doc_id"] for record in read_retrieved(run_folder)] == [0, 1]


def test_row_record_names_the_banned_article(run_folder):
    """Nothing was banned for the second row, as its document is not in the index."""
    first, second = read_retrieved(run_folder)

    # The number is that of the passage by which the article was recognised.
    assert first["articles"] == {"title steithstead lighthouse": 0}
    assert second["articles"] == {}


def test_row_record_gives_the_reason_for_each_exclusion(run_folder):
    """A reader can check that the answer was kept from the model, and nothing else."""
    record, _ = read_retrieved(run_folder)

    reasons = set()
    for query in record["queries"]:
        reasons.update(query["excluded"].values())
    # The first passage has the words of the row, and the second one is of the same article.
    assert reasons == {"overlap", "article"}


def test_model_sees_no_passages_from_the_rows_own_article(run_folder):
    """The article has the true sentence in it, so the model could copy the answer."""
    record, _ = read_retrieved(run_folder)

    shown_passages = set()
    for query in record["queries"]:
        shown_passages.update(int(number) for number in query["shown"])
    assert shown_passages.isdisjoint({0, 1})  # the numbers of the article's passages


def test_row_record_has_the_text_of_excluded_passages(run_folder):
    """A reader can then judge whether the exclusion was right, without the index."""
    record, _ = read_retrieved(run_folder)

    assert record["passages"]["1"] == {
        "id": "answer",
        "title": "Steithstead Lighthouse",
        "text": PASSAGES[1]["text"],
    }


def test_row_record_has_the_text_predicted_after_each_query(run_folder):
    """Each query predicts some tokens of a completion, and together they predict all of it."""
    record, _ = read_retrieved(run_folder)

    predicted_texts = ["", "", "", ""]  # of the four completions
    for query in record["queries"]:
        for choice, text in query["predicts"]:
            predicted_texts[choice] += text
    assert [text.strip() for text in predicted_texts] == list(COMPLETIONS.values())
