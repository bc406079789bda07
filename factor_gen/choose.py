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
from collections import Counter
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
# At most so many are ranked before that, by what they edit.
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

        usable = usable_candidates(example)
        reason = _reason_for_no_row(usable, settings)
        if reason:
            yield example.drop("choose", f"{reason}{_describe_main_rejection(example)}")
            continue

        # The random numbers of a document do not depend on the documents before it.
        rng = random.Random(f"{seed}/choose/{example.doc_id}")
        possible_rows = _list_possible_rows(example.completion, usable, settings, rng, num_by_type)
        if settings.pick == "balanced":
            texts = [candidate.text for candidate in possible_rows.candidates]
            selection = ledger.add_most_even_row(
                example.completion, texts, possible_rows.selections, possible_rows.is_centred
            )
        else:
            selection = _pick_at_random(possible_rows, rng)

        # The columns are in random order, so that the first is not always of the same kind.
        column_order = rng.sample(selection, len(selection))
        contradictions = tuple(possible_rows.candidates[index] for index in column_order)
        num_by_type.update(candidate.type for candidate in contradictions)
        yield ChosenRow(example, contradictions)


def _reason_for_no_row(candidates: Sequence[Candidate], settings: ChooseSettings) -> str:
    """Say why candidates do not suffice for a row, or return an empty text if they do."""
    if len(candidates) < settings.contradictions:
        return f"fewer than {settings.contradictions} contradictions"
    if len({candidate.type for candidate in candidates}) < settings.min_types:
        return f"contradictions of fewer than {settings.min_types} types"
    return ""


def _describe_main_rejection(example: Example) -> str:
    """Name the stage that rejected the most contradictions of a document, to end a sentence.

    Example:
        ``; the stage filter rejected most``, or an empty text if no stage rejected any.
    """
    num_rejected_by_stage = Counter(
        Refusal.parse(candidate.rejected).stage
        for candidate in example.candidates
        if candidate.rejected
    )
    if not num_rejected_by_stage:
        return ""
    # Of two stages with the same number, the one that rejected first is named.
    stage, _ = num_rejected_by_stage.most_common(1)[0]
    return f"; the stage {stage} rejected most"


def usable_candidates(example: Example) -> list[Candidate]:
    """Return the generated contradictions of which a row may be made. They may be too few for one.

    These are the distinct ones that no stage rejected.
    """
    candidate_of_sentence: dict[str, Candidate] = {}
    for candidate in example.candidates:
        # Candidates that differ only in white space are the same sentence.
        sentence = " ".join(candidate.text.split())
        if not candidate.rejected:
            candidate_of_sentence.setdefault(sentence, candidate)
    return list(candidate_of_sentence.values())


class _PossibleRows(NamedTuple):
    """The best rows that can be made of a document. One of them will be picked."""

    candidates: Sequence[Candidate]
    """The contradictions to choose from."""

    selections: Ints
    """An array (rows, contradictions) of indices of ``candidates``. The rows are shuffled."""

    is_centred: Bools
    """For each row, whether the true completion is its centre.

    The centre of a row is the choice that has the most in common with the other choices.
    """


def _list_possible_rows(
    completion: str,
    contradictions: Sequence[Candidate],
    settings: ChooseSettings,
    rng: random.Random,
    num_by_type: Counter[str],
) -> _PossibleRows:
    """List the best rows that can be made of a document.

    The *centre* of a row is the choice that has the most in common with the other choices. Every
    contradiction has one edit of the true completion, so the true completion is the centre of a
    row. With ``settings.hide_most_central``, there are also rows in which a contradiction is the
    centre. Such a row has this contradiction and *compounds* of it, i.e. sentences with its edit
    and the edit of a second contradiction: see `combine_edits`.

    Args:
        completion: The true completion of the document.
        contradictions: Contradictions of the completion, enough for a row.
        settings: What a row needs, and whether there are compounds.
        rng: The random numbers of this document.
        num_by_type: How many contradictions of each error type the rows of earlier documents have.
    """
    shuffled = rng.sample(contradictions, len(contradictions))
    candidates = _limit_candidates(shuffled, settings.contradictions)
    selections = _best_selections(completion, candidates, settings, rng, num_by_type)
    compounds: Mapping[CandidatePair, Candidate] = {}
    if settings.hide_most_central:
        compounds = combine_edits(completion, candidates)
        compound_selections = _compound_selections(selections, compounds, len(candidates))
        selections = np.concatenate([selections, compound_selections])

    # The true completion is the centre of a row without compounds. The numbers of the compounds
    # begin after those of the candidates.
    is_centred = selections.max(axis=1) < len(candidates)
    return _PossibleRows([*candidates, *compounds.values()], selections, is_centred)


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
    while math.comb(limit, row_size) > _MAX_RANKED:
        limit -= 1

    # The first candidate of each type has priority, so that no rare type gets lost.
    first_by_type: dict[str, Candidate] = {}
    for candidate in candidates:
        first_by_type.setdefault(candidate.type, candidate)
    first_of_types = first_by_type.values()
    by_priority = sorted(candidates, key=lambda candidate: candidate not in first_of_types)
    kept_candidates = by_priority[:limit]

    # The candidates that are kept return to their random order.
    return [candidate for candidate in candidates if candidate in kept_candidates]


