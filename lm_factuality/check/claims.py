"""Split an answer into the claims to judge, and tell where each stands in it.

Sentences are split into facts by the rules that long form uses offline (`judges.lexical.facts`).
`markdown` finds headings, lists, tables and prose.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from judges.lexical.facts import is_fragment, split_facts
from lm_factuality.benchmarks.biographies.decompose import is_abstention
from lm_factuality.check.markdown import Block, read_blocks
from lm_factuality.ground.sentences import split_sentences, words_in
from lm_factuality.ground.thinking import read_output

# Characters. A longer sentence is kept whole, and not read for a refusal, which is shorter.
_MAX_ANALYSED_LENGTH = 2_000
_LONGEST_LABEL = 60  # characters
_MAX_INTRODUCTION_LENGTH = 200  # characters
_MOST_TITLE_WORDS = 8
_LONGEST_ABBREVIATION = 10  # characters, with what stands before it

# Abbreviations that seldom end a sentence, besides those that `split_sentences` knows.
_ABBREVIATION_END = re.compile(
    r"\b(?:v|Ins|Corp|Bros|approx|cf|al|[Ff]igs?|[Ee]q|pp?|vol|e\.g|i\.e)\.$"
)
_SENTENCE_END = re.compile(r"[.!?\u2026\u3002\uff01\uff1f][\"'\u201d\u2019)\]]*$")
# Words before a statement that do not belong to it, such as "Sure," or "Note that".
_FILLER = re.compile(
    r"^(?:(?:sure|certainly|of course|absolutely|yes|no|well|overall|to summari[sz]e"
    r"|in (?:summary|conclusion|short)|(?:for )?example|(?:important )?notes?|tip|important"
    r"|warning|caution)[,!:]\s+"
    r"|(?:(?:please )?note|keep in mind|remember) that\s+"
    r"|it(?:'s| is) (?:worth (?:noting|mentioning)|important to (?:note|remember)) that\s+"
    r"|(?:here (?:are|is)|here's|below (?:are|is)|these are|let's look at) (?=.*:$))+",
    re.IGNORECASE,
)
# Words that present a table, before what it is about, as in "Table 2:" or "The table shows".
_TABLE_PRESENTATION = re.compile(
    r"^(?:an? |the |this )?(?:following )?(?:table|overview)(?: below)?(?: ?\d{1,3})?"
    r"(?:[.:]| of| with| (?:shows|gives|lists|compares|contains|presents|summari[sz]es))"
    r"\s+(?!that\b)",
    re.IGNORECASE,
)
# Titles that do not tell what the text below them is about.
_EMPTY_TITLE = re.compile(
    r"(?:an? |the |short |quick |final |main |key )*(?:answers?|comparisons?|conclusions?"
    r"|definitions?|details|examples?|facts|introduction|notes?|overview|points|summary|tables?"
    r"|takeaways)",
    re.IGNORECASE,
)
# Sentences that state nothing about the world: greetings, offers, and opinions without content.
_NO_CLAIM = re.compile(
    r"\W*(?:(?:however|but|and|so|also|additionally|finally),? )?(?:"
    r"(?:sure|certainly|of course|absolutely|hello|hi|hey|thanks|thank you|yes|no|okay|ok"
    r"|(?:great|good|excellent|interesting) (?:question|point))\b(?: there| thing)?\W*$"
    r"|(?:to [^,.:]{1,80}, )?(?:let's|let us|let me)\b"
    r"|(?:here(?:'s| is| are)|below (?:is|are)|feel free|hope this|happy to)\b"
    r"|i(?:'d|'ll|'m| am| can| could| will| would| hope| recommend| suggest| apologi[sz]e)\b"
    r"|if you(?:(?:'d| would) like| have (?:any|more|other|further)| need (?:any|more|help|further)"
    r"| want (?:me|more)| share| tell| let| provide)\b"
    r"|please (?!note)|(?:let me know|tell me)\b"
    r"|the (?:\w+ )?(?:documents?|texts?|passages?|contexts?|sources?) (?:do not|does not|don't"
    r"|doesn't) (?:say|mention|state|specify|provide|contain|include)\b"
    r"|(?:it depends|that depends|this is (?:an? )?(?:\w+ )?(?:question|topic|point))\W*$"
    r"|this (?:table|list|overview|summary|answer|section) (?:shows|summari[sz]es|gives|compares)\b"
    r"|(?:an?|the|these|some|several|many|both|two|three|four|five) (?:[\w-]+ ){1,3}"
    r"(?:deserves?|merits?|(?:is|are) worth) (?:an? |some |special |closer |further )*"
    r"(?:attention|comment|discussion|look|mention(?:ing)?|note|noting|remark)\W*$"
    r")",
    re.IGNORECASE,
)
# A statement without its subject, such as "Founded in 1900" or "produces energy".
_NO_SUBJECT = re.compile(
    r"[a-z]|(?:\w+ed (?:in|on|at|by|to|for|from|as|with|into|of)|Has|Is|Was|Are|Were|Had|Can|Born"
    r"|Built|Made|Known|Written|Includes?|Contains?|Provides?|Produces?|Uses?|Helps?|Offers?"
    r"|Found|Became|Won|Led|Held|Began)\b"
)
_FIRST_PERSON = re.compile(r"\W*(?:[\w ]{1,40}, )?(?:but )?(?:I|[Mm]y|[Ss]orry|[Aa]pologies)\b")
# The first words of a sentence that may mean something in the title above it.
_PRONOUN = re.compile(
    r"(?:It|They|This|These|Its|Their|Both|Such|The (?:two|three|four|five|former|latter|same))\b"
)
# A sentence with one of these words is not split, since its parts mean something else alone.
_CONDITION = re.compile(
    r"\b(?:if|unless|because|whether|either|neither|nor|not|although|so that|rather than"
    r"|such as|that|which|where|when|while)\b"
    r"|^(?:there|in addition to|in contrast to|instead of)\b",
    re.IGNORECASE,
)
_ABOUT_SOURCES = re.compile(
    r"\b(?:search results|(?:provided|given) (?:documents?|texts?|passages?|context|information)"
    r"|not enough information|please (?:specify|provide))\b",
    re.IGNORECASE,
)
# An introduction that the first words of an item continue, such as "The parts are:".
_OPEN_END = re.compile(
    r"\b(?:is|are|was|were|be|includes?|included|including|for|to|of|by|in|on|with|from|as|can|may"
    r"|must|should|will|that|the|a|an|has|have|had|called)$"
)
_AUXILIARY_OF_ACTIVE = re.compile(
    r"\b(?:was|were|is) (died|lived|worked|studied|graduated|emigrated|served as|moved to)\b"
)
_HAS_AUXILIARY = re.compile(r"\b(?:is|are|was|were|has|had|have|can|will|does|did)\b")
_LABEL = re.compile(rf"[^:.!?]{{1,{_LONGEST_LABEL}}}:\s+(?=\S)")
# The number of a heading, such as "2.1." or "Step 2:".
_HEADING_NUMBER = re.compile(r"^(?:(?:step|part|chapter) )?\d{1,3}(?:\.\d{1,3}){0,5}[.):]? ", re.I)
_EMPTY_CELL = re.compile(r"\W*(?:n/?a\W*)?", re.IGNORECASE)
_SIGNS = str.maketrans({"\u2705": "Yes", "\u2714": "Yes", "\u2713": "Yes"}) | str.maketrans(
    {"\u274c": "No", "\u2718": "No", "\u2717": "No"}
)


@dataclass(frozen=True)
class Claim:
    """A statement of an answer that can be judged."""

    text: str
    """The statement, which stands alone as far as rules can make it."""

    start: int
    """The offset in the answer at which the sentence, list item or table row begins.

    All claims of one sentence or row have its place.
    """

    end: int
    """The offset after its last character."""


def split_answer(text: str) -> list[Claim]:
    """Split an answer, in Markdown or without markup, into claims.

    Code and the model's thoughts are left out, and so are headings, questions, greetings and
    offers. An item of a list that is no sentence gets the words that introduce the list, and a cell
    of a table gets the names of its row and column.

    Example:
        ``Sure! Ada was born in 1900 and died in 1950.`` has the claims ``Ada was born in 1900.``
        and ``Ada died in 1950.`` The answer ``Paris`` is one claim.
    """
    blocks = read_blocks(_hide_thoughts(text))
    claims = list(_claims_of_blocks(blocks))
    if claims or len(blocks) != 1 or blocks[0].kind != "prose":
        return claims

    # "Paris" alone is a claim, unlike "Hello!" or "...".
    plain = blocks[0].plain
    has_word = bool(words_in(plain.text[:_MAX_ANALYSED_LENGTH]))
    if _states_nothing(plain.text) or not has_word:
        return []
    return [Claim(plain.text, *plain.span(0, len(plain.text)))]


def _hide_thoughts(text: str) -> str:
    r"""Replace the thoughts of a model by as many line breaks, so that offsets stay valid.

    Example:
        ``<think>?</think>Yes.`` becomes 16 line breaks and ``Yes.``
    """
    parts = []
    thought_start = 0
    # The spans are the text around the thoughts.
    for start, end in read_output(text).spans:
        parts.append("\n" * (start - thought_start))
        parts.append(text[start:end])
        thought_start = end
    return "".join(parts)


@dataclass
class _Introduction:
    """What introduces the blocks that follow: a title, or a sentence that ends in a colon."""

    text: str = ""
    """The words without the colon, such as ``Engines`` or ``The parts are``."""

    ends_in_colon: bool = False
    """Whether it is a sentence that ends in a colon."""

    source_block: Block | None = None
    """The block that it is from."""

    def is_from(self, block: Block | None) -> bool:
        """Tell whether a block, if there is one, is this title or ends in this sentence."""
        return block is not None and self.source_block is block

    def prepend_to(self, phrase: str) -> str:
        """Return a phrase with this introduction before it.

        Example:
            ``the head`` → ``The parts are the head`` or ``Engines: the head``
        """
        if not self.text or not phrase:
            return phrase or self.text
        is_continued = self.ends_in_colon and _OPEN_END.search(self.text) is not None
        return f"{self.text} {phrase}" if is_continued else f"{self.text}: {phrase}"


class _Introductions:
    """What introduces the block that is read, outside of lists and in each list that it is in.

    Attributes:
        by_depth: The introductions outside of lists, in one list, in two lists, ...
    """

    def __init__(self) -> None:
        # The last title outside of lists.
        self._heading = _Introduction()
        self.by_depth = [self._heading]

    def prepare_for(self, block: Block) -> None:
        """Set which introduction holds at each depth, before a block is read.

        ``by_depth[0]`` introduces text outside of lists, ``by_depth[1]`` an item of a list, and
        ``by_depth[2]`` an item of a list in that item.

        Example:
            For the blocks below, ``by_depth`` has these texts after this method::

                The parts are:    [""]
                - **Wings**       ["The parts are", "The parts are"]
                  - They beat.    ["The parts are", "The parts are Wings", "The parts are Wings"]
                - **Legs**        ["The parts are", "The parts are"]
                It can fly.       ["The parts are"]

            The title ``Wings`` is added when its own block is read, by `replace`.
        """
        # A new item ends the item before it, and so all that introduced the text of that item.
        num_kept = block.depth if block.opens_item else block.depth + 1
        del self.by_depth[num_kept:]
        # What introduces the text around a new list or item introduces the list or item as well.
        surrounding_introduction = self.by_depth[-1]
        while len(self.by_depth) <= block.depth:
            self.by_depth.append(surrounding_introduction)

    def replace(self, block: Block, text: str, ends_in_colon: bool = False) -> None:
        """Let a text, and no earlier one at its depth, introduce the blocks that follow.

        Example:
            In a list below the heading ``Engines``, the item ``**Parts**`` introduces what follows
            in this item as ``Engines: Parts``.

        Args:
            block: The block of the text.
            text: A title, such as ``Parts``, or a sentence that ends in a colon.
            ends_in_colon: Whether it is such a sentence.
        """
        topic = _topic_of(text)
        # A whole sentence needs no other words. A title in a list needs the words above the list.
        stands_alone = ends_in_colon and topic != "" and not is_fragment(topic)
        if block.opens_item and not stands_alone:
            # Titles of lists within lists add up, so only the last words are kept.
            topic = self.by_depth[block.depth].prepend_to(topic)[-_MAX_INTRODUCTION_LENGTH:]

        self.by_depth[block.depth] = _Introduction(topic, ends_in_colon, block)
        if block.depth == 0 and not ends_in_colon:
            self._heading = self.by_depth[0]

    def return_to_heading(self) -> None:
        """Let the last title introduce what follows outside of lists, and no later sentence."""
        self.by_depth[0] = self._heading


def _topic_of(text: str) -> str:
    """Return the words of a title or an introducing sentence that tell what follows it.

    Example:
        ``Table 2: Rivers of Asia`` → ``Rivers of Asia``. The title ``Overview`` has no such words.
    """
    topic = _TABLE_PRESENTATION.sub("", text)[-_MAX_INTRODUCTION_LENGTH:].rstrip(" :.")
    return "" if _EMPTY_TITLE.fullmatch(topic) else topic


def _claims_of_blocks(blocks: Sequence[Block]) -> Iterator[Claim]:
    """Yield the claims of all blocks of an answer, each with the words that introduce it."""
    introductions = _Introductions()
    for index, block in enumerate(blocks):
        previous_block = blocks[index - 1] if index > 0 else None
        next_block = blocks[index + 1] if index + 1 < len(blocks) else None
        introductions.prepare_for(block)
        if block.kind == "row":
            yield from _row_claims(block, introductions.by_depth[block.depth])
            # What introduces a table is about its rows only.
            if next_block is None or next_block.kind != "row":
                introductions.return_to_heading()
        elif _is_title(block, previous_block, next_block, introductions.by_depth[0]):
            introductions.replace(block, _HEADING_NUMBER.sub("", block.plain.text))
        else:
            yield from _prose_claims(block, previous_block, next_block, introductions)


def _is_title(
    block: Block,
    previous_block: Block | None,
    next_block: Block | None,
    introduction: _Introduction,
) -> bool:
    """Tell whether a block only names the topic of the blocks that follow.

    Such a title is a heading, a bold line, or a short text without a verb, as in
    ``Early life``.

    Args:
        block: The block.
        previous_block: The block before it. None for the first one.
        next_block: The block after it. None for the last one.
        introduction: What introduces the text outside of lists.
    """
    if block.kind == "heading":
        return True
    text = block.plain.text
    is_bold = block.emphasis == "all"
    is_above_table = next_block is not None and next_block.kind == "row"
    # "Table 2 lists the rivers." is the title of the table below it.
    if is_above_table and _TABLE_PRESENTATION.match(text):
        return len(_locate_sentences(text)) == 1
    # A sentence, or a last line, is no title, unless it is a bold question: "**Who was she?**".
    if next_block is None or _SENTENCE_END.search(text):
        return is_bold and text.endswith("?")
    if block.depth > 0:
        return _is_title_of_item(block, next_block)
    if is_bold:
        return True
    # Below "The capital is:", the phrase "Oslo" ends that sentence.
    ends_sentence = introduction.ends_in_colon and introduction.is_from(previous_block)
    return _is_phrase_above(block, next_block, ends_sentence)


def _is_phrase_above(block: Block, next_block: Block, ends_sentence: bool) -> bool:
    """Tell whether a line outside of lists is a phrase, and may be the title of the next block.

    Args:
        block: The line, such as ``Early life``.
        next_block: The block below it.
        ends_sentence: Whether the line ends the sentence above it. Such a line is only a title if
            a label, such as ``Area: 5 km``, follows it.
    """
    text = block.plain.text
    if _LABEL.match(text) or text.endswith(":") or next_block.kind == "heading":
        return False
    if not _is_phrase(text):
        return False
    # Lines of labels have their topic above them.
    has_label_below = _LABEL.match(next_block.plain.text) is not None
    return has_label_below or not ends_sentence


def _prose_claims(
    block: Block,
    previous_block: Block | None,
    next_block: Block | None,
    introductions: _Introductions,
) -> Iterator[Claim]:
    """Yield the claims of a line or paragraph, and let it introduce the blocks that follow.

    Example:
        ``**Climate.** It is mild. It has two seasons:`` begins with a title and ends with an
        introduction of the next block. Only the sentence between them is a claim.
    """
    paragraph = _divide_paragraph(block)
    if paragraph.title:
        introductions.replace(block, paragraph.title)
        may_have_label = False
        continues_title = True
    else:
        may_have_label = _may_have_label(block, (previous_block, next_block))
        continues_title = _continues_title(block, previous_block, introductions.by_depth[0])

    introduction = introductions.by_depth[block.depth]
    is_in_list = block.depth > 0
    place = _Place(introduction, is_in_list, may_have_label, continues_title)
    for sentence in paragraph.sentences:
        for statement in _split_into_statements(sentence.text, place):
            yield Claim(statement, *block.plain.span(sentence.start, sentence.end))
        # Only the first sentence may have a label, or call the title "it".
        place = _Place(introduction, is_in_list, may_have_label=False, continues_title=False)

    if paragraph.colon_sentence:
        text = _FILLER.sub("", paragraph.colon_sentence)
        introductions.replace(block, text, ends_in_colon=True)
    elif not is_in_list and _SENTENCE_END.search(paragraph.sentences[-1].text):
        # The introduction was about the paragraph that ends here.
        introductions.return_to_heading()


class _Paragraph(NamedTuple):
    """The parts of a line or paragraph, which has at least one of the last two."""

    title: str
    """The bold first sentence, such as ``Climate.``, that is the title of the rest, or empty."""

    sentences: list["_Sentence"]
    """The sentences that may state something."""

    colon_sentence: str
    """The last sentence if it ends in a colon, and so introduces the next block. Else empty."""


def _divide_paragraph(block: Block) -> _Paragraph:
    """Tell a title and a last sentence that ends in a colon from the sentences between them.

    A title is a bold phrase before the other sentences, as in ``**Climate.** It is mild.``
    """
    sentences = _locate_sentences(block.plain.text)
    title = ""
    begins_bold = len(sentences) > 1 and block.emphasis == "start"
    if begins_bold and _is_phrase(sentences[0].text.rstrip(".")):
        title = sentences.pop(0).text
    colon_sentence = ""
    if sentences[-1].text.endswith(":"):
        colon_sentence = sentences.pop().text
    return _Paragraph(title, sentences, colon_sentence)


def _continues_title(
    block: Block, previous_block: Block | None, introduction: _Introduction
) -> bool:
    """Tell whether a pronoun at the start of a block may mean the title above it.

    Example:
        In ``It is mild.`` below the title ``Climate``, "it" may mean the climate.

    Args:
        block: The block.
        previous_block: The block before it. None for the first one.
        introduction: What introduces the text outside of lists.
    """
    # The items of a list are about different things, and not about the title above the list.
    if block.opens_item:
        return False
    # The other blocks of an item go on with what its first block names.
    if block.depth > 0:
        return True
    return introduction.is_from(previous_block)


def _is_title_of_item(block: Block, next_block: Block) -> bool:
    """Tell whether a block in a list is a phrase above the other blocks of its list item.

    Example:
        ``Parts`` is a title in ``- Parts`` with a list of parts below it.
    """
    has_list_below = next_block.depth > block.depth
    has_text_below = next_block.depth == block.depth and not next_block.opens_item
    has_others_below = has_list_below or has_text_below
    return block.opens_item and has_others_below and _is_phrase(block.plain.text)


@dataclass(frozen=True)
class _Place:
    """Where a sentence stands."""

    introduction: _Introduction
    """What introduces it."""

    is_in_list: bool
    """Whether it is part of a list."""

    may_have_label: bool
    """Whether it may begin with a label, such as ``Climate:``."""

    continues_title: bool
    """Whether it is the first sentence after its introduction, which a pronoun may mean."""


class _Sentence(NamedTuple):
    """A sentence of a block, and its place in the block's text."""

    text: str
    start: int
    end: int


