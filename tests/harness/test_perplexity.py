"""Perplexity through lm_eval on real models, against sums of a plain loop over windows."""

from __future__ import annotations

import json
import logging
import math
import random
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
import yaml
from lm_eval.api.model import LM
from transformers import AutoModelForCausalLM, AutoTokenizer

from lm_factuality.benchmarks.perplexity.benchmark import geometric_mean, geometric_stderr
from lm_factuality.ground.errors import ModelError
from lm_factuality.harness.rolling import windows
from lm_factuality.scores.statistics import Outcome
from tests.conftest import TASKS
from tests.tiny_models import save_gpt2, save_opt, save_t5

TASK = "my_perplexity"

# The first text repeats itself. Two of its windows may hold the same tokens and still differ in
# which of them are scored.
TEXTS = [
    "The library opened in 1870. " * 14,
    "Short.",
    "A mill burned down by the river in the year of the flood.",
]


@pytest.fixture
def tokenizer(checkpoint):
    """Return a tokenizer that does not put a start token before a text."""
    return AutoTokenizer.from_pretrained(checkpoint)


@pytest.fixture
def gpt2(tokenizer, tmp_path) -> Path:
    """Return the folder of a GPT-2 with random weights, which sees 256 tokens."""
    return save_gpt2(tmp_path / "gpt2", tokenizer)


@pytest.fixture
def run_task(evaluate, tmp_path):
    """Return a function that runs a perplexity task on texts, and returns lm_eval's output."""

    def run(
        folder: Path,
        texts: list[str] = TEXTS,
        settings: dict | None = None,
        model_args: dict | None = None,
        **options,
    ) -> dict:
        """Run the task.

        Args:
            folder: The checkpoint of the model.
            texts: The documents. Two in a row have the same ``doc_id``.
            settings: The ``metadata`` of the task's YAML.
            model_args: More arguments of lm_eval's ``hf`` model.
            **options: Options of lm_eval's ``simple_evaluate``.
        """
        return evaluate(
            "hf",
            [TASK],
            write_task(tmp_path, texts, settings or {}),
            {"pretrained": str(folder), "dtype": "float32", **(model_args or {})},
            **options,
        )

    return run


