"""The method of AmbigBio: it judges generated biographies step by step and records the results.

A run of the task and ``lm-factuality judge`` use it. Each step asks the judge about all responses
at once, and at most once about each sentence, each response, and each distinct fact and entity.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

from pydantic import ConfigDict

from judges.judge import Judge
from judges.typed import ParsedReply
from judges.verify import SUPPORTED, UNSCORED
from lm_factuality.benchmarks.asked import Item
from lm_factuality.benchmarks.biographies import joint, people
from lm_factuality.benchmarks.biographies.decompose import (
    MAX_GROUPING_TOKENS,
    NO_FACTS,
    FactsReply,
    GroupsReply,
    grouping_variables,
    is_abstention,
    problem_with_facts,
    problem_with_groups,
    reply_to_facts,
    reply_to_groups,
    response_sentences,
    select_demonstrations,
)
from lm_factuality.benchmarks.biographies.generations import (
    DOCUMENTS,
    generation_from_doc,
    has_only_cited_passages,
    passages_by_title,
)
from lm_factuality.benchmarks.biographies.link import link_groups
from lm_factuality.benchmarks.biographies.matrix import (
    PAGES_PROMPT,
    FactPair,
    PairKey,
    judge_linked_pages_first,
    judge_pairs,
    pair_facts_with_pages,
    tells_contradictions,
)
from lm_factuality.benchmarks.biographies.scores import (
    SCORES,
    count_responses,
    linked_entity_by_fact,
    row_metrics,
    score_biography,
    unscored_reason,
)
from lm_factuality.benchmarks.biographies.types import (
    Fact,
    GeneratedText,
    JudgedBiography,
    Judgement,
    Linking,
    biography_from_record,
    biography_to_record,
)
from lm_factuality.benchmarks.declaration import Score
from lm_factuality.benchmarks.judged import JudgedMethod, count_reasons
from lm_factuality.ground.errors import ConfigError
from lm_factuality.ground.groups import split_into_groups
from lm_factuality.ground.packages import load_yaml
from lm_factuality.ground.settings import read_settings
from lm_factuality.ground.thinking import UNFINISHED, without_thinking
from lm_factuality.harness.generation import Doc, Docs, JsonObject, Responses, Verdict
from lm_factuality.retrieval.knowledge import Knowledge

NO_SENTENCES = "no sentences"
# The judgement by a page of a fact that another page is known to support.
NOT_ASKED = Judgement(UNSCORED, None, "not asked: another page supports the fact")
# The score of a supported fact may differ by this much from 1, that of another fact from 0.
_MAX_SCORE_DISTANCE = 0.9
DOCUMENTS_CAUTION = (
    "Facts were held against the passages of each response alone, so a true fact that they do not"
    " state lowers both scores: the score no_evidence has the share of such facts, and knowledge="
    "FILE takes whole pages instead."
)
_VERIFYING = ("verify", "verify_page", "verify_true_false")


@runtime_checkable
class Pages(Protocol):
    """Pages by title: a knowledge source, or people's documents."""

    @property
    def identity(self) -> str:
        """Digits that identify the content in results."""

    def passages(self, title: str) -> list[str] | None:
        """Return the passages of the page with a title, or None if there is none."""


