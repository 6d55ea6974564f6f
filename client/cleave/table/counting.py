"""A second, independent count of a CSV's records.

A record ends at a line break outside quotes. This counts such line breaks in the bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_NEXT_BREAK = re.compile(rb"\n(?=\n)")


def count_records(blocks: Iterable[bytes], delimiter: bytes, quote: bytes, *, blank: bool) -> int | None:
    """Count the records of a UTF-8 text, including its header; with `blank` also empty lines.

    Returns None for a text with a quote inside an unquoted field, as in `5" pipe`, since that quote encloses nothing.
    """
    end = re.escape(quote)  # first in the pattern: so it is found fast
    within = re.compile(end + rb"(?<=[^ \n" + re.escape(delimiter + quote) + rb"]" + end + rb")")
    enclosed, last, count, cut = False, b"\n", 0, b""
    for block in blocks:
        text = cut + block
        cut = text[len(text) - 1 :] if text.endswith(b"\r") else b""  # LF may follow in the next block
        text = _with_lf(text[: len(text) - len(cut)])
        if quote and (enclosed or quote in text):
            parts = text.split(quote)
            outside = parts[enclosed::2]
            enclosed ^= len(parts) % 2 == 0
            # of each quoted text keep the opening quote and the text before it
            text = quote.join(outside) + (quote if enclosed else b"")
            if within.search(last + text, 1):
                return None
        if text:
            count += text.count(b"\n") - (0 if blank else _blank_lines(text, last))
            last = text[-1:]
    if cut:
        count += blank or last != b"\n"
        last = b"\n"
    return count + (last != b"\n")


def _with_lf(text: bytes) -> bytes:
    return text.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in text else text


def _blank_lines(text: bytes, last: bytes) -> int:
    """Count the line breaks in `text` that follow another at once; `last`: the character before it."""
    inside = len(_NEXT_BREAK.findall(text)) if b"\n\n" in text else 0
    return inside + (last == b"\n" and text.startswith(b"\n"))
