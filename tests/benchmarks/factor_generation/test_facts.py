"""The minimal fact of a FACTOR row, the sentence that a model writes about it, and its mark."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.answers import Answer
from judges.typed import read_reply
from lm_factuality.benchmarks.factor.corpus import parse_corpus
from lm_factuality.benchmarks.factor.load import load_corpus
from lm_factuality.benchmarks.factor.rows import make_row
from lm_factuality.benchmarks.factor_generation.facts import (
    FALSE,
    NEUTRAL,
    TRUE,
    Mark,
    MarkReply,
    complete_sentence,
    end_of_prefix,
    find_first_difference,
    find_minimal_fact,
    majority_mark,
)
from tests.benchmarks.factor_generation.documents import KEEPER

BAKER = "Its first keeper was a baker from the north."


@pytest.mark.parametrize(
    ("true", "false", "stem", "true_edit", "false_edit"),
    [
        pytest.param(KEEPER, BAKER, "Its first keeper was a", "sailor", "baker", id="noun"),
        pytest.param(
            KEEPER,
            "Its first keeper was a sailor from the south.",
            "Its first keeper was a sailor from the",
            "north",
            "south",
            id="last word",
        ),
        pytest.param(
            KEEPER,
            "Its last keeper was a sailor from the north.",
            "Its",
            "first",
            "last",
            id="second word",
        ),
        pytest.param(
            "Rates rose to 6.52% in May.",
            "Rates rose to 5.33% in May.",
            "Rates rose to",
            "6.52%",
            "5.33%",
            id="a percentage is one word",
        ),
        pytest.param(
            "It fell to $1.0075 today.",
            "It fell to $1.02 today.",
            "It fell to",
            "$1.0075",
            "$1.02",
            id="a price is one word",
        ),
        pytest.param(
            "She went by the U.S. border.",
            "She went by the U.K. border.",
            "She went by the",
            "U.S",
            "U.K",
            id="an abbreviation is one word",
        ),
        pytest.param(
            "The well-known tower fell.",
            "The well-kept tower fell.",
            "The",
            "well-known",
            "well-kept",
            id="a hyphenated word is one word",
        ),
        pytest.param(
            "In 1990, Ann left.",
            "In 1990, Ben left.",
            "In 1990,",
            "Ann",
            "Ben",
            id="a comma in both belongs to the stem",
        ),
        pytest.param(
            "In 1990, Ann left.",
            "In 1990 Ben left.",
            "In 1990",
            "Ann",
            "Ben",
            id="a comma in one belongs to nothing",
        ),
        pytest.param(
            'They called it "Blue" then.',
            'They called it "Red" then.',
            "They called it",
            "Blue",
            "Red",
            id="quotation marks",
        ),
        pytest.param(
            "The bridge (iron) stands.",
            "The bridge (wood) stands.",
            "The bridge",
            "iron",
            "wood",
            id="brackets",
        ),
        pytest.param(
            "The bridge was built.",
            "The bridge was never built.",
            "The bridge was",
            "built",
            "never built",
            id="word put in",
        ),
        pytest.param(
            "The bridge was never built.",
            "The bridge was built.",
            "The bridge was",
            "never built",
            "built",
            id="word left out",
        ),
        pytest.param(
            "The tall bridge and the old tower fell.",
            "The low bridge and the new tower fell.",
            "The",
            "tall",
            "low",
            id="the first of two differences",
        ),
        pytest.param(
            "It fell in 1800 ,then rose .",
            "It fell in 1800, then sank.",
            "It fell in 1800 ,then",
            "rose",
            "sank",
            id="a stem is spaced as in the true completion",
        ),
        pytest.param(
            "It fell , then rose .",
            "It fell, then sank.",
            "It fell , then",
            "rose",
            "sank",
            id="spacing is no difference",
        ),
        pytest.param(
            "Yields fell 3%,%, with a rise.",
            "Yields fell 3%, with a drop.",
            "Yields fell 3%,%, with a",
            "rise",
            "drop",
            id="punctuation is no difference",
        ),
        pytest.param("She left early.", "He left early.", "", "She", "He", id="first word"),
        pytest.param(
            "Ann Grey left early.",
            "Ben Grey left early.",
            "",
            "Ann",
            "Ben",
            id="first word of a name",
        ),
        pytest.param(
            "Nobody left.",
            "Ann Grey came.",
            "",
            "Nobody left",
            "Ann Grey came",
            id="no word in common",
        ),
        pytest.param(
            "  The bridge is iron.",
            "The bridge is wood.",
            "The bridge is",
            "iron",
            "wood",
            id="spaces at the start",
        ),
        pytest.param(
            "Il était à Orléans.",
            "Il était à Angers.",
            "Il était à",
            "Orléans",
            "Angers",
            id="letters with accents",
        ),
    ],
)
def test_completions_differ_in_an_edit_after_their_common_stem(
    true, false, stem, true_edit, false_edit
):
    """The stem is what both completions begin with, and the edits are the words that differ."""
    fact = find_first_difference(true, false)

    assert fact.stem == stem
    assert fact.true_edit == true_edit
    assert fact.false_edit == false_edit


@pytest.mark.parametrize(
    ("true", "false", "problem"),
    [
        pytest.param(KEEPER, KEEPER, "differ in no word", id="equal"),
        pytest.param(
            "It fell , then rose .",
            "It fell, then rose.",
            "differ in no word",
            id="differ in spacing",
        ),
        pytest.param("...", "!", "differ in no word", id="differ in punctuation"),
        pytest.param(
            "She left early.",
            "She left.",
            "nothing of the false completion is left",
            id="the true one goes on",
        ),
        pytest.param(
            "She left.",
            "She left early.",
            "nothing of the true completion is left",
            id="the false one goes on",
        ),
        pytest.param(
            "", "She left.", "nothing of the true completion is left", id="the true one is empty"
        ),
        pytest.param(
            "She left.",
            "...",
            "nothing of the false completion is left",
            id="the false one has no word",
        ),
    ],
)
def test_completions_without_distinct_wordings_are_refused(true, false, problem):
    """A judge could not be told what is true and what is false."""
    with pytest.raises(ValueError, match=problem):
        find_first_difference(true, false)


WORDS = ["the", "Ann", "1,200", "U.S.", "(so)", "-", '"x"', "é"]
completions = st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join)


@given(completions, completions)
def test_stem_and_edits_are_substrings_of_the_completions(true, false):
    """Hypothesis tries completions of up to eight words, some of them empty or equal."""
    try:
        fact = find_first_difference(true, false)
    except ValueError:
        return

    text_after_stem = fact.true.removeprefix(fact.stem)
    assert fact.true == fact.stem + text_after_stem
    assert fact.true_edit in text_after_stem
    assert fact.false_edit in fact.false
    assert fact.true_edit != fact.false_edit


def make_factor_row(prefix, *contradictions, true=KEEPER, error_types=("entity", "predicate")):
    """Make a row whose first choice is true.

    Args:
        prefix: The text before the completion.
        *contradictions: One or two false completions.
        true: The true completion.
        error_types: What the contradictions change.
    """
    return make_row(
        location="rows.csv:2",
        doc_id="d1",
        prefix=prefix,
        choices=(true, *contradictions),
        gold=0,
        error_types=("", *error_types[: len(contradictions)]),
    )


@pytest.mark.parametrize(
    ("prefix", "prompt"),
    [
        ("It opened in 1870. ", "It opened in 1870. Its first keeper was a"),
        ("It opened in 1870.\n", "It opened in 1870.\nIts first keeper was a"),
        ("It opened in 1870.  ", "It opened in 1870.  Its first keeper was a"),
        # The authors' script joins the two without a space as well.
        ("Answer:", "Answer:Its first keeper was a"),
        ("", "Its first keeper was a"),
    ],
)
def test_prompt_joins_prefix_and_stem_as_in_scoring(prefix, prompt):
    """The model is then tested with the text that it was scored on."""
    fact = find_minimal_fact(make_factor_row(prefix, BAKER))

    assert fact.prompt == prompt
    assert fact.no_fact == ""


@pytest.mark.parametrize(
    ("prefix", "prompt"), [("It rained.  ", "It rained."), ("It rained.\n", "It rained.\n")]
)
def test_prompt_is_the_prefix_if_completions_share_no_first_word(prefix, prompt):
    """A prompt ends without a space, which most tokenizers put into the next word's token."""
    fact = find_minimal_fact(make_factor_row(prefix, "He left.", true="She left."))

    assert fact.prompt == prompt
    assert fact.no_fact == ""


