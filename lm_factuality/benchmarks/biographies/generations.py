"""Readers of generated biographies and of ambiguous names, and the passages nearest to a fact.

The task, the judge and the commands on biographies read their files with this module.

The generation files are those of ALCE: ``{"data": [row, ...]}``, plain or gzipped. A row has a
``question``, ``docs`` (each with ``title`` and ``text``) and, if a model has answered, ``output``.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field

from lm_factuality.benchmarks.biographies.types import GeneratedText, RetrievedPassage
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.packages import load_yaml
from lm_factuality.ground.published import Source
from lm_factuality.ground.records import lines_of, read_model, to_model
from lm_factuality.ground.sentences import split_sentences
from lm_factuality.ground.thinking import answer_or_thoughts
from lm_factuality.retrieval.bm25 import Searcher

_EXPECTED = "expected ALCE's JSON: {'data': [{'question', 'docs', 'output'}, ...]}"
_QUESTION = re.compile(
    r"^\s*tell me (?:a |the )?(?:bio|biography) of\s{1,20}(?P<name>.{1,300}?)[\s.?!]{0,20}$",
    re.IGNORECASE,
)
_DISAMBIGUATION = re.compile(r"(?:(?<!\s)\s+)?\(disambiguation\)\s*", re.IGNORECASE)
_CITATION = re.compile(r"\[[\d\s,;\u2013-]+\]")
_NUMBER = re.compile(r"\d+")
_QUESTION_START = "Tell me a bio of "
# The end of each line that is followed by a line "Title: ...".
_BEFORE_TITLE = re.compile(r"\n(?=Title: [^\n]+\n)")
_TITLED_PASSAGE = re.compile(r"Title: (?P<title>[^\n]+)\n(?P<text>.*)", re.DOTALL)

_CITED_NUMBER = re.compile(r"\[(\d{1,3})")
_MAX_LOGGED_CITATIONS = 3  # of a sentence, since ALCE's scorer ignores further ones

# The published files. Each file of generations (ChatGPT, Llama-2-13b-chat) comes before the file of
# decisions on it. The last one has the names.
SOURCES = tuple(Source(**source) for source in load_yaml(__package__, "sources.yaml"))
AMBIGBIO_SOURCE = SOURCES[0]
MAX_PASSAGES = 5  # of a page that the judge sees
# What results call the source of knowledge if facts are verified against the given passages.
DOCUMENTS = "documents"


class _AlceRow(BaseModel):
    """A row of ALCE's files."""

    question: Annotated[str, Field(pattern=r"\S")]
    docs: Annotated[list[RetrievedPassage], Field(min_length=1)]
    output: str | None = None
    name: str | None = None


class _AlceFile(BaseModel):
    """The content of a file of ALCE."""

    data: Annotated[list[_AlceRow], Field(min_length=1)]


def read_generations(paths: Sequence[Path], *, with_outputs: bool = True) -> list[GeneratedText]:
    """Read generated biographies from ALCE's JSON files.

    Args:
        paths: The files. Their rows are numbered from 0 through all files.
        with_outputs: Whether to read the outputs, which every row must then have. If False, only
            the questions and passages are read, and the outputs are empty.

    Raises:
        DataError: A file cannot be read, or has rows that cannot be used.
    """
    generations: list[GeneratedText] = []
    for path in paths:
        rows = read_model(path, _AlceFile, _EXPECTED).data
        is_from_logs = any(map(_has_joined_passages, rows))
        for number, row in enumerate(rows):
            if with_outputs and row.output is None:
                raise DataError(
                    f"{path}: data[{number}] has no output, the text that a model wrote;"
                    f" {_EXPECTED}"
                )
            passages = _split_documents(row)
            citation_numbers = None
            # A file from citation logs has only the passages that an output cites. Their places in
            # the file are therefore not the numbers by which the output cites them.
            if with_outputs and is_from_logs:
                citation_numbers = _citation_numbers(row, passages)
            generation = GeneratedText(
                index=str(len(generations)),
                question=row.question,
                # Some files state the name. In others, it is taken from the question.
                name=name_in_question(row.name or row.question),
                # A thought before the biography is dropped. A thought that never ends is kept
                # whole: the judge then reports it.
                output=answer_or_thoughts(row.output or "") if with_outputs else "",
                passages=passages,
                citation_numbers=citation_numbers,
            )
            generations.append(generation)
    return generations


