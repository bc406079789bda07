"""Sentences in any script."""

import pytest

from lm_factuality.ground.sentences import split_sentences


@pytest.mark.parametrize(
    "sentences",
    [
        ["One.", "Two!", "Three?"],
        ["Dr. Ada Noor met Mr. Odd.", "They talked."],
        ["J. K. Lind wrote it.", "It sold."],
        ["It costs 3.50 dollars.", "Fine."],
        ["1. Milk is white.", "2. Coal is black."],
        ['She said "Go."', "He went."],
        ["She left\u2026", "Then he came."],
        ["It is old, e.g. that of 1900.", "(So it stands.)"],
        # abbreviations that end a sentence, and those that do not
        ["He lived in Washington, D.C.", "He died there."],
        ["She moved to the U.S.", "In 1990 she left."],
        ["The U.S. Army came to St. Mary.", "It stayed."],
        ["She works at Acme Inc.", "The firm grew."],
        ["She works at Acme Inc. Boston."],
        ["John F. Kennedy met H.G. Wells and J. A. Smith."],
        # capitals with an accent, other alphabets
        ["He was born.", "Émile followed."],
        ["Ona przyszła.", "Łukasz wyszedł."],
        ["¿Qué es?", "¡Claro!", "Él vino."],
        ["He said «Oui.»", "Elle partit."],
        ["Он родился в 1950 году.", "Она пишет."],
        ["Ο Νίκος ήρθε.", "Η Μαρία έφυγε."],
        ["그는 화가입니다.", "서울에 삽니다."],
        ["هل هو رسام؟", "نعم.", "عاش في القاهرة."],
        ["وہ مصور تھے۔", "وہ لاہور میں رہتے تھے۔"],
        ["वह एक चित्रकार थे।", "वह दिल्ली में रहते थे।"],
        [],
    ],
)
def test_sentences_with_spaces_between_them(sentences):
    assert split_sentences(" ".join(sentences)) == sentences
    assert split_sentences("  ".join(sentences) + "\n") == sentences


@pytest.mark.parametrize(
    "sentences",
    [
        ["他是一位画家。", "他住在北京！", "你好吗？", "是的。"],
        ["他说：“我来了。”", "她走了。"],
        ["彼は画家です。", "東京に住んでいます。"],
        ["「はい。」と言った。", "彼は帰った。"],
    ],
)
def test_sentences_without(sentences):
    assert split_sentences("".join(sentences)) == sentences
    assert split_sentences("\n".join(sentences)) == sentences


def test_white_space_within_a_sentence_is_kept_but_behind_abbreviations():
    assert split_sentences("1.\nMilk  is\nwhite.\n2.  Coal.") == ["1. Milk  is\nwhite.", "2. Coal."]
