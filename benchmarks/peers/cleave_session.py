"""Cleave over the peers' columns: CSV KEY, a process of its own.

One question in an open session: planned, encoded, encrypted, sent, added up, decrypted, checked, finished. The table is
read and the key opened by a question before it. Prints JSON: `seconds` from encoding to the
checked totals, as of other libraries, those of the `whole` question, and its `cpu`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from benchmarks.thesis.measured import usage
from cleave.ask.files import FileSource
from cleave.ask.options import Access
from cleave.ask.session import Session
from cleave.local.embedded import embedded_services, prepare_embedded
from cleave.table.lazy import of_files


def main() -> None:
    table, key = map(Path, sys.argv[1:3])
    prepare_embedded()  # as `cleave.connect` and the command do
    with Session(FileSource(of_files([table]), Access(key), embedded_services)) as session:
        session.ask(session.plan(f"SELECT SUM(e0) FROM {session.name}"))
        before = usage()
        answer = session.ask(session.plan(f"SELECT SUM(e0), SUM(e1), SUM(e2), SUM(e3) FROM {session.name}"))
        after = usage()
    sums = [float(value) for value in answer.result.rows[0]]
    seconds, cpu = (after[name] - before[name] for name in ("wall", "cpu_all"))
    encrypted = answer.timings["encode"] + answer.timings["ask"]  # to the checked totals
    print(json.dumps({"seconds": encrypted, "whole": seconds, "cpu": cpu, "up": answer.usage.bytes_sent, "sums": sums}))


if __name__ == "__main__":
    main()
