"""What the stages leave on disk: a folder a stage, a file a shard, and the settings that it was
made with."""

import hashlib
import json
import logging
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from factor_gen.records import Example, from_json, to_json
from factor_gen.stages import READ, STAGES
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.files import write_json, write_text

_LOG = logging.getLogger(__name__)
_NAMES = (READ, *STAGES)  # of the folders that are ours to remove
_ABOUT = "stage.json"
_DONE = "done.json"
_BEGUN = ".begun-"
# the key of a shard's last line, with their number: a file that was cut short lacks it
_END = "examples"
_CHUNK = 16_000_000  # characters of text a shard holds at most, unless one document alone has more


@dataclass(frozen=True)
class StageFolder:
    """The shards of one stage. A file is whole or not there, so that whoever makes a shard may be
    stopped at any time."""

    path: Path

    @property
    def stage(self) -> str:
        """The stage's name."""
        return self.path.name.partition("-")[2]

    def part(self, number: int) -> Path:
        """The file of a shard, counted from 0."""
        return self.path / f"part-{number:05d}.jsonl"

    def has(self, number: int) -> bool:
        """Whether the shard is there."""
        return self.part(number).is_file()

    def write(self, number: int, examples: Iterable[Example]) -> None:
        """Writes a shard. Raises DataError: the folder cannot be written."""
        lines = [json.dumps(to_json(example), ensure_ascii=False) for example in examples]
        write_text(
            self.part(number),
            "".join(f"{line}\n" for line in [*lines, json.dumps({_END: len(lines)})]),
        )

    def read(self, number: int) -> list[Example]:
        """The examples of a shard. Raises DataError: it is not there, or damaged."""
        return list(self.stream(number))

    def stream(self, number: int) -> Iterator[Example]:
        """The same, one in memory at a time."""
        path, row, end = self.part(number), 0, None
        again = f"remove {self.path} and start the build again"
        try:
            with path.open(encoding="utf-8", newline="\n") as lines:
                for line in lines:
                    row += 1
                    values = json.loads(line)
                    end = values.get(_END)
                    if end is None:
                        yield from_json(values)
            if end != row - 1:
                raise ValueError("the end is missing")
        except FileNotFoundError as error:
            raise DataError(f"{path}: the shard is not there; {again}") from error
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise DataError(f"{path}:{row}: damaged ({error}); {again}") from error

    def begin(self, number: int) -> int:
        """Notes that a process is about to make the shard; returns how often that was noted, this
        time included."""
        times = self._begun(number)
        tries = len(times.read_bytes()) + 1 if times.is_file() else 1
        times.write_bytes(b"." * tries)
        return tries

    def end(self, number: int) -> None:
        """Forgets what ``begin`` noted."""
        self._begun(number).unlink(missing_ok=True)

    def begun(self) -> list[int]:
        """The shards that were begun and not ended: a process is at work on them, or died at it."""
        return sorted(int(path.name.removeprefix(_BEGUN)) for path in self.path.glob(f"{_BEGUN}*"))

    def forget_begun(self) -> None:
        """Forgets what processes of an earlier build had begun."""
        for number in self.begun():
            self.end(number)

    def _begun(self, number: int) -> Path:
        return self.path / f"{_BEGUN}{number}"

    @property
    def shards(self) -> int | None:
        """How many shards the stage has once it is done; None before."""
        done = _saved(self.path / _DONE)
        shards = done.get("shards") if isinstance(done, Mapping) else None
        return shards if isinstance(shards, int) else None

    @property
    def filtered(self) -> Mapping[str, int]:
        """How many rows were left out before they became documents, by reason, once the stage is
        done."""
        found: Mapping[str, int] = (_saved(self.path / _DONE) or {}).get("filtered") or {}
        return found

    def finish(self, shards: int, filtered: Mapping[str, int] | None = None) -> None:
        """Marks the stage as done."""
        write_json(
            self.path / _DONE,
            {"shards": shards, "filtered": dict(sorted((filtered or {}).items()))},
        )


def prepare(root: Path, stages: Sequence[tuple[str, Mapping[str, Any]]]) -> list[StageFolder]:
    """The folders of ``stages`` (name and what decides their output), in order, empty or with
    shards that are still good. A stage whose settings are no longer those of its folder is removed,
    and so is every stage after it, for their input changes."""
    folders, before = [], ""
    for number, (name, settings) in enumerate(stages, start=1):
        folder = StageFolder(root / f"{number}-{name}")
        about = json.loads(json.dumps({"stage": name, "settings": settings, "before": before}))
        before = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
        found = _saved(folder.path / _ABOUT)
        if found != about:
            if folder.path.exists():
                _LOG.warning("%s is recomputed: %s", name, _change(found, about))
            discard(root, number)
            write_json(folder.path / _ABOUT, about)
        folders.append(folder)
    return folders


def discard(root: Path, number: int = 1) -> None:
    """Removes the folders of the stages from ``number`` on. Raises DataError: they cannot be
    removed."""
    for path in sorted(root.glob("[0-9]*-*")):
        place, _, name = path.name.partition("-")
        if path.is_dir() and name in _NAMES and place.isdecimal() and int(place) >= number:
            try:
                shutil.rmtree(path)
            except OSError as error:
                raise DataError(
                    f"{path}: cannot be removed: {error}; remove it and start again"
                ) from error


def split(examples: Iterable[Example], size: int) -> Iterator[list[Example]]:
    """Consecutive examples in lists of ``size``, shorter where their texts are long."""
    shard: list[Example] = []
    characters = 0
    for example in examples:
        if shard and (len(shard) == size or characters + len(example.prefix) > _CHUNK):
            yield shard
            shard, characters = [], 0
        shard.append(example)
        characters += len(example.prefix)
    if shard:
        yield shard


def _saved(path: Path) -> Any:
    """The content of a JSON file; None if it is missing or damaged."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _change(found: Any, about: Mapping[str, Any]) -> str:
    if not isinstance(found, Mapping) or not isinstance(found.get("settings"), Mapping):
        return "its folder does not say what it was made with"
    old, new = found["settings"], about["settings"]
    names = [
        f"{name} was {_short(old.get(name))}, is {_short(new.get(name))}"
        for name in sorted({*old, *new})
        if old.get(name) != new.get(name)
    ]
    return "; ".join(names) or "a stage before it changed"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:77]}..."
