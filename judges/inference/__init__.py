"""Whether passages entail a claim, by a natural language inference model; each pair is asked about once. How models that say so
are asked is one table, of their families; passages are cut into windows that fit them."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from tqdm import tqdm

from judges.lexical.model import load_model as load_lexical_model
from judges.lexical.words import Passage
from lm_factuality.ground.errors import ConfigError, did_you_mean

LEXICAL = "lexical"


class Titled(Protocol):
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
    """The ``probability`` that passages, seen in so many ``windows``, support a claim; None: ``problem`` says why."""

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
    def __init__(self, entailment: Entailment) -> None:
        self._entailment = entailment
        self._known: dict[Pair, bool | None] = {}

    @property
    def identity(self) -> str:
        return self._entailment.identity

    @property
    def num_asked(self) -> int:
        return len(self._known)

    def entail(self, pairs: Sequence[Pair]) -> list[bool | None]:
        new = [pair for pair in dict.fromkeys(pairs) if pair not in self._known]
        if new:
            self._known.update(zip(new, self._entailment.entail(new), strict=True))
        return [self._known[pair] for pair in pairs]


@dataclass(frozen=True)
class Family:
    """A model belongs to it if ``pattern`` is found in its name, or ``by_type`` in its config's ``model_type`` alone.

    ``text`` is what premise and claim are made into; empty: a pair of texts, as the tokenizer joins them. ``head``: a label for
    the whole text (``sequence``) or its first token (``tokens``), or a first word 1 or 0 (``seq2seq``). ``support`` is the number
    of the label that says so; None: the one called entailment. ``window``: tokens of passages at a time; None: all that fit."""

    pattern: str
    head: Literal["sequence", "tokens", "seq2seq"] = "sequence"
    text: str = ""
    support: int | None = None
    window: int | None = None
    by_type: bool = False


# As their authors' code asks them, the most specific first. Windows that it counts in words (500 for MiniCheck's T5, 350 for
# AlignScore) have 1.3 tokens a word here.
FAMILIES: Mapping[str, Family] = {
    "minicheck-t5": Family("minicheck.*t5", "seq2seq", "predict: {premise}{eos}{claim}", window=650),
    "minicheck": Family("minicheck", "sequence", "{premise}{eos}{claim}", support=1, window=400),
    "hhem": Family(
        "hallucination_evaluation_model|hhem",
        "tokens",
        "<pad> Determine if the hypothesis is true given the premise?\n\nPremise: {premise}\n\nHypothesis: {claim}",
        support=1,
    ),
    "alignscore": Family("alignscore", support=0, window=450),
    "true": Family("^m?t5$", "seq2seq", "premise: {premise} hypothesis: {claim}", by_type=True),
    "nli": Family("", by_type=True),  # any other classifier
}


def family_of(name: str, config: Mapping[str, Any], given: str | None = None) -> str:
    """The family ``given``, or the one that a model has by its name or its config. Raises ConfigError: there is none."""
    if given is not None and given not in FAMILIES:
        raise ConfigError(f"no family of models is called {given!r}{did_you_mean(given, FAMILIES)}; known: {', '.join(FAMILIES)}")
    own, kind = name.rstrip("/").rpartition("/")[2], str(config.get("model_type", ""))
    texts = ((key, each.pattern, kind if each.by_type else f"{own} {kind}") for key, each in FAMILIES.items())
    return given or next(key for key, pattern, text in texts if re.search(pattern, text, re.IGNORECASE))


_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")  # half a sentence may say the reverse of the whole
_OVERLAP = 4  # a quarter of a window is in the one before it too


class Windows:
    """Cuts passages into windows, each from the beginning of a sentence to the end of one, with an overlap, by the tokens of
    ``tokenizer``, a fast one; passages that several claims are held against are cut once."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._known: dict[tuple[tuple[Titled, ...], int], list[str]] = {}

    def of(self, passages: tuple[Titled, ...], size: int) -> list[str]:
        """Texts of at most ``size`` tokens that hold all ``passages``, each under its title as in ALCE; short ones share one."""
        if (passages, size) not in self._known:
            self._known[passages, size] = self._packed(passages, size)
        return self._known[passages, size]

    def _packed(self, passages: Sequence[Titled], size: int) -> list[str]:
        packed: list[str] = []
        used = 0
        for passage in passages:
            lead = f"Title: {passage.title}\n" if passage.title else ""
            lead_tokens = len(self._spans(lead))
            if 2 * lead_tokens > size:
                lead, lead_tokens = "", 0
            for text in self._cut(passage.text, size - lead_tokens - 1):
                length = lead_tokens + len(self._spans(text)) + 1
                if packed and used + length <= size:
                    packed[-1], used = f"{packed[-1]}\n{lead}{text}", used + length
                else:
                    packed.append(lead + text)
                    used = length
        return packed

    def _cut(self, text: str, size: int) -> Iterator[str]:
        spans = self._spans(text)
        starts = [start for start, _ in spans]
        sentences = sorted({bisect_left(starts, match.end()) for match in _SENTENCE.finditer(text)})
        begin = 0
        while len(spans) - begin > size:
            last = bisect_right(sentences, begin + size) - 1
            stop = sentences[last] if last >= 0 and sentences[last] > begin + size // 2 else begin + size
            yield text[spans[begin][0] : spans[stop - 1][1]].strip()
            following = bisect_left(sentences, stop - size // _OVERLAP)
            begin = (
                sentences[following] if following < len(sentences) and sentences[following] <= stop else stop - size // _OVERLAP
            )
        yield text[spans[begin][0] :].strip() if spans else text

    def _spans(self, text: str) -> list[tuple[int, int]]:
        asked = {"add_special_tokens": False, "return_offsets_mapping": True, "verbose": False}
        found: list[tuple[int, int]] = self._tokenizer(text, **asked)["offset_mapping"]
        return found


def load_entailment(name: str, batch_size: int = 16, device: str | None = None) -> Entailment:
    """``lexical``, or a model of the Hub (or its folder): a sequence classifier trained on inference, such as DeBERTa, or a T5 of
    the TRUE kind. ``device``: the GPU if there is one, unless it is named. Raises ModelError: the model cannot be loaded or does
    not say which label is entailment."""
    if name == LEXICAL:
        return LexicalEntailment()
    from judges.inference.models import load_model

    return load_model(name, batch_size, device)
