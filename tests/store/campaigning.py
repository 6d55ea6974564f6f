"""Twenty writers and four askers of one table, each a process of its own, for some seconds.

`python -m tests.store.campaigning CONFIG` forks a process for each of ROLES. Each has a user, a memory and a cache of
its own, as on a machine of its own, and writes down what it did: a line of JSON for each call, with its begin and end
by the clock that all processes share. tests/store/judging.py says whether that can be right. Whoever began before time
was up ends its call; nobody waits but for the store.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import pkgutil
import random
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, NoReturn, Self

import cleave
from cleave.store import attempts
from cleave_shared.errors import CleaveError
from tests.store.judging import Row, line_of
from tests.store.nonces import noted

SCHEMA = """
[columns.ward]
kind = "plain"
type = "VARCHAR"
[columns.sex]
kind = "sealed"
type = "VARCHAR"
[columns.grp]
kind = "encrypted"
type = "BIGINT"
lower = 0
upper = 100
[columns.bill]
kind = "encrypted"
type = "DECIMAL(9,2)"
lower = 0
upper = 90000
[columns.name]
kind = "sealed"
type = "VARCHAR"
"""
HEADER = "ward,sex,grp,bill,name\n"
GROUPS = 16  # a delete or an update is about one
LEAST = 3  # people of a released part
TOTALS = "SELECT ward, sex, COUNT(*), SUM(bill), SUM(grp) FROM trial GROUP BY ward, sex ORDER BY ward, sex"
ROWS = "SELECT name, bill, grp FROM trial ORDER BY name"
NOTE = 16  # bytes of the digest of a key and a nonce
_HELD_SECONDS = 600.0  # for which a change waits for a revocation: 24 processes share a few cores
_DIES_WITH_PARENT = 1  # PR_SET_PDEATHSIG


@dataclass(frozen=True)
class Config:
    """`seconds`: for which new calls begin."""

    folder: Path
    store: str
    key: Path
    new_key: Path
    seconds: float

    def dump(self) -> str:
        return json.dumps({name: str(getattr(self, name)) for name in self.__dataclass_fields__})

    @classmethod
    def load(cls, text: str) -> Self:
        given = json.loads(text)
        paths = {name: Path(given[name]) for name in ("folder", "key", "new_key")}
        return cls(**paths, store=given["store"], seconds=float(given["seconds"]))


def some(user: str, number: int, count: int) -> list[Row]:
    rng = random.Random(f"{user} {number}")
    return [
        Row(
            f"{user}-{number}-{each}",
            rng.choice("AB"),
            rng.choice("fm"),
            rng.randrange(GROUPS),
            rng.randrange(100_000),
        )
        for each in range(count)
    ]


class Process:
    """What one process does. `count`: of its calls."""

    def __init__(self, config: Config, user: str, until: float) -> None:
        self.config, self.user, self.until = config, user, until
        self.rng = random.Random(user)
        self.key = config.key
        self.count = 0
        self.file = config.folder / f"{user}.csv"
        self._journal = (config.folder / "journal" / f"{user}.jsonl").open("w")

    def goes_on(self) -> bool:
        return time.monotonic() < self.until

    @property
    def place(self) -> dict[str, Any]:
        return {"store": self.config.store, "key": self.key}

    def call(self, what: str, work: Callable[[], object], **facts: object) -> object:
        """Do one thing, and write down how it ended. A table that has moved is asked for under its new key."""
        while True:
            start = time.monotonic()
            answer: object = None
            code: int | str = 0
            message = ""
            try:
                answer = work()
            except CleaveError as error:
                moved = type(error).__name__ == "MovedError"
                code, message = "moved" if moved else error.exit_code, f"{error.message} {error.hint or ''}"
                if code in (6, 7):
                    self._trace(what, error)
            told = {"user": self.user, "what": what, "start": start, "end": time.monotonic(), "code": code}
            self._journal.write(json.dumps(told | {"message": message, "answer": answer, **facts}, default=str) + "\n")
            self._journal.flush()
            self.count += 1
            if code != "moved" or self.key == self.config.new_key:
                return answer if code == 0 else None
            self.key = self.config.new_key

    def _trace(self, what: str, error: BaseException | None) -> None:
        """Write down where an error comes from, for who looks for its cause."""
        with (self.config.folder / "journal" / f"{self.user}.traces").open("a") as file:
            file.write(f"=== {what}\n")
            while error is not None:
                file.write("".join(traceback.format_exception(type(error), error, error.__traceback__, chain=False)))
                error = error.__cause__ or error.__context__

    def load(self, rows: list[Row], **how: Any) -> object:
        self.file.write_text(HEADER + "".join(map(line_of, rows)))
        cleave.append(self.file, "trial", schema=self.config.folder / "schema.toml", **how, **self.place)
        return None


def adds(it: Process) -> None:
    """Appends, of which every fourth is the one before again: nothing is added."""
    number = 0
    while it.goes_on():
        rows = [each.dump() for each in some(it.user, number, 1 + number % 5)]
        it.call("append", lambda number=number: it.load(some(it.user, number, 1 + number % 5)), rows=rows)
        if number % 4 == 3:
            it.call("append", lambda number=number: it.load(some(it.user, number, 1 + number % 5)), rows=[])
        number += 1


def adds_batches(it: Process) -> None:
    """The same with batches: any earlier one is known again."""
    number = 0
    while it.goes_on():
        rows = some(it.user, number, 1 + number % 5)
        it.call(
            "append",
            lambda rows=rows, number=number: it.load(rows, batch=f"{it.user} {number}"),
            rows=[each.dump() for each in rows],
        )
        if number % 3 == 2:
            before = it.rng.randrange(number)
            rows = some(it.user, before, 1 + before % 5)
            it.call("append", lambda rows=rows, before=before: it.load(rows, batch=f"{it.user} {before}"), rows=[])
        number += 1


def upserts(it: Process) -> None:
    """New values of rows of its own, which others may have deleted, and new rows."""
    number = 0
    while it.goes_on():
        rows = some(it.user, number // 3, 4)
        if number % 3:
            rows = [each.raised(100 * number) for each in rows]
        it.call("append", lambda rows=rows: it.load(rows, upsert=True, yes=True), rows=[each.dump() for each in rows])
        number += 1


def deletes(it: Process) -> None:
    while it.goes_on():
        group = it.rng.randrange(GROUPS)
        it.call(
            "delete",
            lambda group=group: _rows(cleave.delete("trial", f"grp = {group}", yes=True, **it.place)),
            group=group,
        )


def updates(it: Process) -> None:
    while it.goes_on():
        group, how = it.rng.randrange(GROUPS), {"yes": True, "again": True, **it.place}
        it.call(
            "update",
            lambda group=group, how=how: _rows(cleave.update("trial", {"bill": "bill + 1"}, f"grp = {group}", **how)),
            group=group,
        )


def _rows(changed: Any) -> dict[str, int]:
    return {"rows": changed.rows}


def compacts(it: Process) -> None:
    while it.goes_on():
        it.call("compact", lambda: cleave.compact("trial", **it.place) and None)


def alters(it: Process) -> None:
    number = 0
    while it.goes_on():
        it.call(
            "derive",
            lambda number=number: cleave.derive("trial", f"bill * {number + 2}", f"more{number}", **it.place) and None,
        )
        it.call(
            "alter", lambda number=number: cleave.alter("trial", widen=[f"grp=0..{101 + number}"], **it.place) and None
        )
        new = f"new{number}"
        it.call("alter", lambda new=new: cleave.alter("trial", add=[f"{new} BIGINT"], **it.place) and None)
        it.call("alter", lambda new=new: cleave.alter("trial", drop=[new], **it.place) and None, may_lack=True)
        number += 1


def reads(it: Process) -> None:
    """Adds a reader, asks as this reader, and revokes it: then it reads nothing."""
    from cleave.ckks.key_file import open_key  # noqa: PLC0415
    from cleave.ckks.public_key import public_side  # noqa: PLC0415
    from tests.comparing import compared  # noqa: PLC0415

    reader = it.config.folder / "dan.json"

    def ask() -> object:
        who = {"reader": reader, "fingerprint": public_side(open_key(it.key, None)).fingerprint}
        return answer_of(cleave.query("trial", ROWS, store=it.config.store, **who))

    while it.goes_on():
        to = compared(reader.with_name("dan.json.pub"))
        it.call(
            "reader add",
            lambda to=to: cleave.add_reader("trial", to=to, columns="name,bill,grp", yes=True, **it.place) and None,
        )
        for _ in range(6):  # while a revocation is under way, others wait
            it.call("read", ask, of="rows", may_fail=True)
        it.call("reader revoke", lambda: cleave.revoke_reader("trial", "dan", **it.place) and None, may_lack=True)
        it.call("read", ask, of="nothing")


def releases(it: Process) -> None:
    """Releases, each read by its analyst."""
    from cleave.ckks.key_file import open_key  # noqa: PLC0415
    from cleave.ckks.public_key import public_side  # noqa: PLC0415
    from tests.comparing import compared  # noqa: PLC0415

    to: list[str] = [compared(it.config.folder / "carol.pem.pub")]

    def parts() -> object:
        who = {
            "analyst": it.config.folder / "carol.pem",
            "fingerprint": public_side(open_key(it.key, None)).fingerprint,
        }
        with cleave.connect("trial", store=it.config.store, **who) as connection:
            totals = connection._opened().source._release("trial").totals  # type: ignore[attr-defined]
        places = {each.name: place for place, each in enumerate(totals.measures)}
        return [
            {"key": list(key), "rows": rows}
            | {
                name: [
                    totals.shown[place][part],
                    totals.counts[place][part],
                    totals.sums[place][part],
                    totals.squares[place][part],
                ]
                for name, place in places.items()
            }
            for part, (key, rows) in enumerate(zip(totals.keys, totals.rows, strict=True))
        ]

    while it.goes_on():
        least = {"min_cell": LEAST} if to else {}
        it.call(
            "release", lambda to=to, least=least: cleave.release("trial", to=to or None, **least, **it.place) and None
        )
        if it.call("read release", parts) is not None:
            to = []


def rotates(it: Process) -> None:
    """Appends, and moves the table to the new key when two thirds of the time are over."""
    begun, until = time.monotonic(), it.until
    it.until = begun + (until - begun) * 2 / 3
    adds(it)
    it.until, done = until, False
    while not done:  # a revocation that is under way is in its way
        done = (
            it.call("rotate", lambda: cleave.rotate("trial", new_key=it.config.new_key, **it.place) and "done")
            == "done"
        )
    it.key = it.config.new_key
    while it.goes_on():
        logs(it)


def logs(it: Process) -> None:
    def told() -> object:
        log = cleave.log("trial", **it.place)
        return {"count": len(log), "digest": digest_of(log)}

    it.call("log", told)


def digest_of(log: list[dict[str, Any]]) -> str:
    return sha256(json.dumps(log, sort_keys=True).encode()).hexdigest()


def asks_totals(it: Process) -> None:
    while it.goes_on():
        how = {"min_group": 1, "yes": True, "cloud_only": it.count % 2 == 0}
        it.call("query", lambda how=how: answer_of(cleave.query("trial", TOTALS, **how, **it.place)), of="totals")


def asks_rows(it: Process) -> None:
    while it.goes_on():
        it.call("query", lambda: answer_of(cleave.query("trial", ROWS, min_group=1, yes=True, **it.place)), of="rows")


def verifies(it: Process) -> None:
    while it.goes_on():
        it.call("verify", lambda: [str(each) for each in cleave.verify("trial", **it.place)])
        logs(it)


def pulls(it: Process) -> None:
    def pulled() -> object:
        table = cleave.pull("trial", **it.place).arrow().select(["name", "bill", "grp"])
        return sorted([row["name"], str(row["bill"]), str(row["grp"])] for row in table.to_pylist())

    while it.goes_on():
        it.call("pull", pulled, of="rows")


def answer_of(result: Any) -> list[list[str]]:
    return [[str(each) for each in row] for row in result.rows]


ROLES: dict[str, Callable[[Process], None]] = {
    **{f"append{number}": adds for number in range(6)},
    **{f"batch{number}": adds_batches for number in range(5)},
    **{f"upsert{number}": upserts for number in range(2)},
    "delete": deletes,
    "update": updates,
    "compact": compacts,
    "alter": alters,
    "readers": reads,
    "release": releases,
    "rotate": rotates,
    "totals": asks_totals,
    "rows": asks_rows,
    "verify": verifies,
    "pull": pulls,
}


@contextmanager
def _nonces_in(path: Path) -> Iterator[None]:
    """Write a digest of each key and nonce with which this process seals."""
    with path.open("wb", buffering=0) as file, noted(lambda *pair: file.write(sha256(b"".join(pair)).digest()[:NOTE])):
        yield


def _dies_with_parent() -> None:
    ctypes.CDLL(None).prctl(_DIES_WITH_PARENT, signal.SIGKILL)


def _become(config: Config, user: str, until: float) -> NoReturn:
    _dies_with_parent()
    code = 1
    try:
        log = os.open(config.folder / "journal" / f"{user}.err", os.O_WRONLY | os.O_CREAT)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.environ |= {"CLEAVE_USER": user, "XDG_STATE_HOME": str(config.folder / "state" / user)}
        os.environ["XDG_CACHE_HOME"] = str(config.folder / "cache" / user)
        warnings.simplefilter("ignore")
        with _nonces_in(config.folder / "journal" / f"{user}.nonces"):
            ROLES[user](Process(config, user, until))
        code = 0
    except BaseException:  # noqa: BLE001 - the test shows it
        traceback.print_exc()
    finally:
        os._exit(code)


def _children(config: Config) -> Iterator[int]:
    until = time.monotonic() + config.seconds
    for user in ROLES:
        child = os.fork()
        if not child:
            _become(config, user, until)
        yield child


def _import_all() -> None:
    """What the calls import when they need it, once for all processes."""
    for each in pkgutil.walk_packages(cleave.__path__, "cleave."):
        if not each.name.startswith(("cleave.gateway", "cleave.cli", "cleave.report", "cleave.models")):
            with suppress(ImportError):  # of what is not installed
                importlib.import_module(each.name)


def main() -> int:
    _dies_with_parent()
    _import_all()
    os.fsync = lambda _: None  # nothing need outlive the machine's power
    attempts.HELD_SECONDS = _HELD_SECONDS
    config = Config.load(Path(sys.argv[1]).read_text())
    codes = [os.waitstatus_to_exitcode(os.waitpid(each, 0)[1]) for each in list(_children(config))]
    return max(map(abs, codes))


if __name__ == "__main__":
    sys.exit(main())
