"""Statements about the session, which the gateway answers itself: settings, transactions, cursors and COPY.

The gateway writes nothing, so a transaction is only a state for the client. Settings are in settings.toml.
"""

from __future__ import annotations

import contextlib
import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, Final

from cleave.gateway.workers import Refused
from cleave.sql.read import split_statements
from cleave.table.duck import identifier

_MOST: Final = 1 << 12  # characters of such a statement
_DATA: Final[dict[str, Any]] = tomllib.loads(files(__package__).joinpath("settings.toml").read_text())
_ONE: Final = {name: {each.lower() for each in spellings} for name, spellings in _DATA["one"].items()}
_DEFAULTS: Final[dict[str, str]] = {
    **_DATA["any"],
    **{name: spellings[0] for name, spellings in _DATA["one"].items()},
    **{"cleave_bounds": "off", "statement_timeout": "0"},
}
REPORTED: Final = {each.lower(): each for each in _DATA["reported"].split()}
_FIXED: Final[dict[str, str]] = _DATA["fixed"]
_REFUSED: Final = {
    **dict.fromkeys(_DATA["not_here"].split(), ("0A000", "is not answered here")),
    **dict.fromkeys(_DATA["read_only"].split(), ("25006", "cannot be executed: nothing can be changed here")),
}
_SWITCH: Final = {"on": True, "true": True, "1": True, "off": False, "false": False, "0": False}
_UNITS: Final = {"": 0.001, "us": 1e-6, "ms": 0.001, "s": 1, "min": 60, "h": 3600, "d": 86400}
_TIME: Final = re.compile(rf"(\d+(?:\.\d+)?)\s*({'|'.join(_UNITS)})")


@dataclass(slots=True)
class Done:
    """Answer to a statement about the session. `tag`: its command tag. `shown`: (name, value) of a setting.

    `sql`: the query to run instead. `form`: of COPY, or "hold" for a cursor. `name`: of a cursor or statement. `count`:
    rows to fetch; -1 means all.
    """

    tag: str
    shown: tuple[str, str] | None = None
    sql: str = ""
    form: str = ""
    name: str = ""
    count: int = 1


@dataclass(slots=True)
class Settings:
    """Settings of a connection, and its transaction. `status`: I for none, T for open, E for failed."""

    user: str
    pid: int
    values: dict[str, str] = field(default_factory=_DEFAULTS.copy)
    status: str = "I"
    _before: dict[str, str] = field(default_factory=dict)
    _local: set[str] = field(default_factory=set)

    @property
    def shown(self) -> dict[str, str]:
        """Every setting, also for the catalog."""
        return self.values | _FIXED | {"user": self.user, "session_authorization": self.user, "pid": str(self.pid)}

    @property
    def bounds(self) -> bool:
        return _SWITCH[self.values["cleave_bounds"]]

    @property
    def seconds(self) -> float | None:
        """Maximum seconds of a statement; None: the gateway's own limit."""
        read = _TIME.fullmatch(self.values["statement_timeout"])
        return (float(read[1]) * _UNITS[read[2]] or None) if read else None

    def begin(self, given: dict[str, str]) -> None:
        """Apply the settings that a client sends when it connects. Refused ones keep their values; the client sees the
        values.
        """
        options = re.findall(r"(?:-c\s*|--)([\w.]+)=((?:\\.|\S)*)", given.pop("options", ""))
        for name, value in [*options, *given.items()]:
            with contextlib.suppress(Refused):
                self.set(name.lower(), value)

    def set(self, name: str, value: str) -> None:
        """Raises Refused."""
        if (default := _DEFAULTS.get(name)) is None:
            code, what = ("55P02", "cannot be changed") if name in _FIXED else ("42704", "is not known")
            raise Refused(f"setting {name!r} {what}", code=code)
        value = default if value.lower() == "default" else value
        if name in _ONE:
            if value.lower() not in _ONE[name]:
                raise Refused(f"setting {name!r} is {default} here", code="22023")
            value = default
        is_time, is_switch = name == "statement_timeout", name == "cleave_bounds"
        if (is_time and not _TIME.fullmatch(value)) or (is_switch and value not in _SWITCH) or len(value) > _MOST:
            raise Refused(f"setting {name!r} has no such value", code="22023")
        self.values[name] = value

    def end(self, *, commits: bool) -> None:
        """End the transaction. If it `commits`, its settings stay, except those set LOCAL."""
        self.values |= {name: value for name, value in self._before.items() if not commits or name in self._local}
        self._before, self._local, self.status = {}, set(), "I"

    def answer(self, sql: str) -> Done | None:
        """Execute a statement about the session; None for other statements. Raises Refused."""
        text = sql.strip().rstrip("; \n\t\r")
        first = text.split(None, 1)[0].lower() if text else ""
        if self.status == "E" and first not in ("commit", "end", "rollback", "abort"):
            raise Refused("current transaction is aborted: ROLLBACK ends it", code="25P02")
        if first in _REFUSED:
            code, why = _REFUSED[first]
            raise Refused(f"{first.upper()} {why}", code=code)
        if first not in _COMMANDS or text[:11].lower() == "show tables":
            return None
        pattern, done = _COMMANDS[first]
        short = len(text) <= _MOST or first in ("copy", "declare")
        read = re.fullmatch(pattern, text, re.IGNORECASE | re.DOTALL) if short else None
        if read is None:
            raise Refused(f"this form of {first.upper()} is not answered here", code="0A000")
        return done(self, read)


