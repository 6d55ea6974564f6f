"""An open session of every front answers over the newest version at each statement, as DuckDB over a mirror does."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from itertools import chain
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest
from psycopg import pq

import cleave
from cleave.ckks.key_file import create_key
from tests.campaign import sampled
from tests.gateway.conftest import connect
from tests.gateway.fronts import REFUSED, Fronts, gateway_over

Rows = list[tuple[str, ...]]
KINDS = {"ward": "plain", "bill": "encrypted", "id": "sealed", "note": "sealed"}
MADE = """
    SELECT i AS id, 'w' || i % 5 AS ward, (i * 37 % 1000 / 4)::DECIMAL(9, 2) AS bill, 'n' || i % 9 AS note
    FROM range({}, {}) r(i)
"""
QUESTIONS = (
    "SELECT COUNT(*) AS n, SUM(bill) AS s FROM t",  # totals
    "SELECT ward, COUNT(*) AS n, SUM(bill) AS s FROM t GROUP BY ward ORDER BY ward",
    "SELECT MIN(id) AS a, MAX(id) AS b, MAX(bill) AS c FROM t",  # rows
    "SELECT ward, COUNT(*) AS n FROM t GROUP BY ward ORDER BY ward",  # totals
    "SELECT COUNT(*) AS n FROM t AS a JOIN t AS b ON a.id = b.id AND a.bill = b.bill",
)


class Life:
    """A stored table that changes, and its mirror. `fronts`: open sessions, by name."""

    def __init__(self, folder: Path, stack: ExitStack, port: int) -> None:
        self.folder = folder
        self.given: dict[str, Any] = {"store": folder / "store", "key": folder / "key.json"}
        create_key(folder / "key.json", None)
        self.mirror = duckdb.connect()
        self.next = 0
        self.put()
        ports = gateway_over(folder, port, stack)
        self.port = int(ports.postgres.rpartition(":")[2])
        fronts = Fronts("t", self.given["store"], self.given["key"], ports, stack)
        self.session, self.fronts = fronts.session, fronts.asks

    def made(self, rows: int) -> Any:
        """An Arrow table of new rows."""
        self.next += rows
        return self.mirror.sql(MADE.format(self.next - rows, self.next)).to_arrow_table()

    def put(self) -> None:
        frame = self.made(60)  # noqa: F841 - the mirror reads it
        self.mirror.execute("CREATE OR REPLACE TABLE t AS FROM frame")
        there = (self.folder / "store").exists()
        cleave.put(
            self.mirror.sql("FROM t").to_arrow_table(), "t", schema=KINDS, by=["ward"], replace=there, **self.given
        )

    def append(self) -> None:
        frame = self.made(20).rename_columns(self.columns())
        self.mirror.execute("INSERT INTO t FROM frame")
        cleave.append(frame, "t", **self.given)

    def delete(self) -> None:
        self.mirror.execute("DELETE FROM t WHERE id % 7 = 3")
        cleave.delete("t", "id % 7 = 3", yes=True, **self.given)

    def update(self) -> None:
        self.mirror.execute("UPDATE t SET bill = bill + 1 WHERE id % 2 = 0")
        cleave.update("t", {"bill": "bill + 1"}, "id % 2 = 0", again=True, **self.given)

    def rename(self) -> None:
        old, new = ("note", "remark") if "note" in self.columns() else ("remark", "note")
        self.mirror.execute(f"ALTER TABLE t RENAME {old} TO {new}")
        cleave.alter("t", rename=[f"{old}={new}"], **self.given)

    def compact(self) -> None:
        cleave.compact("t", **self.given)

    def drop(self) -> None:
        cleave.drop("t", **self.given)
        self.refuse("there is no table 't'")
        self.mirror.execute("DROP TABLE t")
        self.put()

    def columns(self) -> list[str]:
        return [each[0] for each in self.mirror.execute("DESCRIBE t").fetchall()]

    def check(self, after: str) -> None:
        """Every front has the mirror's answers and columns."""
        note = "remark" if "remark" in self.columns() else "note"
        for sql in (*QUESTIONS, f"SELECT {note}, COUNT(*) AS n FROM t GROUP BY {note} ORDER BY {note}"):
            truth = texts(self.mirror.execute(sql).fetchall())
            for name, ask in self.fronts.items():
                assert texts(ask(sql).rows) == truth, (after, name, sql)
        for name in ("postgres", "http"):
            listed = self.fronts[name]("DESCRIBE t").rows
            assert [row[0] for row in texts(listed)] == self.columns(), (after, name)
        assert list(self.session.schemas["t"].names) == self.columns(), after

    def refuse(self, why: str) -> None:
        """No front answers."""
        for ask in self.fronts.values():
            with pytest.raises(REFUSED, match=why):
                ask(QUESTIONS[0])


