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
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations, product
from typing import NamedTuple, TypeAlias

import numpy as np

from factor_gen.records import ERROR_TYPES, Candidate, ErrorType, Example, Refusal
from factor_gen.settings import ChooseSettings
from factor_gen.surface import BalanceLedger, Bools, Ints
from lm_factuality.ground.packages import need

# At most so many ways to make a row are compared.
_MAX_SELECTIONS = 1500
# At most so many are ranked before that, by whether they are doubtful and what they edit.
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
    num_by_type: Counter[str] = Counter()
    for example in examples:
        # An earlier stage gave the document up.
        if example.unused:
            yield example
            continue

        usable = usable_candidates(example, settings)
        reason = _reason_for_no_row(usable, settings)
        if reason:
            yield example.drop("choose", f"{reason}{_blame(example)}")
            continue

        # The random numbers of a document do not depend on the documents before it.
        rng = random.Random(f"{seed}/choose/{example.doc_id}")
        row = _choose_row(example, usable, settings, rng, ledger, num_by_type)
        num_by_type.update(candidate.type for candidate in row.contradictions)
        yield row


def _reason_for_no_row(candidates: Sequence[Candidate], settings: ChooseSettings) -> str:
    """Say why some candidates do not suffice for a row, or return an empty text if they do."""
    if len(candidates) < settings.contradictions:
        return f"fewer than {settings.contradictions} contradictions"
    if len({candidate.type for candidate in candidates}) < settings.min_types:
        return f"contradictions of fewer than {settings.min_types} types"
    return ""


def _blame(example: Example) -> str:
    """Name the stage that rejected the most contradictions of a document, to end its reason.

    Example:
        ``; the stage filter rejected most``, or an empty text if no stage rejected any.
    """
    stages = [Refusal.parse(candidate.rejected).stage for candidate in example.candidates]
    rejections = Counter(stage for stage in stages if stage)
    if not rejections:
        return ""
    # Of two stages with as many, the one that rejected first is named.
    [(stage, _)] = rejections.most_common(1)
    return f"; the stage {stage} rejected most"


def usable_candidates(example: Example, settings: ChooseSettings) -> list[Candidate]:
    """Return the candidates, i.e. generated contradictions, of which a row may be made.

    They are the distinct ones that no filter rejected. Doubtful ones are among them only if
    the others are too few for a row.

    Args:
        example: A document with the candidates that were generated for it.
        settings: How many contradictions and types a row has, and whether they may be doubtful.

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

    sure = [candidate for candidate in distinct.values() if not candidate.doubtful]
    # Doubtful candidates are only for a row that lacks others.
    if not settings.allow_doubtful or not _reason_for_no_row(sure, settings):
        return sure
    return list(distinct.values())


def _choose_row(
    example: Example,
    usable: Sequence[Candidate],
    settings: ChooseSettings,
    rng: random.Random,
    ledger: BalanceLedger,
    num_by_type: Mapping[str, int],
) -> ChosenRow:
    """Choose the contradictions of a document's row among its candidates.

    All good ways to make a row are listed first. Then one of them is picked, either at random or so
    that it balances the rows so far.

    Args:
        example: The document of the row.
        usable: Enough candidates, i.e. generated contradictions, for a row.
        settings: How many contradictions to choose, and how.
        rng: The random numbers of this document.
        ledger: The rows so far. The row is added to it if the choice is balanced.
        num_by_type: How many contradictions of each error type the rows so far have.

    Returns:
        The document and its contradictions, in the order of their columns.
    """
    shuffled = rng.sample(usable, len(usable))
    candidates = _limit_candidates(shuffled, settings.contradictions)
    num_plain = len(candidates)
    # A selection lists the indices of the candidates that would make a row together.
    selections = _best_selections(example.completion, candidates, settings, rng, num_by_type)

    # Each candidate is the true completion with one edit, so that all choices resemble the true
    # completion the most: it is in the centre of the row. A compound has the edits of two
    # candidates. In a row of one candidate and its compounds, that candidate is in the centre.
    if settings.hide_most_central:
        compounds = combine_edits(example.completion, candidates)
        compound_selections = _compound_selections(selections, compounds, num_plain)
        candidates = [*candidates, *compounds.values()]
        selections = np.concatenate([selections, compound_selections])

    # The compounds come after the plain candidates, so that only rows with one have such indices.
    is_centred = selections.max(axis=1) < num_plain
    if settings.pick == "balanced":
        texts = [candidate.text for candidate in candidates]
        selection = ledger.add_most_even_row(example.completion, texts, selections, is_centred)
    else:
        selection = _pick_at_random(selections, is_centred, rng)

    # The columns are in random order, so that the first is not always of the same kind.
    column_order = rng.sample(selection, len(selection))
    return ChosenRow(example, tuple(candidates[index] for index in column_order))


def _limit_candidates(candidates: Sequence[Candidate], row_size: int) -> list[Candidate]:
    """Keep so few candidates that there is time to rank every row that can be made of them.

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

    # The first candidate of each type has priority, so that no rare type gets lost.
    first_by_type: dict[str, Candidate] = {}
    for candidate in candidates:
        first_by_type.setdefault(candidate.type, candidate)
    others = [candidate for candidate in candidates if candidate not in first_by_type.values()]
    kept = [*first_by_type.values(), *others][:limit]

    # The candidates that are kept return to their random order.
    return [candidate for candidate in candidates if candidate in kept]


