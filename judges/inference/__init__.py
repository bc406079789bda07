"""Whether passages entail a claim, by a natural language inference model.

Each pair is asked about once. How models that say so are asked is one table, of their families.
Passages are cut into windows that fit them.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, Protocol

from pydantic import TypeAdapter
from tqdm import tqdm

from judges.lexical.model import load_lexical_model
from judges.lexical.words import ParsedPassage
from lm_factuality.ground.errors import ConfigError, did_you_mean
from lm_factuality.ground.packages import load_yaml

LEXICAL = "lexical"


class Titled(Protocol):
    @property
    def title(self) -> str: ...

    @property
    def text(self) -> str: ...


@dataclass(frozen=True)
class EntailmentPair:
    """A claim (the hypothesis) and the passages that are to support it together (the premise)."""

    claim: str
    passages: tuple[Titled, ...]


@dataclass(frozen=True)
class WindowSupport:
    """What a model says of a pair."""

    probability: float | None
    """That the passages support the claim. None: ``problem`` says why."""

    windows: int
    """Into how many the passages were cut."""

    problem: str = ""


class Entailment:
    """Says whether premises entail claims."""

    def __init__(
        self, identity: str, ask: Callable[[Sequence[EntailmentPair]], list[bool | None]]
    ) -> None:
        """``identity`` is all that can change a verdict; ``ask`` is given each pair once."""
        self.identity = identity
        self.known: dict[EntailmentPair, bool | None] = {}
        self._ask = ask

    def entail(self, pairs: Sequence[EntailmentPair]) -> list[bool | None]:
        """Whether the passages of each pair entail its claim. None where there is no verdict."""
        new = [pair for pair in dict.fromkeys(pairs) if pair not in self.known]
        if new:
            self.known.update(zip(new, self._ask(new), strict=True))
        return [self.known[pair] for pair in pairs]


@dataclass(frozen=True)
class Family:
    """Models that are asked in the same way."""

    pattern: str
    """What is found in the name of a model that belongs to it, or in its ``model_type``."""

    head: Literal["sequence", "seq2seq"] = "sequence"
    """A label for the whole text, or a first word 1 or 0."""

    text: str = ""
    """What premise and claim are made into. Empty: a pair, as the tokenizer joins them."""

    support: int | None = None
    """The number of the label that says so. None: the one called entailment."""

    window: int | None = None
    """Tokens of passages at a time. None: all that fit."""

    by_type: bool = False
    """Whether only the ``model_type`` counts, and not the name."""


FAMILIES = TypeAdapter(dict[str, Family]).validate_python(load_yaml(__package__, "families.yaml"))


def family_of(name: str, config: Mapping[str, Any], stated: str | None = None) -> str:
    """The family that was stated, or the one that a model has by its name or its config.

    Raises:
        ConfigError: There is no such family.
    """
    if stated is not None and stated not in FAMILIES:
        raise ConfigError(
            f"no family of models is called {stated!r}{did_you_mean(stated, FAMILIES)}; known:"
            f" {', '.join(FAMILIES)}"
        )
    if stated:
        return stated
    model = name.rstrip("/").rpartition("/")[2]
    kind = str(config.get("model_type", ""))
    return next(
        key
        for key, family in FAMILIES.items()
        if re.search(family.pattern, kind if family.by_type else f"{model} {kind}", re.IGNORECASE)
    )


# Half a sentence may say the reverse of the whole.
_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")
_OVERLAP = 4  # a quarter of a window is in the one before it too


class Windows:
    """Cuts passages into windows by the tokens of a fast tokenizer.

    Each window is from the beginning of a sentence to the end of one, and overlaps its neighbours.
    Passages that several claims are held against are cut once.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self.of = cache(self._packed)

    def _packed(self, passages: tuple[Titled, ...], size: int) -> list[str]:
        """Texts of at most ``size`` tokens that hold all passages.

        Each passage is under its title, as in ALCE. Short ones share a text.
        """
        packed: list[str] = []
        used = 0
        for passage in passages:
            lead = f"Title: {passage.title}\n" if passage.title else ""
            lead_tokens = len(self._spans(lead))
            if 2 * lead_tokens > size:
                lead = ""
                lead_tokens = 0
            for text in self._cut(passage.text, size - lead_tokens - 1):
                length = lead_tokens + len(self._spans(text)) + 1
                if packed and used + length <= size:
                    packed[-1] += f"\n{lead}{text}"
                    used += length
                else:
                    packed.append(lead + text)
                    used = length
        return packed

    def _cut(self, text: str, size: int) -> Iterator[str]:
        """Texts of at most ``size`` tokens that overlap by a quarter."""
        spans = self._spans(text)
        starts = [start for start, _ in spans]
        # The tokens at which sentences begin.
        sentences = sorted({bisect_left(starts, match.end()) for match in _SENTENCE.finditer(text)})
        begin = 0
        while len(spans) - begin > size:
            longest = begin + size
            ends = [token for token in sentences if begin + size // 2 < token <= longest]
            stop = ends[-1] if ends else longest
            yield text[spans[begin][0] : spans[stop - 1][1]].strip()
            overlap = stop - size // _OVERLAP
            begin = next((token for token in sentences if overlap <= token <= stop), overlap)
        yield text[spans[begin][0] :].strip() if spans else text

    def _spans(self, text: str) -> list[tuple[int, int]]:
        """The beginning and the end of each token."""
        encoded = self._tokenizer(
            text, add_special_tokens=False, return_offsets_mapping=True, verbose=False
        )
        return list(encoded["offset_mapping"])


def load_entailment(name: str, batch_size: int = 16, device: str | None = None) -> Entailment:
    """Load what says whether passages entail claims.

    Args:
        name: ``lexical``, or a model of the Hub or in a folder: a classifier trained on inference,
            such as DeBERTa, or a T5 of the TRUE kind.
        batch_size: Windows at a time.
        device: Defaults to the GPU, if there is one.

    Raises:
        ModelError: The model cannot be loaded, or no label of it is entailment.
    """
    if name != LEXICAL:
        from judges.inference.models import load_model

        model = load_model(name, batch_size, device)
        return Entailment(model.identity, model.entail)
    lexical = load_lexical_model()

    def by_words(pairs: Sequence[EntailmentPair]) -> list[bool | None]:
        verdicts: list[bool | None] = []
        for pair in tqdm(pairs, "entailment", unit=" pairs", delay=2):
            passages = [ParsedPassage(passage.text, passage.title) for passage in pair.passages]
            verdicts.append(lexical.judge(pair.claim, passages).is_supported)
        return verdicts

    return Entailment(f"lexical {lexical.identity}", by_words)
