"""What a build would ask of models: questions, tokens and cost, before anything is sent.

``factor-gen build --dry-run`` prints it. The corpus is read and the first sentence of each document
is drawn, but no model is loaded.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from factor_gen.asking import AskingStage
from factor_gen.corpus import CorpusReader, describe_corpus, split_into_sentences
from factor_gen.generate.llm.generator import RESERVE
from factor_gen.records import Candidate, Example
from factor_gen.settings import BuildSettings
from factor_gen.stages import StageRunner, open_stage
from judges.answers import Prices
from lm_factuality.ground.errors import DataError

# The model that writes contradictions and the judge that checks them need about so many tokens of
# their answers for each contradiction.
_ANSWER_TOKENS_PER_CANDIDATE = 20


@dataclass
class StagePlan:
    """What a stage would ask a model about the first sentence of each document."""

    stage: str
    documents: int = 0
    """The documents that reach the stage."""

    questions: int = 0
    """The questions without a stored answer."""

    prompt_tokens: int = 0
    answer_tokens: int = 0
    cost: float | None = None
    """The cost in USD. None without prices."""


def plan_build(settings: BuildSettings, prices: Prices | None) -> list[StagePlan]:
    """Estimate what a build would ask of models; nothing is sent and no model is loaded.

    Args:
        settings: The settings of the build.
        prices: The prices of the models. None: those that the YAML of each judge has.

    Returns:
        The plan of each stage that asks a model, in order. Empty if none does.

    Raises:
        ConfigError: The settings cannot be used.
        DataError: The corpus cannot be read, or has no sentence to ask about.
    """
    with closing(StageRunner(settings, open_stage)) as runner:
        stages = _open_asking_stages(settings, runner)
        if not stages:
            return []

        plans = {name: StagePlan(name) for name in stages}
        for examples in _draw_first_sentences(settings, runner):
            for name, stage in stages.items():
                _add_questions(plans[name], stage, examples)
        if not any(plan.documents for plan in plans.values()):
            raise DataError(
                "no document of the corpus has a sentence to ask about; look at corpus and select"
            )

        for name, stage in stages.items():
            plan = plans[name]
            stage_prices = prices or stage.prices
            if stage_prices is not None:
                plan.cost = stage_prices.cost(plan.prompt_tokens, plan.answer_tokens)
    return list(plans.values())


def _open_asking_stages(settings: BuildSettings, runner: StageRunner) -> dict[str, AskingStage]:
    """Open the stages that ask a model: the one that writes candidates, and the one that checks."""
    stages: dict[str, AskingStage] = {}
    if settings.generate.generator == "llm":
        writer: Any = runner.open("generate")
        stages["generate"] = writer
    if settings.contradiction_check.kind == "judge":
        contradiction_stage: Any = runner.open("contradiction")
        stages["contradiction"] = contradiction_stage.check
    return stages


def _draw_first_sentences(settings: BuildSettings, runner: StageRunner) -> Iterator[list[Example]]:
    """Yield the documents of each shard that have a sentence to edit.

    No model has written candidates for them, but the check by a judge asks about candidates. So
    each document has made-up candidates, as many as a model may write.
    """
    corpus = settings.corpus
    commit = describe_corpus(settings, earlier_description={}).get("commit")
    documents = CorpusReader(settings, commit).read()
    documents = split_into_sentences(documents, corpus.unwrap, corpus.language)
    while shard := list(islice(documents, settings.shard)):
        examples = runner.run(("select", "types"), shard_number=0, examples=shard)
        yield [_imagine_candidates(example, settings) for example in examples if not example.unused]


def _imagine_candidates(example: Example, settings: BuildSettings) -> Example:
    """Return an example with made-up candidates, as many as a model may write.

    Example:
        ``The mill burned.`` has ``something mill burned.``, ``The something burned.`` and so on.
    """
    words = example.completion.split()
    candidates = []
    for number in range(settings.choose.contradictions + RESERVE):
        # After the last word and the last type, it is the turn of the first again.
        edited_words = words.copy()
        edited_words[number % len(words)] = "something"
        error_type = example.types[number % len(example.types)]
        candidates.append(Candidate(" ".join(edited_words), error_type, edit="", generator="llm"))
    return replace(example, candidates=tuple(candidates))


def _add_questions(plan: StagePlan, stage: AskingStage, examples: Sequence[Example]) -> None:
    """Add to a plan what a stage would ask about some examples."""
    questions = stage.plan(examples)
    num_candidates = sum(len(example.candidates) for example in examples)
    # Questions with a stored answer are not asked again. They may be about as many candidates each
    # as the other questions.
    unstored_share = questions.to_send / max(1, questions.to_send + questions.stored)
    plan.documents += len(examples)
    plan.questions += questions.to_send
    plan.prompt_tokens += questions.estimate.prompt_tokens
    plan.answer_tokens += round(unstored_share * num_candidates * _ANSWER_TOKENS_PER_CANDIDATE)
