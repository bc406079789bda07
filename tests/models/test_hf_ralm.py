"""In-context RALM: what the model is shown, what is never retrieved, and the resulting scores."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM

from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.models.hf_ralm import HFRALM
from lm_factuality.models.hf_tree import HFPrefixFree, HFTree
from lm_factuality.models.ralm import Exclusion, Window, cut_windows, insert_passages
from lm_factuality.retrieval.build import build_index
from lm_factuality.retrieval.index import read_manifest
from lm_factuality.retrieval.passages import Passage
from tests.conftest import TASKS

ENCYCLOPEDIA = TASKS / "sample" / "encyclopedia.jsonl"
READER = str(TASKS / "sample" / "models" / "reader")
"""A checkpoint that has learned to read passages of the encyclopedia."""
OPTIONS = {"pretrained": READER, "device": "cpu", "dtype": "float32", "batch_size": 2}


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> str:
    """Return the folder of an index of the sample's encyclopedia."""
    folder = tmp_path_factory.mktemp("index") / "encyclopedia"
    build_index(ENCYCLOPEDIA, folder)
    return str(folder)


@pytest.fixture(scope="module")
def ralm(index) -> HFRALM:
    """Return ``hf-ralm`` with the index."""
    return HFRALM(index=index, separator="\\n<|endoftext|>", **OPTIONS)


def test_continuation_is_predicted_in_strides():
    """Passages are retrieved anew after every ``stride`` tokens, by what stands before."""
    long_request = (None, [1, 2], [3, 4, 5, 6, 7])
    short_request = (None, [9], [8])

    windows = cut_windows([long_request, short_request], stride=2)

    assert windows == [
        Window(request=0, before=[1, 2], targets=[3, 4]),
        Window(request=0, before=[1, 2, 3, 4], targets=[5, 6]),
        Window(request=0, before=[1, 2, 3, 4, 5, 6], targets=[7]),
        Window(request=1, before=[9], targets=[8]),
    ]


@pytest.mark.parametrize(
    ("before", "document", "expected"),
    [
        pytest.param([1, 2, 3], [50, 51], [50, 51, 1, 2, 3], id="room for both"),
        pytest.param([0, 1, 2, 3], [50, 51], [0, 50, 51, 1, 2, 3], id="start token stays first"),
        # The model sees 10 tokens. The second of the two targets is only predicted.
        pytest.param(
            [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11],
            [50, 51],
            [50, 51, 5, 6, 7, 8, 9, 10, 11],
            id="text is cut at its beginning",
        ),
        pytest.param([1, 2, 3], [], [1, 2, 3], id="no passage"),
    ],
)
def test_protocol_paper_puts_the_passage_before_the_text(before, document, expected):
    """The passage is shown in addition to the text, which is cut only if the window is full."""
    window = Window(request=0, before=before, targets=[70, 71])

    context = insert_passages(
        window, document, insertion="paper", max_length=10, first_token=0, limit=None
    )

    assert context == expected


@pytest.mark.parametrize(
    ("before", "document", "expected"),
    [
        pytest.param([1, 2, 3], [50, 51], [50, 51, 3], id="short text"),
        # The text is first cut to 8 tokens, so that it has 10 together with the two targets.
        pytest.param(
            [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11],
            [50, 51],
            [50, 51, 6, 7, 8, 9, 10, 11],
            id="long text",
        ),
        pytest.param([1, 2], [50, 51, 52], [50, 51], id="passage longer than the text"),
    ],
)
def test_protocol_code_overwrites_the_start_of_the_text_with_the_passage(
    before, document, expected
):
    """The authors' code keeps the length of the text, even if there is room for the passage."""
    window = Window(request=0, before=before, targets=[70, 71])

    context = insert_passages(
        window, document, insertion="code", max_length=10, first_token=0, limit=None
    )

    assert context == expected


FOURTEEN_WORDS = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen"
TWELVE_WORDS = "one two three four five six seven eight nine ten eleven twelve"
ROW = {"doc_id": 7, "page": "", "title": "The Library"}


