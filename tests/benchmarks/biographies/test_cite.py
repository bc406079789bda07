"""Citations: how they are read, and their recall and precision by ALCE's definitions."""

import gzip
import json
import re
from collections import defaultdict

import pytest

from judges.inference import Entailment, EntailmentPair
from lm_factuality.benchmarks.biographies.citations import (
    citation_record,
    judge_citations,
    read_cited_sentences,
    sentence_splitter,
    summarise_citations,
)
from lm_factuality.benchmarks.biographies.types import GeneratedText, RetrievedPassage
from lm_factuality.ground.errors import ConfigError

PASSAGES = tuple(
    RetrievedPassage(f"Ada Lind ({number})", f"text {number}") for number in range(1, 6)
)
"""Five passages, which responses cite by their numbers from 1 on."""


def make_response(output, index="0"):
    """Make a response about Ada Lind, with five passages."""
    return GeneratedText(index, "Tell me a bio of Ada Lind", "Ada Lind", output, PASSAGES)


def read_claims(output, protocol="fixed"):
    """Read the claims of a response: its sentences without their citations."""
    return [sentence.claim for sentence in read_cited_sentences(make_response(output), protocol)]


@pytest.mark.parametrize(
    ("text", "citations", "num_dangling"),
    [
        ("She rowed [1].", [1], 0),
        ("She rowed [1]-[3].", [1, 2, 3], 0),
        ("She rowed [1], [2] and [4].", [1, 2, 4], 0),
        ("She rowed [Documents 1 and 3][doc 4].", [1, 3, 4], 0),
        ("She rowed [document 2, document 9].", [2], 1),
        ("She rowed [1][3].", [1, 3], 0),
        ("She rowed [1,2;4 and 5].", [1, 2, 4, 5], 0),
        ("She rowed [2\u20134].", [2, 3, 4], 0),
        ("She rowed [1][1].", [1], 0),
        ("She rowed [1][2][3][4].", [1, 2, 3, 4], 0),
        ("She rowed [1][9].", [1], 1),
        ("She rowed [0].", [], 1),
        ("She rowed.", [], 0),
        ("She rowed in [1923] and later.", [], 0),
        ("She rowed [2", [], 0),
    ],
)
def test_protocol_fixed_reads_citations(text, citations, num_dangling):
    """There are five passages. A citation with the number of no passage dangles."""
    (sentence,) = read_cited_sentences(make_response(text), "fixed")

    assert list(sentence.citations) == citations
    assert sentence.dangling == num_dangling


@pytest.mark.parametrize(
    ("text", "citations"),
    [
        ("She rowed [1].", [1]),
        ("She rowed [1]-[3].", [1, 3]),
        ("She rowed [1], [2] and [4].", [1, 2, 4]),
        ("She rowed [Documents 1 and 3][doc 4].", []),
        ("She rowed [document 2, document 9].", []),
        ("She rowed [1][3].", [1, 3]),
        ("She rowed [1,2;4 and 5].", [1]),
        ("She rowed [2\u20134].", [2]),
        ("She rowed [1][1].", [1, 1]),
        ("She rowed [1][2][3][4].", [1, 2, 3]),  # at most three
        ("She rowed [1][9].", []),
        ("She rowed [0].", [5]),  # the last passage, as Python counts
        ("She rowed.", []),
        ("She rowed in [1923] and later.", []),
        ("She rowed [2", [2]),
    ],
)
def test_protocol_code_reads_citations(text, citations):
    """The protocol repeats the authors' script with its flaws, for scores that equal theirs."""
    (sentence,) = read_cited_sentences(make_response(text), "code")

    assert list(sentence.citations) == citations


@pytest.mark.parametrize(
    ("text", "claims"),
    [
        ("She rowed [1]. She won [2].", ["She rowed.", "She won."]),
        ("She rowed. [1][2] She won. [3]", ["She rowed.", "She won."]),
        ("She rowed. [1]. She won. [2], [3].", ["She rowed.", "She won."]),
        ("She rowed [1].\n\nShe won [2].", ["She rowed.", "She won."]),
        ("She won, [1, 2] they say.", ["She won, they say."]),
        ("In [1999] she won [1].", ["In [1999] she won."]),
        ("", []),
        ("[1]", []),
    ],
)
def test_claims_contain_no_citations(text, claims):
    """An inference model compares claims with passages, where citations would only disturb."""
    assert read_claims(text) == claims


