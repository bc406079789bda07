"""Step 3 of D-FActScore: the judgement of each fact by the page of each candidate entity.

`method` asks the judge once about each pair of a fact and a page with these functions. All scores
are computed from the resulting matrix.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, groupby
from operator import attrgetter
from statistics import multimode
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, TypeVar

from pydantic import Field, WithJsonSchema

from judges.answers import BLANKS, Answer
from judges.capabilities import BACKENDS
from judges.judge import Judge
from judges.typed import ParsedReply, Reply
from judges.verify import (
    MAX_CLAIMS_PER_PAGE,
    NOT_SUPPORTED,
    SUPPORTED,
    UNSCORED,
    PageQuestion,
    PageReply,
    PageVerdicts,
    ask_by_page,
    check_claim_numbers,
    page_subject,
    score_and_reason,
    split_by_page,
)
from lm_factuality.benchmarks.biographies.generations import nearest_passages
from lm_factuality.benchmarks.biographies.scores import NO_PAGE
from lm_factuality.benchmarks.biographies.types import Fact, Judgement
from lm_factuality.ground.thinking import UNFINISHED, without_thinking

SampleT = TypeVar("SampleT")

PAGES_PROMPT = "biographies/verify_pages"

# A question about several pages with these limits, and its reply, fit into the default context of a
# judge. Beyond them, there is a question for each page.
MAX_WORDS_OF_PAGES = 1500
MAX_FACTS_OF_PAGES = 60
TRUE_FALSE = ("True", "False")
TOP_LOGPROBS = 5  # Servers of completions need not return more alternatives to a token.
_PROGRESS = "verifying facts"
_MARKS = " \t\r\n.*_\"'"  # may stand around a one-word answer

# The prompts ask for the first four words, and the schema allows no other. Classifiers, and users'
# own prompts, may say the last.
_PROMPTED_VERDICTS = ["supported", "contradicted", "not_found", "irrelevant"]
FactVerdict: TypeAlias = Annotated[
    Literal["supported", "contradicted", "not_found", "irrelevant", "not_supported"],
    WithJsonSchema({"enum": _PROMPTED_VERDICTS, "type": "string"}),
]


# The schema of a reply, with the docstring of its class, is part of the keys of stored answers.
class FactReply(Reply):
    """``irrelevant``: the fact says nothing about the person. ``probability``, if it is stated, is that of support."""  # noqa: E501

    reason: str
    verdict: FactVerdict
    probability: Annotated[float, Field(ge=0, le=1)] | None = None


class NumberedFact(Reply):
    """The verdict on one fact of a list, numbered from 1."""

    number: int
    reason: str
    verdict: FactVerdict


class FactsOfPage(PageReply):
    """What a page says of the facts of a list."""

    verdicts: list[NumberedFact]


class NumberedFactOfPages(NumberedFact):
    """The verdict of its own page on a fact, and the number of another page that supports it."""

    page: int | None


class FactsOfPages(PageReply):
    """What several pages together say of the facts of a list."""

    verdicts: list[NumberedFactOfPages]


@dataclass(frozen=True)
class FactPair:
    """A fact and the page of an entity that it is verified against."""

    fact: str
    """The text of the fact."""

    entity: str
    """The title of the page. Empty if each passage has its own title."""

    evidence: tuple[str, ...]
    """The passages that the judge sees. Empty if there are none."""

    preset_judgement: Judgement | None = None
    """The judgement if there are no passages. The judge is then not asked."""

    prompt_variables: Mapping[str, Any] = field(default_factory=dict)
    """Further variables of the prompt, which describe the response."""

    sentence: int | None = None
    """The number of the fact's sentence if an index found the passages, otherwise None."""

    @property
    def verification_variables(self) -> dict[str, Any]:
        """The variables of the prompt that asks whether the page supports the fact."""
        return {
            "kind": "verify",
            "claim": self.fact,
            "passages": self.titled_passages(self.evidence),
            "tells_contradictions": True,
            **self.page_variables,
        }

    def titled_passages(self, passages: Iterable[str]) -> list[str]:
        """Put the title of the page before each passage, if the page has a title."""
        # Passages that an index found state their titles themselves.
        if not self.entity:
            return list(passages)
        return [f"Title: {self.entity}\n{passage}" for passage in passages]

    @property
    def page_variables(self) -> dict[str, Any]:
        """The variables of the prompt that do not depend on the fact."""
        # The passages that an index finds for a sentence are of several entities.
        if self.sentence is not None:
            return {**self.prompt_variables}
        return {"entity": self.entity, **self.prompt_variables}

    @property
    def page(self) -> str:
        """The key of the page. A judge can be asked about several facts on one page together."""
        return self.entity if self.sentence is None else str(self.sentence)


