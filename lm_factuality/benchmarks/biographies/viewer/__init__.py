"""The page that shows judged biographies: plain data, each text once, in one HTML file that asks
the network for nothing, and in which what models wrote can only ever be text."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import count
from typing import Any, Literal, TypeAlias

from lm_factuality.benchmarks.biographies.scores import (
    attributed,
    entity_by_fact,
    of_any,
    score,
    summarise,
    why_unscored,
)
from lm_factuality.benchmarks.biographies.types import JudgedBiography
from lm_factuality.ground.html import one_file, read_asset, read_file

Piece: TypeAlias = tuple[str, int]  # a stretch of text, and the number of its sentence, or -1

# In the order in which the page runs them, as one script, behind elements.js.
_SCRIPTS = ("marks", "facts", "response", "summary", "list", "main")
_CITATION = re.compile(r"\[\s*\d+(?:\s*[,;–-]\s*\d+)*\s*\]")
_CITATIONS_BEHIND = re.compile(r"(?:\s*\[\s*\d+(?:\s*[,;–-]\s*\d+)*\s*\])+")


def align(output: str, sentences: Sequence[str]) -> list[Piece]:
    """``output`` in pieces that together are ``output`` again. ``sentences`` are its sentences in
    order, without citations; white space may differ. Citations belong to the sentence that they
    stand in or behind; a sentence that is not found has no piece."""
    letters, places = _bare(output)
    pieces: list[Piece] = []
    shown = found_to = 0
    for number, sentence in enumerate(sentences):
        bare, _ = _bare(sentence)
        at = letters.find(bare, found_to) if bare else -1
        if at < 0:
            continue
        found_to = at + len(bare)
        start, end = places[at], places[found_to - 1] + 1
        if match := _CITATIONS_BEHIND.match(output, end):
            end = match.end()
        if start > shown:
            pieces.append((output[shown:start], -1))
        pieces.append((output[start:end], number))
        shown = end
    if shown < len(output):
        pieces.append((output[shown:], -1))
    return pieces


def _bare(text: str) -> tuple[str, list[int]]:
    """``text`` without citations and white space, and where in ``text`` each character stands."""
    hidden = {place for match in _CITATION.finditer(text) for place in range(*match.span())}
    places = [
        place for place, letter in enumerate(text) if place not in hidden and not letter.isspace()
    ]
    return "".join(text[place] for place in places), places


Status: TypeAlias = Literal[
    "supported", "elsewhere", "ungrouped", "not_supported", "irrelevant", "unscored"
]


def statuses(judged: JudgedBiography) -> list[Status]:
    """Return what a reader should think of each fact.

    ``supported`` by the page of its individual's entity; ``elsewhere``: only by that of another, so
    that FActScore counts it and D-FActScore does not; ``ungrouped``: by some page, but it is in no
    group, so that it is in FActScore alone; else what the page of the entity says, or all pages
    where there is no group or entity.
    """
    entities = entity_by_fact(judged)
    found: list[Status] = []
    for fact, row in enumerate(judged.matrix):
        entity = entities.get(fact)
        anywhere = of_any(row)
        outcome = None if entity is None else row[entity].outcome
        if anywhere != "supported" or outcome in ("supported", "unscored"):
            found.append(outcome or anywhere)
        else:
            found.append("elsewhere" if fact in entities else "ungrouped")
    return found


def build_page(
    biographies: Sequence[JudgedBiography],
    title: str,
    protocol: str = "paper",
    linking: str | None = None,
) -> str:
    """Return the page as HTML.

    Args:
        biographies: The judged biographies.
        title: The title of the page.
        protocol: The protocol that they were judged with.
        linking: The linking that they were judged with, where it is known.
    """
    folder = f"{__package__}/page"
    scripts = [read_file(f"{folder}/{name}.js") for name in _SCRIPTS]
    return one_file(
        f"{folder}/page.html",
        read_file(f"{folder}/page.css"),
        "\n".join([read_asset("elements.js"), *scripts]),
        title=title,
        content=page_content(biographies, title, protocol, linking),
    )


def page_content(
    biographies: Sequence[JudgedBiography],
    title: str,
    protocol: str = "paper",
    linking: str | None = None,
) -> dict[str, Any]:
    """Return what the scripts of the page read; arguments as of `build_page`.

    A judgement is [outcome, score, reason, evidence], the last two by their numbers in ``texts``.
    """
    # The number of each text, in the order in which they are first asked for.
    texts = defaultdict[str, int](count().__next__)
    responses = [_response(judged, texts, protocol) for judged in biographies]
    return {
        "title": title,
        "settings": {"protocol": protocol, **({"linking": linking} if linking else {})},
        "summary": summarise(biographies, protocol),
        "texts": list(texts),
        "responses": responses,
    }


def _response(judged: JudgedBiography, texts: Mapping[str, int], protocol: str) -> dict[str, Any]:
    generation = judged.generation
    scores = score(judged, protocol)
    passages = [[passage.title, texts[passage.text]] for passage in generation.passages]
    matrix = []
    for judgements in judged.matrix:
        row = []
        for cell in judgements:
            reason = texts[cell.reason]
            evidence = [texts[text] for text in cell.evidence]
            row.append([cell.outcome, cell.score, reason, evidence])
        matrix.append(row)
    return {
        "index": generation.index,
        "name": generation.name,
        "question": generation.question,
        "sentences": judged.sentences,
        "groups": judged.groups,
        "links": judged.links,
        "entities": judged.entities,
        "abstained": judged.abstained,
        "pieces": align(generation.output, judged.sentences),
        "passages": passages,
        "facts": [[fact.text, fact.sentence] for fact in judged.facts],
        "statuses": statuses(judged),
        "attributed": attributed(judged, protocol),
        "matrix": matrix,
        "scores": scores and asdict(scores),
        "unscored": why_unscored(judged, scores),
    }
