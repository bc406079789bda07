"""What a model wrote, the passages it was given, and the pages of entities.

ALCE's files are ``{"data": [row, ...]}``, plain or gzipped. A row has ``question``, ``docs`` (each
with ``title`` and ``text``) and, if a model has answered it, ``output``. Pages are what is known of
an entity, with the passages nearest to a fact (Retrieve -> LM of Min et al.).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field

from lm_factuality.benchmarks.biographies.types import GeneratedText, RetrievedPassage
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.packages import load_yaml
from lm_factuality.ground.published import Source
from lm_factuality.ground.records import lines_of, read_model, to_model
from lm_factuality.ground.thinking import said
from lm_factuality.retrieval.bm25 import Searcher

_EXPECTED = "expected ALCE's JSON: {'data': [{'question', 'docs', 'output'}, ...]}"
_QUESTION = re.compile(
    r"^\s*tell me (?:a |the )?(?:bio|biography) of\s+(?P<name>.+?)[\s.?!]*$", re.IGNORECASE
)
_DISAMBIGUATION = re.compile(r"\s*\(disambiguation\)\s*", re.IGNORECASE)
_QUERY = "Tell me a bio of "
_TITLE_LINE = re.compile(r"\n(?=Title: [^\n]+\n)")
_TITLED = re.compile(r"Title: ([^\n]+)\n(.*)", re.DOTALL)

# The names' questions and passages, with what ChatGPT and Llama-2-13b-chat wrote, each before what
# the authors' pipeline decided on that; the names; and what people saw in 300 of the responses (how
# many lines that makes is not said).
SOURCES = tuple(Source(**source) for source in load_yaml(__package__, "sources.yaml"))
AMBIGBIO_SOURCE = SOURCES[0]
MAX_PASSAGES = 5  # passages of a page that the judge sees
DOCUMENTS = "documents"  # what results call the knowledge where the given passages serve as pages


class _AlceRow(BaseModel):
    question: Annotated[str, Field(pattern=r"\S")]
    docs: Annotated[list[RetrievedPassage], Field(min_length=1)]
    output: str | None = None
    name: str | None = None


class _AlceFile(BaseModel):
    data: Annotated[list[_AlceRow], Field(min_length=1)]


def read_generations(paths: Sequence[Path], outputs: bool = True) -> list[GeneratedText]:
    """Read the rows of all files, numbered from 0 through all of them.

    Args:
        paths: Files of ALCE.
        outputs: Whether every row needs an output. Without, the outputs are empty.

    Raises:
        DataError: A file cannot be read, or has rows that cannot be used.
    """
    generations: list[GeneratedText] = []
    for path in paths:
        for number, row in enumerate(read_model(path, _AlceFile, _EXPECTED).data):
            if outputs and row.output is None:
                raise DataError(
                    f"{path}: data[{number}] has no output, the text that a model wrote;"
                    f" {_EXPECTED}"
                )
            generation = GeneratedText(
                index=str(len(generations)),
                question=row.question,
                name=name_in_question(row.name or row.question),
                output=said(row.output or "") if outputs else "",
                passages=_passages(row.docs),
            )
            generations.append(generation)
    return generations


def _passages(docs: Sequence[RetrievedPassage]) -> tuple[RetrievedPassage, ...]:
    """Return the documents.

    One whose text goes on with lines ``Title: ...``, as in files made from citation logs, is
    several passages, and of a file like that repeated passages count once.
    """
    passages: list[RetrievedPassage] = []
    for doc in docs:
        first, *joined = _TITLE_LINE.split(doc.text)
        passages.append(RetrievedPassage(doc.title.strip(), first.strip()))
        for part in joined:
            for title, text in _TITLED.findall(part):
                passages.append(RetrievedPassage(title.strip(), text.strip()))
    return tuple(dict.fromkeys(passages) if len(passages) > len(docs) else passages)


def name_in_question(question: str) -> str:
    """Return the name that is asked about, without "(disambiguation)".

    It is the whole question if that is asked in other words.
    """
    match = _QUESTION.match(question)
    return _DISAMBIGUATION.sub(" ", match["name"] if match else question).strip()


def generation_to_doc(generation: GeneratedText) -> dict[str, Any]:
    """Return a generation without its output as a document of lm_eval."""
    doc = asdict(generation)
    del doc["output"]
    return {**doc, "passages": list(doc["passages"])}


def generation_from_doc(doc: Mapping[str, Any], output: str) -> GeneratedText:
    """Return the generation of a document of `to_doc`.

    Raises:
        ValueError: It is of another task.
    """
    return to_model(GeneratedText, {**doc, "output": output})


def read_names(path: Path) -> list[str]:
    """Read names in their order, without "(disambiguation)", repeated ones once.

    Args:
        path: ``AmbigBio.csv``, whose lines hold the question, a tab and a list with the name, or a
            file with a name a line.

    Raises:
        DataError: The file cannot be read or holds no names.
    """
    names: dict[str, None] = {}
    for _, line in lines_of(path, "expected AmbigBio.csv, or one name per line"):
        name = line.partition("\t")[0].removeprefix(_QUERY)
        names[" ".join(_DISAMBIGUATION.sub(" ", name).split())] = None
    if not any(names):
        raise DataError(f"{path}: no names; expected one per line")
    return list(filter(None, names))


def question_about(name: str) -> str:
    return f"{_QUERY}{name}"


def passages_by_title(generation: GeneratedText) -> dict[str, list[str]]:
    """Return the passages that a model was given, by title, each of them once."""
    pages: dict[str, list[str]] = {}
    for passage in dict.fromkeys(generation.passages):
        pages.setdefault(passage.title, []).append(passage.text)
    return pages


def nearest_passages(
    page: tuple[str, ...], query: str, count: int = MAX_PASSAGES
) -> tuple[str, ...]:
    """Return the passages of a page with the highest BM25 score for a query, best first.

    Of equals the earlier one comes first. A page of no more than ``count`` passages is shown whole,
    in its order.
    """
    if len(page) <= count:
        return page
    best = [number for number, _ in _searcher(page).best(query, count)]
    ranked = dict.fromkeys([*best, *range(len(page))])
    return tuple(page[number] for number in list(ranked)[:count])


@lru_cache(256)  # pages: facts of one response ask for the same few
def _searcher(page: tuple[str, ...]) -> Searcher:
    return Searcher.of(page)
