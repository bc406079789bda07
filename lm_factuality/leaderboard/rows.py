"""The rows of a task: each is looked at once, on its way to the scores that are recomputed; and a
model's own files where they are on this machine. Nothing is downloaded, and no code of a model's
own is run."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from lm_factuality.benchmarks import find_benchmark
from lm_factuality.benchmarks.audit import Audit, Expected
from lm_factuality.benchmarks.certifiable import mapping
from lm_factuality.ground.errors import ConfigError, listed
from lm_factuality.ground.files import sha256_of
from lm_factuality.harness.outputs import TaskResult, number_of
from lm_factuality.harness.samples import read_every_sample, read_samples
from lm_factuality.leaderboard.documents import Digest, check_published
from lm_factuality.leaderboard.judges import can_ask_again, check_again
from lm_factuality.leaderboard.rules import TaskRules
from lm_factuality.leaderboard.runs import Run, thinking_tokens_of, without_folder
from lm_factuality.leaderboard.submission import Refusal, SubmittedModel
from lm_factuality.results.recompute import UNREADABLE, differences, recompute

_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf")


def weights_hash(folder: Path) -> str:
    """``sha256:`` and the hash of the names and hashes of a local checkpoint's weights. Raises
    ConfigError: there are none."""
    weights = sorted(path for path in folder.iterdir() if path.suffix in _WEIGHTS)
    if not weights:
        raise ConfigError(f"{folder}: no weights here ({', '.join(_WEIGHTS)})")
    lines = "".join(f"{sha256_of(path)}  {path.name}\n" for path in weights)
    return f"sha256:{hashlib.sha256(lines.encode()).hexdigest()}"


@cache
def token_counter(path: str, name: str, revision: str) -> Callable[[str], int] | None:
    """How many tokens a text has by a model's tokenizer: in the folder ``path``, if its weights
    have the hash ``revision``, or in the Hub's cache of ``name`` at that commit. None where it is
    not on this machine."""
    is_local = revision.startswith("sha256:")
    try:
        if is_local and (not Path(path).is_dir() or weights_hash(Path(path)) != revision):
            return None
        from transformers import AutoTokenizer  # takes seconds

        where, commit = (path, None) if is_local else (name, revision)
        tokenizer = AutoTokenizer.from_pretrained(
            where, revision=commit, local_files_only=True, trust_remote_code=False
        )
    except (ConfigError, OSError, ValueError, ImportError, KeyError):
        return None
    return lru_cache(maxsize=64)(
        lambda text: len(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])
    )


_SHOWN = 5


def answers_of(task: TaskResult) -> str:
    """A hash of what the model answered to each document, by which the same answers are known under
    another name."""
    rows = read_samples(task.samples) if task.samples else ()
    found = sorted(
        (str(row["doc_id"]), json.dumps(row.get("resps"), sort_keys=True)) for row in rows
    )
    return hashlib.sha256(json.dumps(found).encode()).hexdigest()


def check_rows(
    folder: Path,
    model: SubmittedModel,
    run: Run,
    task: TaskResult,
    rules: TaskRules,
    asks_again: bool = True,
) -> Iterator[Refusal]:
    """What is wrong with the samples of a task, and which of its scores do not follow from them.
    Where all is in order, and ``asks_again``, a judge that can be is asked again."""
    benchmark = find_benchmark(task.kind)
    if task.samples is None:
        yield Refusal(
            "FILE_MISSING", task.task, "its samples are not beside its results; pack again"
        )
        return
    if benchmark is None:
        sentence = (
            f"is of the benchmark {task.kind[:40]!r}, which is not installed here; install its"
            " package"
        )
        yield Refusal("SAMPLES_INVALID", task.task, sentence)
        return
    decoding, thinking = (rules.generation_kwargs, rules.repeats), thinking_tokens_of(task)
    is_own = not {"tokenizer", "subfolder", "gguf_file"} & set(run.arguments)
    count = token_counter(run.file.model, model.name, model.revision) if is_own else None
    longest = number_of(run.file.content.get("max_length"))
    window = None if longest is None else int(longest)
    expected = Expected(rules.metadata, *decoding, window, run.has_template, thinking, count)
    rows = _Rows(task.samples, benchmark.checks.audit(expected), benchmark.data.model_outputs)
    try:
        samples = list(rows.read()) if asks_again and can_ask_again(task) else rows.read()
        wrong = differences(task, recompute(task, samples))
    except UNREADABLE as error:
        yield Refusal("SAMPLES_INVALID", task.task, without_folder(error, folder))
        return
    found = [
        *rows.incomplete(rules),
        *rows.changed(rules, mapping(run.file.content.get("task_hashes")).get(task.task)),
    ]
    yield from found
    if wrong:
        more = [f"... {len(wrong)} differences in all"] if len(wrong) > _SHOWN else []
        yield Refusal("SCORE_CHANGED", task.task, "; ".join([*wrong[:_SHOWN], *more]))
    if rules.digest is None and not found:
        found += check_published(rules, rows.digest)
        yield from found
    if isinstance(samples, list) and not found and not wrong:
        yield from check_again(task, samples)


class _Rows:
    def __init__(self, path: Path, audit: Audit, model_outputs: tuple[str, ...]) -> None:
        self.digest = Digest(model_outputs)
        self._path, self._audit, self._model_outputs = path, audit, model_outputs
        self._hashes = hashlib.sha256()
        self._seen: set[int] = set()
        self._twice: list[int] = []
        self._unhashed: list[str] = []
        self._requests: list[str] = []
        self._impossible: list[str] = []
        self._filters: dict[str, None] = {}

    def read(self) -> Iterator[Mapping[str, Any]]:
        """The rows, each looked at. Raises DataError: as ``read_samples`` does."""
        for sample in read_every_sample(self._path):
            self._filters.setdefault(str(sample.get("filter")))
            if (
                len(self._filters) == 1
            ):  # what comes after another filter's is refused, whatever it is
                self._look(sample)
                yield sample

    def _look(self, sample: Mapping[str, Any]) -> None:
        doc_id, doc = sample["doc_id"], sample["doc"]
        if not isinstance(doc_id, int) or isinstance(doc_id, bool):
            self._unhashed.append(f"doc_id {str(doc_id)[:20]!r} is not a whole number")
            return
        where = f"doc_id {_shown(doc_id)}"
        if doc_id in self._seen:
            self._twice.append(doc_id)
        self._seen.add(doc_id)
        self.digest.add(doc_id, doc)
        own = {key: value for key, value in doc.items() if key not in self._model_outputs}
        document = json.dumps(own, indent=2, ensure_ascii=False)
        texts = {"doc": document, "prompt": _prompt(sample), "target": str(sample.get("target"))}
        for what, text in texts.items():
            found = str(sample.get(f"{what}_hash"))
            self._hashes.update(found.encode("utf-8", "surrogatepass"))
            if hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest() != found:
                self._unhashed.append(f"{where}: its {what}_hash is not that of its {what}")
        if not self._requests and (wrong := self._audit.wrong_request(sample)) is not None:
            self._requests.append(f"{where}: {wrong}")
        if (wrong := self._audit.impossible(sample)) is not None:
            self._impossible.append(f"{where}: {wrong}")

    def incomplete(self, rules: TaskRules) -> Iterator[Refusal]:
        """Rows that are missing, there twice, or not of the data."""
        if len(self._filters) > 1:
            sentence = (
                f"rows of {len(self._filters)} filters, of which one would be checked; pack the run"
                " again"
            )
            yield Refusal("SAMPLES_INVALID", rules.task, sentence)
        if self._twice:
            yield Refusal(
                "ROWS_DUPLICATE",
                rules.task,
                f"doc_id {_some(self._twice)} more than once; each row counts once",
            )
        expected = set(range(rules.documents))
        if missing := sorted(expected - self._seen):
            found = f"{len(missing)} of {rules.documents} rows are missing, doc_id {_some(missing)}"
            yield Refusal("ROWS_MISSING", rules.task, f"{found}; run the whole task again")
        if unknown := sorted(self._seen - expected):
            yield Refusal(
                "ROWS_MISSING", rules.task, f"doc_id {_some(unknown)}: the data has no such row"
            )
        digest = self.digest.hexdigest()
        if rules.digest is not None and not missing and digest != rules.digest:
            found = f"not the published ones (digest {digest[:12]}, expected {rules.digest[:12]})"
            advice = "run the task on the published data, as this version of the suite has it"
            yield Refusal(
                "WRONG_DATA", rules.task, f"the documents in the samples are {found}; {advice}"
            )

    def changed(self, rules: TaskRules, task_hash: Any) -> Iterator[Refusal]:
        """Rows that are not those of the run, were not asked as they say, or hold what no model can
        say."""
        if self._unhashed:
            yield Refusal(
                "SAMPLES_CHANGED",
                rules.task,
                f"{'; '.join(self._unhashed[:_SHOWN])}; run the task again",
            )
        elif task_hash != self._hashes.hexdigest():
            yield Refusal(
                "SAMPLES_CHANGED",
                rules.task,
                "the results were made from other samples: task_hashes differs",
            )
        if self._requests:
            yield Refusal(
                "CONFIG_DIFFERS",
                rules.task,
                f"{self._requests[0]}; leave out whatever changes prompts",
            )
        if self._impossible:
            found = f"{'; '.join(self._impossible[:_SHOWN])}; {len(self._impossible)} rows in all"
            yield Refusal("SCORE_IMPOSSIBLE", rules.task, f"{found}; run the task again")


def _prompt(sample: Mapping[str, Any]) -> str:
    arguments = sample.get("arguments")
    first: Any = next(iter(arguments.values()), {}) if isinstance(arguments, dict) else {}
    prompt = first.get("arg_0") if isinstance(first, dict) else ""
    return str(
        prompt[0] if isinstance(prompt, list) and prompt else prompt
    )  # a chat server's is in a list of one


def _shown(number: int) -> str:
    return (
        str(number) if abs(number) < 10**15 else "of more than 15 digits"
    )  # writing a long one out takes its time


def _some(numbers: list[int]) -> str:
    return listed([*map(_shown, numbers)])
