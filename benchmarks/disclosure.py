"""`make bench-disclosure`: thresholds that count people beside thresholds that count rows, and releases.

TPC-H's lineitem is stored twice, by return flag, line status and ship mode: once without an entity, so that thresholds
count rows, and once with the order key as entity. Every command is a whole process, with the most memory of it and its
children. A release is made of the second table, made again, and made once more after an append of 1% of the rows; last,
a noisy one of all.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
from pathlib import Path

import duckdb

import cleave
from benchmarks import memory
from benchmarks.store import processor, program
from benchmarks.tables import figure, machine, markdown
from cleave.ckks.public_key import read_public_key

_KINDS = {
    "l_orderkey": "sealed",
    "l_quantity": "encrypted",
    "l_extendedprice": "encrypted",
    "l_discount": "encrypted",
    "l_tax": "encrypted",
    "l_returnflag": "plain",
    "l_linestatus": "plain",
    "l_shipmode": "plain",
}
_BOUNDS = {"l_quantity": (0, 64), "l_extendedprice": (0, 131072), "l_discount": (0, 1), "l_tax": (0, 1)}
_BY = "l_returnflag,l_linestatus,l_shipmode"
_TABLES = {"by_rows": "", "by_people": '[privacy]\nentity = ["l_orderkey"]\n'}
_QUESTION = (
    "SELECT l_returnflag, l_linestatus, SUM(l_quantity) AS quantity, SUM(l_extendedprice) AS price, "
    "AVG(l_discount) AS discount, COUNT(*) AS n FROM {} GROUP BY 1, 2 ORDER BY 1, 2"
)
_LEAST = "5"
_NOISY = (
    *("--epsilon", "1", "--most-rows", "7"),
    *("--clamp", "l_quantity=0..64", "--clamp", "l_extendedprice=0..131072"),
    *("--clamp", "l_discount=0..1", "--clamp", "l_tax=0..1"),
    *("--values", "l_returnflag=A,N,R", "--values", "l_linestatus=F,O"),
    *("--values", "l_shipmode=AIR,FOB,MAIL,RAIL,REG AIR,SHIP,TRUCK"),
)


class Bench:
    """Data of one scale in a folder, and commands over it. `measured`: lines of the table."""

    def __init__(self, folder: Path, scale: str) -> None:
        self._folder = folder
        self._environment = os.environ | {"XDG_STATE_HOME": str(folder / "state")}
        os.environ["XDG_STATE_HOME"] = self._environment["XDG_STATE_HOME"]
        self.measured: list[tuple[str, str, str, str, str]] = []
        generate = [program("tpchgen-cli"), "parquet", "-s", scale, "--tables=lineitem", f"--output-dir={folder}"]
        subprocess.run(generate, check=True, capture_output=True)
        file = f"'{folder / 'lineitem.parquet'}'"
        with duckdb.connect() as connection:
            self.types = {
                name: type_ for name, type_, *_ in connection.execute(f"DESCRIBE SELECT * FROM {file}").fetchall()
            }
            few = f"SELECT * FROM {file} WHERE l_orderkey % 100 = 0"  # all rows of an order
            connection.execute(f"COPY (FROM {file} WHERE l_orderkey % 100 <> 0) TO '{folder / 'most.parquet'}'")
            connection.execute(f"COPY ({few}) TO '{folder / 'few.parquet'}'")
            ((self.rows,),) = connection.execute(f"SELECT count(*) FROM {file}").fetchall()
            self.wanted = {
                name: connection.execute(_QUESTION.format(f"read_parquet({file})")).fetchall() for name in _TABLES
            }
        self._run("", "key", "new", "--no-passphrase", "--key", folder / "key.json")
        self._run("", "analyst", "new", "-o", folder / "carol.pem")

    def _run(self, name: str, *words: object) -> None:
        """`name` "": it is not measured."""
        measured = self._measure(*words)
        if name:
            self.measured.append((name, *measured, ""))

    def _measure(self, *words: object) -> tuple[str, str, str]:
        before = processor()
        ran = memory.run([program("cleave"), "--quiet", *map(str, words)], self._environment)
        return figure(processor() - before), figure(ran.seconds), figure(ran.peak_mb)

    def _stored(self) -> tuple[object, ...]:
        return "--store", self._folder / "store", "--key", self._folder / "key.json"

    def _schema(self, name: str) -> Path:
        lines = [_TABLES[name]]
        for column, type_ in self.types.items():
            kind = _KINDS.get(column, "local")
            lines += [f"[columns.{column}]", f'kind = "{kind}"', f'type = "{type_}"', "nullable = false"]
            if column in _BOUNDS:
                lines += [f"lower = {_BOUNDS[column][0]}", f"upper = {_BOUNDS[column][1]}"]
        (path := self._folder / f"{name}.toml").write_text("\n".join(lines) + "\n")
        return path

    def run(self) -> None:
        for name in _TABLES:
            counted = name.replace("_", " ")
            most, few = self._folder / "most.parquet", self._folder / "few.parquet"
            stored = "--table", name, *self._stored()
            self._run(f"put, {counted}", "put", most, "--schema", self._schema(name), "--by", _BY, *stored)
            if name == "by_people":
                self._releases(name)
            self._run(f"append of 1%, {counted}", "put", few, "--append", *stored)
            for threshold in ("1", _LEAST):
                self._ask(name, threshold, counted)
        self._run("release after that append", "release", "new", "by_people", *self._stored())
        self._run("noisy release", "release", "new", "by_people", *_NOISY, "--yes", *self._stored())

    def _releases(self, name: str) -> None:
        carol = self._folder / "carol.pem.pub"
        first = "--to", f"{carol}={read_public_key(carol).fingerprint}", "--min-cell", _LEAST
        self._run("first release", "release", "new", name, *first, *self._stored())
        self._run("release of nothing new", "release", "new", name, *self._stored())

    def _ask(self, name: str, threshold: str, counted: str) -> None:
        sql = _QUESTION.format(name)
        words = "query", sql, "--min-group", threshold, *self._stored()
        measured = self._measure(*words)
        place = {"store": self._folder / "store", "key": self._folder / "key.json"}
        answer = cleave.query(None, sql, min_group=int(threshold), **place)
        assert [tuple(row)[:4] for row in answer] == [row[:4] for row in self.wanted[name]]
        size = figure((answer.usage.bytes_read or 0) / 1e6)
        self.measured.append((f"query, --min-group {threshold}, {counted}", *measured, size))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--scale", default="0.1")
    scale = parser.parse_args().scale
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), scale)
        bench.run()
        print(f"lineitem at SF {scale}, {bench.rows:,} rows; {machine()}\n")
        print(markdown(["", "s of processor", "s", "MB of memory", "MB read"], bench.measured))


if __name__ == "__main__":
    main()
