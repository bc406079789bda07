"""The last stage (section 3.2.4): three contradictions a row, one of each error type while types
last.

The paper does not say which of a type are taken. At ``random``, whoever learns how the true
sentences of a corpus look and how contradictions look could tell one from the other: numbers that
were edited have unusual digits, rare words replace common ones. So by default the choice is
``balanced``: rows are made one after the other, and of all ways to make a row the one is taken
after which the true completions and the contradictions of all rows so far, as two heaps of words,
differ the least. In a linear classifier that sees one completion at a time, the sum of these
differences is the gradient at zero: where it vanishes there is nothing to learn. All sums are of
whole numbers, so that they come out the same on every machine."""

import math
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from factor_gen.records import Candidate, Example
from factor_gen.settings import ChooseSettings
from factor_gen.surface import Ledger

_MOST_WAYS = 1500  # of making a row that are compared
_MOST_CANDIDATES = 24  # 2,024 ways


@dataclass(frozen=True, slots=True)
class Chosen:
    """A row of the benchmark before it is written. ``contradictions`` are some of
    ``example.candidates``, in the order of their columns. The example keeps all of them, so that
    what was generated and what was rejected can be counted."""

    example: Example
    contradictions: tuple[Candidate, ...]


def choose_rows(
    settings: ChooseSettings, seed: int, examples: Iterable[Example]
) -> Iterator[Chosen | Example]:
    """A row for each example that has enough contradictions left, in order; the other examples with
    the reason why not."""
    ledger = Ledger(settings.contradictions)
    rows = in_centre = 0
    for example in examples:
        if example.unused:
            yield example
            continue
        rng = random.Random(f"{seed}/choose/{example.doc_id}")
        left = standing(
            example, settings.contradictions, settings.min_types, settings.most_doubtful
        )
        kinds = len({candidate.type for candidate in left})
        if len(left) < settings.contradictions:
            yield example.drop("choose", f"fewer than {settings.contradictions} contradictions")
            continue
        if kinds < settings.min_types:
            yield example.drop("choose", f"contradictions of fewer than {settings.min_types} types")
            continue
        left = _some(rng.sample(left, len(left)), max(_MOST_CANDIDATES, settings.contradictions))
        ways = centred = _ways(example.completion, left, settings, rng)
        if settings.hide_centre:
            left, off_centre = _with_other_centres(example.completion, left, centred)
            ways = np.concatenate([centred, off_centre])
        if settings.pick == "balanced":
            is_centred = np.arange(len(ways)) < len(centred)
            way = ledger.enter(
                example.completion, [candidate.text for candidate in left], ways, is_centred
            )
        else:
            is_due = settings.hide_centre and in_centre * (settings.contradictions + 1) > rows
            way = tuple(ways[len(centred) if is_due and len(ways) > len(centred) else 0].tolist())
        chosen = tuple(left[index] for index in rng.sample(way, len(way)))
        rows += 1
        in_centre += not any(candidate.is_compound for candidate in chosen)
        yield Chosen(example, chosen)


def standing(example: Example, most: int, least_types: int, most_doubtful: int) -> list[Candidate]:
    """The candidates that no filter rejected and that are not too doubtful; of those that read the
    same, the first. The more doubtful are left out where a row of ``most`` contradictions of
    ``least_types`` types can do without."""
    distinct: dict[str, Candidate] = {}
    for candidate in example.candidates:
        if not candidate.rejected:
            distinct.setdefault(" ".join(candidate.text.split()), candidate)
    found: list[Candidate] = []
    for doubtful in range(most_doubtful + 1):
        found = [each for each in distinct.values() if each.doubtful <= doubtful]
        if len(found) >= most and len({each.type for each in found}) >= least_types:
            break
    return found


def _with_other_centres(
    completion: str, left: list[Candidate], ways: Any
) -> tuple[list[Candidate], Any]:
    """The candidates with all compounds of two, and the ways in which all contradictions but one
    have that one's edit too, which is then in the centre instead of the true completion."""
    both = compounds(completion, left)
    places = {pair: len(left) + place for place, pair in enumerate(both)}
    found = []
    for way in ways.tolist():
        for centre in way:
            pairs = [(centre, other) for other in way if other != centre]
            if all(pair in both for pair in pairs):
                found.append([centre, *(places[pair] for pair in pairs)])
    return [*left, *both.values()], np.array(found, dtype=ways.dtype).reshape(-1, ways.shape[1])