@pytest.mark.parametrize(
    ("text", "claims"),
    [
        ("She rowed [1]. She won [2].", ["She rowed.", "She won."]),
        ("She rowed [1].\n\nShe won [2].", ["She rowed."]),
        ("She won, [1, 2] they say.", ["She won,, 2 they say."]),
        ("", []),
    ],
)
def test_protocol_code_reads_claims_like_the_authors(text, claims):
    """The authors' script reads the first line alone, and removes single numbers in brackets."""
    assert read_claims(text, "code") == claims


def test_citations_after_the_full_stop_belong_to_the_sentence():
    """The citations [1][2] stand between two sentences, and support the one before them."""
    first, second = read_cited_sentences(make_response("She rowed. [1][2] She won. [3]"), "fixed")

    assert first.citations == (1, 2)
    assert second.citations == (3,)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("She rowed.\n[1][2]", [("She rowed.", (1, 2))], id="citations alone"),
        pytest.param(
            "She rowed.\n\n[1], [2].\nShe won.",
            [("She rowed.", (1, 2)), ("She won.", ())],
            id="citations alone between two sentences",
        ),
        pytest.param(
            "She rowed [1].\n[2] She won.",
            [("She rowed.", (1,)), ("She won.", (2,))],
            id="each sentence has one",
        ),
        pytest.param(
            "She rowed [1].\n[2]. She won. [3]",
            [("She rowed.", (1,)), ("She won.", (2, 3))],
            id="the second sentence has two",
        ),
        pytest.param(
            "[1] She rowed.\n[2] She won.",
            [("She rowed.", (1,)), ("She won.", (2,))],
            id="before each sentence",
        ),
        pytest.param("[1]\nShe rowed.", [("She rowed.", ())], id="before the first sentence"),
    ],
)
def test_citations_at_a_line_start_belong_to_a_neighbouring_sentence(text, expected):
    """On a line of their own they belong to the sentence before, else to that of their line."""
    sentences = read_cited_sentences(make_response(text), "fixed")

    assert [(sentence.claim, sentence.citations) for sentence in sentences] == expected


def recall_of(judged):
    """Return the citation recall of a judged response."""
    return judged.recall_and_precision()["citation_recall"]


def precision_of(judged):
    """Return the citation precision of a judged response."""
    return judged.recall_and_precision()["citation_precision"]


class EntailmentTable(Entailment):
    """Entailment by a table of the sets of passages that support any claim whatever."""

    def __init__(self, supported, unknown=()):
        """Set the table.

        Args:
            supported: Sets of the numbers of passages that support every claim together.
            unknown: Sets of the numbers of passages on which there is no verdict.
        """
        super().__init__("table", self.answer)
        self.supported = supported
        self.unknown = unknown
        self.asked = []
        self.batches = 0

    def answer(self, pairs):
        """Return the verdict on each pair of a claim and passages, and keep the pairs."""
        self.batches += 1
        self.asked += pairs
        return [self.verdict(pair.passages) for pair in pairs]

    def verdict(self, passages):
        """Return whether these passages support a claim, None if it is unknown."""
        numbers = {PASSAGES.index(passage) + 1 for passage in passages}
        return None if numbers in self.unknown else numbers in self.supported


def judge_text(output, supported, protocol="fixed"):
    """Judge the citations of one response, given the sets of passages that support its claims."""
    (judged,) = judge_citations([make_response(output)], EntailmentTable(supported), protocol)
    return judged


