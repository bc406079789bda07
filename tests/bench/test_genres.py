"""The check of factor-gen on texts of many genres.

Files of packages become documents, contradictions are drawn for people to judge, and their labels
are found again after another build.
"""

from __future__ import annotations

import csv
import gzip
import json
import re
import shutil
import struct
import zlib
from pathlib import Path

import pytest

from bench.factor_gen import genre_readers
from bench.factor_gen.__main__ import main
from bench.factor_gen.genre_config import Genre, Genres, Package, load_genres
from bench.factor_gen.genre_texts import draw_documents, unpack_package
from bench.factor_gen.genres import (
    ROOT,
    Build,
    Checkout,
    Contradiction,
    GenreOptions,
    blind_floor,
    build_genre,
    read_labels,
    summarise_builds,
)
from lm_factuality.ground.errors import DataError

PACKAGE = Package(name="mills", version="1", sha256="0" * 64)


def make_genre(reader: str, **fields: object) -> Genre:
    """Return the genre "mills", whose documents are in the package of that name.

    Args:
        reader: The name of the reader of its files.
        **fields: Other or more fields of the genre.
    """
    defaults = {
        "name": "mills",
        "use": "gate",
        "language": "en",
        "license": "MIT",
        "packages": [PACKAGE],
        "files": "*",
    }
    return Genre(reader=reader, **{**defaults, **fields})


def read_documents(path: Path, genre: Genre) -> list[str]:
    """Return the documents that the reader of a genre makes of a file."""
    return list(genre_readers.read_documents(path, genre))


HTML_PAGE = """\
<html><head><title>no</title></head><body>
<nav><p>Menu</p></nav>
<div class="toc"><p>Contents</p></div>
<h1>Mills<a class="headerlink">#</a></h1>
<p>The mill
 is <b>old</b>.</p>
<pre>code()</pre>
<ul><li><p>One wheel.</p></li><li>Two stones.</li></ul>
<h2>Rivers</h2>
<div class="para">The river <code>Osk</code> is wide.<pre>more()</pre></div>
<table><tr><td>no</td></tr></table>
</body></html>"""

MALLARD_PAGE = """\
<page xmlns="http://projectmallard.org/1.0/"><info><desc>no</desc></info>
<title>Open a mill</title>
<steps><item><p>Press <key>Enter</key>.</p></item></steps>
<screen>no</screen></page>"""

DOCBOOK_SECTION = """\
<sect1><title>Mills</title><para>Old <b>now</b>.</para>
<row><entry>no</entry></row></sect1>"""


def test_a_page_in_html_has_a_document_for_each_section(tmp_path):
    """Menus, code, and tables are no prose, in which contradictions could be written."""
    path = tmp_path / "page.html"
    path.write_text(HTML_PAGE, encoding="utf-8")

    documents = read_documents(path, make_genre("html"))

    assert documents == [
        "Mills\nThe mill is old.\nOne wheel.\nTwo stones.",
        "Rivers\nThe river Osk is wide.",
    ]


def test_a_long_section_of_html_is_divided_between_paragraphs(tmp_path):
    """Each of the two paragraphs has as many words as a document may have here: one."""
    path = tmp_path / "page.html"
    path.write_text("<h1>Mills</h1><p>Old.</p><p>Few.</p>", encoding="utf-8")

    documents = read_documents(path, make_genre("html", most_words=1))

    assert documents == ["Mills\nOld.", "Few."]


@pytest.mark.parametrize(
    ("content", "document"),
    [
        pytest.param(MALLARD_PAGE, "Open a mill\nPress Enter.", id="Mallard"),
        pytest.param(DOCBOOK_SECTION, "Mills\nOld now.", id="DocBook"),
    ],
)
def test_a_help_page_in_xml_is_one_document_of_its_prose(tmp_path, content, document):
    """Programs come with help in both formats; what is marked "no" above is no prose."""
    path = tmp_path / "page"
    path.write_text(content, encoding="utf-8")

    documents = read_documents(path, make_genre("mallard"))

    assert documents == [document]


