"""The page that shows judged biographies: plain data, each text once, in one HTML file that asks
the network for nothing, and in which what models wrote can only ever be text."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import count
from typing import Any, Literal, TypeAlias

from lm_factuality.benchmarks.biographies.scores import attributed, of_any
from lm_factuality.benchmarks.biographies.summary import Row, summarise
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


def page_content(
    biographies: Sequence[JudgedBiography],
    title: str,
    protocol: str = "paper",
    linking: str | None = None,
) -> dict[str, Any]:
    """``title``, the ``settings`` (``protocol``, and ``linking`` where it is known), the
    ``summary`` over the set, the table of ``texts`` and the ``responses``, as the scripts of the
    page read them. A judgement is [outcome, score, reason, evidence], the last two by number."""
    texts = defaultdict[str, int](
        count().__next__
    )  # the number of each, in the order in which they are first asked for
    rows = [Row.of(judged, protocol) for judged in biographies]
    responses = [
        _response(judged, row, texts, protocol)
        for judged, row in zip(biographies, rows, strict=True)
    ]
    settings = {"protocol": protocol, **({"linking": linking} if linking else {})}
    return {
        "title": title,
        "settings": settings,
        "summary": summarise(rows),
        "texts": list(texts),
        "responses": responses,
    }


def statuses(judged: JudgedBiography) -> list[Status]:
    """What a reader should think of each fact. ``supported`` by the page of its individual's
    entity; ``elsewhere``: only by that of another, so that FActScore counts it and D-FActScore does
    not; ``ungrouped``: by some page, but it is in no group, so that it is in FActScore alone; else
    what the page of the entity says, or all pages where there is no group or entity."""
    entity_of = {
        fact: entity
        for group, entity in zip(judged.groups, judged.links, strict=True)
        for fact in group
    }
    found: list[Status] = []
    for number, row in enumerate(judged.matrix):
        entity = entity_of.get(number)
        own = None if entity is None else row[entity].outcome
        anywhere = of_any(row)
        if own == "supported":
            found.append("supported")
        elif anywhere == "supported" and number not in entity_of:
            found.append("ungrouped")
        elif anywhere == "supported" and own != "unscored":
            found.append("elsewhere")
        else:
            found.append(own or anywhere)
    return found


def _response(
    judged: JudgedBiography, row: Row, texts: Mapping[str, int], protocol: str
) -> dict[str, Any]:
    given = judged.generation
    return {
        **{name: getattr(given, name) for name in ("index", "name", "question")},
        **{
            name: getattr(judged, name)
            for name in ("sentences", "groups", "links", "entities", "abstained")
        },
        "pieces": align(given.output, judged.sentences),
        "passages": [[passage.title, texts[passage.text]] for passage in given.passages],
        "facts": [[fact.text, fact.sentence] for fact in judged.facts],
        "statuses": statuses(judged),
        "attributed": attributed(judged, protocol),
        "matrix": [
            [
                [
                    each.outcome,
                    each.score,
                    texts[each.reason],
                    [texts[text] for text in each.evidence],
                ]
                for each in judgements
            ]
            for judgements in judged.matrix
        ],
        "scores": row.scores and asdict(row.scores),
        "unscored": row.unscored,
    }


def build_page(
    biographies: Sequence[JudgedBiography],
    title: str,
    protocol: str = "paper",
    linking: str | None = None,
) -> str:
    """The HTML; ``protocol`` and ``linking`` are those that the biographies were judged with."""
    folder, content = f"{__package__}/page", page_content(biographies, title, protocol, linking)
    script = "\n".join(
        [read_asset("elements.js"), *(read_file(f"{folder}/{name}.js") for name in _SCRIPTS)]
    )
    return one_file(
        f"{folder}/page.html", read_file(f"{folder}/page.css"), script, title=title, content=content
    )