def _locate_sentences(text: str) -> list[_Sentence]:
    """Split the text of a block into sentences, with the place of each in the text.

    Example:
        ``Roe v. Wade was decided in 1973. It is famous.`` has a sentence from 0 to 32 and one from
        33 to 46.

    Args:
        text: The text, which has a word, and single spaces.
    """
    sentences: list[_Sentence] = []
    end = 0
    for sentence in split_sentences(text):
        # The search begins after the previous sentence, which may have the same words. A sentence
        # that is not found (-1) begins there.
        start = max(text.find(sentence, end), end)
        end = min(start + len(sentence), len(text))
        # `split_sentences` also splits after abbreviations such as "v.", which is undone here.
        if sentences and _ABBREVIATION_END.search(sentences[-1].text[-_LONGEST_ABBREVIATION:]):
            start = sentences.pop().start
        sentences.append(_Sentence(text[start:end], start, end))
    return sentences


def _may_have_label(block: Block, neighbours: Sequence[Block | None]) -> bool:
    """Tell whether a block may begin with a label: in lists, in bold, and in lines of labels."""
    if block.depth > 0 or block.emphasis == "start":
        return True
    return any(
        neighbour is not None and neighbour.kind == "prose" and _LABEL.match(neighbour.plain.text)
        for neighbour in neighbours
    )