# The files of packages that are plain text for some reader, and the documents in them.
TEXT_CASES = [
    pytest.param(
        make_genre("text"), "The mill\nis old.\n", ["The mill\nis old.\n"], id="plain text"
    ),
    pytest.param(
        make_genre("entries", entry=r"^(?:mill|river)$"),
        "head\n\nmill\n\n   old\n\nriver\n   wide\n",
        ["mill\n\n   old", "river\n   wide"],
        id="entries",
    ),
    pytest.param(
        make_genre("dialogue"),
        '[a]\nmessage= _ "The mill\n is ""old""."\nid="no"\nstory=_ "Go."\n',
        ['The mill is "old".\nGo.'],
        id="dialogue",
    ),
    pytest.param(
        make_genre("dialogue", entry=r'legend=_\("([^"]*)"\)'),
        'legend=_("Mills are\\\n old.")\nname=_("no")',
        ["Mills are old."],
        id="dialogue by a pattern",
    ),
]


@pytest.mark.parametrize(("genre", "content", "documents"), TEXT_CASES)
def test_a_text_file_has_the_documents_of_its_genre(tmp_path, genre, content, documents):
    """Only the prose of a file is a document: no names, marks or settings."""
    path = tmp_path / "file"
    path.write_text(content, encoding="utf-8")

    documents_read = read_documents(path, genre)

    assert documents_read == documents


@pytest.mark.parametrize(("genre", "content", "documents"), TEXT_CASES)
def test_a_packed_text_file_has_the_same_documents(tmp_path, genre, content, documents):
    """Debian packs large texts, and a user need not unpack them."""
    path = tmp_path / "file.gz"
    path.write_bytes(gzip.compress(content.encode()))

    documents_read = read_documents(path, genre)

    assert documents_read == documents


def test_a_commentary_in_sword_format_has_a_document_for_each_book(tmp_path):
    """The format packs books one after another, and an index says where each begins.

    An entry of the index has the start, the packed size and the size of a book as three integers.
    """
    first = "<title>Mills</title> <div sID='1' type=\"x-p\"/> Old. <table><row>no</row></table>"
    second = '<div type="x-p"/> Few <hi>now</hi>.'
    packed_first = zlib.compress(first.encode())
    packed_second = zlib.compress(second.encode())
    gap = b"??"
    empty_book = (0, 0, 0)
    first_book = (0, len(packed_first), len(first))
    second_book = (len(packed_first) + len(gap), len(packed_second), len(second))
    entries = [struct.pack("<3I", *book) for book in (empty_book, first_book, second_book)]
    (tmp_path / "nt.bzz").write_bytes(packed_first + gap + packed_second)
    (tmp_path / "nt.bzs").write_bytes(b"".join(entries))

    documents = read_documents(tmp_path / "nt.bzz", make_genre("sword"))

    assert documents == ["Mills\nOld.", "Few now."]


GENRES = load_genres().genres
"""The genres of ``genres.yaml``."""


def count_genres(use: str) -> int:
    """Return how many genres have a use."""
    return sum(genre.use == use for genre in GENRES)


def test_genre_names_are_unique_and_valid_file_names():
    """The documents of a genre are written to a file of its name."""
    names = {genre.name for genre in GENRES}
    file_names = {genre.file_name for genre in GENRES}

    assert len(names) == len(GENRES)
    assert len(file_names) == len(GENRES)
    for file_name in file_names:
        assert file_name.isidentifier()


def test_there_are_enough_genres_of_each_use():
    """Rules are tuned on genres of the use "gate" and tested on the others, each used once."""
    assert count_genres("gate") >= 8
    assert count_genres("held out") == 10
    assert count_genres("last") == 9
    assert count_genres("fresh") == 9


