"""The last stage, ``choose`` (section 3.2.4), which takes three contradictions for each row.

The paper does not say which contradictions of a type are taken. If they are drawn at random,
somebody who learns how the true sentences of a corpus look and how contradictions look can tell one
from the other: numbers that were edited have unusual digits, and rare words replace common ones.
So by default the choice is ``balanced``. Rows are made one after the other. Of all ways to make a
row we take the one after which the true completions and the contradictions of all rows so far, seen
as two bags of words, differ the least. In a linear classifier that sees one completion at a time,
the sum of these differences is the gradient at zero, so that there is nothing to learn if it
vanishes.
"""

import math
import random
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations, product, starmap
from typing import NamedTuple, TypeAlias

import numpy as np

from factor_gen.records import Candidate, Example
from factor_gen.settings import ChooseSettings
from factor_gen.surface import BalanceLedger, Ints
from lm_factuality.ground.packages import need

# At most so many ways to make a row are compared.
_MAX_SELECTIONS = 1500
# At most so many are ranked before that, by how doubtful they are and what they edit.
_MAX_RANKED = 20 * _MAX_SELECTIONS
# There are 2,024 ways to take three of 24 candidates.
_MAX_CANDIDATES = 24

_PIECES = re.compile(r"\w+|\W")
# Two edits can be made in one sentence if so many pieces stay unchanged between them, for instance
# a space, a word and a space.
_MIN_GAP = 3


@dataclass(frozen=True, slots=True)
class ChosenRow:
    """A row of the benchmark before it is written: a document and its contradictions."""

    example: Example
    """The document with its true completion.

    It keeps all its candidates, so that those that were rejected can be counted.
    """

    contradictions: tuple[Candidate, ...]
    """The chosen contradictions, in the order of their columns."""


DocumentOutcome: TypeAlias = ChosenRow | Example
"""The row that a document gave, or the document marked as unused."""


def choose_rows(
    settings: ChooseSettings, seed: int, examples: Iterable[Example]
) -> Iterator[DocumentOutcome]:
    """Choose the contradictions of the row of each document.

    Args:
        settings: How many contradictions a row has, and how they are chosen.
        seed: The seed of the build.
        examples: The documents of the whole corpus with the contradictions that were generated.

    Yields:
        For each document, in order, its row. A document without enough contradictions is yielded
        as unused, with the reason.
    """
    ledger = BalanceLedger(settings.contradictions)
    for example in examples:
        # An earlier stage gave the document up.
        if example.unused:
            yield example
            continue

        usable = usable_candidates(example, settings)
        reason = _reason_for_no_row(usable, settings)
        if reason:
            yield example.drop("choose", reason)
            continue

        # The random numbers of a document do not depend on the documents before it.
        rng = random.Random(f"{seed}/choose/{example.doc_id}")
        yield _choose_row(example, usable, settings, rng, ledger)


def _reason_for_no_row(candidates: Sequence[Candidate], settings: ChooseSettings) -> str:
    """Say why some candidates do not suffice for a row, or return an empty text if they do."""
    if len(candidates) < settings.contradictions:
        return f"fewer than {settings.contradictions} contradictions"
    if len({candidate.type for candidate in candidates}) < settings.min_types:
        return f"contradictions of fewer than {settings.min_types} types"
    return ""


def usable_candidates(example: Example, settings: ChooseSettings) -> list[Candidate]:
    """Return the candidates, i.e. generated contradictions, of which a row may be made.

    They are the distinct ones that no filter rejected. Doubtful ones are among them only if
    the others are too few for a row.

    Args:
        example: A document with the candidates that were generated for it.
        settings: How many contradictions and types a row has, and how doubtful they may be.

    Returns:
        The candidates in the order in which they were generated. They may be too few for a row.
    """
    distinct: dict[str, Candidate] = {}
    for candidate in example.candidates:
        if candidate.rejected:
            continue
        # Candidates that differ only in white space are the same sentence.
        sentence = " ".join(candidate.text.split())
        distinct.setdefault(sentence, candidate)

    # More doubtful candidates are added only until there are enough for a row.
    for max_doubt in range(settings.most_doubtful + 1):
        usable = [candidate for candidate in distinct.values() if candidate.doubtful <= max_doubt]
        if not _reason_for_no_row(usable, settings):
            break
    return usable


