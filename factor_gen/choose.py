"""The last stage (section 3.2.4): three contradictions a row, of as many types as there are.

The paper does not say which of a type are taken. At ``random``, whoever learns how the true
sentences of a corpus look and how contradictions look could tell one from the other: numbers that
were edited have unusual digits, rare words replace common ones. So by default the choice is
``balanced``. Rows are made one after the other, and of all ways to make a row the one is taken
after which the true completions and the contradictions of all rows so far, as two heaps of words,
differ the least. In a linear classifier that sees one completion at a time, the sum of these
differences is the gradient at zero: where it vanishes there is nothing to learn. All sums are of
whole numbers, so that they come out the same on every machine.
"""

import math
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations, product
from typing import Any

import numpy as np

from factor_gen.records import Candidate, Example
from factor_gen.settings import ChooseSettings
from factor_gen.surface import Ledger
from lm_factuality.ground.packages import need

_MOST_WAYS = 1500
"""Ways to make a row that are compared."""
_MOST_CANDIDATES = 24  # 2,024 ways
_MOST_RANKED = 20 * _MOST_WAYS
"""Ways to make a row that are ranked."""
_PIECES = re.compile(r"\w+|\W")
_APART = 3  # pieces (a word and the spaces around it) that have to be left alone between two edits

Span = tuple[int, int, tuple[str, ...]]
"""First and last-plus-one piece of the completion, and what stands there instead."""


@dataclass(frozen=True, slots=True)
class ChosenRow:
    """A row of the benchmark before it is written."""

    example: Example
    """It keeps all candidates, so that what was generated and rejected can be counted."""
    contradictions: tuple[Candidate, ...]
    """In the order of their columns."""


def choose_rows(
    settings: ChooseSettings, seed: int, examples: Iterable[Example]
) -> Iterator[ChosenRow | Example]:
    """Yield a row for each example that has enough contradictions left, in order.

    The other examples are yielded with the reason why they give none.
    """
    ledger = Ledger(settings.contradictions)
    for example in examples:
        if example.unused:
            yield example
            continue
        usable = standing(example, settings)
        if len(usable) < settings.contradictions:
            yield example.drop("choose", f"fewer than {settings.contradictions} contradictions")
            continue
        if len({candidate.type for candidate in usable}) < settings.min_types:
            yield example.drop("choose", f"contradictions of fewer than {settings.min_types} types")
            continue
        rng = random.Random(f"{seed}/choose/{example.doc_id}")
        shuffled = rng.sample(usable, len(usable))
        candidates = _limit(shuffled, settings.contradictions)
        ways = _ways(example.completion, candidates, settings, rng)
        centred = len(ways)
        if settings.hide_centre:
            candidates, off_centre = _with_other_centres(example.completion, candidates, ways)
            ways = np.concatenate([ways, off_centre])
        if settings.pick == "balanced":
            texts = [candidate.text for candidate in candidates]
            way = ledger.enter(example.completion, texts, ways, np.arange(len(ways)) < centred)
        else:
            # by lot the true completion is in the centre of one row in (contradictions + 1)
            is_off_centre = len(ways) > centred and rng.randrange(settings.contradictions + 1)
            way = tuple(ways[centred if is_off_centre else 0].tolist())
        chosen = tuple(candidates[index] for index in rng.sample(way, len(way)))
        yield ChosenRow(example, chosen)


def standing(example: Example, settings: ChooseSettings) -> list[Candidate]:
    """Return the candidates that no filter rejected and that are not too doubtful.

    Of those that read the same, the first is taken. The more doubtful are left out where a row can
    do without them.
    """
    distinct: dict[str, Candidate] = {}
    for candidate in example.candidates:
        if not candidate.rejected:
            distinct.setdefault(" ".join(candidate.text.split()), candidate)
    usable: list[Candidate] = []
    for doubtful in range(settings.most_doubtful + 1):
        usable = [candidate for candidate in distinct.values() if candidate.doubtful <= doubtful]
        types = {candidate.type for candidate in usable}
        if len(usable) >= settings.contradictions and len(types) >= settings.min_types:
            break
    return usable


def _limit(candidates: list[Candidate], size: int) -> list[Candidate]:
    """Return some candidates, in their order, but one of each type first.

    They are so few that all ways to take ``size`` of them can be ranked.
    """
    most = max(_MOST_CANDIDATES, size)
    while most > size and math.comb(most, size) > _MOST_RANKED:
        most -= 1
    types = [candidate.type for candidate in candidates]
    by_rarity = sorted(range(len(candidates)), key=lambda place: types[place] in types[:place])
    return [candidates[place] for place in sorted(by_rarity[:most])]


