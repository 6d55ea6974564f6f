"""Refusal of trivial passphrases.

A key file may be copied and attacked at leisure, so Argon2id's 64 MiB a guess must meet more than a list of guesses.
Only what is trivial is refused: a full estimate of strength is not attempted here, and none would make a bad one good.
"""

from __future__ import annotations

import re
import unicodedata

from cleave_shared.errors import KeyFileError

LEAST_CHARACTERS = 12  # NIST SP 800-63B-4 asks 8 at least, and 15 where nothing else protects
_LEAST_DIFFERENT = 5
_MANY_DIGITS = 20  # random ones would do; fewer are a date or a telephone number
_LONG_RUN = 6  # letters in a row that are no word
_ROWS = ("abcdefghijklmnopqrstuvwxyz", "01234567890", "qwertyuiopasdfghjklzxcvbnm", "qwertzuiopasdfghjklyxcvbnm")
_ROWS_BOTH_WAYS = tuple(row * 3 for each in _ROWS for row in (each, each[::-1]))
# The words of what leads every published list of passwords, and what this program suggests.
_COMMON = (
    "administrator|passphrase|password|passwort|passwd|letmein|welcome|iloveyou|admin|root|login|master|changeme"
    "|default|secret|qwerty|azerty|dragon|monkey|sunshine|princess|football|baseball|superman|trustno|cleave|key|test"
    "|abc|hello"
)
_ONLY_COMMON = re.compile(f"(?:{_COMMON})+")


def refuse_trivial(passphrase: bytes, what: str = "passphrase") -> None:
    """Raises KeyFileError, without quoting it, for a passphrase (or `what` it is called) that is short, a pattern or a
    common word."""
    text = unicodedata.normalize("NFKC", passphrase.decode("utf-8", "replace")).casefold().strip()
    if reason := _trivial(text):
        raise KeyFileError(
            f"the {what} {reason}",
            hint="take four or more unrelated words; a password manager makes good ones",
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