class PairKey(NamedTuple):
    """Identifies a pair among those of several responses."""

    response: int
    """The number of the response, counted from 0."""

    fact: str
    """The text of the fact."""

    entity: str
    """The title of the page."""


FindPage: TypeAlias = Callable[[str], list[str] | None]
"""Returns the passages of the page with a title, or None if there is no such page."""


def pair_facts_with_pages(
    facts: Sequence[Fact], entities: Sequence[str], find_page: FindPage
) -> list[FactPair]:
    """Pair every distinct fact of a response with the page of every candidate entity.

    Args:
        facts: The facts of the response.
        entities: The titles of the candidate pages.
        find_page: Finds the passages of a page by its title.

    Returns:
        The pairs, each with the passages of the page that are nearest to the fact. If an entity has
        no page, its pairs have a preset judgement, so that the judge is not asked.
    """
    # Each page is looked up once, although several facts need it.
    page_by_entity = {entity: find_page(entity) for entity in entities}
    distinct_facts = dict.fromkeys(fact.text for fact in facts)
    pairs = []
    for fact in distinct_facts:
        for entity, page in page_by_entity.items():
            # Blank passages show the judge nothing.
            passages = tuple(passage for passage in page or () if passage.strip())
            if passages:
                pairs.append(FactPair(fact, entity, nearest_passages(passages, fact)))
            else:
                pairs.append(FactPair(fact, entity, (), _judgement_without_page(entity, page)))
    return pairs


def _judgement_without_page(entity: str, page: Sequence[str] | None) -> Judgement:
    """Judge a fact as not supported by an entity that has no page.

    The fact is not unscored: a page without a verdict might support a fact, so FActScore would
    leave out all facts that no other page supports, which are nearly all false facts.

    Args:
        entity: The title of the page.
        page: Its passages, which are all blank, or None if there is no page.
    """
    if page is None:
        reason = f"{NO_PAGE}: none is called {entity!r}"
    else:
        reason = f"{NO_PAGE}: that of {entity!r} is empty"
    return Judgement(NOT_SUPPORTED, 0.0, reason)


def judge_pairs(
    judge: Judge,
    pairs: Mapping[PairKey, FactPair],
    folder: str,
    by_page: bool = False,
) -> dict[PairKey, Judgement]:
    """Ask a judge whether pages support facts, as the judge's configuration says.

    Args:
        judge: The judge.
        pairs: The pairs to judge. Those with a preset judgement are not asked about.
        folder: The folder of the prompts.
        by_page: Whether to ask language models about all facts on a page at once, whatever
            the configuration says.

    Raises:
        BackendDownError: The judge cannot be reached. Answers received so far are kept.
    """
    judgements = _preset_judgements(pairs)
    pairs_to_ask = {key: pair for key, pair in pairs.items() if key not in judgements}
    # An answer of one word fits one pair only, so log-probabilities come before pages.
    if judge.config.verdicts == "logprobs":
        ask = _judge_pairs_by_logprobs
    elif judge.config.verify == "page" or (by_page and reads_pages(judge)):
        ask = _judge_pairs_by_page
    else:
        ask = judge_pairs_singly
    return judgements | ask(judge, pairs_to_ask, folder)


def _preset_judgements(pairs: Mapping[PairKey, FactPair]) -> dict[PairKey, Judgement]:
    """Return the judgements of all pairs without passages, which are known without the judge."""
    return {
        key: pair.preset_judgement
        for key, pair in pairs.items()
        if pair.preset_judgement is not None
    }


def reads_pages(judge: Judge) -> bool:
    """Return whether a judge can be asked about several facts: a language model that writes."""
    # It is a backend with the key `verify`. Log-probabilities need an answer of one word.
    has_key = "verify" in BACKENDS[judge.config.backend].keys
    return has_key and judge.config.verdicts != "logprobs"


