"""Send a server what a client sent to PostgreSQL, and tell where it answers otherwise than PostgreSQL did.

Over users' tables everything counts: the order of messages, names, types, formats and modifiers of columns, every byte
of a value, tags, and classes of errors. Of statements about the catalogue, types count by families and values by what
they mean. `differences.toml` states what may differ.
"""

from __future__ import annotations

import json
import re
import struct
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.gateway.wire import Message, Wire, uncell

RECORDED: Final = Path(__file__).parent / "recorded"
NUMERIC: Final = 1700
_CATALOGUE: Final = re.compile(
    r"\b(pg_\w+|information_schema|current_schema|current_catalog|version\(\))", re.IGNORECASE
)
_FAMILIES: Final = (
    {18, 19, 24, 25, 194, 705, 1042, 1043, 2205, 2206, 2278},  # texts, names, and what is told by its name
    {20, 21, 23, 26},  # integers and OIDs
    {1002, 1003, 1009, 1015, 1034, 25},  # lists of texts, access rights
    {22, 30, 1005, 1007, 1016, 1028, 25},  # lists of integers
    {NUMERIC, 20, 23},
)
_NUMBERS: Final = {20: 8, 21: 2, 23: 4, 26: 4}


def recorded(name: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What a recording says of its client, and its connections and exchanges."""
    about, *lines = map(json.loads, (RECORDED / f"{name}.jsonl").read_text().splitlines())
    return about, lines


@dataclass
class Stated:
    """Differences that are stated. `used`: those that were met."""

    entries: Sequence[Mapping[str, str]]
    used: set[int] = field(default_factory=set)

    @classmethod
    def read(cls) -> Stated:
        return cls(tomllib.loads((RECORDED / "differences.toml").read_text())["difference"])

    def covers(self, kind: str, client: str, sql: str, what: str) -> bool:
        """Check whether one covers `what` (a column, a row's text, a code, a parameter) of a statement."""
        for place, entry in enumerate(self.entries):
            if (
                entry["of"] == kind
                and re.fullmatch(entry.get("client", ".*"), client)
                and re.search(entry.get("sql", ""), sql)
                and re.search(entry.get("what", ""), what)
            ):
                self.used.add(place)
                return True
        return False


@dataclass
class Replay:
    """One client's messages against the server at `port`."""

    port: int
    client: str
    stated: Stated
    password: str = ""
    oids: dict[int, int] = field(default_factory=dict)
    statements: dict[str, str] = field(default_factory=dict)
    columns: dict[str, Sequence[Sequence[Any]]] = field(default_factory=dict)

    def run(self, about: Mapping[str, Any], lines: Sequence[Mapping[str, Any]]) -> list[str]:
        """Every difference that is not stated, as a line."""
        self.oids = self._oids(about["oids"])
        found: list[str] = []
        wire: Wire | None = None
        try:
            for line in lines:
                if "startup" in line:
                    if wire:
                        wire.socket.close()
                    wire, self.statements = Wire(self.port), {}
                    wire.login(self.password, **line["startup"])
                    found += self._status(line["status"], wire.parameters)
                elif wire:
                    try:
                        found += self._exchange(wire, line[">"], line["<"])
                    except (OSError, AssertionError) as error:
                        found.append(f"{self._sql(line['>'])[:200]!r}: the connection broke: {error!r}")
                        wire.socket.close()
                        wire = None
        finally:
            if wire:
                wire.socket.close()
        return found

    def _oids(self, theirs: Mapping[str, int]) -> dict[int, int]:
        with Wire(self.port) as wire:
            wire.login(self.password, user="owner", database="cleave")
            names = ", ".join(f"'{each}'" for each in theirs)
            answer = wire.ask(["Q", f"SELECT c.oid, c.relname FROM pg_catalog.pg_class c WHERE c.relname IN ({names})"])
        ours = {row[1][1]: int(row[1][0]) for row in answer if row[0] == "D"}
        return {oid: ours[name] for name, oid in theirs.items() if name in ours}

    def _status(self, theirs: Mapping[str, str], ours: Mapping[str, str]) -> Iterator[str]:
        for name, value in theirs.items():
            if ours.get(name) != value and not self.stated.covers("parameter", self.client, "", name):
                yield f"parameter {name} is {ours.get(name)!r}, not {value!r}"

    def _exchange(self, wire: Wire, sent: Sequence[Message], expected: Sequence[Message]) -> list[str]:
        sql = self._sql(sent)
        messages = [self._ours(each) for each in sent]
        wire.send(*messages)
        tags = "".join(each[0] for each in sent)
        ends = sum(map(tags.count, "QS")) or sum(map(tags.count, "PBDEC"))
        last = "Z" if set("QS") & set(tags) else "123TnCsI"
        got: list[Message] = []
        while ends and (last == "Z" or not got or got[-1][0] != "E"):
            got.append(wire.receive())
            ends -= got[-1][0] in last
        about = _CATALOGUE.search(sql) is not None
        return [f"{sql[:300]!r}: {each}" for each in self._compared(about, sql, expected, got)]

    def _sql(self, sent: Sequence[Message]) -> str:
        """The statements of an exchange."""
        found = []
        for each in sent:
            if each[0] == "Q":
                found.append(each[1])
            elif each[0] == "P":
                self.statements[each[1]] = each[2]
                found.append(each[2])
            elif each[0] == "B" and self.statements.get(each[2]) not in found:
                found.append(self.statements.get(each[2], ""))
        return "; ".join(found)

    def _ours(self, message: Message) -> Message:
        """The message with the server's own OIDs."""
        if not self.oids:
            return message
        either = "|".join(map(str, self.oids))
        if message[0] in "QP":
            place = 1 if message[0] == "Q" else 2
            held = list(message)
            held[place] = re.sub(rf"\b({either})\b", lambda found: str(self.oids[int(found[0])]), message[place])
            return held
        if message[0] == "B":
            return [*message[:4], [self._value(each) for each in message[4]], message[5]]
        return message

    def _value(self, value: Any) -> Any:
        """A value with the server's own OIDs."""
        if isinstance(value, str) and re.fullmatch(r"[\d{}, ]+", value):
            return re.sub(r"\d+", lambda found: str(self.oids.get(int(found[0]), found[0])), value)
        if isinstance(value, list):
            size = min(8, len(value[0])) or 1  # as many digits as an OID, or as a SMALLINT that it fits into
            words = re.findall("." * size, value[0])
            numbers = [self.oids.get(int(word, 16)) for word in words]
            new = "".join(word if oid is None else f"{oid:0{size}x}" for word, oid in zip(words, numbers, strict=True))
            return [new + value[0][len(new) :]]
        return value

    def _compared(self, about: bool, sql: str, expected: Sequence[Message], got: Sequence[Message]) -> Iterator[str]:
        theirs, ours = (joined(side) for side in (expected, got))
        for failed in (each for each in ours if each[0] == "E"):
            known = [each[1]["C"] for each in theirs if each[0] == "E"]
            code = failed[1].get("C", "")
            if code[:2] in (each[:2] for each in known):  # PostgreSQL fails at Parse, others may when they describe
                return
            if not self.stated.covers("refused", self.client, sql, f"{code} {failed[1].get('M')}"):
                yield f"refused by {code} {failed[1].get('M')!r}, where PostgreSQL said {known or 'nothing'}"
            return
        if [each[0] for each in theirs] != [each[0] for each in ours]:
            if not self.stated.covers("messages", self.client, sql, ""):
                yield f"messages are {''.join(each[0] for each in ours)}, not {''.join(each[0] for each in theirs)}"
            return
        for one, other in zip(theirs, ours, strict=True):
            yield from self._message(about, sql, one, other)
        for one, other in zip(results(expected), results(got), strict=False):
            yield from self._rows(about, sql, one, other)

    def _message(self, about: bool, sql: str, theirs: Message, ours: Message) -> Iterator[str]:
        if theirs[0] == "T":
            names, others = [each[0] for each in theirs[1]], [each[0] for each in ours[1]]
            if len(names) != len(others):
                yield f"columns are {others}, not {names}"
                return
            for one, other in zip(names, others, strict=True):
                if one != other and not self.stated.covers("name", self.client, sql, one):
                    yield f"column {one} is named {other}"
            for one, other in zip(theirs[1], ours[1], strict=True):
                name, kind, _, mod, form = one
                alike = kind == other[1] or (about and any({kind, other[1]} <= family for family in _FAMILIES))
                if not alike and not self.stated.covers("type", self.client, sql, name):
                    yield f"column {name} has type {other[1]}, not {kind}"
                if form != other[4]:
                    yield f"column {name} has format {other[4]}, not {form}"
                if not about and kind == NUMERIC == other[1] and mod not in (-1, other[3]):
                    yield f"column {name} has modifier {other[3]}, not {mod}"
        elif theirs[0] == "t":
            if theirs != ours and not about and not self.stated.covers("parameters", self.client, sql, ""):
                yield f"parameters have types {ours[1]}, not {theirs[1]}"
        elif theirs[0] == "C" and about:
            if theirs[1].split()[0] != ours[1].split()[0]:
                yield f"tag {ours[1]}, not {theirs[1]}"
        elif theirs[0] != "E" and theirs != ours and not self.stated.covers("message", self.client, sql, str(ours)):
            yield f"{ours}, not {theirs}"

    def _rows(self, about: bool, sql: str, theirs: Result, ours: Result) -> Iterator[str]:
        if not about:
            wrong: set[str] = set()  # columns; the first row of each tells enough
            for place, (one, other) in enumerate(zip(theirs.rows, ours.rows, strict=False)):
                for name, value, mine in zip(theirs.names, one, other, strict=False):
                    if value != mine and name not in wrong and not self.stated.covers("value", self.client, sql, name):
                        wrong.add(name)
                        yield f"row {place}: {name} is {mine!r}, not {value!r}"
            if not theirs.is_cut and len(theirs.rows) != len(ours.rows):
                yield f"{len(ours.rows)} rows, not {len(theirs.rows)}"
            return
        there = [ours.read(row) for row in ours.rows]
        free = [place for place, name in enumerate(theirs.names) if self._is_free(sql, name)]
        seen = [without(row, free) for row in there]
        for row in theirs.rows:
            row = [self._value(each) for each in row]  # noqa: PLW2901 - with our OIDs
            read = theirs.read(row)
            if without(read, free) in seen or self.stated.covers("row", self.client, sql, str(read)):
                continue
            near = max(there, key=lambda each: sum(a == b for a, b in zip(each, read, strict=False)), default=None)
            unlike = near and [
                f"{name}: {mine!r}, not {value!r}"
                for name, mine, value in zip(theirs.names, near, read, strict=False)
                if mine != value
            ]
            yield f"no row {read}; nearest: {unlike}"
            return
        if not theirs.is_cut and len(there) > len(theirs.rows) and not self.stated.covers("more", self.client, sql, ""):
            yield f"{len(there)} rows, not {len(theirs.rows)}: {there[:3]}"

    def _is_free(self, sql: str, name: str) -> bool:
        return self.stated.covers("column", self.client, sql, name)


def joined(messages: Sequence[Message]) -> list[Message]:
    """Messages other than rows, notices and parameters; those of a COPY as one: how they are cut is of no account."""
    found: list[Message] = []
    for message in messages:
        if message[0] in ("N", "S", "D", "..."):
            continue
        if message[0] == "d" and found and found[-1][0] == "d":
            found[-1] = ["d", found[-1][1] + uncell(message[1]).hex()]
        elif message[0] == "d":
            found.append(["d", uncell(message[1]).hex()])
        else:
            found.append(message)
    return found


def without(row: Sequence[Any], places: Sequence[int]) -> list[Any]:
    return [each for place, each in enumerate(row) if place not in places]


@dataclass(frozen=True, slots=True)
class Result:
    """Rows of one statement. `is_cut`: the recording lacks its last rows."""

    columns: Sequence[Sequence[Any]]
    rows: Sequence[Sequence[Any]]
    is_cut: bool

    @property
    def names(self) -> Sequence[str]:
        width = max(map(len, self.rows), default=0)
        return [each[0] for each in self.columns] or [f"column {place}" for place in range(width)]

    def read(self, row: Sequence[Any]) -> list[Any]:
        """The values of a row by their meaning: integers, booleans and lists as such, else texts."""
        kinds = [each[1] for each in self.columns] or [25] * len(row)
        return [meaning(value, kind) for value, kind in zip(row, kinds, strict=False)]


def results(messages: Sequence[Message]) -> list[Result]:
    """The results of an exchange; one that was described earlier has no columns here."""
    found: list[Result] = []
    columns: Sequence[Sequence[Any]] = []
    rows: list[Sequence[Any]] = []
    is_cut = False
    for message in messages:
        if message[0] == "T":
            columns = message[1]
        elif message[0] == "D":
            rows.append(message[1])
        elif message[0] == "...":
            is_cut = True
        elif message[0] in "CsE":
            found.append(Result(columns, rows, is_cut))
            columns, rows, is_cut = [], [], False
    return found


def meaning(value: Any, kind: int) -> Any:
    """A catalogue's value: numbers as numbers, booleans as such, lists as lists of texts, all else as text."""
    if value is None:
        return None
    if isinstance(value, list):
        held = bytes.fromhex(value[0])
        if kind == 16:
            return held == b"\1"
        if kind in _NUMBERS:
            return int.from_bytes(held, "big", signed=kind != 26)
        if len(held) >= 12 and kind in {22, 30, 1002, 1003, 1005, 1007, 1009, 1015, 1016, 1028, 1034}:
            return elements(held)
        return held.decode(errors="replace")
    if kind == 16:
        return value == "t"
    if re.fullmatch(r"-?\d{1,18}", value):
        return int(value)
    if kind in {22, 30} or (value.startswith("{") and value.endswith("}")):
        return [each.strip('"') for each in re.split(r"[ ,]", value.strip("{}")) if each]
    return value


def elements(held: bytes) -> list[str]:
    """The elements of an array in binary."""
    dimensions, _, kind = struct.unpack_from("!iiI", held)
    if not dimensions:
        return []
    count, _ = struct.unpack_from("!ii", held, 12)
    place, found = 20, []
    for _ in range(count):
        (size,) = struct.unpack_from("!i", held, place)
        found.append(str(meaning([held[place + 4 : place + 4 + size].hex()], kind)))
        place += 4 + size
    return found
