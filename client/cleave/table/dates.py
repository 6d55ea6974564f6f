"""Dates and times that are not written as ISO 8601 has them: a column's `format`, in strptime's words."""

from __future__ import annotations

import re

_PARTS = {
    "%d": "[0-9]{1,2}",
    "%m": "[0-9]{1,2}",
    "%Y": "[0-9]{4}",
    "%y": "[0-9]{2}",  # 69 to 99 are 1969 to 1999, as POSIX has it
    "%b": "[A-Za-z]{3}",
    "%B": "[A-Za-z]{3,9}",
    "%H": "[0-9]{1,2}",
    "%I": "[0-9]{1,2}",
    "%M": "[0-9]{2}",
    "%S": "[0-9]{2}",
    "%p": "[AaPp][Mm]",
}
_DAYS = (("%d",), ("%m", "%b", "%B"), ("%Y", "%y"))
_TIMES = (("%H", "%I"), ("%M",))


def check_format(date_format: str, type_: str) -> None:
    """Raises ValueError for a format that does not say day, month and year once each, or says a time in a DATE."""
    found = re.findall("%.?", date_format)
    if strange := [part for part in found if part not in _PARTS]:
        raise ValueError(f"does not know {strange[0]}, only {', '.join(_PARTS)}")
    for choice in _DAYS:
        if sum(found.count(part) for part in choice) != 1:
            raise ValueError(f'must hold one of {", ".join(choice)}, once, as in "%d.%m.%Y"')
    times = [part for part in found if part in ("%H", "%I", "%M", "%S", "%p")]
    if times and type_ != "TIMESTAMP":
        raise ValueError(f"holds a time, which a {type_} has none of")
    if times and any(sum(times.count(part) for part in choice) != 1 for choice in _TIMES):
        raise ValueError("must hold %H (or %I and %p) and %M, once each, where it holds a time")
    if len(set(times)) != len(times) or ("%I" in times) != ("%p" in times):
        raise ValueError("must hold %I and %p together, and nothing twice")


def pattern(date_format: str) -> str:
    """Regular expression (RE2) of the fields a format describes: strptime itself would take year 24 for %Y."""
    parts = re.split("(%.)", date_format)
    return r"\s*" + "".join(_PARTS[part] if part in _PARTS else re.escape(part) for part in parts) + r"\s*"