def tells_contradictions(judge: Judge) -> bool:
    """Return whether a judge tells a contradicted fact from one that a page does not mention."""
    capabilities = judge.config.capabilities
    return capabilities.tells_contradictions and judge.config.verdicts != "logprobs"


def judge_linked_pages_first(
    judge: Judge, pairs: Mapping[PairKey, FactPair], linked_keys: Collection[PairKey], folder: str
) -> dict[PairKey, Judgement]:
    """Verify each fact by its linked page, and by other pages if that one does not support it.

    The linked page of a fact is the page that describes the person whom the fact is about.
    FActScore asks whether any page supports a fact, so one page that does is enough.

    A language model is asked about all facts and pages of a response in one question. If they do
    not fit into one, it is asked about the linked pages first, and then about the other pages for
    the facts that are still unsupported.

    Args:
        judge: The judge.
        pairs: All pairs of facts and pages.
        linked_keys: The keys of those pairs whose page is the linked page of the fact.
        folder: The folder of the prompts about single facts.

    Returns:
        The judgement of each pair that was judged. The other pairs are left out.
    """
    judgements = _preset_judgements(pairs)

    def unjudged_pairs() -> dict[PairKey, FactPair]:
        """Return the pairs that still need a judgement."""
        return _unjudged_pairs(pairs, judgements, linked_keys)

    if reads_pages(judge):
        first_pairs = _pairs_to_ask_first(judge, unjudged_pairs(), linked_keys)
        judgements |= _judge_pages(judge, first_pairs, linked_keys)
        judgements |= _judge_pages(judge, unjudged_pairs(), linked_keys)

    # Other judges are asked about single facts. A language model is asked about a single fact if
    # its replies about pages leave the fact out.
    ask_about_facts = judge_pairs_singly if reads_pages(judge) else judge_pairs
    linked_pairs = _select_pairs(unjudged_pairs(), linked_keys)
    judgements |= ask_about_facts(judge, linked_pairs, folder)
    return judgements | ask_about_facts(judge, unjudged_pairs(), folder)


def _unjudged_pairs(
    pairs: Mapping[PairKey, FactPair],
    judgements: Mapping[PairKey, Judgement],
    linked_keys: Collection[PairKey],
) -> dict[PairKey, FactPair]:
    """Return the pairs that have no judgement yet, but need one for FActScore or D-FActScore.

    D-FActScore needs the judgement of every fact by its linked page. FActScore needs the judgements
    by all pages, but only as long as none supports the fact.

    Args:
        pairs: All pairs of facts and pages.
        judgements: The judgements so far.
        linked_keys: The keys of those pairs whose page is the linked page of the fact.
    """
    supported_facts = set()
    for key, judgement in judgements.items():
        if judgement.outcome == SUPPORTED:
            supported_facts.add((key.response, key.fact))

    unjudged_pairs = {}
    for key, pair in pairs.items():
        is_needed = key in linked_keys or (key.response, key.fact) not in supported_facts
        if is_needed and key not in judgements:
            unjudged_pairs[key] = pair
    return unjudged_pairs


def _split_by_response(pairs: Mapping[PairKey, FactPair]) -> list[dict[PairKey, FactPair]]:
    """Return the pairs of each response by their keys."""
    # The pairs of a response follow each other.
    return [{key: pairs[key] for key in keys} for _, keys in groupby(pairs, attrgetter("response"))]


def _select_pairs(
    pairs: Mapping[PairKey, FactPair], keys: Collection[PairKey]
) -> dict[PairKey, FactPair]:
    """Return those of some pairs that have one of the keys, in their order."""
    return {key: pair for key, pair in pairs.items() if key in keys}


def _pairs_to_ask_first(
    judge: Judge, pairs: Mapping[PairKey, FactPair], linked_keys: Collection[PairKey]
) -> dict[PairKey, FactPair]:
    """Choose the pairs of a fact and a page that a judge is asked about first.

    Of a response whose pairs all fit into one question, these are all of them. Of a longer one,
    they are the pairs of a fact and its linked page, which have to be judged in any case.

    Args:
        judge: The judge, whose context bounds a question.
        pairs: The pairs of several responses.
        linked_keys: The keys of those pairs whose page is the linked page of the fact.
    """
    first_pairs: dict[PairKey, FactPair] = {}
    for pairs_of_response in _split_by_response(pairs):
        if _fit_one_question(judge, pairs_of_response.values()):
            first_pairs |= pairs_of_response
        else:
            first_pairs |= _select_pairs(pairs_of_response, linked_keys)
    return first_pairs


