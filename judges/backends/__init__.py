"""Ways to reach a model, a file each.

``openai_http`` is any OpenAI-compatible server (a call to it is in ``server``), ``lm_eval_model``
any model of lm_eval, ``classifier`` a model made to verify, ``cascade`` one judge after another,
``lexical`` no model at all. A new backend is a `Backend` that is made of
``(config, spending_limit)``, and its entry in ``judges/backends.yaml``.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

from judges.answers import Answer, CostEstimate, Request, TokenCounter, Usage
from judges.store import AnswerStore


class Backend(ABC):
    """A way to reach a model."""

    reads_subject: bool = False
    """Whether answers depend on the subjects of requests too."""

    @property
    @abstractmethod
    def identity(self) -> str:
        """Everything that can change an answer besides the request, but never a key.

        That is the kind of backend, the model and its revision.
        """

    @property
    def usage(self) -> Usage | None:
        """What was sent since the backend was opened. None if nobody counts."""
        return None

    @abstractmethod
    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
        """Answer each request once.

        Returns:
            (number of the request, its answer) in the order in which they come. A request that
            gets none, after the retries that the backend makes, has an answer with ``error``.

        Raises:
            BackendDownError: Nothing gets through, so that going on would only turn the rest into
                errors.
        """

    def estimate(self, requests: Sequence[Request]) -> CostEstimate:
        """Estimate tokens and cost; by length where the backend has no way of its own."""
        return TokenCounter(None).estimate(requests)

    def bind(self, store: AnswerStore) -> None:  # noqa: B027  few need it
        """Be told where answers are kept."""

    def close(self) -> None:  # noqa: B027  few hold anything
        """Let go of what is held."""
