"""Reads clients' texts in a process of their own: statements, and the settings of a new connection.

The process that serves all clients hands each text on unread. Here it is split at its semicolons, and each statement
is either a command about the session or a question. A reader has a deadline, no key, and access to nothing outside.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Final

from cleave.gateway.refusal import Refused
from cleave.gateway.session import DATA, DEFAULTS, FIXED, REPORTED, Command, Setting
from cleave.sql.read import split_statements
from cleave.table.duck import identifier
from cleave_shared.children import Channel

MOST_STATEMENTS: Final = 1024  # of one message: the serving process takes a step for each
_MOST: Final = 1 << 12  # characters of a command without a question
_ONE: Final = {name: {each.lower() for each in spellings} for name, spellings in DATA["one"].items()}
_REFUSED: Final = {
    **dict.fromkeys(DATA["not_here"].split(), ("0A000", "is not answered here")),
    **dict.fromkeys(DATA["read_only"].split(), ("25006", "cannot be executed: nothing can be changed here")),
}
_SWITCH: Final = {"on": True, "true": True, "1": True, "off": False, "false": False, "0": False}
_UNITS: Final = {"": 0.001, "us": 1e-6, "ms": 0.001, "s": 1, "min": 60, "h": 3600, "d": 86400}
_TIME: Final = re.compile(rf"(\d+(?:\.\d+)?)\s*+({'|'.join(_UNITS)})")


def read(channel: Channel, text: str) -> None:
    """Send the commands of a text: all fields but the questions in JSON, then each question."""
    try:
        commands = commands_of(text)
    except Refused as error:
        commands = [Command("", refusal=(error.message, error.hint, error.code))]
    heads = [asdict(replace(each, sql="")) for each in commands]
    channel.send([json.dumps(heads).encode(), *(each.sql.encode() for each in commands)])


def start(channel: Channel, given: Mapping[str, str]) -> None:
    """Send the settings that a client asked for when it connected."""
    channel.send([json.dumps(started(given)).encode()])


def started(given: Mapping[str, str]) -> dict[str, Setting]:
    """The settings that a client asks for when it connects. Refused ones are omitted: the client sees the values."""
    rest = dict(given)
    options = re.findall(r"(?:-c\s*+|--)([\w.]++)=((?:\\.|\S)*+)", rest.pop("options", ""))
    values = {}
    for name, value in [*options, *rest.items()]:
        with contextlib.suppress(Refused):
            values[name.lower()] = setting(name.lower(), value)
    return values


def commands_of(text: str) -> list[Command]:
    """The statements of a text, each as a command. Raises Refused if it has too many."""
    every = [text]
    if ";" in text.rstrip("; \n\t\r"):
        every, rest = split_statements(text)
        every.append(rest)
    shorn = [each[match.end() :] if (match := _COMMENTS.match(each)) else each for each in every]
    statements = [each for each in shorn if each.strip("; \n\t\r")]
    if len(statements) > MOST_STATEMENTS:
        raise Refused(f"a message has at most {MOST_STATEMENTS:,} statements", code="54000")
    commands, end = [], 0
    for statement in statements:
        start = text.index(statement, end)
        end = start + len(statement)
        command = command_of(statement)
        within = statement.find(command.sql) if command.sql else -1
        commands.append(command if within < 0 else replace(command, start=start + within))
    return commands


def command_of(sql: str) -> Command:
    """The command of one statement."""
    text = sql.strip().rstrip("; \n\t\r")
    first = text.split(None, 1)[0].lower() if text else ""
    question = Command("", len(sql), sql)
    if first in _REFUSED:
        code, why = _REFUSED[first]
        return replace(question, tag=first.upper(), sql="", refusal=(f"{first.upper()} {why}", "", code))
    if first not in _COMMANDS or text[:11].lower() == "show tables":
        return question
    tag, pattern, make = _COMMANDS[first]
    short = len(text) <= _MOST or first in ("copy", "declare")
    match = re.fullmatch(pattern, text, re.IGNORECASE | re.DOTALL) if short else None
    try:
        if match is None:
            raise Refused(f"this form of {first.upper()} is not answered here", code="0A000")
        return replace(make(match), size=len(sql))
    except Refused as error:
        return Command(tag, len(sql), refusal=(error.message, error.hint, error.code))


def setting(name: str, value: str) -> Setting:
    """The value of a setting. Raises Refused."""
    if (default := DEFAULTS.get(name)) is None:
        code, what = ("55P02", "cannot be changed") if name in FIXED else ("42704", "is not known")
        raise Refused(f"setting {name!r} {what}", code=code)
    if value.lower() == "default":
        return default
    if name in _ONE:
        if value.lower() not in _ONE[name]:
            raise Refused(f"setting {name!r} is {default.text} here", code="22023")
        return default
    time = _TIME.fullmatch(value) if name == "statement_timeout" else None
    is_switch = name == "cleave_bounds"
    if (name == "statement_timeout" and not time) or (is_switch and value not in _SWITCH) or len(value) > _MOST:
        raise Refused(f"setting {name!r} has no such value", code="22023")
    number = float(time[1]) * _UNITS[time[2]] if time else float(is_switch and _SWITCH[value])
    return Setting(value, number)


def _unquoted(name: str) -> str:
    """A name as PostgreSQL reads it: in lower case unless quoted. For a text: its content."""
    quote = name[:1]
    return name[1:-1].replace(2 * quote, quote) if quote in ('"', "'") else name.lower()


def _quoted(name: str) -> str:
    """A name, or names separated by points, as DuckDB's identifiers."""
    return ".".join(map(identifier, [_unquoted(name)] if name.startswith('"') else name.split(".")))