def _fit_one_question(judge: Judge, pairs: Collection[FactPair]) -> bool:
    """Return whether one question can show a judge the facts and the passages of several pairs."""
    facts = {pair.fact for pair in pairs}
    # Facts and passages that several pairs have are shown once.
    texts = facts.union(*(pair.evidence for pair in pairs))
    num_words = sum(len(text.split()) for text in texts)
    max_facts = judge.config.fit_context(MAX_FACTS_OF_PAGES)
    max_words = judge.config.fit_context(MAX_WORDS_OF_PAGES)
    return len(facts) <= max_facts and num_words <= max_words


def _judge_pages(
    judge: Judge, pairs: Mapping[PairKey, FactPair], linked_keys: Collection[PairKey]
) -> dict[PairKey, Judgement]:
    """Ask about the pairs of each response in one question, or page by page if they do not fit.

    Args:
        judge: The judge.
        pairs: The pairs to judge.
        linked_keys: The keys of those pairs whose page is the linked page of the fact.

    Returns:
        The judgements. A pair has none if the reply leaves its fact out, or if the reply says that
        another page supports the fact.
    """
    questions = []
    for response_pairs in _split_by_response(pairs):
        if _fit_one_question(judge, response_pairs.values()):
            key_groups = [list(response_pairs)]
        else:
            max_facts = judge.config.fit_context(MAX_CLAIMS_PER_PAGE)
            key_groups = split_by_page(response_pairs, attrgetter("entity"), max_facts)
        questions += [_question_about_pages(keys, pairs, linked_keys) for keys in key_groups]

    judgements: dict[PairKey, Judgement] = {}
    for fact_answer in ask_by_page(
        judge, PAGES_PROMPT, FactsOfPages, questions, _PROGRESS, check=problem_with_pages
    ):
        judgements |= _judgements_by_pages(fact_answer, linked_keys)
    return judgements


def _judgements_by_pages(
    fact_answer: PageVerdicts[tuple[PairKey, ...]], linked_keys: Collection[PairKey]
) -> dict[PairKey, Judgement]:
    """Judge one fact by each page of a question, from the judge's replies to the question.

    Args:
        fact_answer: What the replies say of the fact. Its ``key`` holds the keys of all pairs of
            the fact with a page of the question, and its ``verdicts`` one verdict per reply.
        linked_keys: The keys of those pairs whose page is the linked page of the fact, i.e. the
            page about the person whom the fact is about.

    Returns:
        The judgement of the fact by each page. A page is left out if most replies only say that
        another page supports the fact.
    """
    pages = fact_answer.subject["pages"]
    number_by_title = {page["title"]: number for number, page in enumerate(pages, start=1)}
    # A fact about two people has two linked pages. The prompt shows it below the first.
    linked_numbers = [number_by_title[key.entity] for key in fact_answer.key if key in linked_keys]
    linked_number = linked_numbers[0] if linked_numbers else None

    judgements = {}
    for key in fact_answer.key:
        number = number_by_title[key.entity]
        votes = []
        for verdict in fact_answer.verdicts:
            judgement = _judgement_by_page(verdict, number, linked_number)
            if judgement is not None:
                votes.append(judgement)
        if len(votes) > len(fact_answer.verdicts) / 2:
            evidence = tuple(pages[number - 1]["evidence"])
            judgements[key] = majority_judgement(evidence, votes)
    return judgements


