"""Step 2: which facts of a response are about the same individual."""

from itertools import chain

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


def read_groups_reply(text, finish_reason="stop"):
    """Read a judge's reply to the question how to group five facts."""
    subject = {"facts": ["a", "b", "c", "d", "e"]}
    return read_reply(Answer(text, finish_reason), GroupsReply, subject, problem_with_groups)


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        pytest.param('{"groups": [[1, 2, 3, 4, 5]]}', ((0, 1, 2, 3, 4),), id="one group"),
        pytest.param(
            '{"groups": [[2, 1], [3, 4, 5]]}', ((0, 1), (2, 3, 4)), id="numbers out of order"
        ),
        pytest.param("[[1, 2], [3, 4, 5]]", ((0, 1), (2, 3, 4)), id="a list alone"),
        pytest.param(
            '{"groups": [[], [1, 2], [], [3, 4, 5]]}',
            ((0, 1), (2, 3, 4)),
            id="empty groups are dropped",
        ),
        pytest.param(
            '```json\n{"groups": [["1", "2"], ["3", "4", "5"]]}\n```',
            ((0, 1), (2, 3, 4)),
            id="numbers as texts in a block of code",
        ),
    ],
)
def test_groups_are_read_from_a_reply(text, groups):
    """Replies count facts from 1, and the groups that are read from them count from 0."""
    reply = read_groups_reply(text)

    assert reply_to_groups(reply.value) == groups


@pytest.mark.parametrize(
    ("text", "finish_reason", "problem"),
    [
        pytest.param('{"groups": [[1, 2, 3], [3, 4, 5]]}', "stop", "fact 3 twice", id="twice"),
        pytest.param('{"groups": [[2], [4, 5]]}', "stop", "no fact 1, 3", id="missing facts"),
        pytest.param('{"groups": [[0, 1, 2, 3, 4]]}', "stop", "fact 0 of 5", id="from 0 on"),
        pytest.param('{"groups": [[1, 2, 3, 4, 5, 6]]}', "stop", "fact 6 of 5", id="too many"),
        pytest.param(
            '{"groups": [["a", "b"]]}',
            "stop",
            "wrong form: groups.N.N: Input should be a valid integer, unable to parse string",
            id="letters",
        ),
        pytest.param("- a\n====\n- b", "stop", "no JSON object", id="list in Markdown"),
        pytest.param('{"groups": [[1, 2', "length", "cut off", id="cut off"),
        pytest.param("<think>hm", "stop", "thinking without an end", id="only thinking"),
    ],
)
def test_a_reply_without_clear_groups_is_refused_with_the_problem(text, finish_reason, problem):
    """Each of five facts must be in exactly one group, since it is about one individual."""
    reply = read_groups_reply(text, finish_reason)

    assert reply.value is None
    assert reply.problem.startswith(problem)


def group_facts_by_rules(name, text):
    """Split a text into facts, and group them by individual as the offline judge does.

    Args:
        name: The name that all individuals share.
        text: A response without citations.

    Returns:
        The facts of each individual. A fact is in exactly one group.
    """
    sentences = response_sentences(text)
    facts = []
    sentence_numbers = []
    for number, sentence in enumerate(sentences):
        for fact in split_facts(sentence):
            facts.append(fact)
            sentence_numbers.append(number)
    groups = group_by_individual(name, sentences, facts, sentence_numbers)
    assert sorted(chain.from_iterable(groups)) == list(range(len(facts)))
    return [[facts[number] for number in group] for group in groups]


