"""All documents of a corpus, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice

from factor_gen.corpus.files import find_files, read_file
from factor_gen.corpus.hub import current_commit, local_folder, read_dataset
from factor_gen.records import Document
from factor_gen.settings import BuildSettings


def read_documents(settings: BuildSettings, commit: str | None = None) -> Iterator[Document]:
    """The first ``corpus.documents`` documents (all, if None), in the order of the files, never more than a few in memory.

    A dataset of the Hub is read at ``commit``, which :func:`factor_gen.corpus.corpus_record` knows; None asks for it.

    Raises:
        DataError: files that aren't there or cannot be read; a row that is none, with its file and line.
    """
    corpus = settings.corpus
    if corpus.dataset is None:
        documents = chain.from_iterable(read_file(file, corpus) for file in find_files(settings))
    elif local_folder(settings) is not None:
        documents = read_dataset(settings, None)  # type: ignore[assignment]
    else:
        documents = read_dataset(settings, commit or current_commit(settings))  # type: ignore[assignment]
    return islice(documents, corpus.documents)