def _judgement_by_page(
    fact_verdict: NumberedFactOfPages, page_number: int, linked_number: int | None
) -> Judgement | None:
    """Judge a fact by one of the pages of a question, from a reply about all these pages.

    Example:
        With the linked page 1, the verdict "contradicted" with page 2 means that page 1 contradicts
        the fact and page 2 supports it. It says nothing of page 3, which was not needed.

    Args:
        fact_verdict: The verdict on the fact by its linked page, and the number of another page
            that supports the fact. For a fact without a linked page, it is the verdict by all pages
            together, and the number of the page that supports the fact.
        page_number: The number of the page to judge by, counted from 1.
        linked_number: The number of the page about the person whom the fact is about. None if this
            page is not in the question.

    Returns:
        The judgement. None if another page supports the fact, so that this one was not needed.
    """
    if page_number == linked_number:
        return _to_judgement(fact_verdict.verdict, fact_verdict.reason)
    # The linked page supports the fact, whatever other page the reply names.
    if linked_number is not None and fact_verdict.verdict == SUPPORTED:
        return None
    if page_number == fact_verdict.page:
        return _to_judgement(SUPPORTED, fact_verdict.reason)
    # Another page that is not linked supports the fact.
    if fact_verdict.page is not None:
        return None
    # No page supports the fact. Only the linked page can contradict it.
    is_irrelevant = fact_verdict.verdict == "irrelevant"
    return _to_judgement("irrelevant" if is_irrelevant else "not_found", fact_verdict.reason)


def _question_about_pages(
    keys: Sequence[PairKey], pairs: Mapping[PairKey, FactPair], linked_keys: Collection[PairKey]
) -> PageQuestion[tuple[PairKey, ...]]:
    """Make the question that asks which of several pages support the facts of a response.

    The prompt shows each page with its passages. Below a page, it lists the facts whose linked page
    this is. Facts without a linked page follow behind all pages. Facts are numbered from 1 in this
    order.

    Args:
        keys: The keys of the pairs to ask about, of one response.
        pairs: The pairs.
        linked_keys: The keys of those pairs whose page is the linked page of the fact.

    Returns:
        The question, with the keys of the pairs of each fact. Its subject is, for a response with
        one page and two facts, ``{"pages": [{"title": "Ada", "facts": [1], ...}],
        "facts_of_no_page": [2], ...}``.
    """
    titles = list(dict.fromkeys(key.entity for key in keys))
    title_by_fact = _linked_title_by_fact(keys, linked_keys)
    # Sorting keeps the order of the facts of a page. Facts without a page (None) come last.
    title_order = [*titles, None]
    facts = sorted(title_by_fact, key=lambda fact: title_order.index(title_by_fact[fact]))

    def fact_numbers(title: str | None) -> list[int]:
        """Return the numbers of the facts below a page, or of those without a page for None."""
        return [
            number for number, fact in enumerate(facts, start=1) if title_by_fact[fact] == title
        ]

    pages = []
    for title in titles:
        evidence = _distinct_passages(pairs[key] for key in keys if key.entity == title)
        page = {
            "title": title,
            "evidence": evidence,
            "passages": without_repeated_beginning(title, evidence),
            "facts": fact_numbers(title),
        }
        pages.append(page)
    subject = page_subject(
        facts,
        # Each passage is shown with its page.
        passages=[],
        pages=pages,
        facts_of_no_page=fact_numbers(None),
        # The variables that describe a response are the same in all its pairs.
        **pairs[keys[0]].prompt_variables,
    )
    keys_by_fact = [tuple(key for key in keys if key.fact == fact) for fact in facts]
    return PageQuestion(keys_by_fact, subject)


def _distinct_passages(pairs: Iterable[FactPair]) -> list[str]:
    """Return the passages of several pairs in order, and those that several facts share once."""
    return list(dict.fromkeys(chain.from_iterable(pair.evidence for pair in pairs)))


def _linked_title_by_fact(
    keys: Sequence[PairKey], linked_keys: Collection[PairKey]
) -> dict[str, str | None]:
    """Return the title of the linked page of each distinct fact in a question.

    Args:
        keys: The keys of the pairs in the question, of one response.
        linked_keys: The keys of those pairs whose page is the linked page of the fact.

    Returns:
        The title by the text of the fact, or None if no page of the question is linked to the fact.
    """
    title_by_fact: dict[str, str | None] = {}
    for key in keys:
        # A fact about two people has two linked pages. The prompt shows it below the first.
        if title_by_fact.get(key.fact) is None:
            title_by_fact[key.fact] = key.entity if key in linked_keys else None
    return title_by_fact