@dataclass(frozen=True)
class AmbigBio(JudgedMethod):
    """Judges biographies of people who share their names.

    A document has the fields of `GeneratedText` except ``output``, and one response. Its record is
    that of a judged biography with ``index``, ``name``, ``scores`` and ``unscored``.
    """

    __pydantic_config__ = ConfigDict(arbitrary_types_allowed=True)

    method: Literal["joint", "stepwise"] = "stepwise"
    """Whether one question covers facts, groups and links, or each step has its own questions."""

    pages: Pages | None = None
    """The pages that facts are verified against.

    If None, these are the passages that the model was given.
    """

    linking: Linking = "greedy"
    """How fact groups are linked to entities, see `link_groups`."""

    protocol: Literal["paper", "code"] = "paper"
    """``code`` follows the authors' code where it differs from the paper.

    Ties between entities go to the alphabetically first title, and the first fact of a response is
    in no group.
    """

    facts: Literal["standalone", "as_written"] = "as_written"
    """Whether facts name the person that they describe, or keep the words of the response."""

    knowledge: str = DOCUMENTS
    """The name of the pages in results."""

    name = "ambigbio"
    required_kinds = ("decompose", "group", "verify")
    document_model: ClassVar[type] = GeneratedText
    scores: ClassVar[Sequence[Score]] = SCORES
    added_keys = ("judged_against",)

    folder: ClassVar[str] = "biographies"
    """The folder of the prompts."""

    noun: ClassVar[str] = "person"
    """What people who answer in the judge's place call an entity."""

    def __post_init__(self) -> None:
        """Refuse settings that exclude each other."""
        if self.method == "joint" and self.linking == "hungarian":
            raise ConfigError(
                "metadata: the joint method takes the pages that the judge names, but linking"
                " hungarian chooses pages by support; use method=stepwise or linking=greedy"
            )

    @property
    def prompt_names(self) -> Sequence[str]:
        """The names of all prompts that the judge may be asked with."""
        verifying = [f"{self.folder}/{step}" for step in _VERIFYING]
        if self.method == "joint":
            return [joint.PROMPT, PAGES_PROMPT, *verifying]
        return [f"{self.folder}/decompose", f"{self.folder}/group", *verifying]

    @property
    def recorded_settings(self) -> JsonObject:
        """The settings that can change a score, by their names in a task's metadata."""
        return {
            "method": self.method,
            "knowledge": self.knowledge,
            "knowledge_identity": self.pages and self.pages.identity,
            "linking": self.linking,
            "facts": self.facts,
            "protocol": self.protocol,
        }

    def document_problem(self, doc: Doc, responses: Sequence[str]) -> str | None:
        """Return what is wrong with a document or its responses, or None if nothing is."""
        # The model of documents has an output, which comes from the responses here.
        return super().document_problem({**doc, "output": ""}, responses)

    def judge(self, judge: Judge, docs: Docs, responses: Responses) -> list[Verdict]:
        """Judge the response to each document, and return the record of each.

        Args:
            judge: The judge to ask.
            docs: The documents of the task.
            responses: For each document a list with its only response.
        """
        texts = [
            generation_from_doc(doc, response)
            for doc, (response,) in zip(docs, responses, strict=True)
        ]
        return list(map(self.make_record, self.judge_texts(judge, texts)))

    def judge_texts(self, judge: Judge, texts: Sequence[GeneratedText]) -> list[JudgedBiography]:
        """Find the facts, groups, judgements and linked entities of generated biographies.

        Raises:
            BackendDownError: The judge cannot be reached. Answers received so far stay in its
                store.
            DataError: The store of answers cannot be used.
        """
        # Every step asks about all biographies at once, so that requests run in parallel.
        biographies = [self.prepare(text) for text in texts]
        if self.method == "joint":
            biographies = self.decompose_and_group(judge, biographies)
        else:
            biographies = self.decompose(judge, biographies)
            biographies = self.group(judge, biographies)
        biographies = self.verify(judge, biographies)
        return list(map(self.link, biographies))

    def unscored_record(self, doc: Doc, responses: Sequence[str], reason: str) -> Verdict:
        """Return the record of a response that could not be judged.

        Args:
            doc: The document.
            responses: Its only response.
            reason: Why there is no verdict. It is not used if the response needs none, for example
                because the model declined to answer.
        """
        prepared = self.prepare(generation_from_doc(doc, responses[0]))
        # An abstention is scored without a judge.
        if prepared.is_answer:
            prepared = replace(prepared, problem=reason)
        return self.make_record(prepared)

    def prompt_variables(self, text: GeneratedText) -> JsonObject:
        """Return the variables that describe a response in every prompt, besides its name.

        There are none here. Methods for other texts override this.
        """
        return {}

    def evidence_kind(self, text: GeneratedText) -> str:
        """Say against what evidence the facts of a response are verified.

        Returns:
            ``knowledge source``, or if there is none, what the model was given: ``retrieved
            passages``, ``no passages``, or ``cited passages`` if the file keeps no others.
        """
        if self.pages is not None:
            return "knowledge source"
        if not text.passages:
            return "no passages"
        return "cited passages" if has_only_cited_passages(text) else "retrieved passages"

    def prepare(self, text: GeneratedText) -> JudgedBiography:
        """Split a response into sentences before the judge is asked about it.

        Returns:
            The response without facts. It is marked as an abstention if the model declined, and has
            a ``problem`` if there is nothing to judge.
        """
        prepared = JudgedBiography(
            generation=text,
            sentences=(),
            facts=(),
            groups=(),
            entities=text.entities,
            matrix=(),
            links=(),
            judged_against=self.evidence_kind(text),
        )
        # The model was cut off before it began to answer.
        if without_thinking(text.output) is None:
            return replace(prepared, problem=UNFINISHED)
        sentences = response_sentences(text.output)
        abstained = is_abstention(text.output)
        problem = None if sentences or abstained else NO_SENTENCES
        return replace(prepared, sentences=sentences, abstained=abstained, problem=problem)

    def decompose_and_group(
        self, judge: Judge, biographies: Sequence[JudgedBiography]
    ) -> list[JudgedBiography]:
        """Ask the judge for facts, fact groups and pages in one question (the joint method).

        Args:
            judge: The judge to ask.
            biographies: The responses, split into sentences by `prepare`.

        Returns:
            The responses with their facts, with a fact group for each person whom they describe,
            and with the page that the judge named for each group in ``links``.
        """
        reply_type = joint.JointReply if self.has_namesakes else joint.SplitReply
        grouped = joint.decompose_and_group(judge, biographies, reply_type, self.joint_variables)
        return self._follow_protocol(grouped)

    def _follow_protocol(self, grouped: list[JudgedBiography]) -> list[JudgedBiography]:
        """Lose the first fact of each response, as the authors' code does when it reads groups."""
        if self.protocol == "code":
            return [_drop_first_fact(biography) for biography in grouped]
        return grouped

    def joint_variables(self, text: GeneratedText) -> JsonObject:
        """Return the variables of the joint question that do not depend on the response's text."""
        return {
            "standalone": self.facts == "standalone",
            "namesakes": self.has_namesakes,
            "noun": self.noun,
            **self.prompt_variables(text),
        }

    @property
    def has_namesakes(self) -> bool:
        """Whether a response may be about several people, so that facts are grouped by person."""
        return True

    def decompose(
        self, judge: Judge, biographies: Sequence[JudgedBiography]
    ) -> list[JudgedBiography]:
        """Ask the judge for the atomic facts of each sentence (step 1).

        Args:
            judge: The judge to ask.
            biographies: The responses, split into sentences by `prepare`.

        Returns:
            The responses with their facts. If one sentence cannot be decomposed, the whole response
            has a ``problem`` and no facts, since every score would lack the facts of the sentence.
        """
        replies_by_sentence = judge.ask_typed(
            f"{self.folder}/decompose",
            FactsReply,
            self.decomposing_variables(biographies),
            description="decomposing sentences",
            check=problem_with_facts,
            samples=1,
        )
        # One sample was asked for, so there is one reply about each sentence.
        replies = [reply for (reply,) in replies_by_sentence]
        # The judge was only asked about the sentences of answers.
        num_replies = [
            len(biography.sentences) if biography.is_answer else 0 for biography in biographies
        ]
        replies_by_response = split_into_groups(replies, num_replies)
        return [
            _add_facts(biography, replies_of_response)
            for biography, replies_of_response in zip(biographies, replies_by_response, strict=True)
        ]

    def decomposing_variables(self, biographies: Sequence[JudgedBiography]) -> list[JsonObject]:
        """Return the variables of the prompt about each sentence of each response.

        Args:
            biographies: The responses, split into sentences by `prepare`. Those that are no answer
                are left out.
        """
        prompt_variables = []
        for biography in biographies:
            if not biography.is_answer:
                continue
            for sentence_index, sentence in enumerate(biography.sentences):
                variables = {
                    "kind": "decompose",
                    "name": biography.generation.name,
                    "standalone": self.facts == "standalone",
                    "sentence": sentence,
                    # The sentences before it say whom a pronoun stands for.
                    "text": " ".join(biography.sentences[:sentence_index]),
                    "demonstrations": select_demonstrations(sentence),
                    **self.prompt_variables(biography.generation),
                }
                prompt_variables.append(variables)
        return prompt_variables

    def group(self, judge: Judge, biographies: Sequence[JudgedBiography]) -> list[JudgedBiography]:
        """Ask the judge to group the facts of each response by the person they describe (step 2).

        The judge is not asked about a single fact, nor about a response with a single subject. All
        facts are then one group.

        Args:
            judge: The judge to ask.
            biographies: The responses with their facts.

        Returns:
            The responses with their fact groups, or with the reason why they could not be grouped.
        """
        subjects = [
            {**grouping_variables(biography), **self.prompt_variables(biography.generation)}
            for biography in biographies
            if _needs_grouping(biography)
        ]
        replies = judge.ask_typed(
            f"{self.folder}/group",
            GroupsReply,
            subjects,
            "grouping facts",
            check=problem_with_groups,
            samples=1,
            max_tokens=judge.config.fit_context(MAX_GROUPING_TOKENS),
        )

        # There is one reply for each response that needs grouping, in the order of the responses.
        remaining_replies = chain.from_iterable(replies)
        grouped = []
        for biography in biographies:
            if _needs_grouping(biography):
                grouped.append(_add_groups(biography, next(remaining_replies)))
            else:
                grouped.append(group_together(biography))
        return self._follow_protocol(grouped)

    def verify(self, judge: Judge, biographies: Sequence[JudgedBiography]) -> list[JudgedBiography]:
        """Ask the judge whether the page of each entity supports each fact (step 3).

        Args:
            judge: The judge to ask. It is not asked about an entity without a page, which supports
                no fact.
            biographies: The responses with their facts.

        Returns:
            The responses with their matrix of judgements.
        """
        judge_tells = tells_contradictions(judge)
        biographies = [
            replace(biography, tells_contradictions=judge_tells) for biography in biographies
        ]
        is_joint = self.method == "joint"
        if is_joint and self.has_namesakes:
            return self._verify_by_linked_pages(judge, biographies)
        pairs = self.pairs_by_key(biographies)
        judgements = judge_pairs(judge, pairs, self.folder, by_page=is_joint)
        return _add_matrices(biographies, judgements)

    def _verify_by_linked_pages(
        self, judge: Judge, biographies: Sequence[JudgedBiography]
    ) -> list[JudgedBiography]:
        """Verify each fact by the page that its group is linked to, then by other pages.

        Args:
            judge: The judge to ask.
            biographies: The responses with their facts and groups. Each group is linked to the page
                that the judge named for it, or to none.
        """
        pairs = self.pairs_by_key(biographies)
        pairs_with_named_page = _keys_of_linked_pages(biographies)
        judgements = judge_linked_pages_first(judge, pairs, pairs_with_named_page, self.folder)
        verified = _add_matrices(biographies, judgements)

        # Groups without a named page are now linked to the page that supports most of their facts.
        linked = list(map(self.link, verified))
        pairs_with_linked_page = _keys_of_linked_pages(linked)
        if pairs_with_linked_page == pairs_with_named_page:
            return verified
        # D-FActScore needs the judgement of each fact by its linked page. The judge was not asked
        # about a newly linked page if another page supports the fact.
        judgements = judge_linked_pages_first(judge, pairs, pairs_with_linked_page, self.folder)
        return _add_matrices(biographies, judgements)

    def pairs_by_key(self, biographies: Sequence[JudgedBiography]) -> dict[PairKey, FactPair]:
        """Return the pairs of facts and pages of several responses.

        Args:
            biographies: The responses. Those without facts are skipped.
        """
        pairs: dict[PairKey, FactPair] = {}
        for response_index, biography in enumerate(biographies):
            # Looking up the pages of a response without facts would only take time.
            if not biography.facts:
                continue
            for pair in self.fact_pairs(biography):
                pairs[PairKey(response_index, pair.fact, pair.entity)] = pair
        return pairs

    def fact_pairs(self, biography: JudgedBiography) -> list[FactPair]:
        """Return the pairs of facts and pages of one response."""
        # Without a file of pages, the judge sees what the model was given.
        given_pages = passages_by_title(biography.generation)
        find_page = given_pages.get if self.pages is None else self.pages.passages
        pairs = pair_facts_with_pages(biography.facts, biography.entities, find_page)
        variables = self.prompt_variables(biography.generation)
        return [replace(pair, prompt_variables=variables) for pair in pairs]

    def link(self, biography: JudgedBiography) -> JudgedBiography:
        """Link each fact group of a verified response to an entity (step 4).

        In the joint method, a group is linked to the page that the judge has named for it. Other
        groups are linked to the page that supports most of their facts.
        """
        links = link_groups(
            biography.groups, biography.entities, biography.matrix, self.linking, self.protocol
        )
        if biography.named_pages is not None:
            links = tuple(
                by_support if named is None else named
                for named, by_support in zip(biography.named_pages, links, strict=True)
            )
        return replace(biography, links=links)

    def make_record(self, biography: JudgedBiography) -> Verdict:
        """Return the record of a judged response: its scores, and everything they follow from."""
        scores = score_biography(biography, self.protocol)
        return {
            "index": biography.generation.index,
            "name": biography.generation.name,
            "unscored": unscored_reason(biography, scores),
            "scores": scores,
            "protocol": self.protocol,
            "linking": self.linking,
            **biography_to_record(biography),
        }

    def row_metrics(self, doc: Doc, record: Verdict) -> JsonObject:
        """Return the values that a record adds to the mean of each metric."""
        return row_metrics(record)

    def check_record(self, doc: Doc, record: Verdict) -> None:
        """Raise an error if parts of a record contradict each other.

        A response that is no abstention has either facts or a reason for having none, each fact
        once. If its facts could be grouped, each is in exactly one group.

        Args:
            doc: The document of the record. It is not needed.
            record: The record.

        Raises:
            ValueError: No judge can have produced the record. The message says why.
        """
        biography = biography_from_record(record)
        has_facts = bool(biography.facts)
        has_problem = bool(biography.problem)
        if has_facts == has_problem and not biography.abstained:
            raise ValueError("expected either facts or a reason why it has none")
        # When a reply is read, repeated facts of a sentence are dropped.
        if len(set(biography.facts)) < len(biography.facts):
            raise ValueError("a fact is there twice")
        _check_judgements(biography)

        # Without a usable reply about groups, no fact is in a group.
        if biography.ungrouped is not None:
            if biography.groups:
                raise ValueError("it has groups and a reason why it has none")
            return
        grouped_facts = sorted(chain.from_iterable(biography.groups))
        # Facts are numbered from 0. Under the protocol "code", the first one is in no group, since
        # the authors' code loses it.
        first_grouped_fact = 1 if self.protocol == "code" else 0
        if grouped_facts != list(range(first_grouped_fact, len(biography.facts))):
            raise ValueError("its groups do not hold each fact once")

    def rebuild_record(self, doc: Doc, responses: Sequence[str], record: Verdict) -> Verdict:
        """Compute the record of a response again, to check that its scores follow from decisions.

        Only what the judge decided is taken from the old record: facts, groups, named pages and
        judgements. Sentences and candidate entities are read from the response again, and links and
        scores are computed from all this.

        Args:
            doc: The document.
            responses: Its only response.
            record: The old record of the response.
        """
        biography = biography_from_record(record)
        prepared = self.prepare(generation_from_doc(doc, responses[0]))
        # The judge decides nothing about an abstention, whatever the record says.
        if not prepared.is_answer:
            # Whoever computes the record again may not have the knowledge source.
            return self.make_record(replace(prepared, judged_against=biography.judged_against))
        with_decisions = replace(
            biography,
            generation=prepared.generation,
            sentences=prepared.sentences,
            entities=prepared.entities,
            abstained=False,
        )
        return self.make_record(self.link(with_decisions))

    def people_items(self, doc: Doc, record: Verdict, response: str) -> list[Item]:
        """Return the questions that people answer in the judge's place."""
        return people.items_for_people(biography_from_record(record), self.noun)

    def relabel_record(self, doc: Doc, record: Verdict, answers: Sequence[str]) -> Verdict:
        """Compute a record again with the answers of people in the judge's place.

        Args:
            doc: The document.
            record: The record of the judge.
            answers: The answers of people, one for each question of `items_for_people`, in order.
        """
        biography = biography_from_record(record)
        items = people.items_for_people(biography, self.noun)
        # Answers come without ids and are matched to the questions by position.
        answer_by_id = {item.id: answer for item, answer in zip(items, answers, strict=True)}
        relabelled = people.apply_answers(biography, answer_by_id, self.protocol, self.link)
        return self.make_record(relabelled)

    def summary_counts(self, docs: Docs, records: Sequence[Verdict]) -> JsonObject:
        """Return the counts and settings that results state besides the scores."""
        return {
            **super().summary_counts(docs, records),
            **count_responses(records),
            # Records of earlier versions do not say it.
            "judged_against": count_reasons(
                record.get("judged_against") or None for record in records
            ),
            "evidence": "" if self.pages is not None else DOCUMENTS_CAUTION,
            "contradictions": _caution_about_contradictions(records),
            "settings": self.recorded_settings,
            "choices": load_yaml(__package__, "choices.yaml")["judged"][self.protocol],
        }


