"""Proposals to review: of every type and kind, and with names that would rather be markup."""

from __future__ import annotations

import csv
import warnings
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from cleave import CleaveWarning
from cleave.propose.propose import Examined, propose
from cleave.report.review import review
from cleave.table.schema import CsvDialect, Schema
from tests.report.answers import HOSTILE

COLUMNS = {
    "patient_id": lambda row: f"P{row // 2:04}",
    "ward": lambda row: ("Cardiology", "North 1", "South 2")[row % 3],
    "region": lambda row: ("north", "south")[row % 2],
    "age": lambda row: str(20 + row % 60),
    "bill": lambda row: f"{row * 7 % 900}.{row % 100:02}",
    "weight": lambda row: f"{50 + row % 40}.1234567" if row % 9 else "",
    "admitted": lambda row: f"2025-01-{1 + row % 28:02}",
    "insured": lambda row: ("yes", "no")[row % 2],
    "visits": lambda row: str(row % 4),
    "grade": lambda row: "ABCD"[row % 4],
    "code": lambda row: f"x{row % 7}",
    "seen": lambda row: f"2025-01-{1 + row % 28:02} 10:00:00+02:00",
    "notes": lambda row: f"Recovering well, was seen on two days and walks without help. Case {row}.",
}
ROWS = 120
HOSTILE_NAMES = (
    *(
        HOSTILE,
        "</script>",
        "]]>",
        "<!--",
        "a\u202eb\u2066c",
        "\u05d0\u05d1 \u0645",
        "x" * 3_000,
        "a\nb",
        "a.b",
        '"',
        "'",
    ),
    *("{{ 7*7 }}", "\\u0041", " ", "entity", "\U0001f600", "__proto__", "constructor"),
)


def write_rows(path: Path, rows: int = ROWS) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(COLUMNS)
        lines.writerows([make(row) for make in COLUMNS.values()] for row in range(rows))
    return path


def write_hostile(path: Path) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(HOSTILE_NAMES)
        lines.writerows([f"{HOSTILE} {row % 3}" for _ in HOSTILE_NAMES] for row in range(30))
    return path


@cache
def proposal(path: Path) -> tuple[Schema, dict[str, Examined]]:
    examined: dict[str, Examined] = {}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* is called", CleaveWarning)  # column 14 of hostile names has none
        return propose(path, reading=CsvDialect(), examined=examined, choosing=True), examined


def page_of(path: Path, *, values: bool = False) -> str:
    schema, examined = proposal(path)
    moment = datetime(2026, 11, 26, 20, 0, tzinfo=UTC)
    command = f"cleave schema {path.name} --from review.toml"
    return review(schema, examined, table=path.stem, created=moment, file="review.toml", command=command, values=values)
