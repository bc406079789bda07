"""Whether a certificate is that of the judge of a run, and says what ``lm-factuality certify`` can
have found."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from judges.templates import Prompts, prompt_names
from lm_factuality import __version__
from lm_factuality.benchmarks import all_benchmarks
from lm_factuality.benchmarks.certifiable import (
    Certifiable,
    is_interval,
    mapping,
    unscored_of,
    whole_scores,
)
from lm_factuality.harness.outputs import number_of

# Of a judge's description: what can change its answers.
_MODEL = (
    "backend",
    "model",
    "model_args",
    "apply_chat_template",
    "options",
    "endpoint",
    "extra_body",
)
_CLASSIFIER = ("family", "revision", "window", "threshold", "foundation", "trust_remote_code")
_ASKED = ("decoding", "thinking_tokens", "samples", "system", "prompts", "verdicts", "verify")
IDENTITY = (*_MODEL, *_CLASSIFIER, *_ASKED, "first", "then", "unsure", "error")
_KEYS = (
    "identity",
    "judge",
    "setting",
    "suite_version",
    "prompt_hashes",
    "data",
    "scores",
    "intervals",
)
_MOST, _CLOSE = 1e9, 1e-9
_HASH = re.compile(r"[0-9a-f]{16,64}")


def all_settings() -> dict[str, Certifiable]:
    """What can be certified, by name, in the order of the benchmarks."""
    return {
        each.name: each for benchmark in all_benchmarks() for each in benchmark.checks.certifiable
    }


def is_published(content: Mapping[str, Any]) -> bool:
    """Whether it was measured on the published data of its setting."""
    setting = all_settings().get(str(content.get("setting")))
    data = mapping(content.get("data"))
    return (
        setting is not None
        and data.get("is_published") is True
        and data.get("git_blob") == setting.blob
    )


def wrong_certificate(
    content: Mapping[str, Any], judge: Mapping[str, Any], suites: tuple[str, ...]
) -> Iterator[str]:
    """Why ``content`` is no certificate of ``judge``, the config in the results; ``suites`` are the
    versions taken. A certificate is as ``judges.certificates`` writes it, whole or in short."""
    missing = [key for key in _KEYS if key not in content]
    own = own_hashes(content.get("identity"))
    if missing or own is None or not isinstance(content["judge"], dict):
        yield (
            f"not a certificate: {', '.join(missing) or 'its identity or judge'} is missing or not"
            " in order"
        )
        return
    for key in IDENTITY:
        if content["judge"].get(key) != judge.get(key):
            yield f"another judge: its {key} is not that of the run; certify this one"
    yield from _wrong_identity(content, judge)
    if content["suite_version"] not in suites:
        yield (
            f"made by suite {str(content['suite_version'])[:20]}, taken are {', '.join(suites)};"
            " certify again"
        )
    setting = all_settings().get(str(content["setting"]))
    if setting is None or not isinstance(content["prompt_hashes"], dict):
        yield "not a certificate: its setting or prompt_hashes are not in order"
        return
    yield from _wrong_prompts(content, setting, own, judge)
    yield from _wrong_scores(content, setting)


def own_hashes(identity: Any) -> dict[str, str] | None:
    """The hashes of the prompts that a certified judge replaces (see ``certified_identity``); None
    if it is not in order."""
    try:
        _, _, _, _, own, *_ = json.loads(identity)
    except (ValueError, TypeError, RecursionError):
        return None
    return (
        own
        if isinstance(own, dict) and all(isinstance(each, str) for each in own.values())
        else None
    )


def _wrong_identity(content: Mapping[str, Any], judge: Mapping[str, Any]) -> Iterator[str]:
    name, system, decoding, samples, own, *ways = json.loads(content["identity"])
    certified = {"system": system, "decoding": decoding, "samples": samples, "prompts": sorted(own)}
    wanted = {**judge, "prompts": sorted(judge.get("prompts") or {})}
    for key, value in [
        *certified.items(),
        *(pair for each in ways if isinstance(each, dict) for pair in each.items()),
    ]:
        if wanted.get(key) != value:
            yield f"its identity is of another {key} than the run's; certify this judge"
    model = judge.get("model") or ""
    if (
        not isinstance(name, str)
        or not name.startswith(str(judge.get("backend")))
        or str(model).rpartition("/")[2] not in name
    ):
        yield "its identity is not that of this judge's model; certify this judge"


def _wrong_prompts(
    content: Mapping[str, Any],
    setting: Certifiable,
    own: Mapping[str, str],
    judge: Mapping[str, Any],
) -> Iterator[str]:
    """It names the prompts of its setting; those of the run that have the same names are the same,
    replaced ones included."""
    hashes = content["prompt_hashes"]
    if set(hashes) not in setting.prompts or not all(
        _HASH.fullmatch(str(each)) for each in hashes.values()
    ):
        yield f"its prompt_hashes are not those of the prompts of {setting.name}; certify again"
    for name in sorted(set(hashes) - {"authors"} - set(own)):
        known = name in prompt_names()
        if content["suite_version"] == __version__ and not (
            known and hashes[name] == Prompts().hash(name)
        ):
            yield f"its prompt {name[:60]} is not that of suite {__version__}; certify again"
    run = judge.get("prompt_hashes") or {}
    for name in sorted(set(run) & {*hashes, *own}):
        if {**hashes, **own}[name] != run[name]:
            yield f"the prompt {name[:60]} is another one; certify this judge again"


def _wrong_scores(content: Mapping[str, Any], setting: Certifiable) -> Iterator[str]:
    """Scores are finite, follow from their counts, and are of every response of the data where they
    have to be."""
    whole, unscored, ends, total = (
        whole_scores(content),
        unscored_of(content),
        mapping(content["intervals"]),
        0.0,
    )
    for level in setting.levels:
        given, of_level = (
            (whole, ends) if not level else (mapping(whole.get(level)), mapping(ends.get(level)))
        )
        counts = {
            name: count
            for name in setting.counts
            if (count := number_of(given.get(name))) is not None
        }
        if (
            unscored is None
            or len(counts) < len(setting.counts)
            or max(map(abs, counts.values())) >= _MOST
        ):
            yield (
                f"it has no scores {level and f'of a {level} '}with their counts; certify this"
                " judge"
            )
            return
        total = sum(counts.values()) + unscored
        if not _are_same(setting.scores(counts), given):
            yield (
                f"its scores {level and f'of a {level} '}do not follow from their counts; certify"
                " this judge"
            )
        found = {name: each for name, each in of_level.items() if each is not None}
        if not found or not set(found) <= set(given) or not all(map(is_interval, found.values())):
            yield "its intervals are none; certify this judge"
    if setting.rows is not None and is_published(content) and total != setting.rows:
        yield (
            f"it is on {total:g} responses, the published data has {setting.rows}; certify on all"
            " of them"
        )


def _are_same(expected: Mapping[str, Any], given: Mapping[str, Any]) -> bool:
    pairs = [(one, number_of(given.get(key)), given.get(key)) for key, one in expected.items()]
    return all(
        one is raw is None or (None not in (one, other) and abs(one - other) <= _CLOSE)
        for one, other, raw in pairs
    )
