"""The rules by which a prefix and a completion become one text for the model.

The tasks of FACTOR, its audit and the perplexity tasks join texts with a `Join`, which follows one
of three rules:

- ``delimiter``, for a user's own rows, puts the delimiter where neither text brings white space.
- ``authors``, for the published files, moves a space that ends the prefix to the front of the
  completion, whose own leading spaces are dropped. This is how the authors' script joins.
- ``dola``, of the protocol of the same name, always adds one space, as DoLa's script does.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from lm_factuality.benchmarks.factor.rows import Row
from lm_factuality.harness.context import current_run

AUTHORS = "authors"
DELIMITER = "delimiter"
DOLA = "dola"
_SHOWN_CHARACTERS = 24
"""The number of characters before and after the join that the log shows."""

# lm_eval's own loggers show information in a run; loggers of other packages show only warnings.
logger = logging.getLogger(f"lm_eval.{__name__}")


@dataclass(frozen=True)
class Join:
    """A rule by which a prefix and a completion become one text."""

    rule: str = AUTHORS
    """``authors``, ``delimiter`` or ``dola``."""

    delimiter: str = " "
    """The text that the rule ``delimiter`` inserts if there is no white space."""

    @property
    def metadata(self) -> dict[str, str]:
        """The rule as results files record it.

        Example:
            ``{"join": "delimiter", "delimiter": " "}``
        """
        if self.rule == DELIMITER:
            return {"join": self.rule, "delimiter": self.delimiter}
        return {"join": self.rule}

    def __call__(self, prefix: str, completion: str) -> tuple[str, str]:
        """Split the joined text into the context and the continuation that the model scores.

        Spaces between the two belong to the continuation, because most tokenizers put the space
        before a word into the word's first token.

        Args:
            prefix: The text of the document before the completion.
            completion: The true completion, or a contradiction of it.

        Returns:
            The context and the continuation, such as ``("It rained.", " He left.")``.
        """
        if self.rule == DOLA:
            # DoLa's script always adds a space, even if there is one already.
            return prefix, " " + completion
        if self.rule == AUTHORS:
            # This rule adds nothing: it only moves a space from the prefix to the completion.
            return _join_as_authors(prefix, completion)
        return self._join_with_delimiter(prefix, completion)

    def _join_with_delimiter(self, prefix: str, completion: str) -> tuple[str, str]:
        """Put the delimiter between two texts if there is no white space between them.

        Spaces at the end of the prefix move to the beginning of the completion, since a tokenizer
        joins a space with the word that follows it.

        Example:
            With a space as the delimiter, ``"It rained."`` and ``"He left."`` become
            ``("It rained.", " He left.")``.
        """
        has_white_space = prefix[-1:].isspace() or completion[:1].isspace()
        # A completion without a prefix needs no delimiter.
        needs_delimiter = prefix and not has_white_space
        text_before = prefix + self.delimiter if needs_delimiter else prefix
        context = text_before.rstrip(" ")
        trailing_spaces = text_before[len(context) :]
        return context, trailing_spaces + completion


def _join_as_authors(prefix: str, completion: str) -> tuple[str, str]:
    """Move a space from the end of the prefix to the completion, as the authors' script does.

    Example:
        ``"It rained. "`` and ``"He left."`` become ``("It rained.", " He left.")``. Without the
        space in the prefix, they become ``("It rained.", "He left.")``.
    """
    completion = completion.lstrip(" ")
    # Only one space moves, since the script looks at the last character alone.
    if prefix.endswith(" "):
        return prefix[:-1], " " + completion
    return prefix, completion


AUTHORS_JOIN = Join()


def log_join(task: str, description: str) -> None:
    """Log how prefixes and true completions are joined, so that users can check the spaces.

    Args:
        task: The name of the task.
        description: The first join, from `describe_first_join`. Nothing is logged if it is empty.
    """
    if description:
        message = f"{task}: prefix and completion are joined as {description}"
        # A run makes each task twice, so the message is logged only once.
        current_run().log_once(logger, message, logging.INFO)


def describe_first_join(rows: Sequence[Row], join: Join) -> str:
    """Show where the prefix of the first row ends and its true completion begins, with the rule.

    Example:
        ``'capital of France is' + ' Paris, on the Seine.' (join: delimiter ' ')``

    Args:
        rows: The rows of a task. Rows with a problem are skipped, since they may lack texts.
        join: The rule by which they are joined.

    Returns:
        The description, in which a missing or doubled space can be seen. Empty if no row can be
        scored.
    """
    row = next((row for row in rows if not row.problem), None)
    if row is None:
        return ""
    context, continuation = join(row.prefix, row.choices[row.gold])
    end_of_context = context[-_SHOWN_CHARACTERS:]
    start_of_continuation = continuation[:_SHOWN_CHARACTERS]
    # Only this rule has a delimiter.
    rule = f"{join.rule} {join.delimiter!r}" if join.rule == DELIMITER else join.rule
    return f"{end_of_context!r} + {start_of_continuation!r} (join: {rule})"
