"""A PostgreSQL of its own in a temporary folder, as Debian packages it, asked over a socket there."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

_SETTINGS = {
    "shared_buffers": "2GB",
    "work_mem": "256MB",
    "maintenance_work_mem": "256MB",
    "max_wal_size": "8GB",
    "max_parallel_workers_per_gather": str(len(os.sched_getaffinity(0))),
    "fsync": "off",
    "full_page_writes": "off",
    "listen_addresses": "",
}
_START_SECONDS = 60
_TIME = re.compile(r"Time: ([0-9.]+) ms")


def programs() -> Path | None:
    """Where initdb and postgres are."""
    found = shutil.which("initdb")
    places = [Path(found).parent] if found else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((place for place in places if (place / "postgres").exists()), None)


class Postgres:
    def __init__(self, place: Path, folder: Path) -> None:
        self._place = place
        self._folder = folder
        folder.mkdir()
        self._user: dict[str, Any] = {}
        if os.getuid() == 0:  # it refuses to run as root
            nobody = pwd.getpwnam("nobody")
            os.chown(folder, nobody.pw_uid, nobody.pw_gid)
            self._user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        data = folder / "data"
        self._run([place / "initdb", "-D", data, "-U", "bench", "-A", "trust", "--no-sync", "-E", "UTF8"])
        options = [part for name, value in _SETTINGS.items() for part in ("-c", f"{name}={value}")]
        self._server = subprocess.Popen(
            [place / "postgres", "-D", data, "-k", folder, *options],
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **self._user,
        )
        until = time.monotonic() + _START_SECONDS
        while self._psql("SELECT 1", check=False).returncode:
            if time.monotonic() > until or self._server.poll() is not None:
                raise SystemExit("PostgreSQL does not start")
            time.sleep(0.1)

    @classmethod
    def beside(cls, folder: Path, stack: ExitStack) -> Postgres | None:
        """A server below `folder` until the stack closes; None where PostgreSQL is not installed."""
        place = programs()
        if place is None:
            print("  PostgreSQL is not installed (Debian: postgresql): left out")
            return None
        return stack.enter_context(cls(place, folder / "pg"))

    def version(self) -> str:
        return self._psql("SHOW server_version").stdout.split()[0]

    def load(self, table: str, columns: str, csv: Path, more: Sequence[str] = ()) -> None:
        """`more`: statements once the rows are there, before they are analysed."""
        if self._user:
            os.chown(csv, self._user["user"], self._user["group"])
        self._psql(f"CREATE TABLE {table} ({columns})")
        self._psql(f"\\copy {table} FROM '{csv}' (FORMAT csv)")
        for statement in (*more, f"VACUUM ANALYZE {table}"):
            self._psql(statement)

    def seconds(self, sql: str) -> float:
        """Of one statement, as the server's own client times it."""
        found = _TIME.search(self._psql("\\timing on", sql).stdout)
        if found is None:
            raise SystemExit("psql told no time")
        return float(found[1]) / 1000

    def row(self, sql: str) -> list[str]:
        """The fields of a statement's one row, as text."""
        return self._psql(sql).stdout.strip().split("|")

    def __enter__(self) -> Postgres:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.terminate()
        self._server.wait()

    def _psql(self, *commands: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        statements = [part for command in commands for part in ("-c", command)]
        return self._run(
            ["psql", "-h", self._folder, "-U", "bench", "-d", "postgres", "-X", "-q", "-A", "-t", *statements],
            check=check,
        )

    def _run(self, command: list[Any], *, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(command, cwd=self._folder, capture_output=True, text=True, check=False, **self._user)
        if check and done.returncode:
            raise SystemExit(f"{Path(command[0]).name} failed: {done.stderr[-500:]}")
        return done
