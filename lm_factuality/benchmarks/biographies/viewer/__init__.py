"""The page that shows judged biographies: one HTML file that asks the network for nothing, and in
which what models wrote can only ever be text."""

from collections.abc import Sequence
from typing import Any

from lm_factuality.benchmarks.biographies.decompose import CITATION
from lm_factuality.benchmarks.biographies.scores import (
    SCORES,
    attributed_entities,
    count_responses,
    linked_entities,
    outcome_by_any_page,
    row_metrics,
)
from lm_factuality.benchmarks.biographies.types import JudgedBiography, biography_from_record
from lm_factuality.benchmarks.judged import score_figures
from lm_factuality.ground.html import one_file, read_asset, read_file
from lm_factuality.harness.generation import JsonObject, Verdict

# In the order in which the page runs them, as one script, behind elements.js.
_SCRIPTS = ("marks", "facts", "response", "summary", "list", "main")


def align_sentences(output: str, sentences: Sequence[str]) -> list[tuple[str, int]]:
    """Cut a response into pieces that together are the response again.

    Citations belong to the sentence that they stand in or behind.

    Args:
        output: The response.
        sentences: Its sentences in order, without citations. White space may differ. One that is
            not found has no piece.

    Returns:
        Stretches of text, each with the number of its sentence, or -1.
    """
    letters, places = _bare(output)
    pieces = []
    end_of_pieces = 0
    searched_to = 0
    for number, sentence in enumerate(sentences):
        bare, _ = _bare(sentence)
        at = letters.find(bare, searched_to) if bare else -1
        if at < 0:
            continue
        searched_to = at + len(bare)
        start = places[at]
        end = places[searched_to - 1] + 1
        while match := CITATION.match(output, end):
            end = match.end()
        if start > end_of_pieces:
            pieces.append((output[end_of_pieces:start], -1))
        pieces.append((output[start:end], number))
        end_of_pieces = end
    if end_of_pieces < len(output):
        pieces.append((output[end_of_pieces:], -1))
    return pieces


def _bare(text: str) -> tuple[str, list[int]]:
    """Return a text without citations and white space, and where each character stood."""
    # Each citation becomes as many blanks, so that places stay.
    blanked = CITATION.sub(lambda match: " " * len(match[0]), text)
    places = [place for place, letter in enumerate(blanked) if not letter.isspace()]
    return "".join(blanked.split()), places


def fact_statuses(judged: JudgedBiography) -> list[str]:
    """Return what a reader should think of each fact.

    ``supported`` by the page of its individual's entity; ``elsewhere``: only by that of another, so
    that FActScore counts it and D-FActScore does not; ``ungrouped``: by some page, but it is in no
    group, so that it is in FActScore alone; else what the page of the entity says, or all pages
    where there is no group or entity.
    """
    entities = linked_entities(judged)
    status_by_fact: list[str] = []
    for fact, row in enumerate(judged.matrix):
        entity = entities.get(fact)
        anywhere = outcome_by_any_page(row)
        outcome = None if entity is None else row[entity].outcome
        if anywhere != "supported" or outcome in ("supported", "unscored"):
            status_by_fact.append(outcome or anywhere)
        else:
            status_by_fact.append("elsewhere" if fact in entities else "ungrouped")
    return status_by_fact


def build_page(records: Sequence[Verdict], title: str) -> str:
    """Return the page as HTML.

    Args:
        records: What was judged, with one protocol and linking.
        title: The title of the page.
    """
    folder = f"{__package__}/page"
    scripts = [read_file(f"{folder}/{name}.js") for name in _SCRIPTS]
    content: dict[str, Any] = {
        "title": title,
        "settings": {name: records[0][name] for name in ("protocol", "linking")},
        "summary": {
            **score_figures([*map(row_metrics, records)], SCORES),
            **count_responses(records),
        },
        "responses": [{**record, **_shown(record)} for record in records],
    }
    return one_file(
        f"{folder}/page.html",
        read_file(f"{folder}/page.css"),
        "\n".join([read_asset("elements.js"), *scripts]),
        title=title,
        content=content,
    )


def _shown(record: Verdict) -> JsonObject:
    """Return what the page draws of a record besides what stands there."""
    judged = biography_from_record(record)
    return {
        "pieces": align_sentences(judged.generation.output, judged.sentences),
        "statuses": fact_statuses(judged),
        "attributed": attributed_entities(judged, record["protocol"]),
    }
