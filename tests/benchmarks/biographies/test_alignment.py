import pytest

from lm_factuality.benchmarks.biographies.viewer import align_sentences


@pytest.mark.parametrize(
    ("output", "sentences", "pieces"),
    [
        ("A b [1]. C d.", ["A b.", "C d."], [("A b [1].", 0), (" ", -1), ("C d.", 1)]),
        ("A b. [1][2] C d.", ["A b.", "C d."], [("A b. [1][2]", 0), (" ", -1), ("C d.", 1)]),
        ("A [1, 2] b.\n\nC  d", ["A b.", "C d"], [("A [1, 2] b.", 0), ("\n\n", -1), ("C  d", 1)]),
        (
            "Well: A b. Not known. C d.",
            ["A b.", "Quite else.", "C d."],
            [("Well: ", -1), ("A b.", 0), (" Not known. ", -1), ("C d.", 2)],
        ),
        (
            "He left. He left.",
            ["He left.", "He left."],
            [("He left.", 0), (" ", -1), ("He left.", 1)],
        ),
        ("𝒜da 🙂 b. C.", ["𝒜da 🙂 b.", "C."], [("𝒜da 🙂 b.", 0), (" ", -1), ("C.", 1)]),
        ("", ["A."], []),
        ("Nothing taken out.", [], [("Nothing taken out.", -1)]),
    ],
)
def test_sentences_are_found_in_the_text_with_their_citations(output, sentences, pieces):
    assert align_sentences(output, sentences) == pieces
    assert "".join(text for text, _ in align_sentences(output, sentences)) == output
