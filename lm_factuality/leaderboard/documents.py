"""The documents of a task as one hash, by which a submission's are known to be the published ones
without the data.

``python -m lm_factuality.leaderboard.documents TASK...`` prints what a rules file says of tasks; it
needs their data."""

import argparse
import hashlib
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from judges import LEXICAL
from lm_factuality.benchmarks import all_sources
from lm_factuality.ground.errors import ConfigError, FactualityError, did_you_mean
from lm_factuality.ground.published import Source, blob_id, cached_path
from lm_factuality.leaderboard.rules import TaskRules
from lm_factuality.leaderboard.submission import Refusal


class Digest:
    """Documents, added in any order, as one hash; without the keys that hold what the evaluated
    model said."""

    def __init__(self, model_outputs: Sequence[str] = ()) -> None:
        self._model_outputs = model_outputs
        self._hashes: dict[int, str] = {}

    def add(self, doc_id: int, doc: Mapping[str, Any]) -> None:
        own = {key: value for key, value in doc.items() if key not in self._model_outputs}
        text = json.dumps(own, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        self._hashes[doc_id] = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def count(self) -> int:
        return len(self._hashes)

    def hexdigest(self) -> str:
        """Of all that were added, in the order of their numbers."""
        lines = "".join(f"{number} {self._hashes[number]}\n" for number in sorted(self._hashes))
        return hashlib.sha256(lines.encode()).hexdigest()


def published_here() -> dict[str, Path]:
    folder = os.environ.get("LM_FACTUALITY_DATA")
    places = [cached_path(each) for each in all_sources().values()]
    places += [Path(folder) / each.filename for each in all_sources().values()] if folder else []
    return {blob_id(path): path for path in places if path.is_file()}


def check_published(rules: TaskRules, found: Digest) -> Iterator[Refusal]:
    """Where the rules have no digest: the documents beside those of the published file, if it is on
    this machine."""
    here = published_here().get(rules.git_blob)
    if here is None:
        source: Source | None = next(
            (each for each in all_sources().values() if each.blob == rules.git_blob), None
        )
        named, fetch = rules.git_blob[:12], ""
        if source is not None:
            named = f"{source.filename} (git blob {source.blob[:12]})"
            fetch = f": lm-factuality data fetch {source.name}, or its folder in LM_FACTUALITY_DATA"
        sentence = (
            f"the rules have no digest of its documents and {named} is not on this machine; check"
            f" where it is{fetch}"
        )
        yield Refusal("DATA_UNAVAILABLE", rules.task, sentence)
    elif documents_of([rules.task], str(here.parent))[rules.task].hexdigest() != found.hexdigest():
        sentence = f"the documents in the samples are not those of {here.name}; run it again"
        yield Refusal("WRONG_DATA", rules.task, sentence)


def documents_of(
    tasks: Sequence[str], data_dir: str | None = None, include_path: str | None = None
) -> dict[str, Digest]:
    """The documents of ``tasks`` as lm_eval would load them. Raises ConfigError, DataError: a task
    or its data cannot be used."""
    from lm_eval.tasks import TaskManager, get_task_dict

    from lm_factuality.harness.tasks import with_suite

    metadata = {
        "judge": LEXICAL,
        **({"data_dir": data_dir} if data_dir else {}),
    }  # documents are the same whoever judges
    folders = [include_path] if include_path else with_suite()
    manager = TaskManager(include_path=folders, include_defaults=False, metadata=metadata)
    found = {}
    if unknown := [name for name in tasks if name not in manager.all_tasks]:
        hint = did_you_mean(unknown[0], manager.all_tasks)
        raise ConfigError(
            f"no task is called {unknown[0]!r}{hint}; known: {', '.join(manager.all_tasks)}"
        )
    for name, task in get_task_dict(list(tasks), manager).items():
        found[name] = Digest(task.declared.data.model_outputs)
        for number, doc in enumerate(task.eval_docs):
            found[name].add(number, doc)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints ``documents`` and ``digest`` of each task, as a rules file has them."""
    parser = argparse.ArgumentParser(
        prog="python -m lm_factuality.leaderboard.documents", description=main.__doc__
    )
    parser.add_argument("tasks", nargs="+", metavar="TASK")
    parser.add_argument(
        "--data-dir",
        metavar="DIR",
        help="local folder with the published files, instead of downloads",
    )
    parser.add_argument(
        "--include-path",
        metavar="DIR",
        help="folder with the YAML of the tasks (default: the suite's)",
    )
    parsed = parser.parse_args(arguments)
    try:
        for name, found in documents_of(parsed.tasks, parsed.data_dir, parsed.include_path).items():
            sys.stdout.write(
                f"  {name}:\n    documents: {found.count}\n    digest: {found.hexdigest()}\n"
            )
    except FactualityError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
