"""Compares the speed of factor-gen's filters with that of their models alone.

``python -m bench.factor_gen filters`` calls `measure_filters`. The models alone get the same texts,
tokenised and padded beforehand, so the difference is what the filters add.
"""

from __future__ import annotations

import csv
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import torch
import yaml
from transformers import AutoModelForCausalLM

from bench.timing import Record, seconds_of, take_turns
from factor_gen.contradiction.nli import ContradictionPair, NliCheck, NliModel
from factor_gen.contradiction.stage import ContradictionStage
from factor_gen.filter_models import DTYPE, FluencyModel
from factor_gen.filters import FilterStage
from factor_gen.records import ENTITY, Candidate, Example, last_words
from factor_gen.settings import FilterSettings, FluencySettings, NliSettings
from lm_factuality.ground.suite import tasks_folder

_MODELS: dict[str, Any] = yaml.safe_load(
    Path(__file__).with_name("models.yaml").read_text(encoding="utf-8")
)
_TOKENS_OF_PAIR = 256  # A batch holds as many of these as the filter gives the model at once.


class BareModel(NamedTuple):
    """A model without its filter, and what it reads."""

    num_texts: int
    """The number of texts that the filter scores: pairs, or sentences."""

    run: Callable[[], None]
    """Runs the model on all of them."""


class ModelFolders(NamedTuple):
    """The folders of a model for each filter."""

    nli: str
    """The folder of a sequence classifier."""

    fluency: str
    """The folder of a causal language model."""


def measure_filters(models: ModelFolders, num_rows: int, runs: int) -> Iterator[Record]:
    """Run each filter in turn with its model alone. Both are loaded and warm.

    Args:
        models: The models of the filters.
        num_rows: The number of rows of the sample that are filtered.
        runs: The number of runs of each way that count.

    Yields:
        For each filter the seconds of each run, and the documents and texts per second. The
        ``ratio`` is the filter's speed divided by the model's.
    """
    examples = sample_examples(num_rows)
    nli_settings = NliSettings(models.nli)
    fluency_settings = FluencySettings(models.fluency)
    yield _measure_filter(
        "nli",
        ContradictionStage(NliCheck(nli_settings)),
        _prepare_nli_model(nli_settings, examples),
        examples,
        runs,
    )
    yield _measure_filter(
        "fluency",
        FilterStage(FilterSettings(fluency_settings)),
        _prepare_fluency_model(fluency_settings, examples),
        examples,
        runs,
    )


def _measure_filter(
    name: str,
    stage: FilterStage | ContradictionStage,
    model: BareModel,
    examples: Sequence[Example],
    runs: int,
) -> Record:
    """Run one filter in turn with its model alone, and return the record of its speed."""
    ways = {
        "filter": partial(seconds_of, partial(stage.run, examples)),
        "bare": partial(seconds_of, model.run),
    }
    seconds = take_turns(ways, runs)
    ratios = []
    for bare_seconds, filter_seconds in zip(seconds["bare"], seconds["filter"], strict=True):
        ratios.append(bare_seconds / filter_seconds)
    filter_median = statistics.median(seconds["filter"])
    bare_median = statistics.median(seconds["bare"])
    return {
        "name": name,
        "device": _describe_device(),
        "texts": model.num_texts,
        "filter_seconds": seconds["filter"],
        "bare_seconds": seconds["bare"],
        "document_rate": len(examples) / filter_median,
        "bare_document_rate": len(examples) / bare_median,
        "filter_rate": model.num_texts / filter_median,
        "bare_rate": model.num_texts / bare_median,
        "ratio": statistics.median(ratios),
    }


def _describe_device() -> str:
    """Return the name of the GPU, or the number of threads on the CPU."""
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    return f"cpu, {torch.get_num_threads()} threads"


def sample_examples(num_rows: int) -> list[Example]:
    """Return the first rows of the sample, with their three contradictions as candidates."""
    examples = []
    path = tasks_folder() / "sample" / "sample_factor.csv"
    with path.open(newline="", encoding="utf-8") as file:
        for row in islice(csv.DictReader(file), num_rows):
            texts = [row[f"contradiction_{number}"] for number in range(3)]
            examples.append(
                Example(
                    doc_id=row["doc_id"],
                    # The published files spell the column so.
                    prefix=row["turncated_prefixes"],
                    completion=row["completion"],
                    types=(ENTITY,),
                    candidates=tuple(Candidate(text, ENTITY, "edit", "sample") for text in texts),
                )
            )
    return examples


