"""Clients of PostgreSQL, fetched from their registries and built in a folder: commands that print rows as JSON."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
DRIVER: Final = "org.postgresql:postgresql:42.7.7"
DRIVER_HASH: Final = "157963d60ae66d607e09466e8c0cdf8087e9cb20d0159899ffca96bca2528460"
COPY: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
ODBC: Final = "/usr/lib/x86_64-linux-gnu/odbc/psqlodbcw.so"
CLIENTS: Final = ("psql", "psycopg", "asyncpg", "alchemy", "pandas", "polars", "odbc", "jdbc", "node", "pgx")


@dataclass(frozen=True, slots=True)
class Clients:
    """`folder`: where they are built. `run` gives what a client printed."""

    folder: Path

    def run(self, name: str, port: int, password: str = "") -> str:
        return self.ran(*self.command(name), given=self.place(name, port, password))

    @staticmethod
    def place(name: str, port: int, password: str = "") -> dict[str, str]:
        """The environment of a client: where the server is."""
        at = {
            "PGHOST": "127.0.0.1",
            "PGPORT": str(port),
            "PGUSER": "owner",
            "PGPASSWORD": password,
            "PGDATABASE": "cleave",
        }
        at["PGSSLMODE"] = "disable" if name == "node" else "prefer"  # Node's has no way to prefer
        return at | {"ODBC_DRIVER": ODBC, "PGTZ": "UTC", "TZ": "UTC", "PSQLRC": "/dev/null"}

    def command(self, name: str) -> Sequence[object]:
        """The command of one client, built the first time."""
        if name == "psql":
            return ("psql", "-X", "-f", HERE / "meta.psql")
        if name == "jdbc":
            return ("java", "-cp", f"{self.java()}:{self.folder}", "Jdbc")
        if name == "node":
            return ("node", self.node() / "node.js")
        if name == "pgx":
            return (self.go(),)
        return (self.python(), HERE / "programs.py", name)

    def python(self) -> Path:
        place = self.folder / "python"
        if not place.exists():
            uv = Path(sys.executable).with_name("uv")
            self.ran(uv, "venv", "--quiet", "--python", sys.executable, place)
            self.ran(
                uv,
                "pip",
                "install",
                "--quiet",
                "--python",
                place / "bin" / "python",
                "--require-hashes",
                "-r",
                HERE / "python.txt",
            )
        return place / "bin" / "python"

    def node(self) -> Path:
        place = self.folder / "node"
        if not place.exists():
            place.mkdir()
            for each in (".npmrc", "package.json", "package-lock.json", "node.js"):
                shutil.copy(HERE / each, place)
            self.ran("npm", "ci", folder=place)
        return place

    def go(self) -> Path:
        self.ran("go", "build", "-mod=readonly", "-o", self.folder / "pgx", "pgx.go", folder=HERE)
        return self.folder / "pgx"

    def java(self) -> Path:
        self.ran("mvn", "-B", "-q", COPY, f"-Dartifact={DRIVER}", f"-DoutputDirectory={self.folder}")
        (driver,) = self.folder.glob("*.jar")
        assert hashlib.sha256(driver.read_bytes()).hexdigest() == DRIVER_HASH
        self.ran("javac", "-d", self.folder, HERE / "Jdbc.java")
        return driver

    def ran(self, *command: object, folder: Path | None = None, given: Mapping[str, str] | None = None) -> str:
        done = subprocess.run(
            [shutil.which(str(command[0])) or str(command[0]), *map(str, command[1:])],
            cwd=folder or self.folder,
            env=os.environ | {"XDG_CONFIG_HOME": str(self.folder)} | dict(given or {}),  # Go keeps counters there
            capture_output=True,
            text=True,
            check=False,
            timeout=900,
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
        return done.stdout