AMBIGBIO = AmbigBio()


def method_from_metadata(metadata: Mapping[str, Any]) -> AmbigBio:
    """Make the method with the settings of a run.

    Args:
        metadata: The metadata of the task. ``knowledge`` is the path of a file of pages, or
            "documents" for the passages that the model was given.

    Raises:
        ConfigError: A setting is wrong.
        DataError: The file of pages cannot be used.
    """
    source = str(metadata.get("knowledge") or DOCUMENTS)
    pages = None if source == DOCUMENTS else Knowledge(Path(source))
    # Results name the file without its folder, which differs between machines.
    settings = {**metadata, "pages": pages, "knowledge": Path(source).name}
    return read_settings(AmbigBio, settings, "metadata")


def _caution_about_contradictions(records: Sequence[Verdict]) -> str:
    """Say why two scores are missing, or return an empty text if they are not."""
    if all(record.get("tells_contradictions", True) for record in records):
        return ""
    return (
        "The judge only says whether a page supports a fact, so contradicted and no_evidence have"
        " no value."
    )


def _keys_of_linked_pages(biographies: Sequence[JudgedBiography]) -> set[PairKey]:
    """Return the keys of all pairs of a fact and the page that its group is linked to."""
    keys = set()
    for response_index, biography in enumerate(biographies):
        for fact_index, entity_index in linked_entity_by_fact(biography).items():
            if entity_index is not None:
                fact_text = biography.facts[fact_index].text
                title = biography.entities[entity_index]
                keys.add(PairKey(response_index, fact_text, title))
    return keys


