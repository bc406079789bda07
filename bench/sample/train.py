"""Trains the tiny checkpoints of ``sample_factor`` on the fictional encyclopedia.

``python -m bench.sample.train --out tasks/sample/models`` writes a byte-level BPE tokenizer and a
GPT-2-shaped model in safetensors for each size; on a GPU when there is one.
"""

import argparse
import itertools
import json
import logging
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from tqdm import tqdm
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from bench.sample.articles import training_stream
from bench.sample.world import World, build_world

logger = logging.getLogger(__name__)

END = "<|endoftext|>"
VOCABULARY = 1536
POSITIONS = 512


@dataclass(frozen=True)
class Size:
    """The shape of a checkpoint and how long it is trained: ``steps`` batches of ``batch``
    sequences of ``length`` tokens, ``strangers`` of them about other worlds (see
    ``training_stream``)."""

    name: str
    n_embd: int
    n_layer: int
    n_head: int
    steps: int
    batch: int = 8
    length: int = 320
    learning_rate: float = 3e-3
    strangers: float = 0.0


# Heads of 32 dimensions are the smallest that vLLM runs.
SIZES = (
    Size("larger", n_embd=96, n_layer=4, n_head=3, steps=4500),
    Size("smaller", n_embd=64, n_layer=2, n_head=2, steps=4500, learning_rate=4e-3),
    # Knows less by heart and reads more: for scoring with retrieval, which puts a passage before
    # the text.
    Size(
        "reader",
        n_embd=96,
        n_layer=4,
        n_head=3,
        steps=5500,
        batch=5,
        length=POSITIONS,
        strangers=0.3,
    ),
)


def train_tokenizer(world: World, strangers: float = 0.0) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer learned from 4,000 tellings of articles."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(
        itertools.islice(training_stream(world, seed=1, strangers=strangers), 4000), trainer
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=END,
        eos_token=END,
        pad_token=END,
        model_max_length=POSITIONS,
    )


def batches(
    world: World, tokenizer: PreTrainedTokenizerFast, size: Size, seed: int
) -> Iterator[torch.Tensor]:
    """Endless batches of token ids, shape (batch, length + 1): articles end to end, ``END`` between
    them."""
    stream = training_stream(world, seed, strangers=size.strangers)
    need = size.batch * (size.length + 1)
    buffer: list[int] = []
    while True:
        while len(buffer) < need:
            texts = [f"{text}\n{END}" for text in itertools.islice(stream, 256)]
            for ids in tokenizer(texts, add_special_tokens=False)["input_ids"]:
                buffer += ids
        yield torch.tensor(buffer[:need]).view(size.batch, size.length + 1)
        del buffer[:need]


def train_model(
    world: World, tokenizer: PreTrainedTokenizerFast, size: Size, seed: int = 0
) -> GPT2LMHeadModel:
    """A model of ``size``, trained with AdamW, warm-up and cosine decay; the same for a seed on the
    same machine."""
    torch.manual_seed(seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    end = tokenizer.eos_token_id
    config = GPT2Config(
        vocab_size=len(tokenizer),
        n_positions=POSITIONS,
        n_embd=size.n_embd,
        n_layer=size.n_layer,
        n_head=size.n_head,
        bos_token_id=end,
        eos_token_id=end,
        pad_token_id=end,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
    )
    model = GPT2LMHeadModel(config).to(device).train()
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=size.learning_rate, betas=(0.9, 0.98), weight_decay=0.01
    )
    warmup = size.steps // 20

    def rate(step: int) -> float:
        if step < warmup:
            return (step + 1) / warmup
        return 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * (step - warmup) / (size.steps - warmup)))

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    progress = tqdm(range(size.steps), desc=f"training {size.name}", mininterval=5)
    for _, batch in zip(progress, batches(world, tokenizer, size, seed + 2), strict=False):
        ids = batch.to(device)
        logits = model(input_ids=ids[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        progress.set_postfix(loss=f"{loss.item():.3f}", refresh=False)
    return model.cpu().eval()


def main(argv: list[str] | None = None) -> None:
    """Trains every size and writes it under ``--out``."""
    parser = argparse.ArgumentParser(prog="python -m bench.sample.train", description=__doc__)
    parser.add_argument(
        "--out", type=Path, required=True, help="folder that gets one folder a model"
    )
    parser.add_argument(
        "--world-seed", type=int, default=0, help="seed of the encyclopedia (default 0)"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the training (default 0)")
    parser.add_argument(
        "--steps", type=int, help="training steps for every size, for a quick trial"
    )
    parser.add_argument(
        "--only", choices=[size.name for size in SIZES], help="train this size alone"
    )
    arguments = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    world = build_world(arguments.world_seed)
    for size in SIZES:
        if arguments.only not in (None, size.name):
            continue
        if arguments.steps:
            size = Size(**{**vars(size), "steps": arguments.steps})
        start = time.perf_counter()
        tokenizer = train_tokenizer(world, size.strangers)
        model = train_model(world, tokenizer, size, arguments.seed)
        folder = arguments.out / size.name
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        seconds = round(time.perf_counter() - start)
        record = vars(size) | {
            "world_seed": arguments.world_seed,
            "seed": arguments.seed,
            "torch": torch.__version__,
            "parameters": model.num_parameters(),
            "seconds": seconds,
        }
        (folder / "training.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
        logger.info(
            "%s: %d parameters, %d s, written to %s",
            size.name,
            model.num_parameters(),
            seconds,
            folder,
        )


if __name__ == "__main__":
    main()