def _just(tag: str) -> Callable[[re.Match[str]], Command]:
    return lambda _: Command(tag)


def _named(tag: str) -> Callable[[re.Match[str]], Command]:
    return lambda match: Command(tag, name=_unquoted(match["name"] or ""))


def _set(match: re.Match[str]) -> Command:
    values = {}
    if modes := re.search(r"LEVEL\s++(\w+\s+\w+|SERIALIZABLE)", match["modes"] or "", re.IGNORECASE):
        level = " ".join(modes[1].lower().split())
        values["transaction_isolation"] = setting("transaction_isolation", level)
    if match["values"]:
        name = {"time": "timezone", "names": "client_encoding"}.get((match["word"] or "").split(" ")[0].lower())
        name = name or _unquoted(match["name"]).lower()
        texts = re.findall(_VALUE, match["values"])
        given = ", ".join(_unquoted(each) if each[0] in "\"'" else each for each in texts)
        values[name] = setting(name, given)
    return Command("SET", values=values, local=(match["local"] or "").lower() == "local")


def _reset(match: re.Match[str]) -> Command:
    names = list(DEFAULTS) if match["name"].lower() == "all" else [_unquoted(match["name"])]
    return Command("RESET", values={name: setting(name, "default") for name in names})


def _show(match: re.Match[str]) -> Command:
    words = " ".join(match["name"].lower().split())
    names = {"time zone": "timezone", "transaction isolation level": "transaction_isolation"}
    name = names.get(words, _unquoted(words))
    if name not in DEFAULTS | FIXED | REPORTED:
        raise Refused(f"setting {name!r} is not known", code="42704")
    return Command("SHOW", name=name)


def _discard(match: re.Match[str]) -> Command:
    what = match["name"].upper()
    return Command(f"DISCARD {what}", values=DEFAULTS if what == "ALL" else {})


def _deallocate(match: re.Match[str]) -> Command:
    return Command("DEALLOCATE ALL" if match["all"] else "DEALLOCATE", name=_unquoted(match["name"] or ""))


def _declare(match: re.Match[str]) -> Command:
    form = "hold" if match["hold"] else ""
    return Command("DECLARE CURSOR", sql=match["sql"], form=form, name=_unquoted(match["name"]))


def _fetch(match: re.Match[str]) -> Command:
    count = (match["count"] or "next").lower()
    number = {"all": -1, "next": 1}[count] if count in ("all", "next") else int(count)
    return Command("FETCH", name=_unquoted(match["name"]), count=number)


def _copy(match: re.Match[str]) -> Command:
    if match["way"].lower() == "from":
        raise Refused("COPY FROM cannot be executed: nothing can be changed here", code="25006")
    words = re.sub(r"\bWITH\b|\bAS\b|[\s(),=']", " ", match["options"], flags=re.IGNORECASE).lower().split()
    if set(words) - {"format", "text", "csv", "binary", "header", "true", "on", "encoding", "utf8", "utf-8"}:
        raise Refused("this option of COPY is not supported", "FORMAT text, csv or binary; HEADER", "0A000")
    forms = [each for each in words if each in ("csv", "binary")] or ["text"]
    columns = ", ".join(map(_quoted, re.findall(_NAME, match["columns"] or ""))) or "*"
    sql = match["sql"] or f"SELECT {columns} FROM {_quoted(match['table'])}"
    return Command("COPY", sql=sql, form=f"{forms[0]}{' header' if 'header' in words else ''}")


