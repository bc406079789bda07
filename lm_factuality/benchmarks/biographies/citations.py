"""Citation recall and precision (appendix D of the paper; defined in ALCE, section 4 of Gao et al., 2023).

A sentence is supported if it cites and the passages that it cites entail it together: recall is the share of such sentences. A
citation is precise if its sentence is supported and it is needed: it entails the sentence alone, or the others without it do not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, TypeVar

from judges.inference import Entailment, Once, Pair
from lm_factuality.benchmarks.biographies.cite import CitedSentence, Protocol, Splitter, cited_sentences
from lm_factuality.benchmarks.biographies.types import Generation
from lm_factuality.ground.packages import load_yaml
from lm_factuality.ground.sentences import split_sentences
from lm_factuality.ground.statistics import Outcome, average, bootstrap_interval, defined, mean

Key = TypeVar("Key")


@dataclass(frozen=True)
class JudgedCitations:
    """A response and its sentences, read as ``protocol`` says."""

    generation: Generation
    sentences: tuple[CitedSentence, ...]
    protocol: Protocol

    def recall(self, unscored: bool | None = None) -> float | None:
        """The share of supported sentences; those without a verdict are left out, or taken for ``unscored``. None without any."""
        return _share([each.is_supported for each in self.sentences], unscored)

    def precision(self, unscored: bool | None = None) -> float | None:
        """The share of precise citations, dangling ones being imprecise; None without a citation. ``code``: 0 without a citation,
        and dangling ones do not count."""
        verdicts = [verdict for each in self.sentences for verdict in each.precise]
        if self.protocol == "code" and self.sentences and not verdicts:
            return 0.0
        if self.protocol == "fixed":
            verdicts += [False] * sum(each.num_dangling for each in self.sentences)
        return _share(verdicts, unscored)


def judge_citations(
    generations: Sequence[Generation], entailment: Entailment, protocol: Protocol = "fixed", split: Splitter = split_sentences
) -> list[JudgedCitations]:
    """Every response with its sentences and citations judged, in three batches: all cited passages of a sentence together; of
    sentences that several passages support each passage alone; the others without those that do not suffice. A pair is asked
    about once. Under ``code`` no verdict counts as not entailed."""
    once = entailment if isinstance(entailment, Once) else Once(entailment)
    found = [cited_sentences(each, protocol, split) for each in generations]
    flat = [(each, sentence) for each, sentences in zip(generations, found, strict=True) for sentence in sentences]
    cited = {number: sentence.citations for number, (_, sentence) in enumerate(flat) if sentence.citations}

    def ask(sets: Mapping[Key, tuple[int, tuple[int, ...]]]) -> dict[Key, bool | None]:
        """The verdicts on sentences (by number) with sets of their passages."""
        pairs = [Pair(flat[n][1].claim, tuple(flat[n][0].passages[each] for each in chosen)) for n, chosen in sets.values()]
        verdicts = once.entail(pairs)
        return dict(zip(sets, [bool(each) for each in verdicts] if protocol == "code" else verdicts, strict=True))

    joint = ask({n: (n, citations) for n, citations in cited.items()})
    several = {n: citations for n, citations in cited.items() if joint[n] and len(citations) > 1}
    alone = ask({(n, i): (n, (each,)) for n, citations in several.items() for i, each in enumerate(citations)})
    without = ask({(n, i): (n, several[n][:i] + several[n][i + 1 :]) for (n, i), suffices in alone.items() if suffices is False})

    def is_precise(n: int, i: int) -> bool | None:
        """ALCE's condition for a citation of a supported sentence."""
        others = without.get((n, i))
        return alone[n, i] if alone[n, i] is not False else None if others is None else not others

    def precision(n: int, sentence: CitedSentence) -> tuple[bool | None, ...]:
        return tuple(is_precise(n, i) if n in several else joint[n] for i in range(len(sentence.citations)))

    judged = (
        replace(sentence, is_supported=joint.get(n, False), precise=precision(n, sentence))
        for n, (_, sentence) in enumerate(flat)
    )
    return [
        JudgedCitations(each, tuple(islice(judged, len(own))), protocol) for each, own in zip(generations, found, strict=True)
    ]


def summarise_citations(judged: Sequence[JudgedCitations], protocol: Protocol) -> dict[str, Any]:
    """Means over responses as fractions, with intervals that bootstrap the names, and what there is no verdict on, with the
    worst and the best value of each mean. Null where no response counts."""

    def values(unscored: bool | None = None) -> dict[str, list[float | None]]:
        shares = [(each.recall(unscored), each.precision(unscored)) for each in judged]
        return {f"citation_{name}": [share[place] for share in shares] for place, name in enumerate(("recall", "precision"))}

    outcomes = {
        key: [None if value is None else Outcome(value, of.generation.name) for value, of in zip(each, judged, strict=True)]
        for key, each in values().items()
    }
    sentences = [sentence for each in judged for sentence in each.sentences]
    return {
        "protocol": protocol,
        "choices": load_yaml(__package__, "choices.yaml")["citations"][protocol],
        **{key: defined(mean(each)) for key, each in outcomes.items()},
        "num_responses": len(judged),
        "num_sentences": len(sentences),
        "num_citations": sum(len(each.precise) for each in sentences),
        "sentences_without_citation": sum(not each.is_citing for each in sentences),
        "dangling_citations": sum(each.num_dangling for each in sentences),
        "responses_without_sentence": sum(not each.sentences for each in judged),
        "responses_without_citation": sum(
            bool(each.sentences) and not any(one.is_citing for one in each.sentences) for each in judged
        ),
        "unscored": {
            "sentences": sum(each.is_supported is None for each in sentences),
            "citations": sum(each.precise.count(None) for each in sentences),
            **{end: {key: average(each) for key, each in values(end == "best").items()} for end in ("worst", "best")},
        },
        "intervals": {key: [defined(end) for end in bootstrap_interval(each, resamples=2000)] for key, each in outcomes.items()},
    }


def to_record(judged: JudgedCitations) -> dict[str, Any]:
    """A response as a line of ``citations.jsonl``; citations are numbered from 1 as in the text."""
    return {
        "index": judged.generation.index,
        "name": judged.generation.name,
        "question": judged.generation.question,
        "citation_recall": judged.recall(),
        "citation_precision": judged.precision(),
        "sentences": [
            {
                "text": each.text,
                "claim": each.claim,
                "supported": each.is_supported,
                "citations": [number + 1 for number in each.citations],
                "precise": list(each.precise),
                "dangling": each.num_dangling,
            }
            for each in judged.sentences
        ],
    }


def _share(verdicts: Sequence[bool | None], unscored: bool | None) -> float | None:
    return average(unscored if verdict is None else verdict for verdict in verdicts)
