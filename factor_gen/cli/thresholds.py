"""``factor-gen thresholds``: how strict the filters should be, by contradictions that people have
labelled."""

import argparse
import sys
from dataclasses import dataclass, replace

from factor_gen.records import last_words
from factor_gen.thresholds import (
    MOST_FILTERED,
    Curve,
    Labelled,
    Share,
    columns_of,
    curves,
    draw_thresholds,
    read_labelled,
    to_json,
)
from lm_factuality.ground.console import print_table
from lm_factuality.ground.errors import ConfigError
from lm_factuality.ground.files import write_json
from lm_factuality.ground.packages import first_line


@dataclass(frozen=True)
class _Filter:
    """A filter as the command knows it: its option, its columns, and what it keeps."""

    option: str
    label: str
    score: str
    is_margin: bool
    kept: str


_FILTERS = (
    _Filter(
        "nli",
        "contradictory",
        "contradiction_score",
        False,
        "probability of contradiction above the threshold",
    ),
    _Filter(
        "fluency",
        "fluent",
        "fluency_score",
        True,
        "less than the threshold below the completion, nats a token",
    ),
)


def thresholds(parsed: argparse.Namespace) -> int:
    """Prints precision and share kept for each threshold, and the paper's choice. Raises DataError:
    the file cannot be used; ConfigError: there is neither a model nor a score; ModelError: a model
    cannot be used."""
    found: dict[str, list[Curve]] = {}
    for each in _wanted(parsed):
        samples = _samples(parsed, each)
        found[each.option] = curves(samples, each.is_margin)
        for curve in found[each.option]:
            _print(each, curve)
    if parsed.json:
        write_json(
            parsed.json, {name: [to_json(curve) for curve in each] for name, each in found.items()}
        )
    if parsed.plot:
        draw_thresholds({name: each[0] for name, each in found.items()}, parsed.plot)
        sys.stdout.write(f"Plot: {parsed.plot}\n")
    return 0


def _wanted(parsed: argparse.Namespace) -> list[_Filter]:
    """The filters for which there is a model; without any, those for which the file has scores."""
    if parsed.context < 0:
        raise ConfigError(f"--context is {parsed.context}; expected a number of words, 0 for none")
    for each in _FILTERS:
        if (
            getattr(parsed, f"{each.option}_revision") is not None
            and getattr(parsed, each.option) is None
        ):
            raise ConfigError(
                f"--{each.option}-revision is of no use without --{each.option}; name its model"
                " there"
            )
    if named := [each for each in _FILTERS if getattr(parsed, each.option)]:
        return named
    columns = columns_of(parsed.labelled)
    if scored := [each for each in _FILTERS if each.score in columns]:
        return scored
    raise ConfigError(
        f"{parsed.labelled}: has no {' and no '.join(each.score for each in _FILTERS)}; name a"
        " model with --nli or --fluency"
    )


def _samples(parsed: argparse.Namespace, wanted: _Filter) -> list[Labelled]:
    """The rows with the scores that the file has, or that the model gives them."""
    model = getattr(parsed, wanted.option)
    if model is None:
        return read_labelled(parsed.labelled, wanted.label, wanted.score)
    rows = read_labelled(parsed.labelled, wanted.label)
    revision, device = (
        getattr(parsed, f"{wanted.option}_revision"),
        parsed.device and _device(parsed.device),
    )
    if wanted.is_margin:
        from factor_gen.filter_models import FluencyModel

        texts = [text for row in rows for text in (row.contradiction, row.completion)]
        logprobs = FluencyModel(model, revision, device=device).mean_logprobs(texts)
        scores = [one - other for one, other in zip(logprobs[::2], logprobs[1::2], strict=True)]
    else:
        from factor_gen.filter_models import NliModel, Pair

        pairs = [
            Pair(last_words(row.prefix, parsed.context), row.completion, row.contradiction)
            for row in rows
        ]
        scores = NliModel(model, revision, device=device).contradictions(pairs)
    return [replace(row, score=score) for row, score in zip(rows, scores, strict=True)]


def _device(name: str) -> str:
    """``name``, if there is such a device here. Raises ConfigError: there is none."""
    import torch

    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:  # the latter of a PyTorch without CUDA
        known = ["cpu", *(f"cuda:{number}" for number in range(torch.cuda.device_count()))]
        raise ConfigError(
            f"--device is {name!r}: {first_line(error)}; here there is {', '.join(known)}"
        ) from error
    return name


def _print(about: _Filter, curve: Curve) -> None:
    best = curve.best
    lines = [
        (
            f"{each.threshold:.1f}{' *' if best is each else ''}",
            str(each.precision),
            _interval(each.precision),
            str(each.kept),
            f"{each.filtered:.1%}",
            f"{each.precision.count}/{each.precision.total}",
        )
        for each in curve.points
    ]
    group = "all types" if curve.group == "all" else f"type {curve.group}"
    notes = [
        f"kept: {about.kept}",
        f"{curve.true.total} samples, {curve.true.count} of them {about.label} ({curve.true}"
        f"{f', 95% interval {_interval(curve.true)}' if curve.true.total else ''})"
        + (f"; {curve.unscored} without a score, never kept" if curve.unscored else ""),
        (
            f"* highest precision with at most {MOST_FILTERED:.0%} filtered out, the paper's choice"
            " (appendix A.2)"
            if best
            else (
                f"Every threshold filters out more than {MOST_FILTERED:.0%}: the paper's rule"
                " chooses none"
            )
        ),
    ]
    columns = (
        "threshold",
        "#precision",
        "#95% interval",
        "#kept",
        "#filtered out",
        f"#{about.label}/kept",
    )
    print_table(f"Filter {about.option}, {group}", columns, lines, notes)


def _interval(share: Share) -> str:
    low, high = share.interval
    return f"{100 * low:.1f} - {high:.1%}" if share.total else "-"
