"""The gate of genres, on texts of our own: how files become documents, what is counted, and how
labels find contradictions again."""

import csv
import gzip
import json
import re
import shutil
import struct
import zlib

import pytest

from bench.factor_gen.__main__ import main
from bench.factor_gen.genre_texts import (
    _READERS,
    Genre,
    Genres,
    Package,
    draw,
    load_genres,
    unpacked,
)
from bench.factor_gen.genres import (
    Contradiction,
    _record,
    blind_floor,
    build,
    read_labels,
    write_sheet,
)
from lm_factuality.ground.errors import DataError

PACKAGE = Package(name="mills", version="1", sha256="0" * 64)


def genre(reader: str, **about: object) -> Genre:
    return Genre(
        name="mills",
        use="gate",
        language="en",
        license="MIT",
        packages=[PACKAGE],
        files="*",
        reader=reader,
        **about,
    )


PAGE = """<html><head><title>no</title></head><body><nav><p>Menu</p></nav>
<div class="toc"><p>Contents</p></div><h1>Mills<a class="headerlink">#</a></h1><p>The mill
 is <b>old</b>.</p><pre>code()</pre><ul><li><p>One wheel.</p></li><li>Two stones.</li></ul>
<h2>Rivers</h2><div class="para">The river <code>Osk</code> is wide.<pre>more()</pre></div><table><tr><td>no</td></tr></table></body></html>"""
MALLARD = """<page xmlns="http://projectmallard.org/1.0/"><info><desc>no</desc></info><title>Open a mill</title>
<steps><item><p>Press <key>Enter</key>.</p></item></steps><screen>no</screen></page>"""


@pytest.mark.parametrize(
    ("reader", "content", "about", "expected"),
    [
        ("html", PAGE, {}, ["Mills\nThe mill is old.\nOne wheel.\nTwo stones.", "Rivers\nThe river Osk is wide."]),
        ("html", "<h1>Mills</h1><p>Old.</p><p>Few.</p>", {"most_words": 1}, ["Mills\nOld.", "Few."]),
        ("mallard", MALLARD, {}, ["Open a mill\nPress Enter."]),
        ("mallard", "<sect1><title>Mills</title><para>Old <b>now</b>.</para><row><entry>no</entry></row></sect1>", {}, ["Mills\nOld now."]),
        ("text", "The mill\nis old.\n", {}, ["The mill\nis old.\n"]),
        ("entries", "head\n\nmill\n\n   old\n\nriver\n   wide\n", {"entry": r"^(?:mill|river)$"}, ["mill\n\n   old", "river\n   wide"]),
        ("dialogue", '[a]\nmessage= _ "The mill\n is ""old""."\nid="no"\nstory=_ "Go."\n', {}, ['The mill is "old".\nGo.']),
        ("dialogue", 'legend=_("Mills are\\\n old.")\nname=_("no")', {"entry": r'legend=_\("([^"]*)"\)'}, ["Mills are old."]),
    ],
)  # fmt: skip
def test_files_become_documents(tmp_path, reader, content, about, expected):
    for name, raw in (("plain", content.encode()), ("packed.gz", gzip.compress(content.encode()))):
        if name == "plain" or reader in ("text", "entries", "dialogue"):
            (tmp_path / name).write_bytes(raw)
            assert list(_READERS[reader](tmp_path / name, genre(reader, **about))) == expected


def test_a_commentary_is_unpacked_book_by_book(tmp_path):
    books = [
        "<title>Mills</title> <div sID='1' type=\"x-p\"/> Old. <table><row>no</row></table>",
        '<div type="x-p"/> Few <hi>now</hi>.',
    ]
    packed = [zlib.compress(each.encode()) for each in books]
    (tmp_path / "nt.bzz").write_bytes(b"??".join(packed))
    places = [
        (0, 0, 0),
        (0, len(packed[0]), len(books[0])),
        (len(packed[0]) + 2, len(packed[1]), len(books[1])),
    ]
    (tmp_path / "nt.bzs").write_bytes(b"".join(struct.pack("<3I", *each) for each in places))
    assert list(_READERS["sword"](tmp_path / "nt.bzz", genre("sword"))) == [
        "Mills\nOld.",
        "Few now.",
    ]


def test_the_genres_are_enough_pinned_and_free():
    names = [each.file_name for each in load_genres().genres]
    assert len(set(names)) == len(names)
    assert all(name.isidentifier() for name in names)
    genres = load_genres().genres
    assert sum(each.use == "gate" for each in genres) >= 8
    assert sum(each.use == "held out" for each in genres) == 10
    assert (
        sum(each.use == "last" for each in genres)
        == sum(each.use == "fresh" for each in genres)
        == 9
    )
    assert len({each.name for each in genres}) == len(genres)
    packages = {
        use: {package.name for each in genres if each.use == use for package in each.packages}
        for use in ("tuning", "gate", "unread", "held out", "last", "fresh")
    }
    assert sum(map(len, packages.values())) == len(
        set().union(*packages.values())
    )  # none has two uses
    for each in genres:
        assert each.license
        assert all(
            re.fullmatch("[0-9a-f]{64}", package.sha256) and package.version
            for package in each.packages
        )