def _choose_row(
    example: Example,
    usable: Sequence[Candidate],
    settings: ChooseSettings,
    rng: random.Random,
    ledger: BalanceLedger,
) -> ChosenRow:
    """Choose the contradictions of a row.

    Args:
        example: The document of the row.
        usable: Enough candidates, i.e. generated contradictions, for a row.
        settings: How many contradictions to choose, and how.
        rng: The random numbers of this document.
        ledger: The rows so far. The row is added to it if the choice is balanced.

    Returns:
        The document and its contradictions, in the order of their columns.
    """
    shuffled = rng.sample(usable, len(usable))
    candidates = _limit_candidates(shuffled, settings.contradictions)
    selections = _best_selections(example.completion, candidates, settings, rng)
    num_centred = len(selections)

    # So far the true completion is in the centre of every row: each contradiction shares more
    # with it than with the others. Compounds allow rows with a contradiction in the centre.
    if settings.hide_most_central:
        compounds = combine_edits(example.completion, candidates)
        off_centre = _compound_selections(selections, compounds, len(candidates))
        candidates = [*candidates, *compounds.values()]
        selections = np.concatenate([selections, off_centre])

    if settings.pick == "balanced":
        texts = [candidate.text for candidate in candidates]
        is_centred = np.arange(len(selections)) < num_centred
        selection = ledger.add_most_even_row(example.completion, texts, selections, is_centred)
    else:
        selection = _pick_at_random(selections, num_centred, rng)

    # The columns are in random order, so that the first is not always of the same kind.
    column_order = rng.sample(selection, len(selection))
    return ChosenRow(example, tuple(candidates[index] for index in column_order))


def _limit_candidates(candidates: Sequence[Candidate], row_size: int) -> list[Candidate]:
    """Keep few enough candidates that every row that can be made of them can be ranked.

    Args:
        candidates: The contradictions that were generated for a document, in random order.
        row_size: How many contradictions a row has.

    Returns:
        The candidates to keep, in the same order, with as many types as possible.
    """
    limit = max(_MAX_CANDIDATES, row_size)
    # Of 24 candidates, 10,626 rows of four can be made, but two million rows of ten.
    while limit > row_size and math.comb(limit, row_size) > _MAX_RANKED:
        limit -= 1

    # The first candidate of each type stays, even if its type is rare.
    first_by_type: dict[str, Candidate] = {}
    for candidate in candidates:
        first_by_type.setdefault(candidate.type, candidate)
    others = [candidate for candidate in candidates if candidate not in first_by_type.values()]

    kept = [*first_by_type.values(), *others][:limit]
    return [candidate for candidate in candidates if candidate in kept]


class _SelectionRank(NamedTuple):
    """How good a way to make a row is. The least rank is the best."""

    doubt: int
    """How doubtful its contradictions are in total."""

    num_overlaps: int
    """How many pairs of contradictions edit the same words."""

    minus_num_types: int
    """The number of its error types, negated because more are better."""


def _best_selections(
    completion: str, candidates: Sequence[Candidate], settings: ChooseSettings, rng: random.Random
) -> Ints:
    """Return the best selections, i.e. ways to choose the contradictions of a row.

    The best ones have the fewest doubtful contradictions. Among these, as few contradictions as
    possible edit the same words; among those, the row has as many error types as possible.

    Args:
        completion: The true completion.
        candidates: The candidates, so few that all selections of them can be ranked.
        settings: How many contradictions and types a row has.
        rng: The random numbers of this document.

    Returns:
        An array (selections, contradictions) of indices of ``candidates``. Both the selections and
        the indices of each are in random order.
    """
    overlaps = _overlapping_pairs(completion, candidates)
    selections_by_rank: defaultdict[_SelectionRank, list[tuple[int, ...]]] = defaultdict(list)
    for selection in combinations(range(len(candidates)), settings.contradictions):
        num_types = len({candidates[index].type for index in selection})
        if num_types < settings.min_types:
            continue
        doubt = sum(candidates[index].doubtful for index in selection)
        num_overlaps = len(overlaps.intersection(combinations(selection, 2)))
        rank = _SelectionRank(doubt, num_overlaps, -num_types)
        selections_by_rank[rank].append(selection)

    # Selections of the same rank are equally good.
    best = selections_by_rank[min(selections_by_rank)]
    sample = rng.sample(best, min(len(best), _MAX_SELECTIONS))
    return np.array([rng.sample(selection, len(selection)) for selection in sample])


