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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pydantic_core import to_jsonable_python

from judges.inference import Entailment, EntailmentPair
from lm_factuality.benchmarks.biographies.scores import bootstrapped_means, clustered_outcomes
from lm_factuality.benchmarks.biographies.types import GeneratedText
from lm_factuality.ground.errors import ConfigError
from lm_factuality.ground.packages import load_yaml
from lm_factuality.ground.sentences import split_sentences
from lm_factuality.ground.thinking import without_thinking
from lm_factuality.harness.generation import JsonObject
from lm_factuality.scores.statistics import average

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
    """A sentence of a response, as ``citations.jsonl`` has it."""

    text: str
    claim: str
    """The text without its citations."""

    supported: bool | None = None
    """Whether the cited passages entail the claim; None where there is no verdict."""

    citations: tuple[int, ...] = ()
    """The cited passages, counted from 1 and in the order of the text."""

    precise: tuple[bool | None, ...] = ()
    """For each citation whether it is precise; None where there is no verdict."""

    dangling: int = 0
    """The number of citations with no passage behind them."""


def read_cited_sentences(
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


def sentence_splitter(name: Literal["rules", "punkt"]) -> Splitter:
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
    cited = tuple(number for number in numbers if 1 <= number <= passages)
    claim = _BRACKETS.sub("", sentence).strip()
    dangling = len(numbers) - len(cited)
    return CitedSentence(sentence, claim, citations=cited, dangling=dangling)


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
    numbers = [int(number) for number in re.findall(r"\[(\d{1,9})", sentence)]
    claim = re.sub(r" ?\[\d+", "", sentence).replace(" |", "").replace("]", "").strip()
    if any(number > passages for number in numbers):
        return CitedSentence(sentence, claim, dangling=len(numbers))
    # As an index of Python, 0 is the last passage.
    cited = tuple(number or passages for number in numbers[:MOST_CITATIONS])
    return CitedSentence(sentence, claim, citations=cited)


@dataclass(frozen=True)
class JudgedCitations:
    """A response and its sentences, as a protocol reads them."""

    generation: GeneratedText
    sentences: tuple[CitedSentence, ...]
    protocol: Protocol

    @property
    def verdicts(self) -> dict[str, list[bool | None]]:
        """The verdicts that each figure of the response is the share of.

        Recall is of sentences, precision of citations. Dangling ones are imprecise. Under ``code``
        they do not count, and a response without a citation has precision 0.
        """
        precise = [verdict for sentence in self.sentences for verdict in sentence.precise]
        if self.protocol == "fixed":
            precise += [False] * sum(sentence.dangling for sentence in self.sentences)
        elif self.sentences and not precise:
            precise = [False]
        supported = [sentence.supported for sentence in self.sentences]
        return {"citation_recall": supported, "citation_precision": precise}

    def figures(self, unscored: bool | None = None) -> dict[str, float | None]:
        """Return recall and precision, None of nothing.

        Args:
            unscored: What is taken for the verdict where there is none. By default, it is left out.
        """
        return {
            name: average(unscored if verdict is None else verdict for verdict in verdicts)
            for name, verdicts in self.verdicts.items()
        }


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
    cited = [read_cited_sentences(generation, protocol, split) for generation in generations]
    missing: list[EntailmentPair] = []

    def entails(pair: EntailmentPair) -> bool | None:
        if pair not in entailment.verdicts:
            missing.append(pair)
            return None
        verdict = entailment.verdicts[pair]
        return bool(verdict) if protocol == "code" else verdict

    while True:
        judged = []
        for generation, sentences in zip(generations, cited, strict=True):
            with_verdicts = [_judged(sentence, generation, entails) for sentence in sentences]
            judged.append(JudgedCitations(generation, tuple(with_verdicts), protocol))
        if not missing:
            return judged
        entailment.entail(missing)
        missing.clear()


def _judged(
    sentence: CitedSentence,
    generation: GeneratedText,
    entails: Callable[[EntailmentPair], bool | None],
) -> CitedSentence:
    """Add the verdicts to a sentence, as far as they are known."""

    def entailed_by(passages: Sequence[int]) -> bool | None:
        texts = tuple(generation.passages[passage - 1] for passage in passages)
        return entails(EntailmentPair(sentence.claim, texts))

    cited = sentence.citations
    supported = entailed_by(cited) if cited else False
    precise = []
    for place, passage in enumerate(cited):
        is_precise = supported
        if supported and len(cited) > 1:
            is_precise = entailed_by([passage])
            if is_precise is False:
                others = entailed_by(cited[:place] + cited[place + 1 :])
                is_precise = None if others is None else not others
        precise.append(is_precise)
    return replace(sentence, supported=supported, precise=tuple(precise))


def summarise_citations(judged: Sequence[JudgedCitations]) -> JsonObject:
    """Return means over responses as fractions, with intervals that bootstrap the names.

    ``unscored`` counts what there is no verdict on, with the worst and the best value of each mean.
    What no response counts for is null.
    """
    means, intervals = bootstrapped_means(
        [clustered_outcomes(response.figures(), response.generation.name) for response in judged]
    )
    worst = [response.figures(unscored=False) for response in judged]
    best = [response.figures(unscored=True) for response in judged]
    sentences = [sentence for response in judged for sentence in response.sentences]
    num_citing = [sum(map(_is_citing, response.sentences)) for response in judged]
    without_sentence = sum(not response.sentences for response in judged)
    protocol = judged[0].protocol
    return {
        "protocol": protocol,
        "choices": load_yaml(__package__, "choices.yaml")["citations"][protocol],
        **means,
        "num_responses": len(judged),
        "num_sentences": len(sentences),
        "num_citations": sum(len(sentence.precise) for sentence in sentences),
        "sentences_without_citation": len(sentences) - sum(num_citing),
        "dangling_citations": sum(sentence.dangling for sentence in sentences),
        "responses_without_sentence": without_sentence,
        "responses_without_citation": num_citing.count(0) - without_sentence,
        "unscored": {
            "sentences": sum(sentence.supported is None for sentence in sentences),
            "citations": sum(sentence.precise.count(None) for sentence in sentences),
            "worst": {name: average(row[name] for row in worst) for name in means},
            "best": {name: average(row[name] for row in best) for name in means},
        },
        "intervals": intervals,
    }


def _is_citing(sentence: CitedSentence) -> bool:
    """Whether it cites anything, be it no passage."""
    return bool(sentence.citations or sentence.dangling)


def citation_record(judged: JudgedCitations) -> JsonObject:
    """Return a response as a line of ``citations.jsonl``."""
    generation = judged.generation
    return {
        "index": generation.index,
        "name": generation.name,
        "question": generation.question,
        **judged.figures(),
        "sentences": to_jsonable_python(judged.sentences),
    }
