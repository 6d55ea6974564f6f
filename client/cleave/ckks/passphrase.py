"""Refusal of trivial passphrases.

An attacker can copy a key file and guess for long; Argon2id's 64 MiB per guess only helps if the passphrase is not in a
list. Only trivial passphrases are refused. There is no estimate of strength: it would not make a bad passphrase good.
"""

from __future__ import annotations

import re
import unicodedata

from cleave_shared.errors import KeyFileError

LEAST_CHARACTERS = 12  # NIST SP 800-63B-4 demands 8, and 15 if nothing else protects
_LEAST_DIFFERENT = 5
_MANY_DIGITS = 20  # random digits would be good; fewer are likely a date or a telephone number
_LONG_RUN = 6  # consecutive letters that form no word
_ROWS = ("abcdefghijklmnopqrstuvwxyz", "01234567890", "qwertyuiopasdfghjklzxcvbnm", "qwertzuiopasdfghjklyxcvbnm")
_ROWS_BOTH_WAYS = tuple(row * 3 for each in _ROWS for row in (each, each[::-1]))
# Words at the top of published password lists, and words that this program suggests.
_COMMON = (
    "administrator|passphrase|password|passwort|passwd|letmein|welcome|iloveyou|admin|root|login|master|changeme"
    "|default|secret|qwerty|azerty|dragon|monkey|sunshine|princess|football|baseball|superman|trustno|cleave|key|test"
    "|abc|hello"
)
_ONLY_COMMON = re.compile(f"(?:{_COMMON})+")


def refuse_trivial(passphrase: bytes, what: str = "passphrase") -> None:
    """Raises KeyFileError, which does not quote it, for a passphrase that is short, a pattern or a common word.

    `what`: how the error names it.
    """
    text = unicodedata.normalize("NFKC", passphrase.decode("utf-8", "replace")).casefold().strip()
    if reason := _trivial(text):
        raise KeyFileError(
            f"the {what} {reason}",
            hint="use four or more unrelated words; a password manager can make them",
        )


def _trivial(text: str) -> str | None:
    if len(text) < LEAST_CHARACTERS:
        return f"has fewer than {LEAST_CHARACTERS} characters"
    if len(set(text)) < _LEAST_DIFFERENT:
        return f"has fewer than {_LEAST_DIFFERENT} different characters"
    if any(text == text[:period] * (len(text) // period) for period in range(1, len(text) // 2 + 1)):
        return "repeats itself"
    signs = re.sub(r"[\W_]", "", text)
    letters = re.sub(r"\d", "", signs)
    if any(run and run in row for run in (signs, letters[_LONG_RUN:] and letters) for row in _ROWS_BOTH_WAYS):
        return "is a row of the alphabet or the keyboard"
    if _ONLY_COMMON.fullmatch(letters) or (not letters and len(signs) < _MANY_DIGITS):
        return "is made of what is tried first: common words, or digits alone"
    return None
