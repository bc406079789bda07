"""The llm generator, a stage that asks a model for contradictions, in one question per sentence.

It asks about all sentences of a shard at once, and each answer is on disk before it is used.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from factor_gen.asking import AskingStage, load_judge_with_model, model_use_of
from factor_gen.generate.llm.edits import (
    REFUSED,
    REPEATED,
    Contradictions,
    candidates_of_reply,
)
from factor_gen.language import ENGLISH
from factor_gen.records import (
    Example,
    add_model_use,
    last_words,
)
from factor_gen.settings import GenerateSettings
from judges.judge import Judge
from judges.templates import Prompts
from judges.typed import ParsedReply

_PROMPT = "edits"
PROMPTS_FOLDER = Path(__file__).resolve().parent / "prompts"
# The version of the code that makes the edits. Raise it if it makes others of the same answers.
_VERSION = 6
# A question asks for so many contradictions more than a row has, since the check rejects some.
RESERVE = 3
# An answer has so many tokens beside its contradictions, and so many for each of them.
_ANSWER_TOKENS = 100
_CONTRADICTION_TOKENS = 50


class LLMGenerator(AskingStage):
    """The stage that sets the candidates of each example with the model of a judge.

    Answers are kept in the answer store, so that a killed build does not ask for them again. The
    judge's YAML alone decides how the model draws its answers; the seed of the build does not.
    """

    name = "generate"

    def __init__(
        self,
        settings: GenerateSettings,
        folder: Path,
        store: Path | None = None,
        language: str = ENGLISH,
        row_size: int = 3,
    ) -> None:
        """Read the judge's YAML and the prompt. The model is opened when it is first needed.

        Args:
            settings: The settings of the stage.
            folder: The folder from which relative paths of the settings start.
            store: Where the answers are kept. None: in the store that all judges share.
            language: The ISO 639-1 code of the texts' language.
            row_size: How many contradictions a row has.

        Raises:
            ConfigError: No judge is named, or its YAML or the prompt cannot be used.
        """
        config = load_judge_with_model(settings.judge, folder, "generate")
        # The judge's YAML may replace prompts of benchmarks too, which this stage does not ask.
        overrides = {name: path for name, path in config.prompts.items() if name == _PROMPT}
        super().__init__(config, Prompts(overrides, PROMPTS_FOLDER), store)
        self._settings = settings
        self._num_wanted = row_size + RESERVE
        # The prompt is in English. It names any other language that it asks about.
        self._named_language = "" if language == ENGLISH else language

    @property
    def fingerprint(self) -> Mapping[str, object]:
        """Everything that the candidates depend on, apart from the documents."""
        return {
            "generator": "llm",
            "rules": _VERSION,
            **self._fingerprint_of_judge(_PROMPT),
            "samples": self._config.samples,
            "per_type": self._settings.per_type,
            "wanted": self._num_wanted,
            "context": self._settings.context,
        }

    def run(self, examples: Sequence[Example]) -> list[Example]:
        """Return the examples with candidates, i.e. the contradictions in the model's replies.

        Args:
            examples: Documents with their completions. Unused ones are returned as they are.

        Returns:
            One example for each of ``examples``, in the same order. Contradictions that cannot be
            used are counted by reason.

        Raises:
            BackendDownError: The model cannot be reached, or gave no answer to some requests.
                Answers received so far stay in the store.
            ConfigError: A prompt of the user cannot be rendered.
        """
        replies = self._replies_by_document([example for example in examples if not example.unused])
        return [
            example if example.unused else self._add_candidates(example, replies[example.doc_id])
            for example in examples
        ]

    def _ask(
        self, judge: Judge, examples: Sequence[Example]
    ) -> list[list[ParsedReply[Contradictions]]]:
        """Ask a model for contradictions of each example.

        Args:
            judge: The judge whose model is asked.
            examples: Examples that are in use.

        Returns:
            For each example the replies, one for each sample.
        """
        # A model may write more than it is asked for. A reply holds the edits alone, so that its
        # length does not depend on the sentence.
        max_tokens = _ANSWER_TOKENS + _CONTRADICTION_TOKENS * 2 * self._num_wanted
        return judge.ask_typed(
            _PROMPT,
            Contradictions,
            [self._template_variables(example) for example in examples],
            "contradictions",
            max_tokens=max(max_tokens, self._config.decoding.max_tokens),
        )

    def _template_variables(self, example: Example) -> dict[str, object]:
        """Return the variables that the prompt about an example is rendered with."""
        return {
            "context": last_words(example.prefix, self._settings.context).strip(),
            "completion": example.completion,
            "types": example.types,
            "wanted": self._num_wanted,
            "per_type": self._settings.per_type,
            "language": self._named_language,
        }

    def _add_candidates(
        self, example: Example, replies: Sequence[ParsedReply[Contradictions]]
    ) -> Example:
        """Return an example with the candidates of all its replies.

        Args:
            example: A document that no stage has given up so far.
            replies: The replies about it, one for each sample.

        Returns:
            A copy of the example, which is dropped if no candidate could be read.
        """
        # How many contradictions of the model could not be used, by reason.
        lost = Counter(example.lost)
        candidates = {}
        for reply in replies:
            parsed = candidates_of_reply(reply, example, self._settings.per_type)
            lost.update(parsed.lost)
            for candidate in parsed.candidates:
                if candidate.text in candidates:
                    lost[REPEATED] += 1
                else:
                    candidates[candidate.text] = candidate

        # An example without candidates gives no row of the benchmark.
        if not candidates:
            reason = "the model made no contradiction that can be used"
            # All contradictions were lost for the same reason.
            if set(lost) == {REFUSED}:
                reason = "the server refused all requests"
            example = example.drop(self.name, reason)
        return replace(
            example,
            lost=dict(sorted(lost.items())),
            candidates=tuple(candidates.values()),
            model_use=add_model_use(example.model_use, {self.name: model_use_of(replies)}),
        )
