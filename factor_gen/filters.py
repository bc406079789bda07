"""The stage ``filter``: scores every candidate with the models that are on, and says which may not
be chosen."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from factor_gen.records import COREFERENCE, Candidate, Example, last_words
from factor_gen.settings import OFF, FilterSettings, FluencySettings, NliSettings
from lm_factuality.ground.files import sha256_of
from lm_factuality.ground.packages import loading

if TYPE_CHECKING:
    from factor_gen.filter_models import FluencyModel, NliModel


NOT_CONTRADICTORY, NOT_FLUENT, NOT_SCORED = "not contradictory", "not fluent", "not scored"
LESS_FLUENT = "less fluent than others of its type"
_DIGITS = 4  # of a score: the same sentence in another batch differs in the sixth
_DTYPE = "float32"  # on a GPU too: see factor_gen.filter_models


class Filters:
    """The NLI filter and the fluency filter of section 3.2.3; either may be off. Models are loaded
    when they are first needed."""

    name = "filter"

    def __init__(self, settings: FilterSettings, device: str | None = None) -> None:
        """``device``: the GPU if there is one, unless it is named."""
        self._settings, self._device = settings, device

    @cached_property
    def fingerprint(self) -> Mapping[str, Any]:
        """The models by commit or content, the thresholds, and what the models compute in. Raises
        ModelError: a model cannot be had."""
        found: dict[str, Any] = {"nli": OFF, "fluency": OFF}
        for name, keys in (
            ("nli", ("threshold", "coreference", "context")),
            ("fluency", ("margin", "best", "context")),
        ):
            if (each := getattr(self._settings, name)) is not None:
                own = {key: getattr(each, key) for key in keys}
                found[name] = {**model_identity(each.model, each.revision), "dtype": _DTYPE, **own}
        return found

    def run(self, examples: Sequence[Example]) -> list[Example]:
        """The examples with their candidates scored. ``rejected`` names the first filter that a
        candidate fails; both scores are there all the same. A score that is no number rejects it as
        not scored. Raises ModelError: a model cannot be loaded, or is not what it is needed for."""
        owners = [example for example in examples for _ in example.candidates]
        candidates = [candidate for example in examples for candidate in example.candidates]
        if candidates and self._settings.nli is not None:
            candidates = self._contradictory(self._settings.nli, owners, candidates)
        if candidates and self._settings.fluency is not None:
            candidates = self._fluent(self._settings.fluency, owners, candidates)
        scored = iter(candidates)
        best = self._settings.fluency.best if self._settings.fluency else None
        return [
            replace(each, candidates=_ranked(tuple(islice(scored, len(each.candidates))), best))
            for each in examples
        ]

    def _contradictory(
        self, nli: NliSettings, owners: Sequence[Example], candidates: Sequence[Candidate]
    ) -> list[Candidate]:
        from factor_gen.filter_models import Pair

        pairs = [
            Pair(context, owner.completion, candidate.text)
            for context, owner, candidate in zip(
                _contexts(owners, nli.context), owners, candidates, strict=True
            )
        ]
        return [
            _judged(
                each,
                "contradiction",
                score,
                nli.coreference if each.type == COREFERENCE else nli.threshold,
                NOT_CONTRADICTORY,
            )
            for each, score in zip(candidates, self._nli.contradictions(pairs), strict=True)
        ]

    def _fluent(
        self, fluency: FluencySettings, owners: Sequence[Example], candidates: Sequence[Candidate]
    ) -> list[Candidate]:
        texts = [
            *(owner.completion for owner in owners),
            *(candidate.text for candidate in candidates),
        ]
        scores = self._fluency.mean_logprobs(texts, _contexts(owners, fluency.context) * 2)
        return [
            _judged(each, "fluency", score - original, -fluency.margin, NOT_FLUENT)
            for each, original, score in zip(
                candidates, scores, scores[len(owners) :], strict=False
            )
        ]

    @cached_property
    def _nli(self) -> NliModel:
        from factor_gen.filter_models import NliModel

        nli = self._settings.nli or NliSettings()
        return NliModel(nli.model, nli.revision, nli.batch_size, self._device)

    @cached_property
    def _fluency(self) -> FluencyModel:
        from factor_gen.filter_models import FluencyModel

        fluency = self._settings.fluency or FluencySettings()
        return FluencyModel(fluency.model, fluency.revision, fluency.batch_size, self._device)


def _contexts(owners: Sequence[Example], words: int) -> list[str]:
    """The last ``words`` before each owner's completion, found once for each prefix."""
    found = {
        each: last_words(each, words) for each in dict.fromkeys(owner.prefix for owner in owners)
    }
    return [found[owner.prefix] for owner in owners]


def _ranked(candidates: tuple[Candidate, ...], best: int | None) -> tuple[Candidate, ...]:
    """The candidates, of which no more than the ``best`` most fluent of each type may be chosen;
    any number, if None."""
    if best is None:
        return candidates
    fluent = sorted(
        (each for each in candidates if not each.rejected), key=lambda each: -(each.fluency or 0)
    )
    kept = [
        each
        for place, each in enumerate(fluent)
        if sum(one.type == each.type for one in fluent[:place]) < best
    ]
    return tuple(
        each if each.rejected or each in kept else replace(each, rejected=LESS_FLUENT)
        for each in candidates
    )


def _judged(
    candidate: Candidate, name: str, score: float, threshold: float, reason: str
) -> Candidate:
    """The candidate with the score ``name``, rejected unless it is above ``threshold``; what
    rejected it before stays."""
    score = round(score, _DIGITS)
    rejected = "" if score > threshold else NOT_SCORED if math.isnan(score) else reason
    changes = {
        name: None if math.isnan(score) else score,
        "rejected": candidate.rejected or rejected,
    }
    return replace(candidate, **changes)  # type: ignore[arg-type]


def model_identity(name: str, revision: str | None) -> dict[str, Any]:
    """Of a model on the Hub its name and the commit that ``revision`` stands for; of a folder its
    last name and a hash of its files, so that the same checkpoint is the same wherever it lies.
    Raises ModelError: it is neither here nor can it be had."""
    folder = Path(name).expanduser()
    if folder.is_dir():
        return {"model": folder.resolve().name, "sha256": _folder_hash(folder)}
    from transformers import AutoConfig

    with loading(f"the model {name!r}", "or its folder, or turn the filter off with none"):
        config = AutoConfig.from_pretrained(name, revision=revision)
    return {"model": name, "revision": getattr(config, "_commit_hash", None) or revision}


def _folder_hash(folder: Path) -> str:
    digest = hashlib.sha256()
    for file in sorted(folder.iterdir()):
        if file.is_file():
            digest.update(f"{file.name}\0{sha256_of(file)}\0".encode())
    return digest.hexdigest()
