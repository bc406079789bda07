"""One sentence a document: which sentences will do, and that nothing malformed slips through
whatever the text."""

from __future__ import annotations

import csv
import sys
import unicodedata
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from factor_gen.corpus import split_into_sentences
from factor_gen.records import Draw, Example
from factor_gen.select import SelectStage
from factor_gen.settings import SelectSettings
from factor_gen.text.sentences import sentence_spans

FIRST = "The harbour of Osk was dug by hand."
GOOD = "Its two long piers were finished by the sailors of the island in 1871."


def select(text: str, seed: int = 0, doc_id: str = "d", **keys: object) -> Example:
    (document,) = split_into_sentences([Example(doc_id, text)])
    return SelectStage(SelectSettings(**keys), seed).run([document])[0]  # type: ignore[arg-type]


def test_the_prefix_is_all_text_before_the_sentence_with_its_white_space() -> None:
    chosen = select(f"{FIRST}\n\n {GOOD} And so on.")
    assert (chosen.prefix, chosen.completion) == (f"{FIRST}\n\n ", GOOD)


@pytest.mark.parametrize(
    "sentence",
    [
        "WASHINGTON, Oct 26 (Reuters) - The council of the city said on Monday that it would buy the mill.",
        '"We will not sell the old mill to anyone this year," said the mayor of the town.',
        "“We will not sell the old mill to anyone this year,” said the mayor of the town.",
        "Alma Bank, Osk Capital and Ferry Partners advised Harbour Energy, while North Trust worked for the seller.",
        "In 1871 the keeper (a retired sailor) said: “We have seen no ship for two years.”",
        "Sales of Amazon.com rose by 3.4% to $1.2 billion in the quarter that ended in March.",
    ],
)
def test_running_sentences_will_do(sentence: str) -> None:
    assert select(f"{FIRST} {sentence}").completion == sentence


@pytest.mark.parametrize(
    ("sentence", "reason"),
    [
        (
            "Council of the city of Osk agrees to buy the old mill near the harbour",
            "no sentence that ends with . ! or ?",
        ),
        (
            "Council of the city of Osk agrees to buy the old mill near the ...",
            "no sentence that ends with . ! or ?",
        ),
        (
            "The council of the city of Osk agrees to buy old mills, e.g.",
            "no sentence that ends with . ! or ?",
        ),
        (
            "The council of the city (see [the mill](mill.md)) agreed to buy it.",
            "no sentence without markup",
        ),
        (
            "council of the city of Osk agrees to buy the old mill near it.",
            "no sentence that begins with a capital or a digit",
        ),
        ("The council bought the old mill.", "no sentence of 10 words or more"),
        ("The - old - mill - was - sold - by - it.", "no sentence of 10 words or more"),
        (
            "COUNCIL OF THE CITY OF OSK AGREES TO BUY THE MILL AT ONCE.",
            "no sentence of running text",
        ),
        ("1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 are numbers.", "no sentence of running text"),
        (
            "Council Agrees To Purchase Ancient Windmill Near Harbour After Lengthy Debate Tuesday.",
            "no sentence that isn't a headline",
        ),
        (
            "The council of the city\x00 of Osk agreed to buy the old mill.",
            "no sentence without control characters",
        ),
        (
            "The council of the city\u202e of Osk agreed to buy the old mill.",
            "no sentence without control characters",
        ),
        (
            "The council of the city \ufffd of Osk agreed to buy the old mill.",
            "no sentence without control characters",
        ),
        (
            "The council of the <b>city</b> of Osk agreed to buy the old mill.",
            "no sentence without markup",
        ),
        (
            "The council of the city of Osk &amp; others agreed to buy the mill.",
            "no sentence without markup",
        ),
        (
            "The council of the city (see www.osk.example) agreed to buy the old mill.",
            "no sentence without a web address",
        ),
        (
            'The council of the city said: "We agreed to buy the old mill.',
            "no sentence whose quotes and brackets are balanced",
        ),
        (
            "The council of the city (which agreed to buy the old mill.",
            "no sentence whose quotes and brackets are balanced",
        ),
        (
            "Мэр города сказал в среду, что совет купит старую мельницу у моря.",
            "no sentence in the language en",
        ),
        (
            "אמר ראש העיר ביום רביעי כי המועצה תקנה את הטחנה הישנה ליד הים.",
            "no sentence in the language en",
        ),
    ],
)
def test_a_document_without_a_good_sentence_says_why(sentence: str, reason: str) -> None:
    for text in (f"Osk\n{sentence}", f"Osk\n{sentence}\nMore"):
        assert select(text).unused == f"select: {reason}"


