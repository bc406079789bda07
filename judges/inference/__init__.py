"""Natural language inference: whether passages (the premise) entail a claim (the hypothesis).

Classifiers as judges (`judges.backends.classifier`) and citation scores use it. The module holds
the table of model families and cuts passages to the size of a model; `judges.inference.models` runs
the models themselves.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from pydantic import TypeAdapter
from tqdm.auto import tqdm

from judges.lexical.model import LexicalModel, load_lexical_model
from judges.lexical.words import ParsedPassage
from lm_factuality.ground.errors import ConfigError, did_you_mean
from lm_factuality.ground.packages import load_yaml

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

__all__ = [
    "FAMILIES",
    "LEXICAL",
    "Entailment",
    "EntailmentPair",
    "Family",
    "PassageCutter",
    "TitledText",
    "WindowSupport",
    "family_of",
    "load_entailment",
]

LEXICAL = "lexical"

# Where a sentence ends. Windows keep sentences whole, because half a sentence may say the reverse.
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")

_OVERLAP_DIVISOR = 4  # a quarter of each window is also in the window before it


class TitledText(Protocol):
    """A passage: any object with a title and a text."""

    @property
    def title(self) -> str:
        """Return the title of the page, empty if there is none."""

    @property
    def text(self) -> str:
        """Return the text of the passage."""


@dataclass(frozen=True)
class EntailmentPair:
    """A claim and the passages that may entail it together."""

    claim: str
    """The hypothesis."""

    passages: tuple[TitledText, ...]
    """The premise."""


@dataclass(frozen=True)
class WindowSupport:
    """How probable it is that passages support a claim, as a model says for its best window."""

    probability: float | None
    """The highest probability that a window of the passages gave. None if no window gave any."""

    num_windows: int
    """The number of windows that the passages were cut into."""

    problem: str = ""
    """Why there is no probability; empty if there is one."""


class Entailment:
    """Decides whether passages entail claims, and asks its model about each pair just once."""

    def __init__(
        self,
        identity: str,
        judge_pairs: Callable[[Sequence[EntailmentPair]], list[bool | None]],
    ) -> None:
        """Wrap a model.

        Args:
            identity: Everything about the model that can change a verdict.
            judge_pairs: Returns the model's verdict on each pair, None where it has none.
        """
        self.identity = identity
        self.verdicts: dict[EntailmentPair, bool | None] = {}
        self._judge_pairs = judge_pairs

    def entail(self, pairs: Sequence[EntailmentPair]) -> list[bool | None]:
        """Decide whether the passages of each pair entail its claim.

        Args:
            pairs: The claims with their passages. New ones are added to ``verdicts``.

        Returns:
            The verdict on each pair, in order. None where the model has no verdict.
        """
        # Many sentences cite the same passages, so equal pairs are common.
        new_pairs = [pair for pair in dict.fromkeys(pairs) if pair not in self.verdicts]
        if new_pairs:
            self.verdicts.update(zip(new_pairs, self._judge_pairs(new_pairs), strict=True))
        return [self.verdicts[pair] for pair in pairs]


@dataclass(frozen=True)
class Family:
    """A row of ``families.yaml``: models that are asked in the same way, as their authors do."""

    pattern: str
    """A regular expression that finds the family in a model's name or its ``model_type``."""

    head: Literal["sequence", "seq2seq"] = "sequence"
    """What the model returns: a label for the whole text, or a text that begins with 1 or 0."""

    text: str = ""
    """The template that joins ``{premise}`` and ``{claim}``. Empty: the tokenizer joins them."""

    support: int | None = None
    """The number of the label for support. None: the label that is called entailment."""

    window: int | None = None
    """How many tokens of passages the model reads at once. None: as many as fit."""

    by_type: bool = False
    """Whether the pattern is searched for in the ``model_type`` alone, and not in the name."""


FAMILIES = TypeAdapter(dict[str, Family]).validate_python(load_yaml(__package__, "families.yaml"))


def family_of(
    model_name: str, model_config: Mapping[str, Any], stated_family: str | None = None
) -> str:
    """Find the family of a model, which says how the model is asked.

    Args:
        model_name: The name on the Hub, or the path of a folder.
        model_config: The content of the model's ``config.json``.
        stated_family: The family that the user names, if any. It need not fit the model's name.

    Returns:
        A key of `FAMILIES`. The last family, ``nli``, has any other classifier.

    Raises:
        ConfigError: There is no family of the stated name.

    Example:
        ``lytang/MiniCheck-Flan-T5-Large`` is of the family ``minicheck-t5``.
    """
    if stated_family is not None:
        if stated_family in FAMILIES:
            return stated_family
        suggestion = did_you_mean(stated_family, FAMILIES)
        raise ConfigError(
            f"no family of models is called {stated_family!r}{suggestion}; known:"
            f" {', '.join(FAMILIES)}"
        )

    # Only the last part counts: an owner on the Hub, or a folder, may contain any word.
    short_name = model_name.rstrip("/").rpartition("/")[2]
    model_type = str(model_config.get("model_type", ""))
    # The most specific families come first in the table.
    for name, family in FAMILIES.items():
        searched_text = model_type if family.by_type else f"{short_name} {model_type}"
        if re.search(family.pattern, searched_text, re.IGNORECASE):
            return name
    raise AssertionError("the last pattern of families.yaml matches every model")


class _TitledPart(NamedTuple):
    """A part of a passage below the title of the passage."""

    text: str
    """The title and the part."""

    num_tokens: int
    """The tokens that it takes in a window, with the line break before it."""