def _some(candidates: list[Candidate], most: int) -> list[Candidate]:
    """The first ``most`` of ``candidates``, in their order, but one of each type first."""
    if len(candidates) <= most:
        return candidates
    firsts = {candidate.type: place for place, candidate in reversed(list(enumerate(candidates)))}
    others = [place for place in range(len(candidates)) if place not in firsts.values()]
    return [candidates[place] for place in sorted([*firsts.values(), *others][:most])]


def _ways(
    completion: str, left: Sequence[Candidate], settings: ChooseSettings, rng: random.Random
) -> Any:
    """Ways to take contradictions of ``left`` of which as few as can be had are doubtful, then as
    few edit the same words, then with as many types as can be had: an array (ways, contradictions)
    of indices, in random order, as is the order in each."""
    size = settings.contradictions
    if (
        math.comb(len(left), size) > 20 * _MOST_WAYS
    ):  # of more contradictions than the paper's three
        found = [_one_way(left, size, rng) for _ in range(_MOST_WAYS)]
    else:
        types = [candidate.type for candidate in left]
        edits = [spans(completion, candidate.text) for candidate in left]
        clash = {
            (a, b): not _lie_apart(edits[a], edits[b], 0)
            for a, b in combinations(range(len(left)), 2)
        }
        ranks: dict[tuple[int, int, int], list[tuple[int, ...]]] = {}
        for way in combinations(range(len(left)), size):
            if (kinds := len({types[each] for each in way})) >= settings.min_types:
                clashes, doubts = (
                    sum(clash[pair] for pair in combinations(way, 2)),
                    sum(left[each].doubtful for each in way),
                )
                ranks.setdefault((doubts, clashes, -kinds), []).append(way)
        found = ranks[min(ranks)]
        found = rng.sample(found, min(len(found), _MOST_WAYS))
    return np.array([rng.sample(way, size) for way in found])


def _one_way(left: Sequence[Candidate], size: int, rng: random.Random) -> tuple[int, ...]:
    order = rng.sample(range(len(left)), len(left))
    first = {left[index].type: index for index in reversed(order)}
    firsts = rng.sample(list(first.values()), min(size, len(first)))
    return (*firsts, *[index for index in order if index not in firsts][: size - len(firsts)])


_PIECES = re.compile(r"\w+|\W")
_APART = 3  # pieces (a word and the spaces around it) that have to be left alone between two edits

Span = tuple[
    int, int, tuple[str, ...]
]  # first and last-plus-one piece of the completion, and what stands there instead


def spans(completion: str, text: str) -> list[Span]:
    """Where ``text`` departs from ``completion``, in order."""
    from rapidfuzz.distance import Levenshtein  # whose lack a build tells when it opens

    true, false = _PIECES.findall(completion), _PIECES.findall(text)
    changes = [each for each in Levenshtein.opcodes(true, false) if each.tag != "equal"]
    return [
        (each.src_start, each.src_end, tuple(false[each.dest_start : each.dest_end]))
        for each in changes
    ]


def compounds(completion: str, candidates: Sequence[Candidate]) -> dict[tuple[int, int], Candidate]:
    """For each two candidates (first, second) whose edits lie apart: the first with the second's
    edit made in it too.

    Where every contradiction is an edit of the true completion, that one is the nearest to all
    others, and whoever sees a row's four choices together can pick it without reading: it is the
    most central in 91% of the rows of the published News-FACTOR. For the same reason one who scores
    each choice by lot finds it in one row of eight, not of four: it is the highest only if each
    edit happens to lower it. If two of three contradictions share the edit of the first, the first
    is in the middle instead.

    A compound has the type of the second. It was not seen by any filter, whose scores are left out;
    its parts were.
    """
    found = {}
    edits = [spans(completion, candidate.text) for candidate in candidates]
    pieces = _PIECES.findall(completion)
    for one, first in enumerate(candidates):
        for other, second in enumerate(candidates):
            if one != other and _lie_apart(edits[one], edits[other]):
                edited: list[str] = list(pieces)
                for start, end, new in sorted([*edits[one], *edits[other]], reverse=True):
                    edited[start:end] = new
                both, made_by = (
                    f"{first.edit}; {second.edit}",
                    f"{first.generator} + {second.generator}",
                )
                doubtful = max(first.doubtful, second.doubtful)
                found[one, other] = Candidate(
                    "".join(edited), second.type, both, made_by, doubtful=doubtful
                )
    return found


def _lie_apart(one: Sequence[Span], other: Sequence[Span], apart: int = _APART) -> bool:
    return all(
        a[:2] != b[:2] and (a[1] + apart <= b[0] or b[1] + apart <= a[0])
        for a in one
        for b in other
    )
