"""The evaluated document is never retrieved: a passage that is recognised bans its article, and
nothing else is banned."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from lm_eval.api.instance import Instance
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

from lm_factuality.cli.main import main
from lm_factuality.ground.errors import ConfigError
from lm_factuality.harness.requests import Encoder
from lm_factuality.models.hf_ralm import HFRALM
from lm_factuality.models.hf_tree import HFTree
from lm_factuality.models.ralm import EvaluatedDocument, Exclusion, Query, Search
from lm_factuality.retrieval.build import build_index
from lm_factuality.retrieval.index import Index
from tests.conftest import TASKS, example_row

READER = str(TASKS / "sample" / "models" / "reader")
OPTIONS = {"pretrained": READER, "device": "cpu", "dtype": "float32", "batch_size": 2}

OPENING = "The lighthouse of Steithstead was built by the guild of pilots after the great storm of that winter"
# in the article's later passage, in these words alone
ANSWER = "Its first keeper was the sailor Drondia Trertott"
ROW = {
    "doc_id": 2,
    "prefix": f"{OPENING}. It stands on the northern pier.",
    "completion": " Its first keeper was a sailor from Rismar.",
}
PASSAGES = [
    {"id": 1, "title": "Steithstead Lighthouse", "text": f"{OPENING}, and it still stands."},
    {"id": 7, "title": "Steithstead Lighthouse", "text": f"{ANSWER}, who came from Rismar."},
    {
        "id": 2,
        "title": "Keepers of Rismar",
        "text": "A keeper of Rismar was often a sailor first.",
    },  # whose id is the row's by chance
    {"id": 3, "title": "Bakers", "text": "Nobody in Prorholm bakes bread."},
]


def index_of(folder: Path, passages: list[dict], **options) -> Index:
    (folder / "passages.jsonl").write_text(
        "".join(json.dumps(each) + "\n" for each in passages), encoding="utf-8"
    )
    return build_index(folder / "passages.jsonl", folder / "index", **options)


def found(
    index: Index,
    query: str,
    k: int = 1,
    rules: str = "title+overlap",
    row: dict | None = None,
    **changes,
) -> tuple:
    """(ids that were found, ids of what was excluded with the reasons) of one query for the row."""
    row = {**(row or ROW), **changes}
    exclusion = Exclusion.parse(rules, 13)
    search = Search(
        index,
        exclusion,
        {("task", 0): exclusion.collect_features([row], [row["prefix"] + row["completion"]])},
    )
    ((hits, excluded),) = search.retrieve([Query(query, ("task", 0))], k).values()
    return [hit.passage.id for hit in hits], {
        hit.passage.id: reason for hit, reason in excluded.items()
    }


def test_a_later_passage_of_the_article_is_not_found_though_it_shares_no_words_in_a_row(tmp_path):
    index = index_of(tmp_path, PASSAGES)
    assert index.retrieve([ANSWER], 1)[0][0].passage.id == "7"
    assert found(index, ANSWER) == (["2"], {"7": "article"})


def test_an_unrelated_passage_whose_id_happens_to_be_the_rows_is_found(tmp_path):
    index = index_of(tmp_path, PASSAGES)
    query = "a keeper of Rismar was often a sailor"
    assert found(index, query)[0] == ["2"]
    assert found(index, query, rules="id:doc_id+title+overlap") == ([], {"2": "id", "7": "article"})


SPLIT = [
    {"id": "a", "text": f"{OPENING}. {ANSWER} then."},
    {"id": "b", "text": f"Of others it is said: {ANSWER.lower()} too."},
]


def test_parts_of_a_text_that_the_index_has_split_are_one_article(tmp_path):
    index = index_of(tmp_path, SPLIT, max_words=18)
    assert [passage.id for passage in index.passages] == ["a#0", "a#1", "b#0"]
    assert found(index, ANSWER) == (["b#0"], {"a#1": "article"})


def test_without_title_and_split_only_the_passage_itself_is_banned(tmp_path):
    index = index_of(tmp_path, [{**each, "title": ""} for each in PASSAGES])
    assert found(index, ANSWER)[0] == ["7"]
    assert found(index, OPENING)[1] == {"1": "overlap"}


def test_a_title_in_the_row_bans_the_article_too(tmp_path):
    index = index_of(tmp_path, PASSAGES)
    assert found(index, ANSWER, rules="title", page="steithstead  LIGHTHOUSE") == (
        ["2"],
        {"7": "title"},
    )
    assert found(index, ANSWER, rules="title")[0] == ["7"]


def test_an_article_that_is_recognised_late_is_taken_back_from_earlier_windows(tmp_path):
    """As when the document's own text finds other passages first: here it is not searched for at
    all."""
    index = index_of(tmp_path, PASSAGES)
    runs = Exclusion().collect_features([], [OPENING]).word_sequences
    mine, other = ("task", 0), ("task", 1)
    search = Search(
        index,
        Exclusion(),
        {mine: EvaluatedDocument(word_sequences=runs), other: EvaluatedDocument()},
    )
    found = search.retrieve([Query(ANSWER, mine), Query(OPENING, mine), Query(ANSWER, other)], 1)
    ids = {query: [hit.passage.id for hit in hits] for query, (hits, _) in found.items()}
    assert ids[ANSWER, mine] == ["2"]
    assert "7" in {hit.passage.id for hit in found[ANSWER, mine][1]}
    assert not {"1", "7"} & set(ids[OPENING, mine])
    assert ids[ANSWER, other] == ["7"]  # of another document nothing is banned
    assert search.banned == {mine: {"title steithstead lighthouse": 0}, other: {}}


def test_every_run_of_words_stands_whole_in_a_piece():
    words = [f"w{number}" for number in range(300)]
    document = Exclusion().collect_features([], [" ".join(words)])
    pieces = [f"{piece} " for piece in document.pieces]
    assert all(
        any(" ".join(words[start : start + 13]) + " " in piece for piece in pieces)
        for start in range(288)
    )
    assert Exclusion().collect_features([], ["too short"]).pieces == ("too short",)
    assert Exclusion.parse("title", 13).collect_features([], ["some text"]).pieces == ()


@pytest.fixture(scope="module")
def model_of_2048(tmp_path_factory) -> Path:
    """A Llama of 2,048 positions with random weights."""
    folder = tmp_path_factory.mktemp("llama")
    tokenizer = AutoTokenizer.from_pretrained(READER)
    sizes = {
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 1,
    }
    config = LlamaConfig(vocab_size=len(tokenizer), max_position_embeddings=2048, **sizes)
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.parametrize(
    ("task", "insertion"),
    [("windowed", "paper"), ("windowed", "code"), ("windowed_perplexity", "paper")],
)
def test_the_window_of_the_task_holds_with_retrieval(
    task, insertion, model_of_2048, tmp_path, monkeypatch, evaluate
):
    index_of(
        tmp_path,
        [
            {
                "text": "The first tower of Rismar fell on its own keeper, who had been a sailor. "
                * 30
            }
        ],
    )
    (tmp_path / "rows.jsonl").write_text(
        json.dumps(example_row(turncated_prefixes="The tower fell. " * 700)), encoding="utf-8"
    )
    base = TASKS / "factor"
    (tmp_path / "windowed.yaml").write_text(
        f"include: {base}/_factor.yaml\ntask: windowed\ndataset_path: rows.jsonl\nmetadata: {{version: 1.0, window: 1024}}\n"
    )
    (tmp_path / "windowed_perplexity.yaml").write_text(
        f"include: {base}/_perplexity.yaml\ntask: windowed_perplexity\n"
        "metadata: {version: 1.0, documents_of: rows.jsonl, window: 1024}\n"
    )
    options = {
        **OPTIONS,
        "pretrained": str(model_of_2048),
        "exclude": "none",
        "retrieval_stride": 32,
    }
    ralm = HFRALM(index=str(tmp_path / "index"), insertion=insertion, **options)
    assert ralm.max_length == 2048
    seen: list[int] = []
    score = HFTree._loglikelihood_tokens

    def spy(self, requests, *rest, **options):
        seen.extend(len(context) + len(targets) for _, context, targets in requests)
        return score(self, requests, *rest, **options)

    monkeypatch.setattr(HFTree, "_loglikelihood_tokens", spy)
    evaluate(ralm, [task], tmp_path)
    assert max(seen) == 1024
    assert (
        max(query["cut"] for query in ralm.retrieved[task, 0]["queries"]) >= 200
    )  # tokens of the text that gave way


def test_a_window_that_has_no_room_for_text(model_of_2048, tmp_path):
    index_of(tmp_path, PASSAGES)
    ralm = HFRALM(index=str(tmp_path / "index"), **{**OPTIONS, "pretrained": str(model_of_2048)})
    request = Instance("scored", {}, ("A", " b"), 0)
    with pytest.raises(
        ConfigError, match="no room for text in the task's window of 264; lower num_documents"
    ):
        ralm.loglikelihood_with_sources([(None, [1, 2], [3])], [request], [264])


def test_what_was_retrieved_lies_beside_the_samples(tmp_path, monkeypatch, write_rows, factor_yaml):
    from lm_eval.tasks import TaskManager

    index_of(tmp_path, PASSAGES)
    texts = {
        "completion": f"{ANSWER}.",
        "contradiction_0": f"{ANSWER} too.",
        "contradiction_1": "Not.",
        "contradiction_2": "No.",
    }
    write_rows(
        [example_row(doc_id="2", turncated_prefixes=f"{ROW['prefix']} ", **texts), example_row()]
    )
    factor_yaml(dataset_path="rows.jsonl")
    create = TaskManager.__init__
    monkeypatch.setattr(
        TaskManager,
        "__init__",
        lambda self, *given, **named: create(self, *given, **{**named, "include_defaults": False}),
    )
    arguments = f"pretrained={READER},dtype=float32,index={tmp_path / 'index'},document_length=32"
    command = [
        "run",
        "--model",
        "hf-ralm",
        "--model_args",
        arguments,
        "--include_path",
        str(tmp_path),
        "--tasks",
        "my_factor",
    ]
    assert (
        main([*command, "--output_path", str(tmp_path / "out"), "--log_samples", "--device", "cpu"])
        == 0
    )
    (results,) = (tmp_path / "out").rglob("results_*.json")
    (beside,) = (tmp_path / "out").rglob("retrieved_my_factor_*.jsonl")
    assert beside.with_name(beside.name.replace("retrieved_", "samples_")).is_file()
    counts = json.loads(results.read_text(encoding="utf-8"))["config"]["ralm"]["retrieved"]
    assert counts == {"my_factor": {"rows": 2, "article_found": 1, "excluded": 1}}
    first, second = (json.loads(line) for line in beside.read_text(encoding="utf-8").splitlines())
    assert (first["doc_id"], second["doc_id"], second["articles"]) == (0, 1, {})
    assert first["articles"] == {"title steithstead lighthouse": 0}
    assert {reason for query in first["queries"] for reason in query["excluded"].values()} == {
        "overlap",
        "article",
    }
    assert not {"0", "1"} & {str(number) for query in first["queries"] for number in query["shown"]}
    assert first["passages"]["1"] == {
        "id": "7",
        "title": "Steithstead Lighthouse",
        "text": PASSAGES[1]["text"],
    }
    predicted = [
        "".join(
            text for query in first["queries"] for choice, text in query["predicts"] if choice == at
        )
        for at in range(4)
    ]
    assert [text.strip() for text in predicted] == [text.strip() for text in texts.values()]


def test_cached_answers_are_those_of_the_same_window_and_row(tmp_path):
    index_of(tmp_path, PASSAGES)
    ralm = HFRALM(index=str(tmp_path / "index"), **{**OPTIONS, "document_length": 32})

    def keys(lm) -> set:
        asked = [({"doc_id": 1}, 100), ({"doc_id": 1}, None), ({"doc_id": 2}, 100)]
        encoder = Encoder(lm)
        return {
            encoder.encode(Instance("scored", doc, ("A keeper", " slept.", window), 0)).key
            for doc, window in asked
        }

    assert len(keys(ralm)) == 3
    assert len(keys(HFTree(**OPTIONS))) == 1
