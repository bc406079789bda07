"""AmbigBio as ``lm-factuality judge`` and an lm_eval run use it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from judges.judge import Judge, Plan
from judges.lexical.facts import split_facts
from lm_factuality.benchmarks.biographies import matrix, method
from lm_factuality.benchmarks.biographies.decompose import DECOMPOSE, GROUP
from lm_factuality.benchmarks.biographies.generations import DOCUMENTS, from_doc
from lm_factuality.benchmarks.biographies.scores import (
    row_metrics,
    score,
    summarise,
    why_unscored,
)
from lm_factuality.benchmarks.biographies.types import (
    Fact,
    JudgedBiography,
    from_record,
    to_record,
)
from lm_factuality.ground.console import counted, interval, shown
from lm_factuality.ground.packages import load_yaml
from lm_factuality.harness.generation import Docs, Table, Verdict
from lm_factuality.retrieval.knowledge import Knowledge


@dataclass(frozen=True)
class AmbigBio:
    """``Generation`` for biographies of ambiguous names.

    A document has ``index``, ``question``, ``name`` and ``passages`` (each with ``title`` and
    ``text``), and one response. A record is that of ``types`` with ``index``, ``name``, ``scores``
    (None without facts) and ``unscored``. ``verdicts`` and ``verify`` of the judge's config say by
    which prompt facts are verified.
    """

    settings: method.Settings = field(default_factory=method.Settings)
    knowledge: str = DOCUMENTS
    """What results call the pages."""

    name = "ambigbio"
    kinds = ("decompose", "group", "verify")

    @property
    def prompt_names(self) -> Sequence[str]:
        steps = ("decompose", "group", "verify", "verify_page", "verify_true_false")
        return [f"{self.settings.folder}/{step}" for step in steps]

    @property
    def about(self) -> dict[str, Any]:
        """The settings that can change a score, as a task's metadata have them."""
        pages = self.settings.pages
        return {
            "knowledge": self.knowledge,
            "knowledge_identity": pages.identity if isinstance(pages, Knowledge) else None,
            "linking": self.settings.linking,
            "facts": self.settings.facts,
            "protocol": self.settings.protocol,
        }

    def check(self, doc: Mapping[str, Any], responses: Sequence[str]) -> str | None:
        try:
            from_doc(doc, "")
        except ValueError as error:
            return f"'doc': {error}; is this a sample of {self.name}?"
        return None if len(responses) == 1 else f"found {len(responses)} responses, expected one"

    def plan(
        self, judge: Judge, docs: Docs, responses: Sequence[Sequence[str]]
    ) -> list[tuple[str, Plan]]:
        """Plan the steps.

        The facts are known of responses that the judge has taken apart already. Of the others the
        second and the third step are planned on the facts that rules find, of which a model may
        find more.
        """
        begun = [
            self.settings.begin(from_doc(doc, text))
            for doc, (text,) in zip(docs, responses, strict=True)
        ]
        begun = [judged for judged in begun if method.is_judged(judged)]
        decomposed = method.decompose_all(judge.silent(), begun, self.settings)
        likely = []
        for judged, start in zip(decomposed, begun, strict=True):
            likely.append(judged if judged.facts else _with_rules(start))
        folder = self.settings.folder
        sentences = method.sentence_subjects(begun, self.settings)
        groups = method.group_subjects(likely, self.settings)
        pairs = method.pairs_of_all(likely, self.settings)
        return [
            ("decomposing", judge.plan(f"{folder}/decompose", sentences, **DECOMPOSE)),
            ("grouping", judge.plan(f"{folder}/group", groups, **GROUP)),
            ("verifying", matrix.plan_pairs(judge, pairs, folder)),
        ]

    def judge(self, judge: Judge, docs: Docs, responses: Sequence[Sequence[str]]) -> list[Verdict]:
        generations = [from_doc(doc, text) for doc, (text,) in zip(docs, responses, strict=True)]
        biographies = method.judge_biographies(judge, generations, self.settings)
        return [self.record(judged) for judged in biographies]

    def unscored(self, doc: Mapping[str, Any], responses: Sequence[str], reason: str) -> Verdict:
        begun = self.settings.begin(from_doc(doc, responses[0]))
        return self.record(replace(begun, problem=reason) if method.is_judged(begun) else begun)

    def row_metrics(self, judged: JudgedBiography) -> dict[str, Any]:
        """Return the parts of a response in every mean."""
        return row_metrics(judged, self.settings.protocol)

    def summarise(self, docs: Docs, verdicts: Sequence[Verdict]) -> dict[str, Any]:
        protocol = self.settings.protocol
        return {
            **summarise([from_record(verdict) for verdict in verdicts], protocol),
            "linking": self.settings.linking,
            "facts_are": self.settings.facts,
            "protocol": protocol,
            "choices": load_yaml(__package__, "choices.yaml")["judged"][protocol],
            "knowledge": self.knowledge,
        }

    def table(self, summary: Mapping[str, Any]) -> Table:
        rows = []
        for name, figure in summary.items():
            if isinstance(figure, Mapping) and "interval" in figure:
                mean = shown(figure["value"], ".3f")
                bounds = [shown(figure[end], ".3f") for end in ("worst", "best") if end in figure]
                between = interval(figure["interval"], ".3f")
                rows.append((name, mean, between, str(figure["responses"]), " / ".join(bounds)))
        columns = ("score", "#mean", "#95% interval", "#responses", "#worst / best")
        return columns, rows, self.notes(summary)

    def notes(self, summary: Mapping[str, Any]) -> list[str]:
        unscored = summary["unscored"]
        without = summary["without_page"]
        notes = [
            f"{summary['responses']} responses, {summary['abstained']} abstain,"
            f" {unscored['responses']} without all scores; {summary['facts']} facts,"
            f" {summary['irrelevant_facts']} irrelevant, {unscored['facts']} without a verdict."
        ]
        if unscored["reasons"]:
            notes.append(f"Without all scores: {counted(unscored['reasons'])}.")
        if without["candidates"]:
            of_all = f" ({without['responses']} responses have no candidate with one)"
            notes.append(
                f"No page: {without['candidates']} of {summary['candidates']} candidates"
                f"{of_all if without['responses'] else ''}; they support nothing."
            )
        return [
            *notes,
            f"Types: {counted(summary['types']) or 'none'}.",
            f"Linking: {summary['linking']}; protocol: {summary['protocol']}; knowledge:"
            f" {summary['knowledge']}. Intervals: bootstrap over names.",
        ]

    def record(self, judged: JudgedBiography) -> Verdict:
        scores = score(judged, self.settings.protocol)
        return {
            "index": judged.generation.index,
            "name": judged.generation.name,
            "unscored": why_unscored(judged, scores),
            "scores": scores and asdict(scores),
            "protocol": self.settings.protocol,
            "linking": self.settings.linking,
            **to_record(judged),
        }


AMBIGBIO = AmbigBio()


def generation(metadata: Mapping[str, Any]) -> AmbigBio:
    """Make the judged method from the settings of a run.

    Raises:
        ConfigError: A setting is wrong.
        DataError: The file of pages that ``knowledge`` names cannot be used.
    """
    source = str(metadata.get("knowledge") or DOCUMENTS)
    pages = None if source == DOCUMENTS else Knowledge(Path(source))
    names = [name for name in ("linking", "facts", "protocol") if name in metadata]
    settings = method.Settings(pages, **{name: str(metadata[name]) for name in names})
    return AmbigBio(settings, Path(source).name)


def _with_rules(judged: JudgedBiography) -> JudgedBiography:
    """Take a response apart by rules."""
    facts = []
    for number, sentence in enumerate(judged.sentences):
        facts += [Fact(text, number) for text in split_facts(sentence)]
    return replace(judged, facts=tuple(facts))