@pytest.mark.parametrize(
    ("cited", "supported", "recall", "precision"),
    [
        pytest.param("[1]", [{1}], 1.0, 1.0, id="one that supports"),
        pytest.param("[1]", [], 0.0, 0.0, id="one that does not"),
        pytest.param("[1][2]", [{1, 2}, {1}, {2}], 1.0, 1.0, id="each alone supports"),
        pytest.param("[1][2]", [{1, 2}, {1}], 1.0, 1 / 2, id="one is irrelevant"),
        pytest.param("[1][2]", [{1, 2}], 1.0, 1.0, id="only both together support"),
        pytest.param("[1][2]", [{1}, {2}], 0.0, 0.0, id="both together do not support"),
        pytest.param("[1][2][3]", [{1, 2, 3}, {1, 2}], 1.0, 2 / 3, id="one of three is irrelevant"),
        pytest.param(
            "[1][2][3]",
            [{1, 2, 3}, {1, 2}, {1, 3}, {2, 3}],
            1.0,
            0.0,
            id="any two of three support, so none is needed",
        ),
    ],
)
@pytest.mark.parametrize("protocol", ["fixed", "code"])
def test_recall_and_precision_follow_alces_definition(
    cited, supported, recall, precision, protocol
):
    """A citation is precise if it supports the sentence alone, or the others need it to do so.

    ``supported`` has the sets of passages that support the sentence together.
    """
    judged = judge_text(f"She rowed {cited}.", supported, protocol)

    assert recall_of(judged) == recall
    assert precision_of(judged) == precision


def test_precision_is_undefined_without_citations():
    """A precision of 0 would say that the response has wrong citations."""
    judged = judge_text("She rowed.", supported=[], protocol="fixed")

    assert recall_of(judged) == 0.0
    assert precision_of(judged) is None


def test_protocol_code_gives_precision_0_without_citations():
    """The authors' script gives 0 to a response that cites nothing."""
    judged = judge_text("She rowed.", supported=[], protocol="code")

    assert recall_of(judged) == 0.0
    assert precision_of(judged) == 0.0


def test_recall_averages_over_sentences_and_precision_over_citations():
    """Passage 1 supports any claim, and passage 2 none."""
    judged = judge_text("One [1]. Two [2]. Three. Four [1][2].", supported=[{1}, {1, 2}])

    assert recall_of(judged) == 2 / 4  # "One" and "Four" are supported
    assert precision_of(judged) == 2 / 4  # the two citations of passage 1 are precise


def test_dangling_citation_lowers_precision():
    """There are five passages, so "[9]" names none."""
    judged = judge_text("She rowed [1][9].", supported=[{1}])

    assert recall_of(judged) == 1.0
    assert precision_of(judged) == 1 / 2


def test_protocol_code_drops_all_citations_next_to_a_dangling_citation():
    """The authors' script drops all citations of a sentence if one of them names no passage."""
    judged = judge_text("She rowed [1][9].", supported=[{1}], protocol="code")

    assert recall_of(judged) == 0.0
    assert precision_of(judged) == 0.0


def test_sentences_without_a_verdict_do_not_affect_recall():
    """A missing verdict says nothing of the response, so it must not lower a score."""
    response = make_response("One [1]. Two [2].")
    table = EntailmentTable(supported=[{1}], unknown=[{2}])

    (judged,) = judge_citations([response], table, "fixed")

    assert recall_of(judged) == 1.0
    assert precision_of(judged) == 1.0


def test_citations_without_a_verdict_do_not_affect_precision():
    """Whether passage 4 alone supports the sentence is unknown."""
    response = make_response("Three [3][4].")
    table = EntailmentTable(supported=[{3, 4}, {3}], unknown=[{4}])

    (judged,) = judge_citations([response], table, "fixed")

    assert recall_of(judged) == 1.0
    assert precision_of(judged) == 1.0


def test_protocol_code_counts_sentences_without_a_verdict_as_unsupported():
    response = make_response("One [1]. Two [2].")
    table = EntailmentTable(supported=[{1}], unknown=[{2}])

    (judged,) = judge_citations([response], table, "code")

    assert recall_of(judged) == 1 / 2


def test_summary_has_bounds_for_missing_verdicts():
    """The verdicts on passage 2, and on passage 4 without passage 3, are unknown."""
    responses = [
        make_response("One [1]. Two [2].", index="0"),
        make_response("Three [3][4].", index="1"),
    ]
    table = EntailmentTable(supported=[{1}, {3, 4}, {3}], unknown=[{2}, {4}])

    unscored = summarise_citations(judge_citations(responses, table, "fixed"))["unscored"]

    assert unscored["sentences"] == 1
    assert unscored["citations"] == 2
    assert unscored["worst"] == {
        "citation_recall": (1 / 2 + 1) / 2,
        "citation_precision": (1 / 2 + 1 / 2) / 2,
    }
    assert unscored["best"] == {"citation_recall": 1.0, "citation_precision": 1.0}


