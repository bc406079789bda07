"""The rows of a samples file, looked at one by one on their way to the scores."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from lm_factuality.factor.scoring import join
from lm_factuality.leaderboard.documents import Digest, Documents
from lm_factuality.leaderboard.refusals import Refusal
from lm_factuality.leaderboard.rules import TaskRules
from lm_factuality.results import TaskResult, read_samples

_OF_THE_MODEL = ("mean_logprob", "factor_acc")  # which lm_eval's hash of a document does not have
_SHOWN = 5


class Rows:
    """The rows of ``task`` as an iterable that is read once; ``refusals`` afterwards says what is wrong with them.

    Iterating raises DataError as ``read_samples`` does.
    """

    def __init__(self, task: TaskResult, rules: TaskRules, task_hash: str | None) -> None:
        self._task, self._rules, self._task_hash = task, rules, task_hash
        self._digest = Digest()
        self._hashes = hashlib.sha256()
        self._seen: set[Any] = set()
        self._twice: list[Any] = []
        self._strange: list[str] = []
        self._prompts: list[str] = []

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        if self._task.samples is None:
            return
        for sample in read_samples(self._task.samples):
            self._look(sample)
            yield sample

    def documents(self) -> Documents:
        """How many there are, and their digest."""
        return self._digest.documents()

    def refusals(self) -> list[Refusal]:
        """Everything that is wrong with the rows, once all were read."""
        return [*self._whole(), *self._unchanged()]

    def _whole(self) -> Iterator[Refusal]:
        rules, name = self._rules, self._task.task
        if self._twice:
            yield Refusal("ROWS_DUPLICATE", name, f"doc_id {_some(self._twice)} more than once; each row counts once")
        expected = set(range(rules.documents))
        if missing := sorted(expected - self._seen):
            found = f"{len(missing)} of {rules.documents} rows are missing, doc_id {_some(missing)}"
            yield Refusal("ROWS_MISSING", name, f"{found}; run the whole task again")
        if unknown := sorted(map(str, self._seen - expected)):
            yield Refusal("ROWS_MISSING", name, f"doc_id {_some(unknown)}: the data has no such row")
        found_documents = self.documents()
        if rules.digest is not None and not missing and found_documents.digest != rules.digest:
            yield Refusal(
                "WRONG_DATA", name,
                f"the documents in the samples are not the published ones (digest {found_documents.digest[:12]}, expected "
                f"{rules.digest[:12]}); run the task on the published data, as this version of the suite has it",
            )  # fmt: skip

    def _unchanged(self) -> Iterator[Refusal]:
        name = self._task.task
        if self._strange:
            yield Refusal("SAMPLES_CHANGED", name, f"{'; '.join(self._strange[:_SHOWN])}; run the task again")
        elif self._task_hash != self._hashes.hexdigest():
            yield Refusal("SAMPLES_CHANGED", name, "the results were made from other samples: task_hashes differs")
        if self._prompts:
            yield Refusal("CONFIG_DIFFERS", name, f"{self._prompts[0]}; leave out whatever changes prompts")

    def _look(self, sample: Mapping[str, Any]) -> None:
        doc_id, doc = sample["doc_id"], sample["doc"]
        if not isinstance(doc_id, int) or isinstance(doc_id, bool):
            self._strange.append(f"doc_id {str(doc_id)[:20]!r} is no whole number")
            return
        if doc_id in self._seen:
            self._twice.append(doc_id)
        self._seen.add(doc_id)
        self._digest.add(doc_id, doc)
        hashes = [str(sample.get(f"{each}_hash")) for each in ("doc", "prompt", "target")]
        self._hashes.update("".join(hashes).encode())
        prompt = _prompt(sample)
        own = {key: value for key, value in doc.items() if key not in _OF_THE_MODEL}
        texts = (json.dumps(own, indent=2, ensure_ascii=False), prompt, str(sample.get("target")))
        for what, text, found in zip(("doc", "prompt", "target"), texts, hashes, strict=True):
            if hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest() != found:
                self._strange.append(f"doc_id {doc_id}: its {what}_hash is not that of its {what}")
        if self._task.kind == "factor" and not self._prompts:
            self._compare_prompts(sample)

    def _compare_prompts(self, sample: Mapping[str, Any]) -> None:
        """What a model was asked must be the row itself: nothing before the prefix, nothing changed."""
        doc, window = sample["doc"], self._rules.metadata.get("window")
        expected = [[*join(doc["prefix"], choice), window] for choice in doc["choices"]]
        asked = [list(each.values()) for each in sample["arguments"].values()]
        if asked != expected:
            self._prompts.append(f"doc_id {sample['doc_id']}: the model was asked something else than the row says")


def _prompt(sample: Mapping[str, Any]) -> str:
    arguments = sample.get("arguments")
    first: Any = next(iter(arguments.values()), {}) if isinstance(arguments, dict) else {}
    return str(first.get("arg_0")) if isinstance(first, dict) else ""


def _some(values: list[Any]) -> str:
    shown = ", ".join(str(value)[:20] for value in values[:_SHOWN])
    return f"{shown} and {len(values) - _SHOWN} more" if len(values) > _SHOWN else shown
