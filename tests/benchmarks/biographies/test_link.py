"""Entity linking (equation 1 of the paper), and the scores that follow from it."""

import itertools
import json
import math
import random

import numpy as np
import pytest

from lm_factuality.benchmarks.biographies.decisions import read_decisions
from lm_factuality.benchmarks.biographies.link import link_greedily, link_one_to_one
from lm_factuality.benchmarks.biographies.scores import (
    attributed_entities,
    count_responses,
    length_penalty,
    response_type,
    score_biography,
    unscored_reason,
)
from tests.benchmarks.biographies.recorded import make_biography

RELEASED = [
    "chatgpt-0301__ambig",
    "chatgpt-0301__no-ambig",
    "llama2-13b-chat__ambig",
    "llama2-13b-chat__no-ambig",
]


@pytest.mark.parametrize(
    ("linking", "links", "num_supported", "num_entities"),
    [
        pytest.param("greedy", (0, 0), 5, 1, id="greedy: both are linked to the first page"),
        pytest.param("hungarian", (0, 1), 4, 2, id="hungarian: the second takes the second page"),
    ],
)
def test_only_greedy_linking_links_two_individuals_to_one_page(
    linking, links, num_supported, num_entities
):
    """The first page supports all five facts. The second page lacks one of the second individual."""
    first_individual = (0, 1)
    second_individual = (2, 3, 4)
    biography = make_biography(
        groups=[first_individual, second_individual],
        verdicts=[
            "+-",  # fact 0: only the first page supports it
            "+-",  # fact 1: only the first page
            "++",  # fact 2: both pages
            "+-",  # fact 3: only the first page
            "++",  # fact 4: both pages
        ],
        linking=linking,
    )

    scores = score_biography(biography)

    assert biography.links == links
    assert scores["d_factscore"] == pytest.approx(num_supported / 5)
    assert scores["factscore"] == 1
    assert scores["num_entities"] == num_entities


def test_earlier_retrieved_entity_wins_a_tie():
    """Both pages support both facts."""
    biography = make_biography(groups=[(0, 1)], verdicts=["++", "++"], titles=("Zed", "Abe"))

    (link,) = biography.links
    assert biography.entities[link] == "Zed"


def test_protocol_code_breaks_ties_alphabetically():
    """The authors' code sorts the entities by their titles."""
    biography = make_biography(
        groups=[(0, 1)], verdicts=["++", "++"], titles=("Zed", "Abe"), protocol="code"
    )

    (link,) = biography.links
    assert biography.entities[link] == "Abe"


def test_greedy_linking_gives_one_page_to_all_individuals():
    """Equation 1 of the paper links each individual without regard to the others."""
    first_individual = (0,)
    second_individual = (1, 2)

    biography = make_biography(
        groups=[first_individual, second_individual], verdicts=["+", "+", "+"], linking="greedy"
    )

    assert biography.links == (0, 0)


def test_hungarian_linking_leaves_individuals_unlinked_if_pages_are_too_few():
    """The only page goes to the individual with more facts that it supports."""
    first_individual = (0,)
    second_individual = (1, 2)

    biography = make_biography(
        groups=[first_individual, second_individual], verdicts=["+", "+", "+"], linking="hungarian"
    )

    assert biography.links == (None, 0)
    assert score_biography(biography)["d_factscore"] == pytest.approx(2 / 3)


def test_unsupported_individual_is_not_linked():
    """A link to one of two pages would be a guess."""
    first_individual = (0,)
    second_individual = (1, 2)

    biography = make_biography(
        groups=[first_individual, second_individual],
        verdicts=[
            "--",  # neither page supports this fact
            "-+",  # the second page supports it
            "--",
        ],
    )

    assert biography.links == (None, 1)


def test_a_fact_of_a_linked_individual_is_scored_by_the_linked_page():
    """The last fact has no verdict by the first page, but only the second page counts."""
    first_individual = (0,)
    second_individual = (1, 2)
    biography = make_biography(
        groups=[first_individual, second_individual],
        verdicts=[
            "--",  # neither page supports this fact
            "-+",  # the second page supports it
            "?-",  # the second page does not, and the first has no verdict
        ],
    )

    scores = score_biography(biography)

    assert biography.links == (None, 1)
    assert scores["d_factscore"] == pytest.approx(1 / 3)
    assert scores["unscored_grouped"] == 0