def unquoted(name: str) -> str:
    """A name as PostgreSQL reads it: in lower case unless quoted. For a text: its content."""
    quote = name[:1]
    return name[1:-1].replace(2 * quote, quote) if quote in ('"', "'") else name.lower()


def _quoted(name: str) -> str:
    """A name, or names separated by points, as DuckDB's identifiers."""
    return ".".join(map(identifier, [unquoted(name)] if name.startswith('"') else name.split(".")))


def _begin(it: Settings, _: re.Match[str]) -> Done:
    if it.status == "I":
        it.status, it._before = "T", dict(it.values)
    return Done("BEGIN")


def _start(it: Settings, read: re.Match[str]) -> Done:
    _begin(it, read)
    return Done("START TRANSACTION")


def _commit(it: Settings, _: re.Match[str]) -> Done:
    tag = "ROLLBACK" if it.status == "E" else "COMMIT"
    it.end(commits=it.status != "E")
    return Done(tag)


def _rollback(it: Settings, read: re.Match[str]) -> Done:
    if read["name"]:
        return _savepoint(it, read)
    it.end(commits=False)
    return Done("ROLLBACK")


def _savepoint(it: Settings, read: re.Match[str]) -> Done:
    tag = read[0].split()[0].upper()
    if it.status == "I":
        raise Refused(f"{tag} of a savepoint needs a transaction", code="25P01")
    it.status = "T"
    return Done(tag)


def _set(it: Settings, read: re.Match[str]) -> Done:
    if modes := re.search(r"LEVEL\s+(\w+\s+\w+|SERIALIZABLE)", read["modes"] or "", re.IGNORECASE):
        it.set("transaction_isolation", " ".join(modes[1].lower().split()))
    if read["values"]:
        name = {"time": "timezone", "names": "client_encoding"}.get((read["word"] or "").split(" ")[0].lower())
        name = name or unquoted(read["name"]).lower()
        values = re.findall(_VALUE, read["values"])
        it.set(name, ", ".join(unquoted(each) if each[0] in "\"'" else each for each in values))
        if it.status != "I" and (read["local"] or "").lower() == "local":
            it._local.add(name)
    return Done("SET")


def _reset(it: Settings, read: re.Match[str]) -> Done:
    for name in _DEFAULTS if read["name"].lower() == "all" else [unquoted(read["name"])]:
        it.set(name, "default")
    return Done("RESET")


def _show(it: Settings, read: re.Match[str]) -> Done:
    words = " ".join(read["name"].lower().split())
    name = {"time zone": "timezone", "transaction isolation level": "transaction_isolation"}.get(words, unquoted(words))
    if name not in _DEFAULTS | _FIXED | REPORTED:
        raise Refused(f"setting {name!r} is not known", code="42704")
    return Done("SHOW", shown=(REPORTED.get(name, name), it.shown[name]))


def _discard(it: Settings, read: re.Match[str]) -> Done:
    if read["name"].lower() == "all":
        it.values = _DEFAULTS.copy()
    return Done(f"DISCARD {read['name'].upper()}")


def _fetch(_: Settings, read: re.Match[str]) -> Done:
    count = (read["count"] or "next").lower()
    return Done("FETCH", name=unquoted(read["name"]), count={"all": -1, "next": 1}.get(count) or int(count))


def _copy(_: Settings, read: re.Match[str]) -> Done:
    if read["way"].lower() == "from":
        raise Refused("COPY FROM cannot be executed: nothing can be changed here", code="25006")
    words = re.sub(r"\bWITH\b|\bAS\b|[\s(),=']", " ", read["options"], flags=re.IGNORECASE).lower().split()
    if set(words) - {"format", "text", "csv", "binary", "header", "true", "on", "encoding", "utf8", "utf-8"}:
        raise Refused("this option of COPY is not supported", "FORMAT text, csv or binary; HEADER", "0A000")
    forms = [each for each in words if each in ("csv", "binary")] or ["text"]
    columns = ", ".join(map(_quoted, re.findall(_NAME, read["columns"] or ""))) or "*"
    sql = read["sql"] or f"SELECT {columns} FROM {_quoted(read['table'])}"
    return Done("COPY", sql=sql, form=f"{forms[0]}{' header' if 'header' in words else ''}")