def texts(rows: Any) -> Rows:
    return [tuple(str(each) for each in row) for row in rows]


@pytest.fixture
def life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free_port: Callable[[], int]) -> Iterator[Life]:
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    with ExitStack() as stack:
        yield Life(tmp_path, stack, free_port())


CHANGES = ("append", "delete", "update", "rename", "put", "compact", "drop")


@pytest.mark.parametrize("changes", sampled(2, 12, 420))
def test_each_statement_is_over_the_newest_version(life: Life, changes: int) -> None:
    """Each kind of change once in seven, in any order."""
    life.check("the first put")
    orders = [random.Random(seed).sample(CHANGES, len(CHANGES)) for seed in range(-(-changes // len(CHANGES)))]
    for number, change in enumerate(list(chain(*orders))[:changes]):
        getattr(life, change)()
        life.check(f"{change}, change {number}")


def test_what_was_described_is_not_sent_under_other_names(life: Life) -> None:
    """Columns of one type may change places; some clients read them by the names that they were told of."""
    every, figure = "SELECT * FROM t ORDER BY id", "SELECT MAX(id) + $1 FROM t"
    with closing(connect(life.port)) as connection:
        wire = connection.pgconn
        for name, sql in ((b"every", every), (b"figure", figure)):
            wire.prepare(name, sql.encode())
            wire.describe_prepared(name)
        before = life.mirror.execute(every).fetchall()
        assert wire.exec_prepared(b"every", []).ntuples == len(before)
        with connection.transaction(), connection.cursor("early") as early, connection.cursor("late") as late:
            early.execute(every)
            late.execute(every)
            assert early.fetchone() == before[0]
            life.rename()
            assert early.fetchall() == before[1:]
            with pytest.raises(psycopg.errors.FeatureNotSupported, match="described before"), connection.transaction():
                late.fetchall()
        life.append()
        ((most,),) = life.mirror.execute("SELECT MAX(id) + 2 FROM t").fetchall()
        got = wire.exec_prepared(b"figure", [b"2"])  # DuckDB names its column by the value
        assert (got.status, got.get_value(0, 0)) == (pq.ExecStatus.TUPLES_OK, str(most).encode())
        said = wire.exec_prepared(b"every", []).error_field(pq.DiagnosticField.MESSAGE_PRIMARY)
        assert said == b"the columns are not those that were described before"


def test_an_older_state_is_refused_in_an_open_session(life: Life) -> None:
    shutil.copytree(life.folder / "store", life.folder / "older")
    life.append()
    life.check("append")
    (life.folder / "store").rename(life.folder / "newer")
    (life.folder / "older").rename(life.folder / "store")
    why = "shows an older state of a table|table 't' cannot be read now"  # a gateway tells no more
    life.refuse(why)
    life.refuse(why)
    (life.folder / "store").rename(life.folder / "older")
    (life.folder / "newer").rename(life.folder / "store")
    life.check("the newest state again")
    create_key(life.folder / "new.json", None)
    cleave.rotate("t", life.folder / "new.json", **life.given)
    life.refuse("under another key now|there is no table")
