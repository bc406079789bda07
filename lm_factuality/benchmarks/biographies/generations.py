"""What a model wrote and the passages it was given: ALCE's JSON, and the documents of lm_eval's
samples; and pages, what is known of an entity, with the passages nearest to a fact (Retrieve -> LM
of Min et al.). ALCE's files are ``{"data": [row, ...]}``, a list of rows or JSON lines, plain or
gzipped. A row has ``question``, ``docs`` (each with ``title`` and ``text``) and, if a model has
answered it, ``output``."""

import ast
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from lm_factuality.benchmarks.biographies.types import Generation, Passage
from lm_factuality.ground.errors import DataError, refuse, short
from lm_factuality.ground.files import parse_json
from lm_factuality.ground.published import Source
from lm_factuality.ground.records import lines_of, read_lines, read_text, to_model
from lm_factuality.ground.thinking import said
from lm_factuality.retrieval.bm25 import Searcher

_EXPECTED = "expected ALCE's JSON: {'data': [{'question', 'docs', 'output'}, ...]}"
_QUESTION = re.compile(
    r"^\s*tell me (?:a |the )?(?:bio|biography) of\s+(?P<name>.+?)[\s.?!]*$", re.IGNORECASE
)
_DISAMBIGUATION = re.compile(r"\s*\(disambiguation\)\s*", re.IGNORECASE)
_TITLE_LINE = re.compile(r"\n(?=Title: [^\n]+\n)")
_TITLED = re.compile(r"Title: ([^\n]+)\n(.*)", re.DOTALL)

_REPOSITORY = (
    "d223302/Merging-Facts-Crafting-Fallacies",
    "2586d420d7de80f93ac34659fe32b97498cc8c0b",
)
_CHATGPT, _LLAMA = (
    "bioqa-gpt-3.5-turbo-0301-gtr-shot2-ndoc5-42",
    "bioqa-Llama-2-13b-chat-hf-gtr-shot2-ndoc5-42",
)
_OUTPUT, _DECISIONS = "result/alce_output/{}.json", "result/factscore/{}_factscore_output.json"
# The names' questions and passages, with what ChatGPT and Llama-2-13b-chat wrote, each before what
# the authors' pipeline decided on that; the names; and what people saw in 300 of the responses (how
# many lines that makes is not
# said).
SOURCES = tuple(
    Source(f"ambigbio{name}", *_REPOSITORY, path, blob, "not stated", rows)
    for name, path, blob, rows in (
        ("", _OUTPUT.format(_CHATGPT), "641f01484b28bf9ef3b740b7e5e115a1add7b4e5", 500),
        (
            "_decisions",
            _DECISIONS.format(_CHATGPT),
            "106c3c7567389aa744de73972c044bd79ba8ff38",
            500,
        ),
        ("_llama", _OUTPUT.format(_LLAMA), "6a470d929ea0c9685ecaa965991ebdcfc5160519", 500),
        (
            "_llama_decisions",
            _DECISIONS.format(_LLAMA),
            "89fb02221ad4a0d1c52b351e81945adeef1e9e3d",
            500,
        ),
        ("_names", "AmbigBio/AmbigBio.csv", "1a7d365efcf19dde48785f0a68cee7907b23c696", 497),
        (
            "_people",
            "result/human_eval_result.csv",
            "d2d5c8859a99e4875db71267247b2079eb4ec2f3",
            300,
        ),
    )
)
AMBIGBIO = SOURCES[0]


def read_generations(paths: Sequence[Path], outputs: bool = True) -> list[Generation]:
    """The rows of all files, numbered from 0 through all of them; without ``outputs`` a row needs
    none, and has an empty one. Raises DataError: every row that cannot be used, and why; a file
    that cannot be read or holds no rows."""
    found: list[Generation] = []
    problems: list[str] = []
    for path in paths:
        rows = _rows(path)
        if not rows:
            raise DataError(f"{path}: no rows; {_EXPECTED}")
        for number, row in enumerate(rows, 1):
            try:
                found.append(_generation(row, str(len(found) + len(problems)), outputs))
            except ValueError as error:
                problems.append(f"{path}: row {number}: {error}")
    refuse(problems, "rows")
    return found


def name_in(question: str) -> str:
    """The name that is asked about, without "(disambiguation)"; the whole question if it is asked
    in other words."""
    match = _QUESTION.match(question)
    return _DISAMBIGUATION.sub(" ", match["name"] if match else question).strip()


def to_doc(generation: Generation) -> dict[str, Any]:
    passages = [{"title": passage.title, "text": passage.text} for passage in generation.passages]
    return {
        "index": generation.index,
        "question": generation.question,
        "name": generation.name,
        "passages": passages,
    }


def from_doc(doc: Mapping[str, Any], output: str) -> Generation:
    """The generation of a document of ``to_doc``. Raises ValueError: it is of another task."""
    return to_model(Generation, {**doc, "output": output})


