"""`make bench-planner`: over generated questions, what the planner's rule takes beside every other way, all timed.

Every way of every question is asked of a session that has read nothing but the table's head, so as a command is; the
least of several turns counts. All answers are compared with DuckDB's. A choice is within 1.5 times of the best, or
within FLOOR seconds of it: below that a user sees no difference, and a second run of the same way is as far off.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.lab.generated import Table, World, questions, site_of
from cleave.sums.scan import ManyGroupsError

FLOOR = 0.010
TIMES = 1.5


@dataclass
class Asked:
    sql: str
    chosen: str
    seconds: dict[str, float] = field(default_factory=dict)  # by way, the least
    busy: dict[str, float] = field(default_factory=dict)  # of all processors
    read: dict[str, int] = field(default_factory=dict)  # bytes

    @property
    def ratio(self) -> float:
        """1 where the difference does not count."""
        taken, best = self.seconds[self.chosen], min(self.seconds.values())
        return taken / best if taken - best > FLOOR else 1.0


def asked(world: World, table: Table, sql: str, repeats: int) -> Asked:
    with world.session(table) as session:
        site, plans = site_of(session), {plan.name: plan for plan in session.ways(sql)}
        found = Asked(sql, session.plan(sql).name)
        for name, plan in plans.items():
            found.read[name] = plan.work(site).bytes
    for _ in range(repeats):
        for name, plan in list(plans.items()):
            with world.session(table) as session:
                session.open()
                session.describe(plan)  # reads the list of cells, as planning does
                started, before = time.perf_counter(), processor()
                try:
                    result = session.ask(plan).result
                except ManyGroupsError:  # known when the groups are: a way that is not chosen for this many
                    if name == found.chosen:
                        raise
                    del plans[name]
                    continue
                taken, busy = time.perf_counter() - started, processor() - before
            found.seconds[name] = min(taken, found.seconds.get(name, taken))
            found.busy[name] = min(busy, found.busy.get(name, busy))
            if world.wrong(sql, result.rows, result.bounds):
                raise SystemExit(f"{name} does not answer as DuckDB does: {sql}")
    return found


def processor() -> float:
    """Seconds of all threads so far, and of all processes that were waited for."""
    both = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in both)


def shown(found: list[Asked]) -> str:
    choices = [each for each in found if len(each.seconds) > 1]
    ratios = sorted(each.ratio for each in choices)
    taken = sum(each.seconds[each.chosen] for each in choices)
    best = sum(min(each.seconds.values()) for each in choices)
    lines = [
        "| questions | with a choice | within 1.5 times of the best | median | worst | all together beside the best |",
        "|---|---|---|---|---|---|",
        f"| {len(found)} | {len(choices)} | {sum(ratio <= TIMES for ratio in ratios)} "
        f"| {statistics.median(ratios):.2f} | {ratios[-1]:.2f} | {taken:.2f} s beside {best:.2f} s |",
        "",
        "| always | times as long as what is chosen, all questions together | its worst beside the best |",
        "|---|---|---|",
    ]
    for name in ("totals", "rows", "scan"):
        mine = [each for each in choices if any(way.startswith(name) for way in each.seconds)]
        if mine:
            always = [next(s for way, s in each.seconds.items() if way.startswith(name)) for each in mine]
            chosen = sum(each.seconds[each.chosen] for each in mine)
            worst = max(a / min(each.seconds.values()) for a, each in zip(always, mine, strict=True))
            lines.append(f"| {name}, where it answers ({len(mine)}) | {sum(always) / chosen:.2f} | {worst:.1f} |")
    lines += ["", "| worst choices | chosen | seconds of each way (bytes read) |", "|---|---|---|"]
    for each in sorted(choices, key=lambda each: -each.ratio)[:5]:
        ways = ", ".join(f"{name} {s:.3f} ({each.read[name]:,})" for name, s in each.seconds.items())
        lines.append(f"| `{each.sql}` | {each.chosen} | {ways} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=180.0, help="after which no further question is asked")
    parser.add_argument("--json", type=Path, help="where to write every way's seconds and bytes")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        program = str(Path(sys.executable).with_name("cleave"))
        subprocess.run(
            [program, "--quiet", "key", "new", "--no-passphrase", "--key", str(folder / "key.json")],
            check=True,
            capture_output=True,
        )
        world = World(folder, folder / "key.json", given.rows, stack)
        until, found = time.monotonic() + given.seconds, []
        for table, sql in questions(given.questions):
            found.append(asked(world, table, sql, given.repeats))
            if time.monotonic() > until:
                break
    cores, load = len(os.sched_getaffinity(0)), os.getloadavg()[0]
    print(f"{given.rows:,} rows; {cores} cores, {platform.machine()}, load {load:.1f}")
    print(f"differences below {FLOOR * 1000:.0f} ms do not count\n")
    print(shown(found))
    if given.json:
        told = [
            {
                "sql": each.sql,
                "chosen": each.chosen,
                "seconds": each.seconds,
                "busy": each.busy,
                "bytes": each.read,
            }
            for each in found
        ]
        given.json.write_text(json.dumps(told))


if __name__ == "__main__":
    main()