def test_a_row_with_neither_prefix_nor_stem_has_no_fact():
    """A model needs some text to go on from, and these completions share no word."""
    row = make_factor_row("  ", "He left.", true="She left.")

    fact = find_minimal_fact(row)

    assert fact.prompt == ""
    assert fact.no_fact.startswith("the prefix is empty")


@pytest.mark.parametrize("contradiction_type", ["first", "entity"])
def test_fact_comes_from_the_first_contradiction_of_the_type(contradiction_type):
    """The type "first" stands for any."""
    row = make_factor_row(
        "It opened. ",
        "Her first keeper was a sailor.",
        "Its first keeper had a sailor.",
        true="Its first keeper was a sailor.",
        error_types=("entity", "predicate"),
    )

    fact = find_minimal_fact(row, contradiction_type)

    assert fact.contradiction == 1
    assert fact.error_type == "entity"
    assert fact.true_edit == "Its"
    assert fact.false_edit == "Her"
    assert fact.prompt == "It opened."


def test_fact_comes_from_a_later_contradiction_if_it_alone_has_the_type():
    row = make_factor_row(
        "It opened. ",
        "Her first keeper was a sailor.",
        "Its first keeper had a sailor.",
        true="Its first keeper was a sailor.",
        error_types=("entity", "predicate"),
    )

    fact = find_minimal_fact(row, "predicate")

    assert fact.contradiction == 2
    assert fact.error_type == "predicate"
    assert fact.true_edit == "was"
    assert fact.false_edit == "had"
    assert fact.prompt == "It opened. Its first keeper"


