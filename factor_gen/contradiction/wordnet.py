"""WordNet, if this machine has it: which words are opposites, kinds or parts of each other.

The files are those of Debian's package ``wordnet-base``, or of nltk's corpus ``wordnet``, which
have the same form. nltk's own reader needs files that Debian's package lacks.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

FOLDERS = (
    Path("/usr/share/wordnet"),
    Path("/usr/share/nltk_data/corpora/wordnet"),
    Path("~/nltk_data/corpora/wordnet").expanduser(),
)
NOUN, VERB, ADJECTIVE, ADVERB = "noun", "verb", "adj", "adv"
PARTS_OF_SPEECH = (NOUN, VERB, ADJECTIVE, ADVERB)

_FILE_OF_LETTER = {"n": NOUN, "v": VERB, "a": ADJECTIVE, "s": ADJECTIVE, "r": ADVERB}
_ANTONYM, _SIMILAR = "!", "&"
# A kind of something, or an instance of it.
_KIND = ("@", "@i")
# For verbs also what a verb entails, causes or is grouped with.
_WIDER = (*_KIND, "*", ">", "$")
_PARTS_AND_WHOLES = ("#m", "#s", "#p", "%m", "%s", "%p")
# Senses are in the order of their frequency.
_USUAL_SENSES = 2


class Synset(NamedTuple):
    """A set of words of the same meaning, by its place in the files."""

    part_of_speech: str
    offset: int


class Pointer(NamedTuple):
    """A relation of a synset to another one."""

    symbol: str
    """The relation, such as ``@`` for a wider synset and ``!`` for an opposite."""

    target: Synset


class WordNet:
    """The relations between English words in their base forms, which have ``_`` for spaces."""

    def __init__(self, folder: Path) -> None:
        """Read the index of the files in a folder. The synsets are read when they are needed."""
        self._indexes = {name: _read_index(folder / f"index.{name}") for name in PARTS_OF_SPEECH}
        self._data = {name: (folder / f"data.{name}").read_bytes() for name in PARTS_OF_SPEECH}

    def senses(self, word: str, part_of_speech: str) -> list[Synset]:
        """Return the synsets of a word, the most frequent sense first."""
        line = self._indexes[part_of_speech].get(word)
        if line is None:
            return []
        # The line has the part of speech, the number of senses and, at its end, their offsets.
        fields = line.split()
        offsets = fields[-int(fields[1]) :]
        return [Synset(part_of_speech, int(offset)) for offset in offsets]

    def are_opposites(self, word: str, second_word: str, part_of_speech: str) -> bool:
        """Whether words of one's meaning are opposites of words of the other's, or similar to them.

        *Huge* is similar to *large*, the opposite of *small*.
        """
        opposites = self._targets(self.senses(word, part_of_speech), (_ANTONYM,))
        near_word = self._targets(self.senses(word, part_of_speech), (_SIMILAR,))
        opposites |= self._targets(opposites, (_SIMILAR,)) | self._targets(near_word, (_ANTONYM,))
        return not opposites.isdisjoint(self.senses(second_word, part_of_speech))

    def may_hold_together(self, word: str, second_word: str, part_of_speech: str) -> bool:
        """Whether two words share a sense, or one is wider than the other or a part of it."""
        senses = self.senses(word, part_of_speech)
        second_senses = self.senses(second_word, part_of_speech)
        if set(senses) & set(second_senses):
            return True
        if self._wider_synsets(senses) & set(second_senses):
            return True
        if self._wider_synsets(second_senses) & set(senses):
            return True
        relations = (*_PARTS_AND_WHOLES, _SIMILAR)
        return bool(self._targets(senses, relations) & set(second_senses))

    def are_siblings(self, word: str, second_word: str) -> bool:
        """Whether two nouns are kinds of the same thing, as *lion* and *tiger* are of big cat."""
        # Rare senses make unrelated words siblings.
        kinds = self._targets(self.senses(word, NOUN)[:_USUAL_SENSES], _KIND)
        second_kinds = self._targets(self.senses(second_word, NOUN)[:_USUAL_SENSES], _KIND)
        return not kinds.isdisjoint(second_kinds)

    def _wider_synsets(self, synsets: Iterable[Synset]) -> set[Synset]:
        """Return all synsets that are wider than one of some synsets, however far up."""
        wider: set[Synset] = set()
        newest = set(synsets)
        while newest:
            newest = self._targets(newest, _WIDER) - wider
            wider |= newest
        return wider

    def _targets(self, synsets: Iterable[Synset], symbols: Iterable[str]) -> set[Synset]:
        """Return the synsets that some synsets point to by some relations."""
        symbols = frozenset(symbols)
        targets = set()
        for synset in synsets:
            for pointer in self._read_pointers(synset):
                if pointer.symbol in symbols:
                    targets.add(pointer.target)
        return targets

    def _read_pointers(self, synset: Synset) -> list[Pointer]:
        """Read the relations of a synset.

        Its line has the offset, two codes, the number of words in hexadecimal digits, each word
        with a code, the number of pointers, and for each of them four fields: the relation, the
        offset, the part of speech, and the numbers of both words.
        """
        data = self._data[synset.part_of_speech]
        line = data[synset.offset : data.index(b"\n", synset.offset)].decode("utf-8")
        fields = line.split()
        end_of_words = 4 + 2 * int(fields[3], 16)
        start = end_of_words + 1
        pointers = []
        for position in range(start, start + 4 * int(fields[end_of_words]), 4):
            symbol, offset, letter, _ = fields[position : position + 4]
            pointers.append(Pointer(symbol, Synset(_FILE_OF_LETTER[letter], int(offset))))
        return pointers


@cache
def find_wordnet() -> WordNet | None:
    """Return the WordNet of this machine; None if it has none."""
    for folder in FOLDERS:
        if (folder / "data.noun").is_file():
            return WordNet(folder)
    return None


def _read_index(path: Path) -> Mapping[str, str]:
    """Read an index: the rest of each line by its first word. The licence is indented."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return dict(line.split(" ", 1) for line in lines if not line.startswith(" "))