def test_a_sentence_that_the_text_repeats_leaks() -> None:
    assert (
        select(f"{GOOD[:-1]}\n{GOOD}").unused
        == "select: no sentence that the rest of the text does not repeat"
    )
    assert select(f"{FIRST} {GOOD}\n{GOOD.upper()}").unused.startswith(
        "select: no sentence that the rest"
    )


def test_a_sentence_with_nothing_before_it_will_not_do() -> None:
    assert select(GOOD).unused == "select: no text before the sentence"
    assert select(f" \n{GOOD}").unused == "select: no text before the sentence"


def test_numbers_of_words_are_settings() -> None:
    text = f"{FIRST} It was very deep. {GOOD}"
    assert select(text, min_words=4, max_words=5).completion == "It was very deep."
    assert select(text, min_words=20).unused == "select: no sentence of 20 words or more"


def test_position_and_seed_decide_which() -> None:
    text = "\n".join(
        f"The keeper of light number {n} said that it had been built in the year {1800 + n}."
        for n in range(9)
    )
    assert "number 1 " in select(text, position="first").completion
    assert "number 8 " in select(text, position="last").completion
    assert select(text, seed=1) == select(text, seed=1)
    chosen = Counter(
        select(text, seed, f"d{n}").completion for seed in range(2) for n in range(200)
    )
    assert len(chosen) == 8  # all but the first, which nothing stands before
    assert max(chosen.values()) < 2 * min(chosen.values())
    ids = [f"d{number}" for number in range(20)]
    assert [select(text, 1, each) for each in ids] != [select(text, 2, each) for each in ids]


def test_each_draw_is_another_sentence_of_a_document() -> None:
    text = "\n".join(
        f"The keeper of light number {n} said that it had been built in the year {1800 + n}."
        for n in range(6)
    )
    (document,) = split_into_sentences([Example("d", text)])
    for position in ("random", "first", "last"):
        stage = SelectStage(SelectSettings(position=position), 3)  # type: ignore[arg-type]
        drawn = []
        for number in range(1, 7):
            tried = drawn[-1].draw.tried if drawn else 0
            drawn += stage.run([replace(document, draw=Draw(number, tried))])
        assert [each.draw.number for each in drawn] == [1, 2, 3, 4, 5, 6]
        assert len({each.completion for each in drawn[:5]}) == 5
        assert drawn[5].unused == "select: no other sentence"
        for each in drawn[:5]:
            check(text, each)
    assert drawn[0].completion.endswith("1805.")
    assert drawn[4].completion.endswith("1801.")


def test_a_sentence_of_several_documents_is_selected_in_the_first() -> None:
    own = [
        "The keeper of Osk paints the lamp of the southern pier white each autumn.",
        "In Ilm it is red, and nobody has asked why.",
    ]
    texts = [f"{FIRST}\n{GOOD}\n{each}" for each in own]
    read = list(
        split_into_sentences(
            Example(str(number), text) for number, text in enumerate([*texts, f"{texts[0]}\n"])
        )
    )
    assert [[part.is_repeated for part in each.sentences] for each in read] == [
        [False, False, False],
        [True, True, False],
        [True, True, True],
    ]
    chosen = SelectStage(SelectSettings(position="first", min_words=9), 0).run(read)
    assert [each.completion or each.unused for each in chosen] == [
        GOOD,
        own[1],
        "select: no sentence that is not in a document before it",
    ]
    again = SelectStage(SelectSettings(position="first", once=False), 0).run(read[:2])
    assert [each.completion for each in again] == [GOOD, GOOD]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"{FIRST}\n\n```\n{GOOD}\n```", "no sentence outside code and tables"),
        (f"For example::\n\n    {GOOD}", "no sentence outside code and tables"),
        (
            f"The island was known to all who sailed there for the\n{GOOD}",
            "no sentence that begins after the end of another",
        ),
        (
            f"There were ships of the north, of the south,\n{GOOD}",
            "no sentence that begins after the end of another",
        ),
    ],
)
def test_half_sentences_and_code_will_not_do(text: str, reason: str) -> None:
    assert select(text).unused == f"select: {reason}"


