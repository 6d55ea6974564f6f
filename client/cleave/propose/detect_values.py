"""Patterns in a sample of values. Check digits are python-stdnum's; no value leaves this module."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module

import stdnum.iban
import stdnum.luhn

from cleave.propose.names import LISTS

_EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[A-Za-z]{2,}")
_PHONE = re.compile(r"(?:\+|00|\(?0)[\d\s()/.-]{6,20}|\(\d{3}\) ?\d{3}-\d{4}|\d{3}[-. ]\d{3}[-. ]\d{4}")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_US_SSN = re.compile(r"\d{3}-\d{2}-\d{4}")
_NAME = re.compile(
    r"(?:(?:Dr|Prof|Mr|Mrs|Ms|Herr|Frau|Mme|M|Sr|Sra)\.? )?[^\W\d_][\w'\u2019.-]*(?:,? [^\W\d_][\w'\u2019.-]*){1,3}"
)
_DIGITS = re.compile(r"[\d .-]{8,}")

_NATIONAL = {country: import_module(f"stdnum.{name}") for country, name in LISTS["national"].items()}


@dataclass(frozen=True, slots=True)
class Finding:
    """`share` of the sample, 0..1, that `says` holds for."""

    says: str
    share: float

    @property
    def reason(self) -> str:
        return f"{int(100 * self.share)} % of values {self.says}"


def _is_card(value: str) -> bool:
    digits = value.replace(" ", "").replace("-", "")
    return 13 <= len(digits) <= 19 and digits[:1] in "23456" and digits.isdecimal() and stdnum.luhn.is_valid(digits)


def _is_ip(value: str) -> bool:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return False
    return not value.isdecimal()


def _is_name(value: str) -> bool:
    return bool(_NAME.fullmatch(value)) and all(word[0].isupper() for word in value.split())


# (what a value that passes is, test, share needed). Little is enough where nothing passes by chance.
_TESTS: tuple[tuple[str, Callable[[str], bool], float], ...] = (
    ("are e-mail addresses", lambda value: bool(_EMAIL.fullmatch(value)), 0.1),
    ("pass IBAN check digits", lambda value: bool(stdnum.iban.is_valid(value)), 0.1),
    ("are IP addresses", _is_ip, 0.3),
    ("are UUIDs", lambda value: bool(_UUID.fullmatch(value)), 0.3),
    ("pass the check digit of payment cards (Luhn)", _is_card, 0.4),
    ("are written like US social security numbers", lambda value: bool(_US_SSN.fullmatch(value)), 0.3),
    ("are written like phone numbers", lambda value: bool(_PHONE.fullmatch(value)), 0.7),
)
_NATIONAL_SHARE = 0.7
_NAMES_SHARE = 0.9


def identifying(sample: Sequence[str]) -> Finding | None:
    """The first kind of identifying value that the sample is made of."""
    values = [value.strip() for value in sample]
    for says, test, needed in _TESTS:
        share = _share(values, test)
        if share >= needed:
            return Finding(says, share)
    return _national(values)


def identifying_number(sample: Sequence[str]) -> Finding | None:
    """As `identifying`, for whole numbers: only what has check digits, and eight digits at least."""
    if not all(_DIGITS.fullmatch(value.strip()) for value in sample):
        return None
    values = [value.strip() for value in sample]
    share = _share(values, _is_card)
    return Finding("pass the check digit of payment cards (Luhn)", share) if share >= 0.4 else _national(values)


def names_of_people(sample: Sequence[str]) -> Finding | None:
    """Two to four capitalised words: people, but also places, so ask only where that does no harm."""
    share = _share([value.strip() for value in sample], _is_name)
    return Finding("look like names of people", share) if share >= _NAMES_SHARE else None


def _national(values: Sequence[str]) -> Finding | None:
    for country, module in _NATIONAL.items():
        if not any(module.is_valid(value) for value in values[:10]):
            continue
        share = _share(values, module.is_valid)
        if share >= _NATIONAL_SHARE:
            return Finding(f"pass the check digits of national ids ({country})", share)
    return None


def _share(values: Sequence[str], test: Callable[[str], bool]) -> float:
    return sum(map(test, values)) / len(values) if values else 0.0
