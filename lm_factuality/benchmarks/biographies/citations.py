"""Citation recall and precision (appendix D of the paper; defined in ALCE, section 4 of Gao et al.,
2023).

A sentence is supported if it cites and the passages that it cites entail it together: recall is the
share of such sentences. A citation is precise if its sentence is supported and needs it: it entails
the sentence alone, or the others without it do not. ``fixed`` reads every way in which models cite:
``[1][2]``, ``[1, 2]``, ``[1-3]``, ``[1],[2]``, ``[1]-[3]``, ``[Document 1]``, also behind the full
stop and in a line of their own. ``code`` reads as ALCE's scorer: the first line, of a bracket its
first number, three citations a sentence at most, and ``[0]`` as the last passage."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal, TypeVar

from judges.inference import Entailment, Pair
from lm_factuality.benchmarks.biographies.types import Generation
from lm_factuality.ground.errors import ConfigError
from lm_factuality.ground.packages import load_yaml
from lm_factuality.ground.sentences import split_sentences
from lm_factuality.ground.thinking import without_thinking
from lm_factuality.scores.statistics import Outcome, average, bootstrap_interval, defined, mean

Protocol = Literal["fixed", "code"]
Splitter = Callable[[str], list[str]]
MOST_CITATIONS = 3  # of a sentence under ``code``

_NUMBER = r"(?:(?:documents?|docs?|passages?|sources?)\s*)?\d{1,3}"
_SIGN = r"(?:[,;&-]|\u2013|\band\b)"  # between numbers, and between brackets
_BRACKET = rf"\[\s*{_NUMBER}(?:\s*{_SIGN}\s*{_NUMBER})*\s*\]"
_BRACKETS = re.compile(rf"(?<!\s)\s*{_BRACKET}(?:\s*(?:{_SIGN}\s*)?{_BRACKET})*", re.IGNORECASE)
_LEADING = re.compile(rf"(?P<citations>{_BRACKETS.pattern})[.,;]?", re.IGNORECASE)
_JOINT = re.compile(r"\]\s*([-\u2013])\s*\[")
_RANGE = re.compile(r"(\d+)\s*(?:-|\u2013)\s*(\d+)")
_LONGEST_RANGE = 20  # passages; anything longer is no citation but, say, years


@dataclass(frozen=True)
class CitedSentence:
    """``text`` as it was written, ``claim`` without its citations; ``citations`` are places in the
    passages, from 0, in the order in which they stand; those with no passage behind them are
    counted in ``num_dangling``. Once judged, ``is_supported``, and ``precise`` for each citation:
    None where there is no verdict."""

    text: str
    claim: str
    citations: tuple[int, ...]
    num_dangling: int = 0
    is_supported: bool | None = None
    precise: tuple[bool | None, ...] = ()

    @property
    def is_citing(self) -> bool:
        """Whether it cites anything, be it no passage."""
        return bool(self.citations or self.num_dangling)


def cited_sentences(
    generation: Generation, protocol: Protocol, split: Splitter = split_sentences
) -> list[CitedSentence]:
    """The sentences of a response as ``protocol`` reads them, none of a thought without an end;
    ``split`` cuts one line into sentences. Under ``code`` a dangling citation leaves the sentence
    without any: it is not supported, and none of its citations counts."""
    if without_thinking(generation.output) is None:
        return []
    passages = len(generation.passages)
    if protocol == "code":
        first_line = generation.output.strip().split("\n")[0]
        return [_as_alce(sentence, passages) for sentence in split(first_line)]
    found: list[str] = []
    for line in generation.output.splitlines():
        if not _has_words(line):  # a line of citations belongs to what stands above it
            if found:
                found[-1] += "".join(_BRACKETS.findall(line))
            continue
        own: list[str] = []
        begin = ""  # citations that the line begins with
        for sentence in split(line):
            if not own and not _has_words(sentence):
                begin += "".join(_BRACKETS.findall(sentence))
                continue
            match = _LEADING.match(sentence)
            if match and own:  # citations behind the full stop belong to what stands before it
                own[-1] += match["citations"]
                sentence = sentence[match.end() :].strip()
            if _has_words(sentence):
                own.append(f"{begin} {sentence}" if begin else sentence)
                begin = ""
        found += own
    return [_fixed(sentence, passages) for sentence in found]


def find_splitter(name: str) -> Splitter:
    """``rules``: the suite's own; ``punkt``: NLTK's, which ALCE uses. Raises ConfigError: no such
    one, or its data is missing."""
    if name == "rules":
        return split_sentences
    if name != "punkt":
        raise ConfigError(f"--sentences: found {name!r}, expected rules or punkt")
    try:
        from nltk.tokenize import sent_tokenize

        sent_tokenize("One. Two.")
    except LookupError as error:
        raise ConfigError(
            "--sentences punkt needs NLTK's data 'punkt_tab'; fetch it with: python -m"
            " nltk.downloader punkt_tab (NLTK_DATA names its folder), or use --sentences rules"
        ) from error
    split: Splitter = sent_tokenize
    return split


def _fixed(sentence: str, passages: int) -> CitedSentence:
    brackets = (_JOINT.sub(r"\1", match[0]) for match in _BRACKETS.finditer(sentence))
    distinct = list(dict.fromkeys(number for each in brackets for number in _listed(each)))
    cited = tuple(number - 1 for number in distinct if 1 <= number <= passages)
    return CitedSentence(
        sentence, _BRACKETS.sub("", sentence).strip(), cited, len(distinct) - len(cited)
    )


def _has_words(text: str) -> bool:
    return re.search(r"\w", _BRACKETS.sub("", text)) is not None


def _listed(numbers: str) -> list[int]:
    def spell_out(match: re.Match[str]) -> str:
        first, last = int(match[1]), int(match[2])
        spelled = (
            range(first, last + 1) if first <= last <= first + _LONGEST_RANGE else (first, last)
        )
        return ",".join(map(str, spelled))

    return [int(number) for number in re.findall(r"\d+", _RANGE.sub(spell_out, numbers))]


def _as_alce(sentence: str, passages: int) -> CitedSentence:
    numbers = [
        int(number) - 1 for number in re.findall(r"\[(\d{1,9})", sentence)
    ]  # nobody gives as many passages
    claim = re.sub(r" ?\[\d+", "", sentence).replace(" |", "").replace("]", "").strip()
    if any(number >= passages for number in numbers):
        return CitedSentence(sentence, claim, (), len(numbers))
    return CitedSentence(
        sentence, claim, tuple(number % passages for number in numbers[:MOST_CITATIONS])
    )


Key = TypeVar("Key")


@dataclass(frozen=True)
class JudgedCitations:
    """A response and its sentences, read as ``protocol`` says."""

    generation: Generation
    sentences: tuple[CitedSentence, ...]
    protocol: Protocol

    def recall(self, unscored: bool | None = None) -> float | None:
        """The share of supported sentences; those without a verdict are left out, or taken for
        ``unscored``. None without any."""
        return _share([each.is_supported for each in self.sentences], unscored)

    def precision(self, unscored: bool | None = None) -> float | None:
        """The share of precise citations, dangling ones being imprecise; None without a citation.
        ``code``: 0 without a citation, and dangling ones do not count."""
        verdicts = [verdict for each in self.sentences for verdict in each.precise]
        if self.protocol == "code" and self.sentences and not verdicts:
            return 0.0
        if self.protocol == "fixed":
            verdicts += [False] * sum(each.num_dangling for each in self.sentences)
        return _share(verdicts, unscored)


def judge_citations(
    generations: Sequence[Generation],
    entailment: Entailment,
    protocol: Protocol = "fixed",
    split: Splitter = split_sentences,
) -> list[JudgedCitations]:
    """Every response with its sentences and citations judged, in three batches: all cited passages
    of a sentence together; of sentences that several passages support each passage alone; the
    others without those that do not suffice. Under ``code`` no verdict counts as not entailed."""
    found = [cited_sentences(each, protocol, split) for each in generations]
    flat = [
        (each, sentence)
        for each, sentences in zip(generations, found, strict=True)
        for sentence in sentences
    ]
    cited = {
        number: sentence.citations
        for number, (_, sentence) in enumerate(flat)
        if sentence.citations
    }

    def ask(sets: Mapping[Key, tuple[int, tuple[int, ...]]]) -> dict[Key, bool | None]:
        pairs = [
            Pair(flat[n][1].claim, tuple(flat[n][0].passages[each] for each in chosen))
            for n, chosen in sets.values()
        ]
        verdicts = entailment.entail(pairs)
        return dict(
            zip(
                sets,
                [bool(each) for each in verdicts] if protocol == "code" else verdicts,
                strict=True,
            )
        )

    joint = ask({n: (n, citations) for n, citations in cited.items()})
    several = {n: citations for n, citations in cited.items() if joint[n] and len(citations) > 1}
    alone = ask(
        {
            (n, i): (n, (each,))
            for n, citations in several.items()
            for i, each in enumerate(citations)
        }
    )
    without = ask(
        {
            (n, i): (n, several[n][:i] + several[n][i + 1 :])
            for (n, i), suffices in alone.items()
            if suffices is False
        }
    )

    def is_precise(n: int, i: int) -> bool | None:
        others = without.get((n, i))
        return alone[n, i] if alone[n, i] is not False else None if others is None else not others

    def precision(n: int, sentence: CitedSentence) -> tuple[bool | None, ...]:
        return tuple(
            is_precise(n, i) if n in several else joint[n] for i in range(len(sentence.citations))
        )

    judged = (
        replace(each, is_supported=joint.get(n, False), precise=precision(n, each))
        for n, (_, each) in enumerate(flat)
    )
    return [
        JudgedCitations(of, tuple(islice(judged, len(own))), protocol)
        for of, own in zip(generations, found, strict=True)
    ]


def summarise_citations(judged: Sequence[JudgedCitations], protocol: Protocol) -> dict[str, Any]:
    """Means over responses as fractions, with intervals that bootstrap the names, and what there is
    no verdict on, with the worst and the best value of each mean. Null where no response counts."""

    def values(unscored: bool | None = None) -> dict[str, list[float | None]]:
        shares = [(each.recall(unscored), each.precision(unscored)) for each in judged]
        return {
            f"citation_{name}": [share[place] for share in shares]
            for place, name in enumerate(("recall", "precision"))
        }

    outcomes = {
        key: [
            None if value is None else Outcome(value, of.generation.name)
            for value, of in zip(each, judged, strict=True)
        ]
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
            bool(of.sentences) and not any(one.is_citing for one in of.sentences) for of in judged
        ),
        "unscored": {
            "sentences": sum(each.is_supported is None for each in sentences),
            "citations": sum(each.precise.count(None) for each in sentences),
            **{
                end: {key: average(each) for key, each in values(end == "best").items()}
                for end in ("worst", "best")
            },
        },
        "intervals": {
            key: [defined(end) for end in bootstrap_interval(each, resamples=2000)]
            for key, each in outcomes.items()
        },
    }


def to_record(judged: JudgedCitations) -> dict[str, Any]:
    """A response as a line of ``citations.jsonl``; citations are numbered from 1 as in the text."""
    return {
        **{name: getattr(judged.generation, name) for name in ("index", "name", "question")},
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
