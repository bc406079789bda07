"""The stage ``select``: which sentence of a document is drawn, and why others are not."""

from __future__ import annotations

import csv
import re
import sys
import time
import unicodedata
from collections import Counter
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from sentencex import get_sentence_boundaries

from factor_gen.corpus import split_into_sentences
from factor_gen.records import Draw, Example
from factor_gen.select import SelectStage
from factor_gen.settings import SelectSettings
from factor_gen.text.sentences import sentence_spans

SHORT_SENTENCE = "The harbour of Osk was dug by hand."
"""A sentence of eight words, which is too short to be selected by default."""

GOOD_SENTENCE = "Its two long piers were finished by the sailors of the island in 1871."
"""A sentence that can be selected."""


def select(text: str, seed: int = 0, doc_id: str = "d", **settings: Any) -> Example:
    """Return what the stage ``select`` makes of a document.

    Args:
        text: The text of the document.
        seed: The seed of the build.
        doc_id: The id of the document.
        settings: Fields of `SelectSettings`, such as ``min_words``.
    """
    [document] = split_into_sentences([Example(doc_id, text)])
    [example] = SelectStage(SelectSettings(**settings), seed).run([document])
    return example


def check_selection(text: str, example: Example) -> None:
    """Check what has to hold of every selection: the row is sound, or the reason is given.

    Args:
        text: The text of the document.
        example: What the stage ``select`` made of it.
    """
    if example.unused:
        # The stage removes all texts.
        assert example == Example("d", unused=example.unused, draw=example.draw)
        assert example.unused.startswith(("select: ", "read: "))
        return
    assert text.startswith(example.prefix + example.completion)
    assert example.prefix.strip()
    assert example.prefix[-1].isspace()
    check_completion(example.completion)
    assert example.completion not in example.prefix


def check_completion(completion: str) -> None:
    """Check that a completion is a long enough line without markup and control characters."""
    assert completion == completion.strip()
    assert len(completion.split()) >= 10
    for character in completion:
        # The categories that begin with C are those of control characters.
        assert not unicodedata.category(character).startswith("C")
        assert character not in "\n\r\u2028\ufffd"
    assert "<b>" not in completion


def test_the_prefix_is_all_text_before_the_sentence_with_its_white_space() -> None:
    """Prefix and completion together must be the text of the document, as a model reads it."""
    text = "The harbour was dug by hand.\n\n Its two piers were finished by sailors in 1871. More."

    example = select(text, min_words=8)

    assert example.prefix == "The harbour was dug by hand.\n\n "
    assert example.completion == "Its two piers were finished by sailors in 1871."


@pytest.mark.parametrize(
    "sentence",
    [
        "WASHINGTON, Oct 26 (Reuters) - The council said on Monday that it would buy the mill.",
        '"We will not sell the old mill to anyone this year," said the mayor of the town.',
        "“We will not sell the old mill to anyone this year,” said the mayor of the town.",
        "Alma Bank, Osk Capital and Ferry Partners advised Harbour Energy, and North the seller.",
        "In 1871 the keeper (a retired sailor) said: “We have seen no ship for two years.”",
        "Sales of Amazon.com rose by 3.4% to $1.2 billion in the quarter that ended in March.",
    ],
)
def test_a_sentence_of_running_text_is_selected(sentence: str) -> None:
    """Quotes, brackets, names and numbers are common in news."""
    assert select(f"{SHORT_SENTENCE} {sentence}").completion == sentence


@pytest.mark.parametrize("following", ["", "\nMore"])
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
            "Council Agrees To Purchase Ancient Windmill Near Harbour After Lengthy Debate Today.",
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
def test_the_reason_says_why_the_best_sentence_was_not_selected(
    sentence: str, reason: str, following: str
) -> None:
    assert select(f"Osk\n{sentence}{following}").unused == f"select: {reason}"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"{GOOD_SENTENCE[:-1]}\n{GOOD_SENTENCE}", id="as a heading before it"),
        pytest.param(
            f"{SHORT_SENTENCE} {GOOD_SENTENCE}\n{GOOD_SENTENCE.upper()}", id="in capitals after it"
        ),
    ],
)
def test_a_sentence_that_the_document_repeats_is_not_selected(text: str) -> None:
    """If the prefix has the sentence as well, it gives the answer away."""
    reason = "no sentence that the rest of the text does not repeat"
    assert select(text).unused == f"select: {reason}"


