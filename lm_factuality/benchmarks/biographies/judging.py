"""AmbigBio as ``lm-factuality judge`` and an lm_eval run use it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import ceil
from pathlib import Path
from typing import Any

from judges.answers import Estimate
from judges.judge import Judge, Plan
from judges.lexical.facts import split_facts
from judges.verify import PAGE_CLAIMS
from lm_factuality.benchmarks.biographies import matrix, method
from lm_factuality.benchmarks.biographies.decompose import DECOMPOSE, GROUP, most_facts
from lm_factuality.benchmarks.biographies.generations import DOCUMENTS, from_doc
from lm_factuality.benchmarks.biographies.summary import Row, summarise
from lm_factuality.benchmarks.biographies.types import Fact, JudgedBiography, to_record
from lm_factuality.ground.console import counted, interval, shown
from lm_factuality.ground.packages import load_yaml
from lm_factuality.harness.generation import Docs, Table, Verdict
from lm_factuality.retrieval.knowledge import Knowledge

_WORDS = 2  # of a fact, and so the tokens that it has at least
_BYTES = 18  # of a token at most


@dataclass(frozen=True)
class AmbigBio:
    """``Generation`` for biographies of ambiguous names. A document has ``index``, ``question``,
    ``name`` and ``passages`` (each with ``title`` and ``text``), and one response. A record is that
    of ``types`` with ``index``, ``name``, ``scores`` (None without facts) and ``unscored``.
    ``knowledge`` is what results call the pages. ``verdicts`` and ``verify`` of the judge's config
    say by which prompt facts are verified."""

    settings: method.Settings = field(default_factory=method.Settings)
    knowledge: str = DOCUMENTS

    name = "ambigbio"
    kinds = ("decompose", "group", "verify")

    @property
    def prompt_names(self) -> Sequence[str]:
        steps = ("decompose", "group", "verify", "verify_page", "verify_true_false")
        return [f"{self.settings.folder}/{each}" for each in steps]

    @property
    def about(self) -> dict[str, Any]:
        """What of its settings can change a score, as a task's metadata have it."""
        identity = (
            self.settings.pages.identity if isinstance(self.settings.pages, Knowledge) else None
        )
        own = {name: getattr(self.settings, name) for name in ("linking", "facts", "protocol")}
        return {"knowledge": self.knowledge, "knowledge_identity": identity, **own}

    def check(self, doc: Mapping[str, Any], responses: Sequence[str]) -> str | None:
        try:
            from_doc(doc, "")
        except ValueError as error:
            return f"'doc': {error}; is this a sample of {self.name}?"
        return None if len(responses) == 1 else f"found {len(responses)} responses, expected one"

    def plan(
        self, judge: Judge, docs: Docs, responses: Sequence[Sequence[str]]
    ) -> list[tuple[str, Plan]]:
        """What facts there will be is known of responses that the judge has taken apart already. Of
        others the second and the third step are planned on those that rules find, which are fewer
        than a model's, and bounded by what it may write."""
        judged = [
            self.settings.begin(from_doc(doc, text))
            for doc, (text,) in zip(docs, responses, strict=True)
        ]
        judged = [each for each in judged if method.is_judged(each)]
        apart = method.decompose_all(judge.silent(), judged, self.settings)
        known, new = (
            [each for each in apart if each.facts],
            [judged[n] for n, each in enumerate(apart) if not each.facts],
        )

        def later(likely: Sequence[JudgedBiography]) -> list[Plan]:
            grouping = judge.plan(
                f"{self.settings.folder}/group",
                method.group_subjects(likely, self.settings),
                **GROUP,
            )
            return [
                grouping,
                matrix.plan_pairs(
                    judge, method.pairs_of_all(likely, self.settings), self.settings.folder
                ),
            ]

        plans = later([*known, *map(_with_rules, new)])
        if (
            judge.config.capabilities.reads_prompts
        ):  # else rules take them apart, and nothing is asked twice
            most = most_of(judge, new, self.settings)
            sure = [one.at_most + other for one, other in zip(later(known), most, strict=True)]
            plans = [replace(plan, most=each) for plan, each in zip(plans, sure, strict=True)]
        first = judge.plan(
            f"{self.settings.folder}/decompose",
            method.sentence_subjects(judged, self.settings),
            **DECOMPOSE,
        )
        return list(zip(("decomposing", "grouping", "verifying"), (first, *plans), strict=True))

    def judge(self, judge: Judge, docs: Docs, responses: Sequence[Sequence[str]]) -> list[Verdict]:
        generations = [from_doc(doc, text) for doc, (text,) in zip(docs, responses, strict=True)]
        return [
            self.record(each)
            for each in method.judge_biographies(judge, generations, self.settings)
        ]

    def unscored(self, doc: Mapping[str, Any], responses: Sequence[str], reason: str) -> Verdict:
        started = self.settings.begin(from_doc(doc, responses[0]))
        return self.record(
            started if started.abstained or started.problem else replace(started, problem=reason)
        )

    def summarise(self, docs: Docs, verdicts: Sequence[Verdict]) -> dict[str, Any]:
        protocol = self.settings.protocol
        return {
            **summarise([Row.from_record(verdict) for verdict in verdicts]),
            **{
                "linking": self.settings.linking,
                "facts_are": self.settings.facts,
                "protocol": protocol,
            },
            "choices": load_yaml(__package__, "choices.yaml")["judged"][protocol],
            "knowledge": self.knowledge,
        }

    def table(self, summary: Mapping[str, Any]) -> Table:
        rows = []
        for name, each in summary.items():
            if isinstance(each, Mapping) and "interval" in each:
                ends = [shown(each[end], ".3f") for end in ("worst", "best") if end in each]
                mean, between = shown(each["value"], ".3f"), interval(each["interval"], ".3f")
                rows.append((name, mean, between, str(each["responses"]), " / ".join(ends)))
        return (
            ("score", "#mean", "#95% interval", "#responses", "#worst / best"),
            rows,
            self.notes(summary),
        )

    def notes(self, summary: Mapping[str, Any]) -> list[str]:
        unscored, types, without = summary["unscored"], summary["types"], summary["without_page"]
        alone = (
            f" ({without['responses']} responses have no candidate with one)"
            if without["responses"]
            else ""
        )
        lacking = f"{without['candidates']} of {summary['candidates']} candidates{alone}"
        return [
            (
                f"{summary['responses']} responses, {summary['abstained']} abstain,"
                f" {unscored['responses']} without all scores; {summary['facts']} facts,"
                f" {summary['irrelevant_facts']} irrelevant, {unscored['facts']} without a verdict."
            ),
            *(
                [f"Without all scores: {counted(unscored['reasons'])}."]
                if unscored["reasons"]
                else []
            ),
            *([f"No page: {lacking}; they support nothing."] if without["candidates"] else []),
            f"Types: {counted(types) or 'none'}.",
            (
                f"Linking: {summary['linking']}; protocol: {summary['protocol']}; knowledge:"
                f" {summary['knowledge']}. Intervals: bootstrap over names."
            ),
        ]

    def record(self, judged: JudgedBiography) -> Verdict:
        row = Row.of(judged, self.settings.protocol)
        return {
            **{"index": judged.generation.index, "name": row.name, "unscored": row.unscored},
            "scores": row.scores and asdict(row.scores),
            **{"protocol": self.settings.protocol, "linking": self.settings.linking},
            **to_record(judged),
        }