def rule_for(rules: str, passage: Passage, is_split: bool = True) -> str | None:
    """Return the rule by which a passage belongs to the document of `ROW`.

    Args:
        rules: The option ``exclude``. Passages may share up to 12 words in a row.
        passage: The passage.
        is_split: Whether the index has split its texts into numbered parts.
    """
    exclusion = Exclusion.parse(rules, overlap=13)
    document = exclusion.collect_features([ROW], [f"A prefix. {FOURTEEN_WORDS}"])
    return exclusion.matching_rule(document, passage, is_split=is_split)


@pytest.mark.parametrize(
    ("rules", "passage", "rule"),
    [
        pytest.param(
            "id:doc_id+title+overlap", Passage(id="7", title="", text="text"), "id", id="id"
        ),
        pytest.param(
            "id:doc_id", Passage(id="7#4", title="", text="text"), "id", id="id of a part"
        ),
        pytest.param(
            "title", Passage(id="x", title="the  LIBRARY", text="text"), "title", id="title"
        ),
        pytest.param(
            "title+overlap",
            Passage(id="x", title="y", text=f"It says: {FOURTEEN_WORDS.upper()}."),
            "overlap",
            id="words",
        ),
    ],
)
def test_a_passage_of_the_evaluated_document_is_recognised(rules, passage, rule):
    """A model that is shown the answer's own document would only have to copy."""
    assert rule_for(rules, passage) == rule


@pytest.mark.parametrize(
    ("rules", "passage"),
    [
        pytest.param(
            "id:doc_id", Passage(id="71", title="", text="text"), id="id that begins alike"
        ),
        pytest.param(
            "title+overlap", Passage(id="7", title="", text="text"), id="ids are not compared"
        ),
        pytest.param("id:page", Passage(id="7", title="", text="text"), id="id under another key"),
        pytest.param(
            "id:doc_id",
            Passage(id="x", title="The Library", text="text"),
            id="titles are not compared",
        ),
        pytest.param(
            "title+overlap", Passage(id="x", title="y", text=TWELVE_WORDS), id="few shared words"
        ),
        pytest.param(
            "none", Passage(id="7", title="The Library", text=FOURTEEN_WORDS), id="no rule"
        ),
    ],
)
def test_passage_matching_no_rule_is_kept(rules, passage):
    """Retrieval loses its use if it excludes more than the row's document."""
    assert rule_for(rules, passage) is None


def test_number_sign_belongs_to_the_id_in_an_unsplit_index():
    """Only an index that splits texts numbers their parts after such a sign."""
    assert rule_for("id:doc_id", Passage(id="7#4", title="", text="text"), is_split=False) is None


def test_row_without_its_id_key_is_refused():
    """Without the id, the row's own document could be retrieved unnoticed."""
    exclusion = Exclusion.parse("id:page", overlap=13)

    with pytest.raises(DataError, match="no key 'page'; name the key"):
        exclusion.collect_features([{"doc_id": 7, "title": "x"}], [])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"retrieval_stride": 0}, "retrieval_stride is 0", id="stride"),
        pytest.param(
            {"insertion": "both"},
            "insertion is 'both'; expected 'paper' or 'code'",
            id="insertion",
        ),
        pytest.param(
            {"exclude": "title+name"},
            r"exclude is 'title\+name'; expected none, or any of title",
            id="unknown rule",
        ),
        pytest.param(
            {"exclude": "id+title"}, r"exclude is 'id\+title'; expected", id="id without a key"
        ),
        pytest.param(
            {"exclude": "id:+title"}, r"exclude is 'id:\+title'; expected", id="id, empty key"
        ),
        pytest.param(
            {"num_documents": 2},
            r"2 documents of \d+ tokens leave no room for text",
            id="too many passages",
        ),
        pytest.param({"index": ""}, "lm-factuality index build", id="no index"),
    ],
)
def test_a_wrong_option_is_refused(index, options, message):
    """A wrong option ends the run before any time is spent."""
    with pytest.raises(ConfigError, match=message):
        HFRALM(**{"index": index, **OPTIONS, **options})


def test_a_folder_without_an_index_is_refused(tmp_path):
    """The message names the folder, since the user may have mistyped it."""
    with pytest.raises(DataError, match=str(tmp_path)):
        HFRALM(index=str(tmp_path), **OPTIONS)