@pytest.mark.parametrize("white_space", ["", " \n"])
def test_a_sentence_without_text_before_it_is_not_selected(white_space: str) -> None:
    """The rows of FACTOR ask a model to continue a text."""
    assert select(f"{white_space}{GOOD_SENTENCE}").unused == "select: no text before the sentence"


def test_word_limits_are_configurable() -> None:
    text = "The harbour of Osk was dug by hand. It was very deep. Its two piers were long and wide."

    example = select(text, min_words=4, max_words=5)

    assert example.completion == "It was very deep."


def test_the_reason_names_the_least_number_of_words() -> None:
    """The least number is a setting, which the user may lower."""
    example = select("The harbour was dug by hand. Its two piers were long.", min_words=20)

    assert example.unused == "select: no sentence of 20 words or more"


def light_sentence(number: int) -> str:
    """Return a sentence that can be selected. The number tells it from the others."""
    return f"The keeper of light number {number} said that it was built in the year 18{number}0."


NINE_LIGHTS = "\n".join(light_sentence(number) for number in range(1, 10))
"""Nine sentences. All but the first, which has no text before it, can be selected."""


def test_the_first_position_selects_the_second_sentence() -> None:
    """The first sentence cannot be selected, since it has no text before it."""
    text = "\n".join(light_sentence(number) for number in range(1, 10))

    assert select(text, position="first").completion == light_sentence(2)


def test_the_last_position_selects_the_last_sentence() -> None:
    text = "\n".join(light_sentence(number) for number in range(1, 10))

    assert select(text, position="last").completion == light_sentence(9)


def test_a_sentence_with_numbers_and_names_is_selected_first() -> None:
    """More rules have something to edit in such a sentence."""
    text = "\n".join(
        [
            "The harbour of Osk was dug by hand.",
            "The keeper of the light said that it was built a long time ago.",
            "The keeper of the pier said that it was built a long time ago.",
            "The keeper Ada Tarn said that it was built in Vale in 1903.",
        ]
    )

    example = select(text, position="facts")

    assert example.completion == "The keeper Ada Tarn said that it was built in Vale in 1903."


def test_every_sentence_is_selected_about_equally_often() -> None:
    """The document has nine sentences, of which all but the first can be selected."""
    times_selected: Counter[str] = Counter()

    for seed in range(2):
        for number in range(200):
            times_selected[select(NINE_LIGHTS, seed, f"d{number}").completion] += 1

    assert set(times_selected) == {light_sentence(number) for number in range(2, 10)}
    # Of 400 selections, each of eight sentences is expected to have 50 (standard deviation 7).
    assert max(times_selected.values()) < 2 * min(times_selected.values())


def test_the_same_seed_selects_the_same_sentence() -> None:
    """Other people must be able to build the same benchmark."""
    assert select(NINE_LIGHTS, seed=1) == select(NINE_LIGHTS, seed=1)


def test_another_seed_selects_other_sentences() -> None:
    """A user can draw a second benchmark from the same corpus."""
    doc_ids = [f"d{number}" for number in range(20)]

    examples_of_seed_1 = [select(NINE_LIGHTS, 1, doc_id) for doc_id in doc_ids]
    examples_of_seed_2 = [select(NINE_LIGHTS, 2, doc_id) for doc_id in doc_ids]

    assert examples_of_seed_1 != examples_of_seed_2


SIX_LIGHTS = "\n".join(light_sentence(number) for number in range(1, 7))
"""Six sentences, five of which can be selected."""