def _generation(row: Any, index: str, outputs: bool) -> Generation:
    if not isinstance(row, Mapping):
        raise ValueError(  # noqa: TRY004
            f"found a {type(row).__name__}, expected an object with question, docs and output"
        )
    question, docs, output = row.get("question"), row.get("docs"), row.get("output")
    if not isinstance(question, str) or not question.strip():
        raise ValueError(
            f"'question': found {short(question)}, expected a text such as 'Tell me a bio of Ada"
            " Lind'"
        )
    if not isinstance(docs, list) or not docs:
        raise ValueError(
            f"'docs': found {short(docs)}, expected a list of passages, each with title and text"
        )
    if outputs and not isinstance(output, str):
        raise ValueError(f"'output': found {short(output)}, expected the text that a model wrote")
    name, text = row.get("name"), said(output) if outputs and isinstance(output, str) else ""
    name = (
        _DISAMBIGUATION.sub(" ", name).strip()
        if isinstance(name, str) and name
        else name_in(question)
    )
    return Generation(index, question, name, text, _passages(docs))


def _passages(docs: Iterable[Any]) -> tuple[Passage, ...]:
    """The documents; one whose text goes on with lines ``Title: ...``, as in files made from
    citation logs, is several passages, and of a file like that repeated passages count once."""
    found: list[Passage] = []
    has_joined = False
    for number, doc in enumerate(docs, 1):
        if not isinstance(doc, Mapping) or not all(
            isinstance(doc.get(key), str) for key in ("title", "text")
        ):
            raise ValueError(
                f"docs[{number}]: found {short(doc)}, expected an object with the texts title and"
                " text"
            )
        first, *others = _TITLE_LINE.split(doc["text"])
        found.append(Passage(doc["title"].strip(), first.strip()))
        found += [
            Passage(title.strip(), text.strip())
            for other in others
            for title, text in _TITLED.findall(other)
        ]
        has_joined = has_joined or bool(others)
    return tuple(dict.fromkeys(found)) if has_joined else tuple(found)


def _rows(path: Path) -> list[Any]:
    try:
        loaded = parse_json(read_text(path, _EXPECTED), is_shared=False)
    except json.JSONDecodeError:
        return read_lines(path, lambda row: row, _EXPECTED)
    except ValueError as error:
        raise DataError(f"{path}: JSON that cannot be read: {error}; {_EXPECTED}") from error
    rows = loaded.get("data") if isinstance(loaded, dict) and "question" not in loaded else loaded
    if isinstance(rows, dict):
        return [rows]
    if not isinstance(rows, list):
        raise DataError(
            f"{path}: found a JSON {type(loaded).__name__} without a list of rows; {_EXPECTED}"
        )
    return rows


def read_names(path: Path) -> list[str]:
    """The names of ``AmbigBio.csv`` (a line: the question, a tab, a list with the name in Python's
    form) or of a file with a name a line; without "(disambiguation)", in their order, repeated ones
    once. Raises DataError: the file cannot be read, holds no names, or lines are bad; each is
    named."""
    names, problems = [], []
    for number, line in lines_of(path, "expected AmbigBio.csv, or one name per line"):
        try:
            names.append(_name(line))
        except ValueError as error:
            problems.append(f"{path}:{number}: {error}")
    refuse(problems, "lines")
    if not names:
        raise DataError(f"{path}: no names; expected one per line")
    return list(dict.fromkeys(names))


def query_of(name: str) -> str:
    return f"Tell me a bio of {name}"


def _name(line: str) -> str:
    _, tab, listed = line.partition("\t")
    if not tab:
        return _plain(line)
    try:
        found = ast.literal_eval(listed.strip())
    except (ValueError, SyntaxError):
        found = None
    if not (isinstance(found, list) and found and isinstance(found[0], str)):
        raise ValueError(
            f"found {listed.strip()!r} after the tab, expected a name in brackets: ['Ada Lind']"
        )
    return _plain(found[0])


def _plain(name: str) -> str:
    plain = " ".join(_DISAMBIGUATION.sub(" ", name).split())
    if not plain:
        raise ValueError(f"found {name!r}, expected a name")
    return plain


EVIDENCE = 5  # passages of a page that the judge sees
DOCUMENTS = "documents"  # what results call the knowledge where the given passages serve as pages


def given_pages(generation: Generation) -> dict[str, list[str]]:
    """The passages that a model was given, by title: those with the same one are one page, each of
    them once."""
    pages: dict[str, dict[str, None]] = {}
    for passage in generation.passages:
        pages.setdefault(passage.title, {})[passage.text] = None
    return {title: list(texts) for title, texts in pages.items()}


def nearest(page: tuple[str, ...], query: str, count: int = EVIDENCE) -> tuple[str, ...]:
    """The ``count`` passages of ``page`` with the highest BM25 score for ``query``, best first, the
    earlier of equals; all in the page's order if it has no more than that."""
    if len(page) <= count:
        return page
    best = [number for number, _ in _searcher(page).best(query, count)]
    others = (number for number in range(len(page)) if number not in best)
    return tuple(page[number] for number in [*best, *others][:count])


@lru_cache(256)  # pages: facts of one response ask for the same few
def _searcher(page: tuple[str, ...]) -> Searcher:
    return Searcher.of(page)