def _overlapping_pairs(completion: str, candidates: Sequence[Candidate]) -> set[tuple[int, int]]:
    """Return the pairs of candidates that edit the same words of the completion.

    Args:
        completion: The true completion.
        candidates: Contradictions of it.

    Returns:
        Pairs of indices of ``candidates``, the lesser index first.
    """
    edits = [find_edits(completion, candidate.text) for candidate in candidates]
    pairs = set()
    for first, second in combinations(range(len(candidates)), 2):
        if not _lie_apart(edits[first], edits[second], min_gap=0):
            pairs.add((first, second))
    return pairs


class CandidatePair(NamedTuple):
    """The indices of two candidates whose edits are made in one sentence, the compound."""

    inner: int
    """The candidate that is in the centre of a row, because the whole row shares its edit."""

    outer: int
    """The candidate whose edit is made in addition. The compound has its error type."""


def _compound_selections(
    selections: Ints, compounds: Iterable[CandidatePair], num_candidates: int
) -> Ints:
    """Return selections for rows in which a contradiction, not the true completion, is central.

    One contradiction is the centre, i.e. the choice that has the most in common with the others.
    The other contradictions are compounds: each has the edit of the centre and one of its own.

    Args:
        selections: Selections without compounds, an array (selections, contradictions) of indices
            of candidates.
        compounds: The pairs of candidates that can be combined.
        num_candidates: The number of candidates. The compounds are numbered after them.

    Returns:
        An array (selections, contradictions) of indices of candidates and compounds.

    Example:
        The selection ``[0, 1, 2]`` gives one with candidate 0 and the compounds of 0 with 1 and of
        0 with 2, and likewise one with candidate 1 and one with candidate 2 in the centre.
    """
    index_of_pair = {pair: num_candidates + number for number, pair in enumerate(compounds)}

    compound_selections = []
    for selection in selections.tolist():
        for centre_index in selection:
            pairs = [CandidatePair(centre_index, index) for index in selection]
            pairs.remove(CandidatePair(centre_index, centre_index))
            # Edits of the same words cannot be combined.
            if all(pair in index_of_pair for pair in pairs):
                compound_indices = [index_of_pair[pair] for pair in pairs]
                compound_selections.append([centre_index, *compound_indices])

    # Without a shape, an empty list would become an array of one dimension.
    array = np.array(compound_selections, dtype=selections.dtype)
    return array.reshape(-1, selections.shape[1])


def _pick_at_random(selections: Ints, num_centred: int, rng: random.Random) -> tuple[int, ...]:
    """Pick a selection so that each choice of a row is equally likely to be in the centre.

    Args:
        selections: An array (selections, contradictions) of indices of candidates. Those with the
            true completion in the centre come first. Both parts are in random order.
        num_centred: How many selections have the true completion in the centre.
        rng: The random numbers of this document.

    Returns:
        The indices of the contradictions.
    """
    # Among four choices, the true completion is to be in the centre of one row in four.
    num_choices = selections.shape[1] + 1
    has_off_centre = len(selections) > num_centred
    is_off_centre = has_off_centre and rng.randrange(num_choices) > 0
    picked = selections[num_centred if is_off_centre else 0]
    return tuple(picked.tolist())


