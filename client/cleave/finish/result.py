"""The answer of a query: values, how far to trust each, and what the bounds leave undecided."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from cleave.sql.plan import Output

FAULTS_ONLY = (
    "added up by a scan, which is checked against faults, not against a sensitive service that lies and sets the sums"
)


@dataclass(frozen=True, slots=True)
class ResultTable:
    """The answer: `rows` hold Python values (int, float, Decimal, bool, None; other types as DuckDB's text).

    `bounds`: the largest distance to the exact value of the query over the data, None where there is none (it may be of
    any size, or the value is no number). `exact` True: what the type holds for that exact value, correctly rounded,
    bound 0. None in both: a key, or doubles of plain columns alone, which come out as DuckDB happens to add them up.

    `undecided` marks the cells that depend on a decision the bounds do not settle, `doubts` names for every row the
    clauses that do not surely let it in. Both may be empty, which means none. `warnings` says it in sentences.

    `scanned`: the sums behind it are those of a scan, which `FAULTS_ONLY` is true of. `note`: a further footnote.
    """

    columns: list[Output]
    types: list[str]
    rows: list[list[Any]]
    bounds: list[list[float | None]]
    exact: list[list[bool | None]]
    undecided: list[list[bool]] = field(default_factory=list)
    doubts: list[tuple[str, ...]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    scanned: bool = False
    note: str = ""

    @property
    def trust(self) -> str:
        """Footnote to an answer that is checked against less than others, or is as of an earlier time; else ""."""
        scanned = f"{', '.join(self.scanned_columns) or 'rows'}: {FAULTS_ONLY}" if self.scanned else ""
        return "; ".join(filter(None, (self.note, scanned)))

    @property
    def scanned_columns(self) -> list[str]:
        return [column.name for place, column in enumerate(self.columns) if self.is_scanned(place)]

    def is_scanned(self, column: int) -> bool:
        return self.scanned and self.columns[column].source == "encrypted"

    @property
    def is_decided(self) -> bool:
        return not any(map(any, self.undecided)) and not any(self.doubts)

    def is_undecided(self, row: int, column: int) -> bool:
        return bool(self.undecided) and self.undecided[row][column]

    def doubts_of(self, row: int) -> tuple[str, ...]:
        return self.doubts[row] if self.doubts else ()