def _is_phrase(text: str) -> bool:
    """Tell whether a text is so short, and without a verb such as "is", that it states nothing."""
    num_words = len(text[:_MAX_INTRODUCTION_LENGTH].split())
    is_formula = "=" in text
    return num_words <= _MOST_TITLE_WORDS and not is_formula and not _HAS_AUXILIARY.search(text)


def _split_into_statements(sentence: str, place: _Place) -> list[str]:
    """Return the statements of a sentence or list item, so that each can be understood alone.

    Example:
        ``It opened in 1900 and closed in 1950.`` has two statements. The item ``the head`` of a
        list below ``The parts are:`` has one, ``The parts are the head.``

    Args:
        sentence: The sentence or list item. Filler before it, such as ``Note that``, is left out.
        place: Where it stands. It tells whether the sentence may begin with a label, such as
            ``Climate:``, and which words introduce it.
    """
    if _states_nothing(sentence):
        return []
    filler = _FILLER.match(sentence)
    if filler:
        # The rules below take a text with a small first letter for a phrase without a subject.
        sentence = _with_capital(sentence[filler.end() :])
    if len(sentence) > _MAX_ANALYSED_LENGTH:
        return [sentence]

    label = _LABEL.match(sentence) if place.may_have_label else None
    if _needs_introduction(sentence, place, label):
        return [_as_sentence(place.introduction.prepend_to(sentence))]
    return [_as_sentence(sentence)] if label else _split_into_facts(sentence)