def _add_matrices(
    biographies: Sequence[JudgedBiography], judgements: Mapping[PairKey, Judgement]
) -> list[JudgedBiography]:
    """Add to each response its matrix, with a row for each fact and a column for each entity.

    Args:
        biographies: The responses with their facts.
        judgements: The judgements of pairs of a fact and a page. The joint method leaves pairs out
            that no score needs.
    """
    verified = []
    for response_index, biography in enumerate(biographies):
        matrix = []
        for fact in biography.facts:
            keys = [PairKey(response_index, fact.text, entity) for entity in biography.entities]
            matrix.append(tuple(judgements.get(key, NOT_ASKED) for key in keys))
        verified.append(replace(biography, matrix=tuple(matrix)))
    return verified


def _add_facts(
    biography: JudgedBiography, replies: Sequence[ParsedReply[FactsReply]]
) -> JudgedBiography:
    """Add the facts in a judge's replies to a response, or the ``problem`` with a reply.

    Args:
        biography: The response. If it is no answer, it is returned as it is.
        replies: The reply about each sentence of an answer.
    """
    if not biography.is_answer:
        return biography
    facts: list[Fact] = []
    for sentence_index, reply in enumerate(replies):
        # Without the facts of this sentence, all scores of the response would be incomplete.
        if reply.value is None:
            location = f"sentence {sentence_index + 1} of {len(replies)}"
            return replace(biography, problem=f"not decomposed: {location}: {reply.problem}")
        facts += [Fact(text, sentence_index) for text in reply_to_facts(reply.value)]
    return replace(biography, facts=tuple(facts), problem=None if facts else NO_FACTS)


