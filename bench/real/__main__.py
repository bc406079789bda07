"""Runs the suite on published data with a real model: ``python -m bench.real``.

The command fetches the model, runs the steps one after another, each in a process of its own, and
prints one table. ``make real`` calls it.
"""

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
from bench.real.read import read_tasks
from bench.real.record import CannotRunError, Line, Step, StepContext, last_line
from bench.real.steps import STEPS
from bench.real.table import Outcome, print_and_save, put_on_page, to_markdown
from lm_factuality.ground.errors import FactualityError
from lm_factuality.ground.files import write_json

REPOSITORY = Path(__file__).resolve().parents[2]
"""The folder of this checkout."""

_DONE = "done.json"
_SECONDS_BETWEEN_LOOKS = 0.5
_LONGEST_STATUS = 160  # characters of the last line of a log
_console = Console(stderr=True, highlight=False)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the steps, and print the table.

    Returns:
        The exit code. It is 1 if the model cannot be had, a step failed, or something is unscored
        through a fault of the suite.
    """
    options = _make_parser().parse_args(argv)
    logging.basicConfig(level=logging.WARNING)
    try:
        model = (options.model or checkpoint()).resolve()
        missing = gather(options.out / "data", options.data)
    except FactualityError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    for source, reason in missing.items():
        _console.print(f"{source}: the sample stands in, or the step is skipped: {reason}")

    outcomes = []
    steps = choose_steps(options.only or [step.name for step in STEPS])
    for number, step in enumerate(steps, 1):
        context = StepContext(
            model=model,
            out=options.out.resolve(),
            name=step.name,
            rows=options.rows or step.rows,
            missing=missing,
            vllm=options.vllm.absolute(),
        )
        title = f"[{number}/{len(steps)}] {step.name}"
        # Steps that are only needed by the chosen ones are not repeated.
        again = options.again and (not options.only or step.name in options.only)
        outcome = run_step(step, context, title, again)
        outcomes.append(outcome)
        message = f"{title}: {outcome.problem or 'done'}, {outcome.seconds:.0f} s"
        _console.print(message, markup=False)

    print_and_save(outcomes, model.name, options.out)
    if options.page:
        put_on_page(options.page, to_markdown(outcomes))
    return int(any(outcome.is_wrong for outcome in outcomes))


def _make_parser() -> argparse.ArgumentParser:
    """Return the command's parser, whose help lists the steps."""
    steps = "\n".join(f"  {step.name:18} {step.about} ({step.rows})" for step in STEPS)
    parser = argparse.ArgumentParser(
        "python -m bench.real",
        description="Run the suite on published data with a real model, and print one table.",
        epilog=f"steps, with their numbers of rows:\n{steps}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--only",
        nargs="+",
        choices=[step.name for step in STEPS],
        metavar="STEP",
        help="run only these steps, and those whose files they read",
    )
    parser.add_argument(
        "--rows", type=int, metavar="N", help="run N rows in every step, instead of its own number"
    )
    parser.add_argument("--again", action="store_true", help="repeat steps that are done")
    parser.add_argument(
        "--model",
        type=Path,
        metavar="DIR",
        help="use the chat model in this folder (default: SmolLM2-135M-Instruct, downloaded)",
    )
    parser.add_argument(
        "--data",
        type=Path,
        default=REPOSITORY.parent / "shared" / "data",
        metavar="DIR",
        help="take published files from anywhere below this folder; others are downloaded",
    )
    parser.add_argument(
        "--vllm",
        type=Path,
        default=REPOSITORY / ".venv-vllm" / "bin",
        metavar="DIR",
        help="the commands of an environment with vLLM (default: that of make test-vllm)",
    )
    parser.add_argument(
        "--page",
        type=Path,
        metavar="FILE",
        help="put the table on this page too, such as docs/real.md",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=REPOSITORY / "results" / "real",
        metavar="DIR",
        help="write a folder for each step, and the table, to this folder (default: results/real)",
    )
    return parser


def choose_steps(names: Sequence[str]) -> list[Step]:
    """Return some steps and those whose files they read, in the order of `STEPS`."""
    wanted_names = set(names)
    for step in STEPS:
        if step.name in names:
            wanted_names.update(step.after)
    return [step for step in STEPS if step.name in wanted_names]


def run_step(step: Step, context: StepContext, title: str, again: bool) -> Outcome:
    """Run a step, unless the same command has done it before.

    Args:
        step: The step.
        context: What it runs with.
        title: What the terminal shows while it runs.
        again: Whether to repeat it if it is done.

    Returns:
        Its outcome, also if it fails or cannot run here.
    """
    try:
        return _run_or_reload(step, context, title, again)
    except CannotRunError as reason:
        return Outcome(step.name, (), 0.0, str(reason), is_skipped=True)
    except FactualityError as error:
        return Outcome(step.name, (), 0.0, str(error).splitlines()[0])
    except (ValueError, LookupError, OSError) as error:
        # What the step left cannot be read. The next steps can run nevertheless.
        return Outcome(step.name, (), 0.0, f"{type(error).__name__}: {error}")


def _run_or_reload(step: Step, context: StepContext, title: str, again: bool) -> Outcome:
    """Return the saved outcome of a step, or run the step and save its outcome if it succeeds."""
    done_file = context.folder / _DONE
    saved = json.loads(done_file.read_text(encoding="utf-8")) if done_file.is_file() else {}
    command = step.command(context)
    if saved.get("command") == command and not again:
        lines = tuple(Line(**line) for line in saved["lines"])
        return Outcome(step.name, lines, saved["seconds"])

    if context.folder.is_dir():
        shutil.rmtree(context.folder)
        # The first call wrote configs to that folder.
        command = step.command(context)
    context.folder.mkdir(parents=True, exist_ok=True)
    seconds = _run_command(command, context, title, step.excused)
    read = step.read or read_tasks
    outcome = Outcome(step.name, tuple(read(context)), seconds)
    record = {
        "command": command,
        "seconds": seconds,
        "lines": [asdict(line) for line in outcome.lines],
    }
    write_json(done_file, record)
    return outcome


def _run_command(command: Sequence[str], context: StepContext, title: str, excused: str) -> float:
    """Run a command to its end, and show the last line of its log meanwhile.

    Args:
        command: Its words.
        context: What it runs with.
        title: What the terminal shows before the line.
        excused: Words in the last line with which the command may fail.

    Returns:
        The seconds that it took.

    Raises:
        FactualityError: The command failed.
    """
    start = time.monotonic()
    environment = {
        **os.environ,
        "HF_HUB_OFFLINE": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "LM_FACTUALITY_DATA": str(context.data),
    }
    with context.log.open("wb") as log, _console.status(title) as status:
        process = subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, env=environment, cwd=REPOSITORY
        )
        try:
            while process.poll() is None:
                time.sleep(_SECONDS_BETWEEN_LOOKS)
                status.update(f"{title}: {last_line(context.log)[-_LONGEST_STATUS:]}")
        except KeyboardInterrupt:
            # The command would otherwise go on without this process.
            process.terminate()
            process.wait()
            raise
    message = last_line(context.log)
    is_excused = bool(excused) and excused in message
    if process.returncode and not is_excused:
        raise FactualityError(f"exit code {process.returncode}: {message} (see {context.log})")
    return time.monotonic() - start


if __name__ == "__main__":
    sys.exit(main())