def test_no_package_has_two_uses():
    """Rules that are tuned on a package must not be tested on it."""
    uses_by_package = {}
    for genre in GENRES:
        if genre.use == "language":
            continue
        for package in genre.packages:
            uses_by_package.setdefault(package.name, set()).add(genre.use)

    for uses in uses_by_package.values():
        assert len(uses) == 1


@pytest.mark.parametrize("genre", GENRES, ids=lambda genre: genre.file_name)
def test_a_genre_has_a_license_and_pinned_packages(genre):
    """Figures can be repeated only on the same texts."""
    assert genre.license
    for package in genre.packages:
        assert package.version
        assert re.fullmatch("[0-9a-f]{64}", package.sha256)


@pytest.mark.parametrize("use", [*sorted({genre.use for genre in GENRES}), "all"])
def test_the_command_knows_every_use(use, capsys):
    """A new use in ``genres.yaml`` would otherwise be refused by the command."""
    with pytest.raises(SystemExit) as stopped:
        main(["genres", "--use", use, "--help"])

    assert stopped.value.code == 0, capsys.readouterr().err


def write_package_file(folder: Path, name: str, text: str) -> Path:
    """Write a file of the unpacked package "mills", below the folder into which genres are drawn."""
    path = folder / "packages" / "mills" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def draw_and_read(genre: Genre, folder: Path) -> list[dict]:
    """Draw up to five documents of at least 80 words from a genre."""
    settings = Genres(most_documents=5, least_words=80, genres=[genre])
    lines = draw_documents(genre, settings, folder).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


@pytest.fixture
def drawing_folder(tmp_path) -> Path:
    """Return a folder whose package has one short file, ``0.txt``, and eight long ones."""
    write_package_file(tmp_path, "0.txt", "word " * 9)
    for number in range(1, 9):
        write_package_file(tmp_path, f"{number}.txt", "word " * 90)
    return tmp_path


def test_requested_number_of_long_documents_is_drawn(drawing_folder):
    """Five of eight long files are drawn, and the short one, ``0.txt``, never is."""
    documents = draw_and_read(make_genre("text"), drawing_folder)

    ids = [document["id"] for document in documents]
    assert len(ids) == 5
    assert "0.txt#0" not in ids


def test_drawn_documents_do_not_depend_on_other_files(drawing_folder):
    """A new release of a package may add files, which must not change the other documents."""
    documents = draw_and_read(make_genre("text"), drawing_folder)
    (drawing_folder / "packages" / "mills" / "0.txt").unlink()
    saved_draw = drawing_folder / "mills.jsonl"
    saved_draw.unlink()

    documents_without_short_file = draw_and_read(make_genre("text"), drawing_folder)

    assert documents_without_short_file == documents


def test_a_package_without_the_files_of_its_genre_is_an_error(drawing_folder):
    """A pattern with a typing error would otherwise give an empty genre."""
    genre = make_genre("text", name="none", files="none")

    with pytest.raises(DataError, match="mills 1: holds no none"):
        draw_and_read(genre, drawing_folder)


def test_files_with_equal_names_are_distinguished_by_folder(tmp_path):
    """The last of three patterns finds the same files again, which are read once."""
    write_package_file(tmp_path, "a/mill.txt", "word " * 90)
    write_package_file(tmp_path, "c/mill.txt", "word " * 90)
    genre = make_genre("text", files=["a/*", "c/*", "?/mill.txt"])

    documents = draw_and_read(genre, tmp_path)

    assert {document["id"] for document in documents} == {"a/mill.txt#0", "c/mill.txt#0"}


def test_dropped_text_does_not_count_as_words_of_a_document(tmp_path):
    """90 words are left of the first file, and 70 of the second, which is below 80."""
    write_package_file(tmp_path, "enough.txt", "no word " * 90)
    write_package_file(tmp_path, "short.txt", "word " * 70 + "no " * 20)

    documents = draw_and_read(make_genre("text", drop="no "), tmp_path)

    assert documents == [{"id": "enough.txt#0", "text": "word " * 90}]


