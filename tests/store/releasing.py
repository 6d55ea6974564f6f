"""An owner who releases totals, and analysts, each with what only they have."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import duckdb

from cleave.ask.question import Answer
from cleave.ask.released import ReleaseSource
from cleave.ask.session import Session
from cleave.ckks.public_key import PublicKey, public_side
from cleave.releases.exact import ExactChoices, ExactReleaseFacts
from cleave.releases.exact_totals import ExactTotals
from cleave.releases.kind import ReleaseFacts
from cleave.releases.release import ReleasedTotals
from cleave.releases.releases import release, revoke
from cleave.store.identity import Identity, create_identity, read_identity
from cleave.store.seen_versions import SeenVersions
from tests.store.contributing import World

LEAST = 5
# (ward, sex): rows. The smallest cells are hidden.
ROWS = [
    *(("A", "f"),) * 9,
    *(("A", "m"),) * 4,
    *(("B", "f"),) * 6,
    *(("B", "m"),) * 12,
    *(("C", "f"),) * 1,
]


def rows(of: Sequence[tuple[str, str]] = ROWS, start: int = 0) -> str:
    """CSV of one row for each of `of`; no two rows have the same values."""
    lines = [
        f"{ward},{sex},{20 + (start + n) % 60},{100 + 1.25 * (start + n):.2f},{50.5 + start + n},p{start + n}\n"
        for n, (ward, sex) in enumerate(of)
    ]
    return "".join(lines)


class Releases(World):
    """`carol` and others are analysts by name."""

    def analyst(self, name: str) -> Identity:
        path = self.root / f"{name}.pem"
        return read_identity(path) if path.exists() else create_identity(path, analyst=True)[0]

    def public_of(self, name: str) -> PublicKey:
        return public_side(self.analyst(name))

    def release(
        self, *names: str, least: int | None = LEAST, new_lineage: bool = False, yes: bool = False
    ) -> ExactReleaseFacts:
        analysts = {name: self.public_of(name) for name in names}
        choices = ExactChoices(least, new_lineage=new_lineage)
        facts = release(self.tables()[0], self.name, analysts, choices, yes=yes)
        assert isinstance(facts, ExactReleaseFacts)
        return facts

    def revoke(self, name: str) -> ReleaseFacts | None:
        return revoke(self.tables()[0], self.name, name)

    def source(
        self, name: str, fingerprint: str | None = None, memory: str = "", accepts: int | None = None
    ) -> ReleaseSource:
        """What an analyst opens; `memory` names another machine of theirs."""
        fingerprint = fingerprint or public_side(self.key).fingerprint
        known = SeenVersions(self.root / f"{name}{memory}.json")
        source = ReleaseSource(self.name, self.stores(), self.analyst(name), fingerprint, known, accepts=accepts)
        source.open()
        return source

    def ask(self, name: str, sql: str, *, strict: bool = False, memory: str = "") -> Answer:
        with Session(self.source(name, memory=memory)) as session:
            return session.ask(session.plan(sql), strict=strict)

    def shown(self, name: str) -> dict[tuple[Any, ...], int]:
        """Cells of the release that the analyst reads, and their rows."""
        shown: dict[tuple[Any, ...], int] = {}
        totals = self.totals(name)
        assert isinstance(totals, ExactTotals)
        for key, count in zip(totals.keys, totals.rows, strict=True):
            shown[key] = shown.get(key, 0) + count
        return shown

    def totals(self, name: str) -> ReleasedTotals:
        source = self.source(name)
        totals: Any = source._release(self.name)
        source.close()
        assert isinstance(totals.totals, ReleasedTotals)
        return totals.totals


@cache
def _oracle() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


def truth(csv: str, sql: str) -> list[tuple[Any, ...]]:
    """DuckDB's answer over the rows of `csv`, table `trial`."""
    header = "ward,sex,age,bill,weight,name"
    values = [line.split(",") for line in csv.splitlines()]
    typed = ", ".join(
        f"('{w}', '{s}', {a or 'NULL'}, {b or 'NULL'}::DECIMAL(9,2), {c or 'NULL'}::DOUBLE, '{n}')"
        for w, s, a, b, c, n in values
    )
    connection = _oracle()
    connection.execute(f"CREATE OR REPLACE TABLE trial AS FROM (VALUES {typed}) AS t({header})")
    return connection.execute(sql).fetchall()


def lines_of(csv: str, cells: Sequence[tuple[str, str]]) -> str:
    """The lines of `csv` that are of `cells`."""
    return "".join(f"{line}\n" for line in csv.splitlines() if tuple(line.split(",")[:2]) in cells)


__all__ = ["LEAST", "ROWS", "Releases", "lines_of", "rows", "truth"]
