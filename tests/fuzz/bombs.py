"""The expressions of tests/vectors/plain-bombs.toml on the plain service: how each ends, and what is left of it.

`make bombs` tries them at the limit of 25 s, the suite at half a second. However an expression ends, the answer is a
clean one, it comes in time, no process is left, and the next question is answered as before.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cleave_services.plain import contained
from cleave_services.plain.app import app
from cleave_shared import limits, wire
from cleave_shared.requests import PlainRequest
from tests.functional.gateway import call
from tests.functional.processes import HANGS, descendants, met

BOMBS: list[dict[str, str]] = tomllib.loads(
    (Path(__file__).parents[1] / "vectors" / "plain-bombs.toml").read_text("utf-8")
)["bomb"]
# Seconds past the limit: the parent waits one more, then half a one for the kernel. `make bombs` holds it; the suite,
# on a machine of any speed, only sees that an expression ends.
TOLERANCE = 2.5
SCHEMA = "0" * 32


@dataclass(frozen=True)
class Ended:
    name: str
    status: int
    how: str
    seconds: float
    fault: str | None


@dataclass
class Outcome:
    ended: list[Ended] = field(default_factory=list)

    @property
    def faults(self) -> list[str]:
        return [f"{each.name}: {each.fault}" for each in self.ended if each.fault]

    def __str__(self) -> str:
        longest = max(self.ended, key=lambda each: each.seconds)
        ways = Counter(f"{each.status} {each.how}" for each in self.ended)
        told = f"bombs: {len(self.ended)} tried at a limit of {limits.PLAIN_SECONDS:g} s, "
        told += f"longest {longest.seconds:.2f} s ({longest.name}), {len(self.faults)} faults"
        return "\n".join([told, *(f"  {count:3} {way}" for way, count in ways.most_common()), *self.faults])


def ask(part: str, sql: str, table: bytes) -> Any:
    request = PlainRequest(objects=[table], rows=[3], **{part: sql if part == "where" else [sql]})
    return call(
        app, "POST", "/v1/plain/aggregate", content=wire.dump_json(request), headers={"content-type": wire.JSON_TYPE}
    )


def tried(bomb: dict[str, str], table: bytes, tolerance: float = HANGS) -> Ended:
    """`table` holds the ids 1, 2 and 3."""
    contained.prepare()
    lasting = set(descendants(os.getpid()))
    started = time.perf_counter()
    answer = ask(bomb["part"], bomb["sql"], table)
    seconds = time.perf_counter() - started
    how = "answered" if answer.status_code == 200 else str(answer.json().get("error"))
    how = how.removeprefix(f"{bomb['part']}: ").removeprefix(f"{bomb['part']}[0]: ")
    return Ended(
        bomb["name"], answer.status_code, how, seconds, _fault(bomb, answer, seconds, tolerance) or _left(lasting)
    )


def _fault(bomb: dict[str, str], answer: Any, seconds: float, tolerance: float) -> str | None:
    if answer.status_code not in (200, 413, 422):
        return f"{answer.status_code} {answer.text[:200]}"
    if answer.status_code != 200 and (
        answer.json().keys() != {"error", "hint", "code"} or bomb["sql"][:20] in answer.text
    ):
        return f"no clean error: {answer.text[:200]}"
    if seconds > limits.PLAIN_SECONDS + tolerance:
        return f"took {seconds:.1f} s"
    return None


def _left(lasting: set[int]) -> str | None:
    """`lasting` are the processes that were there before: the fork server. One new child waits for the next request."""
    return None if met(lambda: len(set(descendants(os.getpid())) - lasting) <= 1) else "a process is left"


def ids() -> bytes:
    """The table, written by a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ids.parquet"
        write = f"import duckdb; duckdb.sql('SELECT range + 1 AS id FROM range(3)').write_parquet({str(path)!r})"
        subprocess.run([sys.executable, "-c", write], check=True)
        return path.read_bytes()


def main() -> None:
    """python -m tests.fuzz.bombs: all of them, one after another; a quarter of an hour."""
    table, outcome = ids(), Outcome()
    for bomb in BOMBS:
        outcome.ended.append(tried(bomb, table, TOLERANCE))
        assert ask("keys", "id", table).json()["counts"] == [1, 1, 1], bomb["name"]
    print(outcome)  # noqa: T201 - the figures
    sys.exit(bool(outcome.faults))


if __name__ == "__main__":
    main()