def draw_six_times(position: str) -> list[Example]:
    """Return six draws from the document of `SIX_LIGHTS`, the last of which must fail.

    Args:
        position: Which sentence is tried first: ``random``, ``first`` or ``last``.
    """
    [document] = split_into_sentences([Example("d", SIX_LIGHTS)])
    stage = SelectStage(SelectSettings(position=position), seed=3)
    draws: list[Example] = []
    num_tried = 0
    for number in range(1, 7):
        [example] = stage.run([replace(document, draw=Draw(number, num_tried))])
        draws.append(example)
        num_tried = example.draw.tried
    return draws


@pytest.mark.parametrize("position", ["random", "first", "last"])
def test_each_draw_selects_another_sentence_of_the_document(position: str) -> None:
    """A document is drawn from again if its earlier sentences gave no row."""
    draws = draw_six_times(position)

    assert [example.draw.number for example in draws] == [1, 2, 3, 4, 5, 6]
    assert len({example.completion for example in draws[:5]}) == 5
    for example in draws[:5]:
        check_selection(SIX_LIGHTS, example)


@pytest.mark.parametrize("position", ["random", "first", "last"])
def test_draw_reports_that_no_sentence_is_left(position: str) -> None:
    """Five of the six sentences can be selected, so the sixth draw fails."""
    draws = draw_six_times(position)

    assert draws[5].unused == "select: no other sentence"


def test_draws_from_the_last_sentence_go_backwards() -> None:
    """The first of six sentences cannot be selected, since it has no text before it."""
    draws = draw_six_times("last")

    selected = [example.completion for example in draws[:5]]
    assert selected == [light_sentence(number) for number in (6, 5, 4, 3, 2)]


def read_overlapping_documents() -> list[Example]:
    """Return three documents, which have some sentences in common.

    The second has two sentences of the first, and the third has all three sentences of the first.
    """
    texts = [
        f"{SHORT_SENTENCE}\n{GOOD_SENTENCE}\nThe keeper of Osk paints the lamp of the pier white each autumn.",
        f"{SHORT_SENTENCE}\n{GOOD_SENTENCE}\nIn Ilm it is red, and nobody has asked why.",
        # The line break at the end keeps the text different from that of the first document.
        f"{SHORT_SENTENCE}\n{GOOD_SENTENCE}\nThe keeper of Osk paints the lamp of the pier white each autumn.\n",
    ]
    documents = [Example(str(number), text) for number, text in enumerate(texts)]
    return list(split_into_sentences(documents))


def test_sentences_of_earlier_documents_are_marked() -> None:
    """News repeats itself, and a sentence must not be the answer of two rows."""
    repeated = []
    for document in read_overlapping_documents():
        repeated.append([sentence.is_repeated for sentence in document.sentences])

    assert repeated == [[False, False, False], [True, True, False], [True, True, True]]


def test_a_sentence_of_several_documents_is_selected_in_the_first_only() -> None:
    """The second document has one sentence that is not in the first, and the third has none."""
    stage = SelectStage(SelectSettings(position="first", min_words=9), seed=0)

    first, second, third = stage.run(read_overlapping_documents())

    assert first.completion == GOOD_SENTENCE
    assert second.completion == "In Ilm it is red, and nobody has asked why."
    assert third.unused == "select: no sentence that is not in a document before it"


def test_a_setting_lets_several_documents_use_the_same_sentence() -> None:
    """A small corpus would otherwise give few rows."""
    stage = SelectStage(SelectSettings(position="first", once=False), seed=0)

    first, second, _ = stage.run(read_overlapping_documents())

    assert first.completion == GOOD_SENTENCE
    assert second.completion == GOOD_SENTENCE


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"{SHORT_SENTENCE}\n\n```\n{GOOD_SENTENCE}\n```", "no sentence outside code and tables"),
        (f"For example::\n\n    {GOOD_SENTENCE}", "no sentence outside code and tables"),
        (
            f"The island was known to all who sailed there for the\n{GOOD_SENTENCE}",
            "no sentence that begins after the end of another",
        ),
        (
            f"There were ships of the north, of the south,\n{GOOD_SENTENCE}",
            "no sentence that begins after the end of another",
        ),
    ],
)
def test_half_sentences_and_code_are_not_selected(text: str, reason: str) -> None:
    assert select(text).unused == f"select: {reason}"


