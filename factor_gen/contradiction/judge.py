"""The check by a judge, which is asked whether both sentences can be true at the same time.

One question covers several candidates of a sentence. It shows only their changes, since the rest of
each sentence is that of the completion.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from factor_gen.asking import AskingStage, load_judge_with_model, model_use_of
from factor_gen.contradiction.changes import find_changes
from factor_gen.contradiction.stage import NOT_CONTRADICTORY, open_candidates, with_checked
from factor_gen.filters import NOT_SCORED
from factor_gen.records import Candidate, Example, add_model_use, last_words, take_turns
from factor_gen.settings import JudgeSettings
from judges.judge import Judge
from judges.templates import Prompts
from judges.typed import ParsedReply, Reply

PROMPTS_FOLDER = Path(__file__).resolve().parent / "prompts"
PROMPT = "exclude"
NOT_ASKED = "not checked, as others of the sentence were"
IMPLAUSIBLE = "nobody would write it"
# Why a candidate with this verdict of the judge is rejected; empty if it is not rejected.
_REASON_OF_VERDICT = {
    "excludes": "",  # both sentences cannot be true
    "both": NOT_CONTRADICTORY,  # both sentences can be true
    "odd": IMPLAUSIBLE,  # the new sentence makes no sense
}
# An answer has so many tokens beside its decisions, and so many for each of them.
_ANSWER_TOKENS = 50
_DECISION_TOKENS = 60


# The docstrings of the two types below are part of the JSON schema that a judge is asked with.
class Decision(Reply):
    """Whether a sentence can be true both before and after a change, and makes sense after it."""

    number: int
    words: str
    verdict: Literal["excludes", "both", "odd"]


class Decisions(Reply):
    """What a judge decided about each change of a sentence."""

    changes: list[Decision]


class JudgeCheck(AskingStage):
    """The check that asks a judge about the candidates of each sentence."""

    def __init__(
        self,
        settings: JudgeSettings,
        judge: str | None,
        folder: Path,
        store: Path | None = None,
        row_size: int = 1,
    ) -> None:
        """Read the judge's YAML. The model is opened when it is first needed.

        Args:
            settings: The settings of the check.
            judge: The name of the judge, or its YAML.
            folder: The folder from which the path of the YAML starts.
            store: Where the answers are kept. None: in the store that all judges share.
            row_size: How many contradictions a row has. Nothing is asked about fewer candidates.

        Raises:
            ConfigError: The YAML cannot be used, or the judge has no model that writes text.
        """
        config = load_judge_with_model(judge, folder, "contradiction")
        super().__init__(config, Prompts({}, PROMPTS_FOLDER), store)
        self._settings = settings
        self._row_size = row_size

    @property
    def fingerprint(self) -> Mapping[str, Any]:
        """Everything that the decisions depend on, apart from the documents."""
        return {
            "kind": "judge",
            **self._fingerprint_of_judge(PROMPT),
            "candidates": self._settings.candidates,
            "row size": self._row_size,
            "context": self._settings.context,
        }

    def check(self, examples: Sequence[Example]) -> list[Example]:
        """Reject the candidates that can be true together with the completion.

        Args:
            examples: Documents with their candidates.

        Returns:
            The documents. Candidates beyond those that the judge was asked about are rejected, too.
            Those of a document that has too few for a row stay as they are.

        Raises:
            BackendDownError: The model cannot be reached, or gave no answer to some questions.
                Answers received so far stay in the store.
        """
        replies = self._replies_by_document(
            [example for example in examples if len(open_candidates(example)) >= self._row_size]
        )
        # There is one reply about each document that the judge was asked about.
        return [
            self._record_decisions(example, *replies[example.doc_id])
            if example.doc_id in replies
            else example
            for example in examples
        ]

    def _ask(self, judge: Judge, examples: Sequence[Example]) -> list[list[ParsedReply[Decisions]]]:
        """Ask a judge about the candidates of each example.

        Args:
            judge: The judge.
            examples: Examples with candidates that nothing has rejected.

        Returns:
            For each example its only reply, in a list.
        """
        variables = [
            self._template_variables(example, self._choose_candidates(example))
            for example in examples
        ]
        max_tokens = _ANSWER_TOKENS + _DECISION_TOKENS * self._settings.candidates
        return judge.ask_typed(
            PROMPT,
            Decisions,
            variables,
            "contradictory?",
            check=_find_problem,
            samples=1,
            max_tokens=max(max_tokens, self._config.decoding.max_tokens),
        )

    def _choose_candidates(self, example: Example) -> list[Candidate]:
        """Choose the candidates of a document that the judge is asked about.

        Args:
            example: The document.

        Returns:
            At most as many candidates as the settings allow. The error types take turns, so that
            each of them is among the first.
        """
        by_type = defaultdict(list)
        for candidate in open_candidates(example):
            by_type[candidate.type].append(candidate)
        return take_turns(by_type.values())[: self._settings.candidates]

    def _record_decisions(self, example: Example, reply: ParsedReply[Decisions]) -> Example:
        """Return a document with the decisions about its candidates, and with the judge's use.

        Candidates that the judge was not asked about are rejected too, because nobody knows whether
        they contradict the completion.
        """
        candidates_in_question = self._choose_candidates(example)
        reasons = _reasons_to_reject(reply.value, len(candidates_in_question))
        reason_of_candidate = dict(zip(candidates_in_question, reasons, strict=True))
        checked = {}
        for candidate in open_candidates(example):
            reason = reason_of_candidate.get(candidate, NOT_ASKED)
            checked[candidate] = replace(candidate, rejected=reason)
        use = add_model_use(example.model_use, {"contradiction": model_use_of([reply])})
        return replace(with_checked(example, checked), model_use=use)

    def _template_variables(
        self, example: Example, candidates: Sequence[Candidate]
    ) -> dict[str, object]:
        """Return the variables of the prompt about some candidates of a document."""
        context = last_words(example.prefix, self._settings.context)
        return {
            # The context becomes one line of the prompt.
            "context": " ".join(context.split()),
            "completion": example.completion,
            "changes": [
                show_changes(example.completion, candidate.text) for candidate in candidates
            ],
        }


def show_changes(sentence: str, edited: str) -> str:
    """Show the changes of a sentence, each with a word on both sides.

    Example:
        ``sold [200 → 300] boats``; several changes are separated by ``; ``.
    """
    parts = []
    for change in find_changes(sentence, edited):
        before = change.before.split()[-1:]
        after = change.after.split()[:1]
        parts.append(" ".join([*before, f"[{change.old} → {change.new}]", *after]))
    return "; ".join(parts)


def _find_problem(reply: Decisions, subject: Mapping[str, Any]) -> str:
    """Return what is wrong with the numbers of a reply; an empty text if nothing is."""
    numbers = [decision.number for decision in reply.changes]
    expected = list(range(1, len(subject["changes"]) + 1))
    if sorted(numbers) == expected:
        return ""
    return f"numbers {numbers}; expected each of {expected} once"


def _reasons_to_reject(reply: Decisions | None, num_candidates: int) -> list[str]:
    """Return why each candidate that a judge was asked about is rejected.

    Args:
        reply: The reply of the judge, with a decision for each candidate. None if it could not be
            read.
        num_candidates: The number of candidates.

    Returns:
        The reasons in the order of the candidates; an empty text if a candidate is not rejected.
    """
    if reply is None:
        return [NOT_SCORED] * num_candidates
    # The numbers of the decisions are those of the candidates in the question.
    decisions = sorted(reply.changes, key=lambda decision: decision.number)
    return [_REASON_OF_VERDICT[decision.verdict] for decision in decisions]
