"""lm_eval's samples, read line by line, as files may be large; and what is in one: numbers, texts,
or a judge's record."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lm_factuality.ground.errors import DataError
from lm_factuality.ground.files import parse_json
from lm_factuality.ground.records import lines_of
from lm_factuality.ground.thinking import said
from lm_factuality.harness.outputs import TaskResult


def read_samples(path: Path) -> Iterator[Mapping[str, Any]]:
    """The samples of a ``samples_*.jsonl``, in its order; of a file that holds them once for each
    filter, those of the first. Raises DataError: when the line is reached that is no sample, or at
    once if there is no such file."""
    samples = read_every_sample(path)
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


def read_every_sample(path: Path) -> Iterator[Mapping[str, Any]]:
    """As ``read_samples``, of all filters. Raises DataError: as there."""
    for number, line in lines_of(path, "run lm_eval with --log_samples to have it"):
        try:
            sample = parse_json(line)
        except ValueError as error:
            raise DataError(f"{path}:{number}: not JSON: {error}; is the file cut off?") from error
        if (
            not isinstance(sample, dict)
            or not isinstance(sample.get("doc"), dict)
            or "doc_id" not in sample
        ):
            raise DataError(
                f"{path}:{number}: no sample of lm_eval: expected a JSON object with 'doc_id' and"
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
    return [said(text) for text in texts(sample["resps"])]


def keep_verdict(sample: Mapping[str, Any]) -> dict[str, Any]:
    """The row, the judge's record and the responses that it is on. Raises ValueError: there is no
    record."""
    return {"doc": sample["doc"], "verdict": verdict_of(sample), "responses": responses_of(sample)}


def belongs(is_so: bool) -> None:
    """Raises ValueError unless the judge's record is on this row."""
    if not is_so:
        raise ValueError("the verdict is on another document or response")


def same_responses(sample: Mapping[str, Any], resps: Sequence[Any]) -> None:
    """Raises ValueError unless what was scored is what the model said."""
    if sample["filtered_resps"] != resps:
        raise ValueError("'filtered_resps' are not 'resps'")


def prompt_text(prompt: Any) -> str:
    """A prompt as one text; that of a chat server is a list of messages, which the samples hold as
    JSON in a list of one."""
    return (
        prompt
        if isinstance(prompt, str)
        else "\n".join(str(message["content"]) for message in parse_json(prompt[0]))
    )


def texts(responses: Any) -> list[str]:
    """The texts in lm_eval's lists of lists."""
    if isinstance(responses, str):
        return [responses]
    return [text for each in responses for text in texts(each)]


def to_float(text: Any) -> float | None:
    """The number in a text, as which lm_eval writes responses."""
    return None if text in (None, "None") else float(_as_written(text))


def to_int(text: Any) -> int | None:
    """The number in a text."""
    return None if text in (None, "None") else int(_as_written(text))


def _as_written(text: Any) -> Any:
    """``text``; ValueError if it is a number that Python reads, but does not write: in digits of
    other scripts, 1_000."""
    if isinstance(text, str) and (not text.isascii() or "_" in text or text != text.strip()):
        raise ValueError(f"found {text[:40]!r}, expected a number in the digits 0 to 9")
    return text


def to_bool(text: Any) -> bool:
    """The truth value in a text. Raises ValueError: there is none."""
    if str(text) not in ("True", "False"):
        raise ValueError(f"found {text!r}, expected True or False")
    return str(text) == "True"