def test_unused_document_passes_unchanged() -> None:
    """The build reports at its end why an earlier stage dropped the document."""
    unused = Example("d", unused="read: the text of another document")

    assert SelectStage(SelectSettings(), 0).run([unused]) == [unused]


@pytest.fixture(scope="module")
def news_rows(shared: Path) -> list[dict[str, str]]:
    """Return the rows of the published News-FACTOR."""
    csv.field_size_limit(sys.maxsize)
    path = shared / "data" / "factor" / "news_factor.csv"
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_most_of_the_published_completions_can_be_selected(news_rows: list[dict[str, str]]) -> None:
    """The authors selected these sentences, so our rules must not refuse them."""
    num_selected = 0
    for row in news_rows:
        # A sentence is selected only if there is another one before it.
        text = f"The harbour of Osk was dug by hand.\n{row['completion'].strip()}"
        example = select(text, position="last")
        if not example.unused:
            num_selected += 1

    assert num_selected / len(news_rows) > 0.97


def test_most_published_completions_begin_at_our_sentence_boundaries(
    news_rows: list[dict[str, str]],
) -> None:
    """Our sentences then begin where the authors' do."""
    num_equal = 0
    for row in news_rows:
        spans = sentence_spans(row["full_prefix"] + row["completion"])
        start_of_completion = len(row["full_prefix"])
        if start_of_completion in {span.start for span in spans}:
            num_equal += 1

    assert num_equal / len(news_rows) > 0.97


MOST_SECONDS = 15
"""How long a megabyte may take, three times as long as on a machine that does nothing else.

If the time grew with the square of the length, a megabyte would take minutes.
"""


@pytest.mark.parametrize(
    "piece",
    [
        pytest.param("a", id="one word"),
        pytest.param('"q. ', id="straight quotes"),
        pytest.param("<b>", id="tags"),
        pytest.param("\U0001f600 ", id="emoji"),
        pytest.param(f"{GOOD_SENTENCE} ", id="sentences"),
        pytest.param("\x00", id="null characters"),
        pytest.param("\u201c", id="open quotes"),
        pytest.param("\u2018a ", id="open single quotes"),
        pytest.param(f"\u201c{GOOD_SENTENCE} ", id="sentences after open quotes"),
    ],
)
def test_a_line_of_a_megabyte_takes_seconds_at_most(piece: str) -> None:
    """Real corpora have such lines, and one of them must not stop a build for hours."""
    text = "x " + piece * (1_000_000 // len(piece))

    start = time.process_time()
    example = select(text)
    seconds = time.process_time() - start

    check_selection(text, example)
    assert seconds < MOST_SECONDS


def test_long_line_has_the_same_sentences_as_in_sentencex(
    news_rows: list[dict[str, str]],
) -> None:
    """A long line is read in pieces of 4,000 characters, which must not cut sentences."""
    prefixes = []
    for row in islice(news_rows, 60):
        # If a quote or a bracket is never closed, sentencex finds other sentences in a line than
        # in pieces.
        without_pairs = re.sub("[\"'()]", "", row["full_prefix"])
        prefixes.append(" ".join(without_pairs.split()))
    line = " ".join(prefixes)
    assert len(line) > 10 * 4_000

    spans = sentence_spans(line)

    starts, sentences = [], []
    for boundary in get_sentence_boundaries("en", line):
        starts.append(boundary["start_index"])
        sentences.append(line[boundary["start_index"] : boundary["end_index"]].rstrip())
    assert [span.start for span in spans] == starts
    assert [line[span.start : span.end] for span in spans] == sentences


def test_very_long_sentence_stays_whole() -> None:
    """A line is read in pieces of 4,000 characters, and this sentence has ten times as many."""
    long_sentence = "The mill " + "and the mill " * 3_000 + "stood."
    line = f"{SHORT_SENTENCE} {long_sentence} {GOOD_SENTENCE}"

    sentences = [line[start:end] for start, end in sentence_spans(line)]

    assert sentences == [SHORT_SENTENCE, long_sentence, GOOD_SENTENCE]
