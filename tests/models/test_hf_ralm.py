"""In-context RALM: which tokens the model is shown, what is never retrieved, and that sharing
changes no score."""

from __future__ import annotations

import json

import pytest
from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM

from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.models.hf_ralm import HFRALM
from lm_factuality.models.hf_tree import HFPrefixFree, HFTree
from lm_factuality.models.ralm import Exclusion, Window, cut_windows, insert_passages
from lm_factuality.retrieval.build import build_index
from lm_factuality.retrieval.passages import Passage
from tests.conftest import TASKS

READER = str(TASKS / "sample" / "models" / "reader")
OPTIONS = {"pretrained": READER, "device": "cpu", "dtype": "float32", "batch_size": 2}


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("index") / "encyclopedia"
    build_index(TASKS / "sample" / "encyclopedia.jsonl", folder)
    return str(folder)


@pytest.fixture(scope="module")
def ralm(index) -> HFRALM:
    return HFRALM(index=index, separator="\\n<|endoftext|>", **OPTIONS)


def test_a_continuation_is_predicted_a_stride_at_a_time():
    cut = cut_windows([(None, [1, 2], [3, 4, 5, 6, 7]), (None, [9], [8])], 2)
    assert cut == [
        Window(0, [1, 2], [3, 4]),
        Window(0, [1, 2, 3, 4], [5, 6]),
        Window(0, [1, 2, 3, 4, 5, 6], [7]),
        Window(1, [9], [8]),
    ]


@pytest.mark.parametrize(
    ("insertion", "before", "document", "expected"),
    [
        ("paper", [1, 2, 3], [50, 51], [50, 51, 1, 2, 3]),
        (
            "paper",
            [0, 1, 2, 3],
            [50, 51],
            [0, 50, 51, 1, 2, 3],
        ),  # the tokenizer's first token stays first
        (
            "paper",
            list(range(1, 12)),
            [50, 51],
            [50, 51, 5, 6, 7, 8, 9, 10, 11],
        ),  # 10 inputs, the last target is none
        ("paper", [1, 2, 3], [], [1, 2, 3]),
        ("code", [1, 2, 3], [50, 51], [50, 51, 3]),  # overwritten, though there was room
        (
            "code",
            list(range(1, 12)),
            [50, 51],
            [50, 51, 6, 7, 8, 9, 10, 11],
        ),  # cut to 10 with the targets
        ("code", [1, 2], [50, 51, 52], [50, 51]),  # targets are never overwritten
    ],
)
def test_what_the_model_is_shown(insertion, before, document, expected):
    assert insert_passages(Window(0, before, [70, 71]), document, insertion, 10, 0) == expected


WORDS = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen"


@pytest.mark.parametrize(
    ("rules", "passage", "reason"),
    [
        ("id:doc_id+title+overlap", Passage("7", "", "other"), "id"),
        (
            "id:doc_id",
            Passage("7#4", "", "other"),
            "id",
        ),  # a part of a passage that the index has split
        ("id:doc_id", Passage("71", "", "other"), ""),
        ("title+overlap", Passage("7", "", "other"), ""),  # a number that happens to be the row's
        ("id:page", Passage("7", "", "other"), ""),
        ("title", Passage("x", "the  LIBRARY", "other"), "title"),
        ("id:doc_id", Passage("x", "The Library", "other"), ""),
        ("title+overlap", Passage("x", "y", f"It says: {WORDS.upper()}."), "overlap"),
        (
            "title+overlap",
            Passage("x", "y", "one two three four five six seven eight nine ten eleven twelve"),
            "",
        ),
        ("none", Passage("7", "The Library", WORDS), ""),
    ],
)
def test_the_evaluated_document_is_known_by_id_title_and_text(rules, passage, reason):
    exclusion = Exclusion.parse(rules, 13)
    document = exclusion.collect_features(
        [{"doc_id": 7, "page": "", "title": "The Library"}], [f"A prefix. {WORDS}"]
    )
    assert exclusion.matching_rule(document, passage, is_split=True) == reason


def test_a_number_sign_in_an_id_is_a_part_only_where_the_index_has_split():
    document = (exclusion := Exclusion.parse("id:doc_id", 13)).collect_features([{"doc_id": 7}], [])
    assert exclusion.matching_rule(document, Passage("7#4", "", "other"), is_split=False) == ""