@pytest.mark.parametrize("use", [*sorted({each.use for each in load_genres().genres}), "all"])
def test_every_use_can_be_asked_for(use, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["genres", "--use", use, "--help"])
    assert stopped.value.code == 0, capsys.readouterr().err


def test_documents_are_drawn_by_their_ids(tmp_path):
    (tmp_path / "packages" / "mills").mkdir(parents=True)
    for number in range(9):
        (tmp_path / "packages" / "mills" / f"{number}.txt").write_text(
            "word " * (90 if number else 9)
        )
    settings = Genres(each=5, least_words=80, genres=[genre("text")])
    lines = draw(settings.genres[0], settings, tmp_path).read_text().splitlines()
    ids = [json.loads(line)["id"] for line in lines]
    assert len(ids) == 5
    assert "0.txt#0" not in ids  # too short
    (tmp_path / "packages" / "mills" / "0.txt").unlink()
    (tmp_path / "mills.jsonl").unlink()
    assert draw(settings.genres[0], settings, tmp_path).read_text().splitlines() == lines
    with pytest.raises(DataError, match="mills 1: holds no none"):
        draw(genre("text").model_copy(update={"name": "none", "files": "none"}), settings, tmp_path)


def test_files_of_one_name_are_told_apart_and_what_is_dropped_is_not_counted(tmp_path):
    for folder, text in (
        ("a", "word " * 90),
        ("b", "word " * 70 + "no " * 20),
        ("c", "no word " * 90),
    ):
        (tmp_path / "packages" / "mills" / folder).mkdir(parents=True)
        (tmp_path / "packages" / "mills" / folder / "mill.txt").write_text(text)
    chosen = genre("text", drop="no ").model_copy(update={"files": ["a/*", "c/*", "?/mill.txt"]})
    settings = Genres(each=5, least_words=80, genres=[chosen])
    drawn = [json.loads(line) for line in draw(chosen, settings, tmp_path).read_text().splitlines()]
    assert {each["id"] for each in drawn} == {"a/mill.txt#0", "c/mill.txt#0"}
    assert {each["text"] for each in drawn} == {"word " * 90}


@pytest.mark.skipif(shutil.which("apt-get") is None, reason="no Debian")
def test_a_package_that_apt_has_not_says_what_to_do(tmp_path):
    with pytest.raises(DataError, match=r"no-such-mills=1: .*genres\.yaml"):
        unpacked(PACKAGE.model_copy(update={"name": "no-such-mills"}), tmp_path)


def contradictions(texts: list[str], name: str = "one") -> list[Contradiction]:
    return [
        Contradiction(name, 0, place, "Before. ", "It is old.", text, "entity", "e")
        for place, text in enumerate(texts)
    ]


def test_a_sheet_is_read_back_as_labels(tmp_path):
    items = [
        *contradictions([f"It is {number}." for number in range(9)]),
        *contradictions(["It is new.", "It is no."], "two"),
    ]
    texts, labels = write_sheet(tmp_path, "trial", items, 4)
    assert texts.read_text().count(" two | ") == 2  # as many of each genre as can be
    rows = list(csv.DictReader(labels.open()))
    with pytest.raises(DataError, match=r"labels_trial.csv:2: expected a note"):
        read_labels([labels])
    for number, row in enumerate(rows):
        row["answer"] = "bad" if number == 0 else "good"
    with labels.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    known = read_labels([labels])
    assert len(known) == 4
    record = _record(
        "all",
        "",
        "r",
        None,
        [({"documents": 9, "eligible": 8, "rows": 4, "several": 1}, items)],
        known,
    )
    assert (record["read"], record["bad"], record["share"]) == (4, 1, 0.5)
    assert record["distance"] == 1.0


@pytest.mark.parametrize(
    ("texts", "floor"),
    [
        (["It is quite old."] * 3, 1.0),  # a contradiction is longer, always
        (["It is new."] * 3, 0.5),  # nothing to see
        (["It is quite old.", "It is new."], 0.75),  # ties count half
    ],
)
def test_the_blind_floor(texts, floor):
    assert blind_floor(contradictions(texts))[1] == pytest.approx(floor)
    assert blind_floor([]) == ("-", 0.5)


@pytest.mark.slow
def test_a_build_is_counted(tmp_path):
    from bench.factor_gen.genres import _ROOT

    texts = [
        f"Report {number}.\nThe mayor sold the {number + 3} old mills in Berlin to the bank in May 1990, and nobody bought them again."
        for number in range(6)
    ]
    corpus = tmp_path / "mills.jsonl"
    corpus.write_text("".join(json.dumps({"text": each}) + "\n" for each in texts), "utf-8")
    counts, items = build(_ROOT, "here", genre("text"), corpus, None, tmp_path)
    assert counts["documents"] == counts["eligible"] == 6
    assert len(items) == 3 * counts["rows"] > 0
    assert len({each.key for each in items}) == len(items)