AMBIGBIO = AmbigBio()


def generation(metadata: Mapping[str, Any]) -> AmbigBio:
    """With the settings of a run; ``knowledge`` is a file of pages, or that of the documents.
    Raises ConfigError, DataError: a setting is wrong, or the pages cannot be used."""
    source = str(metadata.get("knowledge") or DOCUMENTS)
    pages = None if source == DOCUMENTS else Knowledge(Path(source))
    said = {
        name: str(metadata[name]) for name in ("linking", "facts", "protocol") if name in metadata
    }
    return AmbigBio(method.Settings(pages, **said), Path(source).name)


def _with_rules(judged: JudgedBiography) -> JudgedBiography:
    facts = tuple(
        Fact(text, number)
        for number, each in enumerate(judged.sentences)
        for text in split_facts(each)
    )
    return replace(judged, facts=facts)


def most_of(
    judge: Judge, judged: Sequence[JudgedBiography], settings: method.Settings
) -> tuple[Estimate, Estimate]:
    """What grouping and verifying send at most, whatever the judge makes of responses that are not
    taken apart yet. A sentence has no more facts than ``most_facts``, nor than half as many as the
    judge may write tokens, for a fact has two words; together they are as long as what it may
    write. Each is verified by each entity, in each sample, and every reply asked for once more."""
    tokens = judge.config.decoding.max_tokens + (
        judge.config.thinking_tokens or 0
    )  # which may all be of the reply
    grouping = verifying = judge.plan(cut := f"{settings.folder}/group", []).estimate
    for each in judged:
        sentences = len(each.sentences)
        count = sum(min(most_facts(sentence), tokens // _WORDS) for sentence in each.sentences)
        facts = (Fact(_text(sentences * tokens), 0), *[Fact("", 0)] * (count - 1))
        grouping += judge.plan(
            cut, method.group_subjects([replace(each, facts=facts)], settings), **GROUP
        ).at_most
        pages = settings.pairs(replace(each, facts=(Fact("", 0),))).values()
        for page in (page for page in pages if page.problem is None):
            shown = replace(page, evidence=settings.longest(each, page))
            texts = "", _text(tokens)
            one, long = (
                matrix.plan_singly(judge, [replace(shown, fact=each)], settings.folder).at_most
                for each in texts
            )
            verifying += one * max(0, count - sentences) + long * min(count, sentences)
            if judge.config.verify == "page" and count:
                whole = replace(
                    page, evidence=settings.longest(each, page, min(count, PAGE_CLAIMS))
                )
                listed = [
                    replace(whole, fact=text)
                    for text in (_text(sentences * tokens), *[""] * (PAGE_CLAIMS - 1))
                ]
                subject = {**matrix.subject_of(listed), "passages": whole.subject["passages"]}
                # Where each sentence has passages of its own, so it has questions.
                alone = min(count, sentences) + count // PAGE_CLAIMS
                questions = ceil(count / PAGE_CLAIMS) if page.page == page.entity else alone
                verifying += (
                    judge.plan(f"{settings.folder}/verify_page", [subject], **matrix.PAGE).at_most
                    * questions
                )
    return grouping, verifying


def _text(tokens: int) -> str:
    """No shorter than what has so many tokens: of signs that no tokenizer joins, of three bytes
    each."""
    return "\u3400" * (tokens * _BYTES // 3)
