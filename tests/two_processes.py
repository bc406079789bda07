"""Two processes of lm_eval played by one, one after the other."""

from __future__ import annotations

import pickle
from typing import Any

import torch


def one_of_two(model_class: type) -> Any:
    """Return a kind of model that plays one process of two after the other.

    A test first evaluates ``model.start(1)``, the second process, whose results are kept. It then
    evaluates ``model.start(0)``, the first process, which gathers the results of both.

    Args:
        model_class: A model of lm_eval, such as `HFLM`.
    """

    class OneOfTwo(model_class):
        """A model that communicates with itself."""

        sent_objects: list[bytes]
        """What the second process has sent and the first has not yet received, pickled."""

        def start(self, rank: int) -> OneOfTwo:
            """Become the process with this number, and return the model."""
            self._rank = rank
            self._world_size = 2
            if rank == 1:
                self.sent_objects = []
            return self

        def all_gather(self, tensor: torch.Tensor) -> torch.Tensor:
            """Return the tensors of both processes, which are taken to be equal."""
            return torch.stack([tensor, tensor])

        def gather_object(self, obj: Any, dst: int = 0) -> list[Any] | None:
            """Send an object from the second process, or return those of both from the first."""
            if self.rank == 1:
                self.sent_objects.append(pickle.dumps(obj))
                return None
            return [obj, pickle.loads(self.sent_objects.pop(0))]

        def barrier(self) -> None:
            """Wait for nobody."""

    return OneOfTwo