def combine_edits(
    completion: str, candidates: Sequence[Candidate]
) -> dict[CandidatePair, Candidate]:
    """Combine every two contradictions whose edits lie apart into one sentence with both edits.

    If all contradictions are edits of the true completion, comparing the choices finds it: it has
    the most in common with the others, in 91% of the rows of the published News-FACTOR. With
    compounds, a contradiction can have the most in common with the others instead.

    Args:
        completion: The true completion.
        candidates: Contradictions of it.

    Returns:
        The compounds by the indices of their candidates. The text is the same for both orders of
        a pair, but the error type is that of the outer candidate. A compound has no scores,
        because the filters saw only its two edits.

    Example:
        "She left Rome" and "He left Oslo", made of "She left Oslo", give "He left Rome".
    """
    edits = [find_edits(completion, candidate.text) for candidate in candidates]
    compounds = {}
    for pair in starmap(CandidatePair, permutations(range(len(candidates)), 2)):
        if not _lie_apart(edits[pair.inner], edits[pair.outer]):
            continue
        inner = candidates[pair.inner]
        outer = candidates[pair.outer]
        # The columns of the row show both edits and both rules.
        compounds[pair] = Candidate(
            text=_apply_edits(completion, [*edits[pair.inner], *edits[pair.outer]]),
            type=outer.type,
            edit=f"{inner.edit}; {outer.edit}",
            generator=f"{inner.generator} + {outer.generator}",
            doubtful=max(inner.doubtful, outer.doubtful),
        )
    return compounds


class PieceEdit(NamedTuple):
    """A place where a contradiction differs from the completion.

    Positions count pieces: words, and single characters between them.
    """

    start: int
    """The first piece of the completion that is replaced."""

    end: int
    """The piece after the last that is replaced. Equal to ``start`` if pieces are inserted."""

    replacement: tuple[str, ...]
    """The pieces of the contradiction in their place."""


def find_edits(completion: str, contradiction: str) -> list[PieceEdit]:
    """Return the edits that turn a completion into a contradiction, in order.

    Args:
        completion: The true completion.
        contradiction: A contradiction of it.

    Returns:
        The edits from left to right. Empty if both texts have the same pieces.

    Example:
        ``find_edits("In May it rained", "In June it rained")`` is
        ``[PieceEdit(start=2, end=3, replacement=("June",))]``.
    """
    levenshtein = need("rapidfuzz.distance", "choosing contradictions", "generate").Levenshtein
    true_pieces = _PIECES.findall(completion)
    false_pieces = _PIECES.findall(contradiction)

    edits = []
    for operation in levenshtein.opcodes(true_pieces, false_pieces):
        # The other operations are "replace", "insert" and "delete".
        if operation.tag == "equal":
            continue
        replacement = tuple(false_pieces[operation.dest_start : operation.dest_end])
        edits.append(PieceEdit(operation.src_start, operation.src_end, replacement))
    return edits


def _apply_edits(completion: str, edits: Iterable[PieceEdit]) -> str:
    """Return a completion with some edits, none of which overlap.

    Example:
        "In May it rained" with ``PieceEdit(2, 3, ("June",))`` is "In June it rained".
    """
    pieces = _PIECES.findall(completion)
    # From right to left, so that the positions of the edits to come stay valid.
    for edit in sorted(edits, reverse=True):
        pieces[edit.start : edit.end] = edit.replacement
    return "".join(pieces)


def _lie_apart(
    first_edits: Sequence[PieceEdit], second_edits: Sequence[PieceEdit], min_gap: int = _MIN_GAP
) -> bool:
    """Tell whether enough pieces stay unchanged between the edits of two contradictions.

    Args:
        first_edits: The edits of one contradiction.
        second_edits: The edits of the other.
        min_gap: How many pieces have to stay unchanged between any two edits. 0: the edits may
            touch but not overlap.

    Returns:
        True if the edits of both contradictions can be made in one sentence.
    """
    for first, second in product(first_edits, second_edits):
        # Two insertions in the same place have a gap of 0, but which comes first is unclear.
        if (first.start, first.end) == (second.start, second.end):
            return False
        is_before = first.end + min_gap <= second.start
        is_after = second.end + min_gap <= first.start
        if not (is_before or is_after):
            return False
    return True