def _ways(
    completion: str, candidates: Sequence[Candidate], settings: ChooseSettings, rng: random.Random
) -> Any:
    """Return ways to take contradictions: an array (ways, contradictions) of indices.

    As few contradictions as can be had are doubtful, then as few edit the same words, then they
    are of as many types as can be had. The ways, and the indices of each, are in random order.
    """
    edits = [spans(completion, candidate.text) for candidate in candidates]
    overlaps = {
        (first, second): not _lie_apart(edits[first], edits[second], 0)
        for first, second in combinations(range(len(candidates)), 2)
    }
    ways_of_rank: dict[tuple[int, int, int], list[tuple[int, ...]]] = {}
    for way in combinations(range(len(candidates)), settings.contradictions):
        types = len({candidates[index].type for index in way})
        if types >= settings.min_types:
            doubts = sum(candidates[index].doubtful for index in way)
            overlapping = sum(overlaps[pair] for pair in combinations(way, 2))
            ways_of_rank.setdefault((doubts, overlapping, -types), []).append(way)
    ways = ways_of_rank[min(ways_of_rank)]
    ways = rng.sample(ways, min(len(ways), _MOST_WAYS))
    return np.array([rng.sample(way, len(way)) for way in ways])


def _with_other_centres(
    completion: str, candidates: list[Candidate], ways: Any
) -> tuple[list[Candidate], Any]:
    """Return the candidates with all compounds of two, and more ways to make a row of them.

    In these ways all contradictions but one have that one's edit too, which is then in the centre
    instead of the true completion.
    """
    compound_of = compounds(completion, candidates)
    places = {pair: len(candidates) + place for place, pair in enumerate(compound_of)}
    off_centre = []
    for way in ways.tolist():
        for centre in way:
            pairs = [(centre, index) for index in way if index != centre]
            if all(pair in places for pair in pairs):
                off_centre.append([centre, *(places[pair] for pair in pairs)])
    more_ways = np.array(off_centre, dtype=ways.dtype).reshape(-1, ways.shape[1])
    return [*candidates, *compound_of.values()], more_ways


def compounds(completion: str, candidates: Sequence[Candidate]) -> dict[tuple[int, int], Candidate]:
    """Return, for each two candidates whose edits lie apart, the first with the second's edit too.

    Where every contradiction is an edit of the true completion, that one is the nearest to all
    others, and whoever sees a row's four choices together can pick it without reading: it is the
    most central in 91% of the rows of the published News-FACTOR. For the same reason one who scores
    each choice by lot finds it in one row of eight, not of four: it is the highest only if each
    edit happens to lower it. If two of three contradictions share the edit of the first, the first
    is in the middle instead.

    A compound has the type of the second. It was not seen by any filter, whose scores are left out;
    its parts were.
    """
    edits = [spans(completion, candidate.text) for candidate in candidates]
    pieces = _PIECES.findall(completion)
    compound_of = {}
    for first, second in permutations(range(len(candidates)), 2):
        if not _lie_apart(edits[first], edits[second]):
            continue
        edited = pieces.copy()
        for start, end, new in sorted([*edits[first], *edits[second]], reverse=True):
            edited[start:end] = new
        inner = candidates[first]
        outer = candidates[second]
        compound_of[first, second] = Candidate(
            text="".join(edited),
            type=outer.type,
            edit=f"{inner.edit}; {outer.edit}",
            generator=f"{inner.generator} + {outer.generator}",
            doubtful=max(inner.doubtful, outer.doubtful),
        )
    return compound_of


def spans(completion: str, text: str) -> list[Span]:
    """Return where ``text`` departs from ``completion``, in order."""
    levenshtein = need("rapidfuzz.distance", "choosing contradictions", "generate").Levenshtein
    true = _PIECES.findall(completion)
    false = _PIECES.findall(text)
    return [
        (edit.src_start, edit.src_end, tuple(false[edit.dest_start : edit.dest_end]))
        for edit in levenshtein.opcodes(true, false)
        if edit.tag != "equal"
    ]


def _lie_apart(first: Sequence[Span], second: Sequence[Span], apart: int = _APART) -> bool:
    """Whether at least ``apart`` pieces are left alone between any two edits."""
    return all(
        (start, end) != (next_start, next_end)
        and (end + apart <= next_start or next_end + apart <= start)
        for (start, end, _), (next_start, next_end, _) in product(first, second)
    )