def save_random_models(folder: Path) -> ModelFolders:
    """Save a DeBERTa and a GPT-2 with random weights and the sample's tokenizer.

    What a filter adds to the time of a model does not depend on the weights, and is most noticeable
    with a small model.

    Args:
        folder: The folder in which the models get a folder each.
    """
    from tokenizers.processors import TemplateProcessing
    from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tasks_folder() / "sample" / "models" / "smaller")
    torch.manual_seed(0)
    gpt2_config = AutoConfig.for_model(
        **_MODELS["gpt2"],
        vocab_size=len(tokenizer),
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    gpt2 = AutoModelForCausalLM.from_config(gpt2_config)
    gpt2_folder = _save_model(gpt2, tokenizer, folder / "gpt2")

    # DeBERTa reads two texts with special tokens around them.
    tokenizer.add_special_tokens({"cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]"})
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", tokenizer.cls_token_id), ("[SEP]", tokenizer.sep_token_id)],
    )
    deberta_config = AutoConfig.for_model(
        **_MODELS["deberta"], vocab_size=len(tokenizer), pad_token_id=tokenizer.pad_token_id
    )
    deberta = AutoModelForSequenceClassification.from_config(deberta_config)
    return ModelFolders(
        nli=_save_model(deberta, tokenizer, folder / "deberta"),
        fluency=gpt2_folder,
    )


def _save_model(model: Any, tokenizer: Any, folder: Path) -> str:
    """Save a model and its tokenizer to a folder, and return the folder."""
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def _prepare_nli_model(settings: NliSettings, examples: Sequence[Example]) -> BareModel:
    """Load the NLI filter's model, and encode the pairs of completion and contradiction."""
    model = NliModel(settings)
    # A dictionary keeps each pair once and in order, as the filter does.
    pairs: dict[ContradictionPair, None] = {}
    for example in examples:
        context = last_words(example.prefix, settings.context)
        for candidate in example.candidates:
            pairs[ContradictionPair(context, example.completion, candidate.text)] = None

    # A pair that is longer than the model's window has no encoding.
    encoded_pairs = [encoded for encoded in model.encode(list(pairs)) if encoded]
    lengths = [len(encoded["input_ids"]) for encoded in encoded_pairs]
    inputs = []
    for batch in split_into_batches(lengths, _TOKENS_OF_PAIR * settings.batch_size):
        inputs.append(model.pad_batch([encoded_pairs[index] for index in batch]))
    return BareModel(len(encoded_pairs), partial(_run_model, model.model, inputs))


def _prepare_fluency_model(settings: FluencySettings, examples: Sequence[Example]) -> BareModel:
    """Load the fluency filter's model, and encode the completions and the contradictions."""
    fluency_model = FluencyModel(settings)
    # A second copy of the model, without what the filter adds to it.
    model = AutoModelForCausalLM.from_pretrained(
        settings.model, revision=settings.revision, dtype=DTYPE
    )
    model = model.to(fluency_model.model.device).eval()
    texts = []
    contexts = []
    for example in examples:
        choices = [example.completion, *(candidate.text for candidate in example.candidates)]
        texts += choices
        contexts += [last_words(example.prefix, settings.context)] * len(choices)

    encoded_texts = fluency_model.encode(texts, contexts)
    rows = [encoded.tokens for encoded in encoded_texts if encoded.num_scored]
    inputs = []
    for batch in split_into_batches([len(row) for row in rows], fluency_model.budget):
        inputs.append(_pad_rows([rows[index] for index in batch], model.device))
    return BareModel(len(rows), partial(_run_model, model, inputs))


def split_into_batches(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Split texts into batches of similar length, the longest texts first.

    Args:
        lengths: The number of tokens of each text.
        budget: The number of tokens of a batch at most, with padding. A longer text is a batch of
            its own.

    Yields:
        The indices of the texts of each batch.
    """
    order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    start = 0
    while start < len(order):
        longest = lengths[order[start]]
        size = max(1, budget // max(1, longest))
        yield order[start : start + size]
        start += size


def _pad_rows(rows: Sequence[Sequence[int]], device: torch.device) -> dict[str, Any]:
    """Return the inputs of a causal model for rows of tokens, padded to the same length."""
    longest = max(map(len, rows))
    ids = []
    mask = []
    for row in rows:
        num_padding = longest - len(row)
        ids.append([*row, *[0] * num_padding])
        mask.append([1] * len(row) + [0] * num_padding)
    return {
        "input_ids": torch.tensor(ids).to(device),
        "attention_mask": torch.tensor(mask).to(device),
        "use_cache": False,
    }


def _run_model(model: Any, inputs: Sequence[Mapping[str, Any]]) -> None:
    """Run a model on the inputs of all batches."""
    with torch.inference_mode():
        for batch in inputs:
            model(**batch)
