"""Reference documents for a judge (appendix D of the paper): each is cut into chunks of 512 tokens, of which BM25 chooses the
one nearest to the question and the answer; the chosen chunks follow one another.

The paper does not say whose tokens. Its judges are OpenAI's, so ``tiktoken:cl100k_base`` is the likeliest, which has to be
downloaded; ``words``, the default, needs nothing: a token is a run of letters and digits or one other sign.
"""

import itertools
import re
from collections.abc import Callable, Sequence
from functools import cache

from lm_factuality.ground.errors import ConfigError
from lm_factuality.retrieval.bm25 import Searcher

CHUNK_TOKENS = 512
WORDS, _TIKTOKEN = "words", "tiktoken:"
_TOKEN = re.compile(r"\w+|[^\w\s]")


@cache
def token_starts(tokenizer: str) -> Callable[[str], list[int]]:
    """Where the tokens of a text begin: by ``words``, by ``tiktoken:ENCODING``, or by a fast tokenizer of transformers (a folder
    or a name on the Hub).

    Raises:
        ConfigError: it cannot be loaded.
    """
    if tokenizer == WORDS:
        return lambda text: [match.start() for match in _TOKEN.finditer(text)]
    try:
        if tokenizer.startswith(_TIKTOKEN):
            import tiktoken

            encoding = tiktoken.get_encoding(tokenizer.removeprefix(_TIKTOKEN))
            return lambda text: encoding.decode_with_offsets(encoding.encode(text, disallowed_special=()))[1]
        from transformers import AutoTokenizer

        fast = AutoTokenizer.from_pretrained(tokenizer, use_fast=True)
        fast("", return_offsets_mapping=True)
    except (ImportError, OSError, ValueError, NotImplementedError) as error:
        raise ConfigError(
            f"chunk_tokenizer {tokenizer!r} cannot be loaded: {' '.join(str(error).split())}; expected {WORDS}, "
            f"{_TIKTOKEN}cl100k_base, or a fast tokenizer"
        ) from error
    return lambda text: [
        start for start, _ in fast(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)["offset_mapping"]
    ]


def chunk(text: str, size: int = CHUNK_TOKENS, tokenizer: str = WORDS) -> list[str]:
    """``text`` in pieces of ``size`` tokens, the last one shorter."""
    starts = token_starts(tokenizer)(text)
    borders = [*starts[::size], len(text)]
    pieces = (text[start:end].strip() for start, end in itertools.pairwise(borders))
    return [piece for piece in pieces if piece]


def choose(documents: Sequence[str], query: str, size: int = CHUNK_TOKENS, tokenizer: str = WORDS) -> list[str]:
    """For each document that has any text its chunk with the highest BM25 score for ``query``; the first of equals."""
    chosen = []
    for document in documents:
        chunks = chunk(document, size, tokenizer)
        if chunks:
            chosen.append(chunks[_best(chunks, query)] if len(chunks) > 1 else chunks[0])
    return chosen


def _best(chunks: Sequence[str], query: str) -> int:
    best = Searcher.of(chunks).best(query, 1)
    return best[0][0] if best else 0
