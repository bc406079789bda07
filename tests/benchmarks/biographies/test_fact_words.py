"""Where the words of a fact stand in its sentence."""

import pytest

from lm_factuality.benchmarks.biographies.viewer.fact_words import find_fact_words

SENTENCE = "Ada Lind (1850-1901), a painter of ships, taught in Oslo and painted until 1899."


def words_of_facts(*facts):
    """Return the part of the sentence for each fact."""
    return [SENTENCE[span.start : span.end] for span in find_fact_words(SENTENCE, facts)]


@pytest.mark.parametrize(
    ("fact", "words"),
    [
        pytest.param("Ada Lind was born in 1850.", "1850", id="a number"),
        pytest.param("Ada Lind taught in Oslo.", "taught in Oslo", id="words as written"),
        pytest.param("Her teaching of Ada Lind was in Oslo.", "Oslo", id="another form"),
        pytest.param("Ada Lind paints ships.", "painter of ships", id="the nearest of two words"),
        pytest.param("Ada Lind had red hair.", SENTENCE, id="words of the subject alone"),
        pytest.param("It was so.", SENTENCE, id="no common word"),
    ],
)
def test_a_fact_stands_where_its_distinctive_words_are(fact, words):
    first, _ = words_of_facts(fact, "Ada Lind died in 1901.")

    assert first == words


def test_words_of_the_subject_are_not_marked():
    (span,) = find_fact_words(SENTENCE, ["Ada Lind was born in 1850."], subject="Ada Lind")

    assert SENTENCE[span.start : span.end] == "1850"