def without_repeated_beginning(title: str, passages: Sequence[str]) -> list[str]:
    """Remove the beginning of a page from the end of the passages that repeat it.

    AmbigBio's passages have 100 words. The last passage of a page is filled up with the beginning
    of the page, which starts with the title.

    Example:
        Of the passages "Ada Lind was born in Sill." and "She sang. Ada Lind was born in", the
        second one becomes "She sang.".

    Args:
        title: The title of the page.
        passages: The passages that are shown together.
    """
    # A page without a title has no beginning that could be recognised.
    if not title:
        return list(passages)
    return [_cut_repeated_ending(passage, title, passages) for passage in passages]


def _cut_repeated_ending(passage: str, title: str, passages: Sequence[str]) -> str:
    """Cut a passage before the last mention of a title if another passage begins with the rest."""
    text, last_title, words_after_title = passage.rpartition(title)
    # A passage that begins with its only title is the beginning of the page itself.
    if not text.strip():
        return passage
    ending = last_title + words_after_title
    for other_passage in passages:
        if other_passage != passage and other_passage.startswith(ending):
            return text.strip()
    return passage


def problem_with_pages(reply: FactsOfPages, subject: Mapping[str, Any]) -> str:
    """Say why a reply about several pages cannot be used.

    A verdict may name a page that does not exist or does not fit the verdict. The reply may also
    have two verdicts on a fact, or one on a fact that does not exist.

    Args:
        reply: The reply.
        subject: The subject of the question, with its ``pages``.

    Returns:
        The problem, such as "fact 2 is supported, with page 4 of 3". Empty if there is none.
    """
    pages = subject["pages"]
    linked_number_by_fact = {}
    for page_number, page in enumerate(pages, start=1):
        # The prompt shows each fact below its linked page.
        for fact_number in page["facts"]:
            linked_number_by_fact[fact_number] = page_number

    for fact_verdict in reply.verdicts:
        linked_number = linked_number_by_fact.get(fact_verdict.number)
        if _names_fitting_page(fact_verdict, linked_number, len(pages)):
            continue
        page_text = "null" if fact_verdict.page is None else f"{fact_verdict.page}"
        problem = (
            f"fact {fact_verdict.number} is {fact_verdict.verdict}, with page {page_text} of"
            f" {len(pages)}"
        )
        # The prompt asks for another page than the linked one, which it calls the fact's own page.
        names_own_page = linked_number is not None and fact_verdict.page == linked_number
        return f"{problem}, its own" if names_own_page else problem
    return check_claim_numbers(reply, subject)


def _names_fitting_page(
    fact_verdict: NumberedFactOfPages, linked_number: int | None, num_pages: int
) -> bool:
    """Return whether the page that a reply names for a fact fits its verdict on the fact.

    A fact with a linked page may have any page if it is supported. Otherwise it has either no page
    or an existing page that is not the linked one. A fact without a linked page has an existing
    page if it is supported, and otherwise none.

    Args:
        fact_verdict: The verdict on the fact with the number of the page, or None for no page.
        linked_number: The number of the fact's linked page, or None if it has none.
        num_pages: The number of pages in the question.
    """
    page_number = fact_verdict.page
    is_supported = fact_verdict.verdict == SUPPORTED
    names_other_page = page_number != linked_number and page_number in range(1, num_pages + 1)
    if linked_number is None:
        # "contradicted, page 1" would not say what page 1 does.
        return names_other_page if is_supported else page_number is None
    return is_supported or page_number is None or names_other_page


def _judge_pairs_by_logprobs(
    judge: Judge, pairs: Mapping[PairKey, FactPair], folder: str
) -> dict[PairKey, Judgement]:
    """Judge each pair by the probabilities of the answers True and False.

    Args:
        judge: The judge.
        pairs: The pairs of a fact and the page of an entity, by their keys.
        folder: The folder of the prompts.
    """
    prompt_variables = [
        {**pair.verification_variables, "choices": TRUE_FALSE} for pair in pairs.values()
    ]
    answers_by_pair = judge.ask(
        f"{folder}/verify_true_false", prompt_variables, _PROGRESS, top_logprobs=TOP_LOGPROBS
    )
    return _majority_judgements(pairs, answers_by_pair, judgement_from_logprobs)