def _has_joined_passages(row: _AlceRow) -> bool:
    """Return whether a document of a row joins several passages.

    Files that were made from citation logs have such documents, and only the passages that the
    output cites.
    """
    return any(len(split_document(doc)) > 1 for doc in row.docs)


def _split_documents(row: _AlceRow) -> tuple[RetrievedPassage, ...]:
    """Return the passages of a row, after splitting documents that join several.

    If a document joins passages, repeated passages of the row are dropped. Otherwise they are kept,
    since a citation such as [3] refers to the third document.
    """
    passages = tuple(chain.from_iterable(map(split_document, row.docs)))
    return tuple(dict.fromkeys(passages)) if _has_joined_passages(row) else passages


def _citation_numbers(row: _AlceRow, passages: Sequence[RetrievedPassage]) -> tuple[int, ...]:
    """Find the numbers by which an output cites passages, in a file made from citation logs.

    The documents of such a file stand in the order of the sentences that cite them, and each joins
    the passages that one sentence cites.

    Example:
        The output "She sang [1][3]. He won [5]." cites 1 and 3 together and then 5. If the first
        document joins two passages and the second has one, the three passages have these numbers.

    Args:
        row: The row with its output and its documents.
        passages: The distinct passages of the row.

    Returns:
        The number of each passage. Empty if the documents do not fit the citations.
    """
    cited_together = _numbers_cited_together(row.output or "")
    documents = [split_document(doc) for doc in row.docs]
    if list(map(len, cited_together)) != list(map(len, documents)):
        return ()

    cited_numbers = chain.from_iterable(cited_together)
    cited_passages = chain.from_iterable(documents)
    passage_by_number: dict[int, RetrievedPassage] = {}
    number_by_passage: dict[RetrievedPassage, int] = {}
    for number, passage in zip(cited_numbers, cited_passages, strict=True):
        # One number cannot stand for two passages.
        if passage_by_number.setdefault(number, passage) != passage:
            return ()
        # A retriever may return a passage twice. The page then shows it under its first number.
        number_by_passage.setdefault(passage, number)
    return tuple(number_by_passage[passage] for passage in passages)


def _numbers_cited_together(output: str) -> list[tuple[int, ...]]:
    """Return the numbers that each sentence of an output cites, as citation logs have them.

    Sentences without citations are left out, and so are those that cite the same passages as an
    earlier one.

    Example:
        "She sang [1][3]. He won [5]. She sang well [1][3]." gives [(1, 3), (5,)].
    """
    cited_together = []
    for sentence in split_sentences(output):
        distinct_numbers = dict.fromkeys(map(int, _CITED_NUMBER.findall(sentence)))
        numbers = tuple(distinct_numbers)[:_MAX_LOGGED_CITATIONS]
        if numbers and numbers not in cited_together:
            cited_together.append(numbers)
    return cited_together


def split_document(doc: RetrievedPassage) -> list[RetrievedPassage]:
    """Split a document before each line ``Title: ...``, with which a further passage begins.

    Example:
        The document "Ada" with the lines "A painter.", "Title: Bea" and "A baker." becomes the
        passage "A painter." of the page "Ada" and the passage "A baker." of the page "Bea".

    Args:
        doc: The document. Most have a single passage.
    """
    first_text, *titled_texts = _BEFORE_TITLE.split(doc.text)
    passages = [RetrievedPassage(doc.title.strip(), first_text.strip())]
    for titled_text in titled_texts:
        match = _TITLED_PASSAGE.match(titled_text)
        # A title with another title directly below it has no passage.
        if match is not None:
            passages.append(RetrievedPassage(match["title"].strip(), match["text"].strip()))
    return passages


