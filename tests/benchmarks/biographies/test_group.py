"""Step 2: the groups hold exactly the facts that were given."""

import pytest

from judges.answers import Answer
from judges.lexical.facts import group_by_individual, split_facts
from judges.typed import read_reply
from lm_factuality.benchmarks.biographies.decompose import (
    GroupsReply,
    problem_with_groups,
    reply_to_groups,
    response_sentences,
)

SUBJECT = {"facts": ["a", "b", "c", "d", "e"]}


def read_groups(text, finish_reason="stop"):
    """Read the groups in a judge's reply, or else what is wrong with it."""
    parsed = read_reply(Answer(text, finish_reason), GroupsReply, SUBJECT, problem_with_groups)
    return reply_to_groups(parsed.value) if parsed.value else parsed.problem


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ('{"groups": [[1, 2, 3, 4, 5]]}', ((0, 1, 2, 3, 4),)),
        ('{"groups": [[2, 1], [3, 4, 5]]}', ((0, 1), (2, 3, 4))),
        ("[[1, 2], [3, 4, 5]]", ((0, 1), (2, 3, 4))),
        ('{"groups": [[], [1, 2], [], [3, 4, 5]]}', ((0, 1), (2, 3, 4))),  # no empty group
        ('```json\n{"groups": [["1", "2"], ["3", "4", "5"]]}\n```', ((0, 1), (2, 3, 4))),
    ],
)
def test_groups_are_read_from_a_reply(text, groups):
    assert read_groups(text) == groups


@pytest.mark.parametrize(
    ("text", "finish_reason", "problem"),
    [
        ('{"groups": [[1, 2, 3], [3, 4, 5]]}', "stop", "fact 3 twice"),
        ('{"groups": [[2], [4, 5]]}', "stop", "no fact 1, 3"),
        ('{"groups": [[0, 1, 2, 3, 4]]}', "stop", "fact 0 of 5"),
        ('{"groups": [[1, 2, 3, 4, 5, 6]]}', "stop", "fact 6 of 5"),
        (
            '{"groups": [["a", "b"]]}',
            "stop",
            "wrong form: groups.N.N: Input should be a valid integer, unable to parse string",
        ),
        ("- a\n====\n- b", "stop", "no JSON object"),
        ('{"groups": [[1, 2', "length", "cut off"),
        ("<think>hm", "stop", "thinking without an end"),
    ],
)
def test_a_reply_without_clear_groups_is_refused_with_the_problem(text, finish_reason, problem):
    found = read_groups(text, finish_reason)
    assert isinstance(found, str)
    assert found.startswith(problem)


def groups_by_rules(name, text):
    sentences = response_sentences(text)
    facts = [
        (fact, number)
        for number, sentence in enumerate(sentences)
        for fact in split_facts(sentence)
    ]
    found = group_by_individual(
        name, sentences, [fact for fact, _ in facts], [owner for _, owner in facts]
    )
    assert sorted(number for group in found for number in group) == list(range(len(facts)))
    return [[facts[number][0] for number in group] for group in found]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (
            "Tomas Reed was born in 1936. Reed was a swimmer. He died in 1970 [1]. Tomas Reed coached at Sill.",
            1,
        ),
        ("Tomas Reed was a judge. Another Tomas Reed is a cyclist. He won twice.", 2),
        (
            "Tomas Reed was a judge. He won another prize in 1920. The second book of his was burnt.",
            1,
        ),
        ("Tomas Reed (1901-1979) was a judge. Tomas Reed (born 1968) is a cyclist.", 2),
        ("Tomas Reed, a judge, lived in Sill. Tomas Reed, a cyclist from Tarrow, won the race.", 2),
        (
            "Tomas Edward Reed was a judge. Tomas Samuel Reed was a cyclist. Tomas Edward Reed retired in 1950.",
            2,
        ),
        (
            "Tomas Reed was a judge. There is also Tomas J. Reed, a botanist. Finally, Tomas Reed, born in 1968, is a cyclist.",
            3,
        ),
        (
            "There are two men of this name. One was a judge. The other was a cyclist and won twice.",
            2,
        ),
        ("Tomas Reed was a judge. On the other hand, Tomas Reed was a cyclist who won twice.", 2),
        ("One is a judge, while the other is a cyclist.", 2),
        (
            "Tomas Reed (judge) lived in Sill. Tomas Reed (cyclist) won the race. He retired in 1999.",
            2,
        ),
        ("Tomas Reed was a judge. Edwin Reed, born in 1920, was a baker.", 2),
        (
            "Tomas Reed was a judge. It is worth noting that there are other people named Tomas Reed, such as a cyclist.",
            2,
        ),
        (
            "Tomás Reed was born in 1901. Tomas Reed was a judge. The Tomas Reed Society, a charity, prints his rulings.",
            1,
        ),
        (
            "Tomas Reed, a judge, died in 1970. In contrast, Tomas Reed, Duke of Sill, was a soldier.",
            2,
        ),
        ("In 1920 Tomas Reed moved to Sill. Tomas Reed was also known for his garden.", 1),
    ],
)
def test_the_rules_find_as_many_individuals_as_a_reader(text, count):
    assert len(groups_by_rules("Tomas Reed", text)) == count
    accented = (
        text.replace("Tomás", "Emile")
        .replace("Tomas", "Émile")
        .replace("Reed", "Łosz")
        .replace("Edward", "Édouard")
        .replace("Samuel", "Óscar")
    )
    assert len(groups_by_rules("Émile Łosz", accented)) == count


def test_the_rules_return_to_an_earlier_individual():
    text = "Tomas Edward Reed was a judge. Tomas Samuel Reed was a cyclist. Tomas Edward Reed retired in 1950."
    assert groups_by_rules("Tomas Reed", text)[0] == [
        "Tomas Edward Reed was a judge.",
        "Tomas Edward Reed retired in 1950.",
    ]
