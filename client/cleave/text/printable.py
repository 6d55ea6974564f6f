"""Names and texts of a file made visible on one line: they may contain escape sequences that rewrite a screen."""

from __future__ import annotations

import unicodedata

_BY_NAME = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_HIDDEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")  # controls, direction overrides, other line breaks


def printable(text: str) -> str:
    """`text` on one line, with invisible characters as escapes."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_visible(char) for char in text)


def _visible(char: str) -> str:
    if char in _BY_NAME:
        return _BY_NAME[char]
    if unicodedata.category(char) not in _HIDDEN:
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
