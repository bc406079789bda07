"""The stage ``filter`` (section 3.2.3): score every candidate, and say which may not be chosen."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from factor_gen.records import COREFERENCE, Candidate, Example, last_words
from factor_gen.settings import OFF, FilterSettings, FluencySettings, NliSettings
from judges.backends.lm_eval_model import fingerprint_checkpoint
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
        models: dict[str, Any] = {}
        for name, section in (("nli", self._settings.nli), ("fluency", self._settings.fluency)):
            models[name] = OFF
            if section is not None:
                identity = model_identity(section.model, section.revision)
                models[name] = {**asdict(section), **identity, "dtype": _DTYPE}
                del models[name]["batch_size"]
        return models

    def run(self, examples: Sequence[Example]) -> list[Example]:
        """Score the candidates of the examples.

        ``rejected`` names the first filter that a candidate fails. A candidate without a score
        fails.

        Raises:
            ModelError: A model cannot be loaded, or is not what it is needed for.
        """
        checked = [example for example in examples if example.candidates]
        if checked and self._settings.nli is not None:
            checked = self._check_contradiction(self._settings.nli, checked)
        if checked and self._settings.fluency is not None:
            checked = self._check_fluency(self._settings.fluency, checked)
        results = iter(checked)
        return [next(results) if example.candidates else example for example in examples]

    def _check_contradiction(self, nli: NliSettings, examples: Sequence[Example]) -> list[Example]:
        from factor_gen.filter_models import ContradictionPair

        pairs = []
        for example in examples:
            context = last_words(example.prefix, nli.context)
            for candidate in example.candidates:
                pairs.append(ContradictionPair(context, example.completion, candidate.text))

        def threshold_of(candidate: Candidate) -> float:
            return nli.coreference if candidate.type == COREFERENCE else nli.threshold

        scores = self._nli.contradictions(pairs)
        return _with_scores(examples, scores, "contradiction", threshold_of, NOT_CONTRADICTORY)

    def _check_fluency(
        self, fluency: FluencySettings, examples: Sequence[Example]
    ) -> list[Example]:
        texts = []
        contexts = []
        for example in examples:
            of_example = [example.completion, *(candidate.text for candidate in example.candidates)]
            texts += of_example
            contexts += [last_words(example.prefix, fluency.context)] * len(of_example)
        means = iter(self._fluency.mean_logprobs(texts, contexts))
        scores = []
        for example in examples:
            original = next(means)
            scores += [next(means) - original for _ in example.candidates]
        checked = _with_scores(examples, scores, "fluency", lambda _: -fluency.margin, NOT_FLUENT)
        if fluency.best is None:
            return checked
        return [_keep_most_fluent(example, fluency.best) for example in checked]

    @cached_property
    def _nli(self) -> NliModel:
        from factor_gen.filter_models import NliModel

        return NliModel(self._settings.nli or NliSettings())

    @cached_property
    def _fluency(self) -> FluencyModel:
        from factor_gen.filter_models import FluencyModel

        return FluencyModel(self._settings.fluency or FluencySettings())


def _with_scores(
    examples: Sequence[Example],
    scores: Iterable[float],
    score_name: str,
    threshold_of: Callable[[Candidate], float],
    reason: str,
) -> list[Example]:
    """Give candidates their scores, and reject those whose score is too low.

    What rejected a candidate before stays the reason.
    """
    remaining = iter(scores)
    results = []
    for example in examples:
        candidates = []
        for candidate in example.candidates:
            score = round(next(remaining), _DIGITS)
            is_scored = not math.isnan(score)
            rejected = candidate.rejected
            if not rejected and not score > threshold_of(candidate):
                rejected = reason if is_scored else NOT_SCORED
            changes: dict[str, Any] = {score_name: score if is_scored else None}
            candidates.append(replace(candidate, rejected=rejected, **changes))
        results.append(replace(example, candidates=tuple(candidates)))
    return results


def _keep_most_fluent(example: Example, best: int) -> Example:
    """Reject the candidates that are less fluent than the ``best`` of their type."""
    kept: Counter[str] = Counter()
    candidates = list(example.candidates)
    order = sorted(range(len(candidates)), key=lambda place: -(candidates[place].fluency or 0))
    for place in order:
        candidate = candidates[place]
        if candidate.rejected:
            continue
        kept[candidate.type] += 1
        if kept[candidate.type] > best:
            candidates[place] = replace(candidate, rejected=LESS_FLUENT)
    return replace(example, candidates=tuple(candidates))


def model_identity(name: str, revision: str | None) -> dict[str, Any]:
    """Identify a model by its content.

    Returns:
        For a folder, its last name with a hash of its files, so that the same checkpoint is the
        same wherever it lies. For a model of the Hub, its name and the commit of ``revision``.

    Raises:
        ModelError: It is neither here nor can it be had.
    """
    identity = fingerprint_checkpoint(name)
    if identity != name:
        return {"model": identity}
    from transformers import PreTrainedConfig

    with loading(f"the model {name!r}", "or its folder, or turn the filter off with none"):
        config = PreTrainedConfig.get_config_dict(name, revision=revision)[0]
    return {"model": name, "revision": config.get("_commit_hash") or revision}