def test_a_row_without_the_key_of_its_id():
    with pytest.raises(DataError, match="no key 'page'; name the key"):
        Exclusion.parse("id:page", 13).collect_features([{"doc_id": 7, "title": "x"}], [])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"retrieval_stride": 0}, "retrieval_stride is 0"),
        ({"insertion": "both"}, "insertion is 'both'; expected 'paper' or 'code'"),
        ({"exclude": "title+name"}, "exclude is 'title\\+name'; expected none, or any of title"),
        ({"exclude": "id+title"}, "exclude is"),
        ({"exclude": "id:+title"}, "exclude is"),
        ({"num_documents": 2}, "leave no room"),
        ({"index": ""}, "lm-factuality index build"),
    ],
)
def test_options_that_cannot_be(index, options, message):
    with pytest.raises(ConfigError, match=message):
        HFRALM(**{"index": index, **OPTIONS, **options})


def test_an_index_that_is_none(tmp_path):
    with pytest.raises(DataError, match=str(tmp_path)):
        HFRALM(index=str(tmp_path), **OPTIONS)


def instances(count: int) -> list[Instance]:
    articles = [
        json.loads(line)
        for line in (TASKS / "sample" / "encyclopedia.jsonl").open(encoding="utf-8")
    ][:count]
    return [
        Instance(
            "loglikelihood",
            {"doc_id": article["id"]},
            (article["text"][:200], article["text"][200:320] + end),
            0,
            ("task", number, 1),
        )
        for number, article in enumerate(articles)
        for end in (".", " there")
    ]


def windows_of(ralm, requests):
    """The windows of requests, and the context of each with what was retrieved, in tokens."""
    encoded = [(None, *ralm._encode_pair(*request.args)) for request in requests]
    windows = cut_windows(encoded, ralm.options.retrieval_stride)
    return windows, ralm.augment_windows(windows, requests, [None] * len(requests))


@pytest.mark.parametrize("insertion", ["paper", "code"])
def test_scores_are_those_of_one_request_a_window(index, insertion):
    ralm = HFRALM(index=index, insertion=insertion, **OPTIONS)
    plain = HFLM(**OPTIONS, logits_cache=False)
    requests = instances(6)
    windows, contexts = windows_of(ralm, requests)
    assert len(windows) > 2 * len(requests)
    assert contexts != [window.before for window in windows]
    expected = [0.0] * len(requests)
    for window, context in zip(windows, contexts, strict=True):
        request = (None, context, window.targets)
        expected[window.request] += plain._loglikelihood_tokens([request], True)[0][0]
    found = [logprob for logprob, _ in ralm.loglikelihood(requests, disable_tqdm=True)]
    assert found == pytest.approx(expected, abs=1e-3)


def test_retrieval_helps_the_checkpoint_that_reads(ralm, evaluate):
    plain = evaluate(HFTree(**OPTIONS), ["sample_factor"], log_samples=False)
    found = evaluate(ralm, ["sample_factor"], log_samples=False)
    before, after = (run["results"]["sample_factor"]["factor_acc,none"] for run in (plain, found))
    assert after >= before + 0.03
    assert ralm.get_model_info()["ralm"]["index"] == ralm._index.identity


def test_perplexity_and_whole_texts_are_scored_with_retrieval_too(ralm, evaluate):
    run = evaluate(ralm, ["sample_factor_perplexity"], limit=3, log_samples=False)
    plain = evaluate(HFTree(**OPTIONS), ["sample_factor_perplexity"], limit=3, log_samples=False)
    key = "perplexity,none"
    with_passages, without = (
        each["results"]["sample_factor_perplexity"][key] for each in (run, plain)
    )
    assert 1 < with_passages < without
    text = Instance("loglikelihood_rolling", {}, ("A keeper of the library.",), 0, ("task", 0, 1))
    assert ralm.loglikelihood_rolling([text], True)[0] < 0


def test_without_its_prefix_a_model_scores_the_continuation_alone(checkpoint):
    options = {**OPTIONS, "pretrained": str(checkpoint)}
    request = Instance("loglikelihood", {}, ("The library opened.", " It closed."), 0)
    alone = Instance("loglikelihood", {}, ("", " It closed."), 0)
    expected = HFTree(**options).loglikelihood([alone], disable_tqdm=True)
    assert HFPrefixFree(**options).loglikelihood([request], disable_tqdm=True) == expected