def _majority_judgements(
    pairs: Mapping[PairKey, FactPair],
    samples_by_pair: Iterable[Sequence[SampleT]],
    to_judgement: Callable[[SampleT], Judgement],
) -> dict[PairKey, Judgement]:
    """Combine the samples of each pair by majority, once each is converted to a judgement."""
    judgements = {}
    for (key, pair), samples in zip(pairs.items(), samples_by_pair, strict=True):
        judgements[key] = majority_judgement(pair.evidence, list(map(to_judgement, samples)))
    return judgements


def _judge_pairs_by_page(
    judge: Judge, pairs: Mapping[PairKey, FactPair], folder: str
) -> dict[PairKey, Judgement]:
    """Ask one question about all facts on the same page.

    A fact that the replies leave out is then asked about by itself.

    Args:
        judge: The judge.
        pairs: The pairs of a fact and the page of an entity, by their keys.
        folder: The folder of the prompts.
    """
    judgements: dict[PairKey, Judgement] = {}
    questions = _group_pairs_by_page(judge, pairs)
    prompt_name = f"{folder}/verify_page"
    for answer in ask_by_page(judge, prompt_name, FactsOfPage, questions, _PROGRESS):
        # The judge may have been asked several times, and each sample has a verdict.
        samples = [_to_judgement(sample.verdict, sample.reason) for sample in answer.verdicts]
        # The subject of the question holds the passages that the judge saw.
        evidence = tuple(answer.subject["evidence"])
        judgements[answer.key] = majority_judgement(evidence, samples)

    missing_pairs = {key: pair for key, pair in pairs.items() if key not in judgements}
    return judgements | judge_pairs_singly(judge, missing_pairs, folder)


def _group_pairs_by_page(
    judge: Judge, pairs: Mapping[PairKey, FactPair]
) -> list[PageQuestion[PairKey]]:
    """Make one question about all facts of a response that are verified against the same page.

    The passages of a question are those of all its facts. A passage of several facts is shown once.

    Args:
        judge: The judge, whose context bounds questions.
        pairs: The pairs of a fact and the page of an entity, by their keys.

    Returns:
        The questions, each with the keys of its pairs.
    """

    def page_of(key: PairKey) -> tuple[int, str]:
        """Identify the page of a pair. Responses do not share questions."""
        return key.response, pairs[key].page

    questions = []
    for keys in split_by_page(pairs, page_of, judge.config.fit_context(MAX_CLAIMS_PER_PAGE)):
        pairs_on_page = [pairs[key] for key in keys]
        evidence = _distinct_passages(pairs_on_page)
        # Everything but facts and evidence is the same in all pairs on the page.
        first_pair = pairs_on_page[0]
        subject = page_subject(
            [pair.fact for pair in pairs_on_page],
            first_pair.titled_passages(evidence),
            evidence=evidence,
            shown=without_repeated_beginning(first_pair.entity, evidence),
            **first_pair.page_variables,
        )
        questions.append(PageQuestion(keys, subject))
    return questions


def judge_pairs_singly(
    judge: Judge, pairs: Mapping[PairKey, FactPair], folder: str
) -> dict[PairKey, Judgement]:
    """Judge each pair by a question of its own.

    Args:
        judge: The judge.
        pairs: The pairs of a fact and the page of an entity, by their keys.
        folder: The folder of the prompts.
    """
    prompt_variables = [pair.verification_variables for pair in pairs.values()]
    replies_by_pair = judge.ask_typed(f"{folder}/verify", FactReply, prompt_variables, _PROGRESS)
    return _majority_judgements(pairs, replies_by_pair, reply_to_judgement)


def majority_judgement(evidence: tuple[str, ...], samples: Sequence[Judgement]) -> Judgement:
    """Combine the judgements of several samples of one question by majority.

    Example:
        Of supported, supported and irrelevant, the first one is returned with the score 2/3, the
        share of samples that say supported.

    Args:
        evidence: The passages that the judge saw.
        samples: The judgement of each sample, at least one. Unscored samples do not vote.

    Returns:
        The first judgement with the commonest outcome, with the evidence. It is unscored if no
        sample has a verdict, or if two outcomes are equally common.
    """
    scored = [judgement for judgement in samples if judgement.outcome != UNSCORED]
    if not scored:
        return replace(samples[0], evidence=evidence)
    # A single sample keeps the score that the judge gave it.
    if len(scored) == 1:
        return replace(scored[0], evidence=evidence)

    outcomes = [judgement.outcome for judgement in scored]
    commonest_outcomes = multimode(outcomes)
    # A tie decides nothing.
    if len(commonest_outcomes) > 1:
        return Judgement(UNSCORED, None, f"tie among {len(scored)} samples", evidence)

    first_of_majority = scored[outcomes.index(commonest_outcomes[0])]
    supported_share = outcomes.count(SUPPORTED) / len(scored)
    return replace(first_of_majority, score=supported_share, evidence=evidence)


