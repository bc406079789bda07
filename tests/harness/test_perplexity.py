"""Perplexity on real models, against sums worked out here with nothing of the suite or lm_eval."""

from __future__ import annotations

import json
import logging
import math
import random

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

# The first repeats itself, so that two windows may hold the same tokens, of which not the same part
# is to be scored.
TEXTS = [
    "The library opened in 1870. " * 14,
    "Short.",
    "A mill burned down by the river in the year of the flood.",
]


@pytest.fixture
def tokenizer(checkpoint):
    return AutoTokenizer.from_pretrained(checkpoint)


@pytest.fixture
def task(tmp_path):
    """Writes texts and a perplexity task ``p`` on them; gives the folder to include."""

    def write(texts=TEXTS, **metadata):
        rows = [{"text": text, "doc_id": f"d{number // 2}"} for number, text in enumerate(texts)]
        (tmp_path / "texts.jsonl").write_text(
            "".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8"
        )
        content = {
            "include": str(TASKS / "factor" / "_perplexity.yaml"),
            "task": "p",
            "dataset_path": "texts.jsonl",
            "metadata": metadata,
        }
        (tmp_path / "p.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
        return tmp_path

    return write


def hf(folder, **arguments):
    return {"pretrained": str(folder), "dtype": "float32", **arguments}


def by_hand(
    folder, text: str, window: int, stride: int, bos: bool = False
) -> tuple[float, int, int]:
    """Sum of log-probabilities, tokens, windows: each token from one pass over exactly what it may
    see."""
    tokenizer, model = (
        AutoTokenizer.from_pretrained(folder),
        AutoModelForCausalLM.from_pretrained(folder).eval(),
    )
    ids = tokenizer(text)["input_ids"]
    if not bos:
        ids = [tokenizer.bos_token_id, *ids]
    total, count = 0.0, 0
    ends = [min(window, len(ids))]
    while ends[-1] < len(ids):
        ends.append(min(ends[-1] + stride, len(ids)))
    start = 1
    for end in ends:
        seen = ids[max(0, end - window) : end]
        with torch.no_grad():
            logits = model(torch.tensor([seen])).logits[0].log_softmax(-1)
        for position in range(start, end):
            at = position - max(0, end - window)
            total += logits[at - 1, seen[at]].item()
            count += 1
        start = end
    return total, count, len(ends)


@pytest.mark.parametrize(("window", "stride"), [(64, 16), (7, 3), (256, 128)])
def test_scores_are_those_worked_out_by_hand(window, stride, tokenizer, task, evaluate, tmp_path):
    folder = save_gpt2(tmp_path / "model", tokenizer)
    output = evaluate("hf", ["p"], task(window=window, stride=stride), hf(folder), batch_size=4)
    values, samples = output["results"]["p"], output["samples"]["p"]
    expected = [by_hand(folder, text, window, stride) for text in TEXTS]
    assert [sample["logprob"] for sample in samples] == pytest.approx(
        [each[0] for each in expected], abs=2e-3
    )
    assert [sample["num_tokens"] for sample in samples] == [each[1] for each in expected]
    assert [sample["num_windows"] for sample in samples] == [each[2] for each in expected]
    total, tokens = sum(each[0] for each in expected), sum(each[1] for each in expected)
    size = sum(len(text.encode("utf-8")) for text in TEXTS)
    assert values["perplexity,none"] == pytest.approx(math.exp(-total / tokens), rel=1e-5)
    assert values["byte_perplexity,none"] == pytest.approx(math.exp(-total / size), rel=1e-5)
    assert values["bits_per_byte,none"] == pytest.approx(-total / size / math.log(2), rel=1e-5)
    assert (values["num_tokens,none"], values["num_bytes,none"]) == (tokens, size)
    assert values["unscored,none"] == 0


def test_every_token_is_scored_once_with_the_context_it_was_promised():
    generator = random.Random(0)
    for _ in range(200):
        tokens = list(range(1, generator.randint(2, 60)))
        window = generator.randint(2, 30)
        stride = generator.randint(1, window - 1)
        cut = list(windows(0, tokens, window, stride))
        assert [token for _, scored in cut for token in scored] == tokens
        for number, (context, scored) in enumerate(cut):
            assert [*context, *scored] == [0, *tokens][scored[0] - len(context) : scored[-1] + 1]
            assert len(context) + len(scored) <= window
            assert len(context) >= (window - stride if number else 1)
            assert number == 0 or len(scored) <= stride


def test_the_smaller_limit_of_a_model_holds_and_is_in_the_results(
    tokenizer, task, evaluate, tmp_path
):
    folder = save_gpt2(tmp_path / "model", tokenizer)
    output = evaluate("hf", ["p"], task(), hf(folder, max_length=40))
    metadata = output["configs"]["p"]["metadata"]
    assert (metadata["window"], metadata["stride"], metadata["window_used"]) == (1024, 512, 41)
    assert output["samples"]["p"][0]["logprob"] == pytest.approx(
        by_hand(folder, TEXTS[0], 41, 20)[0], abs=2e-3
    )
    output = evaluate("hf", ["p"], task(), hf(folder, max_length=40), metadata={"stride": 100})
    assert output["samples"]["p"][0]["logprob"] == pytest.approx(
        by_hand(folder, TEXTS[0], 41, 40)[0], abs=2e-3
    )
    output = evaluate("hf", ["p"], task(), hf(folder), metadata={"window": "null"})
    assert output["configs"]["p"]["metadata"]["window_used"] == 257
    assert output["configs"]["p"]["metadata"]["window"] is None


def test_a_tokenizer_that_starts_texts_itself_gives_them_one_start_not_two(
    tokenizer, task, evaluate, tmp_path
):
    folder = save_opt(tmp_path / "model", tokenizer)
    samples = evaluate("hf", ["p"], task(window=32, stride=8), hf(folder))["samples"]["p"]
    expected = [by_hand(folder, text, 32, 8, bos=True) for text in TEXTS]
    assert [sample["num_tokens"] for sample in samples] == [each[1] for each in expected]
    assert [sample["logprob"] for sample in samples] == pytest.approx(
        [each[0] for each in expected], abs=2e-3
    )


def test_documents_without_a_score_are_counted_and_say_why(
    tokenizer, task, evaluate, tmp_path, caplog
):
    folder = save_gpt2(tmp_path / "model", tokenizer)
    with caplog.at_level(logging.WARNING):
        output = evaluate("hf", ["p"], task(["", *TEXTS, " \n"]), hf(folder))
    assert "2 of 5 documents cannot be scored" in caplog.text
    assert output["results"]["p"]["unscored,none"] == 2
    assert [sample["unscored"] for sample in output["samples"]["p"]] == [
        "the document is empty",
        None,
        None,
        None,
        "the document is empty",
    ]
    assert output["samples"]["p"][0]["perplexity"] is None
    alone = evaluate("hf", ["p"], task(), hf(folder))["results"]["p"]
    assert output["results"]["p"]["perplexity,none"] == pytest.approx(alone["perplexity,none"])

    output = evaluate(
        "hf", ["p"], task(), hf(save_gpt2(tmp_path / "nan", tokenizer, value=math.nan))
    )
    assert output["results"]["p"]["unscored,none"] == 3
    assert output["results"]["p"]["perplexity,none"] == "N/A"
    assert "window 1 of 1: the log-probability is nan" in output["samples"]["p"][0]["unscored"]


def test_encoder_decoders_have_no_perplexity(tokenizer, task, evaluate, tmp_path):
    folder = save_t5(tmp_path / "model", tokenizer)
    output = evaluate("hf", ["p"], task(), hf(folder, backend="seq2seq"))
    assert output["results"]["p"]["unscored,none"] == 3
    assert "encoder-decoder" in output["samples"]["p"][0]["unscored"]


class TextsOnly(LM):
    """A model that shows no tokenizer."""

    def _refuse(self, requests):
        raise AssertionError

    loglikelihood = generate_until = loglikelihood_rolling = _refuse


def test_a_model_without_a_tokenizer_is_refused(task, evaluate):
    with pytest.raises(ModelError, match=r"no tokenizer.*leave out the perplexity tasks"):
        evaluate(TextsOnly(), ["p"], task())


def test_the_standard_error_is_that_of_a_ratio_of_sums_over_clusters():
    """Against the spread of perplexities when whole clusters are drawn again with replacement."""
    generator = random.Random(1)
    outcomes = []
    for cluster in range(150):
        level = generator.gauss(2, 0.4)
        for _ in range(generator.randint(1, 4)):
            outcomes.append(
                Outcome(
                    math.exp(generator.gauss(level, 0.2)), str(cluster), generator.randint(20, 400)
                )
            )
    total = sum(outcome.weight * math.log(outcome) for outcome in outcomes)
    assert geometric_mean([*outcomes, None]) == pytest.approx(
        math.exp(total / sum(each.weight for each in outcomes))
    )
    clusters = {}
    for outcome in outcomes:
        clusters.setdefault(outcome.cluster, []).append(outcome)
    drawn = []
    for _ in range(2000):
        chosen = [each for _ in clusters for each in clusters[str(generator.randrange(150))]]
        drawn.append(geometric_mean(chosen))
    centre = sum(drawn) / len(drawn)
    spread = math.sqrt(sum((each - centre) ** 2 for each in drawn) / len(drawn))
    assert geometric_stderr(outcomes) == pytest.approx(spread, rel=0.08)


def test_the_group_of_published_corpora(evaluate, checkpoint, tmp_path, shared):
    text = (shared / "data" / "factor" / "expert_factor.csv").read_text(encoding="utf-8")
    for name in ("wiki", "news", "expert"):
        (tmp_path / f"{name}_factor.csv").write_text(text, encoding="utf-8")
    output = evaluate(
        "hf",
        ["factor_perplexity"],
        model_args=hf(checkpoint),
        metadata={"data_dir": str(tmp_path)},
        limit=2,
    )
    names = {f"{name}_factor_perplexity" for name in ("wiki", "news", "expert")}
    assert names <= set(output["results"])
    assert output["configs"]["wiki_factor_perplexity"]["metadata"]["data"]["is_upstream"] is False


def test_nothing_stands_before_a_document(evaluate, tokenizer, task, tmp_path):
    tokenizer.chat_template = (
        "{% for message in messages %}[{{ message.role }}] {{ message.content }}{% endfor %}"
    )
    folder = save_gpt2(tmp_path / "model", tokenizer)
    plain = evaluate("hf", ["p"], task(), hf(folder))["samples"]["p"]
    chat = evaluate(
        "hf", ["p"], task(), hf(folder), apply_chat_template=True, system_instruction="Be brief."
    )
    assert [sample["logprob"] for sample in chat["samples"]["p"]] == [
        sample["logprob"] for sample in plain
    ]