INDIVIDUALS_IN_TEXTS = [
    pytest.param(
        "Tomas Reed was born in 1936. Reed was a swimmer. He died in 1970 [1]. Tomas Reed "
        "coached at Sill.",
        1,
        id="the name again",
    ),
    pytest.param(
        "Tomas Reed was a judge. Another Tomas Reed is a cyclist. He won twice.",
        2,
        id="another of the name",
    ),
    pytest.param(
        "Tomas Reed was a judge. He won another prize in 1920. The second book of his was burnt.",
        1,
        id="another prize",
    ),
    pytest.param(
        "Tomas Reed (1901-1979) was a judge. Tomas Reed (born 1968) is a cyclist.",
        2,
        id="years in brackets",
    ),
    pytest.param(
        "Tomas Reed, a judge, lived in Sill. Tomas Reed, a cyclist from Tarrow, won the race.",
        2,
        id="professions behind commas",
    ),
    pytest.param(
        "Tomas Edward Reed was a judge. Tomas Samuel Reed was a cyclist. Tomas Edward Reed "
        "retired in 1950.",
        2,
        id="middle names",
    ),
    pytest.param(
        "Tomas Reed was a judge. There is also Tomas J. Reed, a botanist. Finally, Tomas Reed, "
        "born in 1968, is a cyclist.",
        3,
        id="also and finally",
    ),
    pytest.param(
        "There are two men of this name. One was a judge. The other was a cyclist and won twice.",
        2,
        id="one and the other in two sentences",
    ),
    pytest.param(
        "Tomas Reed was a judge. On the other hand, Tomas Reed was a cyclist who won twice.",
        2,
        id="on the other hand",
    ),
    pytest.param(
        "One is a judge, while the other is a cyclist.", 2, id="one and the other in one sentence"
    ),
    pytest.param(
        "Tomas Reed (judge) lived in Sill. Tomas Reed (cyclist) won the race. He retired in 1999.",
        2,
        id="professions in brackets",
    ),
    pytest.param(
        "Tomas Reed was a judge. Edwin Reed, born in 1920, was a baker.", 2, id="another first name"
    ),
    pytest.param(
        "Tomas Reed was a judge. It is worth noting that there are other people named Tomas "
        "Reed, such as a cyclist.",
        2,
        id="other people of the name",
    ),
    pytest.param(
        "Tomás Reed was born in 1901. Tomas Reed was a judge. The Tomas Reed Society, a charity, "
        "prints his rulings.",
        1,
        id="an accent and a society",
    ),
    pytest.param(
        "Tomas Reed, a judge, died in 1970. In contrast, Tomas Reed, Duke of Sill, was a soldier.",
        2,
        id="in contrast",
    ),
    pytest.param(
        "In 1920 Tomas Reed moved to Sill. Tomas Reed was also known for his garden.",
        1,
        id="also known for",
    ),
]


@pytest.mark.parametrize(("text", "num_individuals"), INDIVIDUALS_IN_TEXTS)
def test_rules_find_the_same_number_of_individuals_as_a_reader(text, num_individuals):
    """The lexical judge has no model, so rules tell by the wording where another person begins."""
    assert len(group_facts_by_rules("Tomas Reed", text)) == num_individuals


ACCENTED_NAMES = {
    "Tomás": "Emile",
    "Tomas": "Émile",
    "Reed": "Łosz",
    "Edward": "Édouard",
    "Samuel": "Óscar",
}


@pytest.mark.parametrize(("text", "num_individuals"), INDIVIDUALS_IN_TEXTS)
def test_rules_find_names_with_accented_initials(text, num_individuals):
    """Rules that look for capitals from A to Z would miss such names."""
    for name, accented_name in ACCENTED_NAMES.items():
        text = text.replace(name, accented_name)

    assert len(group_facts_by_rules("Émile Łosz", text)) == num_individuals


def test_the_rules_return_to_an_earlier_individual():
    """A middle name tells that the last sentence is about the first individual again."""
    text = (
        "Tomas Edward Reed was a judge. Tomas Samuel Reed was a cyclist. "
        "Tomas Edward Reed retired in 1950."
    )

    first_individual, _second_individual = group_facts_by_rules("Tomas Reed", text)

    assert first_individual == [
        "Tomas Edward Reed was a judge.",
        "Tomas Edward Reed retired in 1950.",
    ]
