"""The HTML page that shows judged biographies with their facts and evidence.

``lm-factuality page --verdicts`` and the report build it. The page is one file and asks the network
for nothing. Texts that models wrote are inserted as text only, never as HTML.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from lm_factuality.benchmarks.biographies.decompose import CITATION
from lm_factuality.benchmarks.biographies.scores import (
    SCORES,
    attributed_entities,
    contradicted_facts,
    count_responses,
    outcome_by_any_page,
    outcomes_by_linked_entity,
    row_metrics,
)
from lm_factuality.benchmarks.biographies.types import (
    JudgedBiography,
    biography_from_record,
)
from lm_factuality.benchmarks.biographies.viewer.fact_words import Span, find_fact_words
from lm_factuality.benchmarks.judged import score_figures
from lm_factuality.ground.html import one_file, read_asset, read_file
from lm_factuality.harness.generation import JsonObject, Verdict

# The scripts of the page in their order. They run as one script after elements.js.
_SCRIPTS = ("marks", "facts", "response", "summary", "list", "main")


class Piece(NamedTuple):
    """A part of a response."""

    text: str
    """The text with its citations."""

    sentence_number: int
    """The number of the sentence that the text is in, or -1 for text between sentences."""

    fact_numbers: tuple[int, ...] = ()
    """The numbers of the facts that the text states."""


def mark_facts(biography: JudgedBiography) -> list[Piece]:
    """Cut a response into pieces, so that a page can mark its sentences and the words of each fact.

    Example:
        The sentence "Ada sang." with the fact 0, which stands in "sang", becomes the pieces "Ada "
        (no fact), "sang" (fact 0) and "." (no fact).

    Returns:
        The pieces, whose texts together are the response.
    """
    fact_numbers_by_sentence = defaultdict(list)
    for fact_number, fact in enumerate(biography.facts):
        fact_numbers_by_sentence[fact.sentence].append(fact_number)

    pieces = []
    for sentence in align_sentences(biography.generation.output, biography.sentences):
        fact_numbers = fact_numbers_by_sentence[sentence.sentence_number]
        fact_texts = [biography.facts[fact_number].text for fact_number in fact_numbers]
        spans = find_fact_words(
            # The numbers of citations are no words of facts.
            _without_citations(sentence.text),
            fact_texts,
            subject=biography.generation.name,
        )
        pieces += _cut_at_spans(sentence, dict(zip(fact_numbers, spans, strict=True)))
    return pieces


def _cut_at_spans(sentence: Piece, span_by_fact: Mapping[int, Span]) -> list[Piece]:
    """Cut a sentence wherever the words of a fact begin or end.

    Args:
        sentence: The sentence as one piece.
        span_by_fact: Where the words of each fact stand in the sentence, by the fact's number.

    Returns:
        The pieces in order, each with the numbers of the facts whose words it is part of.
    """
    cuts = {0, len(sentence.text)}
    for span in span_by_fact.values():
        cuts |= {span.start, span.end}

    pieces = []
    for start, end in pairwise(sorted(cuts)):
        fact_numbers = [
            number for number, span in span_by_fact.items() if span.start <= start < span.end
        ]
        text = sentence.text[start:end]
        pieces.append(Piece(text, sentence.sentence_number, tuple(fact_numbers)))
    return pieces


def align_sentences(output: str, sentences: Sequence[str]) -> list[Piece]:
    """Cut a response into its sentences and the white space between them.

    Example:
        "Ada sang [1].  She won." with the sentences "Ada sang." and "She won." becomes the pieces
        "Ada sang [1]." (0), "  " (-1) and "She won." (1).

    Args:
        output: The response.
        sentences: Its sentences in order, without citations. Their white space may differ from the
            response. A sentence that is not found gets no piece.

    Returns:
        The pieces, whose texts together are the response. A citation belongs to the sentence that
        it stands in or directly behind.
    """
    pieces = []
    previous_end = 0
    for number, span in _find_sentences(output, sentences).items():
        # White space between two sentences belongs to none.
        if span.start > previous_end:
            pieces.append(Piece(output[previous_end : span.start], -1))
        pieces.append(Piece(output[span.start : span.end], number))
        previous_end = span.end
    if previous_end < len(output):
        pieces.append(Piece(output[previous_end:], -1))
    return pieces


def _find_sentences(output: str, sentences: Sequence[str]) -> dict[int, Span]:
    """Find the sentences of a response in its text, which also has citations.

    White space and citations are ignored. The positions of the other characters then say where a
    sentence stands.

    Example:
        In "Ada  sang [1]. She won." the sentence "Ada sang." is found as "Adasang.", and stands
        from the "A" to the first full stop.

    Args:
        output: The response.
        sentences: Its sentences in order, without citations.

    Returns:
        Where each sentence stands, by its number and in order. If citations follow the sentence,
        its span ends behind the last of them. A sentence that is not found is left out.
    """
    output_letters = _letters_of(output)
    spans = {}
    search_start = 0
    for number, sentence in enumerate(sentences):
        letters = _letters_of(sentence).text
        # Each search starts where the sentence before ended, since a text may repeat itself.
        first_letter = output_letters.text.find(letters, search_start)
        if not letters or first_letter < 0:
            continue
        search_start = first_letter + len(letters)
        last_letter = search_start - 1
        start = output_letters.positions[first_letter]
        end = output_letters.positions[last_letter] + 1
        spans[number] = Span(start, _skip_citations(output, end))
    return spans


def _skip_citations(text: str, position: int) -> int:
    """Return the position behind the citations, such as [1][2], that stand at a position."""
    while citation := CITATION.match(text, position):
        position = citation.end()
    return position


class _Letters(NamedTuple):
    """The characters of a text that are no white space and in no citation."""

    text: str
    """The characters."""

    positions: list[int]
    """Where each character stands in the original text."""


def _letters_of(text: str) -> _Letters:
    """Remove citations and white space from a text.

    Example:
        "Ada [1] sang" becomes "Adasang", with the positions 0, 1, 2, 8, 9, 10 and 11.

    Args:
        text: A response or one of its sentences.
    """
    blanked = _without_citations(text)
    positions = [position for position, letter in enumerate(blanked) if not letter.isspace()]
    return _Letters("".join(blanked.split()), positions)


def _without_citations(text: str) -> str:
    """Replace each citation by as many spaces, so that positions do not change."""
    return CITATION.sub(lambda match: " " * len(match[0]), text)


def fact_statuses(biography: JudgedBiography) -> list[str]:
    """Return how the page marks each fact of a response.

    The mark depends on the verdict by the pages of all candidate entities, which FActScore counts,
    and on the verdict by the linked page, which D-FActScore counts. The linked page is that of the
    person whom the fact is about.

    - ``elsewhere``: any page supports the fact, but the linked page does not
    - ``contradicted``: no page supports the fact, and the linked page contradicts it
    - ``ungrouped``: a page supports the fact, but the fact is in no group
    - In all other cases, the mark is the verdict by the linked page, such as ``supported``, or by
      all pages if the fact is in no group.

    Args:
        biography: The response after all steps.
    """
    linked_outcomes = outcomes_by_linked_entity(biography)
    contradicted = contradicted_facts(biography)
    statuses: list[str] = []
    for fact_number, judgements in enumerate(biography.matrix):
        outcome = outcome_by_any_page(judgements)
        linked_outcome = linked_outcomes.get(fact_number)
        if linked_outcome is None:
            statuses.append("ungrouped" if outcome == "supported" else outcome)
        # Without a verdict by the linked page, we do not know that another person is meant.
        elif outcome == "supported" and linked_outcome not in ("supported", "unscored"):
            statuses.append("elsewhere")
        else:
            statuses.append("contradicted" if contradicted[fact_number] else linked_outcome)
    return statuses


def build_page(records: Sequence[Verdict], title: str, about: Mapping[str, Any]) -> str:
    """Return the HTML page that shows judged biographies.

    Args:
        records: The records of the biographies, at least one. All have the same protocol and
            linking.
        title: The title of the page.
        about: How the scores came about: the name of the ``judge`` and the ``knowledge`` source.
            Other keys are not shown, and missing ones are said to be unknown.
    """
    evidence = {str(record.get("judged_against") or "") for record in records} - {""}
    # The summary is computed as that of a run is, so that both have the same numbers.
    rows = [row_metrics(record) for record in records]
    content: dict[str, Any] = {
        "title": title,
        "settings": {
            "judge": about.get("judge") or "unknown",
            "knowledge": about.get("knowledge") or "unknown",
            # Older records do not say.
            "judged against": ", ".join(sorted(evidence)) or "unknown",
            "protocol": records[0]["protocol"],
            "linking": records[0]["linking"],
        },
        "summary": {**score_figures(rows, SCORES), **count_responses(records)},
        "responses": [{**record, **_computed_values(record)} for record in records],
    }
    folder = f"{__package__}/page"
    scripts = [read_file(f"{folder}/{name}.js") for name in _SCRIPTS]
    return one_file(
        template=f"{folder}/page.html",
        style=read_file(f"{folder}/page.css"),
        script="\n".join([read_asset("elements.js"), *scripts]),
        title=title,
        content=content,
    )


def _computed_values(record: Verdict) -> JsonObject:
    """Compute what the page shows of a response and its record does not have.

    These are the pieces of the response, the mark of each fact, and the entity that each fact is
    taken from.
    """
    biography = biography_from_record(record)
    return {
        "pieces": mark_facts(biography),
        "statuses": fact_statuses(biography),
        "attributed": attributed_entities(biography, record["protocol"]),
    }
