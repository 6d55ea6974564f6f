"""Cleave over the same table: `CSV KEY QUESTIONS HOW`, a process of its own.

By `query` each question reads file and key anew; in a `session` they are read once, each question still splits,
encrypts, sends, adds, decrypts, checks and rejoins.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import cleave
from benchmarks.thesis import table
from benchmarks.thesis.measured import measured

QUESTION = f"SELECT {', '.join(f'SUM({name}) AS {name}' for name in table.COLUMNS)} FROM wide"  # constants only


def main() -> None:
    path, key, questions, how = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4]

    def query() -> dict[str, float]:
        answer = cleave.query(path, QUESTION, key=key, progress=False)
        return dict(zip(answer.columns, map(float, answer.rows[0]), strict=True))

    if how == "query":
        for _ in range(questions):
            print(json.dumps(measured(query)))
        return
    with cleave.connect(path, key=key) as connection:
        cursor = connection.cursor()

        def ask() -> dict[str, float]:
            cursor.execute(QUESTION)
            (row,) = cursor.fetchall()
            return dict(zip(table.COLUMNS, map(float, row), strict=True))

        for _ in range(questions):
            print(json.dumps(measured(ask)))


if __name__ == "__main__":
    main()