_NAME = r'(?:"(?:[^"]|"")+"|[A-Za-z_][\w$.]*)'
_VALUE = rf"(?:'(?:[^']|'')*'|-?[\d.]+|{_NAME})"
_MODES = r"[\w\s,]*"
_NAMED = rf"(?P<name>{_NAME})"
_COMMANDS: Final[dict[str, tuple[str, Callable[[Settings, re.Match[str]], Done]]]] = {
    "begin": (rf"BEGIN{_MODES}", _begin),
    "start": (rf"START\s+TRANSACTION{_MODES}", _start),
    "commit": (rf"COMMIT{_MODES}", _commit),
    "end": (rf"END{_MODES}", _commit),
    "rollback": (rf"ROLLBACK(?:\s+(?:WORK|TRANSACTION))?(?:\s+TO(?:\s+SAVEPOINT)?\s+{_NAMED})?", _rollback),
    "abort": (r"ABORT(?:\s+(?:WORK|TRANSACTION))?(?P<name>)", _rollback),
    "savepoint": (rf"SAVEPOINT\s+{_NAMED}", _savepoint),
    "release": (rf"RELEASE(?:\s+SAVEPOINT)?\s+{_NAMED}", _savepoint),
    "set": (
        rf"SET\s+(?:(?P<local>LOCAL|SESSION)\s+)?(?:(?:CHARACTERISTICS\s+AS\s+)?TRANSACTION\b(?P<modes>{_MODES})|"
        rf"(?:(?P<word>TIME\s+ZONE|NAMES)\s+|{_NAMED}\s*(?:=|\bTO\b)\s*)(?P<values>{_VALUE}(?:\s*,\s*{_VALUE})*))",
        _set,
    ),
    "reset": (rf"RESET\s+{_NAMED}", _reset),
    "show": (rf"SHOW\s+(?P<name>TRANSACTION\s+ISOLATION\s+LEVEL|TIME\s+ZONE|{_NAME})", _show),
    "discard": (r"DISCARD\s+(?P<name>ALL|PLANS|SEQUENCES|TEMP|TEMPORARY)", _discard),
    "deallocate": (
        rf"DEALLOCATE(?:\s+PREPARE)?\s+(?:(?P<all>ALL)|{_NAMED})",
        lambda _, read: Done("DEALLOCATE ALL" if read["all"] else "DEALLOCATE", name=unquoted(read["name"] or "")),
    ),
    "close": (rf"CLOSE\s+{_NAMED}", lambda _, read: Done("CLOSE CURSOR", name=unquoted(read["name"]))),
    "unlisten": (r"UNLISTEN\s+\S+", lambda *_: Done("UNLISTEN")),
    "declare": (
        rf"DECLARE\s+{_NAMED}\s+(?:(?:ASENSITIVE|INSENSITIVE|NO\s+SCROLL)\s+)*CURSOR\s+(?:WITH\s+(?P<hold>HOLD)\s+|WITHOUT\s+HOLD\s+)?"
        r"FOR\s+(?P<sql>.*)",
        lambda _, read: Done(
            "DECLARE CURSOR", sql=read["sql"], form="hold" if read["hold"] else "", name=unquoted(read["name"])
        ),
    ),
    "fetch": (rf"FETCH\s+(?:FORWARD\s+)?(?:(?P<count>\d{{1,9}}|ALL|NEXT)\s+)?(?:(?:FROM|IN)\s+)?{_NAMED}", _fetch),
    "copy": (
        rf"COPY\s*(?:\((?P<sql>.*)\)|(?P<table>{_NAME})\s*(?P<columns>\(\s*{_NAME}\s*(?:,\s*{_NAME}\s*)*\))?)\s*\b"
        r"(?P<way>TO|FROM)\s+(?:STDOUT|STDIN)\b(?P<options>[^;]{0,200})",
        _copy,
    ),
}
_COMMENTS: Final = re.compile(r"(?:\s++|/\*.*?(?:\*/|\Z)|--[^\n]*+)*+", re.DOTALL)


def statements_of(text: str) -> list[str]:
    """The statements of a simple query, without leading comments and blanks.

    It takes time proportional to the length, because it runs in the process that serves all clients.
    """
    every = [text]
    if ";" in text.rstrip("; \n\t\r"):
        every, rest = split_statements(text)
        every.append(rest)
    shorn = [each[match.end() :] if (match := _COMMENTS.match(each)) else each for each in every]
    return [each for each in shorn if each.strip("; \n\t\r")]