def _add_groups(biography: JudgedBiography, reply: ParsedReply[GroupsReply]) -> JudgedBiography:
    """Add the groups in a judge's reply to a response, or the reason why there are none."""
    if reply.value is None:
        return replace(biography, groups=(), ungrouped=reply.problem)
    return replace(biography, groups=reply_to_groups(reply.value))


def _needs_grouping(biography: JudgedBiography) -> bool:
    """Return whether a response has several facts, which may be about several people."""
    return len(biography.facts) > 1 and not biography.has_single_subject


def group_together(biography: JudgedBiography) -> JudgedBiography:
    """Take all facts of a response as one group. A response without facts has no group."""
    all_facts = tuple(range(len(biography.facts)))
    return replace(biography, groups=(all_facts,) if all_facts else ())


def _drop_first_fact(biography: JudgedBiography) -> JudgedBiography:
    """Remove the first fact of a response from its group, since the authors' code loses it.

    Their code splits a reply with groups at each "- ", which does not find the first fact. It
    counts a group that is then empty, so such a group stays.
    """
    groups = [tuple(fact for fact in group if fact != 0) for group in biography.groups]
    return replace(biography, groups=tuple(groups))


def _check_judgements(biography: JudgedBiography) -> None:
    """Check that scores agree with their outcomes, and that equal facts have equal judgements.

    Raises:
        ValueError: A score contradicts its outcome, or facts with the same text have different
            judgements.
    """
    row_by_text: dict[str, tuple[Judgement, ...]] = {}
    for fact, row in zip(biography.facts, biography.matrix, strict=True):
        # A judge is asked about each distinct text once.
        if row_by_text.get(fact.text, row) != row:
            raise ValueError("facts of the same text have different judgements")
        row_by_text[fact.text] = row
        for judgement in row:
            if not _has_plausible_score(judgement):
                raise ValueError(
                    f"a fact is {judgement.outcome}, but its score is {judgement.score}"
                )


def _has_plausible_score(judgement: Judgement) -> bool:
    """Return whether the score of a judgement fits its outcome.

    The score of a supported fact is at least 0.1, and that of a fact that is not supported or is
    irrelevant is at most 0.9. An unscored fact has no score.
    """
    if judgement.outcome == UNSCORED or judgement.score is None:
        return judgement.outcome == UNSCORED and judgement.score is None
    expected_score = 1 if judgement.outcome == SUPPORTED else 0
    return abs(judgement.score - expected_score) <= _MAX_SCORE_DISTANCE
