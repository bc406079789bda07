"""What a build would ask of models: questions, tokens and cost, before anything is sent.

``factor-gen build --dry-run`` prints it. The corpus is read and the first sentence of each document
is drawn, but no model is loaded.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from typing import cast

from factor_gen.asking import AskingStage
from factor_gen.contradiction.stage import ContradictionStage
from factor_gen.corpus import describe_corpus, read_documents, split_into_sentences
from factor_gen.generate.llm.generator import RESERVE
from factor_gen.records import Candidate, Example
from factor_gen.settings import BuildSettings
from factor_gen.stages import StageRunner, open_stage
from judges.answers import Prices
from lm_factuality.ground.errors import DataError

# An answer about a contradiction, the writer's or the check's, has about so many tokens.
_TOKENS_OF_ANSWER = 20


@dataclass(frozen=True)
class StagePlan:
    """What a stage would ask a model about the first sentence of each document."""

    stage: str
    documents: int
    """The documents that reach the stage."""

    questions: int
    """The questions without a stored answer."""

    prompt_tokens: int
    answer_tokens: int
    cost: float | None
    """The cost in USD. None without prices."""


def plan_build(settings: BuildSettings, prices: Prices | None = None) -> list[StagePlan]:
    """Estimate what a build would ask of models; nothing is sent and no model is loaded.

    Args:
        settings: The settings of the build.
        prices: The prices of the models. None: those that the YAML of each judge has.

    Returns:
        The plan of each stage that asks a model, in order. Empty if none does.

    Raises:
        ConfigError: The settings cannot be used.
        DataError: The corpus cannot be read.
    """
    plans = []
    with closing(StageRunner(settings, open_stage)) as runner:
        stages: dict[str, AskingStage] = {}
        if settings.generate.generator == "llm":
            stages["generate"] = cast(AskingStage, runner.open("generate"))
        if settings.contradiction_check.kind == "judge":
            contradiction_stage = cast(ContradictionStage, runner.open("contradiction"))
            stages["contradiction"] = cast(AskingStage, contradiction_stage.check)
        totals: dict[str, Counter[str]] = {name: Counter() for name in stages}
        for examples in _draw_first_sentences(settings, runner):
            for name, stage in stages.items():
                totals[name].update(_count_questions(stage, examples))

        if not any(totals.values()):
            raise DataError(
                "no document of the corpus has a sentence to ask about; look at corpus and select"
            )
        for name, stage in stages.items():
            total = totals[name]
            known_prices = prices or stage.prices
            cost = None
            if known_prices is not None:
                cost = known_prices.cost(total["prompt_tokens"], total["answer_tokens"])
            plans.append(StagePlan(stage=name, cost=cost, **total))
    return plans


def _draw_first_sentences(settings: BuildSettings, runner: StageRunner) -> Iterator[list[Example]]:
    """Yield the documents of each shard that have a sentence to edit.

    Each has made-up candidates, as many as a model may write.
    """
    commit = describe_corpus(settings, {}).get("commit")
    documents = read_documents(settings, commit, Counter())
    corpus = settings.corpus
    drafts = split_into_sentences(documents, corpus.unwrap, corpus.language)
    while shard := list(islice(drafts, settings.shard)):
        examples = runner.run(("select", "types"), 0, shard)
        yield [_imagine_candidates(example, settings) for example in examples if not example.unused]


def _imagine_candidates(example: Example, settings: BuildSettings) -> Example:
    """Return an example with candidates that each replace a word of the completion by another."""
    words = example.completion.split()
    candidates = []
    for number in range(settings.choose.contradictions + RESERVE):
        index = number % len(words)
        text = " ".join([*words[:index], "something", *words[index + 1 :]])
        error_type = example.types[number % len(example.types)]
        candidates.append(Candidate(text, error_type, edit="", generator="llm"))
    return replace(example, candidates=tuple(candidates))


def _count_questions(stage: AskingStage, examples: Sequence[Example]) -> dict[str, int]:
    """Count the documents, questions and tokens that a stage would ask about some examples."""
    plan = stage.plan(examples)
    num_candidates = sum(len(example.candidates) for example in examples)
    # Questions with a stored answer get no new one.
    share = plan.to_send / max(1, plan.to_send + plan.stored)
    return {
        "documents": len(examples),
        "questions": plan.to_send,
        "prompt_tokens": plan.estimate.prompt_tokens,
        "answer_tokens": round(share * num_candidates * _TOKENS_OF_ANSWER),
    }