def reply_to_judgement(reply: ParsedReply[FactReply]) -> Judgement:
    """Convert the judge's reply about one fact to a judgement, unscored if it is unusable."""
    # The reply is missing or has the wrong form.
    if reply.value is None:
        return Judgement(UNSCORED, None, reply.problem)
    return _to_judgement(reply.value.verdict, reply.value.reason, reply.value.probability)


def _to_judgement(verdict: FactVerdict, reason: str, probability: float | None = None) -> Judgement:
    """Make a judgement from a judge's verdict.

    Example:
        "contradicted" and "not_found" both become the outcome ``not_supported``, with
        ``is_contradicted`` True and False.

    Args:
        verdict: The verdict.
        reason: The judge's reason.
        probability: The probability of support that the judge stated, if it stated one.
    """
    support = score_and_reason(probability, verdict == SUPPORTED, reason)
    if verdict == "contradicted" or verdict == "not_found":
        is_contradicted = verdict == "contradicted"
        return Judgement(
            NOT_SUPPORTED, support.score, support.reason, is_contradicted=is_contradicted
        )
    return Judgement(verdict, support.score, support.reason)


def judgement_from_logprobs(answer: Answer) -> Judgement:
    """Read whether a judge that was asked for one word finds True or False more probable.

    Example:
        If the first token is True with the probability 0.6 and False with 0.2, the fact is
        supported with the score 0.75.

    Args:
        answer: The answer, with the log-probabilities of its first token if the server gave them.
            If they cannot be used, the text is read instead, and the reason of the judgement says
            why.
    """
    if answer.text is None:
        return Judgement(UNSCORED, None, f"judge error: {answer.error or 'no text'}")
    text = without_thinking(answer.text)
    if answer.first_token_logprobs is None:
        return _judgement_from_text(text, "no log-probabilities")
    if text != answer.text:
        # The first token then belongs to the thought.
        return _judgement_from_text(text, "a thought comes first")

    # Other words, such as "The", share the rest of the probability.
    true_probability = _word_probability("true", answer.first_token_logprobs)
    false_probability = _word_probability("false", answer.first_token_logprobs)
    total = true_probability + false_probability
    if total == 0:
        return _judgement_from_text(text, "neither word among the most likely")
    score = true_probability / total
    reason = f"by log-probabilities: true {true_probability:.3g}, false {false_probability:.3g}"
    return Judgement(SUPPORTED if score > 0.5 else NOT_SUPPORTED, score, reason)


def _word_probability(word: str, alternatives: Collection[tuple[str, float]]) -> float:
    """Add up the probabilities of all tokens that spell a word.

    Args:
        word: The word in lower case.
        alternatives: Tokens with their natural log-probabilities. "True" and " true" count for
            the same word.
    """
    return math.fsum(
        math.exp(logprob) for token, logprob in alternatives if token.strip(BLANKS).lower() == word
    )


def _judgement_from_text(text: str | None, fallback_reason: str) -> Judgement:
    """Read an answer that should be the word True or False.

    Args:
        text: The answer without thoughts, or None if a thought never ends.
        fallback_reason: Why the text is read and not the probabilities. It becomes part of the
            reason of the judgement.

    Returns:
        Supported for "True", not supported for "False", in any case and with marks such as "**"
        around it. Any other text is unscored.
    """
    source = f"by the text ({fallback_reason})"
    if text is None:
        return Judgement(UNSCORED, None, f"{source}: {UNFINISHED}")
    # Chat models often write "**True**.".
    word = text.strip(_MARKS).lower()
    if word == "true":
        return Judgement(SUPPORTED, 1.0, f"{source}: true")
    if word == "false":
        return Judgement(NOT_SUPPORTED, 0.0, f"{source}: false")
    return Judgement(UNSCORED, None, f"{source}: neither true nor false")
