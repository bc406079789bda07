"""Ways to reach a judge's model: one `Backend` per module, listed in ``judges/backends.yaml``.

`judges.judge` opens the backend that a judge's YAML names and sends it the requests that the
answer store cannot answer.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from judges.answers import Answer, CostEstimate, Request, TokenCounter, Usage
from judges.store import AnswerStore

__all__ = ["Backend", "NumberedAnswer", "chat_messages", "plain_prompt"]


class NumberedAnswer(NamedTuple):
    """An answer and the request that it belongs to, since answers arrive in any order."""

    number: int
    """The position of the request in the sequence of requests, from 0."""

    answer: Answer
    """The answer to that request."""


class Backend(ABC):
    """A way to reach a model, such as a server or a model class of lm_eval.

    A subclass is created with ``(config, spending_limit)``: the judge's `JudgeConfig`, and the
    `SpendingLimit` that it shares with other judges.
    """

    reads_subject: bool = False
    """Whether answers depend on the template variables of a request, and not just on its prompt."""

    @property
    @abstractmethod
    def identity(self) -> str:
        """Name everything besides the request that can change an answer.

        The store looks up answers by it: the kind of backend, the model and its revision, but
        never a key.
        """

    @property
    def usage(self) -> Usage:
        """Return what was sent since the backend was opened. All zero if it does not count."""
        return Usage()

    def key_of(self, request: Request) -> str:
        """Return the key of the answer to a request in a store."""
        return request.key(self.identity, self.reads_subject)

    @abstractmethod
    def answer(self, requests: Sequence[Request]) -> Iterator[NumberedAnswer]:
        """Answer each request once.

        Args:
            requests: The prompts, each with its decoding parameters.

        Yields:
            One answer per request, in the order in which they arrive. A request that gets no
            answer, even after retries, has an answer with ``error``.

        Raises:
            BackendDownError: The model cannot be reached at all, so that every further request
                would fail.
        """

    def estimate(self, requests: Sequence[Request]) -> CostEstimate:
        """Estimate the tokens and the cost of answering requests; nothing is sent.

        A backend that does not override this method gets its tokens estimated by the length of
        the prompts.
        """
        # Without a tokenizer, tokens are estimated from the bytes of a prompt.
        return TokenCounter(None).estimate(requests)

    def bind(self, store: AnswerStore) -> None:  # noqa: B027  most backends need no store
        """Pass the store that keeps the answers, before the first request is sent."""

    def close(self) -> None:  # noqa: B027  most backends hold nothing open
        """Close the connections that the backend holds."""


def chat_messages(request: Request) -> list[dict[str, str]]:
    """Convert a request to the messages of a chat.

    Returns:
        The system message, if there is one, and the user's message.

    Example:
        ``[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Is it so?"}]``
    """
    messages = [{"role": "user", "content": request.prompt}]
    # Some chat templates refuse a system message, so an empty one is left out.
    if request.system:
        messages.insert(0, {"role": "system", "content": request.system})
    return messages


def plain_prompt(request: Request) -> str:
    """Join the system message and the prompt of a request, for a model without chat messages."""
    return f"{request.system}\n\n{request.prompt}" if request.system else request.prompt