@pytest.mark.skipif(shutil.which("apt-get") is None, reason="no Debian")
def test_package_missing_in_apt_is_an_error_with_advice(tmp_path):
    """Debian drops old versions, and then ``genres.yaml`` has to name another one."""
    package = PACKAGE.model_copy(update={"name": "no-such-mills"})

    with pytest.raises(DataError, match=r"no-such-mills=1: .*genres\.yaml"):
        unpack_package(package, tmp_path)


def make_contradictions(*texts: str, genre: str = "one") -> list[Contradiction]:
    """Return contradictions of "It is old.", with the given texts."""
    return [
        Contradiction(
            genre=genre,
            completion="It is old.",
            text=text,
            error_type="entity",
            edit="e",
        )
        for text in texts
    ]


def write_labels(path: Path, contradictions: list[Contradiction], num_bad: int) -> Path:
    """Write labels that call the first contradictions bad, and the others good."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ["answer", "note"])
        writer.writeheader()
        for number, contradiction in enumerate(contradictions):
            answer = "bad" if number < num_bad else "good"
            writer.writerow({"answer": answer, "note": f"{contradiction.key} one, entity:"})
    return path


def test_empty_labels_are_refused(tmp_path):
    """An empty answer must count neither as good nor as bad."""
    labels = tmp_path / "labels.csv"
    labels.write_text("answer,note\n,0123456789ab one\n", encoding="utf-8")

    with pytest.raises(DataError, match=r"labels.csv:2: expected a note"):
        read_labels([labels])


def test_labels_are_counted_for_the_contradictions_of_a_build(tmp_path):
    contradictions = make_contradictions(*[f"It is {number}." for number in range(9)])
    labelled_contradictions = contradictions[:4]
    labels = write_labels(tmp_path / "labels.csv", labelled_contradictions, num_bad=1)
    counts = {"documents": 9, "eligible": 8, "rows": 4, "several": 1}
    answers = read_labels([labels])

    record = summarise_builds([Build(counts, contradictions)], answers)

    assert len(answers) == 4
    assert record["read"] == 4
    assert record["bad"] == 1
    assert record["share"] == 4 / 8  # rows of eligible documents
    assert record["distance"] == 1.0  # each contradiction changes one word


@pytest.mark.parametrize(
    ("texts", "floor"),
    [
        pytest.param(["It is quite old."] * 3, 1.0, id="all are longer"),
        pytest.param(["It is new."] * 3, 0.5, id="none differs in its surface"),
        pytest.param(["It is quite old.", "It is new."], 0.75, id="ties count half"),
    ],
)
def test_the_blind_floor_is_the_accuracy_of_the_best_surface_statistic(texts, floor):
    """It is what somebody wins who looks only at lengths and signs."""
    _, accuracy = blind_floor(make_contradictions(*texts))

    assert accuracy == pytest.approx(floor)


def test_the_blind_floor_of_no_contradictions_is_chance():
    """A blind rule wins half of all pairs by chance."""
    assert blind_floor([]) == ("-", 0.5)


@pytest.mark.slow
def test_a_build_is_counted_with_its_contradictions(tmp_path):
    """Each of six documents can give a row, and each row has three different contradictions."""
    lines = []
    for number in range(6):
        text = (
            f"Report {number}.\nThe mayor sold the {number + 3} old mills in Berlin to the bank in"
            " May 1990, and nobody bought them again."
        )
        lines.append(json.dumps({"text": text}) + "\n")
    corpus = tmp_path / "mills.jsonl"
    corpus.write_text("".join(lines), encoding="utf-8")
    checkout = Checkout("here", ROOT)

    build = build_genre(checkout, make_genre("text"), corpus, GenreOptions(tmp_path), model=None)

    keys = {contradiction.key for contradiction in build.contradictions}
    assert build.counts["documents"] == 6
    assert build.counts["eligible"] == 6
    assert build.counts["rows"] > 0
    assert len(build.contradictions) == 3 * build.counts["rows"]
    assert len(keys) == len(build.contradictions)