def _needs_introduction(sentence: str, place: _Place, label: re.Match[str] | None) -> bool:
    """Tell whether a sentence says too little without the words that introduce it.

    Example:
        ``the head`` needs the words ``The parts are:``, and ``It has two towers.`` needs the title
        ``London Bridge`` above it.

    Args:
        sentence: The sentence or list item.
        place: Where it stands.
        label: The label at its beginning, such as ``Climate:``. None without one.
    """
    text_after_label = sentence[label.end() :] if label else sentence
    lacks_subject_or_verb = is_fragment(text_after_label) or bool(_NO_SUBJECT.match(sentence))
    has_full_stop = _SENTENCE_END.search(sentence) is not None
    # An item without a full stop may have a verb in a clause only: "Oslo, founded in 1048".
    may_lack_verb = not has_full_stop and not _HAS_AUXILIARY.search(sentence)
    is_phrase = lacks_subject_or_verb or may_lack_verb

    # "Climate: mild" needs an introduction, unlike "Climate: It is mild."
    if label:
        return is_phrase
    # The list item "the head" needs one.
    if place.is_in_list and is_phrase:
        return True
    # Below "She was:", the words "born in 1900" need one, unlike "She was born in 1900".
    if place.introduction.ends_in_colon:
        return lacks_subject_or_verb and (place.continues_title or not has_full_stop)
    # "This stage needs light" says little without the title above it.
    return place.continues_title and _PRONOUN.match(sentence) is not None


