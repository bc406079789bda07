"""What the filters' models compute in: the same everywhere, and fine enough that a score is the same in whatever batch.

In bfloat16 a score can be off by 0.01 and more, another way in each batch, beside a margin of 0.2: which contradictions pass
would depend on the machine, and on what else the shard holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

DTYPE = torch.float32


@contextmanager
def full_precision() -> Iterator[None]:
    """No TensorFloat-32 on a GPU, whose products have 10 bits of 23, whatever the process allows elsewhere."""
    products, convolutions = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(products)
        torch.backends.cudnn.allow_tf32 = convolutions