def make_requests(num_articles: int) -> list[Instance]:
    """Make two requests on each of the first articles of the encyclopedia.

    They continue the first 200 characters of the article with the next 120, and end differently.
    """
    lines = ENCYCLOPEDIA.read_text(encoding="utf-8").splitlines()[:num_articles]
    requests = []
    for number, line in enumerate(lines):
        article = json.loads(line)
        doc = {"doc_id": article["id"]}
        context = article["text"][:200]
        continuation = article["text"][200:320]
        for ending in (".", " there"):
            arguments = (context, continuation + ending)
            request = Instance("loglikelihood", doc, arguments, 0, ("task", number, 1))
            requests.append(request)
    return requests


@pytest.mark.parametrize("insertion", ["paper", "code"])
def test_shared_windows_score_as_separate_windows_do(index, insertion):
    """Windows share positions for speed, which must not change a score."""
    ralm = HFRALM(index=index, insertion=insertion, **OPTIONS)
    hf = HFLM(**OPTIONS, logits_cache=False)
    requests = make_requests(num_articles=6)
    encoded_requests = [(None, *ralm._encode_pair(*request.args)) for request in requests]
    windows = cut_windows(encoded_requests, ralm.options.retrieval_stride)
    # Otherwise neither the windows nor the passages would be tested.
    assert len(windows) > 2 * len(requests)
    contexts = ralm.augment_windows(windows, requests, [None] * len(requests))
    assert contexts != [window.before for window in windows]
    expected = [0.0] * len(requests)
    for window, context in zip(windows, contexts, strict=True):
        ((logprob, _),) = hf._loglikelihood_tokens([(None, context, window.targets)], True)
        expected[window.request] += logprob

    answers = ralm.loglikelihood(requests, disable_tqdm=True)

    assert [logprob for logprob, _ in answers] == pytest.approx(expected, abs=1e-3)


def test_retrieval_raises_the_accuracy_of_the_trained_reader(ralm, evaluate):
    """The reader was trained to use passages, so they have to reach it in the right place."""
    plain = evaluate(HFTree(**OPTIONS), ["sample_factor"], log_samples=False)

    output = evaluate(ralm, ["sample_factor"], log_samples=False)

    plain_accuracy = plain["results"]["sample_factor"]["factor_acc,none"]
    accuracy = output["results"]["sample_factor"]["factor_acc,none"]
    # Smaller differences could be chance.
    assert accuracy >= plain_accuracy + 0.03


def test_results_record_the_identity_of_the_index(ralm, index):
    """Scores depend on the index, so results must say which one was used."""
    model_info = ralm.get_model_info()

    assert model_info["ralm"]["index"] == read_manifest(Path(index)).identity


def test_retrieval_lowers_the_perplexity_of_the_trained_reader(ralm, evaluate):
    """The reader was trained to use passages, so they have to reach it in the right place."""
    task = "sample_factor_perplexity"
    plain = evaluate(HFTree(**OPTIONS), [task], limit=3, log_samples=False)

    output = evaluate(ralm, [task], limit=3, log_samples=False)

    plain_perplexity = plain["results"][task]["perplexity,none"]
    assert 1 < output["results"][task]["perplexity,none"] < plain_perplexity


def test_a_whole_text_scores_as_a_continuation_of_nothing(ralm):
    """Perplexity tasks score texts without any context."""
    text = "A keeper of the library."
    row = {"metadata": ("task", 0, 1)}  # the name of the task, number of the row, repeats
    whole_text = Instance("loglikelihood_rolling", {}, (text,), 0, **row)
    continuation = Instance("loglikelihood", {}, ("", text), 0, **row)
    ((expected, _),) = ralm.loglikelihood([continuation], disable_tqdm=True)

    (logprob,) = ralm.loglikelihood_rolling([whole_text], disable_tqdm=True)

    assert logprob == pytest.approx(expected, abs=1e-4)


def test_hf_prefix_free_scores_the_continuation_alone(checkpoint):
    """``hf-prefix-free`` shows how much of FACTOR can be solved without the text."""
    options = {**OPTIONS, "pretrained": str(checkpoint)}
    alone = Instance("loglikelihood", {}, ("", " It closed."), 0)
    expected = HFTree(**options).loglikelihood([alone], disable_tqdm=True)
    request = Instance("loglikelihood", {}, ("The library opened.", " It closed."), 0)

    answers = HFPrefixFree(**options).loglikelihood([request], disable_tqdm=True)

    assert answers == expected
