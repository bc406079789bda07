"""The filters' throughput beside that of their bare models on the same batches, tokenised and
padded beforehand."""

from __future__ import annotations

import csv
import statistics
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
import yaml
from transformers import AutoModelForCausalLM

from bench.timing import Record, seconds_of, take_turns
from factor_gen.filter_models import (
    DTYPE,
    ContradictionPair,
    FluencyModel,
    NliModel,
)
from factor_gen.filters import FilterStage
from factor_gen.records import ENTITY, Candidate, Example, last_words
from factor_gen.settings import FilterSettings, FluencySettings, NliSettings
from lm_factuality.ground.suite import tasks_folder

_MODELS: dict[str, Any] = yaml.safe_load(
    Path(__file__).with_name("models.yaml").read_text(encoding="utf-8")
)


def measure(nli: str, fluency: str, rows: int, runs: int) -> Iterator[Record]:
    """Each filter alone, models loaded and warm, ``runs`` times in turn with its bare model:
    seconds of each run, texts a second, and the filter's throughput as a ``ratio`` of the bare
    model's."""
    examples = sample_examples(rows)
    settings = {
        "nli": FilterSettings(NliSettings(nli), None),
        "fluency": FilterSettings(None, FluencySettings(fluency)),
    }
    device = (
        torch.cuda.get_device_name()
        if torch.cuda.is_available()
        else f"cpu, {torch.get_num_threads()} threads"
    )
    for name, each in settings.items():
        texts, bare = (
            _bare_nli(each.nli, examples) if each.nli else _bare_fluency(each.fluency, examples)
        )
        stage = FilterStage(each)
        ways = {
            "filter": partial(seconds_of, partial(stage.run, examples)),
            "bare": partial(seconds_of, bare),
        }
        found = take_turns(ways, runs)
        ratios = [one / other for one, other in zip(found["bare"], found["filter"], strict=True)]
        yield {
            "name": name,
            "device": device,
            "texts": texts,
            "filter_seconds": found["filter"],
            "bare_seconds": found["bare"],
            "document_rate": rows / statistics.median(found["filter"]),
            "bare_document_rate": rows / statistics.median(found["bare"]),
            "filter_rate": texts / statistics.median(found["filter"]),
            "bare_rate": texts / statistics.median(found["bare"]),
            "ratio": statistics.median(ratios),
        }


def sample_examples(rows: int) -> list[Example]:
    """The first rows of the sample benchmark, their contradictions as candidates."""
    with (tasks_folder() / "sample" / "sample_factor.csv").open(
        newline="", encoding="utf-8"
    ) as file:
        read = [row for row, _ in zip(csv.DictReader(file), range(rows), strict=False)]
    return [
        Example(
            row["doc_id"],
            row["turncated_prefixes"],
            row["completion"],
            (ENTITY,),
            tuple(
                Candidate(row[f"contradiction_{place}"], ENTITY, "edit", "sample")
                for place in range(3)
            ),
        )
        for row in read
    ]


def save_models(folder: Path) -> tuple[str, str]:
    """The folders of a DeBERTa and a GPT-2 with random weights and the sample's tokenizer: what the
    filters add to a model's time is the same whatever its weights say, and more noticeable the
    smaller it is."""
    from tokenizers.processors import TemplateProcessing
    from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tasks_folder() / "sample" / "models" / "smaller")
    torch.manual_seed(0)
    ends = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id}
    gpt2 = AutoConfig.for_model(**_MODELS["gpt2"], vocab_size=len(tokenizer), **ends)
    _save(AutoModelForCausalLM.from_config(gpt2), tokenizer, folder / "gpt2")
    tokenizer.add_special_tokens({"cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]"})
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", tokenizer.cls_token_id), ("[SEP]", tokenizer.sep_token_id)],
    )
    deberta = AutoConfig.for_model(
        **_MODELS["deberta"], vocab_size=len(tokenizer), pad_token_id=tokenizer.pad_token_id
    )
    _save(AutoModelForSequenceClassification.from_config(deberta), tokenizer, folder / "deberta")
    return str(folder / "deberta"), str(folder / "gpt2")


def _save(model: Any, tokenizer: Any, folder: Path) -> None:
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _bare_nli(settings: NliSettings, examples: Sequence[Example]) -> tuple[int, Callable[[], None]]:
    model = NliModel(settings)
    pairs = [
        ContradictionPair(last_words(each.prefix, settings.context), each.completion, one.text)
        for each in examples
        for one in each.candidates
    ]
    rows = [row for row in model.encode(list(dict.fromkeys(pairs))) if row]
    ready = [
        model.pad_batch([rows[place] for place in batch])
        for batch in batches([len(row["input_ids"]) for row in rows], 256 * settings.batch_size)
    ]
    return len(rows), _forward(model.model, ready)


def batches(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Yield the places of texts of like length, whose tokens with padding are within a budget."""
    order = sorted(range(len(lengths)), key=lambda place: -lengths[place])
    start = 0
    while start < len(order):
        size = max(1, budget // max(1, lengths[order[start]]))
        yield order[start : start + size]
        start += size


def _bare_fluency(
    settings: FluencySettings | None, examples: Sequence[Example]
) -> tuple[int, Callable[[], None]]:
    assert settings is not None
    tokens = FluencyModel(settings)
    model = AutoModelForCausalLM.from_pretrained(
        settings.model, revision=settings.revision, dtype=DTYPE
    )
    model = model.to(tokens.model.device).eval()
    texts = list(
        dict.fromkeys(
            text
            for each in examples
            for text in (each.completion, *(one.text for one in each.candidates))
        )
    )
    rows = [row.tokens for row in tokens.encode(texts, [""] * len(texts)) if row.num_scored]
    ready = []
    for batch in batches([len(row) for row in rows], tokens.budget):
        some = [rows[place] for place in batch]
        longest = max(map(len, some))
        ids = torch.tensor([row + [0] * (longest - len(row)) for row in some])
        mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in some])
        inputs = {"input_ids": ids.to(model.device), "attention_mask": mask.to(model.device)}
        ready.append({**inputs, "use_cache": False})
    return len(rows), _forward(model, ready)


def _forward(model: Any, ready: Sequence[dict[str, Any]]) -> Callable[[], None]:
    def run() -> None:
        with torch.inference_mode():
            for inputs in ready:
                model(**inputs)

    return run