def test_a_row_without_a_contradiction_of_the_type_has_no_fact():
    row = make_factor_row(
        "It opened. ", "Her first keeper was a sailor.", BAKER, error_types=("entity", "predicate")
    )

    fact = find_minimal_fact(row, "link")

    assert fact.no_fact == "no contradiction of type 'link'"


@pytest.mark.parametrize(
    ("source", "spacing", "num_facts"),
    [
        ("news_factor", "published", 736),
        ("expert_factor", "published", 236),
        ("expert_factor", "normalised", 236),
    ],
)
def test_prompts_of_published_rows_start_with_their_prefixes(source, spacing, num_facts, shared):
    """A prompt that ended in a space would change the tokens with which a model goes on."""
    corpus = parse_corpus({"task": source, "metadata": {"source": source, "spacing": spacing}})
    rows = load_corpus(corpus, shared / "data" / "factor").rows

    prefixes_and_facts = [(row.prefix, find_minimal_fact(row)) for row in rows]

    with_fact = [(prefix, fact) for prefix, fact in prefixes_and_facts if not fact.no_fact]
    assert len(with_fact) == num_facts
    for prefix, fact in with_fact:
        assert fact.prompt.startswith(prefix.rstrip(" "))
        assert not fact.prompt.endswith(" ")


