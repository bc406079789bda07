"""Hashes of a task's documents, which show whether a submission was run on the published data.

The checks of submissions call it. ``python -m lm_factuality.leaderboard.documents TASK...`` prints
the number and the hash of a task's documents for a rules file; it needs the data of the task.
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
from lm_factuality.ground.errors import DataError, FactualityError, run_with_exit_code
from lm_factuality.ground.published import blob_id, cache_folder, find_copy
from lm_factuality.leaderboard.rules import TaskRules


class DocumentDigest:
    """One hash of a set of documents, whatever the order in which they are added."""

    def __init__(self, model_outputs: Sequence[str] = ()) -> None:
        """Create the digest of no documents.

        Args:
            model_outputs: The keys of a document that hold outputs of the evaluated model. These
                differ from run to run, so they are left out.
        """
        self._model_outputs = model_outputs
        self._hashes: dict[int, str] = {}

    def add(self, doc_id: int, document: Mapping[str, Any]) -> dict[str, Any]:
        """Add a document to the digest.

        Args:
            doc_id: The number of the document in its task.
            document: The document, as a sample or a data file has it.

        Returns:
            The document without outputs of the evaluated model.
        """
        published = {
            key: value for key, value in document.items() if key not in self._model_outputs
        }
        # Sorted keys give equal documents the same text.
        text = json.dumps(published, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        self._hashes[doc_id] = hash_text(text)
        return published

    @property
    def count(self) -> int:
        """Return the number of documents that were added."""
        return len(self._hashes)

    def hexdigest(self) -> str:
        """Return the SHA-256 of all added documents, sorted by number, in hexadecimal."""
        lines = [f"{doc_id} {self._hashes[doc_id]}\n" for doc_id in sorted(self._hashes)]
        return hash_text("".join(lines))


def hash_text(text: str) -> str:
    """Return the SHA-256 of a text in hexadecimal, as lm_eval writes it into samples."""
    # Answers of models can contain halves of surrogate pairs.
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def published_digest(rules: TaskRules) -> str | None:
    """Return the hash of a task's published documents.

    Args:
        rules: The rules of the task. If they do not state the hash, it is computed from the
            published data file.

    Returns:
        A SHA-256 in hexadecimal, as `DocumentDigest.hexdigest` returns it. None if the rules do not
        state it and the published file is not on this machine.
    """
    if rules.digest is not None:
        return rules.digest
    path = _find_published_file(rules.git_blob)
    if path is None:
        return None
    return digest_tasks([rules.task], path.parent)[rules.task].hexdigest()


def _find_published_file(git_blob: str) -> Path | None:
    """Return the published data file with a git blob id, or None if this machine lacks it."""
    for source in all_sources().values():
        if source.blob != git_blob:
            continue
        try:
            path = find_copy(source, data_folder())
        except DataError:
            continue
        # The user's folder may hold an edited file of the same name.
        if blob_id(path) == git_blob:
            return path
    return None


def data_folder() -> Path:
    """Return the folder of published data that the user names, or else the folder of downloads."""
    return Path(os.environ.get("LM_FACTUALITY_DATA") or cache_folder()).expanduser()


def digest_tasks(targets: Sequence[str], data_dir: Path | None = None) -> dict[str, DocumentDigest]:
    """Hash the documents of tasks, as lm_eval would load them.

    Args:
        targets: Names of the suite's tasks, or paths of YAML files.
        data_dir: A folder with the published files. Defaults to the downloaded files.

    Returns:
        The digest of each task's documents, by the name of the task.

    Raises:
        ConfigError: A task does not exist.
        DataError: The data of a task cannot be used.
    """
    # This imports lm_eval, and other functions of the module are called without it.
    from lm_factuality.harness.tasks import find_configs

    digests = {}
    for target in targets:
        # A target can be a group, which stands for several tasks.
        for name, config in find_configs(target):
            # In place of a task that cannot be loaded stands its error.
            if isinstance(config, FactualityError):
                raise config
            task = config["class"](config=_loadable_config(config, data_dir))
            digest = DocumentDigest(task.declared.data.model_outputs)
            for doc_id, document in enumerate(task.eval_docs):
                digest.add(doc_id, document)
            digests[name] = digest
    return digests


def _loadable_config(config: Mapping[str, Any], data_dir: Path | None) -> dict[str, Any]:
    """Return the configuration with which a task is loaded only for its documents.

    Args:
        config: The configuration of the task, as its YAML file states it.
        data_dir: A folder with the published files. None stands for the downloaded files.
    """
    # Judged tasks cannot be loaded without a judge, which does not change their documents.
    metadata = {**config["metadata"], "judge": LEXICAL}
    if data_dir is not None:
        metadata["data_dir"] = str(data_dir)
    return {**config, "metadata": metadata}


def main() -> int:
    """Print the lines of a rules file that state the documents of the tasks in ``sys.argv``.

    Example:
        For ``felm_gen`` it prints the name of the task, and below it the keys ``documents`` (the
        number) and ``digest`` (the hash).
    """
    for name, digest in digest_tasks(sys.argv[1:]).items():
        lines = f"    documents: {digest.count}\n    digest: {digest.hexdigest()}\n"
        sys.stdout.write(f"  {name}:\n{lines}")
    return 0


if __name__ == "__main__":
    sys.exit(run_with_exit_code("documents", main))