class _SelectionRank(NamedTuple):
    """How good a way to make a row is. The least rank is the best."""

    doubt: int
    """How many of its contradictions are doubtful."""

    num_overlaps: int
    """How many pairs of contradictions edit the same words."""

    imbalance: float
    """The number of its error types, negated because more are better.

    With desired shares of the types, how far the rows so far and this one are from them.
    """


def _best_selections(
    completion: str,
    candidates: Sequence[Candidate],
    settings: ChooseSettings,
    rng: random.Random,
    num_by_type: Mapping[str, int],
) -> Ints:
    """Return the selections, i.e. ways to choose the contradictions of a row, that are the best.

    The best ones have the fewest doubtful contradictions. Among these, as few contradictions as
    possible edit the same words; among those, the row has as many error types as possible, or comes
    nearest to their desired shares.

    Args:
        completion: The true completion.
        candidates: The candidates, so few that all selections of them can be ranked.
        settings: How many contradictions and types a row has.
        rng: The random numbers of this document.
        num_by_type: How many contradictions of each error type the rows so far have.

    Returns:
        An array (selections, contradictions) of indices of ``candidates``. Both the selections and
        the indices of each are in random order.
    """
    overlaps = _overlapping_pairs(completion, candidates)
    selections_by_rank: defaultdict[_SelectionRank, list[tuple[int, ...]]] = defaultdict(list)
    for selection in combinations(range(len(candidates)), settings.contradictions):
        types = [candidates[index].type for index in selection]
        num_types = len(set(types))
        if num_types < settings.min_types:
            continue
        imbalance = float(-num_types)
        if settings.balance is not None:
            imbalance = _distance_to_shares(settings.balance, Counter(types) + Counter(num_by_type))
        doubt = sum(candidates[index].doubtful for index in selection)
        pairs = combinations(selection, 2)
        num_overlaps = len(overlaps.intersection(pairs))
        rank = _SelectionRank(doubt, num_overlaps, imbalance)
        selections_by_rank[rank].append(selection)

    # Selections of the same rank are equally good. Comparing too many of them would take long.
    best = selections_by_rank[min(selections_by_rank)]
    sample = rng.sample(best, min(len(best), _MAX_SELECTIONS))
    # The first index of a selection may become the centre of the row, which should be any of them.
    return np.array([rng.sample(selection, len(selection)) for selection in sample])


