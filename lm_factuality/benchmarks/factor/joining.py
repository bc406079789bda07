"""How a prefix and a completion become one text. ``delimiter``, for rows of one's own: both as they
are, with the delimiter between them where neither brings white space. ``authors``, for the
published files: as the authors' script does, a space that ends the prefix moves to the front of the
completion, whose own leading spaces go; any other prefix is joined as it is. ``dola``, of the
protocol of that name: as DoLa's script does, one space more, whatever the two end and begin
with."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from lm_factuality.benchmarks.factor.rows import Row
from lm_factuality.harness.context import current_run

AUTHORS = "authors"
DELIMITER = "delimiter"
DOLA = "dola"
# So many characters on either side of a seam are shown.
_SEAM_WIDTH = 24

# A run shows what lm_eval says, and of others warnings alone.
logger = logging.getLogger(f"lm_eval.{__name__}")


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
        is_apart = prefix[-1:].isspace() or completion[:1].isspace()
        before = prefix + (self.delimiter if prefix and not is_apart else "")
        context = before.rstrip(" ")
        return context, before[len(context) :] + completion


AUTHORS_JOIN = Join()


def log_first_join(task: str, rows: Sequence[Row], join: Join) -> str:
    """Return how the first row that can be scored is joined, and by which rule.

    The log shows it once: a run makes its tasks before the model and with it.

    Example:
        ``'capital of France is' + ' Paris, on the Seine.' (join: delimiter ' ')``
    """
    rule = f"{join.rule} {join.delimiter!r}" if join.rule == DELIMITER else join.rule
    for row in rows:
        if not row.problem:
            context, continuation = join(row.prefix, row.choices[row.gold])
            seam = f"{context[-_SEAM_WIDTH:]!r} + {continuation[:_SEAM_WIDTH]!r} (join: {rule})"
            current_run().tell_once(
                logger, f"{task}: prefix and completion meet as {seam}", logging.INFO
            )
            return seam
    return ""