class PassageCutter:
    """Cuts passages into windows, i.e. texts that are short enough for a model.

    A window begins and ends with a sentence where it can, and overlaps its neighbours.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerFast) -> None:
        """Count tokens by a fast tokenizer, which knows where in the text each token stands."""
        self._tokenizer = tokenizer
        # Many claims are held against the same passages, which are cut once.
        self.windows = cache(self._cut_passages)

    def _cut_passages(self, passages: tuple[TitledText, ...], max_tokens: int) -> list[str]:
        """Cut passages into windows that together hold all of them.

        Args:
            passages: The passages. A short one shares a window with its neighbours.
            max_tokens: The size of a window.

        Returns:
            The windows. Each part of a passage stands below its title, as in ALCE's prompts:
            ``Title: Ada Lovelace``, a line break and the text.
        """
        windows: list[str] = []
        free_tokens = 0  # of the last window
        for passage in passages:
            for part in self._titled_parts(passage, max_tokens):
                # Short passages share the last window as long as it has room.
                if windows and part.num_tokens <= free_tokens:
                    windows[-1] += f"\n{part.text}"
                    free_tokens -= part.num_tokens
                else:
                    windows.append(part.text)
                    free_tokens = max_tokens - part.num_tokens
        return windows

    def _titled_parts(self, passage: TitledText, max_tokens: int) -> Iterator[_TitledPart]:
        """Cut a passage into parts that fit into a window, each with the title before it."""
        title = f"Title: {passage.title}\n" if passage.title else ""
        title_tokens = len(self._token_spans(title))
        # A title of more than half a window would leave too little room for the text.
        if 2 * title_tokens > max_tokens:
            title = ""
            title_tokens = 0

        # The line break between two parts of a window takes one token.
        tokens_above_text = title_tokens + 1
        for text in self._cut_text(passage.text, max_tokens - tokens_above_text):
            yield _TitledPart(title + text, tokens_above_text + len(self._token_spans(text)))

    def _cut_text(self, text: str, max_tokens: int) -> Iterator[str]:
        """Cut one text into parts of at most ``max_tokens`` tokens, as `_cut_tokens` does."""
        spans = self._token_spans(text)
        if not spans:
            # A text without tokens, such as an empty one, is one part.
            yield text
            return
        # Where each token begins and ends in the text.
        token_starts = [start for start, _ in spans]
        token_ends = [end for _, end in spans]
        # The last characters of a text may belong to no token. They are part of the last one here.
        token_ends[-1] = len(text)
        # Each sentence begins with a token, such as the 12th and the 30th.
        sentence_starts = {
            bisect_left(token_starts, match.end()) for match in _SENTENCE_END.finditer(text)
        }

        for tokens in _cut_tokens(len(spans), sentence_starts, max_tokens):
            yield text[token_starts[tokens[0]] : token_ends[tokens[-1]]].strip()

    def _token_spans(self, text: str) -> list[tuple[int, int]]:
        """Return where each token of a text starts and ends, in characters."""
        encoded = self._tokenizer(
            text, add_special_tokens=False, return_offsets_mapping=True, verbose=False
        )
        return list(encoded["offset_mapping"])


def _cut_tokens(
    num_tokens: int, sentence_starts: Collection[int], max_tokens: int
) -> Iterator[range]:
    """Cut the tokens of a text into parts that overlap by about a quarter.

    Args:
        num_tokens: The number of tokens.
        sentence_starts: The first token of each sentence.
        max_tokens: The size of a part.

    Yields:
        The tokens of each part, in order. A part ends with a sentence if that leaves it more than
        half full, and otherwise after ``max_tokens`` tokens.
    """
    start = 0
    while num_tokens - start > max_tokens:
        # The part ends before a sentence in its second half, the last if there are several.
        middle = start + max_tokens // 2
        full_end = start + max_tokens
        ends = [token for token in sentence_starts if middle < token <= full_end]
        end = max(ends, default=full_end)
        yield range(start, end)

        # The next part begins with a sentence within the overlap, if one begins there.
        overlap_start = end - max_tokens // _OVERLAP_DIVISOR
        starts = [token for token in sentence_starts if overlap_start <= token <= end]
        start = min(starts, default=overlap_start)
    yield range(start, num_tokens)


def load_entailment(name: str) -> Entailment:
    """Load a model that decides whether passages entail claims.

    Args:
        name: ``lexical`` for the comparison of words, or a model on the Hub or in a folder: a
            classifier trained on inference, such as DeBERTa, or a T5 such as TRUE. It is loaded
            onto the GPU, if there is one.

    Returns:
        The model, which has judged nothing yet.

    Raises:
        ModelError: The model cannot be loaded, or none of its labels is entailment.
    """
    if name != LEXICAL:
        # Importing torch takes seconds, which the lexical judge does not need.
        from judges.inference.models import load_model

        model = load_model(name)
        return Entailment(model.identity, model.entail)

    lexical_model = load_lexical_model()
    judge_pairs = partial(_judge_by_words, lexical_model)
    return Entailment(f"lexical {lexical_model.identity}", judge_pairs)


def _judge_by_words(
    lexical_model: LexicalModel, pairs: Sequence[EntailmentPair]
) -> list[bool | None]:
    """Judge each pair by the lexical judge, which always has a verdict."""
    verdicts: list[bool | None] = []
    for pair in tqdm(pairs, "entailment", unit=" pairs", delay=2):
        passages = [ParsedPassage(passage.text, passage.title) for passage in pair.passages]
        verdicts.append(lexical_model.judge(pair.claim, passages).is_supported)
    return verdicts