class _SelectionRank(NamedTuple):
    """How good it is to select some contradictions for a row. The least rank is the best."""

    num_overlaps: int
    """How many pairs of contradictions edit the same words."""

    imbalance: float
    """If the settings desire shares of the error types, the distance from these shares.

    Otherwise the number of error types, negated because more types are better.
    """


def _best_selections(
    completion: str,
    candidates: Sequence[Candidate],
    settings: ChooseSettings,
    rng: random.Random,
    num_by_type: Counter[str],
) -> Ints:
    """Return the best selections of contradictions for the row of a document, in random order.

    The fewer pairs of contradictions edit the same words, the better is a selection. Among equals,
    that selection is better whose error types are closer to the desired shares. If no shares are
    desired, more error types are better. A later step picks one of the best selections.

    Example:
        A row has two contradictions. Candidates 0 and 1 edit the same word, and candidate 2 edits
        another word. If all error types differ, the best selections are 0 with 2 and 1 with 2. The
        array may be ``[[2, 1], [0, 2]]``.

    Args:
        completion: The true completion of the document.
        candidates: Contradictions of the completion, so few that all selections can be ranked.
        settings: How many contradictions a row has, and which error types it should have.
        rng: The random numbers of this document.
        num_by_type: How many contradictions of each error type the rows of earlier documents have.

    Returns:
        An array (selections, contradictions) of indices of ``candidates``. It has at most
        `_MAX_SELECTIONS` selections. The indices in a selection are in random order too.
    """
    rank_by_selection = _rank_selections(completion, candidates, settings, num_by_type)
    best_rank = min(rank_by_selection.values())
    best_selections = [
        selection for selection, rank in rank_by_selection.items() if rank == best_rank
    ]

    # The later step compares the selections, which takes long if there are many.
    num_kept = min(len(best_selections), _MAX_SELECTIONS)
    kept_selections = rng.sample(best_selections, num_kept)
    # The first contradiction of a selection may become the centre of the row. All contradictions
    # should have the same chance of that, so the order in each selection is random.
    return np.array([rng.sample(selection, len(selection)) for selection in kept_selections])


def _rank_selections(
    completion: str,
    candidates: Sequence[Candidate],
    settings: ChooseSettings,
    num_by_type: Counter[str],
) -> dict[tuple[int, ...], _SelectionRank]:
    """Rank every selection of candidates that has enough error types for a row.

    Example:
        Candidates 0 and 1 edit the same word, and all error types differ. Without desired shares of
        the types, the selection ``(0, 1)`` has the rank ``(1, -2)``, for one overlap and two types.
        The selection ``(0, 2)`` has the better rank ``(0, -2)``.

    Args:
        completion: The true completion.
        candidates: The contradictions to select from.
        settings: How many contradictions and error types a row has.
        num_by_type: How many contradictions of each error type the rows of earlier documents have.

    Returns:
        The ranks by selection. A selection is the indices of its candidates.
    """
    overlapping_pairs = _overlapping_pairs(completion, candidates)
    rank_by_selection = {}
    for selection in combinations(range(len(candidates)), settings.contradictions):
        types = Counter(candidates[index].type for index in selection)
        if len(types) < settings.min_types:
            continue

        overlaps = overlapping_pairs.intersection(combinations(selection, 2))
        if settings.balance is None:
            imbalance: float = -len(types)
        else:
            # The shares are to be right in the whole benchmark, and not in each row.
            imbalance = _distance_from_shares(types + num_by_type, settings.balance)
        rank_by_selection[selection] = _SelectionRank(len(overlaps), imbalance)
    return rank_by_selection


def _distance_from_shares(counts: Counter[str], weights: Mapping[ErrorType, float]) -> float:
    """Return how far the shares of the error types are from the desired shares.

    Args:
        counts: The number of contradictions of each error type.
        weights: The desired shares as weights. A type that is missing has the weight 0.

    Returns:
        The sum of the differences of all shares: 0 if the shares are the desired ones, at most 2.
    """
    distance = 0.0
    for error_type in ERROR_TYPES:
        share = counts[error_type] / counts.total()
        desired_share = weights.get(error_type, 0) / sum(weights.values())
        distance += abs(share - desired_share)
    return distance


