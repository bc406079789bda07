"""What exports say of the model, the data, the settings and the judge of a run, and the schemas
that they follow.

Only what is named here leaves: arguments and environments of a run may hold paths and keys."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from judges.backends import capabilities
from lm_factuality.benchmarks import all_sources, find_benchmark
from lm_factuality.ground.errors import ConfigError, refuse
from lm_factuality.ground.html import read_file
from lm_factuality.ground.packages import load_yaml, need
from lm_factuality.harness.outputs import ResultsFile, TaskResult

_TABLES: Mapping[str, Any] = load_yaml(__package__, "about.yaml")
# A model as the Hub names it. Both parts become folders, so none may be a name that a file system
# keeps for itself.
_MODEL = re.compile(
    r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9_-])?/[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9_-])?"
)
EVERY_EVAL_EVER, EVERY_EVAL_EVER_INSTANCE, HUB = (
    "every_eval_ever",
    "every_eval_ever_instance",
    "hub_eval_results",
)


def model_info(file: ResultsFile, model: str) -> dict[str, Any]:
    """The model, how it was run, and what is known of its weights."""
    engine, platform = _TABLES["engines"].get(file.backend), _TABLES["platforms"].get(file.backend)
    # lm_eval finds a commit only where the weights are a repository of the Hub.
    from_hub = bool((file.content.get("config") or {}).get("model_sha"))
    details = {
        "deployment_type": (
            "self_deployed" if engine else "externally_managed" if platform else "unknown"
        ),
        "model_availability": "open_weights" if from_hub else "unknown",
        **{key: getattr(file, key) for key in ("backend", "variant", "revision", "dtype")},
        "num_parameters": None if file.num_parameters is None else f"{file.num_parameters:.0f}",
    }
    developer, name = model.split("/")
    found: dict[str, Any] = {
        "name": name,
        "id": model,
        "developer": developer,
        "additional_details": _texts(details),
    }
    if engine:
        version = file.versions.get("transformers") if engine == "transformers" else None
        found["inference_engine"] = {"name": engine, **({"version": version} if version else {})}
    return found | ({"inference_platform": platform} if platform else {})


def source_data(task: TaskResult) -> dict[str, Any]:
    """Where the rows come from: the published file at its commit, or another, by the name and git
    blob id of its file."""
    data: Mapping[str, Any] = task.metadata.get("data") or {}
    blob = str(data.get("git_blob", ""))
    details = _texts({"file": data.get("file"), "git_blob": blob, "samples": task.num_samples})
    source = next((each for each in all_sources().values() if each.blob == blob), None)
    if source is not None:
        url = f"https://github.com/{source.repository}/blob/{source.commit}/{source.path}"
        details |= {"license": source.license}
        return {
            "dataset_name": source.name,
            "source_type": "url",
            "url": [url],
            "additional_details": details,
        }
    return {"dataset_name": task.task, "source_type": "other", "additional_details": details}


def generation_config(file: ResultsFile, task: TaskResult) -> dict[str, Any]:
    """How answers were got: decoding, where there is any, and the settings that can change a
    score."""
    arguments: Mapping[str, Any] = task.config.get("generation_kwargs") or {}
    numbers = {theirs: arguments.get(name) for name, theirs in _TABLES["decoding"].items()}
    found = {
        name: value
        for name, value in numbers.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    benchmark = find_benchmark(task.kind)
    shots = (file.content.get("n-shot") or {}).get(task.task)
    seeds = {
        name: (file.content.get("config") or {}).get(name)
        for name in ("random_seed", "fewshot_seed")
    }
    about = {
        "task_version": task.version,
        "output_type": task.config.get("output_type"),
        "num_fewshot": shots,
        "num_samples_run": task.effective,
        "limit": task.limit,
        "repeats": task.config.get("repeats"),
        "chat_template_sha": file.content.get("chat_template_sha"),
        "system_instruction_sha": file.content.get("system_instruction_sha"),
        "task_hash": (file.content.get("task_hashes") or {}).get(task.task),
        **seeds,
        **{
            name: task.metadata.get(name)
            for name in (*(benchmark.settings if benchmark else ()), "caution")
        },
    }
    return {**({"generation_args": found} if found else {}), "additional_details": _texts(about)}


def judged_by(task: TaskResult) -> dict[str, Any]:
    """Who judged, for tasks that have a judge: a language model with its prompts' hashes, or a
    rule."""
    judge: Mapping[str, Any] | None = task.metadata.get("judge_config")
    if not judge:
        return {}
    hashes = ", ".join(
        f"{name} {digest}" for name, digest in sorted((judge.get("prompt_hashes") or {}).items())
    )
    certified = str("judge_certificate" in task.metadata).lower()
    named = {"judge": judge.get("name"), "judge_backend": judge.get("backend")}
    details = _texts({**named, "judge_prompt_hashes": hashes, "judge_certified": certified})
    backend = capabilities(str(judge.get("backend")))
    if not backend.reads_prompts:
        return {"additional_details": details}
    name = str(judge.get("model") or judge.get("name"))
    deployed = "self_deployed" if backend.runs_here else "unknown"
    model = {
        "name": name,
        "id": name,
        "additional_details": {"deployment_type": deployed, "model_availability": "unknown"},
    }
    temperature = (judge.get("decoding") or {}).get("temperature")
    config = {"model_info": model, **({} if temperature is None else {"temperature": temperature})}
    prompt = (
        f"templates of lm-factuality {task.metadata.get('suite_version', '')} by their hashes:"
        f" {hashes}"
    )
    return {
        "llm_scoring": {"judges": [config], "input_prompt": prompt, "additional_details": details}
    }


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    """What is known, as texts, which is all that the schema lets stand there."""
    return {name: str(value) for name, value in values.items() if value not in (None, "")}


def model_id(file: ResultsFile, given: str | None) -> str:
    """``ORG/NAME`` of the model: ``given``, or what lm_eval calls it. Raises ConfigError: no such
    name, as of a folder."""
    found = given or file.model
    if (
        not _MODEL.fullmatch(found)
        or "data" in found.split("/")
        or (given is None and Path(found).is_dir())
    ):
        advice = "expected ORG/NAME as on the Hub; say which it is with --model ORG/NAME"
        raise ConfigError(f"{file.path}: the model is {found!r}, {advice}")
    return found


def check_one_model(files: Sequence[ResultsFile], given: str | None) -> None:
    """Raises ConfigError, with the models' names, if one name is given for the results of
    several."""
    found = sorted(
        {Path(file.model).name for file in files}
    )  # the same folder may be named in several ways
    if given is not None and len(found) > 1:
        raise ConfigError(
            f"--model {given}: the results are of {len(found)} models ({', '.join(found)}); export"
            " each by itself"
        )


@cache
def read_schema(name: str) -> dict[str, Any]:
    """The JSON schema called ``name``, one of those above."""
    found: dict[str, Any] = json.loads(read_file(f"{__package__}/schemas/{name}.schema.json"))
    return found


def check_against(name: str, values: Iterable[Any], what: str) -> None:
    """Does nothing if all of ``values`` are as the schema says; ``what`` they are is named where
    one is not. Raises ConfigError: jsonschema is not installed; DataError: names the first fields
    that are wrong."""
    validator = need("jsonschema", "an export", "report").Draft7Validator(read_schema(name))
    version = read_schema(name)["version"]
    problems = [
        f"{what}[{number}].{'.'.join(map(str, error.absolute_path)) or '(all)'}:"
        f" {error.message[:300]}"
        for number, value in enumerate(values)
        for error in sorted(
            validator.iter_errors(value), key=lambda error: list(map(str, error.absolute_path))
        )
    ]
    refuse(
        problems,
        "problems",
        f"Nothing was written: this is not what the schema {name} {version} describes.",
    )
