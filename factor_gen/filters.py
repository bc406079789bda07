"""The stage ``filter`` (section 3.2.3), which scores every contradiction and rejects bad ones.

`factor_gen.stages.open_stage` opens it. The models are in :mod:`factor_gen.filter_models`, which is
imported only when a filter is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from factor_gen.language import ENGLISH
from factor_gen.records import Candidate, Example, last_words
from factor_gen.settings import OFF, FilterSettings, FluencySettings, NliSettings
from judges.backends.lm_eval_model import fingerprint_checkpoint
from lm_factuality.ground.groups import split_into_groups
from lm_factuality.ground.packages import loading

if TYPE_CHECKING:
    from factor_gen.filter_models import FluencyModel
    from factor_gen.fluency import Fluency

NOT_FLUENT = "not fluent"
NOT_SCORED = "not scored"

# In another batch, the score of the same sentence differs in the sixth digit.
DIGITS = 4
# The models compute in this type: see factor_gen.filter_models.
_DTYPE = "float32"


@dataclass(eq=False, repr=False)
class FilterStage:
    """The stage that rejects contradictions that are less likely than the completion.

    The model is loaded when it is needed.
    """

    name = "filter"

    settings: FilterSettings
    """The settings of the filters. A filter whose settings are None is off."""

    language: str = ENGLISH
    """The language of the corpus as an ISO 639-1 code."""

    @cached_property
    def fingerprint(self) -> Mapping[str, Any]:
        """The models, thresholds and type of numbers that decide which candidates are rejected.

        Models are identified by the commit or by a hash of their files.

        Raises:
            ModelError: A model is not available.
        """
        fluency = self.settings.fluency
        return {"fluency": OFF if fluency is None else model_fingerprint(fluency)}

    def run(self, examples: Sequence[Example]) -> list[Example]:
        """Set the fluency of all candidates, and reject those that an edit has broken.

        A candidate that cannot be scored is rejected too.

        Args:
            examples: Examples with the candidates that were generated for them.

        Returns:
            One example for each of ``examples``, in the same order.

        Raises:
            ModelError: A model cannot be loaded, or is of the wrong kind.
        """
        limits = self.settings.fluency
        # A shard without candidates should not load the model.
        if limits is None or not any(example.candidates for example in examples):
            return list(examples)

        # This module imports torch, which a filter that is off does not need.
        from factor_gen.fluency import Comparison, measure_fluency

        comparisons = []
        for example in examples:
            context = last_words(example.prefix, limits.context)
            for candidate in example.candidates:
                comparisons.append(Comparison(context, example.completion, candidate.text))
        measures = measure_fluency(self._fluency_model, comparisons, self.language)
        candidates = chain.from_iterable(example.candidates for example in examples)
        checked = [
            _check_candidate(candidate, measure, limits)
            for candidate, measure in zip(candidates, measures, strict=True)
        ]
        checked_groups = split_into_groups(
            checked, [len(example.candidates) for example in examples]
        )
        return [
            replace(example, candidates=tuple(group))
            for example, group in zip(examples, checked_groups, strict=True)
        ]

    @cached_property
    def _fluency_model(self) -> FluencyModel:
        """The language model of the fluency filter."""
        from factor_gen.filter_models import FluencyModel

        return FluencyModel(self.settings.fluency or FluencySettings())


def _check_candidate(
    candidate: Candidate, measure: Fluency | None, limits: FluencySettings
) -> Candidate:
    """Set the fluency of a contradiction, and reject it if it is below a limit.

    Args:
        candidate: The contradiction. If it was rejected before, it keeps that reason.
        measure: How its edit changes the likelihood of the sentence. None if it has no score.
        limits: The limits in nats.

    Returns:
        A copy. Its fluency is how far, in nats, it is above the limit that it is nearest to.
    """
    if measure is None:
        return replace(candidate, rejected=candidate.rejected or NOT_SCORED)
    # The change is negative if the edit makes the words after it less likely.
    margin_of_drop = limits.drop + measure.change
    margin_of_form = limits.form - measure.better_form
    score = min(margin_of_drop, margin_of_form)
    # No limit allows a doubled word.
    if measure.doubles_word:
        score = min(score, -1.0)
    score = round(score, DIGITS)
    reason = "" if score > 0 else NOT_FLUENT
    return replace(candidate, fluency=score, rejected=candidate.rejected or reason)


def model_fingerprint(settings: NliSettings | FluencySettings) -> dict[str, Any]:
    """Return every setting that can change what a model rejects, as a JSON object.

    Args:
        settings: The settings of the model.

    Returns:
        The settings, with the identity of the model.
    """
    identity = model_identity(settings.model, settings.revision)
    fingerprint = {**asdict(settings), **identity, "dtype": _DTYPE}
    # The size of a batch is left out: since the models compute in float32, it changes only the last
    # digits of a score, which are rounded away.
    del fingerprint["batch_size"]
    return fingerprint


def model_identity(name: str, revision: str | None) -> dict[str, Any]:
    """Identify a model by its content.

    Args:
        name: A local folder, or the name of a model on the Hub.
        revision: The branch, tag or commit of a model on the Hub. None: the default branch.

    Returns:
        For a folder, its name with a hash of its files, so that the same checkpoint has the same
        identity in every place. For a model on the Hub, its name and the commit of ``revision``.

    Raises:
        ModelError: The model is neither on this machine nor available on the Hub.
    """
    # A folder is identified by its files, for instance as "gpt2@1f3870be274f6c49".
    if Path(name).expanduser().exists():
        return {"model": fingerprint_checkpoint(name)}

    from transformers import PreTrainedConfig

    # The configuration is a small file, with which the commit of the model is found.
    with loading(f"the model {name!r}", "or its folder, or turn the filter off with none"):
        config = PreTrainedConfig.get_config_dict(name, revision=revision)[0]
    return {"model": name, "revision": config.get("_commit_hash") or revision}
