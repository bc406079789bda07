"""Citation recall and precision of generated biographies, as ALCE defines them (appendix D).

``lm-factuality cite`` calls this module. The definitions are those of Gao et al. (2023, section 4).

A sentence is supported if the passages that it cites entail it together. Recall is the share of
supported sentences. A citation is precise if its sentence is supported and needs it: its passage
entails the sentence alone, or the other passages do not entail it without this one. Precision is
the share of precise citations.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from pydantic_core import to_jsonable_python

from judges.inference import Entailment, EntailmentPair
from lm_factuality.benchmarks.biographies.scores import clustered_outcomes, means_with_intervals
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
_LEADING_CITATIONS = re.compile(rf"(?P<citations>{_BRACKETS.pattern})[.,;]?", re.IGNORECASE)
_DASH_BETWEEN_BRACKETS = re.compile(r"\]\s*([-\u2013])\s*\[")  # as in [1]-[3]
_RANGE = re.compile(r"(?P<first>\d+)(?:\s*(?:-|\u2013)\s*(?P<last>\d+))?")

# What ALCE's scorer reads as the number of a passage, and what it removes from a claim.
_ALCE_NUMBER = re.compile(r"\[(\d{1,9})")  # Nobody gives a model as many passages as that.
_ALCE_CITATION = re.compile(r" ?\[\d+")


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
    def verdicts_by_metric(self) -> dict[str, list[bool | None]]:
        """The verdicts on sentences (for recall) and on citations (for precision).

        Each metric is the share of True among its verdicts. A missing verdict is None.

        The protocols differ in two rules for precision. A citation may refer to a passage that the
        model was not given. ``fixed`` counts such a citation as wrong, and ALCE's scorer ignores
        it. ``code`` gives a response without citations the precision 0.
        """
        sentence_verdicts = [sentence.supported for sentence in self.sentences]
        citation_verdicts: list[bool | None] = []
        for sentence in self.sentences:
            citation_verdicts += sentence.precise
            if self.protocol == "fixed":
                # Citations of passages that were not given are dangling.
                citation_verdicts += [False] * sentence.dangling
        # A single False gives the precision 0.
        if self.protocol == "code" and self.sentences and not citation_verdicts:
            citation_verdicts.append(False)
        return {"citation_recall": sentence_verdicts, "citation_precision": citation_verdicts}

    def recall_and_precision(self, default_verdict: bool | None = None) -> dict[str, float | None]:
        """Compute ``citation_recall`` and ``citation_precision`` of the response, as fractions.

        Args:
            default_verdict: The verdict to assume where there is none. By default, sentences and
                citations without a verdict are left out. A metric without any verdict is None.
        """
        metrics = {}
        for name, verdicts in self.verdicts_by_metric.items():
            # `average` leaves out verdicts that are still None.
            metrics[name] = average(
                default_verdict if verdict is None else verdict for verdict in verdicts
            )
        return metrics


def read_cited_sentences(
    generation: GeneratedText, protocol: Protocol, split_line: Splitter = split_sentences
) -> list[CitedSentence]:
    """Split a response into sentences and read their citations.

    Args:
        generation: The response.
        protocol: ``code`` reads citations as ALCE's scorer does, and ``fixed`` also reads lines
            below the first one and ranges such as [1-3].
        split_line: Splits one line into sentences.

    Returns:
        The sentences without verdicts. There are none if the model never ended thinking.
    """
    if without_thinking(generation.output) is None:
        return []
    num_passages = len(generation.passages)
    if protocol == "code":
        # ALCE's scorer drops everything after the first line.
        first_line = generation.output.strip().split("\n")[0]
        sentences = split_line(first_line)
        return [_read_citations_as_alce(sentence, num_passages) for sentence in sentences]
    sentences = _split_cited_lines(generation.output, split_line)
    return [_read_citations(sentence, num_passages) for sentence in sentences]


def _split_cited_lines(output: str, split_line: Splitter) -> list[str]:
    """Split a response into sentences, each with the citations that belong to it.

    Example:
        A line "She sang." and a line "[1]" become the sentence "She sang.[1]".

    Args:
        output: The text of the response.
        split_line: Splits one line into sentences.
    """
    sentences: list[str] = []
    for line in output.splitlines():
        if _has_words(line):
            sentences += _split_cited_line(line, split_line)
        elif sentences:
            # A line of citations belongs to the sentence above it.
            sentences[-1] += _citations_in(line)
    return sentences


def _split_cited_line(line: str, split_line: Splitter) -> list[str]:
    """Split a line into sentences, each with the citations that belong to it.

    Citations at the beginning of the line belong to the first sentence. All other citations belong
    to the sentence before them, even if its full stop comes first.

    Example:
        "She sang. [1] He won. [2]" becomes "She sang.[1]" and "He won.[2]".

    Args:
        line: A line of the response with at least one word.
        split_line: Splits the line into sentences.
    """
    first_sentence, *further_parts = _join_opening_citations(split_line(line))
    sentences = [first_sentence]
    for part in further_parts:
        # The splitter cuts "She sang. [1] He won." before [1], which belongs to "She sang.".
        leading = _LEADING_CITATIONS.match(part)
        if leading:
            sentences[-1] += leading["citations"]
            part = part[leading.end() :].strip()
        if _has_words(part):
            sentences.append(part)
    return sentences


def _join_opening_citations(parts: Sequence[str]) -> list[str]:
    """Join citations at the beginning of a line with the first sentence of the line.

    Example:
        ["[1]", "She sang."] becomes ["[1] She sang."].

    Args:
        parts: The sentences of the line as a splitter cuts them. At least one has words.
    """
    first_index = next(index for index, part in enumerate(parts) if _has_words(part))
    first_sentence = parts[first_index]
    citations = "".join(map(_citations_in, parts[:first_index]))
    if citations:
        first_sentence = f"{citations} {first_sentence}"
    return [first_sentence, *parts[first_index + 1 :]]


def _citations_in(text: str) -> str:
    """Return only the citations of a text, such as "[1][2]" for "- [1][2]."."""
    return "".join(_BRACKETS.findall(text))


def _has_words(text: str) -> bool:
    """Return whether a text has a letter or digit outside its citations."""
    return re.search(r"\w", _BRACKETS.sub("", text)) is not None


def _read_citations(sentence: str, num_passages: int) -> CitedSentence:
    """Read all citations of a sentence.

    Example:
        "She sang [2][1-3]." of a response with two passages cites 2 and 1. The citation of 3 is
        dangling, since the model was not given the passage.

    Args:
        sentence: The sentence.
        num_passages: How many passages the model was given.
    """
    numbers: list[int] = []
    for match in _BRACKETS.finditer(sentence):
        # [1]-[3] is read as [1-3].
        brackets = _DASH_BETWEEN_BRACKETS.sub(r"\1", match[0])
        numbers += _cited_numbers(brackets)

    # A passage that is cited twice counts once. The order is that of the text.
    distinct_numbers = tuple(dict.fromkeys(numbers))
    citations = tuple(number for number in distinct_numbers if 1 <= number <= num_passages)
    return CitedSentence(
        text=sentence,
        claim=_BRACKETS.sub("", sentence).strip(),
        citations=citations,
        dangling=len(distinct_numbers) - len(citations),
    )


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
        # In a longer range, for example, the two numbers are years.
        if first <= last <= first + _LONGEST_RANGE:
            numbers += range(first, last + 1)
        else:
            numbers += [first, last]
    return numbers


def _read_citations_as_alce(sentence: str, num_passages: int) -> CitedSentence:
    """Read the citations of a sentence as ALCE's scorer does.

    The first number of each bracket counts, up to three numbers in total. If one of them is higher
    than the number of passages, the sentence has no citations.

    Example:
        "She sang [1, 2][3]." has the claim "She sang, 2." and cites 1 and 3.

    Args:
        sentence: The sentence.
        num_passages: How many passages the model was given.
    """
    numbers = [int(number) for number in _ALCE_NUMBER.findall(sentence)]
    # The scorer also removes tokens " |" and all closing brackets from the claim.
    claim = _ALCE_CITATION.sub("", sentence).replace(" |", "").replace("]", "").strip()
    if any(number > num_passages for number in numbers):
        return CitedSentence(sentence, claim, dangling=len(numbers))

    citations = []
    for number in numbers[:MOST_CITATIONS]:
        # The scorer uses number - 1 as an index of Python, so that [0] is the last passage.
        citations.append(num_passages if number == 0 else number)
    return CitedSentence(sentence, claim, citations=tuple(citations))


def sentence_splitter(name: Literal["rules", "punkt"]) -> Splitter:
    """Return the function that splits a line into sentences.

    Args:
        name: ``rules`` for this project's rules, or ``punkt`` for NLTK's model, which ALCE uses.

    Raises:
        ConfigError: The data of punkt is not installed.
    """
    if name == "rules":
        return split_sentences

    from nltk.tokenize import sent_tokenize

    # NLTK has no types, so the type is stated.
    split_with_punkt: Splitter = sent_tokenize
    try:
        # NLTK looks for its data only when it splits a text.
        split_with_punkt("One. Two.")
    except LookupError as error:
        raise ConfigError(
            "--sentences punkt needs NLTK's data 'punkt_tab'; fetch it with: python -m"
            " nltk.downloader punkt_tab (NLTK_DATA names its folder), or use --sentences rules"
        ) from error
    return split_with_punkt


def judge_citations(
    generations: Sequence[GeneratedText],
    entailment: Entailment,
    protocol: Protocol = "fixed",
    split_line: Splitter = split_sentences,
) -> list[JudgedCitations]:
    """Judge all sentences and citations of responses with an entailment model.

    Whether a citation alone has to be judged depends on the verdict on its sentence. All responses
    are therefore judged with the verdicts that are stored so far. Then the model is asked for those
    that were missing, and all responses are judged again, until none is missing. The model is first
    asked about the passages of a sentence together, then about each alone, then about all but one.

    Args:
        generations: The responses.
        entailment: The model. It stores its verdicts.
        protocol: How citations are read. ``code`` follows ALCE's scorer, and takes a missing
            verdict as "not entailed".
        split_line: Splits one line into sentences.

    Returns:
        The responses with their judged sentences, in order.
    """
    responses = []
    for generation in generations:
        sentences = read_cited_sentences(generation, protocol, split_line)
        responses.append(JudgedCitations(generation, tuple(sentences), protocol))

    while True:
        stored = _StoredVerdicts(entailment.verdicts, protocol)
        # Judging a response adds the pairs without a verdict to `missing_pairs`.
        responses = [_judge_response(response, stored.find_or_remember) for response in responses]
        if not stored.missing_pairs:
            return responses
        # One batch for all responses is faster than one per sentence.
        entailment.entail(stored.missing_pairs)


@dataclass
class _StoredVerdicts:
    """The verdicts of an entailment model so far, and the pairs that lack one."""

    verdicts: Mapping[EntailmentPair, bool | None]
    """The verdicts. None means that the model gave no usable answer."""

    protocol: Protocol
    """``code`` takes None as "not entailed"."""

    missing_pairs: list[EntailmentPair] = field(default_factory=list)
    """The pairs that were looked up and have no verdict."""

    def find_or_remember(self, pair: EntailmentPair) -> bool | None:
        """Return the verdict on a pair. If there is none yet, remember the pair as missing."""
        if pair not in self.verdicts:
            self.missing_pairs.append(pair)
            return None
        verdict = self.verdicts[pair]
        # ALCE's scorer counts an answer that it cannot use as "not entailed".
        return bool(verdict) if self.protocol == "code" else verdict


def _judge_response(response: JudgedCitations, entails: Entails) -> JudgedCitations:
    """Add the verdicts to all sentences of a response."""
    passages = response.generation.passages
    sentences = [_judge_sentence(sentence, passages, entails) for sentence in response.sentences]
    return replace(response, sentences=tuple(sentences))


def _judge_sentence(
    sentence: CitedSentence, passages: Sequence[RetrievedPassage], entails: Entails
) -> CitedSentence:
    """Add to a sentence whether it is supported, and which of its citations are precise.

    Args:
        sentence: The sentence with its citations.
        passages: The passages that the model was given. The citation 1 refers to the first.
        entails: Returns the verdict on a claim and passages, or None if there is none yet.
    """

    def is_entailed_by(citations: Sequence[int]) -> bool | None:
        """Return whether the passages that these citations refer to entail the claim."""
        cited_passages = tuple(passages[citation - 1] for citation in citations)
        return entails(EntailmentPair(sentence.claim, cited_passages))

    citations = sentence.citations
    # A sentence without citations is never supported.
    if not citations:
        return replace(sentence, supported=False, precise=())

    supported = is_entailed_by(citations)
    # Of several citations that support a sentence together, some may not be needed.
    if supported and len(citations) > 1:
        indices = range(len(citations))
        precise = [_is_citation_needed(index, citations, is_entailed_by) for index in indices]
    else:
        # A single citation is precise if it supports the sentence. Of an unsupported sentence no
        # citation is precise, and without a verdict on the sentence there is none on its citations.
        precise = [supported] * len(citations)
    return replace(sentence, supported=supported, precise=tuple(precise))


def _is_citation_needed(
    index: int,
    citations: tuple[int, ...],
    is_entailed_by: Callable[[Sequence[int]], bool | None],
) -> bool | None:
    """Return whether a supported sentence needs a citation, or None if a verdict is missing.

    A citation is needed if its passage entails the sentence alone, or if the other passages do not
    entail the sentence without it.

    Args:
        index: The index of the citation in ``citations``.
        citations: The numbers of the passages that the sentence cites, at least two.
        is_entailed_by: Returns whether some passages entail the sentence, or None.
    """
    is_enough_alone = is_entailed_by([citations[index]])
    if is_enough_alone is None:
        return None
    if is_enough_alone:
        return True
    # A passage may be cited twice, so the citation is removed by its index.
    others_are_enough = is_entailed_by(citations[:index] + citations[index + 1 :])
    return None if others_are_enough is None else not others_are_enough


def summarise_citations(responses: Sequence[JudgedCitations]) -> JsonObject:
    """Return the content of ``metrics.json`` for the judged citations of responses.

    Args:
        responses: The judged responses, at least one. All have the same protocol.

    Returns:
        A dict with these keys:

        - ``citation_recall`` and ``citation_precision``: means over responses, as fractions, or
          None if no response has a value
        - ``intervals``: their 95% intervals, clustered by name
        - ``protocol``, and ``choices``: sentences that say how it reads citations
        - ``unscored``: how much has no verdict, and the means at worst and at best
        - the counts of `_count_citations`
    """
    rows = []
    for response in responses:
        metrics = response.recall_and_precision()
        rows.append(clustered_outcomes(metrics, response.generation.name))
    means, intervals = means_with_intervals(rows)
    protocol = responses[0].protocol
    return {
        "protocol": protocol,
        "choices": load_yaml(__package__, "choices.yaml")["citations"][protocol],
        **means,
        **_count_citations(responses),
        "unscored": _summarise_unscored(responses),
        "intervals": intervals,
    }


def _count_citations(responses: Sequence[JudgedCitations]) -> dict[str, int]:
    """Count the responses, their sentences and their citations.

    The keys say what is counted. ``dangling_citations`` are those of passages that the model was
    not given, and ``responses_without_citation`` have sentences.
    """
    sentences = [sentence for response in responses for sentence in response.sentences]
    num_without_sentence = sum(not response.sentences for response in responses)
    num_citing = sum(
        any(sentence.has_citation for sentence in response.sentences) for response in responses
    )
    return {
        "num_responses": len(responses),
        "num_sentences": len(sentences),
        "num_citations": sum(len(sentence.citations) for sentence in sentences),
        "sentences_without_citation": sum(not sentence.has_citation for sentence in sentences),
        "dangling_citations": sum(sentence.dangling for sentence in sentences),
        "responses_without_sentence": num_without_sentence,
        "responses_without_citation": len(responses) - num_without_sentence - num_citing,
    }


def _summarise_unscored(responses: Sequence[JudgedCitations]) -> JsonObject:
    """Count what has no verdict, and bound the means by it.

    Returns:
        The numbers of ``sentences`` and ``citations`` without a verdict, and the means with all
        missing verdicts taken as negative (``worst``) and as positive (``best``).
    """
    sentences = [sentence for response in responses for sentence in response.sentences]
    return {
        "sentences": sum(sentence.supported is None for sentence in sentences),
        "citations": sum(sentence.precise.count(None) for sentence in sentences),
        "worst": _mean_metrics(responses, default_verdict=False),
        "best": _mean_metrics(responses, default_verdict=True),
    }


def _mean_metrics(
    responses: Sequence[JudgedCitations], default_verdict: bool
) -> dict[str, float | None]:
    """Return the mean recall and precision over responses if all missing verdicts are this one."""
    metrics = [response.recall_and_precision(default_verdict) for response in responses]
    return {name: average(row[name] for row in metrics) for name in metrics[0]}


def citation_record(response: JudgedCitations) -> JsonObject:
    """Return the line of ``citations.jsonl`` for a response."""
    generation = response.generation
    return {
        "index": generation.index,
        "name": generation.name,
        "question": generation.question,
        **response.recall_and_precision(),
        "sentences": to_jsonable_python(response.sentences),
    }