def _overlapping_pairs(completion: str, candidates: Sequence[Candidate]) -> set[tuple[int, int]]:
    """Return the pairs of candidates that edit the same words of the completion.

    Example:
        ``{(0, 2)}`` if only the first and the third candidate edit the same words.
    """
    edits = [find_edits(completion, candidate.text) for candidate in candidates]
    pairs = set()
    for first, second in combinations(range(len(candidates)), 2):
        # Without a gap, two edits that only touch each other still count as separate.
        if not _lie_apart(edits[first], edits[second], min_gap=0):
            pairs.add((first, second))
    return pairs


class CandidatePair(NamedTuple):
    """The indices of two candidates whose edits are made in one sentence, the compound."""

    inner: int
    """The candidate whose edit all contradictions of a row share. It is the centre of the row."""

    outer: int
    """The candidate whose edit is made in addition. The compound has its error type."""


def _compound_selections(
    selections: Ints, compounds: Iterable[CandidatePair], num_candidates: int
) -> Ints:
    """Select for each possible row one candidate, its centre, and the compounds of the candidate.

    A compound has the edit of the centre and a second edit. So the centre has more in common with
    the compounds than the true completion has.

    Args:
        selections: Selections without compounds, an array (selections, contradictions) of indices
            of candidates.
        compounds: The pairs of candidates that can be combined.
        num_candidates: The number of candidates. It is also the index of the first compound.

    Returns:
        An array (selections, contradictions) of indices of candidates and compounds. Each selection
        begins with its centre.

    Example:
        Three candidates have the six compounds (0, 1), (0, 2), (1, 0), (1, 2), (2, 0) and (2, 1),
        whose indices are 3 to 8. The selections ``[[0, 1, 2]]`` become ``[[0, 3, 4], [1, 5, 6],
        [2, 7, 8]]``.
    """
    index_of_compound = {pair: index for index, pair in enumerate(compounds, num_candidates)}

    compound_selections = []
    for selection in selections.tolist():
        for centre in selection:
            pairs = [CandidatePair(centre, outer) for outer in selection if outer != centre]
            # Two edits of the same words cannot be combined, so their pair has no compound.
            if all(pair in index_of_compound for pair in pairs):
                compound_indices = [index_of_compound[pair] for pair in pairs]
                compound_selections.append([centre, *compound_indices])

    # Without a shape, an empty list would become an array of one dimension.
    array = np.array(compound_selections, dtype=selections.dtype)
    return array.reshape(-1, selections.shape[1])


def _pick_at_random(possible_rows: _PossibleRows, rng: random.Random) -> tuple[int, ...]:
    """Pick one of the possible rows at random, and return the indices of its contradictions.

    Each choice of a row should be the centre of the row equally often. So a row in which the true
    completion is the centre is picked with the probability 1 / number of choices. If there are no
    other rows, such a row is always picked.
    """
    selections = possible_rows.selections
    is_centred = possible_rows.is_centred
    num_choices = selections.shape[1] + 1
    should_be_centred = is_centred.all() or rng.randrange(num_choices) == 0
    # The selections are in random order, so that the first is as random as any.
    first_selection = selections[is_centred == should_be_centred][0]
    return tuple(first_selection.tolist())


def combine_edits(
    completion: str, candidates: Sequence[Candidate]
) -> dict[CandidatePair, Candidate]:
    """Combine every two contradictions whose edits lie apart into a compound with both edits.

    Example:
        The completion is "She left Oslo". Its contradictions "She left Rome" and "He left Oslo"
        give the compound "He left Rome".

    Without compounds, a model can find the true completion by comparing the choices of a row: in
    91% of the rows of the published News-FACTOR, it has the most in common with the other choices.
    In a row of a contradiction and its compounds, this contradiction has the most in common with
    the other choices.

    Returns:
        The compounds by the indices of their candidates. The text is the same for both orders of
        a pair, but the error type is that of the outer candidate. A compound has no scores,
        because the filters saw only its two edits.
    """
    edits = [find_edits(completion, candidate.text) for candidate in candidates]
    compounds = {}
    # Each candidate of a pair may become the centre of a row, so both orders are needed.
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
    """The pieces of the contradiction that replace them."""


def find_edits(completion: str, contradiction: str) -> list[PieceEdit]:
    """Return the edits that turn a completion into a contradiction, from left to right.

    Both texts are cut into pieces, each a word or a single other character, such as a space. An
    edit replaces some pieces of the completion.

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

    If so, the edits of both can be made in one sentence.

    Args:
        first_edits: The edits of one contradiction.
        second_edits: The edits of the other.
        min_gap: How many pieces have to stay unchanged between any two edits. 0: the edits may
            touch but not overlap.
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