# Possessive (`++`, `*+`): blanks that two neighbours could share would take time by the square of their number
_NAME = r'(?:"(?:[^"]|"")++"|[A-Za-z_][\w$.]*+)'
_VALUE = rf"(?:'(?:[^']|'')*+'|-?[\d.]++|{_NAME})"
_MODES = r"[\w\s,]*+"
_NAMED = rf"(?P<name>{_NAME})"
_COMMANDS: Final[dict[str, tuple[str, str, Callable[[re.Match[str]], Command]]]] = {
    "begin": ("BEGIN", rf"BEGIN{_MODES}", _just("BEGIN")),
    "start": ("START TRANSACTION", rf"START\s++TRANSACTION{_MODES}", _just("START TRANSACTION")),
    "commit": ("COMMIT", rf"COMMIT{_MODES}", _just("COMMIT")),
    "end": ("COMMIT", rf"END{_MODES}", _just("COMMIT")),
    "rollback": (
        "ROLLBACK",
        rf"ROLLBACK(?:\s++(?:WORK|TRANSACTION))?(?:\s++TO(?:\s++SAVEPOINT)?\s++{_NAMED})?",
        _named("ROLLBACK"),
    ),
    "abort": ("ROLLBACK", r"ABORT(?:\s++(?:WORK|TRANSACTION))?", _just("ROLLBACK")),
    "savepoint": ("SAVEPOINT", rf"SAVEPOINT\s++{_NAMED}", _named("SAVEPOINT")),
    "release": ("RELEASE", rf"RELEASE(?:\s++SAVEPOINT)?\s++{_NAMED}", _named("RELEASE")),
    "set": (
        "SET",
        rf"SET\s++(?:(?P<local>LOCAL|SESSION)\s++)?(?:(?:CHARACTERISTICS\s++AS\s++)?TRANSACTION\b(?P<modes>{_MODES})|"
        rf"(?:(?P<word>TIME\s++ZONE|NAMES)\s++|{_NAMED}\s*+(?:=|\bTO\b)\s*+)(?P<values>{_VALUE}(?:\s*+,\s*+{_VALUE})*+))",
        _set,
    ),
    "reset": ("RESET", rf"RESET\s++{_NAMED}", _reset),
    "show": ("SHOW", rf"SHOW\s++(?P<name>TRANSACTION\s++ISOLATION\s++LEVEL|TIME\s++ZONE|{_NAME})", _show),
    "discard": ("DISCARD", r"DISCARD\s++(?P<name>ALL|PLANS|SEQUENCES|TEMP|TEMPORARY)", _discard),
    "deallocate": (
        "DEALLOCATE",
        rf"DEALLOCATE(?:\s++PREPARE)?\s++(?:(?P<all>ALL)|{_NAMED})",
        _deallocate,
    ),
    "close": ("CLOSE CURSOR", rf"CLOSE\s++{_NAMED}", _named("CLOSE CURSOR")),
    "unlisten": ("UNLISTEN", r"UNLISTEN\s++\S++", _just("UNLISTEN")),
    "declare": (
        "DECLARE CURSOR",
        rf"DECLARE\s++{_NAMED}\s++(?:(?:ASENSITIVE|INSENSITIVE|NO\s++SCROLL)\s++)*+CURSOR\s++"
        r"(?:WITH\s++(?P<hold>HOLD)\s++|WITHOUT\s++HOLD\s++)?FOR\s++(?P<sql>.*)",
        _declare,
    ),
    "fetch": (
        "FETCH",
        rf"FETCH\s++(?:FORWARD\s++)?(?:(?P<count>\d{{1,9}}|ALL|NEXT)\s++)?(?:(?:FROM|IN)\s++)?{_NAMED}",
        _fetch,
    ),
    "copy": (
        "COPY",
        rf"COPY\s*+(?:\((?P<sql>.*)\)|(?P<table>{_NAME})\s*+(?P<columns>\(\s*+{_NAME}\s*+(?:,\s*+{_NAME}\s*+)*+\))?)\s*+\b"
        r"(?P<way>TO|FROM)\s++(?:STDOUT|STDIN)\b(?P<options>[^;]{0,200})",
        _copy,
    ),
}
_COMMENTS: Final = re.compile(r"(?:\s++|/\*.*?(?:\*/|\Z)|--[^\n]*+)*+", re.DOTALL)
