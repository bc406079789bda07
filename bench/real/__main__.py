"""``python -m bench.real``: fetches the model, runs every step in a process of its own, and prints
one table."""

from __future__ import annotations

import argparse
import json
import logging
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from bench.real.data import gather
from bench.real.model import checkpoint
from bench.real.read import tasks
from bench.real.record import Line, Place, Skipped, Step, last_words
from bench.real.steps import STEPS
from bench.real.table import Outcome, put_on_page, show, to_markdown
from lm_factuality.ground.errors import FactualityError
from lm_factuality.ground.files import write_json

REPOSITORY = Path(__file__).resolve().parents[2]
_DONE = "done.json"
_console = Console(stderr=True, highlight=False)


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code: 1 if a step failed, or something is unscored through a fault of ours."""
    options = _options().parse_args(argv)
    logging.basicConfig(level=logging.WARNING)
    asked = _with_before(options.only or [step.name for step in STEPS])
    try:
        model = (options.model or checkpoint()).resolve()
        missing = gather(options.out / "data", options.data)
    except FactualityError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    for source, reason in missing.items():
        _console.print(f"{source}: the sample stands in, or the step is skipped: {reason}")
    outcomes = []
    for number, step in enumerate(asked, 1):
        place = Place(
            model,
            options.out.resolve(),
            step.name,
            options.rows or step.rows,
            missing,
            options.vllm.absolute(),
        )
        again = options.again and (not options.only or step.name in options.only)
        outcomes.append(_do(step, place, f"[{number}/{len(asked)}] {step.name}", again))
        _console.print(
            f"[{number}/{len(asked)}] {step.name}: {outcomes[-1].problem or 'done'}, {outcomes[-1].seconds:.0f} s",
            markup=False,
        )
    show(outcomes, model.name, options.out)
    if options.page:
        put_on_page(options.page, to_markdown(outcomes))
    return int(any(each.is_wrong for each in outcomes))


def _options() -> argparse.ArgumentParser:
    listed = "\n".join(f"  {step.name:18} {step.about} ({step.rows})" for step in STEPS)
    parser = argparse.ArgumentParser(
        "python -m bench.real",
        description=__doc__,
        epilog=f"steps (and their rows):\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--only",
        nargs="+",
        choices=[step.name for step in STEPS],
        metavar="STEP",
        help="these, and what they need",
    )
    parser.add_argument(
        "--rows", type=int, metavar="N", help="rows of every step, instead of its own number"
    )
    parser.add_argument("--again", action="store_true", help="repeat steps that are done")
    parser.add_argument(
        "--model", type=Path, metavar="DIR", help="another checkpoint of a chat model"
    )
    parser.add_argument(
        "--data",
        type=Path,
        default=REPOSITORY.parent / "shared" / "data",
        metavar="DIR",
        help="a folder with the published files anywhere below it; what is not there is downloaded",
    )
    parser.add_argument(
        "--vllm",
        type=Path,
        default=REPOSITORY / ".venv-vllm" / "bin",
        metavar="DIR",
        help="commands of an environment with vLLM",
    )
    parser.add_argument(
        "--page",
        type=Path,
        metavar="FILE",
        help="put the table on this page too, such as docs/real.md",
    )
    parser.add_argument("--out", type=Path, default=REPOSITORY / "results" / "real", metavar="DIR")
    return parser


def _with_before(names: Sequence[str]) -> list[Step]:
    """The steps called ``names`` and those whose files they read, in the order of the list."""
    wanted = {*names, *(before for step in STEPS if step.name in names for before in step.after)}
    return [step for step in STEPS if step.name in wanted]


def _do(step: Step, place: Place, title: str, again: bool) -> Outcome:
    """Runs a step unless it was done by the same command."""
    done = place.folder / _DONE
    try:
        before = json.loads(done.read_text(encoding="utf-8")) if done.is_file() else {}
        command = list(step.command(place))
        if before.get("command") == command and not again:
            return Outcome(
                step.name, tuple(Line(**line) for line in before["lines"]), before["seconds"]
            )
        if place.folder.is_dir():
            shutil.rmtree(place.folder)
            command = list(step.command(place))  # its configs were in that folder
        place.folder.mkdir(parents=True, exist_ok=True)
        seconds = _run(command, place, title, step.excused)
        outcome = Outcome(step.name, tuple((step.read or tasks)(place)), seconds)
    except Skipped as reason:
        return Outcome(step.name, (), 0.0, str(reason), is_skipped=True)
    except FactualityError as error:
        return Outcome(step.name, (), 0.0, str(error).splitlines()[0])
    except (
        ValueError,
        LookupError,
        OSError,
    ) as error:  # what a step left cannot be read: the others go on
        return Outcome(step.name, (), 0.0, f"{type(error).__name__}: {error}")
    write_json(
        done,
        {
            "command": command,
            "seconds": outcome.seconds,
            "lines": [asdict(line) for line in outcome.lines],
        },
    )
    return outcome


def _run(command: Sequence[str], place: Place, title: str, excused: str) -> float:
    """The seconds that a command took; its last words are shown while it runs.

    Raises:
        FactualityError: its exit code is not 0, and it does not end with what is ``excused``.
    """
    start = time.monotonic()
    environment = {
        **os.environ,
        "HF_HUB_OFFLINE": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "LM_FACTUALITY_DATA": str(place.data),
    }
    with place.log.open("wb") as file, _console.status(title) as status:
        process = subprocess.Popen(
            command, stdout=file, stderr=subprocess.STDOUT, env=environment, cwd=REPOSITORY
        )
        try:
            while process.poll() is None:
                time.sleep(0.5)
                status.update(f"{title}: {last_words(place.log)[-160:]}")
        except KeyboardInterrupt:
            process.terminate()
            process.wait()
            raise
    words = last_words(place.log)
    if process.returncode and not (excused and excused in words):
        raise FactualityError(f"exit code {process.returncode}: {words} (see {place.log})")
    return time.monotonic() - start


if __name__ == "__main__":
    sys.exit(main())
