"""Reads lm_eval's samples files line by line, and the texts, scores and verdicts in a sample.

Benchmarks, reports and the commands that work on finished runs call it.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from lm_factuality.ground.errors import DataError, short
from lm_factuality.ground.files import parse_json
from lm_factuality.ground.records import lines_of, to_model
from lm_factuality.ground.thinking import answer_or_thoughts
from lm_factuality.harness.outputs import TaskResult

Result = TypeVar("Result")


def read_samples(path: Path, required_key: str = "doc_id") -> Iterator[Mapping[str, Any]]:
    """Yield the samples of a ``samples_*.jsonl``, each once.

    A task with several filters of lm_eval writes each sample once for each filter. Those of the
    first filter in the file are yielded.

    Args:
        path: The samples file.
        required_key: A key that each sample must have.

    Yields:
        The samples in the order of the file.

    Raises:
        DataError: A line is no sample, or there is no such file.
    """
    first_filter = None
    for number, sample in enumerate(read_every_sample(path, required_key)):
        if number == 0:
            first_filter = sample.get("filter")
        if sample.get("filter") == first_filter:
            yield sample


def samples_of(task: TaskResult) -> Iterator[Mapping[str, Any]]:
    """Yield the samples of a task, and check at the end that none is missing.

    Args:
        task: The result of the task; without a samples file, nothing is yielded.

    Raises:
        DataError: A line is no sample, or the file has not as many samples as the results say.
    """
    if not task.samples:
        return
    num_samples = 0
    for sample in read_samples(task.samples):
        num_samples += 1
        yield sample
    num_expected = task.effective
    # Old results files do not say how many documents were run.
    if num_expected and num_samples != num_expected:
        raise DataError(
            f"{task.samples}: found {num_samples:,} samples, but the results are of"
            f" {num_expected:,}; is the file cut off? Run the task again"
        )


def read_every_sample(path: Path, required_key: str = "doc_id") -> Iterator[Mapping[str, Any]]:
    """Yield the samples of a ``samples_*.jsonl``, of all filters.

    Args:
        path: The samples file.
        required_key: A key that each sample must have, besides its document.

    Yields:
        The samples in the order of the file.

    Raises:
        DataError: A line is no sample, or there is no such file.
    """
    advice = "run lm_eval with --log_samples to have it"
    for number, line in lines_of(path, advice):
        try:
            sample = parse_json(line)
        except ValueError as error:
            raise DataError(f"{path}:{number}: not JSON: {error}; is the file cut off?") from error
        # Any other JSON lines are no samples of lm_eval.
        is_sample = isinstance(sample, dict) and isinstance(sample.get("doc"), dict)
        if not is_sample or required_key not in sample:
            raise DataError(
                f"{path}:{number}: no sample of lm_eval: expected a JSON object with"
                f" {required_key!r} and 'doc'"
            )
        yield sample


def verdict_of(sample: Mapping[str, Any]) -> dict[str, Any]:
    """Return the judge's verdict record in a sample, which lm_eval holds as JSON text.

    Raises:
        ValueError: The sample has no verdict record, or more than one response.
    """
    (text,) = sample["filtered_resps"]
    verdict = parse_json(text)
    if not isinstance(verdict, dict):
        # Callers report any ValueError as a broken line of the file.
        raise ValueError("'filtered_resps' holds no record of a verdict")  # noqa: TRY004
    return verdict


def responses_of(sample: Mapping[str, Any]) -> list[str]:
    """Return the model's responses in a sample, without its thoughts."""
    return [answer_or_thoughts(text) for text in flatten_responses(sample["resps"])]


def keep_verdict(sample: Mapping[str, Any]) -> dict[str, Any]:
    """Reduce a sample to its document (``doc``), its ``verdict`` and the judged ``responses``.

    Raises:
        ValueError: The sample has no verdict record.
    """
    return {"doc": sample["doc"], "verdict": verdict_of(sample), "responses": responses_of(sample)}


def prompt_text(prompt: str | Sequence[str]) -> str:
    """Return a prompt in a sample as one text.

    Args:
        prompt: A text, or the messages to a chat server as JSON, in a list of one.

    Example:
        ``['[{"role": "user", "content": "Who?"}]']`` becomes ``Who?``.
    """
    if isinstance(prompt, str):
        return prompt
    messages = parse_json(prompt[0])
    return "\n".join(str(message["content"]) for message in messages)


def flatten_responses(responses: object) -> list[str]:
    """Flatten lm_eval's nested lists of responses.

    Example:
        ``[["Yes.", "No."], "Maybe."]`` becomes ``["Yes.", "No.", "Maybe."]``.

    Raises:
        ValueError: They hold something other than texts.
    """
    if isinstance(responses, str):
        return [responses]
    if not isinstance(responses, list | tuple):
        raise ValueError(f"found {short(responses)} among the responses, expected texts")  # noqa: TRY004
    flat_texts = []
    for part in responses:
        flat_texts.extend(flatten_responses(part))
    return flat_texts


def results_in(sample: Mapping[str, Any], kind: type[Result]) -> list[Result]:
    """Read the model's results in a sample.

    Args:
        sample: The sample, where lm_eval has written the fields of each result as a list, such as
            ``["-3.5", "True", "4", "False", ""]``.
        kind: The type of the results: one of those in `outputs`, such as ``ScoredContinuation``.

    Returns:
        One result per request of the row, in order.

    Raises:
        ValueError: The fields are something else, or a filter has changed the responses.
    """
    if sample["filtered_resps"] != [response[0] for response in sample["resps"]]:
        raise ValueError("'filtered_resps' are not 'resps'")
    return [to_model(kind, fields) for fields in sample["filtered_resps"]]
