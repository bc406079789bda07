"""Citation recall and precision (appendix D of the paper).

ALCE defines them (Gao et al., 2023, section 4).

A sentence is supported if it cites and the passages that it cites entail it together: recall is the
share of such sentences. A citation is precise if its sentence is supported and needs it: it entails
the sentence alone, or the others without it do not. ``fixed`` reads every way in which models cite:
``[1][2]``, ``[1, 2]``, ``[1-3]``, ``[1],[2]``, ``[1]-[3]``, ``[Document 1]``, also behind the full
stop and in a line of their own. ``code`` reads as ALCE's scorer: the first line, of a bracket its
first number, three citations a sentence at most, and ``[0]`` as the last passage.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from judges.inference import Entailment, EntailmentPair
from lm_factuality.benchmarks.biographies.types import GeneratedText
from lm_factuality.ground.errors import ConfigError
from lm_factuality.ground.packages import load_yaml
from lm_factuality.ground.sentences import split_sentences
from lm_factuality.ground.thinking import without_thinking
from lm_factuality.harness.generation import JsonObject
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
_RANGE = re.compile(r"(?P<first>\d+)(?:\s*(?:-|\u2013)\s*(?P<last>\d+))?")
_LONGEST_RANGE = 20  # passages; anything longer is no citation but, say, years


@dataclass(frozen=True)
class CitedSentence:
    """A sentence of a response."""

    text: str
    claim: str
    """The text without its citations."""

    citations: tuple[int, ...]
    """The cited passages, counted from 0, in the order of the text."""

    num_dangling: int = 0
    """The number of citations with no passage behind them."""

    is_supported: bool | None = None
    precise: tuple[bool | None, ...] = ()
    """For each citation whether it is precise; None where there is no verdict."""

    @property
    def is_citing(self) -> bool:
        """Whether it cites anything, be it no passage."""
        return bool(self.citations or self.num_dangling)


def cited_sentences(
    generation: GeneratedText, protocol: Protocol, split: Splitter = split_sentences
) -> list[CitedSentence]:
    """Return the sentences of a response, none of a thought without an end.

    Under ``code`` a dangling citation leaves the sentence without any: it is not supported, and
    none of its citations counts.

    Args:
        generation: The response.
        protocol: How citations are read.
        split: Cuts one line into sentences.
    """
    if without_thinking(generation.output) is None:
        return []
    passages = len(generation.passages)
    if protocol == "code":
        first_line = generation.output.strip().split("\n")[0]
        return [_as_alce(sentence, passages) for sentence in split(first_line)]
    sentences: list[str] = []
    for line in generation.output.splitlines():
        if not _has_words(line):  # a line of citations belongs to what stands above it
            if sentences:
                sentences[-1] += "".join(_BRACKETS.findall(line))
            continue
        first = len(sentences)
        begin = ""  # citations that the line begins with
        for sentence in split(line):
            is_first = len(sentences) == first
            if is_first and not _has_words(sentence):
                begin += "".join(_BRACKETS.findall(sentence))
                continue
            match = _LEADING.match(sentence)
            if match and not is_first:
                # Citations behind the full stop belong to what stands before it.
                sentences[-1] += match["citations"]
                sentence = sentence[match.end() :].strip()
            if _has_words(sentence):
                sentences.append(f"{begin} {sentence}" if begin else sentence)
                begin = ""
    return [_fixed(sentence, passages) for sentence in sentences]


def find_splitter(name: Literal["rules", "punkt"]) -> Splitter:
    """Return what cuts a line into sentences: the suite's rules, or NLTK's punkt as in ALCE.

    Raises:
        ConfigError: The data of punkt is missing.
    """
    if name == "rules":
        return split_sentences
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
    numbers: dict[int, None] = {}
    for match in _BRACKETS.finditer(sentence):
        numbers |= dict.fromkeys(_listed(_JOINT.sub(r"\1", match[0])))
    cited = tuple(number - 1 for number in numbers if 1 <= number <= passages)
    claim = _BRACKETS.sub("", sentence).strip()
    return CitedSentence(sentence, claim, cited, len(numbers) - len(cited))


def _has_words(text: str) -> bool:
    return re.search(r"\w", _BRACKETS.sub("", text)) is not None


def _listed(bracket: str) -> list[int]:
    """Return the numbers in a bracket, those within a range included."""
    numbers: list[int] = []
    for match in _RANGE.finditer(bracket):
        first = int(match["first"])
        last = int(match["last"] or first)
        is_range = first <= last <= first + _LONGEST_RANGE
        numbers += range(first, last + 1) if is_range else (first, last)
    return numbers


def _as_alce(sentence: str, passages: int) -> CitedSentence:
    # Nobody gives as many passages as have ten digits.
    numbers = [int(number) - 1 for number in re.findall(r"\[(\d{1,9})", sentence)]
    claim = re.sub(r" ?\[\d+", "", sentence).replace(" |", "").replace("]", "").strip()
    if any(number >= passages for number in numbers):
        return CitedSentence(sentence, claim, (), len(numbers))
    cited = tuple(number % passages for number in numbers[:MOST_CITATIONS])
    return CitedSentence(sentence, claim, cited)


@dataclass(frozen=True)
class JudgedCitations:
    """A response and its sentences, as a protocol reads them."""

    generation: GeneratedText
    sentences: tuple[CitedSentence, ...]
    protocol: Protocol

    def recall(self, unscored: bool | None = None) -> float | None:
        """Return the share of supported sentences; None without any.

        Args:
            unscored: What sentences without a verdict are taken for. By default, they are left out.
        """
        return _share([sentence.is_supported for sentence in self.sentences], unscored)

    def precision(self, unscored: bool | None = None) -> float | None:
        """Return the share of precise citations, dangling ones being imprecise.

        Returns:
            None without a citation. Under ``code`` it is 0, and dangling citations do not count.
        """
        verdicts = [verdict for sentence in self.sentences for verdict in sentence.precise]
        if self.protocol == "code" and self.sentences and not verdicts:
            return 0.0
        if self.protocol == "fixed":
            verdicts += [False] * sum(sentence.num_dangling for sentence in self.sentences)
        return _share(verdicts, unscored)


_FIGURES = {
    "citation_recall": JudgedCitations.recall,
    "citation_precision": JudgedCitations.precision,
}


def _share(verdicts: Sequence[bool | None], unscored: bool | None) -> float | None:
    return average(unscored if verdict is None else verdict for verdict in verdicts)


def judge_citations(
    generations: Sequence[GeneratedText],
    entailment: Entailment,
    protocol: Protocol = "fixed",
    split: Splitter = split_sentences,
) -> list[JudgedCitations]:
    """Judge every sentence and citation, in three batches.

    First all cited passages of a sentence together; of sentences that several passages support each
    passage alone; then the others without those that do not suffice. Under ``code`` no verdict
    counts as not entailed.
    """
    cited = [cited_sentences(generation, protocol, split) for generation in generations]
    while True:
        pairs = _Verdicts(entailment.known, protocol)
        judged = []
        for generation, sentences in zip(generations, cited, strict=True):
            judged.append(
                JudgedCitations(
                    generation,
                    tuple(_judged(sentence, generation, pairs) for sentence in sentences),
                    protocol,
                )
            )
        if not pairs.missing:
            return judged
        entailment.entail(pairs.missing)


@dataclass(frozen=True)
class _Verdicts:
    """The verdicts that there are, and the pairs that have yet to be asked about."""

    known: Mapping[EntailmentPair, bool | None]
    protocol: Protocol
    missing: list[EntailmentPair] = field(default_factory=list)

    def on(self, pair: EntailmentPair) -> bool | None:
        """Return whether the passages of a pair entail its claim; None if that is not known."""
        if pair not in self.known:
            self.missing.append(pair)
            return None
        verdict = self.known[pair]
        return bool(verdict) if self.protocol == "code" else verdict


def _judged(
    sentence: CitedSentence, generation: GeneratedText, verdicts: _Verdicts
) -> CitedSentence:
    """Add the verdicts to a sentence."""

    def entailed_by(passages: Sequence[int]) -> bool | None:
        texts = tuple(generation.passages[passage] for passage in passages)
        return verdicts.on(EntailmentPair(sentence.claim, texts))

    cited = sentence.citations
    is_supported = entailed_by(cited) if cited else False
    precise = []
    for place, passage in enumerate(cited):
        is_precise = is_supported
        if is_supported and len(cited) > 1:
            is_precise = entailed_by([passage])
            if is_precise is False:
                others = entailed_by(cited[:place] + cited[place + 1 :])
                is_precise = None if others is None else not others
        precise.append(is_precise)
    return replace(sentence, is_supported=is_supported, precise=tuple(precise))


def summarise_citations(judged: Sequence[JudgedCitations]) -> JsonObject:
    """Return means over responses as fractions, with intervals that bootstrap the names.

    ``unscored`` counts what there is no verdict on, with the worst and the best value of each mean.
    What no response counts for is null.
    """
    means = {}
    intervals = {}
    bounds: dict[str, dict[str, float | None]] = {"worst": {}, "best": {}}
    for name, figure in _FIGURES.items():
        outcomes = []
        for response in judged:
            value = figure(response)
            outcomes.append(None if value is None else Outcome(value, response.generation.name))
        means[name] = defined(mean(outcomes))
        intervals[name] = [defined(end) for end in bootstrap_interval(outcomes, resamples=2000)]
        for end, values in bounds.items():
            values[name] = average(figure(response, end == "best") for response in judged)
    sentences = [sentence for response in judged for sentence in response.sentences]
    are_citing = [
        any(sentence.is_citing for sentence in r.sentences) for r in judged if r.sentences
    ]
    protocol = judged[0].protocol
    return {
        "protocol": protocol,
        "choices": load_yaml(__package__, "choices.yaml")["citations"][protocol],
        **means,
        "num_responses": len(judged),
        "num_sentences": len(sentences),
        "num_citations": sum(len(sentence.precise) for sentence in sentences),
        "sentences_without_citation": sum(not sentence.is_citing for sentence in sentences),
        "dangling_citations": sum(sentence.num_dangling for sentence in sentences),
        "responses_without_sentence": len(judged) - len(are_citing),
        "responses_without_citation": are_citing.count(False),
        "unscored": {
            "sentences": sum(sentence.is_supported is None for sentence in sentences),
            "citations": sum(sentence.precise.count(None) for sentence in sentences),
            **bounds,
        },
        "intervals": intervals,
    }


def to_record(judged: JudgedCitations) -> JsonObject:
    """Return a response as a line of ``citations.jsonl``.

    Citations are numbered from 1, as in the text.
    """
    generation = judged.generation
    return {
        "index": generation.index,
        "name": generation.name,
        "question": generation.question,
        "citation_recall": judged.recall(),
        "citation_precision": judged.precision(),
        "sentences": [
            {
                "text": sentence.text,
                "claim": sentence.claim,
                "supported": sentence.is_supported,
                "citations": [number + 1 for number in sentence.citations],
                "precise": list(sentence.precise),
                "dangling": sentence.num_dangling,
            }
            for sentence in judged.sentences
        ],
    }
