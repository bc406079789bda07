"""Trains the tiny checkpoints of the sample on the fictional encyclopedia.

    python -m bench.sample.train --out tasks/sample/models

Each checkpoint is a small GPT-2 in safetensors with a byte-level BPE tokenizer. All of them take
about an hour on two cores, and less on a GPU, which is used if there is one.
"""

from __future__ import annotations

import argparse
import itertools
import json
import logging
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from tqdm import tqdm
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from bench.sample.articles import training_stream
from bench.sample.world import World, build_world

logger = logging.getLogger(__name__)

END = "<|endoftext|>"
VOCABULARY_SIZE = 1536
MAX_POSITIONS = 512

_NUM_TOKENIZER_ARTICLES = 4000
_NUM_ARTICLES_AT_ONCE = 256  # that are tokenized in one call, which is faster
_WARM_UP_SHARE = 20  # the learning rate rises during a twentieth of the steps
_LAST_RATE = 0.02  # the share of the learning rate at the end of the training


@dataclass(frozen=True)
class Size:
    """The shape of a checkpoint, and how it is trained."""

    name: str
    """The name of its folder."""

    n_embd: int
    """The width of its layers."""

    n_layer: int
    """The number of its layers."""

    n_head: int
    """The number of attention heads of a layer. vLLM runs heads of at least 32 dimensions."""

    steps: int
    """The number of batches on which it is trained."""

    batch: int = 8
    """The number of sequences in a batch."""

    length: int = 320
    """The number of tokens in a sequence."""

    learning_rate: float = 3e-3
    """The highest learning rate."""

    strangers: float = 0.0
    """The share of articles about entities of other worlds, as `training_stream` takes it."""


SIZES = (
    Size("larger", n_embd=96, n_layer=4, n_head=3, steps=4500),
    Size("smaller", n_embd=64, n_layer=2, n_head=2, steps=4500, learning_rate=4e-3),
    # The reader knows less by heart and takes more from its context. It is for scoring with
    # retrieval, which puts a passage before the text.
    Size(
        "reader",
        n_embd=96,
        n_layer=4,
        n_head=3,
        steps=5500,
        batch=5,
        length=MAX_POSITIONS,
        strangers=0.3,
    ),
)


def train_tokenizer(world: World, strangers: float = 0.0) -> PreTrainedTokenizerFast:
    """Train a byte-level BPE tokenizer on articles of the training text.

    Args:
        world: The world that the articles describe.
        strangers: The share of articles about entities of other worlds.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY_SIZE,
        special_tokens=[END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    stream = training_stream(world, seed=1, strangers=strangers)
    articles = itertools.islice(stream, _NUM_TOKENIZER_ARTICLES)
    tokenizer.train_from_iterator(articles, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=END,
        eos_token=END,
        pad_token=END,
        model_max_length=MAX_POSITIONS,
    )


def train_model(
    world: World, tokenizer: PreTrainedTokenizerFast, size: Size, seed: int = 0
) -> GPT2LMHeadModel:
    """Train a model with AdamW.

    The same seed gives the same model on the same machine.

    Args:
        world: The world that the training text describes.
        tokenizer: The model's tokenizer.
        size: The model's shape, and how it is trained.
        seed: The seed of the first weights and of the training text.

    Returns:
        The model on the CPU, ready for evaluation.
    """
    torch.manual_seed(seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = GPT2LMHeadModel(_model_config(tokenizer, size)).to(device).train()
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=size.learning_rate, betas=(0.9, 0.98), weight_decay=0.01
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, partial(_learning_rate_share, num_steps=size.steps)
    )
    # Seed 1 gave the text of the tokenizer, so models start at seed 2.
    batches = _token_batches(world, tokenizer, size, seed + 2)
    progress = tqdm(range(size.steps), desc=f"training {size.name}", mininterval=5)
    for _, batch in zip(progress, batches, strict=False):
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


def _model_config(tokenizer: PreTrainedTokenizerFast, size: Size) -> GPT2Config:
    """Return the configuration of a GPT-2 of a size, without dropout."""
    end = tokenizer.eos_token_id
    return GPT2Config(
        vocab_size=len(tokenizer),
        n_positions=MAX_POSITIONS,
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


def _learning_rate_share(step: int, num_steps: int) -> float:
    """Return the share of the learning rate at a step.

    It rises linearly, and then falls along a half wave of the cosine.
    """
    warm_up_steps = num_steps // _WARM_UP_SHARE
    if step < warm_up_steps:
        return (step + 1) / warm_up_steps
    progress = (step - warm_up_steps) / (num_steps - warm_up_steps)
    return _LAST_RATE + (1 - _LAST_RATE) * 0.5 * (1 + math.cos(math.pi * progress))


def _token_batches(
    world: World, tokenizer: PreTrainedTokenizerFast, size: Size, seed: int
) -> Iterator[torch.Tensor]:
    """Yield batches of the training text without end.

    Yields:
        Token ids of shape (batch, length + 1), which are articles one after another with `END`
        after each. The last token of a sequence is only predicted.
    """
    stream = training_stream(world, seed, strangers=size.strangers)
    num_tokens = size.batch * (size.length + 1)
    buffer: list[int] = []
    while True:
        while len(buffer) < num_tokens:
            articles = itertools.islice(stream, _NUM_ARTICLES_AT_ONCE)
            texts = [f"{article}\n{END}" for article in articles]
            for ids in tokenizer(texts, add_special_tokens=False)["input_ids"]:
                buffer.extend(ids)
        yield torch.tensor(buffer[:num_tokens]).view(size.batch, size.length + 1)
        del buffer[:num_tokens]


def _train_checkpoint(size: Size, world: World, seed: int, folder: Path) -> None:
    """Train a tokenizer and a model, and write both to a folder with a record of the training."""
    start = time.perf_counter()
    tokenizer = train_tokenizer(world, size.strangers)
    model = train_model(world, tokenizer, size, seed)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    seconds = round(time.perf_counter() - start)
    record = {
        **asdict(size),
        "world_seed": world.seed,
        "seed": seed,
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


def main(arguments: Sequence[str] | None = None) -> None:
    """Train each size, and write it to a folder of its name under ``--out``."""
    description = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser(prog="python -m bench.sample.train", description=description)
    parser.add_argument(
        "--out", type=Path, required=True, help="the folder that gets one folder for each model"
    )
    parser.add_argument(
        "--world-seed",
        type=int,
        default=0,
        help="the seed of the encyclopedia (default %(default)s)",
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="the seed of the training (default %(default)s)"
    )
    parser.add_argument(
        "--steps", type=int, help="train each size so many steps, for a quick trial"
    )
    parser.add_argument(
        "--only", choices=[size.name for size in SIZES], help="train only the model of this name"
    )
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    world = build_world(options.world_seed)
    for size in SIZES:
        if options.only not in (None, size.name):
            continue
        num_steps = options.steps or size.steps
        folder = options.out / size.name
        _train_checkpoint(replace(size, steps=num_steps), world, options.seed, folder)


if __name__ == "__main__":
    main()
