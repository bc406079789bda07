"""Of which error type a contradiction is, by rule: by what its edit changes (section 3.1, after Pagnoni et al., 2021)."""

from collections.abc import Sequence

from factor_gen.audit.records import TYPE_WORDS
from factor_gen.records import CIRCUMSTANCE, COREFERENCE, ENTITY, LINK, PREDICATE
from factor_gen.text import Analysis, Tagger, Token
from factor_gen.text.analysis import NAMES, NATIONALITY, PLACE
from factor_gen.text.lists import DATA, rows

_PRONOUNS = ("PRP", "PRP$")
_SMALL = ("DT", "IN", "TO", "CC", ".", ",", ":", "POS", "''", "``")  # articles, prepositions and marks that an edit takes along


def type_of(completion: str, contradiction: str, tagger: Tagger) -> str:
    """The error type of the edit that makes ``contradiction`` of ``completion``, the first that holds: predicate where it
    negates, link where it changes link words alone, coreference where it gives a pronoun to somebody else, predicate where it
    puts another verb, or another property after a copula, circumstance where all that it changes is a place after its
    preposition, a time, a quantity or an adverb; else entity. (A quantity is a circumstance: the paper's prompt for entities
    leaves quantities alone.)"""
    from rapidfuzz.distance import Levenshtein

    texts = tagger.analyse(completion), tagger.analyse(contradiction)
    changes = Levenshtein.opcodes(*([token.text for token in text.tokens] for text in texts))
    spans = [(each.src_start, each.src_end, each.dest_start, each.dest_end) for each in changes if each.tag != "equal"]
    old = [place for start, end, _, _ in spans for place in range(start, end)]
    new = [place for _, _, start, end in spans for place in range(start, end)]
    before, after = [texts[0].tokens[place] for place in old], [texts[1].tokens[place] for place in new]
    negations = [sum(token.text.lower() in TYPE_WORDS["negations"] for token in tokens) for tokens in (before, after)]
    if negations[0] != negations[1]:
        return PREDICATE
    if _are_links(before) or _are_links(after):
        return LINK
    if any(token.tag in _PRONOUNS for token in before) and not any(token.tag.startswith(("NN", "JJ", "CD")) for token in before):
        return COREFERENCE
    if any(_is_predicate(texts[1], place) for place in new) or (not new and any(_is_predicate(texts[0], place) for place in old)):
        return PREDICATE
    changed = [(text, place) for text, places in zip(texts, (old, new), strict=True) for place in places]
    content = [(text, place) for text, place in changed if text.tokens[place].tag not in _SMALL]
    return CIRCUMSTANCE if all(_is_circumstance(*each) for each in content) else ENTITY


def _are_links(tokens: Sequence[Token]) -> bool:
    links = frozenset(row[0] for row in rows(DATA / "links.txt"))
    words = [token.text.lower() for token in tokens if token.text.isalpha()]
    return bool(words) and (" ".join(words) in links or links.issuperset(words))


def _is_predicate(text: Analysis, place: int) -> bool:
    """Whether a token is a verb, participles before a noun aside, or a property that a copula states."""
    tag, following = text.tokens[place].tag, text.tokens[place + 1 : place + 2]
    if tag in ("VBN", "VBG") and following and following[0].tag.startswith("NN"):
        return False
    words = [token.text.lower() for token in text.tokens[max(0, place - 2) : place]]
    is_stated = (
        tag.startswith("JJ")
        and not TYPE_WORDS["copulas"].isdisjoint(words)
        and not (following and following[0].tag.startswith("NN"))
    )
    return tag.startswith(("VB", "MD")) or is_stated


def _is_circumstance(text: Analysis, place: int) -> bool:
    token = text.tokens[place]
    if token.tag.startswith(("RB", "CD")) or token.text.lower() in TYPE_WORDS["times"]:
        return True
    entity = next((each for each in text.entities if each.start <= token.start < each.end), None)
    if entity is None or entity.kind in {*NAMES, NATIONALITY} - {PLACE}:
        return False
    return entity.kind != PLACE or not TYPE_WORDS["prepositions"].isdisjoint(text.text[: entity.start].lower().split()[-1:])
