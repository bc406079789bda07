"""Whether a judge's certificate is its own, and says what ``lm-factuality certify`` can have found on FELM."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from lm_factuality import __version__
from lm_factuality.benchmarks.felm.counts import LEVELS, Counts
from lm_factuality.benchmarks.felm.report import ALL, to_scores
from lm_factuality.benchmarks.felm.rows import FELM
from lm_factuality.harness.outputs import number_of

# Of a judge's description: what can change its answers.
IDENTITY = (
    "backend",
    "model",
    "model_args",
    "apply_chat_template",
    "options",
    "decoding",
    "thinking_tokens",
    "samples",
    "system",
    "extra_body",
    "endpoint",
    "prompts",
    *("family", "revision", "window", "threshold", "foundation", "trust_remote_code"),
    *("first", "then", "unsure", "error"),
)
_KEYS = ("identity", "judge", "setting", "suite_version", "prompt_hashes", "data", "scores", "intervals")
_SETTING = re.compile(r"(segment|claim)_(vanilla|cot|link|doc)")
_HASH = re.compile(r"[0-9a-f]{16,64}")
_COUNTS = ("tp", "fp", "fn", "tn")
_CLOSE = 1e-9


def is_published(content: Mapping[str, Any]) -> bool:
    """Whether it was measured on FELM as published."""
    data = content.get("data")
    return isinstance(data, dict) and data.get("is_published") is True and data.get("git_blob") == FELM.blob


def wrong_certificate(content: Mapping[str, Any], judge: Mapping[str, Any], suites: tuple[str, ...]) -> Iterator[str]:
    """Why ``content`` is no certificate of ``judge``, the config in the results; ``suites`` are the versions taken. A certificate
    is as ``judges.certificates`` writes it, whole or in short."""
    missing = [key for key in _KEYS if key not in content]
    own = own_hashes(content.get("identity"))
    if missing or own is None or not isinstance(content["judge"], dict):
        yield f"not a certificate: {', '.join(missing) or 'its identity or judge'} is missing or not in order"
        return
    for key in IDENTITY:
        if content["judge"].get(key) != judge.get(key):
            yield f"another judge: its {key} is not that of the run; certify this one"
    yield from _wrong_identity(content, judge)
    if content["suite_version"] not in suites:
        yield f"made by suite {str(content['suite_version'])[:20]}, taken are {', '.join(suites)}; certify again"
    yield from _wrong_prompts(content, own, judge)
    yield from _wrong_scores(content)


def own_hashes(identity: Any) -> dict[str, str] | None:
    """The hashes of the prompts that a certified judge replaces (see ``judges.certificates.certified_identity``); None where
    ``identity`` is not in order."""
    try:
        _, _, _, _, own = json.loads(identity)
    except (ValueError, TypeError, RecursionError):
        return None
    return own if isinstance(own, dict) and all(isinstance(each, str) for each in own.values()) else None


def _wrong_identity(content: Mapping[str, Any], judge: Mapping[str, Any]) -> Iterator[str]:
    name, system, decoding, samples, own = json.loads(content["identity"])
    certified = {"system": system, "decoding": decoding, "samples": samples, "prompts": sorted(own)}
    wanted = {**judge, "prompts": sorted(judge.get("prompts") or {})}
    for key, value in certified.items():
        if wanted.get(key) != value:
            yield f"its identity is of another {key} than the run's; certify this judge"
    model = judge.get("model") or ""
    if not isinstance(name, str) or not name.startswith(str(judge.get("backend"))) or str(model).rpartition("/")[2] not in name:
        yield "its identity is not that of this judge's model; certify this judge"


def _wrong_prompts(content: Mapping[str, Any], own: Mapping[str, str], judge: Mapping[str, Any]) -> Iterator[str]:
    """It names the prompts of its setting; those of the run that have the same names are the same, replaced ones included."""
    hashes, setting = content["prompt_hashes"], _SETTING.fullmatch(str(content["setting"]))
    if setting is None or not isinstance(hashes, dict):
        yield "not a certificate: its setting or prompt_hashes are not in order"
        return
    style = "cot" if setting[2] == "cot" else "vanilla"
    expected = {f"felm/{setting[0]}", f"felm/segment_{style}"}
    if set(hashes) not in (expected, {"authors"}) or not all(_HASH.fullmatch(str(each)) for each in hashes.values()):
        yield f"its prompt_hashes are not those of the prompts of {setting[0]}; certify again"
    for name in sorted(set(hashes) - {"authors"} - set(own)):
        if content["suite_version"] == __version__ and hashes[name] != _suites(name):
            yield f"its prompt {name[:60]} is not that of suite {__version__}; certify again"
    run = judge.get("prompt_hashes") or {}
    for name in sorted(set(run) & {*hashes, *own}):
        if {**hashes, **own}[name] != run[name]:
            yield f"the prompt {name[:60]} is another one; certify this judge again"


def _suites(name: str) -> str | None:
    from judges.templates import Prompts
    from lm_factuality.ground.errors import ConfigError

    try:
        return Prompts().hash(name)
    except ConfigError:
        return None


def _wrong_scores(content: Mapping[str, Any]) -> Iterator[str]:
    """Scores are finite, follow from their counts, and are of every response of the data."""
    found = content["scores"]
    whole = found.get(ALL, found if "unscored" in content else None) if isinstance(found, dict) else None
    unscored = _unscored(content)
    if not isinstance(whole, dict) or unscored is None:
        yield "it has no scores; certify this judge"
        return
    for level in LEVELS:
        given: Any = whole.get(level)
        counts = _counts(given)
        if counts is None:
            yield f"its scores of a {level} have no counts; certify this judge"
            continue
        if not _same(to_scores(counts), given):
            yield f"its scores of a {level} do not follow from their counts; certify this judge"
        if level == "response" and is_published(content):
            total, rows = counts.tp + counts.fp + counts.fn + counts.tn + unscored, FELM.rows
            if total != rows:
                yield f"it is on {total} responses, the published data has {rows}; certify on all of them"
    ends = [each for level in LEVELS for each in _ends(content["intervals"], level)]
    if not ends or not all(0 <= low <= high <= 1 for low, high in ends):
        yield "its intervals are none; certify this judge"


def _counts(given: Any) -> Counts | None:
    values: list[Any] = [given.get(key) for key in _COUNTS] if isinstance(given, dict) else []
    if not values or not all(isinstance(each, int) and 0 <= each < 10**9 for each in values):
        return None
    return Counts(*values)


def _unscored(content: Mapping[str, Any]) -> int | None:
    """How many responses the judge had no verdict on; a certificate in short has the number itself."""
    scores = content["scores"]
    given = content["unscored"] if "unscored" in content else scores.get("unscored") if isinstance(scores, dict) else None
    number = given.get("responses") if isinstance(given, dict) else given
    return number if isinstance(number, int) and not isinstance(number, bool) and number >= 0 else None


def _same(expected: Mapping[str, Any], given: Mapping[str, Any]) -> bool:
    pairs = [(expected[key], given.get(key)) for key in expected]
    return all(
        one is other is None or (one is not None and (value := number_of(other)) is not None and abs(one - value) <= _CLOSE)
        for one, other in pairs
    )


def _ends(intervals: Any, level: str) -> Iterator[tuple[float, float]]:
    """The intervals of a level; one that cannot be is turned into a pair that is none."""
    scores = intervals.get(level) if isinstance(intervals, dict) else None
    for each in scores.values() if isinstance(scores, dict) else ():
        if each is not None:
            ends = [number_of(end) for end in each] if isinstance(each, list) else []
            yield (ends[0], ends[1]) if len(ends) == 2 and None not in ends else (1.0, 0.0)  # type: ignore[misc]
