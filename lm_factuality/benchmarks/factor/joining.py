"""How a prefix and a completion become one text. ``delimiter``, for rows of one's own: both as they
are, with the delimiter between them where neither brings white space. ``authors``, for the
published files: as the authors' script does, a space that ends the prefix moves to the front of the
completion, whose own leading spaces go; any other prefix is joined as it is. ``dola``, of the
protocol of that name: as DoLa's script does, one space more, whatever the two end and begin
with."""

import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lm_factuality.benchmarks.factor.rows import Row
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
    """A rule of joining."""

    rule: str = AUTHORS
    delimiter: str = " "
    """What the rule ``delimiter`` puts where there is no white space."""

    @property
    def about(self) -> dict[str, str]:
        """The rule as results show it."""
        delimiter = {"delimiter": self.delimiter} if self.rule == DELIMITER else {}
        return {"join": self.rule, **delimiter}

    def __call__(self, prefix: str, completion: str) -> tuple[str, str]:
        """Return the context and the continuation to score.

        Spaces between the two belong to the continuation, as the first token of a word has them in
        most tokenizers.
        """
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
        """Return where the two meet, with its white space made visible.

        Example:
            ``…France is⎵Paris, on the Seine.``
        """
        context, continuation = self(prefix, completion)
        before = context.rstrip()
        after = continuation.lstrip()
        white = (context + continuation)[len(before) :].removesuffix(after).translate(_MARKS)
        first = "…" * (len(before) > _SHOWN)
        last = "…" * (len(after) > _SHOWN)
        return f"{first}{before[-_SHOWN:]}{white}{after[:_SHOWN]}{last}"

    def oddity(self, prefix: str, completion: str) -> str:
        """Return what a reader would stumble over at the seam, empty if nothing."""
        context, continuation = self(prefix, completion)
        last = prefix[-1:]
        first = completion[:1]
        is_unspaced = bool(_UNSPACED.match(last) or _UNSPACED.match(first))
        if context[-1:].isalnum() and continuation[:1].isalnum() and not is_unspaced:
            cure = "'join: authors'" if self.rule == AUTHORS else "the delimiter"
            return f"nothing separates the two; end the prefix with a space, or leave out {cure}"
        if self.rule != DELIMITER:
            return ""
        if last.isspace() and first.isspace():
            return "both bring white space, and both keep it; drop one"
        is_tight = is_unspaced or _CLOSING.match(first) or _OPENING.match(last)
        if is_tight and self.delimiter.isspace() and self._is_put(prefix, completion):
            return (
                f"a delimiter {self.delimiter!r} is put here; if there should be none: metadata"
                " 'delimiter: \"\"'"
            )
        return ""


AUTHORS_JOIN = Join()


def odd_seams(rows: Sequence[Row], join: Join) -> Iterator[tuple[str, str]]:
    """Yield the places of rows whose prefix and choices meet oddly, and how, once a row."""
    for row in rows:
        for choice in () if row.problem else row.choices:
            oddity = join.oddity(row.prefix, choice)
            if oddity:
                seam = join.seam(row.prefix, choice)
                yield row.location, f"prefix and completion meet as {seam!r}: {oddity}"
                break


def first_seam(rows: Sequence[Row], join: Join) -> str:
    """Return how the first row that can be scored is joined, and by which rule."""
    rule = f"{join.rule} {join.delimiter!r}" if join.rule == DELIMITER else join.rule
    for row in rows:
        if not row.problem:
            return f"{join.seam(row.prefix, row.choices[row.gold])} (join: {rule})"
    return ""


def tell_seam(task: str, rows: Sequence[Row], join: Join) -> None:
    """Show the first seam in the log, once: a run makes its tasks before the model and with it."""
    seam = f"{task}: prefix and completion meet as {first_seam(rows, join)}"
    current_run().tell_once(logger, seam, logging.INFO)
