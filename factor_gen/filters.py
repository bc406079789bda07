"""The stage ``filter`` (section 3.2.3): score every candidate, and say which may not be chosen."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from factor_gen.records import COREFERENCE, Candidate, Example, last_words
from factor_gen.settings import OFF, FilterSettings, FluencySettings, NliSettings
from lm_factuality.ground.files import sha256_of
from lm_factuality.ground.packages import loading

if TYPE_CHECKING:
    from factor_gen.filter_models import FluencyModel, NliModel

NOT_CONTRADICTORY = "not contradictory"
NOT_FLUENT = "not fluent"
NOT_SCORED = "not scored"
LESS_FLUENT = "less fluent than others of its type"
_DIGITS = 4  # of a score: the same sentence in another batch differs in the sixth
_DTYPE = "float32"  # what the models compute in: see factor_gen.filter_models


class Filters:
    """The NLI filter and the fluency filter; either may be off.

    Their models are loaded when they are first needed.
    """

    name = "filter"

    def __init__(self, settings: FilterSettings) -> None:
        self._settings = settings

    @cached_property
    def fingerprint(self) -> Mapping[str, Any]:
        """The models by commit or content, the thresholds, and what the models compute in.

        Raises:
            ModelError: A model cannot be had.
        """
        fingerprint: dict[str, Any] = {}
        for name, section in (("nli", self._settings.nli), ("fluency", self._settings.fluency)):
            if section is None:
                fingerprint[name] = OFF
                continue
            identity = model_identity(section.model, section.revision)
            fingerprint[name] = {**asdict(section), **identity, "dtype": _DTYPE}
            del fingerprint[name]["batch_size"]
        return fingerprint

    def run(self, examples: Sequence[Example]) -> list[Example]:
        """Score the candidates of the examples.

        ``rejected`` names the first filter that a candidate fails. A candidate without a score
        fails.

        Raises:
            ModelError: A model cannot be loaded, or is not what it is needed for.
        """
        nli = self._settings.nli
        fluency = self._settings.fluency
        checked = [example for example in examples if example.candidates]
        if checked and nli is not None:
            checked = self._check_contradiction(nli, checked)
        if checked and fluency is not None:
            checked = self._check_fluency(fluency, checked)
        results = iter(checked)
        return [next(results) if example.candidates else example for example in examples]

    def _check_contradiction(self, nli: NliSettings, examples: Sequence[Example]) -> list[Example]:
        from factor_gen.filter_models import ContradictionPair

        pairs = []
        for example in examples:
            context = last_words(example.prefix, nli.context)
            for candidate in example.candidates:
                pairs.append(ContradictionPair(context, example.completion, candidate.text))
        scores = iter(self._nli.contradictions(pairs))
        results = []
        for example in examples:
            candidates = []
            for candidate in example.candidates:
                score = _rounded(next(scores))
                is_coreference = candidate.type == COREFERENCE
                threshold = nli.coreference if is_coreference else nli.threshold
                reason = _rejection(candidate, score, threshold, NOT_CONTRADICTORY)
                candidates.append(replace(candidate, contradiction=score, rejected=reason))
            results.append(replace(example, candidates=tuple(candidates)))
        return results

    def _check_fluency(
        self, fluency: FluencySettings, examples: Sequence[Example]
    ) -> list[Example]:
        texts = []
        contexts = []
        for example in examples:
            of_example = [example.completion, *(candidate.text for candidate in example.candidates)]
            texts += of_example
            contexts += [last_words(example.prefix, fluency.context)] * len(of_example)
        scores = iter(self._fluency.mean_logprobs(texts, contexts))
        results = []
        for example in examples:
            original = next(scores)
            candidates = []
            for candidate in example.candidates:
                score = _rounded(next(scores) - original)
                reason = _rejection(candidate, score, -fluency.margin, NOT_FLUENT)
                candidates.append(replace(candidate, fluency=score, rejected=reason))
            if fluency.best is not None:
                candidates = _keep_most_fluent(candidates, fluency.best)
            results.append(replace(example, candidates=tuple(candidates)))
        return results

    @cached_property
    def _nli(self) -> NliModel:
        from factor_gen.filter_models import NliModel

        return NliModel(self._settings.nli or NliSettings())

    @cached_property
    def _fluency(self) -> FluencyModel:
        from factor_gen.filter_models import FluencyModel

        return FluencyModel(self._settings.fluency or FluencySettings())


def _rounded(score: float) -> float | None:
    return None if math.isnan(score) else round(score, _DIGITS)


def _rejection(candidate: Candidate, score: float | None, threshold: float, reason: str) -> str:
    """Return why a candidate may not be chosen; what rejected it before stays the reason."""
    if candidate.rejected or (score is not None and score > threshold):
        return candidate.rejected
    return NOT_SCORED if score is None else reason


def _keep_most_fluent(candidates: Sequence[Candidate], best: int) -> list[Candidate]:
    """Reject the candidates that are less fluent than the ``best`` of their type."""
    kept: Counter[str] = Counter()
    results = list(candidates)
    for place in sorted(range(len(results)), key=lambda place: -(results[place].fluency or 0)):
        candidate = candidates[place]
        if candidate.rejected:
            continue
        kept[candidate.type] += 1
        if kept[candidate.type] > best:
            results[place] = replace(candidate, rejected=LESS_FLUENT)
    return results


def model_identity(name: str, revision: str | None) -> dict[str, Any]:
    """Identify a model by its content.

    Returns:
        For a folder, its last name and a hash of its files, so that the same checkpoint is the
        same wherever it lies. For a model of the Hub, its name and the commit of ``revision``.

    Raises:
        ModelError: It is neither here nor can it be had.
    """
    folder = Path(name).expanduser()
    if folder.is_dir():
        digest = hashlib.sha256()
        for file in sorted(folder.iterdir()):
            if file.is_file():
                digest.update(f"{file.name}\0{sha256_of(file)}\0".encode())
        return {"model": folder.resolve().name, "sha256": digest.hexdigest()}
    from transformers import AutoConfig

    with loading(f"the model {name!r}", "or its folder, or turn the filter off with none"):
        config = AutoConfig.from_pretrained(name, revision=revision)
    return {"model": name, "revision": getattr(config, "_commit_hash", None) or revision}
