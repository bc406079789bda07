"""The documents of a task as one hash, by which a submission's are known to be the published ones.

``python -m lm_factuality.leaderboard.documents TASK...`` prints what a rules file says of tasks. It
needs their data.
"""

import hashlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from judges import LEXICAL
from lm_factuality.benchmarks import all_sources
from lm_factuality.ground.errors import DataError, FactualityError, exit_code
from lm_factuality.ground.published import blob_id, cached_path
from lm_factuality.harness.tasks import find_configs
from lm_factuality.leaderboard.rules import TaskRules


class Digest:
    """Documents, added in any order, as one hash.

    Args:
        model_outputs: The keys of a document that hold outputs of the evaluated model. They are
            left out.
    """

    def __init__(self, model_outputs: Sequence[str] = ()) -> None:
        """Begin without documents."""
        self._model_outputs = model_outputs
        self._hashes: dict[int, str] = {}

    def add(self, doc_id: int, doc: Mapping[str, Any]) -> dict[str, Any]:
        """Add a document, and return it without outputs of the evaluated model."""
        kept = {key: value for key, value in doc.items() if key not in self._model_outputs}
        text = json.dumps(kept, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        self._hashes[doc_id] = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        return kept

    @property
    def count(self) -> int:
        """The number of documents that were added."""
        return len(self._hashes)

    def hexdigest(self) -> str:
        """The hash of all documents that were added, in the order of their numbers."""
        lines = "".join(f"{number} {self._hashes[number]}\n" for number in sorted(self._hashes))
        return hashlib.sha256(lines.encode()).hexdigest()


def published_digest(rules: TaskRules) -> str:
    """Return the hash of the published documents of a task.

    Raises:
        DataError: The rules do not say it, and the published file is not on this machine.
    """
    if rules.digest is not None:
        return rules.digest
    for source in all_sources().values():
        folder = Path(os.environ.get("LM_FACTUALITY_DATA") or cached_path(source).parent)
        path = folder / source.filename
        if source.blob == rules.git_blob and path.is_file() and blob_id(path) == source.blob:
            return documents_of([rules.task], folder)[rules.task].hexdigest()
    raise DataError(
        f"the rules have no digest of its documents, and the file with git blob"
        f" {rules.git_blob[:12]} is not on this machine; check where it is: lm-factuality data"
        " fetch, or its folder in LM_FACTUALITY_DATA"
    )


def documents_of(tasks: Sequence[str], data_dir: Path | None = None) -> dict[str, Digest]:
    """Return the documents of each task, as lm_eval would load them.

    Args:
        tasks: Names of the suite's tasks, or paths of YAMLs.
        data_dir: A folder with the published files. Defaults to the downloads.

    Raises:
        ConfigError: There is no such task.
        DataError: Its data cannot be used.
    """
    settings = {"judge": LEXICAL}  # Documents are the same whoever judges.
    if data_dir is not None:
        settings["data_dir"] = str(data_dir)
    digests = {}
    for target in tasks:
        for name, config in find_configs(target):
            if isinstance(config, FactualityError):
                raise config
            metadata = {**config["metadata"], **settings}
            task = config["class"](config={**config, "metadata": metadata})
            digests[name] = Digest(task.declared.data.model_outputs)
            for number, doc in enumerate(task.eval_docs):
                digests[name].add(number, doc)
    return digests


def main() -> int:
    """Print ``documents`` and ``digest`` of each task, as a rules file has them."""
    for name, digest in documents_of(sys.argv[1:]).items():
        lines = f"    documents: {digest.count}\n    digest: {digest.hexdigest()}\n"
        sys.stdout.write(f"  {name}:\n{lines}")
    return 0


if __name__ == "__main__":
    sys.exit(exit_code("documents", main))
