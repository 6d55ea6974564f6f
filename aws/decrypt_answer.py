"""Decrypt the function's answer to build/events/sensitive-moments.json with the key that `make events` made.

sam local invoke SensitiveFunction -e build/events/sensitive-moments.json | python -m aws.decrypt_answer
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from aws.events import TABLE, decrypt_totals
from aws.make_events import read_key


def main() -> None:
    key = read_key(Path("build", "events"))
    for ward, total in decrypt_totals(key, json.load(sys.stdin)).items():
        expected = sum(TABLE[ward])
        print(f"SUM(age) of ward {ward}: {total}")
        if total != expected:
            raise SystemExit(f"error: ward {ward} holds {expected}")


if __name__ == "__main__":
    main()