def _states_nothing(sentence: str) -> bool:
    """Tell whether a sentence is a question, a greeting, an offer or a refusal."""
    if sentence.rstrip("\"'\u201d\u2019)] ").endswith(("?", "\uff1f")):
        return True
    if _NO_CLAIM.match(sentence.replace("\u2019", "'")):
        return True
    # A refusal is short.
    if len(sentence) > _MAX_ANALYSED_LENGTH:
        return False
    # "It is not possible to travel faster than light" is a claim, unlike "I cannot answer".
    return _FIRST_PERSON.match(sentence) is not None and is_abstention(sentence)


def _split_into_facts(sentence: str) -> list[str]:
    """Split a sentence into its facts, or keep it whole if that would change its meaning.

    Example:
        - ``Ada was born in 1900 and died in 1950.`` → ``Ada was born in 1900.``, ``Ada died in
          1950.``
        - ``Ada wrote plays and taught art if she was paid.`` stays whole.
        - The title ``Early life`` has no facts.
    """
    # A single word, such as "Exactly.", states nothing.
    if len(words_in(sentence)) < 2:
        return []

    whole_sentence = [_as_sentence(sentence)]
    # A text without a known verb is a title, or a sentence with a rare verb, such as "Moths shun
    # daylight." The rules cannot split such a sentence.
    if is_fragment(sentence):
        return whole_sentence if _may_have_rare_verb(sentence) else []

    facts = split_facts(sentence)
    # "The search results do not say who won." states nothing about the world.
    if not facts and _ABOUT_SOURCES.search(sentence):
        return []
    # Some sentences with a known verb cannot be split either. Others should not be split: without
    # "if she was paid", the fact "Ada wrote plays." would claim too much.
    if not facts or _CONDITION.search(sentence):
        return whole_sentence
    # `split_facts` adds the "was" of "was born" to active verbs too. So "Ada was died in 1950."
    # becomes "Ada died in 1950."
    return [_AUXILIARY_OF_ACTIVE.sub(r"\1", fact) for fact in facts]


