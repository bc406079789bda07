"""How a prefix and a completion become one text. ``delimiter``, for rows of one's own: both as they
are, with the delimiter between them where neither brings white space. ``authors``, for the
published files: as the authors' script does, a space that ends the prefix moves to the front of the
completion, whose own leading spaces go; any other prefix is joined as it is. ``dola``, of the
protocol of that name: as DoLa's script does, one space more, whatever the two end and begin
with."""

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from lm_factuality.benchmarks.factor.rows import Row
from lm_factuality.ground.errors import ConfigError
from lm_factuality.ground.sentences import SIGNS
from lm_factuality.harness.context import current_run

AUTHORS, DELIMITER, DOLA = "authors", "delimiter", "dola"
_SHOWN = 24  # characters on either side of a seam
_MARKS = str.maketrans({" ": "⎵", "\n": "↵", "\t": "⇥"})
_CLOSING = re.compile(r"[.,;:!?)\]}%’”…]")  # what no space stands before
_OPENING = re.compile(r"[(\[{¿¡“„]")
_UNSPACED = re.compile(
    f"[{SIGNS}\u3000-\u303f\uff00-\uff65]"
)  # of scripts without spaces between words

logger = logging.getLogger(
    f"lm_eval.{__name__}"
)  # a run shows what lm_eval says, and of others warnings alone


@dataclass(frozen=True)
class Join:
    """A rule, and the delimiter that it puts where there is no white space."""

    rule: str = AUTHORS
    delimiter: str = " "

    @property
    def about(self) -> dict[str, str]:
        return {"join": self.rule} | (
            {"delimiter": self.delimiter} if self.rule == DELIMITER else {}
        )

    def __call__(self, prefix: str, completion: str) -> tuple[str, str]:
        """The context and the continuation to score. Spaces between the two belong to the
        continuation, as the first token of a word has them in most tokenizers."""
        if self.rule == DOLA:
            return prefix, " " + completion
        if self.rule == AUTHORS:
            ends = prefix.endswith(" ")
            return prefix[: len(prefix) - ends], " " * ends + completion.lstrip(" ")
        before = prefix + (self.delimiter if self._is_put(prefix, completion) else "")
        context = before.rstrip(" ")
        return context, before[len(context) :] + completion

    def _is_put(self, prefix: str, completion: str) -> bool:
        return bool(prefix) and not prefix[-1].isspace() and not completion[:1].isspace()

    def seam(self, prefix: str, completion: str) -> str:
        """Where the two meet, with its white space made visible: ``…France is⎵Paris, on the
        Seine.``"""
        context, continuation = self(prefix, completion)
        before, after = context.rstrip(), continuation.lstrip()
        white = context[len(before) :] + continuation[: len(continuation) - len(after)]
        first, last = "…" * (len(before) > _SHOWN), "…" * (len(after) > _SHOWN)
        return f"{first}{before[-_SHOWN:]}{white.translate(_MARKS)}{after[:_SHOWN]}{last}"

    def odd(self, prefix: str, completion: str) -> str:
        """What a reader would stumble over at the seam; empty if nothing."""
        context, continuation = self(prefix, completion)
        ends, begins = prefix[-1:], completion[:1]
        is_unspaced = any(map(_UNSPACED.match, (ends, begins)))
        if context[-1:].isalnum() and continuation[:1].isalnum() and not is_unspaced:
            cure = "'join: authors'" if self.rule == AUTHORS else "the delimiter"
            return f"nothing separates the two; end the prefix with a space, or leave out {cure}"
        if self.rule == DELIMITER and ends.isspace() and begins.isspace():
            return "both bring white space, and both keep it; drop one"
        is_put = (
            self.rule == DELIMITER and self.delimiter.isspace() and self._is_put(prefix, completion)
        )
        if is_put and (is_unspaced or _CLOSING.match(begins) or _OPENING.match(ends)):
            return (
                f"a delimiter {self.delimiter!r} is put here; if there should be none: metadata"
                " 'delimiter: \"\"'"
            )
        return ""


AUTHORS_JOIN = Join()
Encode = Callable[[str], Sequence[int]]


def odd_seams(
    rows: Sequence[Row], join: Join, encode: Encode | None = None
) -> Iterator[tuple[str, str]]:
    """(location, what) of rows whose prefix meets a choice in a way that should be looked at, one
    choice a row; ``encode`` is the model's tokenizer, where it is at hand."""
    for row in rows:
        for choice in () if row.problem else row.choices:
            what = [join.odd(row.prefix, choice)]
            if encode:
                context, continuation = join(row.prefix, choice)
                alone = list(encode(context))
                is_changed = list(encode(context + continuation))[: len(alone)] != alone
                what += [
                    "the tokens of the prefix alone do not begin those of the joined text"
                ] * is_changed
            if said := "; ".join(filter(None, what)):
                yield (
                    row.location,
                    f"prefix and completion meet as {join.seam(row.prefix, choice)!r}: {said}",
                )
                break


def tokenizer_of(name: str | None) -> Encode | None:
    """Texts to tokens by a tokenizer of transformers, without those that open or end every text;
    None if none is named. Raises ConfigError: it cannot be loaded."""
    if not name:
        return None
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError) as error:
        why = " ".join(str(error).split())
        raise ConfigError(
            f"tokenizer {name!r} cannot be loaded: {why}; give a folder or a name on the Hub"
        ) from error
    return lambda text: tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]


def first_seam(rows: Sequence[Row], join: Join) -> str:
    """How the first row that can be scored is joined, and by which rule; empty if there is none."""
    row = next((each for each in rows if not each.problem), None)
    rule = f"{join.rule} {join.delimiter!r}" if join.rule == DELIMITER else join.rule
    return f"{join.seam(row.prefix, row.choices[row.gold])} (join: {rule})" if row else ""


def tell_seam(task: str, rows: Sequence[Row], join: Join) -> None:
    """Shows it in the log, once: a run makes its tasks before the model, and again with it."""
    seam = f"{task}: prefix and completion meet as {first_seam(rows, join)}"
    current_run().tell_once(logger, seam, logging.INFO)
