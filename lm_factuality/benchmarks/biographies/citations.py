"""Citation recall and precision of generated biographies, as ALCE defines them (appendix D).

``lm-factuality cite`` calls this module. The definitions are those of Gao et al. (2023, section 4).

A sentence is supported if the passages that it cites entail it together. Recall is the share of
supported sentences. A citation is precise if its sentence is supported and needs it: its passage
entails the sentence alone, or the other passages do not entail it without this one. Precision is
the share of precise citations.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pydantic_core import to_jsonable_python

from judges.inference import Entailment, EntailmentPair
from lm_factuality.benchmarks.biographies.scores import bootstrapped_means, clustered_outcomes
from lm_factuality.benchmarks.biographies.types import GeneratedText, RetrievedPassage
from lm_factuality.ground.errors import ConfigError
from lm_factuality.ground.packages import load_yaml
from lm_factuality.ground.sentences import split_sentences
from lm_factuality.ground.thinking import without_thinking
from lm_factuality.harness.generation import JsonObject
from lm_factuality.scores.statistics import average

Protocol = Literal["fixed", "code"]
"""How citations are read.

``fixed`` reads every way in which models cite: ``[1][2]``, ``[1, 2]``, ``[1-3]``, ``[1]-[3]``,
``[Document 1]``, also behind the full stop and in a line of their own. ``code`` reads them as
ALCE's scorer does: only in the first line, of a bracket only the first number, and at most three
citations of a sentence.
"""

Splitter = Callable[[str], list[str]]
"""Splits one line into sentences."""

Entails = Callable[[EntailmentPair], bool | None]
"""Returns whether passages entail a claim, or None if there is no verdict."""

MOST_CITATIONS = 3  # of a sentence under ``code``
_LONGEST_RANGE = 20  # passages. A longer range is no citation but, for example, two years.

_NUMBER = r"(?:(?:documents?|docs?|passages?|sources?)\s*)?\d{1,3}"
_SIGN = r"(?:[,;&-]|\u2013|\band\b)"  # between two numbers or two brackets
_BRACKET = rf"\[\s*{_NUMBER}(?:\s*{_SIGN}\s*{_NUMBER})*\s*\]"
_BRACKETS = re.compile(rf"(?<!\s)\s*{_BRACKET}(?:\s*(?:{_SIGN}\s*)?{_BRACKET})*", re.IGNORECASE)
_LEADING = re.compile(rf"(?P<citations>{_BRACKETS.pattern})[.,;]?", re.IGNORECASE)
_JOINT = re.compile(r"\]\s*([-\u2013])\s*\[")  # as in [1]-[3]
_RANGE = re.compile(r"(?P<first>\d+)(?:\s*(?:-|\u2013)\s*(?P<last>\d+))?")


@dataclass(frozen=True)
class CitedSentence:
    """A sentence of a response with its citations. The fields are those of ``citations.jsonl``."""

    text: str
    """The sentence with its citations."""

    claim: str
    """The sentence without its citations."""

    supported: bool | None = None
    """Whether the cited passages entail the claim. None if there is no verdict."""

    citations: tuple[int, ...] = ()
    """The numbers of the cited passages, counted from 1, in the order of the text."""

    precise: tuple[bool | None, ...] = ()
    """For each citation whether it is precise. None if there is no verdict."""

    dangling: int = 0
    """The number of citations of passages that the model was not given."""

    @property
    def has_citation(self) -> bool:
        """Whether the sentence cites anything, even a passage that was not given."""
        return bool(self.citations or self.dangling)


@dataclass(frozen=True)
class JudgedCitations:
    """A response whose citations have been judged."""

    generation: GeneratedText
    """The response."""

    sentences: tuple[CitedSentence, ...]
    """Its sentences with their verdicts."""

    protocol: Protocol
    """How the citations were read."""

    @property
    def verdicts(self) -> dict[str, list[bool | None]]:
        """The verdicts whose share of True is a figure, by the name of the figure.

        Recall is over sentences and precision over citations. Under ``fixed``, citations of
        passages that were not given are imprecise. Under ``code`` they do not count, and a response
        without citations has the precision 0.
        """
        supported = [sentence.supported for sentence in self.sentences]
        # An uncited sentence adds to recall only.
        precise = [verdict for sentence in self.sentences for verdict in sentence.precise]
        if self.protocol == "fixed":
            precise += [False] * sum(sentence.dangling for sentence in self.sentences)
        elif self.sentences and not precise:
            precise = [False]
        return {"citation_recall": supported, "citation_precision": precise}

    def figures(self, missing_verdict: bool | None = None) -> dict[str, float | None]:
        """Compute the citation recall and precision of the response.

        Args:
            missing_verdict: The verdict to assume where there is none. By default, sentences and
                citations without a verdict are left out.

        Returns:
            ``citation_recall`` and ``citation_precision`` as fractions. None if no sentence, or no
            citation, has a verdict.
        """
        figures = {}
        for name, verdicts in self.verdicts.items():
            assumed = [missing_verdict if verdict is None else verdict for verdict in verdicts]
            figures[name] = average(assumed)
        return figures


def read_cited_sentences(
    generation: GeneratedText, protocol: Protocol, split: Splitter = split_sentences
) -> list[CitedSentence]:
    """Split a response into sentences and read their citations.

    Args:
        generation: The response.
        protocol: How citations are read.
        split: Splits one line into sentences.

    Returns:
        The sentences without verdicts. There are none if the model never ended thinking.
    """
    # A thought is no part of the response.
    if without_thinking(generation.output) is None:
        return []
    num_passages = len(generation.passages)
    if protocol == "code":
        first_line = generation.output.strip().split("\n")[0]
        return [_read_citations_as_alce(sentence, num_passages) for sentence in split(first_line)]

    sentences: list[str] = []
    for line in generation.output.splitlines():
        if _has_words(line):
            sentences += _split_line(line, split)
        elif sentences:
            # A line of citations belongs to the sentence above it.
            sentences[-1] += "".join(_BRACKETS.findall(line))
    return [_read_citations(sentence, num_passages) for sentence in sentences]


def _split_line(line: str, split: Splitter) -> list[str]:
    """Split a line into sentences, each with the citations that belong to it.

    Citations at the beginning of the line belong to the first sentence. All other citations belong
    to the sentence before them, also behind its full stop.

    Example:
        "She sang. [1] He won. [2]" becomes "She sang.[1]" and "He won.[2]".

    Args:
        line: A line of the response with at least one word.
        split: Splits the line into sentences.
    """
    sentences: list[str] = []
    opening_citations = ""
    for sentence in split(line):
        # The splitter may take "[1]" at the beginning of a line for a sentence.
        if not sentences and not _has_words(sentence):
            opening_citations += "".join(_BRACKETS.findall(sentence))
            continue
        # The splitter puts citations behind a full stop at the next sentence.
        leading = _LEADING.match(sentence)
        if leading and sentences:
            sentences[-1] += leading["citations"]
            sentence = sentence[leading.end() :].strip()
        if _has_words(sentence):
            if opening_citations:
                sentence = f"{opening_citations} {sentence}"
                opening_citations = ""
            sentences.append(sentence)
    return sentences


def _has_words(text: str) -> bool:
    """Return whether a text has more than citations and marks."""
    return re.search(r"\w", _BRACKETS.sub("", text)) is not None


def _read_citations(sentence: str, num_passages: int) -> CitedSentence:
    """Read all citations of a sentence.

    Args:
        sentence: The sentence, such as "She sang [1][2].".
        num_passages: How many passages the model was given. Citations of others are dangling.
    """
    # A dict keeps the order and drops repeated numbers.
    numbers: dict[int, None] = {}
    for match in _BRACKETS.finditer(sentence):
        # [1]-[3] is read as [1-3].
        brackets = _JOINT.sub(r"\1", match[0])
        numbers |= dict.fromkeys(_cited_numbers(brackets))
    citations = tuple(number for number in numbers if 1 <= number <= num_passages)
    claim = _BRACKETS.sub("", sentence).strip()
    dangling = len(numbers) - len(citations)
    return CitedSentence(sentence, claim, citations=citations, dangling=dangling)


def _cited_numbers(brackets: str) -> list[int]:
    """Return the numbers that brackets cite, with those inside a range.

    Example:
        "[1, 3-5]" becomes [1, 3, 4, 5]. "[1871-1940]" becomes [1871, 1940], since the range is too
        long for a citation.

    Args:
        brackets: One or several brackets with numbers.
    """
    numbers: list[int] = []
    for match in _RANGE.finditer(brackets):
        first = int(match["first"])
        last = int(match["last"] or first)
        if first <= last <= first + _LONGEST_RANGE:
            numbers += range(first, last + 1)
        else:
            numbers += [first, last]
    return numbers


def _read_citations_as_alce(sentence: str, num_passages: int) -> CitedSentence:
    """Read the citations of a sentence as ALCE's scorer does.

    Args:
        sentence: The sentence. The first number of each bracket counts, up to three in total.
        num_passages: How many passages the model was given. A citation of any other leaves the
            sentence without citations.
    """
    # A longer number is no citation, since nobody gives a model so many passages.
    numbers = [int(number) for number in re.findall(r"\[(\d{1,9})", sentence)]
    claim = re.sub(r" ?\[\d+", "", sentence).replace(" |", "").replace("]", "").strip()
    if any(number > num_passages for number in numbers):
        return CitedSentence(sentence, claim, dangling=len(numbers))
    # The scorer uses number - 1 as an index of Python, so that [0] is the last passage.
    citations = tuple(number or num_passages for number in numbers[:MOST_CITATIONS])
    return CitedSentence(sentence, claim, citations=citations)


def sentence_splitter(name: Literal["rules", "punkt"]) -> Splitter:
    """Return the function that splits a line into sentences.

    Args:
        name: ``rules`` for this project's rules, or ``punkt`` for NLTK's model, which ALCE uses.

    Raises:
        ConfigError: The data of punkt is not installed.
    """
    if name == "rules":
        return split_sentences
    try:
        from nltk.tokenize import sent_tokenize

        # NLTK looks for its data only when it splits a text.
        sent_tokenize("One. Two.")
    except LookupError as error:
        raise ConfigError(
            "--sentences punkt needs NLTK's data 'punkt_tab'; fetch it with: python -m"
            " nltk.downloader punkt_tab (NLTK_DATA names its folder), or use --sentences rules"
        ) from error
    splitter: Splitter = sent_tokenize
    return splitter


def judge_citations(
    generations: Sequence[GeneratedText],
    entailment: Entailment,
    protocol: Protocol = "fixed",
    split: Splitter = split_sentences,
) -> list[JudgedCitations]:
    """Judge all sentences and citations of responses with a model of inference.

    Which passages a citation is judged with depends on earlier verdicts. The sentences are
    therefore judged with the verdicts known so far, until no verdict is missing. The model is
    asked in three batches: all citations of a sentence together, each alone, and all but one.

    Args:
        generations: The responses.
        entailment: The model. It keeps its verdicts.
        protocol: How citations are read. Under ``code`` a missing verdict means "not entailed".
        split: Splits one line into sentences.

    Returns:
        The responses with their judged sentences, in order.
    """
    sentences_by_response = [
        read_cited_sentences(generation, protocol, split) for generation in generations
    ]
    missing_pairs: list[EntailmentPair] = []

    def known_verdict(pair: EntailmentPair) -> bool | None:
        """Return the verdict on a pair, or None and remember that it is missing."""
        if pair not in entailment.verdicts:
            missing_pairs.append(pair)
            return None
        verdict = entailment.verdicts[pair]
        return bool(verdict) if protocol == "code" else verdict

    while True:
        # This costs no request where all verdicts are known.
        judged = []
        for generation, sentences in zip(generations, sentences_by_response, strict=True):
            judged_sentences = [
                _judge_sentence(sentence, generation.passages, known_verdict)
                for sentence in sentences
            ]
            judged.append(JudgedCitations(generation, tuple(judged_sentences), protocol))
        if not missing_pairs:
            return judged
        # One batch for all responses is faster than one per sentence.
        entailment.entail(missing_pairs)
        missing_pairs.clear()


def _judge_sentence(
    sentence: CitedSentence, passages: Sequence[RetrievedPassage], entails: Entails
) -> CitedSentence:
    """Add to a sentence whether it is supported, and which of its citations are precise.

    Args:
        sentence: The sentence with its citations.
        passages: The passages that the model was given. The citation 1 refers to the first.
        entails: Returns the verdict on a claim and passages.
    """

    def is_entailed_by(citations: Sequence[int]) -> bool | None:
        """Return whether the passages that these citations refer to entail the claim."""
        cited_passages = tuple(passages[citation - 1] for citation in citations)
        return entails(EntailmentPair(sentence.claim, cited_passages))

    citations = sentence.citations
    # A sentence without citations is never supported.
    supported = is_entailed_by(citations) if citations else False
    precise: list[bool | None] = []
    for position, citation in enumerate(citations):
        if not supported or len(citations) == 1:
            # An only citation is needed exactly if the sentence is supported.
            precise.append(supported)
            continue
        is_precise = is_entailed_by([citation])
        if is_precise is False:
            # The citation is still needed if the others do not suffice without it.
            others = citations[:position] + citations[position + 1 :]
            is_entailed_by_others = is_entailed_by(others)
            is_precise = None if is_entailed_by_others is None else not is_entailed_by_others
        precise.append(is_precise)
    return replace(sentence, supported=supported, precise=tuple(precise))


def summarise_citations(judged: Sequence[JudgedCitations]) -> JsonObject:
    """Return the content of ``metrics.json`` for the judged citations of responses.

    Args:
        judged: The judged responses, at least one. All have the same protocol.

    Returns:
        The mean recall and precision over responses as fractions, or None if no response has them;
        their 95% ``intervals``, which bootstrap the names; counts of sentences and citations; and
        under ``unscored`` how much has no verdict, and what the means would be at worst and best.
    """
    rows = []
    for response in judged:
        rows.append(clustered_outcomes(response.figures(), response.generation.name))
    means, intervals = bootstrapped_means(rows)
    protocol = judged[0].protocol
    return {
        "protocol": protocol,
        "choices": load_yaml(__package__, "choices.yaml")["citations"][protocol],
        **means,
        **_count_citations(judged),
        "unscored": _summarise_unscored(judged),
        "intervals": intervals,
    }


def _count_citations(judged: Sequence[JudgedCitations]) -> dict[str, int]:
    """Count the responses, sentences and citations, and those without a citation.

    Args:
        judged: The judged responses.
    """
    responses_without_sentence = 0
    responses_without_citation = 0
    for response in judged:
        if not response.sentences:
            responses_without_sentence += 1
        # A response without a sentence is counted once, not twice.
        elif not any(sentence.has_citation for sentence in response.sentences):
            responses_without_citation += 1

    sentences = [sentence for response in judged for sentence in response.sentences]
    return {
        "num_responses": len(judged),
        "num_sentences": len(sentences),
        "num_citations": sum(len(sentence.precise) for sentence in sentences),
        "sentences_without_citation": sum(not sentence.has_citation for sentence in sentences),
        "dangling_citations": sum(sentence.dangling for sentence in sentences),
        "responses_without_sentence": responses_without_sentence,
        "responses_without_citation": responses_without_citation,
    }


def _summarise_unscored(judged: Sequence[JudgedCitations]) -> JsonObject:
    """Count what has no verdict, and bound the means by it.

    Args:
        judged: The judged responses.

    Returns:
        The numbers of ``sentences`` and ``citations`` without a verdict, and the means with all
        missing verdicts taken as negative (``worst``) and as positive (``best``).
    """
    sentences = [sentence for response in judged for sentence in response.sentences]
    return {
        "sentences": sum(sentence.supported is None for sentence in sentences),
        "citations": sum(sentence.precise.count(None) for sentence in sentences),
        "worst": _mean_figures(judged, missing_verdict=False),
        "best": _mean_figures(judged, missing_verdict=True),
    }


def _mean_figures(
    judged: Sequence[JudgedCitations], missing_verdict: bool
) -> dict[str, float | None]:
    """Return the mean recall and precision over responses if all missing verdicts are this one."""
    figures = [response.figures(missing_verdict) for response in judged]
    return {name: average(row[name] for row in figures) for name in figures[0]}


def citation_record(judged: JudgedCitations) -> JsonObject:
    """Return the line of ``citations.jsonl`` for a response."""
    generation = judged.generation
    return {
        "index": generation.index,
        "name": generation.name,
        "question": generation.question,
        **judged.figures(),
        "sentences": to_jsonable_python(judged.sentences),
    }
