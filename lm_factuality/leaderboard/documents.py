"""The documents of a task as one hash, by which a submission's are known to be the published ones.

``python -m lm_factuality.leaderboard.documents TASK...`` prints what a rules file says of tasks. It
needs their data.
"""

import argparse
import hashlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from judges import LEXICAL
from lm_factuality.benchmarks import all_sources
from lm_factuality.ground.errors import ConfigError, FactualityError, did_you_mean
from lm_factuality.ground.published import blob_id, cached_path
from lm_factuality.leaderboard.rules import TaskRules


class Digest:
    """Documents, added in any order, as one hash.

    Args:
        model_outputs: The keys of a document that hold outputs of the evaluated model. They are
            left out.
    """

    def __init__(self, model_outputs: Sequence[str] = ()) -> None:
        self._model_outputs = model_outputs
        self._hashes: dict[int, str] = {}

    def add(self, doc_id: int, doc: Mapping[str, Any]) -> None:
        kept = {key: value for key, value in doc.items() if key not in self._model_outputs}
        text = json.dumps(kept, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        self._hashes[doc_id] = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def count(self) -> int:
        return len(self._hashes)

    def hexdigest(self) -> str:
        """The hash of all documents that were added, in the order of their numbers."""
        lines = "".join(f"{number} {self._hashes[number]}\n" for number in sorted(self._hashes))
        return hashlib.sha256(lines.encode()).hexdigest()


def published_here() -> dict[str, Path]:
    """The published files on this machine, by git's blob id of their content."""
    folder = os.environ.get("LM_FACTUALITY_DATA")
    places = [cached_path(source) for source in all_sources().values()]
    if folder:
        places += [Path(folder) / source.filename for source in all_sources().values()]
    return {blob_id(path): path for path in places if path.is_file()}


def published_digest(rules: TaskRules) -> str | None:
    """The hash of the published documents, or None if the published file is not on this machine."""
    path = published_here().get(rules.git_blob)
    if path is None:
        return None
    return documents_of([rules.task], str(path.parent))[rules.task].hexdigest()


def unknown_data(rules: TaskRules) -> str:
    """Why documents cannot be compared with the published ones, and what to do."""
    sources = [source for source in all_sources().values() if source.blob == rules.git_blob]
    if not sources:
        name, advice = rules.git_blob[:12], ""
    else:
        (source, *_) = sources
        name = f"{source.filename} (git blob {source.blob[:12]})"
        advice = f": lm-factuality data fetch {source.name}, or its folder in LM_FACTUALITY_DATA"
    return (
        f"the rules have no digest of its documents and {name} is not on this machine; check where"
        f" it is{advice}"
    )


def documents_of(
    tasks: Sequence[str], data_dir: str | None = None, include_path: str | None = None
) -> dict[str, Digest]:
    """The documents of tasks, as lm_eval would load them.

    Raises:
        ConfigError: There is no such task.
        DataError: Its data cannot be used.
    """
    from lm_eval.tasks import TaskManager, get_task_dict

    from lm_factuality.harness.tasks import with_suite

    metadata = {"judge": LEXICAL}  # documents are the same whoever judges
    if data_dir:
        metadata["data_dir"] = data_dir
    folders = [include_path] if include_path else with_suite()
    manager = TaskManager(include_path=folders, include_defaults=False, metadata=metadata)
    for name in tasks:
        if name not in manager.all_tasks:
            hint = did_you_mean(name, manager.all_tasks)
            raise ConfigError(
                f"no task is called {name!r}{hint}; known: {', '.join(manager.all_tasks)}"
            )
    digests = {}
    for name, task in get_task_dict(list(tasks), manager).items():
        digests[name] = Digest(task.declared.data.model_outputs)
        for number, doc in enumerate(task.eval_docs):
            digests[name].add(number, doc)
    return digests


def main(arguments: Sequence[str] | None = None) -> int:
    """Print ``documents`` and ``digest`` of each task, as a rules file has them."""
    parser = argparse.ArgumentParser(
        prog="python -m lm_factuality.leaderboard.documents", description=main.__doc__
    )
    parser.add_argument("tasks", nargs="+", metavar="TASK")
    parser.add_argument("--data-dir", metavar="DIR", help="local folder with the published files")
    parser.add_argument(
        "--include-path", metavar="DIR", help="folder with the tasks (default: the suite's)"
    )
    parsed = parser.parse_args(arguments)
    try:
        digests = documents_of(parsed.tasks, parsed.data_dir, parsed.include_path)
    except FactualityError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    for name, digest in digests.items():
        sys.stdout.write(
            f"  {name}:\n    documents: {digest.count}\n    digest: {digest.hexdigest()}\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
