"""Whether passages entail a claim, by a natural language inference model; each pair is asked about once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tqdm import tqdm

from judges.lexical.model import load_model as load_lexical_model
from judges.lexical.words import Passage

LEXICAL = "lexical"


class Titled(Protocol):
    """A passage: a text under a title."""

    @property
    def title(self) -> str: ...

    @property
    def text(self) -> str: ...


@dataclass(frozen=True)
class Pair:
    """A claim (the hypothesis) and the passages that are to support it together (the premise)."""

    claim: str
    passages: tuple[Titled, ...]


@dataclass(frozen=True)
class Support:
    """The ``probability`` that passages, seen in so many ``windows``, support a claim; None if there is none: ``problem`` says
    why."""

    probability: float | None
    windows: int
    problem: str = ""


class Entailment(Protocol):
    """Something that says whether premises entail claims."""

    @property
    def identity(self) -> str:
        """The model and everything else that can change a verdict."""

    def entail(self, pairs: Sequence[Pair]) -> list[bool | None]:
        """For each pair whether its passages entail its claim; None where there is no verdict."""


class LexicalEntailment:
    """The judge without a model: words, numbers, dates, names and negation."""

    def __init__(self) -> None:
        self._model = load_lexical_model()

    @property
    def identity(self) -> str:
        return f"lexical {self._model.identity}"

    def entail(self, pairs: Sequence[Pair]) -> list[bool | None]:
        bar = tqdm(pairs, desc="entailment", unit=" pairs", delay=2)
        return [
            self._model.judge(pair.claim, [Passage(each.text, each.title) for each in pair.passages]).is_supported for pair in bar
        ]


class Once:
    """An entailment that hands each pair to another one only once."""

    def __init__(self, entailment: Entailment) -> None:
        self._entailment = entailment
        self._known: dict[Pair, bool | None] = {}

    @property
    def identity(self) -> str:
        return self._entailment.identity

    @property
    def num_asked(self) -> int:
        """Pairs that were handed on."""
        return len(self._known)

    def entail(self, pairs: Sequence[Pair]) -> list[bool | None]:
        new = [pair for pair in dict.fromkeys(pairs) if pair not in self._known]
        if new:
            self._known.update(zip(new, self._entailment.entail(new), strict=True))
        return [self._known[pair] for pair in pairs]


def load_entailment(name: str, batch_size: int = 16, device: str | None = None) -> Entailment:
    """``lexical``, or a model of the Hub (or its folder): a sequence classifier trained on inference, such as DeBERTa, or a T5 of
    the TRUE kind. ``device``: the GPU if there is one, unless it is named.

    Raises:
        ModelError: the model cannot be loaded or does not say which label is entailment.
    """
    if name == LEXICAL:
        return LexicalEntailment()
    from judges.inference.models import load_model

    return load_model(name, batch_size, device)