def test_fact_with_a_missing_page_verdict_is_unscored_in_factscore():
    """The page without a verdict may support the fact, and one supporting page is enough."""
    biography = make_biography(
        groups=[(0, 1, 2)],
        verdicts=[
            "--",  # neither page supports this fact
            "-+",  # the second page supports it
            "?-",  # the second page does not, and the first has no verdict
        ],
    )

    scores = score_biography(biography)

    assert scores["factscore"] == pytest.approx(1 / 2)
    assert scores["unscored"] == 1


def test_bounds_include_unscored_facts_of_unlinked_individuals():
    """The page without a verdict may be that of the individual, and support one of two facts."""
    biography = make_biography(
        groups=[(0, 1)],
        verdicts=[
            "?-",  # no verdict by the first page
            "--",  # neither page supports this fact
        ],
    )

    scores = score_biography(biography)

    assert biography.links == (None,)
    assert scores["d_factscore"] == 0
    assert scores["d_factscore_worst"] == 0
    assert scores["d_factscore_best"] == 1 / 2


def draw_counts(draw):
    """Draw how many facts of each group each entity supports: up to 4 groups and 4 entities."""
    num_groups = draw.randint(1, 4)
    num_entities = draw.randint(1, 4)
    counts = [draw.randint(0, 5) for _ in range(num_groups * num_entities)]
    return np.reshape(counts, (num_groups, num_entities))


def count_supported(counts, links):
    """Count the facts that the linked entities support, and the groups that have their best one."""
    num_supported = 0
    num_best = 0
    for group, entity in enumerate(links):
        if entity is None:
            continue
        num_facts = counts[group, entity]
        num_supported += num_facts
        if num_facts > 0 and num_facts == counts[group].max():
            num_best += 1
    return num_supported, num_best


def test_hungarian_linking_is_the_best_one_to_one_assignment():
    """No assignment supports more facts, or as many and gives more groups their best entity."""
    draw = random.Random(3)
    for _ in range(200):
        counts = draw_counts(draw)
        num_groups, num_entities = counts.shape
        candidates = [*range(num_entities), *([None] * num_groups)]

        links = link_one_to_one(counts, list(range(num_entities)))

        linked = [entity for entity in links if entity is not None]
        assert len(linked) == len(set(linked))
        assert count_supported(counts, links) == max(
            count_supported(counts, assignment)
            for assignment in itertools.permutations(candidates, num_groups)
        )


@pytest.mark.parametrize("link", [link_greedily, link_one_to_one])
@pytest.mark.parametrize(
    ("num_groups", "num_entities", "links"),
    [
        pytest.param(2, 0, (None, None), id="no entities"),
        pytest.param(0, 2, (), id="no groups"),
        pytest.param(0, 0, (), id="neither"),
    ],
)
def test_nothing_is_linked_without_entities_or_groups(link, num_groups, num_entities, links):
    """A response may have been written without passages, or state no fact."""
    counts = np.zeros((num_groups, num_entities), dtype=int)

    assert link(counts, range(num_entities)) == links


@pytest.mark.parametrize("preference", itertools.permutations(range(3)))
def test_hungarian_linking_breaks_ties_by_preference(preference):
    """Each of three entities supports four facts of each of two groups."""
    counts = np.full((2, 3), 4)

    links = link_one_to_one(counts, preference)

    assert links == preference[:2]


@pytest.mark.parametrize("preference", itertools.permutations(range(3)))
def test_supported_facts_outweigh_preferences(preference):
    """The links with 5 and 4 supported facts are the best, whatever entity is preferred."""
    counts = np.array(
        [
            [5, 0, 1],  # facts of the first group that each of three entities supports
            [0, 4, 3],  # facts of the second group
        ]
    )

    links = link_one_to_one(counts, preference)

    assert links == (0, 1)


def test_hungarian_linking_avoids_entities_without_supported_facts():
    """The first entity is linked to the first group, and the second entity supports nothing."""
    counts = np.array(
        [
            [2, 0],  # facts of the first group that each of two entities supports
            [1, 0],  # facts of the second group
        ]
    )

    links = link_one_to_one(counts, range(2))

    assert links == (0, None)