def _may_have_rare_verb(fragment: str) -> bool:
    """Tell whether a text without a verb that the rules know is still a sentence.

    Otherwise it is a title or a formula, such as ``Early life`` or ``E = mc².``
    """
    if len(words_in(fragment)) < 3 or not re.search(r"[^\W\d_]{3}", fragment):
        return False
    is_long = len(fragment.split()) > _MOST_TITLE_WORDS
    return is_long or _SENTENCE_END.search(fragment) is not None


def _as_sentence(text: str) -> str:
    """Return a text with a capital at its beginning and a full stop at its end."""
    text = text.rstrip(" ,;:")
    ending = "" if _SENTENCE_END.search(text) else "."
    return f"{_with_capital(text)}{ending}"


def _with_capital(text: str) -> str:
    """Return a text with a capital at its beginning. Other letters stay as they are."""
    return f"{text[:1].upper()}{text[1:]}"


def _row_claims(block: Block, introduction: _Introduction) -> Iterator[Claim]:
    """Yield a claim for each cell of a table's row, with the names of its row and column.

    Example:
        In a table below the heading ``Europe``, the cell ``Oslo`` gives ``Europe: Norway, Capital:
        Oslo.``
    """
    span = block.plain.span(0, len(block.plain.text))
    for statement in _row_statements(block.header, block.cells):
        yield Claim(_as_sentence(introduction.prepend_to(statement)), *span)


def _row_statements(header: Sequence[str], cells: Sequence[str]) -> list[str]:
    """Write each cell of a table's row with the names of its row and column.

    Example:
        ``("Country", "Capital")`` and ``("Norway", "Oslo")`` give ``Norway, Capital: Oslo``.
    """
    first_column, *columns = header
    row_name, *values = cells
    # The only cell of a row, in a table of one column, is a statement by itself.
    if not columns:
        return [f"{first_column}: {row_name}"]
    # A name without letters, such as a year, is not understood without the name of its column.
    if not re.search(r"[^\W\d_]", row_name):
        row_name = f"{first_column} {row_name}".strip()

    statements = []
    # A row may have fewer cells than the header.
    for column, cell in zip(columns, values, strict=False):
        value = cell.translate(_SIGNS)
        if not _EMPTY_CELL.fullmatch(value):
            statements.append(f"{row_name}, {column}: {value}")
    return statements