def test_each_claim_and_passage_pair_is_asked_once_in_three_batches():
    """The first batch asks about all citations of a sentence, the second about each one alone.

    The third asks about the others without this one. Twenty responses are equal.
    """
    sets_of_passages_that_support = [{1, 2}, {1, 2, 3}, {2, 3}, {1}]
    table = EntailmentTable(sets_of_passages_that_support)
    text = "Rowed [1][2]. Rowed [1][2]. Won [1][2][3]. Lost [4]."
    equal_responses = [make_response(text, index=str(number)) for number in range(20)]

    judge_citations(equal_responses, table)

    assert len(set(table.asked)) == len(table.asked)
    assert len(table.verdicts) == len(table.asked)
    assert table.batches == 3


def test_verdicts_are_reused_for_later_responses():
    """An inference model takes long, and the same pairs come again."""
    table = EntailmentTable(supported=[{1, 2}])
    judge_citations([make_response("Rowed [1][2].")], table)
    num_batches = table.batches

    judge_citations([make_response("Rowed [1][2].")], table)

    assert table.batches == num_batches


def test_the_summary_has_the_means_over_responses():
    """A response without a sentence has no recall, and one without a citation no precision."""
    responses = [make_response("One [1]. Two."), make_response("Three."), make_response("")]

    summary = summarise_citations(judge_citations(responses, EntailmentTable(supported=[{1}])))

    assert summary["citation_recall"] == (1 / 2 + 0) / 2
    assert summary["citation_precision"] == 1.0


def test_the_summary_counts_sentences_and_citations():
    """The counts say how much the means rest on."""
    responses = [make_response("One [1]. Two."), make_response("Three."), make_response("")]

    summary = summarise_citations(judge_citations(responses, EntailmentTable(supported=[{1}])))

    counts = {
        key: count
        for key, count in summary.items()
        if key.startswith(("num_", "responses_", "sentences_"))
    }
    assert counts == {
        "num_responses": 3,
        "num_sentences": 3,
        "num_citations": 1,
        "sentences_without_citation": 2,
        "responses_without_sentence": 1,
        "responses_without_citation": 1,
    }


def test_a_record_has_the_verdicts_of_each_sentence():
    """A reader can check whether the claim is supported, and which citations are precise."""
    judged = judge_text("One [1]. Two.", supported=[{1}])

    first_sentence, _second_sentence = citation_record(judged)["sentences"]

    assert first_sentence == {
        "text": "One [1].",
        "claim": "One.",
        "supported": True,
        "citations": [1],
        "precise": [True],
        "dangling": 0,
    }


def test_recall_of_no_sentences_is_undefined():
    """A recall of 0 would say that the sentences lack support."""
    empty_response = judge_text("", supported=[], protocol="code")

    summary = summarise_citations([empty_response])

    assert summary["citation_recall"] is None


class RecordedEntailment(Entailment):
    """The verdicts of the model TRUE as the authors recorded them.

    They are on all cited passages of a sentence together. Any other pair is taken for entailed.
    """

    def __init__(self, verdicts):
        """Set the recorded verdicts, by pairs of a claim and its passages."""
        super().__init__("recorded", self.answer)
        self.verdicts = verdicts
        self.num_unknown = 0
        """The number of pairs that are not recorded."""

    def answer(self, pairs):
        """Return the verdict on each pair."""
        self.num_unknown += sum(pair not in self.verdicts for pair in pairs)
        return [self.verdicts.get(pair, True) for pair in pairs]


def places_cited(entry):
    """Return the places of the passages that a sentence of the log cites, at most three."""
    return [int(number) - 1 for number in re.findall(r"\[(\d+)", entry["claim"])][:3]


