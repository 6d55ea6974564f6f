"""A PostgreSQL server for a while: the oracle of the gateway's protocol and of what its SQL means elsewhere."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb

from tests.functional.processes import met

DATABASE = "cleave"
USER = "owner"


def programs() -> Path | None:
    """Folder of the newest PostgreSQL server installed (Debian's place, or PATH); None without one."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if found:
        return found[-1].parent
    initdb = shutil.which("initdb")
    return Path(initdb).resolve().parent if initdb else None


def as_other() -> Mapping[str, Any]:
    """How `subprocess` runs a server as root: as the user `postgres` (PostgreSQL refuses root)."""
    if os.geteuid():
        return {}
    other = pwd.getpwnam("postgres")
    return {"user": other.pw_uid, "group": other.pw_gid, "extra_groups": []}


@contextmanager
def server(port: int) -> Iterator[Path]:
    """Run an empty cluster at 127.0.0.1:`port` that trusts everyone; give the folder of its socket."""
    place = programs()
    if place is None:
        raise FileNotFoundError("no PostgreSQL server is installed")
    other = as_other()
    with TemporaryDirectory(prefix="pg-", dir="/tmp") as name:
        folder = Path(name)
        if other:
            shutil.chown(folder, "postgres", "postgres")
        words: dict[str, Any] = {"cwd": folder, "stdout": subprocess.DEVNULL, **other}
        first = [
            place / "initdb",
            "-D",
            folder / "data",
            "-A",
            "trust",
            "-U",
            USER,
            "-N",
            "--encoding=UTF8",
            "--locale=C.UTF-8",
        ]
        subprocess.run(first, check=True, stderr=subprocess.DEVNULL, **words)
        settings = {"listen_addresses": "127.0.0.1", "port": port, "unix_socket_directories": folder, "fsync": "off"}
        settings |= {"timezone": "UTC", "log_timezone": "UTC", "log_min_messages": "fatal", "autovacuum": "off"}
        command = [place / "postgres", "-D", folder / "data", *(f"--{key}={value}" for key, value in settings.items())]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL, **words) as process:
            try:
                assert met(lambda: process.poll() is not None or is_ready(place, folder, port))
                assert process.poll() is None, "the PostgreSQL server did not start"
                psql(folder, port, f"CREATE DATABASE {DATABASE}", database="postgres")
                yield folder
            finally:
                process.send_signal(signal.SIGINT)  # a fast shutdown


def is_ready(place: Path, folder: Path, port: int) -> bool:
    return subprocess.run([place / "pg_isready", "-q", "-h", folder, "-p", str(port)], check=False).returncode == 0


def psql(folder: Path, port: int, sql: str, *more: str, database: str = DATABASE, given: str | None = None) -> str:
    """What psql prints for `sql`, unaligned; `given` is its standard input."""
    place = programs()
    assert place
    command = [
        place / "psql",
        "-XqAt",
        "-v",
        "ON_ERROR_STOP=1",
        "-h",
        folder,
        "-p",
        str(port),
        "-U",
        USER,
        "-d",
        database,
    ]
    done = subprocess.run([*command, *more, "-c", sql], input=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def load(
    folder: Path, port: int, truth: duckdb.DuckDBPyConnection, name: str, types: Mapping[str, str], key: str = ""
) -> None:
    """Create a table with the rows that it has in DuckDB."""
    columns = ", ".join(f'"{each}" {kind}' for each, kind in types.items())
    primary = f", PRIMARY KEY ({key})" if key else ""
    psql(folder, port, f"CREATE TABLE {name} ({columns}{primary})")
    with TemporaryDirectory() as temporary:
        path = Path(temporary, "rows.csv")
        truth.execute(f"COPY {name} TO '{path}' (FORMAT csv, HEADER false, NULL '', FORCE_QUOTE *)")
        psql(folder, port, f"\\copy {name} FROM STDIN (FORMAT csv)", given=path.read_text())
    psql(folder, port, f"VACUUM ANALYZE {name}")
