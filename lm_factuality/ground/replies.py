"""Texts of servers, made safe where they enter: no server can break a store or show our key.

The clients of judges, of evaluated models and of search services pass every reply through a
`KeyMask` before they read it.
"""

from __future__ import annotations

import re
from base64 import b64encode
from math import ceil

from lm_factuality.ground.files import Json

MAX_CONTENT_BYTES = 1_000_000  # of the text of one reply, in UTF-8; readers are linear up to this
MAX_NAME_LENGTH = 200  # characters of a name, a token or a finish reason
MAX_REPLY_BYTES = 32_000_000  # of a whole reply; JSON may write a character in 12 bytes

SURROGATE_PATTERN = re.compile("[\ud800-\udfff]")
"""Matches half of a UTF-16 pair, which JSON and Python's texts can hold but UTF-8 cannot."""

REPLACEMENT_CHARACTER = "\N{REPLACEMENT CHARACTER}"
# They change the order in which the rest of a line is shown.
_DIRECTION_MARKS = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
# JSON within a text of JSON doubles each backslash of the inner one, and may be nested again.
_BACKSLASHES = r"\\{1,4}"
_BITS_PER_BYTE = 8
_BITS_PER_CHARACTER = 6  # of base64
_SHORTEST_KEY = 8  # characters; a shorter key would be found in ordinary words
_WHITE_SPACE = r"\s*"  # that may stand between any two characters of a key
_INSTEAD = "***"


def replace_surrogates(text: str) -> str:
    """Replace each half of a surrogate pair by U+FFFD, so that the text can be written as UTF-8.

    JSON and an HTML entity may hold such a half, and Python puts one in the place of each byte of a
    file name that is not UTF-8.
    """
    return SURROGATE_PATTERN.sub(REPLACEMENT_CHARACTER, text)


def storable(text: str) -> str:
    """Replace each half of a surrogate pair and each zero character by U+FFFD, for databases."""
    return replace_surrogates(text).replace("\0", REPLACEMENT_CHARACTER)


class KeyMask:
    r"""Removes the key of a server from all that the server sends, however it is written.

    The key is found as it is, URL-encoded, as ``\uXXXX``, in base64, and split by white space.
    """

    def __init__(self, key: str = "") -> None:
        """Prepare the search for a key. One of fewer than 8 characters is not searched for."""
        self._pattern: re.Pattern[str] | None = None
        if len(key) < _SHORTEST_KEY:
            return
        patterns = [_WHITE_SPACE.join(map(_spellings_of, key))]
        for encoded in _in_base64(key):
            patterns.append(_WHITE_SPACE.join(map(re.escape, encoded)))
        self._pattern = re.compile("|".join(patterns))

    def mask_text(self, text: str) -> str:
        """Return a text that can be stored, without marks of direction and without the key."""
        visible_text = _DIRECTION_MARKS.sub("", storable(text))
        if self._pattern is None:
            return visible_text
        return self._pattern.sub(_INSTEAD, visible_text)

    def mask_json(self, value: Json) -> Json:
        """Return a JSON value after `mask_text` has cleaned all its texts and all names in it."""
        if isinstance(value, str):
            return self.mask_text(value)
        if isinstance(value, list):
            return [self.mask_json(item) for item in value]
        if isinstance(value, dict):
            return {self.mask_text(name): self.mask_json(item) for name, item in value.items()}
        return value


def _spellings_of(character: str) -> str:
    r"""Return a pattern of the ways in which a character of a key may be written.

    Example:
        ``/`` may be ``/``, ``\/``, ``\u002f`` or ``%2F``.
    """
    percent = "".join(f"%{byte:02x}" for byte in character.encode())
    spellings = [re.escape(character), rf"{_BACKSLASHES}u{ord(character):04x}", percent]
    if character == "/":
        spellings.append(f"{_BACKSLASHES}/")
    if character == " ":
        spellings.append(r"\+")
    # Hexadecimal digits may be capitals, but a key must not match in another case.
    plain, *encoded = spellings
    return f"(?:{plain}|(?i:{'|'.join(encoded)}))"


def _in_base64(key: str) -> list[str]:
    """Return the texts by which a key is found in base64, whatever is encoded before and after it.

    Base64 writes every three bytes as four characters. The key is therefore written in three ways:
    none, one or two bytes of a group of three may come before it. Characters that also depend on
    the bytes before or after the key are left out.
    """
    key_bytes = key.encode()
    parts: list[str] = []
    for num_bytes_before in range(3):
        padding = bytes(num_bytes_before)
        encoded = b64encode(padding + key_bytes).decode()
        first_bit = _BITS_PER_BYTE * num_bytes_before
        end_bit = first_bit + _BITS_PER_BYTE * len(key_bytes)
        # Only these characters consist of bits of the key alone.
        first_character = ceil(first_bit / _BITS_PER_CHARACTER)
        end_character = end_bit // _BITS_PER_CHARACTER
        part = encoded[first_character:end_character]
        # Addresses have - and _ in place of + and /.
        parts += [part, part.replace("+", "-").replace("/", "_")]
    return parts
