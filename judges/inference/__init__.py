"""Whether passages entail a claim, by a natural language inference model; each pair is asked about
once. How models that say so are asked is one table, of their families; passages are cut into
windows that fit them."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, Protocol

from pydantic import TypeAdapter
from tqdm import tqdm

from judges.lexical.model import load_model as load_lexical_model
from judges.lexical.words import Passage
from lm_factuality.ground.errors import ConfigError, did_you_mean
from lm_factuality.ground.packages import load_yaml

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
    """The ``probability`` that passages, seen in so many ``windows``, support a claim; None:
    ``problem`` says why."""

    probability: float | None
    windows: int
    problem: str = ""


class Entailment:
    """Says whether premises entail claims; ``ask`` is given each pair once. ``identity``: all that
    can change a verdict."""

    def __init__(self, identity: str, ask: Callable[[Sequence[Pair]], list[bool | None]]) -> None:
        self.identity, self._ask = identity, ask
        self.known: dict[Pair, bool | None] = {}

    def entail(self, pairs: Sequence[Pair]) -> list[bool | None]:
        """For each pair whether its passages entail its claim; None where there is no verdict."""
        new = [pair for pair in dict.fromkeys(pairs) if pair not in self.known]
        if new:
            self.known.update(zip(new, self._ask(new), strict=True))
        return [self.known[pair] for pair in pairs]


@dataclass(frozen=True)
class Family:
    """A model belongs to it if ``pattern`` is found in its name, or ``by_type`` in its config's
    ``model_type`` alone. ``text`` is what premise and claim are made into; empty: a pair of texts,
    as the tokenizer joins them. ``head``: a label for the whole text (``sequence``) or its first
    token (``tokens``), or a first word 1 or 0 (``seq2seq``). ``support`` is the number of the label
    that says so; None: the one called entailment. ``window``: tokens of passages at a time; None:
    all that fit."""

    pattern: str
    head: Literal["sequence", "tokens", "seq2seq"] = "sequence"
    text: str = ""
    support: int | None = None
    window: int | None = None
    by_type: bool = False


FAMILIES = TypeAdapter(dict[str, Family]).validate_python(load_yaml(__package__, "families.yaml"))


def family_of(name: str, config: Mapping[str, Any], given: str | None = None) -> str:
    """The family ``given``, or the one that a model has by its name or its config. Raises
    ConfigError: there is none."""
    if given is not None and given not in FAMILIES:
        raise ConfigError(
            f"no family of models is called {given!r}{did_you_mean(given, FAMILIES)}; known:"
            f" {', '.join(FAMILIES)}"
        )
    own, kind = name.rstrip("/").rpartition("/")[2], str(config.get("model_type", ""))
    texts = (
        (key, each.pattern, kind if each.by_type else f"{own} {kind}")
        for key, each in FAMILIES.items()
    )
    return given or next(
        key for key, pattern, text in texts if re.search(pattern, text, re.IGNORECASE)
    )


_SENTENCE = re.compile(
    r"(?<=[.!?])\s+|(?<=[。！？])|\n+"
)  # half a sentence may say the reverse of the whole
_OVERLAP = 4  # a quarter of a window is in the one before it too


class Windows:
    """Cuts passages into windows, each from the beginning of a sentence to the end of one, with an
    overlap, by the tokens of ``tokenizer``, a fast one; passages that several claims are held
    against are cut once."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self.of = cache(self._packed)

    def _packed(self, passages: tuple[Titled, ...], size: int) -> list[str]:
        """Texts of at most ``size`` tokens that hold all ``passages``, each under its title as in
        ALCE; short ones share one."""
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
            stop = (
                sentences[last]
                if last >= 0 and sentences[last] > begin + size // 2
                else begin + size
            )
            yield text[spans[begin][0] : spans[stop - 1][1]].strip()
            following = bisect_left(sentences, stop - size // _OVERLAP)
            begin = (
                sentences[following]
                if following < len(sentences) and sentences[following] <= stop
                else stop - size // _OVERLAP
            )
        yield text[spans[begin][0] :].strip() if spans else text

    def _spans(self, text: str) -> list[tuple[int, int]]:
        asked = {"add_special_tokens": False, "return_offsets_mapping": True, "verbose": False}
        found: list[tuple[int, int]] = self._tokenizer(text, **asked)["offset_mapping"]
        return found


def load_entailment(name: str, batch_size: int = 16, device: str | None = None) -> Entailment:
    """``lexical``, or a model of the Hub (or its folder): a classifier trained on inference, such
    as DeBERTa, or a T5 of the TRUE kind. ``device``: default the GPU, if any. Raises ModelError: it
    cannot be loaded, or no label of it is entailment."""
    if name == LEXICAL:
        lexical = load_lexical_model()

        def by_words(pairs: Sequence[Pair]) -> list[bool | None]:
            asked = (
                (each.claim, [Passage(one.text, one.title) for one in each.passages])
                for each in pairs
            )
            bar = tqdm(asked, "entailment", len(pairs), unit=" pairs", delay=2)
            return [lexical.judge(claim, passages).is_supported for claim, passages in bar]

        return Entailment(f"lexical {lexical.identity}", by_words)
    from judges.inference.models import load_model

    model = load_model(name, batch_size, device)
    return Entailment(model.identity, model.entail)
