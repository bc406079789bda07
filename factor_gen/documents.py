"""All documents of a corpus, one after the other, as the first stage's examples."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from itertools import chain, islice
from mmap import mmap
from struct import unpack

from factor_gen.corpus import (
    TEXTS,
    CorpusFile,
    current_commit,
    dataset_rows,
    find_files,
    local_folder,
)
from factor_gen.language import ENGLISH
from factor_gen.recipe import columns_of, is_template, left_out, render
from factor_gen.records import Document, Example, whole
from factor_gen.settings import BuildSettings, CorpusSettings
from factor_gen.stages import READ
from factor_gen.text.layout import unwrap
from factor_gen.text.sentences import plain, sentences
from lm_factuality.ground.errors import DataError, did_you_mean
from lm_factuality.ground.tables import Reader, Record, csv_rows, jsonl_rows, parquet_rows

CLEANING = 2  # raised when texts are unwrapped in another way, or other sentences count as repeated


def read_documents(
    settings: BuildSettings, commit: str | None = None, filtered: Counter[str] | None = None
) -> Iterator[Document]:
    """The first ``corpus.documents`` documents (all, if None), in the order of the files, never
    more than a few in memory. A dataset of the Hub is read at ``commit``, which
    :func:`factor_gen.corpus.corpus_record` knows; None asks for it. Rows that ``corpus.where``
    leaves out are counted in ``filtered``, by reason. Raises DataError: files that aren't there or
    cannot be read; a row that is none, with its file and line."""
    corpus, counts = settings.corpus, Counter[str]() if filtered is None else filtered
    if corpus.dataset is None:
        documents = chain.from_iterable(
            _read_file(file, corpus, counts) for file in find_files(settings)
        )
        return islice(documents, corpus.documents)
    if local_folder(settings) is None:
        commit = commit or current_commit(settings)
    return islice(_documents(dataset_rows(settings, commit), corpus, str, counts), corpus.documents)


def _read_file(
    file: CorpusFile, settings: CorpusSettings, filtered: Counter[str]
) -> Iterator[Document]:
    needed = [*columns_of(settings.text, settings.where), *([settings.id] if settings.id else [])]
    readers: Mapping[str, Reader] = {
        ".jsonl": jsonl_rows,
        ".jsonl.gz": jsonl_rows,
        ".ndjson": jsonl_rows,
        ".csv": partial(csv_rows, repeated_columns=True),
        ".parquet": partial(parquet_rows, needed=needed, optional=["id"]),
    }
    name = file.path.name.lower()
    ending = next((each for each in readers if name.endswith(each)), file.path.suffix.lower())
    if ending in TEXTS:
        return iter([_text_document(file)])
    if ending not in readers:
        raise DataError(
            f"{file.path}: ends in {ending!r}, expected"
            f" {', '.join([*readers, *filter(None, TEXTS)])}; convert it, or name others with a"
            " pattern such as corpus: my_texts/*.txt"
        )
    if ending == ".csv" and file.path.stat().st_size == 0:
        raise DataError(f"{file.path}: empty; expected a header and one document per row")
    return _documents(readers[ending](file.path), settings, file.number, filtered)


def _text_document(file: CorpusFile) -> Document:
    """The document that a text file is; line breaks stay as they are."""
    try:
        raw = file.path.read_bytes()
    except OSError as error:
        raise DataError(f"{file.path}: cannot be read: {error}") from error
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        start, line = error.start, raw.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{file.path}:{line}: byte 0x{raw[start]:02x} at offset {start} is not UTF-8; save the"
            " file as UTF-8"
        ) from error
    return Document(file.id, text.removeprefix("\ufeff"), str(file.path))


def _documents(
    rows: Iterator[Record | str],
    settings: CorpusSettings,
    numbered: Callable[[int], str],
    filtered: Counter[str],
) -> Iterator[Document]:
    """The document in each row, ``numbered`` where the row has no id. A null text is an empty
    one."""
    needed = columns_of(settings.text, settings.where)
    for number, row in enumerate(rows, start=1):
        if isinstance(row, str):
            raise DataError(row)
        if absent := [name for name in needed if name not in row.values]:
            raise DataError(
                f"{row.location}:"
                f" {_missing('where' if absent[0] != settings.text else 'text', absent[0], row)}"
            )
        if reason := left_out(settings.where, row.values):
            filtered[reason] += 1
            continue
        text = _text(row, settings.text)
        yield Document(_identity(row, settings, numbered(number)), whole(text or ""), row.location)


def _text(row: Record, source: str) -> str | None:
    """The text in the column ``source``, or what the template ``source`` makes of the row."""
    if is_template(source):
        try:
            return render(source, row.values)
        except ValueError as error:
            raise DataError(
                f"{row.location}: the template of corpus.text {error}; change corpus.text or"
                " the row"
            ) from error
    text = row.values[source]
    if text is not None and not isinstance(text, str):
        raise DataError(
            f"{row.location}: {source!r} is a {type(text).__name__}, expected the text of a"
            " document"
        )
    return text


def _identity(row: Record, settings: CorpusSettings, number: str) -> str:
    key = settings.id or "id"
    value = row.values.get(key)
    if settings.id is not None and settings.id not in row.values:
        raise DataError(f"{row.location}: {_missing('id', settings.id, row)}")
    if isinstance(value, str) and value.strip():
        return whole(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if settings.id is None and (value is None or value == ""):
        return number
    found = (
        "empty"
        if isinstance(value, str)
        else "null"
        if value is None
        else f"a {type(value).__name__}"
    )
    raise DataError(
        f"{row.location}: {key!r} is {found}, expected a text or a whole number; name another"
        " column: corpus: {id: NAME}"
    )


def _missing(part: str, name: str, row: Record) -> str:
    names = [str(each) for each in row.values]
    found = (
        f"no column {name!r}{did_you_mean(name, names)}; found"
        f" {', '.join(map(repr, names)) or 'none'}"
    )
    if part == "where":
        return f"{found}; corpus.text or corpus.where asks for it: name another there"
    return f"{found}; name the one with the {part}: corpus: {{{part}: NAME}}"


def distinct(
    documents: Iterable[Document], unwrapped: bool = False, language: str = ENGLISH
) -> Iterator[Example]:
    """An example for each document, its ``prefix`` the whole text (``unwrapped``: as
    :func:`factor_gen.text.layout.unwrap` has it), with the places of sentences that a document
    before it has as well. A document whose id or text came before is unused."""
    ids, texts, known = _Seen(), _Seen(), _Seen()
    for document in documents:
        example = Example(document.id, prefix=unwrap(document.text) if unwrapped else document.text)
        if not ids.add([document.id])[0]:
            yield example.drop(READ, "the id of another document")
        elif document.text.strip() and not texts.add([document.text])[0]:
            yield example.drop(READ, "the text of another document")
        else:
            spans = sentences(example.prefix, language)
            is_new = known.add([plain(example.prefix[start:end]) for start, end in spans])
            yield replace(
                example,
                repeated=tuple(
                    start for (start, _), new in zip(spans, is_new, strict=True) if not new
                ),
            )


class _Seen:
    """A set of texts in 64 MB however many they are (a Bloom filter): a text that is new counts as
    seen with a chance of one in 50 million after 10 million texts, one in 4,000 after 30 million,
    and one in 8 after 100 million; never the other way."""

    _BITS, _PROBES = 29, 8

    def __init__(self) -> None:
        self._bits = mmap(-1, 1 << (self._BITS - 3))  # zeros, in memory where they are touched

    def add(self, texts: Sequence[str]) -> list[bool]:
        """Adds ``texts``; returns of each whether no earlier call had it."""
        probes = [
            unpack("<8I", blake2b(text.encode("utf-8"), digest_size=4 * self._PROBES).digest())
            for text in texts
        ]
        places = [[probe >> (32 - self._BITS) for probe in each] for each in probes]
        is_new = [
            not all(self._bits[place >> 3] >> (place & 7) & 1 for place in each) for each in places
        ]
        for place in chain.from_iterable(places):
            self._bits[place >> 3] |= 1 << (place & 7)
        return is_new