def _distance_to_shares(
    weights: Mapping[ErrorType, float], num_by_type: Mapping[str, int]
) -> float:
    """Return how far the shares of error types are from those that the weights ask for.

    Args:
        weights: The weight of each type. One that is missing has none.
        num_by_type: How many contradictions there are of each type.

    Returns:
        The sum of the differences of all shares: 0 if they are equal, and at most 2.
    """
    total_weight = sum(weights.values())
    num_contradictions = sum(num_by_type.values())
    distance = 0.0
    for error_type in ERROR_TYPES:
        share = num_by_type.get(error_type, 0) / num_contradictions
        distance += abs(share - weights.get(error_type, 0) / total_weight)
    return distance


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
        # Without a gap, two edits that only touch each other still count as separate.
        is_separate = _lie_apart(edits[first], edits[second], min_gap=0)
        if not is_separate:
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
    """Return selections for rows in which a contradiction has the most in common with the others.

    That contradiction is the centre of the row. Each other contradiction is a compound: it has the
    edit of the centre and one more, and so resembles the centre more than the true completion.

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
    index_of_compound = {pair: index for index, pair in enumerate(compounds, num_candidates)}

    compound_selections = []
    for selection in selections.tolist():
        # Each of the contradictions may be the centre.
        for centre in selection:
            pairs = [CandidatePair(centre, outer) for outer in selection if outer != centre]
            # Edits of the same words cannot be combined, so that some pairs have no compound.
            if all(pair in index_of_compound for pair in pairs):
                compound_indices = [index_of_compound[pair] for pair in pairs]
                compound_selections.append([centre, *compound_indices])

    # Without a shape, an empty list would become an array of one dimension.
    array = np.array(compound_selections, dtype=selections.dtype)
    return array.reshape(-1, selections.shape[1])


def _pick_at_random(selections: Ints, is_centred: Bools, rng: random.Random) -> tuple[int, ...]:
    """Pick a selection so that each choice of the row is equally likely to be in the centre.

    The choice in the centre has more in common with the others than they have with each other.
    Whether it is the true completion is decided at random, if there are selections of both kinds.

    Args:
        selections: An array (selections, contradictions) of indices of candidates, in random order.
        is_centred: For each selection, whether the true completion is in the centre of its row. At
            least one selection is of this kind.
        rng: The random numbers of this document.

    Returns:
        The indices of the contradictions.
    """
    eligible = selections[is_centred]
    off_centre = selections[~is_centred]
    # Of four choices, the true completion should be in the centre one time in four.
    num_choices = selections.shape[1] + 1
    if len(off_centre) and rng.randrange(num_choices) > 0:
        eligible = off_centre
    # The selections are in random order, so that the first is as random as any.
    return tuple(eligible[0].tolist())


def combine_edits(
    completion: str, candidates: Sequence[Candidate]
) -> dict[CandidatePair, Candidate]:
    """Combine every two contradictions whose edits lie apart into one sentence with both edits.

    If all contradictions are edits of the true completion, comparing the choices finds it: it has
    the most in common with the others, in 91% of the rows of the published News-FACTOR. With such
    sentences, the compounds, a contradiction can have the most in common with the others instead.
    It is the inner one of each pair: it is in the row itself, and each compound adds the edit of
    an outer one to it.

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
    # Both orders of every two candidates, because either may be the centre of a row.
    for inner_index, outer_index in permutations(range(len(candidates)), 2):
        if not _lie_apart(edits[inner_index], edits[outer_index]):
            continue
        inner = candidates[inner_index]
        outer = candidates[outer_index]
        # The columns of the row show both edits and both rules.
        compounds[CandidatePair(inner_index, outer_index)] = Candidate(
            text=_apply_edits(completion, [*edits[inner_index], *edits[outer_index]]),
            # The whole row shares the inner edit, so that the outer one makes the difference.
            type=outer.type,
            edit=f"{inner.edit}; {outer.edit}",
            generator=f"{inner.generator} + {outer.generator}",
            doubtful=inner.doubtful or outer.doubtful,
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

    Both texts are cut into pieces, each a word or a single other character, such as a space. An
    edit replaces some pieces of the completion.

    Args:
        completion: The true completion.
        contradiction: A contradiction of it.

    Returns:
        The edits from left to right. Empty if both texts have the same pieces.

    Example:
        ``find_edits("In May it rained", "In June it rained")`` is
        ``[PieceEdit(start=2, end=3, replacement=("June",))]``.
    """
    # rapidfuzz may be missing. The error says what needs it, and the extra that installs it.
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
