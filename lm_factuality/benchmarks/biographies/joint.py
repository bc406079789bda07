"""The joint method: one question about a response in place of steps 1, 2 and 4 of D-FActScore.

The judge decomposes the response into facts, says which individual (person) each fact is about, and
names the page that describes the individual. Each fact is then verified against this page (see
`matrix`). `method` asks with the functions of this module.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

from judges.judge import Judge
from judges.lexical.facts import is_adverbial
from judges.typed import ParsedReply, Reply, numbering_problem
from lm_factuality.benchmarks.biographies.decompose import (
    LONGEST_QUOTATION,
    NO_FACTS,
    clean_fact,
    response_paragraphs,
)
from lm_factuality.benchmarks.biographies.generations import passages_by_title
from lm_factuality.benchmarks.biographies.types import (
    Fact,
    GeneratedText,
    JudgedBiography,
)
from lm_factuality.ground.sentences import words_in
from lm_factuality.harness.generation import JsonObject

PROMPT = "biographies/joint"

# A reply repeats the text about two and a half times. With these limits, a question and its reply
# fit into the default context of a judge.
MAX_WORDS_PER_QUESTION = 400
MAX_TOKENS = 3072

# The words of a page that the question shows, to tell whom the page describes.
_LEAD_WORDS = 18


# The schemas of replies, with the docstrings of their classes, are part of the keys of answers.
class SentenceFact(Reply):
    """A fact of a numbered sentence."""

    sentence: int
    fact: str


class IndividualFact(SentenceFact):
    """A fact of a numbered sentence, and the number of the individual that it is about."""

    individual: int


class Individual(Reply):
    """An individual of a text, and the number of the page about it, or null."""

    number: int
    who: str
    reason: str
    page: int | None


class SplitReply(Reply):
    """The facts of a text about one subject."""

    facts: list[SentenceFact]


class JointReply(Reply):
    """The individuals and the facts of a text. The reason says where another one begins."""

    reason: str
    individuals: list[Individual]
    facts: list[IndividualFact]


@dataclass
class _QuestionedResponse:
    """A response about which the judge is asked part by part, with the replies so far."""

    biography: JudgedBiography
    """The response, split into sentences."""

    parts: Sequence[range]
    """The numbers of the sentences of each part, counted from 0."""

    further_variables: JsonObject
    """The variables of its questions that do not depend on the part."""

    individuals: dict[int, Individual] = field(default_factory=dict)
    """The people whom the parts so far describe, by their numbers."""

    individual_by_fact: dict[Fact, int] = field(default_factory=dict)
    """The number of the individual that each fact is about."""

    problem: str | None = None
    """Why a reply cannot be used, and so the response has no facts."""

    def needs_part(self, part_index: int) -> bool:
        """Return whether the judge has to be asked about a part.

        No question is needed if there are fewer parts, or if a reply about an earlier part is
        unusable.
        """
        return part_index < len(self.parts) and self.problem is None

    def prompt_variables(self, part_index: int) -> JsonObject:
        """Return the variables of the question about a part of the response."""
        text = self.biography.generation
        sentences = [
            {"number": index + 1, "text": self.biography.sentences[index]}
            for index in self.parts[part_index]
        ]
        return {
            "kind": "joint",
            "name": text.name,
            "sentences": sentences,
            "pages": [] if self.biography.has_single_subject else page_leads(text),
            "individuals": [individual.model_dump() for individual in self.individuals.values()],
            **self.further_variables,
        }

    def add_reply(self, reply: ParsedReply[JointReply | SplitReply], part_index: int) -> None:
        """Add the facts in the reply about a part, and the people whom it describes.

        Args:
            reply: The reply. If it cannot be used, its problem is added.
            part_index: The number of the part, counted from 0.
        """
        if reply.value is None:
            part = self.parts[part_index]
            location = (
                f"sentences {part.start + 1} to {part.stop} of {len(self.biography.sentences)}"
            )
            self.problem = f"not taken apart: {location}: {reply.problem}"
            return
        if isinstance(reply.value, JointReply):
            for individual in reply.value.individuals:
                # Of several descriptions of an individual, the first one says most.
                self.individuals.setdefault(individual.number, individual)
        self._add_facts(reply.value.facts)

    def _add_facts(self, sentence_facts: Sequence[SentenceFact]) -> None:
        """Add facts with their individuals. All facts about a single subject get individual 0."""
        for sentence_fact in sentence_facts:
            # The question numbers sentences from 1.
            fact = Fact(clean_fact(sentence_fact.fact), sentence_fact.sentence - 1)
            individual = 0
            if isinstance(sentence_fact, IndividualFact):
                individual = sentence_fact.individual
            # If a sentence repeats a fact, the fact keeps its first individual.
            self.individual_by_fact.setdefault(fact, individual)

    def judged_biography(self) -> JudgedBiography:
        """Return the response with its facts, its groups and the pages that the judge named.

        A response that the judge was not asked about is returned unchanged.
        """
        if not self.parts:
            return self.biography
        if self.problem or not self.individual_by_fact:
            return replace(self.biography, problem=self.problem or NO_FACTS)
        facts = sorted(self.individual_by_fact, key=lambda fact: fact.sentence)
        fact_indices_by_individual = defaultdict(list)
        for fact_index, fact in enumerate(facts):
            individual = self.individual_by_fact[fact]
            fact_indices_by_individual[individual].append(fact_index)

        named_pages = tuple(map(self._named_entity, fact_indices_by_individual))
        return replace(
            self.biography,
            facts=tuple(facts),
            groups=tuple(map(tuple, fact_indices_by_individual.values())),
            # A group is linked to the page that the judge named for its individual. Groups without
            # a named page are linked after their facts have been verified.
            links=named_pages,
            named_pages=named_pages,
        )

    def _named_entity(self, individual: int) -> int | None:
        """Return the index of the entity whose page the judge named for an individual, or None."""
        if self.biography.has_single_subject:
            return 0
        # The question numbers pages from 1.
        page = self.individuals[individual].page
        return None if page is None else page - 1


def decompose_and_group(
    judge: Judge,
    biographies: Sequence[JudgedBiography],
    reply_type: type[JointReply] | type[SplitReply],
    variables_of: Callable[[GeneratedText], JsonObject],
) -> list[JudgedBiography]:
    """Ask the judge for the facts, individuals and pages of each response in one question.

    If a response is too long for one question, the judge is asked about one part of it after the
    other. Each question shows the individuals whom the judge found in the earlier parts.

    Example:
        A response of two parts and one of a single part take two calls of the judge: the first asks
        about the first part of both, and the second about the second part of the long response.

    Args:
        judge: The judge to ask.
        biographies: The responses, split into sentences. The judge is not asked about those that
            are no answer.
        reply_type: `SplitReply` if each response is about one subject.
        variables_of: Returns further variables of the prompt about a response.

    Returns:
        The responses with their facts and groups. Both ``links`` and ``named_pages`` are the pages
        that the judge named. A response without a usable reply has a ``problem``.
    """
    max_words = judge.config.fit_context(MAX_WORDS_PER_QUESTION)
    responses = []
    for biography in biographies:
        parts = []
        if biography.is_answer:
            parts = split_into_parts(biography.generation.output, max_words)
        further_variables = variables_of(biography.generation)
        responses.append(_QuestionedResponse(biography, parts, further_variables))

    # The questions about one part of all responses run in parallel. The next part has to wait,
    # since its questions show individuals from the replies.
    num_parts_of_longest = max((len(response.parts) for response in responses), default=0)
    for part_index in range(num_parts_of_longest):
        responses_to_ask = [response for response in responses if response.needs_part(part_index)]
        _ask_about_part(judge, responses_to_ask, part_index, reply_type)
    return [response.judged_biography() for response in responses]


def _ask_about_part(
    judge: Judge,
    responses: Sequence[_QuestionedResponse],
    part_index: int,
    reply_type: type[JointReply] | type[SplitReply],
) -> None:
    """Ask the judge about one part of each response, and add the replies to the responses.

    Args:
        judge: The judge to ask.
        responses: The responses that have such a part.
        part_index: The number of the part, counted from 0.
        reply_type: `SplitReply` if each response is about one subject.
    """
    replies_by_response = judge.ask_typed(
        PROMPT,
        reply_type,
        [response.prompt_variables(part_index) for response in responses],
        description="taking responses apart",
        check=problem_with_reply,
        samples=1,
        max_tokens=judge.config.fit_context(MAX_TOKENS),
    )
    for response, replies in zip(responses, replies_by_response, strict=True):
        # One sample was asked for, so there is one reply.
        (reply,) = replies
        response.add_reply(reply, part_index)


def split_into_parts(output: str, max_words: int = MAX_WORDS_PER_QUESTION) -> list[range]:
    """Split a response into parts that each fit into one question.

    A part begins with a paragraph, unless a paragraph is longer than a part may be.

    Example:
        Two paragraphs of three sentences each, which together are too long, give the parts
        ``range(0, 3)`` and ``range(3, 6)``.

    Args:
        output: The response.
        max_words: The most words of a part. A longer sentence is a part of its own.

    Returns:
        The numbers of the sentences of each part, counted from 0.
    """
    # A unit is never split: it is a paragraph, or a sentence of a paragraph that is too long.
    units: list[list[str]] = []
    for paragraph in response_paragraphs(output):
        if _count_words(paragraph) <= max_words:
            units.append(paragraph)
        else:
            units += [[sentence] for sentence in paragraph]

    parts: list[list[str]] = [[]]
    num_words = 0  # of the last part
    for unit in units:
        num_words_of_unit = _count_words(unit)
        # The unit begins a new part if the last one has no room for it.
        if parts[-1] and num_words + num_words_of_unit > max_words:
            parts.append([])
            num_words = 0
        parts[-1] += unit
        num_words += num_words_of_unit

    ends = accumulate(len(part) for part in parts)
    return [range(end - len(part), end) for part, end in zip(parts, ends, strict=True)]


def _count_words(sentences: Iterable[str]) -> int:
    """Return the number of words of several sentences."""
    return sum(len(words_in(sentence)) for sentence in sentences)


def page_leads(text: GeneratedText) -> list[dict[str, str]]:
    """Return the title of each candidate page, and the words with which it begins.

    Example:
        A page "Ada Lind" with the passage "Ada Lind (1850-1901) was a painter." gives the title
        "Ada Lind" and the lead "(1850-1901) was a painter.".

    Args:
        text: The response with its passages.
    """
    leads = []
    for title, passages in passages_by_title(text).items():
        # The first passage may be from the middle of the page. In many datasets, a page begins with
        # its title, so the words behind the title are the lead if a passage has it.
        texts_after_title = [passage.partition(title)[2] for passage in passages]
        lead = next(filter(None, texts_after_title), passages[0])
        words = lead.lstrip(" \n\"',.:").split()
        leads.append({"title": title, "lead": " ".join(words[:_LEAD_WORDS])})
    return leads


def problem_with_reply(reply: JointReply | SplitReply, prompt_variables: Mapping[str, Any]) -> str:
    """Say why the reply to the joint question cannot be used, for the judge to read.

    Args:
        reply: The reply.
        prompt_variables: The variables of the question.

    Returns:
        The problem, such as "page 4 of 3" or "no individual 2". Empty if the reply is usable.
    """
    sentences = {sentence["number"]: sentence["text"] for sentence in prompt_variables["sentences"]}
    num_words = _count_words(sentences.values())
    # A judge that lists more facts than the text has words repeats itself.
    if len(reply.facts) > num_words:
        return f"{len(reply.facts)} facts of a text of {num_words} words"
    for fact in reply.facts:
        if fact.sentence not in sentences:
            return f"no sentence {fact.sentence}"
        if not clean_fact(fact.fact) or is_adverbial(fact.fact):
            return f"not a whole sentence: {fact.fact[:LONGEST_QUOTATION]!r}"
    if isinstance(reply, SplitReply):
        return ""
    return _problem_with_individuals(reply, prompt_variables)


def _problem_with_individuals(reply: JointReply, prompt_variables: Mapping[str, Any]) -> str:
    """Say what is wrong with the numbers of individuals and pages in a reply, or return "".

    A fact may be about an individual of this reply, or of one about an earlier part of the text.
    """
    new_numbers = [individual.number for individual in reply.individuals]
    problem = numbering_problem(
        new_numbers, max(new_numbers, default=0), "individual", must_be_complete=False
    )
    if problem:
        return problem
    num_pages = len(prompt_variables["pages"])
    for individual in reply.individuals:
        if individual.page is not None and not 1 <= individual.page <= num_pages:
            return f"page {individual.page} of {num_pages}"
    earlier_numbers = [individual["number"] for individual in prompt_variables["individuals"]]
    for fact in reply.facts:
        if fact.individual not in (*earlier_numbers, *new_numbers):
            return f"no individual {fact.individual}"
    return ""