def test_greedy_linking_picks_the_best_supporting_entity_for_every_group():
    """A group has no entity if no entity supports any of its facts, and only then."""
    draw = random.Random(3)
    for _ in range(200):
        counts = draw_counts(draw)

        links = link_greedily(counts, list(range(counts.shape[1])))

        for counts_by_entity, entity in zip(counts, links, strict=True):
            num_supported = 0 if entity is None else counts_by_entity[entity]
            assert num_supported == max(counts_by_entity)
            assert (entity is None) == (num_supported == 0)


def test_irrelevant_facts_count_as_unsupported():
    """A model could otherwise hide false facts among irrelevant ones."""
    biography = make_biography(
        groups=[(0, 1, 2, 3)],
        verdicts=[
            "+-",  # supported by the first page, which is linked
            "ii",  # irrelevant to both entities
            "i-",  # irrelevant to the first entity, and not supported by the second page
            "i+",  # irrelevant to the first entity, and supported by the second page
        ],
    )

    scores = score_biography(biography)

    assert biography.links == (0,)
    assert scores["factscore"] == 2 / 4
    assert scores["d_factscore"] == 1 / 4
    assert scores["irrelevant"] == 1


def test_fact_supported_by_the_linked_page_is_attributed_to_the_linked_entity():
    """Among several supporting entities, the one of the fact's individual is the likeliest."""
    biography = make_biography(
        groups=[(0, 1)],
        verdicts=[
            "+++",  # supported by the pages of C, B and A
            "-+-",  # supported by the page of B
        ],
        titles=("C", "B", "A"),
    )

    attributed = [biography.entities[entity] for entity in attributed_entities(biography)]

    assert biography.links == (1,)
    assert attributed == ["B", "B"]


def test_protocol_code_attributes_facts_to_the_most_supportive_entity():
    """Of all four facts, whatever their groups, the page of B supports three, and the others two."""
    biography = make_biography(
        groups=[(0, 1), (2, 3)],
        verdicts=[
            "+++",  # supported by the pages of C, B and A
            "-++",  # by those of B and A
            "-+-",  # by that of B
            "+--",  # by that of C
        ],
        titles=("C", "B", "A"),
    )

    attributed = [biography.entities[entity] for entity in attributed_entities(biography, "code")]

    assert attributed == ["B", "B", "B", "C"]


def test_unsupported_fact_is_attributed_to_nobody():
    """Neither of two pages supports the only fact."""
    biography = make_biography(groups=[(0,)], verdicts=["--"])

    assert attributed_entities(biography) == [None]


def judge_like_the_release(response):
    """Make a judged biography of a released response.

    The files name one supporter of each fact, so each fact is true of this entity alone. All facts
    are in one group.
    """
    supporters = [decided.supporting_topic for decided in response.facts]
    titles = sorted({title for title in supporters if title is not None}) or ["nobody"]
    rows = []
    for supporter in supporters:
        signs = ["+" if title == supporter else "-" for title in titles]
        rows.append("".join(signs))
    one_group = tuple(range(len(rows)))
    return make_biography(groups=(one_group,), verdicts=rows, titles=titles)


@pytest.fixture(params=RELEASED)
def release(request, shared):
    """Return the judged responses of a released set, and a published figure for it.

    The figure is the mean number of entities of a response.
    """
    path = shared / "data" / "ambigbio" / "decisions" / f"{request.param}.json.gz"
    figures = json.loads((shared / "reference" / "ambigbio_figures.json").read_text())
    responses = [response for response in read_decisions(path).responses if response]
    return responses, figures[request.param]["num_supporting_topics"]


def test_protocol_code_attributes_facts_like_the_authors(release):
    """The files name the entity that the authors' code found for each fact."""
    responses, _published = release

    for response in responses:
        biography = judge_like_the_release(response)
        attributed = [
            None if entity is None else biography.entities[entity]
            for entity in attributed_entities(biography, "code")
        ]
        assert attributed == [decided.supporting_topic for decided in response.facts]


def test_protocol_code_counts_as_many_entities_as_the_authors(release):
    """The mean over the responses of a released set equals the published figure."""
    responses, published = release

    counts = [
        score_biography(judge_like_the_release(response), "code")["num_entities"]
        for response in responses
    ]

    assert sum(counts) / len(counts) == pytest.approx(published, abs=1e-12)


