"""lm_eval's samples, read line by line, as files may be large; and what is in one: numbers, texts,
or a judge's record."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from lm_factuality.ground.errors import DataError, short
from lm_factuality.ground.files import parse_json
from lm_factuality.ground.records import lines_of, to_model
from lm_factuality.ground.thinking import answer_or_thoughts
from lm_factuality.harness.outputs import TaskResult

Result = TypeVar("Result")


def read_samples(path: Path, needed: str = "doc_id") -> Iterator[Mapping[str, Any]]:
    """Yield the samples of a ``samples_*.jsonl``, in its order.

    Of a file that holds them once for each filter, these are those of the first.

    Raises:
        DataError: The line that is reached is no sample, or there is no such file.
    """
    samples = read_every_sample(path, needed)
    for first in samples:
        yield first
        yield from (sample for sample in samples if sample.get("filter") == first.get("filter"))


def samples_of(task: TaskResult) -> Iterator[Mapping[str, Any]]:
    """The samples that a run kept of a task, if any. Raises DataError: as ``read_samples``, or, in
    the end, they are too few."""
    found = 0
    for sample in read_samples(task.samples) if task.samples else ():
        found += 1
        yield sample
    if task.samples and task.effective and found != task.effective:
        told = f"found {found:,} samples, but the results are of {task.effective:,}"
        raise DataError(f"{task.samples}: {told}; is the file cut off? Run the task again")


def read_every_sample(path: Path, needed: str = "doc_id") -> Iterator[Mapping[str, Any]]:
    """As `read_samples`, of all filters. Each has a document, and the key that is ``needed``."""
    for number, line in lines_of(path, "run lm_eval with --log_samples to have it"):
        try:
            sample = parse_json(line)
        except ValueError as error:
            raise DataError(f"{path}:{number}: not JSON: {error}; is the file cut off?") from error
        is_sample = isinstance(sample, dict) and isinstance(sample.get("doc"), dict)
        if not is_sample or needed not in sample:
            raise DataError(
                f"{path}:{number}: no sample of lm_eval: expected a JSON object with {needed!r} and"
                " 'doc'"
            )
        yield sample


def verdict_of(sample: Mapping[str, Any]) -> dict[str, Any]:
    """The judge's record in a sample. Raises ValueError: there is none."""
    (text,) = sample["filtered_resps"]
    verdict = parse_json(text)
    if not isinstance(verdict, dict):
        raise ValueError("'filtered_resps' holds no record of a verdict")  # noqa: TRY004
    return verdict


def responses_of(sample: Mapping[str, Any]) -> list[str]:
    """The model's responses in a sample of generations, without what it thought."""
    return [answer_or_thoughts(text) for text in texts(sample["resps"])]


def keep_verdict(sample: Mapping[str, Any]) -> dict[str, Any]:
    """The row, the judge's record and the responses that it is on. Raises ValueError: there is no
    record."""
    return {"doc": sample["doc"], "verdict": verdict_of(sample), "responses": responses_of(sample)}


def belongs(is_so: bool) -> None:
    """Raises ValueError unless the judge's record is on this row."""
    if not is_so:
        raise ValueError("the verdict is on another document or response")


def prompt_text(prompt: Any) -> str:
    """A prompt as one text; that of a chat server is a list of messages, which the samples hold as
    JSON in a list of one."""
    return (
        prompt
        if isinstance(prompt, str)
        else "\n".join(str(message["content"]) for message in parse_json(prompt[0]))
    )


def texts(responses: Any) -> list[str]:
    """The texts in lm_eval's lists of lists. Raises ValueError: there is something else."""
    if isinstance(responses, str):
        return [responses]
    if not isinstance(responses, list | tuple):
        raise ValueError(f"found {short(responses)} among the responses, expected texts")  # noqa: TRY004
    return [text for part in responses for text in texts(part)]


def results_in(sample: Mapping[str, Any], kind: type[Result]) -> list[Result]:
    """Read the results of a model, whose fields lm_eval writes as texts.

    Args:
        sample: The sample.
        kind: One of the types of `outputs`.

    Raises:
        ValueError: The fields are something else, or what was scored is not what the model said.
    """
    if sample["filtered_resps"] != [response[0] for response in sample["resps"]]:
        raise ValueError("'filtered_resps' are not 'resps'")
    return [to_model(kind, fields) for fields in sample["filtered_resps"]]
