"""The models of the filters (section 3.2.3): how likely a contradiction contradicts the completion,
each after its near context; and the mean log-likelihood of a sentence without its prefix, log p(c)
/ |c|.

Texts of like length are computed together, so that little is computed on padding; and everywhere in
float32, so that a score is the same in whatever batch. In bfloat16 a score can be off by 0.01 and
more, another way in each batch, beside a margin of 0.2: which contradictions pass would depend on
the machine, and on what else the shard holds."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.functional import cross_entropy
from tqdm import tqdm
from transformers import AutoModelForCausalLM, AutoTokenizer

from judges.inference.models import default_device, find_label, load_classifier
from lm_factuality.ground.errors import ModelError
from lm_factuality.ground.packages import loading
from lm_factuality.models.tree.forest import plant
from lm_factuality.models.tree.scorer import Budget, choose_engine, score

DTYPE = torch.float32
_TYPICAL = 64  # tokens of a sentence; a vocabulary of 50,000 makes 200 kB of numbers out of each
_TYPICAL_PAIR = 256  # tokens of a pair with its context, twice
_NAMES = ("contradiction", "contradictory", "contradicts", "contradict", "contra")


@contextmanager
def full_precision() -> Iterator[None]:
    """No TensorFloat-32 on a GPU, whose products have 10 bits of 23, whatever the process allows
    elsewhere."""
    products, convolutions = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(products)
        torch.backends.cudnn.allow_tf32 = convolutions


def batches(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """The places of all texts, those of like length together, the longest first (so that memory
    runs out at once): as many a batch as fill ``budget`` tokens when all are padded to its longest,
    and at least one."""
    order = sorted(range(len(lengths)), key=lambda place: -lengths[place])
    start = 0
    while start < len(order):
        size = max(1, budget // max(1, lengths[order[start]]))
        yield order[start : start + size]
        start += size


def padded(rows: Sequence[Sequence[int]], value: int) -> torch.Tensor:
    """``rows`` as one tensor (rows, longest), filled up at the right with ``value``."""
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[value] * (longest - len(row))] for row in rows])


def _tokens(tokenizer: Any, texts: Sequence[str]) -> list[list[int]]:
    """The tokens of each text, without those that begin or end one."""
    asked = {
        "add_special_tokens": False,
        "truncation": False,
        "verbose": False,
        "return_attention_mask": False,
    }
    found: list[list[int]] = tokenizer(list(texts), **asked)["input_ids"] if texts else []
    return found


class FluencyModel:
    """A causal language model. Each text is preceded by the token that begins one (or, as for
    GPT-2, ends one), so that its first token has a probability too; that token does not count in
    |c|."""

    def __init__(
        self,
        name: str,
        revision: str | None = None,
        batch_size: int = 32,
        device: str | None = None,
    ) -> None:
        """Raises ModelError: there is no such model here, or it has no token to begin with."""
        device = device or default_device()
        with loading(
            f"the language model {name!r}",
            "or its folder, or turn the filter off with fluency: none",
        ):
            self._tokenizer = AutoTokenizer.from_pretrained(name, revision=revision)
            loaded = AutoModelForCausalLM.from_pretrained(name, revision=revision, dtype=DTYPE)
        self.model: Any = loaded.to(device).eval()
        self.budget = batch_size * _TYPICAL  # tokens a batch
        self._longest = getattr(self.model.config, "max_position_embeddings", None) or math.inf
        ids = (self._tokenizer.bos_token_id, self._tokenizer.eos_token_id)
        known: list[int] = [each for each in ids if each is not None]
        if not known:
            raise ModelError(
                f"{name}: its tokenizer names no token that begins or ends a text; set bos_token"
                " in it"
            )
        self._start = known[0]
        vocabulary = self.model.get_input_embeddings().weight.shape[0]
        with torch.inference_mode(), full_precision():
            self._engine = choose_engine(self.model, vocabulary, int(min(self._longest, 1024)))

    def mean_logprobs(self, texts: Sequence[str], contexts: Sequence[str] = ()) -> list[float]:
        """In nats a token; NaN for a text without tokens and one longer than the model's window.
        ``contexts`` stand before the texts, whose tokens alone count; what of them does not fit is
        cut from the left. A beginning that several texts share is computed once, as ``hf-tree``
        does: contradictions are edits of one sentence."""
        pairs = list(zip(contexts or [""] * len(texts), texts, strict=True))
        distinct = list(dict.fromkeys(pairs))
        rows = dict(
            zip(
                distinct,
                self.encode([text for _, text in distinct], [each for each, _ in distinct]),
                strict=True,
            )
        )
        known = {pair: row for pair, row in rows.items() if row is not None}
        with torch.inference_mode(), full_precision():
            found = dict(zip(known, self._means(list(known.values())), strict=True))
        return [found.get(pair, math.nan) for pair in pairs]

    def encode(
        self, texts: Sequence[str], contexts: Sequence[str] = ()
    ) -> list[tuple[list[int], int] | None]:
        """The tokens of each text after those of its context, the one that begins them first, and
        how many are of the text; None where there is nothing to score, or too much."""
        before = [each.rstrip() for each in contexts] or [""] * len(texts)
        joined = [
            f" {text}" if context else text for context, text in zip(before, texts, strict=True)
        ]
        distinct = list(dict.fromkeys(before))  # one for all edits of a sentence
        ids_of = dict(zip(distinct, _tokens(self._tokenizer, distinct), strict=True))
        found: list[tuple[list[int], int] | None] = []
        for context, ids in zip(before, _tokens(self._tokenizer, joined), strict=True):
            near = ids_of[context]
            room = int(min(self._longest, 2**31)) - 1 - len(ids)
            kept = near[max(0, len(near) - room) :]
            found.append(([self._start, *kept, *ids], len(ids)) if ids and room >= 0 else None)
        return found

    def _means(self, rows: Sequence[tuple[list[int], int]]) -> Iterator[float]:
        if self._engine is None:  # a model whose positions cannot be shared
            for row, size in rows:
                ids = torch.tensor([row], device=self.model.device)
                logits = (
                    self.model(input_ids=ids[:, :-1], use_cache=False).logits[0, -size:].float()
                )
                yield -float(cross_entropy(logits, ids[0, -size:]))
            return
        forest = plant([row for row, _ in rows], [size for _, size in rows])
        with tqdm(total=len(forest), desc="fluent?", unit=" tokens", delay=2) as bar:
            move: Any = lambda position: bar.update(position - bar.n)  # noqa: E731
            # the same passes on every machine, so that a score is the same to the last digit that
            # is kept
            scores = score(forest, self._engine, Budget(self.budget, self.budget), progress=move)
        yield from (float(scores.logprobs[targets].mean()) for targets in forest.answers)


@dataclass(frozen=True, slots=True)
class Pair:
    """A completion and a contradiction of it; ``context``, ending in its white space, stands before
    both."""

    context: str
    completion: str
    contradiction: str


@dataclass(frozen=True, slots=True)
class _Frame:
    """What a tokenizer writes around and between two texts, and the type that it gives the tokens
    of each part, if any."""

    before: list[int]
    between: list[int]
    after: list[int]
    types: tuple[int, int, int, int, int] | None


class NliModel:
    """A sequence classifier with a label for contradiction. A pair too long for it loses context,
    from the left of both sides, never words of the completion."""

    def __init__(
        self,
        name: str,
        revision: str | None = None,
        batch_size: int = 32,
        device: str | None = None,
    ) -> None:
        """Raises ModelError: there is no such model here, it is no classifier, or no label of it is
        called contradiction."""
        self.model, self._tokenizer, self._longest = load_classifier(
            name, revision, device, dtype=DTYPE
        )
        self.budget = batch_size * _TYPICAL_PAIR  # tokens a batch
        self._label = find_label(name, self.model.config.id2label, _NAMES)
        self._frame = _frame(name, self._tokenizer)

    def contradictions(self, pairs: Sequence[Pair]) -> list[float]:
        """The probability that each contradiction contradicts; NaN where the two do not fit into
        the model's window even without context."""
        distinct = list(dict.fromkeys(pairs))
        known = [
            (pair, row)
            for pair, row in zip(distinct, self.encode(distinct), strict=True)
            if row is not None
        ]
        order, scores = [], []
        shown = tqdm(total=len(known), desc="contradictory?", unit=" texts", delay=2)
        with torch.inference_mode(), full_precision(), shown as bar:
            for batch in batches([len(one) + len(other) for _, (one, other) in known], self.budget):
                scores.append(self.score(self.inputs([known[place][1] for place in batch])))
                order += [known[place][0] for place in batch]
                bar.update(len(batch))
            # nothing is fetched from a GPU before all batches are on their way
            found = dict(zip(order, torch.cat(scores).tolist() if scores else [], strict=True))
        return [found.get(pair, math.nan) for pair in pairs]

    def encode(self, pairs: Sequence[Pair]) -> list[tuple[list[int], list[int]] | None]:
        """The tokens of premise and hypothesis; None where they do not fit. Each text is tokenised
        once, all of them at once."""
        premises = [pair.context + pair.completion for pair in pairs]
        hypotheses = [pair.context + pair.contradiction for pair in pairs]
        texts = list(dict.fromkeys([*premises, *hypotheses]))
        ids = dict(zip(texts, _tokens(self._tokenizer, texts), strict=True))
        return [
            self._fitted(pair, ids[premise], ids[hypothesis])
            for pair, premise, hypothesis in zip(pairs, premises, hypotheses, strict=True)
        ]

    def inputs(self, rows: Sequence[tuple[list[int], list[int]]]) -> dict[str, torch.Tensor]:
        """A batch as the model takes it."""
        frame = self._frame
        ids = [[*frame.before, *one, *frame.between, *other, *frame.after] for one, other in rows]
        batch = {
            "input_ids": padded(ids, self._tokenizer.pad_token_id or 0),
            "attention_mask": padded([[1] * len(each) for each in ids], 0),
        }
        if frame.types is not None:
            parts = [(frame.before, one, frame.between, other, frame.after) for one, other in rows]
            types = [
                [kind for kind, part in zip(frame.types, each, strict=True) for _ in part]
                for each in parts
            ]
            batch["token_type_ids"] = padded(types, 0)
        return {
            name: tensor.to(self.model.device, non_blocking=True) for name, tensor in batch.items()
        }

    def score(self, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        """The probability of contradiction of each row."""
        logits: torch.Tensor = self.model(**inputs).logits
        return logits.float().softmax(dim=-1)[:, self._label]

    def _fitted(
        self, pair: Pair, premise: list[int], hypothesis: list[int]
    ) -> tuple[list[int], list[int]] | None:
        frame = self._frame
        room = self._longest - len(frame.before) - len(frame.between) - len(frame.after)
        excess = len(premise) + len(hypothesis) - room
        if excess <= 0:
            return premise, hypothesis
        most = (
            self._context_tokens(pair, pair.completion),
            self._context_tokens(pair, pair.contradiction),
        )
        cut = min(most[0], (excess + 1) // 2), min(most[1], (excess + 1) // 2)
        if sum(cut) < excess:
            return None
        return premise[cut[0] :], hypothesis[cut[1] :]

    def _context_tokens(self, pair: Pair, text: str) -> int:
        """How many of the first tokens are of the context alone."""
        offsets = self._tokenizer(
            pair.context + text,
            add_special_tokens=False,
            truncation=False,
            verbose=False,
            return_offsets_mapping=True,
        )["offset_mapping"]
        return sum(end <= len(pair.context) for _, end in offsets)


def _frame(name: str, tokenizer: Any) -> _Frame:
    """Found by tokenising a pair of words. ModelError if the tokenizer is a slow one, which cannot
    say which tokens are whose."""
    if not getattr(tokenizer, "is_fast", False):
        raise ModelError(
            f"{name}: its tokenizer is a slow one; expected a folder with tokenizer.json, which"
            " fast ones read"
        )
    probe = tokenizer("a", "b", return_token_type_ids=True)
    ids, sides = probe["input_ids"], probe.sequence_ids()
    if 0 not in sides or 1 not in sides:
        raise ModelError(
            f"{name}: its tokenizer makes no tokens of the letters a and b; expected one that knows"
            " words"
        )
    first, second = sides.index(0), sides.index(1)
    end_of_first, end_of_second = first + sides.count(0), second + sides.count(1)
    types = None
    if "token_type_ids" in tokenizer.model_input_names:
        given = probe["token_type_ids"]
        at = (max(0, first - 1), first, end_of_first, second, len(ids) - 1)
        types = tuple(given[place] for place in at)
    return _Frame(ids[:first], ids[end_of_first:second], ids[end_of_second:], types)