def write_task(folder: Path, texts: list[str], settings: dict) -> Path:
    """Write the YAML and the data of a perplexity task into a folder, and return the folder."""
    rows = [{"text": text, "doc_id": f"d{number // 2}"} for number, text in enumerate(texts)]
    lines = [json.dumps(row) + "\n" for row in rows]
    (folder / "texts.jsonl").write_text("".join(lines), encoding="utf-8")
    content = {
        "include": str(TASKS / "factor" / "_perplexity.yaml"),
        "task": TASK,
        "dataset_path": "texts.jsonl",
        "metadata": settings,
    }
    (folder / f"{TASK}.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    return folder


def metrics_of(output: dict) -> dict:
    """Return the metrics of the task."""
    return output["results"][TASK]


def metadata_of(output: dict) -> dict:
    """Return the recorded settings of the task."""
    return output["configs"][TASK]["metadata"]


def values_of_samples(output: dict, name: str) -> list:
    """Return one metric of each document."""
    return [sample[name] for sample in output["samples"][TASK]]


class HandScore(NamedTuple):
    """What `score_by_hand` finds for a text."""

    logprob: float
    """The sum of the log-probabilities of its tokens, in nats."""
    num_tokens: int
    num_windows: int


def score_by_hand(folder: Path, text: str, window: int, stride: int) -> HandScore:
    """Score a text with one pass of a model for each window, without the suite and lm_eval.

    Args:
        folder: The checkpoint of the model.
        text: The text.
        window: The number of tokens that the model sees at a time, with the start token.
        stride: How many new tokens each window but the first scores.
    """
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    tokens = tokenizer(text)["input_ids"]
    if tokens[0] != tokenizer.bos_token_id:
        tokens = [tokenizer.bos_token_id, *tokens]

    logprob = 0.0
    num_windows = 0
    start = 1  # the start token is not scored
    end = min(window, len(tokens))
    while start < len(tokens):
        window_start = max(0, end - window)
        with torch.no_grad():
            logits = model(torch.tensor([tokens[window_start:end]])).logits[0]
        logprobs = logits.log_softmax(-1)
        for position in range(start, end):
            # The logits of a position are about the token after it.
            logprob += logprobs[position - 1 - window_start, tokens[position]].item()
        num_windows += 1
        start = end
        end = min(end + stride, len(tokens))
    return HandScore(logprob, len(tokens) - 1, num_windows)


class ComparedRun(NamedTuple):
    """A run, and what the same documents score by hand."""

    output: dict
    hand_scores: list[HandScore]

    @property
    def logprob(self) -> float:
        """Return the log-probability of all documents together, by hand."""
        return sum(score.logprob for score in self.hand_scores)

    @property
    def num_tokens(self) -> int:
        """Return the number of tokens of all documents, by hand."""
        return sum(score.num_tokens for score in self.hand_scores)


@pytest.fixture(
    params=[
        pytest.param((64, 16), id="some windows"),
        pytest.param((7, 3), id="many small windows"),
        pytest.param((256, 128), id="all that the model sees"),
    ]
)
def compared_run(request, run_task, gpt2) -> ComparedRun:
    """Return a run with a window and a stride, and the scores of its documents by hand."""
    window, stride = request.param
    output = run_task(gpt2, settings={"window": window, "stride": stride}, batch_size=4)
    hand_scores = [score_by_hand(gpt2, text, window, stride) for text in TEXTS]
    return ComparedRun(output, hand_scores)


def test_document_scores_match_plain_transformers(compared_run):
    """The scores by hand are from transformers alone, window after window."""
    hand_scores = compared_run.hand_scores

    logprobs = values_of_samples(compared_run.output, "logprob")
    num_tokens = values_of_samples(compared_run.output, "num_tokens")
    num_windows = values_of_samples(compared_run.output, "num_windows")

    assert logprobs == pytest.approx([score.logprob for score in hand_scores], abs=2e-3)
    assert num_tokens == [score.num_tokens for score in hand_scores]
    assert num_windows == [score.num_windows for score in hand_scores]
    assert metrics_of(compared_run.output)["unscored,none"] == 0


def test_perplexity_is_per_token_of_the_corpus(compared_run):
    """Long documents weigh more than short ones, as each token counts once."""
    metrics = metrics_of(compared_run.output)

    expected = math.exp(-compared_run.logprob / compared_run.num_tokens)
    assert metrics["perplexity,none"] == pytest.approx(expected, rel=1e-5)
    assert metrics["num_tokens,none"] == compared_run.num_tokens


def test_byte_perplexity_is_per_byte_of_the_corpus(compared_run):
    """Bytes do not depend on a tokenizer, so that all models can be compared."""
    metrics = metrics_of(compared_run.output)

    # The first text is a sentence of 28 bytes, 14 times. The others have 6 and 57 bytes.
    num_bytes = 28 * 14 + 6 + 57
    nats_per_byte = -compared_run.logprob / num_bytes
    assert metrics["num_bytes,none"] == num_bytes
    assert metrics["byte_perplexity,none"] == pytest.approx(math.exp(nats_per_byte), rel=1e-5)
    assert metrics["bits_per_byte,none"] == pytest.approx(nats_per_byte / math.log(2), rel=1e-5)


@pytest.mark.parametrize(
    ("num_tokens", "window", "stride", "expected"),
    [
        pytest.param(2, 8, 4, [([0], [1, 2])], id="a text shorter than the window"),
        pytest.param(
            4, 3, 1, [([0], [1, 2]), ([1, 2], [3]), ([2, 3], [4])], id="one token at a time"
        ),
        pytest.param(
            6,
            4,
            2,
            [([0], [1, 2, 3]), ([2, 3], [4, 5]), ([3, 4, 5], [6])],
            id="more context for the last token",
        ),
    ],
)
def test_text_is_split_into_contexts_and_scored_tokens(num_tokens, window, stride, expected):
    """Each pair is what the model sees, and what is scored after it."""
    tokens = range(1, num_tokens + 1)

    contexts_and_scored = windows(0, tokens, window, stride)

    assert list(contexts_and_scored) == expected


class CutText(NamedTuple):
    """A text of random length, cut into windows of random size."""

    tokens: list[int]
    window: int
    stride: int
    windows: list[tuple[list[int], list[int]]]
    """The context and the scored tokens of each window."""


def cut_random_texts() -> Iterator[CutText]:
    """Yield 200 texts, whose tokens count from 1, after the start token 0."""
    generator = random.Random(0)
    for _ in range(200):
        tokens = list(range(1, generator.randint(2, 60)))
        window = generator.randint(2, 30)
        stride = generator.randint(1, window - 1)
        yield CutText(tokens, window, stride, list(windows(0, tokens, window, stride)))


def test_every_token_is_scored_once():
    """A token that is scored twice would weigh twice."""
    for text in cut_random_texts():
        scored_tokens = []
        for _, scored in text.windows:
            scored_tokens += scored
        assert scored_tokens == text.tokens


def test_window_context_directly_precedes_its_scored_tokens():
    """Tokens are numbered by their places, so context and scored tokens count up."""
    for text in cut_random_texts():
        for context, scored in text.windows:
            first = scored[0] - len(context)
            assert [*context, *scored] == list(range(first, scored[-1] + 1))


def test_no_window_is_longer_than_the_setting():
    """Perplexities are comparable only with equally long windows."""
    for text in cut_random_texts():
        for context, scored in text.windows:
            assert len(context) + len(scored) <= text.window


def test_later_windows_score_one_stride_after_their_context():
    """Tokens with little context would raise the perplexity."""
    for text in cut_random_texts():
        (first_context, _), *later_windows = text.windows
        assert first_context == [0]
        for context, scored in later_windows:
            assert len(scored) <= text.stride
            assert len(context) >= text.window - text.stride


def test_window_shrinks_to_the_context_length_of_the_model(run_task, gpt2):
    """The model sees 40 tokens, and a window has one more, which is only scored."""
    output = run_task(gpt2, model_args={"max_length": 40})

    metadata = metadata_of(output)
    expected = score_by_hand(gpt2, TEXTS[0], window=41, stride=20).logprob
    assert metadata["window"] == 1024
    assert metadata["stride"] == 512
    assert metadata["window_used"] == 40 + 1
    assert values_of_samples(output, "logprob")[0] == pytest.approx(expected, abs=2e-3)


def test_a_stride_larger_than_the_window_leaves_one_token_of_context(run_task, gpt2):
    """A model of 40 tokens scores 40 at a time, with one token before them as context."""
    output = run_task(gpt2, model_args={"max_length": 40}, metadata={"stride": 100})

    expected = score_by_hand(gpt2, TEXTS[0], window=41, stride=40).logprob
    assert values_of_samples(output, "logprob")[0] == pytest.approx(expected, abs=2e-3)


def test_default_window_is_the_context_length_of_the_model(run_task, gpt2):
    """The model sees 256 tokens, and a window has one more, which is only scored."""
    output = run_task(gpt2, metadata={"window": "null"})

    assert metadata_of(output)["window"] is None
    assert metadata_of(output)["window_used"] == 256 + 1


def test_start_token_from_the_tokenizer_is_not_doubled(run_task, tokenizer, tmp_path):
    """The tokenizer of OPT puts a start token before each text itself."""
    opt = save_opt(tmp_path / "opt", tokenizer)
    hand_scores = [score_by_hand(opt, text, window=32, stride=8) for text in TEXTS]

    output = run_task(opt, settings={"window": 32, "stride": 8})

    num_tokens = values_of_samples(output, "num_tokens")
    logprobs = values_of_samples(output, "logprob")
    assert num_tokens == [score.num_tokens for score in hand_scores]
    assert logprobs == pytest.approx([score.logprob for score in hand_scores], abs=2e-3)


def test_empty_documents_are_counted_but_do_not_affect_perplexity(run_task, gpt2, caplog):
    """An empty document has no token to predict."""
    perplexity_of_texts = metrics_of(run_task(gpt2))["perplexity,none"]

    with caplog.at_level(logging.WARNING):
        output = run_task(gpt2, texts=["", *TEXTS, " \n"])

    assert "2 of 5 documents cannot be scored" in caplog.text
    reasons = values_of_samples(output, "unscored")
    assert reasons == ["the document is empty", None, None, None, "the document is empty"]
    assert values_of_samples(output, "perplexity")[0] is None
    assert metrics_of(output)["unscored,none"] == 2
    assert metrics_of(output)["perplexity,none"] == pytest.approx(perplexity_of_texts)


def test_documents_with_nan_log_probability_are_unscored(run_task, tokenizer, tmp_path):
    """One NaN would make the perplexity of the corpus NaN."""
    broken_model = save_gpt2(tmp_path / "broken", tokenizer, value=math.nan)

    output = run_task(broken_model)

    assert "window 1 of 1: the log-probability is nan" in values_of_samples(output, "unscored")[0]
    assert metrics_of(output)["unscored,none"] == 3
    assert metrics_of(output)["perplexity,none"] == "N/A"


def test_encoder_decoders_have_no_perplexity(run_task, tokenizer, tmp_path):
    """The decoder of such a model is trained to follow another text, and not to continue one."""
    t5 = save_t5(tmp_path / "t5", tokenizer)

    output = run_task(t5, model_args={"backend": "seq2seq"})

    assert metrics_of(output)["unscored,none"] == 3
    assert "encoder-decoder" in values_of_samples(output, "unscored")[0]


class ModelWithoutTokenizer(LM):
    """A model that takes and gives texts only. It must not be asked anything."""

    def _fail(self, requests):
        raise AssertionError

    loglikelihood = _fail
    generate_until = _fail
    loglikelihood_rolling = _fail


def test_a_model_without_a_tokenizer_is_refused(evaluate, tmp_path):
    """A text cannot be cut into windows without its tokens."""
    folder = write_task(tmp_path, TEXTS, settings={})

    with pytest.raises(ModelError, match=r"no tokenizer.*leave out the perplexity tasks"):
        evaluate(ModelWithoutTokenizer(), [TASK], folder)


def test_mean_perplexity_is_geometric_and_weighted_by_tokens():
    """One token has the perplexity 2, and two tokens have 16 each: 2 * 16 * 16 = 8 ** 3."""
    unscored_document = None
    perplexities = [
        Outcome(2.0, cluster="d0", weight=1),
        Outcome(16.0, cluster="d1", weight=2),
        unscored_document,
    ]

    assert geometric_mean(perplexities) == pytest.approx(8.0)


def random_perplexities(num_clusters: int) -> dict[int, list[Outcome]]:
    """Return random perplexities of one to four documents in each cluster.

    Documents of a cluster are alike in their perplexity. They have 20 to 400 tokens.
    """
    generator = random.Random(1)
    clusters = defaultdict(list)
    for cluster in range(num_clusters):
        log_perplexity = generator.gauss(2, 0.4)
        for _ in range(generator.randint(1, 4)):
            perplexity = math.exp(generator.gauss(log_perplexity, 0.2))
            num_tokens = generator.randint(20, 400)
            clusters[cluster].append(Outcome(perplexity, str(cluster), num_tokens))
    return clusters


def test_standard_error_agrees_with_a_bootstrap_over_clusters():
    """The error by the delta method must agree with a bootstrap over whole clusters."""
    clusters = random_perplexities(num_clusters=150)
    generator = random.Random(2)
    redrawn_perplexities = []
    for _ in range(2000):
        redrawn = []
        for cluster in generator.choices(range(150), k=150):
            redrawn += clusters[cluster]
        redrawn_perplexities.append(geometric_mean(redrawn))
    outcomes = [outcome for cluster in clusters.values() for outcome in cluster]

    stderr = geometric_stderr(outcomes)

    bootstrap_stderr = torch.tensor(redrawn_perplexities).std().item()
    assert stderr == pytest.approx(bootstrap_stderr, rel=0.08)


def test_the_group_runs_the_files_of_the_data_folder(evaluate, checkpoint, tmp_path, shared):
    """All three files are copies of Expert-FACTOR, so Wiki-FACTOR is not the published file."""
    published_csv = (shared / "data" / "factor" / "expert_factor.csv").read_text(encoding="utf-8")
    for corpus in ("wiki", "news", "expert"):
        (tmp_path / f"{corpus}_factor.csv").write_text(published_csv, encoding="utf-8")

    output = evaluate(
        "hf",
        ["factor_perplexity"],
        model_args={"pretrained": str(checkpoint), "dtype": "float32"},
        metadata={"data_dir": str(tmp_path)},
        limit=2,
    )

    tasks = {"wiki_factor_perplexity", "news_factor_perplexity", "expert_factor_perplexity"}
    wiki_metadata = output["configs"]["wiki_factor_perplexity"]["metadata"]
    assert tasks <= set(output["results"])
    assert wiki_metadata["data"]["is_published"] is False


def test_chat_template_and_system_prompt_are_not_added_to_documents(run_task, tokenizer, tmp_path):
    """A document is scored as it is, and not as somebody's message."""
    tokenizer.chat_template = (
        "{% for message in messages %}[{{ message.role }}] {{ message.content }}{% endfor %}"
    )
    chat_model = save_gpt2(tmp_path / "chat", tokenizer)
    logprobs = values_of_samples(run_task(chat_model), "logprob")

    chat_output = run_task(chat_model, apply_chat_template=True, system_instruction="Be brief.")

    assert values_of_samples(chat_output, "logprob") == logprobs
