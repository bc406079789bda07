"""The steps of D-FActScore in the words of any prompt. Where entities may be confused all are taken; else a response is about one
subject, and a fact is held against what is known of it: the passages of its document, or those that an index finds."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from lm_factuality.benchmarks.biographies import matrix, method
from lm_factuality.benchmarks.biographies.pages import EVIDENCE, nearest
from lm_factuality.benchmarks.biographies.types import Generation, JudgedBiography
from lm_factuality.retrieval.index import Index

_MARKER = re.compile(r"\s*(?:>\s*|[-*•+]\s+|\d{1,3}[.)]\s+)+")
_LEADS = re.compile(r"\s*#|\s*(?:\*\*|__)[^*_]*(?:\*\*|__):?\s*$|.*:\s*$|\W*$")


@dataclass(frozen=True)
class Settings(method.Settings):
    """``index`` is asked about each fact where documents have no passages; a judge sees so many ``passages``. ``kind`` is of the
    entities that may be confused, empty where there is one subject."""

    folder: ClassVar[str] = "longform"

    index: Index | None = None
    passages: int = EVIDENCE
    kind: str = ""

    def about(self, generation: Generation) -> dict[str, Any]:
        return {"question": generation.question, **({"entity_kind": self.kind} if self.kind else {})}

    def begin(self, generation: Generation) -> JudgedBiography:
        started = method.begin(replace(generation, output=prose(generation.output)))
        return started if self.kind else replace(started, entities=method.ALONE)

    def pairs(self, judged: JudgedBiography) -> dict[tuple[str, str], matrix.Pair]:
        """The passages nearest to a fact and to what the response is about, so that "It was founded in 1780" finds its page."""
        given = judged.generation
        about = self.about(given)
        if self.kind:
            return {key: replace(pair, about=about) for key, pair in super().pairs(judged).items()}
        facts = {fact.text: fact.sentence for fact in reversed(judged.facts)}
        queries = [f"{given.name or given.question} {text}" for text in facts]
        if self.index is not None:
            found = [tuple(hit.passage.contents for hit in hits) for hits in self.index.retrieve(queries, self.passages)]
        else:
            found = [nearest(_known(given), query, self.passages) for query in queries]
        return {
            (text, ""): matrix.Pair(text, "", shown, None if shown else "no evidence", about, facts[text] if self.index else None)
            for text, shown in zip(facts, found, strict=True)
        }

    def longest(self, judged: JudgedBiography, pair: matrix.Pair, facts: int = 1) -> tuple[str, ...]:
        """With an index, what it finds for the subject: it cannot know how long other passages are."""
        if self.kind:
            return super().longest(judged, pair, facts)
        return pair.evidence if self.index else method.longest(_known(judged.generation), self.passages * facts)


def _known(given: Generation) -> tuple[str, ...]:
    return tuple(f"Title: {each.title}\n{each.text}" if each.title else each.text for each in given.passages)


def prose(response: str) -> str:
    """A response without Markdown: no marks of lists and emphasis, no headings and other lines that lead into what follows."""
    lines = (_MARKER.sub("", line, count=1) if _MARKER.match(line) else line for line in response.splitlines())
    return "\n".join(re.sub(r"\*\*|__|`", "", line).strip() for line in lines if not _LEADS.match(line))
