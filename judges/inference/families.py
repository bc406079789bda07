"""How models that say whether passages support a claim are asked: one table of their families."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from lm_factuality.ground.errors import ConfigError, did_you_mean


@dataclass(frozen=True)
class Family:
    """A model belongs to it if ``pattern`` is found in its name, or ``by_type`` in its config's ``model_type`` alone.

    ``text`` is what premise and claim are made into; empty: a pair of texts, as the tokenizer joins them. ``head``: a label for
    the whole text (``sequence``) or its first token (``tokens``), or a first word 1 or 0 (``seq2seq``). ``support`` is the number
    of the label that says so; None: the one called entailment. ``window``: tokens of passages at a time; None: all that fit.
    """

    pattern: str
    head: Literal["sequence", "tokens", "seq2seq"] = "sequence"
    text: str = ""
    support: int | None = None
    window: int | None = None
    by_type: bool = False


# As their authors' code asks them, the most specific first. Windows that it counts in words (500 for MiniCheck's T5, 350 for
# AlignScore) have 1.3 tokens a word here.
FAMILIES: Mapping[str, Family] = {
    "minicheck-t5": Family("minicheck.*t5", "seq2seq", "predict: {premise}{eos}{claim}", window=650),
    "minicheck": Family("minicheck", "sequence", "{premise}{eos}{claim}", support=1, window=400),
    "hhem": Family(
        "hallucination_evaluation_model|hhem",
        "tokens",
        "<pad> Determine if the hypothesis is true given the premise?\n\nPremise: {premise}\n\nHypothesis: {claim}",
        support=1,
    ),
    "alignscore": Family("alignscore", support=0, window=450),
    "true": Family("^m?t5$", "seq2seq", "premise: {premise} hypothesis: {claim}", by_type=True),
    "nli": Family("", by_type=True),  # any other classifier
}


def family_of(name: str, config: Mapping[str, Any], given: str | None = None) -> str:
    """The family ``given``, or the one that a model is recognised as by its name or its config.

    Raises:
        ConfigError: no family is called that.
    """
    if given is not None and given not in FAMILIES:
        raise ConfigError(f"no family of models is called {given!r}{did_you_mean(given, FAMILIES)}; known: {', '.join(FAMILIES)}")
    own, kind = name.rstrip("/").rpartition("/")[2], str(config.get("model_type", ""))
    texts = ((key, each.pattern, kind if each.by_type else f"{own} {kind}") for key, each in FAMILIES.items())
    return given or next(key for key, pattern, text in texts if re.search(pattern, text, re.IGNORECASE))
