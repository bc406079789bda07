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

    relation: str
    """The symbol of the relation, such as ``@`` for a wider synset and ``!`` for an opposite."""

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
        """Whether two words are opposites, or one is similar to an opposite of the other.

        Example:
            *small* and *large*, and *small* and *huge*, because *huge* is similar to *large*.
        """
        senses = self.senses(word, part_of_speech)
        direct_opposites = self._related_synsets(senses, _ANTONYM)
        similar_to_opposites = self._related_synsets(direct_opposites, _SIMILAR)
        similar_senses = self._related_synsets(senses, _SIMILAR)
        opposites_of_similar = self._related_synsets(similar_senses, _ANTONYM)

        opposites = direct_opposites | similar_to_opposites | opposites_of_similar
        return not opposites.isdisjoint(self.senses(second_word, part_of_speech))

    def can_both_be_true(self, word: str, second_word: str, part_of_speech: str) -> bool:
        """Whether two words can be true of the same thing.

        Example:
            - *ship* and *vessel*: a ship is a kind of vessel.
            - *wheel* and *car*: a wheel is a part of a car.
            - *large* and *huge*: the words have similar meanings.
        """
        senses = set(self.senses(word, part_of_speech))
        second_senses = set(self.senses(second_word, part_of_speech))
        if senses & second_senses:
            return True
        if self._wider_synsets(senses) & second_senses:
            return True
        if self._wider_synsets(second_senses) & senses:
            return True
        parts_wholes_and_similar = self._related_synsets(senses, *_PARTS_AND_WHOLES, _SIMILAR)
        return not parts_wholes_and_similar.isdisjoint(second_senses)

    def are_siblings(self, word: str, second_word: str) -> bool:
        """Whether two nouns are kinds of the same thing, as *lion* and *tiger* are of big cat."""
        # Rare senses make unrelated words siblings.
        kinds = self._related_synsets(self.senses(word, NOUN)[:_USUAL_SENSES], *_KIND)
        second_senses = self.senses(second_word, NOUN)[:_USUAL_SENSES]
        second_kinds = self._related_synsets(second_senses, *_KIND)
        return not kinds.isdisjoint(second_kinds)

    def _wider_synsets(self, synsets: Iterable[Synset]) -> set[Synset]:
        """Return all synsets that are wider than some synsets: *canine* and *animal* for *dog*."""
        wider: set[Synset] = set()
        newest = set(synsets)
        # Each round goes one step further, until it finds no new synsets.
        while newest:
            newest = self._related_synsets(newest, *_WIDER) - wider
            wider |= newest
        return wider

    def _related_synsets(self, synsets: Iterable[Synset], *relations: str) -> set[Synset]:
        """Return all synsets to which any of some synsets has one of the relations.

        Example:
            The synset of *large* has the relation ``!`` to the synset of *small*.
        """
        related = set()
        for synset in synsets:
            for pointer in self._read_pointers(synset):
                if pointer.relation in relations:
                    related.add(pointer.target)
        return related

    def _read_pointers(self, synset: Synset) -> list[Pointer]:
        """Read the relations of a synset to others.

        Example:
            The line ``02084071 05 n 02 dog 0 hound 1 001 @ 02083346 n 0000 | ...`` has two words,
            and one pointer, ``@``, to a wider synset. The number of words is hexadecimal.
        """
        data = self._data[synset.part_of_speech]
        line_end = data.index(b"\n", synset.offset)
        fields = data[synset.offset : line_end].decode("utf-8").split()
        # Each word has two fields. After them comes the number of pointers.
        num_words = int(fields[3], 16)
        end_of_words = 4 + 2 * num_words
        num_pointers = int(fields[end_of_words])

        pointers = []
        for number in range(num_pointers):
            # Each pointer has four fields. The last tells which of the words are related.
            start = end_of_words + 1 + 4 * number
            relation, offset, letter, _ = fields[start : start + 4]
            pointers.append(Pointer(relation, Synset(_FILE_OF_LETTER[letter], int(offset))))
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