def has_only_cited_passages(text: GeneratedText) -> bool:
    """Return whether a response cites as many different passages as its file has.

    This tells files that were made from citation logs, which have no other passages. The numbers
    alone do not tell, since such a file of three passages may have the citation [5].
    """
    brackets = " ".join(_CITATION.findall(text.output))
    distinct_numbers = set(_NUMBER.findall(brackets))
    return len(distinct_numbers) >= len(text.passages)


def name_in_question(question: str) -> str:
    """Return the name that a question asks about, without "(disambiguation)".

    Example:
        "Tell me a bio of Ada Lind (disambiguation)." becomes "Ada Lind". A question in other words
        is returned whole.
    """
    # "(disambiguation)" belongs to the title of a Wikipedia page, and not to the name.
    match = _QUESTION.match(question)
    name = match["name"] if match else question
    return _DISAMBIGUATION.sub(" ", name).strip()


def generation_to_doc(generation: GeneratedText) -> dict[str, Any]:
    """Convert a generation to a document of lm_eval, which has no output yet."""
    doc = asdict(generation)
    # lm_eval shows documents before a model answers.
    del doc["output"]
    # A model cites passages by their places, so only responses from files have other numbers.
    if generation.citation_numbers is None:
        del doc["citation_numbers"]
    return {**doc, "passages": list(doc["passages"])}


def generation_from_doc(doc: Mapping[str, Any], output: str) -> GeneratedText:
    """Join a document that `generation_to_doc` made with the output of a model.

    Raises:
        ValueError: The document lacks a field, so it is of another task.
    """
    return to_model(GeneratedText, {**doc, "output": output})


def read_names(path: Path) -> list[str]:
    """Read the names to find passages for.

    Args:
        path: A file with one name per line, or the authors' ``AmbigBio.csv``. A line of that file
            has a question such as "Tell me a bio of Ada Lind", a tab, and a list with the name.

    Returns:
        The distinct names in the order of the file, without "(disambiguation)".

    Raises:
        DataError: The file cannot be read or holds no names.
    """
    names = []
    for _, line in lines_of(path, "expected AmbigBio.csv, or one name per line"):
        name_or_question, _, _ = line.partition("\t")
        name = _DISAMBIGUATION.sub(" ", name_or_question.removeprefix(_QUESTION_START))
        names.append(" ".join(name.split()))
    # A dict keeps the order and drops repeated names. A line with nothing but "(disambiguation)"
    # has no name.
    distinct_names = [name for name in dict.fromkeys(names) if name]
    if not distinct_names:
        raise DataError(f"{path}: no names; expected one per line")
    return distinct_names


def question_about(name: str) -> str:
    """Return the question of AmbigBio for a name, such as "Tell me a bio of Ada Lind"."""
    return f"{_QUESTION_START}{name}"


def passages_by_title(generation: GeneratedText) -> dict[str, list[str]]:
    """Group the distinct passages that a model was given by the titles of their pages.

    Args:
        generation: The generation with its passages.

    Returns:
        The texts by title, both in the order of retrieval.
    """
    texts_by_title: dict[str, list[str]] = {}
    # A retriever may return a passage twice.
    for passage in dict.fromkeys(generation.passages):
        texts_by_title.setdefault(passage.title, []).append(passage.text)
    return texts_by_title


def nearest_passages(
    passages: tuple[str, ...], query: str, count: int = MAX_PASSAGES
) -> tuple[str, ...]:
    """Return the passages of a page with the highest BM25 scores for a query.

    Args:
        passages: All passages of the page. If there are at most ``count``, all are returned.
        query: The text to search for, such as a fact.
        count: How many passages to return.

    Returns:
        The best passages first. If fewer than ``count`` passages share a word with the query, the
        first passages of the page follow.
    """
    if len(passages) <= count:
        return passages
    ranked_indices = [index for index, _ in _searcher(passages).rank(query, count)]
    # A dict keeps the first place of each index.
    indices = dict.fromkeys([*ranked_indices, *range(len(passages))])
    return tuple(passages[index] for index in indices)[:count]


# The facts of one response search the same few pages.
@lru_cache(maxsize=256)
def _searcher(passages: tuple[str, ...]) -> Searcher:
    """Index the passages of a page for BM25."""
    return Searcher.from_texts(passages)