def read_passages(entries):
    """Read the passages that the log of a response shows, at the places where it cites them.

    The log shows only passages that are cited. Another passage gets a text of its own.
    """
    passages = [RetrievedPassage("not in the log", str(place)) for place in range(5)]
    for entry in entries:
        cited_passages = re.findall(r"Title: (.*)\n(.*(?:\n(?!Title: ).*)*)", entry["passage"][0])
        for place, (title, text) in zip(places_cited(entry), cited_passages, strict=True):
            passages[place] = RetrievedPassage(title, text)
    return passages


def read_pair(entry, passages):
    """Read the claim of a sentence of the log, with the passages that it cites."""
    claim = re.sub(r" ?\[\d+", "", entry["claim"]).replace(" |", "").replace("]", "").strip()
    return EntailmentPair(claim, tuple(passages[place] for place in places_cited(entry)))


def read_log(log):
    """Read the responses of the authors' log, and the verdict of each pair in it."""
    entries_by_response = defaultdict(list)
    for entry in log:
        entries_by_response[entry["qid"]].append(entry)
    generations = []
    verdicts = {}
    for number, entries in entries_by_response.items():
        passages = read_passages(entries)
        question = entries[0]["question"]
        name = question.removeprefix("Tell me a bio of ")
        output = entries[0]["output"]
        generations.append(GeneratedText(str(number), question, name, output, tuple(passages)))
        for entry in entries:
            verdicts[read_pair(entry, passages)] = bool(entry["model_output"])
    return generations, verdicts


NUM_RESPONSES = 500
"""The number of all responses. Those that are not in the log cite nothing that exists."""


@pytest.fixture(params=["vicuna-7b__ambig", "chatgpt-0301__no-ambig"])
def published(request, shared):
    """Return the authors' figures for the citations of one model, and the log of their verdicts."""
    path = shared / "data" / "ambigbio" / "citations" / f"{request.param}.json.gz"
    return json.loads(gzip.decompress(path.read_bytes()))


def judge_log(content, splitter):
    """Judge the responses of a log by the recorded verdicts, with a splitter of sentences.

    The test is skipped if the splitter is not installed.
    """
    try:
        split = sentence_splitter(splitter)
    except ConfigError as error:
        pytest.skip(str(error))
    generations, verdicts = read_log(content["autoais_log"])
    entailment = RecordedEntailment(verdicts)
    judged = judge_citations(generations, entailment, "code", split)
    assert entailment.num_unknown > 900  # the log has no verdict on a part of the citations
    return judged


@pytest.mark.parametrize(
    ("splitter", "tolerance_in_points"),
    [
        pytest.param("punkt", 1e-9, id="ALCE's sentences"),
        pytest.param("rules", 0.8, id='our sentences, which do not end behind "born c."'),
    ],
)
def test_recorded_verdicts_reproduce_the_authors_recall(published, splitter, tolerance_in_points):
    """The authors published the recall in percent, and the verdicts that it is computed from."""
    judged = judge_log(published, splitter)

    recall = 100 * sum(recall_of(response) for response in judged) / NUM_RESPONSES
    assert recall == pytest.approx(published["citation_rec"], abs=tolerance_in_points)


@pytest.mark.parametrize("splitter", ["punkt", "rules"])
def test_authors_precision_lies_within_the_bounds_from_their_log(published, splitter):
    """Precision needs verdicts on single passages, some of which the authors' log lacks."""
    judged = judge_log(published, splitter)

    greatest = 100 * sum(precision_of(response) for response in judged) / NUM_RESPONSES
    least = 100 * sum(least_precision(response) for response in judged) / NUM_RESPONSES
    assert least < published["citation_prec"] < greatest


LEAST_PRECISE = {1: 1, 2: 1, 3: 0}
"""How many citations of a supported sentence are precise at least, by their number.

A single citation is precise. Of two, at least one is needed. Of three, any two may be enough.
"""


def least_precision(judged):
    """Return the least precision of a response whose supported sentences are known."""
    num_precise = sum(
        LEAST_PRECISE.get(len(sentence.precise), 0)
        for sentence in judged.sentences
        if sentence.supported
    )
    num_citations = sum(len(sentence.precise) for sentence in judged.sentences)
    return num_precise / num_citations if num_citations else 0.0