def test_unused_documents_pass_as_they_are() -> None:
    gone = Example("d", unused="read: the text of another document")
    assert SelectStage(SelectSettings(), 0).run([gone]) == [gone]


def test_most_sentences_that_were_published_will_do(shared: Path) -> None:
    csv.field_size_limit(sys.maxsize)
    with (shared / "data" / "factor" / "news_factor.csv").open(
        encoding="utf-8", newline=""
    ) as file:
        rows = list(csv.DictReader(file))
    good = [
        bool(select(f"{FIRST}\n{row['completion'].strip()}", position="last").completion)
        for row in rows
    ]
    assert sum(good) / len(good) > 0.97
    ends = [
        len(row["full_prefix"])
        in {start for start, _ in sentence_spans(row["full_prefix"] + row["completion"])}
        for row in rows
    ]
    assert sum(ends) / len(ends) > 0.97  # where the published sentences begin


@pytest.mark.parametrize(
    "piece",
    ["a", '"q. ', "<b>", "\U0001f600 ", f"{GOOD} ", "\x00", "\u201c", "\u2018a ", f"\u201c{GOOD} "],
)
def test_a_megabyte_in_one_line_takes_seconds_at_most(piece: str) -> None:
    import time

    text = piece * (1_000_000 // len(piece))
    start = time.process_time()
    check(f"x {text}", select(f"x {text}"))
    assert time.process_time() - start < 6


def test_where_the_pieces_of_a_long_line_end_does_not_show(shared: Path) -> None:
    from sentencex import get_sentence_boundaries

    csv.field_size_limit(sys.maxsize)
    with (shared / "data" / "factor" / "news_factor.csv").open(
        encoding="utf-8", newline=""
    ) as file:
        rows = [row for row, _ in zip(csv.DictReader(file), range(60), strict=False)]
    # no quotes: of one that is never closed, sentencex makes long sentences, and others in a whole
    # line than in pieces
    line = " ".join(
        " ".join(row["full_prefix"].replace('"', "").replace("'", "").split()) for row in rows
    )
    assert len(line) > 10 * 4_000
    expected = [
        (
            each["start_index"],
            each["start_index"] + len(line[each["start_index"] : each["end_index"]].rstrip()),
        )
        for each in get_sentence_boundaries("en", line)
    ]
    assert sentence_spans(line) == expected


def test_a_sentence_that_goes_on_over_many_pieces_is_one() -> None:
    endless = "The mill " + "and the mill " * 3_000 + "stood."
    line = f"{FIRST} {endless} {GOOD}"
    assert [line[start:end] for start, end in sentence_spans(line)] == [FIRST, endless, GOOD]


def check(text: str, chosen: Example) -> None:
    """What holds of every selection."""
    if chosen.unused:
        assert chosen == Example("d", unused=chosen.unused, draw=chosen.draw)
        assert chosen.unused.startswith(("select: ", "read: "))
        return
    assert text.startswith(chosen.prefix + chosen.completion)
    assert chosen.prefix.strip()
    assert chosen.prefix[-1].isspace()
    assert chosen.completion == chosen.completion.strip()
    assert len(chosen.completion.split()) >= 10
    assert not any(unicodedata.category(character)[0] == "C" for character in chosen.completion)
    assert not set(chosen.completion) & set("\n\r\u2028\ufffd")
    assert "<b>" not in chosen.completion
    assert chosen.completion not in chosen.prefix
