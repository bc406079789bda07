"""What is a link, and which one."""

from __future__ import annotations

import pytest

from lm_factuality.benchmarks.felm.rows import read_felm_rows
from lm_factuality.retrieval.references.links import clean_url, collect_links, find_urls

# one entry of "ref": the addresses in it
ENTRIES = {
    "https://a.example/x": ["https://a.example/x"],
    "  https://a.example/x,\n": ["https://a.example/x"],
    "https://a.example/x/.": ["https://a.example/x/"],
    "https://a.example/x;": ["https://a.example/x"],
    "https://a.example/x...": ["https://a.example/x"],
    "https://a.example/x, https://b.example/y": ["https://a.example/x", "https://b.example/y"],
    "https://a.example/x,https://b.example/y": ["https://a.example/x", "https://b.example/y"],
    "https://a.example/x\nhttps://b.example/y": ["https://a.example/x", "https://b.example/y"],
    "https://a.example/xhttps://b.example/y": ["https://a.example/x", "https://b.example/y"],
    "https://keep.example/web/2020/https://b.example/y": [
        "https://keep.example/web/2020/https://b.example/y"
    ],
    "https://a.example/?to=https://b.example": ["https://a.example/?to=https://b.example"],
    "https://a.example/?to%3Dhttps://b.example": ["https://a.example/?to%3Dhttps://b.example"],
    "see (https://a.example/Boots_(film)).": ["https://a.example/Boots_(film)"],
    "[paper](https://a.example/p)": ["https://a.example/p"],
    "<https://a.example/p>": ["https://a.example/p"],
    "“https://a.example/p”": ["https://a.example/p"],
    "https://a.example/Boots_(film)": ["https://a.example/Boots_(film)"],
    "https://a.example/Los_Banos,_California": ["https://a.example/Los_Banos,_California"],
    "https://a.example/Boston_United_F.C.": ["https://a.example/Boston_United_F.C."],
    "https://a.example/Finch_Inc.": ["https://a.example/Finch_Inc."],
    "HTTPS://A.Example:443/B#part": ["https://a.example/B"],
    "http://a.example": ["http://a.example/"],
    "http://a.example:8080?q=1": ["http://a.example:8080/?q=1"],
    "https://münchen.example/straße?q=ü": ["https://xn--mnchen-3ya.example/stra%C3%9Fe?q=%C3%BC"],
    "https://a.example/100%25/%e9": ["https://a.example/100%25/%e9"],
    "http://[::1]:80/x": ["http://[::1]/x"],
    "www.a.example/x": ["https://www.a.example/x"],
    "a.example.org/wiki/Plato": ["https://a.example.org/wiki/Plato"],
    "common sense": [],
    "e.g. and/or": [],
    "": [],
    "file:///etc/passwd": [],
    "ftp://a.example/x": [],
    "javascript:alert(1)": [],
    "https://user:secret@a.example/": [],
    "https://a.example:99999/": [],
    "https://": [],
    "https://a%2eexample/": [],
    "https://a.example/\ud800": [],
}


@pytest.mark.parametrize(
    ("entry", "expected"), ENTRIES.items(), ids=[ascii(entry) for entry in ENTRIES]
)
def test_links_in_an_entry(entry, expected):
    assert list(find_urls(entry)) == expected


def test_clean_keeps_what_is_clean():
    for urls in ENTRIES.values():
        assert [clean_url(url) for url in urls] == urls


@pytest.mark.parametrize("ending", [".", ")", ",", ". "])
def test_the_time_for_an_entry_is_in_proportion_to_its_length(ending):
    # Copying the rest for each character would take minutes.
    assert find_urls("[" + ending * 300_000) == []


def test_collect_keeps_the_order_counts_once_and_hides_passwords():
    entries = [
        "https://b.example/",
        "nothing",
        "https://a.example/#top",
        "https://a.example/",
        "nothing",
        "  ",
    ]
    links = collect_links([*entries, "https://user:secret@a.example/", "https://c.example/"])
    assert links.urls == ("https://b.example/", "https://a.example/", "https://c.example/")
    assert links.not_links == ("nothing", "https://...@a.example/")


def test_felm(shared):
    rows = read_felm_rows(shared / "data" / "felm" / "all.jsonl")
    links = collect_links(entry for row in rows for entry in row.references)
    assert len(links.urls) == 375
    assert links.not_links == ()
    assert "https://en.wikipedia.org/wiki/Boston_United_F.C." in links.urls
    assert "https://en.wikipedia.org/wiki/Plato" in links.urls  # "...Plato," in the file
    assert not any(url.endswith((",", "/.")) for url in links.urls)