@pytest.mark.parametrize(
    ("stem", "generation", "sentence"),
    [
        pytest.param("He was a", " baker. He then left.", "He was a baker.", id="full stop"),
        pytest.param("He was a", "baker. He then left.", "He was a baker.", id="lost space"),
        pytest.param("He was a", " baker", "He was a baker", id="no end"),
        pytest.param("He was a", ", some say. So", "He was a, some say.", id="comma at first"),
        pytest.param("He was a", " baker\nHe was", "He was a baker", id="end of line"),
        pytest.param("He was a", "\n\n baker? No.", "He was a baker?", id="empty lines at first"),
        pytest.param(
            "He met",
            " Dr. Grey in St. Odd. Then",
            "He met Dr. Grey in St. Odd.",
            id="abbreviations end no sentence",
        ),
        pytest.param(
            "He met the U.S.",
            " envoy. Then",
            "He met the U.S. envoy.",
            id="stem with the full stop of an abbreviation",
        ),
        pytest.param(
            "It fell to", " 1.5 points. Then", "It fell to 1.5 points.", id="decimal point"
        ),
        pytest.param(
            "Sold by Odd Bros.",
            " Pictures in May. Then",
            "Sold by Odd Bros. Pictures in May.",
            id="stem with the full stop of a name",
        ),
        pytest.param("", " He was a baker. He then left.", "He was a baker.", id="no stem"),
        pytest.param(
            "", "He met Dr. Grey. Then", "He met Dr. Grey.", id="no stem, with an abbreviation"
        ),
    ],
)
def test_sentence_joins_the_stem_and_the_first_generated_sentence(stem, generation, sentence):
    """The judge sees one whole sentence. Models go on beyond it, and may lose the first space."""
    assert complete_sentence(stem, generation) == sentence


@pytest.mark.parametrize(
    ("stem", "generation"),
    [("", "\n"), ("He was a", ""), ("He was a", " \n"), ("He was a", " ...")],
)
def test_generation_without_words_gives_no_sentence(stem, generation):
    """A judge cannot mark a generation that is empty or of punctuation alone."""
    assert complete_sentence(stem, generation) is None


def test_judge_sees_a_short_prefix_without_surrounding_spaces():
    """White space says nothing, and the answers of judges are stored by their prompts."""
    assert end_of_prefix(" short. \n") == "short."


def test_judge_sees_whole_words_in_the_last_600_characters_of_a_prefix():
    """The end of the prefix is nearest to the fact, and small judges have short windows."""
    prefix = "word " * 400

    end = end_of_prefix(prefix)

    assert end.startswith("... word word")
    assert len(end) <= len("... ") + 600


def read_answer(answer):
    """Read a judge's answer to the question what a sentence says of the fact."""
    return read_reply(answer, MarkReply, {})


def reply_with_mark(mark):
    """Return the reply of a judge that gives this mark."""
    return read_answer(Answer(json.dumps({"reason": "so", "mark": mark})))


UNREADABLE = read_answer(Answer("?"))


@pytest.mark.parametrize(
    ("replies", "mark"),
    [
        pytest.param([reply_with_mark(TRUE)], TRUE, id="one reply"),
        pytest.param([reply_with_mark(NEUTRAL)], NEUTRAL, id="one neutral reply"),
        pytest.param(
            [reply_with_mark(TRUE), reply_with_mark(FALSE), reply_with_mark(TRUE)],
            TRUE,
            id="two of three",
        ),
        pytest.param(
            [UNREADABLE, reply_with_mark(FALSE), UNREADABLE],
            FALSE,
            id="unreadable replies have no vote",
        ),
    ],
)
def test_majority_of_readable_replies_decides_the_mark(replies, mark):
    """A judge may be asked several times, since replies are sampled."""
    assert majority_mark(replies) == Mark(mark)


@pytest.mark.parametrize(
    ("replies", "reason"),
    [
        pytest.param(
            [reply_with_mark(TRUE), reply_with_mark(FALSE)], "a tie between answers", id="tie"
        ),
        pytest.param([UNREADABLE, read_answer(Answer(""))], "no JSON object", id="no JSON"),
        pytest.param(
            [reply_with_mark("maybe")],
            "wrong form: mark: Input should be 'true', 'false' or 'neutral'",
            id="unknown mark",
        ),
        pytest.param(
            [read_answer(Answer('{"mark": "true"}'))],
            "wrong form: reason: Field required",
            id="mark without a reason",
        ),
        pytest.param([read_answer(Answer("It says that", "length"))], "cut off", id="cut off"),
        pytest.param(
            [read_answer(Answer(None, error="HTTP 500 after 6 tries"))],
            "judge error: HTTP 500 after 6 tries",
            id="no reply",
        ),
    ],
)
def test_replies_without_a_majority_leave_the_generation_unscored(replies, reason):
    """A guess would count for or against the model, so there is a reason in place of a mark."""
    assert majority_mark(replies) == Mark(None, reason)
