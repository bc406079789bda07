"""``lm-factuality people correct``: scores without the judge's errors, by people's labels on some samples."""

import argparse
import sys
from pathlib import Path

from lm_factuality.cli.printing import print_corrected
from lm_factuality.ground.errors import ConfigError


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("results", nargs="+", type=Path, metavar="RESULTS", help="the results that the sheet was made of")
    parser.add_argument("--key", type=Path, required=True, metavar="FILE", help="the sheet's NAME.key.json")
    parser.add_argument("--labels", type=Path, nargs="+", required=True, metavar="FILE", help="what people exported or filled in")
    parser.add_argument("--task", help="only this task")


def correct(parsed: argparse.Namespace) -> int:
    """Writes a file beside each of the sheet's results, and prints what is in it.

    Raises:
        ConfigError: the results have no task of the sheet.
        DataError: files that cannot be used, or labels that decide nothing.
    """
    from lm_factuality.people.correct import correct
    from lm_factuality.people.key import read_key
    from lm_factuality.results.corrected import write_correction
    from lm_factuality.results.read import read_results_file, read_results_files

    wanted = {each.task for each in read_key(parsed.key).sources}
    files = read_results_files(parsed.results, with_corrected=False)
    found = [(file, task) for file in files for task in file.tasks if task.task in wanted and parsed.task in (None, task.task)]
    if not found:
        there = ", ".join(sorted({task.task for file in files for task in file.tasks}))
        raise ConfigError(f"{parsed.task or 'RESULTS'}: the sheet is of {', '.join(sorted(wanted))}, the results are of {there}")
    for file, correction in [(file, correct(task, parsed.key, parsed.labels)) for file, task in found]:
        written = write_correction(correction, file.path)
        print_corrected([read_results_file(file.path)], [correction.task])
        lines = [f"{count} samples: {reason}" for reason, count in correction.left_out.items()]
        lines += [f"{name}: {reason}" for name, reason in correction.without.items()]
        sys.stdout.writelines(f"{line}\n" for line in [*lines, f"Written to {written}, which is read with the results"])
    return 0
