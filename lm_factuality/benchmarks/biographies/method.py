"""The method in order, for many responses at once, as a run and ``lm-factuality judge`` use it.

A step asks everything that it has to ask of all of them together, and a judge at most once about
each sentence, each response and each distinct fact with each entity, for all scores.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import ConfigDict

from judges.judge import Judge, Plan
from judges.lexical.facts import split_facts
from judges.typed import ParsedReply
from judges.verify import SUPPORTED, UNSCORED
from lm_factuality.benchmarks.asked import Item
from lm_factuality.benchmarks.biographies import people
from lm_factuality.benchmarks.biographies.decompose import (
    MAX_GROUPING_TOKENS,
    FactsReply,
    Groups,
    GroupsReply,
    check_facts,
    check_groups,
    grouping_subject,
    is_abstention,
    reply_to_facts,
    reply_to_groups,
    response_sentences,
    select_demonstrations,
)
from lm_factuality.benchmarks.biographies.generations import (
    DOCUMENTS,
    generation_from_doc,
    passages_by_title,
)
from lm_factuality.benchmarks.biographies.link import link_groups
from lm_factuality.benchmarks.biographies.matrix import (
    FactPair,
    PairKey,
    judge_pairs,
    judge_pairs_singly,
    pair_facts_with_pages,
)
from lm_factuality.benchmarks.biographies.scores import (
    SCORES,
    count_responses,
    row_metrics,
    score_biography,
    unscored_reason,
)
from lm_factuality.benchmarks.biographies.types import (
    SINGLE_SUBJECT,
    Fact,
    GeneratedText,
    JudgedBiography,
    biography_from_record,
    biography_to_record,
)
from lm_factuality.benchmarks.declaration import Score
from lm_factuality.benchmarks.judged import JudgedMethod
from lm_factuality.ground.packages import load_yaml
from lm_factuality.ground.settings import read_settings
from lm_factuality.ground.thinking import UNFINISHED, without_thinking
from lm_factuality.harness.generation import Doc, Docs, JsonObject, Responses, Verdict
from lm_factuality.retrieval.knowledge import Knowledge

NO_SENTENCES = "no sentences"
NO_FACTS = "no facts in any sentence"
_FARTHEST = 0.9  # that a score can be from 1 of a supported fact, or from 0 of another one


@dataclass(frozen=True)
class AmbigBio(JudgedMethod):
    """Biographies of ambiguous names.

    A document has ``index``, ``question``, ``name`` and ``passages`` (each with ``title`` and
    ``text``), and one response. A record is that of ``types`` with ``index``, ``name``, ``scores``
    (None without facts) and ``unscored``. ``verdicts`` and ``verify`` of the judge's config say by
    which prompt facts are verified.
    """

    __pydantic_config__ = ConfigDict(arbitrary_types_allowed=True)

    pages: Knowledge | None = None
    """Where facts are verified. None for the passages that each response was given."""

    linking: Literal["greedy", "hungarian"] = "greedy"
    protocol: Literal["paper", "code"] = "paper"
    """``code`` for the authors' choices: ties of entities go to the first title in the alphabet,
    and the first fact of a response is in no group."""

    facts: Literal["standalone", "as_written"] = "standalone"
    """Whether each fact names whom it is about, or keeps the words of the response."""

    knowledge: str = DOCUMENTS
    """What results call the pages."""

    name = "ambigbio"
    required_kinds = ("decompose", "group", "verify")
    document_model: ClassVar[type] = GeneratedText
    scores: ClassVar[Sequence[Score]] = SCORES

    folder: ClassVar[str] = "biographies"
    """The folder of the prompts."""

    noun: ClassVar[str] = "person"
    """What the entities are."""

    @property
    def prompt_names(self) -> Sequence[str]:
        steps = ("decompose", "group", "verify", "verify_page", "verify_true_false")
        return [f"{self.folder}/{step}" for step in steps]

    @property
    def recorded_settings(self) -> JsonObject:
        """The settings that can change a score, as a task's metadata have them."""
        return {
            "knowledge": self.knowledge,
            "knowledge_identity": self.pages and self.pages.identity,
            "linking": self.linking,
            "facts": self.facts,
            "protocol": self.protocol,
        }

    def document_problem(self, doc: Doc, responses: Sequence[str]) -> str | None:
        return super().document_problem({**doc, "output": ""}, responses)

    def judge(self, judge: Judge, docs: Docs, responses: Responses) -> list[Verdict]:
        texts = [
            generation_from_doc(doc, text) for doc, (text,) in zip(docs, responses, strict=True)
        ]
        return [self.make_record(judged) for judged in self.judge_texts(judge, texts)]

    def judge_texts(self, judge: Judge, texts: Sequence[GeneratedText]) -> list[JudgedBiography]:
        """Find the facts, groups, judgements and links of each text.

        Raises:
            BackendDownError, DataError: As ``Judge.ask`` raises them. Nothing that was answered is
                lost.
        """
        judged = [self.prepare(text) for text in texts]
        for step in (self.decompose, self.group, self.verify):
            judged = step(judge, judged)
        return [self.link(biography) for biography in judged]

    def plan_questions(
        self, judge: Judge, docs: Docs, responses: Responses
    ) -> list[tuple[str, Plan]]:
        """Plan the steps.

        The facts are known of responses that the judge has taken apart already. Of the others the
        second and the third step are planned on the facts that rules find, of which a model may
        find more.
        """
        begun = []
        for doc, (text,) in zip(docs, responses, strict=True):
            judged = self.prepare(generation_from_doc(doc, text))
            if judged.is_answer:
                begun.append(judged)
        likely = []
        for judged in self.decompose(judge.offline_copy(), begun):
            facts = []
            for number, sentence in enumerate(judged.sentences):
                facts += [Fact(text, number) for text in split_facts(sentence)]
            likely.append(judged if judged.facts else replace(judged, facts=tuple(facts)))
        verifying = judge.plan(partial(self.verify, judged=likely))
        if judge.config.verify == "page":
            # A reply may leave out every fact.
            pairs = self.pairs_by_key(likely)
            asked = {key: pair for key, pair in pairs.items() if pair.preset_judgement is None}
            singly = judge.plan(partial(judge_pairs_singly, pairs=asked, folder=self.folder))
            verifying = replace(
                verifying,
                estimate_with_retries=verifying.estimate_with_retries
                + singly.estimate_with_retries,
            )
        return [
            ("decomposing", judge.plan(partial(self.decompose, judged=begun))),
            ("grouping", judge.plan(partial(self.group, judged=likely))),
            ("verifying", verifying),
        ]

    def unscored_record(self, doc: Doc, responses: Sequence[str], reason: str) -> Verdict:
        begun = self.prepare(generation_from_doc(doc, responses[0]))
        return self.make_record(replace(begun, problem=reason) if begun.is_answer else begun)

    def prompt_variables(self, text: GeneratedText) -> JsonObject:
        """Return what prompts say of a response besides its name."""
        return {}

    def prepare(self, text: GeneratedText) -> JudgedBiography:
        """Return a response before it is judged: its sentences, or why it has none."""
        begun = JudgedBiography(text, (), (), (), text.entities, (), ())
        if without_thinking(text.output) is None:
            return replace(begun, problem=UNFINISHED)
        sentences = response_sentences(text.output)
        abstained = is_abstention(text.output)
        problem = None if sentences or abstained else NO_SENTENCES
        return replace(begun, sentences=sentences, abstained=abstained, problem=problem)

    def decompose(self, judge: Judge, judged: Sequence[JudgedBiography]) -> list[JudgedBiography]:
        """Add the facts of each response that is an answer, or the problem why there are none.

        One sentence that could not be taken apart leaves the whole response without, for its facts
        would be missing from every score.
        """
        asked = judge.ask_typed(
            f"{self.folder}/decompose",
            FactsReply,
            self.sentence_subjects(judged),
            "decomposing sentences",
            check_facts,
            samples=1,
        )
        replies = (reply for (reply,) in asked)
        return [
            _with_facts(biography, [next(replies) for _ in biography.sentences])
            if biography.is_answer
            else biography
            for biography in judged
        ]

    def sentence_subjects(self, judged: Sequence[JudgedBiography]) -> list[JsonObject]:
        """Return what the decomposing prompt is about, for every sentence of every answer."""
        subjects = []
        for biography in judged:
            if not biography.is_answer:
                continue
            for number, sentence in enumerate(biography.sentences):
                subject = {
                    "kind": "decompose",
                    "name": biography.generation.name,
                    "standalone": self.facts == "standalone",
                    "sentence": sentence,
                    "text": " ".join(biography.sentences[:number]),
                    "demonstrations": select_demonstrations(sentence),
                    **self.prompt_variables(biography.generation),
                }
                subjects.append(subject)
        return subjects

    def group(self, judge: Judge, judged: Sequence[JudgedBiography]) -> list[JudgedBiography]:
        """Add the groups of each response that has facts, or why there are none.

        A single fact is a group unasked, and so are all where entities are not told apart.
        """
        asked = judge.ask_typed(
            f"{self.folder}/group",
            GroupsReply,
            self.group_subjects(judged),
            "grouping facts",
            check_groups,
            samples=1,
            max_tokens=MAX_GROUPING_TOKENS,
        )
        replies = (reply for (reply,) in asked)
        grouped = []
        for biography in judged:
            groups: Groups = ()
            ungrouped = None
            if _is_grouped(biography):
                reply = next(replies)
                ungrouped = reply.problem or None
                groups = reply_to_groups(reply.value) if reply.value else ()
            elif biography.facts:
                groups = (tuple(range(len(biography.facts))),)
            if self.protocol == "code":
                # A group that had no other fact stays, empty: the authors count it as a biography.
                groups = tuple(tuple(fact for fact in group if fact != 0) for group in groups)
            grouped.append(replace(biography, groups=groups, ungrouped=ungrouped))
        return grouped

    def group_subjects(self, judged: Sequence[JudgedBiography]) -> list[JsonObject]:
        """Return what the grouping prompt is about, for every response of two facts or more."""
        return [
            {**grouping_subject(biography), **self.prompt_variables(biography.generation)}
            for biography in judged
            if _is_grouped(biography)
        ]

    def verify(self, judge: Judge, judged: Sequence[JudgedBiography]) -> list[JudgedBiography]:
        """Add the judgement of each fact by each entity.

        One without a page supports nothing, unasked.
        """
        judgements = judge_pairs(judge, self.pairs_by_key(judged), self.folder)
        verified = []
        for number, biography in enumerate(judged):
            rows = []
            for fact in biography.facts:
                cells = [judgements[number, fact.text, entity] for entity in biography.entities]
                rows.append(tuple(cells))
            verified.append(replace(biography, matrix=tuple(rows)))
        return verified

    def pairs_by_key(self, judged: Sequence[JudgedBiography]) -> dict[PairKey, FactPair]:
        pairs: dict[PairKey, FactPair] = {}
        for number, biography in enumerate(judged):
            for pair in self.fact_pairs(biography) if biography.facts else ():
                pairs[number, pair.fact, pair.entity] = pair
        return pairs

    def fact_pairs(self, judged: JudgedBiography) -> list[FactPair]:
        """Return what to verify of a response."""
        given = passages_by_title(judged.generation).get
        page_of = given if self.pages is None else self.pages.passages
        return pair_facts_with_pages(judged.facts, judged.entities, page_of)

    def link(self, judged: JudgedBiography) -> JudgedBiography:
        """Add the entity of each group."""
        links = link_groups(
            judged.groups, judged.entities, judged.matrix, self.linking, self.protocol
        )
        return replace(judged, links=links)

    def make_record(self, judged: JudgedBiography) -> Verdict:
        scores = score_biography(judged, self.protocol)
        return {
            "index": judged.generation.index,
            "name": judged.generation.name,
            "unscored": unscored_reason(judged, scores),
            "scores": scores,
            "protocol": self.protocol,
            "linking": self.linking,
            **biography_to_record(judged),
        }

    def row_metrics(self, doc: Doc, verdict: Verdict) -> JsonObject:
        return row_metrics(verdict)

    def check_record(self, doc: Doc, verdict: Verdict) -> None:
        judged = biography_from_record(verdict)
        if not judged.abstained and bool(judged.facts) == bool(judged.problem):
            raise ValueError("it has facts and a reason why it has none, or neither")
        if len(set(judged.facts)) < len(judged.facts):
            raise ValueError("a fact is there twice")
        texts = [fact.text for fact in judged.facts]
        cells_by_text = dict(zip(texts, judged.matrix, strict=True))
        if [cells_by_text[text] for text in texts] != list(judged.matrix):
            raise ValueError("facts of the same text have different judgements")
        for cell in chain.from_iterable(judged.matrix):
            is_unscored = cell.outcome == UNSCORED
            distance = abs((cell.score or 0) - (cell.outcome == SUPPORTED))
            if is_unscored != (cell.score is None) or distance > _FARTHEST:
                raise ValueError(f"a fact is {cell.outcome}, but its score is {cell.score}")
        if judged.ungrouped is not None and judged.groups:
            raise ValueError("it has groups and a reason why it has none")
        # Grouping as the authors' code does it loses the first fact.
        first = 1 if self.protocol == "code" else 0
        members = sorted(fact for group in judged.groups for fact in group)
        if judged.ungrouped is None and members != list(range(first, len(judged.facts))):
            raise ValueError("its groups do not hold each fact once")

    def rebuild_record(self, doc: Doc, responses: Sequence[str], verdict: Verdict) -> Verdict:
        judged = biography_from_record(verdict)
        begun = self.prepare(generation_from_doc(doc, responses[0]))
        if not begun.is_answer:
            return self.make_record(begun)
        parts = ("facts", "groups", "matrix", "problem", "ungrouped")
        believed = {name: getattr(judged, name) for name in parts}
        return self.make_record(self.link(replace(begun, **believed)))

    def people_items(self, doc: Doc, verdict: Verdict, response: str) -> list[Item]:
        return people.items_for_people(biography_from_record(verdict), self.noun)

    def relabel_record(self, doc: Doc, verdict: Verdict, answers: Sequence[str]) -> Verdict:
        judged = biography_from_record(verdict)
        ids = [item.id for item in people.items_for_people(judged, self.noun)]
        answer_by_id = dict(zip(ids, answers, strict=True))
        return self.make_record(
            people.apply_answers(judged, answer_by_id, self.protocol, self.link)
        )

    def summary_counts(self, docs: Docs, verdicts: Sequence[Verdict]) -> JsonObject:
        return {
            **super().summary_counts(docs, verdicts),
            **count_responses(verdicts),
            "settings": self.recorded_settings,
            "choices": load_yaml(__package__, "choices.yaml")["judged"][self.protocol],
        }


AMBIGBIO = AmbigBio()


def method_from_metadata(metadata: Mapping[str, Any]) -> AmbigBio:
    """Make the judged method from the settings of a run.

    Raises:
        ConfigError: A setting is wrong.
        DataError: The file of pages that ``knowledge`` names cannot be used.
    """
    source = str(metadata.get("knowledge") or DOCUMENTS)
    pages = None if source == DOCUMENTS else Knowledge(Path(source))
    settings = {**metadata, "pages": pages, "knowledge": Path(source).name}
    return read_settings(AmbigBio, settings, "metadata")


def _with_facts(
    judged: JudgedBiography, replies: Sequence[ParsedReply[FactsReply]]
) -> JudgedBiography:
    facts: list[Fact] = []
    for number, reply in enumerate(replies):
        if reply.value is None:
            where = f"sentence {number + 1} of {len(replies)}"
            return replace(judged, problem=f"not decomposed: {where}: {reply.problem}")
        facts += [Fact(text, number) for text in reply_to_facts(reply.value)]
    return replace(judged, facts=tuple(facts), problem=None if facts else NO_FACTS)


def _is_grouped(judged: JudgedBiography) -> bool:
    return len(judged.facts) > 1 and judged.entities != SINGLE_SUBJECT