@pytest.mark.parametrize(
    ("num_biographies", "num_entities", "response_kind"),
    [
        (1, 1, "one_bio_one_entity"),
        (1, 3, "one_bio_many_entities"),
        (2, 2, "many_bios_many_entities"),
        (3, 2, "many_bios_many_entities"),
        (2, 1, "other"),
        (1, 0, "other"),
    ],
)
def test_responses_are_classified_as_in_section_2_4(num_biographies, num_entities, response_kind):
    """One biography with facts of many people is the error that the benchmark looks for."""
    assert response_type(num_biographies, num_entities) == response_kind


def test_responses_of_ten_facts_or_more_have_no_length_penalty():
    assert length_penalty(10) == 1
    assert length_penalty(25) == 1


def test_factscore_is_penalised_below_ten_facts():
    """A model could otherwise gain by saying little."""
    five_facts = make_biography(groups=[(0, 1, 2, 3, 4)], verdicts=["+", "+", "+", "+", "+"])

    scores = score_biography(five_facts)

    penalty = math.exp(1 - 10 / 5)
    assert length_penalty(5) == pytest.approx(penalty)
    assert scores["factscore"] == 1
    assert scores["factscore_penalised"] == pytest.approx(1 * penalty)


@pytest.fixture(scope="module")
def random_biographies():
    """Return 500 random biographies of up to two individuals, with their rows of signs."""
    draw = random.Random(5)
    biographies = []
    for _ in range(500):
        num_facts = draw.randint(1, 8)
        num_entities = draw.randint(1, 3)
        rows = ["".join(draw.choices("+-?i", k=num_entities)) for _ in range(num_facts)]
        border = draw.randint(0, num_facts)
        groups = (tuple(range(border)), tuple(range(border, num_facts)))
        linking = draw.choice(("greedy", "hungarian"))
        nonempty = tuple(group for group in groups if group)
        biographies.append((make_biography(groups=nonempty, verdicts=rows, linking=linking), rows))
    return biographies


@pytest.mark.parametrize("name", ["factscore", "d_factscore"])
def test_scores_lie_between_worst_and_best(random_biographies, name):
    """Signs, groups and linking are random, so cases come up that nobody thought of."""
    for biography, _rows in random_biographies:
        scores = score_biography(biography)
        value = scores[name]
        worst = scores[f"{name}_worst"]
        best = scores[f"{name}_best"]
        assert worst <= best
        assert value is None or worst <= value <= best


def test_d_factscore_is_never_above_factscore(random_biographies):
    """A fact that is supported by the page of its own entity is supported by some page."""
    for biography, rows in random_biographies:
        scores = score_biography(biography)
        assert scores["d_factscore_worst"] <= scores["factscore_worst"]
        every_fact_has_all_verdicts = not any("?" in signs for signs in rows)
        if every_fact_has_all_verdicts:
            assert scores["difference"] >= 0


@pytest.mark.parametrize(
    ("groups", "verdicts", "reason"),
    [
        pytest.param([(0,)], ["+"], None, id="scored"),
        pytest.param([(0,)], ["?"], "no fact has a verdict", id="no verdict"),
        pytest.param(
            [(1,)],
            ["+", "?"],
            "no fact in a group has a verdict",
            id="the only verdict is on a fact in no group",
        ),
        pytest.param([()], ["+"], "no fact left in a group", id="the only group is empty"),
    ],
)
def test_response_with_a_missing_score_has_a_reason(groups, verdicts, reason):
    """A judge that failed must be told from a response that has nothing to score."""
    biography = make_biography(groups=groups, verdicts=verdicts)

    assert unscored_reason(biography, score_biography(biography)) == reason


def test_facts_and_reasons_are_counted_over_all_responses():
    """The table must show how many facts and responses the scores lack."""
    three_facts = score_biography(
        make_biography(
            groups=[(0, 1, 2)],
            verdicts=[
                "+-",  # supported by the first page
                "ii",  # irrelevant to both entities
                "?-",  # no verdict by the first page
            ],
        )
    )
    two_facts = score_biography(make_biography(groups=[(0, 1)], verdicts=["+", "+"]))
    records = [
        {"scores": three_facts, "unscored": None, "abstained": False},
        {"scores": two_facts, "unscored": None, "abstained": False},
        {"scores": None, "unscored": None, "abstained": True},
        {"scores": None, "unscored": "not decomposed", "abstained": False},
    ]

    counts = count_responses(records)

    assert counts["unscored"] == {"not decomposed": 1}
    assert counts["abstained"] == 1
    assert counts["facts"] == 3 + 2
    assert counts["irrelevant_facts"] == 1
